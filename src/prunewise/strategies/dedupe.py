"""Deduplication: the same tool called again with canonically identical arguments.

Of each group the newest stays, and where that one failed the newest successful one too. Says
nothing about content: two outputs of one call may differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from prunewise.markers import DUPLICATE
from prunewise.strategies.stale import Stale
from prunewise.transcript import TOOL_RESULT, Exchange, Transcript


class Dedupe:
    """Keeps, for each call, the one or two exchanges that still stand in full."""

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
            if len(group) == 1 and not exchange.result.is_error and exchange.order > group[0].order:
                kept[key] = (exchange,)
                yield Stale(group[0], TOOL_RESULT, DUPLICATE)
                continue
            kept[key], stale = _newest((*group, exchange))
            for old in stale:
                yield Stale(old, TOOL_RESULT, DUPLICATE)
        self._seen = len(exchanges)


def _newest(group: tuple[Exchange, ...]) -> tuple[tuple[Exchange, ...], list[Exchange]]:
    """Split a group into what stays (the newest, and the newest successful one) and the rest."""
    newest = max(group, key=_order)
    successful = max((one for one in group if not one.result.is_error), key=_order, default=newest)
    return (
        (newest,) if successful is newest else (successful, newest),
        [one for one in group if one is not newest and one is not successful],
    )


def _order(exchange: Exchange) -> int:
    return exchange.order
