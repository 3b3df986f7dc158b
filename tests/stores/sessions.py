"""A builder of pi session files, so that tests show what is in them and little else."""

import json
from pathlib import Path
from typing import Any

from prunewise import ledger

Record = dict[str, Any]

Json = Any
UNSAID: Any = object()
IMAGE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


def stamp(second: int) -> str:
    """The timestamp of a second of one minute or the next ones."""
    return f"2026-03-01T10:{second // 60:02d}:{second % 60:02d}.000Z"


class Log:
    """A session file in the making. Each entry follows the one before it unless told otherwise."""

    def __init__(
        self, *, version: int | None = 3, id: str = "the-session", at: int = 0, ids: str = "e", **header: Any
    ) -> None:
        first = {
            "type": "session",
            "version": version,
            "id": id,
            "timestamp": stamp(at),
            "cwd": "/project",
            **header,
        }
        self.lines: list[str] = [dump({key: value for key, value in first.items() if value is not None})]
        self.version = version or 1
        self.at = at
        self.ids = ids
        self.last: str | None = None
        self.calls = 0

    def add(
        self, type: str, *, id: str | None = None, parent: Json = UNSAID, at: int | None = None, **fields: Any
    ) -> str:
        """Add an entry and give its id; in version 1 it has none."""
        self.at = self.at + 1 if at is None else at
        name = id or f"{self.ids}{len(self.lines) + 1:07d}"
        entry: Record = {"type": type}
        if self.version > 1:
            entry |= {"id": name, "parentId": self.last if parent is UNSAID else parent}
        self.lines.append(dump({**entry, "timestamp": stamp(self.at), **fields}))
        self.last = name
        return name

    def message(
        self, role: str, content: Json = UNSAID, *, entry: Record | None = None, **fields: Any
    ) -> str:
        """Add a message."""
        message = {
            "role": role,
            **({} if content is UNSAID else {"content": content}),
            **fields,
            "timestamp": 1000,
        }
        return self.add("message", **(entry or {}), message=message)

    def user(self, text: str = "go on", **entry: Any) -> str:
        """Add a user's message."""
        return self.message("user", [{"type": "text", "text": text}], entry=entry)

    def answer(self, text: str = "done", *, stop: str = "stop", **entry: Any) -> str:
        """Add an answer without calls."""
        return self.message(
            "assistant", [{"type": "text", "text": text}], entry=entry, stopReason=stop, model="m"
        )

    def exchange(
        self, output: str = "output", *, name: str = "read", error: bool = False, **arguments: Any
    ) -> str:
        """Add a call and its result, and give the result's id; the calls are c1, c2, ..."""
        self.calls += 1
        call = {
            "type": "toolCall",
            "id": f"c{self.calls}",
            "name": name,
            "arguments": arguments or {"path": "a.py"},
        }
        self.message("assistant", [call], stopReason="toolUse", model="m")
        return self.result(f"c{self.calls}", output, name=name, error=error)

    def result(
        self, call: str, output: str = "output", *, name: str = "read", error: bool = False, **entry: Any
    ) -> str:
        """Add a result."""
        content = [{"type": "text", "text": output}]
        return self.message("toolResult", content, entry=entry, toolCallId=call, toolName=name, isError=error)

    def shell(self, output: str = "output", **fields: Any) -> str:
        """Add a shell command of the user's."""
        return self.message("bashExecution", command="ls", output=output, exitCode=0, **fields)

    def ledger(self, entry: ledger.Entry, **fields: Any) -> str:
        """Add an entry of the ledger."""
        custom_type, data = ledger.to_data(entry)
        return self.add("custom", customType=custom_type, data=data, **fields)

    def line_of(self, id: str) -> int:
        """The line on which an entry stands."""
        return next(number for number, line in enumerate(self.lines, start=1) if f'"id":"{id}"' in line)

    def bytes(self) -> bytes:
        """The file's bytes."""
        return "".join(line + "\n" for line in self.lines).encode()

    def save(self, path: Path) -> Path:
        """Write the file."""
        path.write_bytes(self.bytes())
        return path


def dump(value: object) -> str:
    """JSON as pi writes it: compact, and raw beyond ASCII."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decision(call: str, kind: Json = ledger.TOOL_RESULT, **fields: Any) -> ledger.Decision:
    """A decision about a call."""
    values: dict[str, Any] = {"reason": "r", "placeholder": "[gone]", "created_at": stamp(0), **fields}
    return ledger.decide("dedupe", call, kind, **values)
