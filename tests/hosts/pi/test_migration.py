"""A session that the TypeScript extension has pruned goes on: what it sent is sent as it was."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.hosts.pi.support import LONG, Talk

MakeTalk = Callable[..., Talk]

PREFIX = "[pruned by dynamic-context-pruning: "
OF_A = f"{PREFIX}superseded by newer read of /a (call call_9)]"
PAIR = "\U0001f600"


def decision(strategy: str, kind: str, call: str, **more: Any) -> dict[str, Any]:
    """A decision as that extension writes it."""
    return {
        "idempotencyKey": f"{strategy}:{kind}:{call}",
        "strategyId": strategy,
        "correlation": {"type": "toolCallId", "toolCallId": call},
        "kind": kind,
        "reason": "a reason",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "source": "manual" if strategy == "manual" else "auto",
        **more,
    }


RESULT, INPUT = "tool_result_content", "tool_call_input"


def sent(talk: Talk) -> dict[str, Any]:
    """What goes out of the first call: its arguments and its result, as far as they are edited."""
    found: dict[str, Any] = {}
    for position, parts in talk.edits.items():
        for part in parts:
            kind = talk.branch[position]["message"]["role"]
            found["input" if kind == "assistant" else "result"] = part.value
    return found


@pytest.mark.parametrize(
    ("output", "error", "data", "expected"),
    [
        (LONG, False, decision("dedupe", RESULT, "call_1", placeholder=OF_A), {"result": OF_A}),
        (LONG, True, decision("superseded-file-ops", RESULT, "call_1", placeholder="x"), {"result": "x"}),
        (
            LONG,
            False,
            decision("manual", RESULT, "call_1", reason="manual prune via /prune"),
            {"result": f"{PREFIX}manual prune via /prune ({len(LONG)} chars removed)]"},
        ),
        (
            PAIR * 300,
            False,
            decision("manual", RESULT, "call_1", reason="by hand"),
            {"result": f"{PREFIX}by hand (600 chars removed)]"},
        ),
        (
            "short",
            False,
            decision("manual", RESULT, "call_1", reason="by hand"),
            {"result": f"{PREFIX}by hand (5 chars removed)]"},
        ),
        (
            "",
            False,
            decision("manual", RESULT, "call_1", reason=""),
            {"result": f"{PREFIX} (0 chars removed)]"},
        ),
        (
            LONG,
            True,
            decision("error-purge", INPUT, "call_1", reason="errored write call input older than 4 turns"),
            {"input": {"pruned": True, "reason": "errored write call input older than 4 turns"}},
        ),
        (
            LONG,
            True,
            decision("error-purge", INPUT, "call_1", reason=f'"{PAIR}\n'),
            {"input": {"pruned": True, "reason": f'"{PAIR}\n'}},
        ),
        (LONG, False, decision("error-purge", INPUT, "call_1"), {}),
    ],
)
def test_what_it_sent_is_sent_as_it_was(
    talk: MakeTalk, output: str, error: bool, data: dict[str, Any], expected: dict[str, Any]
):
    one = talk()
    one.say("Write it.")
    one.call("write", output, error=error, path="a.txt", content="text\n" * 200)
    one.answer([])
    one.add("custom", customType="dynamic-context-pruning:decision", data=data)
    one.say("Go on.")
    for restart in (False, True):
        if restart:
            one.greet()
            one.edits = {}
        one.context()
        assert sent(one) == expected
        values = [json.dumps(value) for value in sent(one).values()]
        assert values == [json.dumps(value) for value in expected.values()]  # the keys in their order too


def test_back_there_a_marker_of_ours_is_sent_as_it_was(talk: MakeTalk):
    """That extension sends the text that a decision holds."""
    one = talk()
    one.session.set("protections.recentTurns", 0)
    one.session.set("gate.mode", "off")
    one.say("Read it.")
    one.call("read", path="a.txt")
    one.call("read", path="a.txt")
    one.context()
    (data,) = [
        one["data"] for one in one.records if one.get("customType") == "dynamic-context-pruning:decision"
    ]
    assert data["placeholder"] == one.texts["call_1"]
    assert data["kind"] == RESULT
