"""The rules of reading Claude Code's transcripts, each on a sample of its own; then the corpus."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise import tools
from prunewise.errors import InputError
from prunewise.formats import claude_code
from prunewise.recording import Recording
from prunewise.transcript import (
    Image,
    Message,
    Shell,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
)

Line = dict[str, Any]


class Session:
    """Writes a transcript line by line, each hanging on the one before it unless told otherwise."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.last: str | None = None

    def add(self, kind: str, **fields: Any) -> str:
        uuid = fields.pop("uuid", f"u{len(self.lines) + 1}")
        line = {
            "parentUuid": fields.pop("parent", self.last),
            "isSidechain": False,
            "cwd": "/repo",
            "sessionId": "s1",
            "type": kind,
            "uuid": uuid,
            "timestamp": f"2026-01-02T03:04:{len(self.lines) % 60:02}.000Z",
            **fields,
        }
        self.lines.append(line)
        self.last = uuid
        return uuid

    def bare(self, kind: str, **fields: Any) -> None:
        """A line outside the chain."""
        self.lines.append({"type": kind, **fields})

    def user(self, content: Any = "do it", **fields: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def result(
        self, id: str, content: Any = "out", *more: Any, error: bool | None = None, **fields: Any
    ) -> str:
        block = {"type": "tool_result", "tool_use_id": id, "content": content}
        if error is not None:
            block["is_error"] = error
        return self.user([block, *more], **fields)

    def answer(
        self, id: str, *blocks: Any, usage: Any = None, model: str = "claude-opus-5", **fields: Any
    ) -> str:
        content = [text(one) if isinstance(one, str) else one for one in blocks]
        message = {"id": id, "role": "assistant", "model": model, "content": content, "usage": usage}
        return self.add("assistant", message=message, requestId=f"r-{id}", **fields)

    def progress(self, **fields: Any) -> str:
        return self.add("progress", data={"type": "hook_progress"}, **fields)

    @property
    def data(self) -> bytes:
        return "".join([json.dumps(line) + "\n" for line in self.lines]).encode()

    def read(self) -> Recording:
        assert claude_code.detect(self.data[:65536])
        return claude_code.read_recording("folder/s.jsonl", self.data)


def text(value: str) -> Line:
    return {"type": "text", "text": value}


def call(id: str, name: str = "Read", **arguments: Any) -> Line:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments or {"file_path": "a.py"}}


def usage(output: int = 7, **more: Any) -> Line:
    return {
        "input_tokens": 3,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": output,
        **more,
    }


def shape(recording: Recording) -> list[list[tuple[str, str]]]:
    """For each epoch the messages' roles with their parts, in short."""
    return [[(message.role, short(message)) for message in epoch.messages] for epoch in recording.epochs]


def short(message: Message) -> str:
    names = []
    for part in message.parts:
        match part:
            case Text():
                names.append(part.text)
            case Thinking():
                names.append(f"thinking {part.text}|{part.signature}")
            case ToolCall():
                names.append(f"call {part.id}")
            case ToolResult():
                names.append(f"{'error' if part.is_error else 'result'} {part.call_id} {part.text}")
            case Shell():
                names.append(f"$ {part.command} -> {part.output}")
            case _:
                names.append(type(part).__name__)
    return ", ".join(names)


def one_turn() -> Session:
    session = Session()
    session.user("do it")
    session.answer("m1", call("t1"), usage=usage())
    session.result("t1")
    session.answer("m2", "done", usage=usage())
    return session


# ------------------------------------------------------------------- answers and usage


def test_lines_of_one_answer_are_one_answer_with_the_last_output() -> None:
    session = Session()
    session.user()
    session.answer("m1", {"type": "thinking", "thinking": "", "signature": "sig"}, usage=usage(2))
    session.progress()
    session.answer("m1", "I look", usage=usage(2))
    session.answer("m1", call("t1"), usage=usage(912))
    recording = session.read()
    assert shape(recording) == [[("user", "do it"), ("assistant", "thinking |sig, I look, call t1")]]
    (only,) = recording.epochs[0].calls
    assert (only.position, only.usage) == (1, Usage(3, 912, 100, 20))
    assert only.time == 1767323044.0  # the last line's
    assert (only.model, only.provider, only.failed) == ("claude-opus-5", "anthropic", False)
    answer = recording.epochs[0].messages[1]
    assert (answer.id, answer.usage, answer.model) == ("m1", only.usage, "claude-opus-5")


def test_a_result_written_between_the_lines_of_an_answer_comes_behind_it() -> None:
    session = Session()
    session.user()
    first = session.answer("m1", call("t1"))
    session.result("t1", "one")
    session.answer("m1", call("t2"), parent=first)
    session.result("t2", "two")
    session.answer("m2", "done")
    assert shape(session.read()) == [
        [
            ("user", "do it"),
            ("assistant", "call t1, call t2"),
            ("tool", "result t1 one"),
            ("tool", "result t2 two"),
            ("assistant", "done"),
        ]
    ]


def test_the_share_written_to_live_an_hour() -> None:
    session = Session()
    session.user()
    session.answer("m1", "hi", usage=usage(cache_creation={"ephemeral_1h_input_tokens": 15}))
    assert session.read().epochs[0].calls[0].usage == Usage(3, 7, 100, 20, 15)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([usage(2), usage(2), usage(900)], Usage(3, 900, 100, 20)),
        ([usage(900), usage(2)], Usage(3, 900, 100, 20)),
        ([usage(900), {"input_tokens": 5000, "output_tokens": 1}], Usage(5000, 1)),
        ([usage(900), {"input_tokens": 50, "output_tokens": 950}], Usage(3, 900, 100, 20)),
        ([usage(7), None], Usage(3, 7, 100, 20)),
        ([None, usage(7)], Usage(3, 7, 100, 20)),
        ([{"output_tokens": 1}, usage(7)], Usage(3, 7, 100, 20)),
        (
            [usage(7, cache_read_input_tokens=120, cache_creation_input_tokens=0), usage(7)],
            Usage(3, 7, 100, 20),
        ),
        (
            [usage(7, cache_creation={"ephemeral_1h_input_tokens": 20}), usage(6, input_tokens=4)],
            Usage(4, 6, 100, 20),
        ),
    ],
)
def test_the_usage_of_an_answer_is_that_of_one_line_as_a_whole(told: list[Any], expected: Usage) -> None:
    session = Session()
    session.user()
    for number, one in enumerate(told):
        session.answer("m1", f"part {number}", usage=one)
    assert session.read().epochs[0].calls[0].usage == expected


def made(read: int, output: int = 10, kind: str = "message", **more: Any) -> Line:
    return {"type": kind, "input_tokens": 2, "output_tokens": output, "cache_read_input_tokens": read, **more}


@pytest.mark.parametrize(
    ("iterations", "expected", "beside", "aside"),
    [
        ([made(100)], Usage(2, 10, 100), (), 0),
        ([made(100), made(150, 20)], Usage(2, 20, 150), (Usage(2, 10, 100),), 0),
        ([made(100), made(9, kind="advisor_message"), made(150)], Usage(2, 10, 150), (Usage(2, 10, 100),), 1),
        ([made(100), made(9, kind="advisor_message")], Usage(2, 10, 100), (), 1),
        ([made(90, kind="compaction"), made(20)], Usage(2, 10, 20), (Usage(2, 10, 90),), 0),
        ([made(1), made(2), made(3)], Usage(2, 10, 3), (Usage(2, 10, 1), Usage(2, 10, 2)), 0),
        ([], Usage(4, 30, 250), (), 0),
        ([made(9, kind="advisor_message")], Usage(4, 30, 250), (), 1),
        ([made(0, 0, input_tokens=0), made(7)], Usage(4, 30, 250), (), 0),
        ("odd", Usage(4, 30, 250), (), 0),
    ],
)
def test_an_answer_of_several_requests_is_the_last_of_them(
    iterations: Any, expected: Usage, beside: tuple[Usage, ...], aside: int
) -> None:
    session = Session()
    session.user()
    total = {"input_tokens": 4, "output_tokens": 30, "cache_read_input_tokens": 250}
    session.answer("m1", "hi", usage={**total, "iterations": iterations})
    recording = session.read()
    (only,) = recording.epochs[0].calls
    assert (only.usage, only.beside, recording.aside) == (expected, beside, aside)


@pytest.mark.parametrize(
    ("told", "speed"),
    [
        ({}, ""),
        ({"speed": "standard", "service_tier": "standard", "inference_geo": "global"}, ""),
        ({"speed": "fast", "service_tier": "standard"}, "fast"),
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "batch"}, "batch"),
        ({"inference_geo": "us"}, "us"),
        ({"speed": "fast", "inference_geo": "us"}, "fast us"),
        ({"speed": None, "inference_geo": "not_available"}, ""),
    ],
)
def test_the_speed_that_an_answer_was_billed_at(told: Line, speed: str) -> None:
    session = Session()
    session.user()
    session.answer("m1", "hi", usage=usage(**told))
    assert session.read().epochs[0].calls[0].speed == speed


@pytest.mark.parametrize(
    "bad", [None, {}, "x", {"input_tokens": 0, "output_tokens": None}, {"input_tokens": -4}]
)
def test_a_usage_that_counts_nothing_is_none(bad: Any) -> None:
    session = Session()
    session.user()
    session.answer("m1", "hi", usage=bad)
    session.answer("m2", "hi", usage=usage())
    session.answer("m2", "ho", usage=bad)
    assert [one.usage is None for one in session.read().epochs[0].calls] == [True, False]


def test_lines_repeated_after_a_resume_count_once() -> None:
    session = one_turn()
    session.lines += [dict(line) for line in session.lines]
    copy = dict(session.lines[1])
    session.lines.append({**copy, "uuid": "new", "parentUuid": "u4"})  # copied under another uuid
    recording = session.read()
    assert recording.llm_calls == 2
    assert shape(recording)[0][1] == ("assistant", "call t1")


def test_an_answer_that_claude_code_wrote_itself_is_no_llm_call() -> None:
    session = Session()
    session.user()
    session.answer(
        "m2", "No response requested.", model="<synthetic>", isApiErrorMessage=False, usage=usage()
    )
    recording = session.read()
    assert recording.llm_calls == 0
    assert shape(recording) == [[("user", "do it"), ("other", "No response requested.")]]


def test_an_api_error_is_an_llm_call_that_failed() -> None:
    session = Session()
    session.user()
    session.answer("m1", "API Error: 500", model="<synthetic>", isApiErrorMessage=True)
    session.answer("m2", "here it is", usage=usage())
    session.answer("m3", "API Error: 529", model="<synthetic>", isApiErrorMessage=True)
    recording = session.read()
    assert shape(recording) == [[("user", "do it"), ("assistant", "here it is")]]
    calls = recording.epochs[0].calls
    assert [(call.position, call.failed, call.usage is None) for call in calls] == [
        (1, True, True),
        (1, False, False),
        (2, True, True),
    ]


# ------------------------------------------------------------------- who speaks


@pytest.mark.parametrize(
    ("content", "fields", "role"),
    [
        ("do it", {}, "user"),
        ([{"type": "text", "text": "do it"}], {}, "user"),
        (
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}],
            {},
            "user",
        ),
        ([text("<ide_opened_file>a.py</ide_opened_file>"), text("do it")], {}, "user"),
        ("<command-message>review</command-message>\n<command-name>/review</command-name>", {}, "user"),
        ("<command-name>/exit</command-name>\n<command-message>exit</command-message>", {}, "other"),
        ("<local-command-stdout>Bye!</local-command-stdout>", {}, "other"),
        ("<local-command-caveat>Caveat: ...</local-command-caveat>", {"isMeta": True}, "other"),
        ("Base directory for this skill: /x", {"isMeta": True}, "other"),
        ("[Request interrupted by user for tool use]", {}, "other"),
        ("Operation stopped by hook: no", {}, "other"),
        ([text("<system-reminder>be good</system-reminder>")], {}, "other"),
    ],
)
def test_only_the_users_own_text_starts_a_turn(content: Any, fields: Line, role: str) -> None:
    session = Session()
    session.user(content, **fields)
    session.answer("m1", "hi")
    assert session.read().epochs[0].messages[0].role == role


@pytest.mark.parametrize(
    ("more", "role"),
    [
        ((), "tool"),
        ((text("<system-reminder>be good</system-reminder>"),), "tool"),
        ((text("no, the other one"),), "user"),
    ],
)
def test_results_with_the_users_text_are_the_users(more: Any, role: str) -> None:
    session = Session()
    session.user()
    session.answer("m1", call("t1"))
    session.result("t1", "out", *more)
    assert session.read().epochs[0].messages[2].role == role


def test_a_system_message_among_the_others() -> None:
    session = one_turn()
    session.add("user", message={"role": "system", "content": "be brief"})
    assert shape(session.read())[0][-1] == ("system", "be brief")


def test_the_users_shell_command_and_its_output_are_one_message() -> None:
    session = one_turn()
    session.user("<bash-input>git status</bash-input>")
    session.user("<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>")
    session.user("<bash-stdout>stray</bash-stdout>")
    assert shape(session.read())[0][-2:] == [
        ("shell", "$ git status -> clean"),
        ("other", "<bash-stdout>stray</bash-stdout>"),
    ]


def test_an_output_without_its_shell_command_stands_alone() -> None:
    session = Session()
    session.user("<bash-stderr>oops</bash-stderr>")
    session.answer("m1", "hm")
    assert shape(session.read())[0][0] == ("other", "<bash-stderr>oops</bash-stderr>")


# ------------------------------------------------------------------- results


def test_results_as_strings_as_blocks_and_with_images() -> None:
    png = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    session = Session()
    session.user()
    session.answer("m1", call("t1"), call("t2"), call("t3"))
    session.result("t1", "plain", error=False)
    session.result("t2", [text("a"), png, text("b")])
    session.result("t3", "Exit code 1", error=True, toolUseResult={"stdout": "the screen's copy"})
    messages = session.read().epochs[0].messages
    results = [part for message in messages[2:] for part in message.parts if isinstance(part, ToolResult)]
    assert [one.content for one in results] == [
        (Text("plain"),),
        (Text("a"), Image("image/png", 4), Text("b")),
        (Text("Exit code 1"),),
    ]
    assert [one.is_error for one in results] == [False, False, True]


def test_exchanges_and_file_operations_come_out_of_a_recording() -> None:
    recording = one_turn().read()
    transcript = Transcript(recording.epochs[0].messages, cwd=recording.cwd, vocabulary=recording.vocabulary)
    (exchange,) = transcript.exchanges
    assert exchange.operation == tools.FileOperation("read", "/repo/a.py")
    assert (recording.session, recording.cwd, recording.format) == ("s1", "/repo", "claude-code")


def test_a_read_of_some_pages_is_no_file_operation() -> None:
    words = claude_code.VOCABULARY
    assert tools.file_operation(words, "Read", {"file_path": "/a", "offset": 5, "limit": 2}, None) == (
        tools.FileOperation("read", "/a", 5, 6)
    )
    assert tools.file_operation(words, "Read", {"file_path": "/a.pdf", "pages": "1-5"}, None) is None


# ------------------------------------------------------------------- lines that are not sent


def test_titles_snapshots_progress_and_system_lines_are_not_sent() -> None:
    session = Session()
    session.bare("summary", summary="A title", leafUuid="u9")
    session.bare("file-history-snapshot", messageId="u1", snapshot={})
    session.bare("custom-title", customTitle="mine", sessionId="s1")
    session.progress()
    session.user()
    session.add("system", subtype="stop_hook_summary")
    session.add("system", subtype="local_command", content="<local-command-stdout>x</local-command-stdout>")
    session.answer("m1", "hi")
    recording = session.read()
    assert shape(recording) == [
        [("user", "do it"), ("other", "<local-command-stdout>x</local-command-stdout>"), ("assistant", "hi")]
    ]
    assert recording.warnings == ()


def test_a_kind_of_line_that_is_not_known_is_told_once() -> None:
    session = one_turn()
    session.bare("novelty")
    session.bare("novelty")
    assert session.read().warnings == (
        "folder/s.jsonl:5: lines of type 'novelty' are not known, 2 passed over",
    )


def test_a_line_without_its_message_is_told() -> None:
    session = one_turn()
    session.lines.insert(1, {"type": "user", "uuid": "x", "sessionId": "s1", "message": "error"})
    session.lines.insert(2, {"type": "user", "uuid": "x", "sessionId": "s1", "message": {"contenst": []}})
    recording = session.read()
    assert [warning[15:] for warning in recording.warnings] == [
        "2: a line of the user without a message, left out",
        "3: a line of the user without a message, left out",
    ]
    assert recording.llm_calls == 2


def test_attachments_are_sent_where_they_hold_a_text() -> None:
    session = Session()
    session.user()
    for attachment in (
        {"type": "edited_text_file", "filename": "a.py", "snippet": "1 x"},
        {"type": "nested_memory", "path": "/m", "content": {"type": "Project", "content": "remember"}},
        {"type": "file", "content": {"type": "text", "file": {"content": "whole"}}},
        {"type": "deferred_tools_delta", "addedNames": ["A", "B"], "addedLines": []},
        {"type": "hook_success", "hookEvent": "SessionStart", "content": "context"},
        {"type": "hook_success", "hookEvent": "Stop", "content": "on the screen"},
        {"type": "command_permissions", "content": "never"},
        {"type": ["odd"]},
        "odd",
    ):
        session.add("attachment", attachment=attachment)
    session.answer("m1", "hi")
    assert shape(session.read())[0][1:-1] == [
        ("other", one) for one in ("1 x", "remember", "whole", "A\nB", "context")
    ]


def test_what_the_user_typed_meanwhile_goes_out_with_the_results() -> None:
    session = Session()
    session.user()
    session.answer("m1", call("t1"))
    session.bare("queue-operation", operation="enqueue", content="also that", sessionId="s1")
    session.bare("queue-operation", operation="remove", sessionId="s1")
    session.result("t1")
    session.answer("m2", "both")
    assert shape(session.read())[0][2:] == [
        ("tool", "result t1 out"),
        ("user", "also that"),
        ("assistant", "both"),
    ]


def test_what_was_queued_is_not_sent_twice_nor_when_it_was_taken_back() -> None:
    session = Session()
    session.user()
    session.answer("m1", call("t1"))
    for content in ("as a line", "/ide", "as an attachment"):
        session.bare("queue-operation", operation="enqueue", content=content, sessionId="s1")
    session.bare("queue-operation", operation="dequeue", sessionId="s1")
    session.bare("queue-operation", operation="remove", sessionId="s1")
    session.bare("queue-operation", operation="remove", sessionId="s1")
    session.bare("queue-operation", operation="remove", sessionId="s1")
    session.bare("queue-operation", operation="enqueue", content="taken back", sessionId="s1")
    session.bare("queue-operation", operation="popAll", sessionId="s1")
    session.result("t1")
    session.user("as a line")
    session.add("attachment", attachment={"type": "queued_command", "prompt": [text("as an attachment")]})
    session.add(
        "attachment", attachment={"type": "queued_command", "prompt": "x", "commandMode": "task-notification"}
    )
    session.answer("m2", "all")
    assert [one for one in shape(session.read())[0][2:] if one[0] != "tool"] == [
        ("user", "as a line"),
        ("user", "as an attachment"),
        ("assistant", "all"),
    ]


# ------------------------------------------------------------------- the chain


def test_results_of_calls_made_at_once_are_side_branches_of_the_same_branch() -> None:
    session = Session()
    session.user()
    first = session.answer("m1", call("t1"))
    second = session.answer("m1", call("t2", "Skill"))
    third = session.answer("m1", call("t3"))
    session.result("t1", "one", parent=first)
    session.result("t2", "two", parent=second)
    session.user("the skill", parent=second, isMeta=True, sourceToolUseID="t2")
    session.result("t3", "three", parent=third)
    session.answer("m2", "done", parent="u5")  # goes on from the first result alone
    recording = session.read()
    assert recording.branches == 1
    assert shape(recording)[0][1:] == [
        ("assistant", "call t1, call t2, call t3"),
        ("tool", "result t1 one"),
        ("tool", "result t2 two"),
        ("other", "the skill"),
        ("tool", "result t3 three"),
        ("assistant", "done"),
    ]


def test_the_branch_of_the_last_message_and_how_many_others_there_are() -> None:
    session = Session()
    start = session.user("start")
    session.answer("m1", "one way")
    session.user("and on")
    session.user("another way", parent=start)
    session.answer("m2", "that way")
    recording = session.read()
    assert shape(recording) == [[("user", "start"), ("user", "another way"), ("assistant", "that way")]]
    assert recording.branches == 2


def test_progress_lines_are_transparent_in_the_chain() -> None:
    session = Session()
    session.user()
    session.answer("m1", call("t1"))
    session.progress()
    progress = session.progress()
    session.result("t1", parent="u2")
    session.answer("m2", "done", parent=progress)
    recording = session.read()
    assert [role for role, _ in shape(recording)[0]] == ["user", "assistant", "tool", "assistant"]
    assert recording.branches == 1


def test_over_a_gap_the_order_of_the_lines_is_followed() -> None:
    session = one_turn()
    session.user("go on", parent="never-written")
    session.answer("m3", "gone on")
    recording = session.read()
    assert recording.llm_calls == 3
    (warning,) = recording.warnings
    assert warning.startswith("folder/s.jsonl:5: its parent never-written is not before it in the file")
    assert warning.endswith("the order of the lines followed")


def test_a_session_that_begins_in_another_file() -> None:
    session = Session()
    session.user(parent="elsewhere")
    session.answer("m1", "hi")
    assert session.read().warnings == (
        "folder/s.jsonl:1: its parent elsewhere is not before it in the file, the session begins here",
    )


def test_a_chain_that_bites_its_tail_is_followed_once() -> None:
    session = one_turn()
    session.lines[0]["parentUuid"] = "u4"
    assert session.read().llm_calls == 2


def test_a_file_without_parents_is_read_in_its_order() -> None:
    session = one_turn()
    for line in session.lines:
        line["parentUuid"] = None
    recording = session.read()
    assert (recording.llm_calls, len(recording.epochs), recording.branches) == (2, 1, 1)


@pytest.mark.parametrize("place", [1, 3, 5, 7])
def test_one_answer_without_a_parent_leaves_the_others_chained(place: int) -> None:
    session = Session()
    first = session.user("one")
    session.answer("m1", "wrong way")
    session.user("another way", parent=first)
    for number in range(2, 8):
        session.answer(f"m{number}", "on") if number % 2 == 0 else session.user(f"and {number}")
    lost = Session()
    lost.answer("lost", "from nowhere", parent=None, uuid="lost")
    session.lines.insert(place, lost.lines[0])
    recording = session.read()
    assert "wrong way" not in str(shape(recording))
    assert "from nowhere" not in str(shape(recording))
    assert (recording.aside, len(recording.epochs)) == (2, 1)


def test_a_conversation_begun_anew_in_the_same_file_is_an_epoch_of_its_own() -> None:
    session = one_turn()
    session.progress(parent=None)
    session.user("carry out the plan")
    session.answer("m3", "done")
    recording = session.read()
    assert [(len(epoch.messages), len(epoch.calls), epoch.ended_by) for epoch in recording.epochs] == [
        (4, 2, "rewind"),
        (2, 1, "end"),
    ]
    assert recording.branches == 1


def stray(session: Session, **fields: Any) -> None:
    """A notice of the host's that hangs on nothing, and on which nothing hangs."""
    last = session.last
    fields = {"isApiErrorMessage": True, "model": "<synthetic>", "parent": None, **fields}
    session.answer("x", "Please run /login", **fields)
    session.last = last


@pytest.mark.parametrize("places", [(0,), (1,), (4,), (6,), (8,), (0, 3, 8), (7, 7, 7)])
@pytest.mark.parametrize("notice", [{}, {"isApiErrorMessage": False}, {"isMeta": True}])
def test_a_notice_that_hangs_on_nothing_changes_nothing(places: tuple[int, ...], notice: Line) -> None:
    def session(places: tuple[int, ...]) -> Session:
        made, turns = Session(), ["first"]
        for place in range(9):
            for _ in range(places.count(place)):
                stray(made, **notice)
            made.last = turns[2] if place == 4 else made.last
            said = made.answer(f"m{place}", f"say {place}") if place % 2 else made.user(f"ask {place}")
            turns.append(said)
        return made

    bare, noticed = session(()).read(), session(places).read()
    assert shape(noticed) == shape(bare)
    assert (noticed.llm_calls, noticed.branches, noticed.aside) == (bare.llm_calls, 2, 1)
    assert [role for role, _ in shape(bare)[0]] == ["user", "assistant"] * 3 + ["user"]


def test_subagents_are_conversations_of_their_own() -> None:
    session = one_turn()
    session.user("look around", isSidechain=True, parent=None)
    session.answer("m8", "seen", isSidechain=True)
    session.user("look again", isSidechain=True, parent=None)
    session.answer("m9", "done", parent="u4")
    recording = session.read()
    assert (recording.llm_calls, recording.branches, recording.warnings) == (3, 1, ())
    assert [(one.session, one.source, one.llm_calls) for one in recording.subagents] == [
        ("s1/u5", "folder/s.jsonl:5", 1),
        ("s1/u7", "folder/s.jsonl:7", 0),
    ]
    assert shape(recording.subagents[0]) == [[("user", "look around"), ("assistant", "seen")]]


def test_a_file_of_a_subagent_alone_is_read() -> None:
    session = one_turn()
    for line in session.lines:
        line["isSidechain"] = True
    assert session.read().llm_calls == 2


# ------------------------------------------------------------------- compaction


def compacted(**metadata: Any) -> Session:
    session = one_turn()
    session.add(
        "system", subtype="compact_boundary", parent=None, logicalParentUuid="u4", compactMetadata=metadata
    )
    session.user("The summary", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    session.answer("m3", "on we go", usage=usage())
    return session


def test_a_compaction_begins_an_epoch_with_its_summary() -> None:
    recording = compacted().read()
    assert shape(recording)[1] == [("other", "The summary"), ("assistant", "on we go")]
    assert [(len(one.calls), one.ended_by) for one in recording.epochs] == [(2, "compaction"), (1, "end")]
    assert recording.epochs[1].calls[0].position == 1


def test_a_boundary_that_hangs_on_an_unknown_line_follows_the_order_of_the_lines() -> None:
    session = compacted()
    session.lines[4]["logicalParentUuid"] = "never-written"
    recording = session.read()
    assert (len(recording.epochs), recording.llm_calls, recording.warnings) == (2, 3, ())


def test_what_a_compaction_keeps_comes_behind_the_summary_and_is_no_new_call() -> None:
    session = compacted(preservedSegment={"headUuid": "u2", "anchorUuid": "u6", "tailUuid": "u3"})
    recording = session.read()
    assert shape(recording)[1] == [
        ("other", "The summary"),
        ("assistant", "call t1"),
        ("tool", "result t1 out"),
        ("assistant", "on we go"),
    ]
    assert [one.position for one in recording.epochs[1].calls] == [3]


def hanging_on(parent: str, **metadata: Any) -> Session:
    """A compaction behind `u4`; what follows the summary hangs on an earlier line."""
    session = one_turn()
    session.add(
        "system", subtype="compact_boundary", parent=None, logicalParentUuid="u4", compactMetadata=metadata
    )
    session.user("The summary", isCompactSummary=True)
    session.user("go on", parent=parent)
    session.answer("m3", "on we go", usage=usage())
    return session


LAST_TWO = {"preservedSegment": {"headUuid": "u3", "anchorUuid": "u6", "tailUuid": "u4"}}
LISTED = {"preservedMessages": {"anchorUuid": "u6", "uuids": ["u3", "u4"], "allUuids": ["u3", "u4"]}}
RESULT, ANSWER = ("tool", "result t1 out"), ("assistant", "done")


@pytest.mark.parametrize(
    ("session", "kept"),
    [
        (hanging_on("u4", **LAST_TWO), [RESULT, ANSWER]),
        (hanging_on("u4", **LISTED), [RESULT, ANSWER]),
        (hanging_on("u4", preservedMessages={"allUuids": ["u3", "u4"]}), [RESULT, ANSWER]),
        (hanging_on("u4", preservedMessages={"uuids": ["u4"]}), [ANSWER]),
        (hanging_on("u4", preservedMessages={"uuids": ["u4", 7, "gone"]}), [ANSWER]),
        (hanging_on("u6", **LAST_TWO), [RESULT, ANSWER]),
        (hanging_on("u6", **LISTED), [RESULT, ANSWER]),
        (hanging_on("u5", **LISTED), [RESULT, ANSWER]),
        (hanging_on("u3", **LISTED), [RESULT]),  # the user went back to what was kept
        (hanging_on("u3", **LAST_TWO), [RESULT]),
        (hanging_on("u4"), []),
        (hanging_on("u4", preservedSegment={"headUuid": "gone", "tailUuid": "u4"}), []),
        (hanging_on("u4", preservedMessages="odd"), []),
    ],
)
def test_no_way_leads_past_a_compaction(session: Session, kept: list[tuple[str, str]]) -> None:
    recording = session.read()
    assert [(len(one.messages), len(one.calls), one.ended_by) for one in recording.epochs] == [
        (4, 2, "compaction"),
        (len(kept) + 3, 1, "end"),
    ]
    assert shape(recording)[1] == [
        ("other", "The summary"),
        *kept,
        ("user", "go on"),
        ("assistant", "on we go"),
    ]
    assert (recording.aside, recording.warnings) == (0, ())


@pytest.mark.parametrize(
    ("session", "messages", "aside"),
    [
        (hanging_on("u2", **LISTED), 5, 1),  # its call has been answered
        (hanging_on("u1", **LISTED), 3, 2),
        (hanging_on("u3"), 5, 1),
        (hanging_on("u2", **LAST_TWO), 5, 1),
        (hanging_on("u1"), 3, 2),
    ],
)
def test_the_user_may_go_back_to_before_a_compaction(session: Session, messages: int, aside: int) -> None:
    recording = session.read()
    assert [(len(one.messages), one.ended_by) for one in recording.epochs] == [(messages, "end")]
    assert recording.aside == aside
    assert recording.branches == 2


def test_a_late_line_of_an_answer_from_before_is_no_second_call() -> None:
    session = compacted()
    session.answer("m2", "late", parent="u7")
    session.answer("m4", "end")
    recording = session.read()
    assert recording.llm_calls == 4
    assert shape(recording)[1][2] == ("assistant", "late")


def test_a_microcompaction_begins_an_epoch_with_old_results_taken_out() -> None:
    session = Session()
    session.user()
    session.answer("m1", call("t1"), call("t2"))
    session.result("t1", "old")
    session.result("t2", "new")
    metadata = {"compactedToolIds": ["t1", 7]}
    session.add("system", subtype="microcompact_boundary", microcompactMetadata=metadata)
    session.answer("m2", "done")
    session.add("system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": None})
    session.user("go on")
    recording = session.read()
    assert [(len(epoch.calls), epoch.ended_by) for epoch in recording.epochs] == [
        (1, "compaction"),
        (1, "end"),
    ]
    assert [one for role, one in shape(recording)[1] if role == "tool"] == [
        "result t1 [Old tool result content cleared]",
        "result t2 new",
    ]
    assert recording.epochs[1].messages[0] is recording.epochs[0].messages[0]


# ------------------------------------------------------------------- what is no transcript


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"not json",
        b'{"type":"session","version":3,"id":"x","cwd":"/"}\n{"type":"message","id":"a","parentId":null}\n',
        b'{"timestamp":"2026","type":"session_meta","payload":{"id":"x"}}\n',
        b'{"type":"user","uuid":"a","sessionId":"s","message":{"role":"user","parts":[{"text":"hi"}]}}\n',
    ],
)
def test_other_files_are_not_read(data: bytes) -> None:
    assert not claude_code.detect(data)
    with pytest.raises(InputError, match=r"^x\.jsonl: no Claude Code transcript"):
        claude_code.read_recording("x.jsonl", data)


@pytest.mark.parametrize(
    "head",
    [
        b'{"type":"summary","summary":"t","leafUuid":"u"}\n',
        b'{"type":"file-history-snapshot","messageId":"u","snapshot":{}}\n',
        b'{"type":"queue-operation","operation":"dequeue","sessionId":"s"}\n',
        b'{"parentUuid":null,"isSidechain":false,"cwd":"/","sessionId":"s","type":"user","message":{"role":"us',
    ],
)
def test_first_lines_that_are_known(head: bytes) -> None:
    assert claude_code.detect(head)


_SAMPLE = one_turn().lines + compacted(preservedSegment={"headUuid": "u2", "tailUuid": "u3"}).lines[4:]
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.just(10**400),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.data())
def test_no_value_of_a_wrong_type_makes_it_fall_over(data: st.DataObject) -> None:
    lines: list[Any] = json.loads(json.dumps(_SAMPLE))
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = data.draw(st.sampled_from(lines))
        while isinstance(place, dict) and place:
            key = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or data.draw(st.booleans()):
                place[key] = data.draw(_JSON)
                break
            place = place[key]
    written = "\n".join([json.dumps(line) for line in lines])
    try:
        recording = claude_code.read_recording("x", written.encode())
    except InputError:
        return
    for epoch in recording.epochs:
        assert all(epoch.messages[one.position].role == "assistant" for one in epoch.calls if not one.failed)


# ------------------------------------------------------------------- the corpus

# The corpus counts every distinct message id, also those of answers that Claude Code wrote itself
# ("No response requested."): no request was made for them.
_SYNTHETIC = {
    "03a1382e": 1,
    "1c38adc0": 1,
    "53ea1606": 1,
    "ab8c5aa0": 1,
}


def rows(shared: Path, name: str) -> list[dict[str, str]]:
    with (shared / "corpus" / "MANIFEST.tsv").open(newline="") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if row["format"] == name]


@pytest.mark.corpus
def test_the_corpus_is_read_as_its_manifest_counts(shared: Path) -> None:
    for row in rows(shared, "claude-code"):
        data = (shared / "corpus" / row["file"]).read_bytes()
        assert claude_code.detect(data[:65536])
        recording = claude_code.read_recording(row["file"], data)
        synthetic = _SYNTHETIC.get(row["file"].split("__")[-1][:8], 0)
        assert recording.llm_calls == int(row["llm_calls"]) - synthetic, row["file"]
        found: Counter[str] = Counter()
        seen: set[str] = set()
        for epoch in recording.epochs:
            ids = [message.id for message in epoch.messages]
            assert len(set(ids)) == len(ids), row["file"]
            for message in epoch.messages:
                if message.id not in seen:
                    found["calls"] += sum(isinstance(part, ToolCall) for part in message.parts)
                    found["errors"] += sum(isinstance(p, ToolResult) and p.is_error for p in message.parts)
            seen.update(ids)
            found["failed"] += sum(one.failed for one in epoch.calls)
            found["usage"] += sum(one.usage is not None for one in epoch.calls)
            found["timed"] += sum(one.time is not None for one in epoch.calls)
        assert found["calls"] == int(row["tool_calls"]), row["file"]
        assert found["errors"] == int(row["tool_errors"]), row["file"]
        answered = recording.llm_calls - found["failed"]
        assert found["usage"] == (answered if row["has_usage"] == "1" else 0), row["file"]
        assert found["timed"] == recording.llm_calls, row["file"]


@pytest.mark.corpus
def test_no_other_file_of_the_corpus_is_taken_for_a_transcript(shared: Path) -> None:
    for path in sorted((shared / "corpus").glob("*/*")):
        if path.parent.name != "claude-code":
            assert not claude_code.detect(path.read_bytes()[:65536]), path
