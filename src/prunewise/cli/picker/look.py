"""One part in full: its price now, the marker that would stand in for it, and all of its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from prunewise.cli.picker.price import Fact
from prunewise.cli.picker.text import Wrapped
from prunewise.tokens import utf16_length

_NAME = 11
"""The cells of a fact's name."""
_AHEAD = 200
"""Lines that are wrapped ahead of what is in sight."""
_LONG = 100_000
"""Characters up to which an output is wrapped as a whole."""
_FURTHER = 10_000
"""Lines that one press of End goes further down a longer one."""

_Styled = tuple[str, str]
"""A component class, or nothing, and a line."""


class Look(ScrollView, can_focus=True):
    """Facts, a marker and an output, one below the other. The output is wrapped as it comes into sight."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"look--head", "look--name", "look--marker", "look--rule"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("home", "scroll_home", "Top", show=False),
        Binding("end", "further", "Bottom", show=False),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._content: tuple[str, str, Sequence[Fact], str, str | None] = ("", "", (), "", None)
        self._top: list[list[_Styled]] = []
        self._output = Wrapped("", 1)

    def show(
        self,
        title: str,
        facts: Sequence[Fact],
        *,
        subtitle: str = "",
        marker: str = "",
        output: str | None = None,
    ) -> None:
        """Show one thing from its top; without an output, what else is said of it."""
        content = (title, subtitle, facts, marker, output)
        if content == self._content:
            return
        self._content = content
        self._lay_out()
        self.scroll_to(y=0, animate=False)

    def on_resize(self) -> None:
        """Wrap anew for the new width."""
        self._lay_out()

    def _lay_out(self) -> None:
        title, subtitle, facts, marker, output = self._content
        width = self.scrollable_content_region.width
        top: list[list[_Styled]] = [[("look--head", line)] for line in _lines(title, width)]
        top += [[("", line)] for line in _lines(subtitle, width)] if subtitle else []
        for name, words in facts:
            said = _lines(words, width - _NAME)
            top += [
                [("look--name", (name if at == 0 else "").ljust(_NAME)), ("", line)]
                for at, line in enumerate(said)
            ]
        if marker:
            top.append([("look--rule", _rule("marker", width))])
            top += [[("look--marker", line)] for line in _lines(marker, width)]
        if output is not None:
            top.append([("look--rule", _rule(f"output, {utf16_length(output):,} characters", width))])
        self._top = top
        self._output = Wrapped(output or "", width)
        if output is not None and len(output) <= _LONG:
            self._output.reach(_LONG)
        self._reach()
        self.refresh()

    def _reach(self) -> None:
        """Have as many lines as are in sight, and some more."""
        self._output.reach(round(self.scroll_y) + self.size.height + _AHEAD)
        height = len(self._top) + len(self._output.lines)
        if height != self.virtual_size.height or self.virtual_size.width != self.size.width:
            self.virtual_size = Size(self.scrollable_content_region.width, height)

    def action_further(self) -> None:
        """Scroll to the end; of a very long output, a good deal further."""
        self._output.reach(len(self._output.lines) + _FURTHER)
        self._reach()
        self.scroll_end(animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Wrap what comes into sight."""
        super().watch_scroll_y(old_value, new_value)
        self._reach()

    def render_line(self, y: int) -> Strip:
        """One line of what is in sight."""
        width = self.scrollable_content_region.width
        index = round(self.scroll_y) + y
        pieces: list[_Styled] = []
        if index < len(self._top):
            pieces = self._top[index]
        elif index - len(self._top) < len(self._output.lines):
            pieces = [("", self._output.lines[index - len(self._top)])]
        segments = [
            Segment(text, self.get_component_rich_style(name) if name else self.rich_style)
            for name, text in pieces
        ]
        return Strip(segments).adjust_cell_length(width, self.rich_style)


def _lines(text: str, width: int) -> list[str]:
    """A short text, wrapped between its words."""
    from textwrap import wrap

    safe: list[str] = []
    for line in text.splitlines():
        for piece in wrap(line, max(width, 2), break_on_hyphens=False) or [""]:
            fitting = Wrapped(piece, width)
            fitting.reach(len(piece) + 1)
            safe += fitting.lines or [""]
    return safe


def _rule(name: str, width: int) -> str:
    return f"── {name} ".ljust(max(width, 0), "─")[: max(width, 0)]
