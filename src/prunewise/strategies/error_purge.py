"""Error-input purge: the input of a call that failed more than so many turns ago.

The error message itself always stays; only the arguments go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from prunewise.markers import FAILED_INPUT
from prunewise.strategies.stale import Stale
from prunewise.transcript import TOOL_INPUT, Exchange, Transcript


class ErrorPurge:
    """Holds failed exchanges until they are strictly older than `min_turns_old` turns."""

    name = "error-purge"

    def __init__(self, min_turns_old: int) -> None:
        self._min_turns_old = min_turns_old
        self._seen = 0
        self._waiting: deque[Exchange] = deque()

    def advance(self, transcript: Transcript) -> Iterator[Stale]:
        """What has grown old enough."""
        exchanges = transcript.exchanges
        for index in range(self._seen, len(exchanges)):
            if exchanges[index].result.is_error:
                self._waiting.append(exchanges[index])
        self._seen = len(exchanges)
        turn = transcript.turn
        for _ in range(len(self._waiting)):
            exchange = self._waiting.popleft()
            if turn - exchange.call_turn > self._min_turns_old:
                yield Stale(exchange, TOOL_INPUT, FAILED_INPUT)
            else:
                self._waiting.append(exchange)
