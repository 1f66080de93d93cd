"""Several requests at once, each as long as it is."""

from collections import Counter

from llmcli.estimate.report import MixPart
from llmcli.estimate.sizer import Sizer


def mix_of(sizer: Sizer, contexts: tuple[int, ...]) -> MixPart | None:
    """What requests of `contexts` tokens take in pages, and what as reservations as long as the longest of them.

    Paged attention (Kwon et al. 2023, section 3) stores each request in blocks as it grows; without it each has a
    reservation for the longest. total: weights, overhead, pages, and the forward that reads the longest prompt.
    """
    if not contexts:
        return None
    longest = max(contexts)
    paged = sum(sizer.kv_bytes(context, 1) for context in contexts)
    reserved = len(contexts) * sizer.kv_bytes(longest, 1)
    reading = sizer.total(longest, 1) - sizer.kv_bytes(longest, 1)
    read = sizer.cache_bytes(longest, 1) - sizer.kv_bytes(longest, 1)
    room = sizer.room(Counter(contexts), paged + read, sizer.activation_bytes(longest, 1))
    return MixPart(
        contexts=contexts,
        paged_bytes=paged,
        reserved_bytes=reserved,
        wasted_bytes=reserved - paged,
        wasted_share=(reserved - paged) / reserved if reserved else 0.0,
        total_bytes=reading + paged,
        fits=None if room is None else room >= 0,
    )
