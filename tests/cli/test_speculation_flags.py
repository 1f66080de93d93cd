"""--speculate and --draft: what is refused before anything loads, and what is shown."""

import pytest
from tiny_models import saved_model

from llmcli.load_rules import batch_notice


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A draft model of another architecture with the same tokenizer."""
    return saved_model(tmp_path_factory.mktemp("models") / "tiny-gpt2", "gpt2")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--speculate", "ngram", "--draft", "small"], "two sources of drafts"),
        (["--speculate", "ngram", "--decode", "compiled"], "--speculate ngram with --decode compiled"),
        (["--draft", "small", "--decode", "graph"], "--draft small with --decode graph"),
    ],
)
@pytest.mark.parametrize("command", [["chat", "-p", "hi"], ["bench"]])
def test_what_does_not_go_together_is_refused_before_a_model_is_looked_for(command, flags, words, llmcli):
    result = llmcli(*command, "/nowhere/at/all", *flags)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert "nowhere" not in result.err


def test_a_draft_model_that_is_not_there_is_named(tiny, llmcli):
    result = llmcli("chat", tiny, "-p", "hi", "--draft", "/nowhere/small", "--no-log")
    assert result.code == 3
    assert "/nowhere/small" in result.err


def test_the_same_answer_with_drafts_and_their_figures(tiny, gpt2, llmcli):
    plain = llmcli("chat", tiny, "-p", "abcabcabc", "--json", "--max-new-tokens", 40, "--no-log")
    assert (plain.json()["tokens"]["drafted"], plain.json()["tokens"]["accepted"]) == (0, 0)
    assert "drafts" not in plain.err
    for flags, start in ((["--speculate", "ngram"], "ngram speculation"), (["--draft", gpt2], f"drafts by {gpt2}")):
        found = llmcli("chat", tiny, "-p", "abcabcabc", "--json", "--max-new-tokens", 40, "--no-log", *flags)
        assert found.code == 0
        record = found.json()
        assert record["text"] == plain.json()["text"]
        tokens = record["tokens"]
        assert tokens["drafted"] > 0
        assert tokens["generated"] - 1 == tokens["steps"] + tokens["accepted"]
        assert f" · {start.split('/')[0]}" in found.err
        assert f" · {tokens['accepted']} of {tokens['drafted']} drafts held · " in found.err
        assert record["model"]["decode_path"] == "eager"


def test_bench_says_where_drafts_come_from(tiny, gpt2, llmcli):
    sizes = ("--prompt-len", 12, "--out-len", 10, "--repeats", 1, "--warmup", 0, "--no-log")
    assert "eager · ngram speculation\n" in llmcli("bench", tiny, *sizes, "--speculate", "ngram").out
    result = llmcli("bench", tiny, *sizes, "--draft", gpt2, "--format", "json")
    assert result.json()["settings"]["speculation"].startswith("drafts by ")
    assert llmcli("bench", tiny, *sizes, "--format", "json").json()["settings"]["speculation"] is None


def test_a_batch_gets_a_notice_only_where_drafts_are_asked_for():
    assert batch_notice([1, 4, 2, 4], "ngram", None) == "no speculation at batch 2, 4: drafts serve a batch of one"
    assert batch_notice([4], "none", "small") is not None
    assert batch_notice([1], "ngram", None) is None
    assert batch_notice([4], "none", None) is None


def test_bench_says_that_a_batch_runs_without_drafts(tiny, llmcli):
    sizes = ("--prompt-len", 12, "--out-len", 10, "--repeats", 1, "--warmup", 0, "--no-log", "--batch", "1,2")
    told = "notice: no speculation at batch 2: drafts serve a batch of one"
    assert told in llmcli("bench", tiny, *sizes, "--speculate", "ngram").err.splitlines()
    assert told not in llmcli("bench", tiny, *sizes).err
