"""What the engine never proposes: what is protected, and what is recent."""

import pytest
from tests import build
from tests.build import (
    Native,
    assistant,
    bash,
    call,
    edit,
    flat,
    proposed,
    read,
    result,
    shell,
    turns,
    used,
    user,
)
from tests.engine.support import ALL, HUGE, INPUT, RESULT, data


def test_a_protected_tool_is_never_proposed():
    natives = flat(user(), used("1", "Todo", HUGE, error=True), used("2", "todo", HUGE), turns(5))
    assert proposed(build.engine(natives)) == []
    own = {"protections": {"toolNames": [], "recentTurns": 0}, "thresholds": {"minCharsSaved": 0}}
    assert proposed(build.engine(natives, data=own)) == [("error-purge", INPUT, "1"), ("dedupe", RESULT, "1")]


def test_a_protected_path_is_never_proposed_by_any_strategy():
    natives = flat(
        user(),
        used("p", "write", {"path": ".env", **HUGE}, "no", error=True),
        used("d", "grep", {"where": "a/server.pem"}),
        used("e", "grep", {"where": "a/server.pem"}),
        read("s", "secrets/x"),
        edit("t", "secrets/x"),
        turns(5),
    )
    assert proposed(build.engine(natives)) == []
    unprotected = {"protections": {"pathGlobs": [], "recentTurns": 0}, "thresholds": {"minCharsSaved": 0}}
    assert {one.strategy for one in build.engine(natives, data=unprotected).proposals} == ALL


def test_the_normalised_path_is_protected():
    natives = flat(read("1", "x"), edit("2", "x"))
    assert proposed(build.engine(natives, cwd="/a/secrets")) == []
    assert proposed(build.engine(natives, cwd="/a/public")) != []


RECENCY: dict[str, tuple[list[Native], int, list[str]]] = {
    # messages, recentTurns, calls that are proposed
    "0 protects nothing": (flat(user(), read("1", "f"), read("2", "f")), 0, ["1"]),
    "0 protects nothing before the first turn": (flat(read("1", "f"), read("2", "f")), 0, ["1"]),
    "1 protects the current turn": (flat(user(), read("1", "f"), read("2", "f")), 1, []),
    "1, one turn later": (flat(user(), read("1", "f"), read("2", "f"), user()), 1, ["1"]),
    "4, three turns later": (flat(user(), read("1", "f"), read("2", "f"), turns(3)), 4, []),
    "4, four turns later": (flat(user(), read("1", "f"), read("2", "f"), turns(4)), 4, ["1"]),
    "only user messages count": (
        flat(
            user(), read("1", "f"), read("2", "f"), turns(3), shell("ls", ""), build.other(), build.summary()
        ),
        4,
        [],
    ),
    "answers and results do not count": (
        flat(user(), read("1", "f"), read("2", "f"), *(bash(f"b{n}", f"{n}") for n in range(9))),
        4,
        [],
    ),
    "before the first turn": (flat(read("1", "f"), read("2", "f"), turns(3)), 4, []),
    "before the first turn, four turns later": (flat(read("1", "f"), read("2", "f"), turns(4)), 4, ["1"]),
    "what is stale only now, and old already": (
        flat(user(), read("1", "f"), turns(4), read("2", "f")),
        4,
        ["1"],
    ),
    "the result's turn counts for a result": (
        flat(assistant(call("1", "x")), turns(2), result("1", name="x"), used("2", "x", {}), turns(1)),
        2,
        [],
    ),
    "the call's turn counts for an input": (
        flat(assistant(call("1", "x", HUGE)), turns(5), result("1", "no", error=True), turns(0)),
        5,
        ["1"],
    ),
    "it holds for error-purge": (flat(user(), used("1", "x", HUGE, "no", error=True), turns(6)), 7, []),
    "it holds for error-purge no longer than it says": (
        flat(user(), used("1", "x", HUGE, "no", error=True), turns(7)),
        7,
        ["1"],
    ),
}


@pytest.mark.parametrize(("natives", "recent", "calls"), RECENCY.values(), ids=RECENCY)
def test_recency(natives: list[Native], recent: int, calls: list[str]):
    assert [one.call for one in build.engine(natives, data=data(recent=recent)).proposals] == calls


@pytest.mark.parametrize(("natives", "recent", "calls"), RECENCY.values(), ids=RECENCY)
def test_recency_message_by_message(natives: list[Native], recent: int, calls: list[str]):
    engine = build.engine(data=data(recent=recent))
    for message in build.messages(natives):
        engine.extend([message])
    assert [one.call for one in engine.proposals] == calls


def test_the_default_is_four_turns():
    natives = flat(user(), read("1", "f"), read("2", "f"), turns(3))
    assert proposed(build.engine(natives, data={})) == []
    assert proposed(build.engine(natives, user(), data={})) == [("dedupe", RESULT, "1")]
