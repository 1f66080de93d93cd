"""What `auto` means."""

import pytest
import torch
from gguf_writer import Gguf
from tiny_models import load_request, tiny_model

from llmcli.engine import int4
from llmcli.engine.quantize import choose_quant
from llmcli.errors import UsageError
from llmcli.models.locate import Located
from llmcli.models.packed import packed_as

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda", 0), torch.device("mps")


@pytest.mark.parametrize(("bits", "packed"), [(None, False), (4.5, True), (5.0, True), (5.5, False), (8.5, False)])
def test_auto_quantizes_what_was_packed_to_4_bits_as_the_device_runs_it_fastest(bits, packed):
    request = load_request(quant="auto", packed_bits=bits)
    chosen = [choose_quant(request, None, device) for device in (CUDA, CPU, MPS)]
    assert chosen == (["nf4", "int4", "none"] if packed else ["none"] * 3)


@pytest.mark.parametrize("choice", ["none", "int8", "nf4", "fp4"])
def test_what_is_asked_for_wins_over_how_the_file_was_packed(choice):
    assert choose_quant(load_request(quant=choice, packed_bits=4.5), None, CUDA) == choice


def test_a_quantized_checkpoint_stays_what_it_is():
    assert choose_quant(load_request(quant="auto"), "fp4", CPU) == "fp4"
    with pytest.raises(UsageError, match="stored in fp4 already"):
        choose_quant(load_request(quant="nf4"), "fp4", CPU)


def test_int8_has_one_dtype_and_no_metal():
    for request, device in ((load_request(quant="int8", dtype="bf16"), CPU), (load_request(quant="int8"), MPS)):
        with pytest.raises(UsageError, match="--quant int8"):
            choose_quant(request, None, device)


@pytest.mark.parametrize(
    ("kind", "block", "size", "bits", "name"), [(3, 32, 20, 5.0, "Q4_1"), (8, 32, 34, 8.5, "Q8_0")]
)
def test_the_format_of_a_file_is_that_of_most_of_its_bytes(tmp_path, kind, block, size, bits, name):
    tensors = [("blk.0.a", (64, 64), kind, 64 * 64 // block * size), ("norm", (64,), 0, 256)]
    path = Gguf([("general.architecture", "llama")], tensors).write(tmp_path / "m.gguf")
    packed = packed_as(Located("m", "gguf", str(path), path, None))
    assert (packed.bits, packed.type) == (bits, name)


def test_a_directory_was_packed_in_no_way(tmp_path):
    assert packed_as(Located("m", "directory", str(tmp_path), tmp_path, None)).bits is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_int4_packs_the_same_however_many_weights_it_takes_at_once(monkeypatch, dtype):
    def packed():
        torch.manual_seed(0)
        model = tiny_model("llama", vocab_size=258, hidden_size=64, intermediate_size=96).to(dtype)
        int4.quantize_int4(model.requires_grad_(requires_grad=False), unpacked=True)
        held = list(int4.int4_modules(model))
        return [*(tensor for one in held for tensor in one.buffers()), *(one.dense[0] for one in held[:-1])]

    whole = packed()
    monkeypatch.setattr(int4, "_ALONE", 200)
    assert all(map(torch.equal, whole, packed()))


def test_layers_that_share_a_weight_are_packed_once():
    model = tiny_model("llama", vocab_size=258, hidden_size=64, intermediate_size=96)
    first, last = model.model.layers[0].mlp, model.model.layers[-1].mlp
    last.up_proj.weight = first.up_proj.weight
    int4.quantize_int4(model.requires_grad_(requires_grad=False), unpacked=False)
    assert last.up_proj is first.up_proj
    assert last.down_proj is not first.down_proj
