"""Where the priced gate cuts, as a table."""

import math
from typing import Any

import pytest

from prunewise.gates.priced import Cut, Outlook, Piece, choose, ski


def outlook(**changed: Any):
    values = {"read": 0.1, "write": 1.25, "warm": 1.0, "call": 40, "horizon": 20.0, "patience": 0.5}
    return Outlook(**{**values, **changed})


PIECES = [Piece(30, 1000.0, 10), Piece(10, 4000.0, 10)]  # the last position first


def behind(position: Any):
    return {30: 1500.0, 10: 12_000.0}[position]


@pytest.mark.parametrize(
    ("expected", "position"),
    [
        (outlook(), 10),  # 5,000 tokens out for 7,000 written again
        (outlook(call=11), None),  # waiting has cost next to nothing so far
        (outlook(horizon=7), 30),  # only the cheap cut pays in time
        (outlook(read=0.001), None),  # reads cost next to nothing: no cut can pay
        (outlook(warm=0.0, call=10), 10),  # cold: everything goes, at once
        (outlook(purse=1000.0), 30),  # the purse is enough for the cheap cut
        (outlook(purse=0.0), None),
        (outlook(breaking=False), None),
        (outlook(breaking=False, warm=0.0), 10),
        (outlook(floor=20), 30),  # nothing may change in front of a signature
        (outlook(floor=31), None),
        (outlook(fee=1e6), None),
        (outlook(read=0.0), None),
    ],
)
def test_where_to_cut(expected: Any, position: Any):
    assert choose(PIECES, expected, behind).position == position


def test_the_figures():
    cut = choose(PIECES, outlook(), behind)
    assert cut == Cut(10, 5000.0, 7000.0, pytest.approx(1.15 * 7000), pytest.approx(0.1 * 5000 * 30))


def test_nothing_to_cut():
    assert choose([], outlook(), behind) == Cut()


@pytest.mark.parametrize(
    ("expected", "position"),
    [
        (outlook(patience=1.0), 10),  # rent 15,000 over 8,050
        (outlook(patience=2.0), 30),
        (outlook(patience=10.0), None),
        (outlook(patience=math.inf, warm=0.9), None),
        (outlook(patience=9.0, warm=0.0), 10),
        (outlook(floor=20), 30),
    ],
)
def test_ski_rental(expected: Any, position: Any):
    assert ski(PIECES, expected, behind).position == position
