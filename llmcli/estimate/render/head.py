"""What a model is and how its cache grows, in sentences."""

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.facts import Attention, Latent
from llmcli.estimate.layers import FULL_ATTENTION
from llmcli.estimate.render.figures import size_text, times
from llmcli.estimate.render.lines import Line, Paper, sentence
from llmcli.estimate.render.verdict import verdict
from llmcli.estimate.report import Estimate, LayerPart, ModelPart
from llmcli.units import count_text


def head(estimate: Estimate, model: Architecture, paper: Paper) -> list[Line]:
    """The model, how sure its sizes are, whether it fits, and what a token costs."""
    lines = sentence(f"{estimate.model.name}: {described(estimate.model)}", paper, style="bold")
    for reason in estimate.kv.inexact:
        lines += sentence(f"not exact: {reason}", paper, style="bold yellow")
    lines += verdict(estimate, paper)
    for text in growth(estimate, model):
        lines += sentence(text.lstrip(), paper, indent=len(text) - len(text.lstrip()))
    for text in filter(None, (trap(estimate, model), constants(estimate))):
        lines += sentence(text, paper)
    return lines


def described(model: ModelPart) -> str:
    """Its architecture and its parameters."""
    named = "" if model.architecture == model.name else f"{model.architecture}, "
    text = f"{named}{count_text(model.params)} parameters"
    if model.active_params < model.params:
        text += f", {count_text(model.active_params)} active per token"
    if model.vision_params is None:
        text += ", and towers of unknown size beside them"
    elif model.vision_params:
        text += f", and {count_text(model.vision_params)} in towers beside them"
    return text


def growth(estimate: Estimate, model: Architecture) -> list[str]:
    """The classic formula where it is true, else a sentence per kind of layer and one for all of them."""
    kv = estimate.kv
    where = f"KV cache in {kv.dtype} ({estimate.engine} {estimate.engine_version})"
    formula = classic_formula(estimate, model)
    if formula is not None:
        return [f"{where}: {formula} = {kv.bytes_per_token_short} bytes per token"]
    lines = [f"{where}, of one sequence:", *(f"  {layer_text(part)}" for part in kv.layers)]
    short, long, fixed = kv.bytes_per_token_short, kv.bytes_per_token_asymptotic, kv.fixed_bytes
    rate = f"{short} bytes per token" if short else "nothing per token"
    if long == short:
        return [*lines, f"in all {rate}{f', and {size_text(fixed)} whatever its length' if fixed else ''}"]
    return [*lines, f"in all {rate} while it is short; once windows are full {long} per token, and {size_text(fixed)}"]


def layer_text(part: LayerPart) -> str:
    """What each of `count` layers holds."""
    holds = []
    if part.bytes_per_token:
        most = "" if part.max_tokens is None else f" up to {part.max_tokens} tokens"
        holds.append(f"{part.bytes_per_token} bytes per token{most}")
    if part.fixed_bytes:
        holds.append(f"{part.fixed_bytes} bytes whatever the length")
    each = "each " if part.count > 1 and holds else ""
    return f"{part.count} × {part.kind}: {each}{' and '.join(holds) or 'no cache'}"


def classic_formula(estimate: Estimate, model: Architecture) -> str | None:
    """2 × layers × KV heads × head_dim × bytes, None where a layer holds anything else than that."""
    parts = estimate.kv.layers
    if len(parts) != 1 or parts[0].max_tokens is not None or parts[0].fixed_bytes:
        return None
    mixers = {layer.mixers for layer in model.layers}
    plain = Attention(model.kv_heads, model.head_dim, model.head_dim)
    if mixers not in ({(plain,)}, {(_named(plain),)}):
        return None
    element = estimate.kv.bytes_per_token_short / (2 * model.layer_count * model.kv_heads * model.head_dim)
    heads = f"{model.kv_heads} KV heads × {model.head_dim} head_dim"
    return f"2 × {model.layer_count} layers × {heads} × {element:g} bytes"


def _named(attention: Attention) -> Attention:
    return Attention(attention.kv_heads, attention.key_dim, attention.value_dim, kind=FULL_ATTENTION)


def trap(estimate: Estimate, model: Architecture) -> str | None:
    """What a formula for multi-head attention would get wrong about this model's attention layers."""
    mixers = (mixer for layer in model.layers for mixer in layer.mixers)
    first = next((mixer for mixer in mixers if isinstance(mixer, (Attention, Latent))), None)
    match first:
        case Latent():
            row = first.rank + first.rope_dim + first.index_dim
            expanded = first.heads * (first.nope_dim + first.rope_dim + first.value_dim)
            kept = f"one row of {row} numbers serves {first.heads} heads"
            return f"{kept}: a cache of their keys and values would take {times(expanded / row)} as much"
        case Attention() if 0 < first.kv_heads < model.heads:
            factor = times(model.heads / first.kv_heads)
            shared = f"{model.heads} attention heads share {first.kv_heads} KV head{'s' if first.kv_heads > 1 else ''}"
            if estimate.engine == "transformers" and first.cached_heads == model.heads:
                return f"{shared}, but {estimate.engine} keeps them per attention head: {factor} as much"
            return f"{shared}: the MHA formula would say {factor} as much"
    return None


def constants(estimate: Estimate) -> str:
    """What is the same in every row."""
    row = estimate.rows[0]
    sizes = f"weights: {size_text(row.weights_bytes)} and overhead: {size_text(row.overhead_bytes)}"
    return f"{sizes}, part of every total"
