"""The documented gate: penalty (1 - r) * tail, recurring saving r * removed, break-even their quotient."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise import settings
from prunewise.gates import Batch, Verdict, break_even, documented

TOKENS = [1000, 2000, 3000, 4000]
"""A request of four messages; tails are 10,000, 9,000, 7,000 and 4,000."""


def ask(
    *candidates: tuple[int, int], state: str = "idle", tokens: list[int] = TOKENS, **gate: Any
) -> Verdict:
    return break_even(tokens, candidates, gate, state)  # type: ignore[arg-type]


# ---------------------------------------------------------------- figures


def test_one_candidate():
    verdict = ask((1, 500), cachedPriceRatio=0.1, breakEvenThreshold=162)
    assert (verdict.earliest, verdict.tail_tokens, verdict.tokens_removed) == (1, 9000, 500)
    assert verdict.penalty == pytest.approx(8100)
    assert verdict.recurring_saving == pytest.approx(50)
    assert verdict.break_even_calls == pytest.approx(162)


def test_candidates_share_one_cache_break_at_the_earliest_position():
    verdict = ask((3, 700), (1, 500), (2, 300), cachedPriceRatio=0.5)
    assert (verdict.earliest, verdict.tail_tokens, verdict.tokens_removed) == (1, 9000, 1500)
    assert (verdict.penalty, verdict.recurring_saving, verdict.break_even_calls) == (4500, 750, 6)


def test_the_tail_holds_the_changed_message_itself():
    assert ask((3, 1)).tail_tokens == 4000
    assert ask((0, 1)).tail_tokens == 10_000


# ---------------------------------------------------------------- verdicts

HALF = {"cachedPriceRatio": 0.5}  # then penalty and saving are halves, and break-even is tail over removed

VERDICTS: dict[str, tuple[list[tuple[int, int]], str, dict[str, Any], bool, float, float | None]] = {
    # candidates, state, gate; accepted, threshold, break-even calls
    "below the threshold": ([(1, 500)], "idle", {**HALF, "breakEvenThreshold": 19}, True, 19, 18),
    "exactly at it": ([(1, 500)], "idle", {**HALF, "breakEvenThreshold": 18}, True, 18, 18),
    "just above it": ([(1, 500)], "idle", {**HALF, "breakEvenThreshold": 17.99}, False, 17.99, 18),
    "the default threshold is 22: at it": ([(0, 500)], "idle", {**HALF}, True, 22, 20),
    "the default threshold is 22: above it": ([(0, 400)], "idle", {**HALF}, False, 22, 25),
    "the default ratio is 0.1": ([(0, 5000)], "idle", {}, True, 22, pytest.approx(18)),
    "the state's own threshold, idle": (
        [(1, 500)],
        "idle",
        {**HALF, "breakEvenThresholdByState": {"idle": 17, "mid_loop": 18}},
        False,
        17,
        18,
    ),
    "the state's own threshold, mid-loop": (
        [(1, 500)],
        "mid_loop",
        {**HALF, "breakEvenThresholdByState": {"idle": 17, "mid_loop": 18}},
        True,
        18,
        18,
    ),
    "a state without a threshold of its own": (
        [(1, 500)],
        "mid_loop",
        {**HALF, "breakEvenThreshold": 5, "breakEvenThresholdByState": {"idle": 90}},
        False,
        5,
        18,
    ),
    "a state's threshold of 0 is one": (
        [(1, 500)],
        "idle",
        {**HALF, "breakEvenThresholdByState": {"idle": 0}},
        False,
        0,
        18,
    ),
    "no penalty: cached tokens cost what fresh ones do": (
        [(1, 500)],
        "idle",
        {"cachedPriceRatio": 1},
        True,
        22,
        0,
    ),
    "no penalty and a threshold of 0": (
        [(1, 500)],
        "idle",
        {"cachedPriceRatio": 1, "breakEvenThreshold": 0},
        True,
        0,
        0,
    ),
    "no penalty and no saving": ([(1, 0)], "idle", {"cachedPriceRatio": 1}, True, 22, 0),
    "no saving: cached tokens cost nothing": (
        [(1, 500)],
        "idle",
        {"cachedPriceRatio": 0},
        False,
        22,
        math.inf,
    ),
    "no saving: nothing is removed": ([(1, 0)], "idle", {}, False, 22, math.inf),
    "always-apply rejects nothing": (
        [(1, 500)],
        "idle",
        {**HALF, "mode": "always-apply", "breakEvenThreshold": 1},
        True,
        1,
        18,
    ),
    "always-apply, even what never pays": ([(1, 0)], "idle", {"mode": "always-apply"}, True, 22, math.inf),
    "off prices nothing": ([(1, 1)], "idle", {"mode": "off"}, True, 22, None),
    "nothing to price": ([], "idle", {}, True, 22, None),
    "nothing to price, always-apply": ([], "mid_loop", {"mode": "always-apply"}, True, 22, None),
}


@pytest.mark.parametrize("row", VERDICTS.values(), ids=VERDICTS)
def test_verdicts(row: tuple[list[tuple[int, int]], str, dict[str, Any], bool, float, float | None]):
    candidates, state, gate, accepted, threshold, calls = row
    verdict = ask(*candidates, state=state, **gate)
    assert (verdict.accepted, verdict.threshold) == (accepted, threshold)
    assert verdict.break_even_calls == calls
    assert verdict.mode == gate.get("mode", "on")
    assert (verdict.penalty is None) == (verdict.recurring_saving is None) == (calls is None)


def test_off_says_what_would_go_and_no_price():
    assert ask((1, 500), (2, 20), mode="off") == Verdict("off", True, 22, None, 0, 520, None, None, None)


def test_no_penalty_without_a_tail():
    verdict = ask((0, 500), tokens=[0, 0])
    assert (verdict.penalty, verdict.break_even_calls, verdict.accepted) == (0, 0, True)


def test_the_gate_s_settings_may_come_as_a_value():
    gate = settings.Gate(cached_price_ratio=0.5, break_even_threshold=18)
    mapping = {"cachedPriceRatio": 0.5, "breakEvenThreshold": 18}
    assert break_even(TOKENS, [(1, 500)], gate, "idle") == break_even(TOKENS, [(1, 500)], mapping, "idle")


# ---------------------------------------------------------------- a batch of the engine's


def batch(**fields: Any) -> Batch:
    return Batch(
        **{
            "candidates": (),
            "earliest": 1,
            "tokens_removed": 500,
            "tail_tokens": lambda position: sum(TOKENS[position:]),
            "state": "idle",
            **fields,
        }
    )


def test_a_batch_is_priced_as_its_figures_are():
    for mode in ("on", "off", "always-apply"):
        gate = msgspec.structs.replace(settings.DEFAULTS.gate, mode=mode)
        assert documented(batch(), gate) == break_even(TOKENS, [(1, 500)], gate, "idle")


def test_an_empty_batch_asks_for_no_tail():
    empty = batch(earliest=None, tokens_removed=0, tail_tokens=pytest.fail)
    assert documented(empty, settings.DEFAULTS.gate) == break_even(TOKENS, [], {}, "idle")


def test_a_batch_in_a_loop_has_the_loop_s_threshold():
    gate = settings.Gate(break_even_threshold_by_state=settings.StateThresholds(1, 500))
    assert documented(batch(state="mid_loop"), gate).accepted
    assert not documented(batch(state="idle"), gate).accepted


# ---------------------------------------------------------------- laws

SIZES = st.lists(st.integers(0, 100_000), min_size=1, max_size=30)
RATIOS = st.floats(0, 1)


@given(SIZES, st.integers(0, 29), st.integers(1, 10**6), RATIOS, st.integers(1, 10**6))
def test_a_longer_tail_never_pays_sooner(sizes: list[int], at: int, removed: int, ratio: float, more: int):
    position = at % len(sizes)
    gate = {"cachedPriceRatio": ratio}
    shorter = break_even(sizes, [(position, removed)], gate, "idle")
    longer = break_even([*sizes, more], [(position, removed)], gate, "idle")
    assert longer.penalty >= shorter.penalty  # type: ignore[operator]
    assert longer.break_even_calls >= shorter.break_even_calls  # type: ignore[operator]


@given(SIZES, st.integers(0, 29), st.integers(0, 10**6), RATIOS, st.integers(1, 10**6))
def test_removing_more_never_pays_later(sizes: list[int], at: int, removed: int, ratio: float, more: int):
    position = at % len(sizes)
    gate = {"cachedPriceRatio": ratio}
    less = break_even(sizes, [(position, removed)], gate, "idle")
    both = break_even(sizes, [(position, removed), (position, more)], gate, "idle")
    assert both.recurring_saving >= less.recurring_saving  # type: ignore[operator]
    assert both.break_even_calls <= less.break_even_calls  # type: ignore[operator]


@given(
    SIZES,
    st.lists(st.tuples(st.integers(0, 29), st.integers(0, 10**6)), max_size=8),
    RATIOS,
    st.floats(0, 200),
)
def test_a_verdict_keeps_to_its_own_figures(
    sizes: list[int], raw: list[tuple[int, int]], ratio: float, threshold: float
):
    candidates = [(position % len(sizes), removed) for position, removed in raw]
    gate = {"cachedPriceRatio": ratio, "breakEvenThreshold": threshold}
    verdict = break_even(sizes, candidates, gate, "idle")
    assert verdict.accepted == (verdict.break_even_calls is None or verdict.break_even_calls <= threshold)
    assert verdict == break_even(sizes, candidates[::-1], gate, "idle")
