"""When masking engages and ends, and when it leaves a compaction out."""

from typing import Any

import pytest
from tests.build import Native, assistant, bash, flat, shell, summary, usage, user
from tests.pruner.support import EAGER, HUGE, MASKING, placed, pruner_of, twice_read

from prunewise import Policy
from prunewise.stores.memory import Memory

# ---- two levels: when masking engages


def loaded(tokens: int) -> list[Native]:
    """A history whose context pi estimates at so many tokens, by the usage of its last answer."""
    return flat(user(), bash("c1", "make", HUGE), user(), assistant("done", usage=usage(tokens)), user(""))


@pytest.mark.parametrize(("tokens", "engaged"), [(9_000, False), (9_001, True)])
def test_masking_engages_strictly_above_window_less_reserve(tokens: int, engaged: bool):
    pruner = pruner_of(data=MASKING)
    done = pruner.project(loaded(tokens), window=10_000, reserve=1_000)
    assert pruner.engaged is engaged
    assert done.masked == int(engaged)


def test_window_and_reserve_come_from_the_settings_where_the_host_says_none():
    assert pruner_of(data={**MASKING, "window": 10_000, "reserve": 1_000}).project(loaded(9_001)).masked == 1
    assert pruner_of(data={**MASKING, "window": 10_000}).project(loaded(1)).masked == 1, "reserve 16,384"
    assert pruner_of(data=MASKING).project(loaded(10**6)).masked == 0, "no window, no masking"


def test_masking_stays_engaged_when_the_usage_drops():
    pruner = pruner_of(data=MASKING)
    history = loaded(9_500)
    masked = placed(pruner.project(history, window=10_000, reserve=1_000))
    assert list(masked) == [2]
    history = flat(history, assistant("less now", usage=usage(7_000)), user())
    assert placed(pruner.project(history, window=10_000, reserve=1_000)) == masked


@pytest.mark.parametrize(
    "smaller",
    [
        [summary(), user("on")],
        [summary(), assistant("done", usage=usage(9_500)), user("on")],
    ],
    ids=["a summary alone", "a summary and an answer of before"],
)
def test_a_compaction_starts_masking_from_raw_again(smaller: list[Native]):
    pruner = pruner_of(data=MASKING)
    pruner.project(loaded(9_500), window=10_000, reserve=1_000)
    assert pruner.engaged
    stamped = [{**one, "timestamp": 1_000 + (one["role"] == "compactionSummary") * 99} for one in smaller]
    pruner.project(stamped, window=10_000, reserve=1_000)
    assert not pruner.engaged


def test_the_raw_size_has_dropped_where_only_a_shell_output_went():
    history = flat(user(), shell("ls", HUGE), user(), assistant("done", usage=usage(9_500)), user())
    pruner = pruner_of(data=MASKING)
    assert pruner.project(history, window=10_000, reserve=1_000).masked == 1
    pruner.project([history[0], *history[2:]], window=12_000, reserve=1_000)
    assert not pruner.engaged


def test_a_host_that_tells_its_compactions_may_go_to_a_smaller_branch():
    history = loaded(9_500)
    pruner = pruner_of(data=MASKING, tells_compactions=True)
    pruner.project(history, window=10_000, reserve=1_000)
    pruner.project(history[:1], window=10_000, reserve=1_000)
    assert pruner.engaged
    pruner.compacted()
    assert not pruner.engaged


def test_masking_that_had_engaged_before_goes_on():
    pruner = pruner_of(data=MASKING, engaged=True)
    assert pruner.project(loaded(5_000), window=10_000, reserve=1_000).masked == 1


def test_another_policy_goes_on_with_the_conversation():
    history = twice_read()
    pruner = pruner_of(tells_compactions=True)
    marked = pruner.project(history).request
    pruner.engage()
    off = pruner.under(Policy({"enabled": False}))
    assert off.project(history).request is history
    on = off.under(Policy(EAGER))
    assert on.engaged
    assert on.project(history).request == marked
    assert on.cache_breaks == 2, "off and on again changed what had gone out"
    assert not on.under(Policy({"pruning": {"enabled": False}})).engaged


def test_a_longer_conversation_with_another_prefix_stays_engaged():
    pruner = pruner_of(data=MASKING)
    history = loaded(9_500)
    pruner.project(history, window=10_000, reserve=1_000)
    pruner.project([user("inserted"), *history], window=10**6, reserve=1_000)
    assert pruner.engaged


def test_at_session_start_the_larger_of_usage_and_raw_estimate_counts():
    """The usage may be that of a pruned request, and never prices the raw one."""
    history = flat(user(), bash("c1", "make", HUGE), user(), assistant("done", usage=usage(500)), user())
    assert pruner_of(data=MASKING).project(history, window=3_000, reserve=1_000).masked == 1
    history = flat(user(), bash("c1", "make", HUGE), user(), assistant("done", usage=usage(9_001)), user())
    assert pruner_of(data=MASKING).project(history, window=10_000, reserve=1_000).masked == 1


@pytest.mark.parametrize("window", [1_000, 3_000, 3_400, 4_000, 10_000])
def test_a_pruner_that_has_seen_the_usage_come_back_engages_as_one_that_has_not(window: int):
    history = flat(user(), bash("c1", "make", HUGE), user(), assistant("done", usage=usage(500)), user())
    seen, store = pruner_of(data=MASKING), Memory("c")
    seen.project(history[:4], window=100_000, reserve=1_000)
    done = seen.project(history, window=window, reserve=1_000)
    fresh = pruner_of(store, data=MASKING).project(history, window=window, reserve=1_000)
    assert (done.masked, done.request) == (fresh.masked, fresh.request)


def test_a_usage_from_another_branch_prices_no_raw_request():
    """After a fork the answers on the new branch are none that this pruner has seen."""
    pruner = pruner_of(data=MASKING)
    start = flat(user(), bash("c1", "make", HUGE), user())
    pruner.project(flat(start, assistant("one way"), user()), window=100_000, reserve=1_000)
    other = flat(
        start, assistant("the other", usage=usage(500)), user(), assistant("on", usage=usage(520)), user()
    )
    assert pruner.project(other, window=3_000, reserve=1_000).masked == 1


def test_a_usage_prices_no_request_that_a_restore_made_larger():
    pruner = pruner_of(data={"gate": {"mode": "off"}, "protections": {"recentTurns": 0}})
    history = flat(user(), bash("c1", "make", HUGE), user())
    pruner.project(history[:3])
    pruner.prune_call("c1")
    pruner.project(history, window=100_000, reserve=1_000)
    pruner.restore("c1")
    history = flat(history, assistant("done", usage=usage(500)), user())
    pruner.project(history, window=3_000, reserve=1_000)
    assert pruner.engaged, "500 were counted without the 2,500 that are back"


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_the_usage_of_a_failed_answer_does_not_count(stop: str):
    history = flat(
        user(), bash("c1", "make", HUGE), user(), assistant("x", usage=usage(10**6), stopReason=stop), user()
    )
    assert not pruner_of(data=MASKING).project(history, window=10_000, reserve=1_000).masked


def test_masking_can_be_switched_off_alone():
    data = {**EAGER, "pruning": {"enabled": False}}
    done = pruner_of(data=data).project(flat(twice_read(), loaded(10**6)), window=10_000, reserve=1_000)
    assert (done.masked, list(placed(done))) == (0, [2])


# ---- two levels: the compaction check


def checked(tokens: int, window: int = 20_000, reserve: int = 1_000, **data: Any) -> Any:
    pruner = pruner_of(data={**MASKING, **data})
    pruner.project(loaded(tokens), window=10**6, reserve=reserve)
    return pruner.check_compaction(window, reserve)


def test_a_compaction_is_cancelled_at_or_below_window_less_twice_the_reserve():
    saving = checked(20_000).before - checked(20_000).after
    assert saving > 2_000
    at_the_limit = checked(18_000 + saving)
    assert (at_the_limit.after, at_the_limit.limit, at_the_limit.cancel) == (18_000, 18_000, True)
    assert not checked(18_001 + saving).cancel


def test_a_pruner_that_has_read_nothing_cancels_no_compaction():
    assert not pruner_of(data=MASKING).check_compaction(10_000, 1_000).cancel


def test_savings_that_the_usage_lacks_already_are_not_counted_again():
    pruner = pruner_of(data=MASKING)
    history = loaded(9_500)
    first = pruner.project(history, window=10_000, reserve=1_000)
    assert first.masked == 1
    history = flat(history, assistant("pruned", usage=usage(9_400)), user())
    pruner.project(history, window=10_000, reserve=1_000)
    check = pruner.check_compaction(10_000, 1_000)
    assert check.before - check.after == 0
    assert check.before == pytest.approx(9_400, abs=10)
    assert not check.cancel


def test_the_compaction_check_changes_nothing():
    pruner, plain = pruner_of(data=MASKING), pruner_of(data=MASKING)
    history = loaded(9_500)
    for end in range(1, len(history) + 1):
        one = pruner.project(history[:end], window=10_000, reserve=1_000)
        other = plain.project(history[:end], window=10_000, reserve=1_000)
        pruner.check_compaction(10_000, 1_000)
        assert one == other
    assert pruner.stats == plain.stats
