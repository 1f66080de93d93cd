"""Known sizes of recurrent and hybrid models, from real configs and from independent sources."""

import csv
import json
from pathlib import Path

import pytest
from oracle import facts_of, storage_of

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.config import Config
from llmcli.estimate.facts import Attention, Recurrence
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import asymptotic_token_bytes, fixed_bytes

REAL = {
    "LiquidAI/LFM2-1.2B.TRIMMED": "LiquidAI--LFM2-1.2B.TRIMMED.json",
    "Qwen/Qwen3-Next-80B-A3B-Thinking": "Qwen--Qwen3-Next-80B-A3B-Thinking.json",
    "Qwen/Qwen3.5-397B-A17B": "Qwen--Qwen3.5-397B-A17B.json",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8.json",
    "nvidia/Nemotron-H-56B-Base-8K": "nvidia--Nemotron-H-56B-Base-8K.json",
    "state-spaces/mamba-2.8b-hf": "constructed/state-spaces--mamba-2.8b-hf.json",
}
EACH_REAL = pytest.mark.parametrize("name", REAL)


def real(data: Path, name: str) -> tuple[Architecture, dict[str, str]]:
    """The facts of a real config (of the language model in it), and its row in the table of known sizes."""
    with (data / "kv_models.csv").open(encoding="utf-8", newline="") as file:
        row = next(row for row in csv.DictReader(file) if row["name"] == name)
    values = json.loads((data / "configs" / REAL[name]).read_text(encoding="utf-8"))
    return from_config(Config(REAL[name], values.get("text_config", values))), row


@EACH_REAL
def test_parameters_are_those_that_are_known(shared_data, name):
    facts, row = real(shared_data, name)
    assert facts.params == int(row["params_total"])
    if row["params_active_computed"]:
        assert facts.active_params == int(row["params_active_computed"])


@EACH_REAL
def test_facts_give_the_known_sizes_of_llama_cpp(shared_data, name):
    """It keeps all states in float32, and of a convolution's inputs those before the current one."""
    facts, row = real(shared_data, name)
    mixers = [mixer for layer in facts.layers for mixer in layer.mixers]
    states = sum(
        4 * (mixer.conv_channels * (mixer.conv_width - 1) + mixer.state)
        for mixer in mixers
        if isinstance(mixer, Recurrence)
    )
    rows = sum(
        2 * mixer.kv_heads * (mixer.key_dim + mixer.value_dim) for mixer in mixers if isinstance(mixer, Attention)
    )
    for context in (4096, 32768):
        assert states + context * rows == int(row[f"llamacpp_f16_bytes_{context}"])


@pytest.mark.parametrize(
    ("values", "per_token", "fixed"),
    [
        ({"model_type": "qwen3_5_text"}, 32_768, 51_511_296),  # Qwen3.5-9B has the class's sizes
        ({"model_type": "jamba"}, 16_384, 16_056_320),  # so has Jamba-v0.1
        (
            {
                "model_type": "lfm2",
                "num_hidden_layers": 16,
                "hidden_size": 2048,
                "full_attn_idxs": [2, 5, 8, 10, 12, 14],
            },
            12_288,
            81_920,
        ),
    ],
    ids=["Qwen3.5-9B", "Jamba-v0.1", "LFM2-1.2B"],
)
def test_independent_sizes_without_the_current_column(values, per_token, fixed):
    """Published values that count a convolution's inputs in 16 bits, without the current one."""
    layers, facts = storage_of(values), facts_of(values)
    current = sum(
        2 * mixer.conv_channels for layer in facts.layers for mixer in layer.mixers if isinstance(mixer, Recurrence)
    )
    assert asymptotic_token_bytes(layers) == per_token
    assert fixed_bytes(layers) - current == fixed


def test_recurrent_gemma_says_that_states_lie_outside_the_cache():
    assert any("inside the model" in warning for warning in facts_of({"model_type": "recurrent_gemma"}).warnings)
