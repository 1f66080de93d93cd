"""The pages of vLLM: published sizes, and the rules that they follow."""

import dataclasses

import gguf_models as models
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcli.errors import ModelError, UsageError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.counts import NOTHING
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.engines.vllm import VLLM
from llmcli.estimate.facts import Attention, CrossAttention, Latent, Layer, Recurrence
from llmcli.estimate.gguf.from_gguf import from_gguf
from llmcli.estimate.layers import first_token_bytes, fixed_bytes, peak_bytes, steady_bytes
from llmcli.models.gguf import read_gguf

IN_FLIGHT = 4096


def model_of(model_type, *mixers):
    layers = tuple(Layer((mixer,) if not isinstance(mixer, tuple) else mixer) for mixer in mixers)
    return Architecture(model_type, layers, NOTHING, 1, 1, 64, 64, 64, 64, None, None)


def storage(model, kv="bf16", dtype="bfloat16"):
    return VLLM.storage(model, VLLM.kv_format(kv), dtype)


def full(kv_heads, width):
    return Attention(kv_heads, width, width)


def latent(index_dim=0):
    return Latent(512, 64, 128, 128, 128, index_dim)


def kinds(layers):
    return {group.spec.kind: group.count for group in layers}


def test_gpt_oss_120b_while_the_context_is_short():
    layers = storage(model_of("gpt_oss", *[Attention(8, 64, 64, window=128), full(8, 64)] * 18))
    assert first_token_bytes(layers) == 73_728


@given(st.integers(1, 100_000))
def test_full_attention_takes_whole_blocks(tokens):
    layers = storage(model_of("llama", *[full(8, 128)] * 2))
    blocks = -(-tokens // 16)
    assert steady_bytes(layers, tokens) == peak_bytes(layers, tokens) == 2 * blocks * 16 * 2 * 8 * 128 * 2


@given(st.integers(1, 20_000), st.sampled_from([1, 128, 4096]))
def test_a_window_takes_what_is_in_flight_as_well_and_one_block_more(tokens, window):
    layers = storage(model_of("mistral", *[Attention(8, 128, 128, window=window)] * 2))
    held = min(window - 1 + IN_FLIGHT, tokens)
    assert steady_bytes(layers, tokens) == 2 * (-(-held // 16) + 1) * 16 * 4096


def test_a_chunk_takes_no_block_more():
    chunked = Attention(8, 128, 128, window=8192, chunked=True)
    layers = storage(model_of("llama4_text", *[chunked, chunked, chunked, full(8, 128)]))
    assert steady_bytes(layers, 100_000) == (3 * (8192 + IN_FLIGHT) + 100_000) * 4096


def test_values_of_another_width_than_keys():
    assert first_token_bytes(storage(model_of("mimo_v2_flash", Attention(4, 192, 128)))) == 4 * (192 + 128) * 2


def test_groups_of_layers_are_filled_up():
    """52 layers with a window and 10 without: groups of 10, six of them with windows, 8 of their places empty."""
    layers = storage(model_of("gemma3", *[Attention(16, 128, 128, window=1024)] * 52, *[full(16, 128)] * 10))
    assert kinds(layers) == {"sliding_attention": 52, "padding": 8, "full_attention": 10}
    row, held = 2 * 16 * 128 * 2, 1023 + IN_FLIGHT
    assert steady_bytes(layers, 65536) == row * (60 * (-(-held // 16) + 1) * 16 + 10 * 65536)


def test_nearly_as_many_layers_of_each_kind_are_filled_up_to_the_more_frequent():
    layers = storage(model_of("gpt_oss", *[Attention(8, 64, 64, window=128)] * 12, *[full(8, 64)] * 13))
    assert kinds(layers) == {"sliding_attention": 12, "padding": 1, "full_attention": 13}


def test_smaller_rows_get_longer_blocks():
    small, large = Attention(8, 64, 64, window=128), full(8, 128)
    layers = storage(model_of("gemma4_text", small, large))
    blocks = {group.spec.kind: group.spec.granule for group in layers}
    assert blocks == {"sliding_attention": 32, "full_attention": 16}


def test_rows_that_do_not_divide_the_largest_are_padded():
    layers = storage(model_of("gemma4_text", Attention(3, 64, 64, window=128), full(4, 128)))
    assert {group.spec.row_bytes for group in layers} == {2 * 4 * 128 * 2}


def test_layers_that_all_hold_all_tokens_keep_rows_of_their_own():
    layers = storage(model_of("llama", full(3, 64), full(4, 128)))
    assert sorted(group.spec.row_bytes for group in layers) == [768, 2048]


@pytest.mark.parametrize(
    ("kv", "size"), [("bf16", 1152), ("fp16", 1152), ("fp8", 576), ("fp8_e4m3", 576), ("fp8_ds_mla", 656)]
)
def test_latent_rows(kv, size):
    assert first_token_bytes(storage(model_of("deepseek_v3", *[latent()] * 61), kv)) == 61 * size


def test_an_indexer_keeps_keys_of_8_bits_with_a_scale_in_blocks_of_64():
    layers = storage(model_of("deepseek_v32", *[latent(128)] * 61), "fp8_ds_mla")
    assert first_token_bytes(layers) == 61 * (656 + 132)
    assert steady_bytes(layers, 1) == 64 * first_token_bytes(layers)


def test_the_packed_format_is_for_latent_attention_only():
    with pytest.raises(UsageError, match="fp8_ds_mla is for DeepSeek's latent attention, which llama has not"):
        storage(model_of("llama", full(8, 128)), "fp8_ds_mla")


def test_qwen35_9b_has_the_blocks_that_vllm_logs(tmp_path):
    """Published: 528 tokens per block, and pages of states padded by 0.76 %."""
    model = from_gguf(read_gguf(models.qwen35_9b().write(tmp_path / "m.gguf")))
    layers = storage(model)
    attention = next(group.spec for group in layers if group.spec.kind == "full_attention")
    page = next(group.spec for group in layers if group.spec.kind == "linear_attention").state_bytes // 2
    assert attention.granule == 528
    assert page == 528 * attention.row_bytes
    assert round(100 * (page - 51_511_296 // 24) / (51_511_296 // 24), 2) == 0.76


def test_nemotron_nano_9b_v2_had_blocks_of_672_with_states_of_16_bits():
    state = Recurrence(10240 + 2 * 8 * 128, 4, 10240 * 128)
    layers = storage(model_of("bamba", state, full(8, 128)))
    assert next(group.spec for group in layers if group.spec.row_bytes).granule == 672


def test_states_alone_are_not_padded():
    layers = storage(model_of("mamba", *[Recurrence(5120, 4, 5120 * 16)] * 64))
    assert fixed_bytes(layers) == steady_bytes(layers, 9000) == 64 * 2 * (5120 * 3 + 5120 * 16)


def test_cross_attention_takes_whole_blocks_of_what_is_encoded():
    layers = storage(model_of("mllama", full(8, 128), CrossAttention(8, 128, 1601)))
    assert fixed_bytes(layers) == 1616 * 2 * 8 * 128 * 2


def test_parts_that_are_not_exact_are_named():
    assert VLLM.inexact(model_of("llama", full(8, 128))) == ()
    assert VLLM.inexact(model_of("mamba", Recurrence(8, 4, 8))) == ()
    assert "prefix caching" in VLLM.inexact(model_of("jamba", full(8, 128), Recurrence(8, 4, 8)))[0]
    assert "cross-attention" in VLLM.inexact(model_of("mllama", full(8, 128), CrossAttention(8, 128, 9)))[0]
    assert "minicpm3" in VLLM.inexact(model_of("minicpm3", latent()))[0]


def test_settings_are_named_where_sizes_depend_on_them():
    assert "--max-num-batched-tokens 2048" in VLLM.assumptions(model_of("x", Attention(1, 64, 64, window=9)))[0]
    assert "--max-num-batched-tokens" not in VLLM.assumptions(model_of("llama", full(1, 64)))[0]


@pytest.mark.parametrize("text", ["q8_0", "int4", "nvfp4"])
def test_other_formats_are_refused_with_those_that_exist(text):
    with pytest.raises(UsageError) as caught:
        VLLM.kv_format(text)
    assert "fp8_ds_mla" in caught.value.hint


def test_rows_that_are_not_known_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Strange:
        window = None

    with pytest.raises(ModelError, match="strange rows"):
        storage(model_of("strange", Strange()))


def test_layers_without_a_cache_are_listed():
    assert kinds(storage(model_of("nemotron_h", full(8, 128), ()))) == {"full_attention": 1, "none": 1}


def test_the_engine_says_its_version_and_keeps_the_models_dtype():
    assert ENGINES["vllm"].version == "0.33.0"
    assert VLLM.default_kv("bfloat16") == "bfloat16"
