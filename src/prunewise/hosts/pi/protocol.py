"""What the extension and its engine process say to each other: JSON-RPC 2.0, one object a line.

Methods, all of them asked by the extension: `hello` (once, first), `context` (before a request),
`compaction` (may it be left out?), `command` and `answer` (a dialog, step by step), `recall`. What the
extension has not got an answer to in time it does without.

The conversation goes over as a difference. Each answer to a `View` carries a token that stands for the
messages that the engine now holds; the next view names it as its base, with how many messages from the
start are still as they were. Where the base is not what the engine holds, it answers `resync`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from prunewise.hosts.pi.prices import Model
from prunewise.wording import visible

VERSION = 1
"""Of the protocol; an extension and an engine of different versions do not work together."""

WRONG_VERSION = -32001
"""The JSON-RPC error code for that."""
FAILED = -32000
"""Something went wrong in a way that the message tells."""

Native = dict[str, Any]
Level = Literal["info", "warning", "error"]
"""How pi shows a notification."""


class Halves(Struct, frozen=True):
    """Which half is on where no settings file says so; decided when the extension was installed."""

    strategies: bool = True
    masking: bool = True


class Carried(Struct, frozen=True):
    """What outlives an engine process within a session: the extension keeps it and hands it back."""

    engaged: bool = False
    announced: bool = False
    unsaved: dict[str, Any] = {}
    """Settings that were made and could not be written."""


class Hello(Struct, frozen=True, rename="camel"):
    """Who asks, and about which session."""

    protocol: int
    cwd: str
    header: Native
    """The session's header entry."""
    session_file: str | None = None
    """None for a session that is kept in memory only."""
    leaf: str | None = None
    trusted: bool = False
    """Whether the project's own settings count."""
    asked: Model | None = None
    """The model that pi has chosen."""
    halves: Halves = Halves()
    carried: Carried = Carried()


class Welcome(Struct, frozen=True):
    """The answer to `hello`. `completions` are the arguments of each command."""

    protocol: int
    version: str
    """Of the engine's package."""
    completions: dict[str, list[str]]


class Seen(Struct, frozen=True, array_like=True):
    """One message: `id` is that of the entry it comes from, where there is one.

    Without `message` its content is what the entry holds.
    """

    id: str | None
    message: Native | None = None


class View(Struct, frozen=True):
    """The conversation as pi is about to send it, as a difference to what the engine holds."""

    base: int | None = None
    """The token of the answer that it builds on; None where everything comes anew."""
    keep: int = 0
    """How many messages from the start are as they were."""
    leaf: str | None = None
    messages: list[Seen] = []
    """Those that follow."""
    entries: list[msgspec.Raw] = []
    """New entries of a session that is kept in memory only."""
    window: int | None = None
    """The model's, in tokens; None where pi does not know it, and so does not compact."""
    reserve: int | None = None
    """What pi keeps free of it."""
    asked: Model | None = None
    """The model that is to answer."""
    tools: str | None = None
    """The names of the tools that it is offered, with spaces between; None where they are not told."""
    compacted: bool = False
    """Whether a compaction has run since the last view that was answered."""
    applied: int | None = None
    """The token of the answer whose edits the last request with edits of this engine went out with."""
    whole: list[str] = []
    """The requests that have gone out without edits since, by the ids of their last messages."""
    unwritten: str | None = None
    """Why the entries of the last answer could not be added to the session: then this is about the same
    request again, and nothing new can be pruned in it."""


class PartEdit(Struct, frozen=True, array_like=True):
    """What one part of a message becomes. `value` is a text, for `tool_call_input` an object."""

    part: int
    kind: Literal["tool_result_content", "tool_call_input", "shell_output"]
    value: str | dict[str, Any]
    keep_images: bool


class MessageEdits(Struct, frozen=True, array_like=True):
    """All edits of the message at a position; none where it goes out as it is again."""

    position: int
    parts: list[PartEdit]


class Custom(Struct, frozen=True, rename="camel"):
    """An entry for the session, in the shape of the ledger's."""

    custom_type: str
    data: dict[str, Any]


def _safe(shown: Struct, *fields: str) -> None:
    """Make texts that are shown harmless: they may hold what a session, a path or an error says."""
    for field in fields:
        msgspec.structs.force_setattr(shown, field, visible(getattr(shown, field)))


class Note(Struct, frozen=True):
    """Something to tell the user, once a session for each `key`."""

    key: str
    text: str
    level: Level = "info"

    def __post_init__(self) -> None:
        """Show no text that a terminal would obey."""
        _safe(self, "text")


class Answer(Struct, frozen=True, omit_defaults=True):
    """The answer to whatever came with a view."""

    token: int | None = None
    resync: Literal["keys", "contents"] | None = None
    """Ask again with everything; `contents`: with the messages themselves too. Nothing else holds then."""
    edits: list[MessageEdits] = []
    """What has changed since the extension was last told."""
    entries: list[Custom] = []
    """To be added to the session before any of these edits is applied."""
    notes: list[Note] = []
    status: str | None = None
    """The footer's text; None for none."""
    carried: Carried | None = None
    cancel: bool = False
    """Of `compaction`: whether it can be left out."""
    dialog: int | None = None
    """Of `command` and `answer`: the dialog that goes on with `action`; None where it is over."""
    action: Say | Select | Confirm | Input | Append | None = None


class ViewParams(Struct, frozen=True):
    """The parameters of `context` and `compaction`."""

    view: View


class CommandParams(Struct, frozen=True):
    """The parameters of `command`. `usage` is pi's own estimate of the context."""

    view: View
    name: str
    args: str = ""
    ui: bool = False
    usage: dict[str, Any] | None = None


class AnswerParams(Struct, frozen=True):
    """The parameters of `answer`: what the action came to."""

    dialog: int
    value: Any = None


class RecallParams(Struct, frozen=True):
    """The parameters of `recall`; `entries` are all new ones of a session in memory."""

    ref: str
    entries: list[msgspec.Raw] = []


class Recalled(Struct, frozen=True):
    """The answer to `recall`, as a tool result's content."""

    content: list[Any]


# ---------------------------------------------------------------- the actions of a dialog


class Say(Struct, frozen=True, tag="say"):
    """Tell the user something."""

    text: str
    level: Level = "info"

    def __post_init__(self) -> None:
        """Show no text that a terminal would obey."""
        _safe(self, "text")


class Select(Struct, frozen=True, tag="select"):
    """Let the user pick; the answer is one of the options, or null."""

    title: str
    options: list[str]


class Confirm(Struct, frozen=True, tag="confirm"):
    """Ask yes or no; the answer is true or false."""

    title: str
    message: str

    def __post_init__(self) -> None:
        """Show no text that a terminal would obey."""
        _safe(self, "title", "message")


class Input(Struct, frozen=True, tag="input"):
    """Ask for a text; the answer is that, or null."""

    title: str
    placeholder: str


class Append(Struct, frozen=True, tag="append"):
    """Add entries to the session; the answer is null, or why it failed."""

    entries: list[Custom]


Action = Say | Select | Confirm | Input | Append


# ---------------------------------------------------------------- the envelope


class Request(Struct, frozen=True):
    """One line to the engine."""

    method: str
    id: int | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


class Error(Struct, frozen=True):
    """Why there is no result."""

    code: int
    message: str


class Response(Struct, frozen=True, omit_defaults=True):
    """One line from the engine."""

    id: int | None
    result: Any = None
    error: Error | None = None
    jsonrpc: str = msgspec.field(default_factory=lambda: "2.0")
