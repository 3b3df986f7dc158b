"""The summary for a terminal: what was read, the comparison, what was lost, the harness, the verdict.

Plain text off a terminal. No line needs more than 80 columns but those that name files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from prunewise.replay.policies import CEILING, OPTIMAL, label
from prunewise.replay.report import words
from prunewise.replay.report.summary import Summary, saved, span, summary
from prunewise.replay.report.words import NOT_KNOWN, count, number, short
from prunewise.replay.sweep import Threshold
from prunewise.replay.totals import NONE, Block, Cost, Lost, PolicyTotals, Totals, percent, signed
from prunewise.wording import one_line

_MOST_TOOLS = 8
_MOST_SESSIONS = 5
_MOST_RECALLS = 5
_HURTS, _HELPS, _QUIET = "red", "green", "dim"
_OUTCOMES = {"gains": "bold green", "loses": "bold red", "undecided": "bold yellow", "nothing": "bold"}


def render(totals: Totals, console: Console, *, details: bool = False) -> None:
    """Write the summary."""
    with console.capture() as captured:
        for part in parts(totals, details=details):
            unbroken = isinstance(part, Text) and bool(part.no_wrap)
            console.print(part, markup=False, highlight=False, emoji=False, soft_wrap=unbroken)
    text = captured.get()
    if not console.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    console.file.write(text)


def parts(totals: Totals, *, details: bool = False) -> Iterator[RenderableType]:
    """The summary, piece by piece: the answer first, and with `details` all figures."""
    yield from _answer(totals)
    if not details:
        return
    yield from _title("What was read", "")
    yield from _read(totals)
    if totals.all.sessions:
        yield from _comparison(totals)
        yield from _how(totals.all)
        yield from _room(totals.all)
        if totals.with_loss:
            yield from _loss(totals.all)
        yield from _removed(totals)
        yield from _long(totals)
    yield from _harness(totals)
    yield from _worst_sessions(totals)
    yield from _worst_recalls(totals)
    yield from _left_out(totals)
    yield from _caveats(totals)
    yield from _verdict(totals)


def _answer(totals: Totals) -> Iterator[RenderableType]:
    """The first screen."""
    answer = summary(totals)
    yield Text(answer.spent, "bold")
    if answer.lines:
        yield _savings(answer)
    for sentence in answer.found:
        yield Text(sentence, "bold" if sentence is answer.found[0] else "")
    for sentence in answer.how:
        yield Text(sentence, no_wrap=True, overflow="ignore")
    for doubt in answer.doubts:
        yield Text(doubt, "yellow")
    if answer.lines:
        yield from _policies(totals)
    yield Text("More: --details for all figures, --html FILE for plots.", _QUIET)


def _savings(answer: Summary) -> RenderableType:
    money = any(line.saved for line in answer.lines)
    heads = (
        "policy",
        *(("saved",) if money else ()),
        *(("95% interval", "share") if money else ("saved", "95% interval")),
        "dearer",
        "worst",
    )
    rows: list[list[Text]] = []
    for line in answer.lines:
        tone = "" if line.gains is None else _HELPS if line.gains else _HURTS
        share, interval = Text(line.share, tone), Text(line.interval)
        amounts = [Text(line.saved or NOT_KNOWN, tone), interval, share] if money else [share, interval]
        name = Text(line.name, "bold" if line.policy == answer.shown else "")
        rows.append([name, *amounts, Text(line.dearer), Text(line.worst)])
    return _table(heads, rows)


def _policies(totals: Totals) -> Iterator[RenderableType]:
    block = totals.all
    shown = [one for one in _but_none(block) if one.policy not in (OPTIMAL, CEILING)]
    yield from _title("All policies", "Savings are shares of what input cost; below zero is dearer.")
    yield _table(
        ("policy", "saved", "95% interval", "likely", "needed", "compactions"),
        [
            [
                Text(_name(one.policy)),
                Text(saved(one.net.change)),
                Text(span(one.net.interval)),
                Text(saved(one.detected.net.change) if one.detected else NOT_KNOWN),
                Text(number(one.missed.recalls_per_100_blocks, 1)),
                Text(f"{one.compactions_avoided:,} of {block.compactions:,}"),
            ]
            for one in shown
        ],
    )
    yield Text(
        "likely: saved if only what was probably needed again is charged. needed: how many of 100 outputs "
        "left out may have been needed again. compactions: how many would have been spared.",
        _QUIET,
    )
    for one in shown:
        yield Text(f"{_name(one.policy)}: {one_line(words.what(one.policy))}", _QUIET)


def _read(totals: Totals) -> Iterator[RenderableType]:
    counted = totals.all
    yield Text(
        f"{count(counted.sessions, 'session')} counted, {count(counted.llm_calls, 'LLM call')}", "bold"
    )
    read = f"Read: {count(totals.files, 'file')}, {words.size(totals.bytes)}"
    yield f"{read}: {words.listed(totals.formats)}" if totals.formats else read
    for reason in words.left_out(totals):
        yield Text(f"Left out: {reason}", "yellow")
    if totals.warnings:
        yield Text(f"The readers gave {count(totals.warnings, 'warning')}.", "yellow")
    if not totals.with_loss:
        yield Text("Information loss was not looked for: no recall is charged anywhere.", "yellow")
    yield from words.basis(totals)


def _comparison(totals: Totals) -> Iterator[RenderableType]:
    yield from _title(
        "What input would have cost, against no pruning",
        "Net: under the providers' cache rules, recalls charged. Below zero is cheaper.",
    )
    yield _table(
        ("policy", "net", "95% interval", "median", "p5", "p1", "worst"),
        [_compared(one, totals.active) for one in totals.all.policies],
    )
    yield Text("median, p5, p1, worst: of the sessions; 5% and 1% of them do worse than p5 and p1.", _QUIET)


def _compared(one: PolicyTotals, active: str) -> list[Text]:
    if one.policy == NONE:
        return [Text(_name(NONE)), Text(short(one.net.total), _QUIET), Text("tokens", _QUIET)]
    cells = [_change(value) for value in (one.net.median, one.net.p5, one.net.p1, one.net.worst)]
    name = Text(_name(one.policy), "bold" if one.policy == active else "")
    return [name, _change(one.net.change), Text(_interval(one.net)), *cells]


def _how(block: Block) -> Iterator[RenderableType]:
    yield from _title(
        "How that comes about",
        "Gross: recalls not charged. Suffix: where any unchanged beginning stays cached, with recalls (net) "
        "and without. Optimum, own: of what the best schedule in hindsight would save there, for what "
        "documented may remove and for what this policy may, the share that it does save.",
    )
    yield _table(
        ("policy", "gross", "suffix net", "suffix", "optimum", "own", "breaks", "acts"),
        [
            [
                Text(_name(one.policy)),
                _change(one.gross.change),
                _change(one.suffix_net.change),
                _change(one.suffix.change),
                _share(one.optimum_share),
                _share(one.own_optimum_share),
                Text(number(one.breaks_per_100_calls, 1)),
                Text(number(one.acted)),
            ]
            for one in _but_none(block)
        ],
    )
    yield Text(
        "breaks: of the cache, per 100 LLM calls; acts: sessions in which it removes anything.", _QUIET
    )


def _room(block: Block) -> Iterator[RenderableType]:
    yield from _title(
        "Room in the context window",
        "Peak and final: the largest and last requests in tokens, the mean of the sessions.",
    )
    yield _table(
        ("policy", "peak", "final", "avoided", "calls gained", "removed", "US dollars"),
        [
            [
                Text(_name(one.policy)),
                Text(short(one.peak)),
                Text(short(one.final)),
                Text(f"{one.compactions_avoided:,} of {block.compactions:,}"),
                Text(number(one.calls_gained)),
                Text(short(one.removed)),
                Text(number(one.dollars.policy, 2) if one.dollars else NOT_KNOWN),
            ]
            for one in block.policies
        ],
    )
    known = next((one.dollars for one in block.policies if one.dollars), None)
    notes = (
        "avoided: compactions that would not have been needed, of those that there were; calls gained: LLM "
        "calls that the room saved at the end would have held"
    )
    priced = f"; dollars: of the {count(known.sessions, 'session')} with known prices" if known else ""
    yield Text(f"{notes}{priced}.", _QUIET)


def _loss(block: Block) -> Iterator[RenderableType]:
    shown = [one for one in _but_none(block) if one.policy != OPTIMAL]
    if not shown:
        return
    yield from _title(
        "Information loss",
        "Recalls: removed blocks that the session turned out to need; per 100 blocks, per session, and per "
        "million tokens removed, beside those of random, oldest-first and largest-first at about as many.",
    )
    yield _table(
        ("policy", "blocks", "recalls", "/100", "/sess", "/Mtok", "random", "oldest", "large"),
        [
            [
                Text(_name(one.policy)),
                Text(number(one.missed.blocks)),
                Text(number(one.missed.recalls), _HURTS if one.missed.recalls else ""),
                Text(number(one.missed.recalls_per_100_blocks, 1)),
                Text(number(one.missed.recalls_per_session, 2)),
                *(
                    Text(number(missed.recalls_per_million_tokens, 1))
                    for missed in (
                        one.missed,
                        one.missed_at_random,
                        one.missed_oldest_first,
                        one.missed_largest_first,
                    )
                ),
            ]
            for one in shown
        ],
    )
    for one in shown:
        if one.missed.recalls:
            yield Text(f"{_name(one.policy)}: {_kinds(one.missed)}", _QUIET)


def _kinds(missed: Lost) -> str:
    faults = count(missed.faults, "need")
    return f"{words.listed(missed.recalls_by_kind)}; {faults} not met in all"


def _removed(totals: Totals) -> Iterator[RenderableType]:
    mine = totals.all.policy(totals.active)
    if mine is None or not mine.removed:
        return
    yield from _title(f'What "{_name(mine.policy)}" removes', "")
    yield from _shares("by strategy", list(mine.removed_by_strategy.items()), mine.removed)
    tools = list(mine.removed_by_tool.items())
    rest = sum(many for _, many in tools[_MOST_TOOLS:])
    shown = tools[:_MOST_TOOLS] + ([("others", rest)] if rest else [])
    yield from _shares("by tool", shown, mine.removed)


def _shares(title: str, tokens: Sequence[tuple[str, int]], whole: int) -> Iterator[RenderableType]:
    parts = [f"{one_line(name)} {short(many)} ({percent(many / whole)})" for name, many in tokens]
    yield Padding(Text(f"{title}: {', '.join(parts)}"), (0, 0, 0, 2))


def _long(totals: Totals) -> Iterator[RenderableType]:
    block = totals.long
    if not block.sessions or block.sessions == totals.all.sessions:
        return
    sessions = f"{count(block.sessions, 'session')}, {count(block.llm_calls, 'LLM call')}"
    yield from _title(words.LONG_TITLE, f"{sessions}. Shorter ones say little about pruning.")
    yield _table(
        ("policy", "net", "95% interval", "median", "worst", "suffix net"),
        [
            [
                Text(_name(one.policy)),
                _change(one.net.change),
                Text(_interval(one.net)),
                _change(one.net.median),
                _change(one.net.worst),
                _change(one.suffix_net.change),
            ]
            for one in _but_none(block)
        ],
    )


def _harness(totals: Totals) -> Iterator[RenderableType]:
    harness = totals.harness
    yield from _title(
        "The documented harness",
        f"{count(harness.candidates, 'candidate')} in {count(harness.sessions, 'session')} (excluded ones "
        "too: it needs no bill); sizes in estimated tokens.",
    )
    if not harness.candidates:
        return
    yield _table(
        ("strategy", "candidates", "idle", "mid-loop", "tokens", "removed"),
        [
            [
                Text(one.strategy),
                *(Text(number(many)) for many in (one.candidates, one.idle, one.mid_loop)),
                Text(number(one.original_tokens)),
                Text(number(one.tokens_removed)),
            ]
            for one in harness.by_strategy
        ],
    )
    calls = harness.remaining_calls
    yield f"LLM calls that followed a candidate: p50 {calls.p50:,}, p90 {calls.p90:,}"
    yield "The break-even threshold T that would have paid best, and what it would have brought:"
    yield _table(
        ("ratio", "T overall", "brings", "T mid-loop", "brings", "T idle", "brings"),
        [
            [
                Text(f"{one.ratio:g}"),
                *_threshold(one.overall),
                *_threshold(one.mid_loop),
                *_threshold(one.idle),
            ]
            for one in harness.recommended
        ],
    )


def _threshold(found: Threshold) -> list[Text]:
    return [Text(f"{found.threshold}"), Text(short(found.total))]


def _worst_sessions(totals: Totals) -> Iterator[RenderableType]:
    mine = [one for one in totals.worst_sessions if one.policy == totals.active]
    if not mine:
        return
    yield from _title(f'Sessions that "{_name(totals.active)}" makes dearer', "")
    for one in mine[:_MOST_SESSIONS]:
        calls = count(one.llm_calls, "LLM call")
        line = Text("  ")
        line.append(f"{signed(one.change):>8}", _HURTS)
        line.append(f"  {short(one.extra)} tokens more, {short(one.of_recalls)} for recalls; {calls}")
        yield line
        yield _unbroken(f"            {one.source}")


def _worst_recalls(totals: Totals) -> Iterator[RenderableType]:
    mine = [one for one in totals.worst_recalls if one.recall.policy == totals.active]
    if not mine:
        return
    yield from _title(
        f'What "{_name(totals.active)}" removes and the session needs', "Messages and calls count from 0."
    )
    for case in mine[:_MOST_RECALLS]:
        recall = case.recall
        line = Text("  ")
        line.append(f"{short(recall.tokens)} tokens", _HURTS)
        line.append(f" by {recall.strategy}, needed {count(recall.serves, 'time')}; {recall.kind}: ")
        line.append(one_line(recall.key[:200]), "cyan")
        yield line
        place = f"epoch {recall.epoch}, message {recall.message}, missed at LLM call {recall.call}"
        yield _unbroken(f"    {case.source}: {place}")


def _left_out(totals: Totals) -> Iterator[RenderableType]:
    lines = list(words.each_left_out(totals))
    if lines:
        yield from _title("Left out, and what the readers warned of", "")
        yield from map(_unbroken, lines)


def _caveats(totals: Totals) -> Iterator[RenderableType]:
    yield from _title("How to read this", "")
    for caveat in words.CAVEATS:
        yield Text(f"- {caveat}", _QUIET)
    for policy in totals.policies:
        yield Text(f"- {_name(policy)}: {one_line(words.what(policy))}", _QUIET)


def _verdict(totals: Totals) -> Iterator[RenderableType]:
    verdict = totals.verdict
    yield ""
    text = Text("Verdict: ", _OUTCOMES[verdict.outcome])
    text.append(one_line(" ".join(verdict.sentences)), "not bold default")
    yield text


# ------------------------------------------------------------------- pieces


def _but_none(block: Block) -> list[PolicyTotals]:
    return [one for one in block.policies if one.policy != NONE]


def _name(policy: str) -> str:
    return one_line(label(policy))


def _title(title: str, note: str) -> Iterator[RenderableType]:
    yield ""
    yield Text(title, "bold cyan")
    if note:
        yield Text(note, _QUIET)


class _Table:
    """A table without lines. Where it has no room, columns at its end are left out."""

    def __init__(self, heads: Sequence[str], rows: Iterable[Sequence[Text]]) -> None:
        self._heads = heads
        self._rows = list(rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = len(self._heads)
        while (
            columns > 1
            and self._with(columns).__rich_measure__(console, options.update(width=9999)).maximum
            > options.max_width
        ):
            columns -= 1
        yield self._with(columns)

    def _with(self, columns: int) -> Table:
        table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=True, header_style=_QUIET)
        for index, head in enumerate(self._heads[:columns]):
            table.add_column(head, justify="right" if index else "left", no_wrap=True)
        for row in self._rows:
            table.add_row(*row[:columns])
        return table


def _table(heads: Sequence[str], rows: Iterable[Sequence[Text]]) -> RenderableType:
    return _Table(heads, rows)


def _change(change: float | None) -> Text:
    if change is None:
        return Text(NOT_KNOWN)
    text = signed(change)
    return Text(text, "" if text == "0.0%" else _HURTS if change > 0 else _HELPS)


def _share(share: float | None) -> Text:
    return Text(NOT_KNOWN if share is None else percent(share), _HURTS if share and share < 0 else "")


def _interval(cost: Cost) -> str:
    if cost.interval is None:
        return NOT_KNOWN
    return f"{signed(cost.interval.low)} to {signed(cost.interval.high)}"


def _unbroken(text: str) -> Text:
    """A line that is to be copied: it stays one line, however long it is."""
    return Text(one_line(text), _QUIET, no_wrap=True, overflow="ignore")
