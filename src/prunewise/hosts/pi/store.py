"""The store of a session that pi is in: its file, which only pi writes, or pi's memory of it.

What is appended goes to an outbox, for the extension to hand to pi; it counts from then on. A session
that pi keeps in memory only has the same entries, told by the extension; there a recall reference is
an entry's id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from prunewise import ledger
from prunewise.errors import InputError, PrunewiseError, RecallError
from prunewise.formats.pi_usage import warmed_at
from prunewise.stores import Original, Writes
from prunewise.stores.pi_session import Entry, PiSession

_NO_FILE = "the session has no output yet that could be recalled"


class PiStore:
    """One session's ledger and originals."""

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        """`path` is the session's file, which pi may not have written yet; None for one in memory."""
        self.path = path
        self.conversation = str(header.get("id") or "")
        self.outbox: list[ledger.Entry] = []
        """What was appended and is not handed over yet."""
        self.unwritten: str | None = None
        """Why nothing can be appended for now; None where it can."""
        self._header = header
        self._session: PiSession | None = None
        self._entries: list[ledger.Entry] = []
        self._leaf: str | None = None
        if path is None:
            self._session = PiSession.from_bytes(msgspec.json.encode(header))

    # ---- the entries

    def refresh(self) -> PiSession | None:
        """The session as pi has written it; None as long as there is no file.

        Raises:
            InputError: the file cannot be read.
        """
        if self.path is None:
            return self._session
        if self._session is not None:
            self._session.refresh()
        elif self.path.exists():
            self._session = PiSession.open(self.path)
        return self._session

    def extend(self, entries: Sequence[msgspec.Raw]) -> None:
        """Take in new entries of a session in memory."""
        if entries and self.path is None and self._session is not None:
            self._session.extend(bytes(entry) for entry in entries)

    def restart(self) -> None:
        """Forget the entries of a session in memory: all of them are about to be told again."""
        if self.path is None:
            self._session = PiSession.from_bytes(msgspec.json.encode(self._header))

    def entry(self, name: str) -> Entry | None:
        """The entry with this id, or None."""
        return None if self._session is None else self._session.entry(name)

    def move(self, leaf: str | None) -> bool:
        """Go to where pi's branch ends now; whether its ledger is another than before."""
        if leaf == self._leaf or not self._bears_ledger(leaf):
            self._leaf = leaf
            return False
        self._leaf = leaf
        found = self._ledger_at(leaf)
        if found == self._entries:
            return False
        self._entries = found
        return True

    def reread(self) -> None:
        """Take the ledger from the session again, without what was appended and has not arrived there."""
        self._entries = self._ledger_at(self._leaf)
        self.outbox.clear()

    def _ledger_at(self, leaf: str | None) -> list[ledger.Entry]:
        if self._session is None or leaf is None or self._session.entry(leaf) is None:
            return []
        return self._session.ledger(leaf)

    def _bears_ledger(self, leaf: str | None) -> bool:
        """Whether the way from the last leaf to this one may have changed the ledger."""
        return any(entry is None or entry.type == "custom" for entry in self._way(leaf))

    def warmed(self, leaf: str | None) -> list[float]:
        """When requests beside the conversation kept its cache warm, on the way from the last leaf to this
        one; in seconds since the epoch.
        """
        times = (warmed_at(entry) for entry in self._way(leaf) if entry is not None)
        return [time for time in times if time is not None]

    def _way(self, leaf: str | None) -> Iterator[Entry | None]:
        """The entries from this leaf back to the last one; None at the end where that is not on the way."""
        name = leaf
        while name != self._leaf:
            entry = None if name is None else self.entry(name)
            yield entry
            if entry is None:
                return
            name = entry.parent

    # ---- as a store

    def reference(self, message: str, call_id: str) -> str | None:
        """`#<line>` in a file, the entry's id in a fork and in memory; None for what is no output here."""
        session = self._session
        if session is None:
            return None
        return session.own_reference(message) if self.path is None else session.reference(message, call_id)

    def ledger(self) -> Sequence[ledger.Entry]:
        """The entries of pi's branch, and behind them what was appended since."""
        return self._entries

    def commit(self, writes: Writes) -> None:
        """Put the entries into the outbox; the session holds every output.

        Raises:
            PrunewiseError: pi cannot write its session.
        """
        if writes.entries and self.unwritten is not None:
            message = f"the session cannot be written: {self.unwritten}"
            raise PrunewiseError(message)
        self._entries = [*self._entries, *writes.entries]
        self.outbox += writes.entries

    def original(self, reference: str) -> Original:
        """The output that a reference leads to.

        Raises:
            RecallError: it leads to none, with the reason.
        """
        try:
            session = self.refresh()
        except InputError as error:
            raise RecallError(f"{reference}: {error}") from error
        if session is None:
            raise RecallError(f"{reference}: {_NO_FILE}")
        return session.original(reference)
