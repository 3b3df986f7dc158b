"""When the cache was last used, and by whom: what a pruner tells the engine of the moment.

A request that was answered starts the clock, and each one that kept the cache warm since starts it again.
Knows no time of its own.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from prunewise.engine import Moment


class Caller(msgspec.Struct, frozen=True):
    """What has to be the same for a cache to be found: who answers, and with which tools."""

    model: str = ""
    provider: str = ""
    tools: str = ""


NOBODY = Caller()
"""Nothing is known."""


def caller_in(request: Any) -> Caller:
    """Who is to answer a request, as its body says it; nobody where it is a list of messages."""
    if not isinstance(request, Mapping):
        return NOBODY
    body = cast("Mapping[str, Any]", request)
    model, tools = body.get("model"), body.get("tools")
    return Caller(model if isinstance(model, str) else "", tools=repr(tools) if tools else "")


class Clock(msgspec.Struct):
    """The clock of one conversation, in seconds since the epoch."""

    answered_at: float | None = None
    fresh: bool = False
    """Whether the conversation was compacted, and nothing was answered since."""
    long_lived: bool = False
    """Whether the host asks for cache entries that live the longest time."""
    warmed: list[float] = []
    """When requests beside the conversation kept the cache warm, the latest last."""
    _answered: Caller | None = None
    _asked: Caller = NOBODY

    def answered(self, now: float) -> None:
        """The request that went out last, or one before it, was answered at this time."""
        if self.answered_at is None or now > self.answered_at:
            self.answered_at = now
            self.fresh = False
            self._answered = self._asked

    def kept_warm(self, now: float) -> None:
        """A request beside the conversation has used what it left in the cache."""
        if now not in self.warmed:
            insort(self.warmed, now)

    def warmed_before(self, time: float) -> float | None:
        """When the cache was last kept warm before a time; None where it was not."""
        index = bisect_right(self.warmed, time)
        return self.warmed[index - 1] if index else None

    def compacted(self) -> None:
        """Nothing of what comes now is cached."""
        self.fresh = True

    def ask(self, now: float, caller: Caller) -> Moment:
        """The moment of a request that is about to go out; `caller` is empty where the host does not say."""
        self._asked = caller
        known = self._answered
        changed = known is not None and any(
            mine and theirs and mine != theirs
            for mine, theirs in zip(
                msgspec.structs.astuple(caller), msgspec.structs.astuple(known), strict=True
            )
        )
        seconds = None
        if self.answered_at is not None:
            seconds = max(0.0, now - max(self.answered_at, self.warmed_before(now) or 0.0))
        cold = changed or self.fresh
        return Moment(seconds, caller.model, caller.provider, cold=cold, long_lived=self.long_lived)
