"""What a shell command does, read with a real parser: which files it reads and writes, and what kind of
command it is.

Says what it can tell for certain. A command that the grammar cannot read, a word with an expansion in
it, a program that is not in the tables: all of these are not known, and never guessed. Paths are
resolved lexically, as everywhere. Needs the extra `priced`; without it nothing is known of any command.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from prunewise.tools import FileOperation, Sort, normalise_path

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_LONGEST = 20_000
"""Longer scripts are not read, in characters."""

_PAIR = 2
"""A command and one word, or a source and a target."""

_SORTS: dict[str, Sort] = {
    **dict.fromkeys(("cat", "head", "tail", "nl", "bat", "batcat", "less", "more"), "read"),
    **dict.fromkeys(("open", "goto", "scroll_up", "scroll_down", "str_replace_editor"), "read"),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "ag", "ack", "ugrep"), "search"),
    **dict.fromkeys(("ls", "find", "fd", "tree", "du", "stat", "wc", "file", "pwd", "which"), "list"),
    **dict.fromkeys(("git", "gh", "hg", "jj"), "git"),
    **dict.fromkeys(("curl", "wget", "http", "lynx", "w3m"), "web"),
    **dict.fromkeys(("pytest", "tox", "nox", "jest", "vitest", "mocha", "ctest", "phpunit", "rspec"), "test"),
    **dict.fromkeys(("make", "mypy", "pyright", "basedpyright", "ruff", "eslint", "tsc", "biome"), "test"),
    **dict.fromkeys(("tee", "mv", "cp", "rm", "touch", "mkdir", "chmod", "apply_patch", "patch"), "change"),
}
_RUNNERS = frozenset(
    {"npm", "pnpm", "yarn", "bun", "npx", "bunx", "uv", "poetry", "cargo", "go", "mise", "dotnet"}
)
_TESTED = frozenset(
    {"test", "tests", "check", "lint", "typecheck", "build", "vet", "clippy", "bench", "pytest"}
)
_TEST_NAMES = frozenset(
    {"pytest", "jest", "vitest", "mocha", "tsc", "eslint", "biome", "ruff", "mypy", "tox"}
)
_QUIET = frozenset({"cd", "export", "set", "true", "echo", "printf", "source", ".", "sleep", "pwd", "unset"})
_PREFIXES = frozenset({"sudo", "env", "time", "nice", "nohup", "command", "timeout", "stdbuf", "xvfb-run"})

_SED_LINES = re.compile(r"(\d+)(?:,(\d+|\$))?p")
_COUNT = re.compile(r"-(?:n=?)?(\d+)")
_NUMBER = re.compile(r"\d+")
_SURE_OPTIONS: dict[str, frozenset[str]] = {
    "rm": frozenset({"-f", "-r", "-R", "-rf", "-fr", "-v", "--"}),
    "mv": frozenset({"-f", "-v", "--"}),
    "cp": frozenset({"-f", "-v", "-p", "-a", "-r", "-R", "--"}),
    "git": frozenset({"-f", "-q", "-r", "--"}),
    "tee": frozenset(),
    "unlink": frozenset(),
}
"""Commands that have changed their files where they succeed, and the options that leave it at that. `sed -i`
and `git checkout` succeed also where there is nothing to change."""
_DIVERTS = frozenset(
    {
        *("exit", "return", "break", "continue", "exec", "logout", "kill", "trap", "set", "shopt", "enable"),
        *("alias", "unalias", "hash", "source", ".", "eval", "builtin", "command_not_found_handle"),
    }
)
"""Commands after which it is open what of a script runs, or what its words mean."""
_HEREDOC = re.compile(r"(?<!<)<<(-?)\s*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([\w.-]+))")
_OF_A_HEREDOC = frozenset(
    {"file_descriptor", "heredoc_start", "heredoc_body", "heredoc_end", "file_redirect", "word"}
)
_ITS_PLACE = "/dev/null"
"""What a heredoc is read from once its text is left out."""
_MOVES = re.compile(r"\b(?:cd|pushd|popd)\b")


class Script(msgspec.Struct, frozen=True, gc=False):
    """What a script does."""

    sort: Sort
    operations: tuple[FileOperation, ...] = ()
    """The files it is known to read in full or by lines, and those that it is known to change, in order."""
    only_reads: bool = False
    """Whether its output is nothing but the lines that its reads name."""
    proven: tuple[FileOperation, ...] = ()
    """Those of the operations that have certainly been done where the script's exit code is 0."""
    perhaps: tuple[FileOperation, ...] = ()
    """What it names besides, and may never have done."""


UNKNOWN = Script("other")


@lru_cache(maxsize=4096)
def read(command: str, cwd: str | None = None, *, lost: bool = False) -> Script:
    """What a command does; `UNKNOWN` where that cannot be told. `lost` where the folder that it starts in
    is not known: then nothing is known of relative paths.
    """
    if len(command) > _LONGEST or not command.strip():
        return UNKNOWN
    if "*** Begin Patch" in command:
        return Script("change")
    parser = _parser()
    if parser is None:
        return UNKNOWN
    root = parser.parse(command.encode("utf-8", "replace")).root_node
    is_whole = not (root.has_error or _goes_on(root))
    if not is_whole:  # the grammar knows little of a heredoc whose first line goes on
        root = parser.parse(_without_heredocs(command).encode("utf-8", "replace")).root_node
        if root.has_error:
            return UNKNOWN
    try:
        script = _Reader(cwd, lost=lost, straight=is_whole and _runs_through(root)).script(root)
    except RecursionError:  # hundreds of brackets in each other
        return UNKNOWN
    return script if is_whole else msgspec.structs.replace(script, only_reads=False)


def _without_heredocs(command: str) -> str:
    """The command with the text of each heredoc left out."""
    kept: list[str] = []
    ends: list[str] = []
    for line in command.split("\n"):
        if ends:
            if line.lstrip("\t") == ends[0]:
                ends.pop(0)
            continue
        ends = [found[2] or found[3] or found[4] for found in _HEREDOC.finditer(line)]
        kept.append(_HEREDOC.sub(f"< {_ITS_PLACE}", line))
    return "\n".join(kept)


def _goes_on(root: Node) -> bool:
    """Whether other commands follow a heredoc on its first line."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type == "heredoc_redirect" and any(
            child.type in ("&&", "||") or (child.is_named and child.type not in _OF_A_HEREDOC)
            for child in node.children
        ):
            return True
        nodes += node.named_children
    return False


def _runs_through(root: Node) -> bool:
    """Whether no command of a script leaves it early, or changes what its words mean."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type == "function_definition":
            return False
        if node.type == "command_name":
            name = _word(node.named_children[0]) if node.named_children else _text(node)
            if name is None or name.rpartition("/")[2] in _DIVERTS:
                return False
        nodes += node.named_children
    return True


def problem() -> str | None:
    """Why no command is read, for a person to act on; None where they are read."""
    if _parser() is not None:
        return None
    return "`priced` reads no shell commands, so it misses what they do: pip install 'prunewise[priced]'"


@lru_cache(maxsize=1)
def _parser() -> Parser | None:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        return None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _Command(msgspec.Struct):
    """One simple command: its words (None where a word is not known), and where its output goes."""

    words: list[str | None]
    writes: list[str | None]
    """Files that its output is redirected to; None where the name is not known."""
    heredoc: bool = False
    truncates: list[str | None] = msgspec.field(default_factory=list[str | None])
    """Those of `writes` that are written anew, not added to."""
    plain: bool = True
    """False where the command stands behind another one with options: it may not run at all."""

    @property
    def name(self) -> str:
        """The program's name without its folder; empty where it is not known."""
        return (self.words[0] or "").rpartition("/")[2] if self.words else ""

    @property
    def arguments(self) -> list[str | None]:
        """The words behind the name."""
        return self.words[1:]


class _Reader:
    def __init__(self, cwd: str | None, *, lost: bool, straight: bool) -> None:
        self._cwd: str | None = cwd
        self._lost = lost
        """Whether the working directory is not known."""
        self._guessed = False
        """Whether it is known only if a `cd` did not fail that may have failed."""
        self._straight = straight
        self._operations: list[FileOperation] = []
        self._perhaps: list[FileOperation] = []
        self._proven: list[FileOperation] = []
        self._sorts: list[Sort] = []
        self._pure = True

    def script(self, root: Node) -> Script:
        """Walk a parsed script."""
        self._statements(root, sure=self._straight)
        reads = any(one.action == "read" for one in self._operations)
        loud: list[Sort] = [sort for sort in self._sorts if sort != "change"] or self._sorts
        sort: Sort = loud[0] if loud else "other"
        return Script(
            sort,
            tuple(self._operations),
            self._pure and reads and all(one.action == "read" for one in self._operations),
            tuple([one for one in self._proven if one in self._operations]),
            tuple(self._perhaps),
        )

    def _statements(self, node: Node, *, sure: bool) -> None:
        """Statements one after the other: the last one's success is that of all of them."""
        children = [child for child in node.named_children if child.type != "comment"]
        for number, child in enumerate(children, start=1):
            following = child.next_sibling
            waits = following is None or following.type != "&"
            self._statement(child, sure=sure and waits and number == len(children))

    def _statement(self, node: Node, *, sure: bool) -> None:
        """A statement; `sure` where it has certainly succeeded if the script has."""
        match node.type:
            case "program" | "compound_statement":
                self._statements(node, sure=sure)
            case "list":
                self._list(node, sure=sure)
            case "subshell":
                before = self._cwd, self._lost, self._guessed
                self._statements(node, sure=sure)
                self._cwd, self._lost, self._guessed = before
            case "pipeline":
                first, *others = node.named_children
                self._pipeline([self._last_of(first, sure=False), *map(_command, others)], sure=sure)
            case "command" | "redirected_statement":
                last = self._last_of(node, sure=sure)
                self._lost = self._lost or (last is None and _MOVES.search(_text(node)) is not None)
                self._pipeline([last], sure=sure)
            case "variable_assignment" | "variable_assignments" | "declaration_command":
                pass
            case _:
                self._lost = self._lost or _MOVES.search(_text(node)) is not None
                self._pure = False
                self._sorts.append("other")

    def _list(self, node: Node, *, sure: bool) -> None:
        """What is behind `||` may never run, nor what is behind `&&` where an `||` hides that the command
        before it failed: nothing is known of its files. `cd` and the like are taken not to fail.
        """
        lists: list[Node] = []
        while node.type == "list":  # the first of a list is the list before it
            lists.append(node)
            node = node.named_children[0]
        hides, silent = any(map(_has_alternative, lists)), len(self._sorts)
        settled = next((place for place, one in enumerate(lists) if _has_alternative(one)), len(lists))
        self._statement(node, sure=sure and not hides)
        for place, one in reversed(list(enumerate(lists))):
            known, cwd = len(self._operations), self._cwd
            is_perhaps = _has_alternative(one) or (hides and len(self._sorts) > silent)
            for child in one.named_children[1:]:
                self._statement(child, sure=sure and place < settled)
            if is_perhaps:
                self._pure = self._pure and len(self._operations) == known
                self._lost = self._lost or self._cwd != cwd
                self._perhaps += self._operations[known:]
                del self._operations[known:]

    def _last_of(self, node: Node, *, sure: bool) -> _Command | None:
        """The command of a statement. The grammar takes redirections behind a list for those of the whole
        list: they are those of its last command, and the ones before it are statements by themselves.
        """
        body = node.child_by_field_name("body") if node.type == "redirected_statement" else None
        if body is None or body.type != "list":
            return _command(node)
        *before, last = body.named_children
        for child in before:
            self._statement(child, sure=sure and not _has_alternative(body))
        if _has_alternative(body):
            return None
        command = self._last_of(last, sure=sure) if last.type in ("command", "redirected_statement") else None
        if command is not None:
            for child in node.children_by_field_name("redirect"):
                _redirect(child, command)
        return command

    def _pipeline(self, found: Sequence[_Command | None], *, sure: bool) -> None:
        commands = [_bare(one) for one in found if one is not None]
        if len(commands) < len(found) or not commands or not all(one.name for one in commands):
            self._pure = False
            self._sorts.append("other")
            return
        first = commands[0]
        if first.name == "cd" and len(commands) == 1:
            self._change_directory(first)
            self._guessed = self._guessed or not sure
            return
        if first.name in ("pushd", "popd"):
            self._lost = True
        for one in commands:
            self._writes(one, sure=sure and one is commands[-1])
        if first.name in _QUIET:
            is_known = None not in first.words and first.name not in ("source", ".")
            self._pure = self._pure and is_known and not first.writes
            return
        self._sorts.append(_sort(first, commands))
        self._reads(commands, sure=sure and len(commands) == 1 and first.plain)

    def _change_directory(self, command: _Command) -> None:
        target = command.words[1] if len(command.words) == _PAIR else None
        if target is None or target.startswith(("~", "-")):
            self._lost = True
        elif target.startswith("/"):
            self._cwd, self._lost = target, False
        elif not self._lost:
            self._cwd = normalise_path(target, self._cwd)

    def _path(self, word: str | None) -> str | None:
        """A path that is known for certain."""
        if not word or word.startswith(("~", "-", "/dev/")) or any(sign in word for sign in "*?[{"):
            return None
        if not word.startswith("/") and self._lost:
            return None
        return normalise_path(word, self._cwd)

    # ---- reads

    def _reads(self, commands: Sequence[_Command], *, sure: bool) -> None:
        if any(one.writes for one in commands):
            self._pure = False  # what is read goes elsewhere
            return
        spans = _spans(commands)
        if spans is None:
            self._pure = False
            return
        for word, first, last in spans:
            path = self._path(word)
            if path is None:
                self._pure = False
            else:
                self._note(FileOperation("read", path, first, last), word, sure=sure)

    # ---- writes

    def _writes(self, command: _Command, *, sure: bool) -> None:
        for word in command.writes:
            self._write(word, sure=sure and word in command.truncates)
        for word in _changed(command):
            self._write(word, sure=sure and _surely_changes(command))

    def _write(self, word: str | None, *, sure: bool) -> None:
        path = self._path(word)
        if path is not None:
            self._note(FileOperation("write", path), word, sure=sure)

    def _note(self, operation: FileOperation, word: str | None, *, sure: bool) -> None:
        self._operations.append(operation)
        if sure and (not self._guessed or (word or "").startswith("/")):
            self._proven.append(operation)


def _surely_changes(command: _Command) -> bool:
    """Whether the files that a command is to change have been changed where it succeeds."""
    program = command.words[0] if command.plain else None
    known = _SURE_OPTIONS.get(command.name)
    if known is None or program not in (command.name, f"/bin/{command.name}", f"/usr/bin/{command.name}"):
        return False
    if command.name == "git" and command.words[1] not in ("rm", "mv"):
        return False
    return all(word in known for word in command.arguments if word is not None and word.startswith("-"))


def _bare(command: _Command) -> _Command:
    """The command without `sudo`, `env`, `timeout 30` and the like before it."""
    words, plain = command.words, True
    while len(words) > 1 and (words[0] or "").rpartition("/")[2] in _PREFIXES:
        if words[0] == "command" and words[1] in ("-v", "-V"):
            words = ["which", *words[2:]]
            break
        words = words[1:]
        while len(words) > 1 and (
            words[0] is None or words[0].startswith("-") or "=" in words[0] or words[0][:1].isdigit()
        ):
            plain = plain and words[0] is not None and not words[0].startswith("-")
            words = words[1:]
    return _Command(words, command.writes, command.heredoc, command.truncates, plain)


def _sort(first: _Command, commands: Sequence[_Command]) -> Sort:  # noqa: PLR0911
    name = first.name
    if first.heredoc and first.writes:
        return "change"
    if name == "sed":
        return "change" if any(word and word.startswith("-i") for word in first.arguments) else "read"
    if name in _RUNNERS:
        words = [word or "" for word in first.arguments[:4]]
        tested = any(word.partition(":")[0] in _TESTED or word in _TEST_NAMES for word in words)
        return "test" if tested else "other"
    if name.startswith("python") and any(word in _TEST_NAMES for word in first.arguments[:3]):
        return "test"
    if name == "xargs":
        rest = [word for word in first.arguments if word and not word.startswith("-")]
        return _SORTS.get(rest[0], "other") if rest else "other"
    if name == "git" and "grep" in first.arguments[:3]:
        return "search"
    if len(commands) > 1 and name in ("find", "fd", "git") and commands[1].name == "xargs":
        return _sort(commands[1], commands[1:])
    return _SORTS.get(name, "other")


_Span = tuple[str | None, float, float]


def _spans(commands: Sequence[_Command]) -> list[_Span] | None:
    """The files and lines whose text a pipeline prints and nothing else; None where that is not so."""
    first = commands[0]
    spans = _printed(first)
    if spans is None:
        return None
    for other in commands[1:]:
        if len(spans) != 1 or spans[0][1] != 1 or spans[0][2] != math.inf:
            return None
        narrowed = _printed(_Command([*other.words, ""], []))
        if narrowed is None or len(narrowed) != 1 or narrowed[0][0] != "":
            return None
        spans = [(spans[0][0], narrowed[0][1], narrowed[0][2])]
    return spans


def _printed(command: _Command) -> list[_Span] | None:  # noqa: PLR0911
    """The files that a command prints, and which lines of them."""
    files = [word for word in command.arguments if word is None or not word.startswith("-")]
    options = [word for word in command.arguments if word is not None and word.startswith("-")]
    match command.name:
        case "bat" | "batcat" if options:
            return None
        case "cat" | "bat" | "batcat":
            return [(word, 1, math.inf) for word in files] or None
        case "nl":
            if any(option not in ("-ba", "-b") for option in options) or (
                "-b" in options and "a" not in files
            ):
                return None
            return [(word, 1, math.inf) for word in files if word != "a"] or None
        case "head":
            return _head(files, options)
        case "sed":
            return _sed(files, options)
        case "tail":
            return _tail(files, options)
        case _:
            return None


def _head(files: list[str | None], options: list[str]) -> list[_Span] | None:
    count = 10.0
    if options == ["-n"] and files and files[0] is not None and _NUMBER.fullmatch(files[0]):
        count, files = float(files[0]), files[1:]
    elif options:
        found = _COUNT.fullmatch(options[0])
        if found is None or len(options) > 1:
            return None
        count = float(found[1])
    return [(word, 1, count) for word in files] or None


def _tail(files: list[str | None], options: list[str]) -> list[_Span] | None:
    if options == ["-n"] and len(files) == _PAIR and files[0] is not None and files[0].startswith("+"):
        number = files[0][1:]
        return [(files[1], float(number), math.inf)] if _NUMBER.fullmatch(number) else None
    return None


def _sed(files: list[str | None], options: list[str]) -> list[_Span] | None:
    if options != ["-n"] or len(files) != _PAIR or files[0] is None:
        return None  # of several files the lines are counted on from one to the next
    spans: list[tuple[float, float]] = []
    for piece in re.split(r"[;\s]+", files[0].strip(" ;")):
        found = _SED_LINES.fullmatch(piece)
        if found is None:
            return None
        first = float(found[1])
        last = first if found[2] is None else math.inf if found[2] == "$" else float(found[2])
        spans.append((first, last))
    return [(files[1], first, last) for first, last in spans]


def _changed(command: _Command) -> Iterator[str | None]:
    """The files that a command changes, takes away or puts there."""
    files = [word for word in command.arguments if word is None or not word.startswith("-")]
    options = [word for word in command.arguments if word is not None and word.startswith("-")]
    match command.name:
        case "tee" | "rm" | "truncate" | "unlink":
            yield from files
        case "mv" if len(files) == _PAIR:
            yield from files
        case "cp" if len(files) == _PAIR and not any(one.startswith(("-t", "--target")) for one in options):
            yield files[1]
        case "sed":
            if any(option.startswith(("-i", "--in-place")) for option in options):
                yield from files if "-e" in options or "-f" in options else files[1:]
        case "git" if any(option in ("--staged", "-S", "--cached") for option in options):
            pass  # the file itself stays as it is
        case "git" if files and files[0] in ("checkout", "restore", "rm", "mv"):
            if "--" in command.arguments:
                yield from command.arguments[command.arguments.index("--") + 1 :]
            elif files[0] != "checkout":
                yield from files[1:]
        case _:
            pass


# ---------------------------------------------------------------- the parser's tree


def _command(node: Node) -> _Command | None:
    """A simple command, with its redirections; None for anything else."""
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        inner = None if body is None else _command(body)
        if inner is None:
            return None
        for child in node.children_by_field_name("redirect"):
            _redirect(child, inner)
        return inner
    if node.type != "command":
        return None
    words: list[str | None] = []
    found = _Command(words, [])
    for child in node.named_children:
        if child.type == "variable_assignment":
            continue
        if child.type.endswith("redirect"):
            _redirect(child, found)
        elif child.type == "command_name":
            words.append(_word(child.named_children[0]) if child.named_children else _text(child))
        else:
            words.append(_word(child))
    return found if words else None


def _redirect(node: Node, command: _Command) -> None:
    if node.type in ("heredoc_redirect", "herestring_redirect"):
        command.heredoc = True
        for child in node.named_children:
            if child.type == "file_redirect":
                _redirect(child, command)
        return
    sign = next((child.type for child in node.children if not child.is_named), "")
    target = node.child_by_field_name("destination")
    word = None if target is None else _word(target)
    if sign == "<" and word == _ITS_PLACE:
        command.heredoc = True
    elif sign in (">", ">>", "&>", "&>>", ">|"):
        descriptor = node.child_by_field_name("descriptor")
        if descriptor is None or _text(descriptor) == "1":
            command.writes.append(word)
            if sign in (">", "&>", ">|"):
                command.truncates.append(word)


def _word(node: Node) -> str | None:
    """A word as the shell would pass it on; None where an expansion makes it unknown."""
    match node.type:
        case "word" | "number":
            text = _text(node)
            return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text
        case "raw_string":
            return _text(node)[1:-1]
        case "string":
            if all(child.type == "string_content" for child in node.named_children):
                return re.sub(r'\\(["\\$`])', r"\1", _text(node)[1:-1])
            return None
        case "concatenation":
            parts = [_word(child) for child in node.named_children]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case _:
            return None


def _has_alternative(node: Node) -> bool:
    """Whether the commands of a list are joined by `||`."""
    return any(child.type == "||" for child in node.children)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
