"""Every dense model type, against the model and the cache that transformers builds from its config."""

import pytest
from oracle import build, check_cache, check_parameters, facts_of
from tiny import FLAGS, tiny
from transformers import AutoConfig

from llmcli.estimate.class_defaults import class_defaults
from llmcli.estimate.families.dense import STYLES

VARIANTS = {
    "as it is": {},
    "tied": {"tie_word_embeddings": True},
    "all flags on": {"tie_word_embeddings": False} | dict.fromkeys(FLAGS, True),
    "all flags off": {"tie_word_embeddings": False} | dict.fromkeys(FLAGS, False),
    "as many KV heads as heads": {"num_key_value_heads": 4},
}
EACH_TYPE = pytest.mark.parametrize("model_type", sorted(STYLES))
EACH_VARIANT = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)


@EACH_VARIANT
@EACH_TYPE
def test_parameters_are_those_of_the_model(model_type, changes):
    check_parameters(tiny(model_type, **changes))


@EACH_TYPE
def test_kv_bytes_are_those_of_the_cache(model_type):
    check_cache(tiny(model_type), lengths=(1, 17, 100))


@pytest.mark.parametrize("model_type", ["mistral", "phi3", "starcoder2", "llama"])
def test_a_window_for_all_layers(model_type):
    check_cache(tiny(model_type, sliding_window=40), lengths=(20, 37, 38, 39, 40, 41, 90), batches=(1,))


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("model_type", ["qwen2", "qwen3"])
def test_windows_from_a_layer_on(model_type, first):
    values = tiny(model_type, use_sliding_window=True, sliding_window=16, max_window_layers=first)
    check_cache(values, lengths=(5, 14, 15, 16, 40), batches=(1,))


@EACH_TYPE
def test_a_config_that_names_only_its_type_is_sized_as_the_class_default(model_type):
    try:
        model = build({"model_type": model_type})
    except (TypeError, AssertionError):
        pytest.skip("transformers cannot build this class's default")
    facts = facts_of({"model_type": model_type})
    assert facts.params == sum(parameter.numel() for parameter in model.parameters())
    assert "does not say" in facts.warnings[0]


@EACH_TYPE
def test_defaults_are_those_of_the_config_class(model_type):
    config_class = type(AutoConfig.for_model(model_type))
    for key, value in class_defaults(model_type).items():
        assert getattr(config_class, key) == value, key
