"""The priced gate: where to cut, and whether it pays now, given what the cache holds and charges.

A cut at a position takes out everything behind it that may go. Once, it costs to write again what was
cached behind it and stays; then it saves the price of reading what went, in every call that follows.
One pass over the cut points, from the last to the first. Knows sizes and prices; no message, no clock.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

import msgspec


class Piece(msgspec.Struct, frozen=True, gc=False):
    """What may go."""

    position: int
    removed: float
    """The tokens that it takes out of each request."""
    since: int
    """The LLM call from which on it may go."""
    odds: float = 0.0
    """How likely it is recalled."""
    recall: float = 0.0
    """What that would cost, in base input tokens."""


class Cheaper(msgspec.Struct, frozen=True):
    """A price tier below the one that the request is in."""

    limit: float
    """The tokens that a request may hold to be in it."""
    read: float
    write: float


class Outlook(msgspec.Struct, frozen=True):
    """What a cut costs and brings, in base input tokens; calls are LLM calls."""

    read: float
    write: float
    warm: float
    """How likely what was sent before is still cached."""
    call: int
    """The call at hand."""
    horizon: float
    """How many calls a cut is taken to serve, this one counted."""
    patience: float = 1.0
    """A cut waits until waiting has cost so many times its price."""
    floor: int = 0
    """Before this position nothing may change (a signed block follows)."""
    purse: float = math.inf
    """What may be lost at the most: so much has been gained, and may be staked."""
    spread: float = 0.0
    """The variance of what the recalls of earlier cuts may cost; their mean is off the purse already."""
    doubt: float = 0.0
    """How many standard deviations of the recalls' cost the purse has to cover beyond its mean."""
    exposure: float = math.inf
    """What may be lost at the most if all that a cut takes out is recalled."""
    soon: float = 0.0
    """How many calls go by before a typical recall: so long a cut saves, whatever comes."""
    cheaper: tuple[Cheaper, ...] = ()
    """By rising limit."""
    least: float = 0.0
    """The tokens that the request holds at the least, if nothing goes; where there is a cheaper tier."""
    most: float = math.inf
    """The same at the most."""
    growth: float = 1.0
    """By how many tokens it grows with each call."""


class Cut(msgspec.Struct, frozen=True):
    """The answer: cut at `position`, and what that comes to; None where nothing is to be cut."""

    position: int | None = None
    removed: float = 0.0
    rewritten: float = 0.0
    """Tokens that were cached, stay, and have to be written again."""
    price: float = 0.0
    rent: float = 0.0
    """What has been paid for holding the pieces since they might have gone."""
    taken: tuple[int, ...] = ()
    """What goes: of the pieces the numbers."""


COLD = 0.25
"""Where the cache is less likely to be warm than this, a cut counts as no break."""


class _Batch:
    """The pieces that go together, as sums."""

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook
        self._saved = outlook.warm * outlook.read + (1 - outlook.warm) * outlook.write
        self._heap: list[tuple[float, int]] = []
        self._pieces: dict[int, Piece] = {}
        self.removed = self.rent = self.risk = self.spread = 0.0
        self.exposed = 0.0
        """What is lost at once where all of it is recalled."""

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Those of the pieces, in order."""
        return tuple(sorted(self._pieces))

    def add(self, number: int, piece: Piece) -> None:
        """Take a piece in, where it is expected to bring anything."""
        brings = self._outlook.read * self._outlook.horizon * piece.removed - piece.odds * piece.recall
        if brings > 0:
            self._pieces[number] = piece
            heapq.heappush(self._heap, (brings / max(1.0, piece.recall), number))
            self._count(piece, 1)

    def drop(self) -> None:
        """Leave out the piece that brings least for what its recall would cost."""
        self._count(self._pieces.pop(heapq.heappop(self._heap)[1]), -1)

    def _count(self, piece: Piece, sign: int) -> None:
        feared, outlook = piece.odds * piece.recall, self._outlook
        self.removed += sign * piece.removed
        self.rent += sign * outlook.read * piece.removed * (outlook.call - piece.since)
        self.risk += sign * feared
        self.spread += sign * (1 - piece.odds) * feared * piece.recall
        self.exposed += sign * (piece.recall - self._saved * piece.removed)


def choose(pieces: Sequence[Piece], outlook: Outlook, rewritten: Callable[[int], float]) -> Cut:
    """Where to cut, and what goes: what is expected to bring most.

    Provided that

    - waiting has cost `patience` times what it costs beyond what it saves at once,
    - what may be lost is within the purse: its price, and recalls beyond what is saved until they come,
    - and within the exposure where all that goes is recalled: of the pieces behind a cut those go
      that bring most for what their recall would cost.

    A cut after which the request is in a cheaper price tier has that tier's price, and saves the difference
    on all that stays, for as long as the request keeps below the limit.

    Args:
        pieces: what may go, the last position first.
        outlook: prices and expectations.
        rewritten: for a position the tokens behind it that were cached and would not be any more, before
            anything is taken out.
    """
    best = Cut()
    value = 0.0
    warm = outlook.warm
    read = warm * outlook.read + (1 - warm) * outlook.write
    later = outlook.read * (outlook.horizon - 1)
    batch = _Batch(outlook)
    for number, piece in enumerate(pieces):
        if piece.position < outlook.floor:
            break
        batch.add(number, piece)
        while batch and batch.exposed > outlook.exposure:
            batch.drop()
        removed = batch.removed
        again = max(0.0, rewritten(piece.position) - removed)
        relief = _relief(outlook, removed, outlook.call - piece.since) if outlook.cheaper else _NONE
        price = (warm * (outlook.write - outlook.read) - relief.a_token) * again
        at_once = price - read * removed - relief.at_once
        brings = later * removed + relief.later - at_once - batch.risk
        waited = batch.rent + relief.forgone
        if not batch or brings <= value or waited < outlook.patience * at_once:
            continue
        spread = math.sqrt(max(0.0, outlook.spread + batch.spread))
        unpaid = max(0.0, batch.risk + outlook.doubt * spread - outlook.read * removed * outlook.soon)
        exposed = price - relief.at_once + batch.exposed
        if at_once + unpaid <= outlook.purse and exposed <= outlook.exposure:
            value = brings
            best = Cut(piece.position, removed, again, price, waited, batch.numbers)
    return best


class _Relief(msgspec.Struct, frozen=True, gc=False):
    """What a cut saves on all that stays, by taking the request into a cheaper tier."""

    a_token: float = 0.0
    """On each token that is written again."""
    at_once: float = 0.0
    later: float = 0.0
    forgone: float = 0.0
    """What it would have saved since the request grew out of that tier."""


_NONE = _Relief()


def _relief(outlook: Outlook, removed: float, waited: int) -> _Relief:
    """What falling into a cheaper tier saves, where there is room in it to grow for one call at least.

    `removed` is what goes, in tokens; `waited` for how many calls that has been possible.
    """
    warm, growth = outlook.warm, max(1.0, outlook.growth)
    for tier in outlook.cheaper:
        calls = (tier.limit - outlook.most + removed) / growth
        if calls < 1:
            continue
        left = max(0.0, outlook.least - removed)
        reading, writing = outlook.read - tier.read, outlook.write - tier.write
        above = min(float(waited), (outlook.least - tier.limit) / growth)
        return _Relief(
            warm * (writing - reading),
            (warm * reading + (1 - warm) * writing) * left,
            reading * left * (min(calls, outlook.horizon) - 1),
            reading * left * above,
        )
    return _NONE


Choose = Callable[[Sequence[Piece], Outlook, Callable[[int], float]], Cut]
"""How a cut is chosen."""


def ski(pieces: Sequence[Piece], outlook: Outlook, rewritten: Callable[[int], float]) -> Cut:
    """The baseline: the frontmost cut whose rent has reached its price (ski rental), and anything where the
    cache is cold; no expectation, no purse.
    """
    best = Cut()
    removed = rent = 0.0
    for number, piece in enumerate(pieces):
        if piece.position < outlook.floor:
            break
        removed += piece.removed
        rent += outlook.read * piece.removed * (outlook.call - piece.since)
        again = max(0.0, rewritten(piece.position) - removed)
        price = (outlook.write - outlook.read) * again if outlook.warm > COLD else 0.0
        if rent >= outlook.patience * price:
            taken = tuple(range(number + 1))
            best = Cut(piece.position, removed, again, price, rent, taken)
    return best
