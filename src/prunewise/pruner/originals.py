"""The promise of a marker: the store holds what it stands for before it goes out."""

from __future__ import annotations

from collections.abc import Container

from prunewise import markers, recall
from prunewise.engine import Engine
from prunewise.errors import RecallError
from prunewise.formats import Format
from prunewise.ledger import Target
from prunewise.masking import Output
from prunewise.pruner.messages import Messages
from prunewise.stores import Original, Store
from prunewise.transcript import (
    SHELL_OUTPUT,
    TOOL_INPUT,
    TOOL_RESULT,
    Edit,
    Exchange,
    Text,
    ToolCall,
    ToolKind,
    ToolResult,
    Transcript,
)

_BEGINNING = 64
"""So many first characters tell whether an output is that of a recall."""


class Originals:
    """Has a store keep the originals of one conversation."""

    def __init__(self, store: Store, format: Format, messages: Messages) -> None:
        self._store = store
        self._format = format
        self._messages = messages

    def keep(self, transcript: Transcript, exchange: Exchange, kind: ToolKind, reference: str) -> None:
        """Keep what a marker with this reference stands for.

        A recalled output's marker has the reference of its original: that one is held already, and what
        the recall showed of it must not take its place.
        """
        message = transcript.messages[exchange.result_position].id
        if reference != self._store.reference(message, exchange.call.id):
            return
        native = self._messages.natives[exchange.result_position]
        images = self._format.images(native, exchange.result_part)
        purged = exchange.call.arguments if kind == TOOL_INPUT else None
        self._store.keep(
            reference, Original(message, exchange.call.name, exchange.result.content, purged, images)
        )

    def keep_masked(self, transcript: Transcript, output: Output, reference: str) -> None:
        """Keep what the marker of a masked output stands for."""
        if output.exchange is not None:
            self.keep(transcript, output.exchange, TOOL_RESULT, reference)
        elif output.shell is not None:
            self._store.keep(reference, Original(output.message, "bash", (Text(output.shell.output),)))

    def keep_standing(self, transcript: Transcript, edit: Edit, standing: Container[Target]) -> None:
        """Keep what an edit's marker stands for, where a standing decision made the edit: the decision may
        be of before, and the host may have changed the message since.
        """
        part = transcript.messages[edit.position].parts[edit.part]
        if edit.kind == SHELL_OUTPUT or not isinstance(part, (ToolCall, ToolResult)):
            return
        call_id = part.id if isinstance(part, ToolCall) else part.call_id
        if (call_id, edit.kind) not in standing:
            return
        exchange, reference = transcript.exchange(call_id), markers.reference_in(edit.text)
        if exchange is not None and reference is not None:
            self.keep(transcript, exchange, edit.kind, reference)


def origin(store: Store, engine: Engine, asked: str, exchange: Exchange) -> str | None:
    """The reference of the original that a recall of `asked` returned, however deep recalls were recalled.

    None where the output does not begin as that original does: then another tool has the name.
    """
    reference = asked.strip().removesuffix(markers.FULL)
    try:
        message = store.original(reference).message
        begins = recall.recall(store, reference)[:_BEGINNING]
    except RecallError:
        return None
    if not exchange.result.text.startswith(begins):
        return None
    for earlier in engine.recalls:
        if (
            earlier.order < exchange.order
            and engine.transcript.messages[earlier.result_position].id == message
        ):
            return engine.reference_of(earlier)
    return store.reference(message, reference)
