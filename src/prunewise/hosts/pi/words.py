"""What a tally says to a person, in short lines; gains and losses alike."""

from __future__ import annotations

from prunewise.pruner import Stats
from prunewise.tally import Balance
from prunewise.wording import count

_LEAST_DOLLARS = 0.0001


def total(stats: Stats) -> Balance:
    """All that is known of a conversation."""
    return stats.balance if stats.earlier is None else stats.earlier.plus(stats.balance)


def saving(stats: Stats) -> list[str]:
    """What was really saved, and how far that is known."""
    balance = total(stats)
    if not balance.calls:
        return ["net saving: not known yet (no answer has told its usage)", *_past_window(balance)]
    of = f"{percent(balance.share)} of what the input of {count(balance.calls, 'LLM call')} would have cost"
    lines = [f"net saving: {_tokens(balance.net)}{_dollars(balance)}, {of}"]
    if balance.breaks or balance.recalls:
        lines.append(
            f"  after {count(balance.breaks, 'cache break')} that cost {_plain(balance.break_cost)}, and "
            f"{count(balance.recalls, 'recall')} that cost {_plain(balance.recall_cost)}"
        )
    if stats.earlier is not None:
        lines.append(
            f"  {stats.earlier.calls:,} of these calls were before this process started: counted by what the "
            "session says, in which masking, what was restored since and when pruning was off are not"
        )
    elif stats.balance.calls:
        lines.append("  since this process started")
    return lines + _past_window(balance)


def _past_window(balance: Balance) -> list[str]:
    if not balance.past_window:
        return []
    told = (
        "not counted: without pruning there would have been a compaction before, and what would have followed"
    )
    return [f"  {count(balance.past_window, 'later call')} {told} it is not known"]


def short(stats: Stats) -> str:
    """The same in two words, for a footer; empty where nothing is known or was done."""
    balance = total(stats)
    if not balance.calls or (round(balance.net) == 0 and not balance.breaks):
        return ""
    return f"net {percent(balance.share)}{_dollars(balance)}"


def percent(share: float) -> str:
    """A share with its sign."""
    return f"{100 * share:+.1f}%"


def _tokens(amount: float) -> str:
    return f"{amount:+,.0f} input tokens"


def _plain(amount: float) -> str:
    return f"{amount:,.0f}"


def _dollars(balance: Balance) -> str:
    """In dollars, where they are known and can be seen in four places."""
    dollars = balance.net_dollars
    if dollars is None or abs(dollars) < _LEAST_DOLLARS:
        return ""
    places = 2 if abs(dollars) >= 1 else 4
    return f" ({'-' if dollars < 0 else ''}${abs(dollars):.{places}f})"
