"""`calibrate`: fit the priced policy to the user's own sessions, and say what that would bring."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from prunewise.cli import console
from prunewise.cli.progress import EVERY_SECONDS
from prunewise.errors import InputError, PrunewiseError
from prunewise.wording import count

if TYPE_CHECKING:
    from prunewise.recording import Recording
    from prunewise.replay.calibrate import Calibrated, Step


@click.command(epilog="Example: prunewise calibrate ~/.pi/agent/sessions")
@click.argument("paths", nargs=-1, required=True, metavar="PATHS...")
@click.option("--write", is_flag=True, help="Write the settings without asking, if the other half gains.")
@click.option("--settings", metavar="FILE", help="Write them to this file, not to the one that pi reads.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; ask nothing.")
def calibrate(*, paths: tuple[str, ...], write: bool, settings: str | None, as_json: bool) -> None:
    """Fit the priced policy's settings to recorded sessions.

    They are fitted on one half of the sessions in PATHS (files, folders or globs), and tried on the other.
    They are written only where the policy saves for certain there, and more than by default: with --write,
    or where you say so when asked. Only keys under "priced" change.
    """
    from prunewise import shell
    from prunewise.replay.calibrate import calibrate as fit
    from prunewise.replay.session import Question
    from prunewise.stores import settings_files

    if problem := shell.problem():
        console.warn([problem])
    found = _recordings(paths)
    with _told() as step:
        result = fit(found, Question(()), step=step)
    changes = _changes(result)
    target = settings or str(settings_files.extension_file())
    if not as_json:
        console.write("".join(f"{line}\n" for line in _lines(result, changes)))
    if changes and not write and not as_json and console.is_interactive():
        write = console.confirm(f"Write them to {target}?")
    written = bool(changes) and write
    if written:
        for key, value in changes.items():
            settings_files.write(target, key, value)
    if as_json:
        document: dict[str, Any] = msgspec.to_builtins(result)
        console.write_json(
            {**document, "gains": result.gains, "pays": result.pays, "written": target if written else None}
        )
    elif written:
        console.write(f"written to {target}; they hold where the policy is priced\n")
    elif changes:
        console.write(f"nothing was written: --write puts them into {target}\n")


def _recordings(paths: tuple[str, ...]) -> list[Recording]:
    """The sessions in these paths, what several hold counted once.

    Raises:
        InputError: there is none.
    """
    from prunewise.replay import corpus
    from prunewise.replay.copies import each_once

    found: list[Recording] = []
    for source in corpus.find(paths).sources:
        try:
            found += corpus.load(source)
        except PrunewiseError as error:
            console.warn([f"left out: {error}"])
    if not found:
        message = "no session could be read: there is nothing to fit to"
        raise InputError(message)
    return each_once(found)


def _changes(result: Calibrated) -> dict[str, object]:
    """What would be written: settings that gain and pay, where they differ from the defaults."""
    from prunewise.settings import DEFAULTS, get

    after = msgspec.structs.replace(DEFAULTS, priced=result.settings)
    keys = [f"priced.{field.encode_name}" for field in msgspec.structs.fields(result.settings)]
    values = {key: get(after, key) for key in keys}
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in values.items()
        if value != get(DEFAULTS, key)
    }


def _lines(result: Calibrated, changes: dict[str, object]) -> list[str]:
    from prunewise.replay.totals import FEWEST

    recalls = f"{result.recalls_per_100_blocks:.1f}; by default {result.recalls_by_default:.1f}"
    more = " more" if result.worst < 0 else ""
    interval = f"{result.saved_low:.1%} to {result.saved_high:.1%} in 90% of resamples"
    lines = [
        f"fitted on {count(result.fitted_on, 'session')}, tried on {count(result.held_out, 'other')}",
        f"saved there: {result.saved:.1%} of the input cost ({interval}); by default {result.by_default:.1%}",
        "each with everything charged that may have been needed again",
        f"the difference is {100 * result.low:+.1f} to {100 * result.high:+.1f} points in 90% of resamples",
        f"the worst session there {'costs' if result.worst < 0 else 'saves'} {abs(result.worst):.1%}{more}",
        f"recalls for each 100 pruned blocks: {recalls}",
    ]
    if not result.held_out:
        lines = lines[:1]
    if result.held_out < FEWEST:
        return [*lines, f"the defaults stay: it takes {FEWEST} other sessions to tell"]
    if not result.pays:
        return [*lines, "the policy priced does not save there for certain: leave it off"]
    if not changes:
        return [*lines, "the defaults stay: the other half does not gain for certain"]
    shown = (f"  {key} = {msgspec.json.encode(value).decode()}" for key, value in changes.items())
    return [*lines, "settings:", *shown]


@contextmanager
def _told() -> Generator[Step]:
    """Who is told how far it is: a bar on a terminal, a plain line now and then elsewhere; on stderr."""
    if sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        yield _plainly()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, trials: shown.update(task, completed=done, total=trials)


def _plainly() -> Step:
    said = time.monotonic()

    def step(done: int, trials: int) -> None:
        nonlocal said
        if time.monotonic() - said >= EVERY_SECONDS:
            said = time.monotonic()
            console.complain(f"{done:,} of {count(trials, 'trial')}")

    return step
