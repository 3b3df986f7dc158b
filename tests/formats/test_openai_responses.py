import copy

import pytest
from hypothesis import given
from tests.formats.wire import (
    changed_paths,
    check_reads_anything,
    check_request,
    json_values,
    pruned,
    transcript,
)

from prunewise import InputError, formats, tools
from prunewise.formats.openai_responses import NAME, OPENAI_RESPONSES
from prunewise.formats.reading import Json
from prunewise.transcript import (
    TOOL_INPUT,
    TOOL_RESULT,
    Image,
    Opaque,
    ReplacePart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


def body() -> dict[str, Json]:
    return {
        "model": "m",
        "input": [
            {"type": "additional_tools", "tools": []},
            {"role": "developer", "content": "be good"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix"}, PICTURE]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "content": None,
                "encrypted_content": "sealed",
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "reading"}, {"type": "refusal", "refusal": "no"}],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c1",
                "name": "read",
                "arguments": '{"path":"/a"}',
            },
            {
                "type": "custom_tool_call",
                "id": "ctc_1",
                "call_id": "c2",
                "name": "apply_patch",
                "input": "*** B",
            },
            {"type": "function_call_output", "id": "fco_1", "call_id": "c1", "output": "text of a"},
            {
                "type": "custom_tool_call_output",
                "call_id": "c2",
                "output": [{"type": "input_text", "text": "no"}, PICTURE],
            },
            {
                "type": "local_shell_call",
                "id": "ls_1",
                "call_id": "c3",
                "action": {"type": "exec", "command": ["ls"]},
            },
            {"type": "local_shell_call_output", "id": "ls_1", "output": "a b"},
            {"type": "item_reference", "id": "x"},
        ],
        "stream": True,
    }


def test_is_named():
    assert formats.named(NAME) is OPENAI_RESPONSES
    assert OPENAI_RESPONSES.vocabulary is tools.GENERIC


def test_reads_each_item_as_a_message():
    read = transcript(OPENAI_RESPONSES, body())
    assert [message.role for message in read.messages] == [
        *("other", "system", "user", "assistant", "assistant", "assistant", "assistant"),
        *("tool", "tool", "assistant", "tool", "other"),
    ]
    assert read.messages[2].parts == (Text("fix"), Image("image/png", 4))
    assert read.messages[3].parts == (Thinking("hm", "sealed"),)
    assert read.messages[4].parts == (Text("reading"), Text("no"))
    assert read.messages[5].parts == (ToolCall("c1", "read", {"path": "/a"}, '{"path":"/a"}'),)
    assert read.messages[6].parts == (ToolCall("c2", "apply_patch", {"input": "*** B"}, '{"input":"*** B"}'),)
    assert read.messages[8].parts == (ToolResult("c2", "", (Text("no"), Image("image/png", 4))),)
    assert read.messages[9].parts[0] == ToolCall(
        "c3", "local_shell", {"type": "exec", "command": ["ls"]}, '{"command":["ls"],"type":"exec"}'
    )


def test_an_answer_may_name_either_of_two_ids():
    assert [exchange.call.id for exchange in transcript(OPENAI_RESPONSES, body()).exchanges] == [
        "c1",
        "c2",
        "c3",
    ]


def test_an_edit_changes_its_part_alone():
    request = body()
    before = copy.deepcopy(request)
    new = pruned(OPENAI_RESPONSES, request)
    assert request == before
    assert changed_paths(request, new) == [
        ("input", 5, "arguments"),
        ("input", 6, "input"),
        ("input", 7, "output"),
        ("input", 8, "output"),
        ("input", 9, "action", "command", 0),
        ("input", 10, "output"),
    ]
    assert new["input"][5]["arguments"] == '{"pruned":"[marker]"}'
    assert new["input"][6]["input"] == '{"pruned":"[marker]"}'
    assert new["input"][8]["output"] == [{"type": "input_text", "text": "[marker]"}]
    assert new["input"][9]["action"] == {"type": "exec", "command": ["[marker]"]}


@pytest.mark.parametrize(
    ("call", "output", "text", "purged", "replaced"),
    [
        (
            {"type": "shell_call", "action": {"commands": ["ls"], "timeout_ms": 1}},
            {
                "type": "shell_call_output",
                "output": [
                    {"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 1}},
                    {"stdout": "c", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                ],
            },
            "a\nb\nc",
            {"action": {"commands": ["x"], "timeout_ms": 1}},
            [
                {"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}},
                {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            ],
        ),
        (
            {"type": "apply_patch_call", "operation": {"type": "update_file", "path": "/a", "diff": "+b"}},
            {"type": "apply_patch_call_output", "output": "done"},
            "done",
            {"operation": {"type": "update_file", "path": "/a", "diff": "x"}},
            "x",
        ),
        (
            {"type": "function_call", "name": "f", "arguments": {"already": "an object"}},
            {"type": "function_call_output", "output": {"content": "inner", "success": True}},
            "inner",
            {"arguments": '{"pruned":"x"}'},
            {"content": "x", "success": True},
        ),
    ],
)
def test_pairs_of_every_kind_keep_their_shape(
    call: Json, output: Json, text: str, purged: Json, replaced: Json
):
    call, output = {**call, "call_id": "c"}, {**output, "call_id": "c"}
    (exchange,) = transcript(OPENAI_RESPONSES, [call, output]).exchanges
    assert exchange.result.text == text
    new = OPENAI_RESPONSES.apply(call, [ReplacePart("m", 0, 0, TOOL_INPUT, "x")])
    assert new == {**call, **purged}
    new = OPENAI_RESPONSES.apply(output, [ReplacePart("m", 0, 0, TOOL_RESULT, "x")])
    assert new == {**output, "output": replaced}


def test_says_what_failed():
    read = OPENAI_RESPONSES.read
    failed = [
        {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no"},
        {"type": "function_call_output", "call_id": "c", "output": {"content": "no", "success": False}},
    ]
    assert [part.is_error for item in failed for part in read(item, "m").parts] == [True, True]  # type: ignore[union-attr]


def test_an_output_without_an_id_goes_out_as_it_came():
    item = {"type": "function_call_output", "name": "handoff", "output": "..."}
    assert transcript(OPENAI_RESPONSES, [item]).exchanges == []
    assert OPENAI_RESPONSES.messages([item])[0] is item


@pytest.mark.parametrize(
    "item",
    [
        {"type": "mcp_call", "id": "m", "name": "t", "arguments": "{}", "output": "o"},
        {"type": "web_search_call", "id": "w"},
        {"type": "compaction", "encrypted_content": "s"},
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": 7},
        {"role": "critic", "content": "x"},
        {},
    ],
)
def test_items_that_are_not_known_are_opaque(item: Json):
    (part,) = OPENAI_RESPONSES.read(item, "m").parts
    assert type(part) is Opaque
    assert OPENAI_RESPONSES.apply(item, [ReplacePart("m", 0, 0, TOOL_RESULT, "x")]) is item


def test_takes_bodies_and_lists():
    request = body()
    check_request(OPENAI_RESPONSES, request)
    check_request(OPENAI_RESPONSES, request["input"])
    one = {"input": "just a question"}
    assert OPENAI_RESPONSES.messages(one) == ()
    assert OPENAI_RESPONSES.replace(one, ()) is one
    with pytest.raises(InputError, match="input"):
        OPENAI_RESPONSES.messages({"messages": []})


@given(json_values)
def test_reads_anything(value: Json):
    check_reads_anything(OPENAI_RESPONSES, value)
    for kind in ("function_call_output", "shell_call_output", "custom_tool_call_output"):
        check_reads_anything(OPENAI_RESPONSES, {"type": kind, "call_id": "c", "output": value})
    for kind in ("function_call", "local_shell_call", "apply_patch_call", "message", "reasoning"):
        fields = dict.fromkeys(("arguments", "action", "operation", "content", "summary"), value)
        check_reads_anything(OPENAI_RESPONSES, {"type": kind, "role": "user", "id": "c", **fields})
    check_request(OPENAI_RESPONSES, {"input": [value, value]})


EXITED, FAILED = {"type": "exit", "exit_code": 0}, {"type": "exit", "exit_code": 2}
TIMED_OUT = {"type": "timeout"}


@pytest.mark.parametrize(
    "commands",
    [
        [{"stdout": "a", "stderr": "", "outcome": EXITED}, {"stdout": "", "stderr": "b", "outcome": FAILED}],
        [{"stdout": "a", "outcome": EXITED}, {"stdout": "b", "outcome": TIMED_OUT}],
        [{"stderr": "a", "outcome": FAILED}, {"stderr": "b", "outcome": EXITED}],
        [{"outcome": FAILED}, {"stdout": "a", "stderr": "", "outcome": EXITED}],
        [{"stdout": "a", "stderr": "b", "outcome": one} for one in (EXITED, EXITED, EXITED, FAILED)],
        [{"stdout": "a", "stderr": "", "outcome": FAILED, "created_by": "me"}],
        [{"stdout": "a", "stderr": "", "outcome": TIMED_OUT}] * 2,
    ],
)
def test_a_marker_keeps_the_outcome_of_every_command(commands: Json):
    answer = {"type": "shell_call_output", "call_id": "c", "max_output_length": 9, "output": commands}
    new = OPENAI_RESPONSES.apply(answer, [ReplacePart("m", 0, 0, TOOL_RESULT, "x")])
    assert [one["outcome"] for one in new["output"]] == [one["outcome"] for one in commands]
    assert [one["stdout"] + one["stderr"] for one in new["output"]] == ["x"] + [""] * (len(commands) - 1)
    assert [one.get("created_by") for one in new["output"]] == [one.get("created_by") for one in commands]
    assert {key: value for key, value in new.items() if key != "output"} == {
        key: value for key, value in answer.items() if key != "output"
    }
    (read,) = OPENAI_RESPONSES.read(new, "m").parts
    assert isinstance(read, ToolResult)
    assert read.text == "x"


@pytest.mark.parametrize("output", ["text", [], ["loose"], None])
def test_an_answer_of_a_shell_without_outcomes_has_the_marker_alone(output: Json):
    answer = {"type": "shell_call_output", "call_id": "c", "output": output}
    new = OPENAI_RESPONSES.apply(answer, [ReplacePart("m", 0, 0, TOOL_RESULT, "x")])
    (read,) = OPENAI_RESPONSES.read({**new, "type": "function_call_output"}, "m").parts
    assert isinstance(read, ToolResult)
    assert read.text == "x"
