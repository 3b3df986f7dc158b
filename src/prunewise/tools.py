"""The tool vocabulary: which tools read, write, edit or run, and what their arguments are called, per host.

Knows names and arguments. Knows no files: paths are resolved lexically.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

Action = Literal["read", "write", "edit"]

Sort = Literal["read", "change", "search", "list", "git", "web", "test", "follow", "other"]
"""What kind of output a call gives: how long it stays useful, and what of it, depends on this. `follow` is
what a command goes on to print while it runs."""


class FileOperation(msgspec.Struct, frozen=True, gc=False):
    """What a call does to a file: a read of the lines `first` to `last` (1-based, both included;
    `last` is infinity for a read to the end), or a write or edit of all of it.
    """

    action: Action
    path: str
    """Trimmed, and resolved lexically against the working directory where there is one."""
    first: float = 1
    last: float = math.inf

    def covers(self, other: FileOperation) -> bool:
        """Whether every line of `other` is among the lines of this."""
        return self.first <= other.first and self.last >= other.last


class Vocabulary(msgspec.Struct, frozen=True):
    """The tools of one host, their names in lower case: letter case is not told apart.
    `shell` names its command tools.
    """

    files: Mapping[str, Action]
    shell: frozenset[str] = frozenset()
    recall: frozenset[str] = frozenset({"recall"})
    paths: tuple[str, ...] = ("path", "file_path", "filePath")
    """Argument names that hold the path, the first present one wins."""
    first_line: str = "offset"
    """The argument that names a read's first line."""
    line_count: str = "limit"
    """The argument that names how many lines; empty where the host has none."""
    last_line: str = ""
    """The argument that names the last line; empty where the host has none."""
    first_index: int = 1
    """The number that the host gives to a file's first line."""
    index_is_sure: bool = True
    """False where it may as well be the number before."""
    command: str = "command"
    """The argument of a shell tool that holds the command."""
    flags_failures: bool = False
    """Whether every command that failed is flagged as an error: then any other one ended with exit code 0."""
    flags_errors: bool = False
    """Whether every other call that failed is flagged as an error."""
    fresh_shell: bool = False
    """Whether every command starts in the working directory, whatever folder the one before went to."""
    longest_read: tuple[int, int] | None = None
    """So many lines and bytes a read gives at most, where the host says in its output when it gave less than
    was asked for; None where it may be silent."""
    unchanged_stubs: tuple[str, ...] = ()
    """How outputs begin that only say a file is as it was read before. They are references to that
    read, never reads."""
    narrowed_by: frozenset[str] = frozenset()
    """Arguments that narrow a read to lines which these words cannot tell. A read with one of them
    covers nothing that is known, so it is no file operation."""


PI = Vocabulary(
    files={"read": "read", "write": "write", "edit": "edit"},
    shell=frozenset({"bash"}),
    flags_failures=True,
    flags_errors=True,
    fresh_shell=True,
    longest_read=(2000, 50_000),
)

OPENCODE = Vocabulary(
    files={"read": "read", "write": "write", "edit": "edit", "multiedit": "edit"},
    shell=frozenset({"bash"}),
    paths=("filePath",),
    flags_errors=True,
    fresh_shell=True,
)

GEMINI_CLI = Vocabulary(
    files={"read_file": "read", "write_file": "write", "replace": "edit"},
    shell=frozenset({"run_shell_command"}),
    paths=("file_path", "absolute_path"),
    first_line="start_line",
    line_count="",
    last_line="end_line",
    flags_errors=True,
    fresh_shell=True,
    narrowed_by=frozenset({"offset", "limit"}),  # before `start_line`, lines were counted from 0
)

QWEN = Vocabulary(
    files={"read_file": "read", "write_file": "write", "edit": "edit"},
    shell=frozenset({"run_shell_command"}),
    paths=("file_path", "absolute_path"),
    first_index=0,
    flags_errors=True,
    fresh_shell=True,
    unchanged_stubs=("[File ",),  # `[File PATH unchanged since last read ...`
)

SWE_AGENT = Vocabulary(files={}, shell=frozenset({"bash"}))
"""Actions are lines of text for a shell, whatever they do."""

GENERIC = Vocabulary(
    files={
        **dict.fromkeys(("read", "read_file", "read_text_file", "view", "view_file"), "read"),
        **dict.fromkeys(("write", "write_file", "create_file"), "write"),
        **dict.fromkeys(("edit", "edit_file", "multiedit"), "edit"),
        **dict.fromkeys(("replace", "search_replace", "str_replace"), "edit"),
    },
    shell=frozenset(
        {
            *("bash", "shell", "shell_command", "run_shell_command", "execute_command", "exec_command"),
            *("run_command", "run_terminal_cmd", "exec", "local_shell", "container.exec"),
        }
    ),
    paths=("path", "file_path", "filePath", "absolute_path"),
    index_is_sure=False,
    unchanged_stubs=(
        "File unchanged since last read",
        "Wasted call — file unchanged since your last Read",
        *QWEN.unchanged_stubs,
    ),
)
"""For request bodies of an agent that is not known: what common agents call their tools, as far as
the names mean the same in all of them."""

GENERIC_GEMINI = msgspec.structs.replace(
    GENERIC,
    first_line="start_line",
    line_count="",
    last_line="end_line",
    narrowed_by=frozenset({"offset", "limit"}),
)
"""The same for Gemini's API, where lines are named as Gemini CLI names them."""

CLAUDE_CODE = Vocabulary(
    files={
        **dict.fromkeys(("read", "notebookread"), "read"),
        "write": "write",
        **dict.fromkeys(("edit", "multiedit", "notebookedit"), "edit"),
    },
    shell=frozenset({"bash", "powershell"}),
    paths=("file_path", "notebook_path", "path"),
    flags_errors=True,
    unchanged_stubs=("Wasted call — file unchanged since your last Read", "File unchanged since last read"),
)

CODEX = Vocabulary(
    files={"read_file": "read"},
    shell=frozenset({"exec_command", "exec", "shell", "shell_command", "local_shell", "container.exec"}),
    paths=("file_path",),
    command="cmd",
    fresh_shell=True,
    narrowed_by=frozenset({"indentation"}),
)
"""Files are read by shell commands, and changed by `apply_patch`, whose one argument is a patch of
any number of files: neither is a file operation."""

COPILOT = Vocabulary(
    files={"view": "read", "create": "write", "edit": "edit", "str_replace": "edit"},
    shell=frozenset({"bash", "powershell"}),
    paths=("path",),
    flags_errors=True,
    first_line="",
    line_count="",
)


SORTS: Mapping[str, Sort] = {
    **dict.fromkeys(("grep", "grep_search", "search_file_content", "multi_grep", "search"), "search"),
    **dict.fromkeys(("codebase_search", "file_search", "astgrep_pattern"), "search"),
    **dict.fromkeys(("ls", "glob", "find", "list_directory", "list_dir", "list_files"), "list"),
    **dict.fromkeys(("webfetch", "websearch", "web_search", "web_fetch", "fetch", "fetch_content"), "web"),
    **dict.fromkeys(("google_web_search", "searxng_search", "get_search_content"), "web"),
    **dict.fromkeys(("read_many_files", "open", "open_file", "goto", "scroll_up", "scroll_down"), "read"),
    **dict.fromkeys(("cat", "show_file", "get_file_contents", "notebookread"), "read"),
    **dict.fromkeys(("apply_patch", "notebookedit", "multiedit", "edit", "write", "create"), "change"),
    **dict.fromkeys(("write_stdin", "read_bash", "bashoutput", "stop_bash"), "follow"),
}
"""Tools of all hosts, apart from those that a vocabulary knows as file or shell tools."""

_EDITORS = frozenset({"str_replace_editor", "str_replace_based_edit_tool", "text_editor", "file_editor"})
"""Tools of any host that do to a file what their argument `command` says."""

_EDITOR_COMMANDS: Mapping[str, Action] = {
    "view": "read",
    "create": "write",
    **dict.fromkeys(("str_replace", "insert", "undo_edit"), "edit"),
}

_TRIALS = re.compile(
    r"(?:^|_)(?:dry_?run|preview|simulate|validate|draft|suggest|propose|what_?if|no_?op"
    r"|(?:check|test|plan|diff|create)_only|no_(?:overwrite|clobber)|if_not_exists|skip_existing)(?:$|_)"
)
"""Names of arguments with which a tool only shows what it would change, or may not change it."""
_EXECUTES = frozenset({"apply", "commit", "confirm", "confirmed", "execute", "overwrite", "persist", "save"})
"""Arguments by which a tool is told to do what it shows."""

_RANGES = frozenset(
    {
        *("start_line", "end_line", "startLine", "endLine", "line_start", "line_end"),
        *("view_range", "line_range", "line_ranges", "lines", "range", "ranges", "pages", "head", "tail"),
    }
)
"""What hosts call the lines of a read, where it is not `offset` and `limit`."""

_ELSEWHERE = re.compile(
    r"(?:^|_)(?:cwd|dir|directory|workdir|basedir|folder|root|base|path|workspace|project|repo|repository|owner"
    r"|org|branch|ref|revision|rev|sha|commit|tag|version|host|server|machine|container|sandbox|remote"
    r"|environment|env|namespace|bucket|volume|drive|device|site|target|destination)(?:$|_)"
)
"""Names of arguments that say which folder, machine or version a file is in."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[- ]")

_FOLDER = re.compile(r"cwd|dir|folder|path|root", re.IGNORECASE)
"""Names of arguments by which a command tool takes its folder."""


def names_folder(argument: str) -> bool:
    """Whether a command tool takes its folder by the argument of this name."""
    return _FOLDER.search(argument) is not None


def folder_of(arguments: Mapping[str, Any], cwd: str | None) -> tuple[str | None, bool]:
    """The folder that a command starts in, and whether it is known for certain."""
    given = [value for key, value in arguments.items() if names_folder(key) and value not in (None, "")]
    if not given:
        return cwd, True
    if len(given) > 1 or not isinstance(given[0], str) or given[0].startswith("~"):
        return cwd, False
    return normalise_path(given[0], cwd) or cwd, True


def _action(vocabulary: Vocabulary, name: str, arguments: Mapping[str, Any]) -> Action | None:
    name = name.lower()
    if name in _EDITORS:
        command = arguments.get("command")
        return _EDITOR_COMMANDS.get(command) if isinstance(command, str) else None
    return vocabulary.files.get(name)


def sort_of(vocabulary: Vocabulary, name: str, arguments: Mapping[str, Any]) -> Sort:
    """The kind of output that a tool gives. A shell tool's depends on its command."""
    action = _action(vocabulary, name, arguments)
    if action is not None:
        return "read" if action == "read" else "change"
    return SORTS.get(name.lower(), "other")


def file_operation(
    vocabulary: Vocabulary, name: str, arguments: Mapping[str, Any], cwd: str | None
) -> FileOperation | None:
    """What the call does to a file, or None where it is no file tool or names no path."""
    action = _action(vocabulary, name, arguments)
    if action is None:
        return None
    path = ""
    paths = ("path",) if name.lower() in _EDITORS else vocabulary.paths
    for key in paths:
        value = arguments.get(key)
        if isinstance(value, str):
            path = normalise_path(value, cwd)
            break
    others = {_HUMP.sub("_", key).lower(): value for key, value in arguments.items() if key not in paths}
    if not path or any(value and _ELSEWHERE.search(key) for key, value in others.items()):
        return None
    if action != "read":
        is_trial = any(
            bool(value) if _TRIALS.search(key) else value is False and key in _EXECUTES
            for key, value in others.items()
        )
        return None if is_trial else FileOperation(action, path)
    words = {vocabulary.first_line, vocabulary.line_count, vocabulary.last_line}
    if any(arguments.get(key) is not None for key in (vocabulary.narrowed_by | _RANGES) - words):
        return None
    first, last = _lines(vocabulary, arguments)
    return FileOperation(action, path, first, last)


def _lines(vocabulary: Vocabulary, arguments: Mapping[str, Any]) -> tuple[float, float]:
    """The lines that a read covers, from 1; what is no positive number counts as absent."""
    start = _positive(arguments.get(vocabulary.first_line), vocabulary.first_index)
    first = 1 if start is None else start - vocabulary.first_index + 1
    count = _positive(arguments.get(vocabulary.line_count)) if vocabulary.line_count else None
    if count is not None:
        return first, first + count - 1
    last = _positive(arguments.get(vocabulary.last_line)) if vocabulary.last_line else None
    return first, math.inf if last is None else last - vocabulary.first_index + 1


def lines_asked(vocabulary: Vocabulary, arguments: Mapping[str, Any]) -> tuple[tuple[float, ...], bool]:
    """The numbers that the first line of a read may have, none where its arguments leave that open; and
    whether it was to end at some line rather than at the file's end.
    """
    start = arguments.get(vocabulary.first_line) if vocabulary.first_line else None
    bounds = [arguments.get(key) for key in (vocabulary.line_count, vocabulary.last_line) if key]
    bounds = [value for value in bounds if value is not None]
    known = (*vocabulary.paths, vocabulary.first_line, vocabulary.line_count, vocabulary.last_line)
    is_narrowed = any(value and key not in known for key, value in arguments.items())
    is_bounded = bool(bounds) or is_narrowed
    if is_narrowed or any(not _is_number(value) or value < 0 for value in bounds):
        return (), True
    if start is None or start == 0:
        return (1,), is_bounded
    first = _positive(start, vocabulary.first_index)
    if first is None:
        return (), is_bounded
    first += 1 - vocabulary.first_index
    return (first,) if vocabulary.index_is_sure else (first, first + 1), is_bounded


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124


@lru_cache(maxsize=4096)
def normalise_path(path: str, cwd: str | None) -> str:
    """Trim, and resolve `.`, `..` and a relative path lexically; empty for a blank path."""
    path = path.strip()
    if not path:
        return ""
    if cwd is not None and not path.startswith("/"):
        path = f"{cwd}/{path}"
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path


def _positive(value: object, least: int = 1) -> float | None:
    """The number, where it is a positive one (or, with `least` 0, zero)."""
    if value is None or not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        value = float(value)
    except OverflowError:  # as a double it is infinite
        return None
    if not math.isfinite(value):
        return None
    return value if value > 0 or value == least == 0 else None
