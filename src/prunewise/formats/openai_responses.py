"""OpenAI's Responses API: the items of a request body's `input`, each of which is a message.

Knows the items that call a tool of the client's and those that answer them, by one table. Every
other item (searches that the provider runs, item references, compaction items, tools) is opaque and
goes out as it came. With `previous_response_id` a body holds only what is new; so does its transcript.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from prunewise import tools
from prunewise.formats import Native
from prunewise.formats.reading import (
    Json,
    Linked,
    call,
    call_from_text,
    contents,
    fields,
    image_from_url,
    items,
    listed,
    objects,
    opaque,
    piece,
    pieces,
    plain,
    purged_text,
    relisted,
    string,
    unlinked,
    unmarked,
)
from prunewise.transcript import (
    TOOL_INPUT,
    TOOL_RESULT,
    Edit,
    Image,
    Message,
    Part,
    Role,
    Text,
    Thinking,
    ToolResult,
)

NAME = "openai-responses"

_KEY = "input"
_ROLES: Mapping[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_IDS = ("call_id", "id")
"""Items carry up to two ids, and either may be the one that is meant."""


class _Call(msgspec.Struct, frozen=True):
    """A kind of item that calls a tool."""

    answer: str
    """The kind of item that answers it."""
    field: str
    """Where the model's input is."""
    inner: str = ""
    """Where that is an object of a fixed shape: what in it is free text (or a list of them). A purged
    input replaces this alone, so that the item stays one that the API takes."""


CALLS: Mapping[str, _Call] = {
    "function_call": _Call("function_call_output", "arguments"),
    "custom_tool_call": _Call("custom_tool_call_output", "input"),
    "local_shell_call": _Call("local_shell_call_output", "action", "command"),
    "shell_call": _Call("shell_call_output", "action", "commands"),
    "apply_patch_call": _Call("apply_patch_call_output", "operation", "diff"),
}
"""The items that call a tool of the client's, by type. Types that are not here stay untouched."""

_SHELL_ANSWER = "shell_call_output"
_ANSWERS = frozenset(kind.answer for kind in CALLS.values())


class OpenAIResponsesFormat:
    """The Responses API, item by item; use the one instance, `OPENAI_RESPONSES`."""

    __slots__ = ()

    name: str = NAME
    vocabulary: tools.Vocabulary = tools.GENERIC
    fixed: Sequence[str] = ("instructions", "tools", "prompt")
    held: Sequence[str] = ("previous_response_id", "conversation")

    def messages(self, request: Json) -> Sequence[Native]:
        """The items of a request body, or of a bare list of them; none where the input is one string.

        An answer that names its call by the second of two ids comes wrapped, see `reading.Linked`.

        Raises:
            InputError: there is no input.
        """
        if _is_one_string(request):
            return ()
        return _linked(listed(request, _KEY))

    def replace(self, request: Json, messages: Sequence[Native]) -> Json:
        """The request with these items in place of its own."""
        if _is_one_string(request):
            return request
        return relisted(request, _KEY, messages)

    def read(self, native: Native, id: str) -> Message:
        """Read one item; never raises. A call, an answer and reasoning are one part each."""
        if not isinstance(native, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            return Message("other", id, (opaque(native),))
        native, ids = unlinked(native)
        kind = string(native.get("type", "message"))
        if kind == "message":
            found = _ROLES.get(string(native.get("role")))
            if found is not None:
                return Message(found, id, contents(native.get("content"), _block))
        elif kind in CALLS:
            return Message("assistant", id, (_call(native, kind),))
        elif kind in _ANSWERS:
            return Message("tool", id, (_answer(native, ids.get(0) or _first(native)),))
        elif kind == "reasoning":
            return Message("assistant", id, (_reasoning(native),))
        # A call that the provider runs is a part of the answer all the same.
        return Message("assistant" if kind.endswith("_call") else "other", id, (opaque(native),))

    def apply(self, native: Native, edits: Sequence[Edit]) -> Native:
        """A copy of the item with the edits in place; everything else in it is the same objects."""
        native, _ = unlinked(native)
        kind = string(native.get("type"))
        changed: Native = native
        for edit in edits:
            if edit.part == 0 and edit.kind == TOOL_RESULT and kind in _ANSWERS:
                replaced = _emptied if kind == _SHELL_ANSWER else _replaced
                changed = {**changed, "output": replaced(native.get("output"), edit)}
            elif edit.part == 0 and edit.kind == TOOL_INPUT and kind in CALLS:
                changed = {**changed, CALLS[kind].field: _purged(native, CALLS[kind], edit.text)}
        return changed

    def images(self, native: Native, part: int) -> tuple[Any, ...]:
        """The blocks with images and files of an answer, which is one result."""
        native, _ = unlinked(native)
        if part != 0 or string(native.get("type")) not in _ANSWERS:
            return ()
        output: Json = native.get("output")
        found = fields(output)
        blocks = items(output if found is None else found.get("content"))
        return tuple([one for one in blocks or () if isinstance(_piece(one), Image)])

    def normalised(self, request: Json) -> list[Json]:
        """The items in their normal form: without breakpoints, a text alone as a string, each message with
        its type. An input that is one string is one message of the user's.
        """
        if _is_one_string(request):
            request = [{"role": "user", "content": request[_KEY]}]
        return [_normalised(unlinked(native)[0]) for native in listed(request, _KEY)]

    def same(self, old: Native, new: Native) -> bool:
        """Whether they say the same: a message's text may stand alone, and its type may be left out."""
        if old is new or old == new:
            return True
        (before, ids), (now, ids_now) = unlinked(old), unlinked(new)
        return ids == ids_now and _normalised(before) == _normalised(now)


OPENAI_RESPONSES = OpenAIResponsesFormat()


def _normalised(item: Json) -> Json:
    bare = unmarked(item)
    if bare.__class__ is not dict:
        return bare
    kind: Json = bare.get("type", "message")
    if kind == "message":
        text = "output_text" if bare.get("role") == "assistant" else "input_text"
        return {**bare, "type": kind, "content": plain(bare.get("content"), text)}
    if bare.get("output").__class__ is list and (
        kind == "function_call_output" or kind == "custom_tool_call_output"
    ):
        return {**bare, "output": plain(bare["output"], "input_text")}
    return bare


def _is_one_string(request: Json) -> bool:
    return isinstance(request, Mapping) and type(cast("Mapping[str, Json]", request).get(_KEY)) is str


def _first(native: Native) -> str:
    return next((native[key] for key in _IDS if string(native.get(key))), "")


def _linked(items: Sequence[Native]) -> Sequence[Native]:
    """The same items, those answers wrapped that name their call by another id than its first."""
    known: set[str] = set()
    second: dict[str, str] = {}
    for item in items:
        if isinstance(item, dict) and string(item.get("type")) in CALLS:
            first = _first(item)
            known.add(first)
            other = string(item.get("id"))
            if other and other != first:
                second[other] = first
    if not second:
        return items
    return [_link(item, known, second) for item in items]


def _link(item: Native, known: set[str], second: Mapping[str, str]) -> Native:
    if isinstance(item, dict) and string(item.get("type")) in _ANSWERS and _first(item) not in known:
        for key in _IDS:
            named = second.get(string(item.get(key)))
            if named is not None:
                return Linked(item, {0: named})
    return item


def _block(block: Json) -> Part:
    found = fields(block) or {}
    match found.get("type"):
        case "input_text" | "output_text" | "text" if type(found.get("text")) is str:
            return Text(found["text"])
        case "refusal" if type(found.get("refusal")) is str:
            return Text(found["refusal"])
        case "input_image":
            return image_from_url(found.get("image_url"))
        case _:
            return opaque(block)


def _piece(block: Json) -> Text | Image:
    return piece(block, _block(block))


def _reasoning(native: Native) -> Thinking:
    texts = [string(one.get("text")) for key in ("summary", "content") for one in objects(native.get(key))]
    sealed = native.get("encrypted_content")
    return Thinking("\n".join(texts), sealed if type(sealed) is str else None)


def _call(native: Native, kind: str) -> Part:
    call_id = _first(native)
    if not call_id:
        return opaque(native)
    name = string(native.get("name")) or kind.removesuffix("_call")
    written = native.get(CALLS[kind].field)
    if kind == "function_call":
        return call_from_text(call_id, name, written)
    return call(call_id, name, written if fields(written) is not None else {CALLS[kind].field: written})


def _purged(native: Native, kind: _Call, text: str) -> Json:
    written = fields(native.get(kind.field))
    if kind.inner and written is not None:
        return {**written, kind.inner: text if items(written.get(kind.inner)) is None else [text]}
    return purged_text(text)


def _answer(native: Native, call_id: str) -> ToolResult:
    output: Json = native.get("output")
    failed = native.get("status") == "failed"
    found = fields(output)
    if found is not None:
        failed = failed or found.get("success") is False
        output = found.get("content", output)
    elif native.get("type") == _SHELL_ANSWER:
        streams = [string(one.get(key)) for one in objects(output) for key in ("stdout", "stderr")]
        output = "\n".join(text for text in streams if text)
    return ToolResult(call_id, string(native.get("name")), pieces(output, _piece), failed)


def _replaced(output: Json, edit: Edit) -> Json:
    """The output in its old shape, with the edit's text as its one text."""
    found = fields(output)
    if found is not None and "content" in found:
        return {**found, "content": _replaced(found["content"], edit)}
    blocks = items(output)
    if blocks is None:
        return edit.text
    kept = [block for block in blocks if edit.keep_images and isinstance(_piece(block), Image)]
    kinds = [string(one.get("type")) for one in objects(blocks) if type(one.get("text")) is str]
    return [{"type": kinds[0] if kinds and kinds[0] else "input_text", "text": edit.text}, *kept]


def _emptied(output: Json, edit: Edit) -> Json:
    """The outcome of every command, with the edit's text as the first one's output, and no other output."""
    commands = items(output)
    if not commands or not any(objects(commands)):
        return _replaced(output, edit)
    emptied = [{**one, "stdout": "", "stderr": ""} for one in objects(commands)]
    emptied[0]["stdout"] = edit.text
    return emptied
