"""Two-level masking: when it engages, what it may replace, and what a context is estimated at."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import build
from tests.build import (
    Native,
    assistant,
    bash,
    call,
    flat,
    image,
    other,
    read,
    result,
    shell,
    summary,
    usage,
    user,
)

from prunewise import settings, tools
from prunewise.masking import Context, Output, Outputs, cancels_compaction, engages
from prunewise.tokens import PI
from prunewise.transcript import SHELL_OUTPUT, TOOL_RESULT

# ---------------------------------------------------------------- engagement and the compaction check


@pytest.mark.parametrize(
    ("tokens", "engaged"), [(0, False), (83_999, False), (84_000, False), (84_001, True), (100_000, True)]
)
def test_it_engages_strictly_above_window_less_reserve(tokens: int, engaged: bool):
    assert engages(tokens, 100_000, 16_000) is engaged


@pytest.mark.parametrize(
    ("tokens", "savings", "cancelled"),
    [
        pytest.param(90_000, 22_000, True, id="exactly at window less twice the reserve"),
        pytest.param(90_000, 21_999, False, id="one token above"),
        pytest.param(90_000, 22_001, True, id="below"),
        pytest.param(68_000, 0, True, id="small enough without savings"),
        pytest.param(68_001, 0, False, id="too large without savings"),
        pytest.param(10, 90, True, id="more savings than context"),
    ],
)
def test_a_compaction_is_cancelled_at_or_below_window_less_twice_the_reserve(
    tokens: int, savings: int, cancelled: bool
):
    assert cancels_compaction(tokens, savings, 100_000, 16_000) is cancelled


# ---------------------------------------------------------------- what may be replaced

LEAST = 10  # tokens: 40 characters
AT_LIMIT, ABOVE = "x" * 40, "x" * 41


def outputs(*natives: Native | list[Native], **fields: Any) -> list[Output]:
    pruning = settings.Pruning(min_result_tokens=LEAST, **fields)
    return list(Outputs(pruning).advance(build.transcript(*natives)))


def calls(*natives: Native | list[Native], **fields: Any) -> list[str]:
    return [output.call_id for output in outputs(*natives, **fields)]


ELIGIBLE: dict[str, tuple[list[Native], list[str]]] = {
    # messages before the current turn; what may be replaced, by call id, or for a shell command by message
    "exactly minResultTokens stays": (bash("a", "x", AT_LIMIT), []),
    "one character more goes": (bash("a", "x", ABOVE), ["a"]),
    "size is in UTF-16 units": (bash("a", "x", "🙂" * 21), ["a"]),
    "texts are taken together": (bash("a", "x", "x" * 20, "x" * 20), ["a"]),
    "images do not count": (bash("a", "x", AT_LIMIT, image()), []),
    "images beside a large text": (bash("a", "x", ABOVE, image()), ["a"]),
    "failed ones too": (bash("a", "x", ABOVE, error=True), ["a"]),
    "any tool": ([*read("a", "f", ABOVE), *build.used("b", "grep", {}, ABOVE)], ["a", "b"]),
    "a result without a call stays": ([result("a", ABOVE)], []),
    "the second result of an id used twice stays": ([*bash("a", "x", ABOVE), *bash("a", "y", ABOVE)], ["a"]),
    "a command of the user, exactly at the limit": ([shell("x", AT_LIMIT)], []),
    "a command of the user": ([shell("x", ABOVE)], ["m0"]),
    "the command itself does not count": ([shell("x" * 400, AT_LIMIT)], []),
    "a command that is kept from the model": ([shell("x", ABOVE, excludeFromContext=True)], []),
    "inputs, notes, answers and users' texts stay": (
        [assistant(ABOVE, call("a", "x", text=ABOVE)), other(ABOVE), summary(ABOVE), user(ABOVE)],
        [],
    ),
    "in the order of their messages": (
        [
            assistant(call("a", "x"), call("b", "x")),
            result("b", ABOVE),
            shell("x", ABOVE),
            result("a", ABOVE),
        ],
        ["b", "m2", "a"],
    ),
}


@pytest.mark.parametrize(("natives", "expected"), ELIGIBLE.values(), ids=ELIGIBLE)
def test_what_is_eligible(natives: list[Native], expected: list[str]):
    assert calls(natives, user()) == expected


PROTECTED: dict[str, tuple[list[Native], list[str]]] = {
    "after the last user message": ([user(), *bash("a", "x", ABOVE)], []),
    "before it": ([user(), *bash("a", "x", ABOVE), user()], ["a"]),
    "on both sides": ([user(), *bash("a", "x", ABOVE), user(), *bash("b", "y", ABOVE)], ["a"]),
    "a command of the user after it": ([user(), shell("x", ABOVE)], []),
    "a note starts no turn": ([user(), *bash("a", "x", ABOVE), other(), summary()], []),
    "a result after the user message that came before it": (
        [user(), assistant(call("a", "x")), user(), result("a", ABOVE)],
        [],
    ),
    "without a user message all is the current turn": (bash("a", "x", ABOVE), []),
}


@pytest.mark.parametrize(("natives", "expected"), PROTECTED.values(), ids=PROTECTED)
def test_the_current_turn_is_protected(natives: list[Native], expected: list[str]):
    assert calls(natives) == expected


@pytest.mark.parametrize(("natives", "_"), PROTECTED.values(), ids=PROTECTED)
def test_the_current_turn_is_not_protected_where_settings_say_so(natives: list[Native], _: list[str]):
    everything = calls(natives, user())
    assert calls(natives, protect_current_turn=False) == everything != []


def test_an_output_knows_its_place_and_its_size():
    tool, command = outputs(bash("a", "x", ABOVE), shell("ls", ABOVE + "xxx"), user())
    assert (tool.message, tool.position, tool.part, tool.kind, tool.tokens) == ("m1", 1, 0, TOOL_RESULT, 11)
    assert (command.message, command.position, command.part, command.kind, command.tokens) == (
        "m2",
        2,
        0,
        SHELL_OUTPUT,
        11,
    )


def test_an_output_s_marker_is_made_from_what_it_is():
    tool, command = outputs(bash("a", "make", ABOVE), shell("ls", ABOVE, code=3), user())
    assert tool.marker(tools.PI, "#1").split("\n")[1] == "$ make"
    assert "exit code 3" in command.marker(tools.GENERIC, "#1")
    assert "bash output left out" in tool.marker(tools.Vocabulary({}), "#1")


BLOCKS = st.lists(
    st.sampled_from(
        [
            [user()],
            [shell("ls", ABOVE)],
            [assistant(call("late", "x"))],
            [result("late", ABOVE)],
            bash("a", "x", ABOVE),
            bash("b", "x", AT_LIMIT),
            read("c", "f", ABOVE),
        ]
    ),
    max_size=12,
).map(lambda blocks: flat(*blocks))


@given(BLOCKS, st.integers(1, 5), st.booleans())
def test_growing_gives_each_output_once(natives: list[Native], step: int, protect: bool):
    pruning = settings.Pruning(min_result_tokens=LEAST, protect_current_turn=protect)
    everything = build.transcript(natives)
    grown, source = build.transcript(), Outputs(pruning)
    given: list[Output] = []
    for start in range(0, len(natives), step):
        grown.extend(everything.messages[start : start + step])
        given += source.advance(grown)
    at_once = list(Outputs(pruning).advance(everything))
    assert sorted(given, key=lambda one: one.position) == at_once


# ---------------------------------------------------------------- the context estimate


def context(*natives: Native | list[Native]) -> Context:
    made = Context()
    made.advance(build.transcript(*natives))
    return made


X40 = "x" * 40  # 10 tokens

CONTEXTS: dict[str, tuple[list[Native], int]] = {
    "nothing": ([], 0),
    "without a usage every message by its estimate": ([user(X40), assistant(X40)], 20),
    "the last usage": ([user(X40), assistant(X40, usage=usage(5000))], 5000),
    "the last usage and what came after": (
        [user(X40), assistant(X40, usage=usage(5000)), user(X40), shell("x" * 20, "x" * 20)],
        5020,
    ),
    "of several usages the last": (
        [assistant(X40, usage=usage(9000)), user(X40), assistant(X40, usage=usage(5000)), user(X40)],
        5010,
    ),
    "an answer without a usage comes after": (
        [assistant(X40, usage=usage(5000)), user(X40), assistant(X40), user(X40)],
        5030,
    ),
    "a failed answer's usage is none": (
        [assistant(X40, usage=usage(5000)), assistant(X40, usage=usage(7), stopReason="error")],
        5010,
    ),
    "an aborted answer's usage is none": (
        [assistant(X40, usage=usage(5000)), assistant(X40, usage=usage(7), stopReason="aborted")],
        5010,
    ),
    "a usage of nothing is none": ([user(X40), assistant(X40, usage=usage(0))], 20),
    "a usage older than the summary is stale": (
        [summary(X40, timestamp=2000), assistant(X40, usage=usage(90_000), timestamp=1000), user(X40)],
        30,
    ),
    "a usage younger than the summary": (
        [
            summary(X40, timestamp=2000),
            assistant(X40, usage=usage(90_000), timestamp=1000),
            user(X40),
            assistant(X40, usage=usage(3000), timestamp=3000),
            user(X40),
        ],
        3010,
    ),
    "the latest of several summaries counts": (
        [
            summary(X40, timestamp=5000),
            summary(X40, timestamp=2000),
            assistant(X40, usage=usage(90_000), timestamp=3000),
        ],
        30,
    ),
    "a usage of unknown time": (
        [summary(X40, timestamp=2000), assistant(X40, usage=usage(3000))],
        3000,
    ),
    "a summary of unknown time": (
        [summary(X40), assistant(X40, usage=usage(3000), timestamp=1000)],
        3000,
    ),
}


@pytest.mark.parametrize(("natives", "estimate"), CONTEXTS.values(), ids=CONTEXTS)
def test_the_context_estimate(natives: list[Native], estimate: int):
    assert context(natives).estimate == estimate


def test_raw_is_every_message_whatever_the_usage_says():
    natives = [user(X40), assistant(X40, usage=usage(5000)), user(X40)]
    made = context(natives)
    assert made.raw == sum(PI.message(message) for message in build.messages(natives)) == 30
    assert (made.usage, made.usage_position, made.trailing) == (5000, 1, 10)


def test_without_a_usage_it_has_no_position():
    assert context([user(X40)]).usage_position == -1


@given(st.lists(st.integers(0, len(CONTEXTS) - 1), max_size=3), st.integers(1, 4))
def test_growing_gives_the_same_as_at_once(picks: list[int], step: int):
    natives = flat(*(list(CONTEXTS.values())[pick][0] for pick in picks))
    everything, grown, made = build.transcript(natives), build.transcript(), Context()
    for start in range(0, len(natives), step):
        grown.extend(everything.messages[start : start + step])
        made.advance(grown)
    whole = context(natives)
    assert (made.raw, made.estimate, made.usage_position) == (whole.raw, whole.estimate, whole.usage_position)
