"""Quantized KV caches: lossy, said to be, filled in one piece, continued but never cut, and sized to the byte."""

import pytest
import torch
from conversations import Conversation
from tiny_models import engine_of, greedy, saved_model, tiny_config, tiny_model

from llmcli.engine.cache import kv_bytes
from llmcli.engine.kv import KvCache
from llmcli.engine.load import load
from llmcli.errors import UsageError
from llmcli.estimate.config import Config
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import shared_bytes, steady_bytes
from llmcli.inference import GenerateRequest, LoadRequest, Piece, PrefillProgress
from llmcli.kv_rules import kv_backend

FIRST = list(range(2, 13))
WIDE = {"hidden_size": 64, "head_dim": 32}  # 64 numbers per token: what int8 and int4 pack in groups
MORE = {"qwen3": {"head_dim": 32}, "deepseek_v3": {"kv_lora_rank": 64, "qk_rope_head_dim": 64}}


def installed(kv_dtype):
    try:
        return bool(kv_backend(kv_dtype))
    except UsageError:
        return False


FORMATS = [
    pytest.param(name, marks=pytest.mark.skipif(not installed(name), reason=f"nothing that packs {name} is installed"))
    for name in ("fp8", "int8", "int4")
]


def model_of(model_type="llama"):
    return tiny_model(model_type, **MORE.get(model_type, WIDE))


def talk_of(model, kv_dtype="fp8"):
    talk = Conversation(model)
    talk.reusing = engine_of(model, kv_dtype=kv_dtype)
    return talk


def replayed(model, kv_dtype, forwards, count):
    """Logits of the last `count` forwards, each of which gets the given ids, on one fresh cache."""
    cache = KvCache(kv_dtype).new(model.config)
    with torch.inference_mode():
        rows = [model(input_ids=torch.tensor([ids]), cache=cache, logits_to_keep=1).logits[0, -1] for ids in forwards]
    return torch.stack(rows[-count:]), kv_bytes(cache)


@pytest.mark.parametrize("kv_dtype", FORMATS)
@pytest.mark.parametrize("model_type", ["llama", "qwen3", "deepseek_v3"])
def test_a_continued_cache_answers_as_a_fresh_one_with_the_same_cuts(model_type, kv_dtype):
    model = model_of(model_type)
    with talk_of(model, kv_dtype) as talk:
        said, forwards = FIRST, []
        for turn in range(3):
            answer = talk.ask(said, tokens=6)
            assert answer.trace.error is None
            assert answer.trace.cached == (0 if turn == 0 else len(said) - 6)
            assert answer.progress[-1] == (answer.trace.evaluated, answer.trace.evaluated), "read in one piece"
            assert len(answer.progress) == 2
            forwards += [said[answer.trace.cached :], *([i] for i in answer.ids[:-1])]
            logits, size = replayed(model, kv_dtype, forwards, len(answer.ids))
            assert torch.equal(answer.logits, logits)
            assert answer.trace.kv_bytes == size
            said = [*said, *answer.ids, *range(40 + turn, 45 + turn)]


@pytest.mark.parametrize("kv_dtype", FORMATS)
def test_the_first_token_is_exact_and_the_rest_is_near(kv_dtype):
    model = model_of()
    with talk_of(model, kv_dtype) as talk:
        answer, exact = talk.ask(FIRST, tokens=2), talk.fresh(FIRST, tokens=2)
    assert torch.equal(answer.logits[0], exact.logits[0])
    assert answer.ids[0] == exact.ids[0]
    loss = (answer.logits[1] - exact.logits[1]).abs().max() / exact.logits[1].abs().max()
    assert 0 < loss < (0.5 if kv_dtype == "int4" else 0.1)


def test_a_prompt_that_does_not_continue_the_cache_is_evaluated_whole():
    model = model_of()
    with talk_of(model) as talk:
        for prompt, break_at in (([*FIRST[:8], 90], 8), (FIRST[:5], None)):
            first = talk.ask([200, *FIRST])
            held = [200, *FIRST, *first.ids[:-1]]
            assert talk.ask([*held, 50]).trace.cached == len(held)
            trace = talk.ask([200, *prompt]).trace
            assert (trace.cached, trace.evaluated, trace.cache_source) == (0, 1 + len(prompt), "none")
            assert (trace.cache_break_at, trace.miss_reason) == (break_at and 1 + break_at, "not_croppable")


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "deepseek_v3"])
@pytest.mark.parametrize("tokens", [1, 7])
def test_fp8_takes_what_the_estimate_says(model_type, tokens):
    model = model_of(model_type)
    engine = engine_of(model, kv_dtype="fp8")
    request = GenerateRequest(tuple(FIRST), greedy(tokens), ignore_eos=True)
    trace = list(engine.generate(request, Never()))[-1].trace
    facts = from_config(Config("tiny", model.config.to_dict()))
    layers = TRANSFORMERS.storage(facts, TRANSFORMERS.kv_format("fp8"), "float32")
    held = len(FIRST) + tokens - 1
    assert trace.kv_bytes == steady_bytes(layers, held) + shared_bytes(layers)
    engine.close()


def test_rows_of_a_batch_share_a_cache():
    engine = engine_of(model_of(), kv_dtype="fp8")
    request = GenerateRequest(tuple(FIRST), greedy(4), ignore_eos=True, beside=(tuple(range(60, 71)),))
    events = list(engine.generate(request, Never()))
    assert [len(event.beside) for event in events if isinstance(event, Piece)] == [1] * 4
    engine.close()


def test_what_is_in_force_is_told():
    info = engine_of(model_of(), kv_dtype="FP8_E4M3", prefill_chunk=4).info
    assert info.kv_dtype == "fp8"
    assert any("lossy" in notice for notice in info.notices)
    assert any("--prefill-chunk has no effect" in notice for notice in info.notices)
    plain = engine_of(model_of(), kv_dtype="fp32").info
    assert (plain.kv_dtype, plain.notices) == ("float32", ())


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_prefill_chunk_is_the_length_of_the_pieces(chunk):
    engine = engine_of(model_of(), prefill_chunk=chunk)
    events = list(engine.generate(GenerateRequest(tuple(FIRST), greedy(1)), Never()))
    done = [event.evaluated for event in events if isinstance(event, PrefillProgress)]
    assert done == [0, *range(chunk, len(FIRST), chunk), len(FIRST)]
    assert engine.info.notices == ()
    engine.close()


def test_prefill_chunk_on_a_type_that_reads_in_one_piece_has_no_effect_and_says_so():
    model = model_of()
    model.config.model_type = "something_new"
    engine = engine_of(model, prefill_chunk=4)
    events = list(engine.generate(GenerateRequest(tuple(FIRST), greedy(1)), Never()))
    assert [event.evaluated for event in events if isinstance(event, PrefillProgress)] == [0, len(FIRST)]
    assert any("something_new reads a prompt in one piece" in notice for notice in engine.info.notices)
    engine.close()


@pytest.mark.parametrize("model_type", ["mistral", "gemma3_text", "gpt_oss", "gemma4_text"])
def test_other_layers_than_full_attention_are_refused(model_type):
    with pytest.raises(UsageError, match="full-attention layers only"):
        KvCache("fp8").new(tiny_config(model_type))


@pytest.mark.parametrize(
    ("model_type", "more", "words"),
    [
        ("mistral", {"kv_dtype": "fp8"}, "full-attention layers only"),
        ("llama", {"kv_dtype": "bf16"}, "in float32, in which the model runs"),
        ("llama", {"kv_dtype": "fp8", "kv_offload": True}, "--kv-offload with --kv-dtype fp8"),
        ("llama", {"kv_dtype": "fp8", "speculate": "ngram"}, "does not go with --speculate"),
    ],
)
def test_what_cannot_be_is_refused_before_the_weights_are_read(model_type, more, words, tmp_path, monkeypatch):
    folder = saved_model(tmp_path, model_type)
    monkeypatch.setattr("llmcli.engine.load.load_model", None)
    with pytest.raises(UsageError, match=words):
        load(LoadRequest(folder, "tiny", "test", **more), lambda: 0.0)


def test_offloading_changes_nothing_where_there_is_one_memory():
    engine = engine_of(model_of(), kv_offload=True)
    assert not engine.info.kv_offload
    assert any("--kv-offload has no effect on cpu" in notice for notice in engine.info.notices)
    events = list(engine.generate(GenerateRequest(tuple(FIRST), greedy(3)), Never()))
    assert events[-1].trace.error is None
    engine.close()


class Never:
    def is_set(self):
        return False
