"""The caches of llama.cpp: published sizes, through files that these tests write, and the laws that they follow."""

import csv
import dataclasses

import gguf_models as models
import pytest
from gguf_writer import bare
from hypothesis import given
from hypothesis import strategies as st

from llmcli.errors import ModelError, UsageError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.counts import NOTHING
from llmcli.estimate.engines.llama_cpp import LLAMA_CPP
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.facts import Attention, CrossAttention, Latent, Layer, Recurrence
from llmcli.estimate.gguf.from_gguf import from_gguf
from llmcli.estimate.layers import fixed_bytes, peak_bytes, steady_bytes
from llmcli.models.gguf import read_gguf

MIB = 2**20


def facts(tmp_path, file):
    return from_gguf(read_gguf(file.write(tmp_path / "m.gguf")))


def storage(model, kv="f16"):
    return LLAMA_CPP.storage(model, LLAMA_CPP.kv_format(kv), "bfloat16")


def mib(tmp_path, file, context, kv="f16"):
    return steady_bytes(storage(facts(tmp_path, file), kv), context) / MIB


def model_of(model_type, *mixers, **more):
    layers = tuple(Layer((mixer,) if not isinstance(mixer, tuple) else mixer) for mixer in mixers)
    return Architecture(model_type, layers, NOTHING, 1, 1, 64, 64, 64, 64, None, None, **more)


@pytest.mark.parametrize(
    ("slots", "context", "size"),
    [
        (1, 4096, 27),
        (2, 4096, 42),
        (4, 4096, 72),
        (8, 4096, 72),
        (1, 8192, 39),
        (2, 8192, 54),
        (3, 1024, 27),
        (4, 1024, 18),
    ],
)
def test_gemma3_270m_with_slots(tmp_path, slots, context, size):
    assert slots * mib(tmp_path, models.gemma3_270m(), context // slots) == size


def test_gemma3_4b_at_its_longest_context(tmp_path):
    assert mib(tmp_path, models.gemma3_4b(), 131072) == 2560 + 174


def test_qwen36_27b_with_four_slots(tmp_path):
    layers = storage(facts(tmp_path, models.qwen36_27b()))
    assert (steady_bytes(layers, 262144) - fixed_bytes(layers)) / MIB == 16384
    assert 4 * fixed_bytes(layers) / MIB == 598.5


def test_deepseek_r1_in_q8_0(tmp_path):
    assert round(mib(tmp_path, models.deepseek_r1(), 32768, "q8_0"), 2) == 1166.62


def test_lfm2_keys_and_values(tmp_path):
    layers = storage(facts(tmp_path, models.lfm2()))
    assert (steady_bytes(layers, 32768) - fixed_bytes(layers)) / MIB == 384


def test_36_layers_in_q4_0(tmp_path):
    assert mib(tmp_path, models.dense_36(), 262144, "q4_0") == 10368


def states_with_16_bit_columns(model):
    """Fixed bytes as they are published: one column less than the kernel is wide, in 16 bits; states in 32."""
    held = [mixer for layer in model.layers for mixer in layer.mixers if isinstance(mixer, Recurrence)]
    return sum(2 * mixer.conv_channels * (mixer.conv_width - 1) + 4 * mixer.state for mixer in held)


def windows_in_f16(model):
    """Bytes of the tokens in the windows, without room for a step."""
    held = [mixer for layer in model.layers for mixer in layer.mixers if getattr(mixer, "window", None)]
    return sum(2 * mixer.window * mixer.kv_heads * (mixer.key_dim + mixer.value_dim) for mixer in held)


@pytest.mark.parametrize(
    ("file", "per_token", "fixed"),
    [
        (models.qwen35_9b, 32_768, 51_511_296),
        (models.jamba, 16_384, 16_056_320),
        (models.lfm2, 12_288, 81_920),
        (models.gemma3_27b, 81_920, 436_207_616),
        (models.gpt_oss_20b, 24_576, 3_145_728),
    ],
)
def test_facts_that_others_publish(tmp_path, file, per_token, fixed):
    model = facts(tmp_path, file())
    layers = storage(model)
    assert (steady_bytes(layers, 65536) - steady_bytes(layers, 32768)) / 32768 == per_token
    assert states_with_16_bit_columns(model) + windows_in_f16(model) == fixed


def full(kv_heads, width):
    return Attention(kv_heads, width, width)


def window(tokens, kv_heads, width, **more):
    return Attention(kv_heads, width, width, window=tokens, **more)


def delta(keys, values):
    return Recurrence((2 * keys + values) * 128, 4, values * 128 * 128)


def mamba2(inner, groups, state):
    return Recurrence(inner + 2 * groups * state, 4, inner * state)


def dsa(layers, indexed, nope, value, heads):
    return [Latent(512, 64, heads, nope, value, 128 if index in indexed else 0) for index in range(layers)]


KNOWN = {
    "google/gemma-3-12b-it": ("gemma3", [window(1024, 8, 256)] * 40 + [full(8, 256)] * 8),
    "google/gemma-3-27b-it": ("gemma3", [window(1024, 16, 128)] * 52 + [full(16, 128)] * 10),
    "google/gemma-2-2b": ("gemma2", [window(4096, 4, 256), full(4, 256)] * 13),
    "google/gemma-4-26B-A4B": ("gemma4", [window(1024, 8, 256)] * 25 + [full(2, 512)] * 5),
    "nvidia/Gemma-4-31B-IT-NVFP4": ("gemma4_text", [window(1024, 16, 256)] * 50 + [full(4, 512)] * 10),
    "openai/gpt-oss-120b": ("gpt_oss", [window(128, 8, 64), full(8, 64)] * 18),
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": (
        "llama4",
        [window(8192, 8, 128, chunked=True)] * 36 + [full(8, 128)] * 12,
    ),
    "XiaomiMiMo/MiMo-V2-Flash": (
        "mimo_v2_flash",
        [Attention(8, 192, 128, window=129)] * 39 + [Attention(4, 192, 128)] * 9,
    ),
    "mistralai/Mistral-7B-v0.1": ("mistral", [window(4096, 8, 128)] * 32),
    "microsoft/Phi-3-mini-4k-instruct": ("phi3", [window(2047, 32, 96)] * 32),
    "tiiuae/falcon-40b": ("falcon", [Attention(8, 64, 64, cached_heads=128)] * 60),
    "tiiuae/falcon-7b": ("falcon", [full(1, 64)] * 32),
    "LiquidAI/LFM2-1.2B.TRIMMED": ("lfm2", [Recurrence(2048, 3, kind="conv")] * 10 + [full(8, 64)] * 6),
    "Qwen/Qwen3-Next-80B-A3B-Thinking": ("qwen3_next", [delta(16, 32)] * 36 + [full(2, 256)] * 12),
    "Qwen/Qwen3.5-397B-A17B": ("qwen3_5_moe", [delta(16, 64)] * 45 + [full(2, 256)] * 15),
    "state-spaces/mamba-2.8b-hf": ("mamba", [Recurrence(5120, 4, 5120 * 16)] * 64),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": (
        "nemotron_h",
        [mamba2(4096, 8, 128)] * 23 + [()] * 23 + [full(2, 128)] * 6,
    ),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": (
        "nemotron_h",
        [mamba2(8192, 8, 128)] * 40 + [()] * 40 + [full(2, 128)] * 8,
    ),
    "nvidia/Nemotron-H-56B-Base-8K": ("nemotron_h", [mamba2(16384, 8, 256)] * 54 + [()] * 54 + [full(8, 128)] * 10),
    "deepseek-ai/DeepSeek-V2": ("deepseek_v2", dsa(60, (), 128, 128, 128)),
    "deepseek-ai/DeepSeek-V3.2": ("deepseek_v32", dsa(61, range(61), 128, 128, 128)),
    "moonshotai/Kimi-K2.5": ("kimi_k2", dsa(61, (), 128, 128, 64)),
    "zai-org/GLM-5": ("glm_moe_dsa", dsa(78, range(78), 192, 256, 64)),
    "zai-org/GLM-5.2": ("glm_moe_dsa", dsa(78, {0, 1, *range(2, 78, 4)}, 192, 256, 64)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_sizes_from_facts(name, shared_data):
    with (shared_data / "kv_models.csv").open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["name"] == name)
    model_type, mixers = KNOWN[name]
    layers = storage(model_of(model_type, *mixers))
    for context in (4096, 32768):
        assert steady_bytes(layers, context) == int(float(row[f"llamacpp_f16_bytes_{context}"])), context


@given(st.integers(1, 40_000), st.sampled_from([None, 1, 128, 1000, 4096]))
def test_all_of_it_is_reserved_at_the_start_in_whole_cells(tokens, window):
    layers = storage(model_of("gemma3", Attention(2, 64, 64, window=window)))
    row = 2 * 2 * 128
    size = steady_bytes(layers, tokens)
    assert size == peak_bytes(layers, tokens)
    assert size % (256 * row) == 0
    needed = tokens if window is None else min(tokens, window + 512)
    assert needed * row <= size < (needed + 256) * row
    assert size <= steady_bytes(layers, tokens + 1)


@given(st.integers(1, 12), st.integers(1, 9_000))
def test_a_context_shared_by_slots_rounds_as_one_of_each(slots, context):
    """llama.cpp rounds the whole context up, divides it by the slots and rounds each part up."""
    whole = -(-slots * context // 256) * 256
    cells = -(-(whole // slots) // 256) * 256
    assert steady_bytes(storage(model_of("llama", full(1, 64))), context) == cells * 2 * 2 * 64


def test_states_are_float32_and_one_column_shorter():
    layers = storage(model_of("mamba", Recurrence(8, 4, 100, shift=3)), "q4_0")
    assert fixed_bytes(layers) == 4 * (8 * 3 + 100 + 3)


def test_latent_attention_is_expanded_where_llama_cpp_expands_it():
    mixer = Latent(256, 32, heads=40, nope_dim=64, value_dim=64)
    assert steady_bytes(storage(model_of("minicpm3", mixer)), 256) == 256 * 2 * 40 * (96 + 64)


@pytest.mark.parametrize(
    ("text", "name", "row"),
    [
        ("auto", "f16", 128),
        ("fp16", "f16", 128),
        ("torch.float16", "f16", 128),
        ("BF16", "bf16", 128),
        ("float32", "f32", 256),
        ("q8_0", "q8_0", 68),
        ("Q5_1", "q5_1", 48),
        ("q5_0", "q5_0", 44),
        ("q4_1", "q4_1", 40),
        ("q4_0", "q4_0", 36),
        ("iq4_nl", "iq4_nl", 36),
    ],
)
def test_formats(text, name, row):
    kv = LLAMA_CPP.kv_format(text)
    assert kv.name == name
    assert kv.size(64) == row


def test_the_cache_is_f16_unless_asked_otherwise():
    assert LLAMA_CPP.kv_format(LLAMA_CPP.default_kv("bfloat16")).name == "f16"


@pytest.mark.parametrize("text", ["fp8", "int8", "q6_k", "", "nf4"])
def test_other_formats_are_refused_with_those_that_exist(text):
    with pytest.raises(UsageError) as caught:
        LLAMA_CPP.kv_format(text)
    assert repr(text) in caught.value.message
    assert "q8_0" in caught.value.hint


def test_blocks_that_do_not_divide_a_head_are_refused():
    model = model_of("phi2", full(32, 80))
    assert steady_bytes(storage(model, "f16"), 256) == 256 * 2 * 2 * 32 * 80
    with pytest.raises(UsageError, match=r"q8_0 has blocks of 32 numbers.* 80 wide"):
        storage(model, "q8_0")


def test_a_model_that_llama_cpp_does_not_have_is_no_exact_answer():
    assert LLAMA_CPP.inexact(model_of("llama", full(1, 64))) == ()
    assert "does not have xlstm" in LLAMA_CPP.inexact(model_of("xlstm", full(1, 64)))[0]
    assert "cross-attention" in LLAMA_CPP.inexact(model_of("llama", CrossAttention(1, 64, 1601)))[0]


def test_settings_are_named_where_sizes_depend_on_them():
    assert "--ubatch-size 512" in LLAMA_CPP.assumptions(model_of("gemma3", window(512, 1, 64)))[0]
    assert "--ubatch-size" not in LLAMA_CPP.assumptions(model_of("mistral", window(512, 1, 64)))[0]


@pytest.mark.parametrize(
    ("model_type", "mixers", "kind"),
    [
        ("mistral", [window(16, 1, 64)], "full_attention"),
        ("chameleon", [window(16, 1, 64, chunked=True)], "full_attention"),
        ("zaya", [(window(16, 1, 64, kind="hybrid_sliding"), Recurrence(8, 4, kind="hybrid_sliding"))], "hybrid"),
        ("gemma3", [window(16, 1, 64)], "sliding_attention"),
        ("llama4_text", [window(16, 1, 64, chunked=True)], "chunked_attention"),
    ],
)
def test_layers_whose_window_llama_cpp_does_not_have_are_called_full(model_type, mixers, kind):
    (group,) = storage(model_of(model_type, *mixers))
    assert group.spec.kind == kind


def test_a_wider_step_needs_more_of_a_window():
    wide = dataclasses.replace(LLAMA_CPP, ubatch=2048)
    layers = wide.storage(model_of("gemma3", window(512, 1, 64)), wide.kv_format("f16"), "float16")
    assert steady_bytes(layers, 100_000) == (512 + 2048) * 256


def test_rows_that_are_not_known_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Strange:
        window = None

    with pytest.raises(ModelError, match="strange rows"):
        storage(model_of("strange", Strange()))


def test_the_engine_says_its_version():
    assert ENGINES["llama.cpp"].version == "0.5.0"


def test_rwkv_shifts_and_states(tmp_path):
    file = bare("rwkv6", block_count=4, embedding_length=2048, wkv__head_size=64, attention__head_count=0)
    assert fixed_bytes(storage(facts(tmp_path, file))) == 4 * 4 * (2 * 2048 + 2048 * 64)
