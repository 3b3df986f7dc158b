"""What one conversation has on record: the folded ledger, and the originals that its markers stand for.

An original is kept before the decision that takes it out is written. That a decision stands only once
it is written is the pruner's to see to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from prunewise import ledger
from prunewise.engine import Engine, Proposal
from prunewise.formats import Format
from prunewise.ledger import Decision, Entry, Restore, Savings
from prunewise.masking import Output
from prunewise.pruner.messages import Messages
from prunewise.pruner.originals import Originals
from prunewise.stores import Store
from prunewise.transcript import Transcript


class Record:
    """The ledger and the originals of one conversation, as its store holds them."""

    def __init__(self, store: Store, format: Format, messages: Messages) -> None:
        self.store = store
        self._format = format
        self._messages = messages
        self._originals = Originals(store, format, messages)
        self.ledger = ledger.fold(store.ledger())

    def over(self, messages: Messages) -> Record:
        """The same record, of messages that somebody else follows."""
        other = Record(self.store, self._format, messages)
        other.ledger = self.ledger
        return other

    def read(self) -> None:
        """Fold what the store says now."""
        self.ledger = ledger.fold(self.store.ledger())

    # ---- entries

    def decisions(self, transcript: Transcript, proposals: Iterable[Proposal], now: float) -> list[Entry]:
        """The entries for these proposals, each a decision and what it saves; the originals are kept."""
        at = _iso(now)
        entries: list[Entry] = []
        for proposal in proposals:
            decision = self._decision(transcript, proposal, at)
            saved = proposal.tokens_removed
            entries += decision, Savings(decision.idempotency_key, decision.strategy_id, saved, at)
        return entries

    def _decision(self, transcript: Transcript, proposal: Proposal, at: str) -> Decision:
        exchange = transcript.exchange(proposal.call)
        assert exchange is not None
        self._originals.keep(transcript, exchange, proposal.kind, proposal.reference)
        return ledger.decide(
            proposal.strategy,
            proposal.call,
            proposal.kind,
            reason=proposal.reason,
            placeholder=proposal.marker,
            created_at=at,
            reference=proposal.reference,
            entry_id=transcript.messages[exchange.result_position].id if self._messages.named else None,
            session_id=self.store.conversation or None,
        )

    def restores(self, meant: Callable[[Decision], bool], now: float) -> tuple[Restore, ...]:
        """An entry for each key that stands and is meant: several may be about one target."""
        at = _iso(now)
        return tuple(
            Restore(decision.idempotency_key, at) for decision in self.ledger.active if meant(decision)
        )

    # ---- originals

    def keep_standing(self, engine: Engine, positions: Iterable[int]) -> None:
        """Have the store keep what the standing decisions that edit these positions stand for now."""
        for position in positions:
            for edit in engine.edits.get(position, {}).values():
                self._originals.keep_standing(engine.transcript, edit, self.ledger.standing)

    def keep_masked(self, transcript: Transcript, masked: Sequence[tuple[Output, str]]) -> None:
        """Have the store keep masked outputs, each with its reference."""
        for output, reference in masked:
            self._originals.keep_masked(transcript, output, reference)


def _iso(now: float) -> str:
    """Seconds since the epoch as the ledger writes a time."""
    moment = datetime.fromtimestamp(now, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
