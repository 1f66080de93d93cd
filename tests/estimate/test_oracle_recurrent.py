"""Every recurrent and hybrid model type, against the model and the cache that transformers builds from its config."""

from collections.abc import Iterable

import pytest
import torch
from oracle import build, check_cache, check_parameters, facts_of, storage_of
from tiny_recurrent import FLAGS, TYPES, tiny
from transformers import AutoConfig, DynamicCache, PreTrainedModel

from llmcli.engine.measure_cache import fill_cache, held_bytes, held_tensors
from llmcli.estimate.layers import peak_bytes, steady_bytes

INEXACT = ("qwen4_exp_text",)
OWN_CACHES = ("minimax", "recurrent_gemma", "rwkv", "xlstm")
VARIANTS = {
    "tied, all flags on": {"tie_word_embeddings": True} | dict.fromkeys(FLAGS, True),
    "all flags off": {"tie_word_embeddings": False} | dict.fromkeys(FLAGS, False),
}
EACH_TYPE = pytest.mark.parametrize("model_type", TYPES)
EACH_VARIANT = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
LENGTHS = (3, 9)


@EACH_VARIANT
@EACH_TYPE
def test_parameters_are_those_of_the_model(model_type, changes):
    check_parameters(tiny(model_type, **changes))


@pytest.mark.parametrize("model_type", [name for name in TYPES if name not in (*OWN_CACHES, *INEXACT)])
def test_kv_bytes_are_those_of_the_cache(model_type):
    check_cache(tiny(model_type), LENGTHS)


@EACH_TYPE
def test_a_config_that_transformers_saves_is_sized_as_the_one_it_was_made_from(model_type):
    values = tiny(model_type)
    saved, made = facts_of(AutoConfig.for_model(**values).to_dict()), facts_of(values)
    assert (saved.layers, saved.count) == (made.layers, made.count)


@pytest.mark.parametrize("model_type", ["mamba", "falcon_mamba"])
def test_the_channels_inside_that_a_file_gives_win_over_their_ratio(model_type):
    values = tiny(model_type, expand=16, intermediate_size=136)  # Falcon-Mamba's file has such a ratio
    check_parameters(values)
    check_cache(values, LENGTHS)


def test_zamba2_has_heads_as_wide_as_its_file_says():
    values = tiny("zamba2", attention_head_dim=40)
    check_parameters(values)
    check_cache(values, LENGTHS)


@pytest.mark.parametrize("length", LENGTHS)
def test_all_but_the_positions_of_an_indexer_is_counted(length):
    values = tiny("qwen4_exp_text")
    cache = fill_cache(build(values, "cpu"), 3, length, 2)
    positions = sum(layer.indexer_position_ids.nbytes for layer in cache.layers if hasattr(layer, "indexer_keys"))
    assert held_bytes(cache) - positions == 3 * steady_bytes(storage_of(values), length + 2)
    assert positions == 3 * 24 * (length + 2)
    assert "24 bytes" in facts_of(values).inexact[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("model_type", ["falcon_h1", "inkling_text", "qwen3_next", "zaya"])
def test_states_are_float32_only_where_transformers_keeps_them_so(model_type, dtype):
    values = tiny(model_type)
    model = build(values, "cpu", dtype)
    assert held_bytes(fill_cache(model, 1, 5, 1)) == steady_bytes(
        storage_of(values, str(dtype).removeprefix("torch.")), 6
    )


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("model_type", OWN_CACHES)
def test_kv_bytes_are_those_of_a_cache_of_its_own(model_type, length, batch):
    values = tiny(model_type)
    model, layers = build(values, device="cpu"), storage_of(values)
    steps = kept(model_type, model, torch.zeros(batch, length, dtype=torch.long))
    assert resident(next(steps)) == batch * peak_bytes(layers, length)
    assert sum(tensor.nbytes for tensor in next(steps)) == batch * steady_bytes(layers, length + 1)


def resident(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the memory behind the tensors, each piece once."""
    return sum({id(tensor.untyped_storage()): tensor.untyped_storage().nbytes() for tensor in tensors}.values())


def kept(model_type: str, model: PreTrainedModel, ids: torch.Tensor) -> Iterable[list[torch.Tensor]]:
    """What the model keeps after a prefill of `ids`, and after each decode step."""
    cache = DynamicCache(config=model.config) if model_type == "recurrent_gemma" else None
    name = "state" if model_type == "rwkv" else "cache"
    with torch.no_grad():
        while True:
            output = model(input_ids=ids, use_cache=True, **({name: cache} if cache is not None else {}))
            cache = getattr(output, name, cache)
            yield [*held_by(cache), *held_inside(model)]
            ids = ids[:, :1]


def held_by(cache: object) -> Iterable[torch.Tensor]:
    """The tensors of a cache of any class, or of a list of states."""
    if isinstance(cache, DynamicCache):
        yield from held_tensors(cache)
    yield from tensors_in([cache, *(getattr(cache, name, None) for name in ("linear_cache", "rnn_state"))])


def held_inside(model: PreTrainedModel) -> Iterable[torch.Tensor]:
    """The states that RecurrentGemma's modules keep."""
    for module in model.modules():
        yield from tensors_in([getattr(module, name, None) for name in ("conv1d_state", "recurrent_states")])


def tensors_in(value: object) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(part)
