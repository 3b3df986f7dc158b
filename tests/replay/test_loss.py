import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import (
    Native,
    assistant,
    bash,
    call,
    flat,
    image,
    messages,
    read,
    result,
    thinking,
    used,
    user,
)

from prunewise import tools
from prunewise.formats.detect import read_recording
from prunewise.recording import Epoch, LLMCall
from prunewise.replay.loss import (
    LEFT_OUT,
    Loss,
    Needle,
    Tally,
    Watch,
    largest_first_cuts,
    losses,
    oldest_first_cuts,
    plant,
    random_cuts,
    summed,
)
from prunewise.replay.needs import Need, need_events
from prunewise.replay.policies import Cut
from prunewise.tokens import DOCUMENTED
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, Kind, Text, ToolCall, ToolResult

BASELINES = (random_cuts, oldest_first_cuts, largest_first_cuts)


def epoch(*natives: Native | Iterable[Native]) -> Epoch:
    """An epoch of pi's messages, in which each assistant message answers an LLM call."""
    made = tuple(messages(flat(*natives)))
    return Epoch(made, tuple(LLMCall(at) for at, message in enumerate(made) if message.role == "assistant"))


def cut(call: int, position: int, marker: str = LEFT_OUT, *, part: int = 0, kind: Kind = TOOL_RESULT) -> Cut:
    return Cut(call, position, part, kind, 1000, 10, "test", marker)


def lost(made: Epoch, *cuts: Cut) -> Loss:
    return losses(made, cuts, need_events(made, tools.PI))


OUTPUT = "found parse_header at last"
BODY = "def f():\n    return header.value\n"
CHANGE = used("e", "edit", {"path": "a.py", "oldText": "return header.value", "newText": "pass"}, "done")
ONE = epoch(bash("c", "run", OUTPUT), assistant("on"), assistant("parse_header"), assistant("parse_header"))
"""The result at 1 is used by LLM call 2."""
TWO = epoch(bash("c", "run", OUTPUT), bash("d", "run", OUTPUT), assistant("parse_header"))
"""The results at 1 and 3 are used by LLM call 2."""
EDIT = epoch(read("c", "a.py", BODY), CHANGE)
"""The read at 1 is used by LLM call 1: as a page and for a line."""


@pytest.mark.parametrize(
    ("made", "cuts", "expected"),
    [
        pytest.param(ONE, [], [], id="nothing is cut"),
        pytest.param(ONE, [cut(1, 1)], ["unique-reference"], id="the only source is cut before"),
        pytest.param(ONE, [cut(2, 1)], ["unique-reference"], id="or for this very request"),
        pytest.param(ONE, [cut(3, 1)], [], id="or after: nothing is lost"),
        pytest.param(ONE, [cut(1, 0, kind=TOOL_INPUT)], [], id="something else is cut"),
        pytest.param(ONE, [cut(1, 1, "see parse_header")], [], id="the marker shows the key"),
        pytest.param(ONE, [cut(1, 1, "see parse_headers")], ["unique-reference"],
            id="the marker shows another"),
        pytest.param(TWO, [cut(2, 1)], [], id="one of two sources is cut"),
        pytest.param(TWO, [cut(2, 1), cut(2, 3)], ["unique-reference"], id="both are"),
        pytest.param(TWO, [cut(2, 1), cut(2, 3, "parse_header")], [], id="one marker shows the key"),
        pytest.param(EDIT, [cut(1, 1)], ["page-fault", "edit-regret"],
            id="an edit lost its page and its line"),
        pytest.param(EDIT, [cut(1, 1, "2 | return header.value")], ["page-fault"],
            id="the marker shows the line"),
        pytest.param(
            EDIT, [cut(1, 1, "the return header.value was here")], ["page-fault", "edit-regret"],
            id="but as a line",
        ),
        pytest.param(EDIT, [cut(1, 1, "a.py")], ["page-fault", "edit-regret"], id="a path is no page"),
        pytest.param(ONE, [cut(3, 1), cut(2, 1)], ["unique-reference"], id="the first cut of a part counts"),
    ],
)  # fmt: skip
def test_what_is_lost(made: Epoch, cuts: list[Cut], expected: list[str]):
    assert [need.kind for need in lost(made, *cuts).faults] == expected


def test_an_input_is_a_source_like_any_other():
    made = epoch(bash("c", "grep parse_header", "none"), assistant("parse_header"))
    assert len(lost(made, cut(1, 0, kind=TOOL_INPUT)).faults) == 1


def test_the_order_of_needs_does_not_decide():
    made = epoch(bash("c", "run", OUTPUT), *(bash(f"d{at}", "grep parse_header", "none") for at in range(3)))
    needs = need_events(made, tools.PI)
    cuts = [cut(1, 1), *(cut(3, at, kind=TOOL_INPUT) for at in (2, 4))]
    assert [need.call for need in losses(made, cuts, needs).faults] == [1, 3]
    assert [need.call for need in losses(made, cuts, needs[::-1]).faults] == [3, 1]


# ---- recalls

THREE = epoch(
    bash("c", "run", f"{OUTPUT}, parse_footer, parse_margin"),
    assistant("parse_header"),
    assistant("parse_footer"),
    assistant("parse_margin"),
    assistant("on"),
)


def recalls(loss: Loss) -> list[tuple[int, int, int, int]]:
    return [(one.call, one.position, one.until, one.serves) for one in loss.recalls]


@pytest.mark.parametrize(
    ("made", "cuts", "expected"),
    [
        pytest.param(THREE, [], [], id="nothing lost"),
        pytest.param(THREE, [cut(1, 1)], [(1, 1, 5, 3)], id="a block comes back once, and stays"),
        pytest.param(THREE, [cut(2, 1)], [(2, 1, 5, 2)], id="for what was lost"),
        pytest.param(
            THREE, [cut(1, 1), cut(3, 1)], [(1, 1, 3, 2), (3, 1, 5, 1)], id="until it is cut again"
        ),
        pytest.param(
            THREE, [cut(1, 1), cut(1, 1), cut(2, 1)], [(1, 1, 2, 1), (2, 1, 5, 2)],
            id="cut twice at once is once",
        ),
        pytest.param(TWO, [cut(2, 1), cut(2, 3)], [(2, 3, 3, 1)], id="of several sources the newest"),
        pytest.param(EDIT, [cut(1, 1)], [(1, 1, 2, 2)], id="one block serves page and line"),
    ],
)  # fmt: skip
def test_what_has_to_come_back(made: Epoch, cuts: list[Cut], expected: list[tuple[int, int, int, int]]):
    loss = lost(made, *cuts)
    assert recalls(loss) == expected
    assert sum(one.serves for one in loss.recalls) == len(loss.faults)
    assert all(one.tokens == 1000 and one.strategy == "test" for one in loss.recalls)


def test_a_recall_serves_needs_of_other_sources_in_it():
    made = epoch(
        bash("c", "run", f"{OUTPUT}, parse_footer"),
        bash("d", "run", OUTPUT),
        assistant("parse_footer"),
        assistant("parse_header"),
    )
    assert recalls(lost(made, cut(2, 1), cut(2, 3))) == [(2, 1, 4, 2)]


def test_the_figures_of_a_session():
    tally = summed([lost(THREE, cut(1, 1)), lost(EDIT, cut(1, 1), cut(1, 0, kind=TOOL_INPUT)), lost(ONE)])
    assert tally == Tally(
        blocks=3,
        tokens=2970,
        faults={"page-fault": 1, "edit-regret": 1, "unique-reference": 3},
        recalls={"page-fault": 1, "edit-regret": 0, "unique-reference": 1},
        recalled_tokens=2000,
        needs=6,
        sessions=1,
    )
    both = tally + tally
    assert (both.blocks, both.sessions, both.faults["unique-reference"]) == (6, 2, 6)
    assert both.per_100_blocks(both.recalls) == pytest.approx(400 / 6)
    assert both.per_million_tokens(both.faults) == pytest.approx(10e6 / 5940)
    assert both.per_session(both.recalls) == 2
    assert Tally().per_100_blocks(Tally().faults) == 0


def test_the_worst_recalls_come_first():
    made = epoch(
        bash("c", "run", "first_word"),
        bash("d", "run", "second_word third_word"),
        bash("e", "run", "fourth_word"),
        assistant("first_word second_word third_word fourth_word"),
    )
    large = msgspec.structs.replace(cut(3, 5), before=2000)
    loss = lost(made, cut(3, 1), cut(3, 3), large)
    assert [(one.position, one.need.key) for one in loss.worst()] == [
        (3, "second_word"), (5, "fourth_word"), (1, "first_word"),
    ]  # fmt: skip
    assert loss.worst(1) == loss.worst()[:1]


# ---- histories

_WORDS = (
    "parse_header",
    "parseFooter",
    "ERR_4711",
    "src/lib/a.py",
    "return header.value",
    "nothing",
    "655361",
)


@st.composite
def histories(draw: st.DrawFn) -> Epoch:
    """Sessions in which words wander between results, arguments, texts and users."""

    def words() -> str:
        return "\n".join(draw(st.lists(st.sampled_from(_WORDS), max_size=4)))

    made: list[Native] = []
    for number in range(draw(st.integers(1, 12))):
        name = f"c{number}"
        match draw(st.sampled_from(("bash", "read", "edit", "both", "say", "user", "lost"))):
            case "bash":
                made += bash(name, words(), words() or "x", error=draw(st.booleans()))
            case "read":
                made += read(name, draw(st.sampled_from(("a.py", "b.py"))), words() or "x")
            case "edit":
                path = draw(st.sampled_from(("a.py", "b.py")))
                made += used(name, "edit", {"path": path, "oldText": words(), "newText": words()}, "ok")
            case "both":
                made.append(
                    assistant(thinking(words()), call(name, "bash", command="x"), call(f"{name}b", "shot"))
                )
                made += [result(name, words(), "more", name="bash"), result(f"{name}b", image(), name="shot")]
            case "say":
                made.append(assistant(words()))
            case "user":
                made.append(user(words()))
            case _:
                made.append(result("nobody", words()))
    made.append(assistant(words()))
    return epoch(made)


def parts(made: Epoch) -> list[tuple[int, int, Kind, int]]:
    """All parts that can be cut: position, index, kind, size."""
    return [
        (position, index, TOOL_RESULT, DOCUMENTED.content(part))
        if isinstance(part, ToolResult)
        else (position, index, TOOL_INPUT, len(part.text) // 4)
        for position, message in enumerate(made.messages)
        for index, part in enumerate(message.parts)
        if isinstance(part, (ToolResult, ToolCall))
    ]


@st.composite
def cut_histories(draw: st.DrawFn) -> tuple[Epoch, list[Cut]]:
    made = draw(histories())
    cuts: list[Cut] = []
    for position, index, kind, tokens in (
        draw(st.lists(st.sampled_from(parts(made)), max_size=10)) if parts(made) else ()
    ):
        after = [number for number, one in enumerate(made.calls) if one.position > position]
        if after:
            marker = draw(st.sampled_from((LEFT_OUT, *_WORDS)))
            cuts.append(
                Cut(draw(st.sampled_from(after)), position, index, kind, tokens + 20, 5, "test", marker)
            )
    return made, cuts


def first_cuts(cuts: Iterable[Cut]) -> list[Cut]:
    """The first cut of each part."""
    found: dict[tuple[int, int], Cut] = {}
    for one in sorted(cuts, key=lambda one: one.call):
        found.setdefault((one.position, one.part), one)
    return list(found.values())


@given(cut_histories(), st.data())
def test_more_cuts_never_lose_less(history: tuple[Epoch, list[Cut]], data: st.DataObject):
    made, cuts = history
    firsts = first_cuts(cuts)
    fewer = data.draw(st.lists(st.sampled_from(firsts), unique=True)) if firsts else []
    assert set(lost(made, *fewer).faults) <= set(lost(made, *firsts).faults)


@given(cut_histories())
def test_earlier_cuts_never_lose_less(history: tuple[Epoch, list[Cut]]):
    made, cuts = history
    firsts = first_cuts(cuts)
    earlier = [msgspec.structs.replace(one, call=0) for one in firsts]
    assert set(lost(made, *firsts).faults) <= set(lost(made, *earlier).faults)


@given(cut_histories())
def test_markers_that_show_everything_lose_pages_only(history: tuple[Epoch, list[Cut]]):
    made, cuts = history
    shown = [msgspec.structs.replace(one, marker="\n".join(_WORDS)) for one in cuts]
    assert {need.kind for need in lost(made, *shown).faults} <= {"page-fault"}


@given(histories())
def test_cutting_nothing_loses_nothing(made: Epoch):
    assert lost(made) == Loss((), (), Tally(needs=len(need_events(made, tools.PI)), **_NOTHING))


_NOTHING = {
    kind: {"page-fault": 0, "edit-regret": 0, "unique-reference": 0} for kind in ("faults", "recalls")
}


@given(cut_histories())
def test_faults_are_as_their_definition_says(history: tuple[Epoch, list[Cut]]):
    """The detector's short cuts against the definition, place by place."""
    made, cuts = history
    needs = need_events(made, tools.PI)
    firsts = {(one.position, one.part): one for one in first_cuts(cuts)}

    def gone(need: Need) -> bool:
        found = [firsts.get((place.position, place.part)) for place in need.sources]
        return all(
            one is not None
            and one.call <= need.call
            and (need.kind == "page-fault" or need.key not in one.marker)
            for one in found
        )

    loss = losses(made, cuts, needs)
    assert list(loss.faults) == [need for need in needs if gone(need)]
    assert list(losses(made, cuts, needs[::-1]).faults) == [need for need in needs[::-1] if gone(need)]
    assert sum(one.serves for one in loss.recalls) == len(loss.faults)
    assert len(loss.recalls) <= len(cuts)


# ---- equal tokens


@pytest.mark.parametrize("baseline", BASELINES)
@given(history=cut_histories())
def test_a_baseline_has_cut_as_much_by_every_call(baseline: type, history: tuple[Epoch, list[Cut]]):
    made, cuts = history
    firsts = first_cuts(cuts)
    found: Sequence[Cut] = baseline(made, firsts, "session")
    assert baseline(made, firsts[::-1], "session") == found
    places = [(one.position, one.part) for one in found]
    assert len(set(places)) == len(places)
    for number in range(len(made.calls)):
        owed = sum(one.removed for one in firsts if one.call <= number)
        out = sum(one.removed for one in found if one.call <= number)
        sent = made.calls[number - 1].position if number else 0
        if any(one.call == number for one in firsts) and out < owed:
            left = [
                tokens
                for position, index, kind, tokens in parts(made)
                if kind == TOOL_RESULT and position < sent and (position, index) not in places
            ]
            assert all(tokens <= found[0].after if found else tokens <= 5 for tokens in left)
    for one in found:
        assert made.calls[one.call - 1].position > one.position
        assert one.removed > 0


def sized(*sizes: int) -> Epoch:
    """Results of so many tokens, at positions 1, 3, 5, and one call more."""
    return epoch(*(bash(f"c{at}", "run", "x" * 4 * size) for at, size in enumerate(sizes)), assistant("on"))


def test_the_order_in_which_results_go():
    made = sized(100, 300, 200, 50)
    wanted = [Cut(3, 1, 0, TOOL_RESULT, 260, 10, "test", "")]
    assert [one.position for one in oldest_first_cuts(made, wanted)] == [1, 3]
    assert [one.position for one in largest_first_cuts(made, wanted)] == [3]
    draws = {tuple(one.position for one in random_cuts(made, wanted, str(seed))) for seed in range(30)}
    assert {(3,), (1, 3)} <= draws
    assert all(5 not in draw for draw in draws)  # not sent before that call
    assert oldest_first_cuts(made, wanted)[0] == Cut(3, 1, 0, TOOL_RESULT, 100, 5, "oldest-first", LEFT_OUT)


def test_what_was_cut_too_much_counts_the_next_time():
    made = sized(100, 300, 200, 50)
    wanted = [Cut(2, 1, 0, TOOL_RESULT, 60, 10, "test", ""), Cut(4, 3, 0, TOOL_RESULT, 60, 10, "test", "")]
    assert [(one.call, one.position) for one in oldest_first_cuts(made, wanted)] == [(2, 1), (4, 3)]
    assert [
        (one.call, one.position)
        for one in oldest_first_cuts(made, [*wanted[:1], Cut(4, 3, 0, TOOL_RESULT, 40, 10, "test", "")])
    ] == [(2, 1)]


# ---- planted needles


def cut_all(needles: Sequence[Needle], *, marker: str = LEFT_OUT) -> list[Cut]:
    """Each needle's block cut at its use; the blocks that hold copies stay."""
    kept = {needle.kept for needle in needles}
    return [
        Cut(needle.call, *needle.place, 1000, 10, "test", marker)
        for needle in needles
        if needle.place not in kept
    ]


def check(made: Epoch, vocabulary: tools.Vocabulary, seed: str, most: int = 20) -> tuple[int, int]:
    """Plant, cut, and see that the losses are found and the controls are not: how many of each."""
    planted, needles = plant(made, seed, vocabulary, most=most)
    assert plant(made, seed, vocabulary, most=most) == (planted, needles)
    needs = need_events(planted, vocabulary)
    kept = {needle.kept for needle in needles}
    found = {(need.kind, need.call, need.key) for need in losses(planted, cut_all(needles), needs).faults}
    losers = [needle for needle in needles if needle.copy == "none" and needle.place not in kept]
    controls = [needle for needle in needles if needle.copy != "none"]
    for needle in losers:
        assert (needle.kind, needle.call, needle.key) in found, needle
        marked = cut_all([needle], marker=f"kept:\n{needle.key}\n")
        shown = {need.key for need in losses(planted, marked, needs).faults}
        assert (needle.key in shown) == (needle.kind == "page-fault")
    for needle in controls:
        assert needle.key not in {key for _, _, key in found}, needle
    whole = {(need.kind, need.call, need.key) for need in losses(planted, [], needs).faults}
    assert whole == set()
    return len(losers), len(controls)


@given(histories(), st.integers(0, 1000).map(str))
def test_planted_losses_are_found_and_controls_are_not(made: Epoch, seed: str):
    check(made, tools.PI, seed, most=6)


def test_needles_of_every_kind_are_planted():
    made = epoch(user("go"), *(bash(f"c{at}", "run", OUTPUT) for at in range(12)), assistant("done"))
    kinds: set[tuple[str, str]] = set()
    for seed in range(10):
        _, needles = plant(made, str(seed), tools.PI)
        assert len(needles) == 20
        kinds |= {(needle.kind, needle.copy) for needle in needles}
    strings = {
        (kind, copy) for kind in ("edit-regret", "unique-reference") for copy in ("none", "user", "result")
    }
    assert kinds == strings | {("page-fault", "none")}


def test_without_file_tools_there_are_no_page_needles():
    made = epoch(user("go"), *(bash(f"c{at}", "run", OUTPUT) for at in range(12)), assistant("done"))
    for seed in range(5):
        assert all(needle.kind != "page-fault" for needle in plant(made, str(seed), tools.SWE_AGENT)[1])
        check(made, tools.SWE_AGENT, str(seed))


def test_where_there_is_no_room_nothing_is_planted():
    made = epoch(user("go"), assistant("done"))
    assert plant(made, "s", tools.PI) == (made, ())


def test_planting_moves_nothing():
    made = epoch(user("go"), *(bash(f"c{at}", "run", OUTPUT, image()) for at in range(5)), assistant("done"))
    planted, _ = plant(made, "s", tools.PI)
    for old, new in zip(made.messages, planted.messages, strict=True):
        assert [type(part) for part in new.parts[: len(old.parts)]] == [type(part) for part in old.parts]
        assert (new.role, new.id) == (old.role, old.id)
        for before, after in zip(old.parts, new.parts, strict=False):
            if isinstance(before, ToolResult):
                assert isinstance(after, ToolResult)
                assert [part for part in after.content if not isinstance(part, Text)] == list(
                    before.content[1:]
                )


@pytest.mark.corpus
def test_planted_losses_are_found_in_recorded_sessions(shared: Path):
    files = sorted((shared / "corpus").glob("*/*.json*"))
    if not files:
        pytest.skip("needs recorded sessions")
    random.Random(1).shuffle(files)
    totals = [0, 0]
    for path in files[:40]:
        recording = read_recording(path.name, path.read_bytes())
        for number, one in enumerate(recording.epochs):
            counts = check(one, recording.vocabulary, f"{path.name}:{number}")
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
    assert totals[0] > 200
    assert totals[1] > 50


# ---- recalls while cuts are still being made


def watched(made: Epoch, needs: Sequence[Need], cuts: Iterable[Cut]) -> list[tuple[int, int, int]]:
    """Call, position and part of each recall that a watch tells of."""
    watch = Watch(needs)
    due = sorted(cuts, key=lambda cut: (cut.call, cut.position, cut.part))
    return [
        (call, cut.position, cut.part)
        for call in range(len(made.calls))
        for cut in watch.step(call, [cut for cut in due if cut.call == call])
    ]


@given(st.integers(0, 10_000), st.integers(0, 6))
def test_a_watch_tells_of_the_recalls_that_are_found_in_the_end(seed: int, most: int):
    draw = random.Random(seed)
    steps = [bash(f"c{n}", "run", f"out {n}\n{BODY}") for n in range(6)]
    made, _ = plant(epoch(user(), *steps, assistant("so"), CHANGE, assistant("end")), str(seed), tools.PI)
    places = [at for at, message in enumerate(made.messages) if type(message.parts[0]) is ToolResult]
    cuts = [cut(draw.randrange(len(made.calls)), draw.choice(places)) for _ in range(most)]
    needs = need_events(made, tools.PI)
    told = [(one.call, one.position, one.part) for one in losses(made, cuts, needs).recalls]
    assert watched(made, needs, cuts) == told
