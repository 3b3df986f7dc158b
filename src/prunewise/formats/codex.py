"""Codex's rollouts (`~/.codex/sessions/Y/M/D/rollout-*.jsonl`), read as recordings.

Knows which lines went to the model, where an answer begins and ends, and what a compaction or a
rollback leaves. Items are read as the Responses API's. docs/explanation/readers.md has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from prunewise import outcomes, tools
from prunewise.errors import InputError
from prunewise.formats.jsonl import Lines, as_object, opening, stem, timestamp
from prunewise.formats.openai_responses import OPENAI_RESPONSES
from prunewise.formats.reading import Json, count, objects, string
from prunewise.recording import Ending, Epoch, LLMCall, Recording
from prunewise.stores.json_lines import Record
from prunewise.transcript import Image, Message, Part, Role, Text, ToolResult, Usage

NAME = "codex"
VOCABULARY = tools.CODEX
PROVIDER = "openai"
"""Where the rollout does not say."""

_ENVELOPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_OTHER_ENVELOPES = frozenset({"world_state", "inter_agent_communication"})
_NOT_SENT = frozenset({"ghost_snapshot"})
"""Items that stand in the history and are left out of requests."""
_NO_USER_TEXT = (
    "<environment_context>",
    "<user_instructions>",
    "<user_action>",
    "<user_shell_command>",
    "<turn_aborted>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<subagent_notification>",
    "<skill>",
    "<skills_instructions>",
    "<apps_instructions>",
    "<plugins_instructions>",
    "<model_switch>",
    "<personality_spec>",
    "<hook_prompt",
    "<goal_context>",
    "<codex_internal_context",
    "<recommended_plugins>",
    "<image",
    "</image>",
    "# AGENTS.md instructions for ",
    "Another language model started to solve this problem",
    "Warning: The maximum number of unified exec processes",
)
"""How texts begin that Codex writes in the user's name."""
_SUMMARY_PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking process."
)
_FAILURES = (
    "apply_patch verification failed",
    "failed in sandbox",
    "execution error:",
    "exec_command failed",
)


def detect(head: bytes) -> bool:
    """Whether a file that begins with these bytes (64 kB of it, or all) is a Codex rollout."""
    return any(_is_record(record) or _is_old_header(record) for record in opening(head))


def read_recording(source: str, data: bytes) -> Recording:
    """Read a rollout: everything it holds, with an epoch for each compaction and each rollback.

    Raises:
        InputError: there is no rollout in it, or one without messages.
    """
    lines = Lines(source, data, lambda record: _is_record(record) or "type" in record)
    reader = _Reader(lines)
    for number, record in lines:
        reader.take(number, record)
    epochs = reader.finished()
    if not epochs or not reader.known:
        what = f"{source}: no Codex rollout: no message in it that Codex would write"
        raise InputError(what)
    return Recording(
        format=NAME,
        source=source,
        session=reader.session or stem(source),
        epochs=epochs,
        vocabulary=VOCABULARY,
        cwd=reader.cwd,
        warnings=tuple(lines.warnings),
    )


def _is_record(record: Record) -> bool:
    return string(record.get("type")) in _ENVELOPES and isinstance(record.get("payload"), dict)


def _is_old_header(record: Record) -> bool:
    """The first line of the rollouts of 2025's first versions, whose items stand without an envelope."""
    if "type" in record:
        return False
    return type(record.get("id")) is str and "timestamp" in record and "instructions" in record


class _Answer:
    """An answer of the model while its items come in."""

    __slots__ = ("failed", "id", "model", "parts", "time", "usage")

    def __init__(self, id: str, model: str) -> None:
        self.id = id
        self.model = model
        self.parts: list[Part] = []
        self.usage: Usage | None = None
        self.time: float | None = None
        self.failed = False

    def message(self) -> Message:
        return Message("assistant", self.id, tuple(self.parts), self.usage, self.time, self.model)


class _Reader:
    """Makes epochs out of the lines of a rollout."""

    def __init__(self, lines: Lines) -> None:
        self.session = ""
        self.cwd: str | None = None
        self.known = False
        """Whether any line was one of a rollout."""
        self._lines = lines
        self._provider = PROVIDER
        self._model = ""
        self._epochs: list[Epoch] = []
        self._messages: list[Message | _Answer] = []
        self._open: _Answer | None = None
        """The answer that the next item of the model belongs to."""
        self._last: _Answer | None = None
        """The answer that the next usage belongs to."""
        self._total: Json = None

    def take(self, number: int, record: Record) -> None:
        """Take in the next line."""
        kind = string(record.get("type"))
        payload: Json = record.get("payload")
        time = timestamp(record.get("timestamp"))
        if kind in _ENVELOPES and isinstance(payload, dict):
            self.known = True
            self._enveloped(number, kind, cast("Record", payload), time)
        elif _is_old_header(record):
            self.known = True
            self._session(record)
        elif "record_type" in record or kind in _OTHER_ENVELOPES:
            return  # the host's state
        elif kind and "payload" not in record:
            self._item(f"line-{number}", record, time)
        else:
            self._lines.warn(number, f"a line of type {kind!r} is not known, left out")

    def finished(self) -> tuple[Epoch, ...]:
        """All epochs."""
        self._end("end")
        return tuple(self._epochs)

    def _enveloped(self, number: int, kind: str, payload: Record, time: float | None) -> None:
        if kind == "response_item":
            self._item(f"line-{number}", payload, time)
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            self._compacted(number, payload, time)
        elif kind == "session_meta":
            self._session(payload)
        else:
            self._model = string(payload.get("model")) or self._model

    def _session(self, fields: Record) -> None:
        """The first header counts: a fork carries the headers of the sessions before it behind its own."""
        if self.session:
            return
        self.session = string(fields.get("id"))
        self.cwd = string(fields.get("cwd")) or None
        self._provider = string(fields.get("model_provider")) or PROVIDER
        self._model = string(fields.get("model"))

    # ------------------------------------------------------------- items

    def _item(self, id: str, item: Record, time: float | None) -> None:
        kind = string(item.get("type"))
        if kind in _NOT_SENT:
            return
        message = OPENAI_RESPONSES.read(item, id)
        if message.role == "assistant" or kind.endswith("_call"):
            if self._open is None:
                self._open = self._last = _Answer(id, self._model)
                self._messages.append(self._open)
            self._open.parts += message.parts
            self._open.time = time or self._open.time
        elif message.parts:
            self._open = None
            self._messages.append(_named(message, time))

    # ------------------------------------------------------------- events

    def _event(self, payload: Record) -> None:
        kind = payload.get("type")
        if kind == "token_count":
            self._usage(as_object(payload.get("info")))
        elif kind == "turn_aborted":
            self._aborted()
        elif kind == "thread_rolled_back":
            self._rolled_back(count(payload.get("num_turns")))

    def _usage(self, info: Record) -> None:
        """The usage of the last answer. It is written again when only the account's limits changed."""
        total = info.get("total_token_usage")
        if total == self._total:
            return
        self._total = total
        usage = _usage(as_object(info.get("last_token_usage")))
        if usage is not None and self._last is not None and self._last.usage is None:
            self._last.usage = usage
            self._last = None

    def _aborted(self) -> None:
        """An answer that was cut off has no usage, and none of its calls has an output."""
        if self._open is not None and self._open.usage is None:
            self._open.failed = True
        self._open = self._last = None

    def _rolled_back(self, turns: int) -> None:
        """A new epoch without the last turns."""
        starts = [
            place
            for place, one in enumerate(self._messages)
            if isinstance(one, Message) and one.role == "user"
        ]
        if not turns or not starts:
            return
        kept = self._end("rewind")[: starts[max(len(starts) - turns, 0)]]
        self._messages += kept

    # ------------------------------------------------------------- epochs

    def _compacted(self, number: int, payload: Record, time: float | None) -> None:
        """A new epoch with what the host put in the place of the history."""
        messages = self._end("compaction")
        history: Json = payload.get("replacement_history")
        if isinstance(history, list):
            items = list(objects(cast("list[Json]", history)))
            self._messages += _replacement(f"line-{number}", items, time)
            return
        # Before the replacement was written: the instructions, the user's messages, and the summary.
        summary = Text(f"{_SUMMARY_PREFIX}\n{string(payload.get('message'))}")
        kept = [one for one in messages if one.role in ("system", "user")]
        self._messages += [*kept, Message("other", f"line-{number}", (summary,), None, time)]

    def _end(self, ended_by: Ending) -> tuple[Message, ...]:
        messages = tuple([one.message() if isinstance(one, _Answer) else one for one in self._messages])
        calls = tuple(
            [
                LLMCall(place, one.usage, one.time, one.model, self._provider, one.failed)
                for place, one in enumerate(self._messages)
                if isinstance(one, _Answer)
            ]
        )
        if messages:
            self._epochs.append(Epoch(messages, calls, ended_by))
        self._messages = []
        self._open = self._last = None
        return messages


def _replacement(id: str, items: Sequence[Record], time: float | None) -> list[Message]:
    """The messages of a replacement history. Its answers were given before, so none is an LLM call."""
    read = [
        _named(OPENAI_RESPONSES.read(item, f"{id}.{place}"), time)
        for place, item in enumerate(items)
        if string(item.get("type")) not in _NOT_SENT
    ]
    return [message for message in read if message.parts]


def _named(message: Message, time: float | None) -> Message:
    """The message with its time, its true role, and its results' errors."""
    parts = message.parts
    if message.role == "tool":
        parts = tuple([_with_error(part) for part in parts])
    return Message(_role(message), message.id, parts, message.usage, time, message.model)


def _role(message: Message) -> Role:
    if message.role != "user" or any(_is_users(part) for part in message.parts):
        return message.role
    return "other"


def _is_users(part: Part) -> bool:
    if isinstance(part, Image):
        return True
    return isinstance(part, Text) and not part.text.lstrip().startswith(_NO_USER_TEXT)


def _with_error(part: Part) -> Part:
    if isinstance(part, ToolResult) and not part.is_error and _failed(part.text):
        return msgspec.structs.replace(part, is_error=True)
    return part


def _failed(output: str) -> bool:
    """Whether the output says so: Codex sends no flag, but an exit code in a header or beside the output."""
    return output.startswith(_FAILURES) or outcomes.exit_code(output) not in (None, 0)


def _usage(fields: Record) -> Usage | None:
    """OpenAI counts what was read from the cache as input too; here it is not."""
    total_input = count(fields.get("input_tokens"))
    cached = min(count(fields.get("cached_input_tokens")), total_input)
    output = count(fields.get("output_tokens"))
    if not total_input and not output:
        return None
    return Usage(total_input - cached, output, cached, total=count(fields.get("total_tokens")) or None)
