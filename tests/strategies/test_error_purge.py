"""Error-input purge: the input of a failed call, once strictly older than so many turns."""

import pytest
from tests import build
from tests.build import Native, assistant, bash, call, other, result, shell, summary, turns, user

from prunewise import markers
from prunewise.strategies import ErrorPurge
from prunewise.transcript import TOOL_INPUT


def purged(messages: list[Native], min_turns_old: int = 4) -> list[str]:
    found = list(ErrorPurge(min_turns_old).advance(build.transcript(messages)))
    assert all(one.kind == TOOL_INPUT and one.reason == markers.FAILED_INPUT for one in found)
    return [one.exchange.call.id for one in found]


FAILED = bash("1", "x", "no", error=True)

CASES: dict[str, tuple[list[Native], list[str]]] = {
    "exactly 4 turns old stays": ([user(), *FAILED, *turns(4)], []),
    "5 turns old goes": ([user(), *FAILED, *turns(5)], ["1"]),
    "at once it stays": ([user(), *FAILED], []),
    "a success stays": ([user(), *bash("1", "x"), *turns(9)], []),
    "only user messages are turns": (
        [user(), *FAILED, *turns(4), assistant("x"), *bash("2", "y"), shell("ls", ""), other(), summary()],
        [],
    ),
    "before any turn": ([*FAILED, *turns(4)], []),
    "before any turn, five later": ([*FAILED, *turns(5)], ["1"]),
    "the call's turn counts, not the result's": (
        [user(), assistant(call("1", "x")), *turns(3), result("1", error=True), *turns(2)],
        ["1"],
    ),
    "without a result it stays": ([user(), assistant(call("1", "x")), *turns(9)], []),
    "each by its own age": (
        [user(), *FAILED, user(), *bash("2", "y", error=True), *turns(4)],
        ["1"],
    ),
    "several of one answer": (
        [
            user(),
            assistant(call("1", "x"), call("2", "x")),
            result("2", error=True),
            result("1", error=True),
            *turns(5),
        ],
        ["2", "1"],
    ),
    "a success beside a failure stays": (
        [user(), assistant(call("1", "x"), call("2", "x")), result("1", error=True), result("2"), *turns(5)],
        ["1"],
    ),
}


@pytest.mark.parametrize(("messages", "expected"), CASES.values(), ids=CASES)
def test_with_the_default_age(messages: list[Native], expected: list[str]):
    assert purged(messages) == expected


@pytest.mark.parametrize("age", [0, 1, 2, 7])
def test_strictly_older_than_the_setting_says(age: int):
    assert purged([user(), *FAILED, *turns(age)], age) == []
    assert purged([user(), *FAILED, *turns(age + 1)], age) == ["1"]


def test_it_waits_and_tells_each_finding_once():
    purge, transcript = ErrorPurge(1), build.transcript(user(), FAILED)
    found = []
    for number in range(4):
        found.append([one.exchange.call.id for one in purge.advance(transcript)])
        transcript.extend(build.messages([user(f"{number}")]))
    assert found == [[], [], ["1"], []]


def test_its_name_is_the_ledger_s():
    assert ErrorPurge.name == "error-purge"
