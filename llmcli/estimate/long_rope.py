"""LongRoPE (Ding et al. 2024): past a length, the keys of all positions are rotated by other frequencies.

Keys from before and after do not go together, so llmcli's engine reads a prompt that passes the length in one piece.
"""

from collections.abc import Mapping

_PHI3_LENGTH = 4096
_PHI3_NAMES = frozenset({"su", "yarn"})
"""What older configs of Phi-3 call it."""


def one_piece_past(config: Mapping[str, object]) -> int | None:
    """The length in tokens that a config.json says; None for a model without such a length."""
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(rope, Mapping):
        return None
    phi3 = config.get("model_type") == "phi3"
    name = rope.get("rope_type") or rope.get("type")
    if name != "longrope" and not (phi3 and name in _PHI3_NAMES):
        return None
    named = config.get("original_max_position_embeddings") or rope.get("original_max_position_embeddings")
    length = named or (_PHI3_LENGTH if phi3 else config.get("max_position_embeddings"))
    return length if isinstance(length, int) else None
