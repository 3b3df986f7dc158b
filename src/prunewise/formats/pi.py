"""pi's message format: the messages of a pi session, as pi hands them to the model.

Knows pi's roles and content blocks. Knows no session file: which messages go out, and under which
ids, is said by the store or the host. A value of a wrong type never is an error here, since pi reads
its own files without checking them; it becomes an opaque part and goes out as it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from prunewise import tools
from prunewise.canonical import canonical
from prunewise.errors import InputError
from prunewise.formats import Native
from prunewise.markers import input_object
from prunewise.stores.pi_entries import attached
from prunewise.transcript import (
    SHELL_OUTPUT,
    TOOL_INPUT,
    TOOL_RESULT,
    Edit,
    Image,
    Message,
    Opaque,
    Part,
    Shell,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

NAME = "pi"

_Json = Any
"""Decoded JSON that nobody has checked. Its class is compared by identity, which is what a decoder
gives and the fastest check there is."""

_NO_PARTS: tuple[Part, ...] = ()
_FAILED = ("error", "aborted")
_SAFE_INTEGER = 2**53  # beyond it, integers are doubles in JavaScript; see canonical
_LAST_INSTANT = 8.64e15  # in milliseconds: the last that JavaScript's dates reach
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode


class PiFormat:
    """pi's format, message by message; use the one instance, `PI`."""

    __slots__ = ()

    name: str = NAME
    vocabulary: tools.Vocabulary = tools.PI
    fixed: Sequence[str] = ()
    held: Sequence[str] = ()

    def messages(self, request: _Json) -> Sequence[Native]:
        """The messages: a bare list of them, or what stands under `messages` (as in pi's context event).

        Raises:
            InputError: it is neither.
        """
        if isinstance(request, Mapping):
            request = cast("Mapping[str, _Json]", request).get("messages")
        if not isinstance(request, (list, tuple)):
            raise InputError("not a list of pi messages")
        return cast("Sequence[Native]", request)

    def replace(self, request: _Json, messages: Sequence[Native]) -> _Json:
        """The request with these messages in place of its own."""
        if isinstance(request, Mapping):
            return {**cast("Mapping[str, _Json]", request), "messages": list(messages)}
        return list(messages)

    def read(self, native: Native, id: str) -> Message:  # noqa: PLR0911
        """Read one of pi's messages. Never raises: what is not understood becomes an opaque part.

        The parts of a message with content blocks are its blocks, one to one, in order.
        """
        # The order of the branches is that of how often they are taken; this runs for each message
        # of a session, so the common shapes are read here and the odd ones further down.
        shape = native.__class__
        if shape is not dict and not isinstance(native, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            return Message("other", id, (_opaque(native),))
        role = native.get("role")
        stamp: _Json = native.get("timestamp")
        kind = stamp.__class__
        time = stamp / 1000 if (kind is int or kind is float) and 0 < stamp < _LAST_INSTANT else None
        if role == "toolResult":
            return Message("tool", id, (_result(native),), None, time)
        if role == "assistant":
            parts = _content(native.get("content"))
            usage = native.get("usage")
            model = native.get("model")
            return Message(
                "assistant",
                id,
                parts,
                _usage(usage) if usage and native.get("stopReason") not in _FAILED else None,
                time,
                model if type(model) is str else "",
            )
        if role == "user":
            return Message("user", id, _content(native.get("content")), None, time)
        if role == "bashExecution":
            return Message("shell", id, (_shell(native),), None, time)
        if role == "system":
            return Message("system", id, _system(native), None, time)
        return Message("other", id, _other(native), None, time)

    def apply(self, native: Native, edits: Sequence[Edit]) -> Native:
        """A copy of the message with the edits in place; the same object where there are none.

        Key order, unknown fields and all other blocks (as the same objects) stay. An edit whose part
        is not in the message changes nothing.
        """
        changed: dict[str, _Json] | None = None
        for edit in edits:
            message = native if changed is None else changed
            if edit.kind == TOOL_RESULT and message.get("role") == "toolResult":
                value: list[_Json] = [{"type": "text", "text": edit.text}]
                content: _Json = message.get("content")
                if edit.keep_images and isinstance(content, list):
                    value += [block for block in cast("list[_Json]", content) if _is_image(block)]
                changed = {**message, "content": value}
            elif edit.kind == SHELL_OUTPUT and message.get("role") == "bashExecution":
                changed = {**message, "output": edit.text}
            elif edit.kind == TOOL_INPUT and message.get("role") == "assistant":
                blocks = _with_purged_input(message.get("content"), edit)
                if blocks is not None:
                    changed = {**message, "content": blocks}
        return native if changed is None else changed

    def images(self, native: Native, part: int) -> tuple[Any, ...]:
        """The blocks of a tool's message, which is one result, that text does not tell in full."""
        content: _Json = native.get("content")
        if part != 0 or native.get("role") != "toolResult" or not isinstance(content, list):
            return ()
        return tuple(attached(cast("list[_Json]", content)))

    def normalised(self, request: _Json) -> list[_Json]:
        """The messages as they are: pi's have one shape."""
        return list(self.messages(request))

    def same(self, old: Native, new: Native) -> bool:
        """Whether they are equal; pi's messages have one shape."""
        return old is new or old == new


PI = PiFormat()
"""pi's format."""


def _result(native: Native) -> ToolResult:
    content: _Json = native.get("content")
    shape = content.__class__
    if shape is list:
        pieces = (_piece(content[0]),) if len(content) == 1 else tuple([_piece(block) for block in content])
    elif content is None:
        pieces = ()
    else:
        pieces = (Text(content if shape is str else canonical(content)),)
    call_id = native.get("toolCallId")
    name = native.get("toolName")
    return ToolResult(
        call_id if type(call_id) is str else "",
        name if type(name) is str else "",
        pieces,
        native.get("isError") is True,
    )


def _piece(block: _Json) -> Text | Image:
    """One block of a result. What is neither text nor image stands as its JSON: none of it is unseen."""
    shape = block.__class__
    if shape is dict:
        kind = block.get("type")
        text = block.get("text")
        if kind == "text" and type(text) is str:
            return Text(text)
        if kind == "image":
            return _image(block)
    return Text(canonical(block))


def _block(block: _Json) -> Part:
    """One content block of an assistant's, or a user's, message."""
    shape = block.__class__
    if shape is not dict:
        return _opaque(block)
    kind = block.get("type")
    if kind == "toolCall":
        return _call(block)
    if kind == "text":
        text = block.get("text")
        return Text(text) if type(text) is str else _opaque(block)
    if kind == "thinking":
        text = block.get("thinking")
        signature = block.get("thinkingSignature")
        return Thinking(text if type(text) is str else "", signature if type(signature) is str else None)
    if kind == "image":
        return _image(block)
    return _opaque(block)


def _call(block: dict[str, _Json]) -> ToolCall | Opaque:
    call_id = block.get("id")
    if type(call_id) is not str or not call_id:
        return _opaque(block)  # nothing can answer it, and nothing could name it
    name = block.get("name")
    if type(name) is not str:
        name = ""
    arguments: _Json = block.get("arguments")
    shape = arguments.__class__
    if shape is not dict:
        return ToolCall(call_id, name, {}, canonical(arguments))
    for value in arguments.values():
        kind = value.__class__
        if kind is not str and (kind is not int or not -_SAFE_INTEGER <= value <= _SAFE_INTEGER):
            return ToolCall(call_id, name, arguments, canonical(arguments))
    try:
        return ToolCall(call_id, name, arguments, _encode_sorted(arguments).decode())
    except (UnicodeEncodeError, TypeError):
        return ToolCall(call_id, name, arguments, canonical(arguments))


def _content(content: _Json) -> tuple[Part, ...]:
    shape = content.__class__
    if shape is str:
        return (Text(content),)
    if shape is list:
        return tuple([_block(block) for block in content])
    return _NO_PARTS if content is None else (_opaque(content),)


def _shell(native: Native) -> Shell:
    command = native.get("command")
    output = native.get("output")
    code = native.get("exitCode")
    return Shell(
        command if type(command) is str else "",
        output if type(output) is str else "",
        code if type(code) is int else None,
        not native.get("excludeFromContext"),
    )


def _system(native: Native) -> tuple[Part, ...]:
    """The prompt text, its named sections, and the declared tools as JSON: what pi counts of it."""
    parts = list(_content(native.get("content")))
    sections = native.get("sections")
    if isinstance(sections, dict):
        texts = cast("dict[str, _Json]", sections).values()
        parts += [Text(text) for text in texts if type(text) is str]
    declared = native.get("toolsAdded")
    if declared:
        parts.append(Text(canonical(declared)))
    return tuple(parts)


def _other(native: Native) -> tuple[Part, ...]:
    """Summaries and what extensions add; a role that is not known is one opaque part."""
    role = native.get("role")
    if role in ("custom", "hookMessage"):
        return _content(native.get("content"))
    if role in ("compactionSummary", "branchSummary"):
        return _content(native.get("summary"))
    return (_opaque(native),)


def _usage(usage: _Json) -> Usage | None:
    shape = usage.__class__
    if shape is not dict:
        return None
    get = usage.get
    read = Usage(
        get("input"),
        get("output"),
        get("cacheRead"),
        get("cacheWrite"),
        get("cacheWrite1h"),
        get("totalTokens"),
    )
    return read if read.context_tokens else None


def _is_image(block: _Json) -> bool:
    return isinstance(block, dict) and cast("dict[str, _Json]", block).get("type") == "image"


def _image(block: dict[str, _Json]) -> Image:
    media_type = block.get("mimeType")
    data = block.get("data")
    return Image(media_type if type(media_type) is str else "", len(data) if type(data) is str else 0)


def _opaque(value: object) -> Opaque:
    return Opaque(len(canonical(value)))


def _with_purged_input(content: _Json, edit: Edit) -> list[_Json] | None:
    """The blocks with the arguments of one call replaced; None where that block is no call."""
    if not isinstance(content, list) or not 0 <= edit.part < len(cast("list[_Json]", content)):
        return None
    blocks = list(cast("list[_Json]", content))
    block = blocks[edit.part]
    if not isinstance(block, dict) or cast("dict[str, _Json]", block).get("type") != "toolCall":
        return None
    blocks[edit.part] = {**block, "arguments": input_object(edit.text)}
    return blocks
