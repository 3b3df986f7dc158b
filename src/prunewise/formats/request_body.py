"""Request bodies of the four APIs, read as recordings: one body, a bare list, or a log of them.

A log has one request a line, as the body itself or under `body` beside `path` and `t` (the time).
Clients send the whole history each time, so a log is one conversation that grows: a request that
begins with what the one before held goes on with it, any other begins a new epoch. Knows no answer
that is not in a later request, and so no usage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from prunewise import formats
from prunewise.errors import InputError
from prunewise.formats import Format, Native
from prunewise.formats.documents import Epochs, decode, outline
from prunewise.formats.jsonl import Lines, stem, timestamp
from prunewise.formats.openai_responses import CALLS
from prunewise.formats.reading import Json, fields, items, objects, string
from prunewise.recording import Recording

NAME = "request"

_Record = dict[str, Json]

_KEYS = {"contents": "gemini", "input": "openai-responses", "messages": ""}
"""Where each API has its messages; `messages` is Anthropic's key and Chat's."""
_HEAD = 65536
_LOGGED = {("body",), ("path",)}
_MODEL_IN_PATH = re.compile(r"/models/([^:/?]+):")
_COUNTING = re.compile(r"count_?tokens", re.IGNORECASE)
_ANTHROPIC_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})
_SPECIFIC_TO_ANTHROPIC = ("system", "anthropic_version", "thinking")


def detect(head: bytes) -> bool:
    """Whether a file that begins with these bytes (64 kB of it, or all) holds request bodies."""
    keys = outline(head)
    return keys >= _LOGGED or _is_body(keys)


def _is_body(keys: set[tuple[str, ...]]) -> bool:
    for place in (("[]",), *((key, "[]") for key in _KEYS)):
        inner = {path[len(place)] for path in keys if len(path) > len(place) and path[: len(place)] == place}
        if "role" in inner and inner & {"content", "parts", "tool_calls"}:
            return True
        if place == ("input", "[]") and "type" in inner and "call_id" in inner:
            return True
    return {("model",), ("input",)} <= keys


class _Request(msgspec.Struct, frozen=True):
    """One request of a file."""

    body: Json
    path: str = ""
    time: float | None = None

    @property
    def model(self) -> str:
        """The model that is asked: of the body, else of the address."""
        found = _MODEL_IN_PATH.search(self.path)
        return string((fields(self.body) or {}).get("model")) or (found[1] if found else "")

    @property
    def has_tools(self) -> bool:
        """Whether tools are declared."""
        return bool((fields(self.body) or {}).get("tools"))

    @property
    def continues(self) -> bool:
        """Whether the provider holds the history, and the body only what is new."""
        body = fields(self.body) or {}
        thread = fields(body.get("thread")) or {}
        return bool(string(body.get("previous_response_id"))) or thread.get("type") == "continue"


def read_recording(source: str, data: bytes) -> Recording:
    """Read a file of request bodies.

    Of one body every answer in it is an LLM call, and so is the request itself, which has no answer
    yet; a bare list has no request. Of a log every request of the conversation is one. Requests for
    a count of tokens are none, nor, where other requests declare tools, are those without: titles
    and summaries are asked for that way.

    Raises:
        InputError: there is no request body in it.
    """
    warnings: list[str] = []
    if _is_log(data):
        requests = _logged(source, data, warnings)
        name, epochs = _replay(requests)
    else:
        body: Json = decode(source, data)
        name, epochs = _single(body)
    if epochs is None:
        msg = f"{source}: no request body: no list of messages in it"
        raise InputError(msg)
    return Recording(
        format=name,
        source=source,
        session=stem(source),
        epochs=epochs.finished(),
        vocabulary=formats.named(name).vocabulary,
        warnings=tuple(warnings),
    )


def _is_log(data: bytes) -> bool:
    """Whether it is one request a line: what is wrapped, or whose first line is whole and not the last."""
    if outline(data[:_HEAD]) >= _LOGGED:
        return True
    first, _, rest = data.partition(b"\n")
    if not rest.strip():
        return False
    try:
        return isinstance(msgspec.json.decode(first), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _logged(source: str, data: bytes, warnings: list[str]) -> list[_Request]:
    lines = Lines(source, data, lambda record: "body" in record or api(record) is not None)
    requests: list[_Request] = []
    for number, record in lines:
        if "body" in record and "path" in record:
            request = _Request(
                fields(record["body"]), string(record["path"]), timestamp(record.get("t", record.get("time")))
            )
        else:
            request = _Request(record)
        if request.body is not None and api(request.body, request.path) is None:
            lines.warn(number, "no request with a list of messages, left out")
        elif request.body is not None and not _COUNTING.search(request.path):
            requests.append(request)
    warnings += lines.warnings
    return requests


# ---- which API


def api(request: Json, path: str = "") -> str | None:
    """The name of the format of a request body, or of a bare list of messages; None where it is neither."""
    body = fields(request)
    if body is None:
        messages = items(request)
        return _api_of_list(messages) if messages else None
    for key, name in _KEYS.items():
        messages = items(body.get(key))
        if messages is None:
            continue
        if name:
            return name
        if "chat/completions" in path:
            return "openai-chat"
        declared = any("input_schema" in tool for tool in objects(body.get("tools")))
        if (
            path.split("?", maxsplit=1)[0].endswith("/messages")
            or any(mark in body for mark in _SPECIFIC_TO_ANTHROPIC)
            or declared
        ):
            return "anthropic"
        return _api_of_list(messages)
    return "openai-responses" if type(body.get("input")) is str and "model" in body else None


def _api_of_list(messages: list[Json]) -> str | None:
    """By the messages themselves. Where they are texts alone, the two that share them read them alike."""
    for message in objects(messages):
        if "parts" in message:
            return "gemini"
        kind = string(message.get("type"))
        if kind in CALLS or kind.endswith("_output") or kind in ("reasoning", "message"):
            return "openai-responses"
        if message.get("role") == "tool" or "tool_calls" in message:
            return "openai-chat"
        blocks = {string(block.get("type")) for block in objects(message.get("content"))}
        if blocks & _ANTHROPIC_BLOCKS:
            return "anthropic"
        if blocks & {"input_text", "output_text"}:
            return "openai-responses"
    return "openai-chat" if any("role" in message for message in objects(messages)) else None


# ---- one request


def _single(request: Json) -> tuple[str, Epochs | None]:
    name = api(request)
    if name is None:
        return "", None
    wire = formats.named(name)
    epochs = Epochs()
    body = fields(request) or {}
    model = string(body.get("model"))
    answering = False
    for index, native in enumerate(wire.messages(request)):
        message = wire.read(native, f"m{index}")
        is_answer = message.role == "assistant"
        if is_answer and not (answering and name == "openai-responses"):
            epochs.call(model=model)
        epochs.add([message])
        answering = is_answer
    if body and not answering:
        epochs.call(model=model)
    return name, epochs


# ---- a log of them


def _replay(requests: Sequence[_Request]) -> tuple[str, Epochs | None]:
    """The conversation that most requests of a log are of."""
    with_tools = any(request.has_tools for request in requests)
    own = [request for request in requests if request.has_tools or request.continues or not with_tools]
    names = [name for request in own if (name := api(request.body, request.path)) is not None]
    if not names:
        return "", None
    name = max(names, key=names.count)
    conversation = _Conversation(formats.named(name))
    for request in own:
        if api(request.body, request.path) == name:
            conversation.take(request)
    return name, conversation.epochs


class _Conversation:
    """What the last request held, and the epochs so far."""

    def __init__(self, format: Format) -> None:
        self.epochs = Epochs()
        self._format = format
        self._natives: list[Native] = []
        self._number = 1

    def take(self, request: _Request) -> None:
        """Take in the next request."""
        natives = list(self._format.messages(request.body))
        if request.continues:
            natives = [*self._natives, *natives]
        common = _common(self._format, self._natives, natives)
        if common < len(self._natives):
            self._begin_again(common, len(natives))
        read = self._format.read
        for index in range(len(self.epochs.messages), len(natives)):
            self.epochs.add([read(natives[index], self._name(index))])
        self._natives = natives
        self.epochs.call(time=request.time, model=request.model)

    def _name(self, index: int) -> str:
        return f"m{index}" if self._number == 1 else f"{self._number}.m{index}"

    def _begin_again(self, common: int, length: int) -> None:
        """A new epoch: a rewind where only the last message is another, else a compaction."""
        self._number += 1
        ended_by = "rewind" if common >= length - 1 else "compaction"
        self.epochs.end(ended_by, self.epochs.messages[:common])


def _common(format: Format, before: Sequence[Native], now: Sequence[Native]) -> int:
    """How many messages from the start are the same to the model."""
    for index, (old, new) in enumerate(zip(before, now, strict=False)):
        try:
            if not format.same(old, new):
                return index
        except RecursionError:  # nested beyond what can be compared
            return index
    return min(len(before), len(now))
