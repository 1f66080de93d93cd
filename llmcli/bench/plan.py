"""What is measured."""

from dataclasses import dataclass

from llmcli.errors import UsageError


@dataclass(frozen=True, slots=True)
class Plan:
    """Exact token counts and how often: `prompt_len` ids in, `out_len` ids out, fresh ids every time.

    warmup: unmeasured repetitions before the measured ones.
    """

    prompt_len: int
    out_len: int
    repeats: int
    warmup: int

    def __post_init__(self) -> None:
        for flag, value, least in (
            ("--prompt-len", self.prompt_len, 1),
            ("--out-len", self.out_len, 1),
            ("--repeats", self.repeats, 1),
            ("--warmup", self.warmup, 0),
        ):
            if value < least:
                raise UsageError(f"{flag} {value} is not allowed", f"Allowed: a whole number from {least}.")

    @property
    def tokens(self) -> int:
        """Tokens that one repetition holds in the context."""
        return self.prompt_len + self.out_len

    @property
    def name(self) -> str:
        """The test in one word, as llama-bench writes it."""
        return f"pp{self.prompt_len}+tg{self.out_len} @ d0 b1"


def require_context(plan: Plan, limit: int, whose: str) -> None:
    """Raise UsageError with both numbers when a repetition does not fit `limit` tokens."""
    if plan.tokens > limit:
        raise UsageError(
            f"--prompt-len {plan.prompt_len} and --out-len {plan.out_len} need {plan.tokens} tokens, "
            f"the context of {whose} holds {limit}",
            "Lower one of them.",
        )
