"""Fills the purse of a session that was begun before: what its LLM calls cost, and its decisions brought.

Goes by the transcript and the ledger, so that a restart goes on with what was earned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec

from prunewise.gates.priced import COLD
from prunewise.priced.purse import Purse
from prunewise.prices import Prices
from prunewise.transcript import Message


class Request(msgspec.Struct, frozen=True, gc=False):
    """One earlier request, by numbers of messages."""

    end: int
    """The messages in it."""
    sent: int
    """Those of them that were in the one before, or were its answer."""
    context: float
    """Its size without pruning, in tokens."""
    answered_at: float | None
    """In seconds since the epoch; None where unknown."""
    warmed: float | None = None
    """When the cache was last kept warm before it."""


class Taken(msgspec.Struct, frozen=True):
    """One decision that stands."""

    call: int
    """The request that it was first in, counted from 0."""
    born: int
    """The request that its message was first in."""
    position: int
    removed: float
    """The tokens that it takes out."""
    sort: str | None = None
    """The sort of an output that may have to come back; None where it cannot."""
    size: int = 0

    @property
    def is_free(self) -> bool:
        """Whether it was made before its message was first sent."""
        return self.call == self.born


class Recalled(msgspec.Struct, frozen=True, gc=False):
    """One recall's result."""

    position: int
    size: int


def requests(messages: Sequence[Message], sizes: Sequence[float]) -> Iterator[Request]:
    """The requests that have been answered; `sizes` are those of the messages without pruning, in tokens."""
    estimate = raw = 0.0
    sent = 0
    before = ""
    for position, (message, size) in enumerate(zip(messages, sizes, strict=True)):
        answers = message.role == "assistant"
        if answers and before != "assistant":
            yield Request(position, sent, max(estimate, raw), message.time, message.warmed)
        raw += size
        estimate = estimate + size if message.usage is None else message.usage.context_tokens
        if answers:
            sent = position + 1
        before = message.role


def call_of(decided_at: float | None, earlier: Sequence[Request], *, unknown: int) -> int:
    """The request that a decision was first in: the first that was answered no earlier; the last one at the
    most. `unknown` where times are.
    """
    if decided_at is None or any(one.answered_at is None for one in earlier):
        return unknown
    later = (at for at, one in enumerate(earlier) if (one.answered_at or 0.0) >= decided_at - _SAME_INSTANT)
    return next(later, len(earlier) - 1)


_SAME_INSTANT = 0.002
"""Seconds by which a decision may be dated behind the answer to its request: entries have milliseconds."""


def recount(
    purse: Purse,
    prices: Prices,
    earlier: Sequence[Request],
    sizes: Sequence[float],
    taken: Iterable[Taken],
    *,
    recalls: Sequence[Recalled] = (),
    warm: Callable[[float | None], float] = lambda _: 1.0,
) -> None:
    """Put into an empty purse what these requests cost, and what these decisions cost and brought.

    `warm` tells how likely the cache was found after so many seconds; None where they are unknown.
    """
    ends = [0.0, *accumulate(sizes)]
    by_call: dict[int, list[Taken]] = {}
    for one in taken:
        by_call.setdefault(one.call, []).append(one)
    out: list[Taken] = []
    for call, request in enumerate(earlier):
        rates = prices.at(request.context)
        likely = warm(_pause(earlier[call - 1], request)) if call else 0.0
        read = likely * rates.read + (1 - likely) * rates.write
        fresh = by_call.get(call, [])
        free = sum(one.removed for one in fresh if one.is_free)
        new = ends[request.end] - ends[request.sent]
        back = sum(one.size for one in recalls if one.position < request.sent)
        saved = read * (sum(one.removed for one in out) - back) + rates.write * free
        purse.request(read * (request.context - new) + rates.write * new, saved)
        paid = [one for one in fresh if not one.is_free]
        if paid:
            first = min(one.position for one in paid)
            gone = sum(one.removed for one in (*out, *paid) if one.position >= first)
            again = max(0.0, ends[request.sent] - ends[first] - gone)
            purse.cut(likely * (rates.write - rates.read) * again, breaks=again > 0 and likely > COLD)
        for one in fresh:
            if one.sort is not None:
                purse.take_out(one.sort, one.born, one.size)
        out += fresh


def _pause(before: Request, request: Request) -> float | None:
    if before.answered_at is None or request.answered_at is None:
        return None
    return max(0.0, request.answered_at - max(before.answered_at, request.warmed or before.answered_at))
