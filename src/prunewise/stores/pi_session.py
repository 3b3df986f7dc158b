"""pi's session files: a tree of entries, one JSON object a line, as pi 1.x reads and writes it.

Knows how to read a file however it was left, what pi would send of a branch, where the ledger's
entries stand in it, and how to add to it. It never changes a byte that is there. It knows nothing of
pruning: which outputs may go is said elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from prunewise import ledger, markers
from prunewise.canonical import canonical
from prunewise.errors import InputError, PrunewiseError, RecallError, RefusedError
from prunewise.stores import Original
from prunewise.stores.json_lines import Record, recover
from prunewise.transcript import TOOL_INPUT, Image, Text

CURRENT_VERSION = 3
"""The version of the session file that pi 1.6 writes."""

_TREE_VERSION = 2
_LINEAR_VERSION = 1
_Json = Any
"""Decoded JSON that nobody has checked."""

_TYPES = frozenset({
    "message",
    "custom",
    "custom_message",
    "compaction",
    "branch_summary",
    "context_edit",
    "model_change",
    "thinking_level_change",
    "session_info",
    "label",
    "usage",
})  # fmt: skip
_SILENT = _TYPES - {"message", "custom_message", "compaction", "branch_summary", "context_edit"}
"""Entry types that put nothing into the model's context."""

_EDITABLE = ("user", "assistant", "toolResult", "custom")
_OUTPUT_ROLES = ("toolResult", "bashExecution")
_LINES_BEFORE_GIVING_UP = 1000
_LOCK_SECONDS = 10.0
_PROBE = 64
_LINE_REFERENCE = re.compile(r"#([0-9]{1,15})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_APPEND = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_decode = msgspec.json.Decoder().decode


class Header(msgspec.Struct, frozen=True):
    """What a session file says about itself on its first line; empty where it says nothing."""

    id: str = ""
    version: int = CURRENT_VERSION
    cwd: str | None = None
    timestamp: str = ""
    parent_session: str | None = None
    """The path of the file that this one was forked from, as it is written there."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One entry of a session file."""

    line: int
    """The physical line it stands on, from 1."""
    id: str
    """Its own id, unique in the file. Where the file gives none, the line number as eight hex digits;
    where a later entry has the same id, with `@` and the line number behind it."""
    parent: str | None
    """The id of the entry it follows; None at a root."""
    type: str
    raw: Record
    """The entry as it stands in the file."""

    @property
    def timestamp(self) -> str:
        """When it was written, as the file has it; empty where it does not say."""
        stamp = self.raw.get("timestamp")
        return stamp if isinstance(stamp, str) else ""


class ContextMessage(NamedTuple):
    """One message as pi would send it."""

    id: str
    """The entry's id; with `:system` behind it for the system prompt that a compaction carries."""
    message: Record
    """pi's message. Where nothing edits it, it is the object that the entry holds."""
    line: int
    """The line of the entry it comes from."""


class PiSession:
    """One pi session file: its entries, branches and context, and the store of its conversation.

    The active leaf is the last entry of the file, as pi has it.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        """Where the file lies; None for bytes."""
        self._reset()

    def _reset(self) -> None:
        self.header = Header()
        self.entries: list[Entry] = []
        """All entries in file order, without the header."""
        self._by_id: dict[str, Entry] = {}
        self._same_id: dict[str, list[Entry]] = {}
        self._by_line: dict[int, list[Entry]] = {}
        self._decisions: tuple[int, list[ledger.Decision]] = (0, [])
        self._notes: dict[tuple[int, str], None] = {}
        self._has_header = False
        self._lines = 0
        self._end = 0
        self._probe = b""
        self._identity: tuple[int, int] | None = None
        self._last_line_open = False
        self._shift: int | None = None
        self._crowded: set[int] = set()
        self._unresolved: list[Entry] = []
        self._irregular = False
        self._parsed: list[Entry | None] = []

    # ------------------------------------------------------------------ reading

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> PiSession:
        """Read a session file.

        Raises:
            InputError: there is no such file, it cannot be read, or it is not a pi session.
        """
        session = cls(Path(path))
        with _reading(session.path) as file:
            session._read(file)
        return session

    @classmethod
    def from_bytes(cls, data: bytes, path: str | os.PathLike[str] | None = None) -> PiSession:
        """Read a session from the bytes of its file; `path` is where they are said to come from.

        Raises:
            InputError: it is not a pi session.
        """
        session = cls(None if path is None else Path(path))
        session._read(io.BytesIO(data))
        return session

    def refresh(self) -> None:
        """Read what has been written to the file since it was read.

        Raises:
            InputError: the file is gone, or is not a pi session any more.
        """
        with _reading(self.path) as file:
            self._catch_up(file)

    def _catch_up(self, file: BinaryIO) -> None:
        status = os.fstat(file.fileno())
        same = self._identity == (status.st_dev, status.st_ino) and status.st_size >= self._end
        if same and status.st_size == self._end:
            return
        if same and not self._last_line_open:
            file.seek(max(self._end - _PROBE, 0))
            if file.read(min(_PROBE, self._end)) == self._probe:
                self._read(file)
                return
        # Another file under this name, a rewritten one (pi does so with old versions), or a last
        # line that has gone on since: what is known of it does not hold any more.
        self._reset()
        file.seek(0)
        self._read(file)

    def _read(self, file: BinaryIO) -> None:
        """Read from where the file stands to its end."""
        line = self._take_lines(file)
        self._end = file.tell()
        self._last_line_open = bool(line) and not line.endswith(b"\n")
        file.seek(max(self._end - _PROBE, 0))
        self._probe = file.read(min(_PROBE, self._end))
        with contextlib.suppress(OSError):  # bytes have no file number
            status = os.fstat(file.fileno())
            self._identity = (status.st_dev, status.st_ino)
        if not self.entries and not self._has_header:
            what = f"none of its {self._lines} lines is an entry of one" if self._end else "it is empty"
            message = f"{self._name}: not a pi session, {what}"
            raise InputError(message)
        self._check_parents()

    def _take_lines(self, lines: Iterable[bytes]) -> bytes:
        """Read lines into entries, and give the last one back. What is regular is done right here,
        since this runs for each line of a file."""
        by_id = self._by_id
        add = self.entries.append
        number = self._lines
        regular = self._has_header and self.header.version >= _TREE_VERSION
        line = b""
        for line in lines:
            number += 1
            try:
                raw = _decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._take_refused(number, line)
            else:
                if regular and raw.__class__ is dict:
                    id = raw.get("id")
                    parent = raw.get("parentId")
                    kind = raw.get("type")
                    if (
                        kind in _TYPES
                        and id.__class__ is str
                        and id
                        and id not in by_id
                        and (parent in by_id if parent is not None else "parentId" in raw)
                    ):
                        entry = Entry(number, id, parent, kind, raw)
                        by_id[id] = entry
                        add(entry)
                        continue
                self._take(number, raw)
            regular = self._has_header and self.header.version >= _TREE_VERSION
        self._lines = number
        return line

    def _take_refused(self, number: int, line: bytes) -> None:
        """Read a line that the decoder does not take."""
        records, problem = recover(line, _looks_like_an_entry)
        if problem is not None:
            self._note(number, problem)
        if problem is not None or not records:
            self._shift = self._shift or number
        if len(records) > 1:
            self._crowded.add(number)
        for record in records:
            self._take(number, record)
        if not records and not self.entries and not self._has_header:
            self._give_up(number)

    def _take(self, number: int, raw: _Json) -> None:
        """Read one decoded line that is not a regular entry of a file with a tree."""
        if not isinstance(raw, dict):
            self._note(number, "no JSON object, left out")
            self._shift = self._shift or number
            return
        record = cast("Record", raw)
        kind = record.get("type")
        if kind == "session":
            self._take_header(number, record)
            return
        if not isinstance(kind, str) or not self._is_entry(kind, record):
            self._note(number, "no entry of a pi session, left out")
            self._shift = self._shift or number
            self._give_up(number)
            return
        if not self._has_header and not self.entries:
            own_id = isinstance(record.get("id"), str)
            self.header = Header(version=CURRENT_VERSION if own_id else _LINEAR_VERSION)
            self._note(number, f"no session header before it, read as version {self.header.version}")
        self._add(number, kind, record)

    def _is_entry(self, kind: str, record: Record) -> bool:
        if self._has_header or self.entries:
            return kind in _TYPES or isinstance(record.get("id"), str)
        if kind == "message":
            message = record.get("message")
            return isinstance(message, dict) and isinstance(cast("Record", message).get("role"), str)
        return kind in _TYPES and ("parentId" in record or isinstance(record.get("timestamp"), str))

    def _give_up(self, number: int) -> None:
        """Stop early at what is no session, however long it is."""
        if number >= _LINES_BEFORE_GIVING_UP and not self.entries and not self._has_header:
            message = f"{self._name}: not a pi session, none of its first {number} lines is an entry of one"
            raise InputError(message)

    def _take_header(self, number: int, record: Record) -> None:
        id = record.get("id")
        if self._has_header or self.entries or not isinstance(id, str):
            self._note(number, "a session header where none belongs, left out")
            self._parsed.append(None)
            return
        self._has_header = True
        self._parsed.append(None)
        version = record.get("version", _LINEAR_VERSION)
        if not isinstance(version, int) or isinstance(version, bool):
            version = _LINEAR_VERSION if version is None else CURRENT_VERSION
        if version > CURRENT_VERSION:
            self._note(number, f"version {version} of the session file, read as version {CURRENT_VERSION}")
        self.header = Header(
            id,
            max(_LINEAR_VERSION, min(version, CURRENT_VERSION)),
            _string(record, "cwd"),
            _string(record, "timestamp") or "",
            _string(record, "parentSession") or None,
        )

    def _add(self, number: int, kind: str, record: Record) -> None:
        """Add an entry whose id or parent has to be found or checked first."""
        linear = self.header.version < _TREE_VERSION
        own = record.get("id")
        id = own if isinstance(own, str) and own and not linear else f"{number:08x}"
        before = self.entries[-1].id if self.entries else None
        parent = record.get("parentId")
        if linear:
            parent = before
        elif parent is None and "parentId" in record:
            pass
        elif not isinstance(parent, str):
            parent = before
            self._note(
                number, "an entry that does not say which it follows, read as following the one before it"
            )
        else:
            parent = parent or None
        if id in self._by_id:
            self._rename_earlier(id, number)
        entry = Entry(number, id, parent, kind, record)
        if parent is not None and parent not in self._by_id:
            self._unresolved.append(entry)
        self._by_id[id] = entry
        self.entries.append(entry)
        if self._crowded or linear:
            self._by_line.clear()
        if linear:
            self._parsed.append(entry)

    def _rename_earlier(self, id: str, number: int) -> None:
        """Of two entries with one id the later has it, as in pi; the earlier gets a name of its own."""
        earlier = self._by_id[id]
        renamed = msgspec.structs.replace(earlier, id=f"{id}@{earlier.line}")
        index = next(i for i in range(len(self.entries) - 1, -1, -1) if self.entries[i] is earlier)
        self.entries[index] = renamed
        self._by_id[renamed.id] = renamed
        self._same_id.setdefault(id, []).append(renamed)
        self._irregular = True
        self._note(
            number, f"the same id as the entry on line {earlier.line}, {id}, which is read as {renamed.id}"
        )

    def _check_parents(self) -> None:
        """Say once what does not lead to the root, and remember to walk with care."""
        missing = [entry for entry in self._unresolved if entry.parent not in self._by_id]
        if missing:
            first = missing[0]
            more = f", and {len(missing) - 1} more like it" if len(missing) > 1 else ""
            self._note(
                first.line,
                f"it follows {first.parent}, which is not in the file{more}; read in file order there",
            )
        if self._unresolved or self._irregular:
            self._irregular = True
            self.branch()

    def _note(self, number: int, text: str) -> None:
        self._notes[number, text] = None

    @property
    def _name(self) -> str:
        return "session" if self.path is None else str(self.path)

    @property
    def warnings(self) -> list[str]:
        """What was found wrong in the file, each as `path:line: what, what was done`, in file order."""
        return [f"{self._name}:{number}: {text}" for number, text in sorted(self._notes)]

    # ------------------------------------------------------------------ the tree

    @property
    def conversation(self) -> str:
        """The session's id; without a header the name of the file."""
        return self.header.id or ("" if self.path is None else self.path.stem)

    @property
    def cwd(self) -> str | None:
        """The working directory that the session was started in."""
        return self.header.cwd

    @property
    def leaf(self) -> str | None:
        """The id of the active leaf, the last entry of the file; None where there is no entry."""
        return self.entries[-1].id if self.entries else None

    @property
    def leaves(self) -> list[str]:
        """The ids of the entries that no other follows, in file order."""
        parents = {entry.parent for entry in self.entries}
        return [entry.id for entry in self.entries if entry.id not in parents]

    def entry(self, id: str) -> Entry | None:
        """The entry with this id, or None."""
        return self._by_id.get(id)

    def branch(self, leaf: str | None = None) -> list[Entry]:
        """The entries from the root to `leaf` (any entry's id; None: the active leaf).

        Where an entry follows one that is not there, or the chain runs in a circle, the entry before
        it in the file is taken to be the one it follows.

        Raises:
            InputError: there is no such entry.
        """
        if leaf is not None and leaf not in self._by_id:
            message = f"{self._name}: no entry {leaf}"
            raise InputError(message)
        current = self._by_id[leaf] if leaf is not None else self.entries[-1] if self.entries else None
        if self._irregular:
            return self._irregular_branch(current)
        by_id = self._by_id
        path: list[Entry] = []
        while current is not None:
            path.append(current)
            current = by_id[current.parent] if current.parent is not None else None
        path.reverse()
        return path

    def _irregular_branch(self, current: Entry | None) -> list[Entry]:
        index = {entry.id: position for position, entry in enumerate(self.entries)}
        seen: set[str] = set()
        path: list[Entry] = []
        while current is not None:
            path.append(current)
            seen.add(current.id)
            if current.parent is None:
                break
            parent = self._by_id.get(current.parent)
            if parent is not None and parent.id in seen:
                self._note(
                    current.line, f"it follows {parent.id}, which follows it; read in file order there"
                )
                parent = None
            if parent is None:
                position = index[current.id] - 1
                while position >= 0 and self.entries[position].id in seen:
                    position -= 1
                parent = self.entries[position] if position >= 0 else None
            current = parent
        path.reverse()
        return path

    # ------------------------------------------------------------------ what pi would send

    def context(self, leaf: str | None = None) -> list[ContextMessage]:
        """The messages that pi would send of the branch to `leaf` (None: the active leaf), in order.

        After a compaction: its summary and what it kept. Context edits are in place, branch summaries
        and messages of extensions are messages, everything else is left out.
        """
        entries = self._contextual(self.branch(leaf))
        edits = {
            target: entry.raw.get("replacement")
            for entry in entries
            if entry.type == "context_edit" and isinstance(target := entry.raw.get("targetId"), str)
        }
        context: list[ContextMessage] = []
        for position, entry in enumerate(entries):
            if entry.type in _SILENT or (entry.type == "compaction" and position):
                continue  # an older compaction within what the newest one kept
            messages = self._messages(entry)
            if edits and entry.id in edits:
                messages = _edited(messages, edits[entry.id])
            line = entry.line
            if len(messages) == 1:
                context.append(ContextMessage(entry.id, messages[0], line))
            elif messages:
                context.append(ContextMessage(f"{entry.id}:system", messages[0], line))
                context.append(ContextMessage(entry.id, messages[1], line))
        return context

    def _contextual(self, path: list[Entry]) -> list[Entry]:
        """The entries of a branch that bear on the context: the newest compaction, what it kept, what follows."""
        last = next((i for i in range(len(path) - 1, -1, -1) if path[i].type == "compaction"), None)
        if last is None:
            return path
        first = self._first_kept(path[last])
        start = next((i for i in range(last) if path[i].id == first), last)
        kept = [entry for entry in path[start:last] if _role(entry) != "system"]
        return [path[last], *kept, *path[last + 1 :]]

    def _first_kept(self, compaction: Entry) -> str | None:
        """The id of the first entry that a compaction kept. Old files count the lines that pi could read."""
        if self.header.version >= _TREE_VERSION:
            return _string(compaction.raw, "firstKeptEntryId")
        index = compaction.raw.get("firstKeptEntryIndex")
        if not isinstance(index, (int, float)) or index != int(index) or not 0 <= index < len(self._parsed):
            return None
        kept = self._parsed[int(index)]
        return kept.id if kept is not None else None

    def _messages(self, entry: Entry) -> list[Record]:
        """The messages of one entry, without edits."""
        raw = entry.raw
        if entry.type == "message":
            return self._own_message(raw.get("message"))
        if entry.type == "custom_message":
            content = raw.get("content")
            fields: Record = {
                "customType": raw.get("customType"),
                "content": [] if content is None else content,
            }
            return [_made("custom", raw, fields, ("display", "details"))]
        if entry.type == "branch_summary" and raw.get("summary"):
            return [_made("branchSummary", raw, {}, ("summary", "fromId"))]
        if entry.type == "compaction":
            summary = _made("compactionSummary", raw, {}, ("summary", "tokensBefore"))
            system = raw.get("systemMessage")
            return [cast("Record", system), summary] if isinstance(system, dict) else [summary]
        return []

    def _own_message(self, message: _Json) -> list[Record]:
        if not isinstance(message, dict):
            return []
        message = cast("Record", message)
        role = message.get("role")
        if role == "hookMessage" and self.header.version < CURRENT_VERSION:
            return [{**message, "role": "custom"}]
        if message.get("content") is None:
            if role == "system":
                return [{**message, "content": ""}]
            if role in ("user", "assistant", "toolResult"):
                return [{**message, "content": []}]
        return [message]

    # ------------------------------------------------------------------ the ledger

    def ledger(self, leaf: str | None = None) -> list[ledger.Entry]:
        """The ledger's entries on the branch to `leaf` (None: the active leaf), oldest first.

        One that has the ledger's type and not its shape is passed over, with a warning.
        """
        return self._ledger_of(self.branch(leaf))

    def _ledger_of(self, entries: Iterable[Entry]) -> list[ledger.Entry]:
        found: list[ledger.Entry] = []
        for entry in entries:
            custom_type = entry.raw.get("customType") if entry.type == "custom" else None
            if not isinstance(custom_type, str):
                continue
            try:
                read = ledger.from_data(custom_type, entry.raw.get("data"))
            except msgspec.ValidationError as error:
                self._note(entry.line, f"a {custom_type} entry that cannot be read ({error}), passed over")
                continue
            if read is not None:
                found.append(read)
        return found

    def _all_decisions(self) -> list[ledger.Decision]:
        """The decisions of the whole file, on whichever branch."""
        count, decisions = self._decisions
        if count != len(self.entries):
            decisions = [one for one in self._ledger_of(self.entries) if isinstance(one, ledger.Decision)]
            self._decisions = (len(self.entries), decisions)
        return decisions

    # ------------------------------------------------------------------ recall references

    def reference(self, message: str, call_id: str) -> str | None:  # noqa: ARG002
        """The recall reference of a result or shell output: `#<line>`, in a forked file the entry's id.

        A fork counts its lines anew while the markers of its parent stay in the conversation, so there
        a line number could be taken for the parent's. None for a message that is no output of this
        file, and where pi will renumber the lines once it rewrites an old file.
        """
        entry = self._by_id.get(message)
        if entry is None or not _is_output(entry):
            return None
        if self.header.parent_session is not None or entry.line in self._crowded:
            lasting = self.header.version >= _TREE_VERSION and entry.id not in self._same_id
            return entry.id if lasting and markers.is_reference(entry.id) else None
        if (
            self._has_header
            and self.header.version < CURRENT_VERSION
            and entry.line >= (self._shift or entry.line + 1)
        ):
            return None
        return f"#{entry.line}"

    def keep(self, reference: str, original: Original) -> None:
        """Nothing to do: the session file holds every output."""

    def original(self, reference: str) -> Original:
        """The output that `#<line>` or an entry id leads to, on whichever branch it is.

        In a forked file `#<line>` may have been issued by the file it was forked from: it is followed
        there where that file had such an output before the fork, and else counts the lines of this one.

        Raises:
            RecallError: it leads to no output, or it cannot be known to which, with the reason.
        """
        reference = reference.strip()
        if not reference.startswith("#"):
            return self._original(self._by_entry_id(reference))
        number = _LINE_REFERENCE.fullmatch(reference)
        if number is None:
            message = f"{reference}: not a recall reference; one looks like #412, or is an entry's id"
            raise RecallError(message)
        line = int(number[1])
        if self.header.parent_session is None:
            return self._original(self._at_line(line))
        return self._original_in_fork(line)

    def _by_entry_id(self, id: str) -> Entry:
        entry = self._by_id.get(id)
        if entry is None:
            hint = f"; for line {id} write #{id}" if id.isdecimal() else ""
            fork = ", which is a fork" if self.header.parent_session is not None else ""
            message = f"{id or 'an empty reference'}: no entry with this id in {self._name}{fork}{hint}"
            raise RecallError(message)
        others = [one for one in self._same_id.get(id, ()) if _is_output(one)]
        if others and any(one.raw.get("message") != entry.raw.get("message") for one in others):
            lines = ", ".join(f"#{one.line}" for one in (*others, entry))
            message = f"{id}: several entries of {self._name} have this id; use the line instead: {lines}"
            raise RecallError(message)
        return self._output(id, entry)

    def _at_line(self, line: int) -> Entry:
        """The output on a line of this file."""
        entries = self._on_line(line)
        reference = f"#{line}"
        if not entries:
            message = f"{reference}: {self._what_is_on(line)}"
            raise RecallError(message)
        outputs = [entry for entry in entries if _is_output(entry)]
        if len(outputs) > 1:
            ids = ", ".join(entry.id for entry in outputs)
            message = f"{reference}: several outputs are on line {line} of {self._name}; use an id: {ids}"
            raise RecallError(message)
        return self._output(reference, outputs[0] if outputs else entries[0])

    def _on_line(self, line: int) -> list[Entry]:
        if sum(map(len, self._by_line.values())) != len(self.entries):
            self._by_line = {}
            for entry in self.entries:
                self._by_line.setdefault(entry.line, []).append(entry)
        return self._by_line.get(line, [])

    def _what_is_on(self, line: int) -> str:
        if not 0 < line <= self._lines:
            return f"no such line, {self._name} has {self._lines}"
        return f"line {line} of {self._name} holds no entry"

    def _output(self, reference: str, entry: Entry) -> Entry:
        if not _is_output(entry):
            message = (
                f"{reference}: line {entry.line} of {self._name} is {_description(entry)}, not an output"
            )
            raise RecallError(message)
        return entry

    def _original(self, entry: Entry) -> Original:
        message = cast("Record", entry.raw["message"])
        if message.get("role") == "bashExecution":
            output = message.get("output")
            return Original(entry.id, "bash", (Text(output if isinstance(output, str) else ""),))
        content = message.get("content")
        call_id = message.get("toolCallId")
        purged = any(
            decision.kind == TOOL_INPUT and decision.correlation.tool_call_id == call_id
            for decision in self._all_decisions()
        )
        return Original(
            entry.id,
            _string(message, "toolName") or "",
            _pieces(content),
            self._arguments(entry, call_id) if purged else None,
            tuple(block for block in _blocks(content) if _kind(block) == "image"),
        )

    def _arguments(self, result: Entry, call_id: _Json) -> Mapping[str, Any] | None:
        """The arguments of the call that a result answers."""
        for entry in reversed(self.branch(result.id)):
            if _role(entry) != "assistant":
                continue
            for block in _blocks(cast("Record", entry.raw["message"]).get("content")):
                if _kind(block) == "toolCall" and cast("Record", block).get("id") == call_id:
                    arguments = cast("Record", block).get("arguments")
                    return (
                        cast("Record", arguments) if isinstance(arguments, dict) else {"arguments": arguments}
                    )
        return None

    # ------------------------------------------------------------------ references in a fork

    def _original_in_fork(self, line: int) -> Original:
        known = self._decided_at(line)
        if len(known) > 1:
            message = f"#{line}: in {self._name}, a fork, this has stood for several outputs; use an id: {', '.join(known)}"
            raise RecallError(message)
        if known:
            return self._original_by_id_in_chain(line, known[0])
        inherited = self._inherited(line, _instant(self.header.timestamp), {self._resolved_path})
        if inherited is None:
            return self._original(self._at_line(line))
        session, entry = inherited
        here = self._by_id.get(entry.id)
        return self._original(here) if here is not None and _is_output(here) else session._original(entry)

    def _decided_at(self, line: int) -> list[str]:
        """The ids of the outputs that decisions of this file say `#line` was issued for."""
        reference = f"#{line}"
        found: dict[str, None] = {}
        for decision in self._all_decisions():
            issued = decision.reference or markers.reference_in(decision.placeholder or "")
            if issued != reference or decision.session_id is None:
                continue
            if decision.session_id != self.conversation and decision.entry_id is not None:
                found[decision.entry_id] = None
            elif decision.session_id == self.conversation:
                found.update((entry.id, None) for entry in self._on_line(line) if _is_output(entry))
        return list(found)

    def _original_by_id_in_chain(self, line: int, id: str) -> Original:
        session, seen = self, {self._resolved_path}
        while True:
            entry = session.entry(id)
            if entry is not None:
                return session._original(session._output(f"#{line}", entry))
            parent = session._parent(line, seen)
            if parent is None:
                message = (
                    f"#{line}: stands for entry {id}, which is neither in {self._name} nor in its parent"
                )
                raise RecallError(message)
            session = parent

    def _inherited(
        self, line: int, before: datetime | None, seen: set[Path | None]
    ) -> tuple[PiSession, Entry] | None:
        """The output that `#line` names in the files this one was forked from; None where in none of
        them an output stood there before the fork."""
        parent = self._parent(line, seen)
        if parent is None:
            return None
        forked = _instant(parent.header.timestamp)
        earliest = min((moment for moment in (before, forked) if moment is not None), default=None)
        further = parent._inherited(line, earliest, seen)
        if further is not None:
            return further
        outputs = [entry for entry in parent._on_line(line) if _is_output(entry)]
        if not outputs:
            return None
        entry = parent._at_line(line)
        if self._by_id.get(entry.id) is not None:
            return parent, entry  # copied here, so it was there before
        written = _instant(entry.timestamp)
        if written is None or before is None:
            message = (
                f"#{line}: {self._name} is a fork, and nothing says whether line {line} of {parent._name} is older; "
                "use the entry's id"
            )
            raise RecallError(message)
        return (parent, entry) if written <= before else None

    def _parent(self, line: int, seen: set[Path | None]) -> PiSession | None:
        """The file this one was forked from; None where there is none, or where it was seen before."""
        name = self.header.parent_session
        if name is None:
            return None
        path = Path(name) if self.path is None else self.path.parent / name
        resolved = _resolve(path)
        if resolved in seen:
            return None
        seen.add(resolved)
        try:
            return PiSession.open(path)
        except InputError as error:
            message = (
                f"#{line}: {self._name} is a fork, so this may count the lines of the file it was forked from, "
                f"which cannot be read ({error}); use the entry's id"
            )
            raise RecallError(message) from error

    @property
    def _resolved_path(self) -> Path | None:
        return None if self.path is None else _resolve(self.path)

    # ------------------------------------------------------------------ writing

    def append(
        self, entries: Iterable[ledger.Entry], *, leaf: str | None = None, move_leaf: bool = False
    ) -> None:
        """Add ledger entries to the file, durably, and make sure that they are in it.

        They follow the last entry of the file as it is now, whoever wrote it. With `leaf`, they belong
        to that entry's branch: where it is not where the file's active leaf stands, adding to it would
        make it pi's active branch, which only happens with `move_leaf`.

        Raises:
            RefusedError: `leaf` is on another branch, or further back on this one.
            PrunewiseError: the file cannot be written; nothing that was in it is changed.
        """
        adding = list(entries)
        if not adding:
            return
        path = self.path
        if path is None:
            raise PrunewiseError("this session was read from bytes, there is no file to add to")
        try:
            with os.fdopen(os.open(path, _APPEND), "r+b", buffering=0) as file, _locked(file, path):
                parent = self._place(leaf, move_leaf=move_leaf)
                _write(file, self._lines_of(adding, parent))
        except OSError as error:
            message = f"{path}: cannot be written, {_reason(error)}; the entries are not all in it"
            raise PrunewiseError(message) from error
        self.refresh()
        if self.ledger()[-len(adding) :] != adding:
            message = f"{path}: the entries that were added cannot be found in it again"
            raise PrunewiseError(message)

    def _place(self, leaf: str | None, *, move_leaf: bool) -> str | None:
        """The id of the entry to follow, in the file as it is now."""
        self.refresh()
        if leaf is None or leaf == self.leaf:
            return self.leaf
        if leaf not in self._by_id:
            message = f"{self._name}: no entry {leaf}"
            raise InputError(message)
        if move_leaf:
            return leaf
        for entry in reversed(self.branch()):
            if entry.id == leaf:
                return self.leaf  # what follows it is silent: the same place in the conversation
            if entry.type not in _SILENT:
                break
        message = (
            f"{self._name}: entry {leaf} is not where the session stands now ({self.leaf}); "
            "adding to it would move pi to another branch"
        )
        raise RefusedError(message)

    def _lines_of(self, entries: Sequence[ledger.Entry], parent: str | None) -> bytes:
        lines: list[bytes] = []
        if self._last_line_open:
            lines.append(b"\n")  # closes a torn or unfinished last line
        taken: set[str] = set()
        for entry in entries:
            id = secrets.token_hex(4)
            while id in self._by_id or id in taken:
                id = secrets.token_hex(4)
            taken.add(id)
            custom_type, data = ledger.to_data(entry)
            stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            record = {
                "type": "custom",
                "customType": custom_type,
                "data": data,
                "id": id,
                "parentId": parent,
                "timestamp": stamp,
            }
            lines.append(_encoded(record) + b"\n")
            parent = id
        return b"".join(lines)

    def open_elsewhere(self) -> list[int]:
        """The ids of other processes that have the file open. A pi that is idle holds it closed."""
        import psutil

        if self.path is None:
            return []
        path = str(_resolve(self.path))
        found: list[int] = []
        for process in psutil.process_iter():
            if process.pid == os.getpid():
                continue
            with contextlib.suppress(psutil.Error, OSError):
                if any(file.path == path for file in process.open_files()):
                    found.append(process.pid)
        return found


# ---------------------------------------------------------------------- entries and messages


def _string(record: Record, key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) else None


def _looks_like_an_entry(record: Record) -> bool:
    return isinstance(record.get("type"), str) and ("id" in record or "timestamp" in record)


def _role(entry: Entry) -> str | None:
    message = entry.raw.get("message") if entry.type == "message" else None
    return _string(cast("Record", message), "role") if isinstance(message, dict) else None


def _is_output(entry: Entry) -> bool:
    return _role(entry) in _OUTPUT_ROLES


def _description(entry: Entry) -> str:
    role = _role(entry)
    if role is None:
        return f"an entry of type {entry.type}"
    return f"a message of role {role}"


def _milliseconds(stamp: _Json) -> int | None:
    """The milliseconds since the epoch of an entry's timestamp, as pi puts them into messages."""
    if isinstance(stamp, (int, float)):
        return int(stamp)
    moment = _instant(stamp) if isinstance(stamp, str) else None
    return None if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1)


def _instant(stamp: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _made(role: str, raw: Record, fields: Record, copied: tuple[str, ...]) -> Record:
    """A message that pi makes of an entry that holds none; a field that the entry lacks is left out."""
    message: Record = {"role": role, **{key: value for key, value in fields.items() if value is not None}}
    for key in copied:
        if key in raw:
            message[key] = raw[key]
    message["timestamp"] = _milliseconds(raw.get("timestamp"))
    return message


def _edited(messages: list[Record], replacement: _Json) -> list[Record]:
    """The messages of an entry with its newest context edit in place."""
    if replacement is None:
        return []
    if not isinstance(replacement, dict) or "content" not in replacement:
        return messages
    content: _Json = cast("Record", replacement)["content"]
    edited: list[Record] = []
    for message in messages:
        role = message.get("role")
        if role not in _EDITABLE:
            edited.append(message)
            continue
        as_block = role in ("assistant", "toolResult") and isinstance(content, str)
        edited.append({**message, "content": [{"type": "text", "text": content}] if as_block else content})
    return edited


def _blocks(content: _Json) -> list[_Json]:
    return cast("list[_Json]", content) if isinstance(content, list) else []


def _kind(block: _Json) -> _Json:
    return cast("Record", block).get("type") if isinstance(block, dict) else None


def _pieces(content: _Json) -> tuple[Text | Image, ...]:
    """A result's content. What is neither text nor image stands as its JSON: none of it is lost."""
    if isinstance(content, list):
        return tuple(_piece(block) for block in cast("list[_Json]", content))
    if content is None:
        return ()
    return (Text(content if isinstance(content, str) else canonical(content)),)


def _piece(block: _Json) -> Text | Image:
    kind = _kind(block)
    if kind == "image":
        data = _string(block, "data")
        return Image(_string(block, "mimeType") or "", len(data or ""))
    text = _string(block, "text") if kind == "text" else None
    return Text(canonical(block) if text is None else text)


# ---------------------------------------------------------------------- the file


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


@contextlib.contextmanager
def _reading(path: Path | None) -> Generator[BinaryIO, None, None]:
    """The file, open for reading; each way in which that fails is an InputError of one line."""
    if path is None:
        raise InputError("this session was read from bytes, there is no file to read again")
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            what = "a folder" if path.is_dir() else "not a regular file"
            message = f"{path}: not a pi session, it is {what}"
            raise InputError(message)
        file = path.open("rb", buffering=1 << 20)
    except (OSError, ValueError) as error:  # a NUL in a path is a ValueError
        message = f"{path}: cannot be read, {_reason(error)}"
        raise InputError(message) from error
    with file:
        try:
            yield file
        except OSError as error:
            message = f"{path}: cannot be read, {_reason(error)}"
            raise InputError(message) from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        if error.errno == errno.ENOENT:
            return "there is no such file"
        return os.strerror(error.errno).lower()
    return str(error)


@contextlib.contextmanager
def _locked(file: io.FileIO, path: Path) -> Generator[None, None, None]:
    """Hold the file's advisory lock, so that of several writers of ours one writes at a time."""
    import portalocker

    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            portalocker.lock(file, portalocker.LOCK_EX | portalocker.LOCK_NB)
            break
        except portalocker.LockException as error:
            if time.monotonic() > give_up:
                message = f"{path}: another process has held its lock for {_LOCK_SECONDS:.0f} s"
                raise PrunewiseError(message) from error
            time.sleep(0.01)
    try:
        yield
    finally:
        portalocker.unlock(file)


def _write(file: io.FileIO, data: bytes) -> None:
    """Write all of it, in one call where the system lets it, and wait until it is on the disk."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    os.fsync(file.fileno())


def _encoded(record: Record) -> bytes:
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can hold as an escape only
        return json.dumps(record, separators=(",", ":")).encode()
