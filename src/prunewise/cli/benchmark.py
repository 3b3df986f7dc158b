"""`prunewise benchmark`: what pruning would have saved, cost and lost on recorded sessions. Reads only."""

from __future__ import annotations

import json
import os
import re
import time
import tomllib
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from prunewise.cli import completion, console
from prunewise.cli.console import complain
from prunewise.cli.progress import progress
from prunewise.errors import InputError, SettingsError
from prunewise.formats.detect import READERS
from prunewise.settings import DEFAULTS
from prunewise.wording import count

if TYPE_CHECKING:
    from prunewise.prices import PriceBook
    from prunewise.replay.corpus import Listing, Source
    from prunewise.replay.journal import Journal, Rows
    from prunewise.replay.results import ErrorRow
    from prunewise.replay.runner import Choice, Inquiry
    from prunewise.replay.totals import Totals

_EXTRA = ("numpy", "platformdirs", "portalocker")
_DEFAULT_POLICIES = ("none", "documented", "two-level", "both", "priced", "langchain", "optimal")
_NONE, _OPTIMAL, _CEILING = "none", "optimal", "ceiling"
_BOTH = "both"
_FILE = click.Path(path_type=Path)
_FORMATS = tuple(READERS)
_DEFAULT_RATIOS = (0.1,)


def _ratio(text: str, option: click.Parameter, context: click.Context) -> float:
    with suppress(ValueError):
        if 0 <= float(text) <= 1:
            return float(text)
    message = f"{text!r} is no number from 0 to 1."
    raise click.BadParameter(message, context, option)


def _ratios(context: click.Context, option: click.Parameter, values: Sequence[str]) -> tuple[float, ...]:
    """Each value is one ratio, or several between commas."""
    ratios = tuple(_ratio(one, option, context) for value in values for one in value.split(","))
    return tuple(dict.fromkeys(ratios)) or _DEFAULT_RATIOS


def _seconds(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """A number of seconds, of minutes or of hours."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", value.strip())
    if found is None:
        message = f"{value!r} is no time such as 300, 5m or 1h."
        raise click.BadParameter(message, context, option)
    return float(found[1]) * {"m": 60, "h": 3600}.get(found[2], 1)


@click.command(
    short_help="What pruning would have saved, cost and lost.",
    epilog="Example: prunewise benchmark --html report.html",
)
@click.argument("paths", nargs=-1)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="POLICY",
    shell_complete=completion.policies,
    help="Compare this policy: a name, or a settings file. Without any: documented, two-level, both, "
    "priced, langchain and optimal.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N files found.")
@click.option("--since", metavar="WHEN", help="Only sessions used since: 2026-03-01, 12h, 30d or 8w.")
@click.option(
    "--project",
    metavar="TEXT",
    help="Only sessions of projects whose folder matches: a part of its path, or a glob.",
)
@click.option(
    "--format",
    "_format",
    type=click.Choice(_FORMATS),
    metavar="NAME",
    help=f"What wrote the files: {', '.join(_FORMATS)}.",
)
@click.option("--no-compaction", is_flag=True, help="Read pi's sessions as if pi had never compacted.")
@click.option(
    "--ratio",
    "ratios",
    multiple=True,
    callback=_ratios,
    metavar="R",
    help="Sweep thresholds at this ratio of cached to base input price, or these with commas between. "
    "Without any: 0.1.",
)
@click.option(
    "--sweep-max", type=click.IntRange(min=1), default=480, show_default=True, metavar="N",
    help="The highest threshold of the sweep.",
)  # fmt: skip
@click.option("--prices", type=_FILE, metavar="FILE", help="Prices of your own, JSON or TOML.")
@click.option("--read", type=click.FloatRange(min=0), metavar="R", help="A cached token's price.")
@click.option("--write", type=click.FloatRange(min=0), metavar="R", help="A written token's price.")
@click.option("--ttl", callback=_seconds, metavar="TIME", help="How long a cache lives: 300, 5m or 1h.")
@click.option(
    "--window", type=click.IntRange(min=1), default=200_000, show_default=True, metavar="N",
    help="The model's window in tokens.",
)  # fmt: skip
@click.option(
    "--reserve", type=click.IntRange(min=0), default=16_384, show_default=True, metavar="N",
    help="Tokens of it that are to stay free.",
)  # fmt: skip
@click.option("--no-loss", is_flag=True, help="Do not look for information that would have been missed.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many processes, if not one a core for a long run.",
)
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster: a scheduler's address, or `local`.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run of the same question stopped.")
@click.option("--details", "--verbose", is_flag=True, help="Print all figures, not the answer alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document.")
@click.option("--parquet", type=_FILE, metavar="FILE", help="Write a row a session and policy.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write the report as one page with plots.")
@click.option("--share", is_flag=True, help="Leave every path and text out of all that is written.")
@click.option("--events", is_flag=True, help="Print what the sessions needed again, as JSON lines, and end.")
def benchmark(
    *,
    paths: tuple[str, ...],
    policies: tuple[str, ...],
    limit: int | None,
    since: str | None,
    project: str | None,
    _format: str | None,
    no_compaction: bool,
    ratios: tuple[float, ...],
    sweep_max: int,
    prices: Path | None,
    read: float | None,
    write: float | None,
    ttl: float | None,
    window: int,
    reserve: int,
    no_loss: bool,
    jobs: int | None,
    dask: str | None,
    resume: bool,
    details: bool,
    as_json: bool,
    parquet: Path | None,
    html: Path | None,
    share: bool,
    events: bool,
) -> None:
    """Replay recorded sessions, and show what pruning would have saved, cost and lost.

    PATHS are files, folders, globs or URLs; without any, the sessions of every known agent on this machine.
    """
    _need_extra(parquet, html)
    from prunewise import shell
    from prunewise.prices import PriceBook
    from prunewise.replay import corpus, runner

    if events and (as_json or parquet or html or share):
        message = "--events prints texts alone: it goes with none of --json, --parquet, --html and --share."
        raise click.UsageError(message)
    selection = corpus.Selection(None if since is None else corpus.since(since, time.time()), project or "")
    choices, active = _policies(policies)
    if (problem := shell.problem()) and any(_is_priced(choice) for choice in choices):
        console.warn([problem])
    inquiry = runner.Inquiry(
        tuple(choice for choice in choices if choice.name not in (_OPTIMAL, _CEILING)),
        with_optimal=not policies or _OPTIMAL in policies,
        with_ceiling=_CEILING in policies and not no_loss,
        with_loss=not no_loss,
        with_timeline=html is not None,
        prices=_prices(prices, read, write, ttl),
        window=window,
        reserve=reserve,
        format=_format,
        compaction=not no_compaction,
        selection=selection,
    )
    listing = _find(paths)
    sources = listing.sources[:limit]
    if events:
        _print_events(sources, inquiry)
        return
    with _journal(inquiry, resume=resume) as journal:
        problems = _run(sources, inquiry, journal, jobs or _jobs(sources), dask)
        _warn([*listing.problems, *problems], share=share)
        rows = journal.rows(sources)
        totals = _gather(rows, ratios, sweep_max, active)
        if not (paths or limit or since or project or _format or no_loss) and inquiry.prices == PriceBook():
            _remember(totals)
        if parquet:
            _write_parquet(rows, parquet, share=share)
        if html:
            _write_html(totals, rows, html, share=share)
        _print(totals, as_json=as_json, share=share, details=details)


def _need_extra(parquet: Path | None, html: Path | None) -> None:
    needed = (*_EXTRA, *(("pyarrow",) if parquet else ()), *(("jinja2", "matplotlib") if html else ()))
    if not all(find_spec(name) for name in needed):
        message = "`benchmark` needs its extra: pip install 'prunewise[cli,replay]'"
        raise InputError(message)
    for file in (parquet, html):
        if file is not None and not file.absolute().parent.is_dir():
            message = f"{file}: there is no folder {file.parent}"
            raise InputError(message)


# ---------------------------------------------------------------- what is asked


def _policies(names: Sequence[str]) -> tuple[list[Choice], str]:
    """The policies to compare, and the name of the one that the user's settings stand for."""
    from prunewise.replay.report.words import YOURS
    from prunewise.replay.runner import Choice, choose
    from prunewise.stores.settings_files import load

    choices: list[Choice] = []
    for name in dict.fromkeys((_NONE, *(names or _DEFAULT_POLICIES))):
        choice = Choice(name) if name in (_OPTIMAL, _CEILING) else choose(name)
        if any(choice.name == other.name for other in choices):
            choice = Choice(name, choice.settings)
        choices.append(choice)
    loaded = load()
    console.warn(loaded.warnings)
    mine = loaded.settings
    if msgspec.structs.replace(mine, window=None, reserve=DEFAULTS.reserve) == DEFAULTS:
        active = Choice(_BOTH)
    else:
        active = next((one for one in choices if one.settings == mine), Choice(YOURS, mine))
    if active not in choices:
        choices.append(active)
    return choices, active.name


def _is_priced(choice: Choice) -> bool:
    return choice.name in ("priced", "ski") if choice.settings is None else choice.settings.policy == "priced"


def _prices(file: Path | None, read: float | None, write: float | None, ttl: float | None) -> PriceBook:
    from prunewise.prices import PriceBook

    book = PriceBook() if file is None else _price_file(file)
    given = {"read": read, "write": write, "write_1h": write, "ttl": ttl}
    known = {name: value for name, value in given.items() if value is not None}
    if not known:
        return book
    every = msgspec.structs.replace(book.every, **known)
    models = tuple((glob, msgspec.structs.replace(one, **known)) for glob, one in book.models)
    return PriceBook(every, models)


def _price_file(file: Path) -> PriceBook:
    from prunewise.prices import parse_prices

    try:
        return parse_prices(_decoded(file))
    except SettingsError as error:
        message = f"{file}: {error}"
        raise SettingsError(message) from None


def _decoded(file: Path) -> dict[str, Any]:
    try:
        data = file.read_bytes()
        if file.suffix == ".toml":
            return tomllib.loads(data.decode())
        return msgspec.json.decode(data, type=dict[str, Any])
    except OSError as error:
        message = f"{file}: {(error.strerror or str(error)).lower()}"
        raise InputError(message) from None
    except (ValueError, msgspec.MsgspecError) as error:
        message = f"{file}: {error}"
        raise InputError(message) from None


def _find(paths: Sequence[str]) -> Listing:
    from prunewise.replay.corpus import find, find_known

    if paths:
        listing = find(paths)
        if not listing.sources and not listing.problems:
            message = f"{', '.join(paths)}: no session files"
            raise InputError(message)
        return listing
    listing = find_known(os.environ, Path.home())
    for folder in listing.folders:
        complain(f"{folder.agent}: {count(folder.files, 'file')} in {folder.path}")
    if not listing.sources:
        message = "no agent's sessions were found on this machine: name files or folders"
        raise InputError(message)
    return listing


def _print_events(sources: Sequence[Source], inquiry: Inquiry) -> None:
    """What each session needed again: a matter of the session alone, whatever the policy."""
    from prunewise.replay.corpus import load, reason
    from prunewise.replay.needs import describe, needs_of

    for source in sources:
        if not inquiry.selection.may_hold(source):
            continue
        try:
            for recording in load(source, inquiry.format, compaction=inquiry.compaction):
                if not inquiry.selection.takes(recording, source):
                    continue
                console.write(
                    "".join(
                        json.dumps(
                            {
                                "source": recording.source,
                                "session": recording.session,
                                "epoch": number,
                                **describe(need, recording.epochs[number]),
                            }
                        )
                        + "\n"
                        for number, needs in enumerate(needs_of(recording))
                        for need in needs
                    )
                )
        except click.exceptions.Exit:
            raise
        except Exception as error:  # noqa: BLE001 - one bad file must not end the run
            complain(f"warning: {source.name}: {reason(error, source.name)}")


# ---------------------------------------------------------------- the run

_WORKER_BYTES = 2 * 2**20
"""What a process replays in about the time that it takes to start one."""


def _jobs(sources: Sequence[Source]) -> int:
    """As many processes as there are cores, where there is enough to do for them."""
    return min(os.cpu_count() or 1, 1 + sum(source.size for source in sources) // _WORKER_BYTES)


@contextmanager
def _journal(inquiry: Inquiry, *, resume: bool) -> Generator[Journal]:
    from prunewise.replay.journal import open_journal
    from prunewise.replay.outcome import cache_folder

    folder = cache_folder()
    assert folder is not None  # its library is among those that this command asks for
    journal, problem = open_journal(folder, inquiry.digest(), resume=resume)
    if problem:
        complain(f"warning: {problem}; this run cannot be resumed")
    try:
        yield journal
    finally:
        journal.close()


def _run(
    sources: Sequence[Source], inquiry: Inquiry, journal: Journal, jobs: int, dask: str | None
) -> list[ErrorRow]:
    """Replay what the journal does not know yet; what could not be replayed."""
    from prunewise.replay.results import ErrorRow
    from prunewise.replay.runner import run

    known = sum(source in journal for source in sources)
    if known:
        complain(f"going on: {known:,} of {count(len(sources), 'file')} are done already")
    problems: list[ErrorRow] = []
    any_session = False
    try:
        with progress() as pace:
            for row in run(sources, inquiry, jobs=jobs, dask=dask, journal=journal, progress=pace):
                if isinstance(row, ErrorRow):
                    problems.append(row)
                else:
                    any_session = True
    except KeyboardInterrupt:
        complain(f"interrupted after {count(len(journal), 'file')}: --resume goes on from here")
        raise
    if not any_session:
        console.warn([f"{row.source}: {row.reason}" for row in problems])
        message = (
            "no session could be replayed"
            if problems
            else "no session is of the time and project that were asked for"
        )
        raise InputError(message)
    return sorted(problems, key=lambda row: row.source)


def _warn(problems: Sequence[ErrorRow], *, share: bool) -> None:
    if share and problems:
        complain(f"warning: {count(len(problems), 'file')} could not be replayed")
    elif not share:
        console.warn([f"{row.source}: {row.reason}" for row in problems])


# ---------------------------------------------------------------- reports


def _gather(rows: Rows, ratios: Sequence[float], sweep_max: int, active: str) -> Totals:
    from prunewise.replay import totals

    return totals.gather(rows, ratios, sweep_max, active)


def _remember(totals: Totals) -> None:
    """Keep what all of the user's sessions came to: `pi doctor` and the status in pi tell it."""
    from datetime import UTC, datetime

    from prunewise.replay import outcome

    found = outcome.outcome_of(totals, datetime.now(UTC).date().isoformat())
    folder = outcome.cache_folder()
    if found is not None and folder is not None:
        outcome.keep(found, folder)


def _write_parquet(rows: Rows, path: Path, *, share: bool) -> None:
    from prunewise.replay.report import parquet

    with _naming(path):
        for written in parquet.write(rows, path, share=share):
            complain(f"written: {written}")


def _write_html(totals: Totals, rows: Rows, path: Path, *, share: bool) -> None:
    from prunewise.replay.report import html

    with _naming(path):
        html.write(totals, rows, path, share=share)
        complain(f"written: {path}")


@contextmanager
def _naming(path: Path) -> Generator[None]:
    """A file that cannot be written is the user's to see to."""
    try:
        yield
    except OSError as error:
        message = f"{path}: {(error.strerror or str(error)).lower()}"
        raise InputError(message) from None


def _print(totals: Totals, *, as_json: bool, share: bool, details: bool) -> None:
    if as_json:
        from prunewise.replay.report import document

        console.write_json(document.to_json(totals, share=share))
        return
    from prunewise.replay.report import share as sharing
    from prunewise.replay.report import terminal

    shown = sharing.anonymous(totals) if share else totals
    console.show(console.stdout(), *terminal.parts(shown, details=details))
