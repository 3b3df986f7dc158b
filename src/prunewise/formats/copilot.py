"""Copilot CLI's event files (`~/.copilot/session-state/<session>/events.jsonl`), read as recordings.

Knows which events went to the model and what a compaction leaves. Nearly all events tell what the
screen showed: turns, hooks, permissions, telemetry. docs/explanation/readers.md has the rules.
"""

from __future__ import annotations

import msgspec

from prunewise import tools
from prunewise.canonical import canonical
from prunewise.errors import InputError
from prunewise.formats.jsonl import Lines, as_object, opening, stem, timestamp
from prunewise.formats.reading import Json, call, call_from_text, count, fields, objects, opaque, string
from prunewise.recording import Ending, Epoch, LLMCall, Recording
from prunewise.stores.json_lines import Record
from prunewise.transcript import Image, Message, Part, Role, Text, Thinking, ToolResult, Usage

NAME = "copilot"
VOCABULARY = tools.COPILOT
PROVIDER = "github-copilot"


def detect(head: bytes) -> bool:
    """Whether a file that begins with these bytes (64 kB of it, or all) is an event file of Copilot CLI."""
    return any(_is_record(record) for record in opening(head))


def read_recording(source: str, data: bytes) -> Recording:
    """Read an event file: the main conversation, with an epoch for each compaction and each rewind.

    Raises:
        InputError: there is no event of a conversation in it.
    """
    lines = Lines(source, data, _is_record)
    reader = _Reader()
    subagents: dict[str, _Reader] = {}
    for number, record in lines:
        if not _is_record(record):
            lines.warn(number, "no event, left out")
            continue
        owner = string(record["data"].get("parentToolCallId")) or string(record.get("agentId"))
        taking = subagents.setdefault(owner, _Reader()) if owner else reader
        taking.take(number, record, record["data"])
    epochs = reader.finished()
    if not epochs:
        what = f"{source}: no Copilot CLI session: no message in it"
        raise InputError(what)
    main = Recording(
        format=NAME,
        source=source,
        session=reader.session or stem(source),
        epochs=epochs,
        vocabulary=VOCABULARY,
        cwd=reader.cwd,
    )
    others: list[Recording] = []
    for owner, one in subagents.items():
        named = {"source": f"{source}:{owner}", "session": f"{main.session}/{owner}"}
        own = msgspec.structs.replace(main, epochs=one.finished(), **named)
        if own.llm_calls:
            others.append(own)
    return msgspec.structs.replace(main, warnings=tuple(lines.warnings), subagents=tuple(others))


def _is_record(record: Record) -> bool:
    """Every event has these; a file's first is `session.start`."""
    return (
        type(record.get("type")) is str
        and isinstance(record.get("data"), dict)
        and ("parentId" in record or record["type"] == "session.start")
    )


class _Reader:
    """Makes epochs out of the events."""

    def __init__(self) -> None:
        self.session = ""
        self.cwd: str | None = None
        self._epochs: list[Epoch] = []
        self._messages: list[Message] = []
        self._answered: dict[int, LLMCall] = {}
        self._events: dict[str, int] = {}
        """How many messages there were before each event of the epoch, by the event's id."""
        self._system = ""
        self._model = ""
        self._totals: dict[str, Record] = {}

    def take(self, number: int, event: Record, data: Record) -> None:
        """Take in the next event."""
        event_id = string(event.get("id")) or f"line-{number}"
        self._events[event_id] = len(self._messages)
        take = _EVENTS.get(event["type"])
        if take is not None:
            take(self, event_id, data, timestamp(event.get("timestamp")))

    def finished(self) -> tuple[Epoch, ...]:
        """All epochs."""
        self._count_single_call()
        self._end("end")
        return tuple(self._epochs)

    def start(self, id: str, data: Record, time: float | None) -> None:  # noqa: ARG002
        """`session.start`, `session.resume`."""
        self.session = self.session or string(data.get("sessionId"))
        self.cwd = self.cwd or string(as_object(data.get("context")).get("cwd")) or None

    def system(self, id: str, data: Record, time: float | None) -> None:
        """`system.message`: the system prompt, written again at each turn of the user."""
        content = string(data.get("content"))
        if content and not self._system:
            self._system = content
            self._add("system", id, (Text(content),), time)

    def user(self, id: str, data: Record, time: float | None) -> None:
        """`user.message`: sent as it was transformed. Those with another source are the host's."""
        text = string(data.get("transformedContent")) or string(data.get("content"))
        images = [Image(string(one.get("mimeType")), len(string(one.get("data")))) for one in _images(data)]
        source = data.get("source")
        role: Role = "user" if source is None or source == "user" else "other"
        self._add(role, id, (Text(text), *images) if text else tuple(images), time)

    def notification(self, id: str, data: Record, time: float | None) -> None:
        """`system.notification`: the host tells the model something."""
        text = string(data.get("content"))
        self._add("other", id, (Text(text),) if text else (), time)

    def answer(self, id: str, data: Record, time: float | None) -> None:
        """`assistant.message`: one answer of the model."""
        parts: list[Part] = []
        thinking, sealed = string(data.get("reasoningText")), data.get("reasoningOpaque")
        if thinking or sealed:
            parts.append(Thinking(thinking, sealed if type(sealed) is str else None))
        if string(data.get("content")):
            parts.append(Text(data["content"]))
        for request in objects(data.get("toolRequests")):
            call_id, arguments = string(request.get("toolCallId")), request.get("arguments")
            read = call_from_text if type(arguments) is str else call
            parts.append(read(call_id, request.get("name"), arguments) if call_id else opaque(request))
        output = count(data.get("outputTokens"))
        usage = Usage(output=output) if output else None
        model = string(data.get("model"))
        self._model = model or self._model
        before = self._messages[-1] if self._messages else None
        if count(data.get("chunkIndex")) and before is not None and before.role == "assistant":
            self._go_on(before, parts, usage, time)
            return
        self._answered[len(self._messages)] = LLMCall(len(self._messages), usage, time, model, PROVIDER)
        # The message has none: a usage without input would pass for the size of the context.
        self._messages.append(Message("assistant", id, tuple(parts), None, time, model))

    def _go_on(self, before: Message, parts: list[Part], usage: Usage | None, time: float | None) -> None:
        """A further piece of the last answer, which was split at its reasoning."""
        place = len(self._messages) - 1
        self._messages[place] = msgspec.structs.replace(before, parts=(*before.parts, *parts), time=time)
        if place in self._answered:
            call = self._answered[place]
            self._answered[place] = msgspec.structs.replace(call, usage=usage or call.usage, time=time)

    def cleared(self, id: str, data: Record, time: float | None) -> None:
        """`session.context_cleared`: a new epoch, which may begin with a message of the host's."""
        kept = [message for message in self._messages if message.role == "system"]
        self._end("rewind")
        self._messages += kept
        text = string(data.get("initialMessage"))
        self._add("other", id, (Text(text),) if text else (), time)

    def usage(self, id: str, data: Record, time: float | None) -> None:  # noqa: ARG002
        """`assistant.usage`: what the last answer cost, where it is written."""
        self._set_usage(_usage(data))

    def result(self, id: str, data: Record, time: float | None) -> None:
        """`tool.execution_complete`: `result.content` was sent; the detailed content is for the screen."""
        content = _said(data.get("result"), "content")
        if content is None:
            content = _said(data.get("error"), "message")
        text = content if type(content) is str else canonical(content)
        pieces = (Text(text),) if content is not None else ()
        name = string(data.get("toolName"))
        failed = data.get("success") is False
        self._add("tool", id, (ToolResult(string(data.get("toolCallId")), name, pieces, failed),), time)

    def compaction(self, id: str, data: Record, time: float | None) -> None:
        """`session.compaction_complete`: the summary takes the place of everything but the system prompt."""
        if data.get("success") is False:
            return
        kept = [message for message in self._messages if message.role == "system"]
        summary = string(data.get("summaryContent"))
        used = as_object(data.get("compactionTokensUsed"))
        usage = _usage(used) or _usage({new: used.get(old) for old, new in _OLD_COUNTS})
        if usage is not None and self._messages:
            place, model = len(self._messages), string(used.get("model")) or self._model
            self._answered[place] = LLMCall(place, usage, time, model, PROVIDER)
        self._end("compaction")
        self._messages += kept
        self._add("other", id, (Text(summary),) if summary else (), time)

    def rewind(self, id: str, data: Record, time: float | None) -> None:  # noqa: ARG002
        """`session.snapshot_rewind`: back to before an event."""
        place = self._events.get(string(data.get("upToEventId")))
        if place is None or place >= len(self._messages):
            return
        kept = self._messages[:place]
        events = {event: at for event, at in self._events.items() if at < place}
        self._end("rewind")
        self._messages += kept
        self._events = events

    def shutdown(self, id: str, data: Record, time: float | None) -> None:  # noqa: ARG002
        """`session.shutdown`: the totals of each model since the start."""
        metrics = as_object(data.get("modelMetrics"))
        self._totals = {model: as_object(one) for model, one in metrics.items()}

    def _count_single_call(self) -> None:
        """The totals of a session with one LLM call are that call's usage; of more, nothing can be told."""
        if self._epochs or len(self._answered) != 1 or len(self._totals) != 1:
            return
        (totals,) = self._totals.values()
        if as_object(totals.get("requests")).get("count") == 1:
            self._set_usage(_usage(as_object(totals.get("usage"))))

    def _set_usage(self, usage: Usage | None) -> None:
        """Put the usage to the last answer."""
        if usage is None or not self._answered:
            return
        place = max(self._answered)
        self._answered[place] = msgspec.structs.replace(self._answered[place], usage=usage)
        self._messages[place] = msgspec.structs.replace(self._messages[place], usage=usage)

    def _add(self, role: Role, id: str, parts: tuple[Part, ...], time: float | None) -> None:
        if parts:
            self._messages.append(Message(role, id, parts, None, time))

    def _end(self, ended_by: Ending) -> None:
        if self._messages:
            self._epochs.append(Epoch(tuple(self._messages), tuple(self._answered.values()), ended_by))
        self._messages, self._answered, self._events = [], {}, {}


_EVENTS = {
    "session.start": _Reader.start,
    "session.resume": _Reader.start,
    "system.message": _Reader.system,
    "user.message": _Reader.user,
    "system.notification": _Reader.notification,
    "assistant.message": _Reader.answer,
    "assistant.usage": _Reader.usage,
    "tool.execution_complete": _Reader.result,
    "session.compaction_complete": _Reader.compaction,
    "session.context_cleared": _Reader.cleared,
    "session.snapshot_rewind": _Reader.rewind,
    "session.shutdown": _Reader.shutdown,
}
"""The events that say anything about what went to the model; all others are passed over."""


def _said(value: Json, key: str) -> Json:
    """What an object says under a key; a bare value is what it says."""
    found = fields(value)
    return value if found is None else found.get(key)


def _images(data: Record) -> list[Record]:
    return [
        one for one in objects(data.get("attachments")) if string(one.get("mimeType")).startswith("image/")
    ]


_OLD_COUNTS = (("input", "inputTokens"), ("output", "outputTokens"), ("cachedInput", "cacheReadTokens"))


def _usage(counts: Record) -> Usage | None:
    """Copilot counts what was read from and written to the cache as input too; here it is not."""
    total_input = count(counts.get("inputTokens"))
    read = min(count(counts.get("cacheReadTokens")), total_input)
    written = min(count(counts.get("cacheWriteTokens")), total_input - read)
    output = count(counts.get("outputTokens"))
    if not total_input and not output:
        return None
    return Usage(total_input - read - written, output, read, written)
