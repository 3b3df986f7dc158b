"""A small session of each format: an agent that reads the same files again and again, over some turns."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]


class Read(NamedTuple):
    """One tool call: what was read, and what came of it."""

    id: str
    path: str
    output: str


def turns(count: int = 7, seed: int = 0) -> list[list[Read]]:
    """The calls of each turn. The first file is read in every turn, and never changes."""
    return [
        [
            Read(f"c{turn}a", "/repo/a.py", f"value_{seed} = compute_everything()\n" * 60),
            Read(f"c{turn}b", f"/repo/b{turn}.py", f"line {turn} of session {seed}, anything\n" * 40),
        ]
        for turn in range(count)
    ]


def stamp(number: int) -> str:
    return f"2026-03-02T{9 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"


def _lines(records: list[Json]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def pi(count: int = 7, seed: int = 0, cwd: str = "/repo") -> bytes:
    records: list[Json] = [
        {"type": "session", "version": 3, "id": f"pi-{seed}", "timestamp": stamp(0), "cwd": cwd}
    ]

    def add(message: Json) -> None:
        number = len(records)
        parent = f"{number - 1:08x}" if number > 1 else None
        entry = {"type": "message", "id": f"{number:08x}", "parentId": parent, "timestamp": stamp(number)}
        records.append({**entry, "message": {**message, "timestamp": 1_772_442_000_000 + 1000 * number}})

    for turn in turns(count, seed):
        add({"role": "user", "content": [{"type": "text", "text": f"go on with pi {seed}"}]})
        for read in turn:
            call = {"type": "toolCall", "id": read.id, "name": "read", "arguments": {"path": read.path}}
            about = {"provider": "anthropic", "model": "claude-opus-5", "stopReason": "toolUse"}
            add({"role": "assistant", "content": [call], **about})
            content = [{"type": "text", "text": read.output}]
            result = {"role": "toolResult", "toolCallId": read.id, "toolName": "read", "isError": False}
            add({**result, "content": content})
    return _lines(records)


def claude_code(count: int = 7, seed: int = 0, cwd: str = "/repo") -> bytes:
    records: list[Json] = []

    def add(kind: str, content: Any, **message: Any) -> None:
        number = len(records)
        records.append(
            {
                "parentUuid": f"u{number - 1}" if number else None,
                "isSidechain": False,
                "cwd": cwd,
                "sessionId": f"claude-{seed}",
                "type": kind,
                "uuid": f"u{number}",
                "timestamp": stamp(number),
                "message": {"role": kind, "content": content, **message},
            }
        )

    for turn in turns(count, seed):
        add("user", f"go on with claude_code {seed}")
        for read in turn:
            call = {"type": "tool_use", "id": read.id, "name": "Read", "input": {"file_path": read.path}}
            add("assistant", [call], id=f"m{read.id}", model="claude-opus-5")
            add("user", [{"type": "tool_result", "tool_use_id": read.id, "content": read.output}])
    return _lines(records)


def codex(count: int = 7, seed: int = 0, cwd: str = "/repo") -> bytes:
    records: list[Json] = []

    def add(kind: str, **payload: Any) -> None:
        records.append({"timestamp": stamp(len(records)), "type": kind, "payload": payload})

    add("session_meta", id=f"codex-{seed}", cwd=cwd, model_provider="openai")
    for turn in turns(count, seed):
        content = [{"type": "input_text", "text": f"go on with codex {seed}"}]
        add("response_item", type="message", role="user", content=content)
        for read in turn:
            arguments = json.dumps({"cmd": f"cat {read.path}"})
            add(
                "response_item",
                type="function_call",
                name="exec_command",
                call_id=read.id,
                arguments=arguments,
            )
            add("response_item", type="function_call_output", call_id=read.id, output=read.output)
    return _lines(records)


def copilot(count: int = 7, seed: int = 0, cwd: str = "/repo") -> bytes:
    records: list[Json] = []

    def add(kind: str, **data: Any) -> None:
        number = len(records)
        parent = f"e{number - 1}" if number else None
        records.append(
            {"type": kind, "data": data, "id": f"e{number}", "timestamp": stamp(number), "parentId": parent}
        )

    add("session.start", sessionId=f"copilot-{seed}", context={"cwd": cwd})
    for turn in turns(count, seed):
        add(
            "user.message",
            content=f"go on with copilot {seed}",
            transformedContent=f"go on with copilot {seed}",
        )
        for read in turn:
            request = {"toolCallId": read.id, "name": "view", "arguments": {"path": read.path}}
            add("assistant.message", content="", toolRequests=[request], model="gpt-6")
            add("tool.execution_start", toolCallId=read.id)
            result = {"content": read.output}
            add("tool.execution_complete", toolCallId=read.id, success=True, result=result)
    return _lines(records)


def _opencode(count: int, seed: int) -> list[Json]:
    messages: list[Json] = []
    start = 1_772_442_000_000
    for number, turn in enumerate(turns(count, seed)):
        times = {"created": start + 10_000 * number}
        info: Json = {"id": f"u{number}", "role": "user", "time": times}
        messages.append({"info": info, "parts": [{"type": "text", "text": f"go on with opencode {seed}"}]})
        for read in turn:
            state = {"status": "completed", "input": {"filePath": read.path}, "output": read.output}
            info = {"id": f"m{read.id}", "role": "assistant", "modelID": "claude-opus-5", "finish": "stop"}
            part = {"type": "tool", "tool": "read", "callID": read.id, "state": state}
            messages.append({"info": {**info, "providerID": "anthropic", "time": times}, "parts": [part]})
    return messages


def opencode(count: int = 7, seed: int = 0, cwd: str = "/repo") -> bytes:
    info = {"id": f"ses_{seed}", "directory": cwd}
    return json.dumps({"info": info, "messages": _opencode(count, seed)}).encode()


def gemini_cli(count: int = 7, seed: int = 0) -> bytes:
    messages: list[Json] = []
    sent, held = 5000, 0
    for number, turn in enumerate(turns(count, seed)):
        messages.append(
            {
                "id": f"u{number}",
                "timestamp": stamp(number),
                "type": "user",
                "content": f"go on with gemini_cli {seed}",
            }
        )
        for read in turn:
            answer = {"id": read.id, "name": "read_file", "response": {"output": read.output}}
            call = {"id": read.id, "name": "read_file", "args": {"file_path": read.path}}
            done = {**call, "result": [{"functionResponse": answer}], "status": "success"}
            about: Json = {"timestamp": stamp(number), "type": "gemini", "model": "gemini-2.5-pro"}
            about["tokens"] = {"input": sent, "output": 10, "cached": held}
            held = sent
            sent += (len(read.output) + 60) // 4
            messages.append({"id": f"m{read.id}", "content": "", "toolCalls": [done], **about})
    header = {"sessionId": f"gemini-{seed}", "projectHash": "h", "startTime": stamp(0), "kind": "main"}
    return json.dumps({**header, "messages": messages}).encode()


def qwen_code(count: int = 7, seed: int = 0, cwd: str = "/repo") -> bytes:
    records: list[Json] = []

    def add(kind: str, role: str, part: Json, **fields: Any) -> None:
        number = len(records)
        records.append(
            {
                "uuid": f"u{number}",
                "parentUuid": f"u{number - 1}" if number else None,
                "sessionId": f"qwen-{seed}",
                "timestamp": stamp(number),
                "type": kind,
                "cwd": cwd,
                "version": "0.24.4",
                "message": {"role": role, "parts": [part]},
                **fields,
            }
        )

    for turn in turns(count, seed):
        add("user", "user", {"text": f"go on with qwen_code {seed}"})
        for read in turn:
            call = {"id": read.id, "name": "read_file", "args": {"file_path": read.path}}
            add("assistant", "model", {"functionCall": call}, model="qwen3-coder-plus")
            answer = {"id": read.id, "name": "read_file", "response": {"output": read.output}}
            told = {"callId": read.id, "status": "success"}
            add("tool_result", "user", {"functionResponse": answer}, toolCallResult=told)
    return _lines(records)


def swe_agent(count: int = 7, seed: int = 0) -> bytes:
    state = json.dumps({"open_file": "n/a", "working_dir": "/repo"})
    steps = [
        {
            "action": f"cat {read.path}",
            "observation": read.output,
            "response": "r",
            "state": state,
            "thought": "t",
        }
        for turn in turns(count, seed)
        for read in turn
    ]
    return json.dumps({"environment": "main", "trajectory": steps, "history": []}).encode()


def request(count: int = 7, seed: int = 0) -> bytes:
    messages: list[Json] = []
    for turn in turns(count, seed):
        messages.append({"role": "user", "content": f"go on with request {seed}"})
        for read in turn:
            call = {"type": "tool_use", "id": read.id, "name": "Read", "input": {"file_path": read.path}}
            result = {"type": "tool_result", "tool_use_id": read.id, "content": read.output}
            messages.append({"role": "assistant", "content": [call]})
            messages.append({"role": "user", "content": [result]})
    return json.dumps({"model": "claude-opus-5", "messages": messages}).encode()


FORMATS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "pi": (".jsonl", pi),
    "claude-code": (".jsonl", claude_code),
    "codex": (".jsonl", codex),
    "copilot": (".jsonl", copilot),
    "opencode": (".json", opencode),
    "gemini-cli": (".json", gemini_cli),
    "qwen-code": (".jsonl", qwen_code),
    "swe-agent": (".traj", swe_agent),
    "request": (".json", request),
}
"""How a file of each format ends, and what is in it."""


def one_of_each(folder: Path) -> dict[str, Path]:
    """A file of each format in a folder."""
    files: dict[str, Path] = {}
    for name, (suffix, make) in FORMATS.items():
        files[name] = folder / f"{name}{suffix}"
        files[name].write_bytes(make())
    return files


def database(path: Path, *sessions: tuple[str, str, int]) -> Path:
    """A database of opencode's with sessions of (id, directory, seed)."""
    with sqlite3.connect(path) as base:
        base.executescript(
            """
            CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, revert TEXT, time_created INTEGER);
            CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
            CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
            """
        )
        for at, (name, directory, seed) in enumerate(sessions):
            base.execute("INSERT INTO session VALUES (?, ?, NULL, ?)", (name, directory, at))
            for number, message in enumerate(_opencode(7, seed)):
                info = {key: value for key, value in message["info"].items() if key != "id"}
                key = f"{name}-{message['info']['id']}"
                base.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (key, name, number, json.dumps(info)))
                for part in message["parts"]:
                    row = (f"prt-{key}", key, name, json.dumps(part))
                    base.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
    base.close()
    return path
