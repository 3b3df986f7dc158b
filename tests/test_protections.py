"""Protections: tools by name, paths by glob; names and globs come from the settings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import build
from wcmatch import glob as wcglob

from prunewise import settings
from prunewise.protections import DEEPEST_PATH, LONGEST_PATH, Protections

DEFAULT = Protections(settings.DEFAULTS.protections)


def protections(**fields: Any) -> Protections:
    return Protections(settings.Protections(**fields))


def is_protected(
    name: str, arguments: dict[str, Any], cwd: str | None = None, by: Protections = DEFAULT
) -> bool:
    return by.reason(build.exchange(name, arguments, cwd=cwd)) is not None


# ---------------------------------------------------------------- tools

NAMES = {
    **dict.fromkeys(
        [
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
        ],
        True,
    ),
    "Todo": True,
    "SUBAGENT": True,
    "Code_Reviewer": True,
    "read": False,
    "bash": False,
    "todos": False,
    "my_task": False,
    "": False,
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=str)
def test_default_tools_without_letter_case(name: str, expected: bool):
    assert is_protected(name, {"a": "b"}) is expected


def test_own_tools_replace_the_default_ones():
    own = protections(tool_names=("GREP",))
    assert is_protected("grep", {}, by=own)
    assert is_protected("Grep", {}, by=own)
    assert not is_protected("todo", {}, by=own)


def test_no_tools_at_all():
    assert not is_protected("todo", {}, by=protections(tool_names=()))


# ---------------------------------------------------------------- paths

PATHS: dict[str, bool] = {
    # path, whether a read of it is protected by the default globs
    ".env": True,
    "/a/.env": True,
    "a/b/.env": True,
    "./.env": True,
    "./x/../.env": True,
    " .env ": True,
    ".env/.": True,
    ".env.local": True,
    "/a/.env.production": True,
    ".envrc": False,
    "env": False,
    "a.env": False,
    ".ENV": False,
    "server.pem": True,
    "/etc/ssl/server.pem": True,
    ".pem": True,
    "server.pem.txt": False,
    "server.pemx": False,
    "a/b.key": True,
    "a/b.keys": False,
    "a.key/b": False,
    "id_rsa": True,
    "/home/u/.ssh/id_rsa": True,
    "id_rsa.pub": True,
    "id_rsa_old/config": False,
    "my_id_rsa": False,
    "~/.ssh/id_ed25519": True,
    "id_ed25519.pub": True,
    "secrets/x": True,
    "/a/secrets/x": True,
    "a/secrets/b/c": True,
    "a/secrets/.hidden": True,
    "my-secrets/x": False,
    "secrets.txt": False,
    "a.p12": True,
    "a/b.pfx": True,
    "a b/c d.pem": True,
    "日本/é.pem": True,
    "README.md": False,
    "src/main.py": False,
    "": False,
}


@pytest.mark.parametrize(("path", "expected"), PATHS.items(), ids=repr)
@pytest.mark.parametrize("tool", ["read", "write", "edit"])
def test_default_paths_of_file_tools(tool: str, path: str, expected: bool):
    assert is_protected(tool, {"path": path}) is expected


def test_the_normalised_path_is_asked_for_file_tools_alone():
    assert is_protected("read", {"path": "keys/../.env/."})
    assert not is_protected("open", {"path": "keys/../.env/."})
    assert is_protected("read", {"path": "x"}, cwd="/a/secrets")
    assert not is_protected("open", {"path": "x"}, cwd="/a/secrets")
    assert not is_protected("read", {"path": "x"}, cwd="/a/public")


ARGUMENTS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "any tool": ("grep", {"where": "a/.env"}, True),
    "any argument": ("read", {"path": "a", "note": "server.pem"}, True),
    "an argument that is the path alone": ("bash", {"command": "/a/secrets/x"}, True),
    "a command that ends in one": ("bash", {"command": "cat /a/secrets/x"}, True),
    "a command that names one in the middle": ("bash", {"command": "cat .env | sort"}, False),
    "in a list": ("multi", {"paths": ["a", "b/.env"]}, True),
    "in an object": ("multi", {"file": {"path": "b/.env"}}, True),
    "deep": ("multi", {"a": [{"b": [["c", {"d": "x.key"}]]}]}, True),
    "a key is no argument": ("multi", {"a/.env": "x"}, False),
    "no strings": ("multi", {"a": 1, "b": None, "c": True, "d": 1.5, "e": [], "f": {}}, False),
    "nothing": ("multi", {}, False),
}


@pytest.mark.parametrize(("name", "arguments", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_each_string_argument_is_asked(name: str, arguments: dict[str, Any], expected: bool):
    assert is_protected(name, arguments) is expected


@pytest.mark.parametrize(("length", "expected"), [(4095, True), (4096, True), (4097, False)])
def test_strings_up_to_the_limit_are_asked(length: int, expected: bool):
    assert LONGEST_PATH == 4096
    path = "x" * (length - len("/.env")) + "/.env"
    assert len(path) == length
    assert is_protected("grep", {"where": path}) is expected
    assert is_protected("read", {"path": path}) is expected


class Pattern:
    """Stands in for a compiled glob, and keeps what it was tried on."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    def fullmatch(self, text: str) -> None:
        self.tried.append(text)


@pytest.fixture
def pattern(monkeypatch: pytest.MonkeyPatch) -> Pattern:
    pattern = Pattern()
    monkeypatch.setattr(Protections, "_compiled", lambda _self, _glob: [pattern])
    return pattern


def test_no_glob_is_tried_on_a_megabyte(pattern: Pattern):
    text = "secrets/ .env .pem id_rsa " * 40_000
    is_protected("write", {"path": "a", "content": text}, by=protections())
    assert pattern.tried == []
    is_protected("write", {"path": "a", "content": text[:80]}, by=protections())
    assert set(pattern.tried) == {text[:80]}


@pytest.mark.parametrize(("slashes", "protected"), [(64, False), (65, True)])
def test_several_stars_are_not_tried_on_a_deep_path(slashes: int, protected: bool, pattern: Pattern):
    """Three of them on 400 folders take half a minute to say no."""
    assert DEEPEST_PATH == 64
    several = protections(path_globs=("**/a/**/a/**/b",))
    assert is_protected("read", {"path": "a/" * slashes + "b"}, by=several) is protected
    assert bool(pattern.tried) is not protected


def test_one_star_is_tried_on_a_deep_path():
    one = protections(path_globs=("**/b",))
    assert is_protected("read", {"path": "a/" * 300 + "b"}, by=one)
    assert not is_protected("read", {"path": "a/" * 300 + "bc"}, by=one)


def test_many_strings_are_answered_rightly():
    for number in range(10_000):
        path = f"a/{number}.{'pem' if number % 7 == 0 else 'txt'}"
        assert is_protected("grep", {"where": path}) is (number % 7 == 0)
    assert is_protected("grep", {"where": "a/0.pem"})


def test_the_reason_names_what_protects():
    assert DEFAULT.reason(build.exchange("Todo", {})) == "tool Todo is protected"
    reason = DEFAULT.reason(build.exchange("read", {"path": "a/.env.local"}))
    assert reason == "path is protected by **/.env.*"


# ---------------------------------------------------------------- globs

GLOBS: dict[str, tuple[str, str, bool]] = {
    "one star stays within a folder": ("a/*.txt", "a/b/c.txt", False),
    "two stars cross folders": ("a/**/c.txt", "a/b/b/c.txt", True),
    "two stars cross none": ("a/**/c.txt", "a/c.txt", True),
    "hidden files are matched": ("*", ".hidden", True),
    "letter case counts": ("*.TXT", "a.txt", False),
    "a question mark": ("a?c", "abc", True),
    "a question mark is one character": ("a?c", "ac", False),
    "brackets": ("[ab].txt", "b.txt", True),
    "brackets, outside": ("[ab].txt", "c.txt", False),
    "braces": ("**/*.{jks,kdb}", "a/b.kdb", True),
    "braces, none": ("**/*.{jks,kdb}", "a/b.txt", False),
    "a plain path": ("a/b.txt", "a/b.txt", True),
    "a plain path is all of it": ("b.txt", "a/b.txt", False),
    "a folder and all in it": ("/private/**", "/private/a/b", True),
    "an escaped star": (r"a\*b", "a*b", True),
    "an escaped star is none": (r"a\*b", "axb", False),
    "a line feed at the end is part of the string": ("a", "a\n", False),
    "several slashes match as one": ("a//b", "a/b", True),
    "a slash matches several": ("a/b", "a//b", True),
    "braces that stand for too many globs to try": ("{a,b}" * 20, "c", True),
    "numbers in braces that are too many": ("{1..1000000}", "c", True),
    "an open bracket is itself": ("[", "[", True),
    "an open brace is itself": ("{a,b", "{a,b", True),
}


@pytest.mark.parametrize(("glob", "path", "expected"), GLOBS.values(), ids=GLOBS)
def test_own_globs(glob: str, path: str, expected: bool):
    assert is_protected("grep", {"where": path}, by=protections(path_globs=(glob,))) is expected


def test_own_globs_replace_the_default_ones():
    own = protections(path_globs=("**/*.txt",))
    assert not is_protected("read", {"path": ".env"}, by=own)


def test_no_globs_at_all():
    none = protections(path_globs=())
    assert not is_protected("read", {"path": ".env"}, by=none)
    assert is_protected("todo", {"path": ".env"}, by=none)


FLAGS = wcglob.GLOBSTAR | wcglob.DOTGLOB | wcglob.BRACE | wcglob.CASE | wcglob.FORCEUNIX
PIECES = ["a", "b", ".", "/", "**", "*", "?", "**/", "/**", "[ab]", "{a,b}", ".env", "secrets"]
TEXTS = ["a", "b", ".", "/", ".env", "secrets", "\n", "é"]


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join),
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=7).map("".join),
)
def test_the_short_cuts_change_no_answer(glob: str, text: str):
    expected = wcglob.globmatch(text, glob, flags=FLAGS)
    assert is_protected("grep", {"where": text}, by=protections(path_globs=(glob,))) is expected
