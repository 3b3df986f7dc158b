"""What the API formats read and replace alike: JSON that nobody has checked, texts, images, calls.

Knows no API: each format says which of its fields holds what. Nothing here raises, whatever the
JSON holds; what is not understood becomes an opaque part, and goes out as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from prunewise.canonical import canonical
from prunewise.errors import InputError
from prunewise.formats import Native
from prunewise.markers import input_object
from prunewise.transcript import Image, Opaque, Part, Text, ToolCall, token_count

count = token_count
"""Reads a count."""

Json = Any
"""Decoded JSON that nobody has checked."""


def string(value: Json) -> str:
    """The value where it is a string, else empty."""
    return value if type(value) is str else ""


def fields(value: Json) -> dict[str, Json] | None:
    """The value where it is a JSON object, else None."""
    return cast("dict[str, Json]", value) if isinstance(value, dict) else None


def items(value: Json) -> list[Json] | None:
    """The value where it is a JSON list, else None."""
    return cast("list[Json]", value) if isinstance(value, list) else None


def opaque(value: object) -> Opaque:
    """A part that is not understood."""
    return Opaque(len(canonical(value)))


def objects(value: Json) -> Iterator[dict[str, Json]]:
    """The objects of a list; nothing of anything else."""
    for one in items(value) or ():
        found = fields(one)
        if found is not None:
            yield found


def contents(content: Json, block: Callable[[Json], Part]) -> tuple[Part, ...]:
    """The parts of a message's content: a string is one text part, a list its blocks one to one."""
    if type(content) is str:
        return (Text(content),)
    if isinstance(content, list):
        return tuple([block(one) for one in cast("list[Json]", content)])
    return () if content is None else (opaque(content),)


def pieces(content: Json, piece: Callable[[Json], Text | Image]) -> tuple[Text | Image, ...]:
    """What a tool gave back, as texts, images and files; see `piece`."""
    if type(content) is str:
        return (Text(content),)
    if isinstance(content, list):
        return tuple([piece(one) for one in cast("list[Json]", content)])
    return () if content is None else (Text(canonical(content)),)


def piece(block: Json, read: Part) -> Text | Image:
    """One block of what a tool gave back, by what it reads as in a message. What is neither text nor image
    is a file where it has a type of its own, and else stands as its JSON, so that it is seen.
    """
    if isinstance(read, (Text, Image)):
        return read
    found = fields(block) or {}
    kind = string(found.get("type"))
    return Image(kind) if kind and kind not in _TEXT_KINDS else Text(canonical(block))


_TEXT_KINDS = ("text", "input_text", "output_text", "refusal")


def call(call_id: str, name: Json, arguments: Json) -> ToolCall:
    """A call with its arguments as a JSON object; any other value is kept in `text` alone."""
    return ToolCall(
        call_id,
        string(name),
        fields(arguments) or {},
        canonical(arguments),
    )


def call_from_text(call_id: str, name: Json, text: Json) -> ToolCall:
    """A call with its arguments as the JSON text of an object; broken text is kept as it is."""
    arguments = decoded(text)
    return call(call_id, name, text if arguments is None else arguments)


def decoded(text: Json) -> dict[str, Json] | None:
    """The object that a JSON text holds, or None where it holds none."""
    if type(text) is not str:
        return fields(text)
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return fields(value)


def purged(text: str) -> dict[str, Any]:
    """The object that stands in for a purged input."""
    return input_object(text)


def purged_text(text: str) -> str:
    """The JSON text of that object, where arguments are a string."""
    return canonical(purged(text))


def image_from_url(url: Json) -> Image:
    """An image by its address: of a data URL the media type and the length of the data, else neither."""
    if type(url) is not str or not url.startswith("data:"):
        return Image("")
    head, _, data = url.partition(",")
    return Image(head[5:].partition(";")[0], len(data))


def listed(request: Json, key: str) -> Sequence[Native]:
    """The messages of a request: the list itself, or what the body holds under `key`.

    Raises:
        InputError: there is no list of messages.
    """
    found = cast("Mapping[str, Json]", request).get(key) if isinstance(request, Mapping) else request
    if isinstance(found, (list, tuple)):
        return cast("Sequence[Native]", found)
    msg = f"no messages: a request body with a list under {key!r}, or that list, is needed"
    raise InputError(msg)


def relisted(request: Json, key: str, messages: Sequence[Native]) -> Json:
    """The request with these messages in place of its own; nothing else of it changes."""
    plain = [one.native if isinstance(one, Linked) else one for one in messages]
    if isinstance(request, Mapping):
        body = cast("Mapping[str, Json]", request)
        return {**body, key: plain}
    return plain


_BREAKPOINTS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""The fields that mark a cache breakpoint. Clients move them from request to request."""


def unmarked(block: Json) -> Json:
    """A message, block or tool without its cache breakpoint, which is no content."""
    if block.__class__ is not dict or _BREAKPOINTS.isdisjoint(block):
        return block
    return {key: value for key, value in block.items() if key not in _BREAKPOINTS}


def plain(content: Json, kind: str = "text") -> Json:
    """The normal form of content: its blocks without cache breakpoints, or a string where they are one
    block of this kind that is nothing but a text.
    """
    if content.__class__ is not list:
        return content
    blocks: list[Json] = [unmarked(block) for block in content]
    if len(blocks) == 1:
        only = blocks[0]
        if only.__class__ is dict and only.keys() == _TEXT_BLOCK and only["type"] == kind:
            text: Json = only["text"]
            return text if text.__class__ is str else blocks
    return blocks


_TEXT_BLOCK = {"type", "text"}


def normalised(message: Json) -> Json:
    """The normal form of a message, of its content, and of the results in that; see `plain`. Nothing
    within an argument or an object is touched.
    """
    bare = unmarked(message)
    if bare.__class__ is not dict or bare.get("content").__class__ is not list:
        return bare
    content: Json = plain(bare["content"])
    if content.__class__ is list:
        for index, block in enumerate(content):
            if block.__class__ is dict and block.get("type") == "tool_result" and "content" in block:
                content[index] = {**block, "content": plain(block["content"])}
    return {**bare, "content": content}


class Linked(Mapping[str, Any]):
    """A native message together with what only its neighbours tell: the call ids of its parts.

    Some calls and results carry no id, or name each other by different ones of two. A format's
    `messages` wraps such messages, and `replace` takes them out again; all others stay bare.
    """

    __slots__ = ("ids", "native")

    def __init__(self, native: Native, ids: Mapping[int, str]) -> None:
        self.native = native
        self.ids = ids
        """The call id of a part, by the part's index."""

    def __getitem__(self, key: str) -> Json:
        return self.native[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.native)

    def __len__(self) -> int:
        return len(self.native)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linked) and self.ids == other.ids and self.native == other.native

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def unlinked(native: Native) -> tuple[Native, Mapping[int, str]]:
    """The bare message, and the call ids that its neighbours told."""
    if isinstance(native, Linked):
        return native.native, native.ids
    return native, {}
