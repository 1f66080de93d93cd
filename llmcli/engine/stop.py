"""What ends an answer."""

from collections.abc import Sequence

from llmcli.engine.detokenize import Detokenizer
from llmcli.inference import FinishReason


class StopStrings:
    """Finds the first stop text in a stream of pieces, over token borders, and holds back what may become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found = False

    def add(self, piece: str) -> str:
        """The text that is certain to be part of the answer."""
        if not self._stops or self.found:
            return "" if self.found else piece
        text = self._held + piece
        at = min((i for i in map(text.find, self._stops) if i >= 0), default=-1)
        if at >= 0:
            self.found, self._held = True, ""
            return text[:at]
        keep = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What was held back and did not become a stop text."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-n:])), 0)


class TextStream:
    """Ids to the text of an answer: detokenized, cut at the first stop text."""

    def __init__(self, tokenizer: object, stops: Sequence[str]) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopStrings(stops)

    @property
    def stopped(self) -> bool:
        """Whether a stop text has been seen."""
        return self._stops.found

    def add(self, token_id: int) -> str:
        """The text that `token_id` adds to the answer."""
        return self._stops.add(self._detokenizer.add(token_id))

    def finish(self) -> str:
        """The rest of the answer."""
        return self._stops.add(self._detokenizer.finish()) + self._stops.finish()


class Stopping:
    """Decides after every token whether it was the last, and why."""

    def __init__(
        self, *, eos_ids: frozenset[int], max_new_tokens: int, room: int, text: TextStream | None = None
    ) -> None:
        """`room`: tokens that the context has left for the answer. `text`: watches for stop texts, if any."""
        self._eos_ids = eos_ids
        self._max_new_tokens = max_new_tokens
        self._room = room
        self._text = text
        self._count = 0

    @property
    def room(self) -> int:
        """The most tokens that the answer may have."""
        return min(self._max_new_tokens, self._room)

    def check(self, token_id: int) -> FinishReason | None:
        """Why the answer ends with `token_id`, or None."""
        self._count += 1
        if token_id in self._eos_ids:
            return "eos"
        if self._text is not None:
            self._text.add(token_id)
            if self._text.stopped:
                return "stop"
        if self._count >= self._max_new_tokens:
            return "length"
        return "context" if self._count >= self._room else None
