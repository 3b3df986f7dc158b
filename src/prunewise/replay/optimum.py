"""The hindsight optimum: the cheapest schedule of cuts for given candidates, knowing the whole session.

Exact for the suffix model, in which a cache holds any beginning of a request; a bound where entries
end at breakpoints. Only when to cut is chosen: what may go, and from when on, is given. A cut at a call
takes with it everything behind it that may go, since that costs nothing more.

The cost of a schedule splits by position. Let G(a, b) be the least that the candidates from one on
cost beyond being pruned the moment they may go and for nothing, between two calls a < b at which cuts
reach before them. Candidates are added from the last to the first; only intervals in which the new
one comes up change, and there only the first cut that takes it matters:

    G'(a, b) = min(G(a, b) + delay(b), min over m of G(a, m) + delay(m) + B(m) + G(m, b)),  a < e <= m < b

with e the call from which on the candidate may go, delay(m) what it costs until call m, and B(m) the
price of writing again what lies behind it at call m. docs/explanation/cost-model.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from prunewise.replay.bill import Account, Floats, Ints, Page, Removal, tokens_before

MOST_WORK = 2e10
"""The work on one stretch: its candidates times the cube of the calls at which cuts are tried, a second for
each 5e9. Where it would be more, fewer calls are tried, evenly spread: then the schedule may be a little
dearer than the cheapest. Up to 350 calls with a candidate each, all are tried."""
_BLOCK_CELLS = 2**20
_UNDO_BYTES = 64 * 2**20
"""Memory for undoing steps; a longer session computes some of them twice."""


class Candidate(msgspec.Struct, frozen=True):
    """What may be pruned."""

    position: int
    """The message of its epoch, counted from 0."""
    removed: float
    """Estimated tokens that go."""
    eligible: int
    """The first LLM call of the epoch at which it may go, counted from 0."""


class Optimum(msgspec.Struct, frozen=True):
    """The cheapest schedule."""

    cost: float
    """Of the whole session's input, in base input tokens, on the suffix model."""
    baseline: float
    """The same without any cut."""
    cuts: tuple[tuple[Removal, ...], ...]
    """For each epoch what goes when."""

    @property
    def saving(self) -> float:
        """What the schedule saves, in base input tokens."""
        return self.baseline - self.cost


def optimum(account: Account, candidates: Sequence[Sequence[Candidate]]) -> Optimum:
    """Find the cheapest schedule of cuts.

    Prices of a call are those of its unchanged size: that a smaller request might fall below a price
    tier or a minimum prefix is left out.

    Args:
        account: the session.
        candidates: for each epoch what may go. Epochs do not depend on each other.
    """
    costs: list[float] = []
    baselines: list[float] = []
    cuts: list[tuple[Removal, ...]] = []
    for index, page in enumerate(account.pages):
        problem = _Problem(page, candidates[index] if index < len(candidates) else ())
        extra, chosen = problem.solve()
        costs.append(problem.ideal + extra)
        baselines.append(problem.baseline)
        cuts.append(chosen)
    return Optimum(math.fsum(costs), math.fsum(baselines), tuple(cuts))


class _Problem:
    """One epoch. Calls are the billed ones, counted from 0; candidates are sorted by position."""

    def __init__(self, page: Page, candidates: Sequence[Candidate]) -> None:
        self._calls = np.flatnonzero(page.billed)
        self._page = page
        self._ends = page.ends[self._calls]
        self._cached = np.minimum(page.cached[self._calls], self._ends)
        self._full, self._read, self._write = _rates(page, self._calls)
        self._take(candidates)
        row = np.concatenate(([0.0], np.cumsum(page.sizes)))
        sent, held = row[self._ends], tokens_before(row, self._cached)
        behind = np.minimum(page.behind[self._calls], sent - held)
        self.baseline = math.fsum(
            self._write * sent - (self._write - self._read) * held - (self._write - self._full) * behind
        )
        self._since, until = self._bounds_of_rates()
        self.ideal = self.baseline - math.fsum(self._removed * (until - self._since))

    def _take(self, candidates: Sequence[Candidate]) -> None:
        page = self._page
        left = page.sizes.copy()
        items: list[int] = []
        removed: list[float] = []
        eligible: list[int] = []
        for candidate in sorted(candidates, key=lambda one: (one.position, one.eligible)):
            item = candidate.position + 1
            born = int(np.searchsorted(self._ends, item, side="right"))
            first = max(born, int(np.searchsorted(self._calls, candidate.eligible)))
            tokens = min(page.scale * candidate.removed, float(left[item]))
            if first < len(self._calls) and tokens > 0:
                left[item] -= tokens
                items.append(item)
                removed.append(tokens)
                eligible.append(first)
        self._items: Ints = np.array(items, dtype=np.intp)
        self._removed: Floats = np.array(removed, dtype=np.float64)
        self._eligible: Ints = np.array(eligible, dtype=np.intp)

    def _running_rates(self, these: Ints) -> Iterator[tuple[slice, Floats]]:
        """For some candidates and each call what one of its tokens has cost in all calls before.

        As blocks of rows, so that a long session does not take the square of its length in memory.
        """
        rows = max(1, _BLOCK_CELLS // (len(self._calls) + 1))
        for start in range(0, len(these), rows):
            block = slice(start, min(start + rows, len(these)))
            items = self._items[these[block], None]
            held = np.clip(self._cached[None, :] - items, 0.0, 1.0)
            rate = np.where(self._ends[None, :] > items, self._write - (self._write - self._read) * held, 0.0)
            yield block, np.concatenate((np.zeros((len(items), 1)), np.cumsum(rate, axis=1)), axis=1)

    def _bounds_of_rates(self) -> tuple[Floats, Floats]:
        """For each candidate what one of its tokens has cost when it may go, and at the end."""
        since, until = np.zeros(len(self._items)), np.zeros(len(self._items))
        for block, paid in self._running_rates(np.arange(len(self._items))):
            since[block] = paid[np.arange(len(paid)), self._eligible[block]]
            until[block] = paid[:, -1]
        return since, until

    def solve(self) -> tuple[float, tuple[Removal, ...]]:
        """What the best schedule costs beyond the ideal, and the schedule."""
        if not len(self._items):
            return 0.0, ()
        free = np.flatnonzero(self._cached <= self._items.min())
        bounds = [-1, *free.tolist(), len(self._calls)]
        pruned_at = np.full(len(self._items), len(self._calls), dtype=np.intp)
        extra: list[float] = []
        for start, stop in pairwise(bounds):
            here = np.flatnonzero((self._eligible > start) & (self._eligible < stop))
            pruned_at[self._eligible == start] = start
            if len(here):
                cost, at = self._stretch(start, stop, here)
                extra.append(cost)
                pruned_at[here] = at
        return math.fsum(extra), self._removals(pruned_at)

    def _removals(self, pruned_at: Ints) -> tuple[Removal, ...]:
        chosen = [
            Removal(int(self._calls[at]), int(item) - 1, float(tokens) / self._page.scale)
            for at, item, tokens in zip(pruned_at, self._items, self._removed, strict=True)
            if at < len(self._calls)
        ]
        return tuple(sorted(chosen, key=lambda cut: (cut.call, cut.position)))

    def _stretch(self, start: int, stop: int, here: Ints) -> tuple[float, Ints]:
        """The best cuts between two calls at which everything goes for nothing.

        Returns what they cost beyond the ideal, and for each candidate the call at which it goes.
        """
        times = _thinned(self._times(start, stop, here), len(here))
        nodes = np.array([max(start, 0), *times, stop], dtype=np.intp)
        first = 1 + np.searchsorted(times, self._eligible[here])
        paid = np.empty((len(here), len(nodes)))
        for block, running in self._running_rates(here):
            paid[block] = running[:, nodes] - self._since[here[block], None]
        paid *= self._removed[here, None]
        grid = _Grid(first, paid, self._breaking(times, here))
        cut_at = grid.solve()
        reached = np.array([grid.taken(cut_at, index) for index in range(len(here))], dtype=np.intp)
        return grid.cost, nodes[reached]

    def _times(self, start: int, stop: int, here: Ints) -> list[int]:
        """The calls at which a best schedule may cut.

        Where nothing has just come up, cutting a call earlier takes out the same and breaks no more,
        unless less was cached, or writing was dearer, at the call before.
        """
        fresh = set(self._eligible[here].tolist())
        dearer = self._write - self._read
        return [
            call
            for call in range(start + 1, stop)
            if call in fresh
            or (
                call - 1 > start
                and (self._cached[call - 1] > self._cached[call] or dearer[call - 1] > dearer[call])
            )
        ]

    def _breaking(self, times: list[int], here: Ints) -> Floats:
        """For each of these candidates and calls the price of a cut there: what is written again."""
        sizes = self._page.sizes.copy()
        order = np.argsort(self._eligible, kind="stable")
        due = 0
        places = np.arange(len(sizes))
        prices = np.zeros((len(here), len(times) + 2))
        for index, call in enumerate(times):
            while due < len(order) and self._eligible[order[due]] <= call:
                sizes[self._items[order[due]]] -= self._removed[order[due]]
                due += 1
            held = np.maximum(sizes, 0.0) * np.clip(self._cached[call] - places, 0.0, 1.0)
            behind = np.cumsum(held[::-1])[::-1]
            prices[:, index + 1] = (self._write[call] - self._read[call]) * behind[self._items[here]]
        return prices


class _Grid:
    """The recurrence of one stretch, over the calls at which it may be cut; its ends are nodes too."""

    def __init__(self, first: Ints, paid: Floats, breaking: Floats) -> None:
        self._first = first
        self._paid = paid
        self._breaking = breaking
        self._least: Floats = np.zeros((paid.shape[1], paid.shape[1]))
        self._undo: list[Floats] = []
        self.cost = 0.0

    def solve(self) -> list[tuple[int, int]]:
        """The best cuts as (node, candidate): each takes everything from that candidate on."""
        count, nodes = self._paid.shape
        chunk = max(1, min(count, _UNDO_BYTES // (2 * nodes * nodes)))
        starts = range(0, count, chunk)
        saved: dict[int, Floats] = {}
        for start in reversed(starts):
            saved[start] = self._least.copy()
            self._add_all(start, min(start + chunk, count))
        self.cost = float(self._least[0, -1])
        cuts: list[tuple[int, int]] = []
        for start in starts:
            if start:
                self._least = saved.pop(start)
                self._add_all(start, min(start + chunk, count))
            for candidate in range(start, min(start + chunk, count)):
                self._choose(candidate, cuts)
        return cuts

    def _add_all(self, start: int, stop: int) -> None:
        """Add candidates from the last to the first, so that each can be undone."""
        self._undo = []
        for candidate in range(stop - 1, start - 1, -1):
            self._undo.append(self._least[: self._first[candidate], self._first[candidate] :].copy())
            self._add(candidate)

    def _add(self, candidate: int) -> None:
        """One step of the recurrence.

        A cut at the candidate behind costs `nearer`, and G is the least: so G(a, b) is at most
        G(a, m) + nearer(m) + G(m, b), and a cut here can only help where the delay that it ends
        outweighs what it breaks beyond that.
        """
        first = int(self._first[candidate])
        paid, breaking = self._paid[candidate, first:], self._breaking[candidate, first:]
        last = candidate + 1 == len(self._paid)
        nearer = 0.0 if last else self._breaking[candidate + 1, first:]
        helps = np.searchsorted(paid, paid + breaking - nearer, side="right")
        inner = self._least[first:, first:]
        best = self._least[:first, first:] + paid
        cut = best + breaking
        for node, at in enumerate(np.maximum(helps, np.arange(1, len(paid) + 1)).tolist()):
            if at < len(paid):
                later = best[:, at:]
                np.minimum(later, cut[:, node, None] + inner[node, at:], out=later)
        self._least[:first, first:] = best

    def _choose(self, candidate: int, cuts: list[tuple[int, int]]) -> None:
        """Follow the recurrence back: whether, and where, the best schedule cuts at this candidate."""
        first = int(self._first[candidate])
        self._least[:first, first:] = self._undo.pop()
        before = max((node for node, _ in cuts if node < first), default=0)
        after = min((node for node, _ in cuts if node >= first), default=len(self._least) - 1)
        inside = slice(first, after)
        costs = (
            self._least[before, inside]
            + self._paid[candidate, inside]
            + self._breaking[candidate, inside]
            + self._least[inside, after]
        )
        uncut = self._least[before, after] + self._paid[candidate, after]
        if len(costs) and costs.min() < uncut:
            cuts.append((first + int(costs.argmin()), candidate))

    def taken(self, cuts: list[tuple[int, int]], candidate: int) -> int:
        """The node at which a candidate goes: the first cut since it may, that reaches it."""
        first = self._first[candidate]
        return min(
            (node for node, reach in cuts if node >= first and reach <= candidate),
            default=len(self._least) - 1,
        )


def _thinned(times: list[int], candidates: int) -> list[int]:
    """As many of the calls at which cuts may be tried as the work allows, the last one among them."""
    most = max(2, int((MOST_WORK / candidates) ** (1 / 3)))
    if len(times) <= most:
        return times
    kept = np.linspace(0, len(times) - 1, most).round().astype(np.intp)
    return [times[index] for index in kept]


def _rates(page: Page, calls: Ints) -> tuple[Floats, Floats, Floats]:
    """What an uncached, a read and a written token cost at these calls."""
    sizes = page.tokens
    rates = [page.prices[int(call)].at(float(sizes[call])) for call in calls]
    full = np.array([rate.input for rate in rates], dtype=np.float64)
    read = np.array([rate.read for rate in rates], dtype=np.float64)
    short = np.array([rate.write for rate in rates], dtype=np.float64)
    long = np.array([rate.write_1h for rate in rates], dtype=np.float64)
    return full, read, short + page.long_share[calls] * (long - short)
