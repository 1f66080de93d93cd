"""Whether a model may speculate, and whether another one may draft for it."""

from pathlib import Path
from typing import Any

from llmcli.engine.checkpoint import load_tokenizer, read_config
from llmcli.errors import ModelError, UsageError
from llmcli.inference import LoadRequest
from llmcli.prefill_rules import CONTINUABLE

_CURE = "A draft model has to share the model's tokenizer: take a smaller one of the same family."


def asked_for(request: LoadRequest) -> str | None:
    """Where drafts are to come from, in words; None without speculation."""
    if request.draft is not None:
        return f"drafts by {request.draft.name}"
    return "ngram speculation" if request.speculate == "ngram" else None


def may_speculate(config: Any) -> bool:
    """Whether a model takes several tokens at once after what its cache holds, and can take them back."""
    return config.model_type in CONTINUABLE


def no_speculation_notice(request: LoadRequest, config: Any) -> str | None:
    """What to say when drafts are asked for, and the model makes one token per step all the same."""
    if asked_for(request) is None or may_speculate(config):
        return None
    return f"no speculation: the cache of {config.model_type!r} models cannot be continued by several tokens"


def require_draft(request: LoadRequest, draft: LoadRequest, config: Any) -> None:
    """Raise UsageError unless `draft` can draft for the model of `request`, whose config is given.

    It has to take tokens back, and its ids have to mean the same. Only ids that both tokenizers know are compared, and
    the numbers of embeddings may differ then: they are padded, and relatives differ in added tokens. Without a
    tokenizer only those numbers can be compared.
    """
    other = read_config(draft.path)
    if not may_speculate(other):
        raise UsageError(
            f"--draft {draft.name}: the cache of {other.model_type!r} models cannot take back what was drafted wrongly",
            "Take a draft model with attention only.",
        )
    texts, others = _texts(request.path), _texts(draft.path)
    if texts is None or others is None:
        ours, theirs = (each.get_text_config(decoder=True).vocab_size for each in (config, other))
        differs = None if ours == theirs else f"it knows {theirs} ids, {request.name} {ours}"
    else:
        at = next((i for i in sorted(texts.keys() & others.keys()) if texts[i] != others[i]), None)
        differs = None if at is None else f"id {at} is {others[at]!r} there, {texts[at]!r} in {request.name}"
    if differs is not None:
        raise UsageError(f"--draft {draft.name} has another vocabulary: {differs}", _CURE)


def _texts(path: Path) -> dict[int, str] | None:
    """Each id's token; None where there is no tokenizer."""
    try:
        tokenizer = load_tokenizer(path)
    except ModelError:
        return None
    return {token_id: text for text, token_id in tokenizer.get_vocab().items()}
