"""The list of messages that a host sends, followed from request to request.

Says how a new list differs from the one before, and reads what is new. What follows from a
difference is not its business.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import count

import msgspec

from prunewise.formats import Format, Native
from prunewise.transcript import Message, Shell, ToolResult


class Messages:
    """What the host sent last, and under which ids."""

    def __init__(self, format: Format) -> None:
        self.natives: list[Native] = []
        self.ids: list[str] = []
        self.named = False
        """Whether the host gave the ids; else they are made up."""
        self._format = format
        self._taken: set[str] = set()
        """The ids that are not free."""

    def __len__(self) -> int:
        return len(self.natives)

    @property
    def last(self) -> str | None:
        """The id of the last message, by which a request is known; None where there is none."""
        return self.ids[-1] if self.ids else None

    def copy(self) -> Messages:
        """Another one that has seen the same."""
        copied = Messages(self._format)
        copied.natives, copied.ids = self.natives.copy(), self.ids.copy()
        copied.named, copied._taken = self.named, self._taken.copy()
        return copied

    def common(self, natives: Sequence[Native], ids: Sequence[str] | None) -> tuple[int, list[int]]:
        """How many messages from the start are as they were, and the positions of those among them that
        are so in another shape.
        """
        known = len(self)
        told_anew: list[int] = []
        try:
            if (ids is None or ids[:known] == self.ids) and natives[:known] == self.natives:
                return known, told_anew
            for position, (old, new) in enumerate(zip(self.natives, natives, strict=False)):
                if ids is not None and ids[position] != self.ids[position]:
                    return position, told_anew
                if old is not new and old != new:
                    if not self._format.same(old, new):
                        return position, told_anew
                    told_anew.append(position)
        except RecursionError:  # nested beyond what can be compared
            return 0, []
        return min(known, len(natives)), told_anew

    def cut(self, kept: int) -> None:
        """Forget all but the first `kept`."""
        del self.natives[kept:], self.ids[kept:]
        self._taken = set(self.ids)

    def read(self, natives: Sequence[Native], ids: Sequence[str] | None) -> list[Message]:
        """Follow on to these, whose beginning is known: what is new, read.

        Raises:
            ValueError: there are more messages than ids, or fewer.
        """
        known = len(self)
        new = natives[known:]
        names = [f"m{position}" for position in range(known, len(natives))] if ids is None else ids[known:]
        read = self._format.read
        messages = [read(native, name) for native, name in zip(new, names, strict=True)]
        if ids is None:
            messages = [self._identified(message) for message in messages]
        self.natives += new
        self.ids += [message.id for message in messages]
        self.named = ids is not None
        return messages

    def _identified(self, message: Message) -> Message:
        """The message. One with outputs gets an id derived from them: it keeps that id when earlier messages
        go, and no other message ever gets it.
        """
        outputs = [part for part in message.parts if type(part) is ToolResult or type(part) is Shell]
        if not outputs:
            return message
        digest = hashlib.blake2b(repr(outputs).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        names = (f"o{digest}" if number == 1 else f"o{digest}-{number}" for number in count(1))
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        return msgspec.structs.replace(message, id=name)

    def tell_anew(self, natives: Sequence[Native], positions: Iterable[int]) -> None:
        """Take the new shape of messages that are otherwise as they were."""
        for position in positions:
            self.natives[position] = natives[position]
