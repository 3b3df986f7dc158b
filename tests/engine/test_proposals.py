"""What the engine proposes: one proposal a target, by the strategies that are on."""

from typing import Any

import msgspec
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
    turns,
    used,
    user,
    write,
)
from tests.engine.support import ALL, HUGE, INPUT, RESULT, STALE, data, decide, follow, undo

from prunewise import ledger, markers
from prunewise.canonical import canonical
from prunewise.tokens import text_tokens

# ---- one target, one proposal

COLLAPSE: dict[str, tuple[list[Native], list[tuple[str, str, str]]]] = {
    "nothing is stale": (read("1", "f"), []),
    "dedupe before superseded-file-ops": (
        flat(read("1", "f"), read("2", "f")),
        [("dedupe", RESULT, "1")],
    ),
    "dedupe before superseded-file-ops, found first or not": (
        flat(read("1", "f"), edit("2", "f"), read("3", "f")),
        [("dedupe", RESULT, "1")],
    ),
    "superseded-file-ops where it is alone": (
        flat(read("1", "f"), edit("2", "f")),
        [("superseded-file-ops", RESULT, "1")],
    ),
    "input and result are two targets": (
        flat(user(), used("1", "x", HUGE, error=True), used("2", "x", HUGE), turns(5)),
        [("error-purge", INPUT, "1"), ("dedupe", RESULT, "1")],
    ),
    "a failed write's input and its output": (
        flat(user(), used("1", "write", {"path": "f", **HUGE}, error=True), write("2", "f"), turns(5)),
        [("error-purge", INPUT, "1"), ("superseded-file-ops", RESULT, "1")],
    ),
    "by position": (
        flat(read("1", "f"), bash("2", "x"), bash("3", "x"), edit("4", "f")),
        [("superseded-file-ops", RESULT, "1"), ("dedupe", RESULT, "2")],
    ),
    "by position of the results, not of the calls": (
        flat(
            assistant(*(call(str(n), "x", n=n % 2) for n in range(4))),
            result("3"),
            result("1"),
            result("2"),
            result("0"),
        ),
        [("dedupe", RESULT, "1"), ("dedupe", RESULT, "0")],
    ),
    "at one position by call order": (
        flat(
            user(),
            assistant(call("1", "x", {"n": 1, **HUGE}), call("2", "x", {"n": 2, **HUGE})),
            result("2", error=True),
            result("1", error=True),
            turns(5),
        ),
        [("error-purge", INPUT, "1"), ("error-purge", INPUT, "2")],
    ),
    "an id used twice: the second is never proposed": (
        flat(bash("1", "x"), bash("1", "x"), bash("1", "x")),
        [("dedupe", RESULT, "1")],
    ),
    "calls without results and results without calls": (
        flat(assistant(call("1", "x")), result("2", name="x"), bash("3", "y"), result("4")),
        [],
    ),
}


@pytest.mark.parametrize(("natives", "expected"), COLLAPSE.values(), ids=COLLAPSE)
def test_one_proposal_a_target_in_order(natives: list[Native], expected: list[tuple[str, str, str]]):
    assert proposed(build.engine(natives)) == expected


@pytest.mark.parametrize(("natives", "expected"), COLLAPSE.values(), ids=COLLAPSE)
def test_message_by_message_it_comes_to_the_same(natives: list[Native], expected: list[tuple[str, str, str]]):
    engine = build.engine()
    for message in build.messages(natives):
        engine.extend([message])
    assert proposed(engine) == expected


def test_a_proposal_says_all_about_itself():
    engine = build.engine(user(), read("1", "f"), read("2", "f"), assistant("done"))
    (proposal,) = engine.proposals
    marker = markers.output("read", 900, markers.DUPLICATE, "#m2")
    assert msgspec.to_builtins(proposal) == {
        "strategy": "dedupe",
        "kind": "tool_result_content",
        "call": "1",
        "position": 2,
        "originalTokens": 225,
        "tokensRemoved": 225 - text_tokens(marker),
        "reason": markers.DUPLICATE,
        "lane": "paid",
        "order": 0,
        "marker": marker,
        "reference": "#m2",
    }
    assert proposal.target == ("1", RESULT)


def test_a_proposal_to_purge_an_input_is_about_the_call_s_message():
    engine = build.engine(user(), used("1", "x", HUGE, "no", error=True), turns(5))
    (proposal,) = engine.proposals
    size = len(canonical(HUGE))
    marker = markers.purged_input("x", size, markers.FAILED_INPUT, "#m2")
    assert (proposal.position, proposal.marker, proposal.original_tokens) == (1, marker, (size + 3) // 4)
    assert proposal.tokens_removed == (size + 3) // 4 - text_tokens(canonical({"pruned": marker}))


# ---- switches


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({}, ALL),
        ({"dedupe": {"enabled": False}}, ALL - {"dedupe"}),
        ({"errorPurge": {"enabled": False}}, ALL - {"error-purge"}),
        ({"supersededFileOps": {"enabled": False}}, ALL - {"superseded-file-ops"}),
        ({"errorPurge": {"minTurnsOld": 5}}, ALL - {"error-purge"}),
    ],
    ids=["all on", "dedupe", "error-purge", "superseded-file-ops", "age"],
)
def test_each_strategy_has_its_switch(switches: dict[str, Any], expected: set[str]):
    engine = build.engine(STALE, data=data(strategies=switches))
    assert {one.strategy for one in engine.proposals} == expected


def test_with_dedupe_off_superseded_file_ops_speaks_for_reads():
    engine = build.engine(
        read("1", "f"), read("2", "f"), data=data(strategies={"dedupe": {"enabled": False}})
    )
    assert proposed(engine) == [("superseded-file-ops", RESULT, "1")]


def test_disabled_proposes_and_edits_nothing_and_keeps_the_ledger():
    folded = ledger.fold([decide("dedupe", "d")])
    engine = build.engine(data=data(enabled=False))
    engine.follow(folded)
    engine.extend(build.messages(STALE))
    assert (engine.proposals, engine.edits, engine.removed_tokens) == ([], {}, 0)
    assert follow(engine, decide("dedupe", "d"), decide("dedupe", "s"))
    assert follow(engine, decide("dedupe", "d"), undo("dedupe", "d"), decide("dedupe", "s"))
    assert engine.edits == {}


def test_switched_on_again_the_same_edits_go_out():
    before = build.engine(STALE, entries=[decide("dedupe", "d")])
    again = build.engine(STALE, entries=[decide("dedupe", "d")])
    assert before.edits == again.edits != {}
