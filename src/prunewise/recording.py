"""A recorded session as values: what went to the model, LLM call by LLM call, and what was counted.

Readers in `formats` make recordings; the replay runs them. Knows no file format and no price.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from prunewise.tools import Vocabulary
from prunewise.transcript import Message, Usage

Ending = Literal["compaction", "rewind", "end"]


class LLMCall(msgspec.Struct, frozen=True):
    """One request and its answer."""

    position: int
    """The request held the epoch's messages before this one. The answer is the message at it, where it is an
    assistant's: an answer that was aborted, and a summary, are none."""
    usage: Usage | None = None
    """What the provider counted, where the recording says; of a split answer counted once."""
    time: float | None = None
    """When the answer came, seconds since the epoch; the request's own time where only that is known."""
    model: str = ""
    provider: str = ""
    failed: bool = False
    """An error or an abort that the provider counted nothing for: it costs nothing, and leaves no cache."""
    warmed: float | None = None
    """When a request since the call before, one beside the conversation, last kept the cache warm."""
    beside: tuple[Usage, ...] = ()
    """What the provider counted for the requests beside the conversation since the call before; for the last
    call also those after it."""
    speed: str = ""
    """What it was billed as, where that is not the standard: `fast`, `priority`, `flex`, ...; see
    `prices.at_speed`."""

    @property
    def answerer(self) -> tuple[str, str, str]:
        """What answered. Nothing is cached for another one."""
        return self.model, self.provider, self.speed


class Epoch(msgspec.Struct, frozen=True):
    """A stretch of the conversation in which messages were only added. A compaction, or a return to an
    earlier message, begins a new one, whose messages are all that the model was sent from then on:
    the summary and what was kept, then what came after.
    """

    messages: tuple[Message, ...]
    calls: tuple[LLMCall, ...]
    ended_by: Ending = "end"


class Recording(msgspec.Struct, frozen=True):
    """One session: its epochs in order, on the branch that was active last."""

    format: str
    source: str
    """The file (or the database and session) it was read from."""
    session: str
    """The session's own id, else the file's name."""
    epochs: tuple[Epoch, ...]
    vocabulary: Vocabulary
    cwd: str | None = None
    warnings: tuple[str, ...] = ()
    """What was passed over, each `source:line: what, what was done`."""
    branches: int = 1
    """How many branches the session has; the others are not in it."""
    copied: int = 0
    """How many of its answers were made in another session, of which this one holds a copy. They are
    messages here, and no LLM calls: they count there."""
    aside: int = 0
    """How many LLM calls its file holds that are in no recording: those of other branches, and of models that
    the provider asked on its own."""
    subagents: tuple[Recording, ...] = ()
    """The conversations of subagents that its file holds."""

    @property
    def llm_calls(self) -> int:
        """How many LLM calls it holds, failed ones included."""
        return sum(len(epoch.calls) for epoch in self.epochs)
