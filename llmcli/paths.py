"""Where llmcli keeps things. `LLMCLI_HOME` replaces the platform's directories."""

import os
from pathlib import Path

import platformdirs

from llmcli.errors import ConfigError

APP = "llmcli"


def _home() -> Path | None:
    home = os.environ.get("LLMCLI_HOME")
    if home and os.path.expanduser(home).startswith("~"):  # noqa: PTH111 - Path.expanduser raises instead
        raise ConfigError(f"LLMCLI_HOME={home}: the home directory is not known", "Give an absolute path.")
    return Path(home).expanduser() if home else None


def config_dir() -> Path:
    """The directory of the user's own models.toml."""
    home = _home()
    return home / "config" if home else Path(platformdirs.user_config_dir(APP, appauthor=False))


def cache_dir() -> Path:
    """The directory of downloaded and converted models: safe to delete, costly to refill."""
    home = _home()
    return home / "cache" if home else Path(platformdirs.user_cache_dir(APP, appauthor=False))


def state_dir() -> Path:
    """The directory of the request log and the debug log: only the user may look into it."""
    home = _home()
    return home / "state" if home else Path(platformdirs.user_state_dir(APP, appauthor=False))


def log_file() -> Path:
    """The request log: an SQLite database."""
    return state_dir() / "log.db"


def display(path: Path) -> str:
    """`path` with the home directory shortened to `~`."""
    try:
        return str(Path("~") / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path)
