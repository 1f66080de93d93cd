"""Whether this machine can compile, and whether it may."""

import os
import shutil

SWITCH = "LLMCLI_COMPILE"
"""`off` in this environment variable keeps llmcli from compiling anything."""

NAMED = "CXX"
"""The environment variable that names the C++ compiler, for torch as well."""

_NAMES = ("g++", "clang++", "c++")


def allowed() -> bool:
    """Whether the user lets llmcli compile."""
    return os.environ.get(SWITCH, "").strip().lower() not in {"off", "0", "no", "false"}


def compiler() -> str | None:
    """The C++ compiler to call: what CXX names, else the first of the usual ones. None where there is none."""
    named = os.environ.get(NAMED)
    return next((path for name in ((named,) if named else _NAMES) if (path := shutil.which(name))), None)


def refusal() -> str | None:
    """Why nothing can be compiled here, None where it can."""
    if compiler() is not None:
        return None
    named = os.environ.get(NAMED)
    return f"{NAMED}={named} is no C++ compiler" if named else "there is no C++ compiler here (g++ or clang++)"
