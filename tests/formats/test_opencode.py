import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from tests.formats.sessions import check, check_corpus, never_raises, refuses
from tests.formats.wire import json_values

from prunewise import InputError, tools
from prunewise.formats import opencode
from prunewise.formats.reading import Json
from prunewise.recording import Recording
from prunewise.transcript import Image, Opaque, Text, Thinking, ToolCall, ToolResult, Transcript, Usage

TOKENS = {"input": 10, "output": 4, "reasoning": 3, "cache": {"read": 100, "write": 20}, "total": 137}


def user(name: str, *parts: Json, **info: Json) -> dict[str, Json]:
    return {
        "info": {"id": name, "role": "user", "time": {"created": 1000_000_000_000}, **info},
        "parts": list(parts),
    }


def assistant(name: str, *parts: Json, **info: Json) -> dict[str, Json]:
    about = {
        "id": name,
        "role": "assistant",
        "modelID": "m",
        "providerID": "p",
        "tokens": TOKENS,
        "finish": "stop",
    }
    times = {"time": {"created": 1000_000_001_000, "completed": 1000_000_002_000}}
    return {"info": {**about, **times, **info}, "parts": list(parts)}


def text(value: str, **more: Json) -> dict[str, Json]:
    return {"type": "text", "text": value, **more}


def tool(call_id: str, status: str = "completed", **state: Json) -> dict[str, Json]:
    times = {"start": 1000_000_002_000, "end": 1000_000_003_000}
    inner = {"status": status, "input": {"filePath": "/a"}, "time": times, **state}
    return {"type": "tool", "tool": "read", "callID": call_id, "state": inner}


def session(*messages: Json, **info: Json) -> bytes:
    document = {"info": {"id": "ses_1", "directory": "/repo", **info}, "messages": list(messages)}
    return json.dumps(document, indent=2).encode()


def read(*messages: Json, **info: Json) -> Recording:
    data = session(*messages, **info)
    assert opencode.detect(data[:65536])
    recording = opencode.read_recording("s.json", data)
    check(recording)
    return recording


def test_a_call_and_its_result_are_two_messages():
    recording = read(
        user("u1", text("fix it")),
        assistant(
            "a1",
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "sig"}}},
            text("reading"),
            tool("c1", output="text of a"),
            {"type": "step-finish", "tokens": TOKENS},
            {"type": "patch", "files": []},
        ),
        assistant("a2", text("done")),
    )
    assert (recording.format, recording.session, recording.cwd) == ("opencode", "ses_1", "/repo")
    assert recording.vocabulary is tools.OPENCODE
    (epoch,) = recording.epochs
    assert [(one.role, one.id) for one in epoch.messages] == [
        ("user", "u1"),
        ("assistant", "a1"),
        ("tool", "a1:results"),
        ("assistant", "a2"),
    ]
    assert epoch.messages[1].parts == (
        Thinking("hm", "sig"),
        Text("reading"),
        ToolCall("c1", "read", {"filePath": "/a"}, '{"filePath":"/a"}'),
    )
    assert epoch.messages[2].parts == (ToolResult("c1", "read", (Text("text of a"),)),)
    assert epoch.messages[2].time == 1000_000_003
    assert [call.position for call in epoch.calls] == [1, 3]
    assert epoch.calls[0].usage == Usage(10, 7, 100, 20, total=137)
    assert (epoch.calls[0].time, epoch.calls[0].model, epoch.calls[0].provider) == (1000_000_002, "m", "p")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            tool("c", "error", error="no such file"),
            ToolResult("c", "read", (Text("no such file"),), is_error=True),
        ),
        (
            tool("c", "error", error="x", metadata={"interrupted": True, "output": "half"}),
            ToolResult("c", "read", (Text("half"),)),
        ),
        (
            tool("c", "running"),
            ToolResult("c", "read", (Text("[Tool execution was interrupted]"),), is_error=True),
        ),
        (
            tool("c", output="o", attachments=[{"mime": "image/png", "url": "data:image/png;base64,AAAA"}]),
            ToolResult("c", "read", (Text("o"), Image("image/png", 4))),
        ),
    ],
)
def test_results_of_every_status(part: Json, expected: ToolResult):
    (epoch,) = read(user("u1", text("go")), assistant("a1", part)).epochs
    assert epoch.messages[2].parts == (expected,)


@pytest.mark.parametrize(
    ("parts", "role", "expected"),
    [
        ([text("a"), text("b", synthetic=True)], "user", (Text("a"), Text("b"))),
        ([text("go on", synthetic=True)], "other", (Text("go on"),)),
        ([text("a"), text("note", ignored=True)], "user", (Text("a"),)),
        ([text("a"), {"type": "file", "mime": "text/plain", "url": "file:///a"}], "user", (Text("a"),)),
        (
            [{"type": "subtask", "prompt": "p", "description": "d", "agent": "a"}],
            "user",
            (Text("The following tool was executed by the user"),),
        ),
        (
            [{"type": "file", "mime": "image/png", "url": "data:image/png;base64,AA"}],
            "user",
            (Image("image/png", 2),),
        ),
    ],
)
def test_what_a_user_sends(parts: list[Json], role: str, expected: Json):
    (epoch,) = read(user("u1", *parts), assistant("a1", text("x"))).epochs
    assert (epoch.messages[0].role, epoch.messages[0].parts) == (role, expected)


def test_a_message_of_which_nothing_is_sent_is_none():
    (epoch,) = read(user("u1", {"type": "agent", "name": "x"}), assistant("a1", text("x"))).epochs
    assert [one.id for one in epoch.messages] == ["a1"]


def test_a_compaction_begins_an_epoch_with_its_summary():
    recording = read(
        user("u1", text("fix it")),
        assistant("a1", tool("c1", output="x")),
        user("u2", {"type": "compaction", "auto": True}),
        assistant("a2", text("what was done"), summary=True, parentID="u2"),
        user("u3", text("go on", synthetic=True)),
        assistant("a3", text("done")),
    )
    first, second = recording.epochs
    assert (first.ended_by, second.ended_by) == ("compaction", "end")
    assert [one.id for one in first.messages] == ["u1", "a1", "a1:results", "u2", "a2"]
    assert [call.position for call in first.calls] == [1, 4]
    assert [(one.id, one.role) for one in second.messages] == [
        *(("u2", "other"), ("a2", "other"), ("u3", "other"), ("a3", "assistant")),
    ]
    assert [call.position for call in second.calls] == [3]


def test_a_compaction_may_keep_a_tail():
    recording = read(
        user("u1", text("one")),
        assistant("a1", text("x")),
        user("u2", text("two")),
        assistant("a2", text("y")),
        user("u3", {"type": "compaction", "tail_start_id": "u2"}),
        assistant("a3", text("so far"), summary=True, parentID="u3"),
        user("u4", text("three")),
        assistant("a4", text("z")),
    )
    assert [one.id for one in recording.epochs[1].messages] == ["u3", "a3", "u2", "a2", "u4", "a4"]


def test_a_compaction_that_failed_changes_nothing():
    recording = read(
        user("u1", text("one")),
        assistant("a1", text("x")),
        user("u2", {"type": "compaction"}),
        assistant("a2", summary=True, parentID="u2", error={"name": "APIError"}, tokens=None),
    )
    (epoch,) = recording.epochs
    assert [call.failed for call in epoch.calls] == [False, True]
    assert [one.id for one in epoch.messages] == ["u1", "a1", "u2"]


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (assistant("a1"), False),
        (assistant("a1", text("half"), error={"name": "APIError"}), False),
        (assistant("a1", text("half"), error={"name": "MessageAbortedError"}), True),
        (
            assistant("a1", {"type": "reasoning", "text": "hm"}, error={"name": "MessageAbortedError"}),
            False,
        ),
    ],
)
def test_answers_that_failed(answer: Json, kept: bool):
    for tokens in (answer["info"]["tokens"], None):
        made = {**answer, "info": {**answer["info"], "tokens": tokens}}
        (epoch,) = read(user("u1", text("go")), made).epochs
        (call,) = epoch.calls
        assert call.failed is (call.usage is None) is (tokens is None)
        assert (len(epoch.messages) == 2) is kept
        assert epoch.messages[-1].usage is None


@pytest.mark.parametrize("error", ["APIError", "MessageAbortedError", "MessageOutputLengthError"])
@pytest.mark.parametrize("summary", [True, False])
def test_an_answer_that_failed_costs_what_was_counted(error: str, summary: bool):
    tokens = {"input": 7, "output": 1, "reasoning": 0, "cache": {"read": 900, "write": 20}}
    made = assistant("a1", text("half"), summary=summary, error={"name": error}, tokens=tokens)
    (epoch,) = read(user("u1", text("do it")), made).epochs
    (call,) = epoch.calls
    assert (call.failed, call.usage) == (False, Usage(7, 1, 900, 20))


def test_several_steps_in_one_message_are_several_calls():
    step = {"type": "step-finish", "tokens": {"input": 5, "output": 1}}
    start = {"type": "step-start"}
    recording = read(
        user("u1", text("go")),
        assistant("a1", start, tool("c1", output="x"), step, start, text("done"), {**step, "tokens": TOKENS}),
    )
    (epoch,) = recording.epochs
    assert [one.id for one in epoch.messages] == ["u1", "a1", "a1:results", "a1:2"]
    assert [call.usage for call in epoch.calls] == [Usage(5, 1), Usage(10, 7, 100, 20, total=137)]


def test_what_was_cleared_later_is_read_as_it_was():
    cleared = tool("c1", output="long")
    cleared["state"]["time"]["compacted"] = 1000_000_009_000
    recording = read(user("u1", text("go")), assistant("a1", cleared))
    assert recording.warnings == ("s.json:2: outputs that opencode cleared later (1), read as they were",)
    assert recording.epochs[0].messages[2].parts == (ToolResult("c1", "read", (Text("long"),)),)


def test_a_session_that_was_taken_back_ends_so():
    messages = [user("u1", text("go")), assistant("a1", text("x"))]
    assert read(*messages, revert={"messageID": "u1"}).epochs[0].ended_by == "rewind"
    assert read(*messages, revert={"messageID": "u9"}).epochs[0].ended_by == "end"


def test_a_call_without_an_id_is_opaque():
    (epoch,) = read(user("u1", text("go")), assistant("a1", tool(""))).epochs
    assert [type(part) for part in epoch.messages[1].parts] == [Opaque]
    assert len(epoch.messages) == 2


def test_what_is_no_message_is_left_out():
    recording = read({"info": {"role": "critic"}}, 7, user("u1", text("go")), assistant("a1", text("x")))
    assert [one.split(": ")[0] for one in recording.warnings] == ["s.json:1", "s.json:2"]
    assert recording.llm_calls == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"info":{"id":"ses_1"}}', b"\xff"])
def test_refuses_what_is_none(data: bytes):
    refuses(opencode.read_recording, data)


@given(json_values)
def test_never_raises(value: Json):
    for document in (
        {"info": value, "messages": value},
        {"info": {}, "messages": [{"info": value, "parts": value}]},
        {
            "info": {},
            "messages": [assistant("a", value, tool("c", metadata=value, time=value), tokens=value)],
        },
    ):
        never_raises(opencode.read_recording, json.dumps(document).encode())


# ---- the database


def database(path: Path, *messages: Json) -> Path:
    """A database as opencode lays it out, as far as it is read."""
    with sqlite3.connect(path) as base:
        base.executescript(
            """
            CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, revert TEXT, time_created INTEGER);
            CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
            CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
            INSERT INTO session VALUES ('ses_2', '/other', NULL, 2), ('ses_1', '/repo', NULL, 1);
            """
        )
        for index, message in enumerate(messages):
            info = dict(message["info"])
            name = info.pop("id")
            base.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (name, index, json.dumps(info)))
            for number, part in enumerate(message["parts"]):
                row = (f"prt_{index}_{number}", name, json.dumps(part))
                base.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?)", row)
    base.close()
    return path


def test_a_database_reads_like_an_export(tmp_path: Path):
    messages = [
        user("u1", text("go")),
        assistant("a1", tool("c1", output="x")),
        assistant("a2", text("done")),
    ]
    path = database(tmp_path / "opencode.db", *messages)
    before = path.read_bytes()
    first, second = opencode.read_database(path)
    exported = read(*messages)
    assert first.epochs == exported.epochs
    assert (first.session, first.cwd, first.source) == ("ses_1", "/repo", f"{path}:ses_1")
    assert (second.session, second.epochs) == ("ses_2", ())
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["opencode.db"]


def test_rows_that_are_broken_are_left_out(tmp_path: Path):
    path = database(tmp_path / "opencode.db", user("u1", text("go")), assistant("a1", text("x")))
    with sqlite3.connect(path) as base:
        base.execute("INSERT INTO message VALUES ('m9', 'ses_1', 9, '{broken')")
        base.execute("INSERT INTO part VALUES ('p9', 'a1', 'ses_1', '[]')")
    base.close()
    first, _ = opencode.read_database(path)
    assert first.llm_calls == 1
    assert len(first.warnings) == 1


@pytest.mark.parametrize("data", [b"", b"not a database at all, but long enough to be looked at" * 20])
def test_refuses_other_files(tmp_path: Path, data: bytes):
    path = tmp_path / "opencode.db"
    path.write_bytes(data)
    with pytest.raises(InputError, match="no opencode database"):
        list(opencode.read_database(path))
    with pytest.raises(InputError, match="no opencode database"):
        list(opencode.read_database(tmp_path / "missing.db"))


# ---- the corpus

LARGEST = "opencode/savekirk__session-bridge__ses_277daa810ffePOBsdfS6gm8uA2.json"


@pytest.mark.corpus
def test_corpus(shared: Path):
    found = check_corpus(shared, "opencode", opencode.detect, opencode.read_recording, exceptions={})
    assert len(found) == 6
    largest = found[LARGEST]
    assert [len(epoch.calls) for epoch in largest.epochs] == [43, 26]
    exchanges = [one for epoch in largest.epochs for one in Transcript(epoch.messages).exchanges]
    assert len(exchanges) == 72
    # The one answer that failed: no text, no call, no tokens, no reason to finish.
    failed = [call for one in found.values() for epoch in one.epochs for call in epoch.calls if call.failed]
    assert [call.model for call in failed] == ["gemini-3.1-pro-preview"]


@pytest.mark.parametrize("kind", ["patch", "snapshot", "agent", "retry", "of a later version"])
def test_parts_that_are_not_sent(kind: str):
    part = {"type": kind, "snapshot": "s", "files": [], "name": "build", "error": {}}
    (epoch,) = read(user("u1", text("go"), part), assistant("a1", part, text("ok"))).epochs
    assert [one.parts for one in epoch.messages] == [(Text("go"),), (Text("ok"),)]
