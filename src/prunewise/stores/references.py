"""Recall references made of ids, for stores whose host counts nothing.

A reference is the call's id, or the message's for a shell output, which has none. Where another output
has it already, the message's id follows it.
"""

from __future__ import annotations

from collections.abc import Iterable

from prunewise.ledger import Decision, Entry, Masking
from prunewise.markers import is_reference
from prunewise.transcript import SHELL_OUTPUT


class References:
    """The references of one conversation, and the outputs that they were issued for."""

    def __init__(self) -> None:
        self.outputs: dict[str, tuple[str, str]] = {}
        """For each reference the message and the call."""

    def issue(self, message: str, call_id: str) -> str | None:
        """One that no other output has, the same every time; None where none can stand in a marker."""
        plain, output = call_id or message, (message, call_id)
        for reference in (plain, f"{plain}@{message}") if plain else ():
            if is_reference(reference) and self.outputs.setdefault(reference, output) == output:
                return reference
        return None

    def learn(self, entries: Iterable[Entry]) -> None:
        """Keep the references that ledger entries carry for the outputs that they are about."""
        for entry in entries:
            if isinstance(entry, Decision) and entry.reference and entry.entry_id:
                self.outputs[entry.reference] = (entry.entry_id, entry.correlation.tool_call_id)
            elif isinstance(entry, Masking):
                for mask in entry.masks:
                    call_id = "" if mask.kind == SHELL_OUTPUT else mask.id
                    self.outputs[mask.reference] = (mask.entry_id or mask.id, call_id)
