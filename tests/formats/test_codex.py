"""The rules of reading Codex's rollouts, each on a sample of its own; then the corpus."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise.errors import InputError
from prunewise.formats import codex
from prunewise.recording import Recording
from prunewise.transcript import Image, Opaque, Text, Thinking, ToolCall, ToolResult, Transcript, Usage

Line = dict[str, Any]


class Rollout:
    """Writes a rollout line by line."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.total = 0

    def add(self, kind: str, payload: Any) -> None:
        time = f"2026-01-02T03:04:{len(self.lines) % 60:02}.000Z"
        self.lines.append({"timestamp": time, "type": kind, "payload": payload})

    def meta(self, **fields: Any) -> None:
        self.add("session_meta", {"id": "s1", "cwd": "/repo", "model_provider": "openai", **fields})

    def item(self, kind: str, **fields: Any) -> None:
        self.add("response_item", {"type": kind, **fields})

    def event(self, kind: str, **fields: Any) -> None:
        self.add("event_msg", {"type": kind, **fields})

    def user(self, text: str = "do it", role: str = "user") -> None:
        self.item("message", role=role, content=[{"type": "input_text", "text": text}])
        self.event("user_message", message=text)

    def say(self, text: str = "I look") -> None:
        self.event("agent_message", message=text)
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def call(self, id: str, cmd: str = "ls") -> None:
        self.item("function_call", name="exec_command", call_id=id, arguments=json.dumps({"cmd": cmd}))

    def output(self, id: str, output: Any = "Process exited with code 0\nOutput:\nout") -> None:
        self.item("function_call_output", call_id=id, output=output)

    def tokens(self, input: int, cached: int = 0, output: int = 5) -> None:
        self.total += input + output
        last = {
            "input_tokens": input,
            "cached_input_tokens": cached,
            "output_tokens": output,
            "total_tokens": input + output,
        }
        self.event(
            "token_count", info={"last_token_usage": last, "total_token_usage": {"total_tokens": self.total}}
        )

    @property
    def data(self) -> bytes:
        return "".join([json.dumps(line) + "\n" for line in self.lines]).encode()

    def read(self) -> Recording:
        assert codex.detect(self.data[:65536])
        return codex.read_recording("folder/r.jsonl", self.data)


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
            return f"{'error' if part.is_error else 'result'} {part.call_id}"
        case _:
            return type(part).__name__


def one_turn() -> Rollout:
    rollout = Rollout()
    rollout.meta()
    rollout.add("turn_context", {"model": "gpt-5.5", "cwd": "/repo"})
    rollout.user()
    rollout.item("reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="sealed")
    rollout.say()
    rollout.call("c1")
    rollout.call("c2")
    rollout.output("c1")
    rollout.output("c2")
    rollout.tokens(1000, 800)
    rollout.say("done")
    rollout.tokens(1100, 1000)
    return rollout


# ------------------------------------------------------------------- what was counted


def counts(input: int, output: int = 5, **more: int) -> Line:
    return {"input_tokens": input, "output_tokens": output, "total_tokens": input + output, **more}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (counts(100), Usage(100, 5, total=105)),
        (counts(100, cached_input_tokens=60), Usage(40, 5, 60, total=105)),
        (counts(100, cache_write_input_tokens=90), Usage(10, 5, 0, 90, total=105)),
        (
            counts(100, cached_input_tokens=60, cache_write_input_tokens=30),
            Usage(10, 5, 60, 30, total=105),
        ),
        (counts(100, cached_input_tokens=60, cache_write_input_tokens=40), Usage(0, 5, 60, 40, total=105)),
        (counts(100, cached_input_tokens=60, cache_write_input_tokens=99), Usage(0, 5, 60, 40, total=105)),
        (counts(100, cached_input_tokens=200, cache_write_input_tokens=9), Usage(0, 5, 100, total=105)),
        (counts(100, cache_write_input_tokens=-4), Usage(100, 5, total=105)),
        (counts(100, cache_write_input_tokens=None), Usage(100, 5, total=105)),  # type: ignore[arg-type]
    ],
)
def test_what_was_read_from_the_cache_or_written_to_it_is_part_of_the_input(
    told: Line, expected: Usage
) -> None:
    rollout = Rollout()
    rollout.meta()
    rollout.user()
    rollout.say()
    rollout.event("token_count", info={"last_token_usage": told, "total_token_usage": told})
    assert usages(rollout.read()) == [expected]


def usages(recording: Recording) -> list[Usage | None]:
    return [one.usage for epoch in recording.epochs for one in epoch.calls]


def totals(*each: Line) -> Rollout:
    """An answer for each running total, without what the last call used."""
    rollout = Rollout()
    rollout.meta()
    for total in each:
        rollout.user()
        rollout.say()
        rollout.event("token_count", info={"total_token_usage": total})
    return rollout


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        (totals(counts(100)), [(100, 5)]),
        (totals(counts(100), counts(300, 20)), [(100, 5), (200, 15)]),
        (totals(counts(100), counts(40, 3)), [(100, 5), (40, 3)]),  # the counter began anew at a resume
        (totals(counts(100), counts(120, 3)), [(100, 5), (120, 3)]),
        (totals(counts(100), counts(40, 3), counts(100, 9)), [(100, 5), (40, 3), (60, 6)]),
    ],
)
def test_running_totals_tell_a_usage_where_nothing_else_does(
    rollout: Rollout, expected: list[tuple[int, int]]
) -> None:
    assert [(one.input, one.output) for one in usages(rollout.read()) if one] == expected


def record(rollout: Rollout, used: Line, thread: str = "s1") -> None:
    rollout.add("token_usage_record", {"thread_id": thread, "response_id": f"r{used}", "usage": used})


def count_of(rollout: Rollout, used: Line, total: Line) -> None:
    rollout.event("token_count", info={"last_token_usage": used, "total_token_usage": total})


def told_twice(first: str, *, again: bool) -> Rollout:
    rollout = Rollout()
    rollout.meta()
    for number in (1, 2):
        rollout.user()
        rollout.say()
        used, total = counts(100), counts(100 * number)
        for kind in (first, {"record": "count", "count": "record"}[first]) if again else (first,):
            if kind == "record":
                record(rollout, used)
            else:
                count_of(rollout, used, total)
    return rollout


@pytest.mark.parametrize("first", ["record", "count"])
@pytest.mark.parametrize("again", [True, False])
def test_a_usage_told_by_two_kinds_of_line_counts_once(first: str, again: bool) -> None:
    recording = told_twice(first, again=again).read()
    assert usages(recording) == [Usage(100, 5, total=105)] * 2
    assert not any(one.beside for epoch in recording.epochs for one in epoch.calls)


def test_a_usage_without_an_answer_is_a_request_beside_the_conversation() -> None:
    rollout = one_turn()
    rollout.tokens(50, 40)
    rollout.user()
    rollout.say()
    rollout.tokens(1200, 1100)
    rollout.tokens(60, 40)
    calls = rollout.read().epochs[0].calls
    assert [len(one.beside) for one in calls] == [0, 0, 2]
    assert [one.input for one in calls[2].beside] == [10, 20]


def test_the_call_that_made_a_summary_ends_the_epoch() -> None:
    rollout = one_turn()
    rollout.tokens(1300, 1200, output=300)
    rollout.add("compacted", {"message": "sum", "replacement_history": []})
    rollout.user()
    rollout.say()
    first, second = rollout.read().epochs
    assert [(one.position, one.usage and one.usage.output) for one in first.calls] == [
        (1, 5),
        (4, 5),
        (5, 300),
    ]
    assert len(first.messages) == 5
    assert len(second.calls) == 1


@pytest.mark.parametrize(
    ("tiers", "speeds"),
    [
        ((None, None), ["", ""]),
        (("fast", None), ["priority", "priority"]),
        (("priority", "default"), ["priority", ""]),
        (("flex", "fast"), ["flex", "priority"]),
        (("odd", None), ["", ""]),
    ],
)
def test_the_service_tier_is_a_speed(tiers: tuple[str | None, ...], speeds: list[str]) -> None:
    rollout = Rollout()
    rollout.meta()
    for number, tier in enumerate(tiers):
        rollout.add("turn_context", {"model": "gpt-5.5", "service_tier": tier})
        rollout.user()
        rollout.say()
        rollout.tokens(100 + number)
    rollout.event("thread_settings_applied", thread_settings={"service_tier": "fast"})
    rollout.user()
    rollout.say()
    calls = rollout.read().epochs[0].calls
    assert [one.speed for one in calls] == [*speeds, "priority"]


# ------------------------------------------------------------------- copies


OLD, CHILD, NEW = (f"0197{n:04x}-0000-7000-8000-000000000001" for n in (1, 2, 3))


class Child(Rollout):
    """The rollout of a subagent, which begins with its parent's."""

    def __init__(self, id: str = "child", *, source: Line | None = None, **fields: Any) -> None:
        super().__init__()
        self.meta(id=id, source=source or {"subagent": {"thread_spawn": {}}}, **fields)
        self.meta(id="parent")

    def turn(self, id: str, answers: int = 1, *, ended: bool = True) -> None:
        self.event("task_started", turn_id=id)
        self.user(f"{id}?")
        for number in range(answers):
            self.say(f"{id} {number}")
            self.tokens(100 + number)
        if ended:
            self.event("task_complete", turn_id=id)


def with_turns(child: Child, *turns: tuple[str, int, bool]) -> Child:
    for name, answers, ended in turns:
        child.turn(name, answers, ended=ended)
    return child


@pytest.mark.parametrize(
    ("child", "own", "copied"),
    [
        (with_turns(Child(), ("p", 4, False), ("own", 2, True)), 2, 4),
        (with_turns(Child(), ("p", 4, False), ("own", 1, True), ("more", 3, True)), 4, 4),
        (with_turns(Child(), ("p", 2, True), ("q", 2, False), ("own", 2, False)), 2, 4),
        (with_turns(Child(CHILD), (OLD, 3, True), (OLD, 1, True), (NEW, 2, True)), 2, 4),
        (with_turns(Child(CHILD), (OLD, 3, False), (OLD, 1, False), (NEW, 2, True)), 2, 4),
        (with_turns(Child(source={"x": 1}, thread_source="subagent"), ("p", 1, False), ("o", 1, True)), 1, 1),
        (
            with_turns(Child(source={"x": 1}, parent_thread_id="parent"), ("p", 1, False), ("o", 1, True)),
            1,
            1,
        ),
        (with_turns(Child(source={"x": 1}), ("p", 1, False), ("o", 1, True)), 2, 0),  # a fork of the user's
    ],
)
def test_what_a_subagent_copied_is_no_call_of_its_own(child: Child, own: int, copied: int) -> None:
    recording = child.read()
    assert (recording.llm_calls, recording.copied, recording.session) == (
        own,
        copied,
        child.lines[0]["payload"]["id"],
    )
    assert (
        sum(one.role == "assistant" for epoch in recording.epochs for one in epoch.messages) == own + copied
    )


def test_a_record_of_its_own_thread_ends_the_copy() -> None:
    child = with_turns(Child(), ("p", 2, True), ("own", 0, True))
    child.say("mine")
    record(child, counts(500), thread="child")
    child.user()
    child.say("mine too")
    record(child, counts(600), thread="child")
    recording = child.read()
    assert recording.copied == 2
    assert [one.input for one in usages(recording) if one] == [500, 600]


def test_tagged_texts_are_the_hosts_where_codex_says_what_the_user_typed() -> None:
    rollout = Rollout()
    rollout.meta()
    for text in ("<b>really</b>", "plain"):
        rollout.user(text)
    rollout.item("message", role="user", content=[{"type": "input_text", "text": "<news>of the host</news>"}])
    rollout.item(
        "message", role="user", content=[{"type": "input_text", "text": "a plain text without event"}]
    )
    rollout.say()
    assert [one.role for one in rollout.read().epochs[0].messages] == [
        "user",
        "user",
        "other",
        "user",
        "assistant",
    ]


# ------------------------------------------------------------------- answers and usage


def test_an_answer_is_what_the_model_said_between_outputs_and_messages() -> None:
    recording = one_turn().read()
    assert shape(recording) == [
        [
            ("user", "do it"),
            ("assistant", "thinking hm|sealed, I look, call c1, call c2"),
            ("tool", "result c1"),
            ("tool", "result c2"),
            ("assistant", "done"),
        ]
    ]
    assert recording.llm_calls == 2
    assert (recording.session, recording.cwd, recording.format) == ("s1", "/repo", "codex")


def test_input_leaves_out_what_was_cached() -> None:
    first, second = one_turn().read().epochs[0].calls
    assert first.usage == Usage(200, 5, 800, total=1005)
    assert (first.position, first.model, first.provider, first.failed) == (1, "gpt-5.5", "openai", False)
    assert first.time == 1767323048.0  # of its last item
    assert second.usage == Usage(100, 5, 1000, total=1105)


def test_a_usage_written_again_counts_once_and_an_empty_one_not_at_all() -> None:
    rollout = one_turn()
    rollout.lines.insert(13, rollout.lines[11])  # the limits changed, the usage did not
    rollout.event("token_count", info=None)
    rollout.event("token_count", info={"last_token_usage": {}, "total_token_usage": {"total_tokens": 9}})
    rollout.user("go on")
    rollout.say("gone on")
    assert [one.usage and one.usage.output for one in rollout.read().epochs[0].calls] == [5, 5, None]


def test_the_first_header_counts_and_repeated_call_ids_pair_in_order() -> None:
    rollout = one_turn()
    rollout.meta(id="parent", cwd="/elsewhere")
    rollout.call("c1")
    rollout.output("c1", "again")
    rollout.say("bye")
    recording = rollout.read()
    assert (recording.session, recording.cwd) == ("s1", "/repo")
    exchanges = Transcript(recording.epochs[0].messages, vocabulary=recording.vocabulary).exchanges
    assert [one.result.text for one in exchanges if one.call.id == "c1"][1] == "again"


def test_an_answer_cut_off_is_a_failed_call() -> None:
    rollout = one_turn()
    rollout.user("go on")
    rollout.say("I beg")
    rollout.event("turn_aborted", reason="interrupted")
    rollout.user("<turn_aborted>\nThe user interrupted the previous turn")
    rollout.user("now")
    rollout.say("done")
    rollout.event("turn_aborted", reason="interrupted")
    rollout.tokens(9)
    recording = rollout.read()
    assert [one.failed for one in recording.epochs[0].calls] == [False, False, True, True]
    assert ("other", "<turn_aborted>\nThe user interrupted the previous turn") in shape(recording)[0]


# ------------------------------------------------------------------- items


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n", False),
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 128\nOutput:\nfatal", True),
        ("Exit code: 2\nWall time: 0 seconds\nOutput:\nno", True),
        ("exit code: 1\nno", True),
        ("Process exited with code 0\nOutput:\n" + "x" * 400 + "\nExit code: 1\n", False),
        ("Process exited with code 0\nOutput:\nExit code: 1\n", False),
        ('{"output":"no","metadata":{"exit_code":1,"duration_seconds":0.1}}', True),
        ('{"output":"yes","metadata":{"exit_code":0}}', False),
        ('{"output":"odd","metadata":{"exit_code":"1"}}', False),
        ('{"metadata":', False),
        ("apply_patch verification failed: no such line", True),
        ("Plan updated", False),
        ({"content": "no", "success": False}, True),
        ({"name": "service"}, False),
        ([{"type": "input_text", "text": "Exit code: 1"}], True),
        (None, False),
    ],
)
def test_errors_are_told_by_exit_codes(output: Any, failed: bool) -> None:
    rollout = Rollout()
    rollout.call("c1")
    rollout.output("c1", output)
    (result,) = rollout.read().epochs[0].messages[1].parts
    assert isinstance(result, ToolResult)
    assert result.is_error is failed


def test_outputs_as_texts_lists_and_objects() -> None:
    rollout = Rollout()
    rollout.call("c1")
    png = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    for output in ("plain", [{"type": "input_text", "text": "a"}, png], {"name": "x", "b": 1}):
        rollout.output("c1", output)
    results = [one.parts[0] for one in rollout.read().epochs[0].messages[1:]]
    assert [one.content for one in results if isinstance(one, ToolResult)] == [
        (Text("plain"),),
        (Text("a"), Image("image/png", 4)),
        (Text('{"b":1,"name":"x"}'),),
    ]


@pytest.mark.parametrize(
    ("item", "name", "arguments", "text"),
    [
        (
            {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls","b":1}'},
            "exec_command",
            {"cmd": "ls", "b": 1},
            '{"b":1,"cmd":"ls"}',
        ),
        (
            {"type": "function_call", "name": "shell", "arguments": '{"command":'},
            "shell",
            {},
            '"{\\"command\\":"',
        ),
        (
            {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch"},
            "apply_patch",
            {"input": "*** Begin Patch"},
            '{"input":"*** Begin Patch"}',
        ),
        (
            {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"]}},
            "local_shell",
            {"type": "exec", "command": ["ls"]},
            '{"command":["ls"],"type":"exec"}',
        ),
    ],
)
def test_calls_of_the_hosts_tools(item: Line, name: str, arguments: Line, text: str) -> None:
    rollout = Rollout()
    rollout.add("response_item", {**item, "call_id": "c1"})
    (part,) = rollout.read().epochs[0].messages[0].parts
    assert part == ToolCall("c1", name, arguments, text)


def test_what_the_provider_runs_stays_in_the_answer_as_it_came() -> None:
    rollout = Rollout()
    rollout.item("web_search_call", status="completed", action={"query": "x"})
    rollout.item("reasoning", summary=[], content=None, encrypted_content=None)
    rollout.item("tool_search_call", call_id="c1", execution="client", arguments={})
    rollout.item("tool_search_output", call_id="c1", tools=[])
    rollout.item("ghost_snapshot", ghost_commit={})
    rollout.say("done")
    recording = rollout.read()
    assert shape(recording) == [
        [("assistant", "Opaque, thinking |None, Opaque"), ("other", "Opaque"), ("assistant", "done")]
    ]
    assert isinstance(recording.epochs[0].messages[1].parts[0], Opaque)


def test_an_output_without_a_call_id_is_in_no_exchange() -> None:
    rollout = Rollout()
    rollout.call("c1")
    rollout.item("function_call_output", output="lost")
    rollout.output("c1")
    recording = rollout.read()
    (exchange,) = Transcript(recording.epochs[0].messages).exchanges
    assert exchange.call.id == "c1"


@pytest.mark.parametrize(
    ("text", "role", "expected"),
    [
        ("do it", "user", "user"),
        ("<b>bold</b> request", "user", "user"),
        ("<environment_context>\n  <cwd>/</cwd>", "user", "other"),
        ("<user_instructions>\nx", "user", "other"),
        ("# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>", "user", "other"),
        ("Another language model started to solve this problem and", "user", "other"),
        ("<permissions instructions>", "developer", "system"),
    ],
)
def test_only_the_users_own_text_starts_a_turn(text: str, role: str, expected: str) -> None:
    rollout = Rollout()
    rollout.user(text, role)
    rollout.say()
    assert rollout.read().epochs[0].messages[0].role == expected


def test_an_image_of_the_users_starts_a_turn() -> None:
    rollout = Rollout()
    png = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    tag = {"type": "input_text", "text": "<image name=[Image #1]>"}
    rollout.item("message", role="user", content=[tag, png])
    assert rollout.read().epochs[0].messages[0].role == "user"


# ------------------------------------------------------------------- compaction and rollback


def test_a_compaction_begins_an_epoch_with_the_history_that_replaces_the_old_one() -> None:
    rollout = one_turn()
    history = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
        {"type": "ghost_snapshot"},
        {"type": "compaction", "encrypted_content": "sealed"},
        "odd",
    ]
    for _ in range(2):
        rollout.add("compacted", {"message": "", "replacement_history": history})
        rollout.event("context_compacted")
    rollout.tokens(0, 0, 0)
    rollout.say("on we go")
    recording = rollout.read()
    assert shape(recording)[2] == [
        ("user", "do it"),
        ("assistant", "done"),
        ("other", "Opaque"),
        ("assistant", "on we go"),
    ]
    assert [(len(one.calls), one.ended_by) for one in recording.epochs] == [
        (2, "compaction"),
        (0, "compaction"),
        (1, "end"),
    ]
    assert recording.epochs[2].calls[0].position == 3
    assert len({one.id for epoch in recording.epochs for one in epoch.messages}) == 12


def test_a_compaction_without_a_history_keeps_the_users_messages_and_the_summary() -> None:
    rollout = one_turn()
    rollout.add("compacted", {"message": "Half is done."})
    rollout.say("on we go")
    (*kept, summary, answer) = shape(rollout.read())[1]
    assert kept == [("user", "do it")]
    assert summary[0] == "other"
    assert summary[1].endswith("\nHalf is done.")
    assert answer == ("assistant", "on we go")


@pytest.mark.parametrize(
    ("turns", "left"),
    [(1, ["user", "assistant", "tool", "tool", "assistant"]), (2, []), (9, [])],
)
def test_a_rollback_begins_an_epoch_without_the_last_turns(turns: int, left: list[str]) -> None:
    rollout = one_turn()
    rollout.user("go on")
    rollout.say("gone on")
    rollout.event("thread_rolled_back", num_turns=turns)
    rollout.user("differently")
    rollout.say("so")
    first, second = rollout.read().epochs
    assert (first.ended_by, len(first.calls)) == ("rewind", 3)
    assert [one.role for one in second.messages] == [*left, "user", "assistant"]
    assert [one.position for one in second.calls] == [len(left) + 1]


@pytest.mark.parametrize("turns", [0, None, "two"])
def test_a_rollback_of_nothing_changes_nothing(turns: Any) -> None:
    rollout = one_turn()
    rollout.event("thread_rolled_back", num_turns=turns)
    assert len(rollout.read().epochs) == 1


# ------------------------------------------------------------------- other lines, and other files


def test_the_first_format_without_envelopes() -> None:
    lines = [
        {"id": "old", "timestamp": "2025-05-01T00:00:00.000Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]},
        {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": '{"command":["ls"]}'},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": '{"output":"","metadata":{"exit_code":1}}',
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ]
    data = "\n".join([json.dumps(line) for line in lines]).encode()
    assert codex.detect(data)
    recording = codex.read_recording("r.jsonl", data)
    assert shape(recording) == [
        [("user", "do it"), ("assistant", "call c1"), ("tool", "error c1"), ("assistant", "done")]
    ]
    assert (recording.session, recording.warnings) == ("old", ())


def test_lines_that_are_not_known_are_told() -> None:
    rollout = one_turn()
    rollout.add("novelty", {"type": "x"})
    rollout.add("world_state", {})
    rollout.add("response_item", "odd")
    assert rollout.read().warnings == (
        "folder/r.jsonl:16: a line of type 'novelty' is not known, left out",
        "folder/r.jsonl:18: a line of type 'response_item' is not known, left out",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b'{"type":"session","version":3,"id":"x","timestamp":"2026","cwd":"/"}\n{"type":"message","id":"a"}\n',
        b'{"type":"user","uuid":"a","sessionId":"s","message":{"role":"user","content":"hi"}}\n',
        b'{"type":["odd"],"payload":{}}\n',
    ],
)
def test_other_files_are_not_read(data: bytes) -> None:
    assert not codex.detect(data)
    with pytest.raises(InputError, match=r"^x\.jsonl: no Codex rollout"):
        codex.read_recording("x.jsonl", data)


def test_a_rollout_without_messages_is_not_read() -> None:
    rollout = Rollout()
    rollout.meta()
    with pytest.raises(InputError, match="no message in it"):
        rollout.read()


def test_a_header_longer_than_what_is_looked_at_is_known() -> None:
    rollout = Rollout()
    rollout.meta(base_instructions={"text": "x" * 100_000})
    assert codex.detect(rollout.data[:65536])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.data())
def test_no_value_of_a_wrong_type_makes_it_fall_over(data: st.DataObject) -> None:
    rollout = one_turn()
    rollout.event("thread_rolled_back", num_turns=1)
    rollout.add("compacted", {"replacement_history": [{"type": "message", "role": "user", "content": "x"}]})
    rollout.say("end")
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = data.draw(st.sampled_from(rollout.lines))
        while isinstance(place, dict) and place:
            key = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or data.draw(st.booleans()):
                place[key] = data.draw(_JSON)
                break
            place = place[key]
    try:
        recording = codex.read_recording("x", rollout.data)
    except InputError:
        return
    for epoch in recording.epochs:
        answers = [one for one in epoch.calls if one.position < len(epoch.messages)]  # not summaries
        assert all(epoch.messages[one.position].role == "assistant" for one in answers)


# ------------------------------------------------------------------- the corpus

# What the corpus counts as tool calls, and is none of the host's: searches that the provider runs,
# and searches for tools, which stay in the answer as they came.
_NOT_THE_HOSTS = {"019ed50c": 5, "019ed9f4": 6, "019eecb9": 13, "019eef3d": 1, "019efc87": 1, "019f1d64": 1}
# Errors that the corpus does not count, since they have no exit code: `apply_patch verification failed`.
_PATCHES_THAT_FAILED = {"019efc87": 3, "019f03e0": 1, "019f1d64": 4}


@pytest.mark.corpus
def test_the_corpus_is_read_as_its_manifest_counts(shared: Path) -> None:
    with (shared / "corpus" / "MANIFEST.tsv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["format"] == "codex"]
    for row in rows:
        data = (shared / "corpus" / row["file"]).read_bytes()
        assert codex.detect(data[:65536])
        recording = codex.read_recording(row["file"], data)
        name = row["file"].split("__")[-1][:8]
        assert recording.llm_calls == int(row["llm_calls"]), row["file"]
        messages = {one.id: one for epoch in recording.epochs for one in epoch.messages}
        parts = [part for message in messages.values() for part in message.parts]
        calls = sum(isinstance(part, ToolCall) for part in parts)
        errors = sum(isinstance(part, ToolResult) and part.is_error for part in parts)
        assert calls == int(row["tool_calls"]) - _NOT_THE_HOSTS.get(name, 0), row["file"]
        assert errors == int(row["tool_errors"]) + _PATCHES_THAT_FAILED.get(name, 0), row["file"]
        usages = [one.usage for epoch in recording.epochs for one in epoch.calls if one.usage]
        assert bool(usages) == (row["has_usage"] == "1"), row["file"]
        assert len(usages) >= recording.llm_calls - 2 or not usages, row["file"]
        if len(recording.epochs) == 1:  # a compaction carries the user's messages over
            turns = sum(one.role == "user" for one in messages.values())
            assert turns == data.count(b'"type":"user_message"') or b"user_message" not in data, row["file"]


@pytest.mark.corpus
def test_no_other_file_of_the_corpus_is_taken_for_a_rollout(shared: Path) -> None:
    for path in sorted((shared / "corpus").glob("*/*")):
        if path.parent.name != "codex":
            assert not codex.detect(path.read_bytes()[:65536]), path
