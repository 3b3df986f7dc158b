"""`prunewise` alone: what there is on this machine, and how to go on. Opens no session."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prunewise.cli import console
from prunewise.cli.console import Column
from prunewise.cli.sessions import newest_first
from prunewise.formats import opencode
from prunewise.formats.detect import KeptSessions, kept_sessions
from prunewise.hosts.pi import install
from prunewise.settings import DEFAULTS, Settings
from prunewise.stores import settings_files
from prunewise.stores.settings_files import Loaded
from prunewise.wording import count

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (Column("agent"), Column("sessions", "right"), Column("folder", flexible=True))


def show() -> None:
    """Say which agents keep sessions here, what pi prunes by, and three commands to go on with."""
    kept = [one for one in kept_sessions(os.environ, Path.home()) if one.files]
    loaded = settings_files.load()
    console.warn(loaded.warnings)
    out = console.stdout()
    console.show(out, *(_found(kept) if kept else _nothing()), "", *_policy(loaded), "", *_go_on(kept))


def _found(kept: Sequence[KeptSessions]) -> list[RenderableType]:
    most_first = sorted(kept, key=lambda one: -len(one.files))
    rows = [(one.agent, _many(one), one.where) for one in most_first]
    return ["Found on this machine:", console.table(_COLUMNS, rows)]


def _many(kept: KeptSessions) -> str:
    many = len(kept.files)
    return count(many, "database") if kept.agent == opencode.NAME else f"{many:,}"


def _nothing() -> list[RenderableType]:
    return ["No coding agent's sessions were found in their usual places."]


def _policy(loaded: Loaded) -> list[RenderableType]:
    files = sorted({str(path) for path in loaded.sources.values()})
    where = f"set in {', '.join(files)}" if files else "the defaults"
    here = (
        "The extension is in pi."
        if _is_in_pi()
        else "The extension is not in pi, so nothing is pruned there."
    )
    return [console.unbroken(f"Policy for pi: {_in_words(loaded.settings)} ({where})."), here]


def _in_words(settings: Settings) -> str:
    masking = f"masking {'on' if settings.pruning.enabled else 'off'}"
    if not settings.enabled:
        return f"strategies off, {masking}"
    if settings.policy == DEFAULTS.policy:
        return f"{settings.policy}, gate {settings.gate.mode}, {masking}"
    return f"{settings.policy}, {masking}"


def _go_on(kept: Sequence[KeptSessions]) -> list[RenderableType]:
    replay, sample = "prunewise benchmark --html report.html", "prunewise plan examples/session.jsonl"
    title = "Go on with:"
    if session := next(iter(newest_first(kept)), None):
        commands = [replay, f"prunewise plan {shlex.quote(str(session))}"]
    elif kept:
        commands = [replay, sample]
    else:
        title = "Go on with the sample session of a checkout, or with files of your own:"
        commands = [sample, "prunewise benchmark examples/session.jsonl"]
    commands.append("prunewise pi doctor" if _is_in_pi() else "prunewise pi install")
    return [title, *(console.unbroken(f"  {command}") for command in commands)]


def _is_in_pi() -> bool:
    return (install.folder() / "index.ts").exists()
