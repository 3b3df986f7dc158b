"""What the paid lane may take out, from when on.

A candidate waits until taking it out is expected to bring more than its recall would cost: how long
is worked out once, when it is found. Knows no message and no cut point.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from collections.abc import Set as AbstractSet

import msgspec

from prunewise.ledger import Target
from prunewise.priced.hazards import Hazard
from prunewise.transcript import Exchange, ToolKind

STALE = "stale-outputs"
ERRORS = "error-purge"


class Candidate(msgspec.Struct, frozen=True):
    """What may go from some LLM call on."""

    strategy: str
    exchange: Exchange
    kind: ToolKind
    reason: str
    sort: str
    paths: tuple[str, ...]
    """The files that it shows or changes."""
    size: int
    removed: int
    """What it takes out, in tokens, as far as that is known before its marker is made."""
    position: int
    born: int
    """The LLM call at which it was first sent."""
    since: int
    """The LLM call from which on it may go."""

    @property
    def target(self) -> Target:
        """What goes."""
        return self.exchange.call.id, self.kind


class Candidates:
    """Those that wait, and those that may go now."""

    def __init__(self) -> None:
        self._waiting: dict[Target, Candidate] = {}
        self._calendar: list[tuple[int, int, Target]] = []
        self._ripe: dict[Target, Candidate] = {}

    def put(self, candidate: Candidate) -> None:
        """Take one in, unless its target is known already and may go no later."""
        target = candidate.target
        known = self._ripe.get(target) or self._waiting.get(target)
        if known is not None and known.since <= candidate.since:
            return
        self._waiting[target] = candidate
        self._ripe.pop(target, None)
        heapq.heappush(self._calendar, (candidate.since, candidate.exchange.order, target))

    def advance(self, call: int) -> None:
        """Let those go that have waited until this LLM call."""
        while self._calendar and self._calendar[0][0] <= call:
            since, _, target = heapq.heappop(self._calendar)
            candidate = self._waiting.get(target)
            if candidate is not None and candidate.since == since:
                del self._waiting[target]
                self._ripe[target] = candidate

    def drop(self, *gone: AbstractSet[tuple[str, str]]) -> None:
        """Leave out those that may not go any more."""
        for targets in gone:
            for target in self._ripe.keys() & targets:
                del self._ripe[target]

    def ripe(self, holds: Callable[[Target], bool]) -> list[Candidate]:
        """Those that may go now and that nothing holds, the last position first."""
        found = [one for target, one in self._ripe.items() if not holds(target)]
        found.sort(key=_position, reverse=True)
        return found


def _position(candidate: Candidate) -> int:
    return candidate.position


def patience(hazard: Hazard, saved: float, recall: float) -> float:
    """How many LLM calls old a part has to be, so that what it saves outweighs its recall's expected cost."""
    return hazard.age_at(saved / recall)
