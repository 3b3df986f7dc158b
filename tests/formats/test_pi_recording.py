import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from tests.formats.sessions import Counts, check, check_corpus, expected, manifest, never_raises, refuses
from tests.formats.wire import json_values

from prunewise import tools
from prunewise.formats import pi_recording
from prunewise.formats.reading import Json
from prunewise.recording import Recording
from prunewise.replay.corpus import read_uncompacted
from prunewise.transcript import Usage

HEADER = {
    "type": "session",
    "version": 3,
    "id": "s1",
    "timestamp": "2026-01-02T03:04:05.000Z",
    "cwd": "/repo",
}
USAGE = {"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 20, "totalTokens": 135}


class Session:
    """Writes a session file, each entry behind the one before."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Json]] = [HEADER]
        self.leaf: str | None = None

    def add(self, type: str, /, **fields: Json) -> str:
        name = f"{len(self.lines):08x}"
        stamp = f"2026-01-02T03:05:{len(self.lines) % 60:02}.000Z"
        self.lines.append({"type": type, "id": name, "parentId": self.leaf, "timestamp": stamp, **fields})
        self.leaf = name
        return name

    def user(self, text: str = "go") -> str:
        return self.add("message", message={"role": "user", "content": text})

    def answer(self, *calls: str, stop: str = "stop", usage: Json = USAGE) -> str:
        blocks = [
            {"type": "toolCall", "id": one, "name": "read", "arguments": {"path": "/a"}} for one in calls
        ]
        about = {
            "provider": "p",
            "model": "m",
            "usage": usage,
            "stopReason": stop,
            "timestamp": 1000_000_000_000,
        }
        return self.add("message", message={"role": "assistant", "content": blocks, **about})

    def result(self, call: str) -> str:
        content = [{"type": "text", "text": "text of a"}]
        message = {"role": "toolResult", "toolCallId": call, "toolName": "read", "content": content}
        return self.add("message", message={**message, "isError": False})

    @property
    def data(self) -> bytes:
        return "".join([json.dumps(line) + "\n" for line in self.lines]).encode()

    def read(self) -> Recording:
        assert pi_recording.detect(self.data[:65536])
        recording = pi_recording.read_recording("s.jsonl", self.data)
        check(recording)
        return recording


def test_one_epoch_without_a_compaction():
    session = Session()
    session.user()
    session.answer("c1", stop="toolUse")
    session.result("c1")
    session.add("custom", customType="x", data={})
    session.answer()
    recording = session.read()
    assert (recording.format, recording.session, recording.cwd) == ("pi", "s1", "/repo")
    assert recording.vocabulary is tools.PI
    (epoch,) = recording.epochs
    assert [one.role for one in epoch.messages] == ["user", "assistant", "tool", "assistant"]
    assert [call.position for call in epoch.calls] == [1, 3]
    call = epoch.calls[0]
    assert (call.usage, call.model, call.provider) == (Usage(10, 5, 100, 20, total=135), "m", "p")


def test_after_a_compaction_come_the_summary_what_was_kept_and_what_is_new():
    session = Session()
    session.user("one")
    session.answer()
    kept = session.user("two")
    session.answer()
    compaction = session.add("compaction", summary="so far", firstKeptEntryId=kept, tokensBefore=9)
    session.user("three")
    session.answer()
    first, second = session.read().epochs
    assert (first.ended_by, second.ended_by) == ("compaction", "end")
    assert len(first.messages) == 4
    assert [one.id for one in second.messages][:2] == [compaction, kept]
    assert [one.role for one in second.messages] == ["other", "user", "assistant", "user", "assistant"]
    assert [call.position for call in second.calls] == [4]


NOTHING_COUNTED = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}


@pytest.mark.parametrize("stop", ["error", "aborted"])
@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (None, None),
        (NOTHING_COUNTED, None),
        ("odd", None),
        (USAGE, Usage(10, 5, 100, 20, total=135)),
        ({"input": 3, "output": 0}, Usage(3)),
        ({"cacheRead": 15_000}, Usage(0, 0, 15_000)),
    ],
)
def test_an_answer_that_failed_is_not_sent_and_costs_what_was_counted(
    stop: str, usage: Json, counted: Usage | None
):
    session = Session()
    session.user()
    session.answer("c1", stop=stop, usage=usage)
    session.answer()
    (epoch,) = session.read().epochs
    assert [(call.position, call.failed, call.usage) for call in epoch.calls] == [
        (1, counted is None, counted),
        (1, False, Usage(10, 5, 100, 20, total=135)),
    ]
    assert [one.role for one in epoch.messages] == ["user", "assistant"]
    (uncompacted,) = read_uncompacted("s.jsonl", session.data).epochs
    assert [(call.failed, call.usage) for call in uncompacted.calls] == [
        (call.failed, call.usage) for call in epoch.calls
    ]


SUMMED = {"input": 300, "output": 900, "cacheRead": 10_500}


@pytest.mark.parametrize(
    ("fields", "model"),
    [
        ({"usage": SUMMED}, "m"),
        ({"usage": SUMMED, "model": "other", "provider": "q"}, "other"),
        ({"usage": {**SUMMED, "cost": {"total": 0.01}}}, "m"),
        ({"usage": NOTHING_COUNTED}, ""),
        ({"usage": None}, ""),
        ({}, ""),
    ],
)
def test_the_call_that_made_a_summary_is_one_of_the_epoch_that_it_sums_up(
    fields: dict[str, Json], model: str
):
    session = Session()
    session.user()
    kept = session.answer()
    session.add("compaction", summary="so far", firstKeptEntryId=kept, **fields)
    session.user("more")
    session.answer()
    first, second = session.read().epochs
    made = [call for call in first.calls if call.position == len(first.messages)]
    assert [(one.model, one.usage, one.failed) for one in made] == (
        [(model, Usage(300, 900, 10_500), False)] if model else []
    )
    assert (len(first.calls) - len(made), len(second.calls)) == (1, 1)


@pytest.mark.parametrize(("usage", "calls"), [(SUMMED, 3), (None, 2), (NOTHING_COUNTED, 2), ("odd", 2)])
def test_the_call_that_made_the_summary_of_a_branch_stands_where_the_summary_does(usage: Json, calls: int):
    session = Session()
    root = session.user()
    session.answer()
    session.leaf = root
    session.add("branch_summary", fromId="x", summary="tried", usage=usage)
    session.user("so")
    session.answer()
    session.answer()
    recording = session.read()
    (epoch,) = recording.epochs
    assert (recording.llm_calls, recording.aside) == (calls, 1)
    assert [one.role for one in epoch.messages] == ["user", "other", "user", "assistant", "assistant"]
    assert [one.position for one in epoch.calls][-2:] == [3, 4]
    assert [one.usage for one in epoch.calls if one.position == 1] == (
        [Usage(300, 900, 10_500)] * (calls == 3)
    )


def test_only_the_active_branch_is_read():
    session = Session()
    root = session.user()
    session.answer()
    session.leaf = root
    session.answer()
    session.answer()
    recording = session.read()
    assert (recording.branches, recording.llm_calls, recording.aside) == (2, 2, 1)


@pytest.mark.parametrize("data", [b"", b"[]\n", b"nonsense\n", b'{"a":1}\n'])
def test_refuses_what_is_none(data: bytes):
    refuses(pi_recording.read_recording, data)


@given(json_values)
def test_never_raises(value: Json):
    session = Session()
    session.add("message", message=value)
    session.add(
        "message", message={"role": "assistant", "content": value, "usage": value, "stopReason": value}
    )
    session.add("compaction", summary=value, firstKeptEntryId=value)
    session.add("context_edit", targetId="00000001", replacement=value)
    session.user()
    never_raises(pi_recording.read_recording, session.data)


# By file: tool calls that the manifest counts and that are not sent, since they are in answers that the
# user aborted.
UNSENT_CALLS = {
    "pi/badlogic__pi-mono__d703a1a9-1b7b-4fb1-b512-c9738b1fe617.jsonl": 18,
    "pi/badlogic__pi-mono__ffae836b-9420-4060-ac13-7745215f90ff.jsonl": 5,
}


@pytest.mark.corpus
def test_corpus(shared: Path):
    exceptions = {}
    for file, unsent in UNSENT_CALLS.items():
        said = expected(manifest(shared)[file])
        exceptions[file] = Counts(said.llm_calls, said.tool_calls - unsent, said.tool_errors)
    found = check_corpus(shared, "pi", pi_recording.detect, pi_recording.read_recording, exceptions)
    assert len(found) == 15
    compacted = {file: len(one.epochs) for file, one in found.items() if len(one.epochs) > 1}
    assert sorted(compacted.values()) == [2, 3]


def test_requests_beside_the_conversation_are_told_with_the_next_call():
    session = Session()
    session.user()
    session.answer()
    usage = {"input": 0, "output": 1, "cacheRead": 120, "cacheWrite": 0}
    session.add("usage", kind="cache_warm", provider="p", model="m", usage=usage)
    session.user("and now?")
    session.answer()
    recording = session.read()
    first, second = recording.epochs[0].calls
    assert (first.warmed, first.beside) == (None, ())
    assert second.beside == (Usage(0, 1, 120, 0),)
    assert second.warmed == datetime(2026, 1, 2, 3, 5, 3, tzinfo=UTC).timestamp()
    assert recording.epochs[0].messages[-1].warmed == second.warmed
    assert recording.epochs[0].messages[1].warmed is None
    uncompacted = read_uncompacted("s.jsonl", session.data)
    assert uncompacted.epochs[0].calls == recording.epochs[0].calls
    assert uncompacted.epochs[0].messages == recording.epochs[0].messages


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "model_change", "provider": "p", "modelId": "m"},
        {"type": "thinking_level_change", "thinkingLevel": "high"},
        {"type": "label", "targetId": "00000001", "label": "here"},
        {"type": "session_info", "name": "a name"},
        {"type": "custom", "customType": "x", "data": {"text": "y"}},
        {"type": "of a later version", "text": "y"},
    ],
)
def test_entries_that_are_not_sent(entry: dict[str, Json]):
    session = Session()
    session.user()
    session.add(str(entry["type"]), **{key: value for key, value in entry.items() if key != "type"})
    session.answer()
    (epoch,) = session.read().epochs
    assert [one.role for one in epoch.messages] == ["user", "assistant"]


def test_what_an_extension_says_is_the_hosts():
    session = Session()
    session.user()
    session.add("custom_message", customType="x", content="note this", display=True)
    session.answer()
    (epoch,) = session.read().epochs
    assert [one.role for one in epoch.messages] == ["user", "other", "assistant"]
