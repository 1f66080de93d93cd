"""The compiled steps of a loaded model: found, given its weights, checked against eager, timed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from llmcli.engine.cache import new_cache
from llmcli.engine.checkpoint import dtype_name
from llmcli.engine.compile import store
from llmcli.engine.compile.cpu import cpu_name
from llmcli.engine.compile.recipe import Recipe
from llmcli.engine.compile.store import Package
from llmcli.engine.decode.agreement import TRIAL_TOKENS, Trial, require_agreement
from llmcli.engine.decode.arguments import Arguments
from llmcli.engine.decode.compiled import CompiledStep
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.step import windows_of
from llmcli.errors import LlmcliError

_ROUNDS = 5


@dataclass(slots=True)
class Timed:
    """A step that may be used, and what it and an eager one took, in milliseconds."""

    step: CompiledStep
    eager_ms: float
    compiled_ms: float

    @property
    def pays(self) -> bool:
        """Whether it is the faster one."""
        return self.compiled_ms < self.eager_ms


class CompiledSteps:
    """At most one step per number of rows. Only the inference thread touches it.

    recipe: what has to be compiled for batches of so many rows. refusal: why this model has none, in words; None where
    it may. forced: used even where eager is faster. warnings: what a person has to know of packages that were there and
    are not used.
    """

    def __init__(self, model: Any, recipe: Callable[[int], Recipe], *, refusal: str | None, forced: bool) -> None:
        self._model = model
        self.recipe = recipe
        self._ready: dict[int, Timed] = {}
        self._failed: dict[int, str] = {}
        self.refusal = refusal
        self.forced = forced
        self.warnings: list[str] = []

    def ready(self, rows: int) -> CompiledStep | None:
        """The step for batches of `rows`, where there is one and it is worth it."""
        timed = self._ready.get(rows)
        return timed.step if timed is not None and (timed.pays or self.forced) else None

    def reason(self, rows: int) -> str | None:
        """Why there is none that is used, in words; None where there is one, or none was made yet."""
        if self.refusal is not None:
            return self.refusal
        timed = self._ready.get(rows)
        if timed is not None and self.ready(rows) is None:
            return f"a compiled step takes {timed.compiled_ms:.1f} ms, an eager one {timed.eager_ms:.1f} ms"
        return self._failed.get(rows)

    def missing(self, rows: int) -> bool:
        """Whether one has still to be made."""
        return self.refusal is None and rows not in self._ready and rows not in self._failed

    def adopt(self, rows: int) -> None:
        """Take the step into use that lies in the cache by now, if one does; what is wrong with it is a `reason`."""
        if not self.missing(rows):
            return
        try:
            package = store.find(self.recipe(rows))
            if package is not None:
                self._take(package, rows)
        except store.DamagedError as error:
            self.warnings.append(error.message)
        except LlmcliError as error:
            self.warnings.append(f"decode is eager: {error.message}. {error.hint or ''}".strip())
            self._failed[rows] = f"{error.message} ({error.hint})" if error.hint else error.message
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a package, the model runs without it
            self._failed[rows] = f"the compiled step cannot be loaded: {' '.join(str(error).split())[:300]}"

    def forget(self, rows: int) -> None:
        """Throw away what cannot be used, so that it is made anew, and have the times of what can be taken again."""
        if self._failed.pop(rows, None) is not None:
            store.discard(self.recipe(rows))
        elif self._ready.pop(rows, None) is not None:
            store.forget_times(self.recipe(rows))

    def close(self) -> None:
        """Let go of all code; the loader removes then what it has unpacked for the time being."""
        self._ready.clear()

    @torch.inference_mode()
    def _take(self, package: Package, rows: int) -> None:
        if package.meta.reason is not None:
            self._failed[rows] = f"compiling failed: {package.meta.reason}; `llmcli models compile` tries again"
            return
        step = CompiledStep(package, self._model, windows_of(new_cache(self._model.config)))
        if package.meta.eager_ms is None or package.meta.compiled_ms is None:
            package = package.noted(*_times(step, Trial(self._model, rows)))
        eager, compiled = package.meta.eager_ms, package.meta.compiled_ms
        self._ready[rows] = Timed(step, eager or 0.0, compiled or 0.0)


def _times(step: CompiledStep, trial: Trial) -> tuple[float, float]:
    """Milliseconds of an eager and of a compiled step. Raises LlmcliError when their answers differ."""
    beside, arguments = trial.filled(), Arguments(trial.filled())
    eager, compiled = [], []
    for at in range(_ROUNDS):
        want, took = _timed(lambda: forward(trial.model, trial.last, beside))
        eager.append(took)
        got, took = _timed(lambda at=at: step(arguments.next(trial.last, TRIAL_TOKENS + at)))  # type: ignore[misc]
        compiled.append(took)
        arguments.wrote()
        require_agreement(got, want, "the compiled step")
    return min(eager), min(compiled)


def _timed(run: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
    started = time.perf_counter()
    return run(), (time.perf_counter() - started) * 1000


def recipe_of(path: Path, model: Any, quant: str, rows: int) -> Recipe:
    """What has to be compiled for a loaded model and batches of `rows`. Raises OSError without a config.json."""
    dtype = dtype_name(model.dtype)
    return Recipe(
        config=(path / "config.json").read_text(encoding="utf-8"),
        quant=quant,
        dtype=dtype,
        rows=rows,
        threads=torch.get_num_threads(),
        cpu=cpu_name(),
        device=model.device.type,
        kinds=tuple(
            (name, kind) for name, tensor in model.named_parameters() if (kind := dtype_name(tensor.dtype)) != dtype
        ),
    )
