"""The decode path of a step that was compiled ahead of time."""

from collections.abc import Sequence
from typing import Any

import torch
from safetensors.torch import load_file

from llmcli.engine.compile.join import joined_tensors
from llmcli.engine.compile.store import Package
from llmcli.engine.decode.arguments import Arguments
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.path import Ids
from llmcli.engine.decode.step import DecodeStep, kind_of, tensors_of
from llmcli.engine.sample import Sampler
from llmcli.errors import LlmcliError
from llmcli.inference import DecodeName


class CompiledStep:
    """A package's code with the weights of the model in memory, which it reads where they lie."""

    def __init__(self, package: Package, model: Any, windows: Sequence[int | None]) -> None:
        """Raises LlmcliError when code and model do not go together, and what torch raises for code it cannot load."""
        tensors = {name: tensor.detach() for name, tensor in tensors_of(DecodeStep(model, windows)).items()}
        _require_same(package, tensors)
        self._loader = torch._C._aoti.AOTIModelPackageLoader(str(package.code), "model", False, 1, -1)
        tensors |= load_file(package.constants) | joined_tensors(package.meta.joined, tensors)
        self._tensors = {name: tensors[name] for name in self._loader.get_constant_fqns()}  # they must stay alive
        self._loader.load_constants(self._tensors, False, True, True)

    def __call__(self, arguments: Sequence[Any]) -> torch.Tensor:
        """The logits (rows, vocabulary) of one step, for what `Arguments.next` gives."""
        ids, position, *lists = arguments
        ids = ids.contiguous()  # the code reads one id after the other
        logits: torch.Tensor = self._loader.run([ids, position, *(tensor for some in lists for tensor in some)])[0]
        return logits


def _require_same(package: Package, tensors: dict[str, torch.Tensor]) -> None:
    for name, kind in package.meta.tensors.items():
        found = kind_of(tensors[name]) if name in tensors else "nothing"
        if found != kind:
            raise LlmcliError(f"the compiled step wants {kind} for {name}, the model has {found}")


class CompiledPath:
    """Prompts are read by the model as it is, every later token by the compiled step, on the same cache."""

    name: DecodeName = "compiled"

    def __init__(self, step: CompiledStep, model: Any, cache: Any, sampler: Sampler) -> None:
        self._step = step
        self._model = model
        self._cache = cache
        self._sampler = sampler
        self._arguments: Arguments | None = None
        self._position = 0
        self.steps = self.drafted = self.accepted = 0

    def prefill(self, ids: torch.Tensor) -> torch.Tensor:
        """See `DecodePath.prefill`."""
        return forward(self._model, ids, self._cache)

    def first(self, logits: torch.Tensor) -> Ids:
        """See `DecodePath.first`."""
        self._arguments, self._position = Arguments(self._cache), self._cache.get_seq_length()
        return self._sampler(logits)

    def step(self, last: Ids) -> Sequence[Ids]:
        """See `DecodePath.step`."""
        assert self._arguments is not None  # noqa: S101 - `first` comes before any step
        ids = torch.tensor(last).view(-1, 1)
        logits = self._step(self._arguments.next(ids, self._position))
        self._arguments.wrote()
        self._position += 1
        self.steps += 1
        return (self._sampler(logits),)

    def settle(self, tokens: int) -> None:
        """See `DecodePath.settle`; nothing was forwarded beyond what was asked for."""
        del tokens
        if self._arguments is not None:
            self._arguments.commit()
