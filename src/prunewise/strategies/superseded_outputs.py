"""Superseded outputs, shell commands read too: reads that a later read covers, or whose file was changed.

An output goes when each of its reads has been superseded. Proves, never guesses: what a command does
to a file counts only where the shell's grammar says so; an output that is more than the lines it names
supersedes no read, and only changes are known of it. What refers back supersedes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from prunewise.markers import CHANGED_AFTER, CHANGED_AGAIN, READ_AGAIN
from prunewise.strategies.sorting import only_reads, operations_of
from prunewise.strategies.stale import Stale
from prunewise.tools import FileOperation
from prunewise.transcript import TOOL_RESULT, Exchange, Transcript


class SupersededOutputs:
    """Keeps, for each path, the operations that nothing has superseded yet."""

    name = "superseded-file-ops"

    def __init__(self) -> None:
        self._seen = 0
        self._standing: dict[str, list[tuple[Exchange, FileOperation]]] = {}
        self._open: dict[int, int] = {}
        """By call order, how many operations of an exchange still stand."""

    def advance(self, transcript: Transcript) -> Iterator[Stale]:
        """What later operations have made stale."""
        exchanges = transcript.exchanges
        for index in range(self._seen, len(exchanges)):
            exchange = exchanges[index]
            operations = operations_of(exchange, transcript)
            if not operations or (exchange.result.is_error and exchange.operation is None):
                continue
            pure = only_reads(exchange, transcript)
            for operation in operations:
                yield from self._later(exchange, operation, pure=pure)
            standing = operations if pure or exchange.operation is not None else ()
            for operation in standing:
                self._standing.setdefault(operation.path, []).append((exchange, operation))
            if standing:
                self._open[exchange.order] = len(standing)
        self._seen = len(exchanges)

    def _later(self, exchange: Exchange, operation: FileOperation, *, pure: bool) -> Iterator[Stale]:
        if exchange.result.is_error or (operation.action == "read" and not pure):
            return
        kept: list[tuple[Exchange, FileOperation]] = []
        for other in self._standing.get(operation.path, ()):
            reason = _superseded(other[1], operation) if other[0].order < exchange.order else None
            if reason is None:
                kept.append(other)
                continue
            left = self._open[other[0].order] - 1
            self._open[other[0].order] = left
            if not left and other[0].result.has_text:
                yield Stale(other[0], TOOL_RESULT, reason)
        self._standing[operation.path] = kept


def _superseded(earlier: FileOperation, later: FileOperation) -> str | None:
    if later.action != "read":
        return CHANGED_AFTER if earlier.action == "read" else CHANGED_AGAIN
    return READ_AGAIN if earlier.action == "read" and later.covers(earlier) else None
