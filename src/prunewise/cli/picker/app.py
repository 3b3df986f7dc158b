"""The picker as a program: its one screen, its theme, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import WorkerFailed

from prunewise.cli.picker.screen import WIDE, PickerScreen
from prunewise.cli.picker.sitting import Sitting

_WHITE = ("7", "15")
_ENDING = ("SIGTERM", "SIGHUP")
"""Signals that ask it to end. By default they would leave the terminal as it is while it is in use."""


class PickerApp(App[None]):
    """One sitting on a terminal."""

    CSS_PATH = "picker.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 - as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-low"), (30, "-high")]  # noqa: RUF012
    TITLE = "prunewise"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", "Quit", show=False, priority=True)]

    def __init__(self, sitting: Sitting, *, ask: bool = True) -> None:
        """`ask`: show each batch with its price before it is done."""
        super().__init__()
        self.fault: Exception | None = None
        """What nobody foresaw, and ended it."""
        self.ended_by: int | None = None
        """The signal that asked it to end."""
        self._first = PickerScreen(sitting, ask=ask)
        if "TEXTUAL_THEME" not in os.environ:
            self.theme = _theme(os.environ.get("COLORFGBG", ""))

    def on_mount(self) -> None:
        """Take signals as wishes to quit."""
        for name in _ENDING:
            # Windows knows neither; and they go to the main thread only.
            with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
                number: int = getattr(signal, name)
                asyncio.get_running_loop().add_signal_handler(number, self._end_by, number)

    def _end_by(self, number: int) -> None:
        self.ended_by = number
        self._first.leave()

    async def action_quit(self) -> None:
        """End, once nothing is being written any more."""
        self._first.leave()

    # Textual would end with a traceback and its local variables, in which the session stands.

    def _handle_exception(self, error: Exception) -> None:
        cause = error.error if isinstance(error, WorkerFailed) else error
        if self.fault is None and isinstance(cause, Exception):
            self.fault = cause
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    def get_default_screen(self) -> Screen[None]:
        """The only one."""
        return self._first


def _theme(colours: str) -> str:
    """The theme for a terminal whose COLORFGBG this is: light where its background is white."""
    return "textual-light" if colours.rsplit(";", 1)[-1] in _WHITE else "textual-dark"
