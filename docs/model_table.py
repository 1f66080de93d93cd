"""The table of well-known models in sizing.md: every model of the catalogue, sized by the estimate itself."""

from collections.abc import Iterator

from llmcli.estimate import catalogue
from llmcli.estimate.config import Config
from llmcli.estimate.dtypes import FLOATS
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import Layers, asymptotic_token_bytes, first_token_bytes, fixed_bytes, steady_bytes
from llmcli.models.registry import load_registry
from llmcli.models.source import HubSource
from llmcli.units import MIB, bytes_text, count_text

CONTEXT = 32768
HEAD = (
    "name", "parameters", "of them active", "KV per token", "in the long run", "fixed",
    "KV at 32k", "in llama.cpp", "in vLLM",
)  # fmt: skip


def model_table() -> str:
    """Markdown, one row per model, the largest last."""
    rows = sorted(_rows(), key=lambda row: row[0])
    lines = [_line(HEAD), _line(["---", *["---:"] * (len(HEAD) - 1)])]
    return "\n".join(lines + [_line(cells) for _, cells in rows]) + "\n"


def _rows() -> Iterator[tuple[int, list[str]]]:
    for name, key in _named():
        model = from_config(Config(name, catalogue.row_of(key) or {}))
        layers = {engine: rules.storage(model, FLOATS["float16"], "float16") for engine, rules in ENGINES.items()}
        own = layers["transformers"]
        active = "" if model.active_params == model.params else count_text(model.active_params)
        yield (
            model.params,
            [
                f"`{name}`",
                count_text(model.params),
                active,
                _kib(first_token_bytes(own)),
                _kib(asymptotic_token_bytes(own)),
                f"{fixed_bytes(own) / MIB:.1f} MiB" if fixed_bytes(own) else "",
                bytes_text(steady_bytes(own, CONTEXT)),
                _other(layers["llama.cpp"], own),
                _other(layers["vllm"], own),
            ],
        )


def _named() -> Iterator[tuple[str, str]]:
    registry = load_registry()
    for alias in registry.names():
        source = registry.entry(alias).parsed_source()
        if isinstance(source, HubSource) and source.repo:
            yield alias, source.repo
    yield from ((name, catalogue.repository_named(name) or "") for name in catalogue.names())


def _kib(size: int) -> str:
    return f"{size / 1024:.1f} KiB" if size else "0"


def _other(layers: Layers, own: Layers) -> str:
    theirs, ours = steady_bytes(layers, CONTEXT), steady_bytes(own, CONTEXT)
    return "the same" if abs(theirs - ours) <= 0.005 * ours else bytes_text(theirs)


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"
