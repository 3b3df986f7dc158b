"""`calibrate`: fit the priced policy to the user's own sessions, and say what that would bring."""

from __future__ import annotations

import click
import msgspec

from prunewise.cli import console
from prunewise.errors import PrunewiseError
from prunewise.wording import count


@click.command(epilog="Example: prunewise calibrate ~/.pi/agent/sessions")
@click.argument("paths", nargs=-1, required=True, metavar="PATHS...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def calibrate(*, paths: tuple[str, ...], as_json: bool) -> None:
    """Fit the priced policy's settings to recorded sessions.

    They are fitted on one half of the sessions in PATHS (files, folders or globs), and tried on the other.
    Nothing is written: the settings are printed, for the settings file.
    """
    from prunewise.recording import Recording
    from prunewise.replay import corpus
    from prunewise.replay.calibrate import calibrate as fit
    from prunewise.replay.session import Question

    found: list[Recording] = []
    for source in corpus.find(paths).sources:
        try:
            found += corpus.load(source)
        except PrunewiseError as error:
            console.warn([f"left out: {error}"])
    result = fit(found, Question(()))
    if as_json:
        console.write_json(msgspec.to_builtins(result))
        return
    lines = [
        f"fitted on {count(result.fitted_on, 'session')}, tried on {count(result.held_out, 'other')}",
        f"saved there: {result.saved:.1%} of the input cost; by default {result.by_default:.1%}",
        f"the difference is {result.low:+.1%} to {result.high:+.1%} in 90% of resamples",
        f"recalls for each 100 pruned blocks: {result.recalls_per_100_blocks:.1f}",
        "the defaults stay: the other half does not gain for certain",
    ]
    if result.gains:
        settings = msgspec.json.encode({"policy": "priced", "priced": result.settings})
        lines[-1] = f"settings: {settings.decode()}"
    console.write("".join(f"{line}\n" for line in lines))
