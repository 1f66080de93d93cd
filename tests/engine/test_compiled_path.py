"""A step that is really compiled: found, given the model's weights, checked, and as true as the eager one."""

import json
import shutil
import threading
from types import SimpleNamespace

import compiled
import pytest
import torch
from conversations import After
from safetensors import safe_open
from test_decode_step import obey
from tiny_models import greedy

import llmcli.engine.compile.build
import llmcli.engine.serve
from llmcli.engine import kv_rows
from llmcli.engine.compile import recipe as recipes
from llmcli.engine.compile import store
from llmcli.engine.decode.compiled import CompiledStep
from llmcli.engine.sample import Sampler
from llmcli.engine.start import start_engine
from llmcli.inference import GenerateRequest, Piece

FIRST = list(range(2, 13))


@pytest.fixture
def model(compiled_model, home):
    """A model whose step lies in this test's cache."""
    folder, packages = compiled_model
    compiled.put(packages)
    return folder


@pytest.fixture
def open_engine():
    """Load a model as a command does; all are closed again."""
    opened = []

    def start(folder, **more):
        opened.append(start_engine(compiled.request(folder, **more)))
        return opened[-1]

    yield start
    for engine in opened:
        engine.close()


@pytest.fixture
def logits(monkeypatch):
    """What any path has chosen its ids from since the last call."""
    seen = []

    class Recording(Sampler):
        def __call__(self, logits):
            seen.append(logits.clone())
            return super().__call__(logits)

    monkeypatch.setattr(llmcli.engine.serve, "Sampler", Recording)

    def taken():
        rows = list(seen)
        seen.clear()
        return rows

    return taken


def ask(engine, prompt, *, tokens=8, cancel=None, beside=(), **sampling):
    request = GenerateRequest(tuple(prompt), greedy(tokens, **sampling), reuse_cache=True, beside=beside)
    events = list(engine.generate(request, cancel or threading.Event()))
    return [event.token_id for event in events if isinstance(event, Piece)], events[-1].trace


def package_of(engine):
    return store.place_of(engine._loaded.compiled.recipe(1))


def edit(directory, **more):
    """Change what is known of a package; sums are of the other files."""
    file = directory / store.META
    file.write_text(json.dumps(json.loads(file.read_text()) | more))


# Its answers


@pytest.mark.parametrize("rows", [512, 16])
def test_the_turns_of_a_conversation_are_answered_as_by_eager_steps(model, open_engine, logits, monkeypatch, rows):
    monkeypatch.setattr(kv_rows, "FIRST_ROWS", rows)
    monkeypatch.setattr(kv_rows, "SPARE_ROWS", rows // 4)
    engines = open_engine(model), open_engine(model, decode="eager")
    prompt, seeds = FIRST, {"temperature": 0.9, "top_p": 0.95, "seed": 7, "repetition_penalty": 1.2}
    for tokens, cancel, sampling in ((14, None, {}), (9, 5, {}), (12, None, seeds), (1, None, {}), (20, None, {})):
        answers = []
        for engine in engines:
            answer = ask(engine, prompt, tokens=tokens, cancel=cancel and After(cancel), **sampling)
            answers.append((*answer, logits()))
        (ids, trace, got), (same, plain, want) = answers
        assert ids == same
        assert (trace.decode_path, plain.decode_path) == ("compiled", "eager")
        assert (trace.cached, trace.steps, trace.finish_reason) == (plain.cached, plain.steps, plain.finish_reason)
        assert trace.kv_bytes == plain.kv_bytes
        for one, other in zip(got, want, strict=True):
            obey(one, other)
        prompt = [*prompt, *ids, *range(60, 66)]
    assert trace.cached > 40


def test_a_long_prompt_and_an_edited_one(model, open_engine):
    engines = open_engine(model), open_engine(model, decode="eager")
    for prompt in (range(2, 202), [*range(2, 100), 7, 8], [5]):
        assert ask(engines[0], prompt)[0] == ask(engines[1], prompt)[0]


def test_a_batch_without_a_step_of_its_own_is_eager(model, open_engine):
    engine = open_engine(model)
    _, trace = ask(engine, FIRST, beside=(tuple(range(40, 51)),))
    assert (trace.decode_path, trace.batch) == ("eager", 2)
    assert engine.to_compile(2).rows == 2
    assert ask(engine, FIRST)[1].decode_path == "compiled"


def test_the_weights_are_those_of_the_model_and_no_second_ones(model, open_engine, tmp_path):
    other = compiled.save(tmp_path / "other", seed=5)
    assert (other / "config.json").read_bytes() == (model / "config.json").read_bytes()
    answers = [ask(open_engine(one), FIRST) for one in (model, other)]
    assert answers[0][0] != answers[1][0]
    assert answers[1][0] == ask(open_engine(other, decode="eager"), FIRST)[0]
    assert answers[1][1].decode_path == "compiled"
    package = package_of(open_engine(model))
    with safe_open(package / store.CONSTANTS, "pt") as constants:
        assert not [name for name in constants.keys() if name.startswith("model.")]  # noqa: SIM118 - it is no dict


# Found, and found again


def test_it_is_checked_and_timed_once_and_serves_after_a_restart(model, open_engine, monkeypatch):
    edit(package_of(open_engine(model)), eager_ms=None, compiled_ms=None)
    engine = open_engine(model)
    assert engine.info.decode_path == "compiled"
    assert (engine.to_compile(), engine.why_eager()) == (None, None)
    meta = store.find(engine._loaded.compiled.recipe(1)).meta
    assert (meta.eager_ms, meta.compiled_ms) == (compiled.EAGER_MS, compiled.COMPILED_MS)
    monkeypatch.setattr("llmcli.engine.compile.steps._times", None)
    assert open_engine(model).info.decode_path == "compiled"


def test_switching_compiling_off_leaves_what_exists_in_use(model, open_engine, monkeypatch):
    monkeypatch.setenv("LLMCLI_COMPILE", "off")
    assert open_engine(model).info.decode_path == "compiled"


def test_an_eager_load_looks_for_nothing(model, open_engine):
    engine = open_engine(model, decode="eager")
    assert (engine.to_compile(), engine.why_eager(), engine.info.decode_path) == (None, None, "eager")


@pytest.mark.parametrize("more", [{"dtype": "bfloat16"}, {"quant": "int4"}], ids=["dtype", "quant"])
def test_a_model_that_is_loaded_otherwise_has_to_be_compiled_anew(model, open_engine, more):
    engine = open_engine(model, **more)
    assert engine.info.decode_path == "eager"
    assert engine.to_compile() is not None
    assert ask(engine, FIRST)[1].decode_path == "eager"


def test_other_threads_need_other_code(model, open_engine):
    engine, own = open_engine(model), torch.get_num_threads()
    try:
        torch.set_num_threads(own + 1)
        assert store.find(engine._loaded.compiled.recipe(1)) is None
    finally:
        torch.set_num_threads(own)


def test_a_damaged_package_is_thrown_away_and_decode_is_eager(model, open_engine):
    code = package_of(open_engine(model)) / store.CODE
    code.write_bytes(code.read_bytes()[:-1000])
    engine = open_engine(model)
    assert (engine.info.decode_path, engine.why_eager()) == ("eager", None)
    assert engine.to_compile() is not None
    assert not code.exists()
    assert ask(engine, FIRST)[1].decode_path == "eager"


# What is not used, and why


def refused(open_engine, folder):
    """The reason of an engine that answers all the same."""
    engine = open_engine(folder)
    assert engine.info.decode_path == "eager"
    assert engine.to_compile() is None
    assert len(ask(engine, FIRST)[0]) == 8
    return engine.why_eager()


def forged(open_engine, model, folder, **more):
    """A model of another config, in whose place the package of the first one lies."""
    other = compiled.save(folder / "forged", **more)
    place = package_of(open_engine(other, decode="compiled"))
    place.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copytree(package_of(open_engine(model)), place)
    edit(place, eager_ms=None, compiled_ms=None)
    return other


def test_code_for_other_shapes_is_refused(model, open_engine, tmp_path):
    other = forged(open_engine, model, tmp_path, intermediate_size=64)
    reason = refused(open_engine, other)
    assert reason.startswith("the compiled step wants torch.float32 (")
    assert "64" in reason


def test_code_for_another_model_of_the_same_shapes_is_refused(model, open_engine, tmp_path):
    other = forged(open_engine, model, tmp_path, query_pre_attn_scalar=1)
    assert refused(open_engine, other).startswith("the compiled step answers differently from an eager step (by ")


def test_a_step_that_is_slower_serves_only_those_who_ask_for_it(model, open_engine):
    edit(package_of(open_engine(model)), eager_ms=1.0, compiled_ms=9.0)
    assert refused(open_engine, model) == "a compiled step takes 9.0 ms, an eager one 1.0 ms"
    asked = open_engine(model, decode="compiled")
    assert (asked.info.decode_path, asked.why_eager()) == ("compiled", None)
    assert ask(asked, FIRST)[1].decode_path == "compiled"


def test_a_directory_that_others_may_write_to(model, open_engine):
    store.root().chmod(0o770)
    reason = refused(open_engine, model)
    assert reason.startswith(f"{store.root()} could have been written by somebody else")
    assert reason.endswith(f"(Remove it: rm -r {store.root()})")


@pytest.mark.parametrize("name", [store.CODE, store.CONSTANTS])
def test_a_file_that_cannot_be_loaded(model, open_engine, name):
    directory = package_of(open_engine(model))
    (directory / name).write_bytes(b"nothing of the kind")
    edit(directory, sha256={one: store._sha256(directory / one) for one in (store.CODE, store.CONSTANTS)})
    assert refused(open_engine, model).startswith("the compiled step cannot be loaded: ")


def test_a_step_that_could_not_be_compiled_is_tried_again_only_when_asked(model, open_engine):
    recipe = open_engine(model)._loaded.compiled.recipe(1)
    directory = store.place_of(recipe)
    shutil.rmtree(directory)
    directory.mkdir(mode=0o700)
    meta = store.Meta(recipes.facts(recipe), recipes.versions(), 0.0, reason="Python.h is missing")
    (directory / store.META).write_bytes(recipes.msgspec.json.encode(meta))
    assert refused(open_engine, model) == "compiling failed: Python.h is missing; `llmcli models compile` tries again"
    engine = open_engine(model)
    engine.compile_again()
    assert engine.to_compile() == recipe
    assert not directory.exists()


def test_code_gets_ids_one_after_the_other_wherever_they_lie():
    seen = []
    step = object.__new__(CompiledStep)
    step._loader = SimpleNamespace(run=lambda inputs: [seen.append(inputs[0])])
    ids = torch.arange(12).view(4, 3)
    step((ids[:, 2:], torch.tensor([2]), [], [], [], []))
    assert seen[0].is_contiguous()
    assert seen[0].tolist() == [[2], [5], [8], [11]]
