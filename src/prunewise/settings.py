"""What can be set, what it is by default and what is allowed: values only, no file and no environment.

The settings have the JSON shape of the extension's configuration, with camelCase names. `SETTINGS` lists
each of them once: reading, the messages about broken values and the reference page all come from it.
Where settings are kept and how they are written is the business of `prunewise.stores.settings_files`.
"""

from __future__ import annotations

import functools
import json
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from prunewise.errors import SettingsError

GateMode = Literal["on", "off", "always-apply"]
AgentState = Literal["idle", "mid_loop"]
PolicyName = Literal["documented", "priced"]
Value: TypeAlias = bool | int | float | str | tuple[str, ...] | tuple[int | float, ...]
"""What one setting holds; a list is a tuple here, and a list in JSON."""

PROTECTED_TOOLS = (
    "todo",
    "task",
    "subagent",
    "agent",
    "skill",
    "oracle",
    "librarian",
    "contrarian",
    "code_reviewer",
    "gnosis",
    "triage_comments",
)
PROTECTED_GLOBS = (
    "**/.env",
    "**/.env.*",
    "**/*.pem",
    "**/*.key",
    "**/id_rsa*",
    "**/id_ed25519*",
    "**/secrets/**",
    "**/*.p12",
    "**/*.pfx",
)


class Protections(Struct, frozen=True, rename="camel"):
    """What no automatic strategy touches: tools by name, paths by glob, the last turns."""

    tool_names: tuple[str, ...] = PROTECTED_TOOLS
    path_globs: tuple[str, ...] = PROTECTED_GLOBS
    recent_turns: int = 4


class Thresholds(Struct, frozen=True, rename="camel"):
    """The size floor, in characters saved."""

    min_chars_saved: int = 200


class Toggle(Struct, frozen=True, rename="camel"):
    """A strategy that can only be switched on or off."""

    enabled: bool = True


class ErrorPurge(Struct, frozen=True, rename="camel"):
    """The error-purge strategy: a failed call's input may go once it is older than so many turns."""

    enabled: bool = True
    min_turns_old: int = 4


class Strategies(Struct, frozen=True, rename="camel"):
    """One part a strategy."""

    dedupe: Toggle = Toggle()
    error_purge: ErrorPurge = ErrorPurge()
    superseded_file_ops: Toggle = Toggle()


class StateThresholds(Struct, frozen=True):
    """Break-even thresholds by agent state, in LLM calls; None is "as `Gate.break_even_threshold`"."""

    idle: int | float | None = None
    mid_loop: int | float | None = None


class Gate(Struct, frozen=True, rename="camel"):
    """The net-benefit gate: its mode, the cached price ratio r, and the thresholds in LLM calls."""

    mode: GateMode = "on"
    cached_price_ratio: int | float = 0.1
    break_even_threshold: int | float = 22
    break_even_threshold_by_state: StateThresholds = StateThresholds()

    def threshold(self, state: AgentState) -> int | float:
        """The threshold that holds in a state: the state's own, else `break_even_threshold`."""
        by_state = self.break_even_threshold_by_state
        own = by_state.idle if state == "idle" else by_state.mid_loop
        return self.break_even_threshold if own is None else own


class Priced(Struct, frozen=True, rename="camel"):
    """The priced policy: ages in LLM calls, sizes in tokens. `trim_tokens`, `trim_lines` and `index_tokens`
    are retired: accepted, without effect.
    """

    recent_calls: int = 3
    min_tokens: int = 50
    trim_tokens: int = 1000
    trim_lines: int = 8
    index_tokens: int = 900
    patience: int | float = 0.75
    caution: int | float = 1
    survival: tuple[int | float, ...] = (23, 30, 34, 51)
    """How many LLM calls, this one counted, a cut serves that is made after 0, 10, 40 and 80 of them: until
    the session ends, is compacted, or pauses for ten minutes. The means over 121 public sessions of coding
    agents; `prunewise calibrate` measures them anew."""
    stake: int | float = 0.03


class Pruning(Struct, frozen=True, rename="camel"):
    """The two-level part: masking of large outputs in front of compaction. Sizes in tokens."""

    enabled: bool = True
    min_result_tokens: int = 1000
    protect_current_turn: bool = True
    footer: bool = True


class Settings(Struct, frozen=True, rename="camel"):
    """All settings. `window` is the model's context window and `reserve` its head room, in tokens."""

    enabled: bool = True
    policy: PolicyName = "documented"
    protections: Protections = Protections()
    thresholds: Thresholds = Thresholds()
    strategies: Strategies = Strategies()
    gate: Gate = Gate()
    priced: Priced = Priced()
    pruning: Pruning = Pruning()
    window: int | None = None
    reserve: int = 16384


DEFAULTS = Settings()


# ---------------------------------------------------------------- what a value may be

# The largest whole number that a JavaScript host holds exactly; a larger one means the same here.
_LARGEST_WHOLE = 2**53 - 1
_MOST_NUMBERS = 4


class Rule(Struct, frozen=True):
    """What one setting may hold: in a word, in a sentence, and as a function.

    `read` returns the value as it is kept, or None where the value is not allowed.
    """

    type: str
    allowed: str
    read: Callable[[object], Value | None]


def _read_flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _read_strings(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    items = cast("list[object]", value)
    strings = tuple(item for item in items if isinstance(item, str))
    return strings if len(strings) == len(items) else None


def _read_numbers(value: object) -> tuple[int | float, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    items = cast("list[object]", value)
    numbers = tuple(
        item for item in items if isinstance(item, int | float) and not isinstance(item, bool) and item >= 0
    )
    return numbers if 1 <= len(numbers) == len(items) <= _MOST_NUMBERS else None


def _whole(least: int) -> Rule:
    def read(value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if value < least or not (isinstance(value, int) or value.is_integer()):
            return None
        return min(int(value), _LARGEST_WHOLE)

    return Rule("whole number", f"a whole number, {least} or more", read)


def _number(allowed: str, most: float) -> Rule:
    def read(value: object) -> int | float | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            return None
        return float(value) if value > _LARGEST_WHOLE else value

    return Rule("number", allowed, read)


def _choice(*options: str) -> Rule:
    def read(value: object) -> str | None:
        return value if isinstance(value, str) and value in options else None

    quoted = [json.dumps(option) for option in options]
    return Rule("choice", f"{', '.join(quoted[:-1])} or {quoted[-1]}", read)


_FLAG = Rule("boolean", "true or false", _read_flag)
_STRINGS = Rule("list of strings", "a list of strings, or [] for none", _read_strings)
_NUMBERS = Rule("list of numbers", "a list of 1 to 4 numbers, 0 or more", _read_numbers)
_COUNT = _whole(0)
_CALLS = _number("a number, 0 or more", sys.float_info.max)


# ---------------------------------------------------------------- every setting, once

File = Literal["dynamic-context-pruning.json", "settings.json", "--settings"]
"""Where a setting lives: the extension's file, pi's settings files, or only a file that is named."""


class Setting(Struct, frozen=True):
    """One setting: its dotted key, what it may hold, what it means, where it lives, and what sets it."""

    key: str
    rule: Rule
    meaning: str
    file: File = "dynamic-context-pruning.json"
    command: str = ""
    """The command in pi that sets it; empty where only the file does."""
    unset: str = ""
    """What holds as long as it is not set, where it has no default value of its own."""

    @property
    def type(self) -> str:
        """The kind of value, in a word or two."""
        return self.rule.type

    @property
    def allowed(self) -> str:
        """The values that are allowed, in words."""
        return self.rule.allowed

    @property
    def default(self) -> Value | None:
        """The default, taken from `DEFAULTS`; None where it has none."""
        return get(DEFAULTS, self.key)


def _strategy(name: str, identifier: str, meaning: str) -> Setting:
    command = f"/context-pruning strategy {identifier} on"
    return Setting(f"strategies.{name}.enabled", _FLAG, meaning, command=command)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "enabled",
        _FLAG,
        "Prune at all. When off, requests go out as they are, and decisions are kept for later.",
        command="/context-pruning on",
    ),
    Setting(
        "policy",
        _choice("documented", "priced"),
        "What decides: `documented` prunes what the three strategies find, behind the break-even gate; "
        "`priced` cuts outputs that the model has had in full, when the cache's prices say that it pays, and "
        "leaves out repeats and noise before they are first sent.",
        command="/context-pruning policy priced",
    ),
    Setting(
        "protections.toolNames",
        _STRINGS,
        "Tools whose calls and results are never pruned automatically; case does not matter.",
    ),
    Setting(
        "protections.pathGlobs",
        _STRINGS,
        "A call is never pruned automatically when one of its string arguments matches one of these globs.",
    ),
    Setting(
        "protections.recentTurns",
        _COUNT,
        "So many of the latest turns are never touched by a strategy.",
    ),
    Setting(
        "thresholds.minCharsSaved",
        _COUNT,
        "A proposal that saves fewer characters than this is dropped.",
    ),
    _strategy(
        "dedupe",
        "dedupe",
        "Propose the older results of calls that were repeated with the same arguments.",
    ),
    _strategy("errorPurge", "error-purge", "Propose the inputs of old calls that failed."),
    Setting(
        "strategies.errorPurge.minTurnsOld",
        _COUNT,
        "A failed call's input may go once it is more than so many turns old.",
    ),
    _strategy(
        "supersededFileOps",
        "superseded-file-ops",
        "Propose file reads and writes that a later read or write of the same file replaces.",
    ),
    Setting(
        "gate.mode",
        _choice("on", "off", "always-apply"),
        "What the net-benefit gate does with a batch that does not pay soon enough: `on` rejects it, "
        "`off` applies it without pricing it, `always-apply` prices it and applies it.",
        command="/context-pruning gate on",
    ),
    Setting(
        "gate.cachedPriceRatio",
        _number("a number from 0 to 1", 1),
        "The price of a cached input token as a part of the price of a fresh one.",
    ),
    Setting(
        "gate.breakEvenThreshold",
        _CALLS,
        "A batch is accepted when it pays for the broken cache within so many LLM calls.",
    ),
    Setting(
        "gate.breakEvenThresholdByState.idle",
        _CALLS,
        "The same, for a request that opens a turn.",
        unset="as `gate.breakEvenThreshold`",
    ),
    Setting(
        "gate.breakEvenThresholdByState.mid_loop",
        _CALLS,
        "The same, for a request in the middle of a tool loop.",
        unset="as `gate.breakEvenThreshold`",
    ),
    Setting(
        "priced.recentCalls",
        _COUNT,
        "Under `priced`, outputs of so many of the latest LLM calls are never cut once they have been sent.",
    ),
    Setting(
        "priced.minTokens",
        _COUNT,
        "Under `priced`, an output is cut only when it is larger than so many tokens.",
    ),
    Setting(
        "priced.trimTokens",
        _COUNT,
        "Retired: accepted, without effect.",
    ),
    Setting(
        "priced.trimLines",
        _COUNT,
        "Retired: accepted, without effect.",
    ),
    Setting(
        "priced.indexTokens",
        _COUNT,
        "Retired: accepted, without effect.",
    ),
    Setting(
        "priced.patience",
        _CALLS,
        "Under `priced`, a cut waits until what waiting has cost comes to so many times its price.",
    ),
    Setting(
        "priced.caution",
        _CALLS,
        "Under `priced`, what recalls may cost counts so many times.",
    ),
    Setting(
        "priced.survival",
        _NUMBERS,
        "Under `priced`, how many LLM calls a cut is taken to serve that is made after 0, 10, 40 and 80 of "
        "them; the last number holds from there on.",
    ),
    Setting(
        "priced.stake",
        _number("a number from 0 to 1", 1),
        "Under `priced`, what cuts and their recalls may lose beyond what pruning has brought, as a part of "
        "what the session has cost.",
    ),
    Setting(
        "pruning.enabled",
        _FLAG,
        "Mask large outputs when the context reaches the compaction threshold.",
        file="settings.json",
        command="/pruning settings enabled=true",
    ),
    Setting(
        "pruning.minResultTokens",
        _COUNT,
        "An output is masked only when it is larger than so many tokens.",
        file="settings.json",
        command="/pruning settings minResultTokens=1000",
    ),
    Setting(
        "pruning.protectCurrentTurn",
        _FLAG,
        "Never mask outputs after the last user message.",
        file="settings.json",
        command="/pruning settings protectCurrentTurn=true",
    ),
    Setting(
        "pruning.footer",
        _FLAG,
        "Show in pi's footer how much smaller requests are.",
        file="settings.json",
        command="/pruning settings footer=true",
    ),
    Setting(
        "window",
        _whole(1),
        "The model's context window, in tokens.",
        file="--settings",
        unset="what the host says; without it nothing is masked",
    ),
    Setting(
        "reserve",
        _COUNT,
        "The head room below the window at which the compaction threshold lies, in tokens. "
        "In pi this is `compaction.reserveTokens`, or the model's entry in `compaction.modelOverrides`.",
        file="--settings",
    ),
)

_BY_KEY = {setting.key: setting for setting in SETTINGS}

_Tree: TypeAlias = "dict[str, Setting | _Tree]"


def _tree() -> _Tree:
    root: _Tree = {}
    for entry in SETTINGS:
        *sections, leaf = entry.key.split(".")
        branch = root
        for section in sections:
            branch = cast("_Tree", branch.setdefault(section, {}))
        branch[leaf] = entry
    return root


_ROOT = _tree()


# ---------------------------------------------------------------- reading


class Problem(Struct, frozen=True):
    """A value that is not allowed: where, what it is, what is allowed, and what holds instead.

    `str(problem)` is the message, on one line, ready to stand behind a file's name.
    """

    key: str
    """The dotted key; empty for the settings as a whole."""
    value: object
    allowed: str
    kept: Value | None = None
    """The value that holds instead; None where that is no single value."""

    def __str__(self) -> str:
        where = self.key or "settings"
        return f"{where}: {shown(self.value)} is not allowed; give {self.allowed}{self._using()}"

    def _using(self) -> str:
        if self.kept is None:
            return ""
        if isinstance(self.kept, tuple):
            return f" (using a list of {len(self.kept)})"
        return f" (using {shown(self.kept)})"


class Unknown(Struct, frozen=True):
    """A key that is no setting, and the setting that was perhaps meant."""

    key: str
    suggestion: str | None

    def __str__(self) -> str:
        meant = "" if self.suggestion is None else f": did you mean {self.suggestion}?"
        return f"{self.key} is no setting{meant}"


def parse(data: Mapping[str, object], base: Settings = DEFAULTS) -> tuple[Settings, list[Problem]]:
    """Merge settings in their JSON shape over `base`, key by key.

    A list replaces the one in `base`; null counts as absent; unknown keys are passed over (`unknown` finds
    them). A value that is not allowed leaves the one in `base`, and is told as a problem. Never raises,
    whatever JSON value `data` is.
    """
    found: dict[str, Value] = {}
    problems: list[Problem] = []
    for key, rule, value in _given(data, _ROOT, ""):
        kept = None if rule is None else rule.read(value)
        if kept is not None:
            found[key] = kept
        else:
            allowed = "an object" if rule is None else rule.allowed
            problems.append(Problem(key, value, allowed, get(base, key) if rule else None))
    merged = to_data(base)
    for key, value in found.items():
        merged = _with(merged, key.split("."), value)
    return msgspec.convert(merged, Settings), problems


def set_keys(data: object) -> list[str]:
    """The dotted keys of the settings that `data` sets to a value that is allowed."""
    found = _given(data, _ROOT, "")
    return [key for key, rule, value in found if rule is not None and rule.read(value) is not None]


def _given(data: object, tree: _Tree, prefix: str) -> Iterator[tuple[str, Rule | None, object]]:
    """The known keys of `data` that are set, each with its rule; a section that is no object has none."""
    if not isinstance(data, Mapping):
        yield prefix.removesuffix("."), None, data
        return
    values = cast("Mapping[str, object]", data)
    for name, node in tree.items():
        value = values.get(name)
        if value is None:
            continue
        if isinstance(node, Setting):
            yield node.key, node.rule, value
        else:
            yield from _given(value, node, f"{prefix}{name}.")


def unknown(data: object) -> list[Unknown]:
    """The keys of `data` that are no settings, in order, each with the setting that was perhaps meant."""
    return list(_strangers(data, _ROOT, ""))


def _strangers(data: object, tree: _Tree, prefix: str) -> Iterator[Unknown]:
    if not isinstance(data, Mapping):
        return
    for name, value in cast("Mapping[object, object]", data).items():
        node = tree.get(str(name))
        if node is None:
            yield Unknown(f"{prefix}{name}", _meant(str(name), tree, prefix))
        elif not isinstance(node, Setting):
            yield from _strangers(value, node, f"{prefix}{name}.")


def _meant(name: str, tree: _Tree, prefix: str) -> str | None:
    """The sibling whose name is nearly this, else the one setting of this name in another section."""
    bare = _bare(name)
    siblings = {_bare(sibling): sibling for sibling in tree}
    import difflib  # only where a key is not known

    close = difflib.get_close_matches(bare[:100], siblings, n=1, cutoff=0.75)
    if close:
        return f"{prefix}{siblings[close[0]]}"
    elsewhere = [key for key in _BY_KEY if _bare(key.rpartition(".")[2]) == bare]
    return elsewhere[0] if len(elsewhere) == 1 else None


def _bare(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


# ---------------------------------------------------------------- one setting


def setting(key: str) -> Setting:
    """The setting with a dotted key.

    Raises:
        SettingsError: there is none, with the one that was perhaps meant.
    """
    found = _BY_KEY.get(key)
    if found is not None:
        return found
    tree = _ROOT
    walked: list[str] = []
    for name in key.split("."):
        node = tree.get(name)
        if node is None or isinstance(node, Setting):
            prefix = "".join(f"{section}." for section in walked)
            meant = None if node else _meant(name, tree, prefix)
            raise SettingsError(str(Unknown(key, meant)))
        tree = node
        walked.append(name)
    message = f"{key} is a section: set one of {', '.join(f'{key}.{name}' for name in tree)}"
    raise SettingsError(message)


def get(settings: Settings, key: str) -> Value | None:
    """The value at a dotted key of `SETTINGS`; None where it is not set."""
    return _getter(key)(settings)


@functools.cache
def _getter(key: str) -> Callable[[Settings], Value | None]:
    attributes: list[str] = []
    node: object = DEFAULTS
    for name in key.split("."):
        fields = msgspec.structs.fields(cast("Struct", node))
        attributes.append(next(field.name for field in fields if field.encode_name == name))
        node = getattr(node, attributes[-1])
    return operator.attrgetter(".".join(attributes))


def from_text(key: str, text: str) -> Value:
    """The value that a command's text stands for: JSON, a bare word, or on and off for true and false.

    Raises:
        SettingsError: there is no such setting, or the value is not allowed.
    """
    rule = setting(key).rule
    word = text.strip()
    if rule is _FLAG:
        word = {"on": "true", "off": "false"}.get(word, word)
    try:
        value: object = json.loads(word)
    except (ValueError, RecursionError):
        value = word
    return _checked(key, value)


def _checked(key: str, value: object) -> Value:
    rule = setting(key).rule
    kept = rule.read(value)
    if kept is None:
        raise SettingsError(str(Problem(key, value, rule.allowed)))
    return kept


# ---------------------------------------------------------------- writing


def to_data(settings: Settings) -> dict[str, object]:
    """The settings in their full JSON shape, without what is not set (a window, a state's threshold)."""
    data: dict[str, object] = {}
    for entry in SETTINGS:
        data = _with(data, entry.key.split("."), get(settings, entry.key))
    return data


def changed(data: object, key: str, value: object) -> dict[str, object]:
    """The user's own mapping with one dotted key set; None takes the key out.

    Unknown keys and the order are kept, and `data` is left as it is. A section that is no object is replaced.

    Raises:
        SettingsError: there is no such setting, or the value is not allowed.
    """
    setting(key)
    kept = None if value is None else _checked(key, value)
    return _with(data, key.split("."), kept)


def _with(data: object, path: list[str], value: Value | None) -> dict[str, object]:
    copy = dict(cast("Mapping[str, object]", data)) if isinstance(data, Mapping) else {}
    name, *rest = path
    if rest and (value is not None or isinstance(copy.get(name), Mapping)):
        copy[name] = _with(copy.get(name), rest, value)
    elif value is not None:
        copy[name] = list(value) if isinstance(value, tuple) else value
    elif not rest:
        copy.pop(name, None)
    return copy


# ---------------------------------------------------------------- showing


def shown(value: object) -> str:
    """A value for a message: on one line, in JSON as far as it goes, cut where it is long."""
    if isinstance(value, list | tuple):
        text = f"[{', '.join(_scalar(item) for item in cast('list[object]', value)[:20])}]"
    else:
        text = _scalar(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


_LONGEST_SHOWN = 200
_LONGEST_INTEGER_BITS = 1024


def _scalar(value: object) -> str:
    if isinstance(value, str):
        # Lone surrogates come out as escapes: a message has to be printable.
        return (
            json.dumps(value[:_LONGEST_SHOWN], ensure_ascii=False).encode(errors="backslashreplace").decode()
        )
    if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER_BITS:
        return "a very large number"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{...}"
    return "[...]" if isinstance(value, list | tuple) else type(value).__name__
