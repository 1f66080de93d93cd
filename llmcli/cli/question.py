"""What one call of `llmcli chat` asks for."""

from dataclasses import dataclass
from pathlib import Path

from llmcli.chat.prompt import PromptSources
from llmcli.cli.options import ModelOptions, Stats
from llmcli.inference import SamplingOptions


@dataclass(frozen=True, slots=True)
class Display:
    """How the answer is shown: streamed or at once, as JSON, text or Markdown, and which figures after it."""

    stream: bool
    plain: bool
    json: bool
    stats: Stats
    explain: bool


@dataclass(frozen=True, slots=True)
class Question:
    """One `llmcli chat` call: what to ask, whom, and how to show what comes of it."""

    model: str | None
    registry: Path | None
    loading: ModelOptions
    sources: PromptSources
    sampling: SamplingOptions
    stop: tuple[str, ...]
    display: Display
    log: bool = True
