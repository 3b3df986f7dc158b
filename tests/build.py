"""Builders of pi messages and of what the engine makes of them, so that tables in tests stay readable."""

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

from prunewise import ledger, settings, tools
from prunewise.engine import Engine, Rules
from prunewise.formats.pi import PI
from prunewise.transcript import Exchange, Message, Transcript

Native = dict[str, Any]

LONG = "line of output\n" * 60
"""900 characters: large enough that any marker is smaller and the default floor is passed."""


def text(value: str = "go on") -> Native:
    """A text block."""
    return {"type": "text", "text": value}


def thinking(value: str = "hm", signature: str = "sig") -> Native:
    """A thinking block."""
    return {"type": "thinking", "thinking": value, "thinkingSignature": signature}


def image(length: int = 40) -> Native:
    """An image block."""
    return {"type": "image", "data": "A" * length, "mimeType": "image/png"}


def call(id: str, name: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> Native:
    """A tool call block: `call("c1", "read", path="a.py")`."""
    return {"type": "toolCall", "id": id, "name": name, "arguments": {**(arguments or {}), **more}}


def user(*content: str | Native) -> Native:
    """A user message, which starts a turn."""
    return {"role": "user", "content": _blocks(content or ("go on",))}


def assistant(*content: str | Native, **fields: Any) -> Native:
    """An assistant message: texts as strings, other blocks as `call` and `thinking` make them."""
    calls = any(isinstance(block, dict) and block["type"] == "toolCall" for block in content)
    return {
        "role": "assistant",
        "content": _blocks(content),
        "model": "m",
        "stopReason": "toolUse" if calls else "stop",
        **fields,
    }


def usage(total: int, **fields: Any) -> Native:
    """The usage of an assistant message: `assistant("hi", usage=usage(1000))`."""
    return {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": total, **fields}


def result(id: str, *content: str | Native, error: bool = False, name: str = "read") -> Native:
    """A tool result message."""
    return {
        "role": "toolResult",
        "toolCallId": id,
        "toolName": name,
        "content": _blocks(content or (LONG,)),
        "isError": error,
    }


def shell(command: str, output: str, *, code: int | None = 0, **fields: Any) -> Native:
    """A command that the user ran in pi (`bashExecution`)."""
    return {"role": "bashExecution", "command": command, "output": output, "exitCode": code, **fields}


def other(value: str = "note", **fields: Any) -> Native:
    """A message that an extension added (`custom`)."""
    return {"role": "custom", "customType": "note", "content": [text(value)], "display": True, **fields}


def summary(value: str = "what went before", **fields: Any) -> Native:
    """The summary that a compaction leaves."""
    return {"role": "compactionSummary", "summary": value, "tokensBefore": 1000, **fields}


def used(
    id: str, name: str, arguments: Mapping[str, Any], *content: str | Native, error: bool = False
) -> list[Native]:
    """One call and its result, as two messages."""
    return [assistant(call(id, name, arguments)), result(id, *content, error=error, name=name)]


def read(id: str, path: str, *content: str | Native, error: bool = False, **arguments: Any) -> list[Native]:
    """A read with its result."""
    return used(id, "read", {"path": path, **arguments}, *content, error=error)


def write(id: str, path: str, *content: str | Native, error: bool = False) -> list[Native]:
    """A write with its result."""
    return used(id, "write", {"path": path, "content": f"by {id}"}, *content, error=error)


def edit(id: str, path: str, *content: str | Native, error: bool = False) -> list[Native]:
    """An edit with its result."""
    return used(id, "edit", {"path": path, "oldText": id, "newText": id}, *content, error=error)


def bash(id: str, command: str, *content: str | Native, error: bool = False) -> list[Native]:
    """A run of pi's bash tool with its result."""
    return used(id, "bash", {"command": command}, *content, error=error)


def turns(count: int) -> list[Native]:
    """So many user messages."""
    return [user(f"turn {index}") for index in range(count)]


def flat(*parts: Native | Iterable[Native]) -> list[Native]:
    """Messages and lists of them, as one list."""
    return list(itertools.chain.from_iterable([part] if isinstance(part, dict) else part for part in parts))


def messages(natives: Iterable[Native]) -> list[Message]:
    """pi's messages as the transcript's, with the ids m0, m1, ..."""
    return [PI.read(native, f"m{index}") for index, native in enumerate(natives)]


def transcript(
    *natives: Native | Iterable[Native], cwd: str | None = None, vocabulary: tools.Vocabulary = tools.PI
) -> Transcript:
    """A transcript of pi's messages."""
    return Transcript(messages(flat(*natives)), cwd=cwd, vocabulary=vocabulary)


def exchange(
    name: str = "read",
    arguments: Mapping[str, Any] | None = None,
    *content: str | Native,
    cwd: str | None = None,
) -> Exchange:
    """One exchange alone."""
    return transcript(used("c", name, arguments or {}, *content), cwd=cwd).exchanges[0]


def with_settings(data: Mapping[str, Any] | None = None) -> settings.Settings:
    """Settings from their JSON shape; every value has to be right."""
    parsed, problems = settings.parse(data or {})
    assert not problems, problems
    return parsed


NO_FLOOR: dict[str, Any] = {"thresholds": {"minCharsSaved": 0}, "protections": {"recentTurns": 0}}
"""Settings with neither a size floor nor recency."""


def engine(
    *natives: Native | Iterable[Native],
    data: Mapping[str, Any] | None = None,
    cwd: str | None = None,
    entries: Iterable[ledger.Entry] = (),
    **options: Any,
) -> Engine:
    """An engine over pi's messages; `data` are settings in JSON shape, by default without floor and recency.

    The recall reference of a result is `#` and its message's id.
    """
    rules = Rules(with_settings(NO_FLOOR if data is None else data))
    made = Engine(rules, lambda message, _: f"#{message}", cwd=cwd, **options)
    made.follow(ledger.fold(entries))
    made.extend(messages(flat(*natives)))
    return made


def proposed(made: Engine) -> list[tuple[str, str, str]]:
    """What an engine proposes now: strategy, kind and call of each."""
    return [(one.strategy, one.kind, one.call) for one in made.proposals]


def _blocks(content: Iterable[str | Native]) -> list[Native]:
    return [text(block) if isinstance(block, str) else block for block in content]


def lines_run(work: Callable[[], Any]) -> int:
    """How many lines of Python a piece of work runs: the same on every machine."""
    run = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal run
        run += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return run
