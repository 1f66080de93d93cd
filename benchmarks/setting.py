"""What a figure has to be quoted with: machine, versions, date."""

import contextlib
import importlib.metadata
import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from llmcli import __version__
from llmcli.metrics.host import this_host


def setting(*distributions: str) -> dict[str, Any]:
    """Date, machine, load and the versions of what is installed."""
    versions = {"llmcli": __version__}
    for name in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"date": date, "host": asdict(this_host()), "load": load, "versions": versions}


def setting_line(facts: dict[str, Any]) -> str:
    """The same for people."""
    host = facts["host"]
    versions = " · ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return f"{host['cpu']}, {host['cores']} cores, {host['system']} · {versions} · {facts['date']}"


def default_threads() -> int:
    """The physical cores that this process may run on."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or allowed, allowed))


def write_json(path: Path | None, document: dict[str, Any], *, announced: bool = True) -> None:
    """Write it where it is wanted; null, never NaN."""
    if path is not None:
        path.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        if announced:
            print(f"written: {path}")
