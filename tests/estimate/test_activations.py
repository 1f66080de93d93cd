"""What a forward takes, against the tensors that transformers' models really have alive on the meta device."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_memory import forward_peaks, fused
from oracle import build, facts_of
from sized import architecture, mixture
from tiny import tiny
from tiny_latent import tiny_latent

from llmcli.estimate.activations import Forward, activations_of
from llmcli.estimate.compute_buffers import llama_cpp_buffer, vllm_profile
from llmcli.estimate.dtypes import FLOATS, Format
from llmcli.estimate.facts import Attention, Latent
from llmcli.estimate.moments import default_chunk, moments_of
from llmcli.estimate.sources import find

BFLOAT16 = FLOATS["bfloat16"]
DENSE = ["llama", "qwen2", "qwen3", "granite", "olmo2", "starcoder2", "phi3", "glm4", "gpt_neox", "nemotron"]
SHAPES = {
    "one piece": (1, 1024, None),
    "three sequences": (3, 512, None),
    "chunks": (1, 4096, 512),
    "chunks of two sequences": (2, 2048, 512),
    "one token more than the chunks": (1, 4097, 512),
}
SIZES = {
    "hidden_size": 256,
    "head_dim": 32,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
}


def compared(values: dict[str, object], batch: int, prompt: int, chunk: int | None, monkeypatch) -> tuple[float, float]:
    """Estimated by measured: the peak of prefill, and that of a decode step."""
    sizes = activations_of(facts_of(values), 2, BFLOAT16)
    with fused(monkeypatch):
        *prefill, _first, step = forward_peaks(build(values), batch, prompt, chunk, steps=2)
    peak = sizes.peak(Forward(batch, min(prompt, chunk or prompt), prompt))
    return peak / max(prefill), sizes.step(batch, prompt + 2) / step


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("width", [128, 1024])
@pytest.mark.parametrize("model_type", DENSE)
def test_dense_decoders_are_estimated_within_a_fifth(model_type, width, shape, monkeypatch):
    prefill, step = compared(tiny(model_type, intermediate_size=width, **SIZES), *shape, monkeypatch)
    assert 0.9 < prefill < 1.2
    assert 0.9 < step < 1.1


@pytest.mark.parametrize("shape", [(1, 1024, None), (1, 4096, 512)])
def test_a_window_brings_a_mask_and_drops_rows(shape, monkeypatch):
    values = tiny("mistral", sliding_window=300, intermediate_size=512, **SIZES)
    prefill, step = compared(values, *shape, monkeypatch)
    assert 0.9 < prefill < 1.2
    assert 0.9 < step < 1.1


MIXTURE = {**SIZES, "num_experts_per_tok": 2, "num_local_experts": 8, "num_experts": 8, "pad_token_id": 0}
LATENT = {
    "head_dim": 16,
    "qk_rope_head_dim": 16,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "hidden_size": 128,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "max_position_embeddings": 8192,
}


@pytest.mark.parametrize("shape", [(1, 1024, None), (2, 2048, 512)])
@pytest.mark.parametrize("width", [64, 1024])
@pytest.mark.parametrize("model_type", ["mixtral", "qwen3_moe", "granitemoe", "gpt_oss", "llama4_text"])
def test_mixtures_are_estimated_by_the_experts_that_compute(model_type, width, shape, monkeypatch):
    widths = {"intermediate_size": width, "moe_intermediate_size": width, "intermediate_size_mlp": width}
    values = {"model_type": model_type, "num_hidden_layers": 2, "vocab_size": 128, **MIXTURE, **widths}
    prefill, step = compared(values, *shape, monkeypatch)
    assert 0.9 < prefill < 1.2
    assert 0.9 < step < 1.2


@pytest.mark.parametrize("shape", [(1, 1024, None), (2, 2048, 512)])
def test_latent_attention_is_estimated_by_what_it_expands(shape, monkeypatch):
    values = tiny_latent("deepseek_v3", **LATENT)
    prefill, step = compared(values, *shape, monkeypatch)
    assert 0.9 < prefill < 1.2
    assert 0.9 < step < 1.2


@pytest.mark.parametrize(("name", "per_token"), [("llama3.1-8b", 116.5), ("phi4", 180.5), ("command-r", 256.5)])
def test_a_prompt_of_a_real_model_takes_what_was_measured(name, per_token):
    sizes = activations_of(find(name, None).architecture, 2, BFLOAT16)
    assert sizes.peak(Forward(1, 8192, 8192)) / 8192 / 1024 == pytest.approx(per_token, rel=0.03)


def test_latent_attention_expands_the_rows_of_one_layer():
    latent = Latent(rank=64, rope_dim=16, heads=4, nope_dim=32, value_dim=32)
    sizes = activations_of(architecture(latent), 2, BFLOAT16)
    per_row = sizes.step(1, 100_001) - sizes.step(1, 100_000)
    assert per_row == 2 * (4 * (32 + 32 + 32 + 16) + 64)
    assert sizes.step(1, 100_000) > 100_000 * per_row * 0.99


def test_attention_without_a_fused_kernel_keeps_all_scores():
    usual = activations_of(architecture(), 2, BFLOAT16).peak(Forward(1, 4096, 4096))
    softcapped = activations_of(architecture(model_type="gemma2"), 2, BFLOAT16).peak(Forward(1, 4096, 4096))
    assert softcapped - usual > 4 * 4096 * 4096 * 10 * 0.9


def test_experts_that_a_token_uses_count_and_idle_ones_do_not():
    forward = Forward(1, 1000, 1000)

    def peak(number: int, used: int) -> int:
        return activations_of(mixture(number, used), 2, BFLOAT16).peak(forward)

    assert peak(8, 2) == peak(64, 2) < peak(64, 8)


@given(st.integers(1, 4096), st.integers(0, 4096), st.integers(1, 8), st.sampled_from([None, 1, 17, 5000]))
def test_more_tokens_never_take_less(tokens, before, batch, window):
    sizes = activations_of(architecture(Attention(2, 16, 16, window=window)), 2, BFLOAT16)
    peak = sizes.peak(Forward(batch, tokens, tokens + before))
    assert peak <= sizes.peak(Forward(batch, tokens, tokens + before + 1))
    assert peak <= sizes.peak(Forward(batch, tokens + 1, tokens + before + 1))
    assert peak <= sizes.peak(Forward(batch + 1, tokens, tokens + before))
    assert sizes.step(batch, tokens) <= sizes.step(batch, tokens + 1)


def test_a_quantized_cache_is_dequantized_layer_by_layer():
    model = architecture()
    plain = activations_of(model, 2, BFLOAT16).step(1, 100_000)
    assert activations_of(model, 2, Format("fp8", 1)).step(1, 100_000) == plain // 2 * 10


@pytest.mark.parametrize(
    ("engine", "model_type", "chunk"),
    [
        ("transformers", "llama", 2048),
        ("transformers", "mamba", None),
        ("llama.cpp", "llama", 512),
        ("vllm", "llama", 2048),
    ],
)
def test_prompts_are_read_in_the_pieces_of_the_engine(engine, model_type, chunk):
    model = architecture(model_type=model_type)
    assert default_chunk(model, engine) == chunk
    assert moments_of(model, engine, 100, BFLOAT16, "bfloat16").chunk == 100


def test_llama_cpp_reserves_logits_for_a_whole_ubatch():
    model = architecture(vocabulary=248_320)
    logits = 248_320 * 512 * 4
    assert logits <= llama_cpp_buffer(model, 1, 512) <= logits * 1.01
    moments = moments_of(model, "llama.cpp", None, BFLOAT16, "bfloat16")
    assert moments.prefill(8192, 1) == moments.prefill(8192, 4) == moments.decode(8192, 1)


def test_vllm_reserves_for_its_profile_whatever_the_batch():
    moments = moments_of(architecture(), "vllm", None, BFLOAT16, "bfloat16")
    assert moments.prefill(10, 1) == moments.prefill(8192, 64) == vllm_profile(architecture(), 2, 2048)
