"""What the prefix cache saves: the time to the first token of every turn, with reuse and without.

Usage: python benchmarks/turns.py [MODEL] [--turns N] [--rounds N]

Two engines hold the same model. The same conversation runs on both, turn by turn in alternation, greedy, with answers
of exactly 24 tokens; one continues its cache, the other evaluates the whole conversation every time. Prints for each
turn the prompt, the evaluated tokens, and the medians over the rounds of both times to the first token.
"""

import argparse
import platform
import statistics
import threading
from datetime import UTC, datetime

import torch

from llmcli.chat.conversation import Conversation
from llmcli.cli.fetching import find, prepare
from llmcli.engine.start import start_engine
from llmcli.inference import Engine, Finished, GenerateRequest, LoadRequest, Piece, Sampling
from llmcli.metrics.phases import Delivery
from llmcli.metrics.record import RequestRecord, record_of

QUESTION = "Go on with the story of the lighthouse keeper, and say a little more about the map that was found."
SAMPLING = Sampling(0.0, 1.0, 0, 0.0, 1.0, None, 24)


def turn(engine: Engine, conversation: Conversation, *, reuse: bool) -> tuple[Conversation, RequestRecord]:
    """Ask once more; the conversation with the answer, and the figures."""
    request = GenerateRequest(conversation.asking(QUESTION), SAMPLING, ignore_eos=True, reuse_cache=reuse)
    text = ""
    for event in engine.generate(request, threading.Event()):
        if isinstance(event, Piece):
            text += event.text
        elif isinstance(event, Finished):
            text += event.text
            trace = event.trace
    delivery = Delivery(None, engine.clock())
    record = record_of(engine.info, request, trace, delivery, command="benchmark", started_at=datetime.now(UTC))
    return conversation.answered(QUESTION, text), record


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    located = find(asked.model, None)
    request = LoadRequest(prepare(located), located.name, located.source)
    engines = {reuse: start_engine(request) for reuse in (True, False)}
    records: dict[tuple[int, bool], list[RequestRecord]] = {}
    for _ in range(asked.rounds):
        conversations = {reuse: Conversation(f"Round {torch.rand(1).item()}") for reuse in engines}
        for number in range(asked.turns):
            for reuse, engine in engines.items():
                conversations[reuse], record = turn(engine, conversations[reuse], reuse=reuse)
                records.setdefault((number, reuse), []).append(record)
    print("turn  prompt  evaluated  ttft reused  ttft whole  ratio")
    for number in range(asked.turns):
        kept, whole = records[number, True], records[number, False]
        times = [statistics.median(record.seconds.ttft or 0.0 for record in side) for side in (kept, whole)]
        tokens = kept[-1].tokens
        print(
            f"{number + 1:4}  {tokens.prompt:6}  {tokens.evaluated:9}  {times[0] * 1000:8.0f} ms  "
            f"{times[1] * 1000:7.0f} ms  {times[1] / times[0]:5.1f}"
        )
    info = engines[True].info
    print(f"{info.name}, {info.dtype}, {info.device}, {info.threads} threads, python {platform.python_version()}")


if __name__ == "__main__":
    main()
