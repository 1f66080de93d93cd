"""`--decode`: what is refused before anything loads, and what is served another way."""

import pytest

ASK = ("-p", "hi", "--max-new-tokens", 3)


@pytest.mark.parametrize("device", ["cpu", "mps"])
@pytest.mark.parametrize("command", ["chat", "bench"])
def test_graphs_on_a_device_without_them_are_refused_in_one_line(llmcli, tiny, command, device):
    ran = llmcli(command, tiny, "--decode", "graph", "--device", device)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"error: --decode graph with --device {device} is not possible: CUDA graphs need a CUDA device",
        "  Leave --decode out: auto takes what is fastest there.",
    ]


def test_graphs_on_a_machine_without_cuda_are_eager_with_a_notice(llmcli, tiny, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    ran = llmcli("chat", tiny, *ASK, "--decode", "graph", "--json")
    assert ran.code == 0, ran.err
    assert "notice: --decode graph: CUDA graphs need a CUDA device, and this is cpu; decode is eager" in ran.err
    assert ran.json()["model"]["decode_path"] == "eager"
    assert ran.json()["tokens"]["generated"] == 3
