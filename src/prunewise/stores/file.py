"""The store in a file: one conversation, one line a commit, each with its checksum.

A line is written at once and waited for. One that a crash has torn does not match its checksum: it is
passed over, since its markers never went out. No byte that was committed is ever changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import warnings
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

from prunewise.errors import ConflictError, InputError, PrunewiseError, PrunewiseWarning
from prunewise.ledger import Entry, to_data
from prunewise.stores import Original, Writes, merged
from prunewise.stores.memory import CONFLICT, Memory
from prunewise.stores.written import decoded, encoded, from_original, to_entry, to_original

_VERSION = 1
_DIGEST = 8
_OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class FileStore:
    """One conversation's ledger and originals, in a file that only its owner may read.

    Several processes may use one file; on Windows one at a time.
    """

    def __init__(self, path: str | os.PathLike[str], conversation: str | None = None) -> None:
        """`conversation` is its id; else the name of the file, without its ending.

        Raises:
            InputError: the file cannot be opened, or holds something else.
        """
        self.path = Path(path)
        self.conversation = self.path.stem if conversation is None else conversation
        self._held = Memory(self.conversation)
        self._end = 0
        """How much of the file has been read."""
        self._is_torn = False
        """Whether what was read does not end with a whole line."""
        self._lines = 0
        self._warned = False
        try:
            is_new = not self.path.exists()
            with self._locked() as file:
                self._catch_up(file)
            if is_new:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be opened, {error.strerror}") from error

    # ---- as a store

    def reference(self, message: str, call_id: str) -> str | None:
        """One that no other output has; None where none can stand in a marker."""
        return self._held.reference(message, call_id)

    def ledger(self) -> Sequence[Entry]:
        """The entries committed so far, by any process, oldest first."""
        if self.path.stat().st_size != self._end:
            with self._locked() as file:
                self._catch_up(file)
        return self._held.ledger()

    def commit(self, writes: Writes) -> None:
        """Append originals and entries as one line, and wait until it is on the disk.

        Raises:
            ConflictError: another process has added entries since the ledger was read.
            OSError: the line cannot be written; what of it was written counts for nothing.
            TypeError: an original cannot be written as JSON.
        """
        with self._locked() as file:
            known = len(self._held.ledger())
            self._catch_up(file)
            if len(self._held.ledger()) != known or writes.known not in (None, known):
                raise ConflictError(f"{self.path}: {CONFLICT}")
            originals = dict(self._changed(writes))
            if not originals and not writes.entries:
                return
            _append(file, (b"\n" if self._is_torn else b"") + self._line(originals, writes.entries))
            self._is_torn = False
            self._end = os.fstat(file).st_size
            self._hold(originals, writes.entries)

    def original(self, reference: str) -> Original:
        """The output held under a reference.

        Raises:
            RecallError: none is.
        """
        return self._held.original(reference)

    # ---- lines

    def _changed(self, writes: Writes) -> Generator[tuple[str, Original]]:
        for reference, original in writes.originals.items():
            held = self._held.held(reference)
            now = merged(held, original)
            if now != held:
                yield reference, now

    def _hold(self, originals: dict[str, Original], entries: Iterable[Entry]) -> None:
        self._held.commit(Writes(originals, tuple(entries)))

    def _line(self, originals: dict[str, Original], entries: Iterable[Entry]) -> bytes:
        written = {
            "version": _VERSION,
            "conversation": self.conversation,
            "originals": {name: from_original(original) for name, original in originals.items()},
            "entries": [to_data(entry) for entry in entries],
        }
        data = encoded(written)
        return b"%s %s\n" % (_checksum(data), data)

    def _catch_up(self, file: int) -> None:
        """Read what has been added to the file."""
        size = os.fstat(file).st_size
        if size < self._end:
            raise PrunewiseError(f"{self.path}: has been cut short by another program")
        os.lseek(file, self._end, os.SEEK_SET)
        added = _read(file, size - self._end)
        lines = added.split(b"\n")
        if not self._is_torn or len(lines) > 1:
            self._is_torn = bool(lines[-1])
        self._end = size
        damaged = 0
        for line in lines:
            if line and not self._take(line):
                damaged += 1
        if damaged and not self._lines and (damaged > 1 or not self._is_torn):
            raise InputError(f"{self.path}: not a store of prunewise, none of its lines is one's")
        if damaged and not self._warned:
            self._warned = True
            message = f"{self.path}: {damaged} torn or damaged line(s), passed over"
            warnings.warn(message, PrunewiseWarning, stacklevel=3)

    def _take(self, line: bytes) -> bool:
        """Read one line; False where it is not as it was written."""
        checksum, _, data = line.partition(b" ")
        if checksum != _checksum(data):
            return False
        read: dict[str, Any] = decoded(data)
        if read["version"] > _VERSION:
            raise InputError(f"{self.path}: written by a newer prunewise, version {read['version']}")
        if read["conversation"] != self.conversation:
            held = read["conversation"]
            raise InputError(f"{self.path}: holds the conversation {held!r}, not {self.conversation!r}")
        self._lines += 1
        originals = {name: to_original(*parts) for name, parts in read["originals"].items()}
        entries = (to_entry(entry) for entry in read["entries"])
        self._hold(originals, (entry for entry in entries if entry is not None))
        return True

    # ---- the file

    @contextlib.contextmanager
    def _locked(self) -> Generator[int]:
        """The file, open for this process alone."""
        file = os.open(self.path, _OPEN, 0o600)
        try:
            _lock(file)
            yield file
        finally:
            os.close(file)  # and with it the lock


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).hexdigest().encode()


def _read(file: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := os.read(file, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _append(file: int, data: bytes) -> None:
    """Write all of it and wait until it is on the disk; where that fails, have none of it stay."""
    start = os.fstat(file).st_size
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except BaseException:
        with contextlib.suppress(OSError):  # then its checksum tells that it is torn
            os.ftruncate(file, start)
        raise


if sys.platform == "win32":

    def _lock(file: int) -> None:
        """Windows locks no file that others may read."""

    def _sync_folder(folder: Path) -> None:
        """Windows syncs no folder."""

else:
    import fcntl

    def _lock(file: int) -> None:
        with contextlib.suppress(OSError):  # a file system without locks: one process at a time
            fcntl.flock(file, fcntl.LOCK_EX)

    def _sync_folder(folder: Path) -> None:
        """Have a new file's name on the disk."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
