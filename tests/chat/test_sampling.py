"""Flag > models.toml > generation_config.json > default."""

from llmcli.chat.sampling import resolve_sampling
from llmcli.inference import SamplingOptions
from llmcli.sampling_rules import RULES, broken_rule

NOTHING = SamplingOptions()


def test_the_nearest_source_wins_value_by_value():
    flags = SamplingOptions(temperature=0.0)
    entry = SamplingOptions(temperature=0.7, top_p=0.9)
    model = SamplingOptions(temperature=1.0, top_p=0.5, top_k=40)
    sampling = resolve_sampling(flags, entry, model)
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.0, 0.9, 40, 0.0)
    assert sampling.origins["temperature"] == "flag"
    assert sampling.origins["top_p"] == "models.toml"
    assert sampling.origins["top_k"] == "generation_config.json"
    assert sampling.origins["min_p"] == "default"


def test_greedy_is_the_default_and_needs_no_seed():
    sampling = resolve_sampling(NOTHING, NOTHING, NOTHING)
    assert sampling.greedy
    assert sampling.seed is None


def test_an_explicit_zero_is_a_value():
    sampling = resolve_sampling(SamplingOptions(top_k=0, seed=0), SamplingOptions(top_k=5, seed=9), NOTHING)
    assert (sampling.top_k, sampling.seed) == (0, 0)


def test_sampling_without_a_seed_gets_one_that_is_told():
    sampling = resolve_sampling(SamplingOptions(temperature=0.5), NOTHING, NOTHING)
    assert sampling.seed is not None
    assert sampling.origins["seed"] == "drawn"


def test_rules_refuse_what_is_out_of_range_and_what_is_no_number():
    assert set(RULES) == set(SamplingOptions.__dataclass_fields__)
    allowed = {"temperature": (0, 0.5, 2), "top_p": (1.0, 0.1), "top_k": (0, 40), "min_p": (0, 1)}
    refused = {"temperature": (-1, 1e-42), "top_p": (0, 1.1), "top_k": (-1,), "min_p": (-0.1, 1.1)}
    allowed |= {"repetition_penalty": (1.0, 0.1), "seed": (0,), "max_new_tokens": (1,)}
    refused |= {"repetition_penalty": (0, -1), "seed": (-1, 2**63, 10**400), "max_new_tokens": (0,)}
    for field in RULES:
        assert all(broken_rule(field, value) is None for value in allowed[field])
        assert all(broken_rule(field, value) for value in (*refused[field], float("nan"), float("inf")))
