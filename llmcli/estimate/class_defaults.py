"""What transformers takes where a config.json lacks a key: its config classes' own defaults, per model type.

The table is made from transformers by `python tools/class_defaults.py`; it holds the keys that the estimate reads.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("class_defaults.json")


def class_defaults(model_type: str) -> Mapping[str, Any]:
    """The defaults of one model type; empty for a type that transformers does not have.

    Under `sub_configs` a multimodal type names the model types of the configs inside it.
    """
    defaults: Mapping[str, Any] = _table().get(model_type, {})
    return defaults


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table
