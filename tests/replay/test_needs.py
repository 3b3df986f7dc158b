import hashlib
import json
import string
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import (
    Native,
    assistant,
    bash,
    call,
    edit,
    flat,
    messages,
    other,
    read,
    result,
    shell,
    summary,
    thinking,
    used,
    user,
    write,
)

from prunewise import tools
from prunewise.formats.detect import read_recording
from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.replay.needs import (
    KINDS,
    LINE_LENGTH,
    Lines,
    Need,
    describe,
    names,
    need_events,
    needs_of,
    old_lines,
    uncommon,
)
from prunewise.replay.policies import POLICIES, Conversation


def epoch(*natives: Native | Iterable[Native], failed: tuple[int, ...] = ()) -> Epoch:
    """An epoch of pi's messages, in which each assistant message answers an LLM call."""
    read_in = tuple(messages(flat(*natives)))
    answers = [position for position, message in enumerate(read_in) if message.role == "assistant"]
    return Epoch(read_in, tuple(LLMCall(at, failed=number in failed) for number, at in enumerate(answers)))


def events(
    *natives: Native | Iterable[Native], rare: Callable[[str], bool] = uncommon, **options: Any
) -> list[Need]:
    return list(need_events(epoch(*natives, **options), tools.PI, rare))


def found(
    *natives: Native | Iterable[Native], kinds: Iterable[str] = KINDS[1:], **options: Any
) -> list[tuple[str, int, str, list[int]]]:
    """Kind, call, key and the positions of the sources of all evidence of some kinds."""
    listed = [
        (one.kind, need.call, one.key, [place.position for place in one.sources])
        for need in events(*natives, **options)
        for one in need.evidence
        if one.kind in kinds
    ]
    return sorted(listed, key=lambda one: (one[1], KINDS.index(one[0]), one[2]))


# ---- names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("the parse_header of it", {"parse_header"}, id="an underscore inside"),
        pytest.param(
            "call parseHeader() or ParseHeader", {"parseHeader", "ParseHeader"}, id="inner capitals"
        ),
        pytest.param("error E04257, port 655361", {"E04257", "655361"}, id="digits"),
        pytest.param("ab-57.1, x--y, --a-flag, well-known", {"ab-57.1"}, id="a hyphen and a digit"),
        pytest.param("ordinary words, Capitals, SHOUTING", set(), id="ordinary words"),
        pytest.param("a_b x1 999 a_few v1.2", {"a_few"}, id="shorter than four characters is none"),
        pytest.param("__init__ _private", set(), id="underscores at the ends count nothing"),
        pytest.param("a" * 90 + "1", set(), id="longer than any name: encoded data"),
        pytest.param("see src/app/main.py.", {"app/main.py"}, id="a path by its last two names"),
        pytest.param("/w/x/app/main.py:12", {"app/main.py"}, id="wherever it is rooted"),
        pytest.param("and/or, src/lib, v1/2.5", set(), id="a path without an extension is none"),
        pytest.param("c0ffee1234567890", {"c0ffee1"}, id="a hash by its first digits"),
        pytest.param(r'{"text": "one\nparse_header\ttwo"}', {"parse_header"}, id="escapes are white space"),
        pytest.param("Maßstab_größe", {"stab_gr"}, id="runs of ASCII letters only"),
    ],
)
def test_what_a_name_is(text: str, expected: set[str]):
    assert names(text) == expected


def test_the_words_of_the_trade_are_not_rare():
    assert [uncommon(word) for word in ("TypeScript", "node_modules", "src/index.ts", "frobnicate_all")] == [
        False, False, False, True,
    ]  # fmt: skip


# ---- lines


@pytest.mark.parametrize(
    "shown",
    [
        "return header.value",
        "\t\treturn header.value  ",
        "   12→    return header.value",
        "    12\treturn header.value",
        "00012| return header.value",
        "src/a.py:12:    return header.value",
        "src/a.py-12-    return header.value",
        "Line 12: return header.value",
        "-    return header.value",
        "+return header.value\r",
        r'{"content": "x\n    return header.value\n"}',
        "before\nreturn header.value\nafter",
    ],
)
def test_a_line_is_found_whatever_stands_before_it(shown: str):
    assert Lines(["return header.value"]).shown_by(shown) == {"return header.value"}


def test_a_line_with_more_behind_it_is_another():
    assert Lines(["return header.value"]).shown_by("return header.values") == set()


def test_a_short_line_is_found_too():
    wanted = Lines(["x += 1", "return header.value"])
    assert wanted.shown_by("  x += 1\n return header.value") == {"x += 1", "return header.value"}


@given(st.lists(st.text(string.ascii_letters + " =.", min_size=6, max_size=30).map(str.strip), max_size=8))
def test_all_lines_of_a_text_are_found(lines: list[str]):
    lines = [line for line in lines if len(line) >= 6]
    assert Lines(lines).shown_by("\n".join(f"12:  {line}" for line in lines)) == set(lines)


PATCH = """*** Begin Patch
*** Add File: b.py
+this was written anew
*** Update File: a.py
@@ def parse
 a line of context
-a line that goes
+a line that comes
*** End Patch"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"oldText": "x = 1\n  y = long_enough(2)\n"}, ["y = long_enough(2)"]),
        ({"old_string": "x += 1"}, ["x += 1"]),
        ({"old_string": "}\nx += 1\n"}, ["x += 1"]),
        ({"old_string": "}\n\n)"}, []),
        ({"old_string": ""}, []),
        (
            {"edits": [{"oldText": "the first one"}, {"oldText": "the second one"}]},
            ["the first one", "the second one"],
        ),
        ({"newText": "only the new text", "content": "of a write"}, []),
        ({"input": PATCH}, ["a line of context", "a line that goes"]),
        ({"command": f"apply_patch <<'EOF'\n{PATCH}\nEOF"}, ["a line of context", "a line that goes"]),
        ({"diff": "<<<<<<< SEARCH\nwhat stands\n=======\nelse\n>>>>>>> REPLACE"}, ["what stands"]),
        ({"old_string": 3, "edits": "none"}, []),
    ],
)  # fmt: skip
def test_the_old_lines_of_an_edit(arguments: dict[str, Any], expected: list[str]):
    assert old_lines(arguments) == expected


# ---- references

OUTPUT = "found parse_header at last"


@pytest.mark.parametrize(
    ("before", "answer", "expected"),
    [
        pytest.param(bash("c", "run", OUTPUT), ["see parse_header"], [1], id="a result is removable"),
        pytest.param([shell("run", OUTPUT)], ["see parse_header"], [0], id="a shell output is removable"),
        pytest.param(
            bash("c", "grep parse_header"), ["see parse_header"], [0], id="the input of a call is removable"
        ),
        pytest.param(
            bash("c", "run", OUTPUT), [call("d", "bash", command="grep parse_header .")], [1],
            id="arguments use it",
        ),
        pytest.param(bash("c", "run", OUTPUT), [thinking("parse_header!")], [1], id="thinking uses it"),
        pytest.param(
            [*bash("c", "run", OUTPUT), *bash("d", "run", OUTPUT)], ["see parse_header"], [1, 3],
            id="every place counts",
        ),
        pytest.param([user(OUTPUT), *bash("c", "run", OUTPUT)], ["see parse_header"], None,
            id="the user said it"),
        pytest.param([*bash("c", "run", OUTPUT), user(OUTPUT)], ["see parse_header"], None, id="also later"),
        pytest.param([other(OUTPUT), *bash("c", "run", OUTPUT)], ["see parse_header"], None,
            id="the host said it"),
        pytest.param(
            [summary(OUTPUT), *bash("c", "run", OUTPUT)], ["see parse_header"], None, id="the summary kept it"
        ),
        pytest.param(
            [shell("grep parse_header", OUTPUT)], ["see parse_header"], None,
            id="a shell command is the user's",
        ),
        pytest.param(
            [shell("run", OUTPUT, excludeFromContext=True)], ["see parse_header"], None,
            id="never sent, never seen",
        ),
        pytest.param(bash("c", "run", "nothing"), ["see parse_header"], None,
            id="nothing had it: a new word"),
        pytest.param(bash("c", "run", "in parse_headers"), ["see parse_header"], None, id="whole words only"),
        pytest.param(bash("c", "run", "is TypeScript"), ["see TypeScript"], None,
            id="common words are known"),
    ],
)  # fmt: skip
def test_when_a_reference_is_needed(
    before: list[Native], answer: list[str | Native], expected: list[int] | None
):
    number = sum(native["role"] == "assistant" for native in before)
    needs = [("reference", number, "parse_header", expected)] if expected else []
    assert found(before, assistant(*answer)) == needs


def test_what_the_agent_has_said_is_needed_no_more():
    assert found(bash("c", "run", OUTPUT), assistant("parse_header"), assistant("parse_header")) == [
        ("reference", 1, "parse_header", [1])
    ]


def test_what_the_agent_wrote_into_a_call_is_one_more_source():
    repeated = flat(
        bash("c", "run", OUTPUT), bash("d", "grep parse_header", "none"), assistant("parse_header")
    )
    assert found(repeated) == [
        ("reference", 1, "parse_header", [1]),
        ("reference", 2, "parse_header", [1, 2]),
    ]


def test_one_answer_needs_a_key_once_and_its_own_text_comes_too_late():
    one = assistant("parse_header", call("d", "bash", command="grep parse_header"))
    needs = events(bash("c", "run", OUTPUT), one)
    assert [(need.call, [(e.kind, e.part) for e in need.evidence]) for need in needs] == [
        (1, [("unseen", 0), ("reference", 0)])
    ]


def test_an_answer_that_failed_uses_nothing():
    assert found(bash("c", "run", OUTPUT), assistant("parse_header"), failed=(1,)) == []


def test_rarity_is_the_callers_to_say():
    assert found(bash("c", "run", OUTPUT), assistant("parse_header"), rare=lambda _: False) == []
    assert len(found(bash("c", "run", "TypeScript"), assistant("TypeScript"), rare=lambda _: True)) == 1


# ---- edits

BODY = "def f():\n    return header.value\n"


def changed(id: str, path: str, old: str, *, error: bool = False) -> list[Native]:
    return used(id, "edit", {"path": path, "oldText": old, "newText": "pass"}, "done", error=error)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(read("c", "a.py", BODY), [("page", [1]), ("old-line", [1])], id="read once"),
        pytest.param(
            [*read("c", "a.py", BODY), *read("d", "a.py", BODY)],
            [("page", [1, 3]), ("old-line", [1, 3])],
            id="read again: one more source, and no need of its own",
        ),
        pytest.param(bash("c", "cat a.py", BODY), [("old-line", [1])], id="a shell shows lines, not pages"),
        pytest.param(
            [*read("c", "a.py", BODY), *read("d", "b.py", BODY)],
            [("page", [1]), ("old-line", [1, 3])],
            id="a page is of its own file, a line of any",
        ),
        pytest.param(
            [*read("c", "a.py", BODY), *edit("d", "./a.py")],
            [("page", [1]), ("old-line", [1])],
            id="the first change has the page; after it only lines count",
        ),
        pytest.param(
            [*read("c", "a.py", BODY), *edit("d", "a.py", error=True)],
            [("page", [1]), ("page", [1]), ("old-line", [1])],
            id="a change that failed changed nothing",
        ),
        pytest.param(
            read("c", "a.py", BODY, error=True), [("old-line", [1])], id="a read that failed shows no page"
        ),
        pytest.param(read("c", "a.py", " "), [], id="nor does an empty one"),
        pytest.param(
            used("c", "write", {"path": "a.py", "content": BODY}),
            [("page", [0]), ("old-line", [0])],
            id="what the agent wrote is in its call",
        ),
        pytest.param([user(BODY), *read("c", "a.py", BODY)], [("page", [2])], id="the user showed the line"),
        pytest.param([], [], id="never seen"),
    ],
)
def test_what_an_edit_needs(before: list[Native], expected: list[tuple[str, list[int]]]):
    after = changed("e", "a.py", "return header.value")
    kinds = ("page", "old-line")
    assert [(kind, at) for kind, _, _, at in found(before, after, kinds=kinds)] == expected


def pages(made: Epoch, vocabulary: tools.Vocabulary, cwd: str | None = None) -> list[str]:
    return [
        one.key
        for need in need_events(made, vocabulary, cwd=cwd)
        for one in need.evidence
        if one.kind == "page"
    ]


def test_an_unchanged_stub_is_no_page():
    stub = {"role": "toolResult", "toolCallId": "c", "content": "File unchanged since last read"}
    made = epoch(
        assistant(call("c", "Read", file_path="/a.py")), stub, assistant(call("d", "Edit", file_path="/a.py"))
    )
    assert pages(made, tools.CLAUDE_CODE) == []


def test_a_relative_path_is_resolved():
    made = epoch(read("c", "a.py", BODY), changed("e", "/w/a.py", ""))
    assert pages(made, tools.PI, "/w") == ["/w/a.py"]
    assert pages(made, tools.PI) == []


# ---- outputs that no answer has seen

STEPS = flat(user("go"), bash("c", "run", "first output"), bash("d", "run", "second output"), assistant("on"))


def unseen(*epochs: Epoch) -> list[list[str]]:
    recording = Recording("pi", "a", "a", epochs, tools.PI)
    return [
        [one.key for need in needs for one in need.evidence if one.kind == "unseen"]
        for needs in needs_of(recording)
    ]


@pytest.mark.parametrize(
    ("calls", "kept", "new", "expected"),
    [
        pytest.param((1, 3, 5), [3, 4], [], [], id="kept over a compaction: it has been seen"),
        pytest.param((1, 3), [3, 4], [], ["second output"], id="kept before any answer had seen it"),
        pytest.param((1, 3, 5), [], bash("e", "run", "second output"), ["second output"],
            id="another output of the same text has not"),
        pytest.param((1, 3, 5), [1, 2], bash("e", "run", "third output"), ["third output"],
            id="nor has what came later"),
        pytest.param((), [], STEPS, ["first output", "second output"], id="without a call nothing is seen"),
    ],
)  # fmt: skip
def test_what_an_earlier_epoch_has_seen_is_seen(
    calls: tuple[int, ...], kept: list[int], new: list[Native], expected: list[str]
):
    before = tuple(messages(STEPS))
    # Behind those of before, so that ids differ.
    after = messages([*STEPS, *new, assistant("so")])[len(STEPS) :]
    second = (*(before[at] for at in kept), *after)
    answers = tuple(
        LLMCall(at) for at, one in enumerate(second) if one.role == "assistant" and at >= len(kept)
    )
    first = Epoch(before, tuple(LLMCall(at) for at in calls))
    assert unseen(first, Epoch(second, answers))[1] == expected


def test_a_call_that_failed_has_seen_nothing():
    made = tuple(messages(STEPS))
    failed = Epoch(made, (LLMCall(1), LLMCall(3), LLMCall(5, failed=True)))
    again = Epoch(made, (LLMCall(5),))
    assert unseen(failed, again) == [["first output"], ["second output"]]
    assert unseen(again, again) == [["first output", "second output"], []]


# ---- the listing, frozen

RAW = "    return raw.split(':')"
CUT = "    return raw[:MAX_HEADER_SIZE].split(':')"
MODULE = "import re\nMAX_HEADER_SIZE = 16384\ndef parse_header(raw):\n"
SESSION = flat(
    user("Fix the header. It says ERR_4711."),
    read("r1", "/w/src/header.py", f"{MODULE}{RAW}\n"),
    bash("b1", "pytest -q", "FAILED tests/test_header.py::test_long_header\nValueError: ERR_4711\n"),
    [
        assistant(
            thinking("test_long_header fails"),
            "I look at the test.",
            call("r2", "read", path="/w/tests/test_header.py"),
        ),
        result("r2", "def test_long_header():\n    assert parse_header(LONG_SAMPLE) == 3\n"),
    ],
    used("e1", "edit", {"path": "/w/src/header.py", "oldText": RAW, "newText": CUT}, "ok"),
    read("r3", "/w/src/header.py", f"{MODULE}{CUT}\n"),
    write("w1", "/w/src/header.py", "ok"),
    bash("b2", "git log --oneline", "5e1f00d9 Cut long headers\n"),
    [assistant("parse_header cuts at MAX_HEADER_SIZE since 5e1f00d; LONG_SAMPLE passes, ERR_4711 is gone.")],
)

ROWS = [
    [
        1,
        "unseen",
        0,
        "import re\nMAX_HEADER_SIZE = 16384\ndef parse_header(raw):\n    return raw.split('…",
        {"unseen": 1},
        True,
        False,
        2,
        0,
        "tool_result_content",
    ],
    [
        2,
        "unseen",
        0,
        "FAILED tests/test_header.py::test_long_header\nValueError: ERR_4711\n",
        {"unseen": 1, "reference": 3},
        True,
        True,
        4,
        0,
        "tool_result_content",
    ],
    [
        3,
        "unseen",
        0,
        "def test_long_header():\n    assert parse_header(LONG_SAMPLE) == 3\n",
        {"unseen": 1},
        True,
        False,
        6,
        0,
        "tool_result_content",
    ],
    [
        3,
        "page",
        0,
        "/w/src/header.py",
        {"page": 1, "old-line": 1, "reference": 1},
        True,
        True,
        2,
        0,
        "tool_result_content",
    ],
    [3, "reference", 0, "src/header.py", {"reference": 1}, True, True, 1, 0, "tool_call_input"],
    [4, "unseen", 0, "ok", {"unseen": 1}, True, False, 8, 0, "tool_result_content"],
    [4, "reference", 0, "src/header.py", {"reference": 1}, True, True, 7, 0, "tool_call_input"],
    [
        5,
        "unseen",
        0,
        "import re\nMAX_HEADER_SIZE = 16384\ndef parse_header(raw):\n    return raw[:MAX_HE…",
        {"unseen": 1, "page": 1},
        True,
        False,
        10,
        0,
        "tool_result_content",
    ],
    [5, "reference", 0, "src/header.py", {"reference": 1}, True, True, 9, 0, "tool_call_input"],
    [6, "unseen", 0, "ok", {"unseen": 1}, True, False, 12, 0, "tool_result_content"],
    [
        7,
        "unseen",
        0,
        "5e1f00d9 Cut long headers\n",
        {"unseen": 1, "reference": 1},
        True,
        True,
        14,
        0,
        "tool_result_content",
    ],
    [7, "reference", 0, "LONG_SAMPLE", {"reference": 1}, True, True, 6, 0, "tool_result_content"],
    [7, "reference", 0, "MAX_HEADER_SIZE", {"reference": 2}, True, True, 10, 0, "tool_result_content"],
]


def row(described: dict[str, Any]) -> list[Any]:
    newest = described["newest"]
    return [
        *(described[key] for key in ("call", "kind", "part", "key", "evidence", "upperBound", "detector")),
        int(newest["message"][1:]), newest["part"], newest["kind"],
    ]  # fmt: skip


def test_the_events_of_a_session_are_frozen():
    made = epoch(SESSION)
    assert [row(describe(need, made)) for need in need_events(made, tools.PI)] == ROWS


def test_a_row_of_the_listing():
    long = "return header.value" + "; pass" * 20
    made = epoch(bash("c", "run", long), changed("e", "a.py", long))
    (need,) = need_events(made, tools.PI)
    assert describe(need, made) == {
        "call": 1,
        "kind": "unseen",
        "message": "m2",
        "part": 0,
        "key": long[:79] + "…",
        "evidence": {"unseen": 1, "old-line": 1, "copied-words": 2},
        "upperBound": True,
        "detector": True,
        "newest": {"message": "m1", "part": 0, "kind": "tool_result_content"},
    }


def test_no_policy_changes_the_events():
    made = epoch(SESSION)
    before = need_events(made, tools.PI)
    for policy in POLICIES.values():
        run = policy.start(Conversation(tools.PI))
        read_in = 0
        for number, one in enumerate(made.calls):
            run.step(made.messages[read_in : one.position], number)
            read_in = one.position
        assert need_events(made, tools.PI) == before


@given(st.lists(st.sampled_from(range(len(SESSION))), max_size=12), st.integers(0, 6))
def test_needs_point_back_and_their_sources_hold_the_key(order: list[int], cut: int):
    made = epoch([SESSION[index] for index in order])
    needs = need_events(made, tools.PI)
    assert [need.call for need in needs] == sorted(need.call for need in needs)
    for need in needs:
        assert need.message == made.calls[need.call].position
        assert need.newest.position < need.message
        for one in need.evidence:
            assert one.sources[-1] == need.newest
            for place in one.sources if one.kind == "reference" else ():
                assert one.key in repr(made.messages[place.position].parts[place.part])
    # What comes later changes nothing before it.
    shorter = Epoch(made.messages, made.calls[:cut])
    expected = [listed(need) for need in needs if need.call < cut]
    assert [listed(need) for need in need_events(shorter, tools.PI)] == expected


def listed(need: Need) -> list[Any]:
    return [
        [need.call, one.kind, one.key, one.count, need.newest.position, need.newest.part]
        for one in need.evidence
    ]


def test_the_work_grows_with_the_session():
    """Twice the session, twice the places, though one key is used in every call."""
    one = flat(*(bash(f"c{number}", f"grep parse_header {number}", OUTPUT) for number in range(200)))
    needs = [
        one
        for need in events(one)
        for one in need.evidence
        if (one.kind, one.key) == ("reference", "parse_header")
    ]
    assert len(needs) == 199
    assert len({id(need.places) for need in needs}) == 1


# ---- recorded sessions

DIGESTS: dict[str, tuple[int, str]] = {
    "claude-code": (17646, "e3f504bfdfed087c"),
    "codex": (18380, "357a80a90accd747"),
    "copilot": (1294, "119dbc2a7c9d64f1"),
    "gemini": (393, "07ed8ef191339453"),
    "gemini-contents": (1497, "8f4adaee81e03bbd"),
    "opencode": (2912, "e3de749c1cf0b594"),
    "pi": (25491, "d4dce6cecda5efcc"),
    "swe-agent": (504, "8cb3015b2f80d230"),
}
"""For each format: how many pieces of evidence its shared sessions have, and a digest of them. A reader that
reads more, or otherwise, changes them: look at why before they are renewed."""


@pytest.mark.corpus
@pytest.mark.parametrize("format", sorted(DIGESTS))
def test_the_events_of_recorded_sessions_are_frozen(shared: Path, format: str):
    folder = shared / "corpus" / format
    if not folder.is_dir():
        pytest.skip(f"needs {folder}")
    count, digest = 0, hashlib.sha256()
    for path in sorted(folder.iterdir()):
        recording = read_recording(path.name, path.read_bytes())
        for needs in needs_of(recording):
            for need in needs:
                for row in listed(need):
                    digest.update(json.dumps(row).encode("utf-8", "surrogatepass") + b"\n")
                    count += 1
    assert (count, digest.hexdigest()[:16]) == DIGESTS[format]


def test_the_shortest_line_is_as_documented():
    assert LINE_LENGTH == 12
