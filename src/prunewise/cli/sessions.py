"""A session and the settings that hold for it, as every command needs them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from prunewise import ledger
from prunewise.cli.console import warn
from prunewise.errors import InputError
from prunewise.formats.detect import HEAD, KeptSessions, detect
from prunewise.pruner import Policy, Pruner
from prunewise.settings import PolicyName
from prunewise.stores import Original, Writes
from prunewise.stores.pi_session import ContextMessage, PiSession
from prunewise.stores.settings_files import Loaded, load, load_file
from prunewise.tools import PI
from prunewise.transcript import Exchange

_SYSTEM = ":system"


class Branch:
    """One branch of a pi session as a store: what the ledger held when its last entry was written."""

    def __init__(self, session: PiSession, leaf: str | None) -> None:
        """`leaf` is the id of the branch's last entry; None for a branch without any."""
        self.session = session
        self.leaf = leaf
        self.conversation = session.conversation

    def reference(self, message: str, call_id: str) -> str | None:
        """The session's recall reference."""
        return self.session.reference(message, call_id)

    def ledger(self) -> Sequence[ledger.Entry]:
        """The ledger's entries on this branch, oldest first."""
        return [] if self.leaf is None else self.session.ledger(self.leaf)

    def commit(self, writes: Writes) -> None:
        """Add the entries to the file, where this branch is still where the session stands; the file holds
        every output.
        """
        if writes.entries:
            self.session.append(writes.entries, leaf=self.leaf)
            self.leaf = self.session.leaf

    def original(self, reference: str) -> Original:
        """The output that a reference leads to."""
        return self.session.original(reference)


class Conversation(msgspec.Struct, frozen=True):
    """One branch of a session, up to some message of it, and what it is to be pruned by."""

    path: Path
    session: PiSession
    branch: Branch
    messages: Sequence[ContextMessage]
    """What would be sent."""
    of: int
    """How many messages the whole branch has."""
    cwd: str | None
    loaded: Loaded
    settings: Path | None = None
    """The file that the settings were asked for in."""
    given_cwd: Path | None = None
    """The working directory that was asked for."""

    @property
    def natives(self) -> list[dict[str, object]]:
        """The messages as pi has them."""
        return [message.message for message in self.messages]

    @property
    def ids(self) -> list[str]:
        """The ids of the messages."""
        return [message.id for message in self.messages]

    def pruner(self) -> Pruner:
        """The engine over it, which has read its messages."""
        pruner = Pruner("pi", Policy(self.loaded.settings), self.branch, cwd=self.cwd)
        pruner.read(self.natives, ids=self.ids)
        return pruner

    def warn(self) -> None:
        """Say what is wrong with the settings and the file. The ledger has to be read before."""
        warn([*self.loaded.warnings, *self.session.warnings])


def newest_first(kept: Iterable[KeptSessions]) -> list[Path]:
    """The sessions of pi's among those that agents keep, the one that was written to last first."""
    files = [file for one in kept if one.agent == "pi" for file in one.files]
    return sorted(files, key=_changed, reverse=True)


def _changed(file: Path) -> float:
    with suppress(OSError):  # it may have gone since
        return file.stat().st_mtime
    return 0


def opened(path: Path) -> PiSession:
    """A pi session by its path.

    Raises:
        InputError: it is none; where another agent wrote it, with what can be done.
    """
    try:
        return PiSession.open(path)
    except InputError as error:
        with suppress(OSError, ValueError):
            if path.is_file():
                with path.open("rb") as file:
                    agent = detect(file.read(HEAD))
                if agent not in (None, "pi"):
                    message = f"{error}; it is one of {agent}, which `prunewise benchmark` reads"
                    raise InputError(message) from None
        raise


def converse(
    path: Path,
    *,
    leaf: str | None = None,
    settings: Path | None = None,
    cwd: Path | None = None,
    policy: PolicyName | None = None,
) -> Conversation:
    """Open a session, and the settings that were named, or else those that pi would read; under the policy
    that was named, if any.

    Raises:
        InputError: it is not a pi session, or has no such leaf.
        SettingsError: the settings were named, and cannot be read.
    """
    loaded = None if settings is None else load_file(settings)
    session = opened(path)
    place = session.cwd if cwd is None else os.path.abspath(cwd)  # noqa: PTH100 - links stay as they are named
    if leaf is None:
        leaf = session.leaf
    if loaded is None:
        loaded = load(place, model=_model(session, leaf))
    if policy is not None:
        named = msgspec.structs.replace(loaded.settings, policy=policy)
        loaded = msgspec.structs.replace(loaded, settings=named)
    messages = session.context(leaf)
    branch = Branch(session, leaf)
    return Conversation(path, session, branch, messages, len(messages), place, loaded, settings, cwd)


def until(conversation: Conversation, count: int) -> Conversation:
    """The conversation when its first `count` messages were about to be sent, and nothing was said since."""
    if count >= len(conversation.messages):
        return conversation
    session = conversation.session
    first_left_out = conversation.messages[count].id.removesuffix(_SYSTEM)
    before: str | None = None
    for entry in session.branch(conversation.branch.leaf):
        if entry.id == first_left_out:
            break
        before = entry.id
    return msgspec.structs.replace(
        conversation, branch=Branch(session, before), messages=conversation.messages[:count]
    )


def _model(session: PiSession, leaf: str | None) -> str | None:
    """The model that the branch ends with, as `provider/id`."""
    if leaf is None:
        return None
    for entry in reversed(session.branch(leaf)):
        raw = entry.raw
        if entry.type == "model_change":
            found = raw.get("provider"), raw.get("modelId")
        elif entry.type == "message" and isinstance(raw.get("message"), dict):
            found = raw["message"].get("provider"), raw["message"].get("model")
        else:
            continue
        if all(isinstance(one, str) and one for one in found):
            return f"{found[0]}/{found[1]}"
    return None


def digest(exchange: Exchange, cwd: str | None) -> str:
    """What a call was about, in a few words: the file and lines, the command, or the arguments."""
    call, operation = exchange.call, exchange.operation
    if operation is not None:
        path = relative(operation.path, cwd)
        if operation.action != "read" or (operation.first == 1 and operation.last == float("inf")):
            return path
        last = "" if operation.last == float("inf") else f"{operation.last:g}"
        return f"{path}:{operation.first:g}-{last}"
    command = call.arguments.get(PI.command)
    if call.name.lower() in PI.shell and isinstance(command, str):
        return " ".join(command.split())
    values = list(call.arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return call.text


def relative(path: str, cwd: str | None) -> str:
    """A path as it is seen from the working directory, where it is below that."""
    below = None if cwd is None else f"{cwd.rstrip('/')}/"
    return path.removeprefix(below) if below else path
