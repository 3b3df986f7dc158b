"""What a replay has found so far, on disk: so that it can be gone on with, and read again in order.

A journal is a file of lines, each a digest and JSON: what question it answers, then a line a file that was
replayed, with the file's size and time. It grows only at its end, so a process may die at any moment; a line
that is not whole, or that its digest does not fit, counts for nothing. Knows nothing of what the rows say.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, NamedTuple, cast

import msgspec

from prunewise.replay.corpus import Source
from prunewise.replay.results import ErrorRow, Row, SessionRow

_KEPT_SECONDS = 90 * 86400
"""Journals that nobody has gone on with for so long are removed."""


class Copies(msgspec.Struct, frozen=True, order=True):
    """The calls of one session that other sessions count, by number."""

    session: str
    calls: tuple[int, ...]


class Done(msgspec.Struct, frozen=True, rename="camel"):
    """One file that was replayed."""

    source: Source
    rows: tuple[SessionRow | ErrorRow, ...]
    left_out: int = 0
    """Sessions in it that were not asked for."""
    copies: tuple[Copies, ...] = ()
    """The calls in it that other files count."""


class _Head(msgspec.Struct, frozen=True):
    question: str = ""


class _Key(msgspec.Struct, frozen=True):
    """A line without its rows."""

    source: Source
    copies: tuple[Copies, ...] = ()


class _Line(NamedTuple):
    source: Source
    copies: tuple[Copies, ...]
    start: int
    end: int


def encode(done: Done) -> bytes:
    """A line of the journal, without its end. What no encoding knows (half a character) is an escape."""
    try:
        return msgspec.json.encode(done)
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(msgspec.to_builtins(done)))


decode = msgspec.json.Decoder(Done).decode
_decode_key = msgspec.json.Decoder(_Key).decode
_decode_head = msgspec.json.Decoder(_Head).decode


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(one) for key, one in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_clean(one) for one in cast("Sequence[object]", value)]
    return value


_DIGEST = 17


def _digest(text: bytes) -> bytes:
    return b"%s " % blake2b(text, digest_size=8).hexdigest().encode()


def _checked(line: bytes) -> bytes | None:
    """The JSON of a line; None where it is not as it was written."""
    text = line[_DIGEST:-1]
    return text if line[:_DIGEST] == _digest(text) else None


def name_of(source: Source) -> str:
    """A source's name as it stands in a line."""
    return str(_clean(source.name))


class Journal:
    """One journal, open. While it is, no other process writes to it."""

    def __init__(self, file: IO[bytes], question: str, *, resume: bool) -> None:
        """Take over an open file, of which what was found before is kept where `resume` says so.

        Args:
            file: open for reading and writing.
            question: what tells this question from every other.
            resume: whether to go on, where the file answers the same question.
        """
        self._file = file
        self._lines: dict[str, _Line] = {}
        self._end = 0
        if resume:
            self._read(question)
        file.seek(self._end)
        file.truncate()
        if not self._end:
            self._append(msgspec.json.encode(_Head(question)))

    def _read(self, question: str) -> None:
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):
                return
            start, self._end = self._end, self._end + len(line)
            text = _checked(line)
            if start == 0 and (text is None or _decode_head(text).question != question):
                self._end = 0
                return
            if start and text is not None:
                key = _decode_key(text)
                self._lines[key.source.name] = _Line(key.source, key.copies, start, self._end)

    def __contains__(self, source: Source) -> bool:
        """Whether this file was replayed, and is as it was then."""
        known = self._lines.get(name_of(source))
        return known is not None and (known.source.size, known.source.stamp) == (source.size, source.stamp)

    def __len__(self) -> int:
        return len(self._lines)

    def knows(self, source: Source, copies: tuple[Copies, ...]) -> bool:
        """Whether this file was replayed, is as it was then, and the same of it counts elsewhere."""
        return source in self and self._lines[name_of(source)].copies == copies

    def add(self, source: Source, copies: tuple[Copies, ...], line: bytes) -> None:
        """Add what was found in a file, as `encode` has it."""
        start = self._end
        self._append(line)
        self._lines[name_of(source)] = _Line(source, copies, start, self._end)

    def _append(self, line: bytes) -> None:
        self._file.seek(self._end)
        written = _digest(line) + line + b"\n"
        self._file.write(written)
        self._file.flush()
        self._end += len(written)

    def done(self, source: Source) -> Done:
        """What was found in a file."""
        line = self._lines[name_of(source)]
        self._file.seek(line.start)
        return decode(self._file.read(line.end - line.start)[_DIGEST:])

    def rows(self, sources: Sequence[Source]) -> Rows:
        """The rows of these files."""
        return Rows(self, sources)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class Rows(Iterable[Row]):
    """The rows of some files, read from a journal as often as they are asked for, ordered by source."""

    def __init__(self, journal: Journal, sources: Sequence[Source]) -> None:
        self._journal = journal
        self._sources = sorted(sources)

    def __iter__(self) -> Iterator[Row]:
        for source in self._sources:
            if source in self._journal:
                yield from self._journal.done(source).rows


def open_journal(folder: Path, question: str, *, resume: bool) -> tuple[Journal, str]:
    """The journal of a question in a folder of the user's, and why it cannot be gone on with, if so.

    Where the folder cannot be written to, or another run has the journal, a temporary file stands in.
    """
    path = folder / f"{question}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_old(folder)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    except OSError as error:
        return _temporary(question), f"{path}: {(error.strerror or str(error)).lower()}"
    if not _locked(file):
        file.close()
        return _temporary(question), f"{path}: another run is writing to it"
    os.utime(path)
    return Journal(file, question, resume=resume), ""


def _temporary(question: str) -> Journal:
    return Journal(tempfile.TemporaryFile("w+b"), question, resume=False)


def _locked(file: IO[bytes]) -> bool:
    import portalocker

    try:
        portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
    except portalocker.LockException:
        return False
    return True


def _remove_old(folder: Path) -> None:
    limit = time.time() - _KEPT_SECONDS
    for path in folder.glob("*.jsonl"):
        with suppress(OSError):
            if path.stat().st_mtime < limit:
                path.unlink()
