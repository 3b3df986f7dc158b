"""What the live formats say of images, and of messages that come again in another shape."""

import copy
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.wire import json_values

from prunewise import Policy, Pruner, formats, markers, recall
from prunewise.formats.reading import Json
from prunewise.transcript import Image, Text, ToolResult

NAMES = ("pi", "anthropic", "openai-chat", "openai-responses", "gemini")
CACHED = {"cache_control": {"type": "ephemeral"}}

# ---- images

SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
PI_IMAGE = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
SHOT = {"type": "image", "source": SOURCE}
PAPER = {"type": "document", "source": {**SOURCE, "media_type": "application/pdf"}}
PLAIN = {"type": "document", "source": {"type": "text", "data": "plain"}}
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
ITEM_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
BLOB = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
SNAKE = {"inline_data": {"mime_type": "image/png", "data": "BBBB"}}
TEXT = {"type": "text", "text": "a"}


def answered(content: Json, **fields: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": "c", "content": content, **fields}


def responded(*parts: Json, key: str = "functionResponse") -> Json:
    return {key: {"id": "c", "name": "f", "response": {"output": "a"}, "parts": list(parts)}}


IMAGES: dict[str, tuple[str, Json, int, list[Json]]] = {
    "pi": ("pi", {"role": "toolResult", "toolCallId": "c", "content": [TEXT, PI_IMAGE]}, 0, [PI_IMAGE]),
    "pi, a text": ("pi", {"role": "toolResult", "toolCallId": "c", "content": "a"}, 0, []),
    "pi, the user's own": ("pi", {"role": "user", "content": [PI_IMAGE]}, 0, []),
    "anthropic": (
        "anthropic",
        {"role": "user", "content": [TEXT, answered([SHOT, TEXT, PAPER, PLAIN])]},
        1,
        [SHOT, PAPER],
    ),
    "anthropic, a text": ("anthropic", {"role": "user", "content": [answered("a")]}, 0, []),
    "anthropic, the user's own": ("anthropic", {"role": "user", "content": [SHOT]}, 0, []),
    "anthropic, no such part": ("anthropic", {"role": "user", "content": [answered([SHOT])]}, 3, []),
    "chat": (
        "openai-chat",
        {"role": "tool", "tool_call_id": "c", "content": [TEXT, CHAT_IMAGE]},
        0,
        [CHAT_IMAGE],
    ),
    "chat, the user's own": ("openai-chat", {"role": "user", "content": [CHAT_IMAGE]}, 0, []),
    "responses": (
        "openai-responses",
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [ITEM_IMAGE, {"type": "input_text", "text": "a"}],
        },
        0,
        [ITEM_IMAGE],
    ),
    "responses, in an object": (
        "openai-responses",
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": {"content": [ITEM_IMAGE], "success": True},
        },
        0,
        [ITEM_IMAGE],
    ),
    "responses, a text": (
        "openai-responses",
        {"type": "function_call_output", "call_id": "c", "output": "a"},
        0,
        [],
    ),
    "responses, the user's own": ("openai-responses", {"role": "user", "content": [ITEM_IMAGE]}, 0, []),
    "gemini": (
        "gemini",
        {"role": "user", "parts": [responded(BLOB, SNAKE, {"text": "x"})]},
        0,
        [BLOB, SNAKE],
    ),
    "gemini, as the library has it": (
        "gemini",
        {"role": "user", "parts": [responded(SNAKE, key="function_response")]},
        0,
        [SNAKE],
    ),
    "gemini, beside the response": ("gemini", {"role": "user", "parts": [responded(), BLOB]}, 0, []),
    "gemini, no response": ("gemini", {"role": "user", "parts": [BLOB]}, 0, []),
}


@pytest.mark.parametrize(("name", "native", "part", "images"), IMAGES.values(), ids=IMAGES)
def test_the_images_of_a_result_are_the_blocks_that_the_host_has(
    name: str, native: Json, part: int, images: list[Json]
):
    wire = formats.named(name)
    found = wire.images(native, part)
    assert list(found) == images
    read = wire.read(native, "m0").parts
    result = read[part] if part < len(read) else None
    if isinstance(result, ToolResult):
        assert sum(isinstance(one, Image) for one in result.content) == len(found)


@given(st.sampled_from(NAMES), json_values)
def test_there_are_as_many_images_as_were_read(name: str, value: Json):
    if isinstance(value, dict):
        wire = formats.named(name)
        for at, part in enumerate(wire.read(value, "m0").parts):
            if isinstance(part, ToolResult):
                images = [one for one in part.content if isinstance(one, Image)]
                assert len(wire.images(value, at)) == len(images)


def anthropic_result(*blocks: Json) -> list[Json]:
    use = {"type": "tool_use", "id": "c", "name": "fetch", "input": {}}
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [answered([{"type": "text", "text": LONG}, *blocks])]},
        {"role": "assistant", "content": "seen"},
        {"role": "user", "content": "on"},
    ]


def chat_result(*blocks: Json) -> list[Json]:
    call = {"id": "c", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": LONG}, *blocks]},
        {"role": "assistant", "content": "seen"},
        {"role": "user", "content": "on"},
    ]


def responses_result(*blocks: Json) -> list[Json]:
    output = [{"type": "input_text", "text": LONG}, *blocks]
    return [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "c", "name": "fetch", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": output},
        {"role": "assistant", "content": "seen"},
        {"role": "user", "content": "on"},
    ]


def gemini_result(*parts: Json) -> list[Json]:
    held = {"id": "c", "name": "fetch", "response": {"output": LONG}, "parts": list(parts)}
    return [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "fetch", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": held}]},
        {"role": "model", "parts": [{"text": "seen"}]},
        {"role": "user", "parts": [{"text": "on"}]},
    ]


def pi_result(*blocks: Json) -> list[Json]:
    call = {"type": "toolCall", "id": "c", "name": "fetch", "arguments": {}}
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call]},
        {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": LONG}, *blocks]},
        {"role": "assistant", "content": [{"type": "text", "text": "seen"}]},
        {"role": "user", "content": "on"},
    ]


LONG = "a line of it\n" * 900

HOLDING: dict[str, tuple[str, Callable[..., list[Json]], Json]] = {
    "anthropic, by id": (
        "anthropic",
        anthropic_result,
        {"type": "document", "source": {"type": "file", "file_id": "f1"}, "title": "spec"},
    ),
    "anthropic, by address": (
        "anthropic",
        anthropic_result,
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
    ),
    "anthropic, encoded": (
        "anthropic",
        anthropic_result,
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}},
    ),
    "anthropic, an image by id": (
        "anthropic",
        anthropic_result,
        {"type": "image", "source": {"type": "file", "file_id": "f2"}},
    ),
    "anthropic, to a container": (
        "anthropic",
        anthropic_result,
        {"type": "container_upload", "file_id": "f3"},
    ),
    "chat, a file": ("openai-chat", chat_result, {"type": "file", "file": {"file_id": "f1"}}),
    "chat, a sound": (
        "openai-chat",
        chat_result,
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
    ),
    "chat, a film": (
        "openai-chat",
        chat_result,
        {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
    ),
    "responses, by id": ("openai-responses", responses_result, {"type": "input_file", "file_id": "f1"}),
    "responses, by address": (
        "openai-responses",
        responses_result,
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
    ),
    "responses, encoded": (
        "openai-responses",
        responses_result,
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
    ),
    "responses, an image by id": (
        "openai-responses",
        responses_result,
        {"type": "input_image", "file_id": "f2"},
    ),
    "gemini, by address": (
        "gemini",
        gemini_result,
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}},
    ),
    "gemini, as the library has it": (
        "gemini",
        gemini_result,
        {"file_data": {"file_uri": "files/a", "mime_type": "video/mp4"}},
    ),
    "gemini, encoded": ("gemini", gemini_result, {"inlineData": {"mimeType": "audio/wav", "data": "AA"}}),
    "gemini, of no kind that is known": ("gemini", gemini_result, {"handle": {"id": 1}}),
    "pi, of no kind that is known": ("pi", pi_result, {"type": "resource_link", "uri": "file:///a"}),
}


@pytest.mark.parametrize(("name", "history", "block"), HOLDING.values(), ids=HOLDING)
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_file_in_a_result_stays_in_view_or_comes_back_with_it(
    name: str, history: Callable[..., list[Json]], block: Json, by_hand: bool
):
    messages = history(block)
    pruner = Pruner(name, Policy())
    pruner.read(messages)
    if by_hand:
        pruner.prune_call("c")
    done = pruner.project(messages, window=1_000, reserve=1)
    assert [edit.position for edit in done.edits] == [2]
    in_view = json.dumps(block) in json.dumps(done.request[2])
    assert by_hand is False or not in_view
    reference = markers.reference_in(done.edits[0].text)
    assert reference is not None
    assert in_view or block in recall.recall_parts(pruner.store, reference)
    assert block in recall.recall_parts(pruner.store, reference)
    assert recall.original(pruner.store, reference).content[0] == Text(LONG)


# ---- shapes


def user(content: Json, **fields: Json) -> Json:
    return {"role": "user", "content": content, **fields}


SAME: dict[str, tuple[str, Json, Json]] = {
    "a text alone, and as a block": ("anthropic", user("a"), user([TEXT])),
    "with a breakpoint": ("anthropic", user("a"), user([{**TEXT, **CACHED}])),
    "a breakpoint on a result": ("anthropic", user([answered("a")]), user([answered("a", **CACHED)])),
    "a breakpoint within one": ("anthropic", user([answered("a")]), user([answered([{**TEXT, **CACHED}])])),
    "a breakpoint on an image": ("anthropic", user([SHOT]), user([{**SHOT, **CACHED}])),
    "a breakpoint of an hour": (
        "anthropic",
        user([{**TEXT, **CACHED}]),
        user([{**TEXT, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]),
    ),
    "Chat": ("openai-chat", user("a"), user([{**TEXT, **CACHED}])),
    "Chat, on the message": ("openai-chat", user("a"), user("a", **CACHED)),
    "Chat, a breakpoint of OpenAI's": (
        "openai-chat",
        user("a"),
        user([{**TEXT, "prompt_cache_breakpoint": {"mode": "explicit"}}]),
    ),
    "a breakpoint beside other blocks": ("anthropic", user([TEXT, SHOT]), user([{**TEXT, **CACHED}, SHOT])),
    "a result's text and a breakpoint beside other blocks": (
        "anthropic",
        user([answered("a"), TEXT]),
        user([answered([{**TEXT, **CACHED}]), TEXT]),
    ),
    "an item's breakpoint": (
        "openai-responses",
        user("a"),
        user([{"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}]),
    ),
    "an item's output": (
        "openai-responses",
        {"type": "function_call_output", "call_id": "c", "output": "a"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "a"}]},
    ),
    "a custom tool's output": (
        "openai-responses",
        {"type": "custom_tool_call_output", "call_id": "c", "output": "a"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "a"}]},
    ),
    "an item's text": ("openai-responses", user("a"), user([{"type": "input_text", "text": "a"}])),
    "an item's type": ("openai-responses", user("a"), user("a", type="message")),
    "an answer's text": (
        "openai-responses",
        {"role": "assistant", "content": "a"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    ),
}


@pytest.mark.parametrize(("name", "old", "new"), SAME.values(), ids=SAME)
def test_the_same_in_another_shape(name: str, old: Json, new: Json):
    wire = formats.named(name)
    assert old != new
    assert wire.same(old, new)
    assert wire.same(new, old)
    assert wire.normalised([old]) == wire.normalised([new])
    assert wire.read(old, "m0") == wire.read(new, "m0"), "so that edits of the one fit the other"


CALL = {"type": "tool_use", "id": "c", "name": "write", "input": {"content": "a"}}
OTHERS: dict[str, tuple[str, Json, Json]] = {
    "another text": ("anthropic", user("a"), user([{"type": "text", "text": "b"}])),
    "another role": ("anthropic", user("a"), {"role": "assistant", "content": [TEXT]}),
    "two texts": ("anthropic", user("aa"), user([TEXT, TEXT])),
    "no text": ("anthropic", user(""), user([])),
    "another output": ("anthropic", user([answered("a")]), user([answered("b")])),
    "an error": ("anthropic", user([answered("a")]), user([answered("a", is_error=True)])),
    "an argument that is called content": (
        "anthropic",
        user([CALL]),
        user([{**CALL, "input": {"content": [TEXT]}}]),
    ),
    "an argument that is called as a breakpoint is": (
        "anthropic",
        user([CALL]),
        user([{**CALL, "input": {"content": "a", **CACHED}}]),
    ),
    "an argument that is called as OpenAI's is": (
        "anthropic",
        user([CALL]),
        user([{**CALL, "input": {"content": "a", "prompt_cache_breakpoint": {}}}]),
    ),
    "a text with more to it": ("anthropic", user("a"), user([{**TEXT, "citations": []}])),
    "a text without a text": ("anthropic", user([{"type": "text", "text": None}]), user(None)),
    "a block of another kind": ("anthropic", user("a"), user([{"type": "thought", "text": "a"}])),
    "a result without content": (
        "anthropic",
        user([answered("")]),
        user([{"type": "tool_result", "tool_use_id": "c"}]),
    ),
    "a result within one": (
        "anthropic",
        user([answered([answered("a")])]),
        user([answered([answered("b")])]),
    ),
    "a block of another kind that has content": (
        "anthropic",
        user([{"type": "search_result", "content": "a"}]),
        user([{"type": "search_result", "content": [TEXT]}]),
    ),
    "an item's text of another kind": (
        "openai-responses",
        user("a"),
        user([{"type": "output_text", "text": "a"}]),
    ),
    "no message": ("anthropic", user("a"), "a"),
    "no block": ("anthropic", user(["a"]), user([TEXT])),
    "a Chat message of another call": (
        "openai-chat",
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "tool", "tool_call_id": "b", "content": "x"},
    ),
    "an item of another kind": (
        "openai-responses",
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
    ),
    "no item": ("openai-responses", user("a"), 1),
    "pi has one shape": ("pi", user("a"), user([TEXT])),
    "Gemini too": ("gemini", {"role": "user", "parts": [{"text": "a"}]}, {"role": "user", "parts": ["a"]}),
}


@pytest.mark.parametrize(("name", "old", "new"), OTHERS.values(), ids=OTHERS)
def test_what_is_not_the_same(name: str, old: Json, new: Json):
    assert not formats.named(name).same(old, new)
    assert not formats.named(name).same(new, old)
    assert formats.named(name).normalised([old]) != formats.named(name).normalised([new])


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses"])
def test_a_result_that_is_found_to_answer_another_call_is_another(name: str):
    """It names its call by the second of two ids, which only the call tells."""
    if name == "openai-chat":
        told = {"role": "tool", "tool_call_id": "second", "content": "x"}
        called = {"id": "first", "call_id": "second", "function": {"name": "f", "arguments": "{}"}}
        before: Json = {"role": "assistant", "tool_calls": [called]}
    else:
        told = {"type": "function_call_output", "call_id": "second", "output": "x"}
        before = {"type": "function_call", "call_id": "first", "id": "second", "name": "f", "arguments": "{}"}
    wire = formats.named(name)
    [_, linked] = wire.messages([before, told])
    [bare] = wire.messages([told])
    assert not wire.same(bare, linked)
    [_, again] = wire.messages(copy.deepcopy([before, told]))
    assert wire.same(linked, again)


@given(st.sampled_from(NAMES), json_values)
def test_anything_is_the_same_as_its_copy(name: str, value: Json):
    wire, before = formats.named(name), copy.deepcopy(value)
    assert wire.same(value, before)
    assert wire.normalised([value]) == wire.normalised([before])
    assert value == before, "what came in is never changed"
