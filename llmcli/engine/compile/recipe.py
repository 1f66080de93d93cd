"""What a compiled decode step is made for. It holds no weights: two models of one shape share it."""

import hashlib
import importlib.metadata
import platform
from dataclasses import asdict, dataclass

import msgspec

from llmcli import __version__

FORMAT = 2
"""Of the files in a package's directory, and of what is made of a step before it is compiled."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that the compiled code depends on; a package serves exactly one.

    config: the text of config.json, from which shapes and attention windows follow. rows: sequences of a batch. cpu:
    what `cpu_name` calls the instructions. kinds: names of tensors whose dtype is not `dtype`, with theirs.
    """

    config: str
    quant: str
    dtype: str
    rows: int
    threads: int
    cpu: str
    device: str = "cpu"
    kinds: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """A name for the package: equal for equal recipes under the same versions of everything that is in it."""
        facts = {"recipe": asdict(self), "versions": versions(), "machine": platform.machine(), "format": FORMAT}
        return hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()[:24]

    @property
    def model_key(self) -> str:
        """A name for the model's shape, whatever it is loaded in."""
        return model_key(self.config)


def model_key(config: str) -> str:
    """A name for the shape that a config.json describes."""
    return hashlib.sha256(config.encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Of what the compiled code is made by and of."""
    return {name: importlib.metadata.version(name) for name in ("torch", "transformers")} | {"llmcli": __version__}


def encode(recipe: Recipe) -> bytes:
    """As JSON."""
    return msgspec.json.encode(recipe)


def decode(data: bytes) -> Recipe:
    """From JSON; raises msgspec.MsgspecError for anything else."""
    return msgspec.json.decode(data, type=Recipe)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a person is told of a recipe; the fields are those of `Recipe`."""

    quant: str
    dtype: str
    rows: int
    threads: int
    cpu: str
    device: str


def facts(recipe: Recipe) -> Facts:
    """What a person is told of it."""
    return Facts(recipe.quant, recipe.dtype, recipe.rows, recipe.threads, recipe.cpu, recipe.device)
