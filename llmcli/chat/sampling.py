"""Which sampling values are in force, and where each came from."""

import secrets

from llmcli.inference import Sampling, SamplingOptions
from llmcli.sampling_rules import MAX_NEW_TOKENS

_DEFAULTS = SamplingOptions(
    temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, repetition_penalty=1.0, max_new_tokens=MAX_NEW_TOKENS
)


def resolve_sampling(flags: SamplingOptions, entry: SamplingOptions, model: SamplingOptions) -> Sampling:
    """Flag > models.toml entry > generation_config.json > default, value by value.

    Sampling without a seed gets one drawn, so that any answer can be repeated from its record.
    """
    sources = (("flag", flags), ("models.toml", entry), ("generation_config.json", model), ("default", _DEFAULTS))
    values: dict[str, float | int | None] = {}
    origins: dict[str, str] = {}
    for name in SamplingOptions.__dataclass_fields__:
        origin, value = next(((o, v) for o, s in sources if (v := getattr(s, name)) is not None), ("default", None))
        values[name], origins[name] = value, origin
    if values["temperature"] != 0 and values["seed"] is None:
        values["seed"], origins["seed"] = secrets.randbits(32), "drawn"
    return Sampling(**values, origins=origins)  # type: ignore[arg-type]
