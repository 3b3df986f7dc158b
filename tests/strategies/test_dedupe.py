"""Deduplication: of each group of equal calls the newest and the newest successful one stay."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import build
from tests.build import Native, assistant, call, result, used, user

from prunewise import markers, tools
from prunewise.strategies import Dedupe
from prunewise.transcript import TOOL_RESULT

A = {"path": "f"}


def ok(id: str) -> list[Native]:
    return used(id, "grep", A)


def failed(id: str) -> list[Native]:
    return used(id, "grep", A, error=True)


def doubtful(id: str) -> list[Native]:
    return used(id, "grep", A, "Error: no such file")


CASES: dict[str, tuple[list[list[Native]], set[str]]] = {
    # messages; the calls whose results are stale
    "one call": ([ok("1")], set()),
    "two": ([ok("1"), ok("2")], {"1"}),
    "five: all but the newest": ([ok(str(n)) for n in range(5)], {"0", "1", "2", "3"}),
    "the newest failed: the newest successful one stays too": ([ok("1"), ok("2"), failed("3")], {"1"}),
    "one success, then one failure": ([ok("1"), failed("2")], set()),
    "one failure, then one success": ([failed("1"), ok("2")], {"1"}),
    "failures alone: the newest stays": ([failed("1"), failed("2"), failed("3")], {"1", "2"}),
    "a failure between successes": ([ok("1"), failed("2"), ok("3")], {"1", "2"}),
    "failures after a success": ([ok("1"), failed("2"), failed("3")], {"2"}),
    "failures around a success": ([failed("1"), ok("2"), failed("3")], {"1"}),
    "failures after one that may have failed": ([doubtful("1"), failed("2"), failed("3")], {"2"}),
    "a failure after one that may have failed": ([doubtful("1"), failed("2")], set()),
    "both after a success": ([ok("1"), doubtful("2"), failed("3")], set()),
    "a success after both": ([failed("1"), doubtful("2"), ok("3")], {"1", "2"}),
    "two that may have failed": ([doubtful("1"), doubtful("2"), failed("3")], {"1"}),
    "other arguments": ([ok("1"), used("2", "grep", {"path": "g"})], set()),
    "more arguments": ([ok("1"), used("2", "grep", {"path": "f", "limit": 1})], set()),
    "another tool": ([ok("1"), used("2", "find", A)], set()),
    "letter case of the tool's name": ([ok("1"), used("2", "GREP", A), used("3", "Grep", A)], {"1", "2"}),
    "letter case of arguments counts": ([ok("1"), used("2", "grep", {"path": "F"})], set()),
    "the order of keys": (
        [used("1", "x", {"b": 1, "a": {"d": 2, "c": 3}}), used("2", "x", {"a": {"c": 3, "d": 2}, "b": 1})],
        {"1"},
    ),
    "the order of a list counts": ([used("1", "x", {"a": [1, 2]}), used("2", "x", {"a": [2, 1]})], set()),
    "1 and 1.0 are one number": ([used("1", "x", {"n": 1}), used("2", "x", {"n": 1.0})], {"1"}),
    "1 and true are not": ([used("1", "x", {"n": 1}), used("2", "x", {"n": True})], set()),
    "1 and the text 1 are not": ([used("1", "x", {"n": 1}), used("2", "x", {"n": "1"})], set()),
    "null and absent are not": ([used("1", "x", {"n": None}), used("2", "x", {})], set()),
    "no arguments": ([used("1", "x", {}), used("2", "x", {})], {"1"}),
    "other outputs of equal calls are stale too": (
        [used("1", "x", A, "old"), used("2", "x", A, "new")],
        {"1"},
    ),
    "images alone": ([used("1", "x", A, build.image()), used("2", "x", A, build.image())], {"1"}),
    "a newer call in flight": ([ok("1"), [assistant(call("2", "grep", A))]], set()),
    "an older call in flight": ([[assistant(call("1", "grep", A))], ok("2")], set()),
    "a result without a call": ([ok("1"), [result("2", name="grep")]], set()),
    "user messages in between": ([ok("1"), [user()], ok("2")], {"1"}),
    "parallel calls": (
        [[assistant(call("1", "grep", A), call("2", "grep", A)), result("1"), result("2")]],
        {"1"},
    ),
    "parallel calls, results in another order: the call order counts": (
        [[assistant(call("1", "grep", A), call("2", "grep", A)), result("2"), result("1")]],
        {"1"},
    ),
    "three parallel calls, results in another order, the newest failed": (
        [
            [assistant(*(call(one, "grep", A) for one in "123"))],
            [result("3", error=True), result("1"), result("2")],
        ],
        {"1"},
    ),
    "an old call that fails late": (
        [
            [
                assistant(call("1", "grep", A)),
                assistant(call("2", "grep", A)),
                result("2"),
                result("1", error=True),
            ]
        ],
        {"1"},
    ),
    "an old call that succeeds late": (
        [
            [
                assistant(call("1", "grep", A)),
                assistant(call("2", "grep", A)),
                result("2", error=True),
                result("1"),
            ]
        ],
        set(),
    ),
    "two groups": ([ok("1"), used("2", "x", A), ok("3"), used("4", "x", A)], {"1", "2"}),
}


@pytest.mark.parametrize(("messages", "stale"), CASES.values(), ids=CASES)
def test_what_is_stale(messages: list[list[Native]], stale: set[str]):
    found = list(Dedupe().advance(build.transcript(*messages)))
    assert sorted(one.exchange.call.id for one in found) == sorted(stale)
    assert all(one.kind == TOOL_RESULT and one.reason == markers.DUPLICATE for one in found)


STUBS = msgspec.structs.replace(tools.PI, unchanged_stubs=("unchanged",))

TOLD: dict[str, tuple[list[str], set[str]]] = {
    # what each of equal calls gave, none of them flagged; the calls whose results are stale
    "the newest reads like a failure": (["all of it", "Error: EACCES"], set()),
    "a failure between": (["all of it", "Error: EACCES", "all of it, changed"], {"0", "1"}),
    "failures alone": (["Error: 1", "Error: 2"], {"0"}),
    "a count of errors is none": (["all of it", "Errors: 0, warnings: 3"], {"0"}),
    "the newest was cut short": (["all of it", "some of it\n[200 lines truncated]"], set()),
    "all were cut short": (["1\n[200 lines truncated]", "2\n[200 lines truncated]"], {"0"}),
    "a whole one, a cut one, a failure": (["all", "some\n[9 lines omitted]", "Error: x"], set()),
    "a stub": (["all of it", "[the same as before; content omitted]"], set()),
    "a preview": (["all of it", "<persisted-output>\nPreview:\nall"], set()),
}


@pytest.mark.parametrize(("outputs", "stale"), TOLD.values(), ids=TOLD)
def test_the_newest_whole_and_successful_one_stays(outputs: list[str], stale: set[str]):
    natives = [used(str(number), "read", A, output) for number, output in enumerate(outputs)]
    assert {one.exchange.call.id for one in Dedupe().advance(build.transcript(*natives))} == stale


REFERRING: dict[str, tuple[list[list[Native]], set[str]]] = {
    "a note that the file is unchanged does not stand for its content": (
        [used("1", "x", A, "all of it"), used("2", "x", A, "unchanged since")],
        set(),
    ),
    "a read behind the note does": (
        [used("1", "x", A, "all of it"), used("2", "x", A, "unchanged since"), used("3", "x", A, "new")],
        {"1"},
    ),
}


@pytest.mark.parametrize(("messages", "stale"), REFERRING.values(), ids=REFERRING)
def test_results_that_refer_back(messages: list[list[Native]], stale: set[str]):
    found = Dedupe().advance(build.transcript(*messages, vocabulary=STUBS))
    assert {one.exchange.call.id for one in found} == stale


def test_it_tells_each_finding_once():
    dedupe, transcript = Dedupe(), build.transcript(ok("1"), ok("2"))
    assert len(list(dedupe.advance(transcript))) == 1
    assert list(dedupe.advance(transcript)) == []
    transcript.extend(build.messages(ok("3")))
    assert [one.exchange.call.id for one in dedupe.advance(transcript)] == ["2"]


def test_its_name_is_the_ledger_s():
    assert Dedupe.name == "dedupe"


OUTCOMES = st.lists(
    st.tuples(st.sampled_from(["grep", "Grep", "find"]), st.integers(0, 2), st.booleans()), max_size=20
)


@given(OUTCOMES, st.randoms(use_true_random=False))
def test_of_each_group_the_newest_and_the_newest_successful_one_stay(outcomes, random):  # noqa: ANN001
    calls = [call(str(n), name, n=argument) for n, (name, argument, _) in enumerate(outcomes)]
    results = [result(str(n), error=error) for n, (_, _, error) in enumerate(outcomes)]
    random.shuffle(results)
    stale = {one.exchange.call.id for one in Dedupe().advance(build.transcript(assistant(*calls), results))}
    groups: dict[tuple[str, int], list[int]] = {}
    for number, (name, argument, _) in enumerate(outcomes):
        groups.setdefault((name.lower(), argument), []).append(number)
    kept: set[int] = set()
    for members in groups.values():
        kept.add(members[-1])
        kept.update([number for number in members if not outcomes[number][2]][-1:])
    assert stale == {str(number) for number in range(len(outcomes))} - {str(number) for number in kept}
