"""Devices and free memory, told without torch."""

import sys

import pytest

from llmcli.cli import hardware
from llmcli.cli.hardware import Place, gpus, place_of, torch_build


def test_without_library_or_driver_there_is_no_gpu(nvml, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpus() == ()

    def no_driver():
        raise sys.modules["pynvml"].NVMLError

    nvml("A")
    monkeypatch.setattr(sys.modules["pynvml"], "nvmlInit", no_driver)
    assert gpus() == ()


@pytest.mark.parametrize(
    ("visible", "order", "free"),
    [
        (None, None, [0, 1, 2]),
        ("2,0", None, [2, 0]),
        ("1,-1,0", None, [1]),
        ("", None, []),
        ("9", None, []),
        ("GPU-2", None, [2]),
    ],
)
def test_gpus_are_numbered_as_cuda_numbers_them(nvml, monkeypatch, visible, order, free):
    nvml("A", "A", "A")
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus() == tuple(Place(f"cuda:{i}", number, 100 + number) for i, number in enumerate(free))


def test_an_order_that_cannot_be_told_is_not_guessed(nvml, monkeypatch):
    nvml("A", "B")
    assert gpus() is None
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert len(gpus()) == 2
    for unknown in ("MIG-1", "GPU-7"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", unknown)
        assert gpus() is None


@pytest.mark.parametrize(
    ("version", "system", "machine", "build"),
    [
        ("2.13.0+cpu", "linux", "x86_64", "cpu"),
        ("2.13.0+cu130", "linux", "x86_64", "cuda"),
        ("2.13.0+cu130", "win32", "AMD64", "cuda"),
        ("2.13.0", "linux", "x86_64", "cuda"),
        ("2.13.0", "win32", "AMD64", "cpu"),
        ("2.13.0", "darwin", "arm64", "mps"),
        ("2.13.0", "linux", "aarch64", None),
        ("2.13.0+rocm6.4", "linux", "x86_64", None),
        ("2.13.0a0+git123", "linux", "x86_64", None),
    ],
)
def test_the_build_of_torch_is_told_by_its_version(monkeypatch, version, system, machine, build):
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert torch_build() == build


@pytest.mark.parametrize(
    ("flag", "build", "names", "device"),
    [
        ("auto", "cpu", ("A",), "cpu"),
        ("auto", "cuda", ("A",), "cuda:0"),
        ("auto", "cuda", (), "cpu"),
        ("auto", "cuda", ("A", "B"), None),
        ("auto", "mps", (), "mps"),
        ("auto", None, ("A",), None),
        ("cpu", "cuda", ("A",), "cpu"),
        ("cuda", "cuda", ("A",), "cuda:0"),
        ("cuda:1", "cuda", ("A", "A"), "cuda:1"),
        ("cuda:1", "cuda", ("A",), None),
    ],
)
def test_a_device_flag_means_one_place_or_is_left_to_torch(nvml, monkeypatch, flag, build, names, device):
    nvml(*names)
    monkeypatch.setattr(hardware, "torch_build", lambda: build)
    place = place_of(flag)
    assert (place and place.device) == device
    if device in {"cpu", "mps"}:
        assert 0 < place.free <= place.total
