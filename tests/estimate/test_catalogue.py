"""The shipped entries of the hub: every one is in the catalogue, with the numbers of the real model."""

import csv
import json
import tomllib

import pytest

from llmcli.errors import ModelError
from llmcli.estimate import sources
from llmcli.estimate.families import FAMILIES
from llmcli.estimate.layers import first_token_bytes, steady_bytes
from llmcli.models.registry import load_registry
from llmcli.models.source import HubSource

BILLIONS = {  # as the model cards count them
    "qwen3-0.6b": 0.596,
    "qwen3-1.7b": 1.72,
    "qwen3-4b": 4.02,
    "qwen3-4b-instruct-2507": 4.02,
    "qwen3-8b": 8.19,
    "qwen3-14b": 14.8,
    "qwen3-32b": 32.8,
    "qwen3-30b-a3b": 30.5,
    "llama3.1-8b": 8.03,
    "llama3.2-1b": 1.24,
    "llama3.2-3b": 3.21,
    "llama3.3-70b": 70.6,
    "gemma3-270m": 0.268,
    "gemma3-1b": 1.0,
    "mistral-7b": 7.25,
    "mistral-nemo-12b": 12.2,
    "mistral-small-24b": 23.6,
    "phi4": 14.7,
    "phi4-mini": 3.84,
    "gpt-oss-20b": 20.9,
    "gpt-oss-120b": 116.8,
    "smollm2-360m": 0.362,
    "smollm2-1.7b": 1.71,
    "smollm3-3b": 3.08,
    "r1-qwen-1.5b": 1.78,
    "r1-qwen-7b": 7.62,
    "r1-llama-8b": 8.03,
    "r1-qwen-14b": 14.8,
    "r1-qwen-32b": 32.8,
    "r1-llama-70b": 70.6,
    "olmo2-1b": 1.48,
    "olmo2-7b": 7.3,
    "olmo2-13b": 13.7,
    "olmo2-32b": 32.2,
    "granite3.3-2b": 2.53,
    "granite3.3-8b": 8.17,
}
RELATIVES = {  # the known sizes name the base model, which has the same shape
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": "HuggingFaceTB/SmolLM2-1.7B",
    "HuggingFaceTB/SmolLM2-360M-Instruct": "HuggingFaceTB/SmolLM2-360M",
    "allenai/OLMo-2-1124-13B-Instruct": "allenai/OLMo-2-1124-13B",
    "allenai/OLMo-2-1124-7B-Instruct": "allenai/OLMo-2-1124-7B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.2-1B-Instruct": "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.3-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B",
}
CATALOGUE = tomllib.loads(sources._CATALOGUE.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)


def hub_entries():
    known = load_registry()
    entries = [known.entry(alias) for alias in known.names()]
    return {entry.name: entry for entry in entries if isinstance(entry.parsed_source(), HubSource)}


def row_of(alias):
    row = CATALOGUE[hub_entries()[alias].parsed_source().repo]
    return {key: None if value == "" else value for key, value in row.items()}


def test_every_hub_entry_has_its_row_and_every_row_its_entry():
    repositories = {entry.parsed_source().repo for entry in hub_entries().values()}
    assert set(BILLIONS) == set(hub_entries())
    assert {name for name in CATALOGUE if "/" in name} == repositories


@pytest.mark.parametrize("alias", BILLIONS)
def test_a_shipped_alias_is_sized_offline_or_refused_by_the_name_of_its_kind(alias):
    model_type = row_of(alias)["model_type"]
    if model_type not in FAMILIES:
        with pytest.raises(ModelError, match=f"{model_type} cannot be sized yet"):
            sources.find(alias, None)
        return
    subject = sources.find(alias, None)
    assert subject.architecture.params == pytest.approx(BILLIONS[alias] * 1e9, rel=0.01)
    assert any("llmcli's own catalogue" in note for note in subject.assumptions)
    assert subject.warnings == ()
    assert subject.limit == hub_entries()[alias].context


@pytest.mark.parametrize("alias", [alias for alias in BILLIONS if row_of(alias)["model_type"] not in FAMILIES])
def test_the_rows_of_other_kinds_are_right_as_well(alias):
    torch = pytest.importorskip("torch")
    import transformers

    row = row_of(alias)
    config = transformers.AutoConfig.for_model(**row)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    assert model.num_parameters() == pytest.approx(BILLIONS[alias] * 1e9, rel=0.01)


def test_rows_agree_with_the_real_configs(shared_data):
    compared = 0
    for repository, row in CATALOGUE.items():
        path = shared_data / "configs" / f"{repository.replace('/', '--')}.json"
        if not path.is_file():
            continue
        real = json.loads(path.read_text(encoding="utf-8"))
        real["dtype"] = real.get("dtype") or real.get("torch_dtype") or row["dtype"]
        assert row == {key: real[key] for key in row}, repository
        compared += 1
    assert compared >= 4


def test_sizes_agree_with_the_known_sizes(shared_data):
    with (shared_data / "kv_models.csv").open(encoding="utf-8", newline="") as file:
        known = {line["name"]: line for line in csv.DictReader(file)}
    compared = 0
    for alias, entry in hub_entries().items():
        repository = entry.parsed_source().repo
        line = known.get(RELATIVES.get(repository, repository))
        if line is None or line["model_type"] not in FAMILIES:
            continue
        model = sources.find(alias, None).architecture
        assert model.params == int(line["params_total"]), alias
        assert first_token_bytes(model.layers, 2) == int(float(line["hf_bytes_first_token"])), alias
        assert steady_bytes(model.layers, 4096, 2) == int(float(line["hf_kv_bytes_4096"])), alias
        compared += 1
    assert compared >= 10


def test_a_bare_hub_id_of_the_catalogue_is_sized_and_another_says_what_to_do():
    assert sources.find("Qwen/Qwen3-8B", None).name == "Qwen/Qwen3-8B"
    with pytest.raises(ModelError) as caught:
        sources.find("org/unknown@v1", None)
    assert caught.value.hint == "Fetch it first: llmcli models pull org/unknown@v1"
