"""What could go with no loss."""

from typing import Any

from tests import build
from tests.build import assistant, flat, read, user

from prunewise.recording import Epoch, LLMCall
from prunewise.replay import ceiling
from prunewise.replay.needs import need_events
from prunewise.tools import PI


def epoch(*natives: Any):
    messages = build.messages(flat(*natives))
    calls = [LLMCall(at) for at, message in enumerate(messages) if message.role == "assistant"]
    return Epoch(tuple(messages), tuple(calls))


def test_each_result_goes_right_after_its_last_need():
    found = epoch(
        user(),
        read("a", "f", "odd_name_here\n" * 40),
        read("b", "g", "other_name_here\n" * 40),
        read("c", "h", "x"),
        assistant("odd_name_here"),
        user(),
        assistant("done"),
    )
    candidates = ceiling.candidates(found, need_events(found, PI))
    assert [(one.position, one.eligible) for one in candidates] == [(2, 4), (4, 3)]


def test_what_is_needed_to_the_end_stays():
    found = epoch(user(), read("a", "f", "odd_name_here\n" * 40), assistant("odd_name_here"))
    assert ceiling.candidates(found, need_events(found, PI)) == []
