"""Whether a config describes a decoder-only language model with plain weights: one that llmcli runs."""

from typing import Any

from llmcli.errors import ModelError
from llmcli.load_rules import stored_quant

_RUNS = "llmcli runs decoder-only language models"

# The end of an architecture's name, and what such a model does instead of generating text.
_HEADS = {
    "ForMaskedLM": "fills in masked words",
    "ForPreTraining": "fills in masked words",
    "ForNextSentencePrediction": "judges whether two sentences follow each other",
    "ForSequenceClassification": "sorts texts into classes",
    "ForTokenClassification": "labels the words of a text",
    "ForQuestionAnswering": "marks answers in a text",
    "ForMultipleChoice": "picks one of several texts",
    "ForTextEncoding": "turns texts into vectors",
    "ForCTC": "transcribes speech",
    "ForAudioClassification": "sorts sounds into classes",
    "ForImageClassification": "sorts images into classes",
    "ForMaskedImageModeling": "fills in parts of images",
    "ForSemanticSegmentation": "labels the parts of images",
    "ForObjectDetection": "finds objects in images",
}
_WITH_HEAD = ("LMHeadModel", "DoubleHeadsModel")  # GPT-2's names for what others call ForCausalLM
# fmt: off
_ENCODER_DECODERS = {
    "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "encoder-decoder", "fsmt", "led", "longt5",
    "m2m_100", "marian", "mbart", "moonshine", "mt5", "mvp", "nllb-moe", "pegasus", "pegasus_x", "plbart",
    "prophetnet", "seamless_m4t", "seamless_m4t_v2", "speech_to_text", "switch_transformers", "t5", "t5gemma", "udop",
    "umt5", "whisper", "xlm-prophetnet",
}
_ENCODERS = {
    "albert", "bert", "camembert", "clip", "convbert", "deberta", "deberta-v2", "distilbert", "electra", "ernie",
    "esm", "flaubert", "longformer", "modernbert", "mpnet", "nomic_bert", "roberta", "roformer", "siglip", "vit",
    "wav2vec2", "xlm", "xlm-roberta", "xlm-roberta-xl", "xlnet",
}
# fmt: on


def refuse_unless_decoder(config: dict[str, Any], where: str) -> None:
    """Raise ModelError, with the reason, for a model that does not generate text left to right, or is stored quantized.

    config: the content of a config.json with a model_type. A kind of model that is not known here passes.
    """
    names = [name for name in config.get("architectures") or () if isinstance(name, str)]
    reasons = [None if _own_code(config, name) else _other_task(name) for name in names]
    label = names[0] if names else f"model of type {config['model_type']!r}"
    if _is_encoder_decoder(config, names):
        reason = "it reads its input with a separate encoder"
    elif names and all(reasons):
        reason = f"it {reasons[0]} and does not generate text left to right"
    elif config["model_type"] in _ENCODERS and config.get("is_decoder") is not True:
        reason = "it is an encoder and does not generate text left to right"
    else:
        _refuse_stored_quantized(config, where)
        return
    raise ModelError(f"{where} is a {label}: {reason}", f"{_RUNS}.")


def _is_encoder_decoder(config: dict[str, Any], names: list[str]) -> bool:
    if config.get("is_encoder_decoder") is True:
        return True
    causal = any(name.endswith(("ForCausalLM", *_WITH_HEAD)) for name in names)  # BartForCausalLM is a decoder
    return config["model_type"] in _ENCODER_DECODERS and not causal


def _own_code(config: dict[str, Any], name: str) -> bool:
    """Whether the name is given by code of the repository, where a Model may well have a head (ChatGLMModel)."""
    return "auto_map" in config and name.endswith("Model")


def _other_task(name: str) -> str | None:
    for end, task in _HEADS.items():
        if name.endswith(end):
            return task
    if name.endswith("Model") and not name.endswith(_WITH_HEAD):
        return "has no language-model head (it turns texts into vectors)"
    return None


def _refuse_stored_quantized(config: dict[str, Any], where: str) -> None:
    if stored_quant(config) is not None:
        return
    for key in ("quantization_config", "compression_config"):
        stored = config.get(key)
        if not stored:
            continue
        method = stored.get("quant_method") if isinstance(stored, dict) else None
        raise ModelError(
            f"{where} is stored quantized by {method or 'an unnamed method'}, which this version does not read",
            "Take the model's 16-bit weights; --quant nf4 quantizes them while loading.",
        )
