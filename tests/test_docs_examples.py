"""Runs the code blocks of README.md, CONTRIBUTING.md and docs/ that follow the line `<!-- runnable -->`.

`python` blocks share their names down one page. In `console` blocks each line that starts with
`$ ` is a command, which has to exit with 0; if output follows, it is compared, and `...` stands
for anything. A `sh` block is a script. All run in a scratch folder, which is the home folder too: it holds
a copy of examples/, and pi has the sample session there.

A block of commands that cannot run follows the line `<!-- not run: REASON -->` instead.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARK = "<!-- runnable -->"
NOT_RUN = re.compile(r"<!-- not run: (\w.{10,}) -->$")
DATA = {"text", "json", "toml", "markdown"}
"""Languages of blocks that nobody would run."""


def runnable_blocks(document: Document) -> Iterable[Region]:
    evaluators = {"python": PythonEvaluator(), "console": run_console, "sh": run_script}
    lexer = FencedCodeBlockLexer(language="|".join(evaluators))
    for block in lexer(document):
        if document.text[: block.start].rstrip().endswith(MARK):
            block.parsed = block.lexemes["source"]
            block.evaluator = evaluators[block.lexemes["language"]]
            yield block


def run_console(example: Example) -> None:
    for command, wanted in console_steps(example.parsed):
        shown = run_shell(example, command)
        if wanted:
            matches = doctest.OutputChecker().check_output(wanted, shown, doctest.ELLIPSIS)
            assert matches, f"{example.path}:{example.line}: $ {command}\nwanted:\n{wanted}\ngot:\n{shown}"


def run_script(example: Example) -> None:
    run_shell(example, example.parsed)


def run_shell(example: Example, command: str) -> str:
    """What a command writes to stdout; it has to exit with 0."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env=console_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    where = f"{example.path}:{example.line}: $ {command}"
    assert done.returncode == 0, f"{where}\nexit code {done.returncode}\n{done.stderr}"
    return done.stdout


def console_steps(source: str) -> list[tuple[str, str]]:
    """Split a console block into commands, each with the output that follows it.

    A command goes on in the next line where it ends with a backslash.
    """
    steps: list[tuple[str, str]] = []
    for line in source.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], ""))
        elif steps:
            command, wanted = steps[-1]
            steps[-1] = (command, f"{wanted}{line}\n")
        else:
            message = f"a console block starts with a command, not with {line!r}"
            raise ValueError(message)
    return steps


def console_environment() -> dict[str, str]:
    binaries = Path(sys.executable).parent
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "HOME": str(Path.cwd()), "NO_COLOR": "1", "COLUMNS": "100"}


SYBIL = Sybil(parsers=[runnable_blocks], path=str(ROOT))


@pytest.fixture
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    sessions = tmp_path / ".pi" / "agent" / "sessions" / "--home-dev-pantry--"
    sessions.mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "session.jsonl", sessions)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_scratch")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_marked_examples_run(page: Path):
    for example in SYBIL.parse(page).examples():
        example.evaluate()


def unmarked(text: str) -> Iterable[str]:
    """The blocks of a page that hold commands, and are neither run nor say why not."""
    lines = text.splitlines()
    opened: str | None = None
    for number, line in enumerate(lines, 1):
        fence = re.match(r"\s*(```+|~~~+)\s*(\w*)", line)
        if not fence:
            continue
        if opened is not None:
            opened = None if fence[1] == opened else opened
            continue
        opened = fence[1]
        before = lines[number - 2].strip() if number > 1 else ""
        if fence[2] not in DATA and before != MARK and not NOT_RUN.match(before):
            yield f"{number}: {fence[2] or 'no language'}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_commands_is_run_or_says_why_not(page: Path):
    assert list(unmarked(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("before", "found"),
    [
        (f"{MARK}\n", []),
        ("<!-- not run: it needs a network -->\n", []),
        ("<!-- not run: -->\n", ["2: sh"]),
        ("<!-- not run: no -->\n", ["2: sh"]),
        (f"{MARK}\n\n", ["3: sh"]),
        ("", ["1: sh"]),
    ],
)
def test_what_counts_as_marked(before: str, found: list[str]):
    assert list(unmarked(f"{before}```sh\nmake\n```\n```json\n{{}}\n```\n")) == found


def page_with(tmp_path: Path, language: str, body: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(f"{MARK}\n```{language}\n{body}\n```\n\n```{language}\nnot marked\n```\n")
    return page


@pytest.mark.usefixtures("_scratch")
@pytest.mark.parametrize(
    ("language", "body"),
    [
        ("python", "assert 1 + 1 == 2"),
        ("console", "$ ls examples/session.jsonl"),
        ("sh", "cd examples\nls session.jsonl"),
        ("console", "$ echo one two\none ...\n$ true"),
        ("console", "$ echo one \\\n    two\none two"),
    ],
)
def test_an_example_that_holds_passes(tmp_path: Path, language: str, body: str):
    examples = list(SYBIL.parse(page_with(tmp_path, language, body)).examples())
    assert len(examples) == 1
    examples[0].evaluate()


@pytest.mark.usefixtures("_scratch")
@pytest.mark.parametrize(
    ("language", "body"),
    [
        ("python", "assert 1 + 1 == 3"),
        ("console", "$ false"),
        ("sh", "false\ntrue"),
        ("console", "$ echo one\ntwo"),
    ],
)
def test_an_example_that_does_not_hold_fails(tmp_path: Path, language: str, body: str):
    (example,) = SYBIL.parse(page_with(tmp_path, language, body)).examples()
    with pytest.raises(AssertionError):
        example.evaluate()
