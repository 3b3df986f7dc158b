"""What a strategy says: this part of this exchange is stale, and why."""

from __future__ import annotations

import msgspec

from prunewise.transcript import Exchange, ToolKind


class Stale(msgspec.Struct, frozen=True, gc=False):
    """A finding of a strategy, before protections, sizes and the gate."""

    exchange: Exchange
    kind: ToolKind
    reason: str
    """Why, as the marker and the ledger say it."""
