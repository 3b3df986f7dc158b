"""The dry run: what an engine would do with the next request, read off it before it is thrown away."""

from __future__ import annotations

from collections.abc import Callable

from prunewise.engine import Engine
from prunewise.ledger import Ledger
from prunewise.plan import Masked, Plan


def planned(engine: Engine, ledger: Ledger, format_name: str, mask: Callable[[], object] | None) -> Plan:
    """What goes out next. The engine is of no more use: it ends with edits that nobody decided on.

    `mask` has it mask what may be masked; None where masking is off.
    """
    verdict = engine.verdict() if engine.rules.settings.enabled else None
    proposals = engine.proposals
    saved = engine.removed_tokens
    if verdict is not None and verdict.accepted:
        saved += verdict.tokens_removed
    if mask is not None:
        if verdict is not None and verdict.accepted:
            for proposal in engine.accepted(verdict):
                engine.preview(proposal)
        mask()
        saved = engine.removed_tokens
    masked = [
        Masked(call, kind, place[0], engine.saving_at(place)) for (call, kind), place in engine.masked.items()
    ]
    return Plan(
        format_name,
        len(engine.transcript),
        engine.transcript.state,
        engine.total_tokens,
        proposals,
        verdict,
        tuple(ledger.standing.values()),
        tuple(sorted(masked, key=lambda one: one.position)),
        saved,
    )
