"""What one call of `llmcli chat` asks for."""

from dataclasses import dataclass
from pathlib import Path

from llmcli.chat.prompt import PromptSources
from llmcli.cli.options import ModelOptions, Stats
from llmcli.inference import SamplingOptions


@dataclass(frozen=True, slots=True)
class Question:
    """One `llmcli chat` call: what to ask, whom, and how to show what comes of it."""

    model: str | None
    registry: Path | None
    loading: ModelOptions
    sources: PromptSources
    sampling: SamplingOptions
    stop: tuple[str, ...]
    stream: bool
    json: bool
    stats: Stats
    explain: bool
