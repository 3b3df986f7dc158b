"""The picker's screen: what the keys do, and what is shown where."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import ClassVar, Literal, cast

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input, Static

from prunewise.cli.change import Change
from prunewise.cli.console import cell, elided, one_line
from prunewise.cli.desk import Desk
from prunewise.cli.picker import price
from prunewise.cli.picker.chart import Chart
from prunewise.cli.picker.dialogs import Confirm, Help
from prunewise.cli.picker.exchange_list import ExchangeList
from prunewise.cli.picker.look import Look
from prunewise.cli.picker.rows import (
    GROUPINGS,
    ORDERS,
    Group,
    Grouping,
    Order,
    Row,
    grouped,
    matching,
    ordered,
)
from prunewise.cli.picker.sitting import Sitting
from prunewise.errors import PrunewiseError, RefusedError
from prunewise.ledger import Target
from prunewise.transcript import TOOL_INPUT
from prunewise.wording import count

_SECONDS_BETWEEN_LOOKS = 2.0
WIDE = 120
"""Cells from which on the list and the output stand side by side."""
_SECONDS_SHOWN = 8
_SHORTEST_PATH = 20

_KEYS = (
    ("↑ ↓ j k", "move; PgUp PgDn Home End go further"),
    ("Enter", "look at one in full; hide or show the rows of a group"),
    ("Tab", "to the output, and back to the list"),
    ("/", "filter as you type: words of a row, or its call's id"),
    ("s", "sort by the next column"),
    ("S", "turn the order round"),
    ("g", "group by tool, by path, not at all"),
    ("Space", "select a row, or all of a group"),
    ("a", "select all that the filter leaves"),
    ("Esc", "back; select nothing; filter nothing"),
    ("p", "prune the selected rows, else the one under the cursor"),
    ("r", "restore them"),
    ("u", "undo the last batch, then the one before it"),
    ("t", "light or dark"),
    ("q Ctrl+C", "quit"),
    ("Mouse", "click a row, the space before it to select it, a column's head to sort; click twice to look"),
)


class PickerScreen(Screen[None]):
    """The list, what is looked at, and the timeline."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Keys", key_display="?"),
        Binding("p", "prune", "Prune"),
        Binding("r", "restore", "Restore"),
        Binding("u", "undo", "Undo"),
        Binding("space", "select", "Select"),
        Binding("a", "select_all", "All", show=False),
        Binding("slash", "filter", "Filter", key_display="/", priority=True),
        Binding("enter,down,escape", "leave_filter", "To the list", show=False, priority=True),
        Binding("s", "sort", "Sort", show=False),
        Binding("S,shift+s", "turn", "Turn", show=False),
        Binding("g", "group", "Group"),
        Binding("tab,shift+tab", "other_pane", "Look", key_display="tab", priority=True),
        Binding("enter", "open", "Open", show=False),
        Binding("escape", "back", "Back", show=False),
        Binding("t", "theme", "Theme", show=False),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, sitting: Sitting, *, ask: bool) -> None:
        super().__init__()
        self.sitting = sitting
        self._ask = ask
        self._busy = False
        """Whether another thread writes or reads the session."""
        self._leaving = False
        self._grouping: Grouping = "none"
        self._folded: frozenset[str] = frozenset()
        self._fault = ""
        self._moved_said = -math.inf
        """When it was said that the session has changed."""

    @property
    def program(self) -> App[None]:
        """The application, by its type."""
        return cast("App[None]", self.app)  # pyright: ignore[reportUnknownMemberType]

    # ---- what is on it

    def compose(self) -> ComposeResult:
        """The widgets, from top to bottom."""
        yield Static(id="title", markup=False)
        yield Input(
            placeholder="/ filters: words of tool, arguments, status or strategy", id="filter", compact=True
        )
        with Horizontal(id="panes"):
            yield ExchangeList(id="list")
            yield Look(id="look")
        yield Static(id="chosen", markup=False)
        yield Chart(id="chart")
        # Textual's own footer makes a widget of each key, which takes an eighth of the opening.
        yield Static(self._keys_in_short(), id="keys")

    def _keys_in_short(self) -> str:
        """What the keys do now, as markup: a click does the same."""
        if self._is_focused("filter"):
            return "Enter goes to what the filter leaves"
        return " ".join(_in_short(key) for key in self.BINDINGS if isinstance(key, Binding) and key.show)

    def on_descendant_focus(self) -> None:
        """Other keys do something now."""
        self.query_one("#keys", Static).update(self._keys_in_short())

    @property
    def exchanges(self) -> ExchangeList:
        """The list of exchanges."""
        return self.query_one("#list", ExchangeList)

    def on_mount(self) -> None:
        """Show the list; the timeline comes once that is on the screen."""
        self.set_focus(self.exchanges)
        self._show_all()
        self.call_after_refresh(self._show_timeline)
        self.set_interval(_SECONDS_BETWEEN_LOOKS, self._look_at_file)

    def on_resize(self) -> None:
        """What has to be shortened is, for the new width; and the output may be there now."""
        self._show_title()
        self.call_after_refresh(self._show_part)

    def _show_all(self) -> None:
        self._show_title()
        self._show_list()
        self._show_chosen()

    def _show_title(self) -> None:
        totals = f"  {self.sitting.totals}"
        width = self.program.size.width - 2
        place = self.sitting.desk.conversation.path
        path = one_line(str(place))
        if width - len(totals) < min(len(path), _SHORTEST_PATH):
            path, totals = one_line(place.name), f"  {self.sitting.totals.split(':')[0]}"
        self.query_one("#title", Static).update(elided(path, max(4, width - len(totals))) + totals)

    def _show_list(self) -> None:
        shown = self.exchanges
        found = matching(self.sitting.rows, self.query_one("#filter", Input).value)
        lines = grouped(ordered(found, shown.order, turned=shown.turned), self._grouping, self._folded)
        shown.show(lines)

    def _show_timeline(self) -> None:
        self.query_one("#chart", Chart).show(self.sitting.timeline())

    # ---- what the cursor is on

    @on(ExchangeList.Moved)
    def _show_part(self) -> None:
        line, look = self.exchanges.current, self.query_one("#look", Look)
        if isinstance(line, Row):
            self.query_one("#chart", Chart).point_at(self.sitting.answer_of(line.part))
        if look.display:
            self._show_in(look)

    def _show_in(self, look: Look) -> None:
        line, sitting = self.exchanges.current, self.sitting
        if isinstance(line, Group):
            look.show(f"all of {line.name}", self._price_of(line.targets))
            return
        if line is None:
            look.show("", ())
            return
        part, desk = line.part, sitting.desk
        age = f"{count(line.age, 'LLM call')} ago" if line.age else "not sent yet"
        status = f"{line.status}, {count(line.tokens, 'token')}, {age}"
        if line.by:
            status += f", {'proposed by' if line.status == 'active' else 'by'} {line.by}"
        if part.decision is not None and part.decision.reason:
            status += f": {part.decision.reason}"
        facts = price.price_of(desk, part, sitting.warmth(time.time()))
        what = "input of " if part.kind == TOOL_INPUT else ""
        look.show(
            f"{what}{line.tool} {cell(part.exchange.call.text)}",
            facts,
            subtitle=status,
            marker=desk.pruner.marker(part.target),
            output=sitting.output_of(part),
        )

    def _price_of(self, targets: Iterable[Target]) -> list[price.Fact]:
        """What it costs and saves now to prune all of these that are not pruned yet."""
        try:
            verdict = self.sitting.pruning(targets).verdict
        except RefusedError:
            return [("pruning", "all of it is pruned already")]
        assert verdict is not None
        return price.prune_price(verdict, self.sitting.warmth(time.time()))

    @on(ExchangeList.Selected)
    def _show_chosen(self) -> None:
        chosen = self.query_one("#chosen", Static)
        chosen.update(self._fault or self._chosen())
        chosen.set_class(bool(self._fault), "fault")

    def _chosen(self) -> str:
        """What is selected and what it comes to together; without a selection how the list is shown."""
        shown = self.exchanges
        if not shown.selected:
            order = f"sorted by {shown.order}{', turned' if shown.turned else ''}"
            grouping = "" if self._grouping == "none" else f", grouped by {self._grouping}"
            return f"{order}{grouping}; age is in LLM calls"
        rows = [self.sitting.by_target[target] for target in shown.selected]
        tokens = sum(row.tokens for row in rows)
        text = f"{len(rows):,} selected, {count(tokens, 'token')}"
        prune = [row.target for row in rows if row.status != "pruned"]
        if prune:
            verdict = self.sitting.desk.pruner.preview(prune)
            text += f"; pruned together: break-even {price.break_even(verdict)}"
        return text

    # ---- the filter, the order, the groups

    @on(Input.Changed, "#filter")
    def _filtered(self) -> None:
        self._show_list()

    def action_filter(self) -> None:
        """Go to the filter."""
        self.remove_class("-looking")
        self.set_focus(self.query_one("#filter"))

    def action_leave_filter(self) -> None:
        """From the filter to what it leaves."""
        self.set_focus(self.exchanges)

    def _is_focused(self, which: str) -> bool:
        """Whether what is typed goes there. `has_focus` says so only once the widget has heard of it."""
        return self.focused is not None and self.focused.id == which

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Whether a key does this now: in the filter a slash is a slash.

        The keys to the filter and back go before all others, so that what is typed right behind them gets
        to where it belongs.
        """
        if action not in ("filter", "leave_filter"):
            return True
        return self._is_focused("filter") == (action == "leave_filter")

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._sort(ORDERS[(ORDERS.index(self.exchanges.order) + 1) % len(ORDERS)])

    @on(ExchangeList.Sorted)
    def _sort_by(self, event: ExchangeList.Sorted) -> None:
        if event.order == self.exchanges.order:
            self.action_turn()
        else:
            self._sort(event.order)

    def _sort(self, order: Order) -> None:
        self.exchanges.order, self.exchanges.turned = order, False
        self._show_list()
        self._show_chosen()

    def action_turn(self) -> None:
        """Turn the order round."""
        self.exchanges.turned = not self.exchanges.turned
        self._show_list()
        self._show_chosen()

    def action_group(self) -> None:
        """Group by the next thing there is."""
        self._grouping = GROUPINGS[(GROUPINGS.index(self._grouping) + 1) % len(GROUPINGS)]
        self._folded = frozenset()
        self._show_list()
        self._show_chosen()

    # ---- panes

    def action_other_pane(self) -> None:
        """From the list to the output, and back."""
        look = self.query_one("#look", Look)
        if self.focused is look:
            self.action_back()
            return
        self.add_class("-looking")
        self.set_focus(look)
        self._show_in(look)

    @on(ExchangeList.Opened)
    def action_open(self) -> None:
        """Look at one in full; of a group, fold or unfold it."""
        line = self.exchanges.current
        if isinstance(line, Group) and self._is_focused("list"):
            self._folded ^= {line.name}
            self._show_list()
        elif line is not None and not self._is_focused("look"):
            self.action_other_pane()

    def action_back(self) -> None:
        """From the output or the filter to the list; there, select nothing, then filter nothing."""
        field = self.query_one("#filter", Input)
        if not self._is_focused("list"):
            self.remove_class("-looking")
            self.set_focus(self.exchanges)
        elif self.exchanges.selected:
            self.exchanges.select(())
        else:
            field.value = ""

    # ---- selecting

    def action_select(self) -> None:
        """Select what the cursor is on, and go on to the next line."""
        self.exchanges.toggle()
        self.exchanges.action_move(1)

    def action_select_all(self) -> None:
        """Select all that the filter leaves; once all is selected, nothing."""
        found = {row.target for row in matching(self.sitting.rows, self.query_one("#filter", Input).value)}
        self.exchanges.select(
            self.exchanges.selected - found
            if found <= self.exchanges.selected
            else self.exchanges.selected | found
        )

    # ---- doing

    def action_prune(self) -> None:
        """Prune what is selected, else what the cursor is on."""
        self._propose("Prune", lambda: self.sitting.pruning(self.exchanges.wanted), self.sitting.done)

    def action_restore(self) -> None:
        """Restore it."""
        self._propose("Restore", lambda: self.sitting.restoring(self.exchanges.wanted), self.sitting.done)

    def action_undo(self) -> None:
        """Undo the last batch."""
        self._propose("Undo the last batch", self.sitting.undoing, self.sitting.undone)

    def _propose(self, title: str, wish: Callable[[], Change], taken: Callable[[Change, Desk], None]) -> None:
        """Show what was wished with its price, and do it where the answer is yes."""
        if self._busy:
            return
        try:
            change = wish()
        except RefusedError as error:
            self._say(str(error))
            return
        if not self._ask:
            self._carry_out(change, taken)
            return
        costs = change.costs()
        name, words = price.cache_fact(self.sitting.warmth(time.time()))
        costs.append(f"The {name} is {words}.")

        def answered(yes: bool | None) -> None:
            if yes:
                self._carry_out(change, taken)

        self.program.push_screen(Confirm(title, change.deeds(), costs), answered)

    def _carry_out(self, change: Change, taken: Callable[[Change, Desk], None]) -> None:
        self._busy = True
        self.query_one("#chosen", Static).update("writing...")
        self._write(change, taken)

    @work(thread=True)
    def _write(self, change: Change, taken: Callable[[Change, Desk], None]) -> None:
        """Write it, and read the session again: not in the thread that draws."""
        try:
            after = self.sitting.carry_out(change)
        except PrunewiseError as error:
            self.program.call_from_thread(self._failed, str(error))
        else:
            self.program.call_from_thread(self._written, change, after, taken)

    def _written(self, change: Change, after: Desk, taken: Callable[[Change, Desk], None]) -> None:
        taken(change, after)
        self._rest()
        self.exchanges.selected = set()
        self._read_anew()
        self._say(change.outcome())

    def _failed(self, why: str) -> None:
        self._rest()
        self._show_chosen()
        self._say(why, "error")

    # ---- the file under it

    def _look_at_file(self) -> None:
        if not self._busy and self.sitting.has_changed:
            self._busy = True
            self._read_again()

    @work(thread=True)
    def _read_again(self) -> None:
        try:
            desk = self.sitting.desk.again()
        except PrunewiseError as error:
            self.program.call_from_thread(self._unreadable, str(error))
        else:
            self.program.call_from_thread(self._moved, desk)

    def _unreadable(self, why: str) -> None:
        self._rest()
        self.sitting.wait_for_change()
        self._fault = one_line(why)
        self._show_chosen()

    def _moved(self, desk: Desk) -> None:
        self._rest()
        self._fault = ""
        self.sitting.moved_to(desk)
        self.exchanges.selected &= self.sitting.by_target.keys()
        self._read_anew()
        self._say_moved()

    def _say_moved(self) -> None:
        """Say that the session is another, but not again while that can still be read."""
        now = time.monotonic()
        if now >= self._moved_said + _SECONDS_SHOWN:
            self._moved_said = now
            self._say("the session has changed, and was read again")

    def _read_anew(self) -> None:
        self._show_all()
        self._show_timeline()

    # ---- the rest

    def action_theme(self) -> None:
        """Light or dark."""
        self.program.theme = "textual-light" if self.program.current_theme.dark else "textual-dark"

    def action_help(self) -> None:
        """The keys."""
        left_out = self.sitting.desk.left_out()
        notes = ["Not listed, since they cannot be pruned:", *left_out] if left_out else []
        self.program.push_screen(Help(_KEYS, notes))

    def leave(self) -> None:
        """End, once nothing is being written or read any more."""
        self._leaving = True
        if not self._busy:
            self.program.exit()

    def _rest(self) -> None:
        """Nothing is being written or read any more."""
        self._busy = False
        if self._leaving:
            self.program.exit()

    def _say(self, text: str, severity: Literal["information", "error"] = "information") -> None:
        self.program.notify(one_line(text), severity=severity, timeout=_SECONDS_SHOWN, markup=False)


def _in_short(key: Binding) -> str:
    """A key and what it does, as markup."""
    action = key.action if "." in key.action else f"screen.{key.action}"
    return (
        f"[@click={action}][$footer-key-foreground bold]{key.key_display or key.key}[/] {key.description}[/]"
    )
