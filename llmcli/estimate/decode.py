"""How fast decode can be, and how a longer context slows it down.

A decode step reads the weights once and the cache of every sequence; at batch 1 a device is bound by that reading
(the roofline model, Williams, Waterman and Patterson 2009).
"""

from llmcli.estimate.report import DecodePart, Row
from llmcli.estimate.sizer import Sizer


def decode_parts(sizer: Sizer, rows: tuple[Row, ...], bandwidth: float | None) -> tuple[DecodePart, ...]:
    """One part per row; none without a bandwidth (bytes per second)."""
    if bandwidth is None:
        return ()
    return tuple(_part(sizer, row, bandwidth) for row in rows)


def _part(sizer: Sizer, row: Row, bandwidth: float) -> DecodePart:
    weights = sizer.loaded.weights.read(row.batch)
    return ceiling(row.context, row.batch, (weights, row.kv_bytes, sizer.kv_bytes(0, row.batch)), bandwidth)


def ceiling(context: int, batch: int, read: tuple[int, int, int], bandwidth: float) -> DecodePart:
    """What `bandwidth` allows at most. read: bytes of weights, of the caches, and of caches that hold no token."""
    weights, held, empty = read
    step = weights + held
    seconds = step / bandwidth
    return DecodePart(
        context=context,
        batch=batch,
        weights_read_bytes=weights,
        kv_read_bytes=held,
        seconds_per_step=seconds,
        tokens_per_second=batch / seconds if seconds else 0.0,
        slowdown=step / (weights + empty) if weights + empty else 1.0,
    )
