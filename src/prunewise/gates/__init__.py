"""Gates: each prices a batch of proposals and says whether it goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from prunewise.gates.documented import Verdict, break_even, price
from prunewise.settings import Gate as GateSettings

__all__ = ["Batch", "Gate", "Verdict", "break_even", "documented"]


class Candidate(Protocol):
    """What a gate sees of a proposal."""

    @property
    def position(self) -> int:
        """The message that changes."""
        ...

    @property
    def tokens_removed(self) -> int:
        """What it takes out of every later request."""
        ...

    @property
    def lane(self) -> Literal["free", "paid"]:
        """Whether its message has been sent before."""
        ...


class Batch(msgspec.Struct, frozen=True):
    """What could be pruned together before one request, and all that a price may depend on."""

    candidates: Callable[[], Sequence[Candidate]]
    """Gives them, sorted by position; they are only put together where a gate looks at each."""
    earliest: int | None
    tokens_removed: int
    tail_tokens: Callable[[int], int]
    """The tokens of this request from a position to its end, as it would go out without the batch."""
    state: Literal["idle", "mid_loop"]
    sent: int = 0
    """How many messages were part of an earlier request; what lies behind was never cached."""
    seconds_since_call: float | None = None
    """Since the last LLM call; None where unknown."""
    calls: int = 0
    """LLM calls so far."""
    prices: object | None = None
    """What the provider charges, where the policy knows."""


class Gate(Protocol):
    """Prices a batch and gives a verdict."""

    def __call__(self, batch: Batch, settings: GateSettings) -> Verdict:
        """The verdict on the whole batch."""
        ...


def documented(batch: Batch, settings: GateSettings) -> Verdict:
    """The break-even gate of dynamic-context-pruning: one cache bust, priced from the earliest position."""
    tail = 0 if batch.earliest is None else batch.tail_tokens(batch.earliest)
    return price(batch.earliest, tail, batch.tokens_removed, settings, batch.state)
