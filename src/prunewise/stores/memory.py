"""The store in memory: ledger and originals live as long as the object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prunewise.errors import ConflictError, RecallError
from prunewise.ledger import Entry
from prunewise.stores import Original, Writes, merged
from prunewise.stores.references import References

CONFLICT = "another process has added to the ledger since it was read"


class Memory:
    """One conversation's ledger and originals, in memory."""

    def __init__(self, conversation: str = "", entries: Iterable[Entry] = ()) -> None:
        self.conversation = conversation
        self._entries = tuple(entries)
        self._originals: dict[str, Original] = {}
        self._references = References()
        self._references.learn(self._entries)
        self._of_call = self._references.outputs

    def reference(self, message: str, call_id: str) -> str | None:
        """One that no other output has; None where none can stand in a marker."""
        return self._references.issue(message, call_id)

    def ledger(self) -> Sequence[Entry]:
        """The entries committed so far, oldest first."""
        return self._entries

    def commit(self, writes: Writes) -> None:
        """Hold these originals, and add these entries to the ledger.

        Raises:
            ConflictError: the ledger has got longer since it was read.
        """
        if writes.known not in (None, len(self._entries)):
            raise ConflictError(f"{self.conversation}: {CONFLICT}")
        for reference, original in writes.originals.items():
            self._originals[reference] = merged(self._originals.get(reference), original)
        self._entries += writes.entries
        self._references.learn(writes.entries)

    def held(self, reference: str) -> Original | None:
        """The output held under a reference, if any."""
        return self._originals.get(reference)

    def original(self, reference: str) -> Original:
        """The output held under a reference.

        Raises:
            RecallError: none is.
        """
        held = self.held(reference.strip())
        if held is None:
            raise RecallError(not_kept(reference))
        return held


def not_kept(reference: str) -> str:
    """What to say of a reference under which no output is held."""
    return f"{reference.strip() or 'an empty reference'}: no output was kept under this reference"
