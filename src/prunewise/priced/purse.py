"""What pruning has brought and cost in a session, and what it may still lose.

All in base input tokens (the price of one uncached input token is 1). Counts what is certain: what is
gained by a cut is counted call by call as it comes in, never beforehand.
"""

from __future__ import annotations

import math

import msgspec

from prunewise.priced.hazards import HAZARDS
from prunewise.prices import Rates

RECALL_TOKENS = 150
"""What a model writes to ask for a recall."""
RECALLED_STAYS = 10
"""For so many LLM calls at least what a recall brought back stays."""
_BREAK_RATE = 0.023
"""How many cache breaks an LLM call allows."""
_BREAK_LEAD = 50
"""So many LLM calls are taken to have gone before, so that a short session may have one."""
_FORGOTTEN = 0.001
"""Below this likelihood a recall is not reckoned with any more."""


def asking_price(rates: Rates, context: float, size: float) -> float:
    """What it costs to bring back an output: one more call over the context, and to write it."""
    return rates.write * size + rates.read * context + rates.output * RECALL_TOKENS


def recall_price(rates: Rates, context: float, size: float, horizon: float) -> float:
    """The same, and to hold the output until it may go again."""
    return asking_price(rates, context, size) + rates.read * size * min(RECALLED_STAYS, horizon)


class _Gone(msgspec.Struct, frozen=True, gc=False):
    """What has been taken out and may have to come back."""

    sort: str
    born: int
    """The LLM call at which it was first sent."""
    size: int


class Purse:
    """The account of one session."""

    def __init__(self) -> None:
        self.spent = 0.0
        """What the requests so far have cost."""
        self.gained = 0.0
        """What pruning has brought, net of its cache breaks and recalls."""
        self.returned = 0
        """The tokens that recalls have brought back."""
        self._breaks = 0
        self._gone: list[_Gone] = []

    def request(self, cost: float, saved: float) -> None:
        """Take in a request: what it costs, and what it would cost more without pruning."""
        self.spent += cost
        self.gained += saved

    def recall(self, rates: Rates, context: float, size: int) -> None:
        """Take in a recall."""
        self.gained -= asking_price(rates, context, size)
        self.returned += size

    def cut(self, price: float, *, breaks: bool) -> None:
        """Take in a cut."""
        self.gained -= price
        self._breaks += breaks

    def take_out(self, sort: str, born: int, size: int) -> None:
        """Something has gone, and may have to come back."""
        self._gone.append(_Gone(sort, born, size))

    def may_break(self, calls: int) -> bool:
        """Whether the cache may be broken once more after so many LLM calls."""
        return self._breaks + 1 <= _BREAK_RATE * (calls + _BREAK_LEAD)

    def at_stake(self, rates: Rates, context: float, call: int, horizon: float) -> tuple[float, float]:
        """What recalls of what has gone may still cost: the mean and the variance.

        Only what fades counts: what is needed long after is paid by what was saved until then.
        """
        mean = variance = 0.0
        kept: list[_Gone] = []
        for gone in self._gone:
            hazard = HAZARDS[gone.sort]
            odds = hazard.fresh * math.exp(-(call - gone.born) / hazard.fades)
            if odds < _FORGOTTEN:
                continue
            kept.append(gone)
            price = recall_price(rates, context, gone.size, horizon)
            mean += odds * price
            variance += odds * (1 - odds) * price * price
        self._gone = kept
        return mean, variance
