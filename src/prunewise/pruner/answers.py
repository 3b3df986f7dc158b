"""What a pruner answers, as values: what a request became, and what pruning has come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from prunewise.gates import Verdict
from prunewise.ledger import Decision
from prunewise.tally import Balance
from prunewise.transcript import Edit


class Projected(msgspec.Struct, frozen=True):
    """What one request became."""

    request: Any
    """What to send: the very object that came in where nothing changed."""
    edits: tuple[Edit, ...] = ()
    """All edits in it, by position; their messages are the only ones that are new objects."""
    decisions: tuple[Decision, ...] = ()
    """The decisions that this request added to the ledger."""
    verdict: Verdict | None = None
    raw: int = 0
    """How large the request is without pruning, in estimated tokens."""
    saved: int = 0
    """How much smaller it is than that, in estimated tokens."""
    masked: int = 0
    """How many of the edits are masking's."""
    changed: bool = False
    """Whether the edits differ from the request before, so that the cached prefix breaks."""
    error: str | None = None
    """Why the original went out after all, where something failed."""


class Stats(msgspec.Struct, frozen=True):
    """What pruning has come to in this conversation, in estimated tokens."""

    raw_tokens: int
    effective_tokens: int
    saved_tokens: int
    standing: int
    masked: int
    removed_by_strategy: Mapping[str, int]
    """Cumulative, from the ledger."""
    cache_breaks: int
    """How many requests changed something that had been sent before."""
    balance: Balance = Balance()
    """What pruning has really brought since this pruner was made, by the provider's own counts."""
    earlier: Balance | None = None
    """The same for the LLM calls before that which the conversation holds, by what the ledger says; None
    where it says nothing."""
