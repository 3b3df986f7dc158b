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
from prunewise.formats.anthropic import ANTHROPIC, NAME
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

BREAKPOINT = {"type": "ephemeral"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def body() -> dict[str, Json]:
    return {
        "model": "m",
        "system": [{"type": "text", "text": "be good"}],
        "messages": [
            {"role": "user", "content": "fix it"},
            {"role": "system", "content": "a note of the host"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "xyz"},
                    {"type": "text", "text": "reading"},
                    {
                        "type": "tool_use",
                        "id": "c1",
                        "name": "Read",
                        "input": {"file_path": "/a"},
                        "caller": 1,
                    },
                    {"type": "tool_use", "id": "c2", "name": "Bash", "input": {"command": "ls"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "tool_use_id": "c1",
                        "type": "tool_result",
                        "content": "text of a",
                        "cache_control": BREAKPOINT,
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "is_error": True,
                        "content": [{"type": "text", "text": "no"}, PICTURE],
                    },
                ],
            },
            {"role": "user", "content": [{"type": "text", "text": "go on"}]},
        ],
        "stream": True,
    }


def test_is_named():
    assert formats.named(NAME) is ANTHROPIC
    assert ANTHROPIC.vocabulary is tools.GENERIC


def test_reads_roles_and_parts():
    read = transcript(ANTHROPIC, body())
    assert [message.role for message in read.messages] == ["user", "system", "assistant", "tool", "user"]
    assert read.messages[0].parts == (Text("fix it"),)
    assert read.messages[2].parts == (
        Thinking("hm", "sig"),
        Thinking("", "xyz"),
        Text("reading"),
        ToolCall("c1", "Read", {"file_path": "/a"}, '{"file_path":"/a"}'),
        ToolCall("c2", "Bash", {"command": "ls"}, '{"command":"ls"}'),
    )
    assert read.messages[3].parts == (
        ToolResult("c1", "", (Text("text of a"),)),
        ToolResult("c2", "", (Text("no"), Image("image/png", 4)), is_error=True),
    )
    assert [exchange.call.id for exchange in read.exchanges] == ["c1", "c2"]
    assert read.turn == 2


@pytest.mark.parametrize(
    ("content", "role"),
    [
        ([{"type": "tool_result", "tool_use_id": "c"}], "tool"),
        ([{"type": "tool_result", "tool_use_id": "c"}, {"type": "text", "text": "and"}], "user"),
        ([], "user"),
        ("", "user"),
        (None, "user"),
    ],
)
def test_a_message_of_results_alone_is_the_tools(content: Json, role: str):
    assert ANTHROPIC.read({"role": "user", "content": content}, "m").role == role


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ()),
        ("", (Text(""),)),
        ([], ()),
        ({"odd": 1}, (Text('{"odd":1}'),)),
        ([{"type": "search_result", "title": "t"}], (Text('{"title":"t","type":"search_result"}'),)),
    ],
)
def test_reads_results_of_any_shape(content: Json, expected: Json):
    (part,) = ANTHROPIC.read(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": content}]}, "m"
    ).parts
    assert isinstance(part, ToolResult)
    assert part.content == expected


def test_a_result_that_brings_tools_is_opaque():
    content = [{"type": "tool_reference", "tool_name": "t"}]
    (part,) = ANTHROPIC.read(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": content}]}, "m"
    ).parts
    assert type(part) is Opaque


def test_calls_of_the_providers_own_tools_are_opaque():
    content = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "tool_use"},
    ]
    parts = ANTHROPIC.read({"role": "assistant", "content": content}, "m").parts
    assert [type(part) for part in parts] == [Opaque, Opaque]


def test_an_edit_changes_its_part_alone():
    request = body()
    before = copy.deepcopy(request)
    new = pruned(ANTHROPIC, request)
    assert request == before
    assert changed_paths(request, new) == [
        ("messages", 2, "content", 3, "input"),
        ("messages", 2, "content", 4, "input"),
        ("messages", 3, "content", 0, "content"),
        ("messages", 3, "content", 1, "content"),
    ]
    assert new["messages"][2]["content"][3]["input"] == {"pruned": "[marker]"}
    assert new["messages"][3]["content"][0]["content"] == "[marker]"
    assert new["messages"][3]["content"][1]["content"] == [{"type": "text", "text": "[marker]"}]


def test_images_can_stay():
    new = pruned(ANTHROPIC, body(), keep_images=True)
    content = new["messages"][3]["content"][1]["content"]
    assert content == [{"type": "text", "text": "[marker]"}, PICTURE]


def test_a_breakpoint_in_a_replaced_result_stays():
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": BREAKPOINT}]
    message = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": blocks}]}
    new = ANTHROPIC.apply(message, [ReplacePart("m", 0, 0, TOOL_RESULT, "x")])
    assert new["content"][0]["content"] == [{"type": "text", "text": "x", "cache_control": BREAKPOINT}]


@pytest.mark.parametrize(
    ("part", "kind"), [(0, TOOL_RESULT), (3, TOOL_RESULT), (2, TOOL_INPUT), (9, TOOL_INPUT), (-1, TOOL_INPUT)]
)
def test_an_edit_that_is_not_of_the_message_changes_nothing(part: int, kind: Json):
    message = body()["messages"][2]
    assert ANTHROPIC.apply(message, [ReplacePart("m", 0, part, kind, "x")]) is message


def test_takes_bodies_and_lists():
    request = body()
    assert ANTHROPIC.messages(request) is request["messages"]
    assert ANTHROPIC.messages(request["messages"]) is request["messages"]
    check_request(ANTHROPIC, request)
    with pytest.raises(InputError, match="messages"):
        ANTHROPIC.messages({"contents": []})


@given(json_values)
def test_reads_anything(value: Json):
    check_reads_anything(ANTHROPIC, value)
    check_reads_anything(ANTHROPIC, {"role": "user", "content": value})
    check_reads_anything(ANTHROPIC, {"role": "assistant", "content": [value]})
