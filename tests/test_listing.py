"""What a person may prune or restore, and how each part stands."""

from typing import Any

from tests.build import LONG, assistant, call, result, user

from prunewise import Policy, Pruner
from prunewise.listing import Listed

HISTORY: list[dict[str, Any]] = [
    user(),
    assistant(call("c1", "read", path="a.py"), call("c2", "todo", text="x")),
    result("c1"),
    result("c2", name="todo"),
    user(),
    assistant(call("c3", "bash", command="make " + "x" * 600)),
    result("c3", "failed", error=True, name="bash"),
    user(),
]


def listed(pruner: Pruner) -> dict[tuple[str, str], Listed]:
    pruner.read(HISTORY)
    return {one.target: one for one in pruner.listing()}


def test_each_result_is_listed_and_the_input_of_a_failed_call():
    assert list(listed(Pruner())) == [
        ("c1", "tool_result_content"),
        ("c2", "tool_result_content"),
        ("c3", "tool_call_input"),
        ("c3", "tool_result_content"),
    ]


def test_age_counts_turns_and_tokens_are_those_without_pruning():
    one = listed(Pruner())["c1", "tool_result_content"]
    assert (one.age, one.tokens, one.position) == (2, len(LONG) // 4, 2)


def test_what_cannot_be_pruned_says_why():
    found = listed(Pruner())
    assert found["c2", "tool_result_content"].refusal == "tool todo is protected"
    assert "smaller" in (found["c3", "tool_result_content"].refusal or "")
    assert found["c1", "tool_result_content"].refusal is None


def test_pruned_then_restored():
    pruner = Pruner(policy=Policy())
    before = listed(pruner)["c1", "tool_result_content"]
    decision = pruner.prune_call("c1", now=0.0)
    pruned = listed(pruner)["c1", "tool_result_content"]
    assert (before.status, pruned.status) == ("active", "pruned")
    assert pruned.decision == decision
    assert pruned.tokens_removed == before.tokens_removed > 0
    pruner.restore("c1", now=1.0)
    restored = listed(pruner)["c1", "tool_result_content"]
    assert (restored.status, restored.decision) == ("restored", decision)


def test_a_reused_call_id_is_not_listed_twice():
    pruner = Pruner()
    again = [*HISTORY, assistant(call("c1", "read", path="b.py")), result("c1", "other " + LONG)]
    pruner.read(again)
    assert [one.position for one in pruner.listing() if one.exchange.call.id == "c1"] == [2]
