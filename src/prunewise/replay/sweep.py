"""Which break-even threshold would have paid best: the documented harness's figures.

The documented gate prices a candidate at penalty (1 - r) * tail against a saving of r * removed for
each later call. Replay knows how many calls followed, so it knows what each candidate would have
brought; the sweep sums that over the candidates that each threshold lets through.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

State = Literal["idle", "mid_loop"]
START = 30
"""The thresholds that are always tried: 1 to this one."""


class Candidate(msgspec.Struct, frozen=True):
    """One proposal at the LLM call before which it first appeared."""

    state: State
    tail_tokens: int
    """From the message that would change to the end of the request."""
    tokens_removed: int
    remaining_calls: int
    """LLM calls that followed, the one at hand counted."""

    def penalty(self, ratio: float) -> float:
        """What breaking the cache costs, in base input tokens."""
        return (1 - ratio) * self.tail_tokens

    def recurring_saving(self, ratio: float) -> float:
        """What each later call costs less."""
        return ratio * self.tokens_removed

    def break_even_calls(self, ratio: float) -> float:
        """How many calls pay the penalty back; infinite where nothing is saved."""
        penalty, saving = self.penalty(ratio), self.recurring_saving(ratio)
        return 0.0 if penalty == 0 else math.inf if saving == 0 else penalty / saving

    def net_benefit(self, ratio: float) -> float:
        """What it would have brought, knowing what followed."""
        return self.remaining_calls * self.recurring_saving(ratio) - self.penalty(ratio)


class Threshold(msgspec.Struct, frozen=True):
    """The best threshold: the lowest of those that share the highest total."""

    threshold: int
    total: float
    """Realised net benefit of all candidates with break-even calls up to it, in base input tokens."""
    tested: int
    """The highest threshold that was tried."""


class Recommendation(msgspec.Struct, frozen=True):
    """The best thresholds at one ratio of cached to base input price."""

    ratio: float
    overall: Threshold
    mid_loop: Threshold
    idle: Threshold


class Percentiles(msgspec.Struct, frozen=True):
    """How many calls followed the candidates."""

    count: int
    p50: int
    p90: int


def sweep(
    candidates: Iterable[Candidate], ratios: Iterable[float], ceiling: int = 480
) -> list[Recommendation]:
    """Find the threshold that would have paid best, over all candidates and by state.

    Thresholds 1 to 30 are tried; while the best is the last one tried, twice as many are, up to the ceiling.

    Args:
        candidates: all of them, in any order: totals are summed exactly.
        ratios: prices of a cached token over the base input price.
        ceiling: the highest threshold to try.
    """
    found = list(candidates)
    idle = [candidate for candidate in found if candidate.state == "idle"]
    mid_loop = [candidate for candidate in found if candidate.state == "mid_loop"]
    return [
        Recommendation(
            ratio, best(found, ratio, ceiling), best(mid_loop, ratio, ceiling), best(idle, ratio, ceiling)
        )
        for ratio in ratios
    ]


def best(candidates: Sequence[Candidate], ratio: float, ceiling: int) -> Threshold:
    """The threshold that would have paid best at one ratio."""
    benefits: dict[int, list[float]] = {}
    for candidate in candidates:
        calls = candidate.break_even_calls(ratio)
        if calls <= ceiling:
            benefits.setdefault(max(1, math.ceil(calls)), []).append(candidate.net_benefit(ratio))
    tested = min(START, ceiling)
    threshold, total = 1, math.fsum(benefits.get(1, ()))
    let_through = list(benefits.get(1, ()))
    at = 1
    while True:
        while at < tested:
            at += 1
            fresh = benefits.get(at)
            if fresh:
                let_through += fresh
                reached = math.fsum(let_through)
                if reached > total:
                    threshold, total = at, reached
        if threshold < tested or tested >= ceiling:
            return Threshold(threshold, total, tested)
        tested = min(2 * tested, ceiling)


def curve(candidates: Iterable[Candidate], ratio: float, highest: int) -> list[float]:
    """The total realised net benefit at each threshold from 1 to the highest, for a plot."""
    steps: list[list[float]] = [[] for _ in range(highest)]
    for candidate in candidates:
        calls = candidate.break_even_calls(ratio)
        if calls <= highest:
            steps[max(1, math.ceil(calls)) - 1].append(candidate.net_benefit(ratio))
    let_through: list[float] = []
    totals: list[float] = []
    for step in steps:
        let_through += step
        totals.append(math.fsum(let_through) if step or not totals else totals[-1])
    return totals


def percentiles(remaining_calls: Iterable[int]) -> Percentiles:
    """The value below which half, and nine tenths, of the values lie (that at index floor(p * count))."""
    ordered = sorted(remaining_calls)
    if not ordered:
        return Percentiles(0, 0, 0)
    return Percentiles(len(ordered), ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10])
