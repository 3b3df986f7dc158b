"""How large a session's context was, LLM call by LLM call, and where its cache broke and something was cut.

Values only: from the entries of a branch, in the provider's own count; where that was not recorded, from
the messages by estimate. A chart is these values in so many columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from prunewise import ledger
from prunewise.formats.pi import PI
from prunewise.stores.pi_entries import Entry
from prunewise.transcript import Message, Usage

_FOUND = 0.9
"""Of what the call before had left in the cache, the share from which on nothing has broken."""
_SMALLEST = 2048
"""Tokens below which a provider may not cache at all, so that nothing can break."""
_WIDEST_CALL = 3


class Timeline(msgspec.Struct, frozen=True):
    """The LLM calls of a session. Marks name calls by their index; one after the last call is the next
    call to come.
    """

    sizes: tuple[int, ...] = ()
    """The size of each request, in tokens."""
    messages: tuple[str, ...] = ()
    """The ids of the messages that answered."""
    breaks: frozenset[int] = frozenset()
    """Calls that found less in the cache than the call before had left there."""
    cuts: frozenset[int] = frozenset()
    """Calls before which something was pruned or restored."""
    compactions: frozenset[int] = frozenset()
    """The first calls after a compaction."""
    estimated: bool = False
    """Whether the sizes are estimates, because the session says nothing of usage."""


def recorded(branch: Iterable[Entry]) -> Timeline:
    """The timeline of a branch, by the usage in its messages. Calls without usage are left out."""
    sizes: list[int] = []
    messages: list[str] = []
    breaks: set[int] = set()
    cuts: set[int] = set()
    compactions: set[int] = set()
    before: Usage | None = None
    for entry in branch:
        if entry.type == "compaction":
            compactions.add(len(sizes))
            before = None
        elif entry.type == "custom" and entry.raw.get("customType") in (ledger.DECISION, ledger.RESTORE):
            cuts.add(len(sizes))
        elif entry.role == "assistant":
            usage = _usage(entry.message or {}, entry.id)
            if usage is None or not _request(usage):
                continue
            if before is not None and _broke(before, usage):
                breaks.add(len(sizes))
            sizes.append(_request(usage))
            messages.append(entry.id)
            before = usage
    return Timeline(tuple(sizes), tuple(messages), frozenset(breaks), frozenset(cuts), frozenset(compactions))


def _usage(answer: Mapping[str, Any], id: str) -> Usage | None:
    """What the provider counted for an answer. Its content is not looked at: there may be much of it."""
    told = {key: answer.get(key) for key in ("role", "usage", "stopReason")}
    return PI.read(told, id).usage


def _request(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write


def _broke(before: Usage, usage: Usage) -> bool:
    """Whether a call found less than was left for it. Nothing is known where neither used a cache."""
    if not (before.cache_read or before.cache_write):
        return False
    left = before.cache_read + before.cache_write if before.cache_write else _request(before)
    return left >= _SMALLEST and usage.cache_read < _FOUND * left


def estimated(messages: Sequence[Message], size: Callable[[Message], int]) -> Timeline:
    """The timeline of the messages that would be sent; `size` estimates one of them."""
    sizes: list[int] = []
    ids: list[str] = []
    total, before = 0, ""
    for message in messages:
        if message.role == "assistant" and before != "assistant":
            sizes.append(total)
            ids.append(message.id)
        total += size(message)
        before = message.role
    return Timeline(tuple(sizes), tuple(ids), estimated=True)


# ---------------------------------------------------------------- in columns


class Bar(msgspec.Struct, frozen=True):
    """One column of a chart: so many calls that follow each other."""

    size: int
    """The largest request among them, in tokens."""
    broke: bool = False
    cut: bool = False
    compacted: bool = False
    marked: bool = False
    """Whether the call that is looked at is among them."""


def bars(timeline: Timeline, width: int, message: str = "") -> list[Bar]:
    """The timeline in at most `width` columns; `message` is the id of an answer to be marked.

    With few calls each takes up to three columns; what happened after the last call is marked there.
    """
    calls = len(timeline.sizes)
    if not calls or width < 1:
        return []
    across = min(width, calls * _WIDEST_CALL)
    if calls <= width:
        across = calls * min(_WIDEST_CALL, width // calls)
    looked_at = timeline.messages.index(message) if message in timeline.messages else None
    made: list[Bar] = []
    done = 0
    for column in range(across):
        first, end = (
            column * calls // across,
            max((column + 1) * calls // across, column * calls // across + 1),
        )
        last = column == across - 1
        covered = range(max(first, done), end + last)
        done = end + last
        made.append(
            Bar(
                max(timeline.sizes[first:end]),
                any(call in timeline.breaks for call in covered),
                any(call in timeline.cuts for call in covered),
                any(call in timeline.compactions for call in covered),
                looked_at is not None and first <= looked_at < end,
            )
        )
    return made


_EIGHTHS = " ▁▂▃▄▅▆▇█"


def drawn(some: Sequence[Bar], height: int) -> list[str]:
    """The bars as so many lines of block characters, the uppermost first; the largest fills them."""
    most = max((bar.size for bar in some), default=0) or 1
    levels = [max(1, round(bar.size / most * height * 8)) for bar in some]
    return [
        "".join(_EIGHTHS[min(8, max(0, level - 8 * below))] for level in levels)
        for below in reversed(range(height))
    ]
