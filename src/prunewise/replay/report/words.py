"""How reports write numbers, names and texts, so that all of them write alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from prunewise.replay.policies import CEILING, OPTIMAL, POLICIES
from prunewise.replay.totals import LONG, Totals, percent
from prunewise.wording import count

YOURS = "your settings"
"""What the command calls the user's own settings."""
NOT_KNOWN = "-"
"""Where there is nothing to say."""

_CLIENTS = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "copilot": "Copilot CLI",
    "gemini-cli": "Gemini CLI",
    "qwen-code": "Qwen Code",
    "swe-agent": "SWE-agent",
}


def client(format: str) -> str:
    """The name of the program whose sessions have a format."""
    return _CLIENTS.get(format, format)


def money(dollars: float) -> str:
    """An amount in US dollars: $1,234, $12.30, $0.0045."""
    size = abs(dollars)
    digits = 0 if size >= 999.5 else 2 if size >= 0.00995 or not size else 4  # noqa: PLR2004
    text = f"${size:,.{digits}f}"
    return text if dollars >= 0 or not any(one in text for one in "123456789") else f"-{text}"


def number(value: float | None, digits: int = 0) -> str:
    """A number with its thousands set off."""
    if value is None or math.isnan(value):
        return NOT_KNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if not any(one in text for one in "123456789") else text


def short(value: float | None) -> str:
    """A large number to three digits: 12.3k, 4.56M."""
    if value is None or math.isnan(value):
        return NOT_KNOWN
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            scaled = value / size
            digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0  # noqa: PLR2004
            return f"{scaled:,.{digits}f}{unit}"
    return number(value)


def size(many: int) -> str:
    """A number of bytes."""
    return f"{short(many)}B" if many >= 1000 else count(many, "byte")  # noqa: PLR2004


def listed(counts: Mapping[str, int]) -> str:
    """What there is of each, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {many:,}" for name, many in ordered)


def what(policy: str) -> str:
    """What a policy does."""
    if policy == OPTIMAL:
        return "the best that documented could have done, told afterwards: a mark to measure by"
    if policy == CEILING:
        return (
            "whole results left out right after their last use, told afterwards: a mark to measure by, no "
            "bound, since a policy may cut earlier and recall"
        )
    if policy == YOURS:
        return "the settings that pi would read on this machine"
    known = POLICIES.get(policy)
    return known.what if known else f"the settings of {policy}"


def left_out(totals: Totals) -> Iterable[str]:
    """What is in no total, and why."""
    if totals.errors:
        yield f"{count(len(totals.errors), 'file')} could not be replayed"
    if totals.excluded:
        many = count(len(totals.excluded), "session")
        yield f"{many} whose simulated bill is off from recorded usage by more than 25%"
    if totals.copies:
        many = count(len(totals.copies), "session")
        yield f"{many} of copies alone"
    if totals.empty:
        yield f"{count(len(totals.empty), 'session')} without an answered LLM call"
    if totals.copied_calls:
        yield f"{count(totals.copied_calls, 'LLM call')} copied from other sessions, where they count"
    if totals.aside_calls:
        yield f"{count(totals.aside_calls, 'LLM call')} on branches that were left"


def each_left_out(totals: Totals) -> Iterable[str]:
    """The same one by one, and what the readers warned of; nothing of what is shared without names."""
    reasons = [(one.source, f"could not be replayed: {one.reason}") for one in totals.errors]
    reasons += [
        (one.source, f"off from recorded usage by {percent(one.baseline_error or 0.0)}")
        for one in totals.excluded
    ]
    reasons += [(one.source, "copies alone") for one in totals.copies]
    reasons += [(one.source, "no answered LLM call") for one in totals.empty]
    yield from (f"{source}: {reason}" for source, reason in reasons if source)
    yield from filter(None, totals.warned)


def basis(totals: Totals) -> Iterable[str]:
    """What the bill rests on."""
    base = totals.baseline
    if base.median is not None and base.p90 is not None:
        yield (
            f"Without pruning, the simulated bill is off from recorded usage by {percent(base.median)} in "
            f"the median and {percent(base.p90)} at nine in ten, of {count(base.checked, 'session')}."
        )
    if base.unchecked:
        yield f"Without recorded usage: {count(base.unchecked, 'session')}; nothing confirms their bill."
    clock = totals.warmth.get("time to live", 0)
    if clock:
        yield (
            f"Recorded usage decided what was cached; in {clock:,} of the "
            f"{count(totals.all.sessions, 'counted session')} the clock."
        )
    if totals.assumed_prices:
        yield f"The prices of {count(totals.assumed_prices, 'counted session')} are assumed."


CAVEATS = (
    (
        "No model was run. Everything that may have been needed again is charged, but what was used in "
        "thought alone leaves no trace."
    ),
    (
        "Clients are taken to set cache breakpoints behind the system prompt and at the end of a request, as "
        "providers ask for."
    ),
    (
        "Costs are those of the input. What the model writes is taken to be the same under all policies, but "
        "for what recalls make it write, which is charged to them."
    ),
)
"""What a reader must know of all figures."""

LONG_TITLE = f"Sessions of {LONG} and more LLM calls"
