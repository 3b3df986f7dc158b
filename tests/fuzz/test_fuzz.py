"""The rules of the house over random histories; `python -m tests.fuzz` runs as many more as are asked for."""

import pytest
from tests.fuzz.histories import check

HISTORIES = 480


@pytest.mark.parametrize("start", range(0, HISTORIES, 40))
def test_every_request_of_a_random_history_keeps_the_rules(start: int):
    done = [check(seed) for seed in range(start, start + 40)]
    assert sum(one.requests for one in done) > 40
    assert sum(one.decisions for one in done) > 5
    assert sum(one.masked for one in done) > 5
