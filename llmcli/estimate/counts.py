"""Numbers of parameters, and the parts that models are built from.

A count keeps apart what sizes depend on: weights of linear layers, which bitsandbytes quantizes, and weights of routed
experts, which transformers keeps as 3-D parameters that bitsandbytes leaves alone.
"""

from dataclasses import dataclass, replace

from llmcli.load_rules import int4_takes


@dataclass(frozen=True, slots=True)
class Count:
    """Parameters of a part of a model.

    total: all of them. linear: weights of the decoder's linear layers, without biases; rows: their output channels.
    even: those of them in linear layers of torch whose sizes int4 takes. head: weights of the output head;
    outputs: its rows; tied: those weights of it that are the embedding as well.
    experts: parameters of routed experts, all resident. idle: those of the experts that one token does not use.
    used: the experts that one token uses, of every layer.
    """

    total: int = 0
    linear: int = 0
    rows: int = 0
    even: int = 0
    head: int = 0
    outputs: int = 0
    tied: int = 0
    experts: int = 0
    idle: int = 0
    used: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(
            self.total + other.total,
            self.linear + other.linear,
            self.rows + other.rows,
            self.even + other.even,
            self.head + other.head,
            self.outputs + other.outputs,
            self.tied + other.tied,
            self.experts + other.experts,
            self.idle + other.idle,
            self.used + other.used,
        )

    def __mul__(self, times: int) -> "Count":
        return Count(
            self.total * times,
            self.linear * times,
            self.rows * times,
            self.even * times,
            self.head * times,
            self.outputs * times,
            self.tied * times,
            self.experts * times,
            self.idle * times,
            self.used * times,
        )

    @property
    def active(self) -> int:
        """Parameters that one token's forward uses, embedding and head included."""
        return self.total - self.idle


NOTHING = Count()


def tensor(*shape: int) -> Count:
    """One tensor that is no linear layer: a norm, an embedding, a bias, a convolution, a 3-D parameter."""
    size = 1
    for width in shape:
        size *= width
    return Count(total=size)


def linear(inputs: int, outputs: int, *, bias: bool = False) -> Count:
    """A linear layer of the decoder: weights (outputs, inputs), and a bias per output channel."""
    weights = inputs * outputs
    return replace(linear_weights(weights, inputs, outputs), total=weights + (outputs if bias else 0))


def linear_weights(weights: int, inputs: int, outputs: int) -> Count:
    """Weights of one linear layer of these sizes."""
    return Count(weights, linear=weights, rows=outputs, even=weights if int4_takes(outputs, inputs) else 0)


def embeddings(rows: int, width: int, *, tied: bool, outputs: int | None = None) -> Count:
    """Embedding and output head; tied: they are one tensor. outputs: rows of the head, None: as many."""
    outputs = outputs or rows
    head = outputs * width
    total = rows * width + (0 if tied else head)
    return Count(total, head=head, outputs=outputs, tied=head if tied else 0)


def gated_mlp(hidden: int, width: int, *, bias: bool = False) -> Count:
    """Gate, up and down projection."""
    return linear(hidden, width, bias=bias) * 2 + linear(width, hidden, bias=bias)


def joint_mlp(hidden: int, width: int) -> Count:
    """Gate and up projection in one, and down projection."""
    return linear(hidden, 2 * width) + linear(width, hidden)


def plain_mlp(hidden: int, width: int, *, bias: bool = False) -> Count:
    """Up and down projection."""
    return linear(hidden, width, bias=bias) + linear(width, hidden, bias=bias)


def routed_experts(number: int, used: int, each: int) -> Count:
    """`number` experts of `each` parameters in 3-D tensors, of which a token uses `used`."""
    return Count(total=number * each, experts=number * each, idle=max(0, number - used) * each, used=min(number, used))
