"""A session call by call: by hand, and as a replay's row carries it."""

import msgspec
import pytest

from prunewise import tools
from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.replay import timeline
from prunewise.replay.bill import Removal, lookback_bill, open_account, stretches
from prunewise.replay.policies import POLICIES
from prunewise.replay.session import Question, replay
from prunewise.transcript import Message, Text, ToolCall, ToolResult, Usage


def exchanges(calls: int, start: int = 0) -> tuple[Message, ...]:
    """One user message, then that many answers which read the same file, each with its result."""
    messages = [Message("user", f"u{start}", (Text("go"),))]
    for n in range(start, start + calls):
        messages += [
            Message("assistant", f"a{n}", (ToolCall(f"c{n}", "read", {"path": "a.py"}, "{}"),)),
            Message("tool", f"r{n}", (ToolResult(f"c{n}", "read", (Text("x" * 4000),)),)),
        ]
    return tuple(messages)


def recording(*lengths: int, ended_by: str = "compaction") -> Recording:
    epochs: list[Epoch] = []
    for index, length in enumerate(lengths):
        made = exchanges(length, 100 * index)
        answers = [at for at, message in enumerate(made) if message.role == "assistant"]
        calls = tuple(
            # Everything but what is new is read from the cache, but for one call in ten that finds it gone.
            LLMCall(
                at,
                Usage(10, 5, 0, 5000 + 900 * n) if n % 10 == 0 else Usage(10, 5, 4000 + 900 * n, 1000),
                60.0 * n,
                "claude-opus-4-5",
                "anthropic",
                failed=n == 3,
            )
            for n, at in enumerate(answers)
        )
        last = index == len(lengths) - 1
        epochs.append(Epoch(made, calls, "end" if last else ended_by))  # pyright: ignore[reportArgumentType]
    return Recording("pi", "a.jsonl", "a", tuple(epochs), tools.PI)


def test_requests_are_those_of_the_bill_without_failed_calls():
    made = recording(12)
    account = open_account(stretches(made))
    bare = lookback_bill(account)
    found = timeline.timeline(made, account, bare)
    assert found.calls == (0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11)
    assert found.tokens == tuple(round(bare.tokens[call]) for call in found.calls)
    assert found.cold == (10,), "the first call is cold by itself"
    assert found.compactions == ()


def test_a_compaction_is_marked_at_the_call_that_follows_it():
    for ended_by, marked in (("compaction", (12,)), ("rewind", ())):
        made = recording(12, 6, ended_by=ended_by)
        account = open_account(stretches(made))
        found = timeline.timeline(made, account, lookback_bill(account))
        assert found.compactions == marked
        assert found.calls[-1] == 17


def test_cuts_say_what_they_take_and_whether_they_break_the_cache():
    made = recording(12, 12)
    account = open_account(stretches(made))
    # In the second stretch: one result from what was cached, and two at the call that is cold anyway.
    cuts = [(), (Removal(6, 2, 500), Removal(10, 4, 300), Removal(10, 6, 200))]
    bill = lookback_bill(account, cuts)
    found = timeline.series("documented", account, cuts, bill)
    scale = account.calibration.scale
    assert [(cut.call, cut.breaks) for cut in found.cuts] == [(18, True), (22, False)]
    assert [cut.removed for cut in found.cuts] == [round(500 * scale), round(500 * scale)]
    assert sum(cut.breaks for cut in found.cuts) == bill.breaks
    raw = timeline.timeline(made, account, lookback_bill(account))
    fewer = [call for call, a, b in zip(raw.calls, raw.tokens, found.tokens, strict=True) if b < a]
    assert fewer == [call for call in raw.calls if call >= 18]


def test_a_cut_at_a_call_that_failed_shows_at_the_next_one():
    made = recording(12)
    account = open_account(stretches(made))
    cuts = [(Removal(3, 2, 500), Removal(4, 4, 100), Removal(11, 6, 50))]
    bill = lookback_bill(account, cuts)
    found = timeline.series("documented", account, cuts, bill)
    assert [(cut.call, cut.breaks) for cut in found.cuts] == [(4, True), (11, True)]
    assert bill.breaks == 2


def test_long_sessions_are_thinned_out_evenly():
    made = recording(900)
    account = open_account(stretches(made))
    found = timeline.timeline(made, account, lookback_bill(account))
    assert len(found.calls) == len(found.tokens) == timeline.MOST_POINTS
    assert (found.calls[0], found.calls[-1]) == (0, 899)
    assert max(b - a for a, b in zip(found.calls, found.calls[1:], strict=False)) <= 4


def test_there_is_nothing_to_plot_in_a_session_without_answers():
    made = Recording("pi", "a", "a", (), tools.PI)
    account = open_account(stretches(made))
    assert timeline.timeline(made, account, lookback_bill(account)) == timeline.Timeline((), (), (), ())


@pytest.mark.parametrize(
    ("calls", "asked", "there"), [(30, True, True), (19, True, False), (30, False, False)]
)
def test_a_row_carries_it_where_it_was_asked_for(calls: int, asked: bool, there: bool):
    policies = tuple(POLICIES[name] for name in ("none", "oldest-first", "two-level"))
    row = replay(recording(calls), Question(policies, with_timeline=asked))
    assert (row.timeline is not None) == there
    if row.timeline is not None:
        assert [one.policy for one in row.timeline.series] == ["oldest-first"], "those that cut"
        assert sum(cut.breaks for one in row.timeline.series for cut in one.cuts) == row.figures[1].breaks
        assert msgspec.json.decode(msgspec.json.encode(row), type=type(row)) == row
