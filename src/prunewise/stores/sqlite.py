"""SQLite: one file, which several processes may use, each reading while another writes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from prunewise.errors import PrunewiseError
from prunewise.stores.tables import Run, TableStore, migrate

_WAIT = 30.0
"""Seconds to wait for another process that writes."""


class SQLiteDatabase:
    """A database file that only its owner may read. One object may be used by several threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make the file and its tables where they are missing.

        Raises:
            PrunewiseError: the file cannot be used.
        """
        self.path = Path(path)
        self._lock = threading.RLock()
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise PrunewiseError(f"{self.path}: cannot be opened, {error.strerror}") from error
        self._connection = sqlite3.connect(
            self.path, timeout=_WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            with self._said():
                self._connection.execute("PRAGMA synchronous = FULL")  # a commit outlives a loss of power
                self._begin_log()
            with self.writing("") as run:
                found = run("SELECT 1 FROM sqlite_master WHERE name = ?", "prunewise_version")
                migrate(run, has_version=bool(found), bytes_type="BLOB")
        except BaseException:
            self.close()
            raise

    def store(self, conversation: str) -> TableStore:
        """The store of one conversation."""
        return TableStore(self, conversation)

    @contextlib.contextmanager
    def reading(self) -> Generator[Run]:
        """One look at what is committed."""
        with self._lock, self._said():
            yield self._run

    @contextlib.contextmanager
    def writing(self, conversation: str) -> Generator[Run]:  # noqa: ARG002 - one transaction at a time
        """A transaction, the only one on this file."""
        with self._lock, self._said():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._run
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _begin_log(self) -> None:
        """Have readers and a writer go side by side. Where another process does so just now, SQLite does not
        wait for it by itself.
        """
        give_up = time.monotonic() + _WAIT
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
            else:
                return

    def _run(self, statement: str, *values: object) -> Sequence[Sequence[Any]]:
        return self._connection.execute(statement, values).fetchall()

    @contextlib.contextmanager
    def _said(self) -> Generator[None]:
        """Say which file it was that failed."""
        try:
            yield
        except sqlite3.Error as error:
            raise PrunewiseError(f"{self.path}: {error}") from error
