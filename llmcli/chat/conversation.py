"""What has been said: the turns that every new question is rendered with."""

from dataclasses import dataclass, replace

from llmcli.inference import Message

NO_SYSTEM_ROLE = "notice: the model's template has no system role; the system text goes in front of the first message"
NO_REUSE = "notice: models of this type cannot continue a cache: every answer evaluates the whole conversation anew"


@dataclass(frozen=True, slots=True)
class Conversation:
    """A system text and turns, each a question with its answer: user and assistant strictly alternate.

    Templates of many models refuse anything else, so a question that got no answer leaves no trace.
    """

    system: str = ""
    turns: tuple[Message, ...] = ()

    @property
    def length(self) -> str:
        """How many questions with their answers there are, in words: `1 turn`, `3 turns`."""
        turns = len(self.turns) // 2
        return f"{turns} turn{'' if turns == 1 else 's'}"

    def asking(self, question: str) -> tuple[Message, ...]:
        """The messages of a request for the answer to `question`."""
        system = (Message("system", self.system),) if self.system else ()
        return (*system, *self.turns, Message("user", question))

    def answered(self, question: str, answer: str) -> "Conversation":
        """With one more turn, exactly as it was generated, cut short or not."""
        return replace(self, turns=(*self.turns, Message("user", question), Message("assistant", answer)))

    def cleared(self) -> "Conversation":
        """Without its turns; the system text stays."""
        return replace(self, turns=())

    def with_system(self, system: str) -> "Conversation":
        """With another system text, or none when it is empty."""
        return replace(self, system=system)
