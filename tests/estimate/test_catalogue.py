"""llmcli's own catalogue: every shipped model and many more are sized offline, with the numbers of the real model."""

import csv
import json

import pytest
from model_cards import BILLIONS

from llmcli.errors import ModelNotFound
from llmcli.estimate import catalogue, sources
from llmcli.estimate.config import Config
from llmcli.estimate.dtypes import FLOATS
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import steady_bytes
from llmcli.estimate.plan import estimate
from llmcli.estimate.render.lines import Paper
from llmcli.estimate.render.verdict import verdict
from llmcli.estimate.request import SizeRequest
from llmcli.models.registry import load_registry
from llmcli.models.source import HubSource
from llmcli.units import GIB

RELATIVES = {  # the known sizes name the base model, which has the same shape
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": "HuggingFaceTB/SmolLM2-1.7B",
    "HuggingFaceTB/SmolLM2-360M-Instruct": "HuggingFaceTB/SmolLM2-360M",
    "allenai/OLMo-2-1124-13B-Instruct": "allenai/OLMo-2-1124-13B",
    "allenai/OLMo-2-1124-7B-Instruct": "allenai/OLMo-2-1124-7B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.2-1B-Instruct": "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.3-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B",
}
HUB = [key for key in catalogue._rows() if "/" in key]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)


def hub_entries():
    known = load_registry()
    entries = [known.entry(alias) for alias in known.names()]
    return {entry.name: entry for entry in entries if isinstance(entry.parsed_source(), HubSource)}


def test_every_hub_entry_has_its_row_and_every_other_row_a_name_of_its_own():
    repositories = {entry.parsed_source().repo for entry in hub_entries().values()}
    assert repositories <= set(HUB)
    named = {catalogue.repository_named(name) for name in catalogue.names()}
    assert named == set(HUB) - repositories
    assert len(catalogue.names()) == len(named)
    assert not set(catalogue.names()) & set(load_registry().names())
    assert len(HUB) >= 60


@pytest.mark.parametrize("name", BILLIONS)
def test_a_name_is_sized_offline_with_the_parameters_of_the_model_card(name):
    subject = sources.find(name, None)
    model = subject.architecture
    assert model.params + (model.vision_params or 0) == pytest.approx(BILLIONS[name] * 1e9, rel=0.012)
    assert any("llmcli's own catalogue" in note for note in subject.assumptions)
    assert model.dtype
    assert model.inexact == ()
    assert not any("does not say" in warning for warning in subject.warnings)


def test_every_name_is_held_against_a_model_card():
    assert set(BILLIONS) == {*hub_entries(), *catalogue.names()}


def test_the_limit_is_that_of_the_entry():
    for alias, entry in hub_entries().items():
        assert sources.find(alias, None).limit == entry.context


def test_rows_agree_with_the_real_configs(shared_data):
    compared = 0
    for path in sorted((shared_data / "configs").glob("*.json")):
        row = catalogue.row_of(path.stem.replace("--", "/"))
        if row is None:
            continue
        real = from_config(Config("c", json.loads(path.read_text(encoding="utf-8"))))
        ours = from_config(Config("c", row))
        assert (ours.layers, ours.count, ours.positions) == (real.layers, real.count, real.positions), path.stem
        compared += 1
    assert compared >= 40


def test_sizes_agree_with_the_known_sizes(shared_data):
    with (shared_data / "kv_models.csv").open(encoding="utf-8", newline="") as file:
        known = {line["name"]: line for line in csv.DictReader(file)}
    compared = 0
    for repository in HUB:
        line = known.get(RELATIVES.get(repository, repository))
        if line is None:
            continue
        model = from_config(Config("c", catalogue.row_of(repository)))
        layers = TRANSFORMERS.storage(model, FLOATS["float16"], "float16")
        assert model.params == int(float(line["params_total"])), repository
        for context in (4096, 32768):
            assert steady_bytes(layers, context) == int(float(line[f"hf_kv_bytes_{context}"])), repository
        compared += 1
    assert compared >= 55


def test_names_are_found_whatever_their_case_and_nearest_ones_are_offered():
    assert sources.find("DeepSeek-V3", None).architecture.model_type == "deepseek_v3"
    assert sources.find("Qwen/Qwen3-8B", None).name == "Qwen/Qwen3-8B"
    with pytest.raises(ModelNotFound) as caught:
        sources.find("deepsek-v3", None)
    assert "deepseek-v3" in caught.value.hint


def test_a_file_of_that_name_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_layer": 3}))
    assert sources.find("gpt2", None).architecture.layer_count == 3


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Qwen3:8B", "qwen3-8b"),
        ("llama-3.1-8b-instruct", "llama3.1-8b"),
        ("Meta-Llama-3.1-8B-Instruct", "llama3.1-8b"),
        ("deepseek-r1-distill-qwen-32b", "r1-qwen-32b"),
        ("gemma-3-27b-it", "gemma3-27b"),
        ("phi-4", "phi4"),
    ],
)
def test_a_name_written_in_another_way_is_taken_for_the_model_and_said_so(written, name):
    subject = sources.find(written, None)
    assert subject.name == name
    assert subject.assumptions[0] == f"{written} is taken for {name}"


@pytest.mark.parametrize(
    ("written", "names"),
    [("llama3", ["llama3.1-8b"]), ("mixtral", ["mixtral-8x7b"]), ("deepseek-r1:8b", ["r1-llama-8b"])],
)
def test_an_unknown_name_is_answered_with_those_of_its_family(written, names):
    with pytest.raises(ModelNotFound) as caught:
        sources.find(written, None)
    assert all(name in caught.value.hint for name in names)


def test_a_hub_id_that_cannot_be_looked_up_names_the_model_of_the_catalogue_that_it_resembles():
    with pytest.raises(ModelNotFound) as caught:
        sources.find("Qwen/Qwen2.5-7B-Instruct", None)
    assert "catalogue has qwen2.5-7b" in caught.value.hint


def test_gpt_oss_keeps_its_4_bit_experts_in_every_engine():
    subject = sources.find("gpt-oss-20b", None)
    sizes = {name: estimate(subject, SizeRequest(), engine).rows[0].weights_bytes for name, engine in ENGINES.items()}
    assert set(sizes.values()) == {sizes["transformers"]}
    assert 12 * GIB < sizes["transformers"] < 14 * GIB


def test_vllm_takes_longer_steps_on_large_gpus():
    subject = sources.find("gemma3-1b", None)

    def notes(vram):
        return " ".join(estimate(subject, SizeRequest(vram=vram), ENGINES["vllm"]).assumptions)

    assert "--max-num-batched-tokens 8192" in notes((80 * GIB,))
    assert "--max-num-batched-tokens 2048" in notes((24 * GIB, 80 * GIB))


def test_advice_that_changes_the_dtype_says_so():
    subject = sources.find("qwen3-8b", None)
    advice = estimate(subject, SizeRequest(dtype="float32", vram=(24 * GIB,))).advice
    changes = [part.change for part in advice]
    assert {"--dtype bfloat16", "--quant int8 --dtype float16"} <= set(changes)


def test_a_mix_is_sized_request_by_request_and_counts_in_the_verdict():
    answer = estimate(sources.find("qwen3-8b", None), SizeRequest(mix=(800, 30000, 30000), vram=(24 * GIB,)))
    assert [row.context for row in answer.rows] == [800, 30000]
    assert [row.fits for row in answer.rows] == [True, True]
    assert answer.mix.fits is False
    assert "Not everything fits" in str(verdict(answer, Paper(200, wraps=False, unicode=True)))
