"""The documented harness: what the strategies would have proposed, LLM call by LLM call, and what came of it.

Nothing is applied: each proposal is looked at once, before the LLM call at which it first could have
been made, against the tail as it was sent, with the number of calls that really followed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from prunewise.engine import Engine, Proposal, Rules
from prunewise.ledger import Target
from prunewise.recording import Epoch
from prunewise.replay.sweep import Candidate
from prunewise.tools import Vocabulary


class Found(msgspec.Struct, frozen=True, rename="camel"):
    """One candidate. Sizes in estimated tokens, positions count the epoch's messages from 0."""

    strategy: str
    call: str
    boundary: int
    """The message (the answer) before which it first could have been made."""
    state: Literal["idle", "mid_loop"]
    position: int
    original_tokens: int
    tokens_removed: int
    tail_tokens: int
    """From the message that would change to the end of the request."""
    remaining_calls: int
    """LLM calls that followed, the one at hand counted."""

    @property
    def candidate(self) -> Candidate:
        """What the sweep needs of it."""
        return Candidate(self.state, self.tail_tokens, self.tokens_removed, self.remaining_calls)


def candidates(
    epoch: Epoch, rules: Rules, vocabulary: Vocabulary, cwd: str | None, *, copied: bool = False
) -> list[Found]:
    """Every candidate of one epoch, in the order in which they first could have been made.

    Where `copied` is set, the epoch begins with answers that count in another session: what could have been
    made before the last of them is theirs.
    """
    engine = Engine(rules, _reference, cwd=cwd, vocabulary=vocabulary)
    found: list[Found] = []
    seen: set[Target] = set()
    read = _copied(epoch) if copied else 0
    engine.extend(epoch.messages[:read])
    seen.update(one.target for one in engine.take_new())
    for number, call in enumerate(epoch.calls):
        engine.extend(epoch.messages[read : call.position])
        read = max(read, call.position)
        # A target counts once, as what it was first proposed for.
        new = [one for one in engine.take_new() if one.target not in seen]
        if new:
            seen.update(one.target for one in new)
            state = engine.transcript.state
            remaining = len(epoch.calls) - number
            found += [
                _found(one, call.position, state, engine.tail_tokens(one.position), remaining) for one in new
            ]
    return found


def _copied(epoch: Epoch) -> int:
    """How many messages there are up to the last answer before the first call of its own."""
    first = epoch.calls[0].position if epoch.calls else 0
    return max((place + 1 for place in range(first) if epoch.messages[place].role == "assistant"), default=0)


def _found(
    proposal: Proposal,
    boundary: int,
    state: Literal["idle", "mid_loop"],
    tail_tokens: int,
    remaining_calls: int,
) -> Found:
    return Found(
        proposal.strategy,
        proposal.call,
        boundary,
        state,
        proposal.position,
        proposal.original_tokens,
        proposal.tokens_removed,
        tail_tokens,
        remaining_calls,
    )


def _reference(message: str, call_id: str) -> str:  # noqa: ARG001
    """A reference of the usual length: only its size matters here."""
    return "#1000"
