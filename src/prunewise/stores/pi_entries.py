"""The entries of a pi session, and what pi would send of a branch of them.

Knows pi's entry types and messages, as pi 1.6 projects them into the model's context. Knows no file
and no tree: a branch comes in as a list of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import msgspec

Record = dict[str, Any]
"""A JSON object of a session file. Nobody has checked what is in it."""

_Json = Any

TYPES = frozenset(
    (
        "message",
        "custom_message",
        "compaction",
        "branch_summary",
        "context_edit",
        "custom",
        "model_change",
        "thinking_level_change",
        "session_info",
        "label",
        "usage",
    )
)
"""The entry types of pi 1.6."""

CURRENT_VERSION = 3
"""The version of the session file that pi 1.6 writes."""

_LAST_INSTANT = 8.64e15  # in milliseconds: the last that JavaScript's dates reach
_BEARING = frozenset(("message", "custom_message", "compaction", "branch_summary", "context_edit"))
_EDITABLE = ("user", "assistant", "toolResult", "custom")
_WITH_BLOCKS = ("assistant", "toolResult")
_OUTPUT_ROLES = ("toolResult", "bashExecution")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Header(msgspec.Struct, frozen=True):
    """What a session file says about itself on its first line; empty where it says nothing."""

    id: str = ""
    version: int = CURRENT_VERSION
    cwd: str | None = None
    timestamp: str = ""
    """When the session, or the fork, was begun (ISO 8601)."""
    parent_session: str | None = None
    """The path of the file that this one was forked from, as it is written there."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One entry of a session file."""

    line: int
    """The physical line it stands on, from 1."""
    id: str
    """Its id, of its own within the file. Where the file gives none, the line number as eight hex digits;
    where a later entry has the same one, with `@` and the line number behind it."""
    parent: str | None
    """The id of the entry it follows; None at a root."""
    type: str
    raw: Record
    """The entry as it stands in the file."""

    @property
    def timestamp(self) -> str:
        """When it was written, as the file has it; empty where it does not say."""
        return string(self.raw, "timestamp") or ""

    @property
    def message(self) -> Record | None:
        """The message that an entry of type `message` holds."""
        message = self.raw.get("message") if self.type == "message" else None
        return cast("Record", message) if isinstance(message, dict) else None

    @property
    def role(self) -> str | None:
        """The role of its message."""
        message = self.message
        return None if message is None else string(message, "role")

    @property
    def is_output(self) -> bool:
        """Whether it holds the output of a tool, or of a shell command of the user's."""
        message: _Json = self.raw.get("message") if self.type == "message" else None
        return message.__class__ is dict and message.get("role") in _OUTPUT_ROLES

    @property
    def bears_on_context(self) -> bool:
        """Whether its type puts anything into the context, or changes what is there."""
        return self.type in _BEARING

    @property
    def described(self) -> str:
        """What it is, for a message to the user."""
        role = self.role
        return f"an entry of type {self.type}" if role is None else f"a message of role {role}"


class ContextMessage(NamedTuple):
    """One message as pi would send it."""

    id: str
    """The entry's id; with `:system` behind it for the system prompt that a compaction carries."""
    message: Record
    """pi's message. Where nothing edits it, the very object that the entry holds."""
    line: int
    """The line of the entry it comes from."""


def string(record: Record, key: str) -> str | None:
    """The value under a key, where it is text."""
    value = record.get(key)
    return value if isinstance(value, str) else None


def attached(blocks: Sequence[_Json]) -> list[_Json]:
    """Those of a result's blocks that text does not tell in full: images, and kinds that pi does not know."""
    return [
        block
        for block in blocks
        if isinstance(block, dict) and cast("dict[str, _Json]", block).get("type") not in (None, "text")
    ]


def instant(stamp: str) -> datetime | None:
    """The moment of an ISO 8601 timestamp, UTC where it names no zone; None where it is none."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def context_of(
    branch: Sequence[Entry], version: int, first_kept: Callable[[Entry], str | None]
) -> list[ContextMessage]:
    """The messages that pi would send of a branch (root first).

    After a compaction: its summary, what it kept, and what follows. Context edits are in place, branch
    summaries and messages of extensions are messages, everything else is left out. `first_kept` names
    the entry that a compaction kept from.
    """
    entries = _after_compaction(branch, first_kept)
    edits = {
        entry.raw["targetId"]: entry.raw["replacement"]
        for entry in entries
        if entry.type == "context_edit" and string(entry.raw, "targetId") and "replacement" in entry.raw
    }
    context: list[ContextMessage] = []
    for position, entry in enumerate(entries):
        message: _Json = (
            entry.raw.get("message") if entry.type == "message" and entry.id not in edits else None
        )
        if message.__class__ is dict and message.get("content") is not None and version == CURRENT_VERSION:
            context.append(ContextMessage(entry.id, message, entry.line))  # as it stands: most are so
            continue
        if entry.type not in _BEARING or (entry.type == "compaction" and position):
            continue  # an older compaction among what the newest one kept says nothing
        made = _messages(entry, version)
        if entry.id in edits:
            made = _edited(made, edits[entry.id])
        for index, one in enumerate(made, start=1):
            suffix = "" if index == len(made) else ":system"
            context.append(ContextMessage(entry.id + suffix, one, entry.line))
    return context


def _after_compaction(branch: Sequence[Entry], first_kept: Callable[[Entry], str | None]) -> Sequence[Entry]:
    """The newest compaction, what it kept without system prompts, and what follows it."""
    last = next((i for i in range(len(branch) - 1, -1, -1) if branch[i].type == "compaction"), None)
    if last is None:
        return branch
    first = first_kept(branch[last])
    start = next((i for i in range(last) if branch[i].id == first), last)
    kept = [entry for entry in branch[start:last] if entry.role != "system"]
    return [branch[last], *kept, *branch[last + 1 :]]


def _messages(entry: Entry, version: int) -> list[Record]:
    """The messages of one entry, without edits; of two, the first is a system prompt."""
    raw = entry.raw
    if entry.type == "message":
        message = entry.message
        return [] if message is None else [_current(message, version)]
    if entry.type == "custom_message":
        content = raw.get("content")
        message = _made("custom", raw, ("customType", "content", "display", "details"))
        return [{**message, "content": []} if content is None else message]
    if entry.type == "branch_summary" and raw.get("summary"):
        return [_made("branchSummary", raw, ("summary", "fromId"))]
    if entry.type == "compaction":
        summary = _made("compactionSummary", raw, ("summary", "tokensBefore"))
        system = raw.get("systemMessage")
        return [cast("Record", system), summary] if isinstance(system, dict) else [summary]
    return []


def _current(message: Record, version: int) -> Record:
    """A stored message in its present form: missing content filled in, the old name of a role replaced."""
    role = message.get("role")
    if role == "hookMessage" and version < CURRENT_VERSION:
        return {**message, "role": "custom"}
    if message.get("content") is None:
        if role == "system":
            return {**message, "content": ""}
        if role in ("user", "assistant", "toolResult"):
            return {**message, "content": []}
    return message


def _made(role: str, raw: Record, keys: Sequence[str]) -> Record:
    """A message that pi makes of an entry that holds none; a field that the entry lacks is left out."""
    message: Record = {"role": role}
    for key in keys:
        if key in raw or key == "content":
            message[key] = raw.get(key)
    message["timestamp"] = _milliseconds(raw["timestamp"]) if "timestamp" in raw else None
    return message


def _milliseconds(stamp: _Json) -> int | None:
    """An entry's timestamp as pi puts it into messages: whole milliseconds since the epoch."""
    if stamp is None:
        return 0
    moment = instant(stamp) if isinstance(stamp, str) else None
    if moment is not None:
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return int(stamp) if isinstance(stamp, (int, float)) and abs(stamp) < _LAST_INSTANT else None


def _edited(messages: list[Record], replacement: _Json) -> list[Record]:
    """The messages of an entry with its newest context edit in place."""
    if replacement is None:
        return []
    if not isinstance(replacement, dict) or "content" not in replacement:
        return messages
    content: _Json = cast("Record", replacement)["content"]
    return [_with_content(message, content) for message in messages]


def _with_content(message: Record, content: _Json) -> Record:
    role = message.get("role")
    if role not in _EDITABLE:
        return message
    if role in _WITH_BLOCKS and isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return {**message, "content": content}
