"""Logits to ids: greedy, the warpers, seeds, and logits that are no numbers."""

import pytest
import torch
from tiny_models import greedy, tiny_model

from llmcli.engine.sample import Sampler
from llmcli.errors import LlmcliError

PROMPT = torch.tensor([[3, 4, 5]])


def draw(sampling, logits, count=200):
    sampler = Sampler(sampling, PROMPT)
    return [sampler(logits)[0] for _ in range(count)]


def test_temperature_zero_takes_the_most_likely_id():
    assert set(draw(greedy(), torch.tensor([[0.0, 3.0, 2.9]]))) == {1}


def test_greedy_ignores_a_seed_and_filters():
    assert set(draw(greedy(top_k=1, top_p=0.1, seed=5), torch.tensor([[0.0, 3.0, 2.9]]))) == {1}


def test_a_seed_repeats_the_draw_and_another_changes_it():
    logits = torch.zeros(1, 50)
    first, again, other = (draw(greedy(temperature=1.0, seed=seed), logits) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_filters_leave_only_what_they_should():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]]).log_softmax(-1) * 1.0
    assert set(draw(greedy(temperature=1.0, seed=1, top_k=2), logits)) == {2, 3}
    assert set(draw(greedy(temperature=1.0, seed=1, top_p=0.5), logits)) == {3}
    assert set(draw(greedy(temperature=1.0, seed=1, min_p=0.3), logits)) == {2, 3}
    assert set(draw(greedy(temperature=1, seed=1), logits)) == {0, 1, 2, 3}, "an int is a temperature too"


def test_repetition_penalty_sees_prompt_and_answer():
    sampler = Sampler(greedy(repetition_penalty=10.0), PROMPT)
    logits = torch.tensor([[0.0, 1.0, 1.1, 2.0, 2.0, 2.0, 1.2]])
    assert [sampler(logits)[0] for _ in range(3)] == [6, 2, 1]


def test_sampling_is_that_of_transformers_generate():
    model = tiny_model("llama")
    sampling = {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.2}
    torch.manual_seed(7)
    want = model.generate(
        PROMPT,
        do_sample=True,
        max_new_tokens=1,
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
        **sampling,
    ).scores[0]
    sampler = Sampler(greedy(seed=7, **sampling), PROMPT)
    seen = []
    sampler._choose = lambda scores, finite, random: seen.append(scores) or scores.argmax(-1)
    sampler(model(PROMPT).logits[:, -1])
    assert torch.equal(seen[0].isinf(), want.isinf())
    assert torch.allclose(seen[0], want, atol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_end_in_words(temperature, bad):
    with pytest.raises(LlmcliError, match="not finite"):
        draw(greedy(temperature=temperature, seed=1), torch.tensor([[0.0, bad, 1.0]]), 1)


def test_an_id_that_is_masked_out_is_no_fault():
    assert draw(greedy(), torch.tensor([[0.0, float("-inf"), 1.0]]), 1) == [2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_greedy_ids_on_a_cpu_are_those_that_stay_on_a_device(dtype):
    logits = torch.randn(5, 3000, generator=torch.Generator().manual_seed(3)).to(dtype)  # bfloat16 has ties among them
    sampler = Sampler(greedy(), PROMPT)
    assert list(sampler(logits)) == sampler.choose(logits).tolist() == logits.argmax(-1).tolist()
    logits[2, 7] = float("nan")
    assert sampler.choose(logits)[2] == -1
    with pytest.raises(LlmcliError, match="not finite"):
        sampler(logits)
