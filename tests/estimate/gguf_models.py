"""GGUF files of well-known models, as far as their caches go: keys as llama.cpp's converter writes them, no tensors."""

from gguf_writer import Gguf, bare


def attention(heads, kv_heads, width, **more):
    return {
        "attention__head_count": heads,
        "attention__head_count_kv": kv_heads,
        "attention__key_length": width,
        "attention__value_length": width,
        **more,
    }


def gemma3(layers, hidden, heads, kv_heads, width, window) -> Gguf:
    keys = attention(heads, kv_heads, width, attention__sliding_window=window)
    return bare("gemma3", block_count=layers, embedding_length=hidden, context_length=131072, **keys)


def gemma3_270m() -> Gguf:
    return gemma3(18, 640, 4, 1, 256, 512)


def gemma3_4b() -> Gguf:
    return gemma3(34, 2560, 8, 4, 256, 1024)


def gemma3_27b() -> Gguf:
    return gemma3(62, 5376, 32, 16, 128, 1024)


def qwen35(layers, hidden, heads, kv_heads, inner, **more) -> Gguf:
    """Gated delta nets with full attention in every 4th layer: 16 groups of keys and values of 128."""
    states = {"ssm__conv_kernel": 4, "ssm__inner_size": inner, "ssm__state_size": 128, "ssm__group_count": 16}
    keys = attention(heads, kv_heads, 256) | {"full_attention_interval": 4} | states | more
    return bare("qwen35", block_count=layers, embedding_length=hidden, context_length=262144, **keys)


def qwen36_27b(**more) -> Gguf:
    return qwen35(64, 5120, 24, 4, 6144, **more)


def qwen35_9b() -> Gguf:
    return qwen35(32, 4096, 16, 4, 4096)


def latent(architecture, layers, heads, nope, value, **more) -> Gguf:
    """Latent attention of rank 512 with 64 rope channels."""
    keys = {
        "attention__head_count": heads,
        "attention__head_count_kv": 1,
        "attention__key_length": 576,
        "attention__value_length": 512,
        "attention__kv_lora_rank": 512,
        "attention__key_length_mla": nope + 64,
        "attention__value_length_mla": value,
        "context_length": 163840,
    }
    return bare(architecture, block_count=layers, embedding_length=7168, **keys | more)


def deepseek_r1() -> Gguf:
    return latent("deepseek2", 61, 128, 128, 128)


def lfm2() -> Gguf:
    kv_heads = [8 if layer in {2, 5, 8, 10, 12, 14} else 0 for layer in range(16)]
    keys = {"attention__head_count": 32, "attention__head_count_kv": kv_heads, "shortconv__l_cache": 3}
    return bare("lfm2", tokens=65536, block_count=16, embedding_length=2048, **keys)


def jamba() -> Gguf:
    kv_heads = [8 if layer % 8 == 4 else 0 for layer in range(32)]
    states = {"ssm__conv_kernel": 4, "ssm__inner_size": 8192, "ssm__state_size": 16, "ssm__time_step_rank": 256}
    keys = {"attention__head_count": 32, "attention__head_count_kv": kv_heads, **states}
    return bare("jamba", block_count=32, embedding_length=4096, **keys)


def gpt_oss_20b() -> Gguf:
    keys = attention(64, 8, 64, attention__sliding_window=128)
    return bare("gpt-oss", block_count=24, embedding_length=2880, context_length=131072, **keys)


def dense_36(heads=32) -> Gguf:
    return bare("qwen3", block_count=36, embedding_length=4096, **attention(heads, 8, 128))
