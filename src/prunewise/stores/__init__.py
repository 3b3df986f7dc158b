"""Where a conversation's ledger and originals live. A store issues the markers' recall references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from prunewise.ledger import Entry
from prunewise.transcript import Image, Text


class Original(msgspec.Struct, frozen=True):
    """The full output that a marker stands for."""

    message: str
    """The id of the message that holds it."""
    name: str
    """The tool's name; `bash` for a shell command of the user's."""
    content: tuple[Text | Image, ...]
    input: Mapping[str, Any] | None = None
    """The call's arguments, where a decision of this conversation purged them."""
    images: tuple[Any, ...] = ()
    """The parts with images and files as the host stored them."""


class Store(Protocol):
    """One conversation's ledger and originals."""

    conversation: str
    """The conversation's id: references and decisions are its own."""

    def reference(self, message: str, call_id: str) -> str | None:
        """The recall reference of a result (or shell output), the same every time, and of no other output.

        None where no original can be promised: then no marker may go out for it. It holds no white
        space and no brackets, and does not end as the full form does (`markers.is_reference`).
        """
        ...

    def keep(self, reference: str, original: Original) -> None:
        """Hold an output before its marker goes out. Nothing to do where the host keeps it anyway."""
        ...

    def ledger(self) -> Sequence[Entry]:
        """The ledger entries of the current branch, oldest first."""
        ...

    def append(self, entries: Iterable[Entry]) -> None:
        """Add entries to the current branch, durably, before their markers go out."""
        ...

    def original(self, reference: str) -> Original:
        """The output that a reference leads to.

        Raises:
            RecallError: it leads to none, with the reason.
        """
        ...
