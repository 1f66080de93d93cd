"""Matrix times a few vectors, written out: a linear layer that reads its weights as fast as memory gives them.

At a few rows the libraries behind `linear` use a half of the bandwidth of a CPU in bfloat16, or less; a loop over the
weight that a compiler vectorizes uses nearly all of it.
"""

import math
import operator

import torch
from torch.fx import GraphModule, Node

from llmcli.engine.compile.nodes import calls_of, put_in_place, value_of

_LINEAR = torch.ops.aten.linear.default
_ATEN = torch.ops.aten

_FEW_ROWS = 4
"""Rows up to which a loop is faster than a library's product. At 8 both are as fast, and loops compile longer."""


def write_out_linears(module: GraphModule) -> int:
    """Replace the linear layers of a traced step that have few rows; returns how many there were."""
    ours = [node for node in calls_of(module, _LINEAR) if _has_few_rows(node)]
    for node in ours:
        with module.graph.inserting_before(node):
            written = _written_out(module, node)
        put_in_place(written, node)
    module.graph.lint()
    module.recompile()
    return len(ours)


def _has_few_rows(node: Node) -> bool:
    x, weight = (value_of(at) for at in node.args[:2])
    return weight.dim() == 2 and math.prod(x.shape[:-1]) <= _FEW_ROWS


def _written_out(module: GraphModule, node: Node) -> Node:
    """(x · w) summed over the last dimension in float32, rounded once: x (..., in), w (out, in).

    Each row is a sum of its own: loops over the same weight become one, which reads it once for all rows.
    """
    x, weight, *bias = node.args
    call = module.graph.call_function
    value, (*lead, size) = value_of(node), value_of(x).shape
    count = math.prod(lead)
    rows = call(_ATEN.reshape.default, (call(_ATEN.to.dtype, (x, torch.float32)), [count, size]))
    wide = call(_ATEN.to.dtype, (weight, torch.float32))
    sums = []
    for at in range(count):
        product = call(_ATEN.mul.Tensor, (call(_ATEN.slice.Tensor, (rows, 0, at, at + 1)), wide))
        sums.append(call(_ATEN.sum.dim_IntList, (product, [-1])))
    total = call(_ATEN.stack.default, (sums,))
    if bias and bias[0] is not None:
        total = call(operator.add, (total, bias[0]))
    narrow = call(_ATEN.to.dtype, (total, value.dtype))
    return call(_ATEN.reshape.default, (narrow, list(value.shape)))
