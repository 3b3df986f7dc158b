"""Fitting the priced policy to recorded sessions."""

from typing import Any

import msgspec
import pytest
from tests import build
from tests.build import flat, used, user

from prunewise import tools
from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.replay import calibrate as calibrating
from prunewise.replay.calibrate import Outcome, calibrate, is_first, survival
from prunewise.replay.session import Question
from prunewise.replay.totals import FEWEST
from prunewise.settings import DEFAULTS, Priced

TEXT = "".join(f"row_{n} of it\n" for n in range(500))
STAKES = {"stake": (0.03, 0.5)}
"""Sessions as short as these are cut with the second only."""


def recording(name: Any):
    steps = [used(f"{name}{n}", "bash", {"command": f"frob {n}"}, f"{name} {n}\n{TEXT}") for n in range(22)]
    messages = build.messages(flat(user(), *steps))
    calls = [LLMCall(at) for at, one in enumerate(messages) if one.role == "assistant"]
    return Recording("pi", name, name, (Epoch(tuple(messages), tuple(calls)),), tools.PI)


def test_it_fits_on_one_half_and_reports_on_the_other():
    sessions = [recording(f"s{n}") for n in range(24)]
    short = msgspec.structs.replace(sessions[0], epochs=())
    told: list[tuple[int, int]] = []
    found = calibrate([*sessions, short], Question(()), STAKES, lambda *at: told.append(at))
    assert found.fitted_on == sum(map(is_first, sessions))
    assert found.held_out == 24 - found.fitted_on >= FEWEST
    assert found.saved > 0 == found.by_default
    assert found.gains
    assert found.settings == found.fitted
    assert found.settings.stake == 0.5
    assert found.worst > 0
    assert [done for done, _ in told] == list(range(1, told[-1][1] + 1))


def test_a_handful_of_other_sessions_tells_nothing():
    found = calibrate([recording(f"s{n}") for n in range(4)], Question(()), STAKES)
    assert 0 < found.held_out < FEWEST
    assert found.low > 0
    assert found.fitted.stake == 0.5
    assert found.settings == DEFAULTS.priced


def test_where_the_other_half_does_not_gain_the_defaults_stay():
    sessions = [recording(f"s{n}") for n in range(4)]
    found = calibrate(sessions, Question(()), {"stake": (0.03, 0.01)})
    assert found.settings == DEFAULTS.priced
    assert not found.gains


@pytest.mark.parametrize(
    ("saved", "by_default", "gains", "pays"),
    [
        (0.2, 0.1, True, True),
        (0.1, 0.2, False, True),  # the first half was fitted to, not the second
        (0.1, 0.1, False, True),
        (-0.1, -0.3, True, False),  # better, and still dearer than no pruning
        (0.0, -0.1, True, False),
        (-0.2, -0.1, False, False),
    ],
)
def test_settings_are_given_where_they_gain_and_the_policy_pays(
    monkeypatch: pytest.MonkeyPatch, saved: float, by_default: float, gains: bool, pays: bool
):
    class Trials:
        def __init__(self, recordings: list[Recording], _question: Question) -> None:
            self._recordings = recordings

        def of(self, priced: Priced, _done: Any) -> list[Outcome]:
            first = all(map(is_first, self._recordings))
            share = saved if priced.patience == 0.5 else by_default
            if first:
                share = 0.5 if priced.patience == 0.5 else 0.1
            return [Outcome(100, 100 * share, 1, 0) for _ in self._recordings]

    monkeypatch.setattr(calibrating, "_Trials", Trials)
    sessions = [recording(f"s{n}") for n in range(24)]
    found = calibrate(sessions, Question(()), {"patience": (0.5,)})
    assert found.fitted.patience == 0.5
    assert (found.saved, found.by_default) == pytest.approx((saved, by_default))
    assert (found.saved_low, found.saved_high) == pytest.approx((saved, saved))
    assert (found.gains, found.pays) == (gains, pays)
    assert (found.settings.patience == 0.5) is (gains and pays)


def test_without_sessions_the_defaults_stay():
    found = calibrate([], Question(()))
    assert found.settings == DEFAULTS.priced
    assert not found.gains


def clocked(*pauses: float, failed: int = -1) -> Recording:
    """A session whose LLM calls come after such pauses."""
    now, calls = 0.0, []
    for at, pause in enumerate(pauses):
        now += pause
        calls.append(LLMCall(at, time=now, failed=at == failed))
    return Recording("pi", "s", "s", (Epoch((), tuple(calls)),), tools.PI)


def test_the_survival_table_is_the_mean_of_what_is_left_until_the_end_or_a_long_pause():
    whole = clocked(*[1.0] * 300)
    assert survival([whole], (1, 2, 3, 4)) == (1, 2, 3, 110), "too few calls at first: they stay as they were"
    assert survival([whole] * 21, (1, 2, 3, 4)) == (296, 276, 240, 110)
    halved = clocked(*[1.0] * 150, 601.0, *[1.0] * 149)
    assert survival([halved] * 21, (1, 2, 3, 4)) == (146, 126, 90, 63)
    failed = clocked(*[1.0] * 301, failed=7)
    assert survival([failed] * 21, (1, 2, 3, 4)) == (296, 276, 240, 110)
