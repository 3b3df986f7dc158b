"""The promise of a marker: the store holds what it stands for before it goes out."""

from __future__ import annotations

from collections.abc import Container

from prunewise import markers
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


class Originals:
    """Has a store keep the originals of one conversation."""

    def __init__(self, store: Store, format: Format, messages: Messages) -> None:
        self._store = store
        self._format = format
        self._messages = messages

    def keep(self, transcript: Transcript, exchange: Exchange, kind: ToolKind, reference: str) -> None:
        """Keep what a marker with this reference stands for."""
        message = transcript.messages[exchange.result_position].id
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
