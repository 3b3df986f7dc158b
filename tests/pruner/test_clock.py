"""When the cache is surely cold, and since when it may be: what a pruner tells of the moment."""

from typing import Any

import pytest

from prunewise import Policy, Pruner
from prunewise.pruner.clock import NOBODY, Caller, Clock, caller_in

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


@pytest.mark.parametrize(
    ("request_", "caller"),
    [
        ([{"role": "user"}], NOBODY),
        ({"messages": []}, NOBODY),
        ({"model": "m", "messages": []}, Caller("m")),
        ({"model": 7, "tools": [{"name": "a"}]}, Caller(tools="[{'name': 'a'}]")),
    ],
)
def test_a_body_says_who_is_to_answer(request_: Any, caller: Caller):
    assert caller_in(request_) == caller


def test_a_body_s_model_counts_though_no_message_names_one():
    """Anthropic's messages name no model; the body does."""
    use = {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "a"}}
    again = {**use, "id": "d"}
    shown = {"type": "tool_result", "tool_use_id": "c", "content": "line of output\n" * 99}
    messages = [
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [shown]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, again]},
        {"role": "user", "content": [{**shown, "tool_use_id": "d"}]},
    ]
    eager = {"protections": {"recentTurns": 0}, "gate": {"mode": "always-apply"}}
    for model, edits in (("claude-opus-4-5", 1), ("claude-fable-5-1", 0)):
        pruner = Pruner("anthropic", Policy(eager))
        assert len(pruner.project({"model": model, "messages": messages}).edits) == edits
