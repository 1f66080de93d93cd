"""What measuring and streaming cost: decode of llmcli against a bare loop over the same model.

Usage: python benchmarks/overhead.py [MODEL] [--tokens N] [--rounds N]

Both run in this process on the same weights with the same attention, in alternation. The bare loop takes no times and
makes no text. llmcli runs as in `llmcli chat`: inference thread, events, detokenizing, writing every piece to a file.
Prints seconds per decode step of both (median over rounds), and the median and spread of the ratio within a round.
"""

import argparse
import os
import platform
import statistics
import threading
import time
from pathlib import Path
from typing import Any, TextIO

import torch

from llmcli.chat.answer import answer
from llmcli.cli.fetching import find, prepare
from llmcli.engine.cache import new_cache
from llmcli.engine.start import start_engine
from llmcli.inference import GenerateRequest, LoadRequest, Message, Sampling

PROMPT = "Tell me the story of a lighthouse keeper who finds a map."


class FileScreen:
    """Writes and flushes every piece, as a terminal would get it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def prefill(self, evaluated: int, total: int) -> None:
        """Nothing is shown."""

    def write(self, text: str) -> None:
        """Write and flush."""
        self._file.write(text)
        self._file.flush()


@torch.inference_mode()
def bare(model: Any, prompt: list[int], tokens: int) -> float:
    """Seconds of tokens - 1 decode steps."""
    cache = new_cache(model.config)
    step = torch.tensor([prompt])
    logits = model(input_ids=step, cache=cache, use_cache=True, logits_to_keep=1).logits
    started = time.perf_counter()
    for _ in range(tokens - 1):
        step = logits[:, -1].argmax(-1, keepdim=True)
        logits = model(input_ids=step, cache=cache, use_cache=True, logits_to_keep=1).logits
        int(step)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    located = find(options.model, None)
    engine = start_engine(LoadRequest(prepare(located), located.name, located.source))
    model, tokenizer = engine._loaded.model, engine._loaded.tokenizer
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": PROMPT}], tokenize=False, add_generation_prompt=True
    )
    prompt = tokenizer(text, add_special_tokens=False).input_ids
    sampling = Sampling(0.0, 1.0, 0, 0.0, 1.0, None, options.tokens)
    request = GenerateRequest((Message("user", PROMPT),), sampling, ignore_eos=True)
    steps = options.tokens - 1
    ours, plain = [], []
    for _ in range(options.rounds + 1):
        plain.append(engine._thread.call(lambda: bare(model, prompt, options.tokens)) / steps)
        with Path(os.devnull).open("w", encoding="utf-8") as file:
            record = answer(engine, request, FileScreen(file), threading.Event()).record
        ours.append(record.seconds.decode / steps)
    ratios = [a / b for a, b in zip(ours[1:], plain[1:], strict=True)]
    print(f"bare loop  {statistics.median(plain[1:]) * 1000:.2f} ms per step")
    print(f"llmcli     {statistics.median(ours[1:]) * 1000:.2f} ms per step")
    print(
        f"llmcli ÷ bare: median {statistics.median(ratios):.3f}, "
        f"{min(ratios):.3f} to {max(ratios):.3f} over {len(ratios)} rounds of {steps} steps"
    )
    info = engine.info
    print(f"{info.name}, {info.dtype}, {info.device}, {info.threads} threads, python {platform.python_version()}")


if __name__ == "__main__":
    main()
