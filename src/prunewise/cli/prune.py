"""`prunewise prune`: what can be pruned by hand, and doing or undoing it. Only adds to the session file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prunewise.cli import completion, console, picker
from prunewise.cli.change import Change
from prunewise.cli.console import TOKENS, WHAT, Column, cell, one_line
from prunewise.cli.desk import Desk
from prunewise.cli.picking import Choice, numbers, short_ids
from prunewise.transcript import TOOL_INPUT
from prunewise.wording import count, number

if TYPE_CHECKING:
    from rich.console import RenderableType

_FILE = click.Path(path_type=Path)
_STYLES = {"active": "", "pruned": "cyan", "restored": "yellow"}


@click.command(
    short_help="Prune and restore by hand.",
    epilog="Example: cp examples/session.jsonl . && prunewise prune session.jsonl --prune toolu_c737",
)
@click.argument("session", type=completion.SessionPath())
@click.option(
    "--prune",
    "prune_ids",
    multiple=True,
    metavar="ID",
    shell_complete=completion.calls,
    help="Prune the result of this call.",
)
@click.option(
    "--restore",
    "restore_ids",
    multiple=True,
    metavar="ID",
    shell_complete=completion.calls,
    help="Undo what is pruned of this call.",
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
    Without an ID this opens the picker on a terminal, if the extra `tui` is installed; else it prints the
    list, and on a terminal asks what to prune or restore. Entries are added at the end of the session file;
    what is in it stays as it is. A prune that is already there is left alone.
    """
    by_id = bool(prune_ids or restore_ids)
    if of_input and not by_id:
        raise click.UsageError("--input goes with --prune or --restore.")
    desk = Desk.of(session, settings=settings, cwd=cwd)
    desk.conversation.warn()
    if by_id:
        choice = desk.picker.choose(prune_ids, restore_ids, TOOL_INPUT if of_input else None)
    elif as_json:
        console.write_json(desk.document())
        return
    elif picker.has_screen() and picker.is_installed():
        picker.pick(desk, force=force, ask=not yes)
        return
    else:
        choice = _picked_from_list(desk)
    asked = console.is_interactive() and not yes
    change = Change(desk, choice)
    if as_json:
        change.carry_out(force=force)
        console.write_json(change.document())
        return
    console.show(console.stdout(), *map(console.unbroken, change.deeds()), *change.costs())
    if choice.prune or choice.restore:
        if asked and not console.confirm("Do it?"):
            console.write("Nothing was changed.\n")
            return
        change.carry_out(force=force)
        console.show(console.stdout(), change.outcome())


# ---------------------------------------------------------------- the list


def _picked_from_list(desk: Desk) -> Choice:
    """Show the list; on a terminal, what a person picks from it."""
    interactive = console.is_interactive()
    console.show(console.stdout(), *_list(desk, numbered=interactive))
    if not interactive:
        return Choice()
    if not picker.is_installed():
        console.write(f"{picker.HINT}\n")
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


def _list(desk: Desk, *, numbered: bool) -> list[RenderableType]:
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


def _totals(desk: Desk) -> str:
    pruned = [one for one in desk.shown if one.status == "pruned"]
    out = sum(one.tokens_removed for one in pruned)
    return (
        f"{len(desk.shown):,} listed, {len(pruned):,} of them pruned, which takes "
        f"{count(out, 'token')} out of each request. Age is in turns."
    )
