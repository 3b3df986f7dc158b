"""Counts of tokens that no provider can have meant: nothing raises, and nothing is made of them."""

import math
from typing import Any

import pytest
from tests.build import LONG, Native, assistant, call, result, user

from prunewise import Policy, Pruner
from prunewise.transcript import Usage, token_count

ODD: list[Any] = [
    *(10**400, 10**30, -(10**400), -5, 2**63, 10**9 + 1, 1e300, -0.5),
    *(math.nan, math.inf, -math.inf, "300", "", None, True, [300], {"n": 1}, b"1"),
]


@pytest.mark.parametrize("value", ODD, ids=lambda one: repr(one)[:20])
def test_an_odd_count_is_none(value: Any):
    assert token_count(value) == 0
    assert Usage(value, value, value, value, value, value) == Usage()
    assert Usage(value, 7).context_tokens == 7


@pytest.mark.parametrize(("value", "count"), [(0, 0), (1, 1), (300.0, 300), (300.7, 300), (10**9, 10**9)])
def test_a_count_is_a_whole_number(value: Any, count: int):
    assert token_count(value) == count
    assert type(token_count(value)) is int


def history(usage: Any) -> list[Native]:
    return [
        user("go"),
        assistant(call("a", "grep", {"q": 1}), usage=usage),
        result("a", LONG),
        assistant(call("b", "grep", {"q": 1}), usage={"input": 900}),
        result("b", LONG),
        user("on"),
    ]


@pytest.mark.parametrize("policy", ["documented", "priced"])
@pytest.mark.parametrize("key", ["input", "output", "cacheRead", "cacheWrite", "cacheWrite1h", "totalTokens"])
@pytest.mark.parametrize("value", ODD, ids=lambda one: repr(one)[:20])
def test_messages_with_odd_usage_are_pruned_like_any(policy: str, key: str, value: Any):
    pruner = Pruner("pi", Policy({"policy": policy}))
    messages = history({key: value})
    for end in range(1, len(messages) + 1):
        assert pruner.project(messages[:end], now=1.0, window=2_000, reserve=100).error is None
        assert pruner.stats.raw_tokens > 0
        assert pruner.plan(messages[:end], window=2_000).messages == end
    assert pruner.check_compaction(2_000, 100).before > 0


@pytest.mark.parametrize("usage", [*ODD, *(Usage(value) for value in ODD), Usage(output=10**400)])
def test_whatever_is_observed_is_taken(usage: Any):
    pruner = Pruner("anthropic", Policy({"policy": "priced"}))
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for number in range(4):
        assert pruner.project(messages, now=float(number)).error is None
        pruner.observe(usage, now=number + 0.5)
        use = {"type": "tool_use", "id": f"c{number}", "name": "grep", "input": {}}
        answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": LONG}
        messages = [
            *messages,
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [answer]},
        ]
        assert pruner.plan(messages).messages == len(messages)
        assert pruner.stats.balance.calls >= 0
