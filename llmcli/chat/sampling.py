"""Which sampling values are in force, and where each came from."""

import secrets

from llmcli.inference import Sampling, SamplingOptions
from llmcli.sampling_rules import MAX_NEW_TOKENS

_DEFAULTS = SamplingOptions(
    temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, repetition_penalty=1.0, max_new_tokens=MAX_NEW_TOKENS
)
_UNSET = SamplingOptions()
_FILTERS = ("top_p", "top_k", "min_p", "seed")


def greedy_notice(flags: SamplingOptions, sampling: Sampling) -> str:
    """A notice about values that were given although greedy decoding ignores them; empty where there are none."""
    given = [f"--{name.replace('_', '-')}" for name in _FILTERS if getattr(flags, name) is not None]
    if not (given and sampling.greedy):
        return ""
    verb = "is" if len(given) == 1 else "are"
    return f"notice: {', '.join(given)} {verb} without effect: at temperature 0 the most likely token is always taken"


def resolve_sampling(
    flags: SamplingOptions,
    entry: SamplingOptions,
    model: SamplingOptions,
    chosen: SamplingOptions = _UNSET,
) -> Sampling:
    """`/set` > flag > models.toml entry > generation_config.json > default, value by value.

    Sampling without a seed gets one drawn, so that any answer can be repeated from its record.
    """
    sources = (
        ("/set", chosen),
        ("flag", flags),
        ("models.toml", entry),
        ("generation_config.json", model),
        ("default", _DEFAULTS),
    )
    values: dict[str, float | int | None] = {}
    origins: dict[str, str] = {}
    for name in SamplingOptions.__dataclass_fields__:
        origin, value = next(((o, v) for o, s in sources if (v := getattr(s, name)) is not None), ("default", None))
        values[name], origins[name] = value, origin
    if values["temperature"] != 0 and values["seed"] is None:
        values["seed"], origins["seed"] = secrets.randbits(32), "drawn"
    return Sampling(**values, origins=origins)  # type: ignore[arg-type]
