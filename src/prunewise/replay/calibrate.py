"""Fit the priced policy's settings to recorded sessions, on one half of them, and try them on the other.

A session's half is told by a digest of its id, so that it stays the same. Of all settings tried, the one
that saves most on the first half counts, as long as no session there comes out worse than the floor;
what it brings is then said of the second half alone, beside the defaults, with an interval.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import msgspec

from prunewise.recording import Recording
from prunewise.replay.policies import of_settings
from prunewise.replay.session import Question, replay
from prunewise.settings import DEFAULTS, Priced, Settings

LEAST_CALLS = 20
FLOOR = -0.02
"""What the worst session of the first half may lose, as a part of its cost."""
RESAMPLES = 1000
GRID: Mapping[str, Sequence[float]] = {
    "recent_calls": (2, 3, 4),
    "patience": (0.5, 0.75, 1.0),
    "horizon": (24, 32),
}


class Outcome(msgspec.Struct, frozen=True, rename="camel"):
    """One settings value on one session, in base input tokens."""

    base: float
    saved: float
    """Net of cache breaks and recalls."""
    blocks: int
    recalls: int


class Calibrated(msgspec.Struct, frozen=True, rename="camel"):
    """What came of it. Shares are of the cost without pruning, on the held-out half."""

    settings: Priced
    """The fitted ones, where they gain on the held-out half; else the defaults."""
    fitted_on: int
    held_out: int
    saved: float
    by_default: float
    low: float
    high: float
    """90% of resamples of the held-out sessions lie between these, in favour of the fitted settings."""
    recalls_per_100_blocks: float

    @property
    def gains(self) -> bool:
        """Whether the held-out half speaks for the fitted settings."""
        return self.low > 0


def is_first(recording: Recording) -> bool:
    """Whether a session belongs to the half that settings are fitted to."""
    return blake2b(recording.session.encode(), digest_size=1).digest()[0] % 2 == 0


def outcome(recording: Recording, settings: Settings, question: Question) -> Outcome:
    """What one settings value comes to on one session."""
    policy = of_settings("tried", settings, "tried")
    asked = msgspec.structs.replace(question, policies=(of_settings("none", _OFF, ""), policy))
    row = replay(recording, asked)
    none, tried = row.figures[:2]
    return Outcome(none.net_cost, none.net_cost - tried.net_cost, tried.missed.blocks, tried.missed.recalls)


_OFF = msgspec.structs.replace(
    DEFAULTS, enabled=False, pruning=msgspec.structs.replace(DEFAULTS.pruning, enabled=False)
)


def with_priced(priced: Priced, settings: Settings = DEFAULTS) -> Settings:
    """The settings under the priced policy, without masking."""
    return msgspec.structs.replace(
        settings,
        policy="priced",
        priced=priced,
        pruning=msgspec.structs.replace(settings.pruning, enabled=False),
    )


def tried(grid: Mapping[str, Sequence[float]] = GRID) -> list[Priced]:
    """The settings to try, the defaults first."""
    found = [
        msgspec.structs.replace(DEFAULTS.priced, **dict(zip(grid, values, strict=True)))
        for values in itertools.product(*grid.values())
    ]
    return [DEFAULTS.priced, *(one for one in found if one != DEFAULTS.priced)]


def calibrate(
    recordings: Iterable[Recording],
    question: Question,
    grid: Mapping[str, Sequence[float]] = GRID,
) -> Calibrated:
    """Fit on the first half, and report on the second."""
    counted = [one for one in recordings if one.llm_calls >= LEAST_CALLS]
    first = [one for one in counted if is_first(one)]
    second = [one for one in counted if not is_first(one)]
    best, most = DEFAULTS.priced, float("-inf")
    for priced in tried(grid):
        outcomes = [outcome(one, with_priced(priced), question) for one in first]
        worst = min((one.saved / one.base for one in outcomes if one.base), default=0.0)
        total = _share(outcomes)
        if total > most and (worst >= FLOOR or priced == DEFAULTS.priced):
            best, most = priced, total
    fitted = [outcome(one, with_priced(best), question) for one in second]
    plain = [outcome(one, with_priced(DEFAULTS.priced), question) for one in second]
    low, high = _interval(fitted, plain)
    blocks = sum(one.blocks for one in fitted)
    return Calibrated(
        best if low > 0 else DEFAULTS.priced,
        len(first),
        len(second),
        _share(fitted),
        _share(plain),
        low,
        high,
        100 * sum(one.recalls for one in fitted) / blocks if blocks else 0.0,
    )


def _share(outcomes: Sequence[Outcome]) -> float:
    base = sum(one.base for one in outcomes)
    return sum(one.saved for one in outcomes) / base if base else 0.0


def _interval(fitted: Sequence[Outcome], plain: Sequence[Outcome]) -> tuple[float, float]:
    """How much more the fitted settings save than the defaults, over resamples of the sessions."""
    if not fitted:
        return 0.0, 0.0
    draw = random.Random(0)  # noqa: S311
    gains: list[float] = []
    for _ in range(RESAMPLES):
        at = draw.choices(range(len(fitted)), k=len(fitted))
        gains.append(_share([fitted[one] for one in at]) - _share([plain[one] for one in at]))
    gains.sort()
    return gains[RESAMPLES // 20], gains[-RESAMPLES // 20]
