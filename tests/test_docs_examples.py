"""Runs the code blocks of README.md and docs/ that follow the line `<!-- runnable -->`.

`python` blocks share their names down one page. In `console` blocks each line that starts with
`$ ` is a command, which has to exit with 0; if output follows, it is compared, and `...` stands
for anything. Both run in a scratch folder that holds a copy of examples/.
"""

import doctest
import os
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
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARK = "<!-- runnable -->"


def runnable_blocks(document: Document) -> Iterable[Region]:
    evaluators = {"python": PythonEvaluator(), "console": run_console}
    lexer = FencedCodeBlockLexer(language="|".join(evaluators))
    for block in lexer(document):
        if document.text[: block.start].rstrip().endswith(MARK):
            block.parsed = block.lexemes["source"]
            block.evaluator = evaluators[block.lexemes["language"]]
            yield block


def run_console(example: Example) -> None:
    for command, wanted in console_steps(example.parsed):
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
        if wanted:
            matches = doctest.OutputChecker().check_output(wanted, done.stdout, doctest.ELLIPSIS)
            assert matches, f"{where}\nwanted:\n{wanted}\ngot:\n{done.stdout}"


def console_steps(source: str) -> list[tuple[str, str]]:
    """Split a console block into commands, each with the output that follows it."""
    steps: list[tuple[str, str]] = []
    for line in source.splitlines():
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
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_scratch")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_marked_examples_run(page: Path):
    for example in SYBIL.parse(page).examples():
        example.evaluate()


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
        ("console", "$ echo one two\none ...\n$ true"),
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
        ("console", "$ echo one\ntwo"),
    ],
)
def test_an_example_that_does_not_hold_fails(tmp_path: Path, language: str, body: str):
    (example,) = SYBIL.parse(page_with(tmp_path, language, body)).examples()
    with pytest.raises(AssertionError):
        example.evaluate()
