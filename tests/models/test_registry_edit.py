"""Entries come and go in a models.toml of any layout: exactly that changes, or nothing and the command says so."""

import json
import tomllib

import pytest

from llmcli.errors import ConfigError
from llmcli.models.registry_edit import remove_entry, write_entry

A = '[models.a]\nsource = "hub:o/a"\n'
B = '[models.b]\nsource = "hub:o/b"\n[models.b.sampling]\ntemperature = 0.5\n'
LAYOUTS = {
    "tables": A + "\n# note b\n" + B + '\n[models.c]\nsource="hub:o/c"\n',
    "inline tables": '[models]\na = {source="hub:o/a"}\nb = {source="hub:o/b"}\n',
    "all inline": 'models = {a = {source="hub:o/a"}, b = {source="hub:o/b"}}\n',
    "dotted keys": 'models.a.source = "hub:o/a"\nmodels.b.source = "hub:o/b"\nmodels.b.sampling.temperature=0.5\n',
    "dotted inline": 'models.a = {source="hub:o/a"}\nmodels.b = {source="hub:o/b"}\n',
    "one dotted key": 'models.b.source="hub:o/b"\n',
    "dotted keys and a default": 'default="b"\nmodels.a.source="hub:o/a"\nmodels.b.source="hub:o/b"\n',
    "dotted keys and a table": 'models.a.source="hub:o/a"\n\n[models.b]\nsource="hub:o/b"\n',
    "dotted in a table": '[models]\na.source="hub:o/a"\na.license="MIT"\nb.source="hub:o/b"\n',
    "dotted, then a table": '[models]\na.source = "hub:o/a"\n[models.b]\nsource = "hub:o/b"\n',
    "split": '[models.b]\nsource="b"\n[models.a]\nsource="a"\n[models.b.sampling]\ntemperature=0.1\n',
    "quoted": '[models."a"]\nsource="hub:o/a"\n[ models . "b" ]\nsource="hub:o/b"\n',
    "another case": '[models.B]\nsource="hub:o/b"\n',
    "lists": '[models.b]\nsource="hub:o/b"\nlanguages=[\n"en",\n"ko"\n]\n\n# about c\n[models.c]\nsource="hub:o/c"\n',
    "a default": 'default = "b"\n' + A + B,
    "comments": '[models]\n[models.a]\nsource="hub:o/a"\n# end of a\n\n[models.b]\nsource="hub:o/b" # c\n# tail\n',
    "CRLF": (A + B).replace("\n", "\r\n"),
    "no line end": A + B.rstrip(),
    "a comment only": "# mine",
    "empty": "",
    "values of other types": '[models.b]\nsource="b"\n[models.odd]\nx = nan\nwhen = 2020-01-01\nn = 1\nf = 1.0\n',
}
HEADERS_IN_TEXT = {
    "before": '[models.a]\nsource="a"\ndescription="""\nx\n[models.b]\nsource = 1\n"""\n[models.b]\nsource="b"\n',
    "before, literal": "[models.a]\nsource='a'\ndescription='''\n[models.b]\n'''\n[models.b]\nsource='b'\n",
    "inside": "[models.b]\nsource='b'\ndescription='''\n[models.x]\ny = 1\n'''\nlicense='MIT'\n",
}
CHANGES = ["rm", "add", "add as default", "replace"]


def change(file, how):
    """Make a change to the file; what the document must say then."""
    wanted = tomllib.loads(file.read_bytes().decode())
    models = wanted.setdefault("models", {})
    if how.startswith("add"):
        models["z"] = {"source": "hub:o/z", "context": 9}
        if how == "add as default":
            wanted["default"] = "z"
        write_entry(file, "z", models["z"], default="default" in how, replace=False)
        return wanted
    key = next((key for key in models if key.casefold() == "b"), None)
    if key is None:
        pytest.skip("no b")
    del models[key]
    if how == "replace":
        models["b"] = {"source": "hub:o/new"}
        write_entry(file, "b", models["b"], default=False, replace=True)
    else:
        if wanted.get("default") == "b":
            del wanted["default"]
        remove_entry(file, "b", keep_default=False)
    return wanted


def said(document):
    """A form in which documents can be compared: 1, 1.0 and true differ, nan is nan."""
    return json.dumps({"models": {}} | document, sort_keys=True, default=str)


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_exactly_the_change_that_was_asked_for_is_made(home, tmp_path, layout, how):
    file = tmp_path / "models.toml"
    file.write_bytes(LAYOUTS[layout].encode())
    wanted = change(file, how)
    assert said(tomllib.loads(file.read_bytes().decode())) == said(wanted)


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("layout", HEADERS_IN_TEXT)
def test_a_text_that_looks_like_a_table_is_never_cut(home, tmp_path, layout, how):
    file = tmp_path / "models.toml"
    before = HEADERS_IN_TEXT[layout].encode()
    file.write_bytes(before)
    if how.startswith("add"):
        wanted = change(file, how)
        assert said(tomllib.loads(file.read_bytes().decode())) == said(wanted)
        return
    with pytest.raises(ConfigError, match="cannot be changed as it is laid out") as caught:
        change(file, how)
    assert caught.value.exit_code == 2
    assert caught.value.hint.startswith("Edit it: ")
    assert "\n" not in caught.value.message + caught.value.hint
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["models.toml"]


def test_an_editor_that_would_change_other_lines_is_not_believed(home, tmp_path, monkeypatch):
    file = tmp_path / "models.toml"
    file.write_text(A + B)
    monkeypatch.setattr("llmcli.models.registry_edit.cut_table", lambda *_path, **_more: (A.replace("o/a", "x/y"), 0))
    with pytest.raises(ConfigError, match="cannot be changed"):
        remove_entry(file, "b", keep_default=False)
    assert file.read_text() == A + B
