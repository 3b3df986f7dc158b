"""What the tests of the engine are built with."""

from typing import Any

from tests.build import LONG, assistant, bash, edit, flat, read, shell, turns, used, user

from prunewise import ledger
from prunewise.engine import Engine
from prunewise.ledger import Entry, Restore
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, ToolKind

RESULT, INPUT = TOOL_RESULT, TOOL_INPUT
HUGE = {"content": "x" * 900}
"""An input that is worth purging."""
BIG = LONG * 6  # 5,400 characters, 1,350 tokens
STALE = flat(
    user(),
    used("p", "x", HUGE, "no", error=True),
    bash("d", "x"),
    bash("e", "x"),
    read("s", "f"),
    edit("t", "f"),
    turns(5),
)
ALL = {"dedupe", "error-purge", "superseded-file-ops"}
MASKABLE = flat(
    user(),
    bash("1", "ls", BIG),
    read("2", "f", BIG),
    shell("make", BIG),
    bash("3", "ls", BIG),
    assistant("done"),
    user(),
)


def data(*, recent: int = 0, floor: int = 0, **more: Any) -> dict[str, Any]:
    """Settings in JSON shape."""
    return {"thresholds": {"minCharsSaved": floor}, "protections": {"recentTurns": recent}, **more}


def decide(
    strategy: str, call_id: str, kind: ToolKind = RESULT, placeholder: str = "[gone]", **more: Any
) -> Entry:
    return ledger.decide(strategy, call_id, kind, reason="r", placeholder=placeholder, created_at="t", **more)


def undo(strategy: str, call_id: str, kind: ToolKind = RESULT) -> Entry:
    return Restore(f"{strategy}:{kind}:{call_id}")


def follow(engine: Engine, *entries: Entry) -> bool:
    return engine.follow(ledger.fold(entries))


def texts(engine: Engine) -> dict[str, str]:
    """What goes out changed: the message's id and the text in place."""
    return {one.message: one.text for parts in engine.edits.values() for one in parts.values()}
