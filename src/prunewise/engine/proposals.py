"""Proposals, and the pool that holds them: one a target, what may go now apart from what is still recent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from prunewise.ledger import Target
from prunewise.transcript import ToolKind

Lane = Literal["free", "paid"]


class Proposal(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """This exchange's result, or a failed call's input, may go: which strategy says so, and why.

    Sizes are estimated tokens; `position` is the index of the message that changes.
    """

    strategy: str
    kind: ToolKind
    call: str
    position: int
    original_tokens: int
    tokens_removed: int
    reason: str
    lane: Lane
    """`free` where the message has never been sent, so that no cache breaks; else `paid`."""
    order: int = 0
    """Call order."""
    marker: str = ""
    reference: str = ""

    @property
    def target(self) -> Target:
        """What it is about."""
        return (self.call, self.kind)


class Pool:
    """The proposals of one transcript: the ripe ones may go now, the others once they are not recent."""

    def __init__(self) -> None:
        self.tokens = 0
        """What the ripe ones would take out together."""
        self.earliest: int | None = None
        """The position of the first ripe one."""
        self._ripe: dict[Target, Proposal] = {}
        self._recent: dict[Target, Proposal] = {}
        self._ripening: dict[int, list[Target]] = {}
        self._new: list[Proposal] = []
        self._turn = 0

    def __len__(self) -> int:
        """How many are ripe."""
        return len(self._ripe)

    def get(self, target: Target) -> Proposal | None:
        """The proposal on a target, ripe or not."""
        return self._ripe.get(target) or self._recent.get(target)

    def ripe(self) -> list[Proposal]:
        """Those that may go now, by position and then call order."""
        return in_order(self._ripe.values())

    def put(self, target: Target, proposal: Proposal, ripe_at: int) -> None:
        """Add a proposal on a target that has none, to ripen at a turn."""
        if ripe_at <= self._turn:
            self._add_ripe(target, proposal)
        else:
            self._recent[target] = proposal
            self._ripening.setdefault(ripe_at, []).append(target)

    def drop(self, target: Target) -> None:
        """Take the proposal on a target out, if there is one."""
        self._recent.pop(target, None)
        proposal = self._ripe.pop(target, None)
        if proposal is None:
            return
        self.tokens -= proposal.tokens_removed
        if proposal.position == self.earliest:
            self.earliest = min((one.position for one in self._ripe.values()), default=None)

    def advance(self, turn: int) -> None:
        """It is this turn now: let in what is no longer recent."""
        for ripe_at in range(self._turn + 1, turn + 1):
            for target in self._ripening.pop(ripe_at, ()):
                proposal = self._recent.pop(target, None)
                if proposal is not None:
                    self._add_ripe(target, proposal)
        self._turn = turn

    def take_new(self) -> list[Proposal]:
        """Those that have ripened since this was last asked, by position and call order."""
        new, self._new = self._new, []
        return in_order(one for one in new if self._ripe.get(one.target) is one)

    def _add_ripe(self, target: Target, proposal: Proposal) -> None:
        self._ripe[target] = proposal
        self._new.append(proposal)
        self.tokens += proposal.tokens_removed
        if self.earliest is None or proposal.position < self.earliest:
            self.earliest = proposal.position


def in_order(proposals: Iterable[Proposal]) -> list[Proposal]:
    """By position, then call order."""
    return sorted(proposals, key=lambda one: (one.position, one.order))
