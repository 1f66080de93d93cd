"""Mixtures of experts: what stands in place of the MLP in the sparse layers of a model.

Every token is routed to a few experts out of many; all of them are resident. Read in transformers 5.24's model classes:
routed experts are 3-D parameters there, `gate_up_proj` (experts, 2 × width, channels) and `down_proj` (experts,
channels, width), and the router a parameter (experts, channels), a linear layer in few classes. Shared experts, which
every token passes through, are an MLP of linear layers.

A model type's mixture is a `Mixture`: the keys that its config has for the parts. Called with a config and the number
of layers, it gives one `Experts` per sparse layer and None per dense one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from llmcli.errors import ModelError
from llmcli.estimate.config import Bias, Config
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, joint_mlp, linear, plain_mlp, routed_experts, tensor

NUMBER = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
USED = ("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk", "top_k_experts")
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")


@dataclass(frozen=True, slots=True)
class Experts:
    """The mixture of one layer.

    number, used: experts, and how many of them one token passes through. width: channels inside one; gated: it has
    gate, up and down projection, else up and down; bias: it has biases. linear_router: the router is a linear layer
    that bitsandbytes quantizes (it leaves classes derived from nn.Linear alone); router_bias: it has a bias;
    correction_bias: a parameter per expert that only the choice of experts reads (where it is a buffer instead, it is
    no parameter). identities: experts without parameters, which the router knows too. shared: channels inside the
    shared experts in all, 0: none; shared_bias: they have biases; shared_gate: a linear layer of one channel weighs
    them; shared_joint: their gate and up projection are one. latent: channels that the experts see, 0: those of the
    layer.
    """

    number: int
    used: int
    width: int
    gated: bool = True
    bias: bool = False
    linear_router: bool = False
    router_bias: bool = False
    correction_bias: bool = False
    identities: int = 0
    shared: int = 0
    shared_bias: bool = False
    shared_gate: bool = False
    shared_joint: bool = False
    latent: int = 0

    @property
    def token_width(self) -> int:
        """Channels inside the experts that one token passes through, shared ones included."""
        return self.used * self.width + self.shared

    def count(self, hidden: int) -> Count:
        """Parameters of the mixture in a layer of `hidden` channels."""
        experts = routed_experts(self.number, self.used, self._each(self.latent or hidden))
        projections = plain_mlp(hidden, self.latent) if self.latent else NOTHING
        return self._router(hidden) + projections + experts + self._shared(hidden)

    def _each(self, channels: int) -> int:
        parts = gated_mlp if self.gated else plain_mlp
        return parts(channels, self.width, bias=self.bias).total

    def _router(self, hidden: int) -> Count:
        routes = self.number + self.identities
        corrections = tensor(routes) if self.correction_bias else NOTHING
        if self.linear_router:
            return linear(hidden, routes, bias=self.router_bias) + corrections
        return tensor(hidden + (1 if self.router_bias else 0), routes) + corrections

    def _shared(self, hidden: int) -> Count:
        if not self.shared:
            return NOTHING
        if self.shared_joint:
            return joint_mlp(hidden, self.shared)
        parts = gated_mlp if self.gated else plain_mlp
        gate = linear(hidden, 1) if self.shared_gate else NOTHING
        return parts(hidden, self.shared, bias=self.shared_bias) + gate


LayerExperts = tuple[Experts | None, ...]
MixtureRule = Callable[[Config, int], LayerExperts]
SparseRule = Callable[[Config, int], tuple[bool, ...]]


def in_all(_config: Config, layers: int) -> tuple[bool, ...]:
    """Every layer is sparse."""
    return (True,) * layers


@dataclass(frozen=True, slots=True)
class Mixture:
    """How a model type's config describes its experts, equal in all sparse layers.

    number, used: aliases of the keys for them; width: the key. shared_number: aliases of the key for the number of
    shared experts, each as wide as a routed one; shared_width: the key for their width, that of all of them where there
    is no shared_number; both: the product. sparse: which layers have the experts. Flags are those of `Experts`; a bias
    is True, False or the key that decides it.
    """

    number: tuple[str, ...] = NUMBER
    used: tuple[str, ...] = USED
    width: str = "moe_intermediate_size"
    shared_number: tuple[str, ...] = ()
    shared_width: str | None = None
    sparse: SparseRule = in_all
    gated: bool = True
    bias: Bias = False
    linear_router: bool = False
    router_bias: Bias = False
    correction_bias: Bias = False
    identities: str | None = None
    shared_bias: Bias = False
    shared_gate: bool = False
    shared_joint: bool = False
    latent: str | None = None

    def __call__(self, config: Config, layers: int) -> LayerExperts:
        """The experts of every layer, None for a dense one. Raises ModelError that names what is missing or wrong."""
        sparse = self.sparse(config, layers)
        experts = self.experts(config) if any(sparse) else None
        return tuple(experts if here else None for here in sparse)

    def experts(self, config: Config, used: int | None = None) -> Experts:
        """The mixture of a sparse layer; used: where the layer has a number of its own, that one.

        Raises ModelError that names what is missing or wrong.
        """
        number, used = routing(config, self.number, self.used, used)
        width = config.needed((self.width,))
        return Experts(
            number=number,
            used=used,
            width=width,
            gated=self.gated,
            bias=config.switched(self.bias),
            linear_router=self.linear_router,
            router_bias=config.switched(self.router_bias),
            correction_bias=config.switched(self.correction_bias),
            identities=config.size(self.identities) if self.identities else 0,
            shared=self._shared(config, width),
            shared_bias=config.switched(self.shared_bias),
            shared_gate=self.shared_gate,
            shared_joint=self.shared_joint,
            latent=config.size(self.latent) if self.latent else 0,
        )

    def _shared(self, config: Config, width: int) -> int:
        if not (self.shared_number or self.shared_width):
            return 0
        number = (config.count(self.shared_number, least=0) or 0) if self.shared_number else 1
        return number * (config.size(self.shared_width) if self.shared_width else width)


def routing(
    config: Config, number: tuple[str, ...] = NUMBER, used: tuple[str, ...] = USED, chosen: int | None = None
) -> tuple[int, int]:
    """The number of experts, and of those that one token uses: `chosen` where that is known already.

    Raises ModelError where there are not as many.
    """
    experts = config.needed(number)
    chosen = config.needed(used) if chosen is None else chosen
    if not 1 <= chosen <= experts:
        raise ModelError(
            f"{config.where}: {config.value(used)[0]} = {chosen} is not from 1 to {experts}, the number of experts",
            "A token uses as many experts as there are, or fewer: check the file.",
        )
    return experts, chosen
