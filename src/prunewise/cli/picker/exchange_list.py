"""The list of exchanges: a widget that draws the lines in sight and no others, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from prunewise.cli.console import elided
from prunewise.cli.picker.rows import Group, Line, Order, Row
from prunewise.ledger import Target
from prunewise.wording import count, number

_MARK = 2
_GAP = 1
_USUAL = 80
"""Cells from which on there is room for long names."""
_NARROW_TOOL, _WIDE_TOOL = 8, 12
_NARROW_BY, _WIDE_BY = 11, 19
_NARROWEST_WHAT = 14
_FEWEST = 3
"""Columns that stay, however narrow it is: tool, what and tokens."""


class _Column(NamedTuple):
    head: str
    width: int
    order: Order
    right: bool = False


class ExchangeList(ScrollView, can_focus=True):
    """Rows and heads of groups, with a cursor on one of them and any number selected.

    The first line in sight is the columns' head.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "list--head",
        "list--group",
        "list--cursor",
        "list--cursor-blurred",
        "list--selected",
        "list--pruned",
        "list--restored",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "end(-1)", "First", show=False),
        Binding("end", "end(1)", "Last", show=False),
    ]

    class Moved(Message):
        """The cursor stands on another line."""

    class Selected(Message):
        """What is selected has changed."""

    class Opened(Message):
        """The line under the cursor was clicked twice."""

    class Sorted(Message):
        """A column's head was clicked."""

        def __init__(self, order: Order) -> None:
            super().__init__()
            self.order: Order = order

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.lines: Sequence[Line] = []
        self.cursor = 0
        self.selected: set[Target] = set()
        self.order: Order = "age"
        self.turned = False
        self._columns: list[_Column] = []

    # ---- what is in it

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines. The cursor stays on the row or group it is on, where that is still there."""
        before = self.current
        self.lines = lines
        self._lay_out()
        self.virtual_size = Size(self.size.width, len(lines) + 1)
        self.cursor = self._again(before)
        self._keep_in_sight()
        self.refresh()
        self.post_message(self.Moved())

    def _again(self, before: Line | None) -> int:
        """Where what the cursor was on stands now; else the nearest line."""
        if before is not None:
            for index, line in enumerate(self.lines):
                if _same(line, before):
                    return index
        return max(0, min(self.cursor, len(self.lines) - 1))

    @property
    def current(self) -> Line | None:
        """The line under the cursor."""
        return self.lines[self.cursor] if self.cursor < len(self.lines) else None

    @property
    def wanted(self) -> list[Target]:
        """What a key is about: what is selected, else the row or the group under the cursor."""
        if self.selected:
            return list(self.selected)
        return _targets(self.current)

    def select(self, targets: Iterable[Target]) -> None:
        """Select exactly these."""
        self.selected = set(targets)
        self.refresh()
        self.post_message(self.Selected())

    def toggle(self) -> None:
        """Select what is under the cursor or, where all of it is selected, do not any more."""
        targets = set(_targets(self.current))
        self.select(self.selected - targets if targets <= self.selected else self.selected | targets)

    # ---- the cursor

    def move_to(self, index: int) -> None:
        """Put the cursor on a line, or on the nearest there is."""
        index = max(0, min(index, len(self.lines) - 1))
        if index != self.cursor:
            self.cursor = index
            self._keep_in_sight()
            self.refresh()
            self.post_message(self.Moved())

    def action_move(self, by: int) -> None:
        """Move the cursor by so many lines."""
        self.move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        self.move_to(self.cursor + by * max(1, self.size.height - 2))

    def action_end(self, way: int) -> None:
        """Move the cursor to the first or the last line."""
        self.move_to(0 if way < 0 else len(self.lines) - 1)

    def _keep_in_sight(self) -> None:
        top, page = round(self.scroll_y), max(1, self.size.height - 1)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + page:
            self.scroll_to(y=self.cursor - page + 1, animate=False)

    # ---- the mouse

    def on_click(self, event: events.Click) -> None:
        """Move the cursor, select by the mark, or sort by a column."""
        at = event.get_content_offset(self)
        if at is None:
            return
        if at.y == 0:
            column = self._column_at(at.x)
            if column is not None:
                self.post_message(self.Sorted(column.order))
            return
        index = round(self.scroll_y) + at.y - 1
        if index >= len(self.lines):
            return
        self.move_to(index)
        if at.x < _MARK or event.ctrl or event.shift:
            self.toggle()
        elif event.chain > 1:
            self.post_message(self.Opened())

    def _column_at(self, x: int) -> _Column | None:
        left = _MARK
        for column in self._columns:
            if left <= x < left + column.width + _GAP:
                return column
            left += column.width + _GAP
        return None

    # ---- drawing

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        self._lay_out()
        self.virtual_size = Size(self.size.width, len(self.lines) + 1)
        self._keep_in_sight()
        self.refresh()

    def _lay_out(self) -> None:
        rows = [line for line in self.lines if isinstance(line, Row)]
        tool = max([4, *(cell_len(row.tool) for row in rows)])
        by = max([2, *(cell_len(row.by) for row in rows)])
        tokens = max([len("tokens") + 1, *(len(number(row.tokens)) for row in rows)])
        age = max([len("age") + 1, *(len(number(row.age)) for row in rows)])
        room = self.scrollable_content_region.width - _MARK
        fixed = [
            _Column("tool", min(tool, _NARROW_TOOL if room < _USUAL else _WIDE_TOOL), "tool"),
            _Column("what", 0, "what"),
            _Column("tokens", tokens, "tokens", right=True),
            _Column("age", age, "age", right=True),
            _Column("status", 8, "status"),
            _Column("by", min(by, _NARROW_BY if room < _USUAL else _WIDE_BY), "by"),
        ]
        while len(fixed) > _FEWEST and room - _taken(fixed) < _NARROWEST_WHAT:
            fixed.pop()
        what = max(1, room - _taken(fixed))
        self._columns = [one._replace(width=what) if one.head == "what" else one for one in fixed]

    def render_line(self, y: int) -> Strip:
        """One line of what is in sight."""
        width = self.scrollable_content_region.width
        if y == 0:
            return self._strip(self._head(), width, self.get_component_rich_style("list--head"))
        index = round(self.scroll_y) + y - 1
        if index >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        line = self.lines[index]
        selected = set(_targets(line)) <= self.selected if self.selected else False
        mark = "● " if selected else "  "
        if isinstance(line, Group):
            text = f"{mark}{'▸' if line.folded else '▾'} {_summary(line, width - _MARK - 2)}"
        else:
            text = mark + " ".join(_fitted(self._cell(line, one.head), one) for one in self._columns)
        return self._strip(text, width, self._style(line, at_cursor=index == self.cursor, selected=selected))

    def _head(self) -> str:
        arrow = "▲" if self.turned else "▼"
        heads = [
            _fitted(f"{one.head}{arrow}" if one.order == self.order else one.head, one)
            for one in self._columns
        ]
        return " " * _MARK + " ".join(heads)

    def _strip(self, text: str, width: int, style: Style) -> Strip:
        return Strip([Segment(text, style)]).adjust_cell_length(width, style)

    def _style(self, line: Line, *, at_cursor: bool, selected: bool) -> Style:
        if isinstance(line, Group):
            style = self.get_component_rich_style("list--group")
        elif line.status == "active":
            style = self.rich_style
        else:
            style = self.get_component_rich_style(f"list--{line.status}")
        if selected:
            style += self.get_component_rich_style("list--selected", partial=True)
        if at_cursor:
            name = "list--cursor" if self.has_focus else "list--cursor-blurred"
            style += self.get_component_rich_style(name, partial=True)
        return style

    def _cell(self, row: Row, head: str) -> str:
        match head:
            case "tool":
                return row.tool
            case "what":
                return row.what
            case "tokens":
                return number(row.tokens)
            case "age":
                return number(row.age)
            case "status":
                return row.status
            case _:
                return row.by


def _taken(columns: Sequence[_Column]) -> int:
    return sum(one.width for one in columns) + _GAP * (len(columns) - 1)


def _fitted(text: str, column: _Column) -> str:
    text = elided(text, column.width)
    room = " " * (column.width - cell_len(text))
    return f"{room}{text}" if column.right else f"{text}{room}"


def _summary(group: Group, width: int) -> str:
    pruned = f", {group.pruned:,} pruned" if group.pruned else ""
    figures = f"  {len(group.targets):,} listed, {count(group.tokens, 'token')}{pruned}"
    return elided(group.name, max(8, width - cell_len(figures))) + figures


def _targets(line: Line | None) -> list[Target]:
    if line is None:
        return []
    return [line.target] if isinstance(line, Row) else list(line.targets)


def _same(line: Line, other: Line) -> bool:
    if isinstance(line, Row) and isinstance(other, Row):
        return line.target == other.target
    return isinstance(line, Group) and isinstance(other, Group) and line.name == other.name
