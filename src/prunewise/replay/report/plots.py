"""The plots of the page, as SVG that takes its colours from the page's style sheet.

Each is drawn twice, for a laptop's width and for a phone's. What a pointer rests on is told by titles.
"""

# matplotlib's own types are partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from prunewise.replay.policies import CEILING, OPTIMAL, label
from prunewise.replay.report.summary import saved, span
from prunewise.replay.report.words import count, number, short
from prunewise.replay.timeline import Series, Timeline
from prunewise.replay.totals import NONE, Lost, PolicyTotals, Totals, percent
from prunewise.wording import one_line

WIDE, NARROW = 920, 350
"""In CSS pixels."""
_NAMESPACE = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_POINTS = 72
_FONT = 12.5
DOCUMENTED_THRESHOLD = 22
_MARKS = (NONE, OPTIMAL, CEILING)
"""No policies that could run, but what they are measured by."""

_COLOURS = {
    name: f"#0{index:x}0b0c"
    for index, name in enumerate(
        (
            "ink",
            "soft",
            "grid",
            "gain",
            "loss",
            "accent",
            "mark",
            "c1",
            "c2",
            "c3",
            "c4",
            "c5",
            "c6",
            "c7",
            "c8",
            "page",
        )
    )
}
"""Colours that stand for the page's own; no plot uses them otherwise."""
_SERIES = ("c1", "c2", "c3", "c4", "c5", "c7", "c8", "c6")

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": _FONT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": _COLOURS["grid"],
    "axes.labelcolor": _COLOURS["soft"],
    "axes.titlecolor": _COLOURS["ink"],
    "axes.titlesize": _FONT,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "text.color": _COLOURS["ink"],
    "xtick.color": _COLOURS["grid"],
    "ytick.color": _COLOURS["grid"],
    "xtick.labelcolor": _COLOURS["soft"],
    "ytick.labelcolor": _COLOURS["ink"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "grid.color": _COLOURS["grid"],
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.labelcolor": _COLOURS["ink"],
    "legend.handlelength": 1.4,
    "legend.borderaxespad": 0,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
}


class Plot(NamedTuple):
    """One plot, ready for the page."""

    name: str
    label: str
    """What it shows, for those who cannot see it."""
    wide: str
    narrow: str


class _Sheet:
    """A figure of one width, with what its marks say."""

    def __init__(self, width: int, height: float, rows: int = 1, columns: int = 1) -> None:
        self.narrow = width < WIDE
        self.figure = Figure(
            figsize=(width / _POINTS, height / _POINTS),
            layout=ConstrainedLayoutEngine(w_pad=0.04, h_pad=0.04),
        )
        grid = self.figure.subplots(rows, columns, squeeze=False)
        self.axes: list[Axes] = [one for row in grid for one in row]
        self._titles: dict[str, list[str]] = {}

    def mark(self, *titles: str) -> str:
        """A name for a mark, or for a collection of them, which say so when they are pointed at."""
        name = f"mark-{len(self._titles)}"
        self._titles[name] = list(titles)
        return name

    def svg(self, name: str, label: str) -> str:
        """The figure as an element of a page."""
        buffer = io.StringIO()
        self.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        return _element(
            buffer.getvalue(), f"{name}-{'narrow' if self.narrow else 'wide'}", label, self._titles
        )


_Draw = Callable[[int], _Sheet]


def _plot(name: str, label: str, draw: _Draw) -> Plot:
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        wide, narrow = (draw(width).svg(name, label) for width in (WIDE, NARROW))
    return Plot(name, label, wide, narrow)


def _element(text: str, name: str, label: str, titles: Mapping[str, Sequence[str]]) -> str:
    """The drawing without what a page does not need, its ids its own, its colours the page's."""
    root = ET.fromstring(text)  # noqa: S314 - matplotlib has just written it
    for metadata in root.findall(f"{{{_NAMESPACE}}}metadata"):
        root.remove(metadata)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", label)
    for element in list(root.iter()):
        if element.get("id") in titles:
            _entitle(element, titles[element.attrib["id"]])
        _take_in(element, name)
    written = ET.tostring(root, encoding="unicode")
    for colour, placeholder in _COLOURS.items():
        written = written.replace(placeholder, f"var(--{colour})")
    return re.sub(r"<(/?)ns0:", r"<\1", written).replace("xmlns:ns0", "xmlns")


def _take_in(element: ET.Element, name: str) -> None:
    """Make an element's ids, and its references to others, this drawing's own."""
    link = element.attrib.pop(_LINK, None)
    if link is not None:  # a page knows no other namespaces
        element.set("href", link)
    for key, value in element.attrib.items():
        if key == "id":
            element.set(key, f"{name}-{value}")
        elif key == "href":
            element.set(key, value.replace("#", f"#{name}-"))
        elif "url(#" in value:
            element.set(key, value.replace("url(#", f"url(#{name}-"))


def _entitle(element: ET.Element, titles: Sequence[str]) -> None:
    """Titles on a mark, or on each mark of a collection."""
    marks = [element]
    if len(titles) > 1:
        marks = list(element.iter(f"{{{_NAMESPACE}}}use"))
    for mark, text in zip(marks, titles, strict=False):
        title = ET.Element(f"{{{_NAMESPACE}}}title")
        title.text = one_line(text)
        mark.insert(0, title)


# ------------------------------------------------------------------- scales

_FARTHEST = 0.5
"""Savings and losses beyond this are drawn at the edge."""


def _place(share: float) -> float:
    """The place of a saving on the scale."""
    return max(-_FARTHEST, min(_FARTHEST, share))


def _saving_axis(sheet: _Sheet, axes: Axes, values: Iterable[float], room: float = 0.04) -> None:
    """The axis of savings; `room` is for what stands at the right of the values, as a part of the axis."""
    values = list(values)
    places = [0.0, *map(_place, values)]
    low, high = min(-0.005, *places), max(0.005, *places)
    axes.set_xlim(low - 0.04 * (high - low), high + room * (high - low))
    axes.xaxis.set_major_locator(MaxNLocator(4 if sheet.narrow else 8))
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.grid(visible=True, axis="x")
    axes.axvline(0, color=_COLOURS["soft"], linewidth=1.2, zorder=1)
    axes.tick_params(axis="x", labelsize=_FONT - 1)
    beyond = any(abs(value) > _FARTHEST for value in values)
    edge = "" if not beyond else ", up to 50%" if sheet.narrow else ", beyond 50% at the edge"
    axes.set_xlabel(f"share of input saved{edge}")


def _tick(share: float, _: object) -> str:
    if abs(share) > _FARTHEST:
        return ""
    return f"{100 * share:g}%".replace("-", "\u2212")


def _name(sheet: _Sheet, policy: str) -> str:
    """A policy beside an axis; on two lines where there is little room."""
    name = one_line(label(policy))
    return name.replace(" + ", " +\n") if sheet.narrow else name


def _policies_axis(sheet: _Sheet, axes: Axes, names: Sequence[str], active: str) -> None:
    axes.set_yticks(range(len(names)), [_name(sheet, name) for name in names])
    for text, name in zip(axes.get_yticklabels(), names, strict=True):
        text.set_fontweight("bold" if name == active else "normal")
    axes.set_ylim(len(names) - 0.4, -0.6)


def _colour(share: float) -> str:
    return _COLOURS["gain" if share > 0 else "loss" if share < 0 else "soft"]


def _shown(totals: Totals) -> list[PolicyTotals]:
    """The policies that can run."""
    return [one for one in totals.all.policies if one.policy not in _MARKS]


def _shortly(value: float, _: object) -> str:
    return short(value) if abs(value) >= 1 or not value else f"{value:g}"


def _from_zero(value: float, _: object) -> str:
    return "" if value < 0 else short(value)


def _colours(totals: Totals) -> dict[str, str]:
    """One colour a policy, the same in all plots."""
    named = [name for name in totals.policies if name not in _MARKS]
    return {name: _COLOURS[_SERIES[at % len(_SERIES)]] for at, name in enumerate(named)}


def _legend(figure: Figure, handles: Sequence[Line2D | Patch], columns: int) -> None:
    figure.legend(
        handles=list(handles), loc="outside upper left", ncols=columns, fontsize=_FONT - 1, columnspacing=1.4
    )


def _key(label: str, marker: str, colour: str, *, hollow: bool = False) -> Line2D:
    return Line2D(
        [],
        [],
        linestyle="none",
        marker=marker,
        color=_COLOURS[colour],
        label=label,
        markersize=7,
        markerfacecolor="none" if hollow else _COLOURS[colour],
    )


# --------------------------------------------------------------------- cost


def cost(totals: Totals) -> Plot:
    """What each policy saves."""
    shown = _shown(totals)

    def draw(width: int) -> _Sheet:
        sheet = _Sheet(width, 92 + 34 * max(1, len(shown)))
        (axes,) = sheet.axes
        values: list[float] = []
        for at, one in enumerate(shown):
            values += _cost_row(sheet, axes, at, one)
        _saving_axis(sheet, axes, values, 0.25 if sheet.narrow else 0.12)
        _policies_axis(sheet, axes, [one.policy for one in shown], totals.active)
        _legend(
            sheet.figure,
            [
                Patch(color=_COLOURS["gain"], label="saves"),
                Patch(color=_COLOURS["loss"], label="costs more"),
                Line2D([], [], color=_COLOURS["ink"], linewidth=1.2, label="95% interval"),
                _key("likely", "o", "ink", hollow=True),
            ],
            2 if sheet.narrow else 4,
        )
        return sheet

    return _plot("cost", "The share of the input's cost that each policy saves", draw)


def _cost_row(sheet: _Sheet, axes: Axes, at: int, one: PolicyTotals) -> list[float]:
    share, interval, name = -(one.net.change or 0.0), one.net.interval, label(one.policy)
    said = f"{name}: {saved(-share)} saved"
    if interval:
        said += f", 95% interval {span(interval)}"
    (bar,) = axes.barh(at, _place(share), height=0.56, color=_colour(share), alpha=0.85, zorder=2)
    bar.set_gid(sheet.mark(said))
    values = [share]
    if interval:
        values += [-interval.low, -interval.high]
        ends = [_place(value) for value in values[1:]]
        axes.plot(ends, [at, at], color=_COLOURS["ink"], linewidth=1.2, zorder=4, marker="|", markersize=6)
    if one.detected is not None and one.detected.net.change is not None:
        likely = -one.detected.net.change
        axes.plot(
            [_place(likely)],
            [at],
            marker="o",
            markersize=6.5,
            linestyle="none",
            zorder=5,
            color=_COLOURS["ink"],
            markerfacecolor=_COLOURS["page"],
            gid=sheet.mark(f"{name}: {saved(-likely)} saved if only what was probably needed is charged"),
        )
        values.append(likely)
    axes.annotate(
        saved(-share),
        (max(0.0, *map(_place, values)), at),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontweight="bold",
        fontsize=_FONT - 0.5,
        color=_colour(share),
    )
    return values


# ------------------------------------------------------------- distribution

_MOST_DOTS = 160
_LOW_STACK = 10
_DOT = 0.014
"""How wide a dot is, as a part of the axis."""


def distribution(totals: Totals) -> Plot:
    """The sessions one by one, so that those that lose show."""
    shown = [(at, name) for at, name in enumerate(totals.policies) if name not in _MARKS]
    shares = {at: sorted(-one.changes[at] for one in totals.sessions) for at, _ in shown}

    def draw(width: int) -> _Sheet:
        sheet = _Sheet(width, 84 + 50 * max(1, len(shown)))
        (axes,) = sheet.axes
        every = [share for at, _ in shown for share in shares[at]]
        _saving_axis(sheet, axes, (min(every, default=0.0), max(every, default=0.0)))
        low, high = axes.get_xlim()
        dot = _DOT * (2.2 if sheet.narrow else 1.0) * (high - low)
        for row, (at, name) in enumerate(shown):
            _dots(sheet, axes, row, name, shares=[one for one in shares[at] if one], dot=dot)
            axes.axhline(row + 0.46, color=_COLOURS["grid"], linewidth=0.8)
            same = sum(not one for one in shares[at])
            fewer, more = sum(one > 0 for one in shares[at]), sum(one < 0 for one in shares[at])
            axes.annotate(
                f"{fewer:,} cheaper, {same:,} the same, {more:,} dearer",
                (low, row),
                xytext=(4, 19),
                textcoords="offset points",
                va="center",
                fontsize=_FONT - 2,
                color=_COLOURS["soft"],
            )
        _policies_axis(sheet, axes, [name for _, name in shown], totals.active)
        axes.set_ylim(len(shown) - 0.5, -0.75)
        _legend(
            sheet.figure,
            [_key("a session that costs less", "o", "gain"), _key("one that costs more", "o", "loss")],
            2,
        )
        return sheet

    return _plot("distribution", "What each policy saves of each session's input cost", draw)


def _dots(sheet: _Sheet, axes: Axes, row: int, name: str, *, shares: Sequence[float], dot: float) -> None:
    if not shares:
        return
    step = max(1, math.ceil(len(shares) / _MOST_DOTS))
    kept = sorted({*shares[::step], *shares[:10], shares[-1]})
    stacks: dict[int, int] = {}
    places: list[tuple[float, float]] = []
    for share in kept:
        column = round(_place(share) / dot)
        level = stacks.get(column, 0)
        stacks[column] = level + 1
        places.append((column * dot, level))
    tallest = max(stacks.values())
    gap = min(0.1, 0.62 / max(1, tallest))
    many = "" if step == 1 else f" (about {step} sessions)"
    axes.scatter(
        [x for x, _ in places],
        [row + 0.3 - gap * level for _, level in places],
        s=26 if tallest <= _LOW_STACK else 12,
        c=[_colour(share) for share in kept],
        linewidths=0,
        zorder=3,
        gid=sheet.mark(*(f"{label(name)}: {saved(-share)} saved{many}" for share in kept)),
    )


# -------------------------------------------------------------------- sweep


def sweep_curves(totals: Totals) -> Plot:
    """What each break-even threshold would have brought, a panel a ratio."""
    harness = totals.harness
    recommended = {one.ratio: one for one in harness.recommended}

    def draw(width: int) -> _Sheet:
        narrow = width < WIDE
        columns = 1 if narrow else min(2, len(harness.curves))
        rows = math.ceil(len(harness.curves) / columns)
        sheet = _Sheet(width, 60 + 200 * rows, rows, columns)
        for axes in sheet.axes[len(harness.curves) :]:
            axes.set_visible(False)
        for axes, curve in zip(sheet.axes, harness.curves, strict=False):
            thresholds = range(1, len(curve.overall) + 1)
            for state, values, colour in (
                ("idle", curve.idle, "c2"),
                ("mid-loop", curve.mid_loop, "c3"),
                ("overall", curve.overall, "c1"),
            ):
                axes.step(
                    thresholds,
                    values,
                    where="post",
                    color=_COLOURS[colour],
                    label=state,
                    linewidth=2.2 if state == "overall" else 1.3,
                    gid=sheet.mark(f"cached at {curve.ratio:g} of the input price, {state}"),
                )
            best = recommended[curve.ratio].overall
            axes.plot(
                [best.threshold],
                [best.total],
                marker="o",
                markersize=7,
                color=_COLOURS["c1"],
                linestyle="none",
                gid=sheet.mark(f"best: {best.threshold}, {short(best.total)} tokens"),
            )
            axes.axvline(DOCUMENTED_THRESHOLD, color=_COLOURS["soft"], linewidth=1, linestyle=(0, (2, 3)))
            axes.axhline(0, color=_COLOURS["soft"], linewidth=1)
            axes.set_title(f"cached at {curve.ratio:g}: best {best.threshold}, saves {short(best.total)}")
            axes.yaxis.set_major_formatter(FuncFormatter(_shortly))
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            axes.tick_params(axis="y", labelcolor=_COLOURS["soft"], labelsize=_FONT - 1)
            axes.grid(visible=True, axis="y")
            axes.set_xlabel("threshold, in LLM calls")
        _legend(
            sheet.figure,
            [
                *(
                    Line2D([], [], color=_COLOURS[colour], label=state)
                    for state, colour in (("overall", "c1"), ("mid-loop", "c3"), ("idle", "c2"))
                ),
                Line2D(
                    [],
                    [],
                    color=_COLOURS["soft"],
                    linestyle=(0, (2, 3)),
                    linewidth=1,
                    label=f"default, {DOCUMENTED_THRESHOLD}",
                ),
            ],
            2 if narrow else 4,
        )
        return sheet

    return _plot("sweep", "What each break-even threshold would have brought, in base input tokens", draw)


# ----------------------------------------------------------------- timeline

_MOST_SERIES = 4


def timeline(found: Timeline, totals: Totals, at: int, title: str) -> Plot:
    """One session, its requests without pruning and under policies."""
    active, colours = totals.active, _colours(totals)
    shown: list[Series] = []
    for one in sorted(found.series, key=lambda one: one.policy != active):
        if len(shown) < _MOST_SERIES and all(one.tokens != other.tokens for other in shown):
            shown.append(one)

    def draw(width: int) -> _Sheet:
        sheet = _Sheet(width, 330 if width == WIDE else 340)
        (axes,) = sheet.axes
        axes.fill_between(
            found.calls,
            found.tokens,
            color=_COLOURS["grid"],
            alpha=0.55,
            linewidth=0,
            gid=sheet.mark("without pruning"),
        )
        axes.plot(found.calls, found.tokens, color=_COLOURS["soft"], linewidth=1.2)
        for one in reversed(shown):
            colour = colours[one.policy]
            axes.plot(
                found.calls,
                one.tokens,
                color=colour,
                linewidth=2.2 if one.policy == active else 1.3,
                gid=sheet.mark(f"{label(one.policy)}: {short(max(one.tokens, default=0))} tokens at most"),
            )
        for one in shown[:1]:
            _cut_marks(sheet, axes, found, one, colours[one.policy])
        top = 1.06 * max(found.tokens, default=1)
        for call in found.compactions:
            axes.axvline(
                call,
                color=_COLOURS["accent"],
                linewidth=1.2,
                linestyle=(0, (4, 3)),
                gid=sheet.mark(f"compaction before LLM call {call}"),
            )
        if found.cold:
            axes.scatter(
                found.cold,
                [-0.028 * top] * len(found.cold),
                marker="|",
                s=46,
                linewidths=1.6,
                color=_COLOURS["c4"],
                clip_on=False,
                zorder=5,
                gid=sheet.mark(*(f"the cache was gone at LLM call {call}" for call in found.cold)),
            )
        axes.set_ylim(-0.055 * top, top)
        axes.set_xlim(0, max(found.calls[-1], 1) if found.calls else 1)
        axes.yaxis.set_major_formatter(FuncFormatter(_from_zero))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.tick_params(axis="y", labelcolor=_COLOURS["soft"], labelsize=_FONT - 1)
        axes.grid(visible=True, axis="y")
        axes.set_xlabel("LLM call")
        axes.set_title(
            "tokens of the request", fontweight="normal", color=_COLOURS["soft"], fontsize=_FONT - 1
        )
        _legend(sheet.figure, _timeline_keys(found, shown, colours), 2 if sheet.narrow else 5)
        return sheet

    return _plot(f"timeline-{at}", f"The requests of {title}, LLM call by LLM call", draw)


def _timeline_keys(
    found: Timeline, shown: Sequence[Series], colours: Mapping[str, str]
) -> list[Line2D | Patch]:
    keys: list[Line2D | Patch] = [Patch(color=_COLOURS["grid"], label="no pruning")]
    keys += [Line2D([], [], color=colours[one.policy], label=one_line(label(one.policy))) for one in shown]
    if shown and any(cut.breaks for cut in shown[0].cuts):
        keys.append(_key("cut that breaks the cache", "v", "loss"))
    if shown and any(not cut.breaks for cut in shown[0].cuts):
        keys.append(_key("cut for nothing", "v", "gain"))
    if found.cold:
        keys.append(_key("cache was gone", "|", "c4"))
    if found.compactions:
        keys.append(Line2D([], [], color=_COLOURS["accent"], linestyle=(0, (4, 3)), label="compaction"))
    return keys


def _cut_marks(sheet: _Sheet, axes: Axes, found: Timeline, one: Series, colour: str) -> None:
    if not one.cuts or not found.calls:
        return
    places = [
        min(range(len(found.calls)), key=lambda at: abs(found.calls[at] - cut.call)) for cut in one.cuts
    ]
    said = [
        f"{label(one.policy)} cuts {short(cut.removed)} tokens at LLM call {cut.call}"
        f"{', which breaks the cache' if cut.breaks else ', for nothing'}"
        for cut in one.cuts
    ]
    axes.scatter(
        [cut.call for cut in one.cuts],
        [one.tokens[at] for at in places],
        marker="v",
        s=64,
        zorder=6,
        c=[_COLOURS["loss" if cut.breaks else "gain"] for cut in one.cuts],
        edgecolors=colour,
        linewidths=0.8,
        gid=sheet.mark(*said),
    )


# ------------------------------------------------------------------ savings

_MOST_NAMES = 6
_REST = "others"
_OWN_RULE = "its one rule"


def savings(totals: Totals) -> Plot:
    """What policies remove, by strategy and by tool."""
    shown = _shown(totals)
    panels = (
        ("by strategy", [_by_strategy(one) for one in shown]),
        ("by tool", [one.removed_by_tool for one in shown]),
    )

    def draw(width: int) -> _Sheet:
        narrow = width < WIDE
        height = 110 + 26 * len(shown)
        sheet = _Sheet(
            width, (2 * height + 60) if narrow else height + 70, 2 if narrow else 1, 1 if narrow else 2
        )
        for index, (axes, (title, counts)) in enumerate(zip(sheet.axes, panels, strict=True)):
            _stacks(sheet, axes, [one.policy for one in shown], counts)
            if index and not narrow:
                axes.set_yticklabels([])
            axes.set_title(title)
        return sheet

    return _plot("savings", "The tokens that policies remove, by strategy and by tool", draw)


def _by_strategy(one: PolicyTotals) -> Mapping[str, int]:
    """By strategy; a policy that has but one rule of its own name needs no colour of its own."""
    return {_OWN_RULE if name == one.policy else name: many for name, many in one.removed_by_strategy.items()}


def _stacks(sheet: _Sheet, axes: Axes, policies: Sequence[str], counts: Sequence[Mapping[str, int]]) -> None:
    most: dict[str, int] = {}
    for one in counts:
        whole = max(1, sum(one.values()))
        for name, many in one.items():
            most[name] = max(most.get(name, 0), 1_000_000 * many // whole)
    names = sorted(most, key=lambda name: (-most[name], name))
    if len(names) > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 1], _REST]
    starts = [0.0] * len(policies)
    wholes = [max(1, sum(one.values())) for one in counts]
    for index, name in enumerate(names):
        for row, one in enumerate(counts):
            many = one.get(name, 0) if name != _REST else sum(v for k, v in one.items() if k not in names)
            if not many:
                continue
            share = many / wholes[row]
            said = f"{label(policies[row])}: {name}, {short(many)} tokens ({percent(share)})"
            (bar,) = axes.barh(
                row,
                share,
                left=starts[row],
                height=0.62,
                color=_COLOURS[_SERIES[index]],
                edgecolor=_COLOURS["page"],
                linewidth=0.8,
            )
            bar.set_gid(sheet.mark(said))
            starts[row] += share
    for row, one in enumerate(counts):
        axes.annotate(
            short(sum(one.values())),
            (1.0, row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=_FONT - 1,
            annotation_clip=False,
        )
    axes.set_yticks(range(len(policies)), [_name(sheet, name) for name in policies])
    axes.set_ylim(len(policies) - 0.5, -0.5)
    axes.set_xlim(0, 1.13)
    axes.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])
    axes.spines["bottom"].set_visible(False)
    axes.legend(
        handles=[
            Patch(color=_COLOURS[_SERIES[index]], label=one_line(name)) for index, name in enumerate(names)
        ],
        loc="upper left",
        bbox_to_anchor=(0, -0.12 if not sheet.narrow else -0.14),
        ncols=2 if sheet.narrow else 3,
        fontsize=_FONT - 1.5,
        columnspacing=1.2,
    )


# --------------------------------------------------------------------- loss


def loss(totals: Totals) -> Plot:
    """What may have been needed again, beside rules that choose without a thought."""
    shown = [one for one in _shown(totals) if one.missed.tokens]

    def draw(width: int) -> _Sheet:
        sheet = _Sheet(width, 92 + 34 * max(1, len(shown)))
        (axes,) = sheet.axes
        for at, one in enumerate(shown):
            share = one.missed.recalls_per_million_tokens or 0.0
            (bar,) = axes.barh(at, share, height=0.56, color=_COLOURS["c1"], alpha=0.85, zorder=2)
            bar.set_gid(sheet.mark(f"{label(one.policy)}: {_lost(one.missed)}"))
            for missed, marker, what in (
                (one.missed_at_random, "x", "at random"),
                (one.missed_oldest_first, "^", "oldest first"),
                (one.missed_largest_first, "s", "largest first"),
            ):
                if missed.tokens:
                    axes.plot(
                        [missed.recalls_per_million_tokens or 0.0],
                        [at],
                        marker=marker,
                        markersize=6,
                        linestyle="none",
                        color=_COLOURS["ink"],
                        markerfacecolor="none",
                        markeredgewidth=1.2,
                        zorder=4,
                        gid=sheet.mark(f"as many tokens as {label(one.policy)}, {what}: {_lost(missed)}"),
                    )
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(4 if sheet.narrow else 8))
        axes.xaxis.set_major_formatter(FuncFormatter(_shortly))
        axes.grid(visible=True, axis="x")
        axes.tick_params(axis="x", labelsize=_FONT - 1)
        _policies_axis(sheet, axes, [one.policy for one in shown], totals.active)
        axes.set_xlabel("needed again, for each million tokens left out")
        _legend(
            sheet.figure,
            [
                Patch(color=_COLOURS["c1"], label="the policy"),
                _key("at random", "x", "ink", hollow=True),
                _key("oldest first", "^", "ink", hollow=True),
                _key("largest first", "s", "ink", hollow=True),
            ],
            2 if sheet.narrow else 4,
        )
        return sheet

    return _plot("loss", "Outputs that may have been needed again under each policy", draw)


def _lost(missed: Lost) -> str:
    rate = number(missed.recalls_per_million_tokens, 1)
    return f"{count(missed.recalls, 'output')} of {short(missed.tokens)} tokens, {rate} for each million"
