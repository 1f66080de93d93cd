"""Whatever stands in a config: either sizes, or one line that names what is wrong; never a traceback, never slow."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmcli.errors import ModelError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.class_defaults import class_defaults, configs_inside
from llmcli.estimate.config import Config
from llmcli.estimate.dtypes import FLOATS
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.families.registry import MODULE_OF, MULTIMODAL
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import peak_bytes, steady_bytes
from llmcli.models.json_file import read_json_object

TYPES = sorted({*MODULE_OF, *MULTIMODAL})
ORDINARY = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}
LISTS = ("layer_types", "mlp_layer_types", "block_configs", "mlp_only_layers", "num_kv_heads", "cross_attention_layers")
FLAGS = ("tie_word_embeddings", "attention_bias", "use_sliding_window", "quantization_config", "rope_scaling")
NUMBERS = (
    "sliding_window",
    "head_dim",
    "num_experts",
    "num_local_experts",
    "kv_lora_rank",
    "n_layer",
    "n_routed_experts",
)
PARTS = ("text_config", "vision_config", "audio_config", "thinker_config", "per_layer_config")
KEYS = (*ORDINARY, *LISTS, *FLAGS, *NUMBERS, *PARTS, "model_type", "architectures", "torch_dtype")
ABSENT = object()
VALUES = st.one_of(
    st.just(ABSENT),
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, 1, 3, -1, 2**31, 2**40, 2**41, 10**400, 0.5, float("nan"), float("inf"), "", "7", "full_attention"]
    ),
    st.sampled_from(
        [[], [None], ["full_attention"], [1, 2], [[1]], {}, {"a": 1}, {"model_type": 7}, {"0": {"head_dim": 8}}]
    ),
)


def ordinary(model_type: str) -> dict[str, object]:
    """A config of this type that names its class's sizes, small ones where the class has the common keys."""
    values = {key: value for key, value in class_defaults(model_type).items() if key != "sub_configs"}
    values |= {key: value for key, value in ORDINARY.items() if key in values or not values}
    inside = {key: ordinary(part.model_type) for key, part in configs_inside(model_type).items()}
    return {"model_type": model_type} | values | inside


def changed(values: Mapping[str, object], key: str, value: object) -> dict[str, object]:
    return {name: one for name, one in values.items() if name != key} | ({} if value is ABSENT else {key: value})


def result(values: Mapping[str, object]) -> Architecture | ModelError:
    try:
        return from_config(Config("config.json", values))
    except ModelError as error:
        return error


def outcome(values: Mapping[str, object]) -> None:
    """Size the config; assert that what comes of it is sizes, or one line for a person."""
    facts = result(values)
    if isinstance(facts, ModelError):
        assert "\n" not in facts.message
        assert "config.json" in facts.message
        assert len(facts.message) < 400
        return
    assert facts.layers
    assert facts.params >= facts.active_params >= 0
    assert facts.params >= facts.linear_params >= 0
    assert facts.vision_params is None or facts.vision_params >= 0
    layers = TRANSFORMERS.storage(facts, FLOATS["bfloat16"], "bfloat16")
    assert 0 <= steady_bytes(layers, 100) <= peak_bytes(layers, 100)


@pytest.mark.parametrize("model_type", TYPES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_config_with_changed_keys(model_type, data):
    values = ordinary(model_type)
    inner = sorted(key for key, value in values.items() if isinstance(value, dict))
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from([None, *inner]))
        target = values if part is None else values.get(part)
        if not isinstance(target, dict):
            continue
        key = data.draw(st.sampled_from(sorted({*target, *KEYS})))
        after = changed(target, key, data.draw(VALUES))
        values = after if part is None else values | {part: after}
    outcome(values)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES.filter(lambda value: value is not ABSENT)))
def test_a_config_of_any_keys(values):
    outcome(values)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"model_type": }', "\x00", '"llama"'])
def test_a_file_that_is_no_object(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        read_json_object(path)
    assert "\n" not in caught.value.message
    assert "config.json" in caught.value.message


@pytest.mark.parametrize("model_type", TYPES)
def test_a_config_that_names_its_type_only(model_type):
    outcome({"model_type": model_type})


@pytest.mark.parametrize("key", ["text_config", "thinker_config"])
def test_a_config_nested_without_end(key):
    values: dict[str, object] = {"model_type": "llama"}
    for _ in range(5000):
        values = {"model_type": "any", key: values}
    outcome(values)


def test_numbers_that_json_cannot_hold():
    outcome(json.loads('{"model_type": "llama", "hidden_size": 1e400, "num_hidden_layers": -0}'))
