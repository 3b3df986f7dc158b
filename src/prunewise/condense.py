"""What stays of an output that goes: its first and last lines, lines that tell of trouble, and an index of
the names in it, within a budget of tokens.

Works on text alone. The same text and budget give the same lines, on any machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

CHARACTERS_PER_TOKEN = 4
WIDTH = 160
"""The longest line that is kept, in characters."""

_TROUBLE = re.compile(
    r"\b(?:error|fail(?:ed|ure|ures|ing)?|exception|traceback|panic(?:ked)?|fatal|warning|assert\w*|denied"
    r"|undefined|cannot|not found|no such)\b|\bE\d{3,4}\b|✗|✘",
    re.IGNORECASE,
)
_RUN = re.compile(r"[\w./@+-]{5,}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_]+")
_HASH = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}")
_FILE = re.compile(r"[^/]+/[^/]*\w\.[A-Za-z]\w{0,5}")
_LONGEST_NAME = 80
_HASH_SHOWN = 7
_LEAST_NAME = 5
_LINES_A_GROUP = 40


def ends(text: str, lines: int, trouble: int = 0) -> tuple[list[str], int]:
    """The first and the last lines of a text, and so many lines between them that tell of trouble; with
    the number of lines that are left out. Where a part is left out, a line says so.
    """
    rows = text.split("\n")
    if len(rows) <= 2 * lines:
        return [short(row) for row in rows], 0
    kept = [short(row) for row in rows[:lines]]
    found = [index for index in range(lines, len(rows) - lines) if _TROUBLE.search(rows[index][:400])]
    before = lines
    for index in found[:trouble]:
        kept += _gap(index - before)
        kept.append(short(rows[index]))
        before = index + 1
    kept += _gap(len(rows) - lines - before)
    kept += [short(row) for row in rows[-lines:]]
    return kept, len(rows) - 2 * lines - min(len(found), trouble)


def _gap(lines: int) -> list[str]:
    return [f"[{lines:,} lines left out]"] if lines else []


def short(line: str) -> str:
    """A line as far as it is kept."""
    line = line.rstrip("\r")
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def names(text: str) -> Iterator[str]:
    """The names in a text, each once, in the order in which they first appear: words of code (with an
    underscore, a digit or a capital inside), long numbers, hashes by their first digits, and files by
    their last two names.
    """
    seen: set[str] = set()
    for run in _runs(text):
        for name in _names_of(run):
            if name not in seen:
                seen.add(name)
                yield name


def _runs(text: str) -> dict[str, None]:
    for escape in ("\\n", "\\r", "\\t"):
        text = text.replace(escape, "\n")
    return dict.fromkeys(_RUN.findall(text))


def _names_of(run: str) -> Iterator[str]:
    if "/" in run:
        last = "/".join(run.rsplit("/", 2)[-2:]).rstrip(".")
        if _FILE.fullmatch(last):
            yield last
    for word in _WORD.findall(run):
        core = word.strip("_")
        if not _LEAST_NAME < len(core) <= _LONGEST_NAME:
            continue
        if _HASH.fullmatch(word):
            yield word[:_HASH_SHOWN]
        elif (
            "_" in core or not core.isalpha() or not (core.islower() or core.isupper() or core[1:].islower())
        ):
            yield word


def index(text: str, tokens: int, skip: Iterable[str] = ()) -> str:
    """The names in a text on one line, as many as so many tokens hold; those of `skip` are known already."""
    room = tokens * CHARACTERS_PER_TOKEN
    known = set(skip)
    kept: list[str] = []
    for name in names(text):
        if name in known:
            continue
        room -= len(name) + 1
        if room < 0:
            break
        kept.append(name)
    return " ".join(kept)
