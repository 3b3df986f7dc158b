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
from prunewise.recording import Epoch, LLMCall
from prunewise.replay.needs import (
    LINE_LENGTH,
    Lines,
    Need,
    describe,
    need_events,
    old_lines,
    rare_in,
    references,
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


def found(*natives: Native | Iterable[Native], **options: Any) -> list[tuple[str, int, str, list[int]]]:
    """Kind, call, key and the positions of the sources of each need."""
    return [
        (need.kind, need.call, need.key, [place.position for place in need.sources])
        for need in events(*natives, **options)
    ]


# ---- references


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("the parse_header of it", {"parse_header"}, id="an underscore inside"),
        pytest.param(
            "call parseHeader() or ParseHeader", {"parseHeader", "ParseHeader"}, id="inner capitals"
        ),
        pytest.param("error E04257, port 655361", {"E04257", "655361"}, id="digits"),
        pytest.param("ordinary words, Capitals, SHOUTING", set(), id="ordinary words"),
        pytest.param("a_b x1 99999 a_few", set(), id="shorter than six characters"),
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
def test_what_a_reference_is(text: str, expected: set[str]):
    assert references(text) == expected


def test_without_a_table_the_words_of_the_trade_are_not_rare():
    assert [uncommon(word) for word in ("TypeScript", "node_modules", "src/index.ts", "frobnicate_all")] == [
        False, False, False, True,
    ]  # fmt: skip


def test_with_a_table_rare_is_what_few_repositories_have():
    rare = rare_in({"parse_header": 3, "parse_footer": 2})
    assert [rare(word) for word in ("parse_header", "parse_footer", "parse_nothing")] == [False, True, True]
    assert [rare_in({"parse_header": 3}, most=3)("parse_header")] == [True]


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


# ---- unique references

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
    needs = [("unique-reference", number, "parse_header", expected)] if expected else []
    assert found(before, assistant(*answer)) == needs


def test_what_the_agent_has_said_is_needed_no_more():
    assert found(bash("c", "run", OUTPUT), assistant("parse_header"), assistant("parse_header")) == [
        ("unique-reference", 1, "parse_header", [1])
    ]


def test_what_the_agent_wrote_into_a_call_is_one_more_source():
    repeated = flat(
        bash("c", "run", OUTPUT), bash("d", "grep parse_header", "none"), assistant("parse_header")
    )
    assert found(repeated) == [
        ("unique-reference", 1, "parse_header", [1]),
        ("unique-reference", 2, "parse_header", [1, 2]),
    ]


def test_one_answer_needs_a_key_once_and_its_own_text_comes_too_late():
    one = assistant("parse_header", call("d", "bash", command="grep parse_header"))
    assert [need.part for need in events(bash("c", "run", OUTPUT), one)] == [0]


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
        pytest.param(read("c", "a.py", BODY), [("page-fault", [1]), ("edit-regret", [1])], id="read once"),
        pytest.param(
            [*read("c", "a.py", BODY), *read("d", "a.py", BODY)],
            [("page-fault", [1, 3]), ("edit-regret", [1, 3])],
            id="read again: one more source, and no need of its own",
        ),
        pytest.param(
            bash("c", "cat a.py", BODY), [("edit-regret", [1])], id="a shell shows lines, not pages"
        ),
        pytest.param(
            [*read("c", "a.py", BODY), *read("d", "b.py", BODY)],
            [("page-fault", [1]), ("edit-regret", [1, 3])],
            id="a page is of its own file, a line of any",
        ),
        pytest.param(
            [*read("c", "a.py", BODY), *edit("d", "./a.py")],
            [("page-fault", [1]), ("edit-regret", [1])],
            id="the first change has the page; after it only lines count",
        ),
        pytest.param(
            [*read("c", "a.py", BODY), *edit("d", "a.py", error=True)],
            [("page-fault", [1]), ("page-fault", [1]), ("edit-regret", [1])],
            id="a change that failed changed nothing",
        ),
        pytest.param(
            read("c", "a.py", BODY, error=True), [("edit-regret", [1])], id="a read that failed shows no page"
        ),
        pytest.param(read("c", "a.py", " "), [], id="nor does an empty one"),
        pytest.param(
            used("c", "write", {"path": "a.py", "content": BODY}),
            [("page-fault", [0]), ("edit-regret", [0])],
            id="what the agent wrote is in its call",
        ),
        pytest.param(
            [user(BODY), *read("c", "a.py", BODY)], [("page-fault", [2])], id="the user showed the line"
        ),
        pytest.param([], [], id="never seen"),
    ],
)
def test_what_an_edit_needs(before: list[Native], expected: list[tuple[str, list[int]]]):
    after = changed("e", "a.py", "return header.value")
    assert [(kind, at) for kind, _, _, at in found(before, after)] == expected


def test_an_unchanged_stub_is_no_page():
    stub = {"role": "toolResult", "toolCallId": "c", "content": "File unchanged since last read"}
    vocabulary = tools.CLAUDE_CODE
    made = epoch(
        assistant(call("c", "Read", file_path="/a.py")), stub, assistant(call("d", "Edit", file_path="/a.py"))
    )
    assert need_events(made, vocabulary) == ()


def test_a_relative_path_is_resolved():
    made = epoch(read("c", "a.py", BODY), changed("e", "/w/a.py", ""))
    assert [need.key for need in need_events(made, tools.PI, cwd="/w")] == ["/w/a.py"]
    assert need_events(made, tools.PI) == ()


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
    [2, "unique-reference", 0, "test_long_header", 1, 4, 0, "tool_result_content"],
    [2, "unique-reference", 2, "test_header", 1, 4, 0, "tool_result_content"],
    [2, "unique-reference", 2, "tests/test_header.py", 1, 4, 0, "tool_result_content"],
    [3, "page-fault", 0, "/w/src/header.py", 1, 2, 0, "tool_result_content"],
    [3, "edit-regret", 0, "return raw.split(':')", 1, 2, 0, "tool_result_content"],
    [3, "unique-reference", 0, "MAX_HEADER_SIZE", 1, 2, 0, "tool_result_content"],
    [3, "unique-reference", 0, "src/header.py", 1, 1, 0, "tool_call_input"],
    [4, "unique-reference", 0, "src/header.py", 2, 7, 0, "tool_call_input"],
    [5, "page-fault", 0, "/w/src/header.py", 1, 10, 0, "tool_result_content"],
    [5, "unique-reference", 0, "src/header.py", 3, 9, 0, "tool_call_input"],
    [7, "unique-reference", 0, "5e1f00d", 1, 14, 0, "tool_result_content"],
    [7, "unique-reference", 0, "LONG_SAMPLE", 1, 6, 0, "tool_result_content"],
    [7, "unique-reference", 0, "MAX_HEADER_SIZE", 3, 10, 0, "tool_result_content"],
    [7, "unique-reference", 0, "parse_header", 3, 10, 0, "tool_result_content"],
]


def row(described: dict[str, Any]) -> list[Any]:
    newest = described["newest"]
    return [
        *(described[key] for key in ("call", "kind", "part", "key", "sources")),
        int(newest["message"][1:]), newest["part"], newest["kind"],
    ]  # fmt: skip


def test_the_events_of_a_session_are_frozen():
    made = epoch(SESSION)
    assert [row(describe(need, made)) for need in need_events(made, tools.PI)] == ROWS


def test_a_row_of_the_listing():
    made = epoch(bash("c", "run", BODY), changed("e", "a.py", "return header.value" + "; pass" * 20))
    assert need_events(made, tools.PI) == ()
    long = "return header.value" + "; pass" * 20
    made = epoch(bash("c", "run", long), changed("e", "a.py", long))
    (need,) = need_events(made, tools.PI)
    assert describe(need, made) == {
        "call": 1,
        "kind": "edit-regret",
        "message": "m2",
        "part": 0,
        "key": long[:79] + "…",
        "sources": 1,
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
        assert need.sources
        assert all(place.position < need.message for place in need.sources)
        assert need.message == made.calls[need.call].position
        if need.kind == "unique-reference":
            for place in need.sources:
                assert need.key in repr(made.messages[place.position].parts[place.part])
    # What comes later changes nothing before it.
    shorter = Epoch(made.messages, made.calls[:cut])
    expected = [(need.kind, need.key, need.sources) for need in needs if need.call < cut]
    assert [(need.kind, need.key, need.sources) for need in need_events(shorter, tools.PI)] == expected


def test_the_work_grows_with_the_session():
    """Twice the session, twice the places, though one key is used in every call."""
    one = flat(*(bash(f"c{number}", f"grep parse_header {number}", OUTPUT) for number in range(200)))
    needs = events(one)
    assert len(needs) == 199
    assert len({id(need.places) for need in needs}) == 1


# ---- recorded sessions

DIGESTS: dict[str, tuple[int, str]] = {
    "claude-code": (4963, "1f94bb62b20f9bba"),
    "codex": (2497, "26383b37d9ba6f4b"),
    "copilot": (162, "9189c9cb166a9e74"),
    "gemini": (72, "427bbe1805ac5e6e"),
    "gemini-contents": (414, "0ae94becbd145c41"),
    "opencode": (720, "787bf8e257a6a4a8"),
    "pi": (6234, "319a28128d2a1ca6"),
    "swe-agent": (87, "b6d29060c2482d7c"),
}
"""For each format: how many events its shared sessions have, and a digest of them. A reader that
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
        for one in recording.epochs:
            for need in need_events(one, recording.vocabulary, cwd=recording.cwd):
                place = need.sources[-1]
                listed = [need.call, need.kind, need.key, need.count, place.position, place.part]
                digest.update(json.dumps(listed).encode("utf-8", "surrogatepass") + b"\n")
                count += 1
    assert (count, digest.hexdigest()[:16]) == DIGESTS[format]


def test_the_shortest_line_is_as_documented():
    assert LINE_LENGTH == 12
