"""The picker: a full-screen view of a session, to look at its exchanges, prune and restore them by hand.

Modules without a terminal hold what it knows: `rows` what is listed, `price` what a change costs,
`timeline` the session's requests, `text` an output as lines, `sitting` what is done and undone. The
others draw it with Textual, which is the extra `tui`. Nothing of the extra is imported here.
"""

from __future__ import annotations

import gc
import os
from importlib.util import find_spec

import click

from prunewise.cli import console
from prunewise.cli.desk import Desk

HINT = "For a full-screen picker: pip install 'prunewise[tui]'"
_SIGNALLED = 128


def is_installed() -> bool:
    """Whether the extra is there."""
    return find_spec("textual") is not None


def has_screen() -> bool:
    """Whether somebody is there, at a terminal that can move its cursor. Textual draws on stderr."""
    can_move = os.name == "nt" or os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return can_move and console.is_interactive() and console.has_errors_on_terminal()


def pick(desk: Desk, *, force: bool, ask: bool) -> None:
    """Have a person look, prune and restore on the whole screen; then say on stdout what was done.

    Args:
        desk: the session.
        force: write although another process has the file open.
        ask: show each batch with its price before it is done.

    Raises:
        click.exceptions.Exit: a signal has ended it; the exit code says which, as a shell's does.
    """
    gc.freeze()  # so that it does not look for garbage in all that was read, again and again
    from prunewise.cli.picker.app import PickerApp
    from prunewise.cli.picker.sitting import Sitting

    sitting = Sitting(desk, force=force)
    app = PickerApp(sitting, ask=ask)
    app.run()
    gc.unfreeze()
    if sitting.outcomes or app.fault is None:
        console.show(console.stdout(), *(sitting.outcomes or ["Nothing was changed."]))
    if app.fault is not None:
        raise app.fault
    if app.ended_by is not None:
        raise click.exceptions.Exit(_SIGNALLED + app.ended_by)
