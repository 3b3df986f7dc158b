"""What a host knows of the request at hand, beside its messages."""

from __future__ import annotations

import msgspec


class Moment(msgspec.Struct, frozen=True):
    """One request, about to go out."""

    seconds_since_call: float | None = None
    """Since the cache was last used, by the last request that was answered or by one that kept it warm; None
    where unknown."""
    model: str = ""
    """The model that is about to answer, and its provider; empty: the one that answered last."""
    provider: str = ""
    cold: bool = False
    """Whether nothing can be cached: the model or the tools changed, or the conversation was compacted."""
    long_lived: bool = False
    """Whether the host asks for cache entries that live the longest time."""
    drops_thinking: bool = False
    """Whether the host leaves out signed thinking that a change would invalidate."""


NOW = Moment()
"""Nothing is known."""
