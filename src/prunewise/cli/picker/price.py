"""What a prune or a restore costs now, in short lines, and whether the provider's cache is still warm.

Figures are those of the command line and of `prunewise plan`; only their form is another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from prunewise.cli.console import cell
from prunewise.cli.desk import Desk
from prunewise.formats.pi import PI
from prunewise.gates import Verdict
from prunewise.gates.words import answer
from prunewise.listing import Listed
from prunewise.prices import DAY, HOUR, MINUTE, RULES, CacheRules, rules_for
from prunewise.wording import count, number

Temperature = Literal["warm", "cooling", "cold", "unknown"]
"""`cooling` is between the provider's default time to live and the longest that a client can ask for."""

Fact = tuple[str, str]
"""A name and what there is to say under it."""


_FREE = "all is cached again anyway, so now a cut is free; the break-even is that of a warm cache"


class Warmth(msgspec.Struct, frozen=True):
    """Whether what was sent last is still cached."""

    temperature: Temperature
    words: str
    """The reason."""


def warmth(last: Mapping[str, Any] | None, now: float, warmed: float | None = None) -> Warmth:
    """What is known of the cache.

    Args:
        last: pi's last message of the model; None where it has said nothing.
        now: seconds since the epoch.
        warmed: when a request beside the conversation last kept the cache warm; None where none did.
    """
    if last is None:
        return Warmth("cold", "nothing was sent yet")
    stamp, model, provider = last.get("timestamp"), last.get("model"), last.get("provider")
    if isinstance(stamp, bool) or not isinstance(stamp, (int, float)) or stamp <= 0:
        return Warmth("unknown", "the session does not say when the last LLM call was")
    name = model if isinstance(model, str) else ""
    rules = rules_for(name, provider if isinstance(provider, str) else "")
    usage = PI.read(last, "").usage
    long = usage is not None and usage.is_long_lived
    if warmed is not None and warmed > stamp / 1000:
        return _by_clock("kept warm", max(0.0, now - warmed), rules, name, long=long)
    return _by_clock("last LLM call", max(0.0, now - stamp / 1000), rules, name, long=long)


def _by_clock(use: str, ago: float, rules: CacheRules | None, model: str, *, long: bool) -> Warmth:
    """What is known of the cache, so many seconds after its last use; `long`: what was written last is to
    live the longest time.
    """
    since = f"{use} {duration(ago)} ago"
    if rules is None and ago > max(row.longest for row in RULES):
        return Warmth("cold", f"{since}, longer than any known cache lives: {_FREE}")
    if rules is None:
        return Warmth("unknown", f"{since}; no cache rules are known for {cell(model) or 'its model'}")
    lifetime = rules.longest if long else rules.time_to_live
    lives = f"{since}, lives {duration(lifetime)}"
    if ago <= lifetime:
        return Warmth("warm", lives)
    if ago <= rules.longest:
        return Warmth("cooling", f"{lives}, {duration(rules.longest)} where that was asked for")
    return Warmth("cold", f"{lives}: {_FREE}")


def duration(seconds: float) -> str:
    """A time span in its largest unit, such as `3 min`."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit):,} {name}"
    return f"{int(seconds)} s"


def price_of(desk: Desk, part: Listed, warm: Warmth) -> list[Fact]:
    """What it costs and saves now to prune this part or, where it is pruned, to restore it."""
    if part.status == "pruned":
        return [
            ("restoring", f"puts {count(part.tokens_removed, 'token')} back into each request"),
            (
                "rewritten",
                _rewritten(desk.pruner.tail_tokens(part.position) + part.tokens_removed, part.position),
            ),
            cache_fact(warm),
        ]
    return prune_price(desk.pruner.preview([part.target]), warm)


def prune_price(verdict: Verdict, warm: Warmth) -> list[Fact]:
    """What a batch of prunes costs and saves, together."""
    facts = [("pruning", f"takes {count(verdict.tokens_removed, 'token')} out of each request")]
    if verdict.penalty is None or verdict.recurring_saving is None or verdict.break_even_calls is None:
        return [*facts, ("price", "the gate is off and prices nothing"), cache_fact(warm)]
    rewritten = _rewritten(verdict.tail_tokens, verdict.earliest or 0)
    return [
        *facts,
        ("rewritten", f"{rewritten}: as much as {number(verdict.penalty)} fresh tokens"),
        ("saves", f"{number(verdict.recurring_saving)} fresh tokens at each later LLM call"),
        ("break-even", f"{break_even(verdict)}: {answer(verdict)}"),
        cache_fact(warm),
    ]


def break_even(verdict: Verdict) -> str:
    """After how many LLM calls a batch has paid for itself."""
    calls = verdict.break_even_calls
    if calls is None:
        return "not priced"
    if math.isinf(calls):
        return "never"
    return f"{number(calls)} LLM calls, threshold {number(verdict.threshold)}"


def _rewritten(tokens: int, position: int) -> str:
    return f"{count(tokens, 'token')} once, from message {position} on"


def cache_fact(warm: Warmth) -> Fact:
    """Whether the cache is warm, and why."""
    return ("cache", f"{warm.temperature}: {warm.words}")
