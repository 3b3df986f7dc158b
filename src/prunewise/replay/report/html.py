"""The report as one page that needs nothing else: plots, the figures behind each, and the verdict.

No script, no network, no fonts: it can be mailed, archived, and read without a browser's help. The
template beside this module has the words and the style; plots are in `plots`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jinja2

from prunewise import __version__
from prunewise.replay.policies import OPTIMAL
from prunewise.replay.report import plots, words
from prunewise.replay.report.plots import Plot
from prunewise.replay.report.share import Sharing
from prunewise.replay.report.words import NOT_KNOWN, count, number, one_line, short
from prunewise.replay.results import ErrorRow, Row, SessionRow
from prunewise.replay.totals import LONG, NONE, Block, Cost, Lost, PolicyTotals, Totals, percent, signed

MOST_TIMELINES = 6
"""How many sessions are shown call by call."""
MOST_LISTED = 200
"""How many rows a table of sessions or files has at most; JSON and Parquet have all."""

Tone = Literal["", "gain", "loss", "soft"]


class Cell(NamedTuple):
    """One cell of a table."""

    text: str
    tone: Tone = ""
    sort: Literal["text", "number"] = "number"


class Table(NamedTuple):
    """The figures behind a plot."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


class SessionPlot(NamedTuple):
    """One session's timeline."""

    title: str
    about: str
    plot: Plot
    table: Table


def write(
    totals: Totals,
    rows: Iterable[Row],
    path: Path,
    share: bool = False,  # noqa: FBT001, FBT002 - a mode, told by name
) -> None:
    """Write the page.

    Args:
        totals: what to show.
        rows: those that the totals are of; sessions are shown call by call where rows have timelines.
        path: where to.
        share: leave out everything that tells whose sessions they are.
    """
    path.write_text(page(totals, rows, share), encoding="utf-8")


def page(totals: Totals, rows: Iterable[Row], share: bool = False) -> str:  # noqa: FBT001, FBT002 - as above
    """The page as text."""
    largest = _largest(totals, rows)
    if share:
        sharing = Sharing()
        totals = sharing.totals(totals)
        largest = [one for one in map(sharing.row, largest) if isinstance(one, SessionRow)]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("prunewise.replay.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(_context(totals, largest, share))


def _largest(totals: Totals, rows: Iterable[Row]) -> list[SessionRow]:
    """The dearest of the counted sessions that have a timeline."""
    counted = {(one.source, one.session): one.none for one in totals.sessions}
    found = (
        row
        for row in rows
        if not isinstance(row, ErrorRow) and row.timeline is not None and (row.source, row.session) in counted
    )
    return heapq.nsmallest(
        MOST_TIMELINES, found, key=lambda row: (-counted[row.source, row.session], row.source, row.session)
    )


def _context(totals: Totals, largest: Sequence[SessionRow], share: bool) -> dict[str, Any]:  # noqa: FBT001 - as above
    some = totals.all.sessions > 0
    compared = [one for one in totals.all.policies if one.policy not in (NONE, OPTIMAL)]
    lossy = totals.with_loss and any(one.missed.tokens for one in compared)
    removing = any(one.removed for one in compared)
    return {
        "version": __version__,
        "verdict": totals.verdict,
        "facts": _facts(totals),
        "read": f"{count(totals.files, 'file')}, {words.size(totals.bytes)}: {words.listed(totals.formats)}",
        "left_out": list(words.left_out(totals)),
        "without_loss": not totals.with_loss,
        "basis": list(words.basis(totals)),
        "caveats": words.CAVEATS,
        "policies": [(name, words.what(name)) for name in totals.policies],
        "cost": plots.cost(totals) if some and compared else None,
        "cost_tables": [_costs(totals), _ways(totals.all), _room(totals.all)],
        "distribution": plots.distribution(totals) if some and compared else None,
        "distribution_tables": [_sessions(totals, share), _worst(totals, share)],
        "long": _long(totals),
        "loss": plots.loss(totals) if lossy else None,
        "loss_tables": [_losses(totals.all), _recalls(totals, share)] if lossy else [],
        "savings": plots.savings(totals) if removing else None,
        "savings_tables": [
            _removed("By strategy, in tokens", totals.all, "removed_by_strategy"),
            _removed("By tool, in tokens", totals.all, "removed_by_tool"),
        ],
        "sweep": plots.sweep_curves(totals) if totals.harness.candidates else None,
        "sweep_tables": [_thresholds(totals), _strategies(totals), _harness_sessions(totals, share)],
        "harness": _about_harness(totals),
        "timelines": [_timeline(row, totals, at, share) for at, row in enumerate(largest)],
        "excluded_table": None if share else _left_out(totals),
    }


def _facts(totals: Totals) -> list[tuple[str, str, Tone]]:
    """The figures at the top: the value, what it is, its tone."""
    facts: list[tuple[str, str, Tone]] = [
        (number(totals.all.sessions), "sessions counted", ""),
        (number(totals.all.llm_calls), "LLM calls", ""),
    ]
    mine = totals.all.policy(totals.active)
    if mine is None or mine.net.change is None or totals.active == NONE:
        return facts
    facts.append((signed(mine.net.change), f'input cost under "{mine.policy}", net', _tone(mine.net.change)))
    facts.append((_interval(mine.net), "95% interval of that", ""))
    facts.append((_signed(mine.net.worst), "the worst session", _tone(mine.net.worst)))
    if totals.with_loss:
        facts.append(
            (
                number(mine.missed.recalls_per_100_blocks, 1),
                "recalls per 100 removed blocks",
                "loss" if mine.missed.recalls else "",
            )
        )
    return facts


# ------------------------------------------------------------------- tables


def _text(text: str, tone: Tone = "") -> Cell:
    return Cell(one_line(text), tone, "text")


def _tone(change: float | None) -> Tone:
    if change is None or signed(change) == "0.0%":
        return ""
    return "gain" if change < 0 else "loss"


def _signed(change: float | None) -> str:
    return NOT_KNOWN if change is None else signed(change)


def _change(change: float | None) -> Cell:
    return Cell(_signed(change), _tone(change))


def _share(share: float | None) -> Cell:
    return Cell(NOT_KNOWN if share is None else percent(share), "loss" if share and share < 0 else "")


def _interval(cost: Cost) -> str:
    if cost.interval is None:
        return NOT_KNOWN
    return f"{signed(cost.interval.low)} to {signed(cost.interval.high)}"


def _but_none(block: Block) -> list[PolicyTotals]:
    return [one for one in block.policies if one.policy != NONE]


def _costs(totals: Totals) -> Table:
    return Table(
        "Change of the input's cost against no pruning, net: under the providers' rules, recalls charged",
        ("policy", "total", "95% interval", "median", "p5", "p1", "worst", "cheaper", "dearer", "acts in"),
        tuple(
            (
                _text(one.policy),
                _change(one.net.change),
                Cell(_interval(one.net)),
                *(_change(value) for value in (one.net.median, one.net.p5, one.net.p1, one.net.worst)),
                Cell(number(one.gained)),
                Cell(number(one.lost)),
                Cell(number(one.acted)),
            )
            for one in _but_none(totals.all)
        ),
        "Median, p5, p1 and worst are those of the sessions: 5% of them do worse than p5, 1% worse than p1. "
        f"No pruning costs {short(totals.all.policies[0].net.total)} base input tokens.",
    )


def _ways(block: Block) -> Table:
    return Table(
        "Other ways to bill, and the optimum",
        (
            "policy",
            "recalls not charged",
            "suffix model, net",
            "suffix model",
            "of the optimum's saving",
            "of its own optimum's",
            "own optimum",
            "breaks per 100 calls",
        ),
        tuple(
            (
                _text(one.policy),
                _change(one.gross.change),
                _change(one.suffix_net.change),
                _change(one.suffix.change),
                _share(one.optimum_share),
                _share(one.own_optimum_share),
                Cell(short(one.own_optimum)),
                Cell(number(one.breaks_per_100_calls, 1)),
            )
            for one in _but_none(block)
        ),
        "On the suffix model any unchanged beginning stays cached. The optimum is exact there, for what "
        "documented may remove; a policy that may remove more can save more than all of it. Under explicit "
        "breakpoints it is a bound.",
    )


def _room(block: Block) -> Table:
    return Table(
        "Room in the context window, and dollars",
        (
            "policy",
            "peak",
            "final",
            "compactions avoided",
            "LLM calls gained",
            "tokens removed",
            "US dollars",
        ),
        tuple(
            (
                _text(one.policy),
                Cell(short(one.peak)),
                Cell(short(one.final)),
                Cell(f"{one.compactions_avoided:,} of {block.compactions:,}"),
                Cell(number(one.calls_gained)),
                Cell(short(one.removed)),
                Cell(number(one.dollars.policy, 2) if one.dollars else NOT_KNOWN),
            )
            for one in block.policies
        ),
        "Peak and final: the largest and last requests, the mean of the sessions, in tokens. Dollars: of the "
        "sessions with known prices, recalls charged.",
    )


def _long(totals: Totals) -> Table | None:
    if not totals.long.sessions or totals.long.sessions == totals.all.sessions:
        return None
    block = totals.long
    return Table(
        f"Sessions of {LONG} and more LLM calls: {count(block.sessions, 'session')}, "
        f"{count(block.llm_calls, 'LLM call')}",
        (
            "policy",
            "net",
            "95% interval",
            "median",
            "p5",
            "worst",
            "recalls not charged",
            "suffix model, net",
        ),
        tuple(
            (
                _text(one.policy),
                _change(one.net.change),
                Cell(_interval(one.net)),
                *(
                    _change(value)
                    for value in (
                        one.net.median,
                        one.net.p5,
                        one.net.worst,
                        one.gross.change,
                        one.suffix_net.change,
                    )
                ),
            )
            for one in _but_none(block)
        ),
        "Shorter sessions say little about pruning: nothing in them is old.",
    )


def _session_name(source: str, session: str, share: bool) -> str:  # noqa: FBT001 - as above
    return session if share else f"{source} ({session})" if session not in source else source


def _sessions(totals: Totals, share: bool) -> Table:  # noqa: FBT001 - as above
    shown = [at for at, name in enumerate(totals.policies) if name not in (NONE, OPTIMAL)]
    ordered = sorted(totals.sessions, key=lambda one: (-one.none, one.source, one.session))[:MOST_LISTED]
    more = len(totals.sessions) - len(ordered)
    return Table(
        "Change of each session's net cost, the dearest sessions first",
        ("session", "LLM calls", "cost without pruning", *(totals.policies[at] for at in shown)),
        tuple(
            (
                _text(_session_name(one.source, one.session, share)),
                Cell(number(one.llm_calls)),
                Cell(short(one.none)),
                *(_change(one.changes[at]) for at in shown),
            )
            for one in ordered
        ),
        f"And {count(more, 'session')} more." if more else "",
    )


def _worst(totals: Totals, share: bool) -> Table:  # noqa: FBT001 - as above
    return Table(
        "The sessions that each policy makes dearest",
        ("policy", "session", "LLM calls", "change", "tokens more", "of them for recalls"),
        tuple(
            (
                _text(one.policy),
                _text(_session_name(one.source, one.session, share)),
                Cell(number(one.llm_calls)),
                _change(one.change),
                Cell(short(one.extra)),
                Cell(short(one.of_recalls)),
            )
            for one in totals.worst_sessions
            if one.policy != OPTIMAL
        ),
    )


def _losses(block: Block) -> Table:
    heads = (
        "policy",
        "blocks",
        "recalls",
        "per 100 blocks",
        "per session",
        "per 1M tokens",
        "at random",
        "oldest first",
        "largest first",
        "needs not met",
        "kinds",
    )
    return Table(
        "Recalls: removed blocks that the session turned out to need",
        heads,
        tuple(
            (
                _text(one.policy),
                Cell(number(one.missed.blocks)),
                Cell(number(one.missed.recalls), "loss" if one.missed.recalls else ""),
                Cell(number(one.missed.recalls_per_100_blocks, 1)),
                Cell(number(one.missed.recalls_per_session, 2)),
                *(
                    Cell(_per_million(missed))
                    for missed in (
                        one.missed,
                        one.missed_at_random,
                        one.missed_oldest_first,
                        one.missed_largest_first,
                    )
                ),
                Cell(number(one.missed.faults)),
                _text(words.listed(one.missed.recalls_by_kind) or NOT_KNOWN),
            )
            for one in _but_none(block)
            if one.policy != OPTIMAL
        ),
        "At random, oldest and largest first: recalls per million tokens where other blocks of about as many "
        "tokens go at the same calls.",
    )


def _per_million(missed: Lost) -> str:
    return number(missed.recalls_per_million_tokens, 1)


def _recalls(totals: Totals, share: bool) -> Table:  # noqa: FBT001 - as above
    cases = [one for one in totals.worst_recalls if one.recall.policy == totals.active]
    needed = () if share else ("what was needed",)
    return Table(
        f'What "{totals.active}" removes and sessions need, the gravest first',
        ("session", "epoch", "message", "missed at call", "tokens", "needed", "strategy", "kind", *needed),
        tuple(
            (
                _text(_session_name(one.source, one.session, share)),
                Cell(number(one.recall.epoch)),
                Cell(number(one.recall.message)),
                Cell(number(one.recall.call)),
                Cell(number(one.recall.tokens)),
                Cell(count(one.recall.serves, "time")),
                _text(one.recall.strategy),
                _text(one.recall.kind),
                *(() if share else (_text(one.recall.key[:200]),)),
            )
            for one in cases
        ),
        "Messages and calls count from 0.",
    )


def _removed(title: str, block: Block, field: Literal["removed_by_strategy", "removed_by_tool"]) -> Table:
    shown = [one for one in block.policies if one.policy not in (NONE, OPTIMAL)]
    sums: dict[str, int] = {}
    for one in shown:
        for name, many in getattr(one, field).items():
            sums[name] = sums.get(name, 0) + many
    names = sorted(sums, key=lambda name: (-sums[name], name))[:MOST_LISTED]
    return Table(
        title,
        ("", *(one.policy for one in shown)),
        tuple(
            (_text(name), *(Cell(number(getattr(one, field).get(name, 0))) for one in shown))
            for name in names
        ),
    )


def _about_harness(totals: Totals) -> str:
    harness = totals.harness
    calls = harness.remaining_calls
    return (
        f"{count(harness.candidates, 'candidate')} in {count(harness.sessions, 'session')} (excluded ones "
        f"too: it needs no bill). LLM calls that followed a candidate: p50 {calls.p50:,}, p90 {calls.p90:,}."
    )


def _thresholds(totals: Totals) -> Table:
    return Table(
        "The break-even thresholds that would have paid best",
        ("ratio", "T overall", "brings", "T mid-loop", "brings", "T idle", "brings", "tried up to"),
        tuple(
            (
                Cell(f"{one.ratio:g}"),
                *(
                    cell
                    for found in (one.overall, one.mid_loop, one.idle)
                    for cell in (Cell(number(found.threshold)), Cell(number(found.total)))
                ),
                Cell(number(one.overall.tested)),
            )
            for one in totals.harness.recommended
        ),
        "In base input tokens; the lowest threshold of those that share the best total.",
    )


def _strategies(totals: Totals) -> Table:
    return Table(
        "Candidates by strategy",
        ("strategy", "candidates", "idle", "mid-loop", "tokens", "removed"),
        tuple(
            (
                _text(one.strategy),
                *(
                    Cell(number(many))
                    for many in (
                        one.candidates,
                        one.idle,
                        one.mid_loop,
                        one.original_tokens,
                        one.tokens_removed,
                    )
                ),
            )
            for one in totals.harness.by_strategy
        ),
    )


def _harness_sessions(totals: Totals, share: bool) -> Table:  # noqa: FBT001 - as above
    figures = totals.harness.by_session
    ordered = sorted(figures, key=lambda one: (-abs(one.realized), one.source, one.session, one.strategy))
    return Table(
        "Predicted and realised, by session and strategy",
        (
            "session",
            "strategy",
            "ratio",
            "candidates",
            "removed",
            "penalty",
            "saving a call",
            "break-even calls",
            "calls that followed",
            "realised",
        ),
        tuple(
            (
                _text(_session_name(one.source, one.session, share)),
                _text(one.strategy),
                Cell(f"{one.ratio:g}"),
                Cell(number(one.candidates)),
                Cell(short(one.tokens_removed)),
                Cell(short(one.penalty)),
                Cell(short(one.recurring_saving)),
                Cell(number(one.break_even_calls, 1)),
                Cell(number(one.median_remaining_calls)),
                Cell(short(one.realized), "loss" if one.realized < 0 else "gain" if one.realized > 0 else ""),
            )
            for one in ordered[:MOST_LISTED]
        ),
        "Sums over the candidates, each by itself, as the documented model prices them: no write premium, "
        "and a cache that never goes cold."
        + (f" And {len(figures) - MOST_LISTED:,} more rows." if len(figures) > MOST_LISTED else ""),
    )


def _left_out(totals: Totals) -> Table | None:
    rows: list[tuple[Cell, ...]] = [
        (_text(one.source), _text(f"could not be replayed: {one.reason}")) for one in totals.errors
    ]
    rows += [
        (_text(one.source), _text(f"off from recorded usage by {percent(one.baseline_error or 0.0)}"))
        for one in totals.excluded
    ]
    rows += [(_text(one.source), _text("a copy of what other sessions hold")) for one in totals.copies]
    rows += [(_text(one.source), _text("no answered LLM call")) for one in totals.empty]
    if not rows:
        return None
    more = len(rows) - MOST_LISTED
    return Table(
        "Left out of totals",
        ("file", "why"),
        tuple(rows[:MOST_LISTED]),
        f"And {more:,} more." if more > 0 else "",
    )


def _timeline(row: SessionRow, totals: Totals, at: int, share: bool) -> SessionPlot:  # noqa: FBT001 - as above
    assert row.timeline is not None, "only sessions with a timeline are shown"
    name = row.session if share else Path(row.source).name
    calls, active = count(row.llm_calls, "LLM call"), totals.active
    mine = next((one for one in row.figures if one.policy == active), None)
    none = row.figures[0]
    change = None if mine is None or not none.cost else mine.net_cost / none.cost - 1
    net = f', "{active}" {signed(change)} net' if change is not None else ""
    about = f"{row.format}, {row.model or 'model not known'}, {calls}{net}"
    table = Table(
        "What each policy does to it",
        ("policy", "net", "recalls not charged", "breaks", "peak", "final", "removed", "recalls"),
        tuple(
            (
                _text(one.policy),
                _change(one.net_cost / none.cost - 1 if none.cost else None),
                _change(one.cost / none.cost - 1 if none.cost else None),
                Cell(number(one.breaks)),
                Cell(short(one.peak)),
                Cell(short(one.final)),
                Cell(short(one.removed)),
                Cell(number(one.missed.recalls), "loss" if one.missed.recalls else ""),
            )
            for one in row.figures
        ),
    )
    return SessionPlot(one_line(name), one_line(about), plots.timeline(row.timeline, totals, at, name), table)
