"""pi's session files: a tree of entries, one JSON object a line, as pi 1.x reads and writes it.

Knows how to read a file however it was left, where its branches and the ledger's entries are, which
output a recall reference means, and how to add to the file. It never changes a byte that is there.
It knows nothing of pruning: which outputs may go is said elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import stat
import time
from bisect import bisect_right
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from prunewise import ledger, markers
from prunewise.canonical import canonical
from prunewise.errors import InputError, PrunewiseError, RecallError, RefusedError
from prunewise.stores import Original, Writes
from prunewise.stores.json_lines import recover
from prunewise.stores.pi_entries import (
    CURRENT_VERSION,
    TYPES,
    ContextMessage,
    Entry,
    Header,
    Record,
    attached,
    context_of,
    instant,
    string,
)
from prunewise.transcript import TOOL_INPUT, Image, Text

__all__ = ["ContextMessage", "Entry", "Header", "PiSession"]

_TREE_VERSION = 2
_LINEAR_VERSION = 1

_Json = Any
"""Decoded JSON that nobody has checked."""

_LINES_BEFORE_GIVING_UP = 1000
_LOCK_SECONDS = 10.0
_PROBE = 64
_LINE_REFERENCE = re.compile(r"#([0-9]{1,15})")
_APPEND = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_decode = msgspec.json.Decoder().decode


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
        self.conversation = "" if self.path is None else self.path.stem
        """The session's id; without a header the name of the file."""
        self.entries: list[Entry] = []
        """All entries in file order, without the header."""
        self._by_id: dict[str, Entry] = {}
        self._by_line: tuple[int, dict[int, list[Entry]]] = (0, {})
        self._decisions: tuple[int, list[ledger.Decision]] = (0, [])
        self._notes: dict[tuple[int, str], str] = {}
        # what has been read, and how to know it again
        self._lines = 0
        self._end = 0
        self._probe = b""
        self._identity: tuple[int, int] | None = None
        self._last_line_open = False
        # what is not as it should be
        self._has_header = False
        self._same_id: dict[str, list[Entry]] = {}
        self._crowded: set[int] = set()
        self._shifts_at: int | None = None
        self._unresolved: list[Entry] = []
        self._parentless: list[int] = []
        # what a file of version 1 counts by
        self._read_by_pi: list[Entry | None] = []

    # ---- reading

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

    def extend(self, lines: Iterable[bytes]) -> None:
        """Take further lines of a session that was read from bytes."""
        self._take_lines(lines)
        self._check_parents()

    def _catch_up(self, file: BinaryIO) -> None:
        status = os.fstat(file.fileno())
        same = self._identity == (status.st_dev, status.st_ino) and status.st_size >= self._end
        if same and status.st_size == self._end:
            return
        if same and not self._last_line_open and _last_bytes(file, self._end) == self._probe:
            self._read(file)
            return
        # Another file under this name, a rewritten one (pi does so with old versions), or a last
        # line that has gone on since: what is known of it does not hold any more.
        self._reset()
        file.seek(0)
        self._read(file)

    def _read(self, file: BinaryIO) -> None:
        """Read from where the file stands to its end."""
        last = self._take_lines(file)
        self._end = file.tell()
        if last:
            self._last_line_open = not last.endswith(b"\n")
        self._probe = _last_bytes(file, self._end)
        with contextlib.suppress(OSError):  # bytes have no file number
            status = os.fstat(file.fileno())
            self._identity = (status.st_dev, status.st_ino)
        if not self.entries and not self._has_header:
            lines = (
                "its only line is no entry"
                if self._lines == 1
                else f"none of its {self._lines} lines is an entry"
            )
            what = f"{lines} of one" if self._end else "it is empty"
            message = f"{self._name}: not a pi session, {what}"
            raise InputError(message)
        self._check_parents()

    def _take_lines(self, lines: Iterable[bytes]) -> bytes:
        """Read lines into entries, and give the last one back.

        What is regular is done right here, since this runs for each line of a file.
        """
        by_id = self._by_id
        add = self.entries.append
        number = self._lines
        regular = self._has_header and self.header.version >= _TREE_VERSION
        line = b""
        for line in lines:
            number += 1
            try:
                raw = _decode(line)
            except (msgspec.MsgspecError, RecursionError):
                self._take_refused(number, line)
            else:
                if regular and raw.__class__ is dict:
                    own = raw.get("id")
                    parent = raw.get("parentId")
                    kind = raw.get("type")
                    if (
                        kind.__class__ is str
                        and kind in TYPES
                        and own.__class__ is str
                        and own
                        and own not in by_id
                        and (
                            (parent.__class__ is str and parent in by_id)
                            or (parent is None and "parentId" in raw)
                        )
                    ):
                        entry = Entry(number, own, parent, kind, raw)
                        by_id[own] = entry
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
            self._shifts_at = self._shifts_at or number
        if len(records) > 1:
            self._crowded.add(number)
        for record in records:
            self._take(number, record)
        if not records:
            self._give_up(number)

    def _take(self, number: int, raw: _Json) -> None:
        """Read one decoded line that is not a regular entry of a file with a tree."""
        record = cast("Record", raw) if isinstance(raw, dict) else {}
        kind = record.get("type")
        if kind == "session":
            self._take_header(number, record)
        elif isinstance(kind, str) and self._is_entry(kind, record):
            if not self._has_header and not self.entries:
                own_id = isinstance(record.get("id"), str)
                self.header = Header(version=CURRENT_VERSION if own_id else _LINEAR_VERSION)
                self._note(number, f"no session header before it, read as version {self.header.version}")
            self._add(number, kind, record)
        else:
            self._read_by_pi.append(None)
            self._note(number, "no entry of a pi session, left out")
            self._give_up(number)

    def _is_entry(self, kind: str, record: Record) -> bool:
        if self._has_header or self.entries:
            return kind in TYPES or isinstance(record.get("id"), str)
        if kind == "message":
            message = record.get("message")
            return isinstance(message, dict) and string(cast("Record", message), "role") is not None
        return kind in TYPES and ("parentId" in record or isinstance(record.get("timestamp"), str))

    def _give_up(self, number: int) -> None:
        """Stop early at what is no session, however long it is."""
        if number >= _LINES_BEFORE_GIVING_UP and not self.entries and not self._has_header:
            message = f"{self._name}: not a pi session, none of its first {number} lines is an entry of one"
            raise InputError(message)

    def _take_header(self, number: int, record: Record) -> None:
        own = record.get("id")
        self._read_by_pi.append(None)
        if self._has_header or self.entries or not isinstance(own, str):
            self._note(number, "a session header where none belongs, left out")
            return
        self._has_header = True
        version: _Json = record.get("version", _LINEAR_VERSION)
        if not isinstance(version, (int, float)) or not abs(version) < _LINES_BEFORE_GIVING_UP:
            version = CURRENT_VERSION
        if version > CURRENT_VERSION:
            self._note(number, f"version {version} of the session file, read as version {CURRENT_VERSION}")
        self.header = Header(
            own,
            max(_LINEAR_VERSION, min(int(version), CURRENT_VERSION)),
            string(record, "cwd"),
            string(record, "timestamp") or "",
            string(record, "parentSession") or None,
        )
        self.conversation = own or self.conversation

    def _add(self, number: int, kind: str, record: Record) -> None:
        """Add an entry whose id or parent has to be found or checked first."""
        linear = self.header.version < _TREE_VERSION
        own = record.get("id")
        name = own if isinstance(own, str) and own and not linear else f"{number:08x}"
        parent = record.get("parentId")
        if linear or not (isinstance(parent, str) or (parent is None and "parentId" in record)):
            parent = self.entries[-1].id if self.entries else None
            if not linear:
                self._parentless.append(number)
        if name in self._by_id:
            self._rename_earlier(name, number)
        entry = Entry(number, name, parent or None, kind, record)
        if entry.parent is not None and entry.parent not in self._by_id:
            self._unresolved.append(entry)
        self._by_id[name] = entry
        self.entries.append(entry)
        if linear:
            self._read_by_pi.append(entry)

    def _rename_earlier(self, name: str, number: int) -> None:
        """Of two entries with one id the later has it, as in pi; the earlier gets a name of its own."""
        earlier = self._by_id[name]
        own = plain = f"{name}@{earlier.line}"
        count = len(self._same_id.get(name, ()))
        while own in self._by_id:  # glued onto the same line
            own = f"{plain}+{count if count > 1 else ''}"
            count += 1
        renamed = msgspec.structs.replace(earlier, id=own)
        index = bisect_right(self.entries, earlier.line, key=attrgetter("line")) - 1
        while self.entries[index] is not earlier:
            index -= 1
        self.entries[index] = renamed
        self._by_id[renamed.id] = renamed
        self._same_id.setdefault(name, []).append(renamed)
        self._note(
            number, f"the id {name} again, as on line {earlier.line}; the entry there is read as {renamed.id}"
        )

    def _check_parents(self) -> None:
        """Say once what does not lead to the root, and walk the active branch, which may be a circle."""
        missing = [entry for entry in self._unresolved if entry.parent not in self._by_id]
        if missing:
            text = f"it follows entry {missing[0].parent}, which is not in the file{_more(missing)}"
            self._note(missing[0].line, f"{text}; read in file order there", "missing")
        if self._parentless:
            text = f"it does not say which entry it follows{_more(self._parentless)}"
            self._note(self._parentless[0], f"{text}; read in file order there", "parentless")
        if self._unresolved or self._same_id:
            self.branch()

    def _note(self, number: int, text: str, subject: str | None = None) -> None:
        self._notes[number, subject or text] = text

    @property
    def _name(self) -> str:
        return "session" if self.path is None else str(self.path)

    @property
    def warnings(self) -> list[str]:
        """What was found wrong in the file, each as `path:line: what, what was done`, in file order."""
        return [f"{self._name}:{number}: {text}" for (number, _), text in sorted(self._notes.items())]

    # ---- the tree

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
        current = self._leaf_entry(leaf)
        if self._unresolved or self._same_id:
            return self._irregular_branch(current)
        by_id = self._by_id
        path: list[Entry] = []
        while current is not None:
            path.append(current)
            current = by_id[current.parent] if current.parent is not None else None
        path.reverse()
        return path

    def _leaf_entry(self, leaf: str | None) -> Entry | None:
        if leaf is None:
            return self.entries[-1] if self.entries else None
        entry = self._by_id.get(leaf)
        if entry is None:
            message = f"{self._name}: no entry {leaf}"
            raise InputError(message)
        return entry

    def _irregular_branch(self, current: Entry | None) -> list[Entry]:
        index = {entry.id: position for position, entry in enumerate(self.entries)}
        unseen = list(range(len(self.entries) + 1))
        seen: set[str] = set()
        path: list[Entry] = []
        while current is not None:
            path.append(current)
            seen.add(current.id)
            unseen[index[current.id] + 1] = index[current.id]
            if current.parent is None:
                break
            parent = self._by_id.get(current.parent)
            if parent is not None and parent.id in seen:
                text = f"it follows entry {parent.id}, which follows it; read in file order there"
                self._note(current.line, text, "circle")
                parent = None
            last = _last_unseen(unseen, index[current.id])
            current = parent or (self.entries[last - 1] if last else None)
        path.reverse()
        return path

    def context(self, leaf: str | None = None) -> list[ContextMessage]:
        """The messages that pi would send of the branch to `leaf` (None: the active leaf), in order.

        Raises:
            InputError: there is no such entry.
        """
        return context_of(self.branch(leaf), self.header.version, self._first_kept)

    def _first_kept(self, compaction: Entry) -> str | None:
        """The id of the first entry that a compaction kept. Version 1 counts the lines that pi could read."""
        if self.header.version >= _TREE_VERSION:
            return string(compaction.raw, "firstKeptEntryId")
        index: _Json = compaction.raw.get("firstKeptEntryIndex")
        if isinstance(index, float) and index.is_integer():
            index = int(index)
        if not isinstance(index, int) or not 0 <= index < len(self._read_by_pi):
            return None
        kept = self._read_by_pi[index]
        return None if kept is None else kept.id

    # ---- the ledger

    def ledger(self, leaf: str | None = None) -> list[ledger.Entry]:
        """The ledger's entries on the branch to `leaf` (None: the active leaf), oldest first.

        One that has the ledger's type and not its shape is passed over, with a warning.

        Raises:
            InputError: there is no such entry.
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

    # ---- recall references

    def reference(self, message: str, call_id: str) -> str | None:  # noqa: ARG002
        """The recall reference of a result or shell output: `#<line>`, in a forked file the entry's id.

        A fork counts its lines anew while the markers of its parent stay in the conversation, so there
        a line number could be taken for the parent's. None for a message that is no output of this
        file, and where pi will renumber the lines once it rewrites an old file.
        """
        entry = self._by_id.get(message)
        if entry is None or not entry.is_output:
            return None
        old = self.header.version < CURRENT_VERSION and self._has_header
        if self.header.parent_session is None and entry.line not in self._crowded:
            moves = old and self._shifts_at is not None and entry.line >= self._shifts_at
            return None if moves else f"#{entry.line}"
        return None if old else self.own_reference(message)

    def own_reference(self, message: str) -> str | None:
        """An output's id as its reference; None for what is no output, or could be taken for another."""
        entry = self._by_id.get(message)
        if entry is None or not entry.is_output or entry.id in self._same_id or entry.id.startswith("#"):
            return None
        return entry.id if markers.is_reference(entry.id) else None

    def commit(self, writes: Writes) -> None:
        """Add the entries; the session file holds every output. See `append`."""
        self.append(writes.entries)

    def original(self, reference: str) -> Original:
        """The output that `#<line>` or an entry id leads to, on whichever branch it is.

        In a forked file `#<line>` may have been issued by the file it was forked from: it is followed
        there where that file had an output on that line before the fork, and else counts the lines of
        this one.

        Raises:
            RecallError: it leads to no output, or it cannot be known to which, with the reason.
        """
        reference = reference.strip()
        if not reference.startswith("#"):
            return self.content_of(self._by_entry_id(reference))
        number = _LINE_REFERENCE.fullmatch(reference)
        if number is None:
            message = f"{reference}: not a recall reference; one looks like #412, or is an entry's id"
            raise RecallError(message)
        line = int(number[1])
        if self.header.parent_session is None:
            return self.content_of(self.output_on(line))
        return _original_in_fork(self, line)

    def _by_entry_id(self, name: str) -> Entry:
        entry = self._by_id.get(name)
        if entry is None:
            fork = ", which is a fork" if self.header.parent_session is not None else ""
            hint = f"; for line {name} write #{name}" if name.isdecimal() else ""
            message = f"{name or 'an empty reference'}: no entry with this id in {self._name}{fork}{hint}"
            raise RecallError(message)
        others = [one for one in self._same_id.get(name, ()) if one.is_output]
        if any(one.message != entry.message for one in others):
            ids = ", ".join(one.id for one in others)
            message = f"{name}: several entries of {self._name} have this id; the earlier ones go by {ids}"
            raise RecallError(message)
        return self._output(name, entry)

    def output_on(self, line: int) -> Entry:
        """The output on a physical line of this very file.

        Raises:
            RecallError: there is none, or more than one.
        """
        entries = self.entries_on(line)
        if not entries:
            message = f"#{line}: {self._emptiness_of(line)}"
            raise RecallError(message)
        outputs = [entry for entry in entries if entry.is_output]
        if len(outputs) > 1:
            ids = ", ".join(entry.id for entry in outputs)
            message = f"#{line}: several outputs are on line {line} of {self._name}; use an entry's id: {ids}"
            raise RecallError(message)
        return self._output(f"#{line}", outputs[0] if outputs else entries[0])

    def entries_on(self, line: int) -> list[Entry]:
        """The entries on a physical line of this very file: as a rule one."""
        if self._by_line[0] != len(self.entries):
            grouped: dict[int, list[Entry]] = {}
            for entry in self.entries:
                grouped.setdefault(entry.line, []).append(entry)
            self._by_line = (len(self.entries), grouped)
        return self._by_line[1].get(line, [])

    def _emptiness_of(self, line: int) -> str:
        if not 0 < line <= self._lines:
            return f"there is no such line, {self._name} has {self._lines}"
        if line == 1 and self._has_header:
            return f"line 1 of {self._name} is the session header, not an output"
        return f"line {line} of {self._name} holds no entry"

    def _output(self, reference: str, entry: Entry) -> Entry:
        if not entry.is_output:
            message = f"{reference}: line {entry.line} of {self._name} is {entry.described}, not an output"
            raise RecallError(message)
        return entry

    def content_of(self, output: Entry) -> Original:
        """All that an output of this file holds, with its call's input where a decision purged it."""
        message = output.message or {}
        if output.role == "bashExecution":
            return Original(output.id, "bash", (Text(string(message, "output") or ""),))
        content: _Json = message.get("content")
        call_id: _Json = message.get("toolCallId")
        purged = any(
            decision.kind == TOOL_INPUT and decision.correlation.tool_call_id == call_id
            for decision in self._all_decisions()
        )
        return Original(
            output.id,
            string(message, "toolName") or "",
            _pieces(content),
            self._arguments(output, call_id) if purged else None,
            tuple(attached(_blocks(content))),
        )

    def _arguments(self, output: Entry, call_id: _Json) -> Mapping[str, Any] | None:
        """The arguments of the call that an output answers: of several with its id the last one before it."""
        for entry in reversed(self.branch(output.id)):
            if entry.role != "assistant":
                continue
            for block in reversed(_blocks((entry.message or {}).get("content"))):
                if _kind(block) == "toolCall" and block.get("id") == call_id:
                    arguments: _Json = block.get("arguments")
                    return (
                        cast("Record", arguments) if isinstance(arguments, dict) else {"arguments": arguments}
                    )
        return None

    # ---- references in a fork

    def issued_for(self, line: int) -> list[str]:
        """The ids of the outputs for which `#line` was issued, as far as this file's decisions say so."""
        reference = f"#{line}"
        found: dict[str, None] = {}
        for decision in self._all_decisions():
            issued = decision.reference or markers.reference_in(decision.placeholder or "")
            if issued != reference or decision.session_id is None:
                continue
            own = decision.session_id == self.conversation
            if decision.entry_id is not None and (not own or decision.entry_id in self._by_id):
                found[decision.entry_id] = None
            elif own:
                found.update((entry.id, None) for entry in self.entries_on(line) if entry.is_output)
        return list(found)

    def parent(self) -> PiSession | None:
        """The session this one was forked from; None for one that is no fork.

        Raises:
            InputError: its file is not there, cannot be read, or holds another session by now.
        """
        name = self.header.parent_session
        if name is None:
            return None
        parent = PiSession.open(Path(name) if self.path is None else self.path.parent / name)
        first, forked = next(iter(self.entries), None), instant(self.header.timestamp)
        written = None if first is None else instant(first.timestamp)
        copied = forked is not None and written is not None and written <= forked
        if first is not None and copied and parent.entry(first.id) is None:
            message = f"{name}: does not hold the session that {self._name} was forked from"
            raise InputError(message)
        return parent

    # ---- writing

    def append(
        self, entries: Iterable[ledger.Entry], *, leaf: str | None = None, move_leaf: bool = False
    ) -> None:
        """Add ledger entries to the file, durably, and make sure that they are in it.

        They follow the last entry of the file as it is now, whoever wrote it. With `leaf`, they belong
        to that entry's branch: where that is not where the file's active leaf stands, adding to it
        would make it pi's active branch, which only happens with `move_leaf`.

        Raises:
            InputError: the file is not there, or there is no such entry.
            RefusedError: `leaf` is on another branch, or further back on this one.
            PrunewiseError: the file cannot be written; nothing that was in it is changed.
        """
        adding = list(entries)
        if not adding:
            return
        path = self.path
        if path is None:
            raise PrunewiseError("this session was read from bytes, there is no file to add to")
        self.refresh()
        try:
            with os.fdopen(os.open(path, _APPEND), "r+b") as file, _locked(file, path):
                self._catch_up_fully(file)
                parent = self._place(leaf, move_leaf=move_leaf)
                lines, last = self._lines_of(adding, parent)
                _write(file.fileno(), lines)
        except OSError as error:
            message = f"{path}: cannot be written, {_reason(error)}; the entries are not all in it"
            raise PrunewiseError(message) from error
        self.refresh()
        added = next((entry for entry in reversed(self.entries) if entry.raw.get("id") == last), None)
        if added is None or self.ledger(added.id)[-len(adding) :] != adding:
            message = f"{path}: the entries that were added are not found in it again"
            raise PrunewiseError(message)

    def _catch_up_fully(self, file: BinaryIO) -> None:
        """Read until nothing new is there: pi itself knows of no lock."""
        self._catch_up(file)
        while os.fstat(file.fileno()).st_size != self._end:
            self._catch_up(file)

    def _place(self, leaf: str | None, *, move_leaf: bool) -> str | None:
        """The id of the entry to follow, in the file as it is now."""
        if leaf is None or leaf == self.leaf:
            return self.leaf
        self._leaf_entry(leaf)
        if move_leaf:
            return leaf
        for entry in reversed(self.branch()):
            if entry.id == leaf:
                return self.leaf  # nothing behind it bears on the context: the same place
            if entry.bears_on_context:
                break
        message = (
            f"{self._name}: entry {leaf} is not where the session stands now ({self.leaf}); "
            "adding to it would move pi to another branch"
        )
        raise RefusedError(message)

    def _lines_of(self, entries: Sequence[ledger.Entry], parent: str | None) -> tuple[bytes, str | None]:
        """The lines to write, one entry after another behind `parent`, and the id of the last."""
        lines = [b"\n"] if self._last_line_open else []  # closes a torn or unfinished last line
        taken: set[str] = set()
        for entry in entries:
            name = os.urandom(4).hex()
            while name in self._by_id or name in taken:
                name = os.urandom(4).hex()
            taken.add(name)
            custom_type, data = ledger.to_data(entry)
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            record = {"type": "custom", "customType": custom_type, "data": data}
            lines.append(_encoded({**record, "id": name, "parentId": parent, "timestamp": now}) + b"\n")
            parent = name
        return b"".join(lines), parent

    def open_elsewhere(self) -> list[int]:
        """The ids of the other processes that have the file open. An idle pi keeps it closed."""
        import psutil

        if self.path is None:
            return []
        path = str(_resolved(self.path))
        found: list[int] = []
        for process in psutil.process_iter():
            if process.pid == os.getpid():
                continue
            with contextlib.suppress(psutil.Error, OSError):
                if any(file.path == path for file in process.open_files()):
                    found.append(process.pid)
        return found


# ---- a reference that the parent of a fork may have issued


def _original_in_fork(session: PiSession, line: int) -> Original:
    known = session.issued_for(line)
    if len(known) > 1:
        ids = ", ".join(known)
        message = (
            f"#{line}: has stood for several outputs in {session.path}, which is a fork; use an id: {ids}"
        )
        raise RecallError(message)
    seen = {_resolved(session.path)}
    if known:
        return _original_in_chain(session, line, known[0], seen)
    inherited = _inherited(session, line, instant(session.header.timestamp), seen)
    if inherited is None:
        return session.content_of(session.output_on(line))
    owner, output = inherited
    here = session.entry(output.id)
    return session.content_of(here) if here is not None and here.is_output else owner.content_of(output)


def _original_in_chain(session: PiSession, line: int, name: str, seen: set[Path | None]) -> Original:
    """The output with an id, from the file or the nearest of those it was forked from."""
    holder: PiSession | None = session
    while holder is not None:
        entry = holder.entry(name)
        if entry is not None and entry.is_output:
            return holder.content_of(entry)
        holder = _parent(holder, line, seen)
    message = f"#{line}: stands for entry {name}, no output of {session.path} or what it was forked from"
    raise RecallError(message)


def _inherited(
    session: PiSession, line: int, before: datetime | None, seen: set[Path | None]
) -> tuple[PiSession, Entry] | None:
    """The output that `#line` names in the files a session was forked from, oldest first.

    None where in none of them an output stood on that line before the fork.
    """
    parent = _parent(session, line, seen)
    if parent is None:
        return None
    forked = instant(parent.header.timestamp)
    earlier = None if before is None or forked is None else min(before, forked)
    further = _inherited(parent, line, earlier, seen)
    if further is not None:
        return further
    if not any(entry.is_output for entry in parent.entries_on(line)):
        return None
    output = parent.output_on(line)
    if session.entry(output.id) is not None:
        return parent, output  # copied into the fork, so it was there before
    written = instant(output.timestamp)
    if written is None or before is None:
        message = (
            f"#{line}: {session.path} is a fork, and nothing says whether it is older than "
            f"line {line} of {parent.path}; use the entry's id"
        )
        raise RecallError(message)
    return (parent, output) if written <= before else None


def _parent(session: PiSession, line: int, seen: set[Path | None]) -> PiSession | None:
    """The session that another was forked from; None where there is none, or it was looked at before."""
    try:
        parent = session.parent()
    except InputError as error:
        message = (
            f"#{line}: {session.path} is a fork, so this may count the lines of the file it was forked "
            f"from, and that file cannot be used ({error}); use the entry's id"
        )
        raise RecallError(message) from error
    if parent is None or _resolved(parent.path) in seen:
        return None
    seen.add(_resolved(parent.path))
    return parent


# ---- the parts of entries


def _last_unseen(unseen: list[int], count: int) -> int:
    """How many of the first `count` entries there are up to the last unseen one; 0 where all are seen.

    `unseen` holds for each count that count, or, where its last entry is seen, a smaller one to go on
    from. Each walk leaves shorter ways behind, so that a file full of circles takes no longer.
    """
    while unseen[count] != count:
        unseen[count] = unseen[unseen[count]]
        count = unseen[count]
    return count


def _more(found: Sequence[object]) -> str:
    return f" ({len(found) - 1} more like it)" if len(found) > 1 else ""


def _looks_like_an_entry(record: Record) -> bool:
    return isinstance(record.get("type"), str) and ("id" in record or "timestamp" in record)


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
        return Image(string(block, "mimeType") or "", len(string(block, "data") or ""))
    text = string(block, "text") if kind == "text" else None
    return Text(canonical(block) if text is None else text)


# ---- the file


def _resolved(path: Path | None) -> Path | None:
    if path is None:
        return None
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
        with path.open("rb", buffering=1 << 20) as file:
            yield file
    except (OSError, ValueError) as error:  # a NUL in a path is a ValueError
        message = f"{path}: cannot be read, {_reason(error)}"
        raise InputError(message) from error


def _last_bytes(file: BinaryIO, end: int) -> bytes:
    """The bytes before `end`, by which to know a file again; leaves the file standing there."""
    start = max(end - _PROBE, 0)
    file.seek(start)
    return file.read(end - start)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return "there is no such file" if error.errno == errno.ENOENT else os.strerror(error.errno).lower()
    return str(error)


@contextlib.contextmanager
def _locked(file: BinaryIO, path: Path) -> Generator[None, None, None]:
    """Hold the file's advisory lock, so that of several writers of ours one writes at a time."""
    import portalocker

    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            portalocker.lock(file, portalocker.LOCK_EX | portalocker.LOCK_NB)
        except portalocker.LockException as error:
            if time.monotonic() > give_up:
                message = f"{path}: another process has kept it locked for {_LOCK_SECONDS:.0f} seconds"
                raise PrunewiseError(message) from error
            time.sleep(0.01)
        else:
            break
    try:
        yield
    finally:
        portalocker.unlock(file)


def _write(descriptor: int, data: bytes) -> None:
    """Write all of it, as a rule in one call, and wait until it is on the disk."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        if 0 < len(rest) < len(data):
            with contextlib.suppress(OSError):  # keep the next line, whoever writes it, from a torn one
                os.write(descriptor, b"\n")
        raise
    os.fsync(descriptor)


def _encoded(record: Record) -> bytes:
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:  # a lone surrogate, which a file can hold as an escape only
        return json.dumps(record, separators=(",", ":")).encode()
