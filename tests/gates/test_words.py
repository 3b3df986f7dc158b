"""A verdict in words: which side of the threshold it is on can always be seen."""

import math

import pytest

from prunewise.gates import Verdict
from prunewise.gates.words import _calls, answer, pays


@pytest.mark.parametrize(
    ("calls", "shown"),
    [
        (14.4, "14.4"),
        (15.0, "15"),
        (22.04, "22.04"),
        (22.0000004, "22.0000004"),  # no six decimals tell it from the threshold
        (1234.5, "1,234.5"),
    ],
)
def test_break_even_is_as_precise_as_the_threshold_asks(calls: float, shown: str):
    assert _calls(calls, 22) == shown


@pytest.mark.parametrize(
    ("calls", "does"), [(None, True), (0.0, True), (22.0, True), (22.1, False), (math.inf, False)]
)
def test_a_batch_pays_up_to_the_threshold(calls: float | None, does: bool):
    verdict = Verdict("on", does, 22, 1, 10, 5, 9.0, 0.5, calls)
    assert pays(verdict) is does
    assert answer(verdict).startswith("it pays" if does else "it does not pay")
