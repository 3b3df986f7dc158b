"""Deduplication: the same tool called again with canonically identical arguments.

Of each group up to four stay: the newest, the newest that is not known to have failed, the newest successful
one, and the newest successful one that was not cut short.

Says nothing about content: two outputs of one call may differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from prunewise.holding import is_cut
from prunewise.markers import DUPLICATE
from prunewise.strategies.stale import Stale
from prunewise.transcript import TOOL_RESULT, Exchange, Transcript


class Dedupe:
    """Keeps, for each call, the few exchanges that still stand in full."""

    name = "dedupe"

    def __init__(self) -> None:
        self._seen = 0
        self._kept: dict[tuple[str, str], tuple[Exchange, ...]] = {}

    def advance(self, transcript: Transcript) -> Iterator[Stale]:
        """What newer identical calls have made stale."""
        exchanges = transcript.exchanges
        kept = self._kept
        for index in range(self._seen, len(exchanges)):
            exchange = exchanges[index]
            if exchange.refers_back:
                continue  # it leans on the earlier output, and does not stand for it
            key = (exchange.call.name.lower(), exchange.call.text)
            group = kept.get(key)
            if group is None:
                kept[key] = (exchange,)
                continue
            group = (*group, exchange)
            stay = {max(members) for members in _orders(group) if members}
            kept[key] = tuple([one for one in group if one.order in stay])
            for old in group:
                if old.order not in stay:
                    yield Stale(old, TOOL_RESULT, DUPLICATE)
        self._seen = len(exchanges)


def _orders(group: tuple[Exchange, ...]) -> list[list[int]]:
    """The call orders of all of a group, of those that may be successful, that are, and are whole too."""
    likely = [one for one in group if one.outcome != "failed"]
    good = [one for one in likely if one.outcome == "succeeded"]
    whole = [one for one in good if not is_cut(one.result.text)]
    return [[one.order for one in some] for some in (group, likely, good, whole)]
