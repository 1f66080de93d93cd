"""The engines that gpu.py measures, each in a process of its own, on a model with random weights."""

from pathlib import Path
from typing import Any

from peer_engines import Transformers, require_path, run_request
from random_model import fill

from llmcli.inference import DecodeChoice, LoadRequest, QuantChoice


class LlmcliPart:
    """llmcli on the checkpoint in `directory`, whose weights are filled after loading."""

    def __init__(self, directory: str, device: str, quant: QuantChoice, decode: DecodeChoice) -> None:
        from llmcli.engine.start import start_engine

        path = Path(directory)
        self._engine = engine = start_engine(
            LoadRequest(path, path.name, "random", quant=quant, device=device, weights_only=True, decode=decode)
        )
        require_path(engine, quant, decode)
        engine._thread.call(lambda: fill(engine._loaded.model))
        info = engine.info
        self.facts = {
            "device": info.device,
            "dtype": info.dtype,
            "quant": info.quant,
            "decode_path": info.decode_path,
            "attention": info.attention,
            "params": info.params,
            "weight_bytes": info.weight_bytes,
            "streamed_bytes": info.streamed_bytes,
            "load_seconds": info.load_seconds,
            "prefill_chunk": engine._loaded.chunk,
            "notices": list(info.notices),
        }

    def request(self, prompt: int, steps: int) -> dict[str, float]:
        """One request; see `run_request`."""
        return run_request(self._engine, prompt, steps)


class TransformersPart(Transformers):
    """transformers' `generate` on the same checkpoint."""

    def _start(self, model: Any) -> None:
        fill(model)
        super()._start(model)
