import json
from pathlib import Path

import pytest

from llmcli.errors import ModelError, ModelNotFound
from llmcli.models.generative import refuse_unless_decoder
from llmcli.models.integrity import check_directory

CONFIGS = Path(__file__).parents[3] / "shared" / "data" / "configs"
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8}


def weights():
    header = json.dumps({"a": {"dtype": "F16", "shape": [3], "data_offsets": [0, 6]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(6)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(weights())
    return tmp_path


def refusal(path, **options):
    with pytest.raises(ModelError) as caught:
        check_directory(path, **options)
    assert caught.value.exit_code == 3
    assert "\n" not in caught.value.message
    assert str(path) in caught.value.message
    return caught.value.message


def test_a_whole_model_passes_with_its_facts(model):
    facts = check_directory(model)
    assert (facts.model_type, facts.architectures, facts.remote_code) == ("llama", ("LlamaForCausalLM",), False)
    assert (facts.config["hidden_size"], facts.checkpoint.params) == (8, 3)


def test_a_path_that_is_no_directory_is_refused(tmp_path):
    with pytest.raises(ModelNotFound):
        check_directory(tmp_path / "none")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no valid JSON: "),
        ("", "an empty file"),
        ("version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
        ("[" * 100_000, "is no valid JSON"),
        ("[]", "holds no JSON object"),
        ("{}", "names no model_type"),
        ('{"model_type": 3}', "names no model_type"),
        ('{"auto_map": {"AutoModel": "x.Y"}}', "code of its repository, which is never run"),
    ],
)
def test_a_config_that_cannot_be_used_is_named(model, content, words):
    (model / "config.json").write_text(content)
    message = refusal(model)
    assert "config.json" in message
    assert words in message


def test_a_missing_config_is_named_and_an_adapter_told_apart(model):
    (model / "config.json").unlink()
    assert "has no config.json" in refusal(model)
    (model / "adapter_config.json").write_text("{}")
    assert "an adapter, not a model" in refusal(model)


def test_a_missing_tokenizer_is_named_unless_only_ids_are_fed(model):
    (model / "tokenizer.json").unlink()
    assert "has no tokenizer: neither tokenizer.json nor tokenizer.model" in refusal(model)
    assert check_directory(model, tokenizer_needed=False).model_type == "llama"


@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("vocab.txt",)])
def test_other_forms_of_tokenizer_do(model, names):
    (model / "tokenizer.json").unlink()
    for name in names:
        (model / name).write_text("x")
    assert check_directory(model).model_type == "llama"


@pytest.mark.parametrize(("name", "package"), [("tokenizer.model", "sentencepiece"), ("tekken.json", "mistral_common")])
def test_a_tokenizer_that_needs_a_package_names_it(model, monkeypatch, name, package):
    (model / "tokenizer.json").unlink()
    (model / name).write_text("x")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert f"has only {name} as its tokenizer, which the package {package} reads" in refusal(model)
    monkeypatch.setattr("importlib.util.find_spec", lambda wanted: wanted == package)
    assert check_directory(model).model_type == "llama"


def test_a_tokenizer_that_was_never_downloaded_is_named(model):
    (model / "tokenizer.json").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab\n")
    assert "tokenizer.json is a Git LFS pointer" in refusal(model)


def test_damaged_weights_are_named(model):
    (model / "model.safetensors").write_bytes(weights()[:-1])
    assert "model.safetensors has" in refusal(model)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"architectures": ["BertForMaskedLM"], "model_type": "bert"}, "a BertForMaskedLM: it fills in masked words"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "sorts texts into classes"),
        ({"architectures": ["RobertaForTokenClassification"]}, "labels the words"),
        ({"architectures": ["BertForQuestionAnswering"]}, "marks answers"),
        ({"architectures": ["Wav2Vec2ForCTC"]}, "transcribes speech"),
        ({"architectures": ["ViTForImageClassification"]}, "sorts images"),
        ({"architectures": ["MistralModel"]}, "no language-model head"),
        ({"architectures": None, "model_type": "bert"}, "is an encoder"),
        ({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"}, "with a separate encoder"),
        ({"architectures": ["BartForConditionalGeneration"], "model_type": "bart"}, "with a separate encoder"),
        ({"architectures": ["NewForCausalLM"], "is_encoder_decoder": True}, "with a separate encoder"),
    ],
)
def test_what_is_no_decoder_is_refused_with_the_reason(model, config, words):
    (model / "config.json").write_text(json.dumps(LLAMA | config))
    assert words in refusal(model)


QUANTIZED = [
    ({"quantization_config": {"quant_method": "gptq"}}, "stored quantized by gptq"),
    ({"quantization_config": {"bits": 4}}, "stored quantized by an unnamed method"),
    ({"quantization_config": {"quant_method": "foo", "load_in_4bit": True}}, "stored quantized by foo"),
    ({"quantization_config": {"quant_method": "bitsandbytes"}}, "stored quantized by bitsandbytes"),
    ({"compression_config": {"quant_method": "compressed-tensors"}}, "compressed-tensors"),
]


@pytest.mark.parametrize(("config", "words"), QUANTIZED)
def test_what_is_stored_quantized_in_a_way_that_is_not_read_is_refused_by_name(model, config, words):
    (model / "config.json").write_text(json.dumps(LLAMA | config))
    (model / "model.safetensors").write_bytes(weights().replace(b'"F16"', b'"I16"'))
    assert words in refusal(model)


BITSANDBYTES = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}


@pytest.mark.parametrize("config", [config for config, _ in QUANTIZED] + [BITSANDBYTES])
def test_a_quantization_left_over_from_before_a_merge_is_explained(model, config):
    (model / "config.json").write_text(json.dumps(LLAMA | config))
    with pytest.raises(ModelError) as caught:
        check_directory(model)
    assert f"says that the weights are quantized ({next(iter(config))})" in caught.value.message
    assert "stored plainly, in float16" in caught.value.message
    assert f"delete {next(iter(config))}" in caught.value.hint


def test_packed_weights_pass_only_where_config_says_that_bitsandbytes_packed_them(model):
    packed = weights().replace(b'"a"', b'"a.weight"').replace(b'"F16"', b'"U8"').replace(b"[3]", b"[6]")
    header = packed[8 : packed.index(b"}}") + 2]
    (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(6))
    assert "holds weights in U8" in refusal(model)
    (model / "config.json").write_text(json.dumps(LLAMA | BITSANDBYTES))
    assert check_directory(model).checkpoint.bytes == 6


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]},
        {"model_type": "gpt2", "architectures": ["GPT2DoubleHeadsModel"]},
        {"model_type": "bart", "architectures": ["BartForCausalLM"]},
        {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]},
        {"model_type": "chatglm", "architectures": ["ChatGLMModel"], "auto_map": {}},
        {"model_type": "unheard_of"},
        {"model_type": "llama", "architectures": None, "quantization_config": None},
    ],
)
def test_what_may_be_a_decoder_passes(config):
    assert refuse_unless_decoder(config, "here") is None


@pytest.mark.skipif(not CONFIGS.is_dir(), reason="no collection of model configs beside the checkout")
def test_of_real_language_models_only_the_stored_quantized_are_refused():
    for path in sorted(CONFIGS.rglob("*.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        if config.get("quantization_config"):
            with pytest.raises(ModelError, match="stored quantized"):
                refuse_unless_decoder(config, path.name)
        else:
            refuse_unless_decoder(config, path.name)
