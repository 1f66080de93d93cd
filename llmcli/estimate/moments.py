"""The moments at which memory is fullest: while a prompt is read, and a step of decode."""

from dataclasses import dataclass

from llmcli.estimate.activation_factors import factors_of
from llmcli.estimate.activations import Activations, Forward, activations_of
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.compute_buffers import llama_cpp_buffer, vllm_profile
from llmcli.estimate.dtypes import BYTES, Format
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.facts import Recurrence
from llmcli.prefill_rules import CONTINUABLE, CPU_CHUNK, CUDA_CHUNK


@dataclass(frozen=True, slots=True)
class Moments:
    """What a forward takes beside weights and cache.

    chunk: prompt tokens per forward, None: all of them. whole_past: longer prompts are read by one forward.
    quantized: the cache is, so that one forward fills it. on_cpu: where llmcli reads shorter pieces.
    """

    engine: str
    chunk: int | None
    activations: Activations
    whole_past: int | None = None
    quantized: bool = False
    on_cpu: bool = False

    def chunk_of(self, context: int) -> int | None:
        """Prompt tokens per forward of a prompt of `context` tokens, None: all of them."""
        return None if self.whole_past is not None and context > self.whole_past else self.chunk

    def prefill(self, context: int, batch: int) -> int:
        """Bytes at the largest moment while `batch` prompts of `context` tokens are read."""
        model, tokens = self.activations.model, min(context, self.chunk_of(context) or context)
        if self.engine == "llama.cpp":
            return llama_cpp_buffer(model, context, tokens)
        if self.engine == "vllm":
            return vllm_profile(model, self.activations.element, self.chunk or context)
        return self.activations.peak(Forward(batch, tokens, context))

    def decode(self, context: int, batch: int) -> int:
        """Bytes at the largest moment of a decode step; engines that reserve take the same as before."""
        if ENGINES[self.engine].step is not None:
            return self.prefill(context, batch)
        return self.activations.step(batch, context)


def moments_of(
    model: Architecture, engine: str, chunk: int | None, kv: Format, dtype: str, *, on_cpu: bool = False
) -> Moments:
    """Those of `model` in `engine`. chunk: as asked for, None for the engine's own; dtype: what the model runs in."""
    chunk = chunk or default_chunk(model, engine, on_cpu=on_cpu)
    return Moments(engine, chunk, activations_of(model, BYTES[dtype], kv), on_cpu=on_cpu)


def default_chunk(model: Architecture, engine: str, *, on_cpu: bool = False) -> int | None:
    """Prompt tokens per forward: in transformers what llmcli's own engine does, which reads some types in one piece."""
    own = CPU_CHUNK if on_cpu else CUDA_CHUNK
    return ENGINES[engine].step or (own if model.model_type in CONTINUABLE else None)


def chunk_note(moments: Moments, *, asked: bool = False) -> str:
    """How prompts are read, and what activations were estimated for. asked: the pieces are those asked for."""
    if moments.engine != "transformers":
        return f"activations, an estimate: what {moments.engine} reserves for {moments.chunk} tokens per forward"
    scores = factors_of(moments.activations.model).score_bytes
    attention = "all attention scores (no fused kernel)" if scores else "fused attention"
    pieces = _pieces(moments, asked=asked)
    return f"prefill {pieces}; activations, an estimate: logits of the last token, {attention}{_rough(moments)}"


def _pieces(moments: Moments, *, asked: bool) -> str:
    if moments.quantized:
        return "in one piece, as llmcli fills a quantized cache"
    if moments.chunk is None:
        return "in one piece, as llmcli reads this type"
    whose = ", the most that llmcli reads on a CPU" if moments.on_cpu else ", as llmcli does on a GPU"
    if asked:
        own = moments.activations.model.model_type in CONTINUABLE
        whose = "" if own else ", where llmcli reads this type in one piece"
    past = "" if moments.whole_past is None else f", but in one piece past {moments.whole_past} (LongRoPE)"
    return f"by {moments.chunk} prompt tokens per forward{whose}{past}"


def _rough(moments: Moments) -> str:
    recurrent = any(isinstance(mixer, Recurrence) for mixer in moments.activations.mixers)
    return ", recurrent layers roughly" if recurrent else ""
