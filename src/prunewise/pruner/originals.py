"""The promise of a marker: what it stands for is committed before it goes out."""

from __future__ import annotations

from collections.abc import Container

from prunewise import markers
from prunewise.formats import Format
from prunewise.ledger import Target
from prunewise.masking import Output
from prunewise.pruner.messages import Messages
from prunewise.stores import Original, merged
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
    """Collects the originals that the store of one conversation does not hold yet."""

    def __init__(self, format: Format, messages: Messages) -> None:
        self.new: dict[str, Original] = {}
        """By reference: those to be committed."""
        self._committed: dict[str, Original] = {}
        self._format = format
        self._messages = messages

    def committed(self) -> None:
        """The new ones have been committed."""
        self._committed.update(self.new)
        self.new = {}

    def _add(self, reference: str, original: Original) -> None:
        held = self.new.get(reference) or self._committed.get(reference)
        original = merged(held, original)
        if original != held:
            self.new[reference] = original

    def keep(self, transcript: Transcript, exchange: Exchange, kind: ToolKind, reference: str) -> None:
        """Keep what a marker with this reference stands for."""
        message = transcript.messages[exchange.result_position].id
        native = self._messages.natives[exchange.result_position]
        images = self._format.images(native, exchange.result_part)
        purged = exchange.call.arguments if kind == TOOL_INPUT else None
        self._add(reference, Original(message, exchange.call.name, exchange.result.content, purged, images))

    def keep_masked(self, transcript: Transcript, output: Output, reference: str) -> None:
        """Keep what the marker of a masked output stands for."""
        if output.exchange is not None:
            self.keep(transcript, output.exchange, TOOL_RESULT, reference)
        elif output.shell is not None:
            self._add(reference, Original(output.message, "bash", (Text(output.shell.output),)))

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
