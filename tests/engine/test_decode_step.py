"""The law of the decode step that is compiled: it answers as the model does on transformers' own cache."""

import pytest
import torch
from tiny_models import tiny_config, tiny_model
from transformers import DynamicCache

from llmcli.engine import kv_rows
from llmcli.engine.cache import new_cache
from llmcli.engine.compile.linear import write_out_linears
from llmcli.engine.compile.recipe import Recipe
from llmcli.engine.compile.skeleton import EXAMPLE_TOKENS, skeleton
from llmcli.engine.compile.steps import recipe_of
from llmcli.engine.decode.arguments import Arguments
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.step import NAME, DecodeStep, dynamic_shapes, kind_of, tensors_of, windows_of
from llmcli.engine.int4 import quantize_int4
from llmcli.prefill_rules import CONTINUABLE

TYPES = sorted(CONTINUABLE)
EXPORTED = {
    "llama": {"num_hidden_layers": 2},
    "gemma2": {"num_hidden_layers": 2},
    "gemma3_text": {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
    "gpt2": {"n_layer": 2},
    "gpt_oss": {"num_hidden_layers": 2},
    "mixtral": {"num_hidden_layers": 2},
}


class Beside:
    """A decode step on a cache in buffers, and plain forwards on transformers' own cache."""

    def __init__(self, model, rows=1):
        self.model = model
        self.rows = rows
        self.cache, self.plain = new_cache(model.config), DynamicCache(config=model.config)
        self.run = None

    @torch.no_grad()
    def read(self, first, count):
        """Both read the prompt ids first … first + count - 1, each row its own."""
        ids = torch.stack([torch.arange(first, first + count) + 40 * row for row in range(self.rows)])
        got, want = forward(self.model, ids, self.cache), forward(self.model, ids, self.plain)
        self.held = self.plain.get_seq_length()
        self.ids = obey(got, want)

    def back(self, tokens):
        """Both forget all but the first tokens."""
        for cache in (self.cache, self.plain):
            cache.crop(tokens - cache.get_seq_length())

    @torch.no_grad()
    def steps(self, count):
        """So many steps of both, each of which has to obey the law."""
        arguments = Arguments(self.cache)
        if self.run is None:
            self.run = DecodeStep(self.model, windows_of(self.cache))
        for _ in range(count):
            own = self.model.config._attn_implementation
            self.model.set_attn_implementation(NAME)
            got = self.run(*arguments.next(self.ids, self.held))
            self.model.set_attn_implementation(own)
            arguments.wrote()
            self.ids = obey(got, forward(self.model, self.ids, self.plain))
            self.held += 1
        arguments.commit()
        assert self.cache.get_seq_length() == self.plain.get_seq_length() == self.held

    @torch.no_grad()
    def export(self):
        """Steps are from now on those of the traced program, made from a cache of this length."""
        own = self.model.config._attn_implementation
        self.model.set_attn_implementation(NAME)
        step = DecodeStep(self.model, windows_of(self.cache)).eval()
        example = Arguments(self.cache).next(self.ids, self.held)
        program = torch.export.export(step, example, dynamic_shapes=tuple(dynamic_shapes(step)), strict=False)
        self.model.set_attn_implementation(own)
        self.run = program.module(check_guards=False)
        return self.run


def obey(got, want):
    """Assert the law; returns the ids (rows, 1) that the model chooses."""
    for row, wanted in zip(got, want, strict=True):
        assert (row - wanted).abs().max().item() <= 1e-5 * max(1.0, wanted.abs().max().item())
        best, second = wanted.topk(2).values
        assert best - second <= 1e-4 or row.argmax() == wanted.argmax()
    return want.argmax(-1, keepdim=True)


@pytest.fixture
def narrow(monkeypatch):
    """Buffers so small that a few steps pass their borders, and a window's rows move back to their start."""
    monkeypatch.setattr(kv_rows, "FIRST_ROWS", 16)
    monkeypatch.setattr(kv_rows, "SPARE_ROWS", 4)


@pytest.mark.parametrize("model_type", TYPES)
def test_a_step_of_a_batch_answers_as_the_model(narrow, model_type):
    beside = Beside(tiny_model(model_type), rows=2)
    beside.read(2, 5)
    beside.steps(13)  # passes the windows of 8 and the border at 16 rows
    beside.read(60, 15)  # a second turn, longer than a window's buffer
    beside.steps(5)


@pytest.mark.parametrize("model_type", [*EXPORTED, "deepseek_v3", "gemma4_text", "mistral", "qwen3"])
def test_a_step_after_tokens_were_taken_back(narrow, model_type):
    windowed = getattr(tiny_config(model_type).get_text_config(), "sliding_window", None)
    beside = Beside(tiny_model(model_type, **({"sliding_window": 64} if windowed else {})))
    beside.read(2, 9)
    beside.steps(3)
    beside.back(6)
    beside.read(70, 4)
    beside.steps(8)


@pytest.mark.parametrize("model_type", EXPORTED)
def test_one_exported_program_serves_every_length(narrow, model_type):
    beside = Beside(tiny_model(model_type, **EXPORTED[model_type]))
    beside.read(2, EXAMPLE_TOKENS)
    beside.export()
    beside.steps(12)
    beside.read(60, 15)
    beside.steps(8)
    beside.cache, beside.plain = new_cache(beside.model.config), DynamicCache(config=beside.model.config)
    beside.read(90, 1)
    beside.steps(4)


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("model_type", ["gpt2", "phi"])
def test_linear_layers_that_are_written_out_answer_the_same(model_type, rows):
    beside = Beside(tiny_model(model_type), rows=rows)
    beside.read(2, EXAMPLE_TOKENS)
    replaced = write_out_linears(beside.export())
    linears = [module for module in beside.model.modules() if isinstance(module, torch.nn.Linear)]
    assert replaced == len(linears)  # the transposed ones of GPT-2 are none: its head alone is
    beside.steps(4)


def test_a_large_batch_keeps_its_linear_layers():
    beside = Beside(tiny_model("llama", num_hidden_layers=1), rows=5)
    beside.read(2, EXAMPLE_TOKENS)
    assert write_out_linears(beside.export()) == 0
    beside.steps(3)


def kinds(model):
    """Data types and shapes of all tensors that a step of `model` reads."""
    windows = windows_of(new_cache(model.config))
    return {name: kind_of(tensor) for name, tensor in tensors_of(DecodeStep(model, windows)).items()}


@pytest.mark.parametrize("model_type", TYPES)
def test_a_skeleton_has_the_shapes_of_the_model(model_type):
    model = tiny_model(model_type)
    own = model.get_experts_implementation()
    hollow, cache = skeleton(Recipe(model.config.to_json_string(), "none", "float32", 2, 1, "any"))
    real = new_cache(model.config)
    with torch.no_grad():
        forward(model, torch.zeros((2, EXAMPLE_TOKENS), dtype=torch.long), real)
    assert windows_of(cache) == windows_of(real)
    assert [kind_of(layer.keys) for layer in cache.layers] == [kind_of(layer.keys) for layer in real.layers]
    assert kinds(hollow) == kinds(model)
    assert hollow.get_experts_implementation() == own


def test_a_skeleton_is_quantized_and_mixed_as_the_model_is(tmp_path):
    model = tiny_model("llama", vocab_size=258, hidden_size=64, head_dim=16, intermediate_size=72)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    quantize_int4(model, unpacked=False)
    model.model.norm.float()
    (tmp_path / "config.json").write_text(model.config.to_json_string())
    recipe = recipe_of(tmp_path, model, "int4", 1)
    assert (recipe.dtype, recipe.kinds) == ("bfloat16", (("model.norm.weight", "float32"),))
    found = kinds(skeleton(recipe)[0])
    assert found == kinds(model)
    assert sum("uint8" in kind for kind in found.values()) == 12  # those of 72 cannot be
