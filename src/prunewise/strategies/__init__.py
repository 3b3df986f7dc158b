"""Strategies: each looks at the transcript and says which parts of which exchanges are stale.

A strategy is made for one transcript and advances with it: `advance` gives what has become stale
since it was last asked, so that work grows with what is new. Asked once over a whole transcript it
gives the full answer; asked step by step it gives the same in pieces. What is stale stays stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from prunewise.settings import Settings
from prunewise.strategies.dedupe import Dedupe
from prunewise.strategies.error_purge import ErrorPurge
from prunewise.strategies.stale import Stale
from prunewise.strategies.superseded_file_ops import SupersededFileOps
from prunewise.transcript import Transcript

__all__ = ["STRATEGIES", "Dedupe", "ErrorPurge", "Stale", "Strategy", "SupersededFileOps", "enabled"]


class Strategy(Protocol):
    """One rule by which content goes stale."""

    name: str
    """As the ledger and the settings write it."""

    def advance(self, transcript: Transcript) -> Iterator[Stale]:
        """What has become stale by the messages that were appended since the last call."""
        ...


class Registered(msgspec.Struct, frozen=True):
    """A strategy as the engine knows it: its name, whether settings want it, and how it is made."""

    name: str
    wanted: Callable[[Settings], bool]
    make: Callable[[Settings], Strategy]


STRATEGIES = (
    Registered("dedupe", lambda s: s.strategies.dedupe.enabled, lambda _: Dedupe()),
    Registered(
        "error-purge",
        lambda s: s.strategies.error_purge.enabled,
        lambda s: ErrorPurge(s.strategies.error_purge.min_turns_old),
    ),
    Registered(
        "superseded-file-ops",
        lambda s: s.strategies.superseded_file_ops.enabled,
        lambda _: SupersededFileOps(),
    ),
)
"""All strategies, in the order in which they win where several propose one target."""


def enabled(settings: Settings) -> tuple[Strategy, ...]:
    """Fresh strategies, as the settings want them."""
    return tuple(entry.make(settings) for entry in STRATEGIES if entry.wanted(settings))
