"""pi's session files: read however they were left, walked, referred to, and added to without harm."""

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import lines_run
from tests.stores.sessions import IMAGE, Log, decision, dump, stamp

from prunewise import ledger
from prunewise.errors import InputError, PrunewiseError, RecallError, RefusedError
from prunewise.stores import Store, Writes
from prunewise.stores import pi_session as module
from prunewise.stores.pi_session import PiSession
from prunewise.transcript import TOOL_INPUT, Image, Text

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and limits are POSIX's")
not_as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write everything"
)


def read(log: Log) -> PiSession:
    return PiSession.from_bytes(log.bytes(), "s.jsonl")


def read_lines(*lines: str | bytes, end: bytes = b"\n") -> PiSession:
    data = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    return PiSession.from_bytes(data + end, "s.jsonl")


def simple() -> Log:
    """Lines: 1 header, 2 user, 3 call, 4 result, 5 answer."""
    log = Log()
    log.user()
    log.exchange("the output")
    log.answer()
    return log


HEADER, USER, CALL, RESULT, ANSWER = simple().lines


def text_of(session: PiSession, reference: str) -> str:
    return "\n".join(part.text for part in session.original(reference).content if isinstance(part, Text))


# ---- reading what is well


def test_entries_know_their_line_id_parent_and_type():
    entries = read(simple()).entries
    assert [(entry.line, entry.id, entry.parent, entry.type) for entry in entries] == [
        (2, "e0000002", None, "message"),
        (3, "e0000003", "e0000002", "message"),
        (4, "e0000004", "e0000003", "message"),
        (5, "e0000005", "e0000004", "message"),
    ]
    assert entries[0].timestamp == stamp(1)
    assert entries[2].raw == json.loads(RESULT)


def test_the_header_is_read():
    log = Log(id="s1", at=5, parentSession="/old.jsonl")
    session = read(log)
    header = session.header
    assert (session.conversation, session.cwd) == ("s1", "/project")
    assert (header.version, header.timestamp, header.parent_session) == (3, stamp(5), "/old.jsonl")


def test_the_session_is_a_store_and_keeps_nothing():
    session: Store = read(simple())
    session.commit(Writes({"#4": session.original("#4")}))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("\n".join([HEADER, USER, RESULT]).encode(), id="no line feed at the end"),
        pytest.param("\r\n".join([HEADER, USER, RESULT, ""]).encode(), id="carriage returns"),
        pytest.param(("\ufeff" + "\n".join([HEADER, USER, RESULT, ""])).encode(), id="a byte order mark"),
        pytest.param("\n".join([HEADER, "", USER, "  ", RESULT, ""]).encode(), id="blank lines"),
        pytest.param(
            "\n".join([HEADER, USER.replace("go on", "a\u2028b\u0085c"), RESULT]).encode(), id="U+2028"
        ),
        pytest.param(
            "\n".join([HEADER, USER.replace("go on", "a\\ud800b"), RESULT]).encode(), id="lone surrogates"
        ),
        pytest.param(
            "\n".join([HEADER, USER, RESULT]).encode().replace(b"go on", b"a\xffb"), id="bytes not UTF-8"
        ),
        pytest.param(
            "\n".join([HEADER, USER.replace('"go on"', "9" * 5000), RESULT]).encode(),
            id="a number of 5000 digits",
        ),
        pytest.param(
            "\n".join([HEADER, USER.replace('"go on"', "1e999"), RESULT]).encode(), id="an infinite number"
        ),
    ],
)
def test_harmless_oddities_are_read_without_a_warning(data: bytes):
    session = PiSession.from_bytes(data, "s.jsonl")
    assert [entry.id for entry in session.entries] == ["e0000002", "e0000004"]
    assert [warning for warning in session.warnings if "follows" not in warning] == []


def test_text_is_split_at_line_feeds_only():
    session = read_lines(HEADER, USER.replace("go on", "a\u2028b"))
    assert session.context()[0].message["content"][0]["text"] == "a\u2028b"


# ---- reading what is not


@pytest.mark.parametrize(
    ("lines", "ids", "warning"),
    [
        pytest.param(
            [HEADER, USER, "\0" * 400, CALL],
            ["e0000002", "e0000003"],
            "3: 400 NUL bytes",
            id="a run of NUL bytes",
        ),
        pytest.param(
            [HEADER, USER, "\0" * 40 + CALL],
            ["e0000002", "e0000003"],
            "3: 40 NUL bytes",
            id="NUL bytes before an entry",
        ),
        pytest.param(
            [HEADER, USER, CALL[:60], RESULT], ["e0000002", "e0000004"], "3: not JSON", id="a torn line"
        ),
        pytest.param([HEADER, USER, CALL[:60]], ["e0000002"], "3: not JSON", id="a torn last line"),
        pytest.param(
            [HEADER, USER, CALL[:60] + RESULT],
            ["e0000002", "e0000004"],
            "3: a torn entry",
            id="torn before a whole one",
        ),
        pytest.param(
            [HEADER, USER, CALL[:60] + RESULT + ANSWER],
            ["e0000002", "e0000004", "e0000005"],
            "3: a torn entry",
            id="torn before two whole ones",
        ),
        pytest.param(
            [HEADER, USER, CALL + RESULT[:60]],
            ["e0000002", "e0000003"],
            "3: a torn entry",
            id="torn behind a whole one",
        ),
        pytest.param(
            [HEADER, USER.replace("go on", "}{") + CALL],
            ["e0000002", "e0000003"],
            "2: 2 entries on one line",
            id="two glued together",
        ),
        pytest.param(
            [HEADER, USER.replace("go on", 'x\\"}{\\"type\\":\\"message\\"')[:-9] + CALL],
            ["e0000003"],
            "2: a torn entry",
            id="what looks like an entry within a string is none",
        ),
        pytest.param(
            [HEADER, USER.replace("go on", "a\tb"), CALL],
            ["e0000002", "e0000003"],
            "2: control characters",
            id="a control character that is not escaped",
        ),
        pytest.param(
            [HEADER, USER, *CALL.replace("a.py", "a\nb").split("\n"), RESULT],
            ["e0000002", "e0000004"],
            "3: not JSON",
            id="an entry broken in two by a line feed",
        ),
        pytest.param(
            [HEADER, USER, "[1]", "7", CALL],
            ["e0000002", "e0000003"],
            "3: no entry",
            id="JSON of other kinds",
        ),
        pytest.param(
            [HEADER, USER, "[1]x", CALL], ["e0000002", "e0000003"], "3: not JSON", id="JSON and more"
        ),
        pytest.param(
            [HEADER, USER, "torn" + '{"a":' * 90_000 + CALL],
            ["e0000002", "e0000003"],
            "3: a torn entry",
            id="a deeply nested torn line before a whole one",
        ),
        pytest.param(
            [HEADER, USER + CALL.replace("e0000003", "e0000002"), RESULT.replace("e0000004", "e0000002")],
            ["e0000002@2", "e0000002@2+", "e0000002"],
            "2: 2 entries",
            id="one id three times, twice on one line",
        ),
        pytest.param(
            [HEADER, USER, "{}", CALL], ["e0000002", "e0000003"], "3: no entry", id="an empty object"
        ),
        pytest.param(
            [HEADER, USER, '"\\ud800"', CALL], ["e0000002", "e0000003"], "3: no JSON object", id="odd text"
        ),
        pytest.param(
            [HEADER, USER, '{"type":"message","x":' + "[" * 90_000 + "]" * 90_000 + "}", CALL],
            ["e0000002", "e0000003"],
            "3: nested too deeply",
            id="nesting deeper than can be read",
        ),
        pytest.param(
            [HEADER, USER, HEADER, CALL],
            ["e0000002", "e0000003"],
            "3: a session header",
            id="a second header",
        ),
        pytest.param([USER, CALL], ["e0000002", "e0000003"], "1: no session header", id="no header"),
        pytest.param([HEADER[:30], USER, CALL], ["e0000002", "e0000003"], "1: not JSON", id="a torn header"),
        pytest.param(
            [HEADER.replace('"version":3', '"version":9'), USER],
            ["e0000002"],
            "1: version 9",
            id="a newer version",
        ),
    ],
)
def test_a_damaged_line_costs_one_warning_and_nothing_else(lines: list[str], ids: list[str], warning: str):
    session = read_lines(*lines)
    assert [entry.id for entry in session.entries] == ids
    assert f"s.jsonl:{warning}" in "\n".join(session.warnings)
    own = [one for one in session.warnings if "follows" not in one and "again" not in one]
    numbers = [int(one.split(":")[1]) for one in own]
    assert len(numbers) == len(set(numbers))
    assert len(session.branch()) == len(ids)


def test_an_unusual_version_is_the_current_one():
    assert read_lines(HEADER.replace('"version":3', '"version":"x"')).header.version == 3
    assert read_lines(HEADER.replace('"version":3', '"version":1.0')).header.version == 1
    assert read_lines(HEADER.replace('"version":3', '"version":-1')).header.version == 1


def test_a_torn_line_of_many_megabytes_is_given_up():
    torn = USER[:-3] + '{"a":' * 900 + '{"b":"' * 900 + "x" * 3_000_000
    assert len(read_lines(HEADER, torn, USER).entries) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "it is empty", id="an empty file"),
        pytest.param(b"\n\n", "none of its 2 lines", id="blank lines"),
        pytest.param(b"\x7fELF\0\0\xff\n\n\0", "none of its 3 lines", id="a program"),
        pytest.param(
            b'{\n "messages": [\n {"role": "user"}\n ]\n}\n', "none of its 5 lines", id="a JSON document"
        ),
        pytest.param(b'[{"type":"message"}]', "its only line is no entry of one", id="a JSON list"),
        pytest.param(
            b'{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"x"},"timestamp":"t"}\n',
            "its only line is no entry of one",
            id="Claude Code",
        ),
        pytest.param(
            b'{"type":"session_meta","payload":{"id":"x"},"timestamp":"t"}\n'
            b'{"type":"response_item","payload":{"type":"message","role":"user"},"timestamp":"t"}\n',
            "none of its 2 lines",
            id="Codex",
        ),
        pytest.param(
            b'{"type":"message","role":"user","content":[],"timestamp":"t"}\n',
            "its only line is no entry of one",
            id="older Codex",
        ),
        pytest.param(b'{"a":1}\n' * 5000, "none of its first 1000 lines", id="long JSON lines"),
        pytest.param(b"line of text\n" * 5000, "none of its first 1000 lines", id="long text"),
    ],
)
def test_what_is_no_session_is_said_in_one_line(data: bytes, reason: str, tmp_path: Path):
    file = tmp_path / "x.jsonl"
    file.write_bytes(data)
    with pytest.raises(InputError, match=re.escape(f"{file}: not a pi session, {reason}")) as caught:
        PiSession.open(file)
    assert "\n" not in str(caught.value)


def test_a_header_alone_is_a_session():
    session = read_lines(HEADER)
    assert (session.entries, session.leaf, session.branch(), session.context()) == ([], None, [], [])


def test_what_is_no_file_is_said(tmp_path: Path):
    with pytest.raises(InputError, match="there is no such file"):
        PiSession.open(tmp_path / "none")
    with pytest.raises(InputError, match="it is a folder"):
        PiSession.open(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        PiSession.open("a\0b")


@posix_only
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        PiSession.open(tmp_path / "pipe")


@not_as_root
def test_a_file_that_may_not_be_read_is_said(tmp_path: Path):
    file = simple().save(tmp_path / "s.jsonl")
    file.chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        PiSession.open(file)


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([line.encode() for line in simple().lines]), max_size=8)
)
def test_any_bytes_are_read_or_refused_as_input(lines: list[bytes]):
    with contextlib.suppress(InputError):
        session = PiSession.from_bytes(b"\n".join(lines))
        assert len(session.context()) <= len(session.entries)


@given(st.data())
def test_odd_values_in_entries_never_raise(data: st.DataObject):
    values = (
        st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
    )
    messages = st.dictionaries(st.sampled_from(["role", "content"]), values | st.just("toolResult"))
    fields = st.fixed_dictionaries(
        {"type": st.sampled_from(sorted(module.TYPES)) | values},
        optional={
            "id": values | st.sampled_from(["a", "b"]),
            "parentId": values | st.sampled_from(["a", "b"]),
            "message": values | messages,
            **dict.fromkeys(["timestamp", "summary", "content", "customType", "firstKeptEntryIndex"], values),
            **dict.fromkeys(["targetId", "firstKeptEntryId"], st.sampled_from(["a", "b"]) | values),
            "replacement": values | st.dictionaries(st.just("content"), values),
            "data": values,
        },
    )
    version = data.draw(st.sampled_from([1, 2, 3]))
    header = HEADER.replace('"version":3', f'"version":{version}')
    session = read_lines(header, *map(dump, data.draw(st.lists(fields, max_size=6))))
    ids = [entry.id for entry in session.entries]
    assert len(ids) == len(set(ids))
    for entry in session.entries:
        context = session.context(entry.id)
        assert len({one.id for one in context}) == len(context)
        session.ledger(entry.id)
        reference = session.reference(entry.id, "")
        assert reference is None or session.original(reference).message == entry.id


# ---- the tree


def test_the_active_leaf_is_the_last_entry_and_any_entry_may_be_asked_for():
    log = Log()
    root = log.user()
    left = log.answer("left")
    right = log.answer("right", parent=root)
    session = read(log)
    assert session.leaf == right
    assert session.leaves == [left, right]
    assert [entry.id for entry in session.branch()] == [root, right]
    assert [entry.id for entry in session.branch(left)] == [root, left]
    assert [one.id for one in session.context(root)] == [root]
    with pytest.raises(InputError, match="no entry nowhere"):
        session.branch("nowhere")


def test_at_a_gap_the_entry_before_it_in_the_file_is_followed_with_one_warning():
    log = Log()
    log.user()
    log.answer(parent="missing")
    log.user(parent="missing too")
    session = read(log)
    assert [entry.line for entry in session.branch()] == [2, 3, 4]
    text = "it follows entry missing, which is not in the file (1 more like it); read in file order there"
    assert session.warnings == [f"s.jsonl:3: {text}"]


def test_a_parent_further_down_is_followed_as_pi_does():
    log = Log()
    log.user(id="a", parent="b")
    log.user(id="b", parent=None)
    log.user(id="c", parent="a")
    session = read(log)
    assert [entry.id for entry in session.branch()] == ["b", "a", "c"]
    assert session.warnings == []


def test_entries_that_do_not_say_what_they_follow_are_in_file_order():
    lines = [json.loads(line) for line in simple().lines]
    bare = [
        dump({key: value for key, value in line.items() if key not in ("id", "parentId")})
        for line in lines[1:]
    ]
    session = read_lines(HEADER, *bare)
    assert [(entry.id, entry.line) for entry in session.branch()] == [
        (f"{line:08x}", line) for line in range(2, 6)
    ]
    assert len(session.warnings) == 1
    assert text_of(session, session.reference("00000004", "c1") or "") == "the output"


@pytest.mark.parametrize(
    "parents",
    [
        pytest.param({"a": "c", "b": "a", "c": "b"}, id="a circle of all"),
        pytest.param({"a": None, "b": "b", "c": "b"}, id="an entry that follows itself"),
        pytest.param({"a": None, "b": "c", "c": "b"}, id="a circle behind the root"),
    ],
)
def test_a_circle_is_cut_in_file_order_with_one_warning(parents: dict[str, str | None]):
    log = Log()
    for name, parent in parents.items():
        log.user(name, id=name, parent=parent)
    session = read(log)
    branch = [entry.id for entry in session.branch()]
    assert branch[-1] == "c"
    assert len(branch) == len(set(branch))
    session.branch()
    assert len(session.warnings) == 1


def around_circles(many: int) -> Log:
    log = Log()
    for index in range(many):
        log.user(id=f"early{index}", parent=f"late{many - index}" if index else None)
    for index in range(many):
        log.user(id=f"middle{index}", parent=f"middle{index - 1}" if index else "late0")
    for index in range(many):
        log.user(id=f"late{index}", parent="nowhere")
    log.user(id="leaf", parent=f"middle{many - 1}")
    return log


def test_a_walk_around_circles_finds_every_entry_once():
    many = 800
    branch = [entry.id for entry in read(around_circles(many)).branch()]
    assert len(branch) == len(set(branch)) == 3 * many + 1
    assert branch[-many - 5 :][:4] == ["early798", "late1", "early799", "late0"]


def test_a_walk_around_circles_grows_with_their_number():
    few, many = (lines_run(read(around_circles(number)).branch) for number in (200, 800))
    assert many < 4.5 * few


def glued(many: int) -> tuple[str, str]:
    log = Log()
    for _ in range(many):
        log.user(id="same")
    return log.lines[0], "".join(log.lines[1:])


def test_entries_of_one_id_on_one_line_are_each_read():
    session = read_lines(*glued(300))
    assert [entry.id for entry in session.entries[:3]] == ["same@2", "same@2+", "same@2+2"]
    assert len({entry.id for entry in session.entries}) == 300


def test_many_entries_of_one_id_on_one_line_cost_in_proportion():
    few, many = (lines_run(partial(read_lines, *glued(number))) for number in (100, 400))
    assert many < 4.5 * few


def test_of_two_entries_with_one_id_the_later_has_it():
    log = Log()
    log.exchange("first")
    log.result("c1", "second", id="twin")
    log.result("c1", "third", id="twin", parent=None)
    session = read(log)
    assert [(entry.id, entry.line) for entry in session.entries[-2:]] == [("twin@4", 4), ("twin", 5)]
    assert len(session.warnings) == 1
    assert (text_of(session, "#4"), text_of(session, "#5"), text_of(session, "twin@4")) == (
        "second",
        "third",
        "second",
    )
    with pytest.raises(RecallError, match="several entries"):
        session.original("twin")


def test_a_file_doubled_by_a_copy_reads_as_one():
    log = simple()
    session = read_lines(*log.lines, *log.lines[1:])
    assert [entry.line for entry in session.branch()] == [6, 7, 8, 9]
    assert text_of(session, "e0000004") == "the output"


def test_the_ids_of_version_1_come_from_the_line_alone():
    log = Log(version=None)
    log.message("user", "one")
    log.exchange()
    session = read(log)
    assert [(entry.id, entry.parent) for entry in session.entries] == [
        ("00000002", None),
        ("00000003", "00000002"),
        ("00000004", "00000003"),
    ]
    assert [entry.id for entry in read(log).entries] == [entry.id for entry in session.entries]


def test_an_untouched_message_is_the_object_of_its_entry():
    session = read(simple())
    assert all(
        one.message is entry.raw["message"]
        for one, entry in zip(session.context(), session.entries, strict=True)
    )


def test_a_compaction_with_a_system_prompt_gives_two_messages_with_ids_of_their_own():
    log = Log()
    log.user()
    log.add(
        "compaction", id="cut", summary="s", tokensBefore=1, systemMessage={"role": "system", "content": "be"}
    )
    assert [(one.id, one.message["role"], one.line) for one in read(log).context()] == [
        ("cut:system", "system", 3),
        ("cut", "compactionSummary", 3),
    ]


@pytest.mark.parametrize("replacement", [3, "text", {}])
def test_a_context_edit_that_says_nothing_changes_nothing(replacement: object):
    log = Log()
    first = log.user()
    log.add("context_edit", targetId=first, replacement=replacement)
    log.add("context_edit", targetId=first)
    assert read(log).context()[0].message["content"] == [{"type": "text", "text": "go on"}]


# ---- the ledger


def test_the_ledger_is_the_branchs():
    log = simple()
    kept = decision("c1")
    fork = log.ledger(kept)
    log.ledger(ledger.Restore(kept.idempotency_key))
    session = read(log)
    assert session.ledger() == [kept, ledger.Restore(kept.idempotency_key)]
    assert session.ledger(fork) == [kept]


def test_malformed_entries_of_the_ledger_are_passed_over_with_one_warning_each():
    log = simple()
    log.add("custom", customType=ledger.DECISION, data={"idempotencyKey": 3})
    log.add("custom", customType=ledger.STATS)
    log.add("custom", customType="someone-elses", data=3)
    log.add("custom", customType=3)
    log.ledger(decision("c1"))
    session = read(log)
    assert session.ledger() == session.ledger() == [decision("c1")]
    assert [warning.split(": ")[0] for warning in session.warnings] == ["s.jsonl:6", "s.jsonl:7"]
    assert "passed over" in session.warnings[0]


# ---- references


def test_a_reference_is_the_line_and_leads_back():
    session = read(simple())
    assert session.reference("e0000004", "c1") == "#4"
    original = session.original("#4")
    assert (original.message, original.name, original.content) == ("e0000004", "read", (Text("the output"),))
    assert original.input is None
    assert session.original(" #4 ") == session.original("e0000004") == original


def test_a_shell_output_has_a_reference_too():
    log = Log()
    shell = log.shell("a\nb")
    original = read(log).original(read(log).reference(shell, "") or "")
    assert (original.name, original.content) == ("bash", (Text("a\nb"),))


def test_a_reference_holds_on_every_branch():
    log = simple()
    log.answer("elsewhere", parent="e0000002")
    assert text_of(read(log), "#4") == "the output"


def test_images_come_back_as_they_were_stored():
    log = Log()
    log.message(
        "toolResult", [{"type": "text", "text": "t"}, IMAGE, {"new": 1}, 3], toolCallId="c1", toolName="read"
    )
    log.message("toolResult", "bare", toolCallId="c1", toolName="read")
    log.message("toolResult", None, toolCallId="c1", toolName="read")
    session = read(log)
    assert session.original("#2").content == (Text("t"), Image("image/png", 4), Text('{"new":1}'), Text("3"))
    assert session.original("#2").images == (IMAGE,)
    assert session.original("#3").content == (Text("bare"),)
    assert session.original("#4").content == ()


@pytest.mark.parametrize("restored", [False, True])
def test_a_purged_input_comes_back_whichever_branch_purged_it(restored: bool):
    log = simple()
    purge = decision("c1", TOOL_INPUT)
    log.ledger(purge)
    if restored:
        log.ledger(ledger.Restore(purge.idempotency_key))
    log.answer("elsewhere", parent="e0000002")
    assert read(log).original("#4").input == {"path": "a.py"}


def test_a_purged_input_that_is_no_object_comes_back_too():
    log = Log()
    log.message("assistant", [{"type": "toolCall", "id": "c1", "name": "read", "arguments": "raw"}])
    log.result("c1")
    log.ledger(decision("c1", TOOL_INPUT))
    assert read(log).original("#3").input == {"arguments": "raw"}


def test_the_input_of_a_call_that_is_not_there_is_none():
    log = Log()
    log.result("c1")
    log.ledger(decision("c1", TOOL_INPUT))
    assert read(log).original("#2").input is None


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        pytest.param(
            "#2", "line 2 of s.jsonl is a message of role user, not an output", id="a user's message"
        ),
        pytest.param("e0000003", "line 3 of s.jsonl is a message of role assistant", id="an answer, by id"),
        pytest.param("#6", "line 6 of s.jsonl is an entry of type label", id="an entry of another type"),
        pytest.param("#1", "line 1 of s.jsonl is the session header", id="the header"),
        pytest.param("#7", "line 7 of s.jsonl holds no entry", id="a line without an entry"),
        pytest.param("#8", "there is no such line, s.jsonl has 7", id="a line beyond the end"),
        pytest.param("#0", "there is no such line", id="line 0"),
        pytest.param("#", "not a recall reference", id="no number"),
        pytest.param("#x4", "not a recall reference", id="no number but text"),
        pytest.param("#-4", "not a recall reference", id="a negative number"),
        pytest.param("#٤", "not a recall reference", id="digits of another script"),
        pytest.param("#" + "4" * 5000, "not a recall reference", id="a number without end"),
        pytest.param("nowhere", "no entry with this id in s.jsonl", id="an unknown id"),
        pytest.param("4", "for line 4 write #4", id="a number without its sign"),
        pytest.param("", "an empty reference", id="nothing"),
    ],
)
def test_a_reference_that_leads_nowhere_says_why_in_one_line(reference: str, reason: str):
    log = simple()
    log.add("label", targetId="e0000002", label="x")
    log.lines.append("torn")
    with pytest.raises(RecallError, match=re.escape(reason)) as caught:
        read(log).original(reference)
    assert "\n" not in str(caught.value)


def test_two_outputs_glued_onto_one_line_go_by_their_ids():
    log = simple()
    log.exchange("second")
    glued = [*log.lines[:3], log.lines[3] + log.lines[6], *log.lines[4:6]]
    session = read_lines(*glued)
    assert {text_of(session, session.reference(name, "") or "") for name in ("e0000004", "e0000007")} == {
        "the output",
        "second",
    }
    with pytest.raises(RecallError, match="several outputs are on line 4"):
        session.original("#4")


def test_where_pi_will_renumber_lines_there_is_no_reference():
    log = Log(version=2)
    before, _ = log.exchange(), log.lines.append("torn")
    after = log.exchange()
    session = read(log)
    assert (session.reference(before, "c1"), session.reference(after, "c2")) == ("#3", None)


def test_what_is_no_output_has_no_reference():
    session = read(simple())
    assert session.reference("e0000002", "") is None
    assert session.reference("nowhere", "") is None


# ---- references in a fork


class Family:
    """A parent file and a fork of it, as pi makes one: the branch copied, ids kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parent = Log(id="parent")
        root = self.parent.user()
        self.parent.exchange("left out of the fork", name="bash")  # line 4
        self.parent.last = root
        self.copied = self.parent.exchange("copied")  # line 6, in the fork line 4
        self.parent.answer()  # line 7, in the fork 5
        self.branch = [self.parent.lines[number - 1] for number in (2, 5, 6, 7)]
        self.fork = Log(id="fork", at=20, ids="f", parentSession=str(folder / "parent.jsonl"))
        self.fork.lines += self.branch
        self.fork.last = self.parent.last

    def open(self) -> PiSession:
        self.parent.save(self.folder / "parent.jsonl")
        return PiSession.open(self.fork.save(self.folder / "fork.jsonl"))


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


def test_in_a_fork_references_are_ids(family: Family):
    own = family.fork.exchange("own")
    session = family.open()
    assert session.reference(family.copied, "c2") == family.copied
    assert text_of(session, own) == "own"


@pytest.mark.parametrize("odd", ["#6", "x:full", "x y"])
def test_in_a_fork_an_id_that_recall_would_read_otherwise_is_no_reference(family: Family, odd: str):
    family.fork.result("c2", "its own", id=odd)
    assert family.open().reference(odd, "c2") is None


def test_in_a_fork_a_line_is_the_parents_where_an_output_stood_there_before_the_fork(family: Family):
    session = family.open()
    assert text_of(session, "#6") == "copied"
    assert session.original("#6").message == family.copied


def test_it_is_found_in_the_parent_where_it_was_not_copied(family: Family):
    assert text_of(family.open(), "#4") == "left out of the fork"


def test_what_the_parent_wrote_after_the_fork_does_not_count(family: Family):
    for _ in range(3):
        family.parent.add("label", targetId="x", at=30)
    later = family.parent.result("c9", "later", at=30)
    for _ in range(5):
        family.fork.add("custom", customType="x")
    own = family.fork.result("c8", "own")
    assert family.parent.line_of(later) == family.fork.line_of(own) == 11
    assert text_of(family.open(), "#11") == "own"


def test_beyond_the_parents_lines_a_line_is_the_forks_own(family: Family):
    for _ in range(5):
        family.fork.user()
    own = family.fork.exchange("own")
    assert text_of(family.open(), f"#{family.fork.line_of(own)}") == "own"


def test_where_the_parent_had_no_output_a_line_is_the_forks_own(family: Family):
    own = family.fork.exchange("own")  # line 7, in the parent an answer
    assert family.fork.line_of(own) == 7
    assert text_of(family.open(), "#7") == "own"


def test_a_copied_decision_says_what_its_reference_stands_for(family: Family):
    family.fork.ledger(decision("c2", reference="#4", entry_id=family.copied, session_id="parent"))
    session = family.open()
    assert text_of(session, "#4") == "copied"
    (family.folder / "parent.jsonl").unlink()
    assert text_of(session, "#4") == "copied"


def test_a_decision_of_this_very_session_says_it_by_line(family: Family):
    placeholder = "[prunewise: read output (9 characters) left out, x; recall #4 for all of it]"
    family.fork.ledger(decision("c2", placeholder=placeholder, session_id="fork"))
    assert text_of(family.open(), "#4") == "copied"


def test_decisions_that_contradict_each_other_are_not_chosen_from(family: Family):
    own = family.fork.exchange("own")
    family.fork.ledger(decision("c2", reference="#4", entry_id=family.copied, session_id="parent"))
    family.fork.ledger(decision("c3", reference="#4", entry_id=own, session_id="fork"))
    with pytest.raises(RecallError, match="several outputs"):
        family.open().original("#4")


def test_a_decision_about_what_is_nowhere_leads_nowhere(family: Family):
    family.fork.ledger(decision("c2", reference="#4", entry_id="gone", session_id="parent"))
    with pytest.raises(RecallError, match="stands for entry gone"):
        family.open().original("#4")


def test_without_the_parents_file_a_line_cannot_be_known(family: Family):
    own = family.fork.exchange("own")
    session = family.open()
    (family.folder / "parent.jsonl").unlink()
    for line in (4, family.fork.line_of(own)):
        with pytest.raises(RecallError, match=r"is a fork.*no such file.*use the entry's id"):
            session.original(f"#{line}")
    assert text_of(session, family.copied) == "copied"


def test_another_session_in_the_parents_place_is_not_taken_for_it(family: Family):
    session = family.open()
    simple().save(family.folder / "parent.jsonl")
    other = Log(id="other")
    other.message("user", "x", entry={"id": "unrelated"})
    other.save(family.folder / "parent.jsonl")
    with pytest.raises(RecallError, match="does not hold the session"):
        session.original("#4")


def test_where_no_time_is_given_it_cannot_be_known(family: Family):
    family.parent.lines[3] = re.sub(
        r'"timestamp":"[^"]*"', '"timestamp":"?"', family.parent.lines[3], count=1
    )
    with pytest.raises(RecallError, match="nothing says whether"):
        family.open().original("#4")


def test_a_relative_parent_lies_beside_the_fork(family: Family):
    family.fork.lines[0] = family.fork.lines[0].replace(
        dump(str(family.folder / "parent.jsonl")), '"parent.jsonl"'
    )
    assert text_of(family.open(), "#4") == "left out of the fork"


def test_a_chain_of_forks_is_followed_to_the_oldest(family: Family, tmp_path: Path):
    family.open()
    grandchild = Log(id="grandchild", at=40, parentSession="fork.jsonl")
    grandchild.lines += family.branch
    session = PiSession.open(grandchild.save(tmp_path / "grandchild.jsonl"))
    assert text_of(session, "#4") == "left out of the fork"
    assert text_of(session, "#6") == "copied"


def test_forks_of_each_other_end(family: Family):
    family.parent.lines[0] = dump({**json.loads(family.parent.lines[0]), "parentSession": "fork.jsonl"})
    assert text_of(family.open(), "#6") == "copied"
    own = Log(id="own", parentSession="own.jsonl")
    own.exchange("mine")
    assert text_of(PiSession.open(own.save(family.folder / "own.jsonl")), "#3") == "mine"


def test_no_line_ever_leads_to_another_output_than_the_parent_gave_it_for(family: Family):
    session = family.open()
    parent = PiSession.open(family.folder / "parent.jsonl")
    for entry in parent.entries:
        reference = parent.reference(entry.id, "")
        if reference is not None:
            assert session.original(reference).content == parent.original(reference).content


# ---- adding


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return simple().save(tmp_path / "session.jsonl")


def appended(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[5:] if line]


def test_appended_entries_are_pis_own_and_follow_the_last_entry(file: Path):
    before = file.read_bytes()
    session = PiSession.open(file)
    made = [decision("c1", reference="#4"), ledger.Savings("k", "dedupe", 5, stamp(1))]
    session.append(made)
    assert file.read_bytes().startswith(before)
    first, second = appended(file)
    assert list(first) == ["type", "customType", "data", "id", "parentId", "timestamp"]
    assert (first["type"], first["customType"], first["data"]["idempotencyKey"]) == (
        "custom",
        ledger.DECISION,
        "dedupe:tool_result_content:c1",
    )
    assert re.fullmatch("[0-9a-f]{8}", first["id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["timestamp"])
    assert (first["parentId"], second["parentId"]) == ("e0000005", first["id"])
    assert session.ledger() == PiSession.open(file).ledger() == made
    assert session.leaf == second["id"]


def test_nothing_to_add_touches_nothing(file: Path):
    PiSession.open(file).append([])
    assert file.read_bytes() == simple().bytes()


def test_entries_with_lone_surrogates_can_be_added(file: Path):
    session = PiSession.open(file)
    session.append([decision("c1", placeholder="\ud800é")])
    assert session.ledger() == [decision("c1", placeholder="\ud800é")]


@pytest.mark.parametrize("tail", [b"", b"\n", USER[:40].encode(), b"\n" + USER[:40].encode(), b"\0\0\0"])
def test_an_unfinished_last_line_is_closed_first(file: Path, tail: bytes):
    file.write_bytes(file.read_bytes().rstrip(b"\n") + tail)
    before = file.read_bytes()
    session = PiSession.open(file)
    session.append([decision("c1")])
    after = file.read_bytes()
    assert after.startswith(before)
    assert json.loads(after.split(b"\n")[-2])["customType"] == ledger.DECISION
    assert session.ledger() == [decision("c1")]


def test_what_others_wrote_since_is_followed(file: Path):
    session = PiSession.open(file)
    log = simple()
    log.user("from elsewhere", id="fresh")
    log.save(file)
    session.append([decision("c1")])
    assert appended(file)[-1]["parentId"] == "fresh"
    assert [entry.id for entry in session.branch()][-2] == "fresh"


def test_what_others_write_at_the_last_moment_is_followed_too(file: Path, monkeypatch: pytest.MonkeyPatch):
    session = PiSession.open(file)
    log = simple()
    log.user("from elsewhere", id="fresh")
    original, calls = PiSession._read, []

    def interrupted(self: PiSession, opened: BinaryIO) -> None:
        original(self, opened)
        if not calls:
            calls.append(log.save(file))

    monkeypatch.setattr(PiSession, "_read", interrupted)
    log.lines.append(dump({"type": "label", "id": "more", "parentId": "fresh", "timestamp": stamp(9)}))
    with file.open("ab") as other:
        other.write(log.lines[5].encode() + b"\n")
    session.append([decision("c1")])
    assert appended(file)[-1]["parentId"] == "more"


def test_an_id_that_is_taken_is_not_used_again(file: Path, monkeypatch: pytest.MonkeyPatch):
    ids = iter(["e0000002", "00000001", "00000001", "00000002"])
    monkeypatch.setattr(module.os, "urandom", lambda _: bytes.fromhex(next(ids)))
    PiSession.open(file).append([decision("c1"), decision("c2")])
    assert [entry["id"] for entry in appended(file)] == ["00000001", "00000002"]


def test_a_file_that_was_written_anew_is_read_anew(file: Path):
    session = PiSession.open(file)
    log = Log(id="another")
    for _ in range(9):
        log.user("x" * 50)
    log.save(file)
    session.refresh()
    assert (session.conversation, len(session.entries)) == ("another", 9)
    simple().save(file.with_name("new")).replace(file)
    session.refresh()
    assert session.conversation == "the-session"


def test_a_last_line_that_goes_on_is_read_anew(file: Path):
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    session = PiSession.open(file)
    assert len(session.entries) == 3
    file.write_bytes(whole)
    session.refresh()
    assert (len(session.entries), session.warnings) == (4, [])


def test_a_leaf_elsewhere_is_refused_unless_pi_is_to_move_there(file: Path):
    session = PiSession.open(file)
    with pytest.raises(RefusedError, match="would move pi to another branch"):
        session.append([decision("c1")], leaf="e0000004")
    assert file.read_bytes() == simple().bytes()
    session.append([decision("c1")], leaf="e0000004", move_leaf=True)
    assert appended(file)[-1]["parentId"] == "e0000004"
    assert session.context()[-1].id == "e0000004"
    with pytest.raises(InputError, match="no entry nowhere"):
        session.append([decision("c1")], leaf="nowhere")


def test_behind_silent_entries_the_leaf_is_the_same_place(file: Path):
    session = PiSession.open(file)
    session.append([decision("c1")], leaf="e0000005")
    session.append([ledger.Restore("k")], leaf="e0000005")
    assert len(session.ledger()) == 2


def test_a_version_1_file_takes_entries_too(tmp_path: Path):
    log = Log(version=None)
    log.message("user", "one")
    session = PiSession.open(log.save(tmp_path / "old.jsonl"))
    session.append([decision("c1"), ledger.Restore("k")])
    assert session.ledger() == [decision("c1"), ledger.Restore("k")]


def test_bytes_cannot_be_added_to():
    with pytest.raises(PrunewiseError, match="read from bytes"):
        PiSession.from_bytes(simple().bytes()).append([decision("c1")])
    with pytest.raises(InputError, match="read from bytes"):
        PiSession.from_bytes(simple().bytes()).refresh()


def test_a_file_that_is_gone_is_said(file: Path):
    session = PiSession.open(file)
    file.unlink()
    with pytest.raises(InputError, match="there is no such file"):
        session.append([decision("c1")])
    assert not file.exists()


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
def test_a_file_that_cannot_be_opened_for_writing_is_said(
    file: Path, error: int, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    session = PiSession.open(file)
    monkeypatch.setattr(module.os, "open", refuse)
    with pytest.raises(PrunewiseError, match=f"cannot be written, {os.strerror(error).lower()}"):
        session.append([decision("c1")])


def full_after(count: int) -> Callable[[int, bytes], int]:
    """A disk that takes so many bytes and then is full."""
    write, left = os.write, [count]

    def full(descriptor: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(descriptor, data[: left[0]])
        left[0] -= taken
        return taken

    return full


@pytest.mark.parametrize("room", [0, 1, 100, 420])
def test_a_full_disk_leaves_a_file_that_can_be_read_and_added_to(
    file: Path, room: int, monkeypatch: pytest.MonkeyPatch
):
    session = PiSession.open(file)
    with monkeypatch.context() as patched:
        patched.setattr(module.os, "write", full_after(room))
        with pytest.raises(PrunewiseError, match="no space left on device"):
            session.append([decision("c1"), decision("c2")])
    assert file.read_bytes().startswith(simple().bytes())
    session.append([decision("c3")])
    assert session.ledger()[-1] == decision("c3")
    assert len(PiSession.open(file).context()) == 4


def test_an_entry_that_is_not_found_again_is_said(file: Path, monkeypatch: pytest.MonkeyPatch):
    session = PiSession.open(file)
    monkeypatch.setattr(module, "_write", lambda *_: None)
    with pytest.raises(PrunewiseError, match="not found in it again"):
        session.append([decision("c1")])


def test_a_file_that_stays_locked_is_said(file: Path, monkeypatch: pytest.MonkeyPatch):
    portalocker = pytest.importorskip("portalocker")
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.05)
    with file.open("rb") as other:
        portalocker.lock(other, portalocker.LOCK_EX)
        with pytest.raises(PrunewiseError, match="locked"):
            PiSession.open(file).append([decision("c1")])
    PiSession.open(file).append([decision("c1")])


WRITER = """
import sys
from prunewise.stores.pi_session import PiSession
from prunewise import ledger
session = PiSession.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    session.append([ledger.Restore(f"{sys.argv[2]} {number} {at}" + "x" * 300) for at in range(3)])
"""


def writer(file: Path, name: str, rounds: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file), name, str(rounds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def start(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=120)


def test_two_processes_that_add_at_once_make_one_branch(file: Path):
    pytest.importorskip("portalocker")
    writers = [writer(file, name, 15) for name in "ab"]
    for process in writers:
        start(process)
    for process in writers:
        finish(process)
        assert process.returncode == 0
    session = PiSession.open(file)
    assert session.warnings == []
    entries = session.ledger()
    assert len(session.branch()) == 4 + len(entries) == 4 + 2 * 15 * 3
    for name in "ab":
        own = [
            entry.idempotency_key.rstrip("x") for entry in entries if entry.idempotency_key.startswith(name)
        ]
        assert own == [f"{name} {number} {at}" for number in range(15) for at in range(3)]


@posix_only
def test_a_kill_in_the_middle_of_adding_leaves_a_file_that_can_be_read_and_added_to(file: Path):
    pytest.importorskip("portalocker")
    for patience in (0.002, 0.01, 0.03):
        process = writer(file, "a", 100_000)
        start(process)
        time.sleep(patience)
        process.send_signal(signal.SIGKILL)
        finish(process)
        session = PiSession.open(file)
        session.append([decision("c1")])
        assert session.ledger()[-1] == decision("c1")
        assert len(session.context()) == 4
        assert file.read_bytes().startswith(simple().bytes())


def test_who_else_has_the_file_open_is_known(file: Path):
    pytest.importorskip("psutil")
    holding = "import sys; file = open(sys.argv[1]); print('ready', flush=True); sys.stdin.readline()"
    process = subprocess.Popen(
        [sys.executable, "-c", holding, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    session = PiSession.open(file)
    with file.open("rb"):
        assert session.open_elsewhere() == [process.pid]
    finish(process)
    assert session.open_elsewhere() == []
    assert PiSession.from_bytes(simple().bytes()).open_elsewhere() == []
