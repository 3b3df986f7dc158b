"""What many replayed sessions come to: sums, spreads, intervals and a verdict, from their rows.

Pure, and the same to the last digit for any order of rows: sums are exact, and sessions are taken in
the order of their sources. Costs are in base input tokens; a change is that of the input's cost against
no pruning, as a share: below zero is cheaper. docs/how-to/read-a-report.md explains every figure.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from prunewise.replay import sweep
from prunewise.replay.harness import Found
from prunewise.replay.policies import OPTIMAL, can_be_chosen, label
from prunewise.replay.results import ErrorRow, Figures, Missed, Row, SessionRow, WorstRecall

NONE = "none"
"""The policy that all others are compared with."""
ACTIVE = "documented"
"""The policy that the verdict is on, unless another one is named."""
LONG = 20
"""Sessions of so many LLM calls are looked at by themselves too: short ones say little about pruning."""
FEWEST = 10
"""With fewer sessions no interval is given: resampling so few would pretend to know. For the same reason
nothing is called certain where fewer make the difference."""
RESAMPLES = 4000
SEED = 20_260_101
MOST_SESSIONS = 10
"""How many of a policy's worst sessions are listed."""
MOST_RECALLS = 10
"""How many of a policy's worst recalls are listed."""
SMALL = 0.01
"""A change below this share is called hardly any."""
HEAVY = 0.25
"""A session with more than this share of all costs is pointed out: totals are then mostly its own."""
_KEPT_RECALLS = 200
_ROUNDING = 1e-12
"""A smaller share is the rounding of sums."""

Floats = npt.NDArray[np.float64]
Outcome = Literal["gains", "loses", "undecided", "nothing"]


class LeftOut(msgspec.Struct, frozen=True, rename="camel"):
    """A session that is in no total."""

    source: str
    session: str
    llm_calls: int
    baseline_error: float | None


class Baseline(msgspec.Struct, frozen=True, rename="camel"):
    """How far the simulated baseline is from recorded usage, as a share of it; excluded sessions included."""

    checked: int
    """Sessions with usage."""
    unchecked: int
    """Sessions without: nothing confirms their bill."""
    median: float | None
    p90: float | None


class Interval(msgspec.Struct, frozen=True, rename="camel"):
    """A 95% bootstrap interval by session."""

    low: float
    high: float


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """What a policy costs under one way of billing, and the change against none."""

    total: float
    """In base input tokens."""
    change: float | None
    """Of the total; None where there is nothing to compare with."""
    median: float | None
    """Of the sessions' changes, each session counted alike."""
    p5: float | None
    """5% of the sessions do worse than this."""
    p1: float | None
    worst: float | None
    interval: Interval | None = None
    """Of the change of the total; None with too few sessions, and where it was not worked out."""


class Lost(msgspec.Struct, frozen=True, rename="camel"):
    """Information loss: recalls (blocks that would have had to come back) and faults (needs not met)."""

    blocks: int
    tokens: int
    recalls: int
    faults: int
    recalls_by_kind: Mapping[str, int]
    recalls_per_100_blocks: float | None
    recalls_per_million_tokens: float | None
    recalls_per_session: float | None
    faults_per_100_blocks: float | None
    faults_per_million_tokens: float | None
    faults_per_session: float | None


class Dollars(msgspec.Struct, frozen=True, rename="camel"):
    """US dollars, over the sessions whose prices are known; recalls charged."""

    sessions: int
    none: float
    policy: float
    saved: Interval | None = None
    """The 95% interval of what is saved, in dollars; None with too few sessions."""


class DetectedTotals(msgspec.Struct, frozen=True, rename="camel"):
    """One policy over all sessions of a block where recalls are those that the detector finds."""

    net: Cost
    """Under the providers' rules, recalls charged: the likeliest figure."""
    gained: int
    """Sessions that cost less."""
    lost: int
    """Sessions that cost more."""
    recall_cost: float
    missed: Lost
    dollars: Dollars | None = None


class PolicyTotals(msgspec.Struct, frozen=True, rename="camel"):
    """One policy over all sessions of a block, where recalls are those that the upper bound of need finds."""

    policy: str
    net: Cost
    """The headline: under the providers' rules, recalls charged. What it saves is the lower figure."""
    gross: Cost
    """Under the providers' rules, recalls not charged."""
    suffix_net: Cost
    """Where any unchanged beginning stays cached, recalls charged."""
    suffix: Cost
    """The same, recalls not charged."""
    recall_cost: float
    acted: int
    """Sessions in which it removes anything."""
    gained: int
    """Sessions that cost less, recalls charged, under the providers' rules."""
    lost: int
    """Sessions that cost more."""
    optimum_share: float | None
    """Of what the hindsight optimum over the documented supply saves, the share that this one does: on the
    suffix model, recalls not charged. None where the optimum was not asked for or saves nothing."""
    own_optimum: float | None
    """The least suffix cost with this policy's own supply, in hindsight."""
    own_optimum_share: float | None
    breaks: int
    breaks_per_100_calls: float | None
    peak: float | None
    """The sessions' largest requests, on average, in tokens."""
    final: float | None
    """The sessions' last requests, on average."""
    compactions_avoided: int
    calls_gained: float
    """LLM calls that the room saved at the end of the sessions would have held, all together."""
    removed: int
    removed_by_strategy: Mapping[str, int]
    removed_by_tool: Mapping[str, int]
    dollars: Dollars | None
    missed: Lost
    missed_at_random: Lost
    missed_oldest_first: Lost
    missed_largest_first: Lost
    detected: DetectedTotals | None = None
    """The same under the detector of need; None where it was not looked for."""


class Block(msgspec.Struct, frozen=True, rename="camel"):
    """Sessions with at least so many LLM calls, under each policy."""

    min_calls: int
    sessions: int
    llm_calls: int
    compactions: int
    largest_share: float | None
    """Of what all sessions cost without pruning, the share of the dearest one."""
    policies: tuple[PolicyTotals, ...]
    recommended: str | None = None
    """The policy that saves most, of those that save for certain and can be switched on."""

    def policy(self, name: str) -> PolicyTotals | None:
        """That of a name."""
        return next((one for one in self.policies if one.policy == name), None)


class SessionChange(msgspec.Struct, frozen=True, rename="camel"):
    """One counted session: the change of its net cost under each policy."""

    source: str
    session: str
    lineage: str
    llm_calls: int
    none: float
    """What it costs without pruning."""
    changes: tuple[float, ...]
    """In the order of the policies."""


class WorstSession(msgspec.Struct, frozen=True, rename="camel"):
    """A session that a policy makes dearer, recalls charged."""

    policy: str
    source: str
    session: str
    lineage: str
    llm_calls: int
    change: float
    extra: float
    """In base input tokens."""
    of_recalls: float
    """What of that its recalls cost."""


class WorstCase(msgspec.Struct, frozen=True, rename="camel"):
    """A recall that a person should look at, and where it is."""

    source: str
    session: str
    lineage: str
    recall: WorstRecall


class StrategyCandidates(msgspec.Struct, frozen=True, rename="camel"):
    """The documented harness's candidates of one strategy."""

    strategy: str
    candidates: int
    idle: int
    mid_loop: int
    original_tokens: int
    tokens_removed: int


class SessionFigures(msgspec.Struct, frozen=True, rename="camel"):
    """One session, strategy and price ratio: what the documented model predicted, and what came of it.

    Sums over the candidates, each taken by itself; in base input tokens.
    """

    source: str
    session: str
    lineage: str
    strategy: str
    ratio: float
    candidates: int
    tokens_removed: int
    penalty: float
    recurring_saving: float
    break_even_calls: float
    """Of the sums; infinite where nothing is saved."""
    median_remaining_calls: float
    realized: float
    """What they would have brought, knowing what followed."""


class Curve(msgspec.Struct, frozen=True, rename="camel"):
    """The realised net benefit at each threshold from 1 on, at one ratio."""

    ratio: float
    overall: tuple[float, ...]
    mid_loop: tuple[float, ...]
    idle: tuple[float, ...]


class HarnessTotals(msgspec.Struct, frozen=True, rename="camel"):
    """The documented harness. It needs no bill, so excluded sessions are in it; further copies are not."""

    sessions: int
    candidates: int
    by_strategy: tuple[StrategyCandidates, ...]
    remaining_calls: sweep.Percentiles
    recommended: tuple[sweep.Recommendation, ...]
    curves: tuple[Curve, ...]
    by_session: tuple[SessionFigures, ...]


class Better(msgspec.Struct, frozen=True, rename="camel"):
    """A policy whose net cost is below the active one's."""

    policy: str
    difference: float
    """Of the two changes: below zero."""
    interval: Interval | None
    """Of the difference, the sessions drawn alike for both."""
    sessions: int
    """Sessions that make the difference."""

    @property
    def certain(self) -> bool:
        """Whether the whole interval is on its side, and not by a handful of sessions."""
        return self.sessions >= FEWEST and self.interval is not None and self.interval.high < 0


class Verdict(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the active policy gains or loses on these sessions."""

    policy: str
    outcome: Outcome
    change: float | None
    interval: Interval | None
    better: tuple[Better, ...]
    """The best first; no pruning is among them where it is better."""
    sentences: tuple[str, ...]
    """The verdict in plain words."""


class Totals(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that reports show of many sessions."""

    active: str
    policies: tuple[str, ...]
    files: int
    """That rows came from, those with errors included."""
    bytes: int
    read_sessions: int
    llm_calls: int
    """Of all sessions that were read."""
    formats: Mapping[str, int]
    warmth: Mapping[str, int]
    """Of the counted sessions: what decided what was cached, usage or the clock."""
    assumed_prices: int
    """Counted sessions whose prices are assumed."""
    warnings: int
    with_loss: bool
    """Whether information loss was looked for; if not, net figures charge no recalls."""
    baseline: Baseline
    errors: tuple[ErrorRow, ...]
    excluded: tuple[LeftOut, ...]
    copies: tuple[LeftOut, ...]
    """Sessions that hold nothing but copies of what others hold."""
    empty: tuple[LeftOut, ...]
    """Sessions without an LLM call that was answered."""
    copied_calls: int
    """LLM calls that are copies of calls of other sessions, and count there."""
    aside_calls: int
    """LLM calls on branches that were left; they are in no total."""
    warned: tuple[str, ...]
    """Each of the warnings."""
    all: Block
    long: Block
    clients: Mapping[str, Block]
    """The counted sessions by the client that they are from."""
    sessions: tuple[SessionChange, ...]
    worst_sessions: tuple[WorstSession, ...]
    worst_recalls: tuple[WorstCase, ...]
    harness: HarnessTotals
    verdict: Verdict


def gather(
    rows: Iterable[Row],
    ratios: Sequence[float] = (0.1,),
    sweep_max: int = 480,
    active: str = ACTIVE,
) -> Totals:
    """Put rows together.

    Args:
        rows: those of all files, in any order. All sessions have the same policies, `none` among them.
        ratios: prices of a cached token over the base input price, for the documented harness.
        sweep_max: the highest break-even threshold to try.
        active: the policy that the verdict is on; where the rows do not have it, their first other one.

    Raises:
        ValueError: sessions were replayed under different policies, or without `none`.
    """
    gathering = _Gathering()
    for row in rows:
        gathering.add(row)
    return gathering.totals(tuple(ratios), sweep_max, active)


# ------------------------------------------------------------- gathering


class _Numbers(NamedTuple):
    """One policy on one session, as numbers."""

    cost: float
    suffix_cost: float
    recall_cost: float
    own_optimum: float
    """NaN where it was not asked for."""
    dollars: float
    """NaN where it is not known."""
    breaks: float
    peak: float
    final: float
    removed: float
    compactions_avoided: float
    calls_gained: float
    detected: float
    """The net cost under the detector; NaN where it was not looked for."""
    detected_recall_cost: float
    detected_dollars: float


_COLUMN = {name: index for index, name in enumerate(_Numbers._fields)}


class _Breakdown(NamedTuple):
    """What one policy removed and missed on one session."""

    by_strategy: Mapping[str, int]
    by_tool: Mapping[str, int]
    missed: tuple[Missed, Missed, Missed, Missed, Missed]
    """Under the upper bound, of the three baselines, and under the detector."""


_NOTHING_MISSED = Missed()


class _Session(msgspec.Struct):
    """What is kept of a row until all are there: numbers, not texts."""

    source: str
    session: str
    format: str
    lineage: str
    bytes: int
    llm_calls: int
    copied: int
    aside: int
    compactions: int
    warmth: str
    price_known: bool
    baseline_error: float | None
    excluded: bool
    numbers: Floats
    """A row a policy, a column a field of _Numbers."""
    breakdowns: dict[int, _Breakdown]
    """Of those policies that removed anything."""
    candidates: tuple[Found, ...]

    @property
    def order(self) -> tuple[str, str]:
        """Sessions are taken in this order."""
        return (self.source, self.session)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to bill."""
        return self.llm_calls == 0 or float(self.numbers[0, _COLUMN["cost"]]) <= 0

    def left_out(self) -> LeftOut:
        """As it is listed where it does not count."""
        return LeftOut(self.source, self.session, self.llm_calls, self.baseline_error)


class _Gathering:
    """Takes rows one by one and keeps little of each."""

    def __init__(self) -> None:
        self.policies: tuple[str, ...] = ()
        self.sessions: list[_Session] = []
        self.errors: list[ErrorRow] = []
        self.sources: set[str] = set()
        self.bytes = 0
        self.formats: dict[str, int] = {}
        self.warned: list[str] = []
        self._worst: dict[str, list[WorstCase]] = {}

    def add(self, row: Row) -> None:
        """Take one row."""
        if row.source not in self.sources:
            self.sources.add(row.source)
            self.bytes += row.bytes
        if isinstance(row, ErrorRow):
            self.errors.append(row)
            return
        self.formats[row.format] = self.formats.get(row.format, 0) + 1
        self.warned += row.warnings
        self.sessions.append(self._kept(row))
        for recall in row.worst:
            cases = self._worst.setdefault(recall.policy, [])
            cases.append(WorstCase(row.source, row.session, row.lineage, recall))
            if len(cases) >= 2 * _KEPT_RECALLS:
                cases[:] = heapq.nsmallest(_KEPT_RECALLS, cases, key=_gravest)

    def _kept(self, row: SessionRow) -> _Session:
        policies = tuple(one.policy for one in row.figures)
        if not self.policies:
            self.policies = policies
        if policies != self.policies or policies[:1] != (NONE,):
            message = (
                f"{row.source}: replayed under {', '.join(policies) or 'no policy'}, where all sessions "
                f"need the same policies, {NONE!r} first: {', '.join(self.policies)}"
            )
            raise ValueError(message)
        return _Session(
            row.source,
            row.session,
            row.format,
            row.lineage,
            row.bytes,
            row.llm_calls,
            row.copied,
            row.aside,
            row.compactions,
            row.warmth,
            row.price_known,
            row.baseline_error,
            row.excluded,
            np.array([_numbers(one) for one in row.figures], dtype=np.float64),
            {index: _breakdown(one) for index, one in enumerate(row.figures) if one.removed},
            row.candidates,
        )

    def totals(self, ratios: tuple[float, ...], sweep_max: int, active: str) -> Totals:
        """Put together what was taken."""
        policies = self.policies or (NONE,)
        if active not in policies:
            active = next((one for one in policies if one not in (NONE, OPTIMAL)), NONE)
        self.sessions.sort(key=lambda one: one.order)
        empty = [one for one in self.sessions if one.empty]
        excluded = [one for one in self.sessions if one.excluded and not one.empty]
        copies = [one for one in empty if one.copied]
        empty = [one for one in empty if not one.copied]
        counted = [one for one in self.sessions if not one.empty and not one.excluded]
        distinct = [one for one in self.sessions if one.llm_calls or not one.copied]
        table = _Table(policies, counted)
        resampled = _Resampled(table)
        whole = table.block(0, resampled)
        long = [one for one in counted if one.llm_calls >= LONG]
        long_table = _Table(policies, long)
        return Totals(
            active=active,
            policies=policies,
            files=len(self.sources),
            bytes=self.bytes,
            read_sessions=len(self.sessions),
            llm_calls=sum(one.llm_calls for one in self.sessions),
            formats=dict(sorted(self.formats.items())),
            warmth=_counts(one.warmth for one in counted),
            assumed_prices=sum(not one.price_known for one in counted),
            warnings=len(self.warned),
            with_loss=table.with_loss,
            baseline=_baseline(distinct),
            errors=tuple(sorted(self.errors, key=lambda one: one.source)),
            excluded=tuple(one.left_out() for one in excluded),
            copies=tuple(one.left_out() for one in copies),
            empty=tuple(one.left_out() for one in empty),
            copied_calls=sum(one.copied for one in self.sessions),
            aside_calls=sum(one.aside for one in self.sessions),
            warned=tuple(sorted(self.warned)),
            all=whole,
            long=long_table.block(LONG, _Resampled(long_table)),
            clients=_by_client(policies, counted, whole),
            sessions=table.changes(),
            worst_sessions=table.worst(),
            worst_recalls=self._worst_recalls(policies, counted),
            harness=_harness(distinct, ratios, sweep_max),
            verdict=_verdict(whole, active, table, resampled),
        )

    def _worst_recalls(self, policies: Sequence[str], counted: Sequence[_Session]) -> tuple[WorstCase, ...]:
        orders = {one.order for one in counted}
        found: list[WorstCase] = []
        for policy in policies:
            cases = [case for case in self._worst.get(policy, ()) if (case.source, case.session) in orders]
            found += heapq.nsmallest(MOST_RECALLS, cases, key=_gravest)
        return tuple(found)


def _gravest(case: WorstCase) -> tuple[int, int, str, str, int, int, str]:
    recall = case.recall
    return (
        -recall.serves,
        -recall.tokens,
        case.source,
        case.session,
        recall.epoch,
        recall.call,
        recall.key,
    )


def _numbers(figures: Figures) -> _Numbers:
    return _Numbers(
        figures.cost,
        figures.suffix_cost,
        figures.recall_cost,
        math.nan if figures.own_optimum is None else figures.own_optimum,
        math.nan if figures.dollars is None else figures.dollars,
        figures.breaks,
        figures.peak,
        figures.final,
        figures.removed,
        figures.compactions_avoided,
        figures.calls_gained,
        math.nan if figures.detected is None else figures.detected.net_cost,
        math.nan if figures.detected is None else figures.detected.recall_cost,
        math.nan
        if figures.detected is None or figures.detected.dollars is None
        else figures.detected.dollars,
    )


def _breakdown(figures: Figures) -> _Breakdown:
    missed = (
        figures.missed,
        figures.missed_at_random,
        figures.missed_oldest_first,
        figures.missed_largest_first,
        _NOTHING_MISSED if figures.detected is None else figures.detected.missed,
    )
    a, b, c, d, e = (_NOTHING_MISSED if one == _NOTHING_MISSED else one for one in missed)
    return _Breakdown(figures.removed_by_strategy, figures.removed_by_tool, (a, b, c, d, e))


def _by_client(policies: Sequence[str], counted: Sequence[_Session], whole: Block) -> dict[str, Block]:
    names = sorted({one.format for one in counted})
    if len(names) == 1:
        return {names[0]: whole}
    tables = {name: _Table(policies, [one for one in counted if one.format == name]) for name in names}
    return {name: table.block(0, _Resampled(table)) for name, table in tables.items()}


def _counts(names: Iterable[str]) -> dict[str, int]:
    return {name: len(list(same)) for name, same in groupby(sorted(names))}


def _baseline(sessions: Sequence[_Session]) -> Baseline:
    errors = sorted(one.baseline_error for one in sessions if one.baseline_error is not None)
    if not errors:
        return Baseline(0, len(sessions), None, None)
    p90 = errors[len(errors) * 9 // 10]
    return Baseline(len(errors), len(sessions) - len(errors), statistics.median(errors), p90)


# ----------------------------------------------------------------- blocks


class _Table:
    """The numbers of some sessions under all policies."""

    def __init__(self, policies: Sequence[str], sessions: Sequence[_Session]) -> None:
        self.policies = tuple(policies)
        self.sessions = sessions
        empty = np.zeros((0, len(policies), len(_Numbers._fields)))
        self._numbers = np.stack([one.numbers for one in sessions]) if sessions else empty

    @property
    def with_loss(self) -> bool:
        """Whether the blocks that policies removed were looked at."""
        found = [
            breakdown.missed[0].blocks
            for one in self.sessions
            for index, breakdown in one.breakdowns.items()
            if self.policies[index] != OPTIMAL
        ]
        return not found or any(found)

    def column(self, policy: int, name: str) -> Floats:
        """One number of one policy, session by session."""
        return self._numbers[:, policy, _COLUMN[name]]

    def net(self) -> Floats:
        """The net costs: a row a session, a column a policy."""
        return self._numbers[:, :, _COLUMN["cost"]] + self._numbers[:, :, _COLUMN["recall_cost"]]

    def detected(self) -> Floats:
        """The net costs under the detector, likewise."""
        return self._numbers[:, :, _COLUMN["detected"]]

    def block(self, min_calls: int, resampled: _Resampled) -> Block:
        """All policies over these sessions."""
        costs = self.column(0, "cost")
        total = math.fsum(costs)
        policies = tuple(self._policy(index, resampled) for index in range(len(self.policies)))
        return Block(
            min_calls,
            len(self.sessions),
            sum(one.llm_calls for one in self.sessions),
            sum(one.compactions for one in self.sessions),
            float(costs.max()) / total if total > 0 else None,
            policies,
            _recommended(policies) if self.with_loss else None,
        )

    def _policy(self, index: int, resampled: _Resampled) -> PolicyTotals:
        cost, suffix, recalls = (self.column(index, name) for name in ("cost", "suffix_cost", "recall_cost"))
        sessions, net = len(self.sessions), cost + recalls
        none, none_suffix = self.column(0, "cost"), self.column(0, "suffix_cost")
        own = self.column(index, "own_optimum")
        optimum = self._optimum()
        broken = round(math.fsum(self.column(index, "breaks")))
        calls = sum(one.llm_calls for one in self.sessions)
        removed, (*missed, detected) = self._breakdown(index)
        return PolicyTotals(
            self.policies[index],
            _cost(net, none, resampled.interval(index)),
            _cost(cost, none),
            _cost(suffix + recalls, none_suffix),
            _cost(suffix, none_suffix),
            math.fsum(recalls),
            sum(index in one.breakdowns for one in self.sessions),
            int(np.count_nonzero(_changes(net, none) < 0)),
            int(np.count_nonzero(_changes(net, none) > 0)),
            None if optimum is None else _share(suffix, none_suffix, optimum),
            None if not sessions or np.isnan(own).any() else math.fsum(own),
            _share(suffix, none_suffix, own),
            broken,
            100 * broken / calls if calls else None,
            math.fsum(self.column(index, "peak")) / sessions if sessions else None,
            math.fsum(self.column(index, "final")) / sessions if sessions else None,
            round(math.fsum(self.column(index, "compactions_avoided"))),
            math.fsum(self.column(index, "calls_gained")),
            round(math.fsum(self.column(index, "removed"))),
            *removed,
            self._dollars(index, "dollars", resampled.dollars(index)),
            *missed,
            detected=self._detected(index, resampled, detected),
        )

    def _detected(self, index: int, resampled: _Resampled, missed: Lost) -> DetectedTotals | None:
        net, none = self.column(index, "detected"), self.column(0, "cost")
        if not len(net) or np.isnan(net).any():
            return None
        changes = _changes(net, none)
        return DetectedTotals(
            _cost(net, none, resampled.detected(index)),
            int(np.count_nonzero(changes < 0)),
            int(np.count_nonzero(changes > 0)),
            math.fsum(self.column(index, "detected_recall_cost")),
            missed,
            self._dollars(index, "detected_dollars"),
        )

    def _optimum(self) -> Floats | None:
        if OPTIMAL not in self.policies:
            return None
        return self.column(self.policies.index(OPTIMAL), "suffix_cost")

    def _dollars(self, index: int, column: str, saved: Interval | None = None) -> Dollars | None:
        none, policy = self.column(0, "dollars"), self.column(index, column)
        known = ~(np.isnan(none) | np.isnan(policy))
        if not known.any():
            return None
        many = int(known.sum())
        saved = saved if many >= FEWEST else None
        return Dollars(many, math.fsum(none[known]), math.fsum(policy[known]), saved)

    def saved_dollars(self) -> Floats:
        """What each policy saves, session by session; nothing where the price is not known."""
        dollars = self._numbers[:, :, _COLUMN["dollars"]]
        return np.nan_to_num(dollars[:, :1] - dollars)

    def _breakdown(self, index: int) -> tuple[tuple[dict[str, int], dict[str, int]], tuple[Lost, ...]]:
        found = [one.breakdowns[index] for one in self.sessions if index in one.breakdowns]
        by_strategy = _summed(one.by_strategy for one in found)
        by_tool = _summed(one.by_tool for one in found)
        lost = [_lost([one.missed[which] for one in found], len(self.sessions)) for which in range(5)]
        return (by_strategy, by_tool), tuple(lost)

    def changes(self) -> tuple[SessionChange, ...]:
        """The sessions one by one."""
        none, net = self.column(0, "cost"), self.net()
        shares = [_changes(net[:, index], none) for index in range(len(self.policies))]
        return tuple(
            SessionChange(
                one.source,
                one.session,
                one.lineage,
                one.llm_calls,
                float(none[at]),
                tuple(float(share[at]) for share in shares),
            )
            for at, one in enumerate(self.sessions)
        )

    def worst(self) -> tuple[WorstSession, ...]:
        """The sessions that each policy makes dearest."""
        none, net = self.column(0, "cost"), self.net()
        found: list[WorstSession] = []
        for index, policy in enumerate(self.policies):
            changes, recalls = _changes(net[:, index], none), self.column(index, "recall_cost")
            order = cast("list[int]", np.argsort(-changes, kind="stable").tolist())
            dearer = [at for at in order if changes[at] > 0]
            for at in dearer[:MOST_SESSIONS]:
                one = self.sessions[at]
                found.append(
                    WorstSession(
                        policy,
                        one.source,
                        one.session,
                        one.lineage,
                        one.llm_calls,
                        float(changes[at]),
                        float(net[at, index] - none[at]),
                        float(recalls[at]),
                    )
                )
        return tuple(found)


def _recommended(policies: Sequence[PolicyTotals]) -> str | None:
    sure = [one for one in policies if can_be_chosen(one.policy) and _saves_for_certain(one)]
    return min(sure, key=lambda one: one.net.change or 0.0).policy if sure else None


def _saves_for_certain(one: PolicyTotals) -> bool:
    dollars = one.dollars
    return _outcome(one) == "gains" and (
        dollars is None
        or (dollars.policy < dollars.none and (dollars.saved is None or dollars.saved.low > 0))
    )


def _changes(costs: Floats, none: Floats) -> Floats:
    """The sessions' changes; what is off by rounding alone is none."""
    changes = costs / none - 1
    return np.where(np.abs(changes) < _ROUNDING, 0.0, changes)


def _cost(costs: Floats, none: Floats, interval: Interval | None = None) -> Cost:
    total, before = math.fsum(costs), math.fsum(none)
    if before <= 0:
        return Cost(total, None, None, None, None, None)
    dearest = sorted(_changes(costs, none).tolist(), reverse=True)
    many = len(dearest)
    return Cost(
        total,
        total / before - 1,
        statistics.median(dearest),
        dearest[many * 5 // 100],
        dearest[many // 100],
        dearest[0],
        interval,
    )


def _share(costs: Floats, none: Floats, least: Floats) -> float | None:
    """Of the least cost's saving, the share that these costs save."""
    if not len(costs) or np.isnan(least).any():
        return None
    before, possible = math.fsum(none), math.fsum(least)
    if before - possible <= 1e-9 * before:
        return None
    return (before - math.fsum(costs)) / (before - possible)


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The largest first."""
    sums: dict[str, int] = {}
    for part in parts:
        for name, many in part.items():
            sums[name] = sums.get(name, 0) + many
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def _lost(found: Sequence[Missed], sessions: int) -> Lost:
    blocks, tokens = sum(one.blocks for one in found), sum(one.tokens for one in found)
    recalls, faults = sum(one.recalls for one in found), sum(one.faults for one in found)
    return Lost(
        blocks,
        tokens,
        recalls,
        faults,
        _summed(one.recalls_by_kind for one in found),
        *(
            scale * many / of if of else None
            for many in (recalls, faults)
            for scale, of in ((100, blocks), (1_000_000, tokens), (1, sessions))
        ),
    )


# ----------------------------------------------------------------- intervals


class _Resampled:
    """The totals of the same number of sessions drawn again and again, with replacement.

    All policies see the same draws, so that they can be compared.
    """

    def __init__(self, table: _Table) -> None:
        sessions = len(table.sessions)
        self._totals: Floats | None = None
        self._policies = len(table.policies)
        if sessions < FEWEST:
            return
        generator = np.random.default_rng(SEED)
        columns = np.column_stack(
            (table.column(0, "cost"), table.net(), table.detected(), table.saved_dollars())
        )
        totals = np.zeros((RESAMPLES, columns.shape[1]))
        for at in range(RESAMPLES):
            drawn = np.bincount(generator.integers(0, sessions, sessions), minlength=sessions)
            totals[at] = np.einsum("s,sp->p", drawn.astype(np.float64), columns, optimize=False)
        self._totals = totals

    def interval(self, policy: int) -> Interval | None:
        """Of a policy's change against none."""
        if self._totals is None:
            return None
        return _interval(self._totals[:, 1 + policy] / self._totals[:, 0] - 1)

    def detected(self, policy: int) -> Interval | None:
        """Of a policy's change against none, under the detector."""
        return self.interval(self._policies + policy)

    def dollars(self, policy: int) -> Interval | None:
        """Of what a policy saves, in dollars."""
        if self._totals is None:
            return None
        return _interval(self._totals[:, 1 + 2 * self._policies + policy])

    def difference(self, policy: int, other: int) -> Interval | None:
        """Of the difference between two policies' changes."""
        if self._totals is None:
            return None
        return _interval((self._totals[:, 1 + policy] - self._totals[:, 1 + other]) / self._totals[:, 0])


def _interval(values: Floats) -> Interval:
    low, high = np.quantile(values, (0.025, 0.975)).tolist()
    return Interval(*(0.0 if abs(bound) < _ROUNDING else bound for bound in (low, high)))


# ----------------------------------------------------------------- harness


def _harness(sessions: Sequence[_Session], ratios: tuple[float, ...], sweep_max: int) -> HarnessTotals:
    found = [one for session in sessions for one in session.candidates]
    candidates = [one.candidate for one in found]
    recommended = sweep.sweep(candidates, ratios, sweep_max)
    return HarnessTotals(
        len(sessions),
        len(found),
        tuple(_of_strategy(strategy, found) for strategy in sorted({one.strategy for one in found})),
        sweep.percentiles(one.remaining_calls for one in found),
        tuple(recommended),
        tuple(_curve(candidates, one) for one in recommended),
        tuple(
            _session_figures(session, strategy, ratio)
            for session in sessions
            for strategy in sorted({one.strategy for one in session.candidates})
            for ratio in ratios
        ),
    )


def _of_strategy(strategy: str, found: Sequence[Found]) -> StrategyCandidates:
    own = [one for one in found if one.strategy == strategy]
    idle = sum(one.state == "idle" for one in own)
    return StrategyCandidates(
        strategy,
        len(own),
        idle,
        len(own) - idle,
        sum(one.original_tokens for one in own),
        sum(one.tokens_removed for one in own),
    )


def _curve(candidates: Sequence[sweep.Candidate], found: sweep.Recommendation) -> Curve:
    highest = max(found.overall.tested, found.mid_loop.tested, found.idle.tested)
    by_state = (
        candidates,
        [one for one in candidates if one.state == "mid_loop"],
        [one for one in candidates if one.state == "idle"],
    )
    overall, mid_loop, idle = (tuple(sweep.curve(some, found.ratio, highest)) for some in by_state)
    return Curve(found.ratio, overall, mid_loop, idle)


def _session_figures(session: _Session, strategy: str, ratio: float) -> SessionFigures:
    own = [one for one in session.candidates if one.strategy == strategy]
    candidates = [one.candidate for one in own]
    penalty = math.fsum(one.penalty(ratio) for one in candidates)
    saving = math.fsum(one.recurring_saving(ratio) for one in candidates)
    return SessionFigures(
        session.source,
        session.session,
        session.lineage,
        strategy,
        ratio,
        len(own),
        sum(one.tokens_removed for one in own),
        penalty,
        saving,
        0.0 if penalty == 0 else penalty / saving if saving > 0 else math.inf,
        statistics.median(one.remaining_calls for one in own),
        math.fsum(one.net_benefit(ratio) for one in candidates),
    )


# ----------------------------------------------------------------- verdict


def _verdict(block: Block, active: str, table: _Table, resampled: _Resampled) -> Verdict:
    names = [one.policy for one in block.policies]
    mine = block.policy(active)
    assert mine is not None, "the active policy is one of the policies"
    change = mine.net.change
    better: list[Better] = []
    if change is not None and active != NONE:
        at, net = names.index(active), table.net()
        better = [
            Better(
                other.policy,
                difference,
                resampled.difference(index, at),
                int(np.count_nonzero(_changes(net[:, index], net[:, at]))),
            )
            for index, other in enumerate(block.policies)
            if other.policy not in (active, OPTIMAL)
            and (difference := _difference(other.net.change, change)) < 0
        ]
        better.sort(key=lambda one: one.difference)
    verdict = Verdict(active, _outcome(mine), change, mine.net.interval, tuple(better), ())
    return msgspec.structs.replace(verdict, sentences=sentences(verdict, block, with_loss=table.with_loss))


def sentences(verdict: Verdict, block: Block, *, with_loss: bool) -> tuple[str, ...]:
    """A verdict in plain words.

    Args:
        verdict: it; its own sentences are not looked at.
        block: the sessions that it is on.
        with_loss: whether information loss was looked for.
    """
    mine = block.policy(verdict.policy)
    if verdict.change is None or mine is None:
        return ("No session could be counted: there is nothing to say.",)
    if verdict.policy == NONE:
        return ("No policy was compared: there is nothing to say.",)
    recalls = "with what it would have had to bring back" if with_loss else "recalls not looked for"
    return (
        *_first_sentences(block, mine, verdict.outcome, recalls),
        *_about_better(verdict.policy, verdict.better, block),
        *_about_weight(block),
    )


def _difference(other: float | None, mine: float) -> float:
    difference = 0.0 if other is None else other - mine
    return 0.0 if abs(difference) < _ROUNDING else difference


def _outcome(mine: PolicyTotals) -> Outcome:
    interval = mine.net.interval
    if not mine.removed:
        return "nothing"
    if mine.acted < FEWEST or interval is None or interval.low <= 0 <= interval.high:
        return "undecided"
    return "gains" if interval.high < 0 else "loses"


def _first_sentences(block: Block, mine: PolicyTotals, outcome: Outcome, recalls: str) -> Iterable[str]:
    change = mine.net.change or 0.0
    on = f"On these {block.sessions:,} sessions" if block.sessions > 1 else "On this one session"
    if outcome == "nothing":
        yield f"{on} {label(mine.policy)} would have removed nothing: it neither gains nor loses."
        return
    how = f"{percent(abs(change))} {'less' if change < 0 else 'more'} for input than"
    if abs(change) < _ROUNDING:
        how = "as much for input as"
    yield f"{on} {label(mine.policy)} would have cost {how} no pruning, {recalls}."
    yield from _about_certainty(block, mine, outcome)
    if outcome == "gains" and abs(change) < SMALL:
        yield f"That is under {percent(SMALL)}: hardly any gain."
    worst = f", the worst {signed(mine.net.worst)}" if mine.lost and mine.net.worst is not None else ""
    yield f"It acts in {_sessions(mine.acted)}: {mine.gained:,} cost less, {mine.lost:,} more{worst}."


def _about_certainty(block: Block, mine: PolicyTotals, outcome: Outcome) -> Iterable[str]:
    interval = mine.net.interval
    if interval is None:
        others = "others like it" if block.sessions == 1 else "others like them"
        yield f"With fewer than {FEWEST} sessions nothing can be said of {others}."
        return
    span = f"the 95% interval of the change is {signed(interval.low)} to {signed(interval.high)}"
    if outcome == "gains":
        yield f"For sessions like these it gains: {span}."
    elif outcome == "loses":
        yield f"For sessions like these it loses: {span}."
    elif interval.low <= 0 <= interval.high:
        yield f"Whether it gains or loses on sessions like these is not certain: {span}."
    else:
        yield (
            f"What it does to sessions like these is not certain: {span}, but only "
            f"{_sessions(mine.acted)} of these tell."
        )


def _about_better(active: str, better: Sequence[Better], block: Block) -> Iterable[str]:
    if not better:
        if any(one.policy not in (active, NONE, OPTIMAL) for one in block.policies):
            yield "None of the compared policies would have done better."
        return
    certain = [one for one in better if one.certain]
    best = (certain or better)[0]
    name = "no pruning" if best.policy == NONE else label(best.policy)
    change = cast("PolicyTotals", block.policy(best.policy)).net.change or 0.0
    against = "" if best.policy == NONE else f" ({signed(change)} against no pruning)"
    if certain:
        yield f"Better, and by more than chance would explain: {name}{against}."
    elif best.interval is not None and best.interval.high < 0:
        yield f"Cheaper on these sessions, though only {best.sessions:,} of them tell: {name}{against}."
    else:
        yield f"Cheaper on these sessions, though that may be chance: {name}{against}."


def _about_weight(block: Block) -> Iterable[str]:
    if block.largest_share is not None and block.sessions > 1 and block.largest_share > HEAVY:
        yield f"One session makes up {percent(block.largest_share)} of all costs: totals are mostly its own."


def _sessions(many: int) -> str:
    return f"{many:,} session" if many == 1 else f"{many:,} sessions"


def percent(share: float) -> str:
    """A share in percent: one decimal, two where it is small, none where it is large."""
    size = abs(share)
    for above, digits in _DIGITS:
        if size >= above:
            return f"{100 * share:,.{digits}f}%"
    return "0.0%"


_DIGITS = ((0.9995, 0), (0.00995, 1), (0.00005, 2))


def signed(share: float) -> str:
    """The same with its sign; nothing is without one."""
    text = percent(share)
    return text if share < 0 or text == "0.0%" else f"+{text}"
