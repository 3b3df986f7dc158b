"""Anthropic's Messages API: the `messages` of a request body.

Knows its roles and content blocks. Thinking, whole or redacted, and every block that is not a text,
an image, a call or a result goes out as it came. A result that brings tools into being (one with
`tool_reference` blocks) is opaque, since the model could not use those tools without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from prunewise import tools
from prunewise.canonical import canonical
from prunewise.formats import Native
from prunewise.formats.reading import (
    Json,
    call,
    contents,
    fields,
    items,
    listed,
    normalised,
    objects,
    opaque,
    piece,
    pieces,
    purged,
    relisted,
    string,
)
from prunewise.transcript import (
    TOOL_INPUT,
    TOOL_RESULT,
    Edit,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

NAME = "anthropic"

_KEY = "messages"
_ROLES: Mapping[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}


class AnthropicFormat:
    """The Messages API, message by message; use the one instance, `ANTHROPIC`."""

    __slots__ = ()

    name: str = NAME
    vocabulary: tools.Vocabulary = tools.GENERIC
    fixed: Sequence[str] = ("system", "tools")
    held: Sequence[str] = ("thread",)

    def messages(self, request: Json) -> Sequence[Native]:
        """The messages of a request body, or of a bare list of them.

        Raises:
            InputError: there is no list of messages.
        """
        return listed(request, _KEY)

    def replace(self, request: Json, messages: Sequence[Native]) -> Json:
        """The request with these messages in place of its own."""
        return relisted(request, _KEY, messages)

    def read(self, native: Native, id: str) -> Message:
        """Read one message. Never raises. The parts are the content blocks, one to one, in order."""
        if not isinstance(native, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            return Message("other", id, (opaque(native),))
        found = _ROLES.get(string(native.get("role")))
        if found is None:
            return Message("other", id, (opaque(native),))
        parts = contents(native.get("content"), _block)
        if found == "user" and parts and all(type(part) is ToolResult for part in parts):
            found = "tool"
        return Message(found, id, parts)

    def apply(self, native: Native, edits: Sequence[Edit]) -> Native:
        """A copy of the message with the edits in place; all other blocks are the same objects."""
        blocks = list(items(native.get("content")) or ())
        changed = False
        for edit in edits:
            block = fields(blocks[edit.part]) if 0 <= edit.part < len(blocks) else None
            if block is None:
                continue
            kind = block.get("type")
            if edit.kind == TOOL_RESULT and kind == "tool_result":
                blocks[edit.part] = {**block, "content": _replaced(block.get("content"), edit)}
                changed = True
            elif edit.kind == TOOL_INPUT and kind == "tool_use":
                blocks[edit.part] = {**block, "input": purged(edit.text)}
                changed = True
        return {**native, "content": blocks} if changed else native

    def images(self, native: Native, part: int) -> tuple[Any, ...]:
        """The blocks with images and files of the result that is this part."""
        blocks = items(native.get("content")) or ()
        block = fields(blocks[part]) if 0 <= part < len(blocks) else None
        if block is None or block.get("type") != "tool_result":
            return ()
        return tuple([one for one in items(block.get("content")) or () if isinstance(_piece(one), Image)])

    def normalised(self, request: Json) -> list[Json]:
        """The messages in their normal form, see `reading.normalised`."""
        return [normalised(native) for native in listed(request, _KEY)]

    def same(self, old: Native, new: Native) -> bool:
        """Whether they say the same, in whatever shape."""
        return old is new or old == new or normalised(old) == normalised(new)


ANTHROPIC = AnthropicFormat()


def _block(block: Json) -> Part:  # noqa: PLR0911
    found = fields(block)
    if found is None:
        return opaque(block)
    match found.get("type"):
        case "text" if type(found.get("text")) is str:
            return Text(found["text"])
        case "thinking":
            signature = found.get("signature")
            return Thinking(string(found.get("thinking")), signature if type(signature) is str else None)
        case "redacted_thinking":
            return Thinking("", string(found.get("data")))
        case "image":
            return _image(found)
        case "tool_use":
            return _call(found)
        case "tool_result":
            return _result(found)
        case _:
            return opaque(block)


def _call(block: dict[str, Json]) -> ToolCall | Opaque:
    call_id = string(block.get("id"))
    return call(call_id, block.get("name"), block.get("input")) if call_id else opaque(block)


def _result(block: dict[str, Json]) -> ToolResult | Opaque:
    content = block.get("content")
    if any(one.get("type") == "tool_reference" for one in objects(content)):
        return opaque(block)
    return ToolResult(
        string(block.get("tool_use_id")), "", pieces(content, _piece), block.get("is_error") is True
    )


def _piece(block: Json) -> Text | Image:
    found = fields(block) or {}
    source = fields(found.get("source")) or {}
    if found.get("type") == "document":
        if source.get("type") in _TOLD_IN_FULL:
            return Text(canonical(block))
        return msgspec.structs.replace(
            _image(found), media_type=string(source.get("media_type")) or "document"
        )
    if found.get("type") == "search_result":
        return Text(canonical(block))
    return piece(block, _block(block))


_TOLD_IN_FULL = ("text", "content")
"""The sources of documents that are text."""


def _image(block: dict[str, Json]) -> Image:
    source = fields(block.get("source")) or {}
    return Image(string(source.get("media_type")), len(string(source.get("data"))))


def _replaced(content: Json, edit: Edit) -> Json:
    """The content of a result in its old shape, with the edit's text as its one text."""
    blocks = items(content)
    if blocks is None:
        return edit.text
    kept = [block for block in blocks if edit.keep_images and isinstance(_piece(block), Image)]
    text: dict[str, Json] = {"type": "text", "text": edit.text}
    for block in objects(blocks):
        if "cache_control" in block and not any(block is one for one in kept):
            text["cache_control"] = block["cache_control"]  # the breakpoint stays where it was
    return [text, *kept]
