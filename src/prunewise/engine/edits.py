"""What goes out changed, and how large each message is with it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from prunewise.transcript import Edit, Exchange, ToolKind

Place = tuple[int, int]
"""Where an edit is: the position of its message, and the part within it."""


def place_of(exchange: Exchange, kind: ToolKind) -> Place:
    """Where an exchange's result or input stands."""
    return (exchange.position(kind), exchange.part(kind))


class Edits:
    """The edits over one transcript, with the sizes of its messages. All sizes are estimated tokens."""

    def __init__(self) -> None:
        self.by_position: dict[int, dict[int, Edit]] = {}
        """By the position of the message, by its part."""
        self.touched: set[int] = set()
        """Positions whose edits changed since somebody took note."""
        self.removed_tokens = 0
        """What the edits take out."""
        self.raw_tokens = 0
        """All messages without any edit."""
        self.sizes: list[int] = []
        """Each message as it goes out."""
        self._savings: dict[Place, int] = {}
        self._removed: dict[Place, int] = {}
        self._totals: list[int] = [0]

    def __len__(self) -> int:
        return len(self._savings)

    def __contains__(self, place: Place) -> bool:
        return place in self._savings

    def extend(self, sizes: Iterable[int]) -> None:
        """More messages, of these sizes."""
        start = len(self.sizes)
        self.sizes.extend(sizes)
        self.raw_tokens += sum(self.sizes[start:])

    def put(self, edit: Edit, saving: int) -> None:
        """Edit a part that is not edited yet; `saving` is what that takes out."""
        place = (edit.position, edit.part)
        self.by_position.setdefault(edit.position, {})[edit.part] = edit
        self.removed_tokens += saving
        self._savings[place] = saving
        # An estimator may count a message for less than what masking takes out of it: never below nothing.
        self._removed[place] = min(saving, self.sizes[edit.position])
        self._resize(edit.position, -self._removed[place])

    def undo(self, place: Place) -> None:
        """Let a part go out as it came, if it is edited."""
        if place not in self._savings:
            return
        position, part = place
        edits = self.by_position[position]
        del edits[part]
        if not edits:
            del self.by_position[position]
        self.removed_tokens -= self._savings.pop(place)
        self._resize(position, self._removed.pop(place))

    def saving_at(self, place: Place) -> int:
        """What the edit at a place takes out; 0 where there is none."""
        return self._savings.get(place, 0)

    def raw_sizes(self, start: int) -> list[int]:
        """Each message from a position on without any edit."""
        sizes = self.sizes[start:]
        edited = self.by_position
        for position in range(start, len(self.sizes)) if edited else ():
            for part in edited.get(position, ()):
                sizes[position - start] += self._removed[position, part]
        return sizes

    def tail_tokens(self, position: int) -> int:
        """The size from a position to the end, as it goes out."""
        totals = self._totals
        if len(totals) <= len(self.sizes):
            known = len(totals) - 1
            totals.extend(list(accumulate(self.sizes[known:], initial=totals[known]))[1:])
        return totals[-1] - totals[position]

    def _resize(self, position: int, change: int) -> None:
        self.sizes[position] += change
        del self._totals[position + 1 :]
        self.touched.add(position)
