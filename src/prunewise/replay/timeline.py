"""One session call by call, for a plot: how large its requests were, and what policies cut when.

Works on an account and its bills; reports decide what to show of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from prunewise.recording import Recording
from prunewise.replay.bill import Account, Bill, Cut

FEWEST_CALLS = 20
"""A session with fewer LLM calls has no timeline: there is next to nothing to see."""
MOST_POINTS = 400
"""A longer session is thinned out to so many of its calls."""
_COLD = 0.5
"""Less of a request than this share was cached: its cache had gone."""


class CutMark(msgspec.Struct, frozen=True, rename="camel"):
    """What a policy took out at one LLM call."""

    call: int
    removed: int
    """In the provider's tokens."""
    breaks: bool
    """Whether it changed what was cached."""


class Series(msgspec.Struct, frozen=True, rename="camel"):
    """One policy on one session."""

    policy: str
    tokens: tuple[int, ...]
    """The requests, at the calls of the timeline."""
    cuts: tuple[CutMark, ...]


class Timeline(msgspec.Struct, frozen=True, rename="camel"):
    """One session. Calls count from 0 over all its epochs; failed ones are left out."""

    calls: tuple[int, ...]
    tokens: tuple[int, ...]
    """The requests as they were."""
    cold: tuple[int, ...]
    """Calls that found the cache gone, whatever was pruned."""
    compactions: tuple[int, ...]
    """The first calls after a compaction."""
    series: tuple[Series, ...] = ()


def timeline(recording: Recording, account: Account, bare: Bill) -> Timeline:
    """A session without pruning.

    Args:
        recording: the session.
        account: its account.
        bare: its bill without cuts.
    """
    cold: list[int] = []
    compactions: list[int] = []
    offset, ended = 0, ""
    for epoch, page in zip(recording.epochs, account.pages, strict=True):
        if ended == "compaction":
            compactions.append(offset)
        row = np.concatenate(([0.0], np.cumsum(page.sizes)))
        held = np.interp(page.cached, np.arange(len(row), dtype=np.float64), row)
        gone = page.billed & (held < _COLD * page.tokens)
        cold += (offset + np.flatnonzero(gone)).tolist()
        offset, ended = offset + len(page.calls), epoch.ended_by
    shown = _shown(account)
    return Timeline(
        tuple(shown),
        _tokens(bare, shown),
        tuple(call for call in cold if call != shown[0]) if shown else (),
        tuple(compactions),
    )


def series(policy: str, account: Account, cuts: Sequence[Iterable[Cut]], bill: Bill) -> Series:
    """The same session under a policy.

    Args:
        policy: its name.
        account: the session's account.
        cuts: what the policy cuts, epoch by epoch.
        bill: the bill under these cuts.
    """
    marks: list[CutMark] = []
    offset = 0
    for page, made in zip(account.pages, cuts, strict=True):
        # A cut at a call that failed shows at the next one that was answered.
        answered = np.flatnonzero(page.billed)
        by_call: dict[int, list[Cut]] = {}
        for cut in made:
            at = int(np.searchsorted(answered, cut.call))
            if at < len(answered):
                by_call.setdefault(int(answered[at]), []).append(cut)
        for call, some in sorted(by_call.items()):
            first = min(cut.position + 1 for cut in some)
            removed = round(page.scale * sum(cut.removed for cut in some))
            marks.append(CutMark(offset + call, removed, first < float(page.cached[call])))
        offset += len(page.calls)
    return Series(policy, _tokens(bill, _shown(account)), tuple(marks))


def _shown(account: Account) -> list[int]:
    answered = np.flatnonzero(np.concatenate([page.billed for page in account.pages] or [np.zeros(0)]))
    if len(answered) <= MOST_POINTS:
        return answered.tolist()
    return answered[np.linspace(0, len(answered) - 1, MOST_POINTS).round().astype(np.intp)].tolist()


def _tokens(bill: Bill, shown: Sequence[int]) -> tuple[int, ...]:
    return tuple(round(float(bill.tokens[call])) for call in shown)
