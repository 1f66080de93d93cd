"""Whether this machine can compile, and whether it may."""

import os
import shutil

SWITCH = "LLMCLI_COMPILE"
"""`off` in this environment variable keeps llmcli from compiling anything."""

_NAMES = ("g++", "clang++", "c++")


def allowed() -> bool:
    """Whether the user lets llmcli compile."""
    return os.environ.get(SWITCH, "").strip().lower() not in {"off", "0", "no", "false"}


def compiler() -> str | None:
    """The C++ compiler that torch would call, None where there is none."""
    named = os.environ.get("CXX")
    names = (named, *_NAMES) if named else _NAMES
    return next((path for name in names if (path := shutil.which(name))), None)


def refusal() -> str | None:
    """Why nothing can be compiled here, None where it can."""
    if compiler() is None:
        return "there is no C++ compiler here (g++ or clang++)"
    return None
