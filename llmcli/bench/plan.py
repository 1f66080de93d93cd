"""What is measured."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from llmcli.errors import UsageError


@dataclass(frozen=True, slots=True)
class Plan:
    """One test: exact token counts and how often. `prompt_len` ids in, `out_len` ids out, fresh ids every time.

    warmup: unmeasured repetitions before the measured ones. depth: ids that the cache holds before the clock starts.
    batch: sequences at once, each of them as long.
    """

    prompt_len: int
    out_len: int
    repeats: int
    warmup: int
    depth: int = 0
    batch: int = 1

    def __post_init__(self) -> None:
        for flag, value, least in (
            ("--prompt-len", self.prompt_len, 1),
            ("--out-len", self.out_len, 1),
            ("--repeats", self.repeats, 1),
            ("--warmup", self.warmup, 0),
            ("--depth", self.depth, 0),
            ("--batch", self.batch, 1),
        ):
            if value < least:
                raise UsageError(f"{flag} {value} is not allowed", f"Allowed: a whole number from {least}.")

    @property
    def tokens(self) -> int:
        """Tokens of each sequence that one repetition runs: those of the prompt, and those of the answer."""
        return self.prompt_len + self.out_len

    @property
    def context(self) -> int:
        """Tokens of each sequence that one repetition holds in the context."""
        return self.depth + self.tokens

    @property
    def name(self) -> str:
        """The test in one word, as llama-bench writes it."""
        return f"pp{self.prompt_len}+tg{self.out_len} @ d{self.depth} b{self.batch}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Values of which every combination is one test."""

    prompt_lens: tuple[int, ...]
    out_lens: tuple[int, ...]
    depths: tuple[int, ...]
    batches: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of tests."""
        return len(self.prompt_lens) * len(self.out_lens) * len(self.depths) * len(self.batches)

    def plans(self, repeats: int, warmup: int) -> tuple[Plan, ...]:
        """All tests, the batch changing first."""
        combinations = itertools.product(self.prompt_lens, self.out_lens, self.depths, self.batches)
        return tuple(Plan(prompt, out, repeats, warmup, depth, batch) for prompt, out, depth, batch in combinations)


def longest(plans: Iterable[Plan]) -> Plan:
    """The test that holds most tokens of each sequence in the context."""
    return max(plans, key=lambda plan: plan.context)


def require_context(plan: Plan, limit: int, whose: str) -> None:
    """Raise UsageError with all numbers when a repetition does not fit `limit` tokens."""
    if plan.context <= limit:
        return
    depth = f"--depth {plan.depth}, " if plan.depth else ""
    raise UsageError(
        f"{depth}--prompt-len {plan.prompt_len} and --out-len {plan.out_len} need {plan.context} tokens, "
        f"the context of {whose} holds {limit}",
        "Lower one of them.",
    )
