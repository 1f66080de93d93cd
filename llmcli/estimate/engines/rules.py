"""What an engine's rules have to tell."""

from typing import Protocol

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.dtypes import Format
from llmcli.estimate.layers import Layers


class Engine(Protocol):
    """The rules of one engine, for the version that they hold for."""

    @property
    def name(self) -> str:
        """As `--engine` writes it."""

    @property
    def version(self) -> str:
        """The version that the rules hold for."""

    @property
    def step(self) -> int | None:
        """Prompt tokens per forward that it reserves for; None where the model type decides."""

    def reading(self, chunk: int) -> "Engine":
        """The same engine, told to compute `chunk` prompt tokens at once."""

    def on(self, vram: tuple[int, ...] | None) -> "Engine":
        """The same engine with the settings that it chooses for devices of this memory; None: not told."""

    def kv_format(self, text: str) -> Format:
        """The KV format that `--kv-dtype` names. Raises UsageError for one that the engine does not have."""

    def storage(self, model: Architecture, kv: Format, dtype: str) -> Layers:
        """What every layer holds. kv: the format of keys and values; dtype: torch's name of what the model runs in."""

    def default_kv(self, dtype: str) -> str:
        """What it keeps keys and values in when nothing is asked, as `kv_format` takes it. dtype: the model's."""

    def inexact(self, model: Architecture) -> tuple[str, ...]:
        """Why its sizes of `model` are near the truth, or above it, instead of equal to it; empty where they are equal.

        What `model.inexact` says already is not said again.
        """

    def assumptions(self, model: Architecture) -> tuple[str, ...]:
        """The settings that its sizes of `model` hold for, beyond context, batch and KV format."""
