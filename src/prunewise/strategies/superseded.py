"""What supersedes what: reads whose lines a later output holds, and outputs about a file that was changed.

Proves, never guesses. A read goes when a later read of its file holds all its lines, or covers them by
their numbers and shows no sign of having left any out; and when all its files were changed later. A
change's output goes when a later change succeeded. What failed, or may have failed, supersedes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from prunewise.holding import Holding, holding
from prunewise.markers import CHANGED_AFTER, CHANGED_AGAIN, READ_AGAIN
from prunewise.strategies.sorting import is_proven, script_of
from prunewise.strategies.stale import Stale
from prunewise.tools import FileOperation
from prunewise.transcript import TOOL_RESULT, Exchange, Transcript


class _Claim(msgspec.Struct):
    """What is known of one exchange."""

    exchange: Exchange
    read: FileOperation | None = None
    """What it reads, where it reads one file."""
    changes: frozenset[str] = frozenset()
    """The files that it has certainly changed."""
    about: frozenset[str] = frozenset()
    """The files that its output is about: once all of them have changed, it is stale."""
    held: Holding | None = None

    @property
    def order(self) -> int:
        return self.exchange.order

    @property
    def paths(self) -> frozenset[str]:
        """The files whose later reads or changes may make it stale."""
        return self.about if self.read is None else self.about | {self.read.path}


class Superseded:
    """Keeps, for each path, the outputs that nothing has superseded yet, and the last change."""

    name = "superseded-file-ops"
    reads_commands = False
    """Whether what shell commands do counts too."""

    def __init__(self) -> None:
        self._seen = 0
        self._standing: dict[str, list[_Claim]] = {}
        self._changed: dict[str, int] = {}
        """By path, where the last change was called."""

    def advance(self, transcript: Transcript) -> Iterator[Stale]:
        """What later operations have made stale."""
        exchanges = transcript.exchanges
        for index in range(self._seen, len(exchanges)):
            claim = self._claim(exchanges[index], transcript)
            if claim is not None:
                yield from self._take(claim, transcript)
        self._seen = len(exchanges)

    def _claim(self, exchange: Exchange, transcript: Transcript) -> _Claim | None:
        operation = exchange.operation
        if operation is not None:
            paths = frozenset((operation.path,))
            if operation.action == "read":
                return _Claim(exchange, operation, about=paths)
            return _Claim(exchange, None, paths if exchange.outcome == "succeeded" else frozenset(), paths)
        if not self.reads_commands or exchange.refers_back or exchange.outcome == "failed":
            return None
        script = script_of(exchange, transcript, certain=True)
        if script is None or not script.operations:
            return None
        reads = [one for one in script.operations if one.action == "read"]
        changes = {one.path for one in script.proven if one.action != "read"}
        is_about = script.only_reads and len(script.proven) == len(reads) and exchange.outcome == "succeeded"
        return _Claim(
            exchange,
            reads[0] if len(reads) == 1 else None,
            frozenset(changes if changes and is_proven(exchange, transcript) else ()),
            frozenset(one.path for one in reads) if is_about else frozenset(),
        )

    def _take(self, claim: _Claim, transcript: Transcript) -> Iterator[Stale]:
        """What this claim makes stale, itself included: results may arrive in another order than their
        calls.
        """
        for path in claim.changes:
            self._changed[path] = max(claim.exchange.call_position, self._changed.get(path, -1))
        reason = self._reason_to_go(claim)
        read = claim.read
        paths = claim.changes if read is None else claim.changes | {read.path}
        for path in sorted(paths):
            is_read = read is not None and read.path == path
            for other in self._standing.get(path, ()):
                other_reason = self._reason_to_go(other)
                if other_reason is None and is_read and _reads(other, path):
                    earlier, later = (other, claim) if other.order < claim.order else (claim, other)
                    if _is_read_again(earlier, later, transcript):
                        if other is earlier:
                            other_reason = READ_AGAIN
                        else:
                            reason = reason or READ_AGAIN
                if other_reason is not None:
                    yield from self._drop(other, other_reason)
        if reason is not None:
            yield from _stale(claim, reason)
        else:
            for path in sorted(claim.paths):
                self._standing.setdefault(path, []).append(claim)

    def _reason_to_go(self, claim: _Claim) -> str | None:
        """Why a claim is stale, by the changes that are known: all its files were changed later. Calls
        that were made at once may have run in any order.
        """
        known = claim.exchange.result_position
        if not claim.about or any(self._changed.get(path, -1) <= known for path in claim.about):
            return None
        return CHANGED_AFTER if claim.read is not None or not claim.changes else CHANGED_AGAIN

    def _drop(self, claim: _Claim, reason: str) -> Iterator[Stale]:
        for path in claim.paths:
            self._standing[path] = [one for one in self._standing[path] if one is not claim]
        yield from _stale(claim, reason)


def _reads(claim: _Claim, path: str) -> bool:
    return claim.read is not None and claim.read.path == path


def _stale(claim: _Claim, reason: str) -> Iterator[Stale]:
    if claim.exchange.result.has_text:
        yield Stale(claim.exchange, TOOL_RESULT, reason)


def _is_read_again(earlier: _Claim, later: _Claim, transcript: Transcript) -> bool:
    """Whether the later output holds all of the earlier one."""
    if later.exchange.outcome != "succeeded":
        return False
    before, now = _held(earlier, transcript), _held(later, transcript)
    if now.contains(before):
        return True
    asked, asked_later = earlier.exchange.operation, later.exchange.operation
    is_asked_for = asked is not None and asked_later is not None and asked_later.covers(asked)
    return is_asked_for and now.takes_over(before)


def _held(claim: _Claim, transcript: Transcript) -> Holding:
    if claim.held is None:
        assert claim.read is not None
        claim.held = holding(claim.exchange, claim.read, transcript.vocabulary)
    return claim.held
