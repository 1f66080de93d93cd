"""`llmcli bench` in this process, on a tiny model."""

import pytest

SPREAD = {"mean", "stddev", "median", "min", "max"}
TEST = {
    "name", "prompt_len", "out_len", "depth", "batch", "repeats", "warmup", "prefill", "decode", "ttft_seconds",
    "phases", "ceiling", "memory", "cache_hits", "stable",
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
    for words in ("tiny-llama", "torch", "transformers", "threads", "pp8+tg4 @ d0 b1", "prefill", "tok/s", "±"):
        assert words in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--prompt-len", 0), "--prompt-len 0"),
        (("--out-len", 0), "--out-len 0"),
        (("--repeats", 0), "--repeats 0"),
        (("--warmup", -1), "--warmup -1"),
        (("--prompt-len", 250, "--out-len", 7), "257"),
        (("--prompt-len", "x"), "--prompt-len"),
        (("--format", "xml"), "xml"),
    ],
)
def test_values_out_of_range_are_refused(llmcli, tiny, arguments, words):
    ran = llmcli("bench", tiny, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_one_repetition_has_null_where_there_is_no_number(llmcli, tiny):
    asked = ("bench", tiny, "--prompt-len", 1, "--out-len", 1, "--repeats", 1, "--warmup", 0, "--format", "json")
    test = llmcli(*asked).json()["tests"][0]
    assert test["prefill"]["tps"]["stddev"] is None
    assert test["decode"]["tps"]["median"] is None
    assert test["stable"] is None


def test_explain_defines_the_figures(llmcli, tiny):
    ran = llmcli("bench", tiny, "--prompt-len", 8, "--out-len", 4, "--repeats", 1, "--explain")
    assert "evaluated ÷ prefill = 8 ÷" in ran.err
