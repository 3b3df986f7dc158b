"""Qwen Code's chat files (`~/.qwen/projects/<folder>/chats/<session>.jsonl`), read as recordings.

Knows which records went to the model, how they hang together, and what a compression leaves. What is
said is read as the Gemini API's contents, which is how Qwen Code keeps it, whatever API it speaks.
docs/explanation/readers.md has the rules in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from prunewise import tools
from prunewise.errors import InputError
from prunewise.formats.documents import Epochs
from prunewise.formats.gemini import GEMINI, linked
from prunewise.formats.jsonl import Lines, as_object, opening, timestamp
from prunewise.formats.reading import Json, count, fields, items, objects, string
from prunewise.recording import Epoch, Recording
from prunewise.stores.json_lines import Record
from prunewise.transcript import Message, Role, ToolResult, Usage

NAME = "qwen-code"
VOCABULARY = tools.QWEN

_KINDS = frozenset({"user", "assistant", "tool_result", "system"})
_FAILED = ("error", "cancelled")
_NOT_SENT = frozenset({"realtime_message", "code_mode_tool_result"})
"""What is said beside the conversation: by voice, and by programs that call tools themselves."""
_USERS = ("", "mid_turn_user_message")
"""The subtypes of what the user says; every other is the host's: notifications, schedules, goals."""
_BESIDE = frozenset(
    {
        *("session_artifact_event", "session_artifact_snapshot", "session_sources_snapshot"),
        *("managed_session_header_v1", "managed_session_event_v1", "managed_session_commit_v1"),
    }
)
"""State that is written beside the conversation, and no end of a branch."""


def detect(head: bytes) -> bool:
    """Whether a file that begins with these bytes (64 kB of it, or all) is a chat of Qwen Code."""
    return any(_is_record(record) or _is_cut_off(record) for record in opening(head))


def read_recording(source: str, data: bytes) -> Recording:
    """Read a chat: the branch of the last record, with an epoch for each compression.

    Raises:
        InputError: there is no message of Qwen Code's in it.
    """
    lines = Lines(source, data, _is_record)
    entries = _entries(lines)
    if not any(entry.said for entry in entries.values()):
        what = f"{source}: no Qwen Code chat: no message in it that Qwen Code would write"
        raise InputError(what)
    branch = _branch(entries, lines)
    first = next(iter(entries.values())).record
    return Recording(
        format=NAME,
        source=source,
        session=branch[-1].session,
        epochs=_epochs(branch),
        vocabulary=VOCABULARY,
        cwd=string(first.get("cwd")) or None,
        warnings=tuple(lines.warnings),
        branches=_branches(entries.values()),
    )


def _is_record(record: Record) -> bool:
    """Whether it has the fields of a record, and one of those that are Qwen Code's alone."""
    if string(record.get("type")) not in _KINDS or not (
        string(record.get("uuid")) and string(record.get("sessionId"))
    ):
        return False
    said = as_object(record.get("message"))
    return "parts" in said or "systemPayload" in record or "toolCallResult" in record


def _is_cut_off(record: Record) -> bool:
    """A first line that goes on beyond what was looked at, up to its message."""
    return (
        record.get("message") == {}
        and string(record.get("type")) in _KINDS
        and all(string(record.get(key)) for key in ("uuid", "sessionId", "cwd", "version"))
        and "isSidechain" not in record
    )


# ---- records


class _Entry:
    """One record, with what the chain of records needs of it."""

    __slots__ = ("content", "number", "parent", "record", "said", "session", "subtype", "uuid")

    def __init__(self, number: int, record: Record) -> None:
        self.number = number
        self.record = record
        self.uuid = string(record.get("uuid"))
        self.parent = string(record.get("parentUuid"))
        self.session = string(record.get("sessionId"))
        self.subtype = string(record.get("subtype"))
        self.content = as_object(record.get("message"))
        self.said = record.get("type") != "system" and "parts" in self.content

    def add(self, record: Record) -> None:
        """A further piece of the same record: its parts go behind, its usage takes the place."""
        more = items(as_object(record.get("message")).get("parts")) or []
        self.content = {**self.content, "parts": [*(items(self.content.get("parts")) or []), *more]}
        added = {key: record[key] for key in ("usageMetadata", "timestamp") if record.get(key)}
        self.record = {**record, **self.record, **added}


def _entries(lines: Lines) -> dict[str, _Entry]:
    """All records by their id, in order; pieces of one are one."""
    found: dict[str, _Entry] = {}
    for number, record in lines:
        entry = _Entry(number, record)
        if string(record.get("type")) not in _KINDS or not entry.uuid or not entry.session:
            lines.warn(number, "no record of a chat, left out")
        elif entry.uuid in found:
            found[entry.uuid].add(record)
        else:
            found[entry.uuid] = entry
    return found


def _branch(entries: Mapping[str, _Entry], lines: Lines) -> list[_Entry]:
    """The records from the first to the last one, along their parents.

    Where a parent is not in the file, the record before is taken for it, with a warning. Files in which
    no record has a parent are read in their order.
    """
    order = [entry for entry in entries.values() if entry.subtype not in _BESIDE]
    place = {entry.uuid: index for index, entry in enumerate(order)}
    if not any(entry.parent for entry in order):
        return order
    branch: list[_Entry] = []
    index = len(order) - 1
    while index >= 0:
        entry = order[index]
        branch.append(entry)
        if not entry.parent:
            break
        before = place.get(entry.parent, -1)
        if before < 0 or before >= index:
            what = f"parent {entry.parent} is not before it, the record before is taken for it"
            lines.warn(entry.number, what)
            before = index - 1
        index = before
    return branch[::-1]


def _branches(entries: Iterable[_Entry]) -> int:
    """How many ends there are on which something was said: records that no other one hangs on."""
    order = list(entries)
    parents = {entry.parent for entry in order}
    leaves = sum(entry.said and entry.uuid not in parents for entry in order)
    tail = next((entry for entry in reversed(order) if entry.subtype not in _BESIDE), None)
    return max(leaves + (tail is not None and not tail.said), 1)


# ---- what was sent


def _epochs(branch: Sequence[_Entry]) -> tuple[Epoch, ...]:
    """The epochs of a branch: a compression ends one, and says what the next one begins with."""
    epochs = Epochs()
    said: list[_Entry] = []
    for entry in branch:
        payload = as_object(entry.record.get("systemPayload"))
        if entry.said and entry.subtype not in _NOT_SENT:
            said.append(entry)
        elif entry.subtype == "chat_compression" and "compressedHistory" in payload:
            _tell(epochs, said)
            epochs.end("compaction", _history(entry.uuid, payload["compressedHistory"]))
            said = []
        elif entry.subtype == "slash_command" and said and _was_local(said[-1], payload):
            said.pop()
    _tell(epochs, said)
    return epochs.finished()


def _tell(epochs: Epochs, said: Sequence[_Entry]) -> None:
    natives = linked([entry.content for entry in said])
    for entry, native in zip(said, natives, strict=True):
        message = _message(entry, GEMINI.read(native, entry.uuid))
        if message.role == "assistant":
            failed = not message.parts and message.usage is None
            epochs.call(usage=message.usage, time=message.time, model=message.model, failed=failed)
        if message.parts:
            epochs.add([message])


def _message(entry: _Entry, read: Message) -> Message:
    """The message with what the record says beside its content."""
    record, parts = entry.record, read.parts
    role: Role = read.role
    if record.get("type") == "tool_result":
        if as_object(record.get("toolCallResult")).get("status") in _FAILED:
            parts = tuple([_failed(part) if type(part) is ToolResult else part for part in parts])
    elif record.get("type") == "user":
        role = "user" if entry.subtype in _USERS else "other"
    usage = _usage(fields(record.get("usageMetadata"))) if role == "assistant" else None
    time = timestamp(record.get("timestamp"))
    return Message(role, read.id, parts, usage, time, string(record.get("model")))


def _failed(result: ToolResult) -> ToolResult:
    return msgspec.structs.replace(result, is_error=True)


def _history(id: str, history: Json) -> list[Message]:
    """What a compression put in the place of the history. Its answers were given before."""
    natives = linked(list(objects(history)))
    read = [GEMINI.read(native, f"{id}.{place}") for place, native in enumerate(natives)]
    summary = next((place for place, message in enumerate(read) if message.role == "user"), None)
    if summary is not None:
        read[summary] = msgspec.structs.replace(read[summary], role="other")
    return read


def _was_local(entry: _Entry, payload: Record) -> bool:
    """Whether a record of the user's was a command that the host answered by itself."""
    parts = items(entry.content.get("parts")) or []
    return (
        payload.get("phase") == "result"
        and payload.get("sentToModel") is not True
        and entry.record.get("type") == "user"
        and parts == [{"text": payload.get("rawCommand")}]
    )


def _usage(counts: dict[str, Json] | None) -> Usage | None:
    """Tokens as the record has them: the prompt is with the cache, and the total with the thoughts."""
    if counts is None:
        return None
    prompt, total = count(counts.get("promptTokenCount")), count(counts.get("totalTokenCount"))
    cached = min(count(counts.get("cachedContentTokenCount")), prompt)
    output = max(total - prompt, count(counts.get("candidatesTokenCount")))
    usage = Usage(prompt - cached, output, cached, total=total or None)
    return usage if usage.context_tokens else None
