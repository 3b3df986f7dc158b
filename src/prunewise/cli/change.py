"""Prunes and restores by hand on their way into a session's file: what they cost, and carrying them out.

The one way for every command, so that the same wish makes the same ledger entries, and is refused for
the same reasons.
"""

from __future__ import annotations

import time
from typing import Any

from prunewise.cli import console
from prunewise.cli.console import cell
from prunewise.cli.desk import Desk
from prunewise.cli.picking import Choice
from prunewise.errors import PrunewiseError, RefusedError
from prunewise.gates.words import answer, in_words
from prunewise.ledger import Target
from prunewise.listing import Listed
from prunewise.plan import verdict_to_dict
from prunewise.stores.pi_session import PiSession
from prunewise.wording import count

_WIDEST = 60
_WIDEST_ID = 40
_MORE_LOOKS = 3
_SECONDS_BETWEEN_LOOKS = 0.3


class Change:
    """What a person has chosen to do with one session."""

    def __init__(self, desk: Desk, choice: Choice) -> None:
        """Price it; nothing is written.

        Raises:
            RefusedError: one to prune cannot be pruned.
        """
        self.desk = desk
        self.choice = choice
        self.verdict = desk.pruner.preview([one.target for one in choice.prune]) if choice.prune else None
        self.saved = 0
        """How much smaller the next request is, measured in the file as it is then."""
        self.entries = 0
        self.after: Desk | None = None
        """The session once it was carried out."""

    def deeds(self) -> list[str]:
        """What it would do: a line for each part, whatever its length."""
        choice = self.choice
        return [
            *choice.settled,
            *[f"Prune {self._named(one.target)}" for one in choice.prune],
            *[f"Restore {self._named(target)}" for target in choice.restore],
        ]

    def costs(self) -> list[str]:
        """What all of it together saves and costs, in sentences."""
        choice = self.choice
        if not choice.prune and not choice.restore:
            return ["Nothing was added."] if choice.settled else []
        lines: list[str] = []
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
        after = self.after = self.desk.again()
        self.saved = sum(_confirmed(after, target, "pruned").tokens_removed for target in prune)
        for target in restore:
            if target in self.desk.by_target:
                _confirmed(after, target, "restored")
                self.saved -= self.desk.by_target[target].tokens_removed

    def outcome(self) -> str:
        """What was done, in words."""
        added = f"Added {count(self.entries, 'entry', 'entries')} to the session."
        if not self.desk.conversation.loaded.settings.enabled:
            return f"{added} Pruning is off in the settings, so requests stay as they are."
        size = "smaller" if self.saved >= 0 else "larger"
        return f"{added} The next request is {count(abs(self.saved), 'token')} {size}."

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


def _confirmed(desk: Desk, target: Target, status: str) -> Listed:
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
