"""Where a conversation's ledger and originals live. A store issues the markers' recall references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def merged(held: Original | None, original: Original) -> Original:
    """What a reference leads to once `original` is kept under it: a purged input that is held stays."""
    if held is None or held.input is None or original.input is not None:
        return original
    return msgspec.structs.replace(original, input=held.input)


class Writes(msgspec.Struct, frozen=True):
    """What one step adds to a store: all of it is written, or nothing."""

    originals: Mapping[str, Original] = {}
    """By reference. One that is held already gives way to another output, except for its purged input."""
    entries: tuple[Entry, ...] = ()
    """In order, behind the ledger's."""
    known: int | None = None
    """How many entries the ledger had when the step was made; None to add behind whatever it has."""


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

    def ledger(self) -> Sequence[Entry]:
        """The ledger entries of the current branch, oldest first."""
        ...

    def commit(self, writes: Writes) -> None:
        """Write originals and entries as one, durably, before their markers go out.

        Originals that the host keeps anyway need not be written. Where this raises, nothing has been
        written.

        Raises:
            ConflictError: another process, or pruner, has added to the ledger since it was read.
        """
        ...

    def original(self, reference: str) -> Original:
        """The output that a reference leads to.

        Raises:
            RecallError: it leads to none, with the reason.
        """
        ...
