"""`llmcli bench` over lists of values: tests, loads, and what is left when some of it fails."""

import contextlib
import itertools
import shutil
import weakref

import pytest
import torch
from tiny_models import saved_model

from llmcli.chat.interrupt import Cancellation
from llmcli.cli import measuring
from llmcli.engine.decode.eager import EagerPath
from llmcli.errors import ModelError, OutOfMemory

SHORT = ("--prompt-len", 6, "--out-len", 3, "--repeats", 2, "--warmup", 0)


@pytest.fixture
def without_memory(monkeypatch):
    """Make a prefill of so many rows run out of memory."""

    def rows(number):
        prefill = EagerPath.prefill

        def fail(self, ids):
            if ids.shape[0] == number:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return prefill(self, ids)

        monkeypatch.setattr(EagerPath, "prefill", fail)

    return rows


def test_a_grid_on_one_load_is_one_bench(llmcli, tiny):
    ran = llmcli("bench", tiny, *SHORT, "--depth", "0,16", "--batch", "1,3", "--format", "json")
    result = ran.json()
    assert result["schema"] == "llmcli.bench/1"
    assert (result["settings"]["quant"], result["settings"]["decode"]) == ("auto", "auto")
    found = [(test["name"], test["depth"], test["batch"]) for test in result["tests"]]
    assert found == [(f"pp6+tg3 @ d{depth} b{batch}", depth, batch) for depth in (0, 16) for batch in (1, 3)]
    for test in result["tests"]:
        assert (test["repeats"], test["cache_hits"], test["error"]) == (2, 0, None)
        tokens = test["batch"] * 2 * test["repeats"]
        assert test["decode"]["tps"]["mean"] == pytest.approx(tokens / sum(test["decode"]["seconds"]))
    one, three = (test["memory"]["kv_bytes"] for test in result["tests"][2:])
    assert three == 3 * one


def test_the_log_has_every_repetition_and_no_fill(llmcli, tiny):
    llmcli("bench", tiny, *SHORT, "--depth", "0,16", "--batch", "1,3")
    logged = [record["tokens"] for record in llmcli("log", "list", "--format", "json").json()["requests"]]
    found = [(tokens["batch"], tokens["cached"], tokens["evaluated"], tokens["generated"]) for tokens in logged]
    assert found == [
        (batch, batch * depth, batch * 6, batch * 3) for depth in (0, 16) for batch in (1, 3) for _ in "ab"
    ]
    assert "batch 3" in llmcli("log", "last").out


@pytest.fixture
def loads(monkeypatch):
    """The loads so far, as pairs of flags; at each the models of the earlier ones have to be gone."""
    load, pairs, models = measuring.load_engine, [], []

    def watched(request, *, announced):
        assert all(model() is None for model in models)
        engine = load(request, announced=announced)
        pairs.append((request.quant, request.decode))
        models.append(weakref.ref(engine._loaded.model))
        return engine

    monkeypatch.setattr(measuring, "load_engine", watched)
    return pairs


def test_each_pair_of_quantization_and_decode_path_is_loaded_once_and_gone_before_the_next(llmcli, tiny, loads):
    flags = ("--quant", "none,auto", "--decode", "auto,eager", "--batch", "1,2", "--format", "json")
    result = llmcli("bench", tiny, *SHORT, *flags).json()
    pairs = list(itertools.product(("none", "auto"), ("auto", "eager")))
    assert loads == pairs
    assert set(result) == {"schema", "benches"}
    assert result["schema"] == "llmcli.benches/1"
    assert {bench["schema"] for bench in result["benches"]} == {"llmcli.bench/1"}
    assert [(bench["settings"]["quant"], bench["settings"]["decode"]) for bench in result["benches"]] == pairs
    assert [len(bench["tests"]) for bench in result["benches"]] == [2] * 4


def test_a_load_whose_test_failed_is_gone_before_the_next(llmcli, tiny, loads, without_memory):
    without_memory(2)
    ran = llmcli("bench", tiny, *SHORT, "--batch", "1,2", "--quant", "none,auto")
    assert ran.code == 4
    assert len(loads) == 2
    assert "error: 2 tests ran out of memory" in ran.err


def test_a_table_for_each_load_names_in_what_it_differs(llmcli, tiny):
    ran = llmcli("bench", tiny, *SHORT, "--quant", "none,nf4", "--depth", "0,9")
    assert ran.code == 0
    first, second = ran.out.split("\n\n")
    assert [first.count(words) for words in ("parameters", "torch", "@ d0", "@ d9")] == [1, 1, 1, 1]
    assert [second.count(words) for words in ("nf4", "torch", "@ d0", "@ d9")] == [1, 0, 1, 1]
    said = [line for line in ran.err.splitlines() if line.startswith(("load", "bench"))]
    assert said[:3] == [
        "load 1 of 2: --quant none --decode auto",
        "bench 2 tests …",
        "load 2 of 2: --quant nf4 --decode auto",
    ]


def test_explain_defines_the_figures_of_the_first_test(llmcli, tiny):
    err = llmcli("bench", tiny, *SHORT, "--batch", "2,1", "--explain").err
    assert err.count("The figures of the median repetition") == 1
    assert "repetition of pp6+tg3 @ d0 b2:" in err
    assert "evaluated ÷ prefill = 12 ÷" in err
    assert "2 × (n-1) ÷ decode = 4 ÷" in err


def test_a_test_that_runs_out_of_memory_is_named_and_the_others_are_measured(llmcli, tiny, without_memory):
    without_memory(2)
    asked = ("bench", tiny, *SHORT, "--batch", "1,2,3")
    ran = llmcli(*asked, "--format", "json")
    assert ran.code == 4
    assert [test["repeats"] for test in ran.json()["tests"]] == [2, 0, 2]
    failed = ran.json()["tests"][1]
    assert failed["error"]["type"] == "OutOfMemory"
    assert "out of memory" in failed["error"]["message"]
    assert (failed["prefill"]["seconds"], failed["phases"], failed["stable"]) == ([], None, None)
    assert "notice: pp6+tg3 @ d0 b2 failed: out of memory while answering" in ran.err
    assert "error: 1 test ran out of memory" in ran.err
    table = llmcli(*asked)
    assert table.code == 4
    assert [line.split()[-1] for line in table.out.splitlines() if " b2 " in line] == ["failed"]


def test_a_single_test_without_memory_ends_as_its_error_says(llmcli, tiny, without_memory):
    without_memory(1)
    ran = llmcli("bench", tiny, *SHORT)
    assert (ran.code, ran.out) == (4, "")
    assert "error: out of memory while answering" in ran.err
    assert "ended after 0 of 2 repetitions" in ran.err


@pytest.mark.parametrize(("error", "code", "benches"), [(OutOfMemory, 4, 2), (ModelError, 3, 1)])
def test_a_load_that_fails_keeps_the_others_where_only_memory_is_missing(
    llmcli, tiny, monkeypatch, error, code, benches
):
    load = measuring.load_engine

    def failing(request, *, announced):
        if request.quant == "nf4":
            raise error("no such luck")
        return load(request, announced=announced)

    monkeypatch.setattr(measuring, "load_engine", failing)
    ran = llmcli("bench", tiny, *SHORT, "--quant", "none,nf4,auto", "--format", "json")
    assert ran.code == code
    assert [bench["settings"]["quant"] for bench in ran.json()["benches"]] == ["none", "auto"][:benches]
    assert "no such luck" in ran.err
    assert llmcli("bench", tiny, *SHORT, "--quant", "nf4,none").out.startswith("tiny-llama from") == (
        error is OutOfMemory
    )


def test_an_interrupt_keeps_what_is_complete_and_loads_nothing_more(llmcli, tiny, monkeypatch):
    class After(Cancellation):
        asked = 0

        def is_set(self):
            self.asked += 1
            return self.asked > 30

    @contextlib.contextmanager
    def soon():
        yield After()

    monkeypatch.setattr(measuring, "cancel_on_interrupt", soon)
    ran = llmcli("bench", tiny, *SHORT, "--batch", "1,2,3,4,5,6", "--quant", "none,auto", "--format", "json")
    assert ran.code == 130
    (bench,) = ran.json()["benches"]
    assert 1 <= len(bench["tests"]) < 6
    assert "load 2" not in ran.err
    assert "ended in test" in ran.err


@pytest.fixture(scope="module")
def restless(tmp_path_factory):
    """The directory of a tiny model whose cache may not be continued."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    shutil.copytree(saved_model(folder.with_name("tiny-llama")), folder)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"llama"', '"helium"').replace("LlamaFor", "HeliumFor"))
    return folder


def test_a_depth_is_refused_where_the_cache_may_not_be_continued(llmcli, restless):
    ran = llmcli("bench", restless, *SHORT, "--depth", 8)
    assert (ran.code, ran.out) == (2, "")
    assert "error: --depth 8 cannot be measured" in ran.err
    ran = llmcli("bench", restless, *SHORT, "--depth", "0,8", "--format", "json")
    assert ran.code == 2
    assert [(test["depth"], test["repeats"]) for test in ran.json()["tests"]] == [(0, 2), (8, 0)]
    assert "notice: pp6+tg3 @ d8 b1 failed: --depth 8 cannot be measured" in ran.err
