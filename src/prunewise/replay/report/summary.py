"""The answer of a report, in plain words: what was spent, what could be saved, and how to switch it on.

The first screen of the terminal and the top of the page both show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prunewise.formats.detect import READERS
from prunewise.replay.policies import can_be_chosen, label
from prunewise.replay.report.words import NOT_KNOWN, YOURS, client, count, money, short
from prunewise.replay.totals import (
    FEWEST,
    HEAVY,
    Block,
    DetectedTotals,
    Interval,
    PolicyTotals,
    Totals,
    percent,
)
from prunewise.wording import one_line

SWITCHES = {
    "documented": "prunewise pi install --policy documented --no-masking",
    "two-level": "prunewise pi install --policy none --masking",
    "both": "prunewise pi install --policy documented --masking",
    "priced": "prunewise pi install --policy priced --no-masking",
}
"""The command that switches a policy on in pi."""
_PI = "pi"
_REQUESTS = "request"
_MOST_CLIENTS = 3


class Line(NamedTuple):
    """What one policy would have saved, as texts; a saving below zero is a loss."""

    policy: str
    name: str
    saved: str
    """In dollars; empty where no price is known."""
    interval: str
    """Of the dollars, or of the share where no price is known; 95%."""
    share: str
    dearer: str
    """Sessions that would have cost more."""
    worst: str
    gains: bool | None
    """None where it changes nothing."""


class Summary(NamedTuple):
    """The answer, as sentences and texts."""

    spent: str
    lines: tuple[Line, ...]
    """The policies that can be switched on, the best first."""
    found: tuple[str, ...]
    """Which policy is best, or that none pays."""
    how: tuple[str, ...]
    """How to switch it on, by client."""
    doubts: tuple[str, ...]
    """What makes the figures worth less."""
    shown: str | None
    """The policy that `found` is about."""


def summary(totals: Totals) -> Summary:
    """Answer what a report is for."""
    block = totals.all
    ordered = sorted(
        (one for one in block.policies if can_be_chosen(one.policy)), key=lambda one: one.net.change or 0.0
    )
    lines = tuple(map(_line, ordered)) if block.sessions else ()
    best = (block.policy(block.recommended) if block.recommended else None) or next(iter(ordered), None)
    return Summary(
        _spent(block),
        lines,
        tuple(_found(totals, best)),
        tuple(_how(totals)),
        tuple(_doubts(totals)),
        best.policy if best and block.sessions else None,
    )


def saved(share: float | None) -> str:
    """A change of costs as a saving: below zero where it costs more."""
    if share is None:
        return NOT_KNOWN
    text = percent(share)
    return text if text == "0.0%" else text.removeprefix("-") if share < 0 else f"-{text}"


def span(change: Interval | None) -> str:
    """An interval of a change, as one of a saving."""
    return NOT_KNOWN if change is None else f"{saved(change.high)} to {saved(change.low)}"


def _spent(block: Block) -> str:
    none = block.policies[0]
    if not block.sessions:
        return "No session could be counted."
    counted = f"{count(block.sessions, 'session')} counted, {count(block.llm_calls, 'LLM call')}"
    if none.dollars is None:
        tokens = f"as much as {short(none.net.total)} fresh tokens"
        return f"{counted}: their input cost {tokens}; no list has the price of the model."
    cost = f"{counted}: their input cost {money(none.dollars.none)} at list prices"
    if none.dollars.sessions == block.sessions:
        return f"{cost}."
    return f"{cost} in the {none.dollars.sessions:,} where they are known."


def _line(one: PolicyTotals) -> Line:
    dollars, change = one.dollars, one.net.change or 0.0
    interval = span(one.net.interval)
    if dollars is not None:
        kept = dollars.saved
        interval = NOT_KNOWN if kept is None else f"{money(kept.low)} to {money(kept.high)}"
    worst = one.net.worst or 0.0
    return Line(
        one.policy,
        one_line(label(one.policy)),
        "" if dollars is None else money(dollars.none - dollars.policy),
        interval,
        saved(change),
        f"{one.lost:,}",
        f"{percent(worst)} more" if one.lost else "none",
        None if saved(change) == "0.0%" else change < 0,
    )


def _found(totals: Totals, best: PolicyTotals | None) -> Iterator[str]:
    block = totals.all
    if best is None or not block.sessions:
        return
    if not totals.with_loss:
        yield "What the agent would have needed again was not looked for, so nothing is recommended."
        return
    name = one_line(label(best.policy))
    if block.recommended:
        yield f"Best: {name}, which would have saved {_range(best)}."
        yield _sessions(block, best)
        return
    if block.sessions < FEWEST:
        yield f"Too few to tell what pays: {count(block.sessions, 'session')}, and it takes {FEWEST}."
    else:
        yield "No policy pays for certain on these sessions: leave pruning off."
    if (best.net.change or 0.0) < 0 and saved(best.net.change) != "0.0%":
        few = (
            f" Only {count(best.acted, 'session')} changed." if best.acted < FEWEST <= block.sessions else ""
        )
        yield f"Closest: {name}, which would have saved {_range(best)}.{few}"


def _range(one: PolicyTotals) -> str:
    """The saving by both ways of telling what was needed again; the lower one is the one that counts."""
    found, lower = one.detected, _amount(one)
    if found is None or (found.net.change or 0.0) >= (one.net.change or 0.0) or _amount(found) == lower:
        return lower
    return f"{lower} to {_amount(found)}: the lower figure counts everything that may have been needed again"


def _amount(one: PolicyTotals | DetectedTotals) -> str:
    return saved(one.net.change) if one.dollars is None else money(one.dollars.none - one.dollars.policy)


def _sessions(block: Block, one: PolicyTotals) -> str:
    if not one.lost:
        return f"None of the {block.sessions:,} sessions would have cost more."
    worst = f", the worst {percent(one.net.worst or 0.0)} more"
    return f"{one.lost:,} of the {block.sessions:,} sessions would have cost more{worst}."


def _how(totals: Totals) -> Iterator[str]:
    """What switching it on looks like in each client. Each is told by its own sessions."""
    clients = totals.clients
    if not clients or not totals.with_loss:
        return
    inside = clients.get(_PI)
    alone = len(clients) == 1
    if inside is not None and inside.recommended:
        if not alone:
            policy = inside.policy(inside.recommended)
            share = saved(policy.net.change if policy else None)
            name = one_line(label(inside.recommended))
            yield f"In pi ({count(inside.sessions, 'session')}) the best is {name}, which saves {share}."
        yield _switch(inside.recommended)
    elif inside is not None and not alone:
        few = f"fewer than {FEWEST} sessions" if inside.sessions < FEWEST else f"{inside.sessions:,} sessions"
        yield f"In pi nothing pays for certain ({few})."
    others = [client(name) for name in _largest(totals) if name in READERS and name not in (_PI, _REQUESTS)]
    if others:
        named = others[:_MOST_CLIENTS]
        more = len(others) - len(named)
        if more:
            named.append(count(more, "other"))
        yield f"In {_listed(named)} pruning is not available yet."


def _switch(policy: str) -> str:
    if policy == YOURS:
        return "pi's settings on this machine are these already."
    if policy not in SWITCHES:
        return f"To switch it on in pi, put {one_line(policy)} into pi's settings files."
    return f"Switch it on in pi: {SWITCHES[policy]}"


def _largest(totals: Totals) -> list[str]:
    return sorted(totals.clients, key=lambda name: (-totals.clients[name].llm_calls, name))


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _doubts(totals: Totals) -> Iterator[str]:
    left = len(totals.errors) + len(totals.excluded) + len(totals.empty) + len(totals.copies)
    if left:
        yield f"Left out: {count(left, 'file or session', 'files and sessions')}; --details says why."
    if totals.all.sessions and not totals.with_loss:
        yield "These figures are too good: nothing is charged for what was needed again."
    share = totals.all.largest_share
    if share is not None and totals.all.sessions > 1 and share > HEAVY:
        yield f"One session makes up {percent(share)} of all costs."
