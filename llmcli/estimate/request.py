"""What to size, and for which machine."""

from dataclasses import dataclass

from llmcli.estimate.quants import INT4


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """What to size. Sizes in bytes, lengths in tokens.

    contexts: tokens per sequence, None for sensible ones; batches: sequences at once; mix: contexts of several requests
    at once, none for no mix. dtype: torch's name, None for the model's own; kv_dtype: as `--kv-dtype` names it, None
    for the model's dtype. quant: as `--quant` names it. vram: memory to fit into, one number per device, None when
    nothing is asked about fitting. overhead: what the runtime takes on each device, None for the engine's assumption.
    prefill_chunk: prompt tokens per forward, None for the engine's own. bandwidth: bytes per second that the device
    reads, None when nothing is asked about speed.
    """

    contexts: tuple[int, ...] | None = None
    batches: tuple[int, ...] = (1,)
    mix: tuple[int, ...] = ()
    dtype: str | None = None
    kv_dtype: str | None = None
    quant: str = "none"
    vram: tuple[int, ...] | None = None
    overhead: int | None = None
    prefill_chunk: int | None = None
    bandwidth: float | None = None

    @property
    def on_cpu(self) -> bool:
        """Whether it asks for weights that run on a CPU alone; other requests are sized for a GPU."""
        return self.quant == INT4
