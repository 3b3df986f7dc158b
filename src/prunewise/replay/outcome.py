"""What the last benchmark over all of a user's own sessions found for those of pi, kept for advice.

Savings are the lower figures: everything that may have been needed again is charged.
One small file in the user's cache folder. Where there is none, or it cannot be read, nothing was measured.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from prunewise.replay.policies import label
from prunewise.wording import count

if TYPE_CHECKING:
    from prunewise.replay.totals import Totals

_FILE = "outcome.json"
_CLIENT = "pi"
_MEASURE = "`prunewise benchmark` measures it"


class Share(msgspec.Struct, frozen=True, rename="camel"):
    """What a policy saved of the input's cost, recalls charged; with its interval, where there is one."""

    saved: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{100 * self.saved:.1f}%"
        return f"{100 * self.saved:.1f}% ({100 * self.low:.1f} to {100 * self.high:.1f})"


class Outcome(msgspec.Struct, frozen=True, rename="camel"):
    """Two policies on the same sessions of pi, at these sessions' own prices."""

    day: str
    """ISO date."""
    sessions: int
    llm_calls: int
    recommended: str | None
    """The best policy of all that were compared, where one saves for certain."""
    documented: Share
    priced: Share


def cache_folder() -> Path | None:
    """Where benchmarks keep what they find; None where the library that knows is not installed."""
    if find_spec("platformdirs") is None:
        return None
    import platformdirs

    return platformdirs.user_cache_path("prunewise", appauthor=False) / "benchmark"


def outcome_of(totals: Totals, day: str) -> Outcome | None:
    """What a benchmark came to; None where it did not compare the two policies on any session of pi."""
    block = totals.clients.get(_CLIENT)
    if block is None:
        return None
    shares: list[Share] = []
    for name in ("documented", "priced"):
        policy = block.policy(name)
        if policy is None or policy.net.change is None:
            return None
        interval = policy.net.interval
        low, high = (None, None) if interval is None else (-interval.high, -interval.low)
        shares.append(Share(-policy.net.change, low, high))
    return Outcome(day, block.sessions, block.llm_calls, block.recommended, *shares)


def keep(outcome: Outcome, folder: Path) -> None:
    """Write it down, if that can be done: it is only for advice."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_bytes(msgspec.json.encode(outcome))


def last(folder: Path | None) -> Outcome | None:
    """The last one that was kept."""
    if folder is None:
        return None
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=Outcome)
    except (OSError, msgspec.MsgspecError):
        return None


def advice(outcome: Outcome | None) -> str:
    """What `priced` would bring in place of `documented`, as far as it was measured."""
    if outcome is None:
        return f"what the policy priced would bring on your own sessions is not known: {_MEASURE}"
    best = (
        "nothing pays for certain" if outcome.recommended is None else f"best: {label(outcome.recommended)}"
    )
    sessions = f"{count(outcome.sessions, 'pi session')} of yours ({count(outcome.llm_calls, 'LLM call')})"
    return (
        f"{best}; on {sessions} the policy priced would have saved {outcome.priced} of the input's cost, "
        f"documented {outcome.documented} (`prunewise benchmark` of {outcome.day})"
    )
