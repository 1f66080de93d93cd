"""Every failure that llmcli reports to a person.

    LlmcliError                 1    anything that failed
    ├── UsageError              2    a flag, a value or an input that cannot be used
    │   └── ConfigError         2    a settings file that cannot be used
    ├── ModelError              3    a model that cannot be loaded
    │   └── ModelNotFound       3    a model that is not there
    ├── OutOfMemory             4    the model, its cache or a conversion does not fit
    ├── LogUnusable             1    a request log that cannot be read or written
    ├── EngineFault             1    an unexpected exception in the inference thread
    ├── OutputFailed            1    stdout cannot be written
    │   └── OutputClosed      141    the reader of stdout has gone away
    ├── Interrupted           130    Ctrl-C
    └── Terminated            143    SIGTERM, or SIGHUP: the terminal was closed

The number is the exit code. Only `cli.app.main` turns these into text.
"""

DEBUG_HINT = "`llmcli --debug …` shows the traceback."


class LlmcliError(Exception):
    """A failure with a message for a person.

    message: what is wrong and where, one line. hint: what to do about it, one line, or None.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LlmcliError):
    """A flag, a value or an input that cannot be used."""

    exit_code = 2


class ConfigError(UsageError):
    """A settings file (models.toml) that cannot be used."""


class ModelError(LlmcliError):
    """A model that cannot be loaded: damaged, incomplete or of a kind that llmcli does not run."""

    exit_code = 3


class ModelNotFound(ModelError):
    """A model argument that names no alias, directory or file."""


class OutOfMemory(LlmcliError):
    """The model, its cache or a conversion does not fit in memory or on disk."""

    exit_code = 4


class LogUnusable(LlmcliError):
    """A request log that cannot be read or written."""


class EngineFault(LlmcliError):
    """An unexpected exception in the inference thread; the original is its `__cause__`."""


class Interrupted(LlmcliError):
    """The user pressed Ctrl-C, and has been told what became of it."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__("interrupted")


class Terminated(LlmcliError):
    """The program was asked to end by SIGTERM."""

    exit_code = 143

    def __init__(self) -> None:
        super().__init__("terminated")


class OutputFailed(LlmcliError):
    """Stdout cannot be written: its disk is full, or it is not open for writing."""


class OutputClosed(OutputFailed):
    """The reader of stdout closed it (`llmcli chat … | head`)."""

    exit_code = 141

    def __init__(self) -> None:
        super().__init__("stdout was closed")
