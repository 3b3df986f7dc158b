"""A scripted model on loopback: Anthropic Messages and OpenAI Chat Completions, streamed and recorded.

The script is a list of steps, one for each request that declares tools; other requests (summaries) get a
fixed text. A step is a text, a list of (tool name, arguments), an `Answer`, or a function of the request
that gives one of these. After its last step the model says "Done."
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, Self

SUMMARY = "A summary of what was said."


@dataclass(frozen=True)
class Answer:
    """What the model says: thinking (Anthropic), text, tool calls; or an HTTP error instead."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    thinking: str = ""
    status: int = 200
    error: str = ""
    tokens: int | None = None
    """Reported as the size of the prompt, instead of what it is."""


Step = str | list[tuple[str, dict[str, Any]]] | Answer | Callable[["Seen"], Any]


@dataclass(frozen=True)
class Bill:
    """How the input of one request was billed, in tokens."""

    uncached: int
    read: int
    written: int

    @property
    def tokens(self) -> int:
        return self.uncached + self.read + self.written

    def cost(self, read: float = 0.1, write: float = 1.25) -> float:
        """In base input tokens."""
        return self.uncached + read * self.read + write * self.written


@dataclass(frozen=True)
class Seen:
    """One request as it came in."""

    api: str
    body: dict[str, Any]
    main: bool
    """Whether it declares tools: the agent's own, not one for a summary."""
    bill: "Bill"

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [one for one in self.body["messages"] if one["role"] not in ("system", "developer")]

    @property
    def results(self) -> dict[str, str]:
        """The text of each tool result, by call id."""
        found: dict[str, str] = {}
        for message in self.messages:
            if message["role"] == "tool":
                found[message["tool_call_id"]] = text_of(message["content"])
            elif isinstance(message["content"], list):
                for block in message["content"]:
                    if block["type"] == "tool_result":
                        found[block["tool_use_id"]] = text_of(block.get("content", ""))
        return found

    @property
    def inputs(self) -> dict[str, Any]:
        """The arguments of each tool call, by its id."""
        found: dict[str, Any] = {}
        for message in self.messages:
            for call in message.get("tool_calls") or ():
                found[call["id"]] = json.loads(call["function"]["arguments"])
            if message["role"] == "assistant" and isinstance(message["content"], list):
                for block in message["content"]:
                    if block["type"] == "tool_use":
                        found[block["id"]] = block["input"]
        return found

    @property
    def thoughts(self) -> list[dict[str, Any]]:
        """The thinking blocks, in order."""
        contents = [one["content"] for one in self.messages if isinstance(one["content"], list)]
        return [block for content in contents for block in content if block["type"] == "thinking"]

    def result(self, call: str) -> Any:
        """The content of a tool result (Anthropic): its blocks, or a text."""
        contents = [one["content"] for one in self.messages if isinstance(one["content"], list)]
        found = [block for content in contents for block in content if block.get("tool_use_id") == call]
        return found[0]["content"]

    def reference(self, call: str) -> str:
        """The recall reference in the marker of a tool result."""
        return self.results[call].split("recall ")[1].split(" ")[0]

    @property
    def tools(self) -> list[str]:
        return [one.get("name") or one["function"]["name"] for one in self.body.get("tools") or ()]


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", f"[{block['type']}]") for block in content)


def _plain(value: Any) -> Any:
    """The value without cache marks, which move with each request."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


class BreakpointCache:
    """A prompt cache as Anthropic documents it: what ends at a breakpoint is written, and found from a
    breakpoint of a later request, so many blocks back. Nothing is ever forgotten.
    """

    def __init__(self, minimum: int = 1024, lookback: int = 20) -> None:
        self.minimum = minimum
        self.lookback = lookback
        self._held: set[str] = set()

    def bill(self, body: dict[str, Any]) -> Bill:
        digest, tokens = hashlib.sha256(body["model"].encode()), 0
        chain: list[tuple[str, int]] = []
        points: list[int] = []
        for marked, block in _content_blocks(body):
            text = json.dumps(_plain(block))
            digest.update(text.encode())
            tokens += len(text) // 4
            chain.append((digest.hexdigest(), tokens))
            if marked and tokens >= self.minimum:
                points.append(len(chain) - 1)
        assert len(points) <= 4
        read = 0
        for point in points:
            reach = range(point, max(-1, point - self.lookback), -1)
            read = max(read, next((chain[at][1] for at in reach if chain[at][0] in self._held), 0))
        self._held.update(chain[point][0] for point in points)
        last = max(read, chain[points[-1]][1] if points else 0)
        return Bill(tokens - last, read, last - read)


def _content_blocks(body: dict[str, Any]) -> Iterator[tuple[bool, Any]]:
    """The prompt in order, and whether a breakpoint stands on a block."""
    system = body.get("system") or []
    for block in [*(body.get("tools") or []), *(system if isinstance(system, list) else [{"text": system}])]:
        yield "cache_control" in block, block
    for message in body["messages"]:
        content = message["content"]
        for block in content if isinstance(content, list) else [{"text": content}]:
            yield "cache_control" in block, [message["role"], block]


def blocks(body: dict[str, Any]) -> list[str]:
    """The prompt, block by block, as the prefix cache sees it."""
    listed = [json.dumps(_plain(body.get(name) or [])) for name in ("tools", "system")]
    for message in body["messages"]:
        content = message["content"]
        pieces = content if isinstance(content, list) else [content]
        rest = {key: one for key, one in message.items() if key != "content"}
        listed += [json.dumps([message["role"], _plain(piece)]) for piece in pieces]
        listed.append(json.dumps(_plain(rest)))
    return listed


@dataclass
class ModelServer:
    """The server; use it as a context manager."""

    script: list[Step] = field(default_factory=list)
    requests: list[Seen] = field(default_factory=list)
    prompts: list[list[str]] = field(default_factory=list)
    cache: BreakpointCache = field(default_factory=BreakpointCache)

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                status, kind, payload = model.answer(self.path, json.loads(raw))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def asked(self) -> list[Seen]:
        """The agent's own requests."""
        return [one for one in self.requests if one.main]

    @property
    def breaks(self) -> int:
        """How many of the agent's requests did not begin with all of the one before."""
        prompts = [blocks(one.body)[1:] for one in self.asked]
        return sum(after[: len(before)] != before for before, after in pairwise(prompts))

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, str, bytes]:
        api = "anthropic" if "/messages" in path else "chat"
        with self._lock:
            bill = self.cache.bill(body) if api == "anthropic" else self._found(blocks(body))
            seen = Seen(api, body, bool(body.get("tools")), bill)
            self.requests.append(seen)
            answer = self._say(seen)
            number = len(self.requests)
        if answer.status != 200:
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": answer.error}}
            return answer.status, "application/json", json.dumps(error).encode()
        events = _anthropic(answer, seen, number) if api == "anthropic" else _chat(answer, seen, number)
        return 200, "text/event-stream", b"".join(events)

    def _found(self, prompt: list[str]) -> Bill:
        """The bill of an automatic cache, which finds any beginning of one of the last few requests."""
        tokens = sum(len(one) for one in prompt) // 4
        cached = max((_common(prompt, earlier) for earlier in self.prompts[-5:]), default=0) // 4
        self.prompts.append(prompt)
        return Bill(tokens - cached, cached, 0)

    def _say(self, seen: Seen) -> Answer:
        if not seen.main:
            return Answer(SUMMARY)
        step: Any = self.script.pop(0) if self.script else "Done."
        if callable(step):
            step = step(seen)
        if isinstance(step, str):
            return Answer(step)
        return step if isinstance(step, Answer) else Answer("", tuple(step))


def _common(prompt: list[str], earlier: list[str]) -> int:
    size = 0
    for one, other in zip(prompt, earlier, strict=False):
        if one != other:
            break
        size += len(one)
    return size


def _anthropic(answer: Answer, seen: Seen, number: int) -> list[bytes]:
    bill = seen.bill if answer.tokens is None else Bill(answer.tokens, 0, 0)
    usage = {
        "input_tokens": bill.uncached,
        "cache_read_input_tokens": bill.read,
        "cache_creation_input_tokens": bill.written,
        "output_tokens": 1,
    }
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": seen.body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    content: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.thinking:
        content.append(
            (
                {"type": "thinking", "thinking": "", "signature": ""},
                [
                    {"type": "thinking_delta", "thinking": answer.thinking},
                    {"type": "signature_delta", "signature": f"signature-{number}"},
                ],
            )
        )
    if answer.text:
        content.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": answer.text}]))
    for index, (name, arguments) in enumerate(answer.calls):
        block = {"type": "tool_use", "id": f"call_{number}_{index}", "name": name, "input": {}}
        content.append((block, [{"type": "input_json_delta", "partial_json": json.dumps(arguments)}]))
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (block, deltas) in enumerate(content):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = "tool_use" if answer.calls else "end_turn"
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}})
    events.append({"type": "message_stop"})
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]


def _chat(answer: Answer, seen: Seen, number: int) -> list[bytes]:
    tokens = seen.bill.tokens if answer.tokens is None else answer.tokens
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": answer.text}]
    for index, (name, arguments) in enumerate(answer.calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call_{number}_{index}", "type": "function", "function": function}
        deltas.append({"tool_calls": [call]})
    base = {
        "id": f"chat-{number}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": seen.body["model"],
    }
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    reason = "tool_calls" if answer.calls else "stop"
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": 10,
        "total_tokens": tokens + 10,
        "prompt_tokens_details": {"cached_tokens": min(seen.bill.read, tokens)},
    }
    chunks.append({**base, "choices": [], "usage": usage})
    return [*(f"data: {json.dumps(one)}\n\n".encode() for one in chunks), b"data: [DONE]\n\n"]
