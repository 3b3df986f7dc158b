"""Marker texts: what stands in for a pruned output, and the one grammar by which a marker is known.

A marker opens with `[prunewise: `, says on its first line what was left out and why, and ends that
line with `; recall REFERENCE for all of it]`. It states facts only, and never looks like content
that belongs into a file. Knows no store: the reference comes in as an argument.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from prunewise.canonical import canonical
from prunewise.holding import holding
from prunewise.tokens import utf16_length
from prunewise.tools import FileOperation, Vocabulary
from prunewise.transcript import Exchange, Shell, Text, ToolResult
from prunewise.wording import count

INPUT_KEY = "pruned"
"""The one key of the JSON object that stands in for an input that was purged here."""

OPENING = "[prunewise: "
"""How every marker begins."""

SUMMARY_LINES = 10
"""How many lines a shell summary keeps at each end."""
SUMMARY_WIDTH = 200
"""The longest line of a shell summary, in characters."""

_FOREIGN_INPUT = '{"pruned":true,'
_FIRST_LINE = re.compile(r"\[prunewise: [^\n]*; recall (?P<reference>\S+) for all of it\](?=\n|\Z)")
_POINTER = re.compile(
    r"\[prunewise: [^\n]*? output: the same (?P<characters>[\d,]+) characters as an earlier"
)
_EXIT_CODE = re.compile(r"Command exited with code (\d+)\s*\Z")
FULL = ":full"
"""The suffix of a reference that asks for all of an output, however long it is."""

_NO_REFERENCE = re.compile(rf"[\s\[\]]|\A\Z|{FULL}\Z")

DUPLICATE = "a newer call with the same arguments follows"
READ_AGAIN = "the file was read again later"
CHANGED_AFTER = "the file was changed later"
CHANGED_AGAIN = "the file was changed again later"
FAILED_INPUT = "this call failed long ago; its error message stays"
OLD = "it is old"
BY_USER = "at the user's wish"


def foreign_output(reason: str, result: ToolResult) -> str:
    """What the TypeScript extension sends for an output where its decision holds no text."""
    characters = sum(utf16_length(part.text) for part in result.content if isinstance(part, Text))
    return f"[pruned by dynamic-context-pruning: {reason} ({characters} chars removed)]"


def foreign_input(reason: str) -> str:
    """What it sends for the input of a failed call, as `input_object` reads it."""
    return canonical({INPUT_KEY: True, "reason": reason})


def input_object(text: str) -> dict[str, Any]:
    """The JSON object that stands in for a purged input: this text under one key, or what the TypeScript
    extension sends.
    """
    return json.loads(text) if text.startswith(_FOREIGN_INPUT) else {INPUT_KEY: text}


def is_reference(text: str) -> bool:
    """Whether a marker can carry this text as its recall reference."""
    return _NO_REFERENCE.search(text) is None


def reference_in(text: str) -> str | None:
    """The recall reference of a marker; None where the text is in no marker's form. A text in that form is
    a marker only where the ledger says that it was put there: outputs may imitate one.
    """
    if not text.startswith(OPENING):
        return None
    found = _FIRST_LINE.match(text)
    return found["reference"] if found else None


def output(
    tool: str, characters: int, reason: str, reference: str, *, images: int = 0, files: int = 0
) -> str:
    """The marker of a tool's output that a strategy or a person let go, its images and files with it."""
    before, behind = _frame(tool, "output", reason)
    attached = f" and {count(images, 'image')}" if images else ""
    attached += f" and {count(files, 'file')}" if files else ""
    return f"{before}{characters:,} characters{attached}{behind}{reference} for all of it]"


def purged_input(tool: str, characters: int, reason: str, reference: str) -> str:
    """The marker of a call's input; it stands as the only value of the input object."""
    before, behind = _frame(tool, "input", reason)
    return f"{before}{characters:,} characters{behind}{reference} for all of it]"


def without_noise(tool: str, text: str, left: str, reference: str) -> str:
    """What stands for an output of which only what is proven to be noise was left out."""
    facts = f"{count(text.count(chr(10)) + 1, 'line')}, {_size(text)}, noise left out"
    return f"{OPENING}{_name(tool)} output: {facts}; {_recall(reference)}]\n{left}"


def pointer(tool: str, text: str, reference: str) -> str:
    """What stands for an output that is byte for byte an earlier one. True whatever becomes of that one."""
    facts = f"the same {_size(text)} as an earlier output"
    return f"{OPENING}{_name(tool)} output: {facts}; {_recall(reference)}]"


def characters_of(pointer: str) -> int | None:
    """How many characters the output has that a pointer leads to; None where the text is no pointer."""
    found = _POINTER.match(pointer)
    return int(found["characters"].replace(",", "")) if found else None


@lru_cache(maxsize=1024)
def _frame(tool: str, what: str, reason: str) -> tuple[str, str]:
    """What stands before the size and between size and reference: few for many markers."""
    return f"{OPENING}{_name(tool)} {what} (", f") left out, {_line(reason)}; recall "


def masked_read(operation: FileOperation, text: str, reference: str, *, names_lines: bool = True) -> str:
    """Masking's marker of a read: a pointer to the file, its lines where they are known, the old content."""
    first = int(operation.first)
    # The output may end before the lines that were asked for, or go on behind them with the tool's own note.
    last = int(max(first, min(operation.last, first + text.count("\n"))))
    lines = f"lines {first}-{last}, " if names_lines else ""
    return (
        f"[prunewise: read output left out: {_line(operation.path)}, {lines}{_size(text)}; "
        f"{_recall(reference)}]\n"
        "Read the file again with the read tool for what it holds now; recall gives this old content exactly."
    )


def masked_shell(command: str, exit_code: int | None, text: str, reference: str) -> str:
    """Masking's marker of a shell output: what ran, how it ended, the first and last lines."""
    lines = text.split("\n")
    ended = "exit code not known" if exit_code is None else f"exit code {exit_code}"
    kept = [_line(line) for line in lines]
    if len(lines) > 2 * SUMMARY_LINES:
        gap = f"[prunewise: {len(lines) - 2 * SUMMARY_LINES:,} lines left out here]"
        kept = [*kept[:SUMMARY_LINES], gap, *kept[-SUMMARY_LINES:]]
    facts = f"{ended}, {len(lines):,} lines, {_size(text)}"
    head = f"[prunewise: shell output shortened: {facts}; {_recall(reference)}]"
    return "\n".join((head, f"$ {_line(command)}", *kept))


def masked_output(tool: str, text: str, reference: str) -> str:
    """Masking's marker of any other tool's output."""
    return f"[prunewise: {_name(tool)} output left out: {_size(text)}; {_recall(reference)}]"


def exit_code(exchange: Exchange, vocabulary: Vocabulary) -> int | None:
    """The exit code of a shell tool's result: 0 where its host would flag a failure, and does not; of a
    failure what its last line says; None where it is not known.
    """
    if not exchange.result.is_error:
        return 0 if vocabulary.flags_failures else None
    found = _EXIT_CODE.search(exchange.result.text[-200:])
    return int(found[1]) if found else None


def mask(exchange: Exchange, vocabulary: Vocabulary, reference: str) -> str:
    """Masking's marker of a tool's output, by what the tool is."""
    text = exchange.result.text
    call = exchange.call
    if exchange.operation is not None and exchange.operation.action == "read":
        held = holding(exchange, exchange.operation, vocabulary)
        is_known = len(held.firsts) == 1 and held.count > 0 and not held.is_cut
        if not is_known or exchange.outcome != "succeeded":
            return masked_read(exchange.operation, text, reference, names_lines=False)
        first, last = held.least
        shown = FileOperation("read", exchange.operation.path, first, last)
        return masked_read(shown, text, reference)
    if call.name.lower() in vocabulary.shell:
        command = call.arguments.get(vocabulary.command)
        code = exit_code(exchange, vocabulary)
        return masked_shell(command if isinstance(command, str) else "", code, text, reference)
    return masked_output(call.name, text, reference)


def mask_shell(shell: Shell, reference: str) -> str:
    """Masking's marker of a command that the user ran in the host."""
    return masked_shell(shell.command, shell.exit_code, shell.output, reference)


def _recall(reference: str) -> str:
    return f"recall {reference} for all of it"


def _name(tool: str) -> str:
    return re.sub(r"[^\w.:/-]+", "_", tool)[:64] or "tool"


def _line(text: str) -> str:
    """One line, short, on code points."""
    text = " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
    return text if len(text) <= SUMMARY_WIDTH else text[: SUMMARY_WIDTH - 1] + "…"


def _size(text: str) -> str:
    return f"{utf16_length(text):,} characters"
