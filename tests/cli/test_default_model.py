"""The registry's default model, really fetched, converted and asked."""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import torch
from programs import run_llmcli

from llmcli.engine.decode.eager import EagerPath
from llmcli.engine.detokenize import Detokenizer
from llmcli.engine.generate import generate
from llmcli.engine.start import start_engine
from llmcli.inference import LoadRequest

pytestmark = pytest.mark.default_model
PARAMETERS, EMBEDDING, LINEAR = 134_515_008, 49_152 * 576, 106_168_320
"""All of them; those of the embedding, which is the output head as well; those of the linear layers."""
UNPACKED = 2 * LINEAR
"""Bytes that prompts are multiplied with, beside what is packed."""
PACKED = LINEAR * 5 // 8 + EMBEDDING + 2 * 49_152 + 2 * (PARAMETERS - LINEAR)
"""Bytes of int4: 5 bits per linear weight, a byte and a scale per row for the head, 16 bits for all others."""
QUESTION = "Complete the sentence: The capital of France is"


@pytest.fixture(scope="session")
def engine(default_home):
    path = run_llmcli(default_home, "models", "path").stdout.strip()
    loaded = start_engine(LoadRequest(path=Path(path), name="default", source=path))
    yield loaded
    loaded.close()


def test_it_knows_the_capital_of_france(default_home):
    ran = run_llmcli(default_home, "chat", "-p", QUESTION, "--json")
    record = json.loads(ran.stdout)
    assert record["text"] == "The capital of France is Paris."
    assert record["finish_reason"] == "eos"
    model = record["model"]
    assert (model["quant"], model["dtype"], model["params"]) == ("int4", "bfloat16", PARAMETERS)
    assert model["weight_bytes"] == PACKED + UNPACKED
    assert record["ceiling"]["bytes_per_step"] < PACKED
    tokens = record["tokens"]
    assert record["memory"]["kv_bytes"] == 23_040 * (tokens["prompt"] + tokens["generated"] - 1)


def test_a_stop_text_ends_the_answer_before_itself(default_home):
    ran = run_llmcli(default_home, "chat", "-p", QUESTION, "--stop", "ris", "--stop", "zzz")
    assert ran.stdout == "The capital of France is Pa\n"


@pytest.mark.parametrize(("quant", "beside"), [("int4", UNPACKED), ("none", 0)])
def test_the_estimate_is_the_size_of_the_real_cache_and_of_the_real_weights(default_home, quant, beside):
    asked = ("-p", QUESTION, "--max-new-tokens", "8", "--json", "--quant", quant)
    record = json.loads(run_llmcli(default_home, "chat", *asked).stdout)
    held = record["tokens"]["prompt"] + record["tokens"]["generated"] - 1
    sized = run_llmcli(default_home, "estimate-kv", "--context", held, "--format", "json", "--quant", quant)
    row = json.loads(sized.stdout)["rows"][0]
    assert row["kv_bytes"] == record["memory"]["kv_bytes"]
    assert row["weights_bytes"] == record["model"]["weight_bytes"] - beside


def test_a_reader_that_goes_away_ends_it_quietly(default_home):
    environment = {**os.environ, "LLMCLI_HOME": str(default_home)}
    program = [sys.executable, "-m", "llmcli", "chat", "-p", "Tell me a very long story."]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment
    ) as child:
        child.stdout.read(5)
        child.stdout.close()
        err = child.stderr.read().decode()
    assert child.returncode == 141
    assert "Traceback" not in err
    assert "interrupted" in err
    assert "error" not in err


@pytest.mark.parametrize(
    "text",
    ["안녕하세요 👩‍👩‍👧‍👦!", unicodedata.normalize("NFD", "한글 é"), "日本語 𠮷", "a" * 300, "x = [1, 2]\n\n  if x:"],
)
def test_its_tokenizer_streams_what_it_decodes_at_every_cut(engine, text):
    tokenizer = engine._loaded.tokenizer
    ids = tokenizer(text, add_special_tokens=False).input_ids
    for cut in range(len(ids) + 1):
        detokenizer = Detokenizer(tokenizer)
        shown = "".join(detokenizer.add(token_id) for token_id in ids[:cut]) + detokenizer.finish()
        assert shown == tokenizer.decode(ids[:cut], skip_special_tokens=True)


def test_chunks_of_the_prompt_leave_the_answer_within_16_bit_rounding(engine):
    """Teacher-forced in bfloat16: where the choice differs, the two best logits are 4 ulp apart at most."""
    loaded = engine._loaded
    prompt = torch.tensor([loaded.tokenizer("The history of Rome began " * 20).input_ids])
    whole, split = (_first_logits(loaded.model, prompt, chunk) for chunk in (prompt.shape[1], 17))
    if int(whole.argmax()) != int(split.argmax()):
        best = whole.float().topk(2).values[0]
        ulp = torch.finfo(torch.bfloat16).eps * 2 ** torch.floor(torch.log2(best[0].abs()))
        assert best[0] - best[1] <= 4 * ulp
    assert (whole - split).abs().max() < 1


def _first_logits(model, prompt, chunk):
    from llmcli.engine.cache import new_cache

    seen = []

    def sample(logits):
        seen.append(logits)
        return (0,)

    cache = new_cache(model.config)
    path = EagerPath(model, cache, sample)
    list(generate(path, prompt, chunk=chunk, check=lambda _: "length", clock=lambda: 0.0))
    return seen[0]
