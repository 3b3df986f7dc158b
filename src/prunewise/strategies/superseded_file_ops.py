"""Superseded file operations: outputs about a file that a later operation on it has made stale.

Proves, never guesses: a read goes when a later successful read covers its lines or a later
successful write or edit changed the file; a write's or edit's output goes when a later successful
one followed. The newest operation on a path, and anything that failed later, supersedes nothing.
Knows the file tools of the vocabulary; shell commands are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from prunewise.markers import CHANGED_AFTER, CHANGED_AGAIN, READ_AGAIN
from prunewise.strategies.stale import Stale
from prunewise.tools import FileOperation
from prunewise.transcript import TOOL_RESULT, Exchange, Transcript


class SupersededFileOps:
    """Keeps, for each path, the operations that nothing has superseded yet."""

    name = "superseded-file-ops"

    def __init__(self) -> None:
        self._seen = 0
        self._standing: dict[str, list[tuple[Exchange, FileOperation]]] = {}

    def advance(self, transcript: Transcript) -> Iterator[Stale]:
        """What later operations have made stale."""
        exchanges = transcript.exchanges
        for index in range(self._seen, len(exchanges)):
            exchange = exchanges[index]
            operation = exchange.operation
            if operation is None:
                continue
            standing = self._standing.get(operation.path)
            if standing is None:
                self._standing[operation.path] = [(exchange, operation)]
                continue
            kept: list[tuple[Exchange, FileOperation]] = []
            reason = None
            for other in standing:
                other_reason = _superseded(other, (exchange, operation))
                if other_reason is not None:
                    if other[0].result.has_text:
                        yield Stale(other[0], TOOL_RESULT, other_reason)
                    continue
                kept.append(other)
                if other[0].order > exchange.order:
                    reason = reason or _superseded((exchange, operation), other)
            if reason is None:
                kept.append((exchange, operation))
            elif exchange.result.has_text:
                yield Stale(exchange, TOOL_RESULT, reason)
            self._standing[operation.path] = kept
        self._seen = len(exchanges)


def _superseded(earlier: tuple[Exchange, FileOperation], later: tuple[Exchange, FileOperation]) -> str | None:
    """Why `later` makes `earlier` stale, or None where it does not (or is not the later one)."""
    if later[0].result.is_error or later[0].order < earlier[0].order:
        return None
    if later[1].action != "read":
        return CHANGED_AFTER if earlier[1].action == "read" else CHANGED_AGAIN
    if earlier[1].action == "read" and later[1].covers(earlier[1]):
        return READ_AGAIN
    return None
