"""One sitting with the picker: the session as it is now, what was done to it since, and what undoes that.

Knows no terminal. All that is written goes through `Change`, as on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from prunewise.cli.change import Change
from prunewise.cli.desk import Desk, stamp_of
from prunewise.cli.picker import timeline
from prunewise.cli.picker.price import Warmth, warmth
from prunewise.cli.picker.rows import Row, rows
from prunewise.cli.picker.timeline import Timeline
from prunewise.cli.picking import Choice
from prunewise.errors import RefusedError
from prunewise.formats.pi_usage import warmed_at
from prunewise.ledger import Target
from prunewise.listing import Listed
from prunewise.stores.pi_entries import Entry
from prunewise.transcript import TOOL_INPUT, Text
from prunewise.wording import count


class Batch(msgspec.Struct, frozen=True):
    """What was done at one go."""

    pruned: tuple[Target, ...]
    restored: tuple[Target, ...]


class Sitting:
    """One session under a person's hands."""

    def __init__(self, desk: Desk, *, force: bool = False) -> None:
        """`force`: write although another process has the file open."""
        self.force = force
        self.outcomes: list[str] = []
        """What was done, a sentence for each batch."""
        self._done: list[Batch] = []
        self._read(desk)

    def _read(self, desk: Desk) -> None:
        self.desk = desk
        self.rows: list[Row] = rows(desk)
        self.by_target = {row.target: row for row in self.rows}
        self._stamp = desk.stamp

    # ---- what is there

    @property
    def totals(self) -> str:
        """How many parts there are, and what is out of the requests."""
        pruned = [row.part for row in self.rows if row.status == "pruned"]
        out = count(sum(part.tokens_removed for part in pruned), "token")
        return f"{len(self.rows):,} listed, {len(pruned):,} pruned: {out} out of each request"

    def warmth(self, now: float) -> Warmth:
        """Whether what was sent last is still cached."""
        conversation = self.desk.conversation
        answers = (one for one in reversed(conversation.natives) if one.get("role") == "assistant")
        times = (warmed_at(entry) for entry in self._branch())
        return warmth(next(answers, None), now, max((one for one in times if one is not None), default=None))

    def _branch(self) -> Sequence[Entry]:
        leaf = self.desk.conversation.branch.leaf
        return () if leaf is None else self.desk.conversation.session.branch(leaf)

    def timeline(self) -> Timeline:
        """The sizes of the session's requests: as recorded, else by estimate."""
        found = timeline.recorded(self._branch())
        if found.sizes:
            return found
        pruner = self.desk.pruner
        return timeline.estimated(pruner.transcript.messages, pruner.policy.rules.estimator.message)

    def answer_of(self, part: Listed) -> str:
        """The id of the message in which the model made this call."""
        return self.desk.pruner.transcript.messages[part.exchange.call_position].id

    def output_of(self, part: Listed) -> str:
        """All of a part as text: an output with a line for each image, or the input as JSON."""
        if part.kind == TOOL_INPUT:
            return part.exchange.call.text
        content = part.exchange.result.content
        return "\n".join(one.text if isinstance(one, Text) else one.label for one in content)

    # ---- what is wished

    def pruning(self, targets: Iterable[Target]) -> Change:
        """Pruning these.

        Raises:
            RefusedError: none of them is there to be pruned.
        """
        rows = self._rows(targets)
        parts = [row.part for row in rows if row.status != "pruned"]
        if not parts:
            raise RefusedError(f"there is nothing to prune{': it is pruned already' if rows else ''}")
        return Change(self.desk, Choice(prune=parts))

    def restoring(self, targets: Iterable[Target]) -> Change:
        """Restoring these.

        Raises:
            RefusedError: none of them is pruned.
        """
        rows = self._rows(targets)
        restore = [row.target for row in rows if row.status == "pruned"]
        if not restore:
            raise RefusedError(f"there is nothing to restore{': it is not pruned' if rows else ''}")
        return Change(self.desk, Choice(restore=restore))

    def undoing(self) -> Change:
        """Undoing the last batch, as far as it has not been undone otherwise.

        Raises:
            RefusedError: there is no batch, or nothing of it is left to undo.
        """
        if not self._done:
            raise RefusedError("nothing was done yet that could be undone")
        batch = self._done[-1]
        prune = [row.part for row in self._rows(batch.restored) if row.status != "pruned"]
        restore = [row.target for row in self._rows(batch.pruned) if row.status == "pruned"]
        if not prune and not restore:
            self._done.pop()
            raise RefusedError("the last batch has been undone already, by someone else")
        return Change(self.desk, Choice(prune=prune, restore=restore))

    def _rows(self, targets: Iterable[Target]) -> list[Row]:
        """The rows of these, in the order of the conversation."""
        found = [self.by_target[target] for target in dict.fromkeys(targets) if target in self.by_target]
        return sorted(found, key=lambda row: (row.part.position, row.part.exchange.order))

    # ---- what is done

    def carry_out(self, change: Change) -> Desk:
        """Write it into the file. Nothing of the sitting changes before `done` is told.

        Raises:
            PrunewiseError: as `Change.carry_out`.
        """
        change.carry_out(force=self.force)
        assert change.after is not None
        return change.after

    def done(self, change: Change, after: Desk) -> None:
        """Take in what was written, as something that can be undone."""
        choice = change.choice
        self._done.append(Batch(tuple(part.target for part in choice.prune), tuple(choice.restore)))
        self._took(change, after)

    def undone(self, change: Change, after: Desk) -> None:
        """Take in that the last batch was undone."""
        self._done.pop()
        self._took(change, after)

    def _took(self, change: Change, after: Desk) -> None:
        self.outcomes.append(change.outcome())
        self._read(after)

    # ---- what others do

    @property
    def has_changed(self) -> bool:
        """Whether the file is another than was read."""
        return stamp_of(self.desk.conversation.path) != self._stamp

    def wait_for_change(self) -> None:
        """Do not say again that the file is another, until it changes once more."""
        self._stamp = stamp_of(self.desk.conversation.path)

    def moved_to(self, desk: Desk) -> None:
        """Take in the session as it was read again."""
        self._read(desk)
