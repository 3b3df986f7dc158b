"""The picker: a full-screen view of a session, to look at its exchanges, prune and restore them by hand.

Modules without a terminal hold what it knows: `rows` what is listed, `price` what a change costs,
`timeline` the session's requests, `text` an output as lines, `sitting` what is done and undone. The
others draw it with Textual, which is the extra `tui`. Nothing of the extra is imported here.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from prunewise.cli import console
from prunewise.cli.desk import Desk

HINT = "For a full-screen picker: pip install 'prunewise[tui]'"


def is_installed() -> bool:
    """Whether the extra is there."""
    return find_spec("textual") is not None


def has_screen() -> bool:
    """Whether somebody is there, at a terminal that can move its cursor."""
    can_move = os.name == "nt" or os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return console.is_interactive() and can_move


def pick(desk: Desk, *, force: bool, ask: bool) -> list[str]:
    """Have a person look, prune and restore on the whole screen. Gives a sentence for each batch done.

    Args:
        desk: the session.
        force: write although another process has the file open.
        ask: show each batch with its price before it is done.
    """
    from prunewise.cli.picker.app import PickerApp
    from prunewise.cli.picker.sitting import Sitting

    sitting = Sitting(desk, force=force)
    app = PickerApp(sitting, ask=ask)
    app.run()
    if app.fault is not None:
        raise app.fault
    return sitting.outcomes
