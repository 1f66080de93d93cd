"""Real models: known cache sizes and parameter counts, and the worked example of the design's sources."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from known_configs import LLAMA_8B

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.config import Config
from llmcli.estimate.dtypes import FLOATS
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import Layers, asymptotic_token_bytes, first_token_bytes, fixed_bytes, steady_bytes

COLUMNS = {"transformers": "hf_kv_bytes", "llama.cpp": "llamacpp_f16_bytes"}
RATES = ("hf_bytes_first_token", "hf_bytes_per_token_asymptotic", "hf_fixed_bytes_per_seq")
CONTEXTS = (4096, 32768)
LEAST_COMPARED = 68
_MARKS = (".TRIMMED", ".LEGACY-KEYS", ".text")


def plain(name: str) -> str:
    for mark in _MARKS:
        name = name.replace(mark, "")
    return name


def known(data: Path) -> dict[str, dict[str, str]]:
    with (data / "kv_models.csv").open(encoding="utf-8", newline="") as file:
        return {plain(row["name"]): row for row in csv.DictReader(file)}


def configs(data: Path) -> Iterator[tuple[str, Config]]:
    for path in sorted((data / "configs").rglob("*.json")):
        yield plain(path.stem).replace("--", "/"), Config(path.name, json.loads(path.read_text(encoding="utf-8")))


def compared(data: Path) -> Iterator[tuple[str, Architecture, dict[str, str]]]:
    """Every model that has a row."""
    rows = known(data)
    for name, config in configs(data):
        if name in rows:
            yield name, from_config(config), rows[name]


def half(model: Architecture, engine: str = "transformers") -> Layers:
    return ENGINES[engine].storage(model, FLOATS["float16"], "float16")


def check_row(name: str, model: Architecture, row: dict[str, str]) -> None:
    for engine, column in COLUMNS.items():
        for context in CONTEXTS:
            expected = row[f"{column}_{context}"]
            if expected:
                sized = steady_bytes(half(model, engine), context)
                assert sized == int(float(expected)), (name, engine, context)
    own = half(model)
    rates = (first_token_bytes(own), asymptotic_token_bytes(own), fixed_bytes(own))
    assert rates == tuple(int(float(row[column])) for column in RATES), name
    if row["params_total"]:
        assert model.params == int(float(row["params_total"])), name


def test_every_known_model_is_equal_to_the_byte(shared_data):
    models = list(compared(shared_data))
    for name, model, row in models:
        check_row(name, model, row)
    assert len(models) >= LEAST_COMPARED


def llama_8b() -> Architecture:
    return from_config(Config("config.json", LLAMA_8B))


def test_worked_example_4():
    layers = half(llama_8b())
    assert first_token_bytes(layers) == 128 * 1024
    assert steady_bytes(layers, 20_000) == 2_621_440_000  # ~2.6 GB
    assert steady_bytes(layers, 131_072) == 17_179_869_184  # ~17 GB


def test_grouped_heads_take_a_quarter_of_the_mha_formula():
    facts = llama_8b()
    mha = 2 * 32 * 4096 * 2
    assert mha == 512 * 1024
    assert first_token_bytes(half(facts)) * facts.heads // facts.kv_heads == mha


def test_an_explicit_head_dim_wins_over_hidden_by_heads():
    # Qwen3-0.6B: 16 heads of 128 on 1024 channels; hidden ÷ heads would be 64 and half the cache.
    qwen = LLAMA_8B | {"model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16}
    facts = from_config(Config("config.json", qwen | {"head_dim": 128}))
    assert first_token_bytes(half(facts)) == 114_688


def test_falcon_40b_has_8_kv_heads_and_transformers_caches_128():
    values = {"model_type": "falcon", "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128}
    facts = from_config(Config("config.json", values | {"num_kv_heads": 8, "new_decoder_architecture": True}))
    assert facts.kv_heads == 8
    assert first_token_bytes(half(facts)) == 1_966_080
