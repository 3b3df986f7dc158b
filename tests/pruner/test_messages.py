"""Messages that come again, in another shape or as others."""

import copy
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.build import LONG, Native, assistant, bash, flat, read, turns, used, user
from tests.pruner.support import EAGER, HUGE, MASKING, placed, pruner_of, twice_read

from prunewise import Policy, Pruner
from prunewise.transcript import Text


def block(value: str, **fields: Any) -> Native:
    return {"type": "text", "text": value, **fields}


def anthropic_turns() -> list[Native]:
    """Two reads of one file through the Messages API, and a word of the user's after each."""
    history: list[Native] = [{"role": "user", "content": "go"}]
    for number in ("c1", "c2"):
        arguments = {"path": "a.py"}
        called = {"type": "tool_use", "id": number, "name": "read_file", "input": arguments}
        answered = {"type": "tool_result", "tool_use_id": number, "content": LONG}
        history += {"role": "assistant", "content": [called]}, {"role": "user", "content": [answered]}
        history.append({"role": "user", "content": f"after {number}"})
    return history


BREAKPOINT = {"cache_control": {"type": "ephemeral"}}


def told_anew(history: list[Native], at: int) -> list[Native]:
    """The same as a client sends it: everything decoded anew, the breakpoint on one message."""
    history = copy.deepcopy(history)
    content = history[at]["content"]
    blocks = [block(content)] if isinstance(content, str) else content
    history[at] = {**history[at], "content": [*blocks[:-1], {**blocks[-1], **BREAKPOINT}]}
    return history


def test_a_message_that_comes_again_in_another_shape_is_as_it_was():
    history = anthropic_turns()
    pruner = Pruner("anthropic", Policy(EAGER))
    pruner.project(told_anew(history[:4], 3))
    before = pruner.transcript
    first = pruner.project(told_anew(history, 6))
    assert pruner.transcript is before, "the conversation only grew"
    assert list(placed(first)) == [2]
    for at in (6, 2, 4):
        sent = told_anew(history, at)
        done = pruner.project(sent)
        assert pruner.transcript is before
        assert (done.decisions, done.changed, done.edits) == ((), False, first.edits)
        assert done.request[2]["content"] == [{**sent[2]["content"][0], "content": first.edits[0].text}], (
            "the breakpoint is where the client put it now"
        )
        assert [at for at, one in enumerate(done.request) if one is not sent[at]] == [2]
    again = pruner.project(copy.deepcopy(history))
    assert "cache_control" not in str(again.request)


def test_an_edited_message_that_comes_again_in_equal_parts_goes_out_as_it_went():
    history = anthropic_turns()
    pruner = Pruner("anthropic", Policy(EAGER))
    first = pruner.project(history)
    assert pruner.project(copy.deepcopy(history)).request[2] is first.request[2]


def test_shape_counts_for_nothing_where_a_message_is_another():
    history = anthropic_turns()
    pruner = Pruner("anthropic", Policy(EAGER))
    pruner.project(told_anew(history, 3))
    before = pruner.transcript
    changed = told_anew(history, 1)
    changed[3]["content"] = "something else"
    pruner.project(changed)
    assert pruner.transcript is not before
    assert pruner.transcript.messages[3].parts == (Text("something else"),)


def test_a_message_of_another_id_is_another():
    history = twice_read()
    pruner = pruner_of()
    pruner.project(history, ids=[f"a{at}" for at in range(len(history))])
    pruner.project(copy.deepcopy(history), ids=["a0", "b1", *[f"a{at}" for at in range(2, len(history))]])
    assert [message.id for message in pruner.transcript.messages[:3]] == ["a0", "b1", "a2"]


# Requests of Claude Code that a gateway in front had pruned already are none of this.
CLAUDE = ("claude", "claude2_opus48", "claude2_reread", "claude2_sonnet", "claude_mcp_eager")


@pytest.mark.corpus
@pytest.mark.parametrize("client", CLAUDE)
def test_the_recorded_requests_of_claude_code_only_grow(shared: Path, client: str):
    lines = (shared / "clients" / "recordings" / client / "requests.jsonl").read_text().splitlines()
    logged = [json.loads(line) for line in lines]
    bodies = [one["body"] for one in logged if "count_tokens" not in one["path"] and one["body"]]
    bodies = [body for body in bodies if body.get("tools")]
    pruner = Pruner("anthropic", Policy(EAGER))
    pruner.project(bodies[0])
    first = pruner.transcript
    for before, body in pairwise(bodies):
        done = pruner.project(body)
        assert pruner.transcript is first
        assert done.error is None
        assert before["messages"] != body["messages"][: len(before["messages"])], "they do change shape"
    assert pruner.transcript.llm_calls == len(bodies) - 1


def test_what_is_masked_stays_masked_where_only_the_last_message_changes():
    """A host may move a breakpoint, or send the last message anew: what lies before keeps its bytes."""
    pruner = pruner_of(data={**EAGER, "protections": {"recentTurns": 4}})
    history = flat(
        user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py", HUGE), assistant("on"), turns(2)
    )
    masked = placed(pruner.project(history, window=100, reserve=0))
    assert sorted(masked) == [2, 5]
    for last in ("another", "and again, with more in it"):
        history = flat(history[:-1], user(last), turns(4))
        done = pruner.project(history, window=100, reserve=0)
        assert done.decisions == ()
        assert placed(done) == masked
        assert not done.changed
    shorter = pruner.project(history[:8], window=10**6, reserve=0)
    assert not pruner.engaged
    assert shorter.masked == 0, "the conversation got smaller: it runs raw again"


def test_what_is_masked_in_a_turn_that_is_open_again_is_not():
    pruner = pruner_of(data=MASKING)
    history = flat(user("x" * 40_000), bash("c1", "make", HUGE), assistant("on"), user())
    assert list(placed(pruner.project(history, window=100, reserve=0))) == [2]
    again = flat(history[:3], used("c2", "fetch", {}, HUGE * 2))
    assert placed(pruner.project(again, window=100, reserve=0)) == {}
