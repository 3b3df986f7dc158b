"""When the cache is surely cold, and since when it may be: what a pruner tells of the moment."""

import pytest

from prunewise.pruner.clock import NOBODY, Caller, Clock

ME = Caller("m", "p", "read bash")


def test_before_the_first_answer_nothing_is_known():
    moment = Clock().ask(100.0, ME)
    assert (moment.seconds_since_call, moment.model, moment.provider, moment.cold) == (None, "m", "p", False)


def test_the_clock_starts_with_the_last_answer_and_never_goes_back():
    clock = Clock()
    clock.answered(100.0)
    clock.answered(50.0)  # of another branch
    assert clock.ask(130.0, NOBODY).seconds_since_call == 30.0
    assert clock.ask(90.0, NOBODY).seconds_since_call == 0.0


@pytest.mark.parametrize(
    ("caller", "cold"),
    [
        (ME, False),
        (Caller("other", "p", "read bash"), True),
        (Caller("m", "other", "read bash"), True),
        (Caller("m", "p", "read"), True),
        (Caller("m", "p"), False),
        (NOBODY, False),
    ],
)
def test_another_model_or_other_tools_find_nothing_cached(caller: Caller, cold: bool):
    clock = Clock()
    clock.ask(1.0, ME)
    clock.answered(2.0)
    assert clock.ask(3.0, caller).cold is cold


def test_a_model_that_has_not_answered_is_cold_however_often_it_is_asked():
    clock = Clock()
    clock.ask(1.0, ME)
    clock.answered(2.0)
    other = Caller("other", "p", "read bash")
    assert clock.ask(3.0, other).cold
    assert clock.ask(4.0, other).cold  # the first request failed
    clock.answered(5.0)
    assert not clock.ask(6.0, other).cold
    assert clock.ask(7.0, ME).cold


def test_after_a_compaction_it_is_cold_until_something_is_answered():
    clock = Clock()
    clock.answered(2.0)
    clock.compacted()
    assert clock.ask(3.0, ME).cold
    clock.answered(4.0)
    assert not clock.ask(5.0, ME).cold
