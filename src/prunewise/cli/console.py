"""How commands write: results on stdout, warnings on stderr, colours only on a terminal.

On a terminal and off it the layout is the same; off it lines are plain text, 80 columns wide unless
COLUMNS says otherwise. Text from sessions is never trusted: control characters come out as escapes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import click

from prunewise.wording import one_line

if TYPE_CHECKING:  # rich takes a while to import, and JSON does without it
    from rich.console import Console, RenderableType
    from rich.text import Text

MOST_WARNINGS = 10
PIPE_CLOSED = 141
"""The exit code where nobody reads the output any more, as a shell sees a program that SIGPIPE has ended."""
_LONGEST_CELL = 400
_INDENT = 2
_GAP = 2
_NARROWEST = 8
_USUAL_WIDTH = 80


class Column(NamedTuple):
    """A column of a table. The one that is `flexible` gives way where the line gets too long."""

    head: str
    align: Literal["left", "right"] = "left"
    style: str = ""
    flexible: bool = False


TOKENS = Column("tokens", "right")
WHAT = Column("what", flexible=True)


def write(text: str) -> None:
    """Write to stdout exactly this; where nobody reads it any more, the program ends."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - it is where it was closed before
        return
    try:
        sys.stdout.flush()
        # Bytes, because a text stream that is not buffered passes over what a pipe did not take at once.
        rest = memoryview(text.encode(sys.stdout.encoding, "backslashreplace"))
        while rest:
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
        raise click.exceptions.Exit(PIPE_CLOSED) from None


def give_up_stdout() -> None:
    """Let the interpreter's own last flush go nowhere, so that it has nothing to complain about."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(line: str) -> None:
    """Write a line to stderr, whatever is in it."""
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - as above
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{one_line(line)}\n")


def cell(text: str) -> str:
    """A piece of a session's text as it stands in a table: on one line, and not endless."""
    return one_line(text[:_LONGEST_CELL])


def stdout() -> Console:
    """Where results go."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    if console.width < 1:  # a terminal, or a COLUMNS, that says it has no columns means that it does not know
        console.width = _USUAL_WIDTH
    return console


def show(console: Console, *parts: RenderableType) -> None:
    """Write the parts. Lines end where their text ends, on a terminal or not."""
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=bool(getattr(part, "no_wrap", None)))
    text = captured.get()
    if not console.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    write(text)


def unbroken(text: str, style: str = "") -> RenderableType:
    """A line that is to be copied or searched for: it stays one line, however long it is."""
    from rich.text import Text

    return Text(one_line(text), style, no_wrap=True, overflow="ignore")


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    widths: Sequence[int] | None = None,
    styles: Sequence[str] = (),
) -> RenderableType:
    """A table without lines; every row is one line of text. Tables of the same widths line up.

    `styles` are those of the rows.
    """
    from rich.text import Text

    if widths is None:
        widths = fitted(stdout(), columns, rows)
    lines = [
        _line([column.head for column in columns], [one._replace(style="") for one in columns], widths, "dim")
    ]
    lines += [
        _line(row, columns, widths, style)
        for row, style in zip_longest(rows, styles[: len(rows)], fillvalue="")
    ]
    return Text("\n", no_wrap=True, overflow="ignore").join(lines)


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], style: str) -> Text:
    from rich.text import Text

    line = Text(" " * _INDENT, style)
    for index, (text, column, width) in enumerate(zip(cells, columns, widths, strict=True)):
        line.append(" " * _GAP if index else "")
        line.append(_padded(text, column, width), column.style or None)
    return line


def _padded(text: str, column: Column, width: int) -> str:
    from rich.cells import cell_len

    text = elided(text, width)
    room = " " * (width - cell_len(text))
    return f"{room}{text}" if column.align == "right" else f"{text}{room}"


def elided(text: str, width: int) -> str:
    """The text without its middle, where it is too wide: of a path or a command both ends tell most."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    # The one that the process was started with: Textual puts something without an encoding in its place.
    encoding = (getattr(sys.__stdout__, "encoding", None) or "").lower()
    mark = "…" if encoding.startswith("utf") else "..."
    room = max(width - len(mark), 0)
    tail = room * 2 // 3
    return set_cell_size(text, room - tail) + mark + set_cell_size(text[::-1], tail)[::-1]


def fitted(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column for these rows, the flexible one narrowed until the line has room."""
    from rich.cells import cell_len

    widths = [
        max(cell_len(column.head), *(cell_len(row[index]) for row in rows), 0)
        for index, column in enumerate(columns)
    ]
    room = console.width - _INDENT - _GAP * (len(columns) - 1)
    for index, column in enumerate(columns):
        if column.flexible:
            widths[index] = max(min(widths[index], room - sum(widths) + widths[index]), _NARROWEST)
    return widths


def write_json(document: dict[str, Any]) -> None:
    """One JSON document, in ASCII: valid under every encoding, and with half a character in it too."""
    try:
        text = json.dumps(document, indent=2, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(document), indent=2)
    write(f"{text}\n")


def _finite(value: Any) -> Any:
    """The value with null for numbers that JSON has not, which a session's arguments may hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in cast("Mapping[str, Any]", value).items()}
    return [_finite(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def warn(messages: Sequence[str]) -> None:
    """Write warnings: the first few, and how many more there are."""
    for message in messages[:MOST_WARNINGS]:
        complain(f"warning: {message}")
    more = len(messages) - MOST_WARNINGS
    if more > 0:
        complain(f"warning: and {more:,} more")


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def has_errors_on_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def is_interactive() -> bool:
    """Whether somebody is there to be asked."""
    return is_terminal() and sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def ask(question: str) -> str | None:
    """The answer to a question, trimmed; None where there is none to come."""
    write(question)
    answer = sys.stdin.readline()
    if not answer:
        write("\n")
        return None
    return answer.strip()


def confirm(question: str) -> bool:
    """Whether the answer begins with y."""
    answer = ask(f"{question} [y/N] ")
    return answer is not None and answer[:1].lower() == "y"
