"""A prompt in a file, counted by the model's own tokenizer; without torch."""

import codecs
import stat
from pathlib import Path

from llmcli.errors import ModelError, UsageError
from llmcli.estimate.readable import readable
from llmcli.estimate.report import PromptPart
from llmcli.estimate.subject import Subject
from llmcli.paths import display
from llmcli.units import MIB

MAX_BYTES = 64 * MIB
"""Longest file that is read: several times what the largest context of today's models holds."""


def read_prompt(path: Path) -> str:
    """The text of a file, with LF line ends and without a byte-order mark, as `chat --file` sends it.

    Raises UsageError for what is no file, is empty, too long, or not UTF-8.
    """
    where = f"--prompt-file {display(path)}"
    raw = _bytes(path, where).removeprefix(codecs.BOM_UTF8)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} is not UTF-8 at byte {error.start}", "Convert it: iconv -t UTF-8.") from None
    if not text.strip():
        raise UsageError(f"{where} is empty", "Name a file with text in it.")
    return text.replace("\r\n", "\n")


def _bytes(path: Path, where: str) -> bytes:
    try:
        path = path.expanduser()
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise UsageError(f"{where} is no file", "Name a text file.")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{where}: {reason}", "Name a text file that you may read.") from None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{where} holds more than {MAX_BYTES // MIB} MiB", "No model's context can take so much.")
    return raw


def count_prompt(text: str, path: Path, subject: Subject) -> PromptPart:
    """`text` in tokens and characters (code points); special tokens and a chat template are not part of it.

    Raises UsageError where the model has no tokenizer.json at hand, ModelError where that cannot be used.
    """
    tokenizer = subject.tokenizer()
    if tokenizer is None:
        raise UsageError(
            f"--prompt-file: {subject.name} has no tokenizer.json at hand to count tokens with",
            "Name a directory that has one beside its config.json, or write the number of tokens: --context.",
        )
    tokens = _tokens(text, tokenizer)
    if not tokens:
        raise ModelError(f"{tokenizer} makes no tokens of {display(path)}", "Is it the model's tokenizer?")
    return PromptPart(readable(display(path)), tokens, len(text), len(text) / tokens)


def _tokens(text: str, file: Path) -> int:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=False)
    except Exception as error:  # noqa: BLE001 - tokenizers raises nothing narrower
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"{file} is no tokenizer that can be used: {reason}", "Fetch the model's files anew."
        ) from None
    return len(encoding.ids)
