"""Weights by engine and quantization: what is allowed, what they take, what is said about it."""

from dataclasses import replace

import pytest
from sized import HIDDEN, VOCABULARY, architecture, mixture, subject

from llmcli.errors import UsageError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.counts import linear, tensor
from llmcli.estimate.loading import load
from llmcli.estimate.overhead import CPU_RUNTIME
from llmcli.estimate.plan import estimate
from llmcli.estimate.quants import SCHEMES, check_quant
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.weights import weight_bytes
from llmcli.units import bytes_text

MODEL = architecture()
PARAMS = MODEL.params
SIXTEEN = 2 * PARAMS


def mixture_of(method: str) -> Architecture:
    return replace(mixture(), quantization=method)


def weights(engine: str = "transformers", quant: str = "none", dtype: str | None = None, **facts: object) -> int:
    return load(subject(**facts), SizeRequest(quant=quant, dtype=dtype), engine).weights.total


@pytest.mark.parametrize("quant", ["none", "int8", "nf4", "fp4"])
def test_parts_add_up_to_what_bitsandbytes_makes(quant):
    dtype = "float16" if quant == "int8" else "bfloat16"
    assert weights(quant=quant) == weight_bytes(MODEL, quant, dtype)


def test_int4_is_sized_for_a_cpu_and_its_copies_for_prompts_are_named():
    dense = architecture(count=linear(HIDDEN, HIDDEN) + linear(HIDDEN, 24))
    request = SizeRequest(quant="int4", vram=(2**30,))
    loaded = load(subject(dense), request, "transformers")
    even = 4 * HIDDEN * HIDDEN  # 24 outputs are no multiple of 16
    assert loaded.weights.total == weight_bytes(dense, "int4", "bfloat16")
    assert loaded.weights.dense == even // 2 + even // 32 * 4 + 4 * 24 * HIDDEN * 2 + VOCABULARY * (HIDDEN + 2)
    assert loaded.weights.embedding == 2 * VOCABULARY * HIDDEN
    assert f"{bytes_text(2 * even)}, not counted" in loaded.assumptions[-1]
    assert "--vram is taken as main memory" in loaded.warnings[-1]
    answer = estimate(subject(dense), request)
    assert answer.rows[0].overhead_bytes == CPU_RUNTIME
    assert any("on a CPU" in note for note in answer.assumptions)
    assert not any("GPU" in note for note in answer.assumptions)


def test_layers_that_int4_does_not_take_are_told():
    odd = architecture(count=linear(HIDDEN + 1, 999))
    (warning,) = load(subject(odd), SizeRequest(quant="int4"), "transformers").warnings
    assert "its kernel does not take" in warning
    (warning,) = load(subject(mixture()), SizeRequest(quant="int4"), "transformers").warnings
    assert "experts are 3-D parameters, which int4 does not quantize" in warning


@pytest.mark.parametrize(("engine", "allowed"), [("transformers", "nf4"), ("llama.cpp", "q4_k_m"), ("vllm", "awq")])
def test_each_engine_names_what_it_has(engine, allowed):
    with pytest.raises(UsageError, match=engine) as caught:
        check_quant("q3", engine)
    assert allowed in caught.value.hint
    assert check_quant(f" {allowed.upper()} ", engine) == allowed


@pytest.mark.parametrize(("quant", "engine"), [("nf4", "vllm"), ("awq", "transformers"), ("nf4", "llama.cpp")])
def test_a_quantization_of_another_engine_is_refused(quant, engine):
    with pytest.raises(UsageError, match="nothing that --engine"):
        weights(engine, quant)


@pytest.mark.parametrize(
    ("quant", "bits"), [("f16", 16), ("bf16", 16), ("f32", 32), ("q8_0", 8.5008), ("q4_k_m", 4.8944), ("q4_0", 4.5)]
)
def test_gguf_types_take_their_bits_for_all_parameters(quant, bits):
    loaded = load(subject(), SizeRequest(quant=quant), "llama.cpp")
    assert loaded.weights.total == pytest.approx(PARAMS * bits / 8, abs=4)
    assert f"{bits:g} bits each" in loaded.assumptions[-1]


def test_llama_3_1_8b_takes_what_its_files_take():
    # llama.cpp, tools/quantize/README.md: 4.58 GiB as Q4_K_M, 7.95 GiB as Q8_0
    params = 8_030_261_248
    for quant, gib in (("q4_k_m", 4.58), ("q8_0", 7.95)):
        assert params * SCHEMES["llama.cpp"][quant].bits / 8 / 2**30 == pytest.approx(gib, abs=0.01)


def test_vllm_quantizes_experts_and_bitsandbytes_does_not():
    model = mixture()
    assert weights("vllm", "fp8", architecture=model) == model.count.linear + model.count.experts + 2 * (
        model.params - model.count.linear - model.count.experts
    )
    assert weights(quant="nf4", architecture=model) > 2 * model.count.experts


def test_experts_that_stay_as_they_are_are_named_with_the_real_size():
    (warning,) = load(subject(mixture()), SizeRequest(quant="nf4"), "transformers").warnings
    assert "experts" in warning
    assert "4.5 bits each" in warning
    assert load(subject(), SizeRequest(quant="nf4"), "transformers").warnings == ()
    assert load(subject(mixture()), SizeRequest(), "transformers").warnings == ()


def test_files_at_hand_count_unless_they_are_cast():
    stored = SIXTEEN + 777
    assert weights(stored_bytes=stored) == stored
    assert weights(stored_bytes=stored, dtype="float32") == 4 * PARAMS
    assert weights(stored_bytes=stored, quant="nf4") == weights(quant="nf4")
    assert weights(stored_bytes=2 * stored) == SIXTEEN


def test_quantized_files_stay_as_they_are_whatever_the_dtype():
    model = architecture(quantization="fp8")
    assert weights(stored_bytes=12_345, architecture=model) == 12_345
    assert weights(stored_bytes=12_345, architecture=model, dtype="float32") == 12_345
    assert "quantized with fp8" in load(subject(model, stored_bytes=1), SizeRequest(), "vllm").assumptions[-1]


def test_a_gguf_file_is_read_as_it_is_by_llama_cpp_and_dequantized_by_transformers():
    assert weights("llama.cpp", stored_bytes=777, packed=True) == 777
    assert weights("transformers", stored_bytes=777, packed=True) == SIXTEEN
    assert weights("llama.cpp", stored_bytes=777) == SIXTEEN


@pytest.mark.parametrize(("method", "size"), [("fp8", 1), ("mxfp4", 4.25 / 8)])
def test_a_known_method_is_counted_where_only_the_config_is_at_hand(method, size):
    model = mixture()
    quantized = model.count.experts + (model.count.linear if method == "fp8" else 0)
    loaded = load(subject(mixture_of(method)), SizeRequest(), "transformers")
    assert loaded.weights.total == pytest.approx(quantized * size + 2 * (model.params - quantized), abs=2)
    assert method in loaded.assumptions[-1]


def test_a_quantized_checkpoint_without_a_dtype_runs_in_16_bits():
    loaded = load(subject(replace(mixture_of("mxfp4"), dtype=None)), SizeRequest(), "transformers")
    assert loaded.dtype == "bfloat16"
    assert "names no dtype" in loaded.assumptions[0]


def test_quantizing_what_is_quantized_is_said_to_be_another_thing():
    (warning,) = load(subject(architecture(quantization="fp8")), SizeRequest(quant="nf4"), "transformers").warnings
    assert "quantized already (fp8)" in warning


def test_a_method_without_a_size_is_named_unless_the_files_are_at_hand():
    model = architecture(quantization="compressed-tensors")
    (warning,) = load(subject(model), SizeRequest(), "transformers").warnings
    assert "(compressed-tensors): its files may be smaller" in warning
    assert load(subject(model, stored_bytes=5), SizeRequest(), "transformers").warnings == ()
    assert load(subject(model), SizeRequest(), "llama.cpp").warnings == ()


def test_towers_count_in_the_dtype_and_unknown_ones_where_their_files_are_at_hand():
    towers = architecture(vision=linear(16, 64) + tensor(100))
    assert weights(architecture=towers) == SIXTEEN + 2 * 1124
    assert weights(quant="nf4", architecture=towers) == weights(quant="nf4") + 512 + 16 * 4 + 200
    assert weights("vllm", "fp8", architecture=towers) == weights("vllm", "fp8") + 2 * 1124
    unknown = architecture(vision=None)
    assert load(subject(unknown), SizeRequest(), "transformers").weights.total == SIXTEEN
    assert load(subject(unknown, stored_bytes=9 * SIXTEEN), SizeRequest(), "transformers").weights.total == 9 * SIXTEEN


def test_int8_runs_in_float16_in_transformers_alone():
    assert load(subject(), SizeRequest(quant="int8"), "transformers").dtype == "float16"
    assert load(subject(), SizeRequest(quant="int8"), "vllm").dtype == "bfloat16"
