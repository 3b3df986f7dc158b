"""Whole pi histories and session files, made of small choices: what hypothesis or a seeded generator picks.

Pools are small on purpose, so that calls repeat, files are read and written again, and ids collide.
"""

import copy
import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from tests.build import (
    Native,
    assistant,
    call,
    image,
    other,
    result,
    shell,
    summary,
    text,
    thinking,
    usage,
    user,
)

from prunewise.stores.pi_session import PiSession

Choose = Callable[[Sequence[Any]], Any]
"""Picks one of some options; the first is the plainest."""

CWD = "/w"

_LINES = "".join(f"{number}: some line of output\n" for number in range(40))
OUTPUTS = (
    _LINES,
    "ok",
    _LINES + "the same, and more of it\n" * 60,
    "",
    " \n",
    "Größe ☃ 😀 " * 40,
    "\ud83d" + "torn " * 80,
    "one line " * 400,
)
_ARGUMENTS = (
    ("read", {"path": "a.py"}),
    ("read", {"path": "./a.py", "offset": 1, "limit": 10}),
    ("Read", {"limit": 30, "path": "/w/a.py", "offset": 1}),
    ("write", {"path": "a.py", "content": _LINES}),
    ("edit", {"path": "src/b.py", "oldText": "old " * 90, "newText": "né" * 60}),
    ("read", {"path": "src/b.py"}),
    ("bash", {"command": "make test"}),
    ("bash", {"command": "printf '\ud83d'; " + "echo 'ünïcode'; " * 30}),
    ("grep", {"pattern": "x", "deep": {"b": [1, 2.0, None], "a": True}}),
    ("todo", {"items": ["one", "two"]}),
    ("read", {"path": ".env"}),
    ("screenshot", {}),
)


def history(choose: Choose, *, recalls: bool = False, steps: Sequence[int] = range(3, 18)) -> list[Native]:
    """One history. With `recalls` it has recall calls too, of `entry_id`s of earlier outputs."""
    made: list[Native] = []
    ids: list[str] = []
    for _ in range(choose(steps)):
        kind = choose(("calls", "turn", "calls", "turn", "answer", "shell", "odd"))
        if kind == "calls":
            _calls(choose, made, ids, recalls)
        elif kind == "turn":
            made.append(_user(choose))
        elif kind == "answer":
            made.append(assistant("done", **_ending(choose)))
        elif kind == "shell":
            fields = choose(({}, {"excludeFromContext": True}, {"cancelled": True, "truncated": False}))
            made.append(shell("ls -la", choose(OUTPUTS), code=choose((0, 2, None)), **fields))
        else:
            made.append(_odd(choose))
    return made


def entry_id(position: int) -> str:
    """The id that a message's entry gets in a session file."""
    return f"{position:08x}"


def histories(*, recalls: bool = False, most: int = 17) -> st.SearchStrategy[list[Native]]:
    """Histories as hypothesis picks them."""

    @st.composite
    def drawn(draw: st.DrawFn) -> list[Native]:
        return history(
            lambda options: draw(st.sampled_from(options)), recalls=recalls, steps=range(3, most + 1)
        )

    return drawn()


def seeded(seed: int, *, recalls: bool = False, steps: Sequence[int] = range(8, 30)) -> list[Native]:
    """A history that is the same everywhere."""
    return history(random.Random(seed).choice, recalls=recalls, steps=steps)


def _calls(choose: Choose, made: list[Native], ids: list[str], recalls: bool) -> None:
    blocks: list[Native] = []
    if choose((False, True)):
        blocks.append(thinking("let me see", choose(("c2ln" * 20, "é"))))
    if choose((False, True)):
        blocks.append(text("looking"))
    asked: list[tuple[str, str]] = []
    for _ in range(choose((1, 1, 2, 3))):
        outputs = [at for at, one in enumerate(made) if one.get("role") in ("toolResult", "bashExecution")]
        reuse = bool(ids) and choose((False,) * 9 + (True,))
        call_id = choose(ids) if reuse else f"call_{len(ids)}|fc_{len(ids)}"
        if recalls and outputs and choose((False, False, False, True)):
            name, arguments = "recall", {"ref": entry_id(choose(outputs)) + choose(("", ":full"))}
        else:
            name, arguments = choose(_ARGUMENTS)
        ids.append(call_id)
        asked.append((call_id, name))
        blocks.append(call(call_id, name, copy.deepcopy(arguments)))
        if choose((False, False, False, True)):
            blocks.append(thinking("and on", "c2lnMg=="))
    made.append(assistant(*blocks, **_ending(choose)))
    order = choose((1, 1, -1))
    for call_id, name in asked[::order]:
        fate = choose(("ok", "ok", "ok", "error", "image", "missing", "steered", "two blocks"))
        if fate == "missing":
            continue
        if fate == "steered":
            made.append(user("wait, look at b first"))
        made.append(_result(choose, call_id, name, fate))


def _result(choose: Choose, id: str, name: str, fate: str) -> Native:
    if fate == "image":
        return result(id, *choose(([image()], [text("shot"), image(), text("of it")])), name=name)
    output = choose(OUTPUTS)
    blocks: list[Native] = [text(output), text("second block")] if fate == "two blocks" else [text(output)]
    made = result(id, *blocks, error=fate == "error", name=name)
    if fate == "error":
        made["details"] = {"code": 1}
    return made


def _ending(choose: Choose) -> dict[str, Any]:
    return choose(
        (
            {},
            {"usage": usage(3_000)},
            {"usage": usage(0, input=40, cacheRead=2_000, output=100)},
            {"usage": usage(900), "stopReason": "error"},
            {"stopReason": "aborted"},
            {"responseId": "r", "usage": {"input": "odd"}},
        )
    )


def _user(choose: Choose) -> Native:
    return choose(
        (
            user("go on"),
            {"role": "user", "content": "plain"},
            user(text("see"), image()),
            {"role": "user", "content": "Grüße \ud800 ☃", "extra": {"kept": True}},
        )
    )


def _odd(choose: Choose) -> Native:
    return copy.deepcopy(
        choose(
            (
                other(),
                summary(),
                result("nobody-called", _LINES),
                {"role": "branchSummary", "summary": "a branch", "fromId": "x"},
                {"role": "system", "content": "be brief"},
                assistant(),
                {"role": "assistant", "content": None},
                {"role": "toolResult", "toolCallId": None, "content": "text", "toolName": "x"},
                {"role": "assistant", "content": [{"type": "mystery", "deep": [[1]]}, "loose", 3]},
                {"role": "martian", "content": [1]},
            )
        )
    )


# ---- what a request may come to


def encoded(messages: Iterable[Any]) -> list[bytes]:
    """Each message as bytes, key order and lone surrogates included."""
    return [json.dumps(message).encode() for message in messages]


SETTINGS: dict[str, dict[str, Any]] = {
    "eager": {
        "protections": {"recentTurns": 0},
        "thresholds": {"minCharsSaved": 0},
        "gate": {"mode": "off"},
        "strategies": {"errorPurge": {"minTurnsOld": 0}},
        "pruning": {"minResultTokens": 60},
    },
    "default": {"pruning": {"minResultTokens": 60}},
    "one turn, priced": {
        "protections": {"recentTurns": 1},
        "thresholds": {"minCharsSaved": 10},
        "gate": {"breakEvenThreshold": 40},
        "strategies": {"errorPurge": {"minTurnsOld": 1}},
        "pruning": {"minResultTokens": 200, "protectCurrentTurn": False},
    },
    "always, unprotected": {
        "protections": {"recentTurns": 0, "toolNames": [], "pathGlobs": []},
        "thresholds": {"minCharsSaved": 0},
        "gate": {"mode": "always-apply"},
        "strategies": {"dedupe": {"enabled": False}, "errorPurge": {"minTurnsOld": 2}},
        "pruning": {"minResultTokens": 30},
    },
    "priced by default": {"policy": "priced", "pruning": {"minResultTokens": 60}},
    "priced, early": {
        "policy": "priced",
        "priced": {"recentCalls": 1, "minTokens": 20, "stake": 0.5, "caution": 0.1},
        "pruning": {"minResultTokens": 200, "protectCurrentTurn": False},
    },
    "priced, past the gate": {
        "policy": "priced",
        "priced": {"recentCalls": 0, "minTokens": 20},
        "gate": {"mode": "off"},
        "pruning": {"minResultTokens": 60},
    },
    "priced, unprotected": {
        "policy": "priced",
        "protections": {"toolNames": [], "pathGlobs": []},
        "priced": {"recentCalls": 1, "minTokens": 20},
        "gate": {"mode": "always-apply"},
        "pruning": {"minResultTokens": 30},
    },
}


# ---- session files


class PiFile:
    """A pi session file that grows as pi writes it, beside the ledger entries that others append."""

    def __init__(self, path: Path, *, cwd: str = CWD, parent: str | None = None) -> None:
        self.path = path
        header = {
            "type": "session",
            "version": 3,
            "id": path.stem,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "cwd": cwd,
        }
        if parent is not None:
            header["parentSession"] = parent
        path.write_bytes(json.dumps(header).encode() + b"\n")
        self.leaf: str | None = None
        """The entry that the next one follows."""

    def add(self, kind: str, id: str, **fields: Any) -> str:
        """Write one entry behind the leaf, which it becomes."""
        self.leaf = self._tail()
        entry = {
            "type": kind,
            "id": id,
            "parentId": self.leaf,
            "timestamp": "2026-01-01T00:00:01.000Z",
            **fields,
        }
        with self.path.open("ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
        self.leaf = id
        self._moved = False
        return id

    _moved = False

    def _tail(self) -> str | None:
        """Where pi stands: the last entry of the file, unless it went elsewhere."""
        if self._moved:
            return self.leaf
        last = json.loads(self.path.read_bytes().rstrip(b"\n").rsplit(b"\n", 1)[-1])
        return last["id"] if last["type"] != "session" else None

    def message(self, native: Any, id: str) -> str:
        """Write one message."""
        return self.add("message", id, message=native)

    def go_to(self, id: str | None) -> None:
        """Move to another entry of the tree: the next one that is written follows it."""
        self.leaf = id
        self._moved = True

    def open(self) -> PiSession:
        """Read the file as another process would."""
        return PiSession.open(self.path)
