"""The store for a list of messages without a session file: ledger and originals live as long as the object.

Recall references are call ids; a shell output, which has none, goes by its message's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from prunewise.errors import RecallError
from prunewise.ledger import Entry
from prunewise.markers import is_reference
from prunewise.stores import Original


class Memory:
    """One conversation's ledger and originals, in memory."""

    def __init__(self, conversation: str = "", entries: Iterable[Entry] = ()) -> None:
        self.conversation = conversation
        self._entries: list[Entry] = list(entries)
        self._originals: dict[str, Original] = {}

    def reference(self, message: str, call_id: str) -> str | None:
        """The call's id, or the message's for an output that no call asked for; None where
        neither can stand in a marker.
        """
        reference = call_id or message
        return reference if is_reference(reference) else None

    def keep(self, reference: str, original: Original) -> None:
        """Hold an output. The first one under a reference stays; a purged input may be added to it."""
        held = self._originals.setdefault(reference, original)
        if held.input is None and original.input is not None:
            self._originals[reference] = msgspec.structs.replace(held, input=original.input)

    def ledger(self) -> Sequence[Entry]:
        """The entries appended so far, oldest first."""
        return tuple(self._entries)

    def append(self, entries: Iterable[Entry]) -> None:
        """Add entries to the ledger."""
        self._entries.extend(entries)

    def original(self, reference: str) -> Original:
        """The output held under a reference.

        Raises:
            RecallError: none is.
        """
        held = self._originals.get(reference.strip())
        if held is None:
            message = f"{reference.strip() or 'an empty reference'}: no output was kept under this reference"
            raise RecallError(message)
        return held
