"""Tiny models with random weights, tiny tokenizers, and models that say what a test tells them to."""

import functools
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from llmcli.engine.attention import use_grouped_attention
from llmcli.engine.describe import describe
from llmcli.engine.local import LocalEngine
from llmcli.engine.thread import InferenceThread
from llmcli.inference import LoadRequest, Sampling

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
_SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
_MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
_MLA = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
} | _MOE
_GEMMA3 = {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16, "num_hidden_layers": 7}
_GEMMA4 = {
    "head_dim": 8,
    "global_head_dim": 16,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 300,
    "pad_token_id": 0,
}
_EXTRA = {
    "cohere": {"head_dim": 8, "logit_scale": 1.0},
    "cohere2": {"head_dim": 8, "sliding_window": 8, "num_hidden_layers": 4, "logit_scale": 1.0},
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
    "exaone4": {"sliding_window": 8, "num_hidden_layers": 4},
    "gemma": {"head_dim": 16},
    "gemma2": {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16},
    "gemma3_text": _GEMMA3,
    "gemma4_text": _GEMMA4,
    "glm": {"head_dim": 8},
    "glm4": {"head_dim": 8},
    "glm4_moe": {"head_dim": 8, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
    | _MOE,
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256, "n_inner": 48},
    "gpt_oss": {"head_dim": 8, "sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "hunyuan_v1_dense": {"head_dim": 8},
    "ministral": {"head_dim": 8, "sliding_window": 8},
    "ministral3": {"head_dim": 8, "sliding_window": 8},
    "mistral": {"sliding_window": 8},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "nemotron": {"head_dim": 8},
    "olmo3": {"sliding_window": 8, "num_hidden_layers": 4},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "phi3": {"sliding_window": None, "original_max_position_embeddings": 256},
    "phimoe": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    "qwen2_moe": {"num_experts": 4, "shared_expert_intermediate_size": 16} | _MOE,
    "qwen3": {"head_dim": 16},
    "qwen3_moe": {"head_dim": 16, "num_experts": 4} | _MOE,
    "seed_oss": {"head_dim": 8},
    "starcoder2": {"sliding_window": 8},
}
_WRAPPED = {"gemma3": "gemma3_text", "gemma4": "gemma4_text"}
"""Types whose language model has a config of its own inside."""
_EYES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28}
_BESIDE = {"gemma3": {"vision_config": {**_EYES, "patch_size": 14}, "mm_tokens_per_image": 4}}
"""What is beside it, where that would be large: no test looks at pictures."""


def tiny_config(model_type: str, vocab_size: int = 300, **more):
    """A config of a real architecture, small enough to run in a millisecond."""
    inner = _WRAPPED.get(model_type, model_type)
    values = {} if model_type == "gpt2" else dict(_SMALL)
    values |= {"vocab_size": vocab_size, "pad_token_id": None} | _EXTRA.get(inner, {})
    values |= {"bos_token_id": 0, "eos_token_id": 1} | more
    if inner != model_type:
        values = {"text_config": {"model_type": inner, **values}, **_BESIDE.get(model_type, {})}
    return transformers.AutoConfig.for_model(model_type, **values)


def tiny_model(model_type: str, seed: int = 0, **more):
    """A model with random fp32 weights, wide enough apart that greedy choices are clear."""
    torch.manual_seed(seed)
    config = tiny_config(model_type, **more)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    model.requires_grad_(False)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return model


def _finish(tokenizer: Tokenizer, **more) -> PreTrainedTokenizerFast:
    tokenizer.add_special_tokens([AddedToken("<|bos|>", special=True), AddedToken("<|end|>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|bos|>", eos_token="<|end|>", **more)


def byte_tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """One id per byte, as a byte-level BPE without merges: every character but ASCII takes several ids."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<|bos|>": 0, "<|end|>": 1} | {symbol: i + 2 for i, symbol in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return _finish(tokenizer, chat_template=template)


def byte_fallback_tokenizer() -> PreTrainedTokenizerFast:
    """A SentencePiece-style tokenizer as of Llama 2: words with ▁, bytes as <0xNN>, one leading space stripped."""
    words = ["▁", "▁the", "▁a", "the", "▁안", "녕", *map(chr, range(33, 127))]
    vocab = {"<unk>": 0, "<|bos|>": 1, "<|end|>": 2}
    for symbol in [*(f"<0x{byte:02X}>" for byte in range(256)), *words]:
        vocab.setdefault(symbol, len(vocab))
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _finish(tokenizer, unk_token="<unk>")


def wordpiece_tokenizer() -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer: pieces with ##, spaces put between words by the decoder."""
    vocab = ["[UNK]", "<|bos|>", "<|end|>", "un", "##aff", "##able", "don", "'", "t", ",", ".", "안", "##녕", "é"]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s+"), "removed")
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return _finish(tokenizer, unk_token="[UNK]")


def load_request(context: int | None = None, **more) -> LoadRequest:
    """A load request for a model that is already in memory."""
    limits = () if context is None else ((context, "--ctx"),)
    return LoadRequest(Path(), "tiny", "test", context=limits, **more)


def engine_of(model, tokenizer=None, *, clock=None, chunk: int | None = None, **more) -> LocalEngine:
    """An engine around a model in memory."""
    import dataclasses
    import time

    loaded = describe(load_request(**more), model, tokenizer, attention=use_grouped_attention(model))
    if chunk is not None:
        loaded = dataclasses.replace(loaded, chunk=chunk)
    return LocalEngine(loaded, InferenceThread(), clock or time.perf_counter)


@functools.cache
def saved_model(folder: Path, model_type: str = "llama", *, template: bool = True) -> Path:
    """A directory with config, weights and tokenizer of a tiny model."""
    model = tiny_model(
        model_type,
        vocab_size=258,
        **({} if model_type == "gpt2" else {"hidden_size": 64, "head_dim": 16, "intermediate_size": 64}),
    )
    model.save_pretrained(folder)
    byte_tokenizer(TEMPLATE if template else None).save_pretrained(folder)
    return folder


@dataclass
class Scripted:
    """A model that answers with `script`, whatever it is asked; it counts its forwards and their lengths.

    `prompt`: the number of prompt ids, after which the script begins. `break_at`: the forward that raises `error`.
    """

    script: list[int]
    prompt: int
    vocab_size: int = 258
    break_at: int | None = None
    error: Exception = field(default_factory=lambda: RuntimeError("broken"))
    lengths: list[int] = field(default_factory=list)
    on_forward: object = None

    def __post_init__(self):
        self.config = tiny_config("llama", vocab_size=self.vocab_size)
        self.config._attn_implementation = "eager"
        self.generation_config = None
        self.device = torch.device("cpu")
        self.dtype = torch.float32

    def num_parameters(self):
        return 1

    def parameters(self):
        return iter(())

    def modules(self):
        return iter(())

    def get_input_embeddings(self):
        return torch.nn.Embedding(1, 1)

    get_output_embeddings = get_input_embeddings

    def __call__(self, input_ids, cache, use_cache, logits_to_keep):
        if self.on_forward is not None:
            self.on_forward(len(self.lengths))
        if self.break_at == len(self.lengths):
            raise self.error
        self.lengths.append(input_ids.shape[1])
        step = sum(self.lengths) - self.prompt
        logits = torch.full((1, 1, self.vocab_size), -10.0)
        if 0 <= step < len(self.script):
            logits[0, 0, self.script[step]] = 10.0
        return transformers.modeling_outputs.CausalLMOutputWithPast(logits=logits)


def greedy(max_new_tokens: int = 16, **more) -> Sampling:
    """Greedy sampling settings."""
    values = {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "seed": None}
    return Sampling(**(values | {"max_new_tokens": max_new_tokens} | more))
