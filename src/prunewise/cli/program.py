"""The program as a whole: its commands, its exit codes, and what becomes of an error.

An error that prunewise raises on purpose is one line on stderr. So is one that nobody foresaw; its
traceback is shown where PRUNEWISE_DEBUG is set.
"""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable, Sequence

import click

from prunewise import __version__
from prunewise.cli import overview
from prunewise.cli.benchmark import benchmark
from prunewise.cli.calibrate import calibrate
from prunewise.cli.completion import completion
from prunewise.cli.console import complain, give_up_stdout
from prunewise.cli.pi import pi
from prunewise.cli.plan import plan
from prunewise.cli.prune import prune
from prunewise.cli.recall import recall
from prunewise.errors import PrunewiseError

INPUT_AT_FAULT = 1
INTERRUPTED = 130
DEBUG_VARIABLE = "PRUNEWISE_DEBUG"
_UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF)


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: prunewise plan examples/session.jsonl",
)
@click.version_option(__version__, prog_name="prunewise", message="%(prog)s %(version)s")
@click.pass_context
def program(context: click.Context) -> None:
    """Say which old tool outputs of an agent's session can go, and whether that pays.

    Without a command it says what there is on this machine, and how to go on.
    """
    if context.invoked_subcommand is None:
        overview.show()


for command in (plan, prune, recall, benchmark, calibrate, pi, completion):
    program.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program and give its exit code. Nothing is raised."""
    try:
        return _guarded(lambda: _command(arguments))
    except KeyboardInterrupt:
        return _interrupted()


def _command(arguments: Sequence[str] | None) -> int:
    given = None if arguments is None else list(arguments)
    code: object = program.main(given, prog_name="prunewise", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _guarded(command: Callable[[], int]) -> int:
    """The exit code of a command; whatever it raises is said on stderr."""
    try:
        return command()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return _interrupted()
    except PrunewiseError as error:
        return _fail(str(error))
    except Exception as error:  # noqa: BLE001 - nobody is above who could do better
        return _fail_unforeseen(error)


def _fail(message: str) -> int:
    complain(f"prunewise: {message}")
    return INPUT_AT_FAULT


def _fail_unforeseen(error: Exception) -> int:
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITABLE:
        give_up_stdout()
        return _fail(f"the output cannot be written, {os.strerror(error.errno).lower()}")
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    hint = f"this is a fault of prunewise: please report it with what {DEBUG_VARIABLE}=1 shows"
    return _fail(f"{type(error).__name__}: {error} ({hint})")


def _interrupted() -> int:
    complain("")
    return INTERRUPTED
