"""The law of batches: a row of a batch answers as a request of its own."""

import threading
from dataclasses import dataclass

import pytest
import torch
from conversations import NEAR_TIE, After
from tiny_models import engine_of, greedy, tiny_model

from llmcli.engine.attention import grouped_attention
from llmcli.errors import UsageError
from llmcli.inference import GenerateRequest, Piece

LENGTH, TOKENS = 21, 8  # longer than the windows of the tiny models
ROWS = tuple(tuple(range(start, start + LENGTH)) for start in (2, 70, 150))
CONTINUED = [
    "llama",
    "cohere2",
    "deepseek_v3",
    "gemma3_text",
    "gemma4_text",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "mistral",
    "mixtral",
    "phi3",
    "qwen3_moe",
]
WHOLE = {
    "falcon_h1": {"head_dim": 8, "mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4},
    "lfm2": {"layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3},
    "mamba": {"state_size": 4},
}


@dataclass
class Answer:
    """Per row: the ids, and the logits (n, vocabulary) they were chosen from."""

    ids: list
    logits: list
    pieces: list
    trace: object


class Batches:
    """A model with one engine that reuses its cache, and another one for the same rows one by one."""

    def __init__(self, model, *, chunk=8):
        self.model = model
        self.together = engine_of(model, chunk=chunk)
        self.alone = engine_of(model)
        self.logits = []
        self._hook = model.register_forward_hook(lambda _m, _i, out: self.logits.append(out.logits[:, -1].clone()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._hook.remove()
        self.together.close()
        self.alone.close()

    def ask(self, rows, *, tokens=TOKENS, cancel=None, engine=None, reuse=False, **sampling):
        """All rows in one request."""
        self.logits.clear()
        request = GenerateRequest(
            rows[0], greedy(tokens, **sampling), ignore_eos=True, reuse_cache=reuse, beside=tuple(rows[1:])
        )
        events = list((engine or self.together).generate(request, cancel or threading.Event()))
        pieces = [event for event in events if isinstance(event, Piece)]
        ids = list(zip(*((piece.token_id, *piece.beside) for piece in pieces), strict=True))
        chosen = self.logits[len(self.logits) - len(pieces) :]
        by_row = list(torch.stack(chosen).unbind(1)) if chosen else []
        return Answer(ids, by_row, pieces, events[-1].trace)

    def both(self, rows, **more):
        """The rows in one request; asserts that each answers as it does alone on an empty cache."""
        answer = self.ask(rows, **more)
        assert answer.trace.error is None
        for row, ids, logits in zip(rows, answer.ids, answer.logits, strict=True):
            sampling = {name: value for name, value in more.items() if name not in {"cancel", "reuse"}}
            single = self.ask([row], engine=self.alone, **sampling)
            same(ids, logits, single)
        return answer


def same(ids, logits, single):
    for position, (got, want) in enumerate(zip(logits, single.logits[0], strict=False)):
        assert (got - want).abs().max().item() <= 1e-5 * max(1.0, want.abs().max().item())
        best, second = want.topk(2).values
        if best - second <= NEAR_TIE:
            return
        assert ids[position] == single.ids[0][position]


@pytest.mark.parametrize("model_type", CONTINUED)
def test_a_row_of_a_batch_answers_as_alone_also_when_the_cache_is_continued(model_type):
    with Batches(tiny_model(model_type)) as batches:
        first = batches.both(ROWS, reuse=True)
        assert first.trace.cached == 0
        longer = tuple((*row, *ids, *range(40, 51)) for row, ids in zip(ROWS, first.ids, strict=True))
        second = batches.both(longer, reuse=True)
        assert second.trace.cached == LENGTH + TOKENS - 1
        assert second.trace.evaluated == 12


@pytest.mark.parametrize("model_type", sorted(WHOLE))
def test_rows_of_a_model_that_reads_its_prompt_whole(model_type):
    with Batches(tiny_model(model_type, **WHOLE[model_type]), chunk=256) as batches:
        batches.both(ROWS)


def test_an_interrupted_batch_is_continued_from_where_it_was():
    with Batches(tiny_model("llama")) as batches:
        cut = batches.ask(ROWS, reuse=True, cancel=After(6))  # once before, three chunks, three tokens
        assert (cut.trace.finish_reason, len(cut.pieces)) == ("interrupted", 3)
        longer = tuple((*row, *ids, 30, 31) for row, ids in zip(ROWS, cut.ids, strict=True))
        assert batches.both(longer, reuse=True).trace.cached == LENGTH + 2


def test_a_cache_serves_only_the_rows_that_it_holds():
    """As many as they are, in their order, and as far as all of them agree."""
    with Batches(tiny_model("llama")) as batches:
        batches.both(ROWS, reuse=True)
        edited = (ROWS[0], (*ROWS[1][:10], *range(200, 211)), ROWS[2])
        part = batches.both(edited, reuse=True).trace
        assert (part.cached, part.cache_break_at, part.miss_reason) == (10, 10, "prefix_changed")
        assert batches.both(edited[::-1], reuse=True).trace.cached == 0
        assert batches.both(edited[:2], reuse=True).trace.cached == 0
        assert batches.both(edited[:1], reuse=True).trace.cached == 0
        assert batches.both(edited, reuse=True).trace.cached == 0


def test_a_repetition_penalty_looks_at_each_row_by_itself():
    rows = tuple(tuple([start, start + 1] * 6) for start in (5, 90))
    with Batches(tiny_model("llama")) as batches:
        batches.both(rows, repetition_penalty=1.7)


def test_counts_are_those_of_a_row_and_bytes_those_of_the_batch():
    with Batches(tiny_model("mistral")) as batches:
        one, three = batches.ask(ROWS[:1]).trace, batches.ask(ROWS).trace
    assert (one.batch, three.batch) == (1, 3)
    names = ("prompt", "cached", "evaluated", "generated", "steps", "finish_reason")
    assert [getattr(three, name) for name in names] == [getattr(one, name) for name in names]
    assert three.kv_bytes == 3 * one.kv_bytes


def test_the_first_row_ends_the_batch_and_no_other_one_does():
    model = tiny_model("llama")
    with Batches(model) as batches:
        ids = batches.ask(ROWS).ids
    ends = []
    for row in (0, 1):
        others = {i for at, answer in enumerate(ids) if at != row for i in answer}
        model.config.eos_token_id = next(i for i in ids[row] if i not in others)
        engine = engine_of(model)
        request = GenerateRequest(ROWS[0], greedy(TOKENS), beside=ROWS[1:])
        trace = list(engine.generate(request, threading.Event()))[-1].trace
        engine.close()
        ends.append((trace.finish_reason, trace.generated))
    assert ends[0][0] == "eos"
    assert ends[1] == ("length", TOKENS)


def test_rows_of_other_lengths_are_refused_before_anything_runs():
    with Batches(tiny_model("llama")) as batches:
        batches.ask(ROWS, reuse=True)
        with pytest.raises(UsageError, match="3 prompts of a batch have 4, 21 tokens") as caught:
            batches.ask((ROWS[0], ROWS[1][:4], ROWS[2]), reuse=True)
        assert "as many tokens each" in caught.value.hint
        assert batches.logits == []
        assert batches.ask(ROWS, reuse=True).trace.cached == LENGTH - 1  # the cache is as it was


@pytest.mark.parametrize("masked", [False, True])
def test_grouped_attention_keeps_the_rows_of_a_batch_apart(masked):
    torch.manual_seed(0)
    query, key, value = torch.randn(5, 8, 1, 16), torch.randn(5, 2, 23, 16), torch.randn(5, 2, 23, 16)
    mask = torch.rand(5, 1, 1, 23) > 0.3 if masked else None
    module = torch.nn.Module()
    module.num_key_value_groups = 4
    together, _ = grouped_attention(module, query, key, value, mask, scaling=0.3)
    for row in range(5):
        at = slice(row, row + 1)
        one, _ = grouped_attention(module, query[at], key[at], value[at], mask[at] if masked else None, scaling=0.3)
        assert torch.allclose(together[at], one, atol=1e-6)
