"""What a person may prune or restore: the exchanges of a conversation, part by part, and how each stands.

A value made of an engine and its ledger. How it is shown, and how a person picks from it, is the
host's or the command line's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from prunewise.engine import Engine, place_of
from prunewise.errors import RefusedError
from prunewise.ledger import Decision, Entry, Ledger, Target
from prunewise.tokens import text_tokens
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, Exchange, ToolKind

Status = Literal["active", "pruned", "restored"]
"""`active` goes out in full, and nobody has decided on it; `restored` goes out in full at a person's wish."""


class Listed(msgspec.Struct, frozen=True):
    """One part of an exchange: its result, or the input of a call that failed. Sizes in estimated tokens."""

    exchange: Exchange
    kind: ToolKind
    status: Status
    age: int
    """How many turns ago its message was."""
    tokens: int
    """Its size without pruning."""
    tokens_removed: int
    """What is out of it now; where nothing is, what a prune would take out."""
    decision: Decision | None = None
    """The decision that stands for it; of a restored one, the decision that was undone, where it is known."""
    refusal: str | None = None
    """Why it cannot be pruned; None where it can, or is pruned already."""

    @property
    def target(self) -> Target:
        """As the ledger names it."""
        return (self.exchange.call.id, self.kind)

    @property
    def position(self) -> int:
        """The position of the message that changes when it is pruned."""
        return self.exchange.position(self.kind)


def listing(engine: Engine, ledger: Ledger, entries: Sequence[Entry]) -> list[Listed]:
    """Every part that can be pruned or restored, or could be if nothing spoke against it, oldest first.

    `entries` are those that `ledger` is folded from. An exchange whose call id was used before is left
    out: nothing could name it.
    """
    decided = {entry.target: entry for entry in entries if isinstance(entry, Decision)}
    parts = [
        _listed(engine, ledger, exchange, kind, decided.get((exchange.call.id, kind)))
        for exchange in engine.transcript.exchanges
        if not exchange.reused_id
        for kind in _kinds(exchange, ledger)
    ]
    return sorted(parts, key=lambda one: (one.position, one.exchange.order))


def _kinds(exchange: Exchange, ledger: Ledger) -> list[ToolKind]:
    target: Target = (exchange.call.id, TOOL_INPUT)
    if exchange.result.is_error or target in ledger.standing or target in ledger.restored:
        return [TOOL_INPUT, TOOL_RESULT]
    return [TOOL_RESULT]


def _listed(
    engine: Engine, ledger: Ledger, exchange: Exchange, kind: ToolKind, decided: Decision | None
) -> Listed:
    target: Target = (exchange.call.id, kind)
    age = engine.transcript.turn - engine.transcript.turns[exchange.position(kind)]
    if kind == TOOL_INPUT:
        tokens = text_tokens(exchange.call.text)
    else:
        tokens = engine.rules.estimator.content(exchange.result)
    standing = ledger.standing.get(target)
    if standing is not None:
        removed = engine.saving_at(place_of(exchange, kind))
        return Listed(exchange, kind, "pruned", age, tokens, removed, standing)
    status: Status = "restored" if target in ledger.restored else "active"
    try:
        removed, refusal = engine.manual(*target).tokens_removed, None
    except RefusedError as error:
        removed, refusal = 0, str(error).removeprefix(f"{exchange.call.id}: ")
    return Listed(
        exchange, kind, status, age, tokens, removed, decided if status == "restored" else None, refusal
    )
