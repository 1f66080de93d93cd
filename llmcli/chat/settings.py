"""What can be changed while a conversation runs: `/set NAME VALUE`."""

import difflib
import shlex
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from llmcli.chat.sampling import resolve_sampling
from llmcli.errors import UsageError
from llmcli.inference import Sampling, SamplingOptions
from llmcli.sampling_rules import RULES, broken_rule

StatsLevel = Literal["off", "line", "full"]
SAMPLING = tuple(option.name for option in fields(SamplingOptions))
NAMES = (*SAMPLING, "stop", "stats")
_WHOLE = {"top_k", "seed", "max_new_tokens"}


@dataclass(frozen=True, slots=True)
class Settings:
    """chosen, chosen_stop, chosen_stats: what `/set` says; entry: models.toml; the others: the command line.

    stop: texts that end an answer. stats: what follows every answer.
    """

    flags: SamplingOptions
    entry: SamplingOptions
    flag_stop: tuple[str, ...] = ()
    flag_stats: StatsLevel = "line"
    chosen: SamplingOptions = field(default_factory=SamplingOptions)
    chosen_stop: tuple[str, ...] | None = None
    chosen_stats: StatsLevel | None = None

    @property
    def stop(self) -> tuple[str, ...]:
        """The texts in force."""
        return self.flag_stop if self.chosen_stop is None else self.chosen_stop

    @property
    def stats(self) -> StatsLevel:
        """The level in force."""
        return self.chosen_stats or self.flag_stats

    def sampling(self, model: SamplingOptions) -> Sampling:
        """The values in force; `model`: those of generation_config.json."""
        return resolve_sampling(self.flags, self.entry, model, chosen=self.chosen)

    def rows(self, model: SamplingOptions) -> dict[str, str]:
        """Every setting's name with the value in force and where that comes from; `model`: as for `sampling`."""
        sampling = self.sampling(model)
        shown = {name: _in_force(getattr(sampling, name), sampling.origins[name]) for name in SAMPLING}
        return {**shown, "stop": " ".join(map(repr, self.stop)) or "(none)", "stats": self.stats}

    def shown(self, name: str, model: SamplingOptions) -> str:
        """`name` and its row."""
        name = _normal(name)
        return f"{name} {self.rows(model)[name]}"

    def changed(self, name: str, text: str) -> "Settings":
        """With `name` set to what `text` says; `default` takes it back. Raises UsageError saying what is allowed."""
        name = _normal(name)
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            raise UsageError(
                f"there is no setting {name!r}" + (f"; the nearest is {near[0]}" if near else ""),
                f"Settings: {', '.join(NAMES)}.",
            )
        if not text:
            raise UsageError(f"/set {name} needs a value", f"Allowed: {_allowed(name)}; or default.")
        if name == "stats":
            return replace(self, chosen_stats=None if text == "default" else _stats(text))
        if name == "stop":
            return replace(self, chosen_stop=None if text == "default" else _stops(text))
        value: Any = None if text == "default" else _number(name, text)
        return replace(self, chosen=replace(self.chosen, **{name: value}))


def _normal(name: str) -> str:
    return name.lower().replace("-", "_")


def _in_force(value: float | None, origin: str) -> str:
    if value is None:
        return "(none)"
    return "drawn for every answer" if origin == "drawn" else f"{value} ({origin})"


def _allowed(name: str) -> str:
    if name in RULES:
        return RULES[name][1]
    return ", ".join(get_args(StatsLevel)) if name == "stats" else "texts that end the answer, in quotes"


def _stats(text: str) -> StatsLevel:
    for level in get_args(StatsLevel):
        if text.lower() == level:
            chosen: StatsLevel = level
            return chosen
    raise UsageError(f"stats {text!r} is not allowed", f"Allowed: {_allowed('stats')}.")


def _stops(text: str) -> tuple[str, ...]:
    try:
        stops = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"stop {text}: {error}", 'Put each text in quotes: /set stop "END" "###"') from None
    if "" in stops:
        raise UsageError("an empty stop text is not allowed", "Give a text of at least one character.")
    return stops


def _number(name: str, text: str) -> float | int:
    try:
        value = int(text) if name in _WHOLE else float(text)
    except ValueError:
        kind = "whole number" if name in _WHOLE else "number"
        raise UsageError(f"{name} {text!r} is no {kind}", f"Allowed: {_allowed(name)}.") from None
    if allowed := broken_rule(name, value):
        raise UsageError(f"{name} {text} is not allowed", f"Allowed: {allowed}.")
    return value
