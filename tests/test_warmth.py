"""How likely a cache is believed to be warm, and what it learns."""

from typing import Any

import pytest

from prunewise.cache import UNTOLD, Warmth
from prunewise.prices import assumed_prices, rules_for

RULES = assumed_prices("claude-opus-4-5").rules


@pytest.mark.parametrize(
    ("pause", "low", "high"),
    [(None, 0.95, 1), (10, 0.95, 1), (200, 0.9, 1), (400, 0.5, 0.7), (3000, 0.4, 0.6), (4000, 0, 0.05)],
)
def test_what_is_believed_beforehand(pause: Any, low: Any, high: Any):
    assert low <= UNTOLD.probability(pause, RULES) <= high


def test_a_longer_promise_is_believed_in_part():
    longer = rules_for("gpt-6", "openai")
    assert UNTOLD.probability(400, longer) > UNTOLD.probability(400, RULES)


def test_it_learns():
    warmth = Warmth()
    for _ in range(6):
        warmth = warmth.after(400, hit=False)
    assert warmth.probability(400, RULES) < 0.3
    for _ in range(30):
        warmth = warmth.after(400, hit=True)
    assert warmth.probability(400, RULES) > 0.7
    assert warmth.probability(10, RULES) == UNTOLD.probability(10, RULES)


@pytest.mark.parametrize(
    ("pause", "model", "low", "high"),
    [
        (10, "claude-opus-4-5", 0.95, 1),
        (400, "claude-opus-4-5", 0.9, 1),
        (3000, "claude-opus-4-5", 0.9, 1),
        (3700, "claude-opus-4-5", 0, 0.05),
        (3000, "gpt-5.2", 0.9, 1),
        (40000, "gpt-5.2", 0.9, 1),
        (90000, "gpt-5.2", 0, 0.05),
        (3000, "kimi-k3", 0.4, 0.6),  # how long its longest is nobody says
    ],
)
def test_what_was_written_to_live_the_longest_time_is_believed_to(
    model: str, pause: float, low: float, high: float
):
    rules = rules_for(model)
    assert rules is not None
    assert low <= UNTOLD.probability(pause, rules, long=True) <= high
