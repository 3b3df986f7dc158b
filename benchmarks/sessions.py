"""Invented coding sessions for the benchmarks: deterministic, about 2.5 kB a message.

A mix of what coding agents do: whole and partial reads of a few hot files, edits and writes, test
runs, searches, API responses, failing calls with long inputs. `pi_messages` gives pi's messages,
`pi_session` the lines of a session file around them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

WORDS = [
    "account",
    "batch",
    "branch",
    "buffer",
    "channel",
    "commit",
    "config",
    "cursor",
    "digest",
    "encoder",
    "event",
    "filter",
    "frame",
    "gateway",
    "handle",
    "index",
    "journal",
    "kernel",
    "ledger",
    "loader",
    "mapper",
    "merge",
    "metric",
    "node",
    "offset",
    "packet",
    "parser",
    "policy",
    "pool",
    "query",
    "queue",
    "record",
    "region",
    "replica",
    "router",
    "sample",
    "schema",
    "segment",
    "shard",
    "signal",
    "slice",
    "socket",
    "stage",
    "store",
    "stream",
    "table",
    "task",
    "token",
    "trace",
    "vector",
    "worker",
]
FIRST_TIME = 1_700_000_000_000


def pi_messages(count: int, seed: int = 1) -> list[Message]:
    """At least `count` messages of pi, as they would be sent."""
    return list(_messages(_Session(seed), count))


def pi_session(messages: list[Message]) -> list[bytes]:
    """The lines of a pi session file that holds these messages."""
    header = {
        "type": "session",
        "version": 3,
        "id": "bench",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": "/repo",
    }
    lines = [json.dumps(header).encode()]
    for number, message in enumerate(messages):
        parent = f"{number - 1:08x}" if number else None
        entry = {
            "type": "message",
            "id": f"{number:08x}",
            "parentId": parent,
            "timestamp": header["timestamp"],
        }
        lines.append(json.dumps({**entry, "message": message}).encode())
    return lines


class _Session:
    """The random choices of one session and the files that it works on."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = {f"src/{self.word()}/{self.word()}_{n}.py": self.source() for n in range(60)}
        self.paths = list(self.files)

    def word(self) -> str:
        return self.random.choice(WORDS)

    def words(self, count: int) -> str:
        return " ".join(self.word() for _ in range(count))

    def source(self) -> list[str]:
        lines = ["import json", "", ""]
        for number in range(self.random.randint(8, 22)):
            lines.append(f"def {self.word()}_{self.word()}_{number}({self.word()}, limit={number}):")
            lines += [f"    {self.word()} = {self.word()}.get('{self.word()}', {n})" for n in range(6)]
            lines += [f"    return {self.word()}", ""]
        return lines

    def path(self) -> str:
        return self.random.choice(self.paths[:8] if self.random.random() < 0.6 else self.paths)

    def tool(self) -> tuple[str, Message, str, bool]:
        """One call: the tool's name, its arguments, its output and whether it failed."""
        path, chance = self.path(), self.random.random()
        lines = self.files[path]
        if chance < 0.33:
            return "read", {"path": path}, "\n".join(lines), False
        if chance < 0.42:
            first, count = self.random.randint(1, 30), self.random.randint(20, 60)
            return (
                "read",
                {"path": path, "offset": first, "limit": count},
                "\n".join(lines[first:][:count]),
                False,
            )
        if chance < 0.64:
            rows = [
                f"tests/test_{self.word()}.py::test_{n} PASSED" for n in range(self.random.randint(20, 90))
            ]
            return (
                "bash",
                {"command": f"pytest -q tests/{self.random.choice(['', 'unit', 'api'])}"},
                "\n".join(rows),
                False,
            )
        if chance < 0.76:
            rows = [f"{p}:{n}: {self.words(6)}" for n, p in enumerate(self.paths)]
            return "grep", {"pattern": self.word(), "path": "src"}, "\n".join(rows), False
        if chance < 0.92:
            at = self.random.randrange(len(lines))
            old, lines[at] = lines[at], f"    {self.word()} = {self.random.randint(0, 9999)}"
            if self.random.random() < 0.2:
                missing = "\n".join(self.words(18) for _ in range(8))
                return (
                    "edit",
                    {"path": path, "oldText": missing, "newText": lines[at]},
                    "text not found",
                    True,
                )
            return "edit", {"path": path, "oldText": old, "newText": lines[at]}, f"edited {path}", False
        self.files[path] = self.source()
        return "write", {"path": path, "content": "\n".join(self.files[path])}, f"wrote {path}", False


def _messages(session: _Session, count: int) -> Iterator[Message]:
    time, call = FIRST_TIME, 0
    produced = 0
    while produced < count:
        time += 1000
        if call % 25 == 0:
            yield {
                "role": "user",
                "content": [{"type": "text", "text": session.words(40)}],
                "timestamp": time,
            }
            produced += 1
        name, arguments, output, failed = session.tool()
        identity = f"call_{call:06d}"
        yield {
            "role": "assistant",
            "content": [
                {"type": "text", "text": session.words(20)},
                {"type": "toolCall", "id": identity, "name": name, "arguments": arguments},
            ],
            "provider": "bench",
            "model": "bench",
            "stopReason": "toolUse",
            "usage": {},
            "timestamp": time,
        }
        yield {
            "role": "toolResult",
            "toolCallId": identity,
            "toolName": name,
            "content": [{"type": "text", "text": output}],
            "isError": failed,
            "timestamp": time,
        }
        produced += 2
        call += 1
