"""Codex's rollouts (`~/.codex/sessions/Y/M/D/rollout-*.jsonl`), read as recordings.

Knows which lines went to the model, where an answer begins and ends, and what a compaction or a
rollback leaves. Items are read as the Responses API's. docs/explanation/readers.md has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from uuid import UUID

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

_ENVELOPES = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "token_usage_record"}
)
_OTHER_ENVELOPES = frozenset({"world_state", "inter_agent_communication"})
_NOT_SENT = frozenset({"ghost_snapshot"})
"""Items that stand in the history and are left out of requests."""
_NO_USER_TEXT = (
    "<environment_context>",
    "<ENVIRONMENT_CONTEXT>",
    "<network_access>",
    "<realtime_conversation>",
    "<subagent_context>",
    "<memories>",
    "<user_editable_memory>",
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
_SPEEDS = {"fast": "priority", "priority": "priority", "flex": "flex", "default": "", "standard": ""}
"""What Codex calls the service tiers, and what OpenAI does."""
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
        copied=reader.copied,
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

    __slots__ = ("beside", "copied", "failed", "id", "model", "parts", "speed", "time", "usage")

    def __init__(self, id: str, model: str, speed: str, *, copied: bool) -> None:
        self.id = id
        self.model = model
        self.speed = speed
        self.copied = copied
        """Whether it was made in the parent's rollout, whose history this one begins with."""
        self.beside: list[Usage] = []
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
        self._speed = ""
        self._epochs: list[Epoch] = []
        self._messages: list[Message | _Answer] = []
        self._open: _Answer | None = None
        """The answer that the next item of the model belongs to."""
        self._last: _Answer | None = None
        """The answer that the next usage belongs to."""
        self._total: Record = {}
        self._source = ""
        """Which kind of line told the last usage: newer versions tell each usage by two."""
        self._counted: Usage | None = None
        self._spare: list[Usage] = []
        """Usages that belong to no answer."""
        self._prompts: set[str] = set()
        """What the user typed, where Codex says so."""
        self._started = 0.0
        self._is_subagent = False
        self._copying = False
        """Whether the lines are the parent's, which the rollout of a subagent begins with."""
        self._in_turn = False
        """Whether a turn has begun and not ended."""
        self.copied = 0
        """How many answers are the parent's."""

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
        last = next((one for one in reversed(self._messages) if isinstance(one, _Answer)), None)
        if last is not None:
            last.beside += self._spare
        self._end("end")
        if not self._prompts:
            return tuple(self._epochs)
        return tuple([self._with_prompts(epoch) for epoch in self._epochs])

    def _with_prompts(self, epoch: Epoch) -> Epoch:
        """The epoch with tagged texts as the host's, but for those that the user typed."""
        messages = [_by_prompts(message, self._prompts) for message in epoch.messages]
        return msgspec.structs.replace(epoch, messages=tuple(messages))

    def _enveloped(self, number: int, kind: str, payload: Record, time: float | None) -> None:
        if kind == "response_item":
            self._item(f"line-{number}", payload, time)
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            self._compacted(number, payload, time)
        elif kind == "session_meta":
            self._session(payload)
        elif kind == "token_usage_record":
            self._record(payload)
        else:
            self._model = string(payload.get("model")) or self._model
            self._speed = _SPEEDS.get(string(payload.get("service_tier")), self._speed)

    def _session(self, fields: Record) -> None:
        """The first header counts: a fork carries the headers of the sessions before it behind its own.

        What follows another's header in the rollout of a subagent is a copy, up to its own first turn.
        """
        if self.session:
            self._copying |= self._is_subagent and string(fields.get("id")) != self.session
            return
        self.session = string(fields.get("id"))
        self._started = _uuid_time(self.session)
        self._is_subagent = "subagent" in as_object(fields.get("source")) or bool(
            string(fields.get("parent_thread_id")) or fields.get("thread_source") == "subagent"
        )
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
                self._open = self._last = _Answer(id, self._model, self._speed, copied=self._copying)
                self._open.beside, self._spare = self._spare, []
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
            self._token_count(as_object(payload.get("info")))
        elif kind == "turn_aborted":
            self._in_turn = False
            self._aborted()
        elif kind == "task_complete":
            self._in_turn = False
        elif kind == "task_started":
            self._turn(string(payload.get("turn_id")))
        elif kind == "user_message":
            self._prompts.add(string(payload.get("message")).strip())
        elif kind == "thread_settings_applied":
            told = string(as_object(payload.get("thread_settings")).get("service_tier"))
            self._speed = _SPEEDS.get(told, self._speed)
        elif kind == "thread_rolled_back":
            self._rolled_back(count(payload.get("num_turns")))

    def _turn(self, id: str) -> None:
        """A turn begins. The first of a subagent's own ends the copy: its id is newer than the session's,
        or, where ids tell no time, the copied turn before it, in which the parent called, has no end.
        """
        begun = _uuid_time(id)
        if begun >= self._started if begun and self._started else self._in_turn:
            self._begin_own()
        self._in_turn = True

    def _begin_own(self) -> None:
        if self._copying:
            self._copying = self._is_subagent = False
            self._open = self._last = None
            self._spare = []

    def _token_count(self, info: Record) -> None:
        """The usage of the last answer. It is written again when only the account's limits changed."""
        total = as_object(info.get("total_token_usage"))
        if total == self._total:
            return
        before, self._total = self._total, total
        last: Json = info.get("last_token_usage")
        self._usage(
            _usage(as_object(last) if last is not None else _difference(total, before)), "token_count"
        )

    def _record(self, payload: Record) -> None:
        """The same for each request, in newer versions."""
        if self._copying and string(payload.get("thread_id")) == self.session:
            own, self._copying, self._is_subagent = self._last, False, False
            if own is not None:
                own.copied = False
        self._usage(_usage(as_object(payload.get("usage"))), "token_usage_record")

    def _usage(self, usage: Usage | None, source: str) -> None:
        told, self._source = self._source, source
        if usage is None or (usage == self._counted and told != source):
            self._counted = None
            return
        self._counted = usage
        if self._last is not None and self._last.usage is None:
            self._last.usage = usage
            self._last = self._open = None  # what the model says next is another answer
        elif not self._copying:
            self._spare.append(usage)

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
        spare, self._spare = self._spare, []
        messages = self._end("compaction", [self._call(len(self._messages), time, one) for one in spare])
        history: Json = payload.get("replacement_history")
        if isinstance(history, list):
            items = list(objects(cast("list[Json]", history)))
            self._messages += _replacement(f"line-{number}", items, time)
            return
        # Before the replacement was written: the instructions, the user's messages, and the summary.
        summary = Text(f"{_SUMMARY_PREFIX}\n{string(payload.get('message'))}")
        kept = [one for one in messages if one.role in ("system", "user")]
        self._messages += [*kept, Message("other", f"line-{number}", (summary,), None, time)]

    def _call(self, position: int, time: float | None, usage: Usage) -> LLMCall:
        """A call whose answer is no message: the summary of a compaction."""
        return LLMCall(position, usage, time, self._model, self._provider, speed=self._speed)

    def _end(self, ended_by: Ending, more: Sequence[LLMCall] = ()) -> tuple[Message, ...]:
        messages = tuple([one.message() if isinstance(one, _Answer) else one for one in self._messages])
        answers = [(place, one) for place, one in enumerate(self._messages) if isinstance(one, _Answer)]
        calls = [
            LLMCall(
                place,
                one.usage,
                one.time,
                one.model,
                self._provider,
                one.failed,
                beside=tuple(one.beside),
                speed=one.speed,
            )
            for place, one in answers
            if not one.copied
        ]
        self.copied += len(answers) - len(calls)
        if messages:
            self._epochs.append(Epoch(messages, (*calls, *more), ended_by))
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


def _by_prompts(message: Message, prompts: set[str]) -> Message:
    """The message as the host's where it is one tagged text that the user did not type."""
    if message.role != "user" or len(message.parts) != 1:
        return message
    text = message.parts[0].text.strip() if isinstance(message.parts[0], Text) else ""
    if not text.startswith("<") or text in prompts:
        return message
    return msgspec.structs.replace(message, role="other")


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
    """OpenAI counts what was read from the cache, or written to it, as input too; here it is not."""
    total_input = count(fields.get("input_tokens"))
    cached = min(count(fields.get("cached_input_tokens")), total_input)
    output = count(fields.get("output_tokens"))
    if not total_input and not output:
        return None
    written = min(count(fields.get("cache_write_input_tokens")), total_input - cached)
    total = count(fields.get("total_tokens")) or None
    return Usage(total_input - cached - written, output, cached, written, total=total)


_COUNTS = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens", "total_tokens")


def _difference(total: Record, before: Record) -> Record:
    """What was counted between two running totals; all of the later one where the counter began anew."""
    grown = {key: count(total.get(key)) - count(before.get(key)) for key in _COUNTS}
    return total if min(grown.values()) < 0 else cast("Record", grown)


def _uuid_time(id: str) -> float:
    """The milliseconds that a UUID of version 7 begins with; 0 of any other id."""
    try:
        uuid = UUID(id)
    except ValueError:
        return 0.0
    return float(uuid.int >> 80) if uuid.version == 7 else 0.0  # noqa: PLR2004
