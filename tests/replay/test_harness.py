"""The documented harness: each candidate once, at the LLM call before which it first could have been made."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.build import Native, assistant, flat, messages, read, user, with_settings

from prunewise import tools
from prunewise.engine import Rules
from prunewise.recording import Epoch, LLMCall
from prunewise.replay import corpus
from prunewise.replay.corpus import Source
from prunewise.replay.harness import Found, candidates
from prunewise.settings import DEFAULTS
from prunewise.tokens import DOCUMENTED
from prunewise.transcript import Part, ToolCall, ToolResult

RULES = Rules(with_settings({"protections": {"recentTurns": 0}, "thresholds": {"minCharsSaved": 0}}))


def found(*natives: Native, rules: Rules = RULES) -> list[Found]:
    """The candidates of an epoch in which each answer is that of an LLM call."""
    made = tuple(messages(natives))
    calls = tuple(LLMCall(at) for at, message in enumerate(made) if message.role == "assistant")
    return candidates(Epoch(made, calls), rules, tools.PI, None)


TWICE = flat(user(), read("c1", "a.py"), read("c2", "a.py"), assistant("on"), user(), assistant("on"))
"""Outputs of 225 tokens at 2 and 4, calls of 4 at 1 and 3; LLM calls answered at 1, 3, 5 and 7."""


@pytest.mark.parametrize(
    ("own", "boundaries"), [((1, 3, 5, 7), [5]), ((3, 5, 7), [5]), ((5, 7), [5]), ((7,), []), ((), [])]
)
def test_what_could_have_been_made_before_a_copied_answer_is_no_candidate(
    own: tuple[int, ...], boundaries: list[int]
):
    epoch = Epoch(tuple(messages(TWICE)), tuple(LLMCall(at) for at in own))
    made = candidates(epoch, RULES, tools.PI, None, copied=True)
    assert [one.boundary for one in made] == boundaries


def test_the_figures_of_a_candidate():
    (one,) = found(*TWICE)
    assert (one.call, one.boundary, one.state, one.position) == ("c1", 5, "mid_loop", 2)
    assert one.original_tokens == 225
    assert one.tail_tokens == 225 + 4 + 225, "from the output to the end of the request"
    assert one.remaining_calls == 2, "that of the boundary, and the one after the user spoke"
    assert 0 < one.tokens_removed < 225
    assert one.candidate.net_benefit(0.5) == 2 * 0.5 * one.tokens_removed - 0.5 * 454


@pytest.mark.parametrize(
    ("natives", "state", "boundary", "remaining"),
    [
        pytest.param(
            [*TWICE[:5], user(), assistant("on")], "idle", 6, 1, id="the user spoke before the next call"
        ),
        pytest.param([*TWICE[:5], assistant("on")], "mid_loop", 5, 1, id="the last call counts itself"),
        pytest.param(
            [*TWICE[:5], *(assistant("on") for _ in range(6))], "mid_loop", 5, 6, id="six calls followed"
        ),
    ],
)
def test_when_a_candidate_is_seen(natives: list[Native], state: str, boundary: int, remaining: int):
    (one,) = found(*natives)
    assert (one.state, one.boundary, one.remaining_calls) == (state, boundary, remaining)


@pytest.mark.parametrize(
    "natives",
    [
        pytest.param([], id="nothing"),
        pytest.param([user()], id="no answer"),
        pytest.param(TWICE[:5], id="what no LLM call followed"),
        pytest.param(flat(user(), read("c1", "a.py"), assistant("on")), id="one read alone"),
    ],
)
def test_where_there_is_no_candidate(natives: list[Native]):
    assert found(*natives) == []


def test_a_candidate_counts_once_however_often_it_is_proposed():
    thrice = flat(user(), *(read(f"c{at}", "a.py") for at in range(3)), *(assistant("on") for _ in range(3)))
    assert [(one.call, one.boundary) for one in found(*thrice)] == [("c0", 5), ("c1", 7)]


def test_the_turns_that_are_protected_delay_it():
    natives = [*TWICE, *flat(*((user(), assistant("on")) for _ in range(6)))]
    (one,) = found(*natives, rules=Rules(DEFAULTS))
    assert (one.state, one.boundary) == ("idle", 13), "the first turn is the fifth last"


SMALLEST = 200
"""Of smaller ones the length of markers decides, and ours are our own."""


def _figures(row: dict[str, Any]) -> tuple[Any, ...]:
    keys = ("strategy", "call", "boundary", "state", "position", "tailTokens", "remainingCalls")
    return tuple(row[key] for key in keys)


def _original_tokens(epoch: Epoch, row: tuple[Any, ...]) -> int:
    """The size of what a row of the extension's would replace."""
    parts: tuple[Part, ...] = epoch.messages[row[4]].parts
    for part in parts:
        if isinstance(part, ToolResult) and part.call_id == row[1]:
            return DOCUMENTED.content(part)
        if isinstance(part, ToolCall) and part.id == row[1]:
            return (len(part.text) + 3) // 4
    raise AssertionError(row)


@pytest.mark.corpus
def test_the_extensions_own_harness_finds_the_same(shared: Path):
    golden = json.loads((shared / "golden" / "benchmark-pi.json").read_bytes())
    compared = other = held = 0
    for session in golden["sessions"]:
        path = shared / "corpus" / "pi" / session["file"]
        (recording,) = corpus.load(Source(str(path), path.stat().st_size), compaction=False)
        (epoch,) = recording.epochs
        assert len(epoch.calls) == session["assistantCalls"], session["file"]
        ours = {
            (
                one.strategy,
                one.call,
                one.boundary,
                one.state,
                one.position,
                one.tail_tokens,
                one.remaining_calls,
            )
            for one in candidates(epoch, Rules(DEFAULTS), recording.vocabulary, recording.cwd)
            if one.original_tokens >= SMALLEST
        }
        theirs = {_figures(row) for row in session["candidates"]}
        large = {row for row in theirs if _original_tokens(epoch, row) >= SMALLEST}
        known = {row[1] for row in large}
        for row in ours - large:  # by what outputs hold, not by what was asked for: at another call
            assert row[0] == "superseded-file-ops", session["file"]
            assert row[1] in known, session["file"]
        other += len(ours - large)
        held += len(known - {row[1] for row in ours})
        compared += len(ours & large)
    assert (compared, other, held) == (165, 2, 2)
