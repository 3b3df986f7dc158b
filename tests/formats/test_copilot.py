"""The rules of reading Copilot CLI's event files, each on a sample of its own; then the corpus."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise import tools
from prunewise.errors import InputError
from prunewise.formats import copilot
from prunewise.recording import Recording
from prunewise.transcript import Image, Opaque, Text, Thinking, ToolCall, ToolResult, Transcript, Usage

Line = dict[str, Any]


class Events:
    """Writes an event file."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, kind: str, top: Line | None = None, **data: Any) -> str:
        event = f"e{len(self.lines) + 1}"
        self.lines.append(
            {
                "type": kind,
                "data": data,
                "id": event,
                "timestamp": f"2026-01-02T03:04:{len(self.lines) % 60:02}.000Z",
                "parentId": f"e{len(self.lines)}" if self.lines else None,
                **(top or {}),
            }
        )
        return event

    def start(self) -> None:
        self.add("session.start", sessionId="s1", context={"cwd": "/repo"})

    def user(self, text: str = "do it", **data: Any) -> str:
        return self.add("user.message", content=text, transformedContent=f"<now>{text}", **data)

    def answer(self, text: str = "", *calls: str, **data: Any) -> None:
        requests = [{"toolCallId": one, "name": "view", "arguments": {"path": "a.py"}} for one in calls]
        self.add("assistant.message", content=text, toolRequests=requests, model="gpt-6", **data)

    def result(self, id: str, **data: Any) -> None:
        self.add("tool.execution_start", toolCallId=id)
        self.add(
            "tool.execution_complete",
            **{"toolCallId": id, "success": True, "result": {"content": "out"}, **data},
        )

    @property
    def data(self) -> bytes:
        return "".join([json.dumps(line) + "\n" for line in self.lines]).encode()

    def read(self) -> Recording:
        assert copilot.detect(self.data[:65536])
        return copilot.read_recording("folder/events.jsonl", self.data)


def shape(recording: Recording) -> list[list[tuple[str, str]]]:
    return [
        [(one.role, ", ".join(map(short, one.parts))) for one in epoch.messages] for epoch in recording.epochs
    ]


def short(part: Any) -> str:
    match part:
        case Text():
            return part.text
        case Thinking():
            return f"thinking {part.text}|{part.signature}"
        case ToolCall():
            return f"call {part.id}"
        case ToolResult():
            return f"{'error' if part.is_error else 'result'} {part.call_id} {part.text}"
        case _:
            return type(part).__name__


def one_turn() -> Events:
    events = Events()
    events.start()
    events.add("system.message", role="system", content="You are")
    events.user()
    events.add("assistant.turn_start", turnId="0")
    events.answer("", "c1", reasoningText="hm", reasoningOpaque="sealed", outputTokens=9)
    events.result("c1")
    events.add("assistant.turn_end", turnId="0")
    events.answer("done", outputTokens=0)
    return events


def test_messages_calls_and_results() -> None:
    recording = one_turn().read()
    assert shape(recording) == [
        [
            ("system", "You are"),
            ("user", "<now>do it"),
            ("assistant", "thinking hm|sealed, call c1"),
            ("tool", "result c1 out"),
            ("assistant", "done"),
        ]
    ]
    assert (recording.session, recording.cwd, recording.format, recording.branches) == (
        "s1",
        "/repo",
        "copilot",
        1,
    )
    first, second = recording.epochs[0].calls
    assert (first.position, first.model, first.provider) == (2, "gpt-6", "github-copilot")
    assert (first.time, first.usage, second.usage) == (1767323044.0, Usage(output=9), None)
    assert [one.usage for one in recording.epochs[0].messages] == [None] * 5
    transcript = Transcript(recording.epochs[0].messages, cwd=recording.cwd, vocabulary=recording.vocabulary)
    assert [one.operation for one in transcript.exchanges] == [tools.FileOperation("read", "/repo/a.py")]


def test_a_read_of_some_lines_is_no_file_operation() -> None:
    arguments = {"path": "/a", "view_range": [1, 20]}
    assert tools.file_operation(copilot.VOCABULARY, "view", arguments, None) is None


def test_the_system_prompt_is_written_again_and_again_and_sent_once() -> None:
    events = one_turn()
    events.add("system.message", role="system", content="You are")
    events.user("go on")
    assert [role for role, _ in shape(events.read())[0]].count("system") == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"success": True, "result": {"content": "out", "detailedContent": "shown"}}, "result c1 out"),
        ({"success": True, "result": "bare"}, "result c1 bare"),
        ({"success": True, "result": {"content": [1]}}, "result c1 [1]"),
        ({"success": False, "result": None, "error": {"message": "no", "code": "x"}}, "error c1 no"),
        ({"success": False, "result": None, "error": "bare"}, "error c1 bare"),
        ({"success": False, "result": None}, "error c1 "),
    ],
)
def test_results(data: Line, expected: str) -> None:
    events = Events()
    events.answer("", "c1")
    events.result("c1", **data)
    assert shape(events.read())[0][1] == ("tool", expected)


def test_arguments_as_text_and_of_a_wrong_type() -> None:
    events = Events()
    requests = [
        {"toolCallId": "c1", "name": "apply_patch", "arguments": '{"b":1,"a":2}'},
        "odd",
        {"name": ["odd"]},
    ]
    events.add("assistant.message", content=None, toolRequests=requests)
    parts = events.read().epochs[0].messages[0].parts
    assert parts == (
        ToolCall("c1", "apply_patch", {"b": 1, "a": 2}, '{"a":2,"b":1}'),
        Opaque(len('{"name":["odd"]}')),
    )


def test_who_speaks() -> None:
    events = one_turn()
    events.user("from a skill", source="skill-review")
    events.add("system.notification", content="a shell is done")
    events.add(
        "user.message",
        content="look",
        attachments=[{"mimeType": "image/png", "data": "AAAA"}, {"type": "file"}],
    )
    recording = events.read()
    assert shape(recording)[0][-3:] == [
        ("other", "<now>from a skill"),
        ("other", "a shell is done"),
        ("user", "look, Image"),
    ]
    assert recording.epochs[0].messages[-1].parts[1] == Image("image/png", 4)


def test_subagents_are_conversations_of_their_own() -> None:
    events = one_turn()
    events.answer("inside", parentToolCallId="c1")
    events.add("assistant.message", {"agentId": "c2"}, content="inside")
    events.answer("inside", parentToolCallId="c1")
    recording = events.read()
    assert (recording.llm_calls, recording.branches) == (2, 1)
    assert [(one.session, one.llm_calls) for one in recording.subagents] == [
        (f"{recording.session}/c1", 2),
        (f"{recording.session}/c2", 1),
    ]


@pytest.mark.parametrize(
    ("used", "usage"),
    [
        ({"input": 900, "output": 80, "cachedInput": 700}, Usage(200, 80, 700)),
        ({"input": 900, "output": 80}, Usage(900, 80)),
        (
            {"inputTokens": 900, "outputTokens": 80, "cacheReadTokens": 700, "cacheWriteTokens": 150},
            Usage(50, 80, 700, 150),
        ),
        ({"input": 0, "output": 0}, None),
        ({}, None),
        ("odd", None),
        (None, None),
    ],
)
def test_the_call_that_made_a_summary_ends_the_epoch(used: Any, usage: Usage | None) -> None:
    events = one_turn()
    events.add("session.compaction_complete", success=True, summaryContent="sum", compactionTokensUsed=used)
    events.answer("on")
    first, second = events.read().epochs
    made = [one for one in first.calls if one.position == len(first.messages)]
    assert [one.usage for one in made] == ([] if usage is None else [usage])
    assert len(second.calls) == 1


def test_pieces_of_one_response_are_one_answer() -> None:
    events = one_turn()
    events.answer("first", outputTokens=5, apiCallId="r", chunkIndex=0, chunkCount=3)
    events.answer("second", "c8", apiCallId="r", chunkIndex=1, chunkCount=3)
    events.answer("third", outputTokens=50, apiCallId="r", chunkIndex=2, chunkCount=3)
    recording = events.read()
    assert recording.llm_calls == 3
    assert shape(recording)[0][-1] == ("assistant", "first, second, call c8, third")
    assert recording.epochs[0].calls[-1].usage == Usage(output=50)


@pytest.mark.parametrize("message", ["carry on", ""])
def test_a_context_that_was_cleared_begins_an_epoch(message: str) -> None:
    events = one_turn()
    events.add("session.context_cleared", messagesCleared=4, initialMessage=message)
    events.answer("on")
    first, second = events.read().epochs
    assert (first.ended_by, len(second.calls)) == ("rewind", 1)
    assert [one.role for one in second.messages if one.role != "system"] == ["other"] * bool(message) + [
        "assistant"
    ]


# ------------------------------------------------------------------- usage


def test_usage_events_belong_to_the_last_answer() -> None:
    events = Events()
    events.add("assistant.usage", inputTokens=1, outputTokens=1)
    events.answer("a", outputTokens=5)
    events.add("assistant.usage", inputTokens=100, outputTokens=5, cacheReadTokens=70, cacheWriteTokens=20)
    events.add("assistant.usage", inputTokens=0)
    recording = events.read()
    assert recording.epochs[0].calls[0].usage == Usage(10, 5, 70, 20)
    assert recording.epochs[0].messages[0].usage == Usage(10, 5, 70, 20)


@pytest.mark.parametrize(
    ("count", "calls", "expected"),
    [(1, 1, Usage(30, 5, 70)), (2, 1, None), (2, 2, None)],
)
def test_the_totals_of_a_session_of_one_call_are_its_usage(
    count: int, calls: int, expected: Usage | None
) -> None:
    events = Events()
    for _ in range(calls):
        events.answer("a")
    usage = {"inputTokens": 100, "outputTokens": 5, "cacheReadTokens": 70}
    events.add("session.shutdown", modelMetrics={"gpt-6": {"requests": {"count": count}, "usage": usage}})
    assert events.read().epochs[0].calls[0].usage == expected


# ------------------------------------------------------------------- compaction and rewind


def test_a_compaction_begins_an_epoch_with_its_summary() -> None:
    events = one_turn()
    events.add("session.compaction_start")
    events.add("session.compaction_complete", success=False, error="no")
    events.add(
        "session.compaction_complete", success=True, summaryContent="The summary", preCompactionTokens=9
    )
    events.answer("on we go")
    recording = events.read()
    assert shape(recording)[1] == [("system", "You are"), ("other", "The summary"), ("assistant", "on we go")]
    assert [(len(one.calls), one.ended_by) for one in recording.epochs] == [(2, "compaction"), (1, "end")]
    assert recording.epochs[1].calls[0].position == 2


def test_a_rewind_begins_an_epoch_with_what_was_before_the_event() -> None:
    events = one_turn()
    back = events.user("wrong")
    events.answer("wrong too")
    events.add("session.snapshot_rewind", upToEventId=back, eventsRemoved=2)
    events.user("right")
    events.answer("right too")
    events.add("session.snapshot_rewind", upToEventId=back)
    events.add("session.snapshot_rewind", upToEventId="never written")
    recording = events.read()
    assert [(len(one.messages), len(one.calls), one.ended_by) for one in recording.epochs] == [
        (7, 3, "rewind"),
        (7, 1, "end"),
    ]
    assert shape(recording)[1][4:] == [
        ("assistant", "done"),
        ("user", "<now>right"),
        ("assistant", "right too"),
    ]
    assert recording.epochs[1].calls[0].position == 6


# ------------------------------------------------------------------- other lines, and other files


def test_lines_that_are_no_events_are_told() -> None:
    events = one_turn()
    events.lines.append({"type": "user.message"})
    assert events.read().warnings == ("folder/events.jsonl:10: no event, left out",)


def test_an_event_torn_by_line_feeds_leaves_its_neighbours_alone() -> None:
    events = one_turn()
    data = events.data.replace(b'"content": "out"', b'"content": "o\nu\nt"')
    recording = copilot.read_recording("e", data)
    assert [role for role, _ in shape(recording)[0]] == ["system", "user", "assistant", "assistant"]
    assert len(recording.warnings) == 3


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b'{"type":"session","version":3,"id":"x","cwd":"/"}\n{"type":"message","id":"a","parentId":null}\n',
        b'{"timestamp":"2026","type":"session_meta","payload":{"id":"x"}}\n',
        b'{"type":["odd"],"data":{},"parentId":null}\n',
    ],
)
def test_other_files_are_not_read(data: bytes) -> None:
    assert not copilot.detect(data)
    with pytest.raises(InputError, match=r"^x\.jsonl: no Copilot CLI session"):
        copilot.read_recording("x.jsonl", data)


def test_a_session_without_a_message_is_not_read() -> None:
    events = Events()
    events.start()
    with pytest.raises(InputError, match="no message in it"):
        events.read()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.data())
def test_no_value_of_a_wrong_type_makes_it_fall_over(data: st.DataObject) -> None:
    events = one_turn()
    events.add("session.compaction_complete", success=True, summaryContent="The summary")
    events.add("assistant.usage", inputTokens=100, outputTokens=5)
    back = events.user()
    events.answer("on we go")
    events.add("session.snapshot_rewind", upToEventId=back)
    metrics = {"gpt-6": {"requests": {"count": 1}, "usage": {"inputTokens": 5}}}
    events.add("session.shutdown", modelMetrics=metrics)
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = data.draw(st.sampled_from(events.lines))
        while isinstance(place, dict) and place:
            key = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or data.draw(st.booleans()):
                place[key] = data.draw(_JSON)
                break
            place = place[key]
    try:
        recording = copilot.read_recording("x", events.data)
    except InputError:
        return
    for epoch in recording.epochs:
        assert all(epoch.messages[one.position].role == "assistant" for one in epoch.calls)


# ------------------------------------------------------------------- the corpus

# The corpus looks for cache tokens in messages; this session of one call has them in its totals.
_CACHED_IN_ITS_TOTALS = {"b166df6d"}


@pytest.mark.corpus
def test_the_corpus_is_read_as_its_manifest_counts(shared: Path) -> None:
    with (shared / "corpus" / "MANIFEST.tsv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["format"] == "copilot"]
    for row in rows:
        data = (shared / "corpus" / row["file"]).read_bytes()
        assert copilot.detect(data[:65536])
        recording = copilot.read_recording(row["file"], data)
        name = row["file"].split("__")[-1][:8]
        assert recording.llm_calls == int(row["llm_calls"]), row["file"]
        parts = [part for epoch in recording.epochs for message in epoch.messages for part in message.parts]
        assert sum(isinstance(part, ToolCall) for part in parts) == int(row["tool_calls"]), row["file"]
        errors = sum(isinstance(part, ToolResult) and part.is_error for part in parts)
        assert errors == int(row["tool_errors"]), row["file"]
        usages = [one.usage for epoch in recording.epochs for one in epoch.calls if one.usage]
        assert bool(usages) == (row["has_usage"] == "1"), row["file"]
        cached = any(one.cache_read for one in usages)
        assert cached == (row["has_cache_tokens"] == "1" or name in _CACHED_IN_ITS_TOTALS), row["file"]


@pytest.mark.corpus
def test_no_other_file_of_the_corpus_is_taken_for_an_event_file(shared: Path) -> None:
    for path in sorted((shared / "corpus").glob("*/*")):
        if path.parent.name != "copilot":
            assert not copilot.detect(path.read_bytes()[:65536]), path
