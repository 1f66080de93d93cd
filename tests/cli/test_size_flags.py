"""The flags of `estimate-kv` as a request."""

import dataclasses

import pytest

from llmcli.cli.size_flags import SizeFlags, question
from llmcli.errors import UsageError

PLAIN = SizeFlags("transformers", None, None, None, None, "auto", "auto", "none", None, None, None)


def asked(**flags):
    return question(dataclasses.replace(PLAIN, **flags))


def request(**flags):
    return asked(**flags).request


def test_without_flags_nothing_is_set():
    plain = request()
    assert (plain.contexts, plain.batches, plain.mix) == (None, (1,), ())
    assert (plain.dtype, plain.kv_dtype, plain.quant) == (None, None, "none")
    assert (plain.vram, plain.overhead, plain.prefill_chunk, plain.bandwidth) == (None, None, None, None)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("24GiB", (24 * 2**30,)),
        (" 24 gib ", (24 * 2**30,)),
        ("24GB", (24 * 10**9,)),
        ("1,024MiB", (2**30,)),
        ("24GiB,8GB", (24 * 2**30, 8 * 10**9)),
        ("24GiB, 24GiB", (24 * 2**30,) * 2),
    ],
)
def test_vram_is_a_size_or_one_per_gpu(text, sizes):
    assert request(vram=text).vram == sizes


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("400GB/s", 400e9),
        ("400 gb/s", 400e9),
        ("3.35TB/s", 3.35e12),
        ("400GB", 400e9),
        ("1GiB/s", 2.0**30),
        ("900GBps", 9e11),
    ],
)
def test_bandwidth_is_a_size_per_second(text, rate):
    assert request(bandwidth=text).bandwidth == pytest.approx(rate)


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("0GiB", 0), ("0.0 MiB", 0), ("512MiB", 2**29)])
def test_an_overhead_may_be_nothing(text, size):
    assert request(overhead=text).overhead == size


def test_a_mix_keeps_equal_requests_and_their_order():
    assert request(mix="800,40k,800").mix == (800, 40960, 800)
    assert request(context="4k,8k,4k").contexts == (4096, 8192)


@pytest.mark.parametrize("text", ["400Gb/s", "400 Gbps", "400Gbit/s", "400KB/s", "400B/s"])
def test_bits_and_what_no_memory_is_as_slow_as_are_no_bandwidth(text):
    with pytest.raises(UsageError, match="no bandwidth of a memory"):
        request(bandwidth=text)


def test_names_of_quantizations_may_be_in_capitals():
    assert request(quant="NF4").quant == "nf4"


def test_the_engine_checks_kv_formats_before_anything_is_read():
    assert request(kv_dtype="AUTO").kv_dtype is None
    assert request(kv_dtype=" bf16 ").kv_dtype == "bf16"
    with pytest.raises(UsageError, match="q9_9"):
        request(kv_dtype="q9_9")


@pytest.mark.parametrize(
    "flag", ["vram", "overhead", "bandwidth", "mix", "context", "batch", "prefill_chunk", "engine", "quant"]
)
@pytest.mark.parametrize("text", ["", " ", "nan", "inf", "-1", "1e3GiB", "١٢", "\x1b[31m", "9" * 5000])
def test_nonsense_is_one_line_that_names_the_flag(flag, text):
    with pytest.raises(UsageError) as caught:
        request(**{flag: text})
    assert f"--{flag.replace('_', '-')} " in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(("flags", "engine"), [({"quant": "Q4_K_M"}, "llama.cpp"), ({"kv_dtype": "q8_0"}, "llama.cpp")])
def test_what_another_engine_has_is_said(flags, engine):
    with pytest.raises(UsageError) as caught:
        request(**flags)
    assert f"--engine {engine}" in caught.value.hint


def test_an_engine_may_be_written_as_people_write_it():
    assert asked(engine="llamacpp", quant="Q4_K_M").engine.name == "llama.cpp"
    with pytest.raises(UsageError) as caught:
        request(engine="ollama")
    assert "run llama.cpp" in caught.value.hint


def test_equal_cards_may_be_counted():
    assert request(vram="2x24GiB").vram == request(vram="24GiB,24GiB").vram


def test_decimal_gigabytes_are_understood_and_said():
    notice = asked(vram="24GB").notice
    assert "22.35 GiB" in notice
    assert "--vram 24GiB" in notice
    assert "--vram 24GiB" in asked(vram="2x24GB").notice
    assert asked(vram="24GiB").notice is None
    assert "1.5GB is 1.40 GiB" in asked(vram="1.5GB").notice
    assert "1,500GB is 1396.98 GiB" in asked(vram="1,500GB").notice
