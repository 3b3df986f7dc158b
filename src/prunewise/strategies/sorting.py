"""What kind of output an exchange has, and which files it reads or changes, shell commands read too."""

from __future__ import annotations

import re
from typing import Any, cast

from prunewise import outcomes, shell, tools
from prunewise.tools import FileOperation, Sort
from prunewise.transcript import Exchange, Transcript

_SHELL_WORDS = 3
"""`["bash", "-lc", SCRIPT]`: how a command may come as a list."""
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash", "ksh"})

_CONTEXT = ("context", "-C", "-A", "-B", "before", "after")
_MUCH_CONTEXT = 10

_IN_A_PROGRAM = re.compile(r"""\bcmd["']?\s*:\s*(["'`])((?:\\.|(?!\1).)*)\1""", re.DOTALL)
"""The command in the program that Codex's `exec` runs."""

_HARMLESS = frozenset(
    {
        *("command", "cmd", "description", "explanation", "justification", "timeout", "timeout_ms"),
        *("timeoutMs", "yield_time_ms", "max_output_tokens", "max_output_length", "login", "tty"),
    }
)
"""Arguments of a shell tool that leave open neither what runs nor whether it has ended."""


def script_of(exchange: Exchange, transcript: Transcript, *, certain: bool = False) -> shell.Script | None:
    """What the command of a shell tool does; None for any other tool. With `certain`, only what does not
    hang on a folder that commands before it may have left.
    """
    call, vocabulary = exchange.call, transcript.vocabulary
    if call.name.lower() not in vocabulary.shell:
        return None
    command = _command(call.arguments, vocabulary)
    if command is None:
        return shell.UNKNOWN
    folder, is_known = tools.folder_of(call.arguments, transcript.cwd)
    if not certain:
        return shell.read(command, folder)
    is_given = folder != transcript.cwd
    return shell.read(command, folder, lost=not (is_known and (is_given or vocabulary.fresh_shell)))


def _command(arguments: Any, vocabulary: tools.Vocabulary) -> str | None:
    command = arguments.get(vocabulary.command)
    if command is None:
        command = arguments.get("command")
    if isinstance(command, list):
        words = cast("list[object]", command)
        is_script = len(words) == _SHELL_WORDS and words[1] in ("-lc", "-c")
        is_script = is_script and str(words[0]).rpartition("/")[2] in _SHELLS
        command = words[2] if is_script else None
    if command is None and isinstance(arguments.get("input"), str):
        found = _IN_A_PROGRAM.findall(arguments["input"])
        command = found[0][1] if len(found) == 1 else None
    return command if isinstance(command, str) else None


def sort_of(exchange: Exchange, transcript: Transcript) -> Sort:
    """What kind of output an exchange has."""
    script, call = script_of(exchange, transcript), exchange.call
    sort = tools.sort_of(transcript.vocabulary, call.name, call.arguments) if script is None else script.sort
    return "read" if sort == "search" and _shows_context(exchange) else sort


def _shows_context(exchange: Exchange) -> bool:
    """Whether a search was asked for so many lines around each hit that it shows files."""
    given = (exchange.call.arguments.get(name) for name in _CONTEXT)
    return any(isinstance(value, int | float) and value >= _MUCH_CONTEXT for value in given)


def operations_of(exchange: Exchange, transcript: Transcript) -> tuple[FileOperation, ...]:
    """The files that an exchange names to read or change, whether or not it has done so. None where its
    output only refers back.
    """
    if exchange.operation is not None:
        return (exchange.operation,)
    if exchange.refers_back:
        return ()
    script = script_of(exchange, transcript)
    return () if script is None else script.operations


def named_by(exchange: Exchange, transcript: Transcript) -> tuple[FileOperation, ...]:
    """The files that a shell command names, those of commands that may never have run too."""
    script = script_of(exchange, transcript)
    return () if script is None else (*script.operations, *script.perhaps)


def is_proven(exchange: Exchange, transcript: Transcript) -> bool:
    """Whether a shell command has certainly ended with exit code 0, and complains of nothing."""
    call, vocabulary, text = exchange.call, transcript.vocabulary, exchange.result.text
    if exchange.outcome != "succeeded" or outcomes.complains(text) or call.name.lower() == "powershell":
        return False
    is_plain = all(
        not value or key in _HARMLESS or tools.names_folder(key) for key, value in call.arguments.items()
    )
    if not is_plain:
        return False
    return vocabulary.flags_failures or outcomes.exit_code(text) == 0
