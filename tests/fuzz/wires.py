"""The same conversation in each of the formats: what a host would send."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

Native = dict[str, Any]
PNG = "QUJD" * 20


class Asked(NamedTuple):
    """A call of a tool, and what came of it."""

    id: str
    name: str
    arguments: Any
    output: str
    shape: str
    """`text`, `blocks`, `image`, `file`, `error`, `empty`, or `missing`: it was never answered."""


class Wire(msgspec.Struct, frozen=True):
    """One format."""

    name: str

    def user(self, text: str, *, blocks: bool) -> Native:
        """What the user says."""
        if self.name == "gemini":
            return {"role": "user", "parts": [{"text": text}]}
        kind = "input_text" if self.name == "openai-responses" else "text"
        return {"role": "user", "content": [{"type": kind, "text": text}] if blocks else text}

    def answer(
        self, text: str, asked: Sequence[Asked], *, thinks: str, usage: Any, time: float
    ) -> list[Native]:
        """What the model says and asks for; `thinks` is a signature, or empty."""
        return _ANSWERS[self.name](text, asked, thinks, usage, time)

    def results(self, asked: Sequence[Asked], *, then: str) -> list[Native]:
        """What the tools gave back, in this order; `then` is said in the same message where one holds it."""
        answered = [one for one in asked if one.shape != "missing"]
        return _RESULTS[self.name](answered, then) if answered else []


def _pi_answer(text: str, asked: Sequence[Asked], thinks: str, usage: Any, time: float) -> list[Native]:
    blocks: list[Native] = []
    if thinks:
        blocks.append({"type": "thinking", "thinking": "hm", "thinkingSignature": thinks})
    if text:
        blocks.append({"type": "text", "text": text})
    blocks += [{"type": "toolCall", "id": o.id, "name": o.name, "arguments": o.arguments} for o in asked]
    message: Native = {
        "role": "assistant",
        "content": blocks,
        "model": "m",
        "timestamp": time * 1000,
        "extra": [1],
    }
    return [message if usage is None else {**message, "usage": usage}]


def _pi_results(asked: Sequence[Asked], _then: str) -> list[Native]:
    made: list[Native] = []
    for one in asked:
        content: Any = [{"type": "text", "text": one.output}]
        if one.shape == "text":
            content = one.output
        elif one.shape == "image":
            content.append({"type": "image", "data": PNG, "mimeType": "image/png"})
        elif one.shape == "blocks":
            content.append({"type": "text", "text": "second"})
        elif one.shape == "file":
            content.insert(0, {"type": "resource", "uri": "file:///a"})
        elif one.shape == "empty":
            content = None
        failed = one.shape == "error"
        made.append(
            {
                "role": "toolResult",
                "toolCallId": one.id,
                "toolName": one.name,
                "content": content,
                "isError": failed,
            }
        )
    return made


def _anthropic_answer(
    text: str, asked: Sequence[Asked], thinks: str, _usage: Any, _time: float
) -> list[Native]:
    blocks: list[Native] = [{"type": "thinking", "thinking": "hm", "signature": thinks}] if thinks else []
    if text or not asked:
        blocks.append({"type": "text", "text": text or "."})
    blocks += [
        {"type": "tool_use", "id": o.id, "name": o.name, "input": o.arguments, "extra": 1} for o in asked
    ]
    return [{"role": "assistant", "content": blocks}]


def _anthropic_results(asked: Sequence[Asked], then: str) -> list[Native]:
    blocks: list[Native] = []
    for one in asked:
        content: Any = [{"type": "text", "text": one.output}]
        if one.shape == "text":
            content = one.output
        elif one.shape == "image":
            source = {"type": "base64", "media_type": "image/png", "data": PNG}
            content.append({"type": "image", "source": source})
        elif one.shape == "file":
            content.insert(0, {"type": "document", "source": {"type": "file", "file_id": "f"}})
        elif one.shape == "blocks":
            content.insert(0, {"type": "text", "text": "first", "cache_control": {"type": "ephemeral"}})
        block: Native = {"type": "tool_result", "tool_use_id": one.id}
        if one.shape != "empty":
            block["content"] = content
        if one.shape == "error":
            block["is_error"] = True
        blocks.append(block)
    if then:
        blocks.append({"type": "text", "text": then})
    return [{"role": "user", "content": blocks}]


def _chat_answer(text: str, asked: Sequence[Asked], thinks: str, _usage: Any, _time: float) -> list[Native]:
    message: Native = {"role": "assistant", "content": text or None}
    if asked:
        message["tool_calls"] = [
            {
                "id": o.id,
                "type": "function",
                "function": {"name": o.name, "arguments": json.dumps(o.arguments)},
            }
            for o in asked
        ]
    return [{**message, "reasoning_content": "hm"} if thinks else message]


def _chat_results(asked: Sequence[Asked], _then: str) -> list[Native]:
    made: list[Native] = []
    for one in asked:
        content: Any = [{"type": "text", "text": one.output}]
        if one.shape in {"text", "error"}:
            content = one.output
        elif one.shape == "image":
            content.append({"type": "image_url", "image_url": {"url": "data:image/png;base64," + PNG}})
        elif one.shape == "file":
            content.insert(0, {"type": "file", "file": {"file_id": "f"}})
        elif one.shape == "empty":
            content = None
        made.append({"role": "tool", "tool_call_id": one.id, "content": content})
    return made


def _responses_answer(
    text: str, asked: Sequence[Asked], thinks: str, _usage: Any, _time: float
) -> list[Native]:
    made: list[Native] = []
    if thinks:
        made.append({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": thinks})
    if text or not asked:
        said = {"type": "output_text", "text": text or "."}
        made.append({"type": "message", "role": "assistant", "content": [said]})
    for one in asked:
        if one.name == "bash":
            action = {"commands": [one.arguments.get("command", "")]}
            made.append({"type": "shell_call", "call_id": one.id, "action": action})
        else:
            given = json.dumps(one.arguments)
            made.append({"type": "function_call", "call_id": one.id, "name": one.name, "arguments": given})
    return made


def _responses_results(asked: Sequence[Asked], _then: str) -> list[Native]:
    made: list[Native] = []
    for one in asked:
        if one.name == "bash":
            code = 1 if one.shape == "error" else 0
            streams = [
                {"stdout": one.output, "stderr": "", "outcome": {"type": "exit", "exit_code": code}},
                {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}},
            ]
            made.append({"type": "shell_call_output", "call_id": one.id, "output": streams})
            continue
        output: Any = [{"type": "input_text", "text": one.output}]
        if one.shape == "text":
            output = one.output
        elif one.shape == "image":
            output.append({"type": "input_image", "image_url": "data:image/png;base64," + PNG})
        elif one.shape == "file":
            output.insert(0, {"type": "input_file", "file_id": "f"})
        elif one.shape == "empty":
            output = None
        elif one.shape == "error":
            output = {"content": one.output, "success": False}
        made.append({"type": "function_call_output", "call_id": one.id, "output": output})
    return made


def _gemini_answer(text: str, asked: Sequence[Asked], thinks: str, _usage: Any, _time: float) -> list[Native]:
    parts: list[Native] = [{"text": "hm", "thought": True}] if thinks else []
    if text or not asked:
        parts.append({"text": text or "."})
    for one in asked:
        called = {"name": one.name, "args": one.arguments}
        part: Native = {"functionCall": {"id": one.id, **called} if _has_id(one) else called}
        parts.append({**part, "thoughtSignature": thinks} if thinks else part)
    return [{"role": "model", "parts": parts}]


def _gemini_results(asked: Sequence[Asked], then: str) -> list[Native]:
    parts: list[Native] = []
    for one in asked:
        response: Any = {"error": one.output} if one.shape == "error" else {"output": one.output}
        if one.shape == "blocks":
            response = {"output": one.output, "more": [1]}
        held: Native = {"name": one.name, "response": {} if one.shape == "empty" else response}
        if _has_id(one):
            held["id"] = one.id
        if one.shape == "image":
            held["parts"] = [{"inlineData": {"mimeType": "image/png", "data": PNG}}]
        elif one.shape == "file":
            held["parts"] = [{"fileData": {"fileUri": "files/a", "mimeType": "application/pdf"}}]
        parts.append({"functionResponse": held})
    return [{"role": "user", "parts": [*parts, {"text": then}] if then else parts}]


def _has_id(one: Asked) -> bool:
    """Most clients of Gemini send none."""
    return one.id.endswith("0")


_ANSWERS = {
    "pi": _pi_answer,
    "anthropic": _anthropic_answer,
    "openai-chat": _chat_answer,
    "openai-responses": _responses_answer,
    "gemini": _gemini_answer,
}
_RESULTS = {
    "pi": _pi_results,
    "anthropic": _anthropic_results,
    "openai-chat": _chat_results,
    "openai-responses": _responses_results,
    "gemini": _gemini_results,
}
WIRES = tuple(Wire(name) for name in _ANSWERS)
