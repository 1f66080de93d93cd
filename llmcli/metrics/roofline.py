"""What memory bandwidth allows: decode at batch 1 reads all weights and the whole KV cache for every token.

Source of the formulas: a kernel that does little arithmetic per byte runs at the speed of its memory traffic (the
roofline model, Williams, Waterman and Patterson 2009).
"""


def bytes_per_step(streamed_weight_bytes: int, kv_bytes: int, batch: int = 1) -> int:
    """Bytes that one decode step reads: the weights once, and the KV cache of every sequence (`kv_bytes` each)."""
    return streamed_weight_bytes + batch * kv_bytes


def decode_ceiling(bandwidth: float, step_bytes: int, batch: int = 1) -> float:
    """Tokens per second that a bandwidth (bytes per second) allows at best, all `batch` sequences together."""
    return batch * bandwidth / step_bytes


def achieved_bandwidth(step_bytes: int, steps_per_second: float) -> float:
    """Bytes per second that decode has read at a measured rate."""
    return step_bytes * steps_per_second
