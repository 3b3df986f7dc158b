"""The dry run: its figures, its JSON, and that nothing is recorded or changed by it."""

import copy
import json
import math
from typing import Any

import pytest
from tests.build import LONG, assistant, call, result, user

import prunewise
from prunewise.gates import Verdict
from prunewise.ledger import decide
from prunewise.plan import verdict_to_dict
from prunewise.stores.memory import Memory

EAGER = {"protections": {"recentTurns": 1}, "gate": {"mode": "off"}}


def history() -> list[dict[str, Any]]:
    """One file read twice, then another turn."""
    return [
        user(),
        assistant(call("c1", "read", path="a.py")),
        result("c1"),
        user(),
        assistant(call("c2", "read", path="a.py")),
        result("c2"),
        user(),
    ]


def test_a_plan_says_what_would_go_and_why():
    [proposal] = prunewise.plan(history(), settings=EAGER).proposals
    assert (proposal.strategy, proposal.kind, proposal.call) == ("dedupe", "tool_result_content", "c1")
    assert proposal.position == 2
    assert proposal.original_tokens == len(LONG) // 4
    assert 0 < proposal.tokens_removed < proposal.original_tokens
    assert proposal.lane == "paid"


def test_a_plan_leaves_messages_and_store_as_they_are():
    messages, store = history(), Memory()
    before = copy.deepcopy(messages)
    prunewise.plan(messages, settings=EAGER, store=store)
    assert messages == before
    assert store.ledger() == ()


def test_the_json_of_a_plan_has_the_documented_keys_and_survives_a_round_trip():
    found = prunewise.plan(history(), settings=EAGER, window=100, reserve=0).to_dict()
    assert list(found) == [
        "format",
        "messages",
        "state",
        "totalTokens",
        "proposals",
        "verdict",
        "decisions",
        "masked",
    ]
    assert list(found["proposals"][0]) == [
        "strategy",
        "kind",
        "call",
        "position",
        "originalTokens",
        "tokensRemoved",
        "reason",
        "lane",
    ]
    assert json.loads(json.dumps(found)) == found


def test_saved_is_what_the_accepted_batch_takes_out():
    plan = prunewise.plan(history(), settings=EAGER)
    assert plan.verdict is not None
    assert plan.saved == plan.verdict.tokens_removed == plan.proposals[0].tokens_removed


def test_a_rejected_batch_saves_nothing():
    settings = {**EAGER, "gate": {"breakEvenThreshold": 0}}
    plan = prunewise.plan(history(), settings=settings)
    assert plan.verdict is not None
    assert not plan.verdict.accepted
    assert len(plan.proposals) == 1
    assert plan.saved == 0


def test_what_stands_is_a_decision_and_no_proposal():
    standing = decide(
        "manual",
        "c1",
        "tool_result_content",
        reason="r",
        placeholder="[gone]",
        created_at="2026-01-01T00:00:00Z",
    )
    plan = prunewise.plan(history(), settings=EAGER, store=Memory(entries=[standing]))
    assert plan.decisions == (standing,)
    assert plan.proposals == []
    assert plan.saved == len(LONG) // 4 - 2
    assert plan.to_dict()["decisions"][0]["source"] == "manual"


def test_switched_off_there_is_no_verdict():
    plan = prunewise.plan(history(), settings={"enabled": False})
    assert plan.verdict is None
    assert plan.to_dict()["verdict"] is None


@pytest.mark.parametrize(
    ("calls", "shown", "unbounded"), [(math.inf, None, True), (14.5, 14.5, False), (None, None, False)]
)
def test_an_infinite_number_is_null_with_unbounded_beside_it(
    calls: float | None, shown: float | None, unbounded: bool
):
    figures = verdict_to_dict(Verdict("on", False, 22, 1, 10, 0, 9.0, 0.0, calls))
    assert figures["breakEvenCalls"] == shown
    assert figures.get("unbounded", False) is unbounded
