import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.sessions import check, manifest, never_raises, refuses
from tests.formats.wire import json_values

from prunewise import tools
from prunewise.formats import claude_code, detect, qwen
from prunewise.formats.reading import Json
from prunewise.recording import Recording
from prunewise.transcript import Image, Message, Text, Thinking, ToolCall, ToolResult, Transcript, Usage

USAGE = {
    "promptTokenCount": 110,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 3,
    "totalTokenCount": 117,
    "cachedContentTokenCount": 100,
}
SECOND = 1_767_323_045.0
"""2026-01-02T03:04:05Z, the time of all records."""


def record(uuid: str, parent: str | None, kind: str, **fields: Json) -> dict[str, Json]:
    about = {"timestamp": "2026-01-02T03:04:05.000Z", "type": kind, "cwd": "/w", "version": "0.24.4"}
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "s1", **about, **fields}


def said(role: str, *parts: Json) -> dict[str, Json]:
    return {"role": role, "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def user(uuid: str, parent: str | None, *parts: Json, **fields: Json) -> dict[str, Json]:
    return record(uuid, parent, "user", message=said("user", *(parts or ("go",))), **fields)


def answer(uuid: str, parent: str | None, *parts: Json, **fields: Json) -> dict[str, Json]:
    about = {"model": "qwen3-coder-plus", "message": said("model", *parts), "usageMetadata": USAGE}
    return record(uuid, parent, "assistant", **{**about, **fields})


def called(call_id: str, path: str = "/w/a.py", name: str = "read_file") -> dict[str, Json]:
    return {"functionCall": {"id": call_id, "name": name, "args": {"file_path": path}}}


def result(uuid: str, parent: str | None, call_id: str, response: Json, **fields: Json) -> dict[str, Json]:
    about = {"id": call_id, "name": "read_file", "response": response, **fields.pop("about", {})}
    message = said("user", {"functionResponse": about})
    told = {"callId": call_id, "status": "success", "resultDisplay": "for the screen alone", **fields}
    return record(uuid, parent, "tool_result", message=message, toolCallResult=told)


def system(uuid: str, parent: str | None, subtype: str, **payload: Json) -> dict[str, Json]:
    return record(uuid, parent, "system", subtype=subtype, systemPayload=payload)


def lines(*records: Json) -> bytes:
    return "".join([json.dumps(one) + "\n" for one in records]).encode()


def read(*records: Json) -> Recording:
    data = lines(*records)
    assert detect.detect(data[:65536]) == "qwen-code"
    recording = qwen.read_recording("s.json", data)
    check(recording)
    return recording


def messages(*records: Json) -> tuple[Message, ...]:
    """The messages of a recording of one epoch."""
    (epoch,) = read(*records).epochs
    return epoch.messages


def outline(found: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(one.role, one.id) for one in found]


def test_a_session():
    recording = read(
        system("y0", None, "session_source", sourceType="cli"),
        user("u1", "y0", "fix it", {"inlineData": {"mimeType": "image/png", "data": "AA"}}),
        system("y1", "u1", "ui_telemetry", uiEvent={"event.name": "qwen-code.api_response"}),
        answer("a1", "y1", {"text": "hm", "thought": True}, "reading", called("c1"), called("c2", "/w/b.py")),
        result("r1", "a1", "c1", {"output": "text of a"}),
        result("r2", "r1", "c2", {"error": "no such file"}, status="error"),
        answer("a2", "r2", "done"),
        system("y2", "a2", "custom_title", customTitle="Fix"),
    )
    assert (recording.format, recording.session, recording.cwd) == ("qwen-code", "s1", "/w")
    assert recording.vocabulary is tools.QWEN
    assert (recording.branches, recording.warnings) == (1, ())
    (epoch,) = recording.epochs
    assert outline(epoch.messages) == [
        *(("user", "u1"), ("assistant", "a1"), ("tool", "r1"), ("tool", "r2"), ("assistant", "a2")),
    ]
    asked, first, one, other, last = epoch.messages
    assert asked.parts == (Text("fix it"), Image("image/png", 2))
    assert first.parts[:2] == (Thinking("hm"), Text("reading"))
    assert [part.id for part in first.parts if isinstance(part, ToolCall)] == ["c1", "c2"]
    assert one.parts == (ToolResult("c1", "read_file", (Text("text of a"),)),)
    assert other.parts == (ToolResult("c2", "read_file", (Text("no such file"),), True),)
    assert first.usage == last.usage == Usage(10, 7, 100, total=117)
    assert (first.model, first.time) == ("qwen3-coder-plus", SECOND)
    assert [(call.position, call.usage, call.failed) for call in epoch.calls] == [
        (1, first.usage, False),
        (4, last.usage, False),
    ]
    exchanges = Transcript(epoch.messages, vocabulary=tools.QWEN).exchanges
    assert [one.call.id for one in exchanges] == ["c1", "c2"]
    assert exchanges[0].operation == tools.FileOperation("read", "/w/a.py")


def test_a_re_read_of_an_unchanged_file_stands_for_no_content():
    stub = "[File /w/a.py unchanged since last read in this session.]"
    found = messages(
        user("u1", None),
        answer("a1", "u1", called("c1")),
        result("r1", "a1", "c1", {"output": "text of a"}),
        answer("a2", "r1", called("c2")),
        result("r2", "a2", "c2", {"output": stub}),
    )
    assert [one.refers_back for one in Transcript(found, vocabulary=tools.QWEN).exchanges] == [False, True]


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (USAGE, Usage(10, 7, 100, total=117)),
        ({"promptTokenCount": 50, "candidatesTokenCount": 4}, Usage(50, 4)),
        ({**USAGE, "totalTokenCount": 120}, Usage(10, 10, 100, total=120)),
        ({"promptTokenCount": 5, "cachedContentTokenCount": 9}, Usage(0, 0, 5)),
        ({"promptTokenCount": 0}, None),
        ({}, None),
        ("odd", None),
        (None, None),
    ],
)
def test_usage(counts: Json, usage: Usage | None):
    (_, one) = messages(user("u1", None), answer("a1", "u1", "x", usageMetadata=counts))
    assert one.usage == usage


@pytest.mark.parametrize("counted", [True, False])
def test_an_answer_without_anything_in_it_costs_what_was_counted(counted: bool):
    empty = answer("a1", "u1") if counted else answer("a1", "u1", usageMetadata=None)
    (epoch,) = read(user("u1", None), empty, user("u2", "a1")).epochs
    assert outline(epoch.messages) == [("user", "u1"), ("user", "u2")]
    assert [(call.position, call.failed) for call in epoch.calls] == [(1, not counted)]
    assert (epoch.calls[0].usage is not None) is counted


@pytest.mark.parametrize(
    ("subtype", "role"),
    [
        ("mid_turn_user_message", "user"),
        ("notification", "other"),
        ("cron", "other"),
        ("goal_runtime", "other"),
        ("agent_message", "other"),
    ],
)
def test_who_says_what_stands_in_the_users_name(subtype: str, role: str):
    found = messages(user("u1", None), answer("a1", "u1", "x"), user("u2", "a1", "y", subtype=subtype))
    assert outline(found)[2] == (role, "u2")


def test_what_never_went_to_the_model_is_left_out():
    found = messages(
        user("u1", None),
        answer("a1", "u1", "x"),
        user("v1", "a1", "spoken", subtype="realtime_message"),
        record("t1", "v1", "tool_result", message=said("user", "inner"), subtype="code_mode_tool_result"),
        record("t2", "t1", "tool_result", toolCallResult={"callId": "c9", "status": "success"}),
        record("y1", "t2", "system", message=said("user", "no"), subtype="at_command", systemPayload={}),
    )
    assert outline(found) == [("user", "u1"), ("assistant", "a1")]


def test_a_command_that_the_host_answered_is_left_out():
    local = {"phase": "result", "rawCommand": "/about", "outputHistoryItems": [{"type": "assistant"}]}
    sent = [user("u1", None, "/about"), system("y1", "u1", "slash_command", **local), user("u2", "y1", "hi")]
    assert outline(messages(*sent)) == [("user", "u2")]
    sent[1] = system("y1", "u1", "slash_command", **local, sentToModel=True)
    assert outline(messages(*sent)) == [("user", "u1"), ("user", "u2")]
    sent[1] = system("y1", "u1", "slash_command", **{**local, "phase": "invocation"})
    assert outline(messages(*sent)) == [("user", "u1"), ("user", "u2")]
    sent[1] = system("y1", "u1", "slash_command", **{**local, "rawCommand": "/other"})
    assert outline(messages(*sent)) == [("user", "u1"), ("user", "u2")]


@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_a_result_is_an_error_where_the_record_says_so(status: str):
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    found = messages(
        user("u1", None),
        answer("a1", "u1", called("c1")),
        result("r1", "a1", "c1", {"output": "so far"}, status=status, about={"parts": [image]}),
    )
    assert found[2].parts == (ToolResult("c1", "read_file", (Text("so far"), Image("image/png", 4)), True),)


def test_calls_without_ids_are_matched_by_name_and_order():
    bare = {"functionCall": {"name": "read_file", "args": {"file_path": "/w/a.py"}}}
    answered = {"functionResponse": {"name": "read_file", "response": {"output": "a"}}}
    found = messages(
        user("u1", None),
        answer("a1", "u1", bare),
        record("r1", "a1", "tool_result", message=said("user", answered)),
    )
    (one,) = Transcript(found, vocabulary=tools.QWEN).exchanges
    assert (one.call_position, one.result_position) == (1, 2)


# ---- how records hang together


def test_records_of_one_id_are_pieces_of_one():
    found = messages(
        user("u1", None),
        answer("a1", "u1", "one ", usageMetadata=None),
        answer("a1", "u1", "two", called("c1")),
        result("r1", "a1", "c1", {"output": "a"}),
    )
    assert outline(found) == [("user", "u1"), ("assistant", "a1"), ("tool", "r1")]
    assert found[1].parts[:2] == (Text("one "), Text("two"))
    assert found[1].usage == Usage(10, 7, 100, total=117)


def test_the_branch_of_the_last_record_is_read_and_the_others_are_counted():
    recording = read(
        user("u1", None),
        answer("a1", "u1", "x"),
        user("u2", "a1", "wrong"),
        answer("a2", "u2", "gone"),
        system("w1", "a1", "rewind", truncatedCount=2),
        user("u3", "w1", "right"),
        answer("a3", "u3", "kept"),
        system("f1", "gone", "session_artifact_event", kind="file"),
    )
    (epoch,) = recording.epochs
    assert outline(epoch.messages) == [
        *(("user", "u1"), ("assistant", "a1"), ("user", "u3"), ("assistant", "a3")),
    ]
    assert recording.branches == 2


def test_a_rewind_at_the_end_takes_back():
    recording = read(
        user("u1", None),
        answer("a1", "u1", "x"),
        user("u2", "a1", "wrong"),
        system("w1", "a1", "rewind", truncatedCount=1),
    )
    assert outline(recording.epochs[0].messages) == [("user", "u1"), ("assistant", "a1")]
    assert recording.branches == 2


@pytest.mark.parametrize("parent", ["gone", "a1", "u3"])
def test_a_parent_that_is_not_before_its_child_is_the_record_before(parent: str):
    recording = read(user("u1", None), user("u2", "u1"), answer("a1", parent, "x"), user("u3", "a1"))
    assert outline(recording.epochs[0].messages) == [
        *(("user", "u1"), ("user", "u2"), ("assistant", "a1"), ("user", "u3")),
    ]
    assert recording.warnings == (
        f"s.json:3: parent {parent} is not before it, the record before is taken for it",
    )


def test_records_without_parents_are_read_in_order():
    assert outline(messages(user("u1", None), answer("a1", None, "x"))) == [
        ("user", "u1"),
        ("assistant", "a1"),
    ]


def test_a_line_of_something_else_is_passed_over():
    recording = read(
        {"id": "s1", "workspaceRootPath": "/w"}, user("u1", None), {**user("u2", "u1"), "type": "x"}
    )
    assert recording.warnings == (
        "s.json:1: no record of a chat, left out",
        "s.json:3: no record of a chat, left out",
    )


# ---- compression


def test_a_compression_ends_an_epoch():
    history = [
        said("user", "<state_snapshot>so far</state_snapshot>"),
        said("model", "Got it."),
        said("model", called("c1")),
        said("user", {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "a"}}}),
    ]
    recording = read(
        user("u1", None),
        answer("a1", "u1", called("c1")),
        result("r1", "a1", "c1", {"output": "a"}),
        system("y1", "r1", "chat_compression", info={"compressionStatus": 1}, compressedHistory=history),
        answer("a2", "y1", "done"),
        system("y2", "a2", "chat_compression", info={"compressionStatus": 2}),
        user("u2", "y2", "more"),
    )
    before, after = recording.epochs
    assert (before.ended_by, len(before.messages), len(before.calls)) == ("compaction", 3, 1)
    assert outline(after.messages) == [
        *(("other", "y1.0"), ("assistant", "y1.1"), ("assistant", "y1.2"), ("tool", "y1.3")),
        *(("assistant", "a2"), ("user", "u2")),
    ]
    assert [call.position for call in after.calls] == [4]


@pytest.mark.parametrize("history", [[], None, "odd", [1]])
def test_a_compression_may_leave_nothing(history: Json):
    recording = read(
        user("u1", None),
        answer("a1", "u1", "x"),
        system("y1", "a1", "chat_compression", compressedHistory=history),
        user("u2", "y1"),
        answer("a2", "u2", "y"),
    )
    assert [outline(epoch.messages) for epoch in recording.epochs] == [
        [("user", "u1"), ("assistant", "a1")],
        [("user", "u2"), ("assistant", "a2")],
    ]


# ---- which file it is


def test_a_subagents_file_is_told_from_claude_codes():
    told = {"isSidechain": True, "agentId": "explore-1"}
    data = lines(user("u1", None, **told), answer("a1", "u1", "x", **told))
    assert claude_code.detect(data)
    assert detect.detect(data) == "qwen-code"


def test_a_first_line_that_goes_on_and_on_is_enough():
    data = lines(user("u1", None, "x" * 100_000))
    assert detect.detect(data[:65536]) == "qwen-code"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        lines(system("y1", None, "custom_title", customTitle="x")),
        lines({**user("u1", None), "uuid": ""}),
        lines({**user("u1", None), "sessionId": 1}),
        lines(record("u1", None, "user", message={"role": "user", "content": "x"})),
    ],
)
def test_other_files_are_refused(data: bytes):
    refuses(qwen.read_recording, data)


@given(
    st.lists(json_values | st.builds(user, st.sampled_from("ab"), st.sampled_from(["a", None]), json_values))
)
def test_anything_may_be_in_it(values: list[Json]):
    never_raises(qwen.read_recording, lines(*values))


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "uuid": st.sampled_from("abcd"),
                "parentUuid": st.sampled_from("abcde") | st.none(),
                "sessionId": st.just("s"),
                "type": st.sampled_from(["user", "assistant", "tool_result", "system"]),
                "subtype": st.sampled_from(["", "chat_compression", "slash_command", "rewind"]),
            },
            optional={"message": json_values, "systemPayload": json_values, "toolCallResult": json_values},
        )
    )
)
def test_whatever_the_records_say(values: list[Json]):
    never_raises(qwen.read_recording, lines(*values))


@given(st.binary())
def test_any_bytes(data: bytes):
    never_raises(qwen.read_recording, data)
    qwen.detect(data)


@pytest.mark.corpus
def test_no_other_session_is_taken_for_one(shared: Path):
    for file in manifest(shared):
        assert not qwen.detect((shared / "corpus" / file).read_bytes()[:65536]), file
