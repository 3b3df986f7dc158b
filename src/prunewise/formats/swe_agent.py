"""SWE-agent's trajectories (`.traj`), read as recordings.

Knows its steps: a thought, an action that is a line of text for a shell, and an observation. Each
step becomes one call of a tool `bash` with its result. Demonstrations in the history are somebody
else's steps: they are sent, and are no calls. Tokens are counted per run alone, so no call has usage.
"""

from __future__ import annotations

import re

from prunewise import tools
from prunewise.errors import InputError
from prunewise.formats.documents import Epochs, decode, outline
from prunewise.formats.jsonl import stem
from prunewise.formats.openai_chat import OPENAI_CHAT
from prunewise.formats.reading import Json, call, decoded, fields, items, objects, string
from prunewise.recording import Recording
from prunewise.transcript import Message, Part, Text, ToolResult

NAME = "swe-agent"
VOCABULARY = tools.SWE_AGENT
TOOL = "bash"

_Record = dict[str, Json]

_FAILURES_AT_START = (
    "Traceback (most recent",
    "Your proposed edit has introduced new syntax error",
    "bash: ",
    "Error:",
    "Error ",
)
_FAILURES = re.compile(
    r"^(?:[^\s:]+: )+(?:.*(?:No such file|command not found))|Traceback \(most recent|"
    + _FAILURES_AT_START[1],
    re.MULTILINE,
)
_FAILURE_REACH = 400
"""Within so many characters an observation says that it failed; further down it is output."""


def detect(head: bytes) -> bool:
    """Whether a file that begins with these bytes (64 kB of it, or all) is a trajectory of SWE-agent."""
    keys = outline(head)
    return ("trajectory", "[]", "observation") in keys or ("history", "[]", "agent") in keys


def read_recording(source: str, data: bytes) -> Recording:
    """Read a trajectory: one epoch, an LLM call for each step.

    Raises:
        InputError: it is none.
    """
    document = fields(decode(source, data)) or {}
    steps = items(document.get("trajectory"))
    if steps is None:
        msg = f"{source}: no SWE-agent trajectory: no `trajectory` in it"
        raise InputError(msg)
    epochs = Epochs()
    epochs.add(_opening(items(document.get("history")) or []))
    for number, step in enumerate(objects(steps), start=1):
        epochs.call()
        epochs.add(_step(number, step))
    return Recording(
        format=NAME,
        source=source,
        session=stem(source),
        epochs=epochs.finished(),
        vocabulary=VOCABULARY,
        cwd=_folder(steps),
    )


def _opening(history: list[Json]) -> list[Message]:
    """What was sent before the first step: the prompts, and demonstrations."""
    messages: list[Message] = []
    for index, entry in enumerate(history, start=1):
        found = fields(entry) or {}
        demonstration = bool(found.get("is_demo"))
        if found.get("role") == "assistant" and not demonstration:
            break
        read = OPENAI_CHAT.read(found, f"history-{index}")
        if demonstration or read.role not in ("system", "user"):
            read = Message("other", read.id, read.parts)
        messages.append(read)
    return messages


def _step(number: int, step: _Record) -> list[Message]:
    """The answer, and what came of it."""
    name = f"step-{number}"
    thought, action = string(step.get("thought")), string(step.get("action"))
    observation = step.get("observation")
    parts: list[Part] = [Text(thought)] if thought else []
    parts.append(call(name, TOOL, {"command": action}))
    shown = (Text(observation),) if type(observation) is str else ()
    result = ToolResult(name, TOOL, shown, _failed(string(observation)))
    return [Message("assistant", name, tuple(parts)), Message("tool", f"{name}:result", (result,))]


def _failed(observation: str) -> bool:
    """Whether an observation tells of a failure. There is no flag for it, only what the tools print."""
    beginning = observation[:_FAILURE_REACH]
    return beginning.startswith(_FAILURES_AT_START) or _FAILURES.search(beginning) is not None


def _folder(steps: list[Json]) -> str | None:
    """The working directory of the first step that says it."""
    for step in objects(steps):
        folder = string((decoded(step.get("state")) or {}).get("working_dir"))
        if folder.startswith("/"):
            return folder
    return None
