"""What pruning has brought and cost in a session, and what it may still lose.

All in base input tokens (the price of one uncached input token is 1). Counts what is certain, request by
request as each is answered, and never what is only expected. Follows from the transcript and the decisions
alone, so a session that goes on after a restart has the account that it would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from prunewise.ledger import Target
from prunewise.priced.hazards import Hazard
from prunewise.prices import Rates

RECALL_TOKENS = 150
"""What a model writes to ask for a recall."""
RECALLED_STAYS = 10
"""The fewest LLM calls for which a recalled output stays."""
_TRUSTED = 2
"""The number of LLM calls after a cut during which all that it took out may have to come back at once."""
_FORGOTTEN = 0.001
"""Recalls less likely than this are ignored."""


def asking_price(rates: Rates, context: float, size: float) -> float:
    """What it costs to bring back an output: one more call over the context, and to write it."""
    return rates.write * size + rates.read * context + rates.output * RECALL_TOKENS


def recall_price(rates: Rates, context: float, size: float, horizon: float) -> float:
    """The same, and to hold the output until it may go again."""
    return asking_price(rates, context, size) + rates.read * size * min(RECALLED_STAYS, horizon)


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request that was answered, by numbers of messages."""

    end: int
    """The messages in it."""
    sent: int
    """Those of them that were in the one before, or were its answer."""
    context: float
    """Its size without pruning, in tokens."""
    pause: float | None
    """For how many seconds the cache had not been used before it; None where unknown."""


class Taken(msgspec.Struct, frozen=True):
    """What a decision has taken out."""

    target: Target
    position: int
    born: int
    """The request that its message was first in, counted from 0."""
    call: int
    """The first request that went out without it."""
    removed: float
    """In tokens."""
    size: int
    """What a recall of it brings back, in tokens."""
    hazard: Hazard | None
    """How likely it was taken to be needed again; None where it cannot be."""
    sort: str = ""
    paths: tuple[str, ...] = ()
    """The files that it shows or changes."""

    def fading(self, call: int) -> float:
        """The part of its hazard that fades with age, at an LLM call."""
        return 0.0 if self.hazard is None else self.hazard.fading(call - self.born)

    @property
    def is_free(self) -> bool:
        """Whether it went before its message was first sent."""
        return self.call == self.born


class Account:
    """The account of one session."""

    def __init__(self) -> None:
        self.spent = 0.0
        """What the requests so far have cost."""
        self.gained = 0.0
        """What pruning has brought, net of its cache breaks and recalls."""
        self.recalls = 0
        self._out: dict[Target, Taken] = {}
        self._recalled: set[Target] = set()
        self._back = 0
        """The tokens that recalls have brought back."""

    def answered(
        self,
        request: Request,
        rates: Rates,
        warm: float,
        fresh: Iterable[Taken],
        tokens: Callable[[int, int], float],
    ) -> bool:
        """Take in a request.

        Args:
            request: the next one.
            rates: what it was billed at.
            warm: how likely it found what the one before had left.
            fresh: what was out of it for the first time.
            tokens: the size of the messages from one position to another, without pruning.

        Returns:
            Whether it changed what may have been cached.
        """
        fresh = list(fresh)
        read = warm * rates.read + (1 - warm) * rates.write
        new = tokens(request.sent, request.end)
        saved = read * (sum(one.removed for one in self._out.values()) - self._back)
        paid = [one for one in fresh if not one.is_free]
        self.spent += read * (request.context - new) + rates.write * new
        self.gained += saved + rates.write * sum(one.removed for one in fresh if one.is_free)
        self._out.update((one.target, one) for one in fresh)
        if not paid:
            return False
        first = min(one.position for one in paid)
        gone = sum(one.removed for one in self._out.values() if first <= one.position < request.sent)
        again = max(0.0, tokens(first, request.sent) - gone)
        self.gained += read * sum(one.removed for one in paid) - warm * (rates.write - rates.read) * again
        return again > 0

    def recalled(self, target: Target, size: int, rates: Rates, context: float) -> None:
        """Take in a recall of what a decision took out."""
        self.gained -= asking_price(rates, context, size)
        self._back += size
        self.recalls += 1
        self._recalled.add(target)

    def restored(self, target: Target) -> None:
        """A decision no longer stands."""
        self._out.pop(target, None)

    def expected(self, call: int) -> float:
        """How many recalls the hazards predict up to this LLM call."""
        return sum(
            one.hazard.at(one.call - one.born) - one.hazard.at(call - one.born)
            for one in self._out.values()
            if one.hazard is not None
        )

    def at_stake(
        self, rates: Rates, context: float, call: int, horizon: float, level: Callable[[Taken], float]
    ) -> tuple[float, float]:
        """What recalls of what has gone may still cost: the mean and the variance.

        Only the part of a hazard that fades counts: by the time of a later recall, the cut has saved enough
        to pay for it. `level` gives the factor by which to raise a hazard.
        """
        mean = variance = 0.0
        for one in self._unrecalled():
            odds = min(1.0, one.fading(call) * level(one))
            if odds < _FORGOTTEN:
                continue
            price = recall_price(rates, context, one.size, horizon)
            mean += odds * price
            variance += odds * (1 - odds) * price * price
        return mean, variance

    def exposed(self, rates: Rates, context: float, call: int, horizon: float) -> float:
        """What it would cost to recall all that has gone lately."""
        return sum(
            recall_price(rates, context, one.size, horizon)
            for one in self._unrecalled()
            if call - one.call < _TRUSTED
        )

    def stayed(self, call: int) -> int:
        """How much of what has gone has stayed away for some LLM calls."""
        return sum(call - one.call >= _TRUSTED for one in self._unrecalled())

    def _unrecalled(self) -> Iterator[Taken]:
        """What has gone, might be needed, and has not come back."""
        return (
            one for one in self._out.values() if one.hazard is not None and one.target not in self._recalled
        )
