"""Which answers several sessions hold: copies, forks, resumed sessions. Each counts once, in the longest.

An answer is the same in two sessions where what was said since the one before it is, and what it says, and
what the provider counted, and when it came. Two sessions that only begin alike share no answer. Agents that
write copies with new times (Codex) are known by their answers without them, where an id of the provider's is
in it. Answers of which neither time nor usage is known are copies only where the whole sessions are equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import TypeVar

import msgspec

from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.transcript import Message, Part, Thinking, ToolCall

_RESTAMPED = frozenset({"codex"})
"""Formats whose copies have the time of the copy."""

Name = TypeVar("Name", bound=Hashable)


class Answers(msgspec.Struct, frozen=True):
    """The answers of one session, in order: each by a digest, None where the call failed."""

    session: str
    size: int
    """How many parts its messages have: of sessions with as many answers the larger one counts."""
    digests: tuple[int | None, ...]


def answers_of(recording: Recording) -> Answers:
    """The answers of a session."""
    found: list[int | None] = []
    whole: bytes | None = None
    for epoch in recording.epochs:
        begins = 0
        for call in epoch.calls:
            if call.failed:
                found.append(None)
                continue
            end = call.position + 1
            said = _said(epoch, begins, end)
            begins = end
            if call.time is None and call.usage is None:
                whole = whole or encoded([one.messages for one in recording.epochs])
                found.append(_digest([len(found), blake2b(whole).digest()]))
            else:
                time = None if recording.format in _RESTAMPED and _has_id(epoch.messages, call) else call.time
                found.append(_digest([said, call.usage, call.model, time]))
    size = sum(len(message.parts) for epoch in recording.epochs for message in epoch.messages)
    return Answers(recording.session, size, tuple(found))


def copied(sessions: Sequence[tuple[Name, Answers]]) -> dict[Name, tuple[int, ...]]:
    """The calls of each session, by number, that count in another one; sessions without any are left out."""
    counted: set[int] = set()
    found: dict[Name, tuple[int, ...]] = {}
    for name, answers in sorted(sessions, key=lambda one: (-len(one[1].digests), -one[1].size)):
        copies = tuple(_copies(answers.digests, counted))
        if copies:
            found[name] = copies
        counted.update(digest for digest in answers.digests if digest is not None)
    return found


def without(recording: Recording, calls: Iterable[int]) -> Recording:
    """The session without these calls, by number over all epochs: their answers are messages alone."""
    out = frozenset(calls)
    if not out:
        return recording
    number = 0
    epochs: list[Epoch] = []
    for epoch in recording.epochs:
        own = [call for place, call in enumerate(epoch.calls, start=number) if place not in out]
        number += len(epoch.calls)
        epochs.append(msgspec.structs.replace(epoch, calls=tuple(own)))
    return msgspec.structs.replace(recording, epochs=tuple(epochs), copied=recording.copied + len(out))


def each_once(recordings: Sequence[Recording]) -> list[Recording]:
    """The sessions with each answer in one of them; those that hold nothing else are left out."""
    copies = copied([(place, answers_of(recording)) for place, recording in enumerate(recordings)])
    kept = [without(recording, copies.get(place, ())) for place, recording in enumerate(recordings)]
    return [recording for recording in kept if recording.llm_calls or not recording.copied]


def _copies(digests: Sequence[int | None], counted: set[int]) -> Iterable[int]:
    """The numbers of those that count already. A failed call is copied where the next answer is."""
    follows = False
    for number in range(len(digests) - 1, -1, -1):
        digest = digests[number]
        follows = follows if digest is None else digest in counted
        if follows:
            yield number


def _said(epoch: Epoch, begins: int, end: int) -> list[tuple[Part, ...]]:
    """What the user, tools and the model said; what the host adds may differ from copy to copy."""
    roles = ("user", "tool", "assistant", "shell")
    return [message.parts for message in epoch.messages[begins:end] if message.role in roles]


def _has_id(messages: Sequence[Message], call: LLMCall) -> bool:
    """Whether the answer holds something that no other answer has."""
    answer = messages[call.position].parts if call.position < len(messages) else ()
    return any(
        isinstance(part, ToolCall) or (isinstance(part, Thinking) and bool(part.signature)) for part in answer
    )


def _digest(value: object) -> int:
    return int.from_bytes(blake2b(encoded(value), digest_size=8).digest()) >> 1


def encoded(value: object) -> bytes:
    """The value as JSON; as Python writes it where JSON knows no such text or number."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError):
        return repr(value).encode("utf-8", "backslashreplace")
