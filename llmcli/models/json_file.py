"""JSON files of a model: an object, of bounded size, or words about what the file is instead."""

import json
from pathlib import Path
from typing import Any

from llmcli import paths
from llmcli.errors import ModelError
from llmcli.models import magic

MAX_BYTES = 2**26
_UNTOLD = ("JSON text", "a file of", "something else")  # kinds that say less than the parser does


def read_json_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises ModelError naming the file and what is wrong with it."""
    shown = paths.display(file)
    magic.file_size(file)
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise magic.unreadable(file, error) from None
    if len(data) > MAX_BYTES:
        raise ModelError(f"{shown} is too large: more than {MAX_BYTES} bytes", "Is it the right file?")
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ModelError(f"{shown} is no valid JSON: it is not UTF-8 text", "Correct it, or fetch it again.") from None
    except RecursionError:
        raise ModelError(f"{shown} is no valid JSON: nested too deeply", "Correct it, or fetch it again.") from None
    except ValueError as error:
        kind = magic.file_kind(file)
        reason = str(error) if kind.startswith(_UNTOLD) else f"it is {kind}"
        raise ModelError(f"{shown} is no valid JSON: {reason}", "Correct it, or fetch it again.") from None
    if not isinstance(content, dict):
        raise ModelError(f"{shown} holds no JSON object", "Correct it, or fetch it again.")
    return content
