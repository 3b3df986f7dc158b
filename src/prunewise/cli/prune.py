"""`prunewise prune`: what can be pruned by hand, and doing or undoing it. Only adds to the session file."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunewise import ledger
from prunewise.cli import console
from prunewise.cli.console import TOKENS, WHAT, Column, cell, one_line
from prunewise.cli.picking import Choice, Picker, numbers, short_ids
from prunewise.cli.sessions import Conversation, converse, digest
from prunewise.errors import PrunewiseError, RefusedError
from prunewise.gates.words import answer, in_words
from prunewise.ledger import Target
from prunewise.listing import Listed
from prunewise.plan import verdict_to_dict
from prunewise.pruner import Pruner
from prunewise.stores.pi_session import PiSession
from prunewise.transcript import TOOL_INPUT
from prunewise.wording import count, number

if TYPE_CHECKING:
    from rich.console import RenderableType

_FILE = click.Path(path_type=Path)
_WIDEST = 60
_WIDEST_ID = 40
_MORE_LOOKS = 3
_SECONDS_BETWEEN_LOOKS = 0.3
_STYLES = {"active": "", "pruned": "cyan", "restored": "yellow"}


@click.command(
    short_help="Prune and restore by hand.",
    epilog="Example: prunewise prune examples/session.jsonl --prune toolu_c737",
)
@click.argument("session", type=_FILE)
@click.option("--prune", "prune_ids", multiple=True, metavar="ID", help="Prune the result of this call.")
@click.option(
    "--restore", "restore_ids", multiple=True, metavar="ID", help="Undo what is pruned of this call."
)
@click.option("--input", "of_input", is_flag=True, help="Mean a failed call's input, not its result.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Write although another process has SESSION open.")
@click.option("--settings", type=_FILE, metavar="FILE", help="Use these settings instead of pi's.")
@click.option("--cwd", type=_FILE, metavar="DIR", help="The working directory, if not the session's.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, and do not ask.")
def prune(
    *,
    session: Path,
    prune_ids: Sequence[str],
    restore_ids: Sequence[str],
    of_input: bool,
    yes: bool,
    force: bool,
    settings: Path | None,
    cwd: Path | None,
    as_json: bool,
) -> None:
    """List what can be pruned in SESSION, prune it, and restore it.

    SESSION is a session file of pi. An ID is a call's id, or as much of its beginning as no other id has.
    Without an ID this prints the list, and on a terminal asks what to prune or restore. Entries are added
    at the end of the session file; what is in it stays as it is. A prune that is already there is left
    alone.
    """
    by_id = bool(prune_ids or restore_ids)
    if of_input and not by_id:
        raise click.UsageError("--input goes with --prune or --restore.")
    conversation = converse(session, settings=settings, cwd=cwd)
    desk = _Desk(conversation)
    conversation.warn()
    if by_id:
        choice = desk.picker.choose(prune_ids, restore_ids, TOOL_INPUT if of_input else None)
    elif as_json:
        console.write_json(desk.document())
        return
    else:
        choice = _picked_from_list(desk)
    asked = console.is_interactive() and not yes
    change = _Change(desk, choice)
    if as_json:
        change.carry_out(force=force)
        console.write_json(change.document())
        return
    console.show(console.stdout(), *change.preview())
    if choice.prune or choice.restore:
        if asked and not console.confirm("Do it?"):
            console.write("Nothing was changed.\n")
            return
        change.carry_out(force=force)
        console.show(console.stdout(), *change.outcome())


class _Desk:
    """One conversation with all of its parts laid out."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.pruner: Pruner = conversation.pruner()
        self.parts = self.pruner.listing()
        self.by_target = {one.target: one for one in self.parts}
        self.shown = [one for one in self.parts if one.refusal is None]
        standing = ledger.fold(conversation.branch.ledger()).standing
        self.picker = Picker(self.parts, standing)
        self.gone = [target for target in standing if target not in self.by_target]

    def what(self, part: Listed) -> str:
        """What a part is, in a few words."""
        about = digest(part.exchange, self.conversation.cwd)
        return cell(f"input of: {about}" if part.kind == TOOL_INPUT else about)

    def left_out(self) -> list[str]:
        """Why parts are not shown, each reason with how many there are; the commonest first."""
        reasons = Counter(one.refusal for one in self.parts if one.refusal is not None)
        return [f"{many:,}: {reason}" for reason, many in reasons.most_common()]

    def document(self) -> dict[str, Any]:
        """The list as JSON."""
        return {"exchanges": [_as_json(one) for one in self.shown], "leftOut": self.left_out()}


def _as_json(part: Listed) -> dict[str, Any]:
    decision = part.decision
    return {
        "call": part.exchange.call.id,
        "kind": part.kind,
        "tool": part.exchange.call.name,
        "arguments": part.exchange.call.arguments,
        "position": part.position,
        "tokens": part.tokens,
        "tokensRemoved": part.tokens_removed,
        "age": part.age,
        "status": part.status,
        "source": None if decision is None else decision.source,
        "strategy": None if decision is None else decision.strategy_id,
        "reason": None if decision is None else decision.reason,
    }


# ---------------------------------------------------------------- the list


def _picked_from_list(desk: _Desk) -> Choice:
    """Show the list; on a terminal, what a person picks from it."""
    interactive = console.is_interactive()
    console.show(console.stdout(), *_list(desk, numbered=interactive))
    if not interactive:
        return Choice()
    while desk.shown:
        answer = console.ask("Numbers to prune or restore, such as 3 5-7 (Enter for none): ")
        if not answer:
            break
        try:
            picked = numbers(answer, len(desk.shown))
        except ValueError as error:
            console.write(f"{one_line(str(error))}\n")
            continue
        return desk.picker.toggle(desk.shown[index - 1] for index in picked)
    console.write("Nothing was changed.\n")
    return Choice()


def _list(desk: _Desk, *, numbered: bool) -> list[RenderableType]:
    parts: list[RenderableType] = [console.unbroken(str(desk.conversation.path), "bold")]
    columns = [
        Column("id"),
        Column("tool"),
        WHAT,
        TOKENS,
        Column("age", "right"),
        Column("status"),
        Column("by"),
    ]
    short = short_ids(one.exchange.call.id for one in desk.parts)
    rows = [
        [
            cell(short[one.exchange.call.id]),
            cell(one.exchange.call.name),
            desk.what(one),
            number(one.tokens),
            str(one.age),
            one.status,
            "" if one.decision is None else one.decision.source,
        ]
        for one in desk.shown
    ]
    if numbered:
        columns.insert(0, Column("", "right"))
        for index, row in enumerate(rows, start=1):
            row.insert(0, str(index))
    if rows:
        parts += ["", console.table(columns, rows, styles=[_STYLES[one.status] for one in desk.shown]), ""]
    parts.append(_totals(desk))
    left_out = desk.left_out()
    if left_out:
        parts.append("Not listed, since they cannot be pruned:")
        parts += [console.unbroken(f"  {line}") for line in left_out]
    if desk.gone:
        decisions = count(len(desk.gone), "more decision stands", "more decisions stand")
        parts.append(f"{decisions}, for what is not sent any more.")
    if not numbered:
        path = shlex.quote(str(desk.conversation.path))
        parts += ["", "To prune one, or to bring it back:"]
        parts += [console.unbroken(f"  prunewise prune {path} {one} ID") for one in ("--prune", "--restore")]
    return parts


def _totals(desk: _Desk) -> str:
    pruned = [one for one in desk.shown if one.status == "pruned"]
    out = sum(one.tokens_removed for one in pruned)
    return (
        f"{len(desk.shown):,} listed, {len(pruned):,} of them pruned, which takes "
        f"{count(out, 'token')} out of each request. Age is in turns."
    )


# ---------------------------------------------------------------- the change


class _Change:
    """Prunes and restores on their way into the file."""

    def __init__(self, desk: _Desk, choice: Choice) -> None:
        self.desk = desk
        self.choice = choice
        self.verdict = desk.pruner.preview([one.target for one in choice.prune]) if choice.prune else None
        self.saved = 0
        """How much smaller the next request is, measured in the file as it is then."""
        self.entries = 0

    def preview(self) -> list[RenderableType]:
        """What it would do, and what that costs."""
        choice = self.choice
        lines: list[RenderableType] = [console.unbroken(line) for line in choice.settled]
        if choice.settled and not choice.prune and not choice.restore:
            lines.append("Nothing was added.")
        lines += [console.unbroken(f"Prune {self._named(one.target)}") for one in choice.prune]
        lines += [console.unbroken(f"Restore {self._named(target)}") for target in choice.restore]
        if self.verdict is not None:
            lines.append(in_words(self.verdict, count(len(choice.prune), "prune")) + answer(self.verdict))
        back = [self.desk.by_target[target] for target in choice.restore if target in self.desk.by_target]
        if back:
            tokens = count(sum(one.tokens_removed for one in back), "token")
            first = min(one.position for one in back)
            lines.append(f"Restoring puts {tokens} back. The cache breaks once, from message {first} on.")
        return lines

    def _named(self, target: Target) -> str:
        call, part = target[0], self.desk.by_target.get(target)
        if part is None:
            return f"{call}, whose exchange is not sent any more"
        what = console.elided(self.desk.what(part), _WIDEST)
        shown = console.elided(call, _WIDEST_ID)
        return f"{cell(part.exchange.call.name)} {what} ({shown}, {count(part.tokens, 'token')})"

    def carry_out(self, *, force: bool) -> None:
        """Add the entries to the file, and see in the file what they do.

        Raises:
            RefusedError: another process has the file open, or the session has moved on.
            PrunewiseError: the file cannot be written, or does not hold what was added to it.
        """
        prune, restore = [one.target for one in self.choice.prune], self.choice.restore
        if not prune and not restore:
            return
        conversation = self.desk.conversation
        if not force:
            _refuse_if_open(conversation.session)
        self.entries = len(self.desk.pruner.decide(prune, restore))
        after = _Desk(converse(conversation.path, settings=conversation.settings, cwd=conversation.given_cwd))
        self.saved = sum(_confirmed(after, target, "pruned").tokens_removed for target in prune)
        for target in restore:
            if target in self.desk.by_target:
                _confirmed(after, target, "restored")
                self.saved -= self.desk.by_target[target].tokens_removed

    def outcome(self) -> list[RenderableType]:
        """What was done, in words."""
        added = f"Added {count(self.entries, 'entry', 'entries')} to the session."
        if not self.desk.conversation.loaded.settings.enabled:
            return [f"{added} Pruning is off in the settings, so requests stay as they are."]
        size = "smaller" if self.saved >= 0 else "larger"
        return [f"{added} The next request is {count(abs(self.saved), 'token')} {size}."]

    def document(self) -> dict[str, Any]:
        """What was done, as JSON."""
        choice = self.choice
        targets = {"pruned": [one.target for one in choice.prune], "restored": choice.restore}
        return {
            **{
                name: [{"call": call, "kind": kind} for call, kind in several]
                for name, several in targets.items()
            },
            "settled": choice.settled,
            "entriesAdded": self.entries,
            "tokensSaved": self.saved,
            "verdict": None if self.verdict is None else verdict_to_dict(self.verdict),
        }


def _confirmed(desk: _Desk, target: Target, status: str) -> Listed:
    """The part as the file has it now."""
    part = desk.by_target.get(target)
    if part is None or part.status != status:
        message = (
            f"{target[0]}: is not {status} in {desk.conversation.path}: someone else has changed it since"
        )
        raise PrunewiseError(message)
    return part


def _refuse_if_open(session: PiSession) -> None:
    """Refuse where another process keeps the file open; one that only looks at it is gone in a moment."""
    processes = set(session.open_elsewhere())
    for _ in range(_MORE_LOOKS):
        if not processes:
            return
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        processes &= set(session.open_elsewhere())
    if not processes:
        return
    pids = ", ".join(map(str, sorted(processes)))
    word = "process has" if len(processes) == 1 else "processes have"
    message = (
        f"{session.path}: another {word} it open (pid {pids}); end it, or write all the same with --force"
    )
    raise RefusedError(message)
