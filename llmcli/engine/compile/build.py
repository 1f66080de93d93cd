"""From a recipe to compiled code, without the model's weights."""

import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from llmcli.engine.compile.join import join_projections
from llmcli.engine.compile.linear import write_out_linears
from llmcli.engine.compile.recipe import Recipe, facts, versions
from llmcli.engine.compile.skeleton import EXAMPLE_TOKENS, skeleton
from llmcli.engine.compile.store import CODE, CONSTANTS, Meta
from llmcli.engine.decode.arguments import Arguments
from llmcli.engine.decode.step import DecodeStep, dynamic_shapes, kind_of, tensors_of, windows_of

_LONGEST_EXPRESSION = 10
"""Operations that are computed again wherever their result is read. The query is read once per key: with inductor's own
threshold its rotation, sines included, is computed for every one of them.
"""


@torch.no_grad()
def build(recipe: Recipe, directory: Path) -> Meta:
    """Write code and constants of the recipe's decode step into `directory`; raises what torch raises."""
    started = time.perf_counter()
    torch.set_num_threads(recipe.threads)  # the code is made for this number
    model, cache = skeleton(recipe)
    step = DecodeStep(model, windows_of(cache)).eval()
    ids = torch.zeros((recipe.rows, 1), dtype=torch.long)
    example = Arguments(cache).next(ids, EXAMPLE_TOKENS)
    program = torch.export.export(step, example, dynamic_shapes=tuple(dynamic_shapes(step)), strict=False)
    module = program.module(check_guards=False)
    joined = join_projections(module)
    write_out_linears(module)
    constants = _compile(module, program.example_inputs[0], directory / CODE)
    _require_all(module, constants)
    given = {name: kind_of(tensor) for name, tensor in tensors_of(step).items()}
    own = {name: tensor for name, tensor in constants.items() if name not in given | joined}
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in own.items()}, directory / CONSTANTS)
    return Meta(facts(recipe), versions(), time.perf_counter() - started, given, joined)


def _require_all(module: Any, constants: dict[str, torch.Tensor]) -> None:
    """Raise RuntimeError when the compiler has written values of the skeleton, which mean nothing, into the code."""
    read = {node.target for node in module.graph.nodes if node.op == "get_attr" and node.users}
    if lost := sorted(read - constants.keys()):
        raise RuntimeError(f"the compiled step does not read {', '.join(lost[:3])}")


def _compile(module: Any, example: tuple[Any, ...], path: Path) -> dict[str, torch.Tensor]:
    """Write the package; returns the tensors that its code is to be given, weights and others, by name."""
    from torch._inductor import aot_compile
    from torch._inductor.package.package import package_aoti

    options = {
        "aot_inductor.package": True,
        "aot_inductor.package_constants_in_so": False,
        "aot_inductor.package_constants_on_disk_format": "pickle_weights",
        "realize_opcount_threshold": _LONGEST_EXPRESSION,
        # Weights of the skeleton have no values that could be written into the code.
        "always_keep_tensor_constants": True,
        "joint_graph_constant_folding": False,
        "aot_inductor.precompile_headers": False,  # takes longer than it saves where nothing is compiled twice
    }
    made: Any = aot_compile(module, example, options=options)
    package_aoti(str(path), [one for one in made if isinstance(one, str)])
    return {name: tensor for one in made if isinstance(one, dict) for name, (tensor, _) in one.items()}
