"""The priced gate: where to cut, and whether it pays now, given what the cache holds and charges.

A cut at a position takes out everything behind it that may go. Once, it costs to write again what was
cached behind it and stays; then it saves the price of reading what went, in every call that follows.
One pass over the cut points, from the last to the first. Knows sizes and prices; no message, no clock.
"""

from __future__ import annotations

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
    soon: float = 0.0
    """How many calls go by before a typical recall: so long a cut saves, whatever comes."""
    fee: float = 0.0
    """What breaking a warm cache counts beyond its price: a break also takes time, and uses up the room for
    a later and better one."""
    breaking: bool = True
    """Whether the cache may be broken now; else only what costs nothing goes."""
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
    blocked: bool = False
    """Where nothing is to be cut: whether the fear of recalls or the purse alone stood in the way, so that
    fewer pieces, less likely to be recalled, may still go. Else no choice among the pieces can pay: with
    fewer of them a cut costs no less and brings no more.
    """


COLD = 0.25
"""Where the cache is less likely to be warm than this, a cut counts as no break."""


def choose(pieces: Sequence[Piece], outlook: Outlook, rewritten: Callable[[int], float]) -> Cut:
    """Where to cut: where it is expected to bring most.

    Provided that

    - waiting has cost `patience` times what it costs beyond what it saves at once,
    - what it brings within the horizon would pay for one recall of the costliest part,
    - what may be lost is within the purse: its price, and recalls beyond what is saved until they come.

    A cut after which the request is in a cheaper price tier has that tier's price, and saves the difference
    on all that stays, for as long as the request keeps below the limit.

    Args:
        pieces: what may go, the last position first.
        outlook: prices and expectations.
        rewritten: for a position the tokens behind it that were cached and would not be any more, before
            anything is taken out.
    """
    best = Cut()
    value = removed = rent = risk = worst = 0.0
    spread, call, breaking, warm = outlook.spread, outlook.call, outlook.breaking, outlook.warm
    dearer = warm * (outlook.write - outlook.read)
    read = warm * outlook.read + (1 - warm) * outlook.write
    later = outlook.read * (outlook.horizon - 1)
    for piece in pieces:
        if piece.position < outlook.floor:
            break
        removed += piece.removed
        rent += outlook.read * piece.removed * (call - piece.since)
        feared = piece.odds * piece.recall
        risk += feared
        spread += (1 - piece.odds) * feared * piece.recall
        worst = max(worst, piece.recall)
        again = max(0.0, rewritten(piece.position) - removed)
        breaks = again > 0 and warm > COLD
        if breaks and not breaking:
            continue
        price, waited = dearer * again, rent
        at_once = -read * removed
        further = later * removed
        if outlook.cheaper:
            relief = _relief(outlook, removed, call - piece.since)
            price -= relief.a_token * again
            at_once -= relief.at_once
            further += relief.later
            waited += relief.forgone
        at_once += price
        due = at_once + outlook.fee if breaks else at_once
        brings = further - due
        if brings <= 0 or waited < outlook.patience * due:
            continue
        if best.position is None:
            best = Cut(blocked=True)
        if brings - risk <= value or brings < worst:
            continue
        by_then = outlook.read * removed * outlook.soon
        if at_once + max(0.0, risk + outlook.doubt * math.sqrt(spread) - by_then) <= outlook.purse:
            value = brings - risk
            best = Cut(piece.position, removed, again, price, waited)
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
    for piece in pieces:
        if piece.position < outlook.floor:
            break
        removed += piece.removed
        rent += outlook.read * piece.removed * (outlook.call - piece.since)
        again = max(0.0, rewritten(piece.position) - removed)
        price = (outlook.write - outlook.read) * again if outlook.warm > COLD else 0.0
        if rent >= outlook.patience * price:
            best = Cut(piece.position, removed, again, price, rent)
    return best
