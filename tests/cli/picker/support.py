"""Ways to drive the picker without a terminal."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot
from textual.screen import Screen

from prunewise.cli.desk import Desk
from prunewise.cli.picker.app import PickerApp
from prunewise.cli.picker.chart import Chart
from prunewise.cli.picker.exchange_list import ExchangeList
from prunewise.cli.picker.look import Look
from prunewise.cli.picker.rows import Group, Row
from prunewise.cli.picker.sitting import Sitting
from prunewise.stores.pi_session import PiSession


def desk_of(path: Path) -> Desk:
    return Desk.of(path)


def ledger_of(path: Path) -> list[tuple[str, str]]:
    """The ledger's decisions and restores in a file, each with what it is about, oldest first."""
    kinds = {"Decision": "prune", "Restore": "restore"}
    return [
        (kinds[type(entry).__name__], entry.idempotency_key)
        for entry in PiSession.open(path).ledger()
        if type(entry).__name__ in kinds
    ]


class Driven:
    """The picker under a pilot's hands, and what is to be seen of it."""

    def __init__(self, pilot: Pilot[None], sitting: Sitting) -> None:
        self.pilot = pilot
        self.sitting = sitting

    @property
    def app(self) -> PickerApp:
        assert isinstance(self.pilot.app, PickerApp)
        return self.pilot.app

    @property
    def first(self) -> Screen[Any]:
        """The screen below any dialog."""
        return self.app.screen_stack[0]

    @property
    def exchanges(self) -> ExchangeList:
        return self.first.query_one("#list", ExchangeList)

    @property
    def look(self) -> Look:
        return self.first.query_one("#look", Look)

    @property
    def chart(self) -> Chart:
        return self.first.query_one("#chart", Chart)

    @property
    def calls(self) -> list[str]:
        """The call ids in the list, and the names of groups, from top to bottom."""
        return [line.target[0] if isinstance(line, Row) else line.name for line in self.exchanges.lines]

    @property
    def statuses(self) -> dict[str, str]:
        return {row.target[0]: row.status for row in self.sitting.rows}

    @property
    def here(self) -> str:
        line = self.exchanges.current
        assert line is not None
        return line.name if isinstance(line, Group) else line.target[0]

    @property
    def screen(self) -> str:
        """What the terminal shows, as text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    @property
    def chosen(self) -> str:
        return str(self.first.query_one("#chosen").render())

    @property
    def said(self) -> list[str]:
        """The notices given so far."""
        return [notice.message for notice in self.app._notifications]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def press_at_once(self, *keys: str) -> None:
        """Press keys faster than any of them is heard, as a paste or a slow line does."""
        for key in keys:
            self.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await self.settle()

    async def settle(self) -> None:
        """Wait for what is being written or read."""
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()


def drive(
    path: Path,
    steps: Callable[[Driven], Awaitable[None]],
    *,
    size: tuple[int, int] = (80, 24),
    force: bool = False,
    ask: bool = True,
) -> list[str]:
    """Open a session in the picker and take these steps. Gives what it says to have done."""
    sitting = Sitting(desk_of(path), force=force)

    async def driven() -> None:
        app = PickerApp(sitting, ask=ask)
        async with app.run_test(size=size, notifications=True) as pilot:
            await pilot.pause()
            await steps(Driven(pilot, sitting))

    asyncio.run(driven())
    return sitting.outcomes
