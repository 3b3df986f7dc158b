"""`prunewise completion`: the script by which a shell completes commands, and what is offered for arguments.

Completing changes nothing and says nothing: where a session cannot be read, there is nothing to offer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from prunewise.cli import console
from prunewise.cli.picking import short_ids
from prunewise.cli.sessions import Conversation, converse, digest, newest_first
from prunewise.errors import PrunewiseError
from prunewise.formats.detect import kept_sessions
from prunewise.listing import Listed
from prunewise.transcript import TOOL_RESULT
from prunewise.wording import count

VARIABLE = "_PRUNEWISE_COMPLETE"
"""The variable by which the shell asks, as click names it for this program."""
MOST_BYTES = 32 * 2**20
"""Of larger sessions nothing is offered: a key press is not to wait for them."""

_PROGRAM = "prunewise"
_MOST_SESSIONS = 10
_LONGEST_HELP = 60
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


@click.command(
    short_help="Print the completion script of a shell.", epilog="Example: prunewise completion bash"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the script by which SHELL completes commands, options, sessions, policies, references and ids.

    Have the shell read it when it starts: `eval "$(prunewise completion bash)"` in ~/.bashrc, the same with
    zsh in ~/.zshrc; for fish, `prunewise completion fish > ~/.config/fish/completions/prunewise.fish`.
    """
    script = get_completion_class(shell)
    assert script is not None, "click knows the three shells"
    program = click.get_current_context().find_root().command
    console.write(script(program, {}, _PROGRAM, VARIABLE).source())


class SessionPath(click.Path):
    """A session file. Where nothing is typed yet, pi's newest sessions are offered."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """What may stand here."""
        files = [] if incomplete else newest_first(kept_sessions(os.environ, Path.home()))
        offered = [CompletionItem(str(file)) for file in files[:_MOST_SESSIONS]]
        return offered or super().shell_complete(ctx, param, incomplete)


def policies(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:  # noqa: ARG001
    """The names of policies; where none begins so, a settings file."""
    from prunewise.replay.policies import CEILING, OPTIMAL, POLICIES
    from prunewise.replay.report.words import what

    names = [name for name in (*POLICIES, OPTIMAL, CEILING) if name.startswith(incomplete)]
    return [CompletionItem(name, help=what(name)) for name in names] or [
        CompletionItem(incomplete, type="file")
    ]


def references(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:  # noqa: ARG001
    """The outputs of the session that is named before, the newest first: those that are pruned, or else all.

    They are offered by their entries' ids, which need no quotes in a shell.
    """
    conversation = _conversation(ctx)
    if conversation is None:
        return []
    results = [part for part in _parts(conversation) if part.kind == TOOL_RESULT]
    results = [part for part in results if part.status == "pruned"] or results
    offered = ((conversation.ids[part.exchange.result_position], part) for part in reversed(results))
    return [_item(entry, part, conversation) for entry, part in offered if entry.startswith(incomplete)]


def calls(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The call ids of the session that is named before, the newest first: those that the option may take.

    Of an id that a shell would take apart, such as `call_1|fc_1`, its beginning, where no other id has it.
    """
    conversation = _conversation(ctx)
    if conversation is None:
        return []
    is_restore = "--restore" in param.opts
    listed = conversation.pruner().listing()
    offered = {
        part.exchange.call.id: part
        for part in reversed(listed)
        if part.refusal is None and (part.status == "pruned") == is_restore
    }
    short = short_ids(part.exchange.call.id for part in listed)
    return [
        _item(named, part, conversation)
        for call, part in offered.items()
        if (named := _plain(call, short[call])).startswith(incomplete)
    ]


def _plain(call: str, short: str) -> str:
    """The beginning of an id that no shell gives a meaning to, or all of it; `short` is its shortest one."""
    found = _PLAIN.match(call)
    return found[0] if found is not None and found[0].startswith(short) else call


def _conversation(context: click.Context) -> Conversation | None:
    # Where an option still lacks its value, click has left the words before it alone.
    path = context.params.get("session") or (context.args[0] if context.args else None)
    try:
        if path is not None:
            # A shell hands the words on as they were typed.
            path = Path(os.path.expandvars(path)).expanduser()
            if path.stat().st_size <= MOST_BYTES:
                return converse(path)
    except (PrunewiseError, OSError, RuntimeError):  # the last of a user that is not known
        pass
    return None


def _parts(conversation: Conversation) -> Iterator[Listed]:
    """What can be pruned, or is."""
    return (part for part in conversation.pruner().listing() if part.refusal is None)


def _item(value: str, part: Listed, conversation: Conversation) -> CompletionItem[str]:
    what = console.cell(f"{part.exchange.call.name} {digest(part.exchange, conversation.cwd)}")
    about = f"{what[:_LONGEST_HELP]}, {count(part.tokens, 'token')}, {count(part.age, 'turn')} ago"
    return CompletionItem(value, help=about)
