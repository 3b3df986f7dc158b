"""A person's own decisions, and what a person is shown."""

import pytest
from tests.build import LONG, assistant, bash, call, flat, read, turns, used, user, write
from tests.pruner.support import EAGER, HUGE, MASKING, placed, pruner_of, twice_read

from prunewise import errors, markers
from prunewise.stores.memory import Memory

# ---- a person's own decisions


def test_a_manual_prune_passes_floor_recency_and_gate():
    data = {"thresholds": {"minCharsSaved": 10**6}, "gate": {"breakEvenThreshold": 0}}
    pruner = pruner_of(data=data)
    history = flat(user(), bash("c1", "make", "x" * 200))
    pruner.project(history)
    decision = pruner.prune_call("c1")
    assert (decision.source, decision.strategy_id) == ("manual", "manual")
    assert list(placed(pruner.project(history))) == [2]


REFUSED = {
    "not there": ("nobody", "no completed call"),
    "no result yet": ("c4", "no completed call"),
    "a protected tool": ("c1", "tool Todo is protected"),
    "a protected path": ("c2", r"path is protected by \*\*/\.env"),
    "too small": ("c3", "smaller"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_manual_prune_is_refused_with_the_reason(case: str):
    target, reason = REFUSED[case]
    pruner = pruner_of()
    history = flat(
        user(),
        used("c1", "Todo", {}),
        read("c2", "x/.env"),
        bash("c3", "true", "ok"),
        assistant(call("c4", "bash", {"command": "sleep"})),
    )
    pruner.project(history)
    with pytest.raises(errors.RefusedError, match=reason):
        pruner.prune_call(target)
    assert pruner.project(history).request is history


def test_a_second_prune_is_refused_and_a_restore_of_nothing_too():
    pruner = pruner_of()
    pruner.project(twice_read())
    with pytest.raises(errors.RefusedError, match="pruned already"):
        pruner.prune_call("c1")
    with pytest.raises(errors.RefusedError, match="nothing is pruned"):
        pruner.restore("c2")


def test_a_restored_target_is_not_proposed_by_any_strategy_nor_masked_until_a_person_prunes_it():
    history = flat(user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py", HUGE), user())
    pruner = pruner_of()
    pruner.project(history)
    pruner.restore("c1")
    longer = flat(history, write("c3", "a.py"), user())
    for one in (pruner, pruner_of(pruner.store)):
        done = one.project(longer, window=100, reserve=0)
        assert 2 not in placed(done)
    pruner.prune_call("c1")
    for one in (pruner, pruner_of(pruner.store)):
        assert "at the user's wish" in placed(one.project(longer, window=100, reserve=0))[2]


def test_a_restore_by_call_id_undoes_all_that_stands_for_it():
    pruner = pruner_of()
    history = flat(user(), used("c1", "bash", {"command": "x" * 2_000}, LONG, error=True), *turns(2))
    pruner.project(history)
    pruner.prune_call("c1")
    assert len(pruner.project(history).edits) == 2
    assert len(pruner.restore("c1")) == 2
    assert pruner.project(history).request is history


def test_what_another_process_adds_stands_once_the_ledger_is_followed():
    store = Memory("c")
    here, there = pruner_of(store, MASKING | {"enabled": True}), pruner_of(store)
    history = flat(user(), bash("c1", "make"), user())
    assert here.project(history).edits == ()
    there.project(history)
    there.prune_call("c1")
    here.follow()
    assert list(placed(here.project(history))) == [2]
    there.restore("c1")
    here.follow()
    assert here.project(history).request is history


# ---- what a person is shown


def test_a_target_has_the_marker_that_stands_in_for_it_or_would():
    target = ("a", "tool_result_content")
    pruner = pruner_of()
    natives = [user("x"), *read("a", "a.py", LONG), user("y")]
    pruner.read(natives)
    would = pruner.marker(target)
    assert markers.reference_in(would) is not None
    pruner.decide([target])
    assert pruner.marker(target) == would
    (stands,) = pruner.project(natives).edits
    assert stands.text == would
    pruner.decide(restore=[target])
    assert pruner.marker(target) == would
    with pytest.raises(errors.RefusedError, match="no completed call"):
        pruner.marker(("b", "tool_result_content"))


def test_with_pruning_off_a_standing_decision_still_has_its_marker():
    target = ("a", "tool_result_content")
    natives = [user("x"), *read("a", "a.py", LONG), user("y")]
    store = Memory("c")
    pruner = pruner_of(store)
    pruner.read(natives)
    pruner.decide([target])
    off = pruner_of(store, {"enabled": False})
    off.read(natives)
    assert off.marker(target) == pruner.marker(target)


def test_the_tail_shrinks_with_what_is_pruned():
    target = ("a", "tool_result_content")
    pruner = pruner_of()
    pruner.read([user("x"), *read("a", "a.py", LONG), user("y")])
    before = pruner.tail_tokens(0)
    removed = pruner.preview([target]).tokens_removed
    pruner.decide([target])
    assert pruner.tail_tokens(0) == before - removed


def test_what_strategies_propose_is_told_whatever_the_gate_says():
    pruner = pruner_of(
        data={**EAGER, "gate": {"mode": "break-even", "idleThreshold": 0, "midLoopThreshold": 0}}
    )
    pruner.read([user("x"), *read("a", "a.py", LONG), *read("b", "a.py", LONG), *turns(9)])
    assert [one.call for one in pruner.proposals] == ["a"]
