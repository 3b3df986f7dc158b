"""What really went out is what is booked: late answers, an engine that is not asked, a full disk."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.pi.support import Talk

from prunewise.hosts.pi import words
from prunewise.hosts.pi.protocol import View
from prunewise.tally import Balance

MakeTalk = Callable[..., Talk]

READ, WRITE = 0.1, 1.25
LARGE = [f"line {number} of a large file, as it was\n" * 300 for number in range(12)]


class Provider:
    """Bills requests as a provider with a prompt cache does: what begins as the request before is read."""

    def __init__(self) -> None:
        self.cost = self.without = 0.0
        self.breaks = 0
        self._sent: list[str] = []
        self._whole: list[str] = []

    def bill(self, sent: list[str], whole: list[str]) -> dict[str, int]:
        """The usage of a request that went out as `sent`, and without pruning would have as `whole`."""
        self.breaks += sent[: len(self._sent)] != self._sent
        usage, self._sent = _usage(sent, self._sent), sent
        would, self._whole = _usage(whole, self._whole), whole
        self.cost += _cost(usage)
        self.without += _cost(would)
        return usage

    @property
    def share(self) -> float:
        """What pruning has saved of the bill without it."""
        return 1 - self.cost / self.without


def _usage(texts: list[str], before: list[str]) -> dict[str, int]:
    kept = next(
        (at for at, (old, new) in enumerate(zip(before, texts, strict=False)) if old != new), len(before)
    )
    read, total = (sum(3 + len(text) // 4 for text in one) for one in (texts[:kept], texts))
    return {"input": 0, "output": 10, "cacheRead": read, "cacheWrite": total - read}


def _cost(usage: dict[str, int]) -> float:
    return usage["cacheRead"] * READ + usage["cacheWrite"] * WRITE


def texts(talk: Talk, *, whole: bool) -> list[str]:
    """The messages of a request, as texts."""
    outputs = talk.texts
    found: list[str] = []
    for record in talk.branch:
        message = record["message"]
        if message["role"] == "toolResult":
            full = message["content"][0]["text"]
            found.append(full if whole else outputs[message["toolCallId"]])
        else:
            found.append(str(message["content"]))
    return found


SENT, LATE, UNASKED, UNWRITTEN, RESTARTED = "sent", "late", "unasked", "unwritten", "restarted"


class Narrow(Talk):
    """A session with a model whose window the whole history does not fit into."""

    def view(self, **more: Any) -> View:
        return super().view(window=14_000, reserve=4_000, **more)


def begun(talk: Talk) -> Talk:
    """The session, in which everything is pruned that may be."""
    for key, value in (("gate.mode", "always-apply"), ("protections.recentTurns", 0)):
        talk.session.set(key, value)
    return talk


def played(talk: Talk, fates: list[str]) -> Provider:
    """A file is read again and again, and written in between; each request goes out as its fate says."""
    provider = Provider()
    talk.say("Work on it.")
    provider_says(talk, provider, SENT, 0)
    for number, fate in enumerate(fates, start=1):
        provider_says(talk, provider, fate, number)
    return provider


def provider_says(talk: Talk, provider: Provider, fate: str, number: int) -> None:
    if fate in (LATE, UNASKED):
        talk.late(asked=fate == LATE)
    elif fate == UNWRITTEN:
        talk.unwritten()
    else:
        if fate == RESTARTED:
            talk.greet()
        talk.context()
    usage = provider.bill(texts(talk, whole=False), texts(talk, whole=True))
    now = int(time.time() * 1000)
    call = {"type": "toolCall", "id": f"r{number}", "name": "read", "arguments": {"path": "a.txt"}}
    talk.answer([call], usage=usage, at=now, model="claude-sonnet-4-5")
    content = [{"type": "text", "text": LARGE[number // 2 % len(LARGE)]}]
    result = {"role": "toolResult", "toolCallId": f"r{number}", "toolName": "read", "content": content}
    talk.add("message", message={**result, "isError": False, "timestamp": now})


@pytest.mark.parametrize(
    "fates",
    [
        [SENT] * 8,
        [LATE] * 8,
        [UNASKED] * 8,
        [UNWRITTEN] * 8,
        [SENT, SENT, SENT, LATE, SENT, SENT, SENT],
        [SENT, SENT, SENT, LATE, LATE, SENT, SENT],
        [SENT, SENT, SENT, LATE, UNASKED, UNASKED, SENT, SENT],
        [SENT, SENT, SENT, UNWRITTEN, SENT, SENT, SENT],
        [SENT, SENT, SENT, UNWRITTEN, UNWRITTEN, UNWRITTEN, LATE, SENT],
        [SENT, LATE, SENT, LATE, SENT, LATE, SENT, LATE],
        [SENT, SENT, SENT, UNASKED, RESTARTED, SENT, SENT],
        [SENT, SENT, SENT, LATE, SENT, RESTARTED, SENT, SENT],
        [SENT, SENT, SENT, LATE, RESTARTED, SENT, RESTARTED, SENT],
        [SENT, SENT, SENT, RESTARTED, SENT, SENT],
        [SENT, RESTARTED, RESTARTED, RESTARTED, RESTARTED, RESTARTED],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("in_memory", [False, True])
def test_what_went_out_is_what_is_booked(talk: MakeTalk, fates: list[str], in_memory: bool):
    one = begun(talk(in_memory=in_memory))
    provider = played(one, fates)
    one.context()
    if RESTARTED not in fates:
        assert one.session.pruner.cache_breaks == provider.breaks + one.session.last.changed
    balance = words.total(one.session.pruner.stats)
    assert balance.calls == len(fates) + 1
    assert balance.breaks == provider.breaks
    assert (balance.cost, balance.share) == pytest.approx((provider.cost, provider.share), rel=0.05, abs=0.02)


@pytest.mark.parametrize(
    "fates",
    [
        [SENT, SENT, SENT, UNWRITTEN, RESTARTED, SENT, LATE, RESTARTED],
        [UNASKED, UNASKED, RESTARTED, SENT, LATE, LATE, RESTARTED],
        [SENT, LATE, RESTARTED, LATE, RESTARTED, LATE, RESTARTED],
        [RESTARTED] * 8,
        [SENT, SENT, UNASKED, RESTARTED, LATE, SENT, RESTARTED, RESTARTED],
        [LATE, LATE, RESTARTED, UNWRITTEN, RESTARTED, SENT],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_restart_leaves_nothing_out_of_the_books(tmp_path: Path, fates: list[str], in_memory: bool):
    balances: list[Balance] = []
    for folder, each in (("a", fates), ("b", [SENT if fate == RESTARTED else fate for fate in fates])):
        (tmp_path / folder).mkdir()
        one = begun(Talk(tmp_path / folder, in_memory=in_memory))
        provider = played(one, each)
        one.context()
        balances.append(words.total(one.session.pruner.stats))
        assert balances[-1].breaks == provider.breaks
    restarted, gone_on = balances
    assert (restarted.calls, restarted.breaks) == (gone_on.calls, gone_on.breaks)
    assert (restarted.net, restarted.break_cost) == pytest.approx((gone_on.net, gone_on.break_cost), rel=0.01)


@pytest.mark.parametrize(
    "fates",
    [
        [SENT] * 13 + [RESTARTED],
        [SENT] * 8 + [RESTARTED] + [SENT] * 5,
        [RESTARTED] * 14,
        [SENT] * 7 + [LATE, RESTARTED] + [SENT] * 5,
        [SENT] * 3 + [UNASKED] * 2 + [RESTARTED] + [SENT] * 8,
        [SENT] * 6 + [RESTARTED, UNWRITTEN, LATE, RESTARTED] + [SENT] * 4,
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("asked_before", [False, True])
def test_a_restart_counts_no_request_that_the_window_could_not_have_held(
    tmp_path: Path, fates: list[str], in_memory: bool, asked_before: bool
):
    """Asked for before the new process has heard of any window, or not."""
    balances: list[Balance] = []
    for folder, each in (("a", fates), ("b", [SENT if fate == RESTARTED else fate for fate in fates])):
        (tmp_path / folder).mkdir()
        one = begun(Narrow(tmp_path / folder, in_memory=in_memory))
        played(one, each)
        if asked_before and folder == "a":
            one.greet()
            one.session.warm()
            words.total(one.session.pruner.stats)
        one.context()
        balances.append(words.total(one.session.pruner.stats))
    restarted, gone_on = balances
    assert gone_on.past_window > 0 < gone_on.calls
    assert (restarted.calls, restarted.past_window) == (gone_on.calls, gone_on.past_window)
    assert restarted.net == pytest.approx(gone_on.net, rel=0.01)
