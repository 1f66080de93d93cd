"""int4: torch's kernels against the weights that they stand for, and every model type that runs on them."""

import copy
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import engine_of, greedy, tiny_model
from torch import nn

from llmcli.engine import int4
from llmcli.engine.cache import new_cache
from llmcli.engine.checkpoint import load_model, read_config
from llmcli.engine.int4 import GROUP, Int4Linear, Int8Head, int4_modules, parameter_count, quantize_int4, quantized
from llmcli.engine.loaded import streamed_bytes, weight_bytes
from llmcli.engine.quantize import few_quantized_notice, quant_of
from llmcli.errors import ModelError
from llmcli.inference import GenerateRequest, Piece
from llmcli.prefill_rules import CONTINUABLE

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
DIVIDING = {"hidden_size": 64, "intermediate_size": 64}
CPU = {"": torch.device("cpu")}


class Holder(nn.Module):
    """A model of one layer, which is its output head or is not."""

    def __init__(self, layer, *, head=False):
        super().__init__()
        self.layer = layer
        self.head = head
        self.config = SimpleNamespace(get_text_config=lambda decoder: SimpleNamespace(tie_word_embeddings=False))

    def get_output_embeddings(self):
        return self.layer if self.head else None

    def num_parameters(self):
        return sum(parameter.numel() for parameter in self.parameters())


def linear(out, wide, dtype, *, bias=True, seed=0):
    torch.manual_seed(seed)
    return nn.Linear(wide, out, bias, dtype=dtype).requires_grad_(requires_grad=False)


def made(layer, *, unpacked=True, head=False):
    holder = Holder(layer, head=head)
    quantize_int4(holder, unpacked=unpacked)
    return holder.layer


def assert_near(layer, weight, x, got):
    """Within rounding of the exact product: eps of the dtype times Σ|x·w|, four times that where sums round as well."""
    wide = x.double().flatten(0, -2)
    bias = torch.zeros(1) if layer.bias is None else layer.bias.double()
    exact = (wide @ weight.double().T + bias).view(got.shape)
    scale = (wide.abs() @ weight.double().abs().T + bias.abs()).view(got.shape)
    allowed = torch.finfo(x.dtype).eps * (4 if x.dtype == torch.float32 else 1.5)
    assert got.dtype == x.dtype
    assert ((got.double() - exact).abs() <= allowed * scale).all()


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    out=st.integers(1, 14),
    wide=st.integers(1, 9),
    rows=st.integers(1, 40),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_packed_and_unpacked_weights_multiply_alike(dtype, out, wide, rows, bias, seed):
    layer = made(linear(out * 16, wide * GROUP, dtype, bias=bias, seed=seed))
    weight = layer.dense[0]
    x = torch.randn(rows, wide * GROUP, dtype=dtype)
    assert_near(layer, weight, x, layer(x))
    layer.dense = ()
    assert_near(layer, weight, x, layer(x))


@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    out=st.integers(1, 300),
    wide=st.integers(1, 6),
    rows=st.integers(1, 40),
    bias=st.booleans(),
)
def test_an_output_head_of_any_vocabulary_multiplies_what_its_numbers_stand_for(dtype, out, wide, rows, bias):
    layer = made(linear(out, wide * GROUP, dtype, bias=bias), head=True)
    assert isinstance(layer, Int8Head)
    weight = layer.packed.double() * layer.scale.double()[:, None]
    x = torch.randn(rows, wide * GROUP, dtype=dtype)
    assert_near(layer, weight, x, layer(x))


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_lie_apart_in_memory_are_multiplied_too(head, dtype):
    layer = made(linear(32, 64, dtype), head=head)
    x = torch.randn(2, 7, 64, dtype=dtype)
    for apart in (x[:, -1:], x.transpose(0, 1), x[..., ::2].repeat(1, 1, 2).transpose(0, 1)):
        assert torch.equal(layer(apart), layer(apart.contiguous()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_weight_is_at_most_half_a_step_from_what_it_was(dtype):
    before = linear(80, 96, dtype)
    groups = before.weight.float().view(80, -1, GROUP)
    step = (groups.amax(-1) - groups.amin(-1)) / 15
    layer = made(before)
    apart = (layer.dense[0].float() - before.weight.float()).view(80, -1, GROUP).abs().amax(-1)
    rounding = 2 * torch.finfo(dtype).eps * groups.abs().amax(-1)
    assert (apart <= step / 2 + 8 * torch.finfo(dtype).eps * step + rounding).all()
    head = made(before, head=True)
    apart = (head.packed * head.scale[:, None].float() - before.weight.float()).abs().amax(-1)
    assert (apart <= head.scale.float() * 0.5 + 128 * torch.finfo(dtype).eps * head.scale.float()).all()


@given(seed=st.integers(0, 2**16), spread=st.sampled_from([1e-3, 0.05, 3.0]), shift=st.sampled_from([0.0, 0.3, -2.0]))
@settings(max_examples=40, deadline=None)
def test_weights_that_ggml_packed_as_q4_1_fall_on_the_same_steps_again(seed, spread, shift):
    """Q4_1: 32 numbers of 4 bits, a float16 step d = (max - min) ÷ 15 and a float16 least value m; weight = d·q + m."""
    torch.manual_seed(seed)
    weight = (torch.randn(16, 3 * GROUP) * spread + shift).view(16, 3, GROUP)
    least, step = weight.amin(-1), (weight.amax(-1) - weight.amin(-1)) / 15
    numbers = ((weight - least[..., None]) / step[..., None] + 0.5).floor().clamp(0, 15)
    d, m = step.half().float(), least.half().float()
    unpacked = (numbers * d[..., None] + m[..., None]).view(16, -1)
    again, scale, zero = quantized(unpacked)
    assert torch.equal(again, numbers.view(16, -1))
    torch.testing.assert_close(scale, d, rtol=1e-3, atol=0)
    torch.testing.assert_close(zero - 8 * scale, m, rtol=1e-5, atol=1e-6 * spread)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0.0, 0.5, -3.0])
def test_equal_weights_stay_what_they_are(dtype, value):
    layer = linear(16, 64, dtype, bias=False)
    layer.weight.fill_(value)
    quantized_layer = made(layer)
    assert (quantized_layer.dense[0] == value).all()
    x = torch.ones(1, 64, dtype=dtype)
    assert quantized_layer(x).tolist() == [[64 * value] * 16]
    head = made(layer, head=True)
    assert_near(head, head.packed * head.scale[:, None], x, head(x))


@pytest.mark.parametrize(("out", "wide"), [(16, 32), (208, 96), (1024, 1056), (16, 33 * 1024)])
def test_blocks_of_rows_are_quantized_as_the_whole_is(out, wide, monkeypatch):
    layer = linear(out, wide, torch.bfloat16, bias=False)
    in_blocks = made(layer)
    monkeypatch.setattr(int4, "_ALONE", 1 << 30)
    monkeypatch.setattr(int4, "_TOGETHER", 1 << 30)
    numbers, scale, zero = quantized(layer.weight)
    packed = torch._convert_weight_to_int4pack_for_cpu(numbers.to(torch.int32), 1)
    assert torch.equal(in_blocks.packed, packed)
    assert torch.equal(in_blocks.scale_zero, torch.stack((scale, zero), -1).transpose(0, 1).bfloat16())
    assert torch.equal(in_blocks.dense[0], made(layer).dense[0])
    head = copy.deepcopy(layer)
    assert torch.equal(made(layer, head=True).packed, made(head, head=True).packed)


@pytest.mark.parametrize(("out", "wide", "head"), [(24, 64, False), (32, 48, False), (32, 48, True), (258, 31, True)])
def test_sizes_that_no_kernel_takes_stay_as_they_are(out, wide, head):
    layer = linear(out, wide, torch.bfloat16)
    assert made(layer, head=head) is layer


@pytest.mark.parametrize("model_type", sorted(CONTINUABLE))
def test_every_type_answers_on_int4_as_on_the_weights_that_it_stands_for(model_type, tmp_path):
    """As it is loaded from disk; the prompt is long enough to be multiplied with unpacked weights, a step is not."""
    saved = tiny_model(model_type, **({"n_embd": 64} if model_type == "gpt2" else DIVIDING))
    saved.save_pretrained(tmp_path)
    model = load_model(tmp_path, read_config(tmp_path), torch.float32, "int4", CPU)
    reached = list(int4_modules(model))
    assert any(isinstance(module, Int8Head) for module in reached)
    assert model_type in NO_PLAIN_LINEARS or any(isinstance(module, Int4Linear) for module in reached)
    assert parameter_count(model) == saved.num_parameters()
    for got, want in zip(logits_of(model), logits_of(standing_for(model, saved)), strict=True):
        assert (got - want).abs().max() <= 1e-5 * max(1.0, want.abs().max())
    engine = engine_of(model)
    try:
        events = list(engine.generate(GenerateRequest(tuple(range(2, 26)), greedy(4), ignore_eos=True), Never()))
    finally:
        engine.close()
    assert len([event for event in events if isinstance(event, Piece)]) == 4


NO_PLAIN_LINEARS = {"gpt2", "falcon"}
"""Their layers are classes of their own; only the output head is quantized."""


class Never:
    """A cancel that is not set."""

    def is_set(self):
        return False


@torch.inference_mode()
def logits_of(model):
    """Of a prompt of 24 tokens in two pieces, and of three steps after it."""
    ids, cache = torch.arange(2, 29).view(1, -1), new_cache(model.config)
    for part in (ids[:, :20], ids[:, 20:24], ids[:, 24:25], ids[:, 25:26], ids[:, 26:]):
        yield model(input_ids=part, cache=cache, use_cache=True, logits_to_keep=1).logits


def standing_for(model, plain):
    """`plain` with the weights that the numbers in `model` stand for."""
    for name, module in model.named_modules():
        if isinstance(module, Int4Linear):
            weight = module.dense[0]
        elif isinstance(module, Int8Head):
            weight = module.packed * module.scale[:, None]
        else:
            continue
        plain.get_submodule(name).weight = nn.Parameter(weight.clone(), requires_grad=False)
    return plain


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tied", [False, True])
def test_the_bytes_are_those_of_packed_weights_and_of_what_is_kept_beside_them(tied, dtype):
    model = tiny_model("llama", tie_word_embeddings=tied, **DIVIDING).to(dtype)
    params, size = model.num_parameters(), dtype.itemsize
    layers = [one.weight.numel() for one in model.model.layers.modules() if isinstance(one, nn.Linear)]
    norms = sum(one.numel() for one in model.parameters() if one.dim() == 1) * size
    vocabulary = 300 * 64
    quantize_int4(model, unpacked=True)
    packed = sum(layers) // 2 + sum(layers) // GROUP * 2 * size
    head = vocabulary + 300 * size
    assert streamed_bytes(model) == packed + head + norms
    assert weight_bytes(model) == packed + head + norms + vocabulary * size + sum(layers) * size
    assert parameter_count(model) == params
    assert quant_of(model) == "int4"
    assert few_quantized_notice(model, params) is None


@pytest.mark.parametrize("room", [0, 64 * 64 * 4, 1 << 40])
def test_unpacked_weights_are_kept_as_long_as_memory_lasts(room, monkeypatch):
    monkeypatch.setattr(int4.psutil, "virtual_memory", lambda: SimpleNamespace(available=(1 << 30) + room))
    model = tiny_model("llama", **DIVIDING)
    quantize_int4(model, unpacked=True)
    layers = [module for module in int4_modules(model) if isinstance(module, Int4Linear)]
    assert [bool(one.dense) for one in layers] == [one.out_features * one.in_features * 4 < room for one in layers]
    prompt = torch.arange(2, 42).view(1, -1)
    with_some = model(input_ids=prompt).logits
    for layer in layers:
        layer.dense = ()
    torch.testing.assert_close(model(input_ids=prompt).logits, with_some, rtol=1e-4, atol=1e-4)


def test_each_weight_is_let_go_of_once_it_is_packed(monkeypatch):
    monkeypatch.setattr(int4.torch, "get_num_threads", lambda: 1)
    model = tiny_model("llama", **DIVIDING)
    weights = [weakref.ref(module.weight) for module in model.model.modules() if isinstance(module, nn.Linear)]
    alive = []

    def counted():
        alive.append(sum(weight() is not None for weight in weights))
        return SimpleNamespace(available=1 << 40)

    monkeypatch.setattr(int4.psutil, "virtual_memory", counted)
    quantize_int4(model, unpacked=True)
    assert alive == list(range(len(weights), 0, -1))


def test_a_model_of_which_nothing_divides_is_refused(tmp_path):
    tiny_model("llama", hidden_size=48).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="--quant int4 would change nothing: 'llama' has no layers that it quantizes"):
        load_model(tmp_path, read_config(tmp_path), torch.float32, "int4", CPU)


def test_what_is_left_as_it_is_for_its_sizes_is_told():
    model = tiny_model("llama", hidden_size=64, intermediate_size=1000)
    params = model.num_parameters()
    quantize_int4(model, unpacked=False)
    assert "--quant int4 reaches 9 % of the weights: it takes linear layers" in few_quantized_notice(model, params)
    assert isinstance(model.model.layers[0].mlp.gate_proj, nn.Linear)


def test_unpacked_weights_make_room_for_the_cache_before_a_request(monkeypatch):
    model = tiny_model("llama", **DIVIDING)
    quantize_int4(model, unpacked=True)
    engine = engine_of(model)
    request = GenerateRequest(tuple(range(2, 42)), greedy(4), ignore_eos=True)
    layers = [module for module in int4_modules(model) if isinstance(module, Int4Linear)]
    before = [event.token_id for event in engine.generate(request, threading.Event()) if isinstance(event, Piece)]
    assert all(one.dense for one in layers)
    free = iter([0, 0, 1 << 30])
    monkeypatch.setattr(int4.psutil, "virtual_memory", lambda: SimpleNamespace(available=next(free, 1 << 30)))
    after = [event.token_id for event in engine.generate(request, threading.Event()) if isinstance(event, Piece)]
    assert [bool(one.dense) for one in layers[:3]] == [False, False, True]
    assert after == before


def test_a_type_that_asks_its_head_for_a_dtype_runs():
    model = tiny_model("mamba", hidden_size=64)
    quantize_int4(model, unpacked=False)
    assert any(isinstance(module, Int8Head) for module in model.modules())
    logits = model(input_ids=torch.arange(2, 9).view(1, -1)).logits
    assert logits.dtype == torch.float32
    assert torch.isfinite(logits).all()
