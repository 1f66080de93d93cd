"""Query, key and value of a compiled int4 step, multiplied together: the same numbers in fewer calls."""

import pytest
import torch
from test_decode_step import Beside, obey
from tiny_models import tiny_model

from llmcli.engine.cache import new_cache
from llmcli.engine.compile import join, launch, store
from llmcli.engine.compile.compiler import refusal
from llmcli.engine.compile.join import join_projections, joined_tensors
from llmcli.engine.compile.skeleton import EXAMPLE_TOKENS
from llmcli.engine.compile.steps import recipe_of
from llmcli.engine.decode.arguments import Arguments
from llmcli.engine.decode.compiled import CompiledStep
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.step import windows_of
from llmcli.engine.int4 import quantize_int4

LAYERS = 2


def quantized(model_type="llama", kv_heads=4, **more):
    """A model of int4 layers: 64 outputs of query (4 heads of 16), 16 · kv_heads of key and value."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16, "num_key_value_heads": kv_heads}
    model = tiny_model(model_type, vocab_size=258, num_hidden_layers=LAYERS, **(sizes | more))
    quantize_int4(model, unpacked=False)
    return model


def calls(module):
    return sum("int4pack" in str(node.target) for node in module.graph.nodes)


def exported(model, rows=1):
    beside = Beside(model, rows)
    beside.read(2, EXAMPLE_TOKENS)
    return beside, beside.export()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3"])  # of which qwen2 has biases, qwen3 norms between
def test_joined_projections_answer_as_the_model(model_type, rows):
    beside, module = exported(quantized(model_type), rows)
    before = calls(module)
    joined = join_projections(module)
    # query, key and value become one, gate and up another
    assert calls(module) == before - 3 * LAYERS
    assert len(joined) == 2 * 2 * LAYERS
    beside.steps(4)


def test_what_is_joined_can_be_made_of_a_models_tensors():
    _, module = exported(quantized())
    joined = join_projections(module)
    tensors = dict(module.named_buffers())
    made = joined_tensors(joined, tensors)
    assert made.keys() == joined.keys()
    for name, tensor in made.items():
        assert torch.equal(tensor, tensors[name])


def test_nothing_follows_a_part_that_ends_inside_a_run_of_the_kernels_order():
    beside, module = exported(quantized(kv_heads=2))  # 32 outputs of key, half a run
    attention = [parts for parts in join_projections(module).values() if "self_attn" in parts[0]]
    assert [[part.split(".")[-2] for part in parts] for parts in attention] == [["q_proj", "k_proj"]] * (2 * LAYERS)
    beside.steps(3)


@pytest.mark.parametrize(("most", "together"), [(0, 0), (64 * 64 * 3 - 1, 2), (64 * 64 * 3, 3), (1 << 20, 3)])
def test_large_products_stay_apart(monkeypatch, most, together):
    monkeypatch.setattr(join, "_MOST_WEIGHTS", most)
    _, module = exported(quantized())
    attention = [parts for parts in join_projections(module).values() if "self_attn" in parts[0]]
    assert [len(parts) for parts in attention] == [together] * (2 * LAYERS if together else 0)


def test_query_key_and_value_are_joined_where_a_large_product_has_their_input_too(monkeypatch):
    monkeypatch.setattr(join, "_MOST_WEIGHTS", 64 * 64 * 3)
    beside, module = exported(quantized("cohere"))  # attention and feed-forward read the same normed input
    joined = [parts for parts in join_projections(module).values() if "packed" in parts[0]]
    assert [len(parts) for parts in joined] == [3] * LAYERS
    beside.steps(3)


@pytest.mark.skipif(refusal() is not None, reason="there is no compiler")
def test_a_really_compiled_step_reads_the_weights_of_the_model_joined(home, tmp_path):
    model = quantized()
    (tmp_path / "config.json").write_text(model.config.to_json_string())
    recipe = recipe_of(tmp_path, model, "int4", 1)
    launch.compile_now(recipe)
    package = store.find(recipe)
    assert package is not None, launch.last_words()
    assert len(package.meta.joined) == 2 * 2 * LAYERS
    step = CompiledStep(package, model, windows_of(new_cache(model.config)))
    with torch.inference_mode():
        prompt, ids = torch.arange(2, 13)[None], torch.tensor([[7]])
        cache, beside = new_cache(model.config), new_cache(model.config)
        forward(model, prompt, cache)
        forward(model, prompt, beside)
        arguments = Arguments(cache)
        for position in range(11, 15):
            got = step(arguments.next(ids, position))
            arguments.wrote()
            ids = obey(got, forward(model, ids, beside))
