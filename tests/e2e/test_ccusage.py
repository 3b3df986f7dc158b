"""What sessions used, counted by us and by ccusage; docs/explanation/readers.md says each difference."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.e2e.pi_agent import MODULES, NODE

from prunewise.recording import Recording
from prunewise.replay.copies import each_once
from prunewise.replay.corpus import find_known, load
from prunewise.transcript import Usage

CCUSAGE = MODULES / "ccusage" / "src" / "cli.js"
Json = Any
Files = dict[str, list[Json] | Json]


class Counts(NamedTuple):
    """Tokens, as ccusage sums them up."""

    input: int = 0
    output: int = 0
    read: int = 0
    write: int = 0

    def minus(self, other: "Counts") -> "Counts":
        return Counts(*(one - two for one, two in zip(self, other, strict=True)))


def ours(home: Path, environment: dict[str, str]) -> Counts:
    """What the sessions in a home used, with the requests beside them; what several hold once."""
    recordings: list[Recording] = []
    for source in find_known(environment, home).sources:
        recordings += load(source)
    used: list[Usage] = []
    for recording in each_once(recordings):
        for call in (call for epoch in recording.epochs for call in epoch.calls):
            used += [*([call.usage] if call.usage else []), *call.beside]
    return Counts(
        sum(one.input for one in used),
        sum(one.output for one in used),
        sum(one.cache_read for one in used),
        sum(one.cache_write for one in used),
    )


def theirs(home: Path, agent: str) -> Counts:
    """What ccusage says of the same."""
    done = subprocess.run(
        [NODE, CCUSAGE, agent, "session", "--json", "--offline"],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC"},
        capture_output=True,
        check=True,
        timeout=120,
    )
    totals: dict[str, int] = json.loads(done.stdout).get("totals") or {}
    keys = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")
    return Counts(*(totals.get(key) or 0 for key in keys))


@pytest.fixture(scope="session", autouse=True)
def ccusage() -> None:
    if not CCUSAGE.exists() or not os.access(NODE, os.X_OK):
        pytest.skip(f"needs ccusage: `make test` installs it ({CCUSAGE} is missing)")
    if subprocess.run([NODE, CCUSAGE, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("needs ccusage's program for this machine, which is not installed")


START = 1_772_442_000_000
"""In milliseconds."""


def stamp(number: int) -> str:
    return f"2026-03-02T09:{number // 60:02}:{number % 60:02}.000Z"


def write(home: Path, files: Files) -> None:
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = content if isinstance(content, list) else [content]
        path.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))


# ------------------------------------------------------------------- samples


def claude(*lines: Json, name: str = "u") -> list[Json]:
    base = {"isSidechain": False, "cwd": "/w", "sessionId": "s", "version": "2.1.0"}
    made: list[Json] = []
    for number, line in enumerate(lines):
        parent = {"parentUuid": made[-1]["uuid"] if made else None}
        about = {"uuid": f"{name}{number}", "timestamp": stamp(number)}
        made.append({**base, **parent, **about, **line})
    return made


def prompt(text: str, **fields: Json) -> Json:
    return {"type": "user", "message": {"role": "user", "content": text}, **fields}


def answer(id: str, text: str, usage: Json, **fields: Json) -> Json:
    message = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [{"type": "text", "text": text}],
        "usage": usage,
    }
    return {"type": "assistant", "message": message, "requestId": f"req-{id}", **fields}


def claude_usage(input: int, output: int, read: int = 0, write: int = 0) -> Json:
    return {
        "input_tokens": input,
        "output_tokens": output,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
    }


CLAUDE = claude(
    prompt("go"),
    answer("m1", "one", claude_usage(3, 1, 0, 9000)),
    answer("m1", "two", claude_usage(3, 90, 0, 9000)),
    prompt("on"),
    answer("m2", "done", claude_usage(4, 50, 9000, 200)),
)
SIDE = claude(
    prompt("look", isSidechain=True),
    answer("m9", "seen", claude_usage(7, 70, 0, 800), isSidechain=True),
    name="side",
)
FORK = claude(*CLAUDE, prompt("another way"), answer("m3", "so", claude_usage(5, 20, 9200, 30)))


def codex(*lines: tuple[str, Json], at: Callable[[int], str] = stamp) -> list[Json]:
    return [{"timestamp": at(n), "type": kind, "payload": payload} for n, (kind, payload) in enumerate(lines)]


def codex_turn(id: str, input: int, cached: int, total: int, **more: int) -> list[tuple[str, Json]]:
    last = {"input_tokens": input, "cached_input_tokens": cached, "output_tokens": 60, **more}
    last["total_tokens"] = input + 60
    info = {"last_token_usage": last, "total_token_usage": {**last, "total_tokens": total}}
    return [
        ("response_item", {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": id}),
        ("event_msg", {"type": "token_count", "info": info}),
        ("response_item", {"type": "function_call_output", "call_id": id, "output": "ok"}),
    ]


META = ("session_meta", {"id": "p", "cwd": "/w", "model_provider": "openai"})
CONTEXT = ("turn_context", {"model": "gpt-5.2-codex"})
CODEX = [META, CONTEXT, *codex_turn("a", 20_000, 0, 20_060), *codex_turn("b", 21_000, 19_968, 41_120)]
SPAWNED = {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}
CHILD_META = ("session_meta", {"id": "c", "cwd": "/w", "source": SPAWNED})
STARTED = ("event_msg", {"type": "task_started", "turn_id": "t"})
CHILD = [
    CHILD_META,
    META,
    CONTEXT,
    STARTED,
    *CODEX[2:],
    STARTED,
    *codex_turn("k", 500, 0, 41_680),
]


def at_one_second(number: int) -> str:
    """A copy is written at once; what comes behind it takes its time."""
    return stamp(100) if number < 10 else stamp(100 + number)


def pi(*messages: Json) -> list[Json]:
    lines: list[Json] = [{"type": "session", "version": 3, "id": "s", "timestamp": stamp(0), "cwd": "/w"}]
    for number, message in enumerate(messages, start=1):
        parent = f"{number - 1:08}" if number > 1 else None
        about = {"id": f"{number:08}", "parentId": parent, "timestamp": stamp(number)}
        lines.append({**about, **(message if "type" in message else {"type": "message", "message": message})})
    return lines


def pi_answer(input: int, read: int, write: int, stop: str = "stop") -> Json:
    usage = {"input": input, "output": 20, "cacheRead": read, "cacheWrite": write}
    usage["totalTokens"] = input + read + write + 20
    about = {"provider": "anthropic", "model": "claude-sonnet-4-5", "stopReason": stop}
    about["timestamp"] = START + input
    return {"role": "assistant", "content": [{"type": "text", "text": "ok"}], "usage": usage, **about}


GO = {"role": "user", "content": "go", "timestamp": START}
SUMMED = {"input": 300, "output": 900, "cacheRead": 10_500, "cacheWrite": 0, "totalTokens": 11_700}
WARMED = {"input": 1, "output": 1, "cacheRead": 5000, "cacheWrite": 0, "totalTokens": 5002}


def gemini(*tokens: Json) -> Json:
    header = {"sessionId": "s", "projectHash": "h", "startTime": stamp(0), "lastUpdated": stamp(9)}
    messages: list[Json] = [{"id": "u", "timestamp": stamp(0), "type": "user", "content": "go"}]
    for number, one in enumerate(tokens, start=1):
        about = {"id": f"g{number}", "timestamp": stamp(number), "type": "gemini", "content": "ok"}
        messages.append({**about, "model": "gemini-3-pro", "tokens": one})
    return {**header, "messages": messages}


def qwen(*counts: Json) -> list[Json]:
    base = {"sessionId": "s", "cwd": "/w", "version": "0.24.4"}
    lines: list[Json] = [
        {**base, "uuid": "u0", "parentUuid": None, "timestamp": stamp(0), "type": "user",
         "message": {"role": "user", "parts": [{"text": "go"}]}},
    ]  # fmt: skip
    for number, one in enumerate(counts, start=1):
        about = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}", "timestamp": stamp(number)}
        said = {"message": {"role": "model", "parts": [{"text": "ok"}]}, "model": "qwen3-coder-plus"}
        lines.append({**base, **about, **said, "type": "assistant", "usageMetadata": one})
    return lines


def copilot(shutdown: Json | None) -> list[Json]:
    events: list[tuple[str, Json]] = [
        ("session.start", {"sessionId": "s", "selectedModel": "claude-sonnet-4.5"}),
        ("user.message", {"content": "go"}),
        ("assistant.message", {"content": "ok", "outputTokens": 40, "model": "claude-sonnet-4.5"}),
        *([("session.shutdown", shutdown)] if shutdown else []),
    ]
    return [
        {
            "type": kind,
            "data": data,
            "id": f"e{n}",
            "parentId": f"e{n - 1}" if n else None,
            "timestamp": stamp(n),
        }
        for n, (kind, data) in enumerate(events)
    ]


SHUTDOWN = {
    "modelMetrics": {
        "claude-sonnet-4.5": {
            "requests": {"count": 1, "cost": 1},
            "usage": {
                "inputTokens": 900,
                "outputTokens": 40,
                "cacheReadTokens": 700,
                "cacheWriteTokens": 100,
            },
        }
    }
}


def opencode(home: Path) -> None:
    folder = home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "opencode.db") as base:
        base.executescript(
            "CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, revert TEXT, time_created INTEGER);"
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);"
            "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);"
        )
        base.execute("INSERT INTO session VALUES ('ses_1', '/w', NULL, 1772442000000)")
        for number in range(3):
            tokens = {"input": 10 + number, "output": 20, "reasoning": 0, "cache": {"read": 100, "write": 5}}
            info = {
                "role": "assistant",
                "modelID": "claude-sonnet-4-5",
                "providerID": "anthropic",
                "tokens": tokens,
                "time": {"created": START + number, "completed": 1772442000500 + number},
                "finish": "stop",
            }
            row = (f"msg_{number}", START + number, json.dumps(info))
            base.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", row)
            part = json.dumps({"type": "text", "text": "ok"})
            base.execute(
                "INSERT INTO part VALUES (?, ?, 'ses_1', ?)", (f"prt_{number}", f"msg_{number}", part)
            )
    base.close()


P, C, G, Q = (
    ".claude/projects/p",
    ".codex/sessions/2026/03/02",
    ".gemini/tmp/p/chats",
    ".qwen/projects/p/chats",
)
PI = ".pi/agent/sessions/--w--"


WRITTEN = codex_turn("a", 20_000, 0, 20_060, cache_write_input_tokens=19_000)
WARMER = {"type": "usage", "kind": "cache_warm", "usage": WARMED}
SUMMARY = {"type": "compaction", "summary": "so", "firstKeptEntryId": "00000001", "usage": SUMMED}
READ = {"promptTokenCount": 900, "candidatesTokenCount": 40, "totalTokenCount": 940}
THOUGHT = {"input": 900, "output": 40, "cached": 700, "thoughts": 60, "total": 1000}
PLAIN = {"input": 900, "output": 40, "cached": 700, "total": 940}
FIRST = pi_answer(10, 0, 900)


@pytest.mark.parametrize(
    ("agent", "files", "difference"),
    [
        ("claude", {f"{P}/s.jsonl": CLAUDE}, Counts()),
        ("claude", {f"{P}/s.jsonl": [*CLAUDE, *SIDE]}, Counts()),
        ("claude", {f"{P}/s.jsonl": CLAUDE, f"{P}/s/subagents/agent-1.jsonl": SIDE}, Counts()),
        ("claude", {f"{P}/s.jsonl": CLAUDE, f"{P}/f.jsonl": FORK}, Counts()),
        ("codex", {f"{C}/rollout-p.jsonl": codex(*CODEX)}, Counts()),
        ("codex", {f"{C}/rollout-p.jsonl": codex(META, CONTEXT, *WRITTEN)}, Counts()),
        (
            "codex",
            {f"{C}/rollout-p.jsonl": codex(*CODEX), f"{C}/rollout-c.jsonl": codex(*CHILD, at=at_one_second)},
            Counts(),
        ),
        ("pi", {f"{PI}/s.jsonl": pi(GO, FIRST, GO, pi_answer(11, 900, 50))}, Counts()),
        ("pi", {f"{PI}/s.jsonl": pi(GO, FIRST, GO, pi_answer(3, 900, 0, "aborted"))}, Counts()),
        ("gemini", {f"{G}/session-s.json": gemini(PLAIN)}, Counts()),
        ("qwen", {f"{Q}/s.jsonl": qwen(READ)}, Counts()),
        ("copilot", {".copilot/session-state/s/events.jsonl": copilot(SHUTDOWN)}, Counts()),
        # pi: requests whose answers are no messages are not counted there.
        ("pi", {f"{PI}/s.jsonl": pi(GO, FIRST, SUMMARY)}, Counts(-300, -900, -10_500)),
        ("pi", {f"{PI}/s.jsonl": pi(GO, FIRST, WARMER)}, Counts(-1, -1, -5000)),
        # Gemini CLI: thoughts are no output there.
        ("gemini", {f"{G}/session-s.json": gemini(THOUGHT)}, Counts(output=-60)),
        # Qwen Code: what was read from the cache is input there too.
        ("qwen", {f"{Q}/s.jsonl": qwen({**READ, "cachedContentTokenCount": 700})}, Counts(input=700)),
        # Copilot CLI: a session that has not told its totals counts nothing there.
        ("copilot", {".copilot/session-state/s/events.jsonl": copilot(None)}, Counts(output=-40)),
    ],
)
def test_totals_are_those_of_ccusage_but_for_what_is_known(
    tmp_path: Path, agent: str, files: Files, difference: Counts
):
    write(tmp_path, files)
    counted = ours(tmp_path, {})
    assert any(counted)
    assert theirs(tmp_path, agent).minus(counted) == difference


def test_totals_of_a_database_are_those_of_ccusage(tmp_path: Path):
    opencode(tmp_path)
    counted = ours(tmp_path, {})
    assert counted == Counts(33, 60, 300, 15)
    assert theirs(tmp_path, "opencode") == counted


# ------------------------------------------------------------------- the corpus

PLACES = {
    "claude-code": ("claude", ".claude/projects/p/{name}.jsonl"),
    "codex": ("codex", ".codex/sessions/2026/03/02/rollout-{name}.jsonl"),
    "pi": ("pi", ".pi/agent/sessions/--w--/{name}.jsonl"),
    "gemini": ("gemini", ".gemini/tmp/p/chats/session-{name}.json"),
    "copilot": ("copilot", ".copilot/session-state/{name}/events.jsonl"),
}
LEFT_OUT_THERE = ("edge_cases", "test_session")
"""Made-up sessions of Claude Code, whose times have no fractions of a second."""


def placed(home: Path, files: Iterable[Path], place: str) -> None:
    for file in files:
        path = home / place.format(name=file.stem)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, path)


@pytest.mark.corpus
@pytest.mark.parametrize("format", PLACES)
def test_totals_of_recorded_sessions_are_those_of_ccusage(shared: Path, tmp_path: Path, format: str):
    agent, place = PLACES[format]
    files = sorted((shared / "corpus" / format).iterdir())
    placed(tmp_path, [file for file in files if not file.stem.endswith(LEFT_OUT_THERE)], place)
    counted, said = ours(tmp_path, {}), theirs(tmp_path, agent)
    assert any(counted)
    if format == "gemini":  # thoughts are no output there
        assert said.output < counted.output
        said = said._replace(output=counted.output)
    if format == "copilot":  # only sessions that tell their totals are counted there
        assert said.output < counted.output
        said = said._replace(output=counted.output)
    assert said == counted
