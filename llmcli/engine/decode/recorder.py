"""What a captured decode step asks of a device."""

from collections.abc import Callable
from typing import Protocol

import torch

Replay = Callable[[], None]
"""Asks the device to do recorded work again, and does not wait for it."""


class Mail(Protocol):
    """Ids on their way from the device to the host, in order; at most two at a time."""

    def hold(self) -> None:
        """Let the device wait until what was sent last has left, before it is overwritten."""
        ...

    def send(self, ids: torch.Tensor) -> None:
        """Send ids (rows,) off once the device has made them; does not wait."""
        ...

    def receive(self) -> list[int]:
        """The oldest ids that were sent; waits for them."""
        ...

    def discard(self) -> None:
        """Forget what was sent and not received."""
        ...


class Recorder(Protocol):
    """Records work on the device, to do it again without Python. One serves the graphs of one program."""

    def record(self, work: Replay, random: torch.Generator | None = None) -> Replay:
        """Run `work` a few times and record it; what it reads and writes stays where it is. random: where it draws.

        Raises what `work` raises, and RuntimeError for work that cannot be recorded.
        """
        ...

    def mail(self, rows: int) -> Mail:
        """A way for the ids of `rows` sequences."""
        ...
