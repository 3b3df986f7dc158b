"""The commands of pi: what `/pruning`, `/prune` and `/context-pruning` say, ask and change.

A command is a generator of actions: it yields what the extension is to show or to ask, and gets back
what that came to. So a dialog reads from top to bottom, and a test plays the user.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from prunewise.errors import PrunewiseError, SettingsError
from prunewise.gates.words import answer, in_words
from prunewise.hosts.pi import words
from prunewise.hosts.pi.protocol import (
    Action,
    Answer,
    AnswerParams,
    Append,
    CommandParams,
    Confirm,
    Input,
    Say,
    Select,
)
from prunewise.hosts.pi.session import Session
from prunewise.ledger import Target
from prunewise.listing import Listed
from prunewise.pruner import Projected
from prunewise.replay import outcome
from prunewise.settings import Value, from_text, get, setting, shown
from prunewise.transcript import TOOL_INPUT
from prunewise.wording import count, one_line

Dialog = Generator[Action, Any, None]

STRATEGIES = {
    "dedupe": "strategies.dedupe.enabled",
    "error-purge": "strategies.errorPurge.enabled",
    "superseded-file-ops": "strategies.supersededFileOps.enabled",
}
GATE_MODES = ("on", "off", "always-apply")
POLICIES = ("documented", "priced")
PRUNING_KEYS = ("enabled", "minResultTokens", "protectCurrentTurn", "footer")

_CONTROL = ("status", "stats", "on", "off", "toggle")
_LONGEST = 64
_MOST_REPORTED = 50

COMPLETIONS: dict[str, list[str]] = {
    "pruning": [
        "settings",
        *(
            f"settings {key}={value}"
            for key in PRUNING_KEYS
            if key != "minResultTokens"
            for value in ("true", "false")
        ),
        "settings minResultTokens=",
    ],
    "prune": [],
    "context-pruning": [
        *_CONTROL,
        *(f"strategy {name} {state}" for name in STRATEGIES for state in ("on", "off")),
        *(f"gate {mode}" for mode in GATE_MODES),
        *(f"policy {name}" for name in POLICIES),
    ],
}
"""The arguments that each command can be completed with."""

_PRUNING_HELP = f"/pruning settings [key=value ...], with the keys {', '.join(PRUNING_KEYS)}"
_CONTROL_HELP = """\
/context-pruning status
/context-pruning stats
/context-pruning on
/context-pruning off
/context-pruning toggle
/context-pruning strategy <dedupe|error-purge|superseded-file-ops> on|off
/context-pruning gate <on|off|always-apply>
/context-pruning policy <documented|priced>"""


class Dialogs:
    """The dialogs of one session. A new command ends one that is still open."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: Dialog | None = None
        self._number = 0

    def begin(self, params: CommandParams) -> Answer:
        """Begin a command, up to its first action."""
        refused = self._session.take(params.view)
        if refused is not None:
            return refused
        self._number += 1
        self._open = _command(self._session, params)
        return self._advance(None)

    def go_on(self, params: AnswerParams) -> Answer:
        """Go on with what the last action came to.

        Raises:
            PrunewiseError: that dialog is over.
        """
        if self._open is None or params.dialog != self._number:
            raise PrunewiseError("this dialog is over: give the command again")
        return self._advance(params.value)

    def _advance(self, value: Any) -> Answer:
        assert self._open is not None
        try:
            action = self._open.send(value)
        except StopIteration:
            self._open = None
            return self._session.answer()
        answer = self._session.answer()
        return msgspec.structs.replace(answer, dialog=self._number, action=action)


def _command(session: Session, params: CommandParams) -> Dialog:
    args = params.args.split()
    try:
        if params.name == "pruning":
            yield from _pruning(session, args, ui=params.ui)
        elif params.name == "prune":
            yield from _prune(session, ui=params.ui)
        elif params.name == "context-pruning":
            yield from _control(session, args, params.usage)
        else:
            yield Say(f"/{params.name} is no command of prunewise", "error")
    except PrunewiseError as error:
        yield Say(str(error), "error")


# ---------------------------------------------------------------- /pruning


def _pruning(session: Session, args: list[str], *, ui: bool) -> Dialog:
    if not args or args[0] != "settings":
        yield Say(_PRUNING_HELP, "info" if not args else "error")
        return
    if len(args) == 1:
        yield Say(_pruning_text(session))
        if ui:
            yield from _pick_setting(session)
        return
    values = [_assignment(word) for word in args[1:]]  # all of them, or none
    problems = [session.set(key, value) for key, value in values]
    yield Say(_pruning_text(session), "info")
    yield from _unsaved(problems)


def _assignment(word: str) -> tuple[str, Value]:
    name, sign, text = word.partition("=")
    if not sign or name not in PRUNING_KEYS:
        raise SettingsError(f"{word}: write key=value, with one of the keys {', '.join(PRUNING_KEYS)}")
    key = f"pruning.{name}"
    return key, from_text(key, text)


def _pruning_text(session: Session) -> str:
    width = max(map(len, PRUNING_KEYS))
    lines = [f"{name:<{width}}  {_value(session, f'pruning.{name}')}" for name in PRUNING_KEYS]
    return "\n".join([*lines, _state_line(session)])


def _state_line(session: Session) -> str:
    last = session.last
    outputs = 0 if last is None else len(last.edits)
    saved = 0 if last is None else last.saved
    masked = f" ({last.masked:,} of them masked)" if last is not None and last.masked else ""
    return (
        f"{count(outputs, 'output')} pruned{masked}, {count(saved, 'token')} saved per request, "
        f"last gate decision: {_gate_word(session)}"
    )


def _gate_word(session: Session) -> str:
    check = session.last_check
    if check is None:
        return "none"
    word = "compaction left out" if check.cancel else "compaction let through"
    return f"{word} ({check.before:,} tokens, {check.after:,} after pruning, limit {check.limit:,})"


def _pick_setting(session: Session) -> Dialog:
    """Let the user pick a key and change it."""
    options = {f"{name}: {_value(session, f'pruning.{name}')}": name for name in PRUNING_KEYS}
    name = options.get((yield Select("Change which setting?", list(options))))
    if name is None:
        return
    key = f"pruning.{name}"
    if isinstance(get(session.settings, key), bool):
        text = yield Select(f"{name} ({setting(key).meaning})", ["true", "false"])
    else:
        text = yield Input(f"{name} ({setting(key).allowed})", _value(session, key))
    if not isinstance(text, str) or not text.strip():
        return
    problem = session.set(key, from_text(key, text))
    yield Say(f"{name} is {_value(session, key)} now.")
    yield from _unsaved([problem])


def _value(session: Session, key: str) -> str:
    return shown(get(session.settings, key))


def _unsaved(problems: list[str | None]) -> Dialog:
    """Say of what could not be written that it holds all the same."""
    found = list(dict.fromkeys(problem for problem in problems if problem is not None))
    if found:
        yield Say(f"Not saved, so it holds for this session only: {'; '.join(found)}", "warning")


# ---------------------------------------------------------------- /context-pruning


def _control(session: Session, args: list[str], usage: dict[str, Any] | None) -> Dialog:
    match args:
        case []:
            yield Say(_CONTROL_HELP)
        case ["status"]:
            yield Say(_status(session, usage))
        case ["stats"]:
            yield Say(_stats(session))
        case ["on" | "off" | "toggle" as word]:
            on = not session.settings.enabled if word == "toggle" else word == "on"
            yield from _change(session, "enabled", on, f"Context pruning is {_on(on)}.")
        case ["strategy", name, "on" | "off" as word] if name in STRATEGIES:
            yield from _change(session, STRATEGIES[name], word == "on", f"Strategy {name} is {word}.")
        case ["gate", mode] if mode in GATE_MODES:
            yield from _change(session, "gate.mode", mode, f"The gate is {mode}.")
        case ["policy", name] if name in POLICIES:
            yield from _change(session, "policy", name, f"The policy is {name}.")
        case _:
            yield Say(f"Not understood: {' '.join(args)}\n{_CONTROL_HELP}", "error")


def _change(session: Session, key: str, value: Value, text: str) -> Dialog:
    problem = session.set(key, value)
    yield Say(text)
    yield from _unsaved([problem])


def _on(value: bool) -> str:  # noqa: FBT001 - a value to be named
    return "on" if value else "off"


def _status(session: Session, usage: dict[str, Any] | None) -> str:
    settings = session.settings
    gate, protections = settings.gate, settings.protections
    by_state = gate.break_even_threshold_by_state
    thresholds = f"{gate.break_even_threshold:g}"
    for state in ("idle", "mid_loop"):
        if getattr(by_state, state) is not None:
            thresholds += f", {state} {gate.threshold(state):g}"
    strategies = ", ".join(f"{name} {_on(get(settings, key) is True)}" for name, key in STRATEGIES.items())
    stats = session.pruner.stats
    names = count(len(protections.tool_names), "tool name")
    globs = count(len(protections.path_globs), "path glob")
    engaged = ", engaged" if session.pruner.engaged else ""
    lines = [
        f"enabled: {_on(settings.enabled)}",
        f"policy: {settings.policy}",
        f"gate: {gate.mode}, threshold {thresholds} LLM calls, ratio {gate.cached_price_ratio:g}",
        f"strategies: {strategies}",
        f"protections: {names}, {globs}, the last {count(protections.recent_turns, 'turn')}",
        f"last request: {_last(session.last)}",
        f"context: {_usage(usage)}",
        f"masking before compaction: {_on(settings.pruning.enabled)}{engaged}",
        f"cache breaks: {stats.cache_breaks:,}",
        *words.saving(stats),
    ]
    if settings.policy == "documented":
        lines.append(outcome.advice(outcome.last(outcome.cache_folder())))
    return "\n".join(lines)


def _last(last: Projected | None) -> str:
    if last is None:
        return "none yet"
    pruned = len(last.edits) - last.masked
    return (
        f"{last.raw:,} tokens raw, {last.raw - last.saved:,} effective, {last.saved:,} saved "
        f"({pruned:,} pruned, {last.masked:,} masked)"
    )


def _usage(usage: dict[str, Any] | None) -> str:
    if usage is None:
        return "not known"
    tokens, window = usage.get("tokens"), usage.get("contextWindow")
    known = f"{tokens:,} of " if isinstance(tokens, int) else "not known yet, of "
    percent = usage.get("percent")
    share = f" ({percent:.1f}%)" if isinstance(percent, (int, float)) else ""
    return f"{known}{window:,} tokens{share}" if isinstance(window, int) else f"{known}an unknown window"


def _stats(session: Session) -> str:
    stats = session.pruner.stats
    removed = stats.removed_by_strategy
    lines = [f"{name}: {tokens:,} tokens" for name, tokens in sorted(removed.items())]
    taken = f"saved in all: {sum(removed.values()):,} tokens (estimated)"
    return "\n".join([taken, *lines, *words.saving(stats)])


# ---------------------------------------------------------------- /prune


def _prune(session: Session, *, ui: bool) -> Dialog:
    parts = [one for one in session.pruner.listing() if one.refusal is None]
    if not ui:
        yield Say(_report(parts))
        return
    if not parts:
        yield Say("There is no tool output on this branch that could be pruned.")
        return
    options = {f"{number}. {_label(one)}": one for number, one in enumerate(reversed(parts), start=1)}
    part = options.get((yield Select("Prune or restore which output?", list(options))))
    if part is None:
        return
    if part.status == "pruned":
        yield from _restore(session, part)
    else:
        yield from _prune_one(session, part)


def _prune_one(session: Session, part: Listed) -> Dialog:
    verdict = session.pruner.preview([part.target])
    if not (yield Confirm(f"Prune {_what(part)}?", in_words(verdict, "This") + answer(verdict))):
        return
    saved = f"{count(verdict.tokens_removed, 'token')} less per request"
    if session.settings.enabled:
        done = f"Pruned: {saved}. The model can recall it, and /prune restores it."
    else:
        done = f"Pruned, but without effect as long as context pruning is off: once it is on, {saved}."
    yield from _decide(session, prune=[part.target], done=done)


def _restore(session: Session, part: Listed) -> Dialog:
    why = ""
    if part.decision is not None:
        how = "by hand" if part.decision.source == "manual" else f"by {part.decision.strategy_id}"
        why = f"It was pruned {how}. "
    more = f"{count(part.tokens_removed, 'token')} more in each request"
    message = f"{why}To restore it costs {more}, and the cache breaks once from there on."
    if not (yield Confirm(f"Restore {_what(part)}?", message)):
        return
    done = "Restored: it goes out in full again, and is not pruned automatically."
    yield from _decide(session, restore=[part.target], done=done)


def _decide(
    session: Session, *, prune: list[Target] | None = None, restore: list[Target] | None = None, done: str
) -> Dialog:
    session.pruner.decide(prune or (), restore or ())
    failure = yield Append(session.outgoing())
    if failure is not None:
        session.lost()
        yield Say(f"Nothing has changed: the session cannot be written ({failure})", "error")
        return
    yield Say(done)


def _report(parts: list[Listed]) -> str:
    if not parts:
        return "There is no tool output on this branch that could be pruned."
    lines = [_label(one) for one in parts[-_MOST_REPORTED:]]
    more = len(parts) - len(lines)
    head = [f"({more:,} older ones are not shown)"] if more else []
    return "\n".join([*head, *lines])


def _label(part: Listed) -> str:
    turns = "this turn" if part.age == 0 else f"{count(part.age, 'turn')} ago"
    tokens = count(part.tokens, "token")
    if part.status == "pruned":
        tokens = f"{tokens}, {part.tokens_removed:,} of them out"
    return f"[{part.status}] {_what(part)} ({tokens}, {turns})"


def _what(part: Listed) -> str:
    """What an output is, in a few words on one line."""
    call = part.exchange.call
    values = [call.arguments.get(name) for name in ("path", "file_path", "filePath", "command", "ref")]
    about = next((value for value in values if isinstance(value, str)), call.text)
    about = " ".join(about.split())
    if len(about) > _LONGEST:
        about = f"{about[: _LONGEST // 3]}…{about[-2 * _LONGEST // 3 :]}"
    what = "input of " if part.kind == TOOL_INPUT else ""
    return one_line(f"{what}{call.name} {about}")
