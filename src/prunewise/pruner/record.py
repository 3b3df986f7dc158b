"""What one conversation has on record: the folded ledger, and the originals that its markers stand for.

What a step adds counts at once, and is committed as one before anything goes out. Where that fails it
counts no longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from prunewise import ledger
from prunewise.engine import Engine, Proposal
from prunewise.formats import Format
from prunewise.ledger import MANUAL, Decision, Entry, Mask, Masking, Restore, Savings, SentWhole
from prunewise.masking import Output
from prunewise.pruner.messages import Messages
from prunewise.pruner.originals import Originals
from prunewise.stores import Store, Writes
from prunewise.transcript import Transcript


class Tried:
    """A store for a dry run: what is added to it goes no further."""

    def __init__(self, store: Store) -> None:
        self.conversation = store.conversation
        self.reference, self.original = store.reference, store.original
        self._entries = list(store.ledger())

    def ledger(self) -> Sequence[Entry]:
        """The store's entries, and what was added since."""
        return self._entries

    def commit(self, writes: Writes) -> None:
        """Have entries count for this run. Nothing goes out, so no original has to be kept."""
        self._entries += writes.entries


class Record:
    """The ledger and the originals of one conversation, as its store holds them."""

    def __init__(self, store: Store, format: Format, messages: Messages) -> None:
        self.store = store
        self._format = format
        self._messages = messages
        self._originals = Originals(format, messages)
        self._entries = store.ledger()
        """The store's entries as they were read, and those committed since."""
        self._added: list[Entry] = []
        """What this step has added."""
        self.ledger = ledger.fold(self._entries)

    def over(self, store: Store, messages: Messages) -> Record:
        """The same record in another store, of messages that somebody else follows."""
        other = Record(store, self._format, messages)
        other.ledger = self.ledger
        return other

    def read(self) -> None:
        """Fold what the store says now, and forget what was added and not committed."""
        self._added, self._originals.new = [], {}
        self._entries = self.store.ledger()
        self.ledger = ledger.fold(self._entries)

    @property
    def is_behind(self) -> bool:
        """Whether the store has entries that are not on record here."""
        entries = self.store.ledger()
        return entries is not self._entries and len(entries) != len(self._entries)

    def add(self, entries: Iterable[Entry]) -> None:
        """Have entries count from now on; they are still to be committed."""
        self._added += entries
        self.ledger = ledger.fold([*self._entries, *self._added])

    def commit(self) -> None:
        """Write what was added, and the originals, as one.

        Raises:
            Exception: whatever the store raises; then nothing was written, and nothing that was added counts.
        """
        if not self._added and not self._originals.new:
            return
        try:
            self.store.commit(Writes(self._originals.new, tuple(self._added), len(self._entries)))
        except BaseException:
            self.drop()
            raise
        self._originals.committed()
        self._entries = [*self._entries, *self._added]
        self._added = []

    def drop(self) -> None:
        """Forget what was added and not committed."""
        self._originals.new = {}
        if self._added:
            self._added = []
            self.ledger = ledger.fold(self._entries)

    # ---- entries

    def decisions(self, transcript: Transcript, proposals: Iterable[Proposal], now: float) -> list[Entry]:
        """The entries for these proposals, each a decision and what it saves; the originals are added.

        A target is decided on once, whatever a policy says.
        """
        at = _iso(now)
        entries: list[Entry] = []
        decided = set(self.ledger.standing)
        for proposal in proposals:
            if proposal.target in decided:
                continue
            decided.add(proposal.target)
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
            entry_id=transcript.messages[exchange.result_position].id,
            session_id=self.store.conversation or None,
            request_id=None if proposal.strategy == MANUAL else self._messages.last,
        )

    def masking(
        self, engine: Engine, masked: Sequence[tuple[Output, Mask]], now: float, *, engaged: bool
    ) -> list[Entry]:
        """The entry by which masking is engaged or not, and has replaced these; the originals are added."""
        for output, mask in masked:
            self._originals.keep_masked(engine.transcript, output, mask.reference)
        masks = tuple(mask for _, mask in masked)
        return [Masking(engaged, masks, self._messages.last, engine.context.raw, _iso(now))]

    def masking_ended(self, now: float) -> list[Entry]:
        """The entry by which masking starts again from raw."""
        return [Masking(engaged=False, created_at=_iso(now))]

    def sent_whole(self, requests: Sequence[str], now: float) -> SentWhole:
        """The entry by which these requests went out without any edit."""
        return SentWhole(tuple(requests), _iso(now))

    def restores(self, meant: Callable[[Decision], bool], now: float) -> tuple[Restore, ...]:
        """An entry for each key that stands for a target that is meant: there may be several."""
        at = _iso(now)
        active = self.ledger.active
        targets = {decision.target for decision in active if meant(decision)}
        return tuple(Restore(one.idempotency_key, at) for one in active if one.target in targets)

    # ---- originals

    def keep_standing(self, engine: Engine, positions: Iterable[int]) -> None:
        """Add what the standing decisions that edit these positions stand for now."""
        for position in positions:
            for edit in engine.edits.get(position, {}).values():
                self._originals.keep_standing(engine.transcript, edit, self.ledger.standing)


def _iso(now: float) -> str:
    """Seconds since the epoch as the ledger writes a time."""
    moment = datetime.fromtimestamp(now, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
