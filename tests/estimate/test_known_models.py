"""Real models: known cache sizes and parameter counts, and the worked example of the design's sources."""

import csv
import json
from pathlib import Path

import pytest
from known_configs import LLAMA_8B

from llmcli.errors import ModelError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.config import Config
from llmcli.estimate.families import FAMILIES
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import first_token_bytes, steady_bytes

EXPECTED_REFUSALS = {  # sliding windows that the context limit reaches
    "microsoft/Phi-3-medium-4k-instruct",
    "microsoft/Phi-3-mini-4k-instruct",
    "mistralai/Mistral-7B-v0.1",
}


def known(data: Path) -> dict[str, dict[str, str]]:
    with (data / "kv_models.csv").open(encoding="utf-8", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def configs(data: Path) -> dict[str, Config]:
    found = {}
    for path in sorted((data / "configs").rglob("*.json")):
        values = json.loads(path.read_text(encoding="utf-8"))
        found[path.stem.replace("--", "/")] = Config(path.name, values)
    return found


def test_every_known_dense_model_is_equal_to_the_byte(shared_data):
    rows, sized, refused = known(shared_data), 0, set()
    for name, config in configs(shared_data).items():
        if name not in rows or config.values.get("model_type") not in FAMILIES:
            continue
        try:
            facts = from_config(config)
        except ModelError:
            refused.add(name)
            continue
        row = rows[name]
        for context in (4096, 32768):
            assert steady_bytes(facts.layers, context, 2) == int(float(row[f"hf_kv_bytes_{context}"])), name
        assert facts.params == int(row["params_total"]), name
        sized += 1
    assert refused == EXPECTED_REFUSALS
    assert sized >= 30


def test_every_other_config_is_refused_by_name(shared_data):
    for name, config in configs(shared_data).items():
        if config.values.get("model_type") in FAMILIES:
            continue
        with pytest.raises(ModelError) as caught:
            from_config(config)
        assert str(config.values["model_type"]) in caught.value.message, name


def llama_8b() -> Architecture:
    return from_config(Config("config.json", LLAMA_8B))


def test_worked_example_4():
    layers = llama_8b().layers
    assert first_token_bytes(layers, 2) == 128 * 1024
    assert steady_bytes(layers, 20_000, 2) == 2_621_440_000  # ~2.6 GB
    assert steady_bytes(layers, 131_072, 2) == 17_179_869_184  # ~17 GB


def test_grouped_heads_take_a_quarter_of_the_mha_formula():
    facts = llama_8b()
    mha = 2 * 32 * 4096 * 2
    assert mha == 512 * 1024
    assert first_token_bytes(facts.layers, 2) * facts.heads // facts.kv_heads == mha


def test_an_explicit_head_dim_wins_over_hidden_by_heads():
    # Qwen3-0.6B: 16 heads of 128 on 1024 channels; hidden ÷ heads would be 64 and half the cache.
    qwen = LLAMA_8B | {"model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16}
    facts = from_config(Config("config.json", qwen | {"head_dim": 128}))
    assert first_token_bytes(facts.layers, 2) == 114_688
