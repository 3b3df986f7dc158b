"""A plan says what a request would do, and changes nothing."""

import pytest
from tests.build import assistant, bash, flat, turns, usage, user, write
from tests.histories import SETTINGS, encoded
from tests.pruner.support import HUGE, pruner_of, twice_read


@pytest.mark.parametrize("setup", sorted(SETTINGS))
def test_a_plan_changes_nothing_of_what_follows(setup: str):
    history = flat(
        twice_read(), bash("c3", "make", HUGE, error=True), turns(6), assistant(usage=usage(900)), user()
    )
    planned, plain = pruner_of(data=SETTINGS[setup]), pruner_of(data=SETTINGS[setup])
    for end in range(1, len(history) + 1):
        if end > 5 and "c1" not in str(planned.store.ledger()):
            for one in (planned, plain):
                one.read(history[:5])
                one.prune_call("c1")
        before = tuple(planned.store.ledger())
        planned.plan(history[:end], window=1000, reserve=100)
        assert tuple(planned.store.ledger()) == before
        one = planned.project(history[:end], now=1.0, window=1000, reserve=100)
        other = plain.project(history[:end], now=1.0, window=1000, reserve=100)
        assert encoded(one.request) == encoded(other.request)
        assert (one.edits, one.saved, one.changed) == (other.edits, other.saved, other.changed)
    assert planned.stats == plain.stats
    assert planned.engaged == plain.engaged


def test_a_plan_says_what_a_request_then_does():
    history = flat(twice_read(), write("c3", "a.py"), bash("c4", "make", HUGE), assistant("on"), user())
    plan = pruner_of().plan(history, window=2000, reserve=100)
    done = pruner_of().project(history, window=2000, reserve=100)
    assert [(one.strategy, one.call) for one in plan.proposals] == [
        (one.strategy_id, one.correlation.tool_call_id) for one in done.decisions
    ]
    assert len(plan.masked) == done.masked == 2
    assert plan.saved == done.saved
    assert plan.verdict == done.verdict
