"""`prunewise plan`: what would go from a session, why, and whether it pays. Changes nothing."""

from __future__ import annotations

import shlex
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from prunewise.cli import console
from prunewise.cli.completion import SessionPath
from prunewise.cli.console import TOKENS, WHAT, Column, cell
from prunewise.cli.sessions import Conversation, converse, digest, until
from prunewise.engine import Proposal
from prunewise.gates import Verdict
from prunewise.gates.words import in_words, pays
from prunewise.plan import Plan
from prunewise.settings import PolicyName
from prunewise.transcript import TOOL_INPUT, Shell, Transcript
from prunewise.wording import count, number

if TYPE_CHECKING:
    from rich.console import RenderableType

_STATES = {
    "idle": "idle (the user spoke last)",
    "mid_loop": "mid_loop (the model or a tool spoke last)",
}
_MESSAGE = Column("message", "right")
_TOOL = Column("tool")
_GOES = Column("goes", "right", "green")
_FILE = click.Path(path_type=Path)


@click.command(epilog="Example: prunewise plan examples/session.jsonl")
@click.argument("session", type=SessionPath())
@click.option("--format", "_format", type=click.Choice(["pi"]), default="pi", help="What wrote SESSION.")
@click.option(
    "--at",
    type=click.IntRange(min=0),
    metavar="N",
    help="Plan as if the first N messages were about to be sent.",
)
@click.option("--settings", type=_FILE, metavar="FILE", help="Use these settings instead of pi's.")
@click.option(
    "--policy",
    type=click.Choice(get_args(PolicyName)),
    metavar="NAME",
    help="Plan under this policy, documented or priced, whatever the settings say.",
)
@click.option("--cwd", type=_FILE, metavar="DIR", help="The working directory, if not the session's.")
@click.option(
    "--window",
    type=click.IntRange(min=1),
    metavar="N",
    help="Plan masking too: the model's window in tokens.",
)
@click.option(
    "--reserve", type=click.IntRange(min=0), metavar="N", help="For masking: tokens that are to stay free."
)
@click.option("--leaf", metavar="ID", help="The entry that the branch ends with, if not the last one.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON document.")
def plan(
    *,
    session: Path,
    _format: str,
    at: int | None,
    settings: Path | None,
    policy: PolicyName | None,
    cwd: Path | None,
    window: int | None,
    reserve: int | None,
    leaf: str | None,
    as_json: bool,
) -> None:
    """Show what would go from SESSION, and why.

    Nothing is changed. SESSION is a session file of pi, which keeps them below ~/.pi/agent/sessions.
    """
    conversation = converse(session, leaf=leaf, settings=settings, cwd=cwd, policy=policy)
    if at is not None:
        if at > conversation.of:
            message = f"{at} is more than there are: {session} has {count(conversation.of, 'message')}."
            raise click.BadParameter(message, param_hint="--at")
        conversation = until(conversation, at)
    pruner = conversation.pruner()
    transcript = pruner.transcript
    result = pruner.plan(conversation.natives, ids=conversation.ids, window=window, reserve=reserve)
    conversation.warn()
    if as_json:
        console.write_json(result.to_dict())
        return
    out = console.stdout()
    console.show(out, *_page(_View(conversation, result, transcript, window)))


class _View:
    """One plan, ready to be shown."""

    def __init__(
        self, conversation: Conversation, plan: Plan, transcript: Transcript, window: int | None
    ) -> None:
        self.conversation = conversation
        self.plan = plan
        self.transcript = transcript
        self.window = conversation.loaded.settings.window if window is None else window

    def tool(self, call: str) -> str:
        """The name of the tool that was called."""
        exchange = self.transcript.exchange(call)
        return "bash" if exchange is None else cell(exchange.call.name)

    def what(self, call: str, position: int, kind: str) -> str:
        """What the call was about."""
        exchange = self.transcript.exchange(call)
        if exchange is not None:
            about = digest(exchange, self.conversation.cwd)
            return cell(f"input of: {about}" if kind == TOOL_INPUT else about)
        if position < len(self.transcript):
            for part in self.transcript.messages[position].parts:
                if isinstance(part, Shell):
                    return cell(" ".join(part.command.split()))
        return ""


def _page(view: _View) -> list[RenderableType]:
    parts: list[RenderableType] = [*_summary(view), *_proposals(view), *_verdict(view)]
    parts += _decisions(view)
    parts += _masked(view)
    return [*parts, *_next(view)]


def _summary(view: _View) -> list[RenderableType]:
    plan, conversation = view.plan, view.conversation
    messages = count(plan.messages, "message")
    if plan.messages < conversation.of:
        messages = f"the first {plan.messages:,} of {conversation.of:,} messages"
    return [
        console.unbroken(str(conversation.path), "bold"),
        f"{messages}, {number(plan.total_tokens)} tokens; state: {_STATES[plan.state]}",
    ]


def _proposals(view: _View) -> list[RenderableType]:
    from rich.text import Text

    parts: list[RenderableType] = []
    columns = (_MESSAGE, _TOOL, WHAT, TOKENS, _GOES, Column("lane"))
    ordered = sorted(view.plan.proposals, key=_group)
    widths = console.fitted(console.stdout(), columns, [_row(view, one) for one in ordered])
    for (strategy, reason), group in groupby(ordered, key=_group):
        title = Text(f"{strategy}: ", style="bold cyan")
        title.append(reason, style="not bold default")
        parts += ["", title, console.table(columns, [_row(view, one) for one in group], widths=widths)]
    return parts


def _row(view: _View, one: Proposal) -> tuple[str, ...]:
    return (
        str(one.position),
        view.tool(one.call),
        view.what(one.call, one.position, one.kind),
        number(one.original_tokens),
        number(one.tokens_removed),
        one.lane,
    )


def _group(proposal: Proposal) -> tuple[str, str]:
    return (proposal.strategy, proposal.reason)


_NOTHING_PRICED = (
    "Nothing is proposed: the priced policy would cut nothing at this moment. `prunewise benchmark` shows "
    "what it would have left out in the course of the session."
)


def _verdict(view: _View) -> list[RenderableType]:
    from rich.text import Text

    plan, verdict = view.plan, view.plan.verdict
    if verdict is None:
        return ["", "Pruning is off (`enabled` is false): the request goes out as it is."]
    if not plan.proposals:
        if view.conversation.loaded.settings.policy == "priced":
            return ["", _NOTHING_PRICED]
        return ["", "Nothing is proposed: there is no old output that could go now."]
    text = Text("Verdict: ", style="bold")
    text.append(in_words(verdict, count(len(plan.proposals), "proposal")), style="not bold")
    text.append(_answer(verdict), style="bold green" if verdict.accepted else "bold yellow")
    return ["", text]


def _answer(verdict: Verdict) -> str:
    if verdict.penalty is None:
        return "all of it goes."
    if pays(verdict):
        return "it pays."
    return (
        "it does not pay, and goes all the same (always-apply)." if verdict.accepted else "it does not pay."
    )


def _decisions(view: _View) -> list[RenderableType]:
    rows: list[tuple[str, ...]] = []
    for decision in view.plan.decisions:
        call, kind = decision.target
        exchange = view.transcript.exchange(call)
        position = "" if exchange is None else str(exchange.position(kind))
        tool = "" if exchange is None else view.tool(call)
        what = (
            f"{call} (not sent any more)" if exchange is None else view.what(call, len(view.transcript), kind)
        )
        rows.append((position, tool, cell(what), cell(decision.strategy_id), decision.created_at[:10]))
    if not rows:
        return []
    columns = (_MESSAGE, _TOOL, WHAT, Column("strategy"), Column("since"))
    return [
        "",
        f"{count(len(rows), 'decision stands', 'decisions stand')} already:",
        console.table(columns, rows),
    ]


def _masked(view: _View) -> list[RenderableType]:
    if view.window is None:
        return []
    masked = view.plan.masked
    if not masked:
        return ["", f"Masking: nothing, in a window of {number(view.window)} tokens."]
    rows = [
        (
            str(one.position),
            view.tool(one.call),
            view.what(one.call, one.position, one.kind),
            number(one.tokens_removed),
        )
        for one in masked
    ]
    total = sum(one.tokens_removed for one in masked)
    title = f"Masking: {count(len(masked), 'output')} would be shortened, {number(total)} tokens in all:"
    return ["", title, console.table((_MESSAGE, _TOOL, WHAT, _GOES), rows)]


def _next(view: _View) -> list[RenderableType]:
    saved = view.plan.saved
    goes = f"The request would go out {number(saved)} tokens smaller. " if saved else ""
    path = shlex.quote(str(view.conversation.path))
    return [
        "",
        f"{goes}Nothing was changed. To prune or restore by hand:",
        console.unbroken(f"  prunewise prune {path}"),
    ]
