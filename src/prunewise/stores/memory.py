"""The store for a list of messages without a session file: ledger and originals live as long as the object.

A recall reference is the call's id, or the message's for a shell output, which has none. Where another
output has it already, the message's id follows it.
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
        self._of_call: dict[str, tuple[str, str]] = {}
        """For each reference the message and the call that it was issued for."""

    def reference(self, message: str, call_id: str) -> str | None:
        """One that no other output has; None where none can stand in a marker."""
        plain, output = call_id or message, (message, call_id)
        for reference in (plain, f"{plain}@{message}") if plain else ():
            held = self._originals.get(reference)
            is_free = is_reference(reference) and (held is None or held.message == message)
            if is_free and self._of_call.setdefault(reference, output) == output:
                return reference
        return None

    def keep(self, reference: str, original: Original) -> None:
        """Hold an output. Where a host has changed a message since, the new output takes the place of the
        one before; a purged input stays.
        """
        held = self._originals.get(reference)
        if held is not None and original.input is None:
            original = msgspec.structs.replace(original, input=held.input)
        self._originals[reference] = original

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
