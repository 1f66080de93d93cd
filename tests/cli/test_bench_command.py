"""`llmcli bench` in this process, on a tiny model."""

import pytest

SPREAD = {"mean", "stddev", "median", "min", "max"}
TEST = {
    "name", "prompt_len", "out_len", "depth", "batch", "repeats", "warmup", "prefill", "decode", "ttft_seconds",
    "phases", "ceiling", "memory", "cache_hits", "stable", "error", "decode_path",
}  # fmt: skip


def test_the_json_contract(llmcli, tiny):
    asked = ("bench", tiny, "--prompt-len", 32, "--out-len", 4, "--repeats", 3, "--format", "json")
    result = llmcli(*asked).json()
    assert set(result) == {"schema", "host", "model", "settings", "tests"}
    assert result["schema"] == "llmcli.bench/1"
    (test,) = result["tests"]
    assert set(test) == TEST
    assert (set(test["prefill"]), set(test["decode"])) == ({"seconds", "tps"}, {"seconds", "tps", "itl_ms"})
    assert set(test["prefill"]["tps"]) == set(test["ttft_seconds"]) == SPREAD
    assert len(test["prefill"]["seconds"]) == len(test["decode"]["seconds"]) == 3
    assert sum(test["phases"]["shares"].values()) == pytest.approx(1)


def test_the_table_names_model_machine_and_versions(llmcli, tiny):
    ran = llmcli("bench", tiny, "--prompt-len", 8, "--out-len", 4, "--repeats", 2)
    assert ran.code == 0
    for words in ("tiny-llama", "torch", "transformers", "thread", "pp8+tg4 @ d0 b1", "prefill", "tok/s", "±"):
        assert words in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--prompt-len", 0), "--prompt-len 0"),
        (("--out-len", 0), "--out-len 0"),
        (("--repeats", 0), "--repeats 0"),
        (("--warmup", -1), "--warmup -1"),
        (("--prompt-len", 250, "--out-len", 7), "257"),
        (("--prompt-len", "x"), "--prompt-len x"),
        (("--prompt-len", "8,,16"), "--prompt-len '' is not allowed"),
        (("--depth", "0,-4k"), "--depth -4k is not allowed"),
        (("--depth", 250), "--depth 250, --prompt-len"),
        (("--batch", "1,0"), "--batch 0"),
        (("--batch", "1.5"), "--batch 1.5"),
        (("--batch", 4096), "from 1 to 1024"),
        (("--decode", "eager,quick"), "--decode quick is not known"),
        (("--quant", "none,int5"), "Allowed: auto, none, int8, nf4, fp4, int4"),
        (("--quant", "none,int8", "--dtype", "float32"), "--quant int8 with --dtype float32"),
        (("--prompt-len", ",".join(map(str, range(1, 68))), "--batch", "1,2,4"), "make 201 tests together"),
        (("--format", "xml"), "xml"),
    ],
)
def test_values_out_of_range_are_refused(llmcli, tiny, arguments, words):
    ran = llmcli("bench", tiny, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_lists_may_be_written_with_commas_or_by_repeating_the_flag(llmcli, tiny):
    once = ("--out-len", 2, "--repeats", 1, "--warmup", 0, "--format", "json")
    ran = llmcli(
        "bench", tiny, "--prompt-len", "8, 4,8", "--prompt-len", "2", "--depth", "0.0625k", "--depth", 0, *once
    )
    names = [test["name"] for test in ran.json()["tests"]]
    assert names == [f"pp{prompt}+tg2 @ d{depth} b1" for prompt in (8, 4, 2) for depth in (64, 0)]


def test_one_repetition_has_null_where_there_is_no_number(llmcli, tiny):
    asked = ("bench", tiny, "--prompt-len", 1, "--out-len", 1, "--repeats", 1, "--warmup", 0, "--format", "json")
    test = llmcli(*asked).json()["tests"][0]
    assert test["prefill"]["tps"]["stddev"] is None
    assert test["decode"]["tps"]["median"] is None
    assert test["stable"] is None


def test_explain_defines_the_figures(llmcli, tiny):
    ran = llmcli("bench", tiny, "--prompt-len", 8, "--out-len", 4, "--repeats", 1, "--explain")
    assert "evaluated ÷ prefill = 8 ÷" in ran.err
