"""Matrix times vector, written out: the form of a linear layer that reads its weights as fast as memory gives them.

At one row the libraries behind `linear` use about half of the bandwidth of a CPU in bfloat16; a loop over the rows of
the weight that a compiler vectorizes uses nearly all of it.
"""

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

_LINEAR = torch.ops.aten.linear.default
_ATEN = torch.ops.aten


def write_out_linears(module: GraphModule) -> int:
    """Replace the linear layers of a traced step that has one row; returns how many there were."""
    nodes = [node for node in module.graph.nodes if node.op == "call_function" and node.target is _LINEAR]
    ours = [node for node in nodes if _one_row(node)]
    for node in ours:
        with module.graph.inserting_before(node):
            node.replace_all_uses_with(_written_out(module, node))
        module.graph.erase_node(node)
    module.graph.lint()
    module.recompile()
    return len(ours)


def _one_row(node: Node) -> bool:
    shape = _value(node.args[0]).shape
    return all(size == 1 for size in shape[:-1]) and _value(node.args[1]).dim() == 2


def _value(node: Any) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value


def _written_out(module: GraphModule, node: Node) -> Node:
    """(x · w) summed over the last dimension in float32, rounded once: x (..., 1, in), w (out, in)."""
    x, weight, *bias = node.args
    call = module.graph.call_function
    value = _value(node)
    wide = call(_ATEN.to.dtype, (x, torch.float32))
    row = call(_ATEN.reshape.default, (wide, [1, _value(x).shape[-1]]))
    product = call(_ATEN.mul.Tensor, (row, call(_ATEN.to.dtype, (weight, torch.float32))))
    total = call(_ATEN.sum.dim_IntList, (product, [-1]))
    if bias and bias[0] is not None:
        total = call(operator.add, (total, bias[0]))
    narrow = call(_ATEN.to.dtype, (total, value.dtype))
    return call(_ATEN.reshape.default, (narrow, list(value.shape)))
