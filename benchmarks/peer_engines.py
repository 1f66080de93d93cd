"""The engines that are compared: each loads a model once, then runs requests of random ids and says how long they took.

A request of `prompt` ids and `steps` decode steps makes steps + 1 tokens; the first one comes from prefill. Every
figure is in seconds: `prefill` until the first token's logits (or, with transformers and llama.cpp, its id) are known,
`decode` from the first token to the last.
"""

import os
import random
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers import Unavailable

from llmcli.inference import DecodeChoice, Finished, GenerateRequest, QuantChoice, Sampling

if TYPE_CHECKING:
    from llmcli.engine.local import LocalEngine

INSTALL_LLAMA_CPP = (
    "xllamacpp, a prebuilt llama.cpp, is not installed: pip install xllamacpp "
    "(or pip install --no-deps --target DIR xllamacpp, with DIR on PYTHONPATH)"
)
VARIANTS: dict[str, tuple[QuantChoice, DecodeChoice]] = {
    "bf16-eager": ("none", "eager"),
    "int4-eager": ("int4", "eager"),
    "bf16-compiled": ("none", "compiled"),
    "int4-compiled": ("int4", "compiled"),
}
"""What is measured of llmcli on a CPU."""
_CONTEXT = 2048


def greedy(tokens: int) -> Sampling:
    """Greedy sampling of exactly `tokens` tokens."""
    return Sampling(0.0, 1.0, 0, 0.0, 1.0, None, tokens)


def run_request(engine: "LocalEngine", prompt: int, steps: int, rows: int = 1) -> dict[str, float]:
    """One request on llmcli's engine: its own trace's seconds. `prefill_started` … the last arrival."""
    first, *beside = (_fresh(prompt, engine.info.vocab_size, engine.special_ids) for _ in range(rows))
    request = GenerateRequest(first, greedy(steps + 1), ignore_eos=True, beside=tuple(beside))
    trace = next(event.trace for event in engine.generate(request, threading.Event()) if isinstance(event, Finished))
    if trace.error is not None:
        raise trace.error
    if trace.generated != steps + 1:
        raise Unavailable(f"it made {trace.generated} tokens instead of {steps + 1}: {trace.finish_reason}")
    return {
        "prefill": trace.prefill_ended - trace.prefill_started,
        "decode": trace.arrivals[-1] - trace.arrivals[0],
        "kv_bytes": trace.kv_bytes or 0,
    }


def require_path(engine: "LocalEngine", quant: QuantChoice, decode: DecodeChoice) -> None:
    """Raise Unavailable when the engine runs otherwise than it was asked to."""
    info = engine.info
    if (info.quant, info.decode_path) != (quant, decode):
        said = "".join(f"; {notice}" for notice in info.notices)
        raise Unavailable(f"asked for {decode} with quant {quant}, it runs {info.decode_path} with {info.quant}{said}")


def _fresh(count: int, vocabulary: int, special: frozenset[int] = frozenset()) -> tuple[int, ...]:
    from llmcli.bench.run import random_ids

    return random_ids(count, vocabulary, special)


class Llmcli:
    """llmcli with one quantization and one decode path, as `llmcli bench` and `chat` load it, text included."""

    def __init__(self, model: str | None, quant: QuantChoice, decode: DecodeChoice) -> None:
        from llmcli.cli.fetching import find
        from llmcli.cli.opening import load_request
        from llmcli.cli.options import ModelOptions
        from llmcli.engine.start import start_engine

        self._engine = start_engine(load_request(find(model, None), ModelOptions(quant=quant, decode=decode)))
        info = self._engine.info
        require_path(self._engine, quant, decode)
        self.facts = {
            "dtype": info.dtype,
            "quant": info.quant,
            "decode_path": info.decode_path,
            "attention": info.attention,
            "threads": info.threads,
            "streamed_bytes": info.streamed_bytes,
            "versions": info.versions,
            "notices": list(info.notices),
        }

    def request(self, prompt: int, steps: int, rows: int = 1) -> dict[str, float]:
        """One request of `rows` sequences."""
        return run_request(self._engine, prompt, steps, rows)

    def overhead(self, prompt: int, steps: int) -> dict[str, float]:
        """Seconds of `steps` steps: the bare decode path (`bare`), and the whole way through thread, events,
        detokenizing and writing (`full`); the least of three each, taken in the order b-f-f-b-b-f."""
        ids = _fresh(prompt, self._engine.info.vocab_size, self._engine.special_ids)
        ways = {"bare": self._bare, "full": self._full}
        times = [(name, ways[name](ids, steps)) for name in ("bare", "full", "full", "bare", "bare", "full")]
        return {way: min(seconds for name, seconds in times if name == way) for way in ways}

    def _bare(self, ids: tuple[int, ...], steps: int) -> float:
        return self._engine._thread.call(lambda: bare_decode(self._engine._loaded, ids, steps))

    def _full(self, ids: tuple[int, ...], steps: int) -> float:
        from overhead import FileScreen

        from llmcli.chat.answer import answer

        request = GenerateRequest(ids, greedy(steps + 1), ignore_eos=True)
        with Path(os.devnull).open("w", encoding="utf-8") as file:
            answered = answer(self._engine, request, FileScreen(file), threading.Event())
        if answered.error is not None:
            raise answered.error
        return answered.record.seconds.decode or 0.0


def bare_decode(loaded: Any, ids: tuple[int, ...], steps: int) -> float:
    """Seconds of `steps` steps of the decode path that llmcli takes, in a loop that does nothing else."""
    import torch

    from llmcli.engine.decode.choose import begin_path
    from llmcli.engine.generate import synchronize
    from llmcli.engine.live_cache import LiveCache
    from llmcli.engine.sample import Sampler

    with torch.inference_mode():
        prompt = torch.tensor([ids], device=loaded.device)
        live = LiveCache(loaded.model.config)
        path = begin_path(loaded, live.begin(0), Sampler(greedy(steps + 1), prompt), prompt)
        for chunk in prompt.split(loaded.chunk, dim=1):
            logits = path.prefill(chunk)
        last = path.first(logits)
        synchronize(loaded.device)
        started = time.perf_counter()
        made = 0
        while made < steps:
            positions = path.step(last)
            last = positions[-1]
            made += len(positions)
        seconds = time.perf_counter() - started
        path.settle(len(ids) + made)
    return seconds * steps / made


class Transformers:
    """transformers' `generate` on bf16 weights as people call it; a streamer tells when each token was there."""

    def __init__(self, directory: str, device: str = "cpu", dtype: str = "bfloat16") -> None:
        import torch
        from transformers import AutoModelForCausalLM

        from llmcli.engine.quiet import quiet

        quiet()
        placement = {} if device == "cpu" else {"device_map": {"": device}}
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype), **placement).eval()
        self._start(model)

    def _start(self, model: Any) -> None:
        import torch
        import transformers

        model.generation_config.eos_token_id = None  # every request runs to its last step
        model.generation_config.pad_token_id = 0
        self._model = model
        self.facts = {
            "dtype": str(model.dtype).removeprefix("torch."),
            "attention": model.config._attn_implementation,
            "threads": torch.get_num_threads(),
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        }

    def request(self, prompt: int, steps: int) -> dict[str, float]:
        """One call of `generate`. The streamer gets the prompt as it starts, then one id after the other."""
        import torch

        times: list[float] = []
        streamer = _Times(times)
        ids = torch.tensor([_fresh(prompt, self._model.config.get_text_config().vocab_size)], device=self._model.device)
        self._model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=steps + 1, streamer=streamer
        )
        if len(times) != steps + 2:
            raise Unavailable(f"it made {len(times) - 1} tokens instead of {steps + 1}")
        return {"prefill": times[1] - times[0], "decode": times[-1] - times[1]}


class _Times:
    """A streamer of transformers that notes when it is given something."""

    def __init__(self, times: list[float]) -> None:
        self._times = times

    def put(self, value: Any) -> None:
        del value
        self._times.append(time.perf_counter())

    def end(self) -> None:
        """Nothing is left to show."""


class LlamaCpp:
    """llama.cpp's server from the prebuilt wheel xllamacpp, in its defaults, with its own timings."""

    def __init__(self, gguf: str, threads: int, vocabulary: int) -> None:
        try:
            import xllamacpp
        except ImportError:
            raise Unavailable(INSTALL_LLAMA_CPP) from None
        from llmcli.models.gguf import read_gguf

        settings = xllamacpp.CommonParams()
        settings.model.path = gguf
        settings.n_ctx = _CONTEXT
        settings.n_parallel = 1
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        settings.verbosity = 0
        self._server = xllamacpp.Server(settings)
        self._vocabulary = vocabulary
        sizes = {tensor.name: tensor.size for tensor in read_gguf(Path(gguf)).tensors}
        untied = sizes.get("token_embd.weight", 0) if "output.weight" in sizes else 0
        self.facts = {
            "file": Path(gguf).name,
            "threads": threads,
            "streamed_bytes": sum(sizes.values()) - untied,
            "versions": {"xllamacpp": xllamacpp.__version__},
            "build": xllamacpp.get_system_info().strip(),
        }

    def request(self, prompt: int, steps: int) -> dict[str, float]:
        """One completion. The first token's time is in the server's `prompt_ms`, so `predicted_ms` is that of the
        `predicted_n` - 1 that follow."""
        ids = random.SystemRandom().choices(range(self._vocabulary), k=prompt)
        answer = self._server.handle_completions(
            {"prompt": ids, "max_tokens": steps + 1, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        )
        if "timings" not in answer:
            raise Unavailable(f"llama.cpp answered {str(answer)[:200]}")
        timings = answer["timings"]
        counts = (timings["prompt_n"], timings["cache_n"], timings["predicted_n"])
        if counts != (prompt, 0, steps + 1):
            raise Unavailable(f"llama.cpp evaluated, reused and made {counts} tokens, not {(prompt, 0, steps + 1)}")
        return {"prefill": timings["prompt_ms"] / 1000, "decode": timings["predicted_ms"] / 1000}
