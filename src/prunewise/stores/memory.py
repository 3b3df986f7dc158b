"""The store for a list of messages without a session file: ledger and originals live as long as the object.

Recall references are call ids; a shell output, which has none, goes by its message's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from prunewise.errors import RecallError
from prunewise.ledger import Entry
from prunewise.markers import is_reference, reference_in, stands_for_input
from prunewise.stores import Original
from prunewise.transcript import Text


class Memory:
    """One conversation's ledger and originals, in memory."""

    def __init__(self, conversation: str = "", entries: Iterable[Entry] = ()) -> None:
        self.conversation = conversation
        self._entries: list[Entry] = list(entries)
        self._originals: dict[str, Original] = {}
        self._of_call: dict[str, bool] = {}

    def reference(self, message: str, call_id: str) -> str | None:
        """The call's id, or the message's for an output that no call asked for; None where
        neither can stand in a marker, or the other kind of output has that reference already.
        """
        reference = call_id or message
        of_call = bool(call_id) and call_id != message
        if not is_reference(reference) or self._of_call.setdefault(reference, of_call) != of_call:
            return None
        return reference

    def keep(self, reference: str, original: Original) -> None:
        """Hold an output. Another output under a reference takes the place of the one before.

        A host may edit a message in place: the call id, and so the reference, is the same, the output
        is another. The marker that goes out from then on stands for the new one, and the old one is
        nowhere any more. A marker is no output: where the host sends one back, what it stands for
        stays, and so does a purged input.
        """
        held = self._originals.get(reference)
        if held is not None:
            purged = original.input
            if purged is None or stands_for_input(purged):
                purged = held.input if held.input is not None else purged
            newest = held if _is_marker(original) else original
            original = msgspec.structs.replace(newest, input=purged)
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


def _is_marker(original: Original) -> bool:
    texts = [part.text for part in original.content if isinstance(part, Text)]
    return len(texts) == 1 and reference_in(texts[0]) is not None
