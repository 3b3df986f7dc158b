"""The two questions and answers that stand in front of the picker: a batch with its price, and the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from prunewise.cli.console import one_line

_MOST_DEEDS = 200


class Confirm(ModalScreen[bool]):
    """What a batch would do and cost; answers whether to do it. Enter does it: the price has been seen."""

    AUTO_FOCUS = "#yes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "Do it"),
        Binding("n,escape,q", "answer(False)", "Leave it"),
        Binding("left,right", "app.focus_next", "Other button", show=False),
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("down", "scroll(1)", "Down", show=False),
    ]

    def __init__(self, title: str, deeds: Sequence[str], costs: Sequence[str]) -> None:
        """`deeds` is a line for each part, `costs` what they come to together."""
        super().__init__()
        self._title = title
        self._deeds = deeds
        self._costs = costs

    def compose(self) -> ComposeResult:
        """The window."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = self._title
            with VerticalScroll(id="said", can_focus=False):
                for line in self._costs:
                    yield Static(Text(one_line(line)), classes="cost")
                shown = [one_line(line) for line in self._deeds[:_MOST_DEEDS]]
                if len(self._deeds) > _MOST_DEEDS:
                    shown.append(f"and {len(self._deeds) - _MOST_DEEDS:,} more")
                yield Static(Text("\n".join(shown)), classes="deeds")
            with Horizontal(classes="buttons"):
                yield Button("Do it (y)", variant="primary", id="yes", compact=True)
                yield Button("Leave it (n)", id="no", compact=True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """One of the two."""
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        """Answer by key."""
        self.dismiss(answer)

    def action_scroll(self, by: int) -> None:
        """Scroll what would be done."""
        self.query_one("#said").scroll_relative(y=by, animate=False)


class Help(ModalScreen[None]):
    """The keys, and what is not listed."""

    AUTO_FOCUS = ".dialog"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close"),
    ]

    def __init__(self, keys: Sequence[tuple[str, str]], notes: Sequence[str]) -> None:
        """`keys` are the keys with what they do."""
        super().__init__()
        self._keys = keys
        self._notes = notes

    def compose(self) -> ComposeResult:
        """The window."""
        with VerticalScroll(classes="dialog") as dialog:
            dialog.border_title = "Keys"
            dialog.border_subtitle = "Esc closes"
            table = Table.grid("key", "does", padding=(0, 2))
            for key, does in self._keys:
                table.add_row(Text(key, "bold", no_wrap=True), does)
            yield Static(table)
            yield Static(Text("\n".join(map(one_line, self._notes))), classes="notes")
