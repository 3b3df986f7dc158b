"""What stays of an output that goes: its first and last lines, lines that tell of trouble, the files that a
search found, and an index of the names in it, within a budget of tokens.

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
_FOUND_IN = re.compile(r"[^\s:\"'`|<>{},;=]*\w")
_CONTEXT_LINE = re.compile(r"-\d+-(?!\d)")
_UNDER_A_FILE = re.compile(r"\s*(?:Line |L)?\d+[:|]")
_LONGEST_NAME = 80
_HASH_SHOWN = 7
_LEAST_NAME = 5
_LOOKED_AT = 400
"""How many characters of a line tell what it is."""


def ends(text: str, lines: int, trouble: int = 0) -> tuple[list[str], int]:
    """The first and the last lines of a text, and so many lines between them that tell of trouble; with
    the number of lines that are left out. Where a part is left out, a line says so.
    """
    rows = text.split("\n")
    if len(rows) <= 2 * lines:
        return [short(row) for row in rows], 0
    kept = [short(row) for row in rows[:lines]]
    found = [index for index in range(lines, len(rows) - lines) if _TROUBLE.search(rows[index][:_LOOKED_AT])]
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


def trouble(text: str, tokens: int) -> list[str]:
    """The lines that tell of trouble, each once, the first ones, as many as so many tokens hold."""
    room = tokens * CHARACTERS_PER_TOKEN
    kept: dict[str, None] = {}
    for row in text.split("\n"):
        if not _TROUBLE.search(row[:_LOOKED_AT]):
            continue
        line = short(row.strip())
        if line in kept:
            continue
        room -= len(line) + 1
        if room < 0:
            break
        kept[line] = None
    return list(kept)


def hits(text: str) -> dict[str, int]:
    """The files in what a search printed, by their last two names, with the lines that it found in each;
    all 0 where it printed the files alone. Empty where no file is named.

    Understands `FILE:LINE:TEXT` and `FILE:TEXT`, with a revision in front (`git grep`); a line with the file
    and below it `LINE:TEXT`; `FILE:COUNT`. Lines of context are not counted.
    """
    found: dict[str, int] = {}
    above: str | None = None
    for line in text.split("\n"):
        row = line[:_LOOKED_AT].rstrip("\r")
        alone = row.removeprefix("File: ").removesuffix(":")
        if _is_file(alone):
            if not _CONTEXT_LINE.search(alone):
                above = _last_two(alone)
                found.setdefault(above, 0)
        elif above is not None and _UNDER_A_FILE.match(row):
            found[above] += 1
        else:
            file, lines = _hit(row)
            if file:
                found[file] = found.get(file, 0) + lines
    return {file: lines for file, lines in found.items() if lines} or found


def _hit(row: str) -> tuple[str, int]:
    """The file that a line of a search's output names, and how many lines that stands for."""
    first, *more = row.split(":", 3)
    if len(more) > 1 and more[1].isdecimal() and _is_file(more[0]):
        return _last_two(more[0]), 1
    if not more or not _is_file(first):
        return "", 0
    return _last_two(first), int(more[0]) if len(more) == 1 and more[0].isdecimal() else 1


def _is_file(name: str) -> bool:
    return ("/" in name or "." in name) and _FOUND_IN.fullmatch(name) is not None


def _last_two(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[-2:])


def counted(text: str, tokens: int) -> str:
    """The files that a search found, with the number of lines in each, those with most lines first, as many
    as so many tokens hold.
    """
    room = tokens * CHARACTERS_PER_TOKEN
    kept: list[str] = []
    for file, lines in sorted(hits(text).items(), key=lambda one: -one[1]):
        entry = f"{file} {lines}" if lines else file
        room -= len(entry) + 2
        if room < 0:
            break
        kept.append(entry)
    return ", ".join(kept)


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
        last = _last_two(run).rstrip(".")
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
