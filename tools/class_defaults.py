"""Make llmcli/estimate/class_defaults.json from the config classes of the transformers that is installed.

    python tools/class_defaults.py          write the table
    python tools/class_defaults.py --check  exit 1 when the table that is there differs

A default is kept when the code of the estimate reads its key: when the key stands in it as a text.
"""

import ast
import json
import sys
from pathlib import Path
from typing import Any

from llmcli.estimate.families.registry import MODULE_OF, MULTIMODAL
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

ESTIMATE = Path(__file__).resolve().parents[1] / "llmcli" / "estimate"
TABLE = ESTIMATE / "class_defaults.json"
NO_FACTS = {"architectures", "sub_configs", "dtype", "torch_dtype", "model_type", "transformers_version"}


def keys_read() -> set[str]:
    """Every text in the code of the estimate that could be the name of a key."""
    found: set[str] = set()
    for file in ESTIMATE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                found.add(node.value)
    return found - NO_FACTS


def plain(value: Any) -> bool:
    """Whether JSON can hold the value as it is."""
    if isinstance(value, list | tuple):
        return all(plain(one) for one in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(one) for key, one in value.items())
    return value is not None and isinstance(value, bool | int | float | str)


def defaults(config_class: type[PreTrainedConfig], keys: set[str]) -> dict[str, Any]:
    """The class's own defaults of the keys that are read, under the names that the class uses."""
    fields = [name for name in dir(config_class) if name in keys]
    found = {name: getattr(config_class, name) for name in fields if plain(getattr(config_class, name))}
    found = {name: value for name, value in found.items() if value is not False}
    inside = {name: part(spec, keys) for name, spec in config_class.sub_configs_defaults.items()}
    named = {name: row for name, row in inside.items() if row["type"]}
    return found | ({"sub_configs": named} if named else {})


def part(spec: SubConfigSpec, keys: set[str]) -> dict[str, Any]:
    """A config inside another: its type, whether it has no other, and its values where the whole of it is absent."""
    row: dict[str, Any] = {"type": spec.model_type}
    if not issubclass(spec.config_class, AutoConfig):
        row["only"] = True
    if spec.optional:
        row["optional"] = True
    values = {name: value for name, value in spec.init_kwargs.items() if name in keys and plain(value)}
    return row | ({"values": values} if values else {})


def table() -> str:
    """The whole table as JSON, one model type per line."""
    keys = keys_read()
    rows: dict[str, dict[str, Any]] = {}
    wanted = [name for name in (*MODULE_OF, *MULTIMODAL) if name in CONFIG_MAPPING]
    while wanted:
        name = wanted.pop()
        if name in CONFIG_MAPPING and name not in rows:
            rows[name] = defaults(CONFIG_MAPPING[name], keys)
            wanted += [inside["type"] for inside in rows[name].get("sub_configs", {}).values()]
    lines = [f"{json.dumps(name)}: {json.dumps(row, sort_keys=True)}" for name, row in sorted(rows.items()) if row]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Write or check the table."""
    made = table()
    if "--check" in sys.argv[1:]:
        return 0 if TABLE.read_text(encoding="utf-8") == made else 1
    TABLE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
