"""The store in a database: several conversations in two tables, the same for each kind of database.

A `Database` runs statements in a transaction. Nothing here knows which one it is but for the name of
its type for bytes. Strings that no database would take (a NUL, a lone surrogate) are in bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from prunewise.errors import ConflictError, InputError, PrunewiseError, RecallError
from prunewise.ledger import Entry, to_data
from prunewise.stores import Original, Writes
from prunewise.stores.memory import CONFLICT, not_kept
from prunewise.stores.references import References
from prunewise.stores.written import decoded, encoded, from_original, to_entry, to_original

Run = Callable[..., Sequence[Sequence[Any]]]
"""Runs one statement, with `?` for each value that follows, and returns its rows."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE prunewise_entries (conversation TEXT NOT NULL, number BIGINT NOT NULL,
            entry {bytes} NOT NULL, PRIMARY KEY (conversation, number))""",
        """CREATE TABLE prunewise_originals (conversation TEXT NOT NULL, reference {bytes} NOT NULL,
            part TEXT NOT NULL, digest {bytes} NOT NULL, data {bytes} NOT NULL,
            PRIMARY KEY (conversation, reference, part))""",
    ),
)
"""The statements that lead from each version of the tables to the next; the first makes version 1."""

_AT_ONCE = 500
"""How many references one statement names."""


class Database(Protocol):
    """Where the tables are."""

    def reading(self) -> AbstractContextManager[Run]:
        """One look at what is committed."""
        ...

    def writing(self, conversation: str) -> AbstractContextManager[Run]:
        """A transaction: all that runs in it is committed as one when it ends, and nothing where it raises.
        No other one of the same conversation runs meanwhile.
        """
        ...

    def close(self) -> None:
        """Let go of every connection."""
        ...


def migrate(run: Run, *, has_version: bool, bytes_type: str) -> None:
    """Bring the tables to the newest version.

    Raises:
        PrunewiseError: they are of a newer version than this program knows.
    """
    if not has_version:
        run("CREATE TABLE prunewise_version (version INTEGER NOT NULL)")
    [[version]] = run("SELECT coalesce(max(version), 0) FROM prunewise_version")
    if version > len(MIGRATIONS):
        raise PrunewiseError(f"its tables were made by a newer prunewise, version {version}")
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        for statement in statements:
            run(statement.format(bytes=bytes_type))
        run("INSERT INTO prunewise_version (version) VALUES (?)", number)


class TableStore:
    """One conversation's ledger and originals, in a database."""

    def __init__(self, database: Database, conversation: str) -> None:
        """It reads the ledger.

        Raises:
            InputError: no database takes this conversation's id.
            PrunewiseError: the database cannot be used.
        """
        if "\0" in conversation or conversation != conversation.encode(errors="replace").decode():
            raise InputError(f"{conversation!r}: no id for a conversation in a database")
        self.database = database
        self.conversation = conversation
        self._references = References()
        self._entries: tuple[Entry, ...] = ()
        self._last = 0
        """The number of the last entry that was read."""
        self.ledger()

    def reference(self, message: str, call_id: str) -> str | None:
        """One that no other output has; None where none can stand in a marker."""
        return self._references.issue(message, call_id)

    def ledger(self) -> Sequence[Entry]:
        """The entries committed so far, by any process, oldest first."""
        with self.database.reading() as run:
            rows = run(
                "SELECT number, entry FROM prunewise_entries WHERE conversation = ? AND number > ? "
                "ORDER BY number",
                self.conversation,
                self._last,
            )
        read = tuple(entry for _, data in rows if (entry := to_entry(decoded(data))) is not None)
        if rows:
            self._take_in(read, rows[-1][0])
        return self._entries

    def commit(self, writes: Writes) -> None:
        """Write originals and entries in one transaction.

        Raises:
            ConflictError: another process has added entries since the ledger was read.
            PrunewiseError: the database cannot be written.
            TypeError: an original cannot be written as JSON.
        """
        parts = [
            (_key(reference), part, data)
            for reference, original in writes.originals.items()
            for part, data in _parts(original)
        ]
        rows = [encoded(to_data(entry)) for entry in writes.entries]
        with self.database.writing(self.conversation) as run:
            [[last]] = run(
                "SELECT coalesce(max(number), 0) FROM prunewise_entries WHERE conversation = ?",
                self.conversation,
            )
            if last != self._last or writes.known not in (None, len(self._entries)):
                raise ConflictError(f"{self.conversation}: {CONFLICT}")
            self._write_originals(run, parts)
            for number, entry in enumerate(rows, last + 1):
                run(
                    "INSERT INTO prunewise_entries (conversation, number, entry) VALUES (?, ?, ?)",
                    self.conversation,
                    number,
                    entry,
                )
        self._take_in(writes.entries, last + len(rows))

    def original(self, reference: str) -> Original:
        """The output held under a reference.

        Raises:
            RecallError: none is.
        """
        with self.database.reading() as run:
            rows = run(
                "SELECT part, data FROM prunewise_originals WHERE conversation = ? AND reference = ?",
                self.conversation,
                _key(reference.strip()),
            )
        parts = {part: decoded(data) for part, data in rows}
        if "output" not in parts:
            raise RecallError(not_kept(reference))
        return to_original(parts["output"], parts.get("input"))

    def _take_in(self, entries: tuple[Entry, ...], last: int) -> None:
        self._entries += entries
        self._references.learn(entries)
        self._last = last

    def _write_originals(self, run: Run, parts: Sequence[tuple[bytes, str, bytes]]) -> None:
        """Write those that are not held yet just so. A part that is not given stays."""
        held: set[tuple[bytes, str, bytes]] = set()
        references = sorted({reference for reference, _, _ in parts})
        for start in range(0, len(references), _AT_ONCE):
            some = references[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            found = run(
                "SELECT reference, part, digest FROM prunewise_originals "  # noqa: S608 - question marks only
                f"WHERE conversation = ? AND reference IN ({marks})",
                self.conversation,
                *some,
            )
            held.update((bytes(reference), part, bytes(digest)) for reference, part, digest in found)
        for reference, part, data in parts:
            digest = hashlib.blake2b(data, digest_size=16).digest()
            if (reference, part, digest) not in held:
                run(
                    "INSERT INTO prunewise_originals (conversation, reference, part, digest, data) "
                    "VALUES (?, ?, ?, ?, ?) ON CONFLICT (conversation, reference, part) "
                    "DO UPDATE SET digest = excluded.digest, data = excluded.data",
                    self.conversation,
                    reference,
                    part,
                    digest,
                    data,
                )


def _key(reference: str) -> bytes:
    return reference.encode("utf-8", "surrogatepass")


def _parts(original: Original) -> list[tuple[str, bytes]]:
    output, purged = from_original(original)
    parts = [("output", encoded(output))]
    return parts if purged is None else [*parts, ("input", encoded(purged))]
