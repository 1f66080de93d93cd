"""`estimate-kv --format` and several models: JSON, CSV and Markdown that say the same, all of it or one error."""

import csv
import io
import json
import os
import re
import sys
from pathlib import Path

import pytest
from answers import GIB, estimate, row
from tiny import tiny

from llmcli.cli.app import run
from llmcli.estimate.render.csv_rows import csv_rows
from llmcli.estimate.render.markdown import markdown
from llmcli.estimate.sources import find


@pytest.fixture
def configs(tmp_path):
    """Two models, the second with twice the KV heads and a context limit of 128."""
    paths = []
    for name, changes in (("one", {}), ("two", {"num_key_value_heads": 4, "max_position_embeddings": 128})):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(tiny("llama", head_dim=16, dtype="bfloat16", **changes)))
        paths.append(str(path))
    return paths


def output(capsys, *arguments) -> str:
    assert run(["estimate-kv", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def table_of(text) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_several_models_are_one_document_of_the_answers_of_each(capsys, configs):
    more = ("--context", "100", "--batch", "1,2", "--vram", "1GB", "--format", "json")
    both = json.loads(output(capsys, *configs, *more))
    assert set(both) == {"schema", "estimates"}
    assert both["schema"] == "llmcli.estimates/1"
    assert both["estimates"] == [json.loads(output(capsys, config, *more)) for config in configs]


def test_csv_has_the_rows_of_json(capsys, configs):
    more = ("--context", "100,200", "--batch", "1,3", "--vram", "250kB")
    rows = table_of(output(capsys, *configs, *more, "--format", "csv"))
    document = json.loads(output(capsys, *configs, *more, "--format", "json"))
    expected = [(one, values) for one in document["estimates"] for values in one["rows"]]
    assert len(rows) == len(expected) == 8
    for line, (one, values) in zip(rows, expected, strict=True):
        assert line["model"] == one["model"]["name"]
        assert (line["engine"], line["engine_version"]) == (one["engine"], one["engine_version"])
        assert (line["kv_dtype"], line["exact"]) == ("bfloat16", "true")
        for key, value in (*values.items(), ("max_context", one["max_context"])):
            assert line[key] == ("" if value is None else json.dumps(value)), key


def test_csv_keeps_names_that_need_quotes():
    name = 'a,"b" | 한국어'
    (line,) = table_of(csv_rows([estimate(name, inexact=("guessed",))]))
    assert (line["model"], line["exact"], line["fits"]) == (name, "false", "")


@pytest.mark.parametrize("how", ["csv", "md"])
def test_what_a_table_of_sizes_has_no_room_for_is_said(capsys, configs, how):
    assert run(["estimate-kv", configs[0], "--format", how, "--mix", "9,99", "--bandwidth", "400GB/s"]) == 0
    captured = capsys.readouterr()
    assert f"--format {how} has no room for the answer to --mix, --bandwidth; table and json have" in captured.err
    assert run(["estimate-kv", configs[0], "--format", how.upper(), "--context", "9,99"]) == 0
    later = capsys.readouterr()
    assert (later.out, later.err) == (captured.out, "")


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text there")
@pytest.mark.parametrize("how", ["table", "csv", "md", "json"])
def test_a_file_name_that_is_no_text_is_shown_as_far_as_it_is(capsys, tmp_path, configs, how):
    path = tmp_path / os.fsdecode(b"odd\xff.json")
    path.write_bytes(Path(configs[0]).read_bytes())
    assert "odd\\udcff" in output(capsys, path, "--format", how).replace("\\\\", "\\")


def test_markdown_is_a_github_table_with_the_sizes_of_csv(capsys, configs):
    lines = output(capsys, *configs, "--vram", "1GiB", "--format", "md").splitlines()
    assert lines[0].startswith("| model | engine | context | batch | KV | weights | ")
    assert lines[0].endswith(" | total | fits | longest context |")
    assert set(lines[1]) == set("|-: ")
    assert [line.count("|") for line in lines] == [lines[0].count("|")] * len(lines)
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| one", "| two"]
    assert re.search(r"\| yes, [0-9.]+ GiB left \| 256 \|$", lines[2])


def test_markdown_shows_columns_that_something_is_known_for():
    plain = markdown([estimate(rows=[row()])])
    assert "fits" not in plain
    assert "KV at prefill" not in plain
    full = markdown([estimate("a|<", [row(peak=2 * GIB, activations=GIB, overhead=0)], inexact=("guessed",))])
    assert "| KV | KV at prefill | weights | activations | overhead | total |" in full
    assert "| a\\|\\< | transformers | 4096 | 1 | ≈ 1.00 GiB | 2.00 GiB | 4.00 GiB | 1.00 GiB | 0 | 7.00 GiB |" in full


@pytest.mark.parametrize("how", ["table", "csv", "md"])
def test_warnings_go_to_stderr_with_the_name_of_the_model(capsys, configs, how):
    assert run(["estimate-kv", *configs, "--context", "200", "--format", how]) == 0
    captured = capsys.readouterr()
    assert "warning: two: context 200 passes the 128 tokens" in captured.err
    assert "one:" not in captured.err
    assert "passes" not in captured.out


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["no-such-model"], 3, "no-such-model"),
        (["broken.json"], 3, "broken.json"),
        (["float8.json"], 3, "float8: the dtype"),
    ],
)
def test_one_model_that_cannot_be_sized_is_named_and_nothing_is_printed(
    capsys, monkeypatch, tmp_path, configs, more, code, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").write_text("{}")
    (tmp_path / "float8.json").write_text(json.dumps(tiny("llama", dtype="float8_e4m3fn")))
    assert run(["estimate-kv", *configs, *more]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert len(captured.err.splitlines()) <= 2


def test_an_error_without_a_name_gets_one(capsys, configs):
    assert run(["estimate-kv", *configs, "--context", str(2**40), "--batch", str(2**20)]) == 2
    assert "error: one: the sizes pass 2**63 bytes" in capsys.readouterr().err


def test_models_of_one_name_are_called_by_their_arguments(capsys, tmp_path):
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "kv.json"
        path.write_text(json.dumps(tiny("llama")))
        paths.append(str(path))
    assert find(paths[0], None).name == find(paths[1], None).name
    lines = table_of(output(capsys, *paths, "--format", "csv"))
    assert sorted({line["model"] for line in lines}) == paths


def test_every_format_is_readable_where_only_ascii_is(capsys, configs, monkeypatch):
    from llmcli import console

    monkeypatch.setattr(console, "_unicode", lambda stream: False)
    for how in ("table", "md", "json"):
        assert output(capsys, *configs, "--vram", "1GiB", "--format", how).isascii()
