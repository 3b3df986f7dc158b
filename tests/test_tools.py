"""The tool vocabulary: which calls touch which lines of which file."""

import math
from typing import Any

import msgspec
import pytest

from prunewise.tools import (
    GENERIC,
    PI,
    FileOperation,
    Vocabulary,
    file_operation,
    folder_of,
    lines_asked,
    normalise_path,
)

TO_THE_END = math.inf

# ---------------------------------------------------------------- which calls are file operations

CALLS: dict[str, tuple[str, dict[str, Any], tuple[str, str] | None]] = {
    "read": ("read", {"path": "f"}, ("read", "f")),
    "write": ("write", {"path": "f", "content": "x"}, ("write", "f")),
    "edit": ("edit", {"path": "f"}, ("edit", "f")),
    "letter case of the name": ("ReAD", {"path": "f"}, ("read", "f")),
    "file_path": ("read", {"file_path": "f"}, ("read", "f")),
    "filePath": ("edit", {"filePath": "f"}, ("edit", "f")),
    "path before file_path": ("read", {"filePath": "h", "file_path": "g", "path": "f"}, ("read", "f")),
    "file_path before filePath": ("read", {"filePath": "h", "file_path": "g"}, ("read", "g")),
    "a path that is no string is as if absent": ("read", {"path": 3, "file_path": "g"}, ("read", "g")),
    "a blank path names no file": ("read", {"path": "  \n"}, None),
    "an empty path names no file": ("write", {"path": ""}, None),
    "no path": ("read", {}, None),
    "another argument": ("read", {"file": "f"}, None),
    "letter case of an argument counts": ("read", {"Path": "f"}, None),
    "a shell command is not parsed": ("bash", {"command": "cat f", "path": "f"}, None),
    "any other tool": ("grep", {"path": "f"}, None),
    "no name": ("", {"path": "f"}, None),
}


@pytest.mark.parametrize(("name", "arguments", "expected"), CALLS.values(), ids=CALLS)
def test_calls(name: str, arguments: dict[str, Any], expected: tuple[str, str] | None):
    operation = file_operation(PI, name, arguments, None)
    assert (operation and (operation.action, operation.path)) == expected


EDITORS: dict[str, tuple[dict[str, Any], FileOperation | None]] = {
    "view": ({"command": "view"}, FileOperation("read", "f")),
    "view of some lines": ({"command": "view", "view_range": [3, 9]}, None),
    "create": ({"command": "create"}, FileOperation("write", "f")),
    "str_replace": ({"command": "str_replace"}, FileOperation("edit", "f")),
    "insert": ({"command": "insert"}, FileOperation("edit", "f")),
    "undo_edit": ({"command": "undo_edit"}, FileOperation("edit", "f")),
    "another command": ({"command": "delete"}, None),
    "no command": ({}, None),
    "no word": ({"command": ["view"]}, None),
}


@pytest.mark.parametrize(("arguments", "expected"), EDITORS.values(), ids=EDITORS)
@pytest.mark.parametrize("name", ["str_replace_editor", "str_replace_based_edit_tool", "text_editor"])
def test_an_editor_does_what_its_command_says(
    name: str, arguments: dict[str, Any], expected: FileOperation | None
):
    assert file_operation(PI, name, {"path": "f", **arguments}, None) == expected


@pytest.mark.parametrize("trial", ["dry_run", "dryRun", "preview", "check_only", "simulate"])
def test_a_trial_changes_nothing(trial: str):
    assert file_operation(PI, "edit", {"path": "f", trial: True}, None) is None
    assert file_operation(PI, "edit", {"path": "f", trial: False}, None) == FileOperation("edit", "f")


FOLDERS: dict[str, tuple[dict[str, Any], tuple[str | None, bool]]] = {
    "none": ({"command": "ls", "timeout": 9}, ("/w", True)),
    "relative": ({"cwd": "src"}, ("/w/src", True)),
    "absolute": ({"workdir": "/x"}, ("/x", True)),
    "empty": ({"directory": ""}, ("/w", True)),
    "null": ({"dir_path": None}, ("/w", True)),
    "blank": ({"dir": " "}, ("/w", True)),
    "at home": ({"folder": "~/x"}, ("/w", False)),
    "no text": ({"cwd": ["x"]}, ("/w", False)),
    "two": ({"cwd": "x", "workdir": "y"}, ("/w", False)),
}


@pytest.mark.parametrize(("arguments", "expected"), FOLDERS.values(), ids=FOLDERS)
def test_the_folder_of_a_command(arguments: dict[str, Any], expected: tuple[str | None, bool]):
    assert folder_of(arguments, "/w") == expected


# ---------------------------------------------------------------- lines

LINES: dict[str, tuple[dict[str, Any], tuple[float, float]]] = {
    "all": ({}, (1, TO_THE_END)),
    "offset": ({"offset": 5}, (5, TO_THE_END)),
    "limit": ({"limit": 10}, (1, 10)),
    "offset and limit": ({"offset": 5, "limit": 10}, (5, 14)),
    "one line": ({"offset": 5, "limit": 1}, (5, 5)),
    "offset 1 is the start": ({"offset": 1}, (1, TO_THE_END)),
    "offset 0 is as if absent": ({"offset": 0, "limit": 3}, (1, 3)),
    "a negative offset is as if absent": ({"offset": -4}, (1, TO_THE_END)),
    "limit 0 is as if absent": ({"offset": 5, "limit": 0}, (5, TO_THE_END)),
    "a negative limit is as if absent": ({"limit": -1}, (1, TO_THE_END)),
    "text is no number": ({"offset": "5", "limit": "10"}, (1, TO_THE_END)),
    "true is no number": ({"offset": True, "limit": True}, (1, TO_THE_END)),
    "null is no number": ({"offset": None, "limit": None}, (1, TO_THE_END)),
    "infinity is no number": ({"offset": math.inf, "limit": math.inf}, (1, TO_THE_END)),
    "not a number is no number": ({"offset": math.nan, "limit": math.nan}, (1, TO_THE_END)),
    "what is infinite as a double is no number": ({"offset": 10**350, "limit": -(10**350)}, (1, TO_THE_END)),
    "two large doubles make one that is infinite": (
        {"offset": 10**308, "limit": 10**308},
        (1e308, TO_THE_END),
    ),
    "fractions as they are": ({"offset": 2.5, "limit": 1.25}, (2.5, 2.75)),
    "a fraction below one": ({"offset": 0.5, "limit": 0.5}, (0.5, 0)),
    "doubles that are whole": ({"offset": 5.0, "limit": 10.0}, (5, 14)),
}


@pytest.mark.parametrize(("arguments", "lines"), LINES.values(), ids=LINES)
def test_the_lines_of_a_read(arguments: dict[str, Any], lines: tuple[float, float]):
    operation = file_operation(PI, "read", {"path": "f", **arguments}, None)
    assert operation is not None
    assert (operation.first, operation.last) == lines


ASKED: dict[str, tuple[dict[str, Any], tuple[tuple[float, ...], bool]]] = {
    # the first line, and whether there is a last one
    "all": ({}, ((1,), False)),
    "null": ({"offset": None, "limit": None}, ((1,), False)),
    "offset": ({"offset": 5}, ((5,), False)),
    "offset 0": ({"offset": 0}, ((1,), False)),
    "a fraction": ({"offset": 2.5}, ((2.5,), False)),
    "limit": ({"limit": 9}, ((1,), True)),
    "limit 0": ({"limit": 0}, ((1,), True)),
    "a negative offset": ({"offset": -5}, ((), False)),
    "an offset in words": ({"offset": "5"}, ((), False)),
    "an offset beyond all doubles": ({"offset": 10**400}, ((), False)),
    "no number": ({"offset": math.nan}, ((), False)),
    "a negative limit": ({"limit": -5}, ((), True)),
    "a limit in words": ({"limit": "5"}, ((), True)),
    "a limit that is no number": ({"limit": math.nan}, ((), True)),
    "true": ({"limit": True}, ((), True)),
}


@pytest.mark.parametrize(("arguments", "expected"), ASKED.values(), ids=ASKED)
def test_what_the_arguments_leave_open(arguments: dict[str, Any], expected: tuple[tuple[float, ...], bool]):
    assert lines_asked(PI, arguments) == expected


def test_other_words_for_what_is_asked():
    assert lines_asked(ENDS, {"start": 5, "end": 9}) == ((5,), True)
    assert lines_asked(FROM_ZERO, {"offset": 4}) == ((5,), False)
    assert lines_asked(msgspec.structs.replace(PI, first_line=""), {"offset": 4}) == ((), True), (
        "a word that is not known"
    )
    assert lines_asked(GENERIC, {"offset": 4}) == ((4, 5), False), "some count from 0"


ELSEWHERE = [
    "cwd",
    "root",
    "work_dir",
    "repo",
    "branch",
    "ref",
    "commit",
    "container",
    "host",
    "workspace_root",
]


@pytest.mark.parametrize("argument", ELSEWHERE)
def test_a_file_of_another_place_or_version_is_not_known(argument: str):
    assert file_operation(GENERIC, "read_file", {"path": "f", argument: "x"}, "/w") is None
    assert file_operation(GENERIC, "read_file", {"path": "f", argument: None}, "/w") is not None


@pytest.mark.parametrize("name", ["write", "edit"])
def test_a_change_is_of_all_lines_whatever_its_arguments(name: str):
    operation = file_operation(PI, name, {"path": "f", "offset": 5, "limit": 10}, None)
    assert operation == FileOperation(name, "f", 1, TO_THE_END)  # type: ignore[arg-type]


COVERS: dict[str, tuple[tuple[float, float], tuple[float, float], bool]] = {
    # this, other, whether this covers the other
    "all covers all": ((1, TO_THE_END), (1, TO_THE_END), True),
    "all covers some": ((1, TO_THE_END), (5, 9), True),
    "some does not cover all": ((1, 5000), (1, TO_THE_END), False),
    "the same lines": ((5, 9), (5, 9), True),
    "more lines": ((4, 10), (5, 9), True),
    "one line short at the start": ((6, 9), (5, 9), False),
    "one line short at the end": ((5, 8), (5, 9), False),
    "a tail covers a later part": ((5, TO_THE_END), (6, 9), True),
    "a tail does not cover an earlier start": ((5, TO_THE_END), (4, 9), False),
    "a shorter tail": ((5, TO_THE_END), (4, TO_THE_END), False),
    "a longer tail": ((4, TO_THE_END), (5, TO_THE_END), True),
    "half a line short": ((5, 8.5), (5, 9), False),
}


@pytest.mark.parametrize(("this", "other", "covers"), COVERS.values(), ids=COVERS)
def test_covering(this: tuple[float, float], other: tuple[float, float], covers: bool):
    assert FileOperation("read", "f", *this).covers(FileOperation("read", "f", *other)) is covers


# ---------------------------------------------------------------- other hosts' words

ENDS = Vocabulary(files={"view": "read"}, first_line="start", line_count="", last_line="end")
FROM_ZERO = Vocabulary(files={"view": "read"}, first_index=0)
ENDS_FROM_ZERO = msgspec.structs.replace(ENDS, first_index=0)

OTHER_LINES: dict[str, tuple[Vocabulary, dict[str, Any], tuple[float, float]]] = {
    "a last line is included": (ENDS, {"start": 5, "end": 9}, (5, 9)),
    "a last line alone": (ENDS, {"end": 9}, (1, 9)),
    "no last line": (ENDS, {"start": 5}, (5, TO_THE_END)),
    "words of another host are not read": (ENDS, {"offset": 5, "limit": 2}, (1, TO_THE_END)),
    "lines from zero: 0 is the first": (FROM_ZERO, {"offset": 0, "limit": 3}, (1, 3)),
    "lines from zero: 4 is the fifth": (FROM_ZERO, {"offset": 4, "limit": 3}, (5, 7)),
    "lines from zero: a negative one is none": (FROM_ZERO, {"offset": -1}, (1, TO_THE_END)),
    "lines from zero: no lines at all is as if absent": (FROM_ZERO, {"limit": 0}, (1, TO_THE_END)),
    "lines from zero, to a last one": (ENDS_FROM_ZERO, {"start": 4, "end": 8}, (5, 9)),
}


@pytest.mark.parametrize(("vocabulary", "arguments", "lines"), OTHER_LINES.values(), ids=OTHER_LINES)
def test_other_hosts_name_lines_otherwise(
    vocabulary: Vocabulary, arguments: dict[str, Any], lines: tuple[float, float]
):
    operation = file_operation(vocabulary, "view", {"path": "f", **arguments}, None)
    assert operation is not None
    assert (operation.first, operation.last) == lines


NARROWED = Vocabulary(files={"view": "read", "put": "write"}, narrowed_by=frozenset({"pages", "range"}))


@pytest.mark.parametrize(
    ("name", "arguments", "known"),
    [
        pytest.param("view", {}, True, id="a read of all lines"),
        pytest.param("view", {"offset": 3}, True, id="a read of lines that can be told"),
        pytest.param("view", {"pages": "2-3"}, False, id="a read of lines that cannot be told"),
        pytest.param("view", {"range": 0}, False, id="whatever the value is"),
        pytest.param("view", {"pages": None}, True, id="but null is absent"),
        pytest.param("put", {"pages": "2-3"}, True, id="a write is of the whole file"),
    ],
)
def test_a_read_that_is_narrowed_in_other_words_is_no_operation(
    name: str, arguments: dict[str, Any], known: bool
):
    assert (file_operation(NARROWED, name, {"path": "f", **arguments}, None) is not None) is known


# ---------------------------------------------------------------- paths

PATHS: dict[str, tuple[str, str | None, str]] = {
    "relative, without a directory": ("a/b", None, "a/b"),
    "relative, with one": ("a/b", "/w", "/w/a/b"),
    "absolute": ("/a/b", "/w", "/a/b"),
    "trimmed": ("  a/b \n", "/w", "/w/a/b"),
    "a dot": ("./a", "/w", "/w/a"),
    "a dot alone": (".", "/w", "/w"),
    "up and down": ("x/../a", "/w", "/w/a"),
    "up out of the directory": ("../a", "/w/x", "/w/a"),
    "up beyond the root": ("/../../a", None, "/a"),
    "up, without a directory": ("../a", None, "../a"),
    "double slashes": ("a//b///c", None, "a/b/c"),
    "a double slash at the start is the root": ("//a", None, "/a"),
    "a slash at the end": ("a/b/", None, "a/b"),
    "letter case counts": ("A/b", None, "A/b"),
    "spaces inside stay": ("a b/c d", None, "a b/c d"),
    "blank": (" \t ", "/w", ""),
    "empty": ("", "/w", ""),
    "a directory with a slash": ("a", "/w/", "/w/a"),
    "not looked up: a home sign is a name": ("~/a", "/w", "/w/~/a"),
}


@pytest.mark.parametrize(("path", "cwd", "normal"), PATHS.values(), ids=PATHS)
def test_paths_are_resolved_lexically(path: str, cwd: str | None, normal: str):
    assert normalise_path(path, cwd) == normal
