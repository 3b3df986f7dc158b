"""The session's context size over its LLM calls, with what broke its cache and what was cut."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from prunewise.cli.picker.timeline import Bar, Timeline, bars, drawn
from prunewise.wording import count, number

_CUT, _BREAK, _COMPACTION = "▲", "x", "◆"


class Chart(Widget):
    """A caption, bars, and a line of marks below them; nothing before there is a timeline."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "chart--caption",
        "chart--bar",
        "chart--here",
        "chart--cut",
        "chart--break",
        "chart--compaction",
    }

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._timeline: Timeline | None = None
        self._message = ""

    def show(self, timeline: Timeline) -> None:
        """Show a session."""
        self._timeline = timeline
        self.refresh()

    def point_at(self, message: str) -> None:
        """Mark the LLM call that this message answered."""
        if message != self._message:
            self._message = message
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The caption, a line of the bars, or the marks."""
        width, height = self.size
        timeline = self._timeline
        if timeline is None:
            return self._line([])
        if y == 0:
            return self._line([Segment(_caption(timeline), self._styled("caption"))])
        some = bars(timeline, width, self._message)
        if y == height - 1:
            return self._line([self._mark(bar) for bar in some])
        return self._bars(drawn(some, max(1, height - 2))[y - 1], some)

    def _bars(self, row: str, some: list[Bar]) -> Strip:
        plain, here = self._styled("bar"), self._styled("here")
        return self._line(
            [Segment(sign, here if bar.marked else plain) for sign, bar in zip(row, some, strict=True)]
        )

    def _mark(self, bar: Bar) -> Segment:
        if bar.cut:
            return Segment(_CUT, self._styled("cut"))
        if bar.compacted:
            return Segment(_COMPACTION, self._styled("compaction"))
        if bar.broke:
            return Segment(_BREAK, self._styled("break"))
        return Segment("╵" if bar.marked else " ", self._styled("here"))

    def _styled(self, name: str) -> Style:
        return self.get_component_rich_style(f"chart--{name}")

    def _line(self, segments: list[Segment]) -> Strip:
        return Strip(segments).simplify().adjust_cell_length(self.size.width, self.rich_style)


def _caption(timeline: Timeline) -> str:
    """What is to be seen, in figures."""
    if not timeline.sizes:
        return "no LLM call yet"
    marks = [
        f"{sign} {count(len(calls), one)}"
        for sign, calls, one in (
            (_BREAK, timeline.breaks, "cache break"),
            (_CUT, timeline.cuts, "cut"),
            (_COMPACTION, timeline.compactions, "compaction"),
        )
        if calls
    ]
    about = ", estimated" if timeline.estimated else ""
    sizes = f"context {number(timeline.sizes[-1])} tokens, most {number(max(timeline.sizes))}{about}"
    return "  ".join([f"{sizes}, {count(len(timeline.sizes), 'LLM call')}", *marks])
