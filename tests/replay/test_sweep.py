import json
import math
from pathlib import Path

import pytest

from prunewise.replay.sweep import Candidate, Percentiles, State, Threshold, best, curve, percentiles, sweep


def candidate(tail: int, removed: int, remaining: int, state: State = "mid_loop") -> Candidate:
    return Candidate(state, tail, removed, remaining)


@pytest.mark.parametrize(
    ("sizes", "ratio", "calls", "benefit"),
    [
        ((1000, 100, 20), 0.5, 10.0, 500.0),  # 500 once, 50 a call, 20 calls
        ((1000, 100, 5), 0.5, 10.0, -250.0),
        ((1000, 100, 5), 1.0, 0.0, 500.0),  # nothing is cached: no penalty
        ((1000, 0, 5), 0.5, math.inf, -500.0),
        ((0, 0, 5), 0.5, 0.0, 0.0),
        ((1000, 100, 5), 0.0, math.inf, -1000.0),
    ],
)
def test_a_candidate_is_priced_as_documented(
    sizes: tuple[int, int, int], ratio: float, calls: float, benefit: float
):
    one = candidate(*sizes)
    assert one.break_even_calls(ratio) == calls
    assert one.net_benefit(ratio) == benefit


@pytest.mark.parametrize(
    ("candidates", "ceiling", "expected"),
    [
        pytest.param([], 480, Threshold(1, 0.0, 30), id="nothing"),
        pytest.param(
            [(1000, 100, 20)], 480, Threshold(10, 500.0, 30), id="the lowest threshold that lets it in"
        ),
        pytest.param([(1000, 100, 5)], 480, Threshold(1, 0.0, 30), id="a loss is kept out"),
        pytest.param(
            [(3000, 100, 40)], 480, Threshold(30, 500.0, 60), id="the best at the edge doubles the range"
        ),
        pytest.param([(3000, 100, 40)], 30, Threshold(30, 500.0, 30), id="up to the ceiling"),
        pytest.param([(3000, 100, 40)], 40, Threshold(30, 500.0, 40), id="a ceiling that is no power"),
        pytest.param([(3000, 100, 40)], 10, Threshold(1, 0.0, 10), id="a ceiling below thirty"),
        pytest.param([(6000, 100, 90)], 480, Threshold(1, 0.0, 30), id="what lies behind is not looked for"),
        pytest.param([(3000, 100, 40), (6000, 100, 90)], 480, Threshold(60, 2000.0, 120), id="twice doubled"),
        pytest.param(
            [(1000, 100, 20), (2000, 100, 20)], 480, Threshold(10, 500.0, 30), id="ties: the lowest"
        ),
    ],
)
def test_the_best_threshold(candidates: list[tuple[int, int, int]], ceiling: int, expected: Threshold):
    assert best([candidate(*values) for values in candidates], 0.5, ceiling) == expected


def test_states_are_swept_apart():
    mixed = [candidate(1000, 100, 20), candidate(2000, 100, 30, "idle")]
    (found,) = sweep(mixed, [0.5])
    assert (found.mid_loop.threshold, found.idle.threshold, found.overall.threshold) == (10, 20, 20)
    assert found.overall.total == found.mid_loop.total + found.idle.total == 1000


def test_the_order_of_candidates_changes_no_digit():
    values = [candidate(1001 * k % 7919, 97 + k % 13, k % 200) for k in range(1, 400)]
    assert sweep(values, [0.1, 0.3]) == sweep(values[::-1], [0.1, 0.3])


def test_the_curve_holds_the_total_at_each_threshold():
    values = [candidate(1000, 100, 20), candidate(2000, 100, 10), candidate(9000, 100, 9)]
    assert curve(values, 0.5, 25) == [0.0] * 9 + [500.0] * 10 + [0.0] * 6


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Percentiles(0, 0, 0)),
        ([7], Percentiles(1, 7, 7)),
        ([4, 1, 3, 2], Percentiles(4, 3, 4)),
        (list(range(10)), Percentiles(10, 5, 9)),
        (list(range(20)), Percentiles(20, 10, 18)),
    ],
)
def test_percentiles_of_remaining_calls(values: list[int], expected: Percentiles):
    assert percentiles(values) == expected


@pytest.mark.corpus
def test_the_typescript_harness_is_matched(shared: Path):
    path = shared / "golden" / "benchmark-pi.json"
    if not path.is_file():
        pytest.skip("needs the harness's own figures")
    golden = json.loads(path.read_text())
    rows = [row for session in golden["sessions"] for row in session["candidates"]]
    candidates = [
        Candidate(row["state"], row["tailTokens"], row["tokensRemoved"], row["remainingCalls"])
        for row in rows
    ]
    aggregate = golden["aggregate"]
    for found in sweep(candidates, golden["ratios"]):
        expected = aggregate["recommended"][f"{found.ratio:g}"]
        for scope in ("overall", "mid_loop", "idle"):
            threshold = getattr(found, scope)
            assert {
                "threshold": threshold.threshold,
                "total": round(threshold.total, 6),
                "maxTested": threshold.tested,
            } == expected[scope]
    remaining = percentiles(row["remainingCalls"] for row in rows)
    assert (remaining.count, remaining.p50, remaining.p90) == tuple(aggregate["remainingCalls"].values())
    for row, one in zip(rows, candidates, strict=True):
        for ratio in golden["ratios"]:
            assert round(one.net_benefit(ratio), 6) == row["realizedNetBenefit"][f"{ratio:g}"]
