"""Fit the priced policy's settings to recorded sessions, on one half of them, and try them on the other.

A session's half is told by a digest of its id, so that it stays the same. The survival table is measured
on the first half; ages, sizes and patience are fitted there one after the other: of each the value that
saves most, as long as no session comes out worse than the floor. What the fitted settings bring is then
said of the second half alone, beside the defaults, with an interval. Savings are the lower figures:
everything that may have been needed again is charged.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

import msgspec

from prunewise.priced.hazards import SURVIVAL_AFTER
from prunewise.recording import Epoch, Recording
from prunewise.replay.policies import of_settings
from prunewise.replay.session import Net, Question
from prunewise.replay.totals import FEWEST
from prunewise.settings import DEFAULTS, Priced, Settings

LEAST_CALLS = 20
"""Shorter sessions are not tried; for the survival table they count."""
FLOOR = -0.02
"""What the worst session of the first half may lose, as a part of its cost."""
RESAMPLES = 1000
PAUSE = 600.0
"""After so many seconds what was cached is taken to be gone, and a cut costs nothing."""
LEAST_SAMPLES = 200
"""With fewer LLM calls than this behind it, an entry of the survival table stays as it was."""
GRID: Mapping[str, Sequence[float]] = {
    "recent_calls": (2, 3, 4, 6),
    "min_tokens": (50, 100, 200, 400),
    "patience": (0.5, 0.75, 1.0),
    "caution": (0.5, 1.0, 2.0),
}
"""What is tried, in this order, beside the survival table."""


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
    """The fitted ones, where they gain and pay on the held-out half; else the defaults."""
    fitted: Priced
    """The fitted ones, whatever came of them."""
    fitted_on: int
    held_out: int
    saved: float
    by_default: float
    low: float
    high: float
    """90% of resamples of the held-out sessions lie between these, in favour of the fitted settings."""
    worst: float
    """What the worst held-out session saved, under the fitted settings."""
    recalls_per_100_blocks: float
    recalls_by_default: float
    saved_low: float
    saved_high: float
    """90% of resamples of what the fitted settings save lie between these."""

    @property
    def gains(self) -> bool:
        """Whether the fitted settings are better on the held-out half, and not by a handful of sessions."""
        return self.held_out >= FEWEST and self.low > 0

    @property
    def pays(self) -> bool:
        """Whether the policy saves anything for certain on the held-out half, under the fitted settings."""
        return self.held_out >= FEWEST and self.saved_low > 0


Step = Callable[[int, int], None]
"""Is told how many of how many trials are done; one trial is one settings value on one session."""


def is_first(recording: Recording) -> bool:
    """Whether a session belongs to the half that settings are fitted to."""
    return blake2b(recording.session.encode(), digest_size=1).digest()[0] % 2 == 0


def with_priced(priced: Priced, settings: Settings = DEFAULTS) -> Settings:
    """The settings under the priced policy, without masking."""
    return msgspec.structs.replace(
        settings,
        policy="priced",
        priced=priced,
        pruning=msgspec.structs.replace(settings.pruning, enabled=False),
    )


# ---------------------------------------------------------------- the survival table


def survival(recordings: Iterable[Recording], otherwise: Sequence[float]) -> tuple[float, ...]:
    """For how many LLM calls a cut serves that is made after 0, 10, 40 and 80 of them: the means.

    It serves until the session ends, is compacted or rewound, or pauses so long that the cache is gone.

    Args:
        recordings: sessions of any length.
        otherwise: what holds where too little was seen.
    """
    calls = [0] * len(SURVIVAL_AFTER)
    left = [0] * len(SURVIVAL_AFTER)
    for recording in recordings:
        made = 0
        for length in (length for epoch in recording.epochs for length in _stretches(epoch)):
            for remaining in range(length, 0, -1):
                entry = sum(made >= after for after in SURVIVAL_AFTER) - 1
                calls[entry] += 1
                left[entry] += remaining
                made += 1
    return tuple(
        round(left[entry] / calls[entry]) if calls[entry] >= LEAST_SAMPLES else known
        for entry, known in enumerate(otherwise)
    )


def _stretches(epoch: Epoch) -> list[int]:
    """The lengths of an epoch's runs of LLM calls without a long pause."""
    lengths: list[int] = []
    last: float | None = None
    for call in epoch.calls:
        if call.failed:
            continue
        paused = last is not None and call.time is not None and call.time - last > PAUSE
        if paused or not lengths:
            lengths.append(0)
        lengths[-1] += 1
        last = call.time if call.time is not None else last
    return lengths


# ---------------------------------------------------------------- fitting


class _Trials:
    """Settings tried on sessions; each is opened once."""

    def __init__(self, recordings: Sequence[Recording], question: Question) -> None:
        self._sessions = [Net(recording, question) for recording in recordings]
        self._known: dict[Priced, list[Outcome]] = {}

    def of(self, priced: Priced, done: Callable[[], None]) -> list[Outcome]:
        """What one settings value comes to, session by session."""
        if priced not in self._known:
            policy = of_settings("tried", with_priced(priced), "tried")
            found: list[Outcome] = []
            for session in self._sessions:
                found.append(Outcome(*session.of(policy)))
                done()
            self._known[priced] = found
        else:
            for _ in self._sessions:
                done()
        return self._known[priced]


def calibrate(
    recordings: Iterable[Recording],
    question: Question,
    grid: Mapping[str, Sequence[float]] = GRID,
    step: Step = lambda done, trials: None,  # noqa: ARG005
) -> Calibrated:
    """Fit on the first half, and report on the second."""
    sessions = list(recordings)
    first = [one for one in sessions if is_first(one)]
    fitting = _Trials([one for one in first if one.llm_calls >= LEAST_CALLS], question)
    held = [one for one in sessions if not is_first(one) and one.llm_calls >= LEAST_CALLS]
    fitted_on = sum(one.llm_calls >= LEAST_CALLS for one in first)
    trials = fitted_on * (2 + sum(map(len, grid.values()))) + 2 * len(held)
    done = 0

    def tried() -> None:
        nonlocal done
        done += 1
        step(done, trials)

    best = DEFAULTS.priced
    most = _merit(fitting.of(best, tried))
    table = survival(first, best.survival)
    choices: list[tuple[str, Sequence[object]]] = [("survival", (table,)), *grid.items()]
    for name, values in choices:
        for value in values:
            priced = msgspec.structs.replace(best, **{name: value})
            merit = _merit(fitting.of(priced, tried))
            if merit > most:
                best, most = priced, merit
    trying = _Trials(held, question)
    fitted, plain = trying.of(best, tried), trying.of(DEFAULTS.priced, tried)
    low, high = _interval(fitted, plain)
    saved_low, saved_high = _interval(fitted, [msgspec.structs.replace(one, saved=0.0) for one in fitted])
    found = Calibrated(
        DEFAULTS.priced,
        best,
        fitted_on,
        len(held),
        _share(fitted),
        _share(plain),
        low,
        high,
        _worst(fitted),
        _recalls(fitted),
        _recalls(plain),
        saved_low,
        saved_high,
    )
    return msgspec.structs.replace(found, settings=best) if found.gains and found.pays else found


def _merit(outcomes: Sequence[Outcome]) -> tuple[bool, float]:
    """What counts of two settings values: first that no session comes out too badly, then the saving."""
    return _worst(outcomes) >= FLOOR, _share(outcomes)


def _worst(outcomes: Sequence[Outcome]) -> float:
    return min((one.saved / one.base for one in outcomes if one.base), default=0.0)


def _share(outcomes: Sequence[Outcome]) -> float:
    base = sum(one.base for one in outcomes)
    return sum(one.saved for one in outcomes) / base if base else 0.0


def _recalls(outcomes: Sequence[Outcome]) -> float:
    blocks = sum(one.blocks for one in outcomes)
    return 100 * sum(one.recalls for one in outcomes) / blocks if blocks else 0.0


def _interval(fitted: Sequence[Outcome], plain: Sequence[Outcome]) -> tuple[float, float]:
    """How much more one saves than the other, over resamples of the sessions."""
    if not fitted:
        return 0.0, 0.0
    draw = random.Random(0)  # noqa: S311
    gains: list[float] = []
    for _ in range(RESAMPLES):
        at = draw.choices(range(len(fitted)), k=len(fitted))
        gains.append(_share([fitted[one] for one in at]) - _share([plain[one] for one in at]))
    gains.sort()
    return gains[RESAMPLES // 20], gains[-RESAMPLES // 20]
