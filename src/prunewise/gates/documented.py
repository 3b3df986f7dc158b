"""The break-even gate of dynamic-context-pruning 0.1.6, to the letter.

Pruning at a position breaks the cached prefix from there on, once; in exchange each later request
is smaller. With r the price of a cached token over a fresh one:
penalty = (1 - r) * tail, recurring saving = r * removed, break-even calls = penalty / saving.
It leaves out the write premium, charges removed tokens as rewritten, and does not see a cold cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from prunewise.settings import Gate, GateMode, parse

State = Literal["idle", "mid_loop"]


class Verdict(msgspec.Struct, frozen=True):
    """A gate's answer with its figures, in tokens and LLM calls. The price figures are None where the
    gate prices nothing: in mode `off`, or with nothing to price.
    """

    mode: GateMode
    accepted: bool
    threshold: float
    earliest: int | None = None
    tail_tokens: int = 0
    tokens_removed: int = 0
    penalty: float | None = None
    recurring_saving: float | None = None
    break_even_calls: float | None = None
    """`math.inf` where nothing is saved."""


def price(earliest: int | None, tail_tokens: int, tokens_removed: int, gate: Gate, state: State) -> Verdict:
    """The verdict on a batch whose earliest change has `tail_tokens` from it to the end."""
    threshold = gate.threshold(state)
    if gate.mode == "off" or earliest is None:
        return Verdict(gate.mode, True, threshold, tokens_removed=tokens_removed)
    ratio = gate.cached_price_ratio
    penalty = (1 - ratio) * tail_tokens
    saving = ratio * tokens_removed
    calls = 0.0 if penalty == 0 else math.inf if saving == 0 else penalty / saving
    accepted = gate.mode == "always-apply" or calls <= threshold
    return Verdict(
        gate.mode, accepted, threshold, earliest, tail_tokens, tokens_removed, penalty, saving, calls
    )


def break_even(
    message_tokens: Sequence[int],
    candidates: Sequence[tuple[int, int]],
    gate: Gate | Mapping[str, Any],
    state: State,
) -> Verdict:
    """Price a batch of candidates jointly.

    Args:
        message_tokens: the size of each message of the request, in tokens.
        candidates: (position, tokens removed) each; they share one cache bust, at the earliest position.
        gate: the settings' gate part, or its mapping in JSON shape.
        state: `idle` or `mid_loop`.
    """
    earliest = min((position for position, _ in candidates), default=None)
    return price(
        earliest,
        0 if earliest is None else sum(message_tokens[earliest:]),
        sum(removed for _, removed in candidates),
        gate if isinstance(gate, Gate) else parse({"gate": gate})[0].gate,
        state,
    )
