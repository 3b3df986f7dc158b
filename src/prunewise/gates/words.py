"""A gate's verdict in words, with all its figures."""

from __future__ import annotations

import math

from prunewise.gates.documented import Verdict
from prunewise.wording import count, number


def in_words(verdict: Verdict, batch: str) -> str:
    """A verdict's figures as sentences, up to the colon before the answer."""
    removed = count(verdict.tokens_removed, "token")
    if verdict.penalty is None or verdict.recurring_saving is None:
        return f"{batch} would take {removed} out of each request. The gate is off and prices nothing: "
    calls = verdict.break_even_calls
    if calls is None:  # the priced policy's: what has never been sent costs nothing to leave out
        return (
            f"{batch} would take {removed} out of each request. Once, that costs as much as "
            f"{number(verdict.penalty)} fresh tokens; each later LLM call then saves "
            f"{number(verdict.recurring_saving)}: "
        )
    after = "never" if math.isinf(calls) else f"after {_calls(calls, verdict.threshold)} LLM calls"
    return (
        f"{batch} would take {removed} out of each request, from message {verdict.earliest} on. "
        f"Once, {count(verdict.tail_tokens, 'token')} from there on are cached again, which costs as much as "
        f"{number(verdict.penalty)} fresh tokens; each later LLM call then saves "
        f"{number(verdict.recurring_saving)}. Break-even {after}, threshold {number(verdict.threshold)}: "
    )


def answer(verdict: Verdict) -> str:
    """What the figures come to, for one who decides by hand."""
    return "it pays." if pays(verdict) else "it does not pay, unless the session goes on that long."


def pays(verdict: Verdict) -> bool:
    """Whether a priced batch breaks even within the threshold, whatever the gate's mode."""
    return verdict.break_even_calls is None or verdict.break_even_calls <= verdict.threshold


def _calls(calls: float, threshold: float) -> str:
    """Break-even calls, as precise as it takes to see on which side of the threshold they are."""
    for decimals in range(1, 7):
        if (round(calls, decimals) > threshold) == (calls > threshold):
            return f"{calls:,.{decimals}f}".removesuffix(".0")
    return repr(calls)
