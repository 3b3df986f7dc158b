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
from tests.replay.needles import Needle, plant

from prunewise import tools
from prunewise.condense import without_noise
from prunewise.formats.detect import read_recording
from prunewise.recording import Epoch, LLMCall
from prunewise.replay.loss import (
    LEFT_OUT,
    Loss,
    Tally,
    Watch,
    largest_first_cuts,
    losses,
    oldest_first_cuts,
    random_cuts,
    summed,
)
from prunewise.replay.needs import DETECTOR, KINDS, UPPER, Evidence, Need, Ruler, need_events
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


LATER = Ruler("later", {"page": 1, "old-line": 1, "reference": 1})
"""Any one of these, after the first answer: what most tests here are about."""


def lost(made: Epoch, *cuts: Cut, ruler: Ruler = LATER) -> Loss:
    return losses(made, cuts, need_events(made, tools.PI), ruler)


def kinds_of(loss: Loss, ruler: Ruler = LATER) -> list[list[str]]:
    """Of each need that was lost the kinds of its evidence, lost or not."""
    return [[one.kind for one in need.evidence if one.kind in ruler.weights] for need in loss.faults]


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
        pytest.param(ONE, [], 0, id="nothing is cut"),
        pytest.param(ONE, [cut(1, 1)], 1, id="the only source is cut before"),
        pytest.param(ONE, [cut(2, 1)], 1, id="or for this very request"),
        pytest.param(ONE, [cut(3, 1)], 0, id="or after: nothing is lost"),
        pytest.param(ONE, [cut(1, 0, kind=TOOL_INPUT)], 0, id="something else is cut"),
        pytest.param(TWO, [cut(2, 1)], 0, id="one of two sources is cut"),
        pytest.param(TWO, [cut(2, 1), cut(2, 3)], 1, id="both are"),
        pytest.param(EDIT, [cut(1, 1)], 1, id="a page and its line are one need"),
        pytest.param(ONE, [cut(3, 1), cut(2, 1)], 1, id="the first cut of a part counts"),
    ],
)
def test_what_is_lost(made: Epoch, cuts: list[Cut], expected: int):
    assert len(lost(made, *cuts).faults) == expected


# ---- what still stands

LINES = (
    "ordinary\nfound parse_header at last\n   12: the quickest brown foxes jumped over\n  return head.value\n"
)
USES: dict[str, Native] = {
    "reference": assistant("parse_header"),
    "copied-words": assistant("(quickest brown foxes jumped over)"),
    "old-line": assistant(call("u", "edit", path="b", oldText="return head.value", newText="")),
    "line-number": assistant(call("u", "bash", command="sed -n 12p b")),
    "page": assistant(call("u", "edit", path="a.py", oldText="", newText="")),
    "unseen": assistant("so"),
}


@pytest.mark.parametrize("kind", USES)
@pytest.mark.parametrize(
    ("marker", "met"),
    [
        pytest.param("[output left out]", set(), id="nothing"),
        pytest.param("[parse_header, the quickest brown foxes jumped over, return head.value, 12:]",
            set(), id="a marker's own words"),
        pytest.param("names:\nparse_header\nthe quickest brown foxes jumped over\nreturn head.value\n12:",
            set(), id="on lines of their own"),
        pytest.param("parse_header return head.value\nfound parse_header at last, and more", set(),
            id="lines that begin alike"),
        pytest.param("[3 lines left out]\n   12: the quickest brown foxes jumped over",
            {"copied-words", "line-number"}, id="a line that still stands"),
        pytest.param("found parse_header at last\n[...]\n  return head.value", {"reference", "old-line"},
            id="two lines that still stand"),
        pytest.param(f"{LINES}[recall #1]",
            {"reference", "copied-words", "old-line", "line-number", "unseen"},
            id="all of it: but a page is more than its lines"),
    ],
)  # fmt: skip
def test_only_what_still_stands_as_it_stood_meets_a_need(kind: str, marker: str, met: set[str]):
    made = epoch(read("c", "a.py", LINES), USES[kind])
    found = lost(made, cut(1, 1, marker), ruler=Ruler("one", {kind: 1}))
    assert len(found.faults) == (kind not in met)


# ---- rulers


@pytest.mark.parametrize(
    ("shown", "answers", "detector", "upper"),
    [
        pytest.param("some plain words here", ["plain words here"], 0, 0, id="three words"),
        pytest.param("a few plainer words somewhere here", ["plainer words somewhere here"], 1, 1,
            id="four and more, of 24 letters"),
        pytest.param("go to the end of it", ["to the end of it"], 0, 0, id="four short words"),
        pytest.param("it is (`somewhere`) that \"everybody\" knows: plainly",
            ["somewhere that everybody knows"], 1, 1, id="whatever punctuation is around the words"),
        pytest.param("found parse_header", ["parse_header"], 1, 1, id="a name of ten characters"),
        pytest.param("found ErrorX", ["ErrorX"], 0, 1, id="a shorter one"),
        pytest.param("merged c0ffee1234567890", ["c0ffee1"], 1, 1, id="a hash by its first digits"),
        pytest.param("ErrorX, a_bc", ["ErrorX a_bc"], 1, 1, id="two shorter names"),
        pytest.param("ErrorX, a_bc", ["ErrorX", "a_bc"], 0, 2, id="in two answers"),
        pytest.param("ErrorX ErrorX", ["ErrorX ErrorX"], 0, 1, id="one name twice"),
        pytest.param("ab-57, ab-57.1", ["ab-57 ab-57.1"], 1, 1, id="two identifiers with hyphens"),
        pytest.param("TypeScript useState", ["TypeScript useState"], 0, 0, id="names that everybody knows"),
    ],
)  # fmt: skip
def test_how_much_evidence_makes_a_need(shown: str, answers: list[str], detector: int, upper: int):
    made = epoch(bash("c", "run", shown), assistant("on"), *map(assistant, answers))
    assert len(lost(made, cut(2, 1), ruler=DETECTOR).faults) == detector
    assert len(lost(made, cut(2, 1), ruler=UPPER).faults) == upper


@pytest.mark.parametrize(("answer", "detector"), [(2, 1), (3, 1), (4, 1), (5, 0)])
def test_numbers_of_lines_count_soon_after_a_cut(answer: int, detector: int):
    use = assistant(call("u", "bash", command="sed -n 417p b"))
    made = epoch(bash("c", "run", "417: x"), assistant("on"), *[assistant("on")] * (answer - 2), use)
    assert len(lost(made, cut(2, 1), ruler=DETECTOR).faults) == detector
    assert len(lost(made, cut(2, 1), ruler=UPPER).faults) == 1


def test_two_names_of_two_outputs_are_no_need():
    made = epoch(bash("c", "run", "a_bc"), bash("d", "run", "d_ef"), assistant("on"), assistant("a_bc d_ef"))
    assert lost(made, cut(3, 1), cut(3, 3), ruler=DETECTOR).faults == ()


def test_of_two_names_both_have_to_be_gone():
    made = epoch(
        bash("c", "run", "a_bc"), bash("d", "run", "a_bc d_ef"), assistant("on"), assistant("a_bc d_ef")
    )
    assert len(lost(made, cut(3, 1), cut(3, 3), ruler=DETECTOR).faults) == 1
    assert lost(made, cut(3, 3), ruler=DETECTOR).faults == ()
    # One is met by a recall of the other output, for another need.
    words = assistant("it says seventeen longer words here")
    made = epoch(
        bash("c", "run", "a_bc it says seventeen longer words here"), bash("d", "run", "a_bc d_ef"),
        assistant("on"), words, assistant("a_bc d_ef"),
    )  # fmt: skip
    found = lost(made, cut(3, 1), cut(3, 3), ruler=DETECTOR)
    assert ([one.position for one in found.recalls], len(found.faults)) == ([1], 2)


@pytest.mark.parametrize(
    ("cuts", "expected"),
    [
        pytest.param([cut(1, 1)], [1], id="before its first answer"),
        pytest.param([cut(2, 1)], [], id="after it"),
        pytest.param([cut(3, 5)], [], id="the same text stands in another"),
        pytest.param([cut(2, 1), cut(3, 5)], [5], id="which is cut as well"),
    ],
)
def test_what_no_answer_has_seen_is_needed_by_the_upper_bound(cuts: list[Cut], expected: list[int]):
    steps = (bash("c", "run", "the same"), bash("d", "run", "other"), bash("e", "run", "the same"))
    made = epoch(*steps, assistant("on"))
    assert [one.position for one in lost(made, *cuts, ruler=UPPER).recalls] == expected
    assert lost(made, *cuts, ruler=DETECTOR).recalls == ()


PROGRESS = "".join(f"Receiving objects: {n}% ({n}/100)\n" for n in range(101))


@pytest.mark.parametrize(
    ("shown", "marker", "expected"),
    [
        pytest.param(f"start\n{PROGRESS}end\n", None, 0, id="noise alone went"),
        pytest.param(f"start\n{PROGRESS}end\n", "start\n[left out]", 1, id="a line went with it"),
        pytest.param(
            "".join(f"line {n}\n" for n in range(100)), "line 0\n[...]\nline 99", 1, id="ordinary lines"
        ),
        pytest.param(
            f"{PROGRESS}error: it broke\nthe end\n", "[left out]\nthe end", 1, id="what tells of failure"
        ),
        pytest.param("same line\n" * 200 + "end\n", None, 0, id="lines that repeat"),
        pytest.param("one\ntwo\nthree\n", "[header]\none\ntwo\nthree", 0, id="nothing went"),
    ],
)
def test_what_is_proven_to_be_noise_need_not_be_seen(shown: str, marker: str | None, expected: int):
    """Without a marker of its own, an output keeps all but its noise."""
    made = epoch(bash("c", "run", shown), assistant("on"))
    kept = without_noise(shown) if marker is None else marker
    assert kept is not None
    assert len(lost(made, cut(1, 1, f"[shorter]\n{kept}"), ruler=UPPER).recalls) == expected


def test_an_input_is_a_source_like_any_other():
    made = epoch(bash("c", "grep parse_header", "none"), assistant("parse_header"))
    assert len(lost(made, cut(1, 0, kind=TOOL_INPUT)).faults) == 1


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
        pytest.param(EDIT, [cut(1, 1)], [(1, 1, 2, 1)], id="one block serves page and line"),
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
        faults=dict.fromkeys(KINDS, 0) | {"page": 1, "reference": 3},
        recalls=dict.fromkeys(KINDS, 0) | {"page": 1, "reference": 1},
        recalled_tokens=2000,
        needs=5,
        sessions=1,
    )
    both = tally + tally
    assert (both.blocks, both.sessions, both.faults["reference"]) == (6, 2, 6)


def test_the_worst_recalls_come_first():
    made = epoch(
        bash("c", "run", "first_word"),
        bash("d", "run", "second_word third_word"),
        bash("e", "run", "fourth_word"),
        assistant("first_word second_word fourth_word"),
        assistant("third_word"),
    )
    large = msgspec.structs.replace(cut(3, 5), before=2000)
    loss = lost(made, cut(3, 1), cut(3, 3), large)
    assert [(one.position, one.evidence.key) for one in loss.worst()] == [
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
            cuts.append(
                Cut(draw(st.sampled_from(after)), position, index, kind, tokens + 20, 5, "test", LEFT_OUT)
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


@pytest.mark.parametrize("ruler", [DETECTOR, UPPER, LATER], ids=lambda ruler: ruler.name)
@given(cut_histories())
def test_faults_are_as_their_definition_says(ruler: Ruler, history: tuple[Epoch, list[Cut]]):
    """The detector's short cuts against the definition, place by place."""
    made, cuts = history
    needs = need_events(made, tools.PI)

    def hidden(evidence: Evidence, at: int) -> bool:
        return all(
            any((one.position, one.part, one.kind) == place and one.call <= at for one in cuts)
            for place in evidence.sources
        )

    def is_lost(need: Need) -> bool:
        age = need.call - max(
            (
                one.call
                for one in cuts
                if (one.position, one.part) == need.newest[:2] and one.call <= need.call
            ),
            default=0,
        )
        return ruler.suffices([one for one in need.evidence if hidden(one, need.call)], age)

    loss = losses(made, cuts, needs, ruler)
    assert list(loss.faults) == [need for need in needs if is_lost(need)]
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
    found = keys_lost(losses(planted, cut_all(needles), needs, LATER), cut_all(needles))
    losers = [needle for needle in needles if needle.copy == "none" and needle.place not in kept]
    controls = [needle for needle in needles if needle.copy != "none"]
    for needle in losers:
        assert (needle.kind, needle.call, needle.key) in found, needle
        for marker, met in ((f"[it held {needle.key}]", False), (standing(planted, needle), True)):
            marked = cut_all([needle], marker=marker)
            still = {key for _, _, key in keys_lost(losses(planted, marked, needs, LATER), marked)}
            assert (needle.key not in still) == (met and needle.kind != "page")
    for needle in controls:
        assert needle.key not in {key for _, _, key in found}, needle
    assert losses(planted, [], needs, LATER).faults == ()
    return len(losers), len(controls)


def standing(made: Epoch, needle: Needle) -> str:
    """A marker that keeps the needle's line as it stood."""
    result = made.messages[needle.place.position].parts[needle.place.part]
    assert isinstance(result, ToolResult)
    kept = [line for line in result.text.split("\n") if needle.key in line]
    return "\n".join(["kept:", *kept, "[the rest is left out]"])


def keys_lost(loss: Loss, cuts: Sequence[Cut]) -> set[tuple[str, int, str]]:
    """Kind, call and key of what was lost: for cuts that were each made at their use."""
    marked = {(one.position, one.part): one.marker for one in cuts}
    return {
        (one.kind, need.call, one.key)
        for need in loss.faults
        for one in need.evidence
        if all(one.key not in marked.get(place[:2], one.key).split("\n") for place in one.sources)
    }


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
    strings = {(kind, copy) for kind in ("old-line", "reference") for copy in ("none", "user", "result")}
    assert kinds == strings | {("page", "none")}


def test_without_file_tools_there_are_no_page_needles():
    made = epoch(user("go"), *(bash(f"c{at}", "run", OUTPUT) for at in range(12)), assistant("done"))
    for seed in range(5):
        assert all(needle.kind != "page" for needle in plant(made, str(seed), tools.SWE_AGENT)[1])
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
    watch = Watch(made, needs, UPPER)
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
