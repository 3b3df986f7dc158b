"""OpenAI's Chat Completions API, and what speaks it: the `messages` of a request body.

Knows its roles and content parts. The parts of an assistant's message are its content, then its tool
calls, then its reasoning. Chat knows no error flag: a failed call reads like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    normalised,
    objects,
    opaque,
    piece,
    pieces,
    purged_text,
    relisted,
    string,
    unlinked,
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

NAME = "openai-chat"

_KEY = "messages"
_ROLES: Mapping[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""The content parts that hold text, and the field that holds it."""
_CALLS = {"function": "arguments", "custom": "input"}
"""The kinds of tool calls, and the field that holds what the model wrote."""
_REASONING = ("reasoning_content", "reasoning")
"""Where servers put reasoning; some give the same text in both."""


class OpenAIChatFormat:
    """The Chat Completions API, message by message; use the one instance, `OPENAI_CHAT`."""

    __slots__ = ()

    name: str = NAME
    vocabulary: tools.Vocabulary = tools.GENERIC
    fixed: Sequence[str] = ("tools", "functions")
    held: Sequence[str] = ()

    def messages(self, request: Json) -> Sequence[Native]:
        """The messages of a request body, or of a bare list of them.

        A result that names its call by the second of two ids comes wrapped, see `reading.Linked`.

        Raises:
            InputError: there is no list of messages.
        """
        return _linked(listed(request, _KEY))

    def replace(self, request: Json, messages: Sequence[Native]) -> Json:
        """The request with these messages in place of its own."""
        return relisted(request, _KEY, messages)

    def read(self, native: Native, id: str) -> Message:
        """Read one message; never raises."""
        if not isinstance(native, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            return Message("other", id, (opaque(native),))
        native, ids = unlinked(native)
        found = _ROLES.get(string(native.get("role")))
        if found is None:
            return Message("other", id, (opaque(native),))
        content = native.get("content")
        if found == "tool":
            call_id = ids.get(0) or _first(native, _RESULT_IDS)
            name = string(native.get("name"))
            return Message("tool", id, (ToolResult(call_id, name, pieces(content, _piece)),))
        parts = contents(content, _part)
        if found == "assistant":
            parts = (*parts, *_calls(native), *_reasoning(native))
        return Message(found, id, parts)

    def apply(self, native: Native, edits: Sequence[Edit]) -> Native:
        """A copy of the message with the edits in place; everything else in it is the same objects."""
        native, _ = unlinked(native)
        changed: Native = native
        for edit in edits:
            if edit.kind == TOOL_RESULT and edit.part == 0 and _is_result(native):
                changed = {**changed, "content": _replaced(native["content"], edit)}
            elif edit.kind == TOOL_INPUT and native.get("role") == "assistant":
                changed = _with_purged_input(changed, edit)
        return changed

    def images(self, native: Native, part: int) -> tuple[Any, ...]:
        """The parts with images and files of a tool's message, which is one result."""
        native, _ = unlinked(native)
        if part != 0 or not _is_result(native):
            return ()
        return tuple([one for one in items(native.get("content")) or () if isinstance(_piece(one), Image)])

    def normalised(self, request: Json) -> list[Json]:
        """The messages in their normal form, see `reading.normalised`."""
        return [normalised(unlinked(native)[0]) for native in listed(request, _KEY)]

    def same(self, old: Native, new: Native) -> bool:
        """Whether they say the same of the same call, in whatever shape."""
        if old is new:
            return True
        (before, ids), (now, ids_now) = unlinked(old), unlinked(new)
        return ids == ids_now and (before == now or normalised(before) == normalised(now))


OPENAI_CHAT = OpenAIChatFormat()

_CALL_IDS = ("id", "call_id")
_RESULT_IDS = ("tool_call_id", "call_id", "id")


def _first(native: Native, keys: tuple[str, ...]) -> str:
    return next((native[key] for key in keys if string(native.get(key))), "")


def _linked(messages: Sequence[Native]) -> Sequence[Native]:
    """The same messages, those wrapped whose result names a call by its second id."""
    second: dict[str, str] = {}
    for message in messages:
        for one in objects(message.get("tool_calls")) if isinstance(message, dict) else ():
            first, other = string(one.get("id")), string(one.get("call_id"))
            if first and other and first != other:
                second[other] = first
    if not second:
        return messages
    return [_link(message, second) for message in messages]


def _link(message: Native, second: Mapping[str, str]) -> Native:
    if isinstance(message, dict) and message.get("role") in ("tool", "function"):
        for key in _RESULT_IDS:
            named = second.get(string(message.get(key)))
            if named is not None:
                return Linked(message, {0: named})
    return message


def _part(part: Json) -> Part:
    found = fields(part)
    if found is not None:
        kind = string(found.get("type"))
        text = found.get(_TEXTS.get(kind, ""))
        if type(text) is str:
            return Text(text)
        if kind == "image_url":
            return _image(found)
    return opaque(part)


def _piece(part: Json) -> Text | Image:
    return piece(part, _part(part))


def _image(part: dict[str, Json]) -> Image:
    url = part.get("image_url")
    found = fields(url)
    return image_from_url(url if found is None else found.get("url"))


def _calls(native: Native) -> list[Part]:
    return [_call(one) for one in items(native.get("tool_calls")) or ()]


def _call(one: Json) -> Part:
    found = fields(one) or {}
    call_id = _first(found, _CALL_IDS)
    for kind, key in _CALLS.items():
        written = fields(found.get(kind))
        if call_id and written is not None:
            if kind == "custom":
                return call(call_id, written.get("name"), {key: written.get(key)})
            return call_from_text(call_id, written.get("name"), written.get(key))
    return opaque(one)


def _reasoning(native: Native) -> list[Part]:
    texts = [native[key] for key in _REASONING if string(native.get(key))]
    return [Thinking(texts[0])] if texts else []


def _is_result(native: Native) -> bool:
    return native.get("role") in ("tool", "function") and "content" in native


def _replaced(content: Json, edit: Edit) -> Json:
    """The content of a result in its old shape, with the edit's text as its one text."""
    parts = items(content)
    if parts is None:
        return edit.text
    kept = [part for part in parts if edit.keep_images and isinstance(_piece(part), Image)]
    text: dict[str, Json] = {"type": "text", "text": edit.text}
    for part in objects(parts):
        if "cache_control" in part and not any(part is one for one in kept):
            text["cache_control"] = part["cache_control"]  # some servers take Anthropic's breakpoints here
    return [text, *kept]


def _with_purged_input(native: Native, edit: Edit) -> Native:
    """The message with the arguments of one call replaced; the same where that part is no call."""
    calls = list(items(native.get("tool_calls")) or ())
    index = edit.part - len(contents(native.get("content"), _part))
    found = (fields(calls[index]) if 0 <= index < len(calls) else None) or {}
    for kind, key in _CALLS.items():
        inner = fields(found.get(kind))
        if inner is not None:
            calls[index] = {**found, kind: {**inner, key: purged_text(edit.text)}}
            return {**native, "tool_calls": calls}
    return native
