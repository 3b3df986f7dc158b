"""opencode's sessions, read as recordings: exported ones, and those in its database.

Knows what of a session opencode sends to the model: a tool's call and its result share one stored
part, a compaction is a user's message whose answer is the summary. An export is one JSON document,
whatever its name ends in.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from prunewise import tools
from prunewise.errors import InputError
from prunewise.formats.documents import Epochs, decode, outline
from prunewise.formats.jsonl import stem, timestamp
from prunewise.formats.reading import (
    Json,
    call,
    count,
    decoded,
    fields,
    image_from_url,
    items,
    objects,
    opaque,
    string,
)
from prunewise.recording import Recording
from prunewise.transcript import Image, Message, Part, Text, Thinking, ToolResult, Usage

NAME = "opencode"
VOCABULARY = tools.OPENCODE

_Record = dict[str, Json]

_SESSION_ID = re.compile(rb'"(?:id|sessionID)"\s*:\s*"ses_')
_COMPACTION_REQUEST = "What did we do so far?"
"""What opencode sends in place of a compaction part."""
_INTERRUPTED = "[Tool execution was interrupted]"
"""What it sends as the result of a call that never ended."""
_AS_TEXT = ("text/plain", "application/x-directory")
"""Files of these types are sent as the text parts beside them."""
_SEALS = ("signature", "reasoningEncryptedContent", "reasoningOpaque", "thoughtSignature")
"""Where the providers' metadata binds reasoning."""


def detect(head: bytes) -> bool:
    """Whether a file that begins with these bytes (64 kB of it, or all) is an exported opencode session."""
    return ("info", "id") in outline(head) and _SESSION_ID.search(head) is not None


def read_recording(source: str, data: bytes) -> Recording:
    """Read an exported session.

    Raises:
        InputError: it is none.
    """
    document = fields(decode(source, data)) or {}
    info, messages = fields(document.get("info")), items(document.get("messages"))
    if info is None or messages is None:
        msg = f"{source}: no opencode session: no `info` and `messages` in it"
        raise InputError(msg)
    return _recording(source, info, [fields(message) or {} for message in messages])


def read_database(path: Path) -> Iterator[Recording]:
    """Read the sessions of a database, those of subagents among them, in the order they were begun.

    The file is opened read-only and as one that nobody writes to, so that it is never changed or
    locked; what an opencode that runs has not yet written back into it is not seen.

    Raises:
        InputError: it is no database of opencode's.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.row_factory = sqlite3.Row
            database.text_factory = _text
            sessions = database.execute("SELECT * FROM session ORDER BY time_created, id").fetchall()
            for session in sessions:
                yield _recording(
                    f"{path}:{session['id']}", _session(session), _stored(database, session["id"])
                )
    except (sqlite3.Error, OSError) as error:
        msg = f"{path}: no opencode database: {error}"
        raise InputError(msg) from None


def _text(stored: bytes) -> str:
    """A text of the database: a folder's name need not be UTF-8."""
    return stored.decode("utf-8", "replace")


def _session(row: sqlite3.Row) -> _Record:
    known = set(row.keys())
    info: _Record = {"id": row["id"]}
    if "directory" in known:
        info["directory"] = row["directory"]
    if "revert" in known:
        info["revert"] = decoded(row["revert"])
    return info


def _stored(database: sqlite3.Connection, session: str) -> list[_Record]:
    """The messages of a session with their parts, as an export has them."""
    parts: dict[str, list[_Record]] = {}
    for row in database.execute(
        "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id", (session,)
    ):
        parts.setdefault(row["message_id"], []).append({**(decoded(row["data"]) or {}), "id": row["id"]})
    rows = database.execute(
        "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (session,)
    )
    return [
        {"info": {**(decoded(row["data"]) or {}), "id": row["id"]}, "parts": parts.get(row["id"], [])}
        for row in rows
    ]


def _recording(source: str, info: _Record, messages: Sequence[_Record]) -> Recording:
    reader = _Reader(source, messages)
    for position, message in enumerate(messages):
        reader.take(position, message)
    reader.reverted(info)
    directory = info.get("directory")
    return Recording(
        format=NAME,
        source=source,
        session=string(info.get("id")) or stem(source),
        epochs=reader.epochs.finished(),
        vocabulary=VOCABULARY,
        cwd=directory if type(directory) is str else None,
        warnings=tuple(reader.warnings),
    )


class _Reader:
    """Makes epochs out of the messages."""

    def __init__(self, source: str, messages: Sequence[_Record]) -> None:
        self.epochs = Epochs()
        self.warnings: list[str] = []
        self._source = source
        self._all = messages
        self._names: dict[str, int] = {}

    def warn(self, position: int, what: str) -> None:
        self.warnings.append(f"{self._source}:{position + 1}: {what}")

    def take(self, position: int, message: _Record) -> None:
        """Take in the message at a position; warnings count messages from 1, for an export is no lines."""
        info = fields(message.get("info")) or {}
        parts = list(objects(message.get("parts")))
        name = string(info.get("id")) or f"message-{position + 1}"
        self._names[name] = len(self.epochs.messages)
        role = info.get("role")
        if role == "user":
            self._user(name, info, parts)
        elif role == "assistant" and info.get("summary") is True:
            self._summary(name, info, parts)
        elif role == "assistant":
            self._assistant(name, info, parts)
        else:
            self.warn(position, "no message of a user or an assistant, left out")

    def reverted(self, info: _Record) -> None:
        """Mark the last epoch where the user has gone back and not gone on."""
        revert = fields(info.get("revert"))
        if revert is not None and string(revert.get("messageID")) in self._names:
            self.epochs.end("rewind")

    def _user(self, id: str, info: _Record, parts: Sequence[_Record]) -> None:
        read = [made for part in parts if (made := _user_part(part)) is not None]
        if not read:
            return
        role = "user" if any(_is_typed(part) for part in parts) else "other"
        self.epochs.add([Message(role, id, tuple(read), None, _created(info))])

    def _assistant(self, id: str, info: _Record, parts: Sequence[_Record]) -> None:
        """One answer, or one for each step where an older opencode kept several in one message."""
        steps = _steps(parts)
        for index, step in enumerate(steps):
            name = id if index == 0 else f"{id}:{index + 1}"
            last = index == len(steps) - 1
            self._step(name, info, step, _step_usage(info, step, alone=len(steps) == 1), last=last)

    def _step(
        self, id: str, info: _Record, parts: Sequence[_Record], usage: Usage | None, *, last: bool
    ) -> None:
        model, provider = string(info.get("modelID")), string(info.get("providerID"))
        time = _completed(info) if last else None
        answer = [made for part in parts if (made := _assistant_part(part)) is not None]
        error = fields(info.get("error")) if last else None
        kept = bool(answer) and (error is None or _is_kept(error, answer))
        failed = (error is not None or not kept) and usage is None
        self.epochs.call(usage=usage, time=time, model=model, provider=provider, failed=failed)
        if kept:
            valid = usage if error is None else None
            message = Message("assistant", id, tuple(answer), valid, time or _created(info), model)
            self.epochs.add([message, *_results(id, parts)])
            self._note_cleared(id, parts)

    def _note_cleared(self, id: str, parts: Sequence[_Record]) -> None:
        cleared = sum(1 for part in parts if (fields(_state(part).get("time")) or {}).get("compacted"))
        if cleared:
            position = next(i for i, one in enumerate(self._all) if _id_of(one) == id.partition(":")[0])
            self.warn(position, f"outputs that opencode cleared later ({cleared}), read as they were")

    def _summary(self, id: str, info: _Record, parts: Sequence[_Record]) -> None:
        """A compaction: its request held everything before it; what follows sees the summary."""
        answer = [made for part in parts if (made := _assistant_part(part)) is not None]
        failed = not answer or fields(info.get("error")) is not None or not info.get("finish")
        usage = _usage(fields(info.get("tokens")))
        model, provider = string(info.get("modelID")), string(info.get("providerID"))
        time = _completed(info)
        no_bill = failed and usage is None
        self.epochs.call(usage=usage, time=time, model=model, provider=provider, failed=no_bill)
        if failed:
            return
        before = self.epochs.messages
        asked = before[-1:] if before and before[-1].parts == (Text(_COMPACTION_REQUEST),) else []
        tail = self._tail(string(info.get("parentID")), len(before) - len(asked))
        summary = Message("other", id, tuple(part for part in answer if type(part) is Text), None, time)
        self.epochs.add([Message("assistant", id, tuple(answer), usage, time, model)])
        self.epochs.end("compaction", [*asked, summary, *tail])
        self._names = {message.id: index for index, message in enumerate(self.epochs.messages)}

    def _tail(self, parent: str, end: int) -> list[Message]:
        """The messages from where a compaction says that its tail starts."""
        for message in self._all:
            if _id_of(message) == parent:
                for part in objects(message.get("parts")):
                    start = self._names.get(string(part.get("tail_start_id")))
                    if part.get("type") == "compaction" and start is not None:
                        return self.epochs.messages[start:end]
        return []


def _id_of(message: _Record) -> str:
    return string((fields(message.get("info")) or {}).get("id"))


def _is_typed(part: _Record) -> bool:
    """Whether a part of a user's message is the user's own, not one that opencode put there."""
    return part.get("type") in ("text", "file", "subtask") and part.get("synthetic") is not True


def _state(part: _Record) -> _Record:
    return (fields(part.get("state")) or {}) if part.get("type") == "tool" else {}


def _created(info: _Record) -> float | None:
    return timestamp((fields(info.get("time")) or {}).get("created"))


def _completed(info: _Record) -> float | None:
    times = fields(info.get("time")) or {}
    return timestamp(times.get("completed")) or timestamp(times.get("created"))


def _steps(parts: Sequence[_Record]) -> list[list[_Record]]:
    """The parts of each step; parts before the first step belong to it."""
    steps: list[list[_Record]] = [[]]
    started = False
    for part in parts:
        if part.get("type") == "step-start":
            if started:
                steps.append([])
            started = True
        else:
            steps[-1].append(part)
    return steps


def _step_usage(info: _Record, parts: Sequence[_Record], *, alone: bool) -> Usage | None:
    if alone:
        return _usage(fields(info.get("tokens")))
    finished = [part for part in parts if part.get("type") == "step-finish"]
    return _usage(fields(finished[-1].get("tokens"))) if finished else None


def _usage(tokens: _Record | None) -> Usage | None:
    """Tokens as opencode counts them: `output` is without reasoning, `input` without the cache."""
    if tokens is None:
        return None
    cache = fields(tokens.get("cache")) or {}
    usage = Usage(
        count(tokens.get("input")),
        count(tokens.get("output")) + count(tokens.get("reasoning")),
        count(cache.get("read")),
        count(cache.get("write")),
        total=count(tokens.get("total")) or None,
    )
    return usage if usage.context_tokens else None


def _is_kept(error: _Record, answer: Sequence[Part]) -> bool:
    """Whether opencode still sends an answer that ended in an error: one that the user aborted, and that
    is more than reasoning.
    """
    return error.get("name") == "MessageAbortedError" and any(type(part) is not Thinking for part in answer)


def _user_part(part: _Record) -> Part | None:
    match part.get("type"):
        case "text" if type(part.get("text")) is str and not part.get("ignored"):
            return Text(part["text"])
        case "file" if part.get("mime") not in _AS_TEXT:
            return _file(part)
        case "compaction":
            return Text(_COMPACTION_REQUEST)
        case "subtask":
            return Text("The following tool was executed by the user")
        case _:
            return None


def _file(part: _Record) -> Part:
    """A file that goes along with a message: by its data where it is an image, else opaque."""
    mime = string(part.get("mime"))
    image = image_from_url(part.get("url"))
    return Image(mime, image.data_length) if mime.startswith(("image/", "application/pdf")) else opaque(part)


def _assistant_part(part: _Record) -> Part | None:
    match part.get("type"):
        case "text" if type(part.get("text")) is str:
            return Text(part["text"])
        case "reasoning":
            return Thinking(string(part.get("text")), _seal(part))
        case "tool":
            call_id = string(part.get("callID"))
            return call(call_id, part.get("tool"), _state(part).get("input")) if call_id else opaque(part)
        case _:
            return None


def _seal(part: _Record) -> str | None:
    for metadata in (fields(part.get("metadata")) or {}).values():
        for key, value in (fields(metadata) or {}).items():
            if key in _SEALS and type(value) is str:
                return value
    return None


def _results(id: str, parts: Sequence[_Record]) -> list[Message]:
    """The results of an answer's calls, as one message; none where it called nothing."""
    results: list[Part] = [
        _result(part) for part in parts if part.get("type") == "tool" and string(part.get("callID"))
    ]
    ends = [timestamp((fields(_state(part).get("time")) or {}).get("end")) for part in parts]
    time = max((end for end in ends if end is not None), default=None)
    return [Message("tool", f"{id}:results", tuple(results), None, time)] if results else []


def _result(part: _Record) -> ToolResult:
    state = _state(part)
    call_id, name = string(part.get("callID")), string(part.get("tool"))
    if state.get("status") == "completed":
        images = [_file(one) for one in objects(state.get("attachments"))]
        shown = [image for image in images if type(image) is Image]
        return ToolResult(call_id, name, (Text(string(state.get("output"))), *shown))
    if state.get("status") == "error":
        metadata = fields(state.get("metadata")) or {}
        partial = metadata.get("output") if metadata.get("interrupted") is True else None
        if type(partial) is str:
            return ToolResult(call_id, name, (Text(partial),))
        return ToolResult(call_id, name, (Text(string(state.get("error"))),), is_error=True)
    return ToolResult(call_id, name, (Text(_INTERRUPTED),), is_error=True)
