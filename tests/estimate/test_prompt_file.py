"""`--prompt-file`: a text counted by the model's own tokenizer, in any language, without torch."""

import json
import os
import subprocess
import sys

import pytest
from tiny import tiny
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from llmcli.cli.app import run

KOREAN = "한국어로 쓴 긴 글도 정확히 세어야 한다. 토큰과 글자 수는 다르다.\n" * 20
ENGLISH = "The number of tokens is not the number of characters.\n" * 20


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A byte-level BPE tokenizer that puts a token before every text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=["<s>"], show_progress=False
    )
    made.train_from_iterator([KOREAN, ENGLISH], trainer)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return made


@pytest.fixture
def model(tmp_path, tokenizer):
    """A directory with a config and that tokenizer, which cuts texts off after eight tokens as some do."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(tiny("llama", dtype="bfloat16")))
    tokenizer.save(str(folder / "tokenizer.json"))
    cutting = Tokenizer.from_file(str(folder / "tokenizer.json"))
    cutting.enable_truncation(8)
    cutting.enable_padding(length=2000)
    cutting.save(str(folder / "tokenizer.json"))
    return folder


def answer(capsys, *arguments) -> dict:
    assert run(["estimate-kv", *map(str, arguments), "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("text", [KOREAN, ENGLISH, "a", "e\u0301 \u1112\u1161\u11ab"])
def test_tokens_are_those_of_the_text_alone(capsys, tmp_path, model, tokenizer, text):
    file = tmp_path / "긴 글.txt"
    file.write_text(text, encoding="utf-8")
    data = answer(capsys, model, "--prompt-file", file)
    count = len(tokenizer.encode(text, add_special_tokens=False).ids)
    assert data["prompt"]["tokens"] == count
    assert data["prompt"]["characters"] == len(text)
    assert data["prompt"]["characters_per_token"] == len(text) / count
    assert data["prompt"]["file"].endswith("긴 글.txt")
    assert [row["context"] for row in data["rows"]] == [count]
    assert any(f"context: the {count} tokens of" in note for note in data["assumptions"])


def test_a_context_that_is_given_stays(capsys, tmp_path, model):
    file = tmp_path / "p.txt"
    file.write_text(ENGLISH)
    data = answer(capsys, model, "--prompt-file", file, "--context", "64,128")
    assert [row["context"] for row in data["rows"]] == [64, 128]
    assert data["prompt"]["tokens"] > 0
    assert not any("context:" in note for note in data["assumptions"])


def test_a_byte_order_mark_and_line_ends_of_windows_do_not_count(capsys, tmp_path, model):
    unix, windows = tmp_path / "unix.txt", tmp_path / "windows.txt"
    unix.write_bytes(KOREAN.encode())
    windows.write_bytes(b"\xef\xbb\xbf" + KOREAN.replace("\n", "\r\n").encode())
    counted = [answer(capsys, model, "--prompt-file", file)["prompt"] for file in (unix, windows)]
    assert [(one["tokens"], one["characters"]) for one in counted] == [(counted[0]["tokens"], len(KOREAN))] * 2


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        ("글".encode("euc-kr"), "is not UTF-8 at byte 0"),
        (b"abc\xff", "is not UTF-8 at byte 3"),
    ],
)
def test_texts_that_cannot_be_counted(capsys, tmp_path, model, content, word):
    file = tmp_path / "p.txt"
    file.write_bytes(content)
    assert word in refusal(capsys, 2, model, "--prompt-file", file)


def test_files_that_cannot_be_read(capsys, tmp_path, model, monkeypatch):
    assert "No such file" in refusal(capsys, 2, model, "--prompt-file", tmp_path / "none.txt")
    assert "is no file" in refusal(capsys, 2, model, "--prompt-file", tmp_path)
    assert "is no file" in refusal(capsys, 2, model, "--prompt-file", os.devnull)
    file = tmp_path / "long.txt"
    file.write_text("x" * 101)
    monkeypatch.setattr("llmcli.estimate.prompt_file.MAX_BYTES", 100)
    assert "holds more than" in refusal(capsys, 2, model, "--prompt-file", file)


def test_a_model_without_a_tokenizer_says_what_to_do(capsys, tmp_path, model):
    file = tmp_path / "p.txt"
    file.write_text("text")
    (model / "tokenizer.json").unlink()
    assert "--context" in refusal(capsys, 2, model, "--prompt-file", file)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"[1, 2]"])
def test_a_damaged_tokenizer_is_named(capsys, tmp_path, model, content):
    file = tmp_path / "p.txt"
    file.write_text("text")
    (model / "tokenizer.json").write_bytes(content)
    assert "tokenizer.json is no tokenizer" in refusal(capsys, 3, model, "--prompt-file", file)


def refusal(capsys, code, *arguments) -> str:
    assert run(["estimate-kv", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) <= 2
    return captured.err


def test_counting_loads_no_torch_and_sizing_without_it_no_tokenizers(tmp_path, model):
    file = tmp_path / "p.txt"
    file.write_text(KOREAN)
    code = (
        "import sys; from llmcli.cli.app import run; code = run(['estimate-kv', *sys.argv[1:]]);"
        "print(sorted({'torch', 'transformers', 'tokenizers', 'matplotlib', 'pynvml', 'rich'} & set(sys.modules)),"
        "file=sys.stderr)"
    )
    for arguments, loaded in (([], "[]"), (["--prompt-file", file], "['tokenizers']")):
        program = [sys.executable, "-c", code, model, *arguments]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        assert done.stderr.splitlines()[-1] == loaded
