"""Gemini CLI's chat files (`~/.gemini/tmp/<project>/chats/`), read as recordings.

Knows both of its forms: one JSON document, and since 2026 one record a line, where a later record
of the same id replaces an earlier one and `$rewindTo` takes back. A call and its result share one entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prunewise import tools
from prunewise.errors import InputError
from prunewise.formats.documents import Epochs, decode, outline
from prunewise.formats.gemini import GEMINI
from prunewise.formats.jsonl import Lines, timestamp
from prunewise.formats.reading import Json, call, count, fields, items, objects, string
from prunewise.recording import Ending, Epoch, Recording
from prunewise.transcript import Message, Part, Text, Thinking, ToolResult, Usage

NAME = "gemini-cli"
VOCABULARY = tools.GEMINI_CLI
PROVIDER = "google"

_Record = dict[str, Json]

_FAILED = ("error", "cancelled")


def detect(head: bytes) -> bool:
    """Whether a file that begins with these bytes (64 kB of it, or all) is a chat of Gemini CLI."""
    keys = outline(head)
    return ("sessionId",) in keys and ("projectHash",) in keys


def read_recording(source: str, data: bytes) -> Recording:
    """Read a chat; each rewind ends an epoch.

    Raises:
        InputError: it is none.
    """
    reader = _Reader()
    warnings: list[str] = []
    if ("messages",) in outline(data[:65536]):
        document = fields(decode(source, data)) or {}
        reader.header(document)
        reader.extend(objects(document.get("messages")))
    else:
        lines = Lines(source, data, _is_record)
        for number, record in lines:
            if not reader.take(record):
                lines.warn(number, "no record of a chat, left out")
        warnings = lines.warnings
    if not reader.session:
        msg = f"{source}: no Gemini CLI chat: no `sessionId` and `projectHash` in it"
        raise InputError(msg)
    return Recording(
        format=NAME,
        source=source,
        session=reader.session,
        epochs=reader.finished(),
        vocabulary=VOCABULARY,
        cwd=reader.cwd,
        warnings=tuple(warnings),
    )


def _is_record(record: _Record) -> bool:
    return any(key in record for key in ("$rewindTo", "$set", "projectHash")) or (
        type(record.get("id")) is str and type(record.get("type")) is str
    )


class _Reader:
    """Holds the messages as the file changes them, and makes epochs of them."""

    def __init__(self) -> None:
        self.session = ""
        self.cwd: str | None = None
        self._epochs = Epochs()
        self._records: dict[str, _Record] = {}
        self._told: set[str] = set()
        """The messages of ended epochs: their LLM calls are counted there."""

    def header(self, record: _Record) -> None:
        """Take in what a chat says about itself."""
        if string(record.get("projectHash")):
            self.session = string(record.get("sessionId")) or self.session
        folders = items(record.get("directories"))
        if folders and type(folders[0]) is str:
            self.cwd = folders[0]

    def extend(self, records: Iterable[_Record]) -> None:
        """Take in messages in order."""
        for record in records:
            self._records[string(record.get("id")) or f"message-{len(self._records) + 1}"] = record

    def take(self, record: _Record) -> bool:
        """Take in one record of a file of lines; whether it was one."""
        rewound = record.get("$rewindTo")
        changed = fields(record.get("$set"))
        if type(rewound) is str:
            self._rewind(rewound)
        elif string(record.get("id")):
            self.extend([record])
        elif changed is not None:
            replaced = items(changed.get("messages"))
            if replaced:
                self._tell("compaction")
                self._records = {}
                self.extend(objects(replaced))
            self.header(changed)
        elif "projectHash" in record:
            self.header(record)
        else:
            return False
        return True

    def finished(self) -> tuple[Epoch, ...]:
        """All epochs."""
        self._fill()
        return self._epochs.finished()

    def _rewind(self, to: str) -> None:
        """Take back a message and all after it; all of them where it is not known."""
        self._tell("rewind")
        ids = list(self._records)
        kept = ids[: ids.index(to)] if to in self._records else []
        self._records = {name: self._records[name] for name in kept}

    def _tell(self, ended_by: Ending) -> None:
        self._fill()
        self._told |= set(self._records)
        self._epochs.end(ended_by)

    def _fill(self) -> None:
        for name, record in self._records.items():
            messages = list(_messages(name, record))
            if record.get("type") == "gemini" and name not in self._told:
                usage = _usage(fields(record.get("tokens")))
                self._epochs.call(
                    usage=usage,
                    time=timestamp(record.get("timestamp")),
                    model=string(record.get("model")),
                    provider=PROVIDER,
                    failed=usage is None,
                )
            self._epochs.add(messages)


def _messages(id: str, record: _Record) -> Iterator[Message]:
    """What the model is sent of one entry: notes to the user are nothing of it."""
    time = timestamp(record.get("timestamp"))
    kind = record.get("type")
    if kind == "user":
        yield Message("user", id, _parts(record.get("content")), None, time)
    elif kind == "gemini":
        calls = list(objects(record.get("toolCalls")))
        parts: list[Part] = [Thinking(_thought(one)) for one in objects(record.get("thoughts"))]
        parts += [part for part in _parts(record.get("content")) if part != Text("")]
        parts += [
            call(string(one.get("id")), one.get("name"), one.get("args")) for one in calls if one.get("id")
        ]
        usage = _usage(fields(record.get("tokens")))
        yield Message("assistant", id, tuple(parts), usage, time, string(record.get("model")))
        results = [part for one in calls for part in _results(one)]
        if results:
            ends = [timestamp(one.get("timestamp")) for one in calls]
            ended = max((end for end in ends if end is not None), default=None)
            yield Message("tool", f"{id}:results", tuple(results), None, ended)


def _parts(content: Json) -> tuple[Part, ...]:
    if type(content) is str:
        return (Text(content),)
    parts = content if items(content) is not None else [content]
    return GEMINI.read({"role": "user", "parts": parts}, "").parts if content is not None else ()


def _thought(thought: _Record) -> str:
    return f"{string(thought.get('subject'))}: {string(thought.get('description'))}"


def _results(one: _Record) -> list[Part]:
    """The result of a call under the call's id, with the images that came along."""
    call_id, name = string(one.get("id")), string(one.get("name"))
    failed = one.get("status") in _FAILED
    found = _parts(one.get("result")) if call_id else ()
    return [
        ToolResult(call_id, part.name or name, part.content, part.is_error or failed)
        if type(part) is ToolResult
        else part
        for part in found
    ]


def _usage(tokens: _Record | None) -> Usage | None:
    """Tokens as Gemini counts them: `input` is with the cache, `output` without thoughts."""
    if tokens is None:
        return None
    cached = count(tokens.get("cached"))
    usage = Usage(
        max(count(tokens.get("input")) - cached, 0) + count(tokens.get("tool")),
        count(tokens.get("output")) + count(tokens.get("thoughts")),
        cached,
        total=count(tokens.get("total")) or None,
    )
    return usage if usage.context_tokens else None
