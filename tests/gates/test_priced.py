"""Where the priced gate cuts, as a table."""

import math
from typing import Any

import pytest

from prunewise.gates.priced import Cheaper, Cut, Outlook, Piece, choose, ski


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
        (outlook(floor=20), 30),  # nothing may change in front of a signature
        (outlook(floor=31), None),
        (outlook(read=0.0), None),
    ],
)
def test_where_to_cut(expected: Any, position: Any):
    assert choose(PIECES, expected, behind).position == position


def test_the_figures():
    cut = choose(PIECES, outlook(), behind)
    assert cut == Cut(10, 5000.0, 7000.0, pytest.approx(1.15 * 7000), pytest.approx(0.1 * 5000 * 30), (0, 1))


@pytest.mark.parametrize(
    ("expected", "taken"),
    [
        (outlook(), (0, 1, 2)),
        (outlook(exposure=7_000.0), (0, 2)),  # the second brings least for its recall
        (outlook(exposure=4_000.0), (2,)),
        (outlook(exposure=100.0), ()),
    ],
)
def test_only_so_much_goes_that_its_recalls_could_be_borne(expected: Any, taken: Any):
    pieces = [
        Piece(30, 1000.0, 10, 0.01, 2000.0),
        Piece(20, 1000.0, 10, 0.01, 4000.0),
        Piece(10, 4000.0, 10, 0.01, 3000.0),
    ]
    assert choose(pieces, expected, lambda position: 10 * (40 - position)).taken == taken


def test_what_is_expected_to_cost_more_than_it_brings_stays():
    pieces = [Piece(30, 1000.0, 10, 0.9, 9000.0), Piece(10, 4000.0, 10, 0.01, 2000.0)]
    assert choose(pieces, outlook(), lambda _: 5000.0).taken == (1,)


def test_nothing_to_cut():
    assert choose([], outlook(), behind) == Cut()


TAIL = [Piece(10, 5000.0, 10)]
DEARER = {"read": 0.2, "write": 2.5, "horizon": 2}  # as above a tier's limit: twice the price
BELOW = {"least": 200_500.0, "most": 200_500.0, "growth": 100.0, "cheaper": (Cheaper(200_000, 0.1, 1.25),)}


@pytest.mark.parametrize(
    ("expected", "position"),
    [
        (outlook(**DEARER), None),  # by itself it does not pay in time
        (outlook(**DEARER, **BELOW), 10),  # below the limit all that stays is cheaper
        (outlook(**DEARER, **{**BELOW, "growth": 4400.0}), 10),  # with room there for one call
        (outlook(**DEARER, **{**BELOW, "growth": 4600.0}), None),
        (outlook(**DEARER, **{**BELOW, "most": 205_000.0}), None),  # it may hold more, and stay above
        (outlook(**DEARER, **{**BELOW, "least": 0.0}), None),
        (outlook(**DEARER, **{**BELOW, "cheaper": (Cheaper(190_000, 0.1, 1.25),)}), None),
    ],
)
def test_a_cut_that_falls_below_a_price_tier_saves_on_all_that_stays(expected: Any, position: Any):
    assert choose(TAIL, expected, behind).position == position


def at_the_limit(**changed: Any):
    """An outlook under which only what falling below the tier saves in one call can pay."""
    return outlook(**DEARER, **{**BELOW, "growth": 4500.0, **changed})


def test_a_tier_s_price_and_saving_end_where_the_request_grows_above_it():
    (cut, purse) = choose(TAIL, at_the_limit(), behind), 1.15 * 7000 - 0.2 * 5000 - 0.1 * 195_500
    assert cut.price == pytest.approx(1.15 * 7000)  # written again at the tier's own rates
    assert choose(TAIL, at_the_limit(purse=purse), behind).position == 10
    assert choose(TAIL, at_the_limit(purse=purse - 1), behind).position is None


@pytest.mark.parametrize(
    ("changed", "position"),
    [
        ({}, 10),  # five calls above the limit, one of them with something to cut
        ({"call": 10}, None),  # nothing could have gone before
        ({"least": 200_001.0}, None),  # it has only just grown above the limit
    ],
)
def test_waiting_above_a_tier_s_limit_is_rent(changed: Any, position: Any):
    expected = outlook(**{**DEARER, **BELOW, "call": 11, "horizon": 3, "patience": 1.0, **changed})
    assert choose(TAIL, expected, lambda _: 40_000.0).position == position


def test_of_several_tiers_the_cheapest_counts_that_has_room():
    both = (Cheaper(100_000, 0.05, 0.6), Cheaper(200_000, 0.1, 1.25))
    assert choose(PIECES, at_the_limit(cheaper=both), behind).price == pytest.approx(1.15 * 7000)
    much = [Piece(10, 150_000.0, 10)]
    assert choose(much, at_the_limit(cheaper=both), lambda _: 157_000.0).price == pytest.approx(0.55 * 7000)


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
