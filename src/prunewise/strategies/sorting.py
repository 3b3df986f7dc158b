"""What kind of output an exchange has, and which files it reads or changes, shell commands read too."""

from __future__ import annotations

from typing import cast

from prunewise import shell, tools
from prunewise.tools import FileOperation, Sort
from prunewise.transcript import Exchange, Transcript

_SHELL_WORDS = 3
"""`["bash", "-lc", SCRIPT]`: how a command may come as a list."""

_CONTEXT = ("context", "-C", "-A", "-B", "before", "after")
_MUCH_CONTEXT = 10


def script_of(exchange: Exchange, transcript: Transcript) -> shell.Script | None:
    """What the command of a shell tool does; None for any other tool."""
    call, vocabulary = exchange.call, transcript.vocabulary
    if call.name.lower() not in vocabulary.shell:
        return None
    command = call.arguments.get(vocabulary.command)
    if command is None:
        command = call.arguments.get("command")
    if isinstance(command, list):
        words = cast("list[object]", command)
        if len(words) == _SHELL_WORDS and words[1] in ("-lc", "-c"):
            command = words[2]
    if not isinstance(command, str):
        return shell.UNKNOWN
    folder = call.arguments.get("workdir")
    return shell.read(command, folder if isinstance(folder, str) and folder else transcript.cwd)


def sort_of(exchange: Exchange, transcript: Transcript) -> Sort:
    """What kind of output an exchange has."""
    script = script_of(exchange, transcript)
    sort = tools.sort_of(transcript.vocabulary, exchange.call.name) if script is None else script.sort
    return "read" if sort == "search" and _shows_context(exchange) else sort


def _shows_context(exchange: Exchange) -> bool:
    """Whether a search was asked for so many lines around each hit that it shows files."""
    given = (exchange.call.arguments.get(name) for name in _CONTEXT)
    return any(isinstance(value, int | float) and value >= _MUCH_CONTEXT for value in given)


def operations_of(exchange: Exchange, transcript: Transcript) -> tuple[FileOperation, ...]:
    """The files that an exchange is known to read or change. None where its output only refers back."""
    if exchange.operation is not None:
        return (exchange.operation,)
    if exchange.refers_back:
        return ()
    script = script_of(exchange, transcript)
    return () if script is None else script.operations


def only_reads(exchange: Exchange, transcript: Transcript) -> bool:
    """Whether its output is nothing but lines of the files that it reads."""
    if exchange.operation is not None:
        return exchange.operation.action == "read"
    script = script_of(exchange, transcript)
    return script is not None and script.only_reads
