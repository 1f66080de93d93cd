"""Requests into the log: what cannot be written is said once, counted, and never hurts the request."""

from llmcli import console, paths
from llmcli.errors import LlmcliError, Terminated
from llmcli.metrics.log_file import TIMEOUT
from llmcli.metrics.record import RequestRecord

_SHORT = 0.2
"""Seconds that a locked log is waited for once a record has been lost: it may stay locked."""


class Recorder:
    """Writes request records to the log; a log that cannot be written is said once and never hurts the request.

    enabled: False writes nothing. at_once: False keeps what there is to say until `close`, while something else draws
    on the screen.
    """

    def __init__(self, *, enabled: bool = True, at_once: bool = True) -> None:
        self._enabled = enabled
        self._at_once = at_once
        self._lost = 0
        self._unsaid = ""

    def add(self, record: RequestRecord) -> None:
        """Write one record. Takes some 2 s at most; never raises but what ends the program."""
        if not self._enabled:
            return
        from llmcli.metrics import request_log

        try:
            request_log.add(paths.log_file(), record, timeout=_SHORT if self._lost else TIMEOUT)
        except Terminated:
            raise
        except LlmcliError as error:
            self._lose(f"{error.message}. {error.hint}" if error.hint else error.message)
        except Exception as error:  # noqa: BLE001 - a fault of ours in the log is no reason to lose the answer
            self._lose(f"{paths.display(paths.log_file())} cannot be used: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Say how many records were lost, if any; the recorder may be used again."""
        if self._unsaid:
            console.say(self._unsaid)
            self._unsaid = ""
        if self._lost:
            what = "1 request is" if self._lost == 1 else f"{self._lost} requests are"
            console.say(f"notice: {what} not in the log")
            self._lost = 0

    def _lose(self, why: str) -> None:
        self._lost += 1
        if self._lost > 1:
            return
        notice = f"notice: the request log cannot be written: {why}"
        if self._at_once:
            console.say(notice)
        else:
            self._unsaid = notice
