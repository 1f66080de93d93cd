"""Values that no config should have: a size or one line that names the key, never anything else."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tiny import TYPES, tiny

from llmcli.errors import ModelError
from llmcli.estimate.class_defaults import class_defaults
from llmcli.estimate.config import Config
from llmcli.estimate.dtypes import FLOATS
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import peak_bytes, steady_bytes

ODD = [None, -1, 0, 1, 2**39, 2**70, "x", "", [], ["x"], [1], {}, {"0": 1}, {"0": {}}, True, False, 1.5, float("nan")]
SELDOM = {"layer_types", "per_layer_config", "sliding_window", "num_kv_shared_layers", "num_layers_per_stack"}


@st.composite
def odd_configs(draw):
    model_type = draw(st.sampled_from(TYPES))
    values = tiny(model_type)
    key = draw(st.sampled_from(sorted({*values, *class_defaults(model_type), *SELDOM} - {"model_type"})))
    return values | {key: draw(st.sampled_from(ODD))}


def sized(values):
    """The architecture, or the one line that refuses it."""
    try:
        return from_config(Config("config.json", values))
    except ModelError as error:
        return error.message


@given(values=odd_configs())
@settings(max_examples=300, deadline=None)
def test_an_odd_value_is_sized_or_refused_in_one_line(values):
    model = sized(values)
    if isinstance(model, str):
        assert model.startswith("config.json")
        assert "\n" not in model
        return
    layers = TRANSFORMERS.storage(model, FLOATS["float16"], "float16")
    assert 0 <= steady_bytes(layers, 100) <= peak_bytes(layers, 100)
    assert 0 < model.active_params <= model.params


@pytest.mark.parametrize("model_type", TYPES)
def test_bytes_never_shrink_with_the_context(model_type):
    layers = TRANSFORMERS.storage(from_config(Config("config.json", tiny(model_type))), FLOATS["float16"], "float16")
    sizes = [steady_bytes(layers, tokens) for tokens in range(64)]
    assert sizes == sorted(sizes)
