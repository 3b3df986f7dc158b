"""Wire and file formats: each reads native messages into the transcript and applies edits to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from prunewise.errors import InputError
from prunewise.tools import Vocabulary
from prunewise.transcript import Edit, Message

Native = Mapping[str, Any]
"""A message as its host has it. It is never changed: an edit makes a new one around the old parts."""


class Format(Protocol):
    """One wire format, message by message."""

    @property
    def name(self) -> str:
        """As `--format` takes it."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """The tools of the hosts that speak it."""
        ...

    def messages(self, request: Any) -> Sequence[Native]:
        """The native messages of a request body, or of a bare list of them."""
        ...

    def replace(self, request: Any, messages: Sequence[Native]) -> Any:
        """The request with these messages in place of its own; everything else as it is."""
        ...

    def read(self, native: Native, id: str) -> Message:
        """Read one native message; what is not known becomes an opaque part, never an error."""
        ...

    def apply(self, native: Native, edits: Sequence[Edit]) -> Native:
        """A copy of the message with the edits in place; key order and unknown fields stay."""
        ...

    def images(self, native: Native, part: int) -> tuple[Any, ...]:
        """The image blocks of the result that is this part, as the host has them; none of any other part."""
        ...

    @property
    def fixed(self) -> Sequence[str]:
        """The fields of a request body that hold its fixed prefix, the model apart."""
        ...

    @property
    def held(self) -> Sequence[str]:
        """The fields of a request body that name what the provider holds and puts before the messages."""
        ...

    def normalised(self, request: Any) -> list[Any]:
        """The messages of a request body, or of a bare list of them, in their normal form: JSON that is
        equal for all shapes in which a message says the same. What only its neighbours tell is left out.

        Raises:
            InputError: there is no list of messages.
        """
        ...

    def same(self, old: Native, new: Native) -> bool:
        """Whether a message is the same to the model as before: of the same normal form and the same call.

        Two that are the same are read into equal parts, so that edits of the one fit the other.

        Raises:
            RecursionError: they are nested beyond what can be compared.
        """
        ...


_FORMATS = {
    "pi": ("prunewise.formats.pi", "PI"),
    "anthropic": ("prunewise.formats.anthropic", "ANTHROPIC"),
    "openai-chat": ("prunewise.formats.openai_chat", "OPENAI_CHAT"),
    "openai-responses": ("prunewise.formats.openai_responses", "OPENAI_RESPONSES"),
    "gemini": ("prunewise.formats.gemini", "GEMINI"),
}
"""Where each format is: its module, and the name of its one instance there."""


def named(name: str) -> Format:
    """The format of a name.

    Raises:
        InputError: there is none.
    """
    place = _FORMATS.get(name)
    if place is None:
        msg = f"format {name!r} is not known; known formats: {', '.join(_FORMATS)}"
        raise InputError(msg)
    module, instance = place
    return getattr(import_module(module), instance)
