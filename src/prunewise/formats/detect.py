"""All session formats: which one a file has, and where each agent keeps its sessions.

Knows the readers by name, and loads none before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from prunewise.errors import InputError
from prunewise.recording import Recording

HEAD = 65536
"""How many of a file's first bytes tell its format."""

_MODULES: Mapping[str, str] = {
    "pi": "pi_recording",
    "qwen-code": "qwen",  # before Claude Code, whose lines are alike
    "claude-code": "claude_code",
    "codex": "codex",
    "copilot": "copilot",
    "opencode": "opencode",
    "gemini-cli": "gemini_cli",
    "swe-agent": "swe_agent",
    "request": "request_body",
}
"""The module of each format, in the order in which they are asked."""


class Reader(NamedTuple):
    """One session format."""

    detect: Callable[[bytes], bool]
    """Whether a file that begins with these bytes (64 kB of it, or all) has this format."""
    read_recording: Callable[[str, bytes], Recording]
    """Reads a file of this format, by what it is called in messages and its bytes; an InputError where
    it has another."""


def _reader(module: str) -> Reader:
    """The reader of a module, which is loaded when it is first asked."""

    def loaded() -> ModuleType:
        return import_module(f"prunewise.formats.{module}")

    def detect(head: bytes) -> bool:
        return bool(loaded().detect(head))

    def read_recording(source: str, data: bytes) -> Recording:
        recording: Recording = loaded().read_recording(source, data)
        return recording

    return Reader(detect, read_recording)


READERS: Mapping[str, Reader] = {name: _reader(module) for name, module in _MODULES.items()}
"""Each session format by name, as a pair of (detect, read_recording)."""


def detect(head: bytes) -> str | None:
    """The name of the format of a file that begins with these bytes (64 kB of it, or all), or None."""
    return next((name for name, reader in READERS.items() if reader.detect(head)), None)


def read_recording(source: str, data: bytes, format: str | None = None) -> Recording:
    """Read a session file of any format, or of a given one.

    Raises:
        InputError: its format is not known, or it cannot be read.
    """
    name = format or detect(data[:HEAD])
    if name is None or name not in READERS:
        said = "its format is not known" if name is None else f"format {name!r} is not known"
        msg = f"{source}: {said}; known session formats: {', '.join(READERS)}"
        raise InputError(msg)
    return READERS[name].read_recording(source, data)


class _Home(NamedTuple):
    """Where an agent keeps its sessions."""

    agent: str
    variables: tuple[tuple[str, str], ...]
    """The variables that name its folder, the strongest first, with the folder in the one that they name.
    Several folders stand with commas between."""
    usual: tuple[str, ...]
    """Its folders where none of those is set, from the home folder or one of the XDG folders."""
    files: tuple[tuple[str, str], ...]
    """Folders of sessions in it, with the patterns of their files; those of subagents are among them."""


_HOMES = (
    _Home("pi", (("PI_CODING_AGENT_DIR", ""),), (".pi/agent",), (("sessions", "*/*.jsonl"),)),
    _Home(
        "claude-code",
        (("CLAUDE_CONFIG_DIR", ""),),
        (".claude", "$XDG_CONFIG_HOME/claude"),
        (("projects", "*/*.jsonl"), ("projects", "*/*/subagents/**/*.jsonl")),
    ),
    _Home(
        "codex",
        (("CODEX_HOME", ""),),
        (".codex",),
        (("sessions", "*/*/*/rollout-*.jsonl"), ("archived_sessions", "**/rollout-*.jsonl")),
    ),
    _Home("opencode", (), ("$XDG_DATA_HOME/opencode",), (("", "opencode*.db"),)),
    _Home(
        "gemini-cli",
        (("GEMINI_CLI_HOME", ".gemini"),),
        (".gemini",),
        (("tmp", "*/chats/*.json*"), ("tmp", "*/chats/*/*.json*")),
    ),
    _Home(
        "copilot",
        (("COPILOT_HOME", ""),),
        (".copilot", "$XDG_STATE_HOME/.copilot"),
        (("session-state", "*/events.jsonl"),),
    ),
    _Home(
        "qwen-code",
        (("QWEN_RUNTIME_DIR", ""), ("QWEN_HOME", "")),
        (".qwen",),
        (("projects", "*/chats/*.jsonl"), ("projects", "*/subagents/**/*.jsonl")),
    ),
)
_XDG = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
_FILES_OF_THEIR_OWN = (
    ("pi", "PI_CODING_AGENT_SESSION_DIR", "*.jsonl"),
    ("opencode", "OPENCODE_DB", ""),
)
"""Variables that name a folder of sessions, or one file, beside those."""


def known_session_folders(environment: Mapping[str, str], home: Path) -> list[tuple[str, Path, str]]:
    """Where the known agents keep their sessions: (agent, folder, pattern of the files in it).

    The folders need not be there. opencode's files are databases, see `opencode.read_database`.
    """
    found: list[tuple[str, Path, str]] = []
    for agent, variables, usual, files in _HOMES:
        named = next(((name, inner) for name, inner in variables if _said(environment, name)), None)
        if named is None:
            bases = [_usual(environment, home, path) for path in usual]
        else:
            bases = [base / named[1] for base in _named(environment, home, named[0])]
        found += [(agent, base / inner, pattern) for base in bases for inner, pattern in files]
        for owner, name, pattern in _FILES_OF_THEIR_OWN:
            if owner == agent and _said(environment, name):
                (path, *_) = _named(environment, home, name)
                found.append((agent, path, pattern) if pattern else (agent, path.parent, path.name))
    return list(dict.fromkeys(found))


def _said(environment: Mapping[str, str], variable: str) -> str:
    return environment.get(variable, "").strip()


def _named(environment: Mapping[str, str], home: Path, variable: str) -> list[Path]:
    """The folders that a variable names. One that is there may have a comma in its name."""
    said = _said(environment, variable)
    several = [said] if Path(said).exists() else [one.strip() for one in said.split(",") if one.strip()]
    return [Path(one.replace("~", str(home), 1) if one.startswith("~") else one) for one in several or [said]]


def _usual(environment: Mapping[str, str], home: Path, path: str) -> Path:
    variable, _, inner = path.removeprefix("$").partition("/")
    if not path.startswith("$"):
        return home / path
    return Path(_said(environment, variable) or home / _XDG[variable]) / inner


class KeptSessions(NamedTuple):
    """What a known agent keeps on this machine."""

    agent: str
    folders: list[Path]
    """Those that hold a session; where none does, those that are there."""
    files: list[Path]
    """By name; an opencode file holds many sessions."""

    @property
    def where(self) -> str:
        """The folders, as they are shown."""
        return ", ".join(map(str, self.folders))


def kept_sessions(environment: Mapping[str, str], home: Path) -> list[KeptSessions]:
    """The session files of every known agent whose folder is there. None of them is opened."""
    found: dict[str, KeptSessions] = {}
    for agent, folder, pattern in known_session_folders(environment, home):
        if folder.is_dir():
            kept = found.setdefault(agent, KeptSessions(agent, [], []))
            files = [file for file in folder.glob(pattern) if file not in kept.files]
            kept.files.extend(_new_rollouts(kept.files, files) if agent == "codex" else files)
            if folder not in kept.folders:
                kept.folders.append(folder)
    return [_with_files(kept) for kept in found.values()]


def _new_rollouts(known: Iterable[Path], files: Iterable[Path]) -> list[Path]:
    """Those whose names are new: a rollout keeps its name when it is archived."""
    names = {file.name for file in known}
    return [file for file in files if file.name not in names]


def _with_files(kept: KeptSessions) -> KeptSessions:
    """With its files in order, and the folders that hold any."""
    used = [folder for folder in kept.folders if any(file.is_relative_to(folder) for file in kept.files)]
    return kept._replace(folders=used or kept.folders, files=sorted(kept.files))
