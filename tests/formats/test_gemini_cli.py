import json
from pathlib import Path

import pytest
from hypothesis import given
from tests.formats.sessions import check, check_corpus, never_raises, refuses
from tests.formats.wire import json_values

from prunewise import tools
from prunewise.formats import gemini_cli
from prunewise.formats.reading import Json
from prunewise.recording import Recording
from prunewise.transcript import Image, Text, Thinking, ToolCall, ToolResult, Transcript, Usage

HEADER = {"sessionId": "s1", "projectHash": "h", "startTime": "2026-01-02T03:04:05Z"}
TOKENS = {"input": 110, "output": 4, "cached": 100, "thoughts": 3, "tool": 0, "total": 117}


def user(name: str, content: Json = "go") -> dict[str, Json]:
    return {"id": name, "timestamp": "2026-01-02T03:04:05.000Z", "type": "user", "content": content}


def gemini(name: str, content: Json = "", *calls: Json, **more: Json) -> dict[str, Json]:
    about = {"type": "gemini", "model": "g", "tokens": TOKENS, "timestamp": "2026-01-02T03:04:06.000Z"}
    return {"id": name, "content": content, "toolCalls": list(calls), **about, **more}


def call(call_id: str, response: Json, status: str = "success", *more: Json) -> dict[str, Json]:
    answer = {"functionResponse": {"id": call_id, "name": "read_file", "response": response}}
    return {
        "id": call_id,
        "name": "read_file",
        "args": {"file_path": "/a"},
        "result": [answer, *more],
        "status": status,
        "timestamp": "2026-01-02T03:04:07.000Z",
    }


def document(*messages: Json) -> bytes:
    return json.dumps({**HEADER, "messages": list(messages), "kind": "main"}, indent=2).encode()


def lines(*records: Json) -> bytes:
    return "".join([json.dumps(record) + "\n" for record in (HEADER, *records)]).encode()


def read(data: bytes) -> Recording:
    assert gemini_cli.detect(data[:65536])
    recording = gemini_cli.read_recording("s.json", data)
    check(recording)
    return recording


@pytest.mark.parametrize("form", [document, lines])
def test_a_call_and_its_result_are_two_messages(form: Json):
    recording = read(
        form(
            {"id": "i", "type": "info", "content": "an update is there"},
            user("u1", [{"text": "fix"}, {"inlineData": {"mimeType": "image/png", "data": "AA"}}]),
            gemini(
                "g1",
                "reading",
                call("c1", {"output": "text of a"}),
                call(
                    "c2", {"error": "no"}, "error", {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
                ),
                thoughts=[{"subject": "S", "description": "d"}],
            ),
            gemini("g2", "done"),
        )
    )
    assert (recording.format, recording.session) == ("gemini-cli", "s1")
    assert recording.vocabulary is tools.GEMINI_CLI
    (epoch,) = recording.epochs
    assert [(one.role, one.id) for one in epoch.messages] == [
        *(("user", "u1"), ("assistant", "g1"), ("tool", "g1:results"), ("assistant", "g2")),
    ]
    assert epoch.messages[0].parts == (Text("fix"), Image("image/png", 2))
    assert epoch.messages[1].parts == (
        Thinking("S: d"),
        Text("reading"),
        ToolCall("c1", "read_file", {"file_path": "/a"}, '{"file_path":"/a"}'),
        ToolCall("c2", "read_file", {"file_path": "/a"}, '{"file_path":"/a"}'),
    )
    assert epoch.messages[2].parts == (
        ToolResult("c1", "read_file", (Text("text of a"),)),
        ToolResult("c2", "read_file", (Text("no"),), is_error=True),
        Image("image/png", 4),
    )
    assert [call.position for call in epoch.calls] == [1, 3]
    assert epoch.calls[0].usage == Usage(10, 7, 100, total=117)


def test_an_answer_without_tokens_failed():
    without = gemini("g1", "", call("c1", {"error": "cancelled"}, "cancelled"))
    del without["tokens"]
    (epoch,) = read(document(user("u1"), without)).epochs
    (one,) = epoch.calls
    assert (one.failed, one.usage) == (True, None)
    assert len(Transcript(epoch.messages).exchanges) == 1


def test_a_later_record_replaces_an_earlier_one():
    running = {"id": "c1", "name": "read_file", "args": {"file_path": "/a"}, "status": "executing"}
    recording = read(
        lines(
            user("u1"), gemini("g1", "", running), user("u2"), gemini("g1", "", call("c1", {"output": "a"}))
        )
    )
    (epoch,) = recording.epochs
    assert [one.id for one in epoch.messages] == ["u1", "g1", "g1:results", "u2"]


def test_a_rewind_ends_an_epoch():
    recording = read(
        lines(
            user("u1"),
            gemini("g1", "a"),
            user("u2"),
            gemini("g2", "b"),
            {"$rewindTo": "u2"},
            user("u3"),
            gemini("g3"),
        )
    )
    first, second = recording.epochs
    assert first.ended_by == "rewind"
    assert [one.id for one in second.messages] == ["u1", "g1", "u3", "g3"]
    assert [call.position for call in second.calls] == [3]


def test_a_rewind_to_a_message_that_is_not_there_takes_all_back():
    recording = read(lines(user("u1"), gemini("g1"), {"$rewindTo": "x"}, user("u2"), gemini("g2")))
    assert [one.id for one in recording.epochs[1].messages] == ["u2", "g2"]


def test_messages_that_are_replaced_as_a_whole_begin_an_epoch():
    summary = [user("k1", "so far"), gemini("g1", "kept")]
    changed = {"$set": {"messages": summary, "directories": ["/repo"]}}
    recording = read(lines(user("u1"), gemini("g1", "kept"), changed, user("u2"), gemini("g2")))
    assert [epoch.ended_by for epoch in recording.epochs] == ["compaction", "end"]
    assert [one.id for one in recording.epochs[1].messages] == ["k1", "g1", "u2", "g2"]
    assert recording.llm_calls == 2
    assert recording.cwd == "/repo"


def test_lines_that_are_no_records_are_left_out():
    recording = read(lines(user("u1"), {"odd": 1}, gemini("g1")) + b"{broken\n")
    assert [one.split(": ")[0] for one in recording.warnings] == ["s.json:3", "s.json:5"]


def test_a_record_behind_a_torn_one_is_read():
    torn = b'{"id":"g0","type":"gemini","content":"cut o' + json.dumps(gemini("g1", "x")).encode() + b"\n"
    recording = read(lines(user("u1")) + torn)
    assert [one.id for one in recording.epochs[0].messages] == ["u1", "g1"]
    assert len(recording.warnings) == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"messages":[]}', b'{"sessionId":"s"}\n'])
def test_refuses_what_is_none(data: bytes):
    refuses(gemini_cli.read_recording, data)


@given(json_values)
def test_never_raises(value: Json):
    odd = gemini("g", value, call("c", value), tokens=value, thoughts=[value])
    never_raises(gemini_cli.read_recording, document(value, user("u", value), odd))
    never_raises(gemini_cli.read_recording, lines(value, odd, {"$set": value}, {"$rewindTo": value}))


@pytest.mark.corpus
def test_corpus(shared: Path):
    found = check_corpus(shared, "gemini", gemini_cli.detect, gemini_cli.read_recording, exceptions={})
    assert len(found) == 4
    # One entry holds a call that the user cancelled, and no tokens: the manifest counts it, and so does
    # the reader, as a call that failed.
    failed = [call for one in found.values() for epoch in one.epochs for call in epoch.calls if call.failed]
    assert len(failed) == 1
