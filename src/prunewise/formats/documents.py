"""Session files that are one JSON document, and the epochs that a reader makes of what is in them.

Knows JSON, also where it breaks off. Knows nothing of what the values mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from prunewise.errors import InputError
from prunewise.formats.reading import Json
from prunewise.recording import Ending, Epoch, LLMCall
from prunewise.transcript import Message, Usage

_BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s"{}\[\]:,]+')
_DEEPEST = 4
"""How deep `outline` looks."""


def decode(source: str, data: bytes) -> Json:
    """The one JSON value that a file holds.

    Raises:
        InputError: it holds none, or it breaks off.
    """
    try:
        return msgspec.json.decode(data.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        msg = f"{source}: no JSON document: {str(error).splitlines()[0]}"
        raise InputError(msg) from None


def outline(head: bytes) -> set[tuple[str, ...]]:
    """The paths of the keys that a JSON document begins with, as far as `head` goes, four levels deep.

    An element of a list counts as a key named `[]`; the same path is there once. Whatever the bytes
    hold, nothing is raised. Of a file of one document a line, the first line counts.
    """
    found: set[tuple[str, ...]] = set()
    path: list[str] = []
    lists: list[bool] = []
    text: bytes | None = None
    for token in _TOKEN.finditer(head.removeprefix(_BOM)):
        mark = token[0]
        if mark in (b"{", b"["):
            is_list = mark == b"["
            lists.append(is_list)
            path.append("[]" if is_list else "")
            if is_list and len(path) <= _DEEPEST:
                found.add(tuple(path))
        elif mark in (b"}", b"]"):
            if not lists:
                break
            lists.pop()
            path.pop()
            if not lists:
                break
        elif mark == b":" and text is not None and lists and not lists[-1]:
            path[-1] = text.decode("utf-8", "replace")
            if len(path) <= _DEEPEST:
                found.add(tuple(path))
        text = mark[1:-1] if mark.startswith(b'"') else None
    return found


class Epochs:
    """The epochs of one session, made message by message."""

    __slots__ = ("_calls", "_done", "messages")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """What the next request would hold."""
        self._calls: list[LLMCall] = []
        self._done: list[Epoch] = []

    def add(self, messages: Iterable[Message]) -> None:
        """Append messages to what is sent."""
        self.messages.extend(messages)

    def call(
        self,
        *,
        usage: Usage | None = None,
        time: float | None = None,
        model: str = "",
        provider: str = "",
        failed: bool = False,
        warmed: float | None = None,
        beside: tuple[Usage, ...] = (),
    ) -> None:
        """An LLM call whose request holds the messages so far; the next message added is its answer."""
        self._calls.append(LLMCall(len(self.messages), usage, time, model, provider, failed, warmed, beside))

    def end(self, ended_by: Ending, kept: Sequence[Message] = ()) -> None:
        """End the epoch; the next one begins with the messages that were kept."""
        if self._calls:
            self._done.append(Epoch(tuple(self.messages), tuple(self._calls), ended_by))
        self.messages = list(kept)
        self._calls = []

    def finished(self) -> tuple[Epoch, ...]:
        """All epochs; an epoch without any LLM call is left out where there is another."""
        last = Epoch(tuple(self.messages), tuple(self._calls))
        return (*self._done, last) if last.calls or (last.messages and not self._done) else tuple(self._done)
