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
from prunewise.formats.openai_chat import NAME, OPENAI_CHAT
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

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def call(named: str, name: str, arguments: Json, **more: Json) -> dict[str, Json]:
    return {"id": named, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def body() -> dict[str, Json]:
    return {
        "model": "m",
        "messages": [
            {"role": "developer", "content": "be good"},
            {"role": "user", "content": [{"type": "text", "text": "fix it"}, PICTURE]},
            {
                "role": "assistant",
                "content": "reading",
                "reasoning_content": "hm",
                "reasoning": "hm",
                "tool_calls": [
                    call("c1", "read_file", '{"path": "/a"}'),
                    {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "text of a"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "no"}, PICTURE]},
            {"role": "assistant", "content": None, "tool_calls": [call("c3", "bash", '{"command": "ech')]},
            {"role": "tool", "tool_call_id": "c3", "content": None},
        ],
        "tools": [],
    }


def test_is_named():
    assert formats.named(NAME) is OPENAI_CHAT
    assert OPENAI_CHAT.vocabulary is tools.GENERIC


def test_reads_roles_and_parts():
    read = transcript(OPENAI_CHAT, body())
    assert [message.role for message in read.messages] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "tool"),
    ]
    assert read.messages[1].parts == (Text("fix it"), Image("image/png", 4))
    assert read.messages[2].parts == (
        Text("reading"),
        ToolCall("c1", "read_file", {"path": "/a"}, '{"path":"/a"}'),
        ToolCall("c2", "patch", {"input": "*** Begin"}, '{"input":"*** Begin"}'),
        Thinking("hm"),
    )
    assert read.messages[4].parts == (ToolResult("c2", "", (Text("no"), Image("image/png", 4))),)
    assert [exchange.call.id for exchange in read.exchanges] == ["c1", "c2", "c3"]


def test_arguments_that_are_no_json_stay_text():
    (part,) = OPENAI_CHAT.read(body()["messages"][5], "m").parts
    assert part == ToolCall("c3", "bash", {}, '"{\\"command\\": \\"ech"')


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, ()), ("", (Text(""),)), ([], ()), ({"a": 1.0}, (Text('{"a":1}'),)), ([7], (Text("7"),))],
)
def test_reads_results_of_any_shape(content: Json, expected: Json):
    (part,) = OPENAI_CHAT.read({"role": "tool", "tool_call_id": "c", "content": content}, "m").parts
    assert part == ToolResult("c", "", expected)


def test_a_result_may_name_either_of_two_ids():
    first, second = call("fc_1", "read", "{}", call_id="call_1"), call("fc_2", "read", "{}", call_id="call_2")
    request = [
        {"role": "assistant", "content": None, "tool_calls": [first, second]},
        {"role": "tool", "tool_call_id": "call_1", "content": "a"},
        {"role": "tool", "tool_call_id": "fc_2", "content": "b"},
    ]
    read = transcript(OPENAI_CHAT, request)
    assert [(one.call.id, one.result.text) for one in read.exchanges] == [("fc_1", "a"), ("fc_2", "b")]
    assert changed_paths(request, pruned(OPENAI_CHAT, request)) == [
        (0, "tool_calls", 0, "function", "arguments"),
        (0, "tool_calls", 1, "function", "arguments"),
        (1, "content"),
        (2, "content"),
    ]
    assert list(OPENAI_CHAT.messages(request)) == list(OPENAI_CHAT.messages(copy.deepcopy(request)))


@pytest.mark.parametrize(
    "one",
    [{"type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "c"}, "odd", None],
)
def test_what_is_no_call_with_an_id_is_opaque(one: Json):
    (part,) = OPENAI_CHAT.read({"role": "assistant", "content": None, "tool_calls": [one]}, "m").parts
    assert type(part) is Opaque


def test_results_without_an_id_are_in_no_exchange():
    request = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "a"},
    ]
    read = transcript(OPENAI_CHAT, request)
    assert read.messages[1].parts == (ToolResult("", "f", (Text("a"),)),)
    assert read.exchanges == []


def test_an_edit_changes_its_part_alone():
    request = body()
    before = copy.deepcopy(request)
    new = pruned(OPENAI_CHAT, request)
    assert request == before
    assert changed_paths(request, new) == [
        ("messages", 2, "tool_calls", 0, "function", "arguments"),
        ("messages", 2, "tool_calls", 1, "custom", "input"),
        ("messages", 3, "content"),
        ("messages", 4, "content"),
        ("messages", 5, "tool_calls", 0, "function", "arguments"),
        ("messages", 6, "content"),
    ]
    assert new["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"pruned":"[marker]"}'
    assert new["messages"][3]["content"] == "[marker]"
    assert new["messages"][4]["content"] == [{"type": "text", "text": "[marker]"}]


def test_images_and_breakpoints_can_stay():
    marked = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
    message = {"role": "tool", "tool_call_id": "c", "content": [marked, PICTURE]}
    new = OPENAI_CHAT.apply(message, [ReplacePart("m", 0, 0, TOOL_RESULT, "x", keep_images=True)])
    assert new["content"] == [{**marked, "text": "x"}, PICTURE]
    assert new["content"][1] is PICTURE


@pytest.mark.parametrize(
    ("part", "kind"), [(0, TOOL_RESULT), (0, TOOL_INPUT), (3, TOOL_INPUT), (-1, TOOL_INPUT)]
)
def test_an_edit_that_is_not_of_the_message_changes_nothing(part: int, kind: Json):
    message = body()["messages"][2]
    assert OPENAI_CHAT.apply(message, [ReplacePart("m", 0, part, kind, "x")]) is message


def test_takes_bodies_and_lists():
    request = body()
    assert OPENAI_CHAT.messages(request) is request["messages"]
    check_request(OPENAI_CHAT, request)
    check_request(OPENAI_CHAT, request["messages"])
    with pytest.raises(InputError, match="messages"):
        OPENAI_CHAT.messages("odd")


@given(json_values)
def test_reads_anything(value: Json):
    check_reads_anything(OPENAI_CHAT, value)
    check_reads_anything(OPENAI_CHAT, {"role": "tool", "content": value})
    check_reads_anything(OPENAI_CHAT, {"role": "assistant", "content": value, "tool_calls": [value]})
    check_request(OPENAI_CHAT, {"messages": [value, value]})
