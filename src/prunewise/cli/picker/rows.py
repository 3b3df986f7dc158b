"""The rows of the picker as values: what each part is, how it stands, and which are shown in what order.

Everything here is made once from a desk, and is cheap to filter, sort and group while somebody types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, get_args

import msgspec

from prunewise.cli.console import cell
from prunewise.cli.desk import Desk
from prunewise.cli.sessions import relative
from prunewise.ledger import Target
from prunewise.listing import Listed, Status

Order = Literal["age", "tokens", "tool", "what", "status", "by"]
"""What rows are sorted by: `age` is the order of the conversation, the newest first."""
ORDERS: tuple[Order, ...] = get_args(Order)

Grouping = Literal["none", "tool", "path"]
"""What rows are put together by."""
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

_NO_PATH = "no path"
_STATUSES: tuple[Status, ...] = get_args(Status)


class Row(msgspec.Struct, frozen=True):
    """One part of an exchange as it stands in the list. All its text is on one line, and safe to show."""

    part: Listed
    tool: str
    what: str
    path: str
    """The file it is about, relative to the working directory; empty where it names none."""
    age: int
    """How many LLM calls ago its message was: 0 where the model has not seen it."""
    by: str
    """The strategy that has decided on it or proposes it now, or `manual`; empty where nobody has."""
    text: str
    """What a filter looks in, in lower case."""

    @property
    def target(self) -> Target:
        """As the ledger names it."""
        return self.part.target

    @property
    def tokens(self) -> int:
        """Its size without pruning, in estimated tokens."""
        return self.part.tokens

    @property
    def status(self) -> Status:
        """How it stands."""
        return self.part.status


class Group(msgspec.Struct, frozen=True):
    """The head of rows that belong together."""

    name: str
    targets: tuple[Target, ...]
    tokens: int
    """The sizes of its rows together, in estimated tokens."""
    pruned: int
    """How many of its rows are pruned."""
    folded: bool = False
    """Whether its rows are hidden."""


Line = Row | Group


def rows(desk: Desk) -> list[Row]:
    """A row for each part that can be pruned or restored, oldest first."""
    proposed: dict[Target, str] = {(one.call, one.kind): one.strategy for one in desk.pruner.proposals}
    transcript = desk.pruner.transcript
    made: list[Row] = []
    for part in desk.shown:
        tool, what, by = cell(part.exchange.call.name), desk.what(part), _by(part, proposed)
        operation = part.exchange.operation
        path = "" if operation is None else cell(relative(operation.path, desk.conversation.cwd))
        age = transcript.llm_calls - transcript.calls_before[part.exchange.result_position]
        text = f"{tool} {what} {part.status} {by} {part.exchange.call.id}".lower()
        made.append(Row(part, tool, what, path, age, by, text))
    return made


def _by(part: Listed, proposed: Mapping[Target, str]) -> str:
    if part.decision is not None:
        return cell(part.decision.strategy_id)
    return proposed.get(part.target, "")


# ---------------------------------------------------------------- what is shown, in what order


def matching(rows: Iterable[Row], wanted: str) -> list[Row]:
    """The rows in which every word of `wanted` stands, whatever their case."""
    words = wanted.lower().split()
    return [row for row in rows if all(word in row.text for word in words)]


_KEYS: Mapping[Order, Callable[[Row], Any]] = {
    "age": lambda row: row.age,
    "tokens": lambda row: -row.tokens,
    "tool": lambda row: row.tool.lower(),
    "what": lambda row: row.what.lower(),
    "status": lambda row: -_STATUSES.index(row.status),
    "by": lambda row: (not row.by, row.by),
}


def ordered(rows: Iterable[Row], order: Order, *, turned: bool = False) -> list[Row]:
    """The rows sorted, the newest or the largest first; the other way round where that is `turned`.

    Of equal ones the newer stands first.
    """
    newest_first = sorted(rows, key=lambda row: (row.part.position, row.part.exchange.order), reverse=True)
    return sorted(newest_first, key=_KEYS[order], reverse=turned)


def grouped(rows: Sequence[Row], grouping: Grouping, folded: frozenset[str] = frozenset()) -> list[Line]:
    """The rows with a head before each group, the group with the most tokens first; without grouping as
    they are. Within a group rows keep their order. `folded` names the groups whose rows are left out.
    """
    if grouping == "none":
        return list(rows)
    name = _tool if grouping == "tool" else _path
    groups = [(key, list(some)) for key, some in groupby(sorted(rows, key=name), key=name)]
    groups.sort(key=lambda one: -sum(row.tokens for row in one[1]))
    lines: list[Line] = []
    for key, some in groups:
        lines.append(_head(key, some, folded=key in folded))
        lines += () if key in folded else some
    return lines


def _tool(row: Row) -> str:
    return row.tool


def _path(row: Row) -> str:
    return row.path or _NO_PATH


def _head(name: str, some: Sequence[Row], *, folded: bool) -> Group:
    return Group(
        name,
        tuple(row.target for row in some),
        sum(row.tokens for row in some),
        sum(row.status == "pruned" for row in some),
        folded,
    )
