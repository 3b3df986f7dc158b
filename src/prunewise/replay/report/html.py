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
from prunewise.replay.policies import CEILING, OPTIMAL, label
from prunewise.replay.report import plots, words
from prunewise.replay.report.plots import Plot
from prunewise.replay.report.share import Sharing
from prunewise.replay.report.summary import Summary, saved, summary
from prunewise.replay.report.words import NOT_KNOWN, count, number, short
from prunewise.replay.results import ErrorRow, Row, SessionRow
from prunewise.replay.totals import LONG, NONE, Block, Cost, Lost, PolicyTotals, Totals, percent, signed
from prunewise.wording import one_line

MOST_TIMELINES = 6
"""How many sessions are shown call by call."""
MOST_LISTED = 200
"""How many rows a table of sessions or files has at most; JSON and Parquet have all."""

Tone = Literal["", "gain", "loss", "soft"]
_MARKS = (NONE, OPTIMAL, CEILING)


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
    compared = [one for one in totals.all.policies if one.policy not in _MARKS]
    lossy = totals.with_loss and any(one.missed.tokens for one in compared)
    removing = any(one.removed for one in compared)
    answer = summary(totals)
    return {
        "version": __version__,
        "verdict": totals.verdict,
        "answer": answer,
        "tone": "gains" if totals.all.recommended else "undecided",
        "facts": _facts(totals, answer),
        "savings_table": _savings(answer) if answer.lines else None,
        "read": f"{count(totals.files, 'file')}, {words.size(totals.bytes)}: {words.listed(totals.formats)}",
        "left_out": list(words.left_out(totals)),
        "without_loss": not totals.with_loss,
        "basis": list(words.basis(totals)),
        "caveats": words.CAVEATS,
        "policies": [(label(name), words.what(name)) for name in totals.policies],
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


def _facts(totals: Totals, answer: Summary) -> list[tuple[str, str, Tone]]:
    """The figures at the top, of the policy that the answer is about: the value, what it is, its tone."""
    none, block = totals.all.policies[0], totals.all
    spent = f"{short(none.net.total)} tokens" if none.dollars is None else words.money(none.dollars.none)
    facts: list[tuple[str, str, Tone]] = [(spent, "input, without pruning", "")]
    mine = block.policy(answer.shown) if answer.shown else None
    line = next((one for one in answer.lines if one.policy == answer.shown), None)
    if mine is None or line is None:
        return facts
    tone: Tone = "" if line.gains is None else "gain" if line.gains else "loss"
    lower = f"{line.saved} ({line.share})" if line.saved else line.share
    facts.append((lower, f"saved by {line.name}; all that may be needed again is charged", tone))
    if mine.detected is not None:
        likely, found = saved(mine.detected.net.change), mine.detected.dollars
        if found is not None:
            likely = f"{words.money(found.none - found.policy)} ({likely})"
        facts.append((likely, "saved if only what is probably needed is charged", ""))
    facts.append((line.interval, "95% interval of the lower figure", ""))
    facts.append((f"{mine.lost:,} of {block.sessions:,}", "sessions cost more", "loss" if mine.lost else ""))
    facts.append((line.worst, "the worst session", "" if line.worst == "none" else "loss"))
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


def _savings(answer: Summary) -> Table:
    money = any(line.saved for line in answer.lines)
    return Table(
        "What each policy would have saved",
        (
            "policy",
            *(("saved",) if money else ()),
            "95% interval",
            "share of input",
            "sessions dearer",
            "worst",
        ),
        tuple(
            (
                _text(line.name),
                *((Cell(line.saved or NOT_KNOWN),) if money else ()),
                Cell(line.interval),
                Cell(line.share, "" if line.gains is None else "gain" if line.gains else "loss"),
                Cell(line.dearer),
                Cell(line.worst),
            )
            for line in answer.lines
        ),
    )


def _costs(totals: Totals) -> Table:
    return Table(
        "What input costs against no pruning: below zero is cheaper",
        (
            "policy",
            "likely",
            "total",
            "95% interval",
            "median",
            "5% do worse",
            "1% do worse",
            "worst",
            "cheaper",
            "dearer",
            "acts in",
        ),
        tuple(
            (
                _text(label(one.policy)),
                _change(one.detected.net.change if one.detected else None),
                _change(one.net.change),
                Cell(_interval(one.net)),
                *(_change(value) for value in (one.net.median, one.net.p5, one.net.p1, one.net.worst)),
                Cell(number(one.gained)),
                Cell(number(one.lost)),
                Cell(number(one.acted)),
            )
            for one in _but_none(totals.all)
        ),
        "Total: everything that may have been needed again is charged; likely: what was probably needed. "
        "Median, 5%, 1% and worst are those of the sessions. "
        f"No pruning costs {short(totals.all.policies[0].net.total)} base input tokens.",
    )


def _ways(block: Block) -> Table:
    return Table(
        "Other ways to bill, and what hindsight could save",
        (
            "policy",
            "nothing charged for needs",
            "any beginning cached",
            "of these, nothing charged",
            "part of what documented could save",
            "part of what it could save itself",
            "its least cost, in tokens",
            "cache breaks per 100 calls",
        ),
        tuple(
            (
                _text(label(one.policy)),
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
        "Providers cache a beginning only where the client asks for it; where any unchanged beginning stays "
        "cached, the second figure holds. A policy that may leave out more than documented can save more "
        "than all that documented could.",
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
                _text(label(one.policy)),
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
        "sessions with known prices.",
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
            "total",
            "95% interval",
            "median",
            "5% do worse",
            "worst",
            "nothing charged for needs",
            "any beginning cached",
        ),
        tuple(
            (
                _text(label(one.policy)),
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
    shown = [at for at, name in enumerate(totals.policies) if name not in _MARKS]
    ordered = sorted(totals.sessions, key=lambda one: (-one.none, one.source, one.session))[:MOST_LISTED]
    more = len(totals.sessions) - len(ordered)
    return Table(
        "What each session costs against no pruning, the dearest sessions first",
        ("session", "LLM calls", "cost without pruning", *(label(totals.policies[at]) for at in shown)),
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
        ("policy", "session", "LLM calls", "change", "tokens more", "of them for needs"),
        tuple(
            (
                _text(label(one.policy)),
                _text(_session_name(one.source, one.session, share)),
                Cell(number(one.llm_calls)),
                _change(one.change),
                Cell(short(one.extra)),
                Cell(short(one.of_recalls)),
            )
            for one in totals.worst_sessions
            if one.policy not in _MARKS
        ),
    )


def _losses(block: Block) -> Table:
    heads = (
        "policy",
        "left out",
        "needed again",
        "of 100",
        "per session",
        "per 1M tokens",
        "at random",
        "oldest first",
        "largest first",
        "uses",
        "kinds",
    )
    return Table(
        "Outputs left out that may have been needed again",
        heads,
        tuple(
            (
                _text(label(one.policy)),
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
            if one.policy not in _MARKS
        ),
        "At random, oldest and largest first: outputs needed again per million tokens where others of about "
        "as many tokens go at the same calls.",
    )


def _per_million(missed: Lost) -> str:
    return number(missed.recalls_per_million_tokens, 1)


def _recalls(totals: Totals, share: bool) -> Table:  # noqa: FBT001 - as above
    cases = [one for one in totals.worst_recalls if one.recall.policy == totals.active]
    needed = () if share else ("what was needed",)
    return Table(
        f"What {label(totals.active)} leaves out and sessions need, the gravest first",
        ("session", "stretch", "message", "missed at call", "tokens", "needed", "strategy", "kind", *needed),
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
        "Messages and calls count from 0, stretches are what lies between compactions.",
    )


def _removed(title: str, block: Block, field: Literal["removed_by_strategy", "removed_by_tool"]) -> Table:
    shown = [one for one in block.policies if one.policy not in _MARKS]
    sums: dict[str, int] = {}
    for one in shown:
        for name, many in getattr(one, field).items():
            sums[name] = sums.get(name, 0) + many
    names = sorted(sums, key=lambda name: (-sums[name], name))[:MOST_LISTED]
    return Table(
        title,
        ("", *(label(one.policy) for one in shown)),
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
        ("cached at", "overall", "saves", "mid-loop", "saves", "idle", "saves", "tried up to"),
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
    net = f", {label(active)} saves {saved(change)}" if change is not None else ""
    about = f"{row.format}, {row.model or 'model not known'}, {calls}{net}"
    table = Table(
        "What each policy does to it",
        ("policy", "total", "nothing charged", "breaks", "peak", "final", "left out", "needed again"),
        tuple(
            (
                _text(label(one.policy)),
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
