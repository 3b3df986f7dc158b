"""How long a conversation takes to be recognised: the chain of an invented request body of 1 MB and more.

Run: `python benchmarks/recognise.py`
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import msgspec
from sessions import pi_messages

from prunewise import formats
from prunewise.conversation.recognise import Chain, MemoryIndex, chain, growth, recognise

ROUNDS = 21
MESSAGES = 1_000
MB = 1e6


def main() -> None:
    """Measure each wire format, and one that grows."""
    for name, body in bodies().items():
        data = msgspec.json.encode(body)
        times = sorted(timed(name, data) for _ in range(ROUNDS))
        size, messages = len(data) / MB, len(of(name, body).nodes)
        median, least = statistics.median(times) / size, times[0] / size
        print(f"{name}: {size:.1f} MB, {messages} messages; processor time per MB, {ROUNDS} rounds:")
        print(f"  median {median * 1e3:.2f} ms, least {least * 1e3:.2f} ms")
    found = of("anthropic", bodies()["anthropic"])
    index, asked = MemoryIndex(), []
    begun = time.process_time()
    for end in range(1, MESSAGES + 1, 2):
        part = msgspec.structs.replace(found, nodes=found.nodes[:end])
        assert index.grow(growth(part, recognise(part, index), "c"))
        asked.append(end)
    each = (time.process_time() - begun) / len(asked)
    print(
        f"look up and record, {len(asked)} requests of one conversation: {each * 1e6:.0f} microseconds each"
    )


def of(name: str, body: Any) -> Chain:
    return chain(formats.named(name), body, account="a", model="m")


def timed(name: str, data: bytes) -> float:
    body = msgspec.json.decode(data)  # as it comes from the wire: no object is shared with another round
    begun = time.process_time()
    of(name, body)
    return time.process_time() - begun


def bodies() -> dict[str, Any]:
    """One session as the request body of each protocol."""
    native = pi_messages(MESSAGES)
    return {
        "anthropic": {"messages": [m for one in native for m in _anthropic(one)]},
        "openai-chat": {"messages": [m for one in native for m in _chat(one)]},
        "openai-responses": {"input": [m for one in native for m in _items(one)]},
        "gemini": {"contents": [m for one in native for m in _contents(one)]},
    }


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _calls(message: Any) -> list[Any]:
    return [block for block in message["content"] if block["type"] == "toolCall"]


def _arguments(call: Any) -> str:
    return msgspec.json.encode(call["arguments"]).decode()


def _anthropic(message: Any) -> list[Any]:
    text = _text(message["content"])
    if message["role"] == "assistant":
        calls = [
            {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["arguments"]}
            for call in _calls(message)
        ]
        return [{"role": "assistant", "content": [{"type": "text", "text": text}, *calls]}]
    if message["role"] == "toolResult":
        block = {"type": "tool_result", "tool_use_id": message["toolCallId"], "content": text}
        return [{"role": "user", "content": [block]}]
    return [{"role": "user", "content": text}]


def _chat(message: Any) -> list[Any]:
    text = _text(message["content"])
    if message["role"] == "assistant":
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": _arguments(call)},
            }
            for call in _calls(message)
        ]
        return [{"role": "assistant", "content": text, "tool_calls": calls}]
    if message["role"] == "toolResult":
        return [{"role": "tool", "tool_call_id": message["toolCallId"], "content": text}]
    return [{"role": "user", "content": text}]


def _items(message: Any) -> list[Any]:
    text = _text(message["content"])
    if message["role"] == "assistant":
        calls = [
            {
                "type": "function_call",
                "call_id": call["id"],
                "name": call["name"],
                "arguments": _arguments(call),
            }
            for call in _calls(message)
        ]
        return [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]},
            *calls,
        ]
    if message["role"] == "toolResult":
        return [{"type": "function_call_output", "call_id": message["toolCallId"], "output": text}]
    return [{"role": "user", "content": text}]


def _contents(message: Any) -> list[Any]:
    text = _text(message["content"])
    if message["role"] == "assistant":
        calls = [
            {"functionCall": {"name": call["name"], "args": call["arguments"]}} for call in _calls(message)
        ]
        return [{"role": "model", "parts": [{"text": text}, *calls]}]
    if message["role"] == "toolResult":
        answer = {"name": message["toolName"], "response": {"output": text}}
        return [{"role": "user", "parts": [{"functionResponse": answer}]}]
    return [{"role": "user", "parts": [{"text": text}]}]


if __name__ == "__main__":
    main()
