"""What each policy cuts, call by call: rules from documentation at their edges, and the engine's own runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.build import (
    LONG,
    Native,
    assistant,
    flat,
    image,
    messages,
    read,
    result,
    shell,
    user,
    with_settings,
)

from prunewise import InputError, tools
from prunewise.replay.policies import POLICIES, Conversation, Cut, Policy, named, of_settings, part_tokens
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, Message

PI = Conversation(tools.PI)


def fed(policy: Policy, *requests: int, of: Sequence[Message], conversation: Conversation = PI) -> list[Cut]:
    """The cuts of a policy that sees so many messages at each LLM call."""
    run = policy.start(conversation)
    cuts: list[Cut] = []
    for call, (start, end) in enumerate(zip((0, *requests), requests, strict=False)):
        cuts += run.step(of[start:end], call)
    return cuts


# ---- rules from documentation

# A read of a.py has 19 characters of name and arguments (pi: 5 tokens; documented: 15 characters, 4 tokens)
# and an output of 900 (225 tokens). Four of them are 4 x 230 = 920 tokens to the provider, and to LangChain,
# with three tokens for each message, 4 x (4 + 3 + 225 + 3) = 940. The user's message has the rest.


def four_reads(tokens: int) -> list[Message]:
    return messages(flat(user("x" * 4 * tokens), *(read(f"c{at}", "a.py") for at in range(4))))


@pytest.mark.parametrize(
    ("name", "prefix", "scale", "tokens", "cleared"),
    [
        pytest.param("clear-tool-uses", 0, 1, 99_080, [], id="at the trigger nothing goes"),
        pytest.param("clear-tool-uses", 0, 1, 99_081, [2], id="past it all but the newest three"),
        pytest.param("clear-tool-uses", 20_000, 1, 79_080, [], id="the whole prompt: at the trigger"),
        pytest.param("clear-tool-uses", 20_001, 1, 79_080, [2], id="the whole prompt: past it"),
        pytest.param("clear-tool-uses", 0, 2, 49_080, [], id="the provider's tokens: at the trigger"),
        pytest.param("clear-tool-uses", 0, 2, 49_081, [2], id="the provider's tokens: past it"),
        pytest.param("langchain", 0, 1, 99_057, [], id="langchain, at the trigger"),
        pytest.param("langchain", 0, 1, 99_058, [2], id="langchain, past it"),
        pytest.param("langchain", 50_000, 2, 99_057, [], id="langchain counts messages alone"),
        pytest.param("oldest-first", 0, 1, 99_999, [], id="oldest-first keeps ten"),
    ],
)
def test_when_a_rule_clears(name: str, prefix: float, scale: float, tokens: int, cleared: list[int]):
    conversation = Conversation(tools.PI, prefix=prefix, scale=scale)
    cuts = fed(POLICIES[name], 9, of=four_reads(tokens), conversation=conversation)
    assert [cut.position for cut in cuts] == cleared


@pytest.mark.parametrize(
    ("name", "marker", "after"),
    [
        ("clear-tool-uses", "[cleared to save context]", 7),
        ("langchain", "[cleared]", 3),
    ],
)
def test_what_a_rule_takes_out(name: str, marker: str, after: int):
    (cut,) = fed(POLICIES[name], 9, of=four_reads(100_000))
    assert cut == Cut(0, 2, 0, TOOL_RESULT, 225, after, name, marker)
    assert cut.removed == 225 - after


def test_past_its_trigger_a_rule_clears_one_more_with_each_result_and_none_twice():
    made = messages(flat(user("x" * 400_000), *(read(f"c{at}", "a.py") for at in range(7))))
    cuts = fed(POLICIES["langchain"], 1, 7, 9, 9, 13, 15, of=made)
    assert [(cut.call, cut.position) for cut in cuts] == [(2, 2), (4, 4), (4, 6), (5, 8)]


def test_what_is_cleared_counts_in_full_so_that_the_rule_stays_past_its_trigger():
    made = messages(flat(user(), *(read(f"c{at}", "a.py", "x" * 40_000) for at in range(14))))
    cuts = fed(POLICIES["clear-tool-uses"], *range(1, 30, 2), of=made)
    # Of 10,005 tokens each: the tenth result passes 100,000; from then on one goes with each call.
    assert [cut.call for cut in cuts] == [10] * 7 + [11, 12, 13, 14]


def test_a_result_smaller_than_the_placeholder_is_replaced_all_the_same():
    made = messages(flat(user("x" * 400_000), read("c0", "a.py", "ok"), *(read(f"c{n}", "b") for n in "123")))
    (cut,) = fed(POLICIES["langchain"], 9, of=made)
    assert (cut.position, cut.before, cut.after, cut.removed) == (2, 1, 3, -2)


def test_oldest_first_keeps_ten_from_the_first_call_on():
    made = messages(flat(user(), *(read(f"c{at}", "a.py") for at in range(12))))
    assert [cut.position for cut in fed(POLICIES["oldest-first"], 25, of=made)] == [2, 4]


def test_after_a_compaction_a_rule_counts_anew():
    run = POLICIES["langchain"].start(PI)
    assert len(run.step(four_reads(100_000), 0)) == 1
    run.begin()
    assert run.step(four_reads(10), 0) == []
    run.begin()
    assert [cut.position for cut in run.step(four_reads(100_000), 0)] == [2], "it is cleared again"


@pytest.mark.parametrize("name", list(POLICIES))
def test_where_there_is_nothing_nothing_goes(name: str):
    for start in (POLICIES[name].start, POLICIES[name].eager):
        run = start(PI)
        assert run.step([], 0) == []
        run.begin()
        assert run.step([], 0) == []


@pytest.mark.parametrize(
    ("name", "cuts"), [("none", 0), ("oldest-first", 0), ("clear-tool-uses", 1), ("langchain", 1)]
)
def test_the_supply_has_no_trigger(name: str, cuts: int):
    assert len(POLICIES[name].eager(PI).step(four_reads(10), 0)) == cuts


# ---- the engine

FREE: dict[str, Any] = {
    "protections": {"recentTurns": 0},
    "thresholds": {"minCharsSaved": 0},
    "pruning": {"enabled": False},
}


def free(name: str = "test", **more: Mapping[str, Any]) -> Policy:
    """The engine without protections, floor and masking."""
    return of_settings(name, with_settings({**FREE, **more}), "for a test")


TWICE = messages(
    flat(user(), read("c1", "a.py"), read("c2", "a.py"), assistant("on"), user(), assistant("on"))
)
"""The same file twice: the first result, of 225 tokens at 2, may go once the second is there, at 4."""


def test_a_cut_has_the_proposals_figures():
    (cut,) = fed(free(gate={"mode": "off"}), 1, 3, 5, 7, of=TWICE)
    assert (cut.call, cut.position, cut.part, cut.kind, cut.before) == (2, 2, 0, TOOL_RESULT, 225)
    assert cut.strategy in ("dedupe", "superseded-file-ops")
    assert cut.removed == 225 - (len(cut.marker) + 3) // 4


def test_the_gate_holds_back_what_the_supply_has():
    # The tail behind the result is 230 tokens at the least, against some 200 that go: at a ratio of 0.01
    # that takes a hundred calls.
    dear = free(gate={"cachedPriceRatio": 0.01})
    assert fed(dear, 1, 3, 5, 7, of=TWICE) == []
    assert [cut.position for cut in dear.eager(PI).step(TWICE[:5], 0)] == [2]


def test_a_policy_that_is_switched_off_cuts_nothing():
    off = of_settings("off", with_settings({**FREE, "enabled": False, "gate": {"mode": "off"}}), "")
    assert fed(off, 1, 3, 5, 7, of=TWICE) == []


def test_a_failed_calls_input_goes_as_an_input():
    failed = flat(user(), read("c1", "x" * 4000, "no such file", error=True), *(user() for _ in range(5)))
    policy = free(gate={"mode": "off"}, strategies={"errorPurge": {"minTurnsOld": 1}})
    (cut,) = fed(policy, len(failed), of=messages(failed))
    assert (cut.position, cut.kind, cut.strategy) == (1, TOOL_INPUT, "error-purge")
    assert cut.before == part_tokens(messages(failed)[1], 0) == (4011 + 3) // 4  # {"path":"..."}


def test_decisions_stand_in_what_a_compaction_kept():
    run = free(gate={"mode": "off"}).start(PI)
    (before,) = run.step(TWICE, 0)
    run.begin()
    kept = TWICE[1:]
    (after,) = run.step(kept, 0)
    assert (after.position, after.strategy) == (1, "standing"), "without the first message"
    assert (after.marker, after.before, after.removed) == (before.marker, before.before, before.removed)
    assert run.step([], 1) == [], "once an epoch"


def test_decisions_on_what_a_compaction_took_stand_nowhere():
    run = free(gate={"mode": "off"}).start(PI)
    run.step(TWICE, 0)
    run.begin()
    assert run.step(TWICE[5:], 0) == []


MASKED = messages(flat(user(), read("c1", "a.py", "x" * 8000), user(), read("c2", "b.py", "x" * 8000)))
"""Outputs of 2,000 tokens at 2 and at 5, the latter in the current turn."""


@pytest.mark.parametrize(
    ("window", "cut"),
    [
        pytest.param(5_000, [], id="there is room"),
        pytest.param(4_000, [2], id="the window is near: what is not of the current turn"),
    ],
)
def test_masking_begins_when_the_window_is_near(window: int, cut: list[int]):
    conversation = Conversation(tools.PI, window=window, reserve=0)
    made = fed(POLICIES["two-level"], 6, of=MASKED, conversation=conversation)
    assert [one.position for one in made] == cut
    assert all(one.strategy == "masking" and one.before == 2000 and one.kind == TOOL_RESULT for one in made)
    assert all(one.removed == 2000 - (len(one.marker) + 3) // 4 for one in made)


def test_masking_goes_on_once_it_has_begun_and_begins_anew_after_a_compaction():
    run = POLICIES["two-level"].start(Conversation(tools.PI, window=4_000, reserve=0))
    assert [cut.position for cut in run.step(MASKED, 0)] == [2]
    more = messages(flat(*MASKED_AS_PI, assistant("done"), user()))[6:]
    assert [cut.position for cut in run.step(more, 1)] == [5], "the turn is over"
    run.begin()
    assert run.step(MASKED[3:], 0) == [], "half the context is gone"


MASKED_AS_PI: list[Native] = flat(
    user(), read("c1", "a.py", "x" * 8000), user(), read("c2", "b.py", "x" * 8000)
)


def test_the_supply_of_masking_knows_no_window():
    assert [cut.position for cut in POLICIES["two-level"].eager(PI).step(MASKED, 0)] == [2]


# ---- sizes and names


@pytest.mark.parametrize(
    ("native", "tokens"),
    [
        pytest.param(result("c", "x" * 9), 3, id="a result: its text"),
        pytest.param(result("c", "x" * 9, image()), 1203, id="with an image"),
        pytest.param(read("c", "a.py")[0], 4, id="a call: its arguments"),
        pytest.param(assistant("x" * 9), 3, id="a text"),
        pytest.param(
            shell("ls", "x" * 9), 0, id="a command of the user's: not counted by the documented rule"
        ),
    ],
)
def test_the_size_of_a_part(native: Native, tokens: int):
    assert part_tokens(messages([native])[0], 0) == tokens


def test_every_policy_says_what_it_does_in_its_own_words():
    assert [policy.name for policy in POLICIES.values()] == list(POLICIES)
    assert len({policy.what for policy in POLICIES.values()}) == len(POLICIES)


def test_a_settings_file_is_a_policy(tmp_path: Path):
    file = tmp_path / "mine.json"
    file.write_bytes(msgspec.json.encode({**FREE, "gate": {"mode": "off"}}))
    policy = named(str(file))
    assert policy.name == "mine.json"
    assert [cut.position for cut in fed(policy, 1, 3, 5, 7, of=TWICE)] == [2]


def test_what_is_neither_a_policy_nor_a_file_is_said():
    with pytest.raises(
        InputError, match="'cheapest' is neither known nor a settings file; known policies: none,"
    ):
        named("cheapest")


def test_outputs_of_the_tests_are_as_long_as_they_say():
    assert len(LONG) == 900


# ---- recalls that a policy is told of

FILES = messages(
    flat(user(), *(read(f"r{n}", f"f{n}.py", f"file {n}\n" + "a line of text\n" * 400) for n in range(40)))
)


def test_only_the_priced_policy_learns_of_a_recall():
    for name in ("none", "documented", "langchain"):
        run = POLICIES[name].start(PI)
        run.step(FILES[:3], 0)
        run.recalled(Cut(0, 2, 0, TOOL_RESULT, 1000, 10, "test", "[left out]"))


def told_of(recall: int | None) -> list[Cut]:
    """The cuts of `priced` over forty reads where that of one read was missed at some call."""
    run = POLICIES["priced"].eager(PI)
    cuts: list[Cut] = []
    for call in range(40):
        made = run.step(FILES[2 * call + 1 : 2 * call + 3], call)
        cuts += made
        missed = [cut for cut in cuts if cut.position == 1]
        if missed and recall == call:
            run.recalled(missed[0])
    return cuts


def test_what_was_recalled_is_taken_out_again_later_and_only_its_marker_counts():
    untold, told = told_of(None), told_of(25)
    assert all(cut.again is None for cut in untold)
    (again,) = [cut for cut in told if cut.again is not None]
    first = next(cut for cut in told if cut.position == 1)
    assert (again.position, again.part, again.kind) == (first.position, first.part, first.kind)
    assert (again.call, again.again) == (35, 52), "ten calls later, where the recall stood"
    assert again.removed == -again.after < 0
    assert again.before == first.before
