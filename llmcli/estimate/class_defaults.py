"""What transformers takes where a config.json lacks a key: its config classes' own defaults, per model type.

The table is made from transformers by `python tools/class_defaults.py`; it holds the keys that the estimate reads.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("class_defaults.json")


@dataclass(frozen=True, slots=True)
class Inside:
    """A config inside a multimodal one, as the class of that one takes it.

    model_type: of a config that names none; only: of any, whatever it names. optional: absent means that there is none;
    otherwise absent means `values`, and the defaults of the type.
    """

    model_type: str
    only: bool = False
    optional: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)


def class_defaults(model_type: str) -> Mapping[str, Any]:
    """The defaults of one model type; empty for a type that transformers does not have."""
    defaults: Mapping[str, Any] = _table().get(model_type, {})
    return defaults


def configs_inside(model_type: str) -> Mapping[str, Inside]:
    """Key: the config that stands there in a config of this model type; empty for types without such."""
    rows = class_defaults(model_type).get("sub_configs", {})
    return {
        key: Inside(row["type"], row.get("only", False), row.get("optional", False), row.get("values", {}))
        for key, row in rows.items()
    }


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table
