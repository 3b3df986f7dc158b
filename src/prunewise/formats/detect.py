"""All session formats: which one a file has, and where each agent keeps its sessions.

Knows the readers by name, and loads none before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


_FOLDERS = (
    ("pi", "PI_CODING_AGENT_DIR", ".pi/agent", "sessions", "*/*.jsonl"),
    ("claude-code", "CLAUDE_CONFIG_DIR", ".claude", "projects", "*/*.jsonl"),
    ("codex", "CODEX_HOME", ".codex", "sessions", "*/*/*/rollout-*.jsonl"),
    ("opencode", "", ".local/share/opencode", "", "opencode*.db"),
    ("gemini-cli", "", ".gemini", "tmp", "*/chats/*.json*"),
    ("copilot", "", ".copilot", "session-state", "*/events.jsonl"),
    ("qwen-code", "", ".qwen", "projects", "*/chats/*.jsonl"),
)
"""For each agent: the variable that names its folder, that folder from the home folder where the
variable is not set, the folder of sessions in it, and the pattern of their files."""


def known_session_folders(environment: Mapping[str, str], home: Path) -> list[tuple[str, Path, str]]:
    """Where each known agent keeps its sessions: (agent, folder, pattern of the files in it).

    The folders need not be there. opencode's files are databases, see `opencode.read_database`.
    """
    found: list[tuple[str, Path, str]] = []
    for agent, variable, usual, inner, pattern in _FOLDERS:
        named = environment.get(variable, "").strip() if variable else ""
        base = (
            Path(named.replace("~", str(home), 1) if named.startswith("~") else named)
            if named
            else home / usual
        )
        if agent == "opencode" and environment.get("XDG_DATA_HOME", "").strip():
            base = Path(environment["XDG_DATA_HOME"].strip()) / "opencode"
        found.append((agent, base / inner if inner else base, pattern))
    return found


class KeptSessions(NamedTuple):
    """What a known agent keeps on this machine."""

    agent: str
    folder: Path
    files: list[Path]
    """By name; an opencode file holds many sessions."""


def kept_sessions(environment: Mapping[str, str], home: Path) -> list[KeptSessions]:
    """The session files of every known agent whose folder is there. None of them is opened."""
    return [
        KeptSessions(agent, folder, sorted(folder.glob(pattern)))
        for agent, folder, pattern in known_session_folders(environment, home)
        if folder.is_dir()
    ]
