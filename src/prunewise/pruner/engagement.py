"""Whether masking has engaged in a conversation: the state that the pure functions of `masking` need.

Masking engages by the context size that messages and ledger give, so that another process would engage it
at the same point. The compaction check may know more: a usage that answered a request of this pruner counts,
and so does what was out of that request and is back since.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from prunewise.engine import Engine
from prunewise.masking import cancels_compaction, engages


class CompactionCheck(msgspec.Struct, frozen=True):
    """The compaction check's answer, in tokens."""

    cancel: bool
    before: int
    after: int
    limit: int


class Engagement(msgspec.Struct):
    """Whether masking has engaged, and which requests of this pruner the known usages may have answered."""

    engaged: bool = False
    requests: tuple[tuple[int, int], ...] = ()
    """The last one that was answered and those behind it, each with its length in messages and the
    tokens that were out of it."""
    unseen: range = range(0)
    """Positions of messages that came in place of others: a usage there answered no request of ours."""

    def engage(self, engine: Engine, window: int, reserve: int) -> bool:
        """Engage where the context calls for it; once engaged, it stays so. Sizes in tokens."""
        if not self.engaged:
            context = engine.context
            counted = context.usage + context.trailing if context.usage else 0
            # The usage may be that of a request with less in it, so what goes out now counts as well.
            self.engaged = engages(max(counted, context.raw - engine.removed_tokens), window, reserve)
        return self.engaged

    def check(self, engine: Engine, window: int, reserve: int) -> CompactionCheck:
        """The compaction check: what pruning can take out, less what the last usage lacks already."""
        before = self._context_tokens(engine)
        already = sum(removed for _, removed in self._answered(engine))
        savings = max(engine.removed_tokens - already, 0) + engine.unmasked_saving
        return CompactionCheck(
            cancels_compaction(before, savings, window, reserve),
            before,
            before - savings,
            window - 2 * reserve,
        )

    def sent(self, engine: Engine) -> None:
        """The engine's messages go out as a request."""
        request = (len(engine.transcript), engine.removed_tokens)
        self.requests = (*self._answered(engine), request)

    def take_back(self, length: int) -> None:
        """A request of so many messages, which was about to go out, has not."""
        self.requests = tuple(request for request in self.requests if request[0] != length)

    def sent_whole(self, lengths: Iterable[int]) -> None:
        """Requests of so many messages have gone out with nothing out of them."""
        self.requests += tuple((length, 0) for length in sorted(lengths))

    def cut(self, kept: int) -> None:
        """Only the first `kept` messages are as they were."""
        self.requests = tuple(request for request in self.requests if request[0] < kept)

    def _context_tokens(self, engine: Engine) -> int:
        """The context without further masking, as far as it is known."""
        context = engine.context
        answered = self._answered(engine)
        if not answered:
            return max(context.estimate, context.raw)
        return context.estimate + max(answered[0][1] - engine.removed_tokens, 0)

    def _answered(self, engine: Engine) -> tuple[tuple[int, int], ...]:
        """The last request that a valid usage answered, if any."""
        at = engine.context.usage_position
        if at in self.unseen:
            return ()
        return tuple(request for request in self.requests if request[0] <= at)[-1:]
