"""Sizes of quantized caches, against the layers that transformers fills."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
from oracle import build, facts_of
from sized import architecture, subject
from tiny import tiny
from transformers import QuantizedCache
from transformers.utils import is_hqq_available, is_optimum_quanto_available

from llmcli.errors import UsageError
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.facts import Attention
from llmcli.estimate.layers import Layers, fixed_bytes, peak_bytes, shared_bytes, steady_bytes
from llmcli.estimate.plan import estimate
from llmcli.estimate.request import SizeRequest

WIDE = {"hidden_size": 256, "head_dim": 64, "num_key_value_heads": 2, "num_attention_heads": 4}


def layers_in(kv_dtype: str, values: dict[str, object], dtype: str = "bfloat16") -> Layers:
    return TRANSFORMERS.storage(facts_of(values), TRANSFORMERS.kv_format(kv_dtype), dtype)


def tensors(value: object) -> Iterable[torch.Tensor]:
    """All tensors below a cache layer, those inside quanto's own tensor class included."""
    if isinstance(value, torch.Tensor):
        inner = [] if type(value) is torch.Tensor else value.__tensor_flatten__()[0]
        yield from (part for name in inner for part in tensors(getattr(value, name))) if inner else [value]
    elif isinstance(value, dict):
        yield from (part for item in value.values() for part in tensors(item))
    elif isinstance(value, (list, tuple)):
        yield from (part for item in value for part in tensors(item))


def measured(values: dict[str, object], backend: str, batch: int, prompt: int, steps: int, **options: int) -> int:
    device = "meta" if backend == "fp8" else "cpu"
    model = build(values, device)
    cache = QuantizedCache(backend, model.config, **options)
    ids = torch.zeros(batch, prompt, dtype=torch.long, device=device)
    with torch.no_grad():
        model(input_ids=ids, cache=cache, use_cache=True)
        for _ in range(steps):
            model(input_ids=ids[:, :1], cache=cache, use_cache=True)
    return sum(part.numel() * part.element_size() for layer in cache.layers for part in tensors(vars(layer)))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("prompt", "steps"), [(1, 0), (100, 0), (100, 3)])
@pytest.mark.parametrize("model_type", ["llama", "qwen3", "gpt2"])
def test_fp8_is_sized_to_the_byte(model_type, prompt, steps, batch):
    values = tiny(model_type)
    layers = layers_in("fp8", values)
    size = batch * steady_bytes(layers, prompt + steps) + shared_bytes(layers)
    assert size == measured(values, "fp8", batch, prompt, steps)
    assert fixed_bytes(layers) == shared_bytes(layers) == 3 * 8


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("steps", [127, 128, 130])
@pytest.mark.parametrize(("backend", "bits"), [("hqq", 8), ("hqq", 4), ("quanto", 4)])
def test_packed_groups_are_sized_as_their_backend_keeps_them(backend, bits, steps, batch):
    if not (is_hqq_available() if backend == "hqq" else is_optimum_quanto_available()):
        pytest.skip(f"{backend} is not installed")
    values = tiny("llama", **WIDE)
    layers = layers_in(f"int{bits}", values)
    waiting = steps % 128
    row, unquantized = layers[0].spec.row_bytes, layers[0].spec.tail_bytes
    size = measured(values, backend, batch, 40, steps, nbits=bits)
    assert size == batch * 3 * ((40 + steps - waiting) * row + waiting * unquantized)
    assert size <= batch * steady_bytes(layers, 40 + steps)
    if waiting == 127:
        assert size == batch * steady_bytes(layers, 40 + steps)


@pytest.mark.parametrize(
    ("name", "dtype", "row"), [("int8", "float16", 68), ("int4", "bfloat16", 36), ("int4", "float32", 40)]
)
def test_a_group_of_64_numbers_has_a_scale_and_a_zero(name, dtype, row):
    (group,) = layers_in(name, tiny("llama", **WIDE), dtype)
    assert group.spec.row_bytes == 2 * 2 * row
    held = group.count * (group.spec.row_bytes * 873 + 127 * 2 * 2 * 64 * (4 if dtype == "float32" else 2))
    assert steady_bytes((group,), 1000) == held
    assert peak_bytes((group,), 1000) == held


@pytest.mark.parametrize("kv_dtype", ["fp8", "int4"])
def test_a_quantized_cache_is_filled_in_one_piece_whatever_is_asked(kv_dtype):
    wide = subject(architecture(Attention(2, 64, 64)))
    request = SizeRequest((8000,), kv_dtype=kv_dtype)
    sized = estimate(wide, request)
    assert sized == estimate(wide, replace(request, prefill_chunk=128))
    assert any("in one piece, as llmcli fills a quantized cache" in text for text in sized.assumptions)
    plain = replace(request, kv_dtype=None)
    whole, pieces = (estimate(wide, replace(plain, prefill_chunk=chunk)).rows[0] for chunk in (8000, 128))
    assert sized.rows[0].activation_bytes >= whole.activation_bytes > pieces.activation_bytes


@pytest.mark.parametrize("name", ["int8", "int4"])
def test_a_token_that_fills_no_whole_group_cannot_be_packed(name):
    with pytest.raises(UsageError, match="groups of 64 numbers, and a token of this model has 48"):
        estimate(subject(architecture(Attention(1, 48, 48))), SizeRequest(kv_dtype=name))


def test_what_a_packed_cache_is_taken_for_is_said():
    assert TRANSFORMERS.kv_format("fp8").inexact == ()
    assert "127" in " ".join(TRANSFORMERS.kv_format("int4").inexact)


def test_a_model_with_windows_has_no_quantized_cache():
    with pytest.raises(UsageError, match="full-attention") as caught:
        layers_in("fp8", tiny("mistral", sliding_window=16))
    assert "bfloat16" in caught.value.hint
    with pytest.raises(ValueError, match="sliding_attention"):
        QuantizedCache("fp8", build(tiny("mistral", sliding_window=16)).config)


@pytest.mark.parametrize("text", ["q4_0", "fp4", "", "int2"])
def test_other_formats_are_refused_with_what_is_allowed(text):
    with pytest.raises(UsageError, match="transformers") as caught:
        TRANSFORMERS.kv_format(text)
    assert "int4" in caught.value.hint
