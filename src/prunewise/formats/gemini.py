"""Google's Gemini API: the `contents` of a request body.

Knows contents and their parts, in the spelling of JSON (`functionCall`) and in that of the Python
library (`function_call`). Thoughts and thought signatures go out as they came, wherever they sit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prunewise import tools
from prunewise.canonical import canonical
from prunewise.formats import Native
from prunewise.formats.reading import (
    Json,
    Linked,
    call,
    fields,
    items,
    listed,
    objects,
    opaque,
    purged,
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

NAME = "gemini"

_KEY = "contents"
_ROLES: Mapping[str, Role] = {
    "user": "user",
    "model": "assistant",
    "function": "user",
    "system": "system",
    "": "user",  # the API takes a content without a role for the user's
}
_CALL = ("functionCall", "function_call")
_ANSWER = ("functionResponse", "function_response")
_DATA = ("inlineData", "inline_data")
_FILE = ("fileData", "file_data")
_OUTPUTS = ("output", "error", "result", "content")
"""Under which keys a response's text is found, where it is one string."""


class GeminiFormat:
    """The Gemini API, content by content; use the one instance, `GEMINI`."""

    __slots__ = ()

    name: str = NAME
    vocabulary: tools.Vocabulary = tools.GENERIC_GEMINI
    fixed: Sequence[str] = ("systemInstruction", "system_instruction", "tools")
    held: Sequence[str] = ("cachedContent", "cached_content")

    def messages(self, request: Json) -> Sequence[Native]:
        """The contents of a request body, or of a bare list of them.

        Contents with calls or responses that carry no id come wrapped, see `reading.Linked`: they are
        matched by name and order.

        Raises:
            InputError: there is no list of contents.
        """
        return linked(listed(request, _KEY))

    def replace(self, request: Json, messages: Sequence[Native]) -> Json:
        """The request with these contents in place of its own."""
        return relisted(request, _KEY, messages)

    def read(self, native: Native, id: str) -> Message:
        """Read one content. Never raises. The parts are its own, one to one, in order."""
        if not isinstance(native, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            return Message("other", id, (opaque(native),))
        native, ids = unlinked(native)
        found = _ROLES.get(string(native.get("role")))
        listing = items(native.get("parts"))
        if found is None or listing is None:
            return Message("other" if found is None else found, id, (opaque(native),))
        parts = tuple([_part(part, ids.get(index, "")) for index, part in enumerate(listing)])
        if found == "user" and _only_answers(parts):
            found = "tool"
        return Message(found, id, parts)

    def apply(self, native: Native, edits: Sequence[Edit]) -> Native:
        """A copy of the content with the edits in place; all other parts are the same objects."""
        native, _ = unlinked(native)
        parts = list(items(native.get("parts")) or ())
        changed = False
        for edit in edits:
            part = fields(parts[edit.part]) if 0 <= edit.part < len(parts) else None
            edited = None if part is None else _edited(part, edit)
            if edited is not None:
                parts[edit.part] = edited
                changed = True
        return {**native, "parts": parts} if changed else native

    def images(self, native: Native, part: int) -> tuple[Any, ...]:
        """The images and files that a function response holds; those beside it are parts of the content."""
        native, _ = unlinked(native)
        parts = items(native.get("parts")) or ()
        answers = _inner(parts[part], _ANSWER) if 0 <= part < len(parts) else ()
        return tuple([one for answer in answers for one in _files(answer)])

    def normalised(self, request: Json) -> list[Json]:
        """The contents as they are: they have one shape."""
        return [unlinked(native)[0] for native in listed(request, _KEY)]

    def same(self, old: Native, new: Native) -> bool:
        """Whether they are equal; contents have one shape."""
        return old is new or old == new


GEMINI = GeminiFormat()


_Place = tuple[int, int]
"""The position of a content, and of a part in it."""
_Named = dict[str, list[_Place]]
"""Calls, or responses, without an id by their name, in order."""


def linked(contents: Sequence[Native]) -> Sequence[Native]:
    """The same contents, those wrapped that hold calls or responses without an id.

    Responses answer the calls directly before them, by name and in order. Where there are more calls of
    a name than responses, or fewer, nothing says which answers which, and they stay without an id. A
    made-up id is a digest of the conversation up to its call, so that no other call ever has it.
    """
    pairs = [pair for calls, answers in _rounds(contents) for pair in _paired(calls, answers)]
    if not pairs:
        return contents
    last = max(call[0] for _, call, _ in pairs)
    digests = list(_digests(contents[: last + 1]))
    made: dict[int, dict[int, str]] = {}
    for name, (asked, index), (answered, part) in pairs:
        call_id = f"{name or 'call'}-{digests[asked]}-{index}"
        made.setdefault(asked, {})[index] = call_id
        made.setdefault(answered, {})[part] = call_id
    return [
        Linked(content, made[position]) if position in made else content
        for position, content in enumerate(contents)
    ]


def _rounds(contents: Sequence[Native]) -> Iterator[tuple[_Named, _Named]]:
    """The calls without an id in contents that follow each other, and the responses without one in the
    contents directly behind them.
    """
    calls, answers = _Named(), _Named()
    asking = False
    for position, content in enumerate(contents):
        parts = _parts(content)
        asked = any(_inner(part, _CALL) for part in parts)
        answered = any(_inner(part, _ANSWER) for part in parts)
        if (asked and not asking) or not (asked or answered):
            if answers:
                yield calls, answers
            calls, answers = _Named(), _Named()
        asking = asked
        for index, part in enumerate(parts):
            for found, keys in ((calls, _CALL), (answers, _ANSWER)):
                for inner in _inner(part, keys):
                    if not string(inner.get("id")):
                        found.setdefault(string(inner.get("name")), []).append((position, index))
    if answers:
        yield calls, answers


def _paired(calls: _Named, answers: _Named) -> Iterator[tuple[str, _Place, _Place]]:
    """Each call of a round with its response. Of calls in several contents, the last content's alone count
    where not all can have been answered.
    """
    for name, replies in answers.items():
        asked = calls.get(name, [])
        if len(asked) > len(replies):
            asked = [place for place in asked if place[0] == asked[-1][0]]
        if len(asked) == len(replies):
            yield from ((name, call, answer) for call, answer in zip(asked, replies, strict=True))


def _digests(contents: Iterable[Native]) -> Iterator[str]:
    """For each content a digest of it and all before it."""
    digest = hashlib.blake2b(digest_size=8)
    for content in contents:
        digest.update(canonical(content).encode("utf-8", "surrogatepass"))
        yield digest.hexdigest()


def _parts(content: Json) -> list[Json]:
    """The parts of a content; none where it has none."""
    return items((fields(content) or {}).get("parts")) or []


def _inner(part: Json, keys: tuple[str, str]) -> list[dict[str, Json]]:
    """The object under either spelling; none where there is none."""
    found = fields(part) or {}
    return [inner for inner in (fields(found.get(key)) for key in keys) if inner is not None][:1]


def _only_answers(parts: tuple[Part, ...]) -> bool:
    """Whether a content is all tool output: responses, and images that came with them."""
    kinds = {type(part) for part in parts}
    return ToolResult in kinds and kinds <= {ToolResult, Image}


def _part(part: Json, linked_id: str) -> Part:
    for called in _inner(part, _CALL):
        call_id = string(called.get("id")) or linked_id
        if call_id:
            return call(call_id, called.get("name"), called.get("args"))
    for answer in _inner(part, _ANSWER):
        return _answer(answer, string(answer.get("id")) or linked_id)
    for data in _inner(part, _DATA):
        return _image(data)
    found = fields(part) or {}
    text = found.get("text")
    if type(text) is not str:
        return opaque(part)
    if found.get("thought") is not True:
        return Text(text)
    signature = found.get("thoughtSignature")
    return Thinking(text, signature if type(signature) is str else None)


def _answer(answer: dict[str, Json], call_id: str) -> ToolResult:
    response: Json = answer.get("response")
    found = fields(response) or {}
    failed = bool(found.get("error"))
    key = _text_key(found)
    text = found[key] if key else response
    if type(text) is not str:
        text = None if response is None or response == {} else canonical(response)
    texts = [] if text is None else [Text(text)]
    inner = [_held(part) for part in objects(answer.get("parts"))]
    return ToolResult(call_id, string(answer.get("name")), (*texts, *inner), failed)


def _text_key(response: dict[str, Json]) -> str:
    """The key of the one string that a response is, or empty where it is more or other than that."""
    key = next(iter(response)) if len(response) == 1 else ""
    return key if key in _OUTPUTS and type(response[key]) is str else ""


def _held(part: dict[str, Json]) -> Text | Image:
    """What a part of a response holds: text, encoded data, or a file by its address."""
    if type(part.get("text")) is str:
        return Text(part["text"])
    for data in (*_inner(part, _DATA), *_inner(part, _FILE)):
        image = _image(data)
        return image if image.media_type else Image("file", image.data_length)
    return Image("file")


def _files(answer: dict[str, Json]) -> list[Json]:
    """The parts of a response that are no text."""
    return [part for part in objects(answer.get("parts")) if isinstance(_held(part), Image)]


def _image(data: dict[str, Json]) -> Image:
    media_type = string(data.get("mimeType")) or string(data.get("mime_type"))
    return Image(media_type, len(string(data.get("data"))))


def _edited(part: dict[str, Json], edit: Edit) -> dict[str, Json] | None:
    """The part with the edit in place; None where the edit is not of this part."""
    keys = _CALL if edit.kind == TOOL_INPUT else _ANSWER if edit.kind == TOOL_RESULT else ()
    for key in keys:
        inner = fields(part.get(key))
        if inner is not None:
            if edit.kind == TOOL_INPUT:
                return {**part, key: {**inner, "args": purged(edit.text)}}
            return {**part, key: _replaced(inner, edit)}
    return None


def _replaced(answer: dict[str, Json], edit: Edit) -> dict[str, Json]:
    """The response as an object with the edit's text under the key that said what it is."""
    response = fields(answer.get("response")) or {}
    key = _text_key(response) or ("error" if response.get("error") else "output")
    changed = {**answer, "response": {key: edit.text}}
    kept = _files(answer) if edit.keep_images else []
    if kept:
        changed["parts"] = kept
    else:
        changed.pop("parts", None)
    return changed
