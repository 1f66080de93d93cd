"""The law of chunked prefill: any split of the prompt gives the same answer."""

import pytest
import torch
from tiny_models import engine_of, greedy, tiny_model

from llmcli.engine.cache import kv_bytes, new_cache
from llmcli.engine.decode.eager import EagerPath, forward
from llmcli.engine.generate import generate
from llmcli.inference import Finished, GenerateRequest, Piece
from llmcli.prefill_rules import CONTINUABLE

PROMPT = torch.arange(2, 39).unsqueeze(0)  # 37 ids: longer than every window of the tiny models
STEPS = 12


def logits_of(model, chunk):
    """Logits (STEPS, vocabulary) of the greedy continuation, and the ids."""
    rows, ids = [], []
    cache = new_cache(model.config)

    def sample(logits):
        rows.append(logits[0])
        return (int(logits.argmax()),)

    steps = generate(
        EagerPath(model, cache, sample),
        PROMPT,
        chunk=chunk,
        check=lambda _id: "length" if len(rows) == STEPS else None,
        clock=lambda: 0.0,
    )
    ids = [step.token_id for step in steps if hasattr(step, "token_id")]
    return torch.stack(rows), ids, kv_bytes(cache)


@pytest.mark.parametrize("model_type", sorted(CONTINUABLE))
def test_any_split_gives_the_same_logits_and_ids(model_type):
    model = tiny_model(model_type)
    whole, whole_ids, whole_bytes = logits_of(model, 37)
    top = whole.topk(2).values
    margins = top[:, 0] - top[:, 1]
    for chunk in (1, 5, 16, 36):
        split, split_ids, split_bytes = logits_of(model, chunk)
        clear = next((i for i, margin in enumerate(margins) if margin <= 1e-4), STEPS)
        assert clear > 0, "the tiny model decides nothing"
        assert split_ids[:clear] == whole_ids[:clear]
        scale = max(1.0, whole.abs().max().item())
        assert (split[:clear] - whole[:clear]).abs().max().item() <= 1e-5 * scale
        assert split_bytes == whole_bytes


def test_a_type_that_is_not_listed_prefills_in_one_piece():
    model = tiny_model("llama")
    model.config.model_type = "something_new"
    engine = engine_of(model)
    assert engine._loaded.chunk >= engine.info.context_limit


def test_only_the_last_position_gets_logits():
    model = tiny_model("llama")
    heads = []
    model.lm_head.register_forward_hook(lambda _m, inputs, _out: heads.append(inputs[0].shape[1]))
    forward(model, PROMPT, new_cache(model.config))
    assert heads == [1]


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "gemma3_text", "gpt2", "mixtral"])
def test_the_loop_answers_as_transformers_generate(model_type):
    model = tiny_model(model_type)
    want = model.generate(PROMPT, max_new_tokens=STEPS, do_sample=False, eos_token_id=None, pad_token_id=0)[0, 37:]
    request = GenerateRequest(tuple(PROMPT[0].tolist()), greedy(STEPS), ignore_eos=True)
    engine = engine_of(model, chunk=16)
    events = list(engine.generate(request, Never()))
    assert [event.token_id for event in events if isinstance(event, Piece)] == want.tolist()
    trace = events[-1].trace
    assert isinstance(events[-1], Finished)
    assert (trace.prompt, trace.evaluated, trace.generated, trace.steps) == (37, 37, STEPS, STEPS - 1)
    assert trace.finish_reason == "length"
    assert trace.kv_bytes > 0


class Never:
    def is_set(self):
        return False
