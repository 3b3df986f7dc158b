"""pi's messages: how each is read, that none is refused, that an edit changes its part and nothing else."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise.errors import InputError
from prunewise.formats import Format
from prunewise.formats.pi import PI
from prunewise.markers import INPUT_KEY
from prunewise.transcript import (
    SHELL_OUTPUT,
    TOOL_INPUT,
    TOOL_RESULT,
    Edit,
    Image,
    Kind,
    Message,
    Opaque,
    Part,
    ReplacePart,
    Shell,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

Native = dict[str, Any]
IMAGE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ROLES = [
    "user",
    "assistant",
    "toolResult",
    "bashExecution",
    "system",
    "custom",
    "compactionSummary",
    "branchSummary",
]
KEYS = [
    *("role", "content", "timestamp", "usage", "model", "stopReason", "toolCallId", "toolName", "isError"),
    *("command", "output", "exitCode", "excludeFromContext", "sections", "toolsAdded", "summary"),
]
BLOCK_KEYS = ["type", "text", "thinking", "thinkingSignature", "id", "name", "arguments", "data", "mimeType"]
BLOCK_TYPES = ["text", "thinking", "toolCall", "image"]
odd_blocks = st.dictionaries(st.sampled_from(BLOCK_KEYS), st.sampled_from(BLOCK_TYPES) | json_values)
odd_messages = st.dictionaries(
    st.sampled_from(KEYS),
    st.sampled_from(ROLES) | json_values | st.lists(odd_blocks | json_values, max_size=4),
)


def user(content: object) -> Native:
    return {"role": "user", "content": content}


def assistant(*blocks: Any, **more: Any) -> Native:
    return {"role": "assistant", "content": list(blocks), **more}


def result(*blocks: Any, **more: Any) -> Native:
    return {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": list(blocks), **more}


def call(arguments: object, **more: Any) -> Native:
    return {"type": "toolCall", "id": "c1", "name": "read", "arguments": arguments, **more}


def text(value: str) -> Native:
    return {"type": "text", "text": value}


@pytest.mark.parametrize(
    ("native", "role", "parts"),
    [
        pytest.param(user("hi"), "user", (Text("hi"),), id="a user's text"),
        pytest.param(
            user([text("hi"), IMAGE]), "user", (Text("hi"), Image("image/png", 4)), id="a user's blocks"
        ),
        pytest.param(user(None), "user", (), id="null content has no parts"),
        pytest.param({"role": "user"}, "user", (), id="missing content has no parts"),
        pytest.param(user(12), "user", (Opaque(2),), id="a number for content is opaque"),
        pytest.param(
            user([7, None, "x"]), "user", (Opaque(1), Opaque(4), Opaque(3)), id="blocks that are none"
        ),
        pytest.param(
            user([{"type": "text"}]), "user", (Opaque(15),), id="a text block without text is opaque"
        ),
        pytest.param(
            assistant({"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}, text("so")),
            "assistant",
            (Thinking("hm", "s"), Text("so")),
            id="thinking keeps its signature",
        ),
        pytest.param(
            assistant({"type": "thinking"}), "assistant", (Thinking(""),), id="thinking without its text"
        ),
        pytest.param(
            assistant(call({"b": 1, "a": "x"})),
            "assistant",
            (ToolCall("c1", "read", {"b": 1, "a": "x"}, '{"a":"x","b":1}'),),
            id="a call's text is canonical",
        ),
        pytest.param(
            assistant(call({"a": 1.0})),
            "assistant",
            (ToolCall("c1", "read", {"a": 1.0}, '{"a":1}'),),
            id="numbers too",
        ),
        pytest.param(
            assistant(call({"a": "\ud800"})),
            "assistant",
            (ToolCall("c1", "read", {"a": "\ud800"}, '{"a":"\\ud800"}'),),
            id="and lone surrogates",
        ),
        pytest.param(
            assistant(call("raw")),
            "assistant",
            (ToolCall("c1", "read", {}, '"raw"'),),
            id="arguments that are text",
        ),
        pytest.param(
            assistant({"type": "toolCall", "id": "c1"}),
            "assistant",
            (ToolCall("c1", "", {}, "null"),),
            id="a call without name and arguments",
        ),
        pytest.param(
            assistant({"type": "toolCall", "id": ""}),
            "assistant",
            (Opaque(27),),
            id="a call without an id is opaque",
        ),
        pytest.param(assistant({"type": "new"}), "assistant", (Opaque(14),), id="an unknown block is opaque"),
        pytest.param(
            {"role": "assistant", "content": "so"}, "assistant", (Text("so"),), id="an assistant's bare text"
        ),
        pytest.param(result(text("out")), "tool", (ToolResult("c1", "read", (Text("out"),)),), id="a result"),
        pytest.param(
            result(text("out"), IMAGE, isError=True),
            "tool",
            (ToolResult("c1", "read", (Text("out"), Image("image/png", 4)), is_error=True),),
            id="a result's image and error flag",
        ),
        pytest.param(
            result(isError="yes"),
            "tool",
            (ToolResult("c1", "read", ()),),
            id="an error flag is nothing but true",
        ),
        pytest.param(
            {"role": "toolResult", "content": None},
            "tool",
            (ToolResult("", "", ()),),
            id="a result with nothing in it",
        ),
        pytest.param(
            {"role": "toolResult", "content": "out"},
            "tool",
            (ToolResult("", "", (Text("out"),)),),
            id="a bare result",
        ),
        pytest.param(
            result({"type": "new", "x": 1}, 5),
            "tool",
            (ToolResult("c1", "read", (Text('{"type":"new","x":1}'), Text("5"))),),
            id="unknown blocks of a result stand as their JSON",
        ),
        pytest.param(
            {"role": "toolResult", "content": {"x": 1}},
            "tool",
            (ToolResult("", "", (Text('{"x":1}'),)),),
            id="so does content that is no list",
        ),
        pytest.param(
            {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 0},
            "shell",
            (Shell("ls", "a", 0),),
            id="a shell command of the user's",
        ),
        pytest.param(
            {"role": "bashExecution", "exitCode": True, "excludeFromContext": True},
            "shell",
            (Shell("", "", None, sent=False),),
            id="one that is kept from the model",
        ),
        pytest.param(
            {
                "role": "system",
                "content": "be",
                "sections": {"a": "one", "b": None},
                "toolsAdded": [{"name": "x"}],
            },
            "system",
            (Text("be"), Text("one"), Text('[{"name":"x"}]')),
            id="a system prompt with its sections and tools",
        ),
        pytest.param(
            {"role": "compactionSummary", "summary": "s"}, "other", (Text("s"),), id="a compaction's summary"
        ),
        pytest.param(
            {"role": "branchSummary", "summary": "s"}, "other", (Text("s"),), id="a branch's summary"
        ),
        pytest.param(
            {"role": "custom", "content": [text("n"), IMAGE]},
            "other",
            (Text("n"), Image("image/png", 4)),
            id="an extension's message",
        ),
        pytest.param({"role": "new"}, "other", (Opaque(14),), id="an unknown role is opaque"),
        pytest.param({}, "other", (Opaque(2),), id="a message without a role is opaque"),
        pytest.param([1], "other", (Opaque(3),), id="what is no message is opaque"),
    ],
)
def test_reading(native: Native, role: str, parts: tuple[Part, ...]):
    message = PI.read(native, "m1")
    assert (message.id, message.role, message.parts) == ("m1", role, parts)


@pytest.mark.parametrize(
    ("stop", "usage", "read"),
    [
        pytest.param(
            "stop", {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}, Usage(1, 2, 3, 4), id="counts"
        ),
        pytest.param("toolUse", {"cacheWrite1h": 4, "totalTokens": 9}, Usage(0, 0, 0, 0, 4, 9), id="a total"),
        pytest.param("error", {"input": 1}, None, id="none on a failed answer"),
        pytest.param("aborted", {"input": 1}, None, id="none on an aborted answer"),
        pytest.param(["stop"], {"input": 1}, Usage(1), id="an odd stop reason is no failure"),
        pytest.param("stop", {"input": 0, "totalTokens": 0}, None, id="none where nothing was counted"),
        pytest.param(
            "stop", {"input": -3, "output": "7", "cacheRead": 2.0}, Usage(cache_read=2), id="odd counts are 0"
        ),
        pytest.param("stop", {}, None, id="none of an empty usage"),
        pytest.param("stop", [1], None, id="none of an odd usage"),
        pytest.param("stop", None, None, id="none without one"),
    ],
)
def test_usage(stop: object, usage: object, read: Usage | None):
    assert PI.read(assistant(stopReason=stop, usage=usage), "m1").usage == read


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        (1733234401500, 1733234401.5),
        (1000.0, 1.0),
        (None, None),
        ("1", None),
        (True, None),
        (10**400, None),
        (-5, None),
    ],
)
def test_time_comes_from_milliseconds(stamp: object, seconds: float | None):
    assert PI.read(assistant(timestamp=stamp, model="m"), "m1").time == seconds


def test_the_model_is_the_assistants():
    assert PI.read(assistant(model="claude"), "m1").model == "claude"
    assert PI.read(assistant(model=3), "m1").model == ""


@given(odd_messages | json_values)
def test_reading_never_raises(native: Native):
    assert isinstance(PI.read(native, "m"), Message)


@given(st.lists(odd_blocks | json_values, max_size=5))
def test_parts_are_the_blocks_one_to_one(blocks: list[Any]):
    assert len(PI.read(assistant(*blocks), "m").parts) == len(blocks)


RESULT_EDIT = ReplacePart("m1", 0, 0, TOOL_RESULT, "gone")
INPUT_EDIT = ReplacePart("m1", 0, 1, TOOL_INPUT, "gone")


@pytest.mark.parametrize(
    ("native", "edit", "changed"),
    [
        pytest.param(
            result(text("long"), IMAGE),
            RESULT_EDIT,
            {"content": [text("gone")]},
            id="a result's content is replaced",
        ),
        pytest.param(
            result(text("long"), IMAGE, text("more")),
            ReplacePart("m1", 0, 0, TOOL_RESULT, "gone", keep_images=True),
            {"content": [text("gone"), IMAGE]},
            id="its images stay behind the marker where they are kept",
        ),
        pytest.param(
            {"role": "toolResult", "toolCallId": "c1"},
            RESULT_EDIT,
            {"content": [text("gone")]},
            id="missing content too",
        ),
        pytest.param(
            {"role": "bashExecution", "command": "ls", "output": "long", "exitCode": 0},
            ReplacePart("m1", 0, 0, SHELL_OUTPUT, "gone"),
            {"output": "gone"},
            id="a shell output is replaced",
        ),
    ],
)
def test_an_edit_replaces_content_and_keeps_everything_else(native: Native, edit: Edit, changed: Native):
    before = copy.deepcopy(native)
    edited = PI.apply(native, [edit])
    assert native == before
    assert edited == {**native, **changed}
    assert list(edited)[: len(native)] == list(native)


def test_images_are_the_same_objects():
    native = result(text("long"), IMAGE)
    assert (
        PI.apply(native, [ReplacePart("m1", 0, 0, TOOL_RESULT, "gone", keep_images=True)])["content"][1]
        is IMAGE
    )


def test_a_purged_input_is_an_object_with_one_key_and_other_blocks_are_the_same_objects():
    native = assistant(text("so"), call({"path": "x"}, thoughtSignature="s"), call({}), usage={"input": 1})
    edited = PI.apply(native, [INPUT_EDIT])
    assert edited["content"][1] == call({INPUT_KEY: "gone"}, thoughtSignature="s")
    assert list(edited["content"][1]) == list(native["content"][1])
    assert edited["content"][0] is native["content"][0]
    assert edited["content"][2] is native["content"][2]
    assert native["content"][1]["arguments"] == {"path": "x"}


def test_two_inputs_of_one_message():
    native = assistant(call({"a": 1}), call({"b": 2}))
    edits = [ReplacePart("m1", 0, part, TOOL_INPUT, f"gone {part}") for part in (0, 1)]
    assert [block["arguments"] for block in PI.apply(native, edits)["content"]] == [
        {INPUT_KEY: "gone 0"},
        {INPUT_KEY: "gone 1"},
    ]


@pytest.mark.parametrize(
    ("native", "edits"),
    [
        pytest.param(user("hi"), [], id="without edits"),
        pytest.param(user("hi"), [RESULT_EDIT], id="for a user's message"),
        pytest.param(assistant(text("a"), text("b")), [INPUT_EDIT], id="for a block that is no call"),
        pytest.param(assistant(text("a")), [INPUT_EDIT], id="for a block that is not there"),
        pytest.param({"role": "assistant", "content": "a"}, [INPUT_EDIT], id="for bare text"),
    ],
)
def test_a_message_that_no_edit_fits_is_the_same_object(native: Native, edits: list[Edit]):
    assert PI.apply(native, edits) is native


@given(
    odd_messages, st.sampled_from([TOOL_RESULT, TOOL_INPUT, SHELL_OUTPUT]), st.integers(-1, 3), st.booleans()
)
def test_applying_never_raises_nor_changes_what_it_is_given(
    native: Native, kind: Kind, part: int, keep_images: bool
):
    before = copy.deepcopy(native)
    PI.apply(native, [ReplacePart("m1", 0, part, kind, "gone", keep_images)])
    assert repr(native) == repr(before)


def test_a_request_is_a_list_or_holds_one():
    messages = [user("hi")]
    assert PI.messages(messages) is messages
    assert PI.messages({"messages": messages}) is messages
    assert PI.replace(messages, [user("ho")]) == [user("ho")]
    assert PI.replace({"a": 1, "messages": messages}, [user("ho")]) == {"a": 1, "messages": [user("ho")]}
    with pytest.raises(InputError):
        PI.messages("hi")


def test_it_is_a_format():
    pi: Format = PI
    assert (pi.name, pi.vocabulary.files["read"]) == ("pi", "read")
