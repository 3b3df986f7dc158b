"""Which conversation a request belongs to, by the chain of its messages.

Clients resend the whole history with each request, and many say nowhere which conversation it is. So
each message is hashed together with the hash of the one before it: two requests share the hash of a
message exactly where they agree in that message and all before it. Requests that have a beginning in
common share its hashes, and with them whatever is recorded under these: a fork, a rewind, a resumed
session and a second agent with the same task need no code of their own.

The first hash is over the protocol, the account, and what the provider holds in front of the messages
(a `previous_response_id`). The fixed prefix (model, system, tools) is not in it: clients ask for a
compaction without the tools, or change the model in the middle, and what is recorded of the messages is
still true there. It decides only whether a request goes on with a conversation. Two agents that got the
same task with other tools are two conversations from the first request on.

Knows no headers, no store and no clock. A request without any match is a new conversation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Literal, Protocol, cast

import msgspec

from prunewise.canonical import canonical
from prunewise.errors import InputError
from prunewise.formats import Format
from prunewise.formats.reading import plain

_NEAREST = 8
"""How many messages at the end of the unknown part are looked up at once; before them, ever fewer. An
LLM call adds two to four, or a few more where tools are called in parallel."""


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the hashes of its messages. All hashes are 32 bytes."""

    root: bytes
    """Over what stands in front of the messages and is no part of the fixed prefix."""
    nodes: tuple[bytes, ...]
    """One a message, at least one: over the message and all before it."""
    fixed: bytes
    """Over the fixed prefix."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A message in its place, as it is recorded."""

    hash: bytes
    parent: bytes
    """The hash of the message before it, or the chain's root."""
    position: int
    """From 0."""
    conversation: str
    """The conversation that sent it first."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is on record of a message."""

    conversation: str
    """The conversation that sent it first."""
    ends: Mapping[bytes, str]
    """The conversations whose latest request ends with it, by the hash of their fixed prefix."""


Lookup = Generator[Sequence[bytes], Mapping[bytes, Known], "Recognised"]
"""Asks for hashes, wants what is on record of them (those that are not known left out), and returns the
answer. Whoever has the records drives it, waiting in whatever way is its own."""


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a request is known, and from where."""

    known: int = 0
    """How many of its messages, from the first one on."""
    conversation: str | None = None
    """The one that it goes on with: known to its end, and under the same fixed prefix."""
    origin: str | None = None
    """The one that sent the last known message first."""

    @property
    def kind(self) -> Literal["extend", "fork", "new"]:
        """Whether it goes on with a conversation, leaves one before its end or under another fixed prefix,
        or has nothing in common with any.
        """
        if self.conversation is not None:
            return "extend"
        return "fork" if self.known else "new"


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What a request adds to the record, to be written as one."""

    conversation: str
    nodes: tuple[Node, ...]
    """The messages that were not known, in order."""
    begin: bytes | None
    """The message that it ended with so far; None where it is new."""
    end: bytes
    """The message that it ends with now."""
    fixed: bytes


class Index(Protocol):
    """The record of messages and of where conversations end."""

    def known(self, hashes: Sequence[bytes]) -> Mapping[bytes, Known]:
        """What is on record of these; those that are not are left out."""
        ...

    def grow(self, growth: Growth) -> bool:
        """Write all of it, or nothing and return False: where the conversation no longer ends at `begin`,
        or another one ends at `end` under the same fixed prefix. The request is then recognised anew.

        A message that is known stays as it is. Whoever forgets messages forgets the last ones first.
        """
        ...


def root(protocol: str, account: str, held: Any) -> bytes:
    """The hash that a chain begins with.

    Args:
        protocol: the format's name.
        account: who pays for it upstream; a hash where that is a secret.
        held: what the provider holds and puts in front of the messages, as JSON; empty for nothing.
    """
    return hashlib.sha256(_encoded([protocol, account, held])).digest()


def hashes(format: Format, parent: bytes, request: Any) -> tuple[bytes, ...]:
    """One hash for each message of a request, the first following on `parent`: equal for all shapes of
    equal messages.

    Raises:
        InputError: there is no list of messages in it.
    """
    found: list[bytes] = []
    for message in format.normalised(request):
        digest = hashlib.sha256(parent)
        digest.update(_encoded(message))
        parent = digest.digest()
        found.append(parent)
    return tuple(found)


def _encoded(value: object) -> bytes:
    """One text for equal values. Numbers are told as they are: `canonical` makes two large ones one."""
    try:
        return _encode(value)
    except (UnicodeError, RecursionError, TypeError, OverflowError):
        return canonical(value).encode()  # a lone surrogate, or what no JSON text decodes to


_encode = msgspec.json.Encoder(order="deterministic").encode


def chain(format: Format, request: Any, *, account: str, model: str = "") -> Chain:
    """The chain of a request body, or of a bare list of messages.

    Args:
        format: the wire format that it is in.
        request: as it is sent, decoded.
        account: see `root`.
        model: the model's name where it is not in the body.

    Raises:
        InputError: there are no messages in it.
    """
    body: Mapping[str, Any] = cast("Mapping[str, Any]", request) if isinstance(request, Mapping) else {}
    held = {name: body[name] for name in format.held if body.get(name) is not None}
    fixed = {name: plain(body[name]) for name in format.fixed if body.get(name)}
    begin = root(format.name, account, held)
    nodes = hashes(format, begin, request)
    if not nodes:
        raise InputError("no messages in the request")
    return Chain(
        root=begin,
        nodes=nodes,
        fixed=hashlib.sha256(_encoded([body.get("model") or model, fixed])).digest(),
    )


def lookup(chain: Chain) -> Lookup:
    """Find the longest known beginning of a chain, in few questions: one where the request adds fewer than
    eight messages, or where none is known.
    """
    first, last = 0, len(chain.nodes)
    found: Known | None = None
    while first < last:
        asked = _probes(first, last)
        answers = yield [chain.nodes[index] for index in asked]
        for index in asked:
            known = answers.get(chain.nodes[index])
            if known is not None:
                first, found = index + 1, known
                break
            last = index
    if found is None:
        return Recognised()
    return Recognised(
        known=first,
        conversation=found.ends.get(chain.fixed),
        origin=found.conversation,
    )


def _probes(first: int, last: int) -> list[int]:
    """Which messages to ask for of those from `first` up to `last`, the last one first: the nearest to it,
    from there on ever wider apart, and the first one.
    """
    chosen: list[int] = []
    step, index = 1, last - 1
    while index > first:
        chosen.append(index)
        if len(chosen) >= _NEAREST:
            step *= 2
        index -= step
    return [*chosen, first]


def recognise(chain: Chain, index: Index) -> Recognised:
    """Which conversation a request belongs to."""
    steps = lookup(chain)
    answers: Mapping[bytes, Known] | None = None
    while True:
        try:
            asked = next(steps) if answers is None else steps.send(answers)
        except StopIteration as done:
            return done.value
        answers = index.known(asked)


def growth(chain: Chain, recognised: Recognised, conversation: str) -> Growth:
    """What a request adds to the record.

    Args:
        chain: the request.
        recognised: what was found of it.
        conversation: the one that it goes on with, else the id of a new one.
    """
    parents = (chain.root, *chain.nodes)
    known = recognised.known
    return Growth(
        conversation=conversation,
        nodes=tuple(
            Node(hash=chain.nodes[at], parent=parents[at], position=at, conversation=conversation)
            for at in range(known, len(chain.nodes))
        ),
        begin=None if recognised.conversation is None else parents[known],
        end=chain.nodes[-1],
        fixed=chain.fixed,
    )


class MemoryIndex:
    """The record in this process's memory."""

    __slots__ = ("_ends", "_nodes", "_open")

    def __init__(self) -> None:
        self._nodes: dict[bytes, Node] = {}
        self._open: dict[str, bytes] = {}
        """Where each conversation ends."""
        self._ends: dict[bytes, dict[bytes, str]] = {}
        """The conversations that end with a message, by the hash of their fixed prefix."""

    def __len__(self) -> int:
        """How many messages are on record."""
        return len(self._nodes)

    def known(self, hashes: Sequence[bytes]) -> Mapping[bytes, Known]:
        """What is on record of these; see `Index`."""
        return {
            one: Known(conversation=self._nodes[one].conversation, ends=dict(self._ends.get(one, {})))
            for one in hashes
            if one in self._nodes
        }

    def grow(self, growth: Growth) -> bool:
        """Write all of it, or nothing; see `Index`."""
        name = growth.conversation
        if self._open.get(name) != growth.begin:
            return False
        if self._ends.get(growth.end, {}).get(growth.fixed, name) != name:
            return False
        for node in growth.nodes:
            self._nodes.setdefault(node.hash, node)
        if growth.begin is not None:
            ends = self._ends[growth.begin]
            del ends[growth.fixed]
            if not ends:
                del self._ends[growth.begin]
        self._ends.setdefault(growth.end, {})[growth.fixed] = name
        self._open[name] = growth.end
        return True
