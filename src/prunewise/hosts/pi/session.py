"""One pi session on the engine's side: which messages pi has, how they are pruned, what has changed.

Takes the extension's views and gives answers; knows no pipe and no JSON-RPC. The settings are read
at the beginning and whenever their files have changed, and are changed by commands.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from prunewise import __version__, recall, settings
from prunewise.errors import PrunewiseError, SettingsError
from prunewise.formats.pi import PI
from prunewise.hosts.pi import words
from prunewise.hosts.pi.prices import Model, ModelPrices
from prunewise.hosts.pi.protocol import (
    VERSION,
    Answer,
    Custom,
    Hello,
    MessageEdits,
    Native,
    Note,
    PartEdit,
    Recalled,
    RecallParams,
    Seen,
    View,
    Welcome,
)
from prunewise.hosts.pi.store import PiStore
from prunewise.ledger import to_data
from prunewise.markers import input_object
from prunewise.pruner import Caller, CompactionCheck, Policy, Projected, Pruner
from prunewise.settings import Settings, Value
from prunewise.stores import settings_files
from prunewise.transcript import TOOL_INPUT, Edit
from prunewise.wording import count

_FAILED = ("error", "aborted")
_NO_RECALL = (
    "prunewise: requests go out unpruned as long as the tool recall is switched off, "
    "by which the model gets outputs back"
)


class WrongVersionError(PrunewiseError):
    """The extension speaks another version of the protocol."""


class Session:
    """The engine of one pi session."""

    def __init__(self, hello: Hello) -> None:
        """Raises:
        WrongVersionError: the extension is of another version.
        """
        if hello.protocol != VERSION:
            message = (
                f"the extension speaks version {hello.protocol} of the protocol, prunewise {__version__} "
                f"speaks {VERSION}: run `prunewise pi install` again, then /reload in pi"
            )
            raise WrongVersionError(message)
        self.hello = hello
        self.carried = hello.carried
        self.store = PiStore(None if hello.session_file is None else Path(hello.session_file), hello.header)
        self.settings_folder = hello.cwd if hello.trusted else None
        """The project whose own settings count; None where pi does not trust it."""
        self._files = self._settings_files()
        loaded = self._load()
        self.warnings = loaded.warnings
        self.settings = self._merged(loaded)
        self.prices = ModelPrices()
        self.caller = Caller()
        self._tools: str | None = None
        self._hear(hello.asked)
        self.pruner: Pruner = Pruner(
            "pi",
            Policy(self.settings, self.prices),
            self.store,
            cwd=hello.cwd,
            engaged=self.carried.engaged,
            tells_compactions=True,
            long_lived=os.environ.get("PI_CACHE_RETENTION") == "long",
        )
        self.last_check: CompactionCheck | None = None
        """The prune gate's last answer."""
        self.last: Projected | None = None
        """The last request."""
        self.window: int | None = None
        self.reserve = self.settings.reserve
        self._token = 0
        self._natives: list[Native] = []
        self._ids: list[str] = []
        self._projected: int | None = None
        """The token of the last answer to a request, until a view says whether its edits were applied."""
        self._told: dict[int, list[Edit]] = {}
        self._all_told: tuple[Edit, ...] | None = ()
        self._notes: list[Note] = [Note("settings", "\n".join(self.warnings), "warning")] * bool(
            self.warnings
        )

    # ---- settings

    def _load(self) -> settings_files.Loaded:
        model = None if self.hello.asked is None else self.hello.asked.name
        return settings_files.load(self.settings_folder, model=model)

    def _settings_files(self) -> list[tuple[int, int] | None]:
        """The settings files as they are now, each by its time and size; None for one that is not there."""
        folder = self.settings_folder
        paths = [settings_files.extension_file(), settings_files.global_file()]
        paths += [] if folder is None else [settings_files.project_file(folder)]
        found: list[tuple[int, int] | None] = []
        for path in paths:
            try:
                stat = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((stat.st_mtime_ns, stat.st_size))
        return found

    def _renew_settings(self) -> None:
        """Take in what was changed in the settings files; with anything wrong in them the old ones hold."""
        files = self._settings_files()
        if files == self._files:
            return
        self._files = files
        loaded = self._load()
        if loaded.warnings:
            text = "\n".join(loaded.warnings)
            self._notes.append(Note(f"settings {text}", f"{text}\nThe settings of before hold.", "warning"))
            return
        merged = self._merged(loaded)
        if merged != self.settings:
            self.settings = merged
            self.pruner = self.pruner.under(Policy(merged, self.prices))

    def _merged(self, loaded: settings_files.Loaded) -> Settings:
        """What the files say; where they do not, what the installer found; over it what was not written."""
        data = settings.to_data(loaded.settings)
        halves = {"enabled": self.hello.halves.strategies, "pruning.enabled": self.hello.halves.masking}
        for key, on in halves.items():
            if key not in loaded.sources:
                data = settings.changed(data, key, on)
        for key, value in self.carried.unsaved.items():
            data = settings.changed(data, key, value)
        return settings.parse(data)[0]

    def set(self, key: str, value: Value) -> str | None:
        """Set one setting, now and in its file; why it could not be written, or None.

        Raises:
            SettingsError: there is no such setting, or the value is not allowed.
        """
        data = settings.changed(settings.to_data(self.settings), key, value)
        self.settings = settings.parse(data)[0]
        unsaved = {name: kept for name, kept in self.carried.unsaved.items() if name != key}
        problem: str | None = None
        try:
            settings_files.write(settings_files.file_of(key, self.settings_folder), key, value)
        except SettingsError as error:
            problem = str(error)
            unsaved[key] = list(value) if isinstance(value, tuple) else value
        self._files = self._settings_files()
        self.carried = msgspec.structs.replace(self.carried, unsaved=unsaved)
        self.pruner = self.pruner.under(Policy(self.settings, self.prices))
        return problem

    # ---- the conversation

    def welcome(self, completions: dict[str, list[str]]) -> Welcome:
        """The answer to the extension's greeting."""
        return Welcome(VERSION, __version__, completions)

    def warm(self) -> None:
        """Read the session before it is asked about, while pi itself is still starting."""
        session, leaf = self.store.refresh(), self.hello.leaf
        if session is None or leaf is None or session.entry(leaf) is None or self._natives:
            return
        self._move(leaf)
        self.pruner.follow()
        context = [one for one in session.context(leaf) if one.message.get("role") != "system"]
        self.pruner.read([one.message for one in context], ids=[one.id for one in context])

    def _move(self, leaf: str | None) -> bool:
        """Go to where pi's branch ends now; whether its ledger is another than before."""
        for time in self.store.warmed(leaf):
            self.pruner.kept_warm(now=time)
        return self.store.move(leaf)

    def take(self, view: View) -> Answer | None:
        """Bring the conversation up to date; an answer where it has to be told anew."""
        again = view.base is None
        if not again and view.base != self._token:
            return Answer(resync="keys")
        if again:
            self.store.restart()
        self.store.extend(view.entries)
        self.store.refresh()
        messages = [message for seen in view.messages if (message := self._message(seen)) is not None]
        if len(messages) < len(view.messages):
            return Answer(resync="contents")
        keep = 0 if again else view.keep
        self._natives[keep:] = messages
        self._ids[keep:] = [seen.id or f"?{at}" for at, seen in enumerate(view.messages, start=keep)]
        told = {position: edits for position, edits in self._told.items() if position < keep}
        if len(told) < len(self._told):
            self._told, self._all_told = told, None
        self._token += 1
        self.window = view.window
        if view.reserve is not None:
            self.reserve = view.reserve
        self._tools = view.tools
        self._hear(view.asked)
        self._read(view, messages, again=again)
        return None

    def _message(self, seen: Seen) -> Native | None:
        """A message as it was told, or as its entry holds it; None where there is no such entry."""
        if seen.message is not None or seen.id is None:
            return seen.message
        entry = self.store.entry(seen.id)
        return None if entry is None else entry.message

    def _hear(self, model: Model | None) -> None:
        """Take in who is to answer."""
        if model is not None:
            self.prices.tell(model)
            self.caller = Caller(model.id, model.provider, self._tools or "")

    def _read(self, view: View, new: list[Native], *, again: bool) -> None:
        pruner = self.pruner
        self.store.unwritten = view.unwritten
        moved = self._move(view.leaf)
        if again:
            self.store.reread()
        if moved or again:
            pruner.follow()
        projected, self._projected = self._projected, None
        if projected is not None and view.applied != projected:
            pruner.take_back()
            self.last = None
            self.carried = msgspec.structs.replace(self.carried, announced=False)
        whole = self._lengths(view.whole)
        if whole:
            pruner.sent_whole(whole)
            self.last = Projected(self._natives, raw=pruner.stats.raw_tokens)
        if view.compacted:
            pruner.compacted()
        pruner.read(self._natives, ids=self._ids, window=self.window, reserve=self.reserve)
        answered = _answered_at(new)
        if answered is not None:
            pruner.observe(now=answered)

    def _lengths(self, requests: list[str]) -> dict[str, int]:
        """These requests, by the ids of their last messages, with their lengths. Left out is the one that is
        about to go out again.
        """
        asked = set(requests).difference(self._ids[-1:])
        return {name: at for at, name in enumerate(self._ids, start=1) if name in asked} if asked else {}

    # ---- requests

    def context(self, view: View) -> Answer:
        """What to change in the request that is about to go out."""
        refused = self.take(view)
        if refused is not None:
            return refused
        self._renew_settings()
        if not self._can_recall:
            return self._in_full()
        out = self.pruner.project(
            self._natives, ids=self._ids, window=self.window, reserve=self.reserve, caller=self.caller
        )
        self.last = out
        if out.error is not None and view.unwritten is None:
            self._notes.append(
                Note("error", f"prunewise: a request went out unpruned: {out.error}", "warning")
            )
        self._announce(out)
        self._projected = self._token
        return self.answer(edits=self._changes(out.edits))

    @property
    def _can_recall(self) -> bool:
        """Whether the model is offered the tool that a marker names."""
        return self._tools is None or not self.pruner.format.vocabulary.recall.isdisjoint(self._tools.split())

    def _in_full(self) -> Answer:
        """Let the request go out as it is: a marker would promise what the model cannot have."""
        self.last = Projected(self._natives, raw=self.pruner.stats.raw_tokens)
        if self._ids:
            self.pruner.sent_whole({self._ids[-1]: len(self._ids)})
        self._notes.append(Note("recall", _NO_RECALL, "warning"))
        return self.answer(edits=self._changes(()))

    def compaction(self, view: View) -> Answer:
        """Whether a compaction on the threshold can be left out: the prune gate."""
        refused = self.take(view)
        if refused is not None:
            return refused
        if not self.settings.pruning.enabled or self.window is None or not self._can_recall:
            return self.answer()
        check = self.pruner.check_compaction(self.window, self.reserve)
        self.last_check = check
        if check.cancel:
            self.pruner.engage()  # pi is over its threshold, whatever the estimate here says
        return self.answer(cancel=check.cancel)

    def recall(self, params: RecallParams) -> Recalled:
        """The output that a reference leads to.

        Raises:
            RecallError: it leads to none, with the reason in one line.
        """
        self.store.extend(params.entries)
        return Recalled(recall.recall_parts(self.store, params.ref))

    def lost(self) -> None:
        """What was in the outbox did not get into the session: it does not hold."""
        self.store.reread()
        self.pruner.follow()

    def answer(self, *, edits: list[MessageEdits] | None = None, cancel: bool = False) -> Answer:
        """An answer with everything that goes with each of them."""
        notes, self._notes = self._notes, []
        self.carried = msgspec.structs.replace(self.carried, engaged=self.pruner.engaged)
        return Answer(
            token=self._token,
            edits=edits or [],
            entries=self.outgoing(),
            notes=notes,
            status=self.status(),
            carried=self.carried,
            cancel=cancel,
        )

    def outgoing(self) -> list[Custom]:
        """The entries in the outbox, which is empty then."""
        entries = [Custom(*to_data(entry)) for entry in self.store.outbox]
        self.store.outbox.clear()
        return entries

    def status(self) -> str | None:
        """The footer's text: what the last request was spared."""
        last = self.last
        if last is None or last.saved <= 0 or not self.settings.pruning.footer:
            return None
        parts = f"pruned {last.saved:,} of {last.raw:,} tokens", words.short(self.pruner.stats)
        return ", ".join(filter(None, parts))

    def _announce(self, out: Projected) -> None:
        if not out.edits or self.carried.announced:
            return
        self.carried = msgspec.structs.replace(self.carried, announced=True)
        goes = count(len(out.edits), "output goes out as a short marker", "outputs go out as short markers")
        text = (
            f"prunewise: {goes} from now on, {count(out.saved, 'token')} less per request. "
            "Nothing is lost: the session keeps every output, and the model can recall it."
        )
        self._notes.append(Note("active", text))

    def _changes(self, edits: tuple[Edit, ...]) -> list[MessageEdits]:
        """What the extension has to be told: each message whose edits are not those that it knows."""
        if edits is self._all_told:
            return []
        now: dict[int, list[Edit]] = {}
        for edit in edits:
            now.setdefault(edit.position, []).append(edit)
        changed = [
            MessageEdits(at, [_part_edit(one) for one in parts])
            for at, parts in now.items()
            if self._told.get(at) != parts
        ]
        changed += [MessageEdits(at, []) for at in self._told if at not in now]
        self._told, self._all_told = now, edits
        return changed


def _part_edit(edit: Edit) -> PartEdit:
    value = input_object(edit.text) if edit.kind == TOOL_INPUT else edit.text
    return PartEdit(edit.part, edit.kind, value, edit.keep_images)


def _answered_at(messages: list[Native]) -> float | None:
    """When the last of these answers came, in seconds since the epoch; one that failed is none."""
    for message in reversed(messages):
        answered = message.get("role") == "assistant" and message.get("stopReason") not in _FAILED
        time = PI.read(message, "").time if answered else None
        if time is not None:
            return time
    return None
