"""The ordered messages of one branch of one conversation, as neutral, read-only values.

Knows messages, their parts, and which call belongs to which result. Knows nothing of where they
came from (formats), how large they are (tokens) or what may go (strategies, protections).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from prunewise import outcomes, tools

Role = Literal["system", "user", "assistant", "tool", "shell", "other"]
"""Who speaks. `tool` holds nothing but results; `shell` is a command the user ran in the host;
`other` is everything a host adds (summaries, notes of extensions). Only `user` starts a turn."""

ToolKind = Literal["tool_result_content", "tool_call_input"]
"""What of an exchange is replaced, as the ledger writes it."""

Kind = ToolKind | Literal["shell_output"]
"""What an edit replaces; the output of a user's shell command is masking's alone, and never in the ledger."""

TOOL_RESULT: Literal["tool_result_content"] = "tool_result_content"
TOOL_INPUT: Literal["tool_call_input"] = "tool_call_input"
SHELL_OUTPUT: Literal["shell_output"] = "shell_output"


class Text(msgspec.Struct, frozen=True, gc=False):
    """Text that the model reads."""

    text: str


class Thinking(msgspec.Struct, frozen=True, gc=False):
    """The model's reasoning. Never changed. `signature` binds it (and, for some models, its prefix)."""

    text: str
    signature: str | None = None


class Image(msgspec.Struct, frozen=True, gc=False):
    """An image, or another file, known only by its type and the length of its encoded data."""

    media_type: str
    """Empty where it is not told; of a file whose type is not told, what its host calls such a part."""
    data_length: int = 0

    @property
    def is_file(self) -> bool:
        """Whether it is told to be something other than an image."""
        return bool(self.media_type) and not self.media_type.startswith("image/")

    @property
    def label(self) -> str:
        """What stands for it where text alone is shown."""
        return f"[{'file' if self.is_file else 'image'}: {self.media_type}]"


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a tool by the model.

    `text` is the arguments as canonical JSON: compact, keys sorted at every depth, numbers as
    JavaScript writes them. Calls of one tool with equal `text` are equal calls.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    text: str


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What a tool gave back. `name` may be empty where the format does not repeat it."""

    call_id: str
    name: str
    content: tuple[Text | Image, ...]
    is_error: bool = False

    @property
    def has_text(self) -> bool:
        """Whether any text that is not white space is in it."""
        return any(type(part) is Text and not part.text.isspace() and part.text for part in self.content)

    @property
    def has_image(self) -> bool:
        """Whether any image or file is in it."""
        return any(type(part) is Image for part in self.content)

    @property
    def images(self) -> int:
        """How many images are in it."""
        return sum(isinstance(part, Image) and not part.is_file for part in self.content)

    @property
    def files(self) -> int:
        """How many other files are in it."""
        return sum(isinstance(part, Image) and part.is_file for part in self.content)

    @property
    def text(self) -> str:
        """Its text parts, joined by line feeds; images left out."""
        if len(self.content) == 1 and type(self.content[0]) is Text:
            return self.content[0].text
        return "\n".join(part.text for part in self.content if type(part) is Text)


class Shell(msgspec.Struct, frozen=True, gc=False):
    """A shell command that the user ran in the host, with its output (pi's `bashExecution`)."""

    command: str
    output: str
    exit_code: int | None = None
    sent: bool = True
    """False where the host keeps it from the model (pi's `excludeFromContext`)."""


class Opaque(msgspec.Struct, frozen=True, gc=False):
    """A part that the format does not know. It goes out as it came; `length` is its size in characters."""

    length: int = 0


Part = Text | Thinking | Image | ToolCall | ToolResult | Shell | Opaque

_MOST_TOKENS = 10**9
"""More than any LLM call has: a larger count is an error of whoever wrote it."""


def token_count(value: object) -> int:
    """A count of tokens as a program wrote it: a whole number, 0 for everything that cannot be a count
    (negative, not finite, larger than 10**9, not a number).
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS:
        return int(value)
    return 0


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What the provider counted for one LLM call, in tokens. `input` excludes the cache's share.

    Takes whatever a host or file says: each field is read as `token_count` does.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    """The share of `cache_write` that was written to live one hour."""
    total: int | None = None
    """The provider's own total, where it gives one."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            counted = token_count(value)
            if counted != value or type(value) is not int:
                msgspec.structs.force_setattr(self, name, counted)
        if not self.total:
            msgspec.structs.force_setattr(self, "total", None)

    @property
    def context_tokens(self) -> int:
        """The size of the context after this call: the total, else the four summed."""
        return self.total or self.input + self.output + self.cache_read + self.cache_write

    @property
    def is_long_lived(self) -> bool:
        """Whether most of what was written to the cache was written to live one hour."""
        return 2 * self.cache_write_1h >= self.cache_write > 0


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message: who speaks, an id of its own within the conversation, and its parts in order."""

    role: Role
    id: str
    parts: tuple[Part, ...]
    usage: Usage | None = None
    """On an assistant message that the provider completed; None on failed and aborted ones."""
    time: float | None = None
    """Seconds since the epoch, where known."""
    model: str = ""
    """The model that answered, on assistant messages; as the host names it."""
    warmed: float | None = None
    """On an assistant message: when, before its request, another one last kept the cache warm. Seconds since
    the epoch; None where none is known of."""

    def pause_after(self, answer: Message) -> float | None:
        """For how many seconds the cache had not been used, where `answer` is the one before; None where
        times are unknown.
        """
        if self.time is None or answer.time is None:
            return None
        return max(0.0, self.time - max(answer.time, self.warmed or answer.time))


class Exchange(msgspec.Struct, frozen=True, gc=False):
    """One tool call with its result: the unit of pruning. Positions count messages and parts from 0."""

    order: int
    """Call order: how many calls were made before this one."""
    call: ToolCall
    call_position: int
    call_part: int
    result: ToolResult
    result_position: int
    result_part: int
    call_turn: int
    result_turn: int
    reused_id: bool = False
    """True where an earlier exchange has the same call id. Such an exchange is never pruned: the
    ledger names exchanges by call id, and a decision must not reach another output than it was made for."""
    operation: tools.FileOperation | None = None
    """What it does to a file, where it is a file tool of the vocabulary and names a path."""
    refers_back: bool = False
    """True where its result only says that something is as it was read before: it stands for no content."""
    outcome: outcomes.Outcome = "succeeded"
    """How the call went, by its flag and by what its result says."""

    def position(self, kind: ToolKind) -> int:
        """The position of the message that changes when `kind` is replaced."""
        return self.call_position if kind == TOOL_INPUT else self.result_position

    def part(self, kind: ToolKind) -> int:
        """The part within that message."""
        return self.call_part if kind == TOOL_INPUT else self.result_part


class Transcript:
    """Messages and their index. Append-only: `extend` is for the one who reads the conversation in;
    to everyone else it is read-only. Shortening it makes a new one.

    Calls are paired with the first result after them that carries their id. Results without a call
    and calls without a result are in no exchange.
    """

    __slots__ = (
        "_by_id",
        "_calls",
        "_open",
        "calls_before",
        "cwd",
        "exchanges",
        "llm_calls",
        "messages",
        "model",
        "turns",
        "vocabulary",
    )

    def __init__(
        self,
        messages: Iterable[Message] = (),
        *,
        cwd: str | None = None,
        vocabulary: tools.Vocabulary = tools.PI,
    ) -> None:
        self.cwd = cwd
        self.vocabulary = vocabulary
        self.messages: list[Message] = []
        self.turns: list[int] = []
        """For each message its turn: how many user messages there are up to and with it."""
        self.calls_before: list[int] = []
        """For each message how many answers of the model there are before it."""
        self.exchanges: list[Exchange] = []
        """In the order of their results."""
        self.llm_calls = 0
        """How many answers of the model are in it. Messages of the model that follow each other are one
        answer: some formats have a message for each of its parts."""
        self.model = ""
        """The model that answered last, as its host names it; empty where no message says."""
        self._by_id: dict[str, Exchange] = {}
        self._open: dict[str, tuple[int, ToolCall, int, int, int]] = {}
        self._calls = 0
        self.extend(messages)

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def turn(self) -> int:
        """The current turn: how many user messages there are."""
        return self.turns[-1] if self.turns else 0

    @property
    def sent(self) -> int:
        """How many messages have been sent: all before the last answer, failed or not, and that answer."""
        return self._up_to_last(lambda message: message.role == "assistant")

    @property
    def seen(self) -> int:
        """How many messages the model has surely had in full: as `sent`, but by the last answer that has
        content or usage. An empty one may stand for a request that never reached the model.
        """
        return self._up_to_last(
            lambda message: message.role == "assistant" and bool(message.parts or message.usage)
        )

    def _up_to_last(self, is_meant: Callable[[Message], bool]) -> int:
        """How many messages there are up to the last one that is meant; 0 where none is."""
        for position in range(len(self.messages) - 1, -1, -1):
            if is_meant(self.messages[position]):
                return position + 1
        return 0

    @property
    def state(self) -> Literal["idle", "mid_loop"]:
        """`idle` when the last user, assistant or tool-result message is the user's, or there is none."""
        for message in reversed(self.messages):
            if message.role == "user":
                return "idle"
            if message.role in ("assistant", "tool"):
                return "mid_loop"
        return "idle"

    def exchange(self, call_id: str) -> Exchange | None:
        """The exchange with this call id (the first, where an id is used twice), or None."""
        return self._by_id.get(call_id)

    def extend(self, messages: Iterable[Message]) -> None:
        """Append messages and index what they complete."""
        turn, turns, opened = self.turn, self.turns, self._open
        before = self.messages[-1].role if self.messages else ""
        for position, message in enumerate(messages, start=len(self.messages)):
            role = message.role
            self.messages.append(message)
            self.calls_before.append(self.llm_calls)
            if role == "assistant":
                if before != "assistant":
                    self.llm_calls += 1
                self.model = message.model or self.model
                for index, part in enumerate(message.parts):
                    if type(part) is ToolCall:
                        opened[part.id] = (self._calls, part, position, index, turn)
                        self._calls += 1
            elif role == "tool" or role == "user":
                if role == "user":
                    turn += 1
                for index, part in enumerate(message.parts):
                    if type(part) is ToolResult:
                        self._complete(part, position, index, turn)
            turns.append(turn)
            before = role

    def _complete(self, result: ToolResult, position: int, index: int, turn: int) -> None:
        opened = self._open.pop(result.call_id, None)
        if opened is None:
            return
        order, call, call_position, call_part, call_turn = opened
        text, vocabulary = result.text, self.vocabulary
        stubs = vocabulary.unchanged_stubs
        refers_back = bool(stubs) and text.startswith(stubs)
        operation = None
        if not refers_back:
            operation = tools.file_operation(vocabulary, call.name, call.arguments, self.cwd)
        outcome = outcomes.outcome(
            text,
            is_error=result.is_error,
            flagged=vocabulary.flags_errors,
            changed=operation.path if operation is not None and operation.action != "read" else "",
        )
        reused = call.id in self._by_id
        exchange = Exchange(
            order,
            call,
            call_position,
            call_part,
            result,
            position,
            index,
            call_turn,
            turn,
            reused,
            operation,
            refers_back,
            outcome,
        )
        self.exchanges.append(exchange)
        if not reused:
            self._by_id[call.id] = exchange


class ReplacePart(msgspec.Struct, frozen=True):
    """An edit: this part of this message goes out as `text` instead.

    For a result or a shell output, `text` stands for its whole content (for a result with
    `keep_images`, for its text parts, and the images stay behind it). For a call's input, the input
    becomes a JSON object that holds `text` and nothing else.
    """

    message: str
    """The message's id."""
    position: int
    part: int
    kind: Kind
    text: str
    keep_images: bool = False


Edit = ReplacePart
