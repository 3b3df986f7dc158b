"""What the engine drops because it would save too little."""

import pytest
from tests import build
from tests.build import LONG, Native, edit, flat, image, proposed, read, turns, used, user
from tests.engine.support import HUGE, INPUT, RESULT, data

from prunewise import markers
from prunewise.canonical import canonical
from prunewise.tokens import text_tokens, utf16_length


def duplicates(text: str, *more: Native) -> list[Native]:
    return flat(used("1", "x", {}, text, *more), used("2", "x", {}, text, *more))


def at_floor(floor: int) -> int:
    """The length of a text of which a duplicate's marker saves exactly `floor` characters."""
    return floor + utf16_length(markers.output("x", 999, markers.DUPLICATE, "#m1"))


@pytest.mark.parametrize("floor", [200, 333])
def test_the_floor_is_a_least_saving_in_characters(floor: int):
    exactly = at_floor(floor)
    assert proposed(build.engine(duplicates("x" * exactly), data=data(floor=floor))) == [
        ("dedupe", RESULT, "1")
    ]
    assert proposed(build.engine(duplicates("x" * (exactly - 1)), data=data(floor=floor))) == []


def test_the_default_floor_is_200():
    settings = {"protections": {"recentTurns": 0}}
    assert proposed(build.engine(duplicates("x" * at_floor(200)), data=settings)) != []
    assert proposed(build.engine(duplicates("x" * (at_floor(200) - 1)), data=settings)) == []


def test_the_floor_counts_utf16_units():
    exactly = at_floor(200) // 2 * 2
    floor = 200 - at_floor(200) % 2
    assert proposed(build.engine(duplicates("🙂" * (exactly // 2)), data=data(floor=floor))) != []
    assert proposed(build.engine(duplicates("🙂" * (exactly // 2)), data=data(floor=floor + 1))) == []


def test_several_texts_count_together_with_a_line_feed_between():
    exactly = at_floor(200)
    parts = ["x" * (exactly - 11), "y" * 10]
    natives = flat(used("1", "x", {}, *parts), used("2", "x", {}, *parts))
    assert proposed(build.engine(natives, data=data(floor=200))) != []
    assert proposed(build.engine(natives, data=data(floor=201))) == []


def test_the_floor_holds_for_inputs():
    def failed(length: int) -> list[Native]:
        return flat(user(), used("1", "x", {"c": "x" * length}, "no", error=True), turns(5))

    marker = markers.purged_input("x", 999, markers.FAILED_INPUT, "#m2")
    exactly = 200 + len(canonical({"pruned": marker})) - len('{"c":""}')
    assert proposed(build.engine(failed(exactly), data=data(floor=200))) == [("error-purge", INPUT, "1")]
    assert proposed(build.engine(failed(exactly - 1), data=data(floor=200))) == []


@pytest.mark.parametrize("content", [("",), ("short",), (LONG,), ()], ids=["empty", "short", "long", "alone"])
def test_results_that_hold_images_bypass_the_floor(content: tuple[str, ...]):
    natives = flat(used("1", "x", {}, *content, image()), used("2", "x", {}, *content, image()))
    engine = build.engine(natives, data=data(floor=5000))
    (proposal,) = engine.proposals
    texts_only = sum(text_tokens(text) for text in content)
    assert proposal.original_tokens == 1200 + texts_only
    assert proposal.tokens_removed == 1200 + texts_only - text_tokens(proposal.marker)


def test_images_do_not_bypass_the_floor_for_inputs():
    natives = flat(user(), used("1", "x", HUGE, "no", image(), error=True), turns(5))
    assert proposed(build.engine(natives, data=data(floor=5000))) == []


@pytest.mark.parametrize("length", [0, 1, 40, at_floor(0) - 1, at_floor(0)])
def test_a_marker_that_is_not_smaller_is_not_used(length: int):
    assert proposed(build.engine(duplicates("x" * length))) == []


def test_a_marker_that_is_a_token_smaller_is_used_without_a_floor():
    engine = build.engine(duplicates("x" * (at_floor(0) + 4)))
    assert [one.tokens_removed for one in engine.proposals] == [1]


def test_a_marker_that_saves_tokens_by_rounding_alone_is_not_used():
    # Thirty texts of a character each are thirty tokens, and fewer characters than a marker.
    many = ["x"] * 30
    natives = flat(used("1", "x", {}, *many), used("2", "x", {}, *many))
    assert proposed(build.engine(natives)) == []


def test_the_floor_comes_before_one_proposal_a_target():
    # Of this length superseded-file-ops passes the floor, whose marker is shorter, and dedupe does not.
    length = 200 + len(markers.output("read", 999, markers.CHANGED_AFTER, "#m1"))
    assert length < 200 + len(markers.output("read", 999, markers.DUPLICATE, "#m1"))
    natives = flat(read("1", "f", "x" * length), edit("2", "f"), read("3", "f", "x" * length))
    expected = [("superseded-file-ops", RESULT, "1")]
    assert proposed(build.engine(natives, data=data(floor=200))) == expected
    grown = build.engine(data=data(floor=200))
    for message in build.messages(natives):
        grown.extend([message])
    assert proposed(grown) == expected
