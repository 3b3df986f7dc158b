"""Small pi sessions, and what a run of the program comes to."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

TEXT = "a line of output that somebody may need again, one day or another\n"


class Sample:
    """A pi session file, entry by entry. Each entry follows the one before it, or `parent`."""

    def __init__(self, path: Path, cwd: str) -> None:
        self.path = path
        self.cwd = cwd
        self.last: str | None = None
        self.count = 0
        path.write_text("")
        self._line({"type": "session", "version": 3, "id": "sample", "timestamp": stamp(0), "cwd": cwd})

    def _line(self, record: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def entry(self, kind: str, **fields: Any) -> str:
        self.count += 1
        name = f"{self.count:08x}"
        parent = fields.pop("parentId", self.last)
        self._line({"type": kind, "id": name, "parentId": parent, "timestamp": stamp(self.count), **fields})
        self.last = name
        return name

    def user(self, text: str = "go on", **fields: Any) -> str:
        return self.entry("message", message={"role": "user", "content": text, "timestamp": 0}, **fields)

    def call(
        self, id: str, name: str, arguments: dict[str, Any], output: Any = TEXT * 40, *, failed: bool = False
    ) -> str:
        """A call and its result; the id of the result's entry."""
        call = {"type": "toolCall", "id": id, "name": name, "arguments": arguments}
        self.entry("message", message={"role": "assistant", "content": [call], "timestamp": 0})
        content = output if isinstance(output, list) else [{"type": "text", "text": output}]
        result = {"role": "toolResult", "toolCallId": id, "toolName": name, "content": content}
        return self.entry("message", message={**result, "isError": failed, "timestamp": 0})

    def read(self, id: str, path: str = "a.py", output: Any = TEXT * 40) -> str:
        return self.call(id, "read", {"path": path}, output)

    def answer(self, text: str = "done") -> str:
        """An answer without calls."""
        content = [{"type": "text", "text": text}]
        return self.entry("message", message={"role": "assistant", "content": content, "timestamp": 0})

    def turns(self, several: int) -> None:
        for _ in range(several):
            self.user()

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)


def stamp(seconds: int) -> str:
    return f"2026-03-02T09:{seconds // 60:02}:{seconds % 60:02}.000Z"


class Done(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal(NamedTuple):
    """What a run on a terminal showed, and how it ended."""

    code: int
    shown: str


Run = Callable[..., Done]
"""Runs the program in this process."""
RunProcess = Callable[..., subprocess.CompletedProcess[bytes]]
"""Runs the program in a process of its own."""
RunOnTerminal = Callable[..., Terminal]
"""Runs the program on a terminal of 80 columns, and types the answers when it asks."""
