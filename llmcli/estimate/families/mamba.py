"""State spaces in every layer: mamba, mamba2, falcon_mamba. A cache of fixed size, whatever the length."""

from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import tensor
from llmcli.estimate.facts import Blueprint, Layer
from llmcli.estimate.families.stack import stack
from llmcli.estimate.families.state_space import MAMBA, MAMBA2, Mamba, Mamba2, mamba2_of, mamba_of


def mamba(config: Config) -> Blueprint:
    """MambaForCausalLM; the norms that FalconMamba adds have no weights. Raises ModelError for what is wrong."""
    return _uniform(config, mamba_of(config, MAMBA))


def mamba2(config: Config) -> Blueprint:
    """Mamba2ForCausalLM. Raises ModelError that names what is missing or wrong."""
    return _uniform(config, mamba2_of(config, MAMBA2))


def _uniform(config: Config, mixer: Mamba | Mamba2) -> Blueprint:
    """The same mixer and one norm in every layer, and no MLP."""
    layer = Layer((mixer.mixer(),), mixer.count() + tensor(mixer.hidden))
    return stack(config, (layer,) * layer_number(config), mixer.inner)


BUILDERS = {"falcon_mamba": mamba, "mamba": mamba, "mamba2": mamba2}
