"""What a replay has found so far, on disk: so that it can be gone on with, and read again in order.

A journal is a file of JSON lines: what question it answers, then a line a file that was replayed, with
the file's size and time. It grows only at its end, so a process may die at any moment; a line that is
not whole counts for nothing. Knows nothing of what the rows say.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, cast

import msgspec

from prunewise.replay.corpus import Source
from prunewise.replay.results import ErrorRow, Row, SessionRow

_KEPT_SECONDS = 90 * 86400
"""Journals that nobody has gone on with for so long are removed."""


class Done(msgspec.Struct, frozen=True, rename="camel"):
    """One file that was replayed."""

    source: Source
    rows: tuple[SessionRow | ErrorRow, ...]
    left_out: int = 0
    """Sessions in it that were not asked for."""


class _Head(msgspec.Struct, frozen=True):
    question: str


class _Key(msgspec.Struct, frozen=True):
    """A line without its rows."""

    source: Source


class _Line(NamedTuple):
    source: Source
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


def _name(source: Source) -> str:
    """The source's name as it stands in a line."""
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
            try:
                if start == 0 and _decode_head(line).question != question:
                    self._end = 0
                    return
                if start:
                    source = _decode_key(line).source
                    self._lines[source.name] = _Line(source, start, self._end)
            except msgspec.MsgspecError:
                if start == 0:
                    self._end = 0
                    return

    def __contains__(self, source: Source) -> bool:
        """Whether this file was replayed, and is as it was then."""
        known = self._lines.get(_name(source))
        return known is not None and (known.source.size, known.source.stamp) == (source.size, source.stamp)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, source: Source, line: bytes) -> None:
        """Add what was found in a file, as `encode` has it."""
        start = self._end
        self._append(line)
        self._lines[_name(source)] = _Line(source, start, self._end)

    def _append(self, line: bytes) -> None:
        self._file.seek(self._end)
        self._file.write(line + b"\n")
        self._file.flush()
        self._end += len(line) + 1

    def done(self, source: Source) -> Done:
        """What was found in a file."""
        line = self._lines[_name(source)]
        self._file.seek(line.start)
        return decode(self._file.read(line.end - line.start))

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
