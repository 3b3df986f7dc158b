"""What a prune or a restore costs now, in words, and whether the cache is warm."""

import math

import pytest
from tests.cli.picker.support import desk_of
from tests.cli.support import Sample

from prunewise.cli.change import Change
from prunewise.cli.picker.price import Warmth, break_even, duration, price_of, prune_price, warmth
from prunewise.gates import Verdict

NOW = 1_800_000_000.0
WARM = Warmth("warm", "because")
WRITTEN_FOR_AN_HOUR = {"input": 1, "cacheWrite": 50, "cacheWrite1h": 50}


def last(ago: float, model: str = "claude-sonnet-4-5", provider: str = "anthropic") -> dict[str, object]:
    return {"role": "assistant", "timestamp": (NOW - ago) * 1000, "model": model, "provider": provider}


@pytest.mark.parametrize(
    ("told", "temperature", "words"),
    [
        (None, "cold", "nothing was sent yet"),
        (last(20), "warm", "last LLM call 20 s ago, lives 5 min"),
        (last(-20), "warm", "last LLM call 0 s ago, lives 5 min"),  # a clock that is behind
        (last(400), "cooling", "last LLM call 6 min ago, lives 5 min, 1 h where that was asked for"),
        (last(7300), "cold", "last LLM call 2 h ago, lives 5 min: all is cached again anyway"),
        (last(400, "house-model", "house"), "unknown", "no cache rules are known for house-model"),
        (last(400, "", ""), "unknown", "no cache rules are known for its model"),
        (last(864000, "house-model", "house"), "cold", "last LLM call 10 d ago, longer than any known cache"),
        ({"role": "assistant", "timestamp": 0}, "unknown", "does not say when"),
        ({"role": "assistant", "timestamp": "1", "model": 3}, "unknown", "does not say when"),
        ({"role": "assistant", "timestamp": True}, "unknown", "does not say when"),
        ({**last(20), "model": 3, "provider": None}, "unknown", "no cache rules are known for its model"),
    ],
)
def test_how_warm_the_cache_is(told: dict[str, object] | None, temperature: str, words: str):
    found = warmth(told, NOW)
    assert found.temperature == temperature
    assert words in found.words


@pytest.mark.parametrize(
    ("told", "warmed", "temperature", "words"),
    [
        (last(1500), None, "cooling", "last LLM call 25 min ago, lives 5 min, 1 h where"),
        (last(1500), 60, "warm", "kept warm 1 min ago, lives 5 min"),
        (last(1500), 600, "cooling", "kept warm 10 min ago, lives 5 min"),
        (last(1500), 1600, "cooling", "last LLM call 25 min ago"),
        ({**last(1500), "usage": WRITTEN_FOR_AN_HOUR}, None, "warm", "last LLM call 25 min ago, lives 1 h"),
        ({**last(4000), "usage": WRITTEN_FOR_AN_HOUR}, None, "cold", "last LLM call 1 h ago, lives 1 h"),
    ],
)
def test_all_that_keeps_the_cache_warm_counts(
    told: dict[str, object], warmed: float | None, temperature: str, words: str
):
    found = warmth(told, NOW, None if warmed is None else NOW - warmed)
    assert found.temperature == temperature
    assert words in found.words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (86400 * 1234, "1,234 d")],
)
def test_a_duration_is_told_in_its_largest_unit(seconds: float, words: str):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("calls", "words"),
    [(None, "not priced"), (math.inf, "never"), (12.34, "12.3 LLM calls, threshold 22")],
)
def test_break_even_in_words(calls: float | None, words: str):
    assert break_even(Verdict("break-even", True, 22, break_even_calls=calls)) == words


def test_a_price_has_the_figures_of_the_verdict():
    verdict = Verdict("break-even", True, 22, 7, 4447, 2364, 4002.3, 236.4, 16.9)
    assert prune_price(verdict, WARM) == [
        ("pruning", "takes 2,364 tokens out of each request"),
        ("rewritten", "4,447 tokens once, from message 7 on: as much as 4,002.3 fresh tokens"),
        ("saves", "236.4 fresh tokens at each later LLM call"),
        ("break-even", "16.9 LLM calls, threshold 22: it pays."),
        ("cache", "warm: because"),
    ]


def test_a_gate_that_is_off_prices_nothing():
    verdict = Verdict("off", True, 22, tokens_removed=10)
    assert prune_price(verdict, WARM) == [
        ("pruning", "takes 10 tokens out of each request"),
        ("price", "the gate is off and prices nothing"),
        ("cache", "warm: because"),
    ]


def test_what_is_pruned_has_the_price_of_its_restoring(session: Sample):
    desk = desk_of(session.path)
    part = desk.by_target["call_other", "tool_result_content"]
    before = dict(price_of(desk, part, WARM))
    tail = before["rewritten"].split()[0]
    Change(desk, desk.picker.choose(["call_other"], [], None)).carry_out(force=False)
    desk = desk.again()
    after = price_of(desk, desk.by_target["call_other", "tool_result_content"], WARM)
    assert after == [
        ("restoring", "puts 141 tokens back into each request"),
        ("rewritten", f"{tail} tokens once, from message 8 on"),
        ("cache", "warm: because"),
    ]
