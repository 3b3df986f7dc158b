"""The dry run's answer: what would go from a request, and why."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from prunewise.engine import Proposal
from prunewise.gates import Verdict
from prunewise.ledger import Decision, to_data

_PROPOSAL_KEYS = (
    "strategy",
    "kind",
    "call",
    "position",
    "originalTokens",
    "tokensRemoved",
    "reason",
    "lane",
)


class Masked(msgspec.Struct, frozen=True, rename="camel"):
    """An output that masking would replace; sizes in estimated tokens."""

    call: str
    kind: str
    position: int
    tokens_removed: int


class Plan(msgspec.Struct, frozen=True):
    """What would go from one request."""

    format: str
    messages: int
    state: str
    total_tokens: int
    proposals: list[Proposal]
    """What strategies propose now, after protections, floor and collapsing; by position and call order."""
    verdict: Verdict | None
    """The gate's, on all proposals jointly; None where pruning is off."""
    decisions: tuple[Decision, ...]
    """Those that stand already, from the ledger."""
    masked: tuple[Masked, ...]
    """What masking would replace, where a window was given and it engages."""
    saved: int
    """What is out of this request already or would go with it, in tokens."""

    def to_dict(self) -> dict[str, Any]:
        """The plan as `plan --json` prints it; an infinite number is null with `unbounded` beside it."""
        proposals = msgspec.to_builtins(self.proposals)
        return {
            "format": self.format,
            "messages": self.messages,
            "state": self.state,
            "totalTokens": self.total_tokens,
            "proposals": [{key: proposal[key] for key in _PROPOSAL_KEYS} for proposal in proposals],
            "verdict": None if self.verdict is None else verdict_to_dict(self.verdict),
            "decisions": [to_data(decision)[1] for decision in self.decisions],
            "masked": [msgspec.to_builtins(one) for one in self.masked],
        }


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """A verdict's figures as they stand in the plan's JSON."""
    calls = verdict.break_even_calls
    unbounded = calls is not None and math.isinf(calls)
    figures: dict[str, Any] = {
        "mode": verdict.mode,
        "threshold": verdict.threshold,
        "accepted": verdict.accepted,
        "earliest": verdict.earliest,
        "tailTokens": verdict.tail_tokens,
        "tokensRemoved": verdict.tokens_removed,
        "penalty": verdict.penalty,
        "recurringSaving": verdict.recurring_saving,
        "breakEvenCalls": None if unbounded else calls,
    }
    if unbounded:
        figures["unbounded"] = True
    return figures
