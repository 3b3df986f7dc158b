"""Shell completion: the scripts, and what is offered where."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.support import TEXT, Run, Sample

from prunewise.cli import completion
from prunewise.cli.completion import VARIABLE

Offered = Callable[..., dict[str, str]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_by_our_variable(run: Run, shell: str):
    done = run("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"{VARIABLE}={shell}_complete" in done.out


def test_another_shell_is_wrong_usage(run: Run):
    assert run("completion", "tcsh").code == 2


@pytest.fixture
def offered() -> Offered:
    """The words that a shell would offer behind a command line, with what it would say of them."""

    def offered(*words: object, cwd: Path | None = None) -> dict[str, str]:
        line = " ".join(f"'{word}'" for word in ("prunewise", *words))
        done = subprocess.run(
            [sys.executable, "-m", "prunewise"],
            env={**os.environ, VARIABLE: "zsh_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.strip().splitlines()
        return {
            "file" if kind == "file" else value: about
            for kind, value, about in zip(*[iter(lines)] * 3, strict=True)
        }

    return offered


def test_commands_options_and_formats(offered: Offered):
    assert {"plan", "recall", "completion"} <= set(offered(""))
    assert set(offered("plan", "x", "--se")) == {"--settings"}
    assert set(offered("benchmark", "--format", "c")) == {"claude-code", "codex", "copilot"}


def test_a_session_is_one_of_pis_newest_or_a_file(offered: Offered, home: Path):
    assert set(offered("plan", "")) == {"file"}
    folder = home / ".pi" / "agent" / "sessions" / "--a--"
    folder.mkdir(parents=True)
    for age in range(12):
        (folder / f"{age}.jsonl").touch()
        os.utime(folder / f"{age}.jsonl", (10_000 - age, 10_000 - age))
    assert list(offered("prune", "")) == [str(folder / f"{age}.jsonl") for age in range(10)]
    assert set(offered("plan", "ex")) == {"file"}


def test_a_policy_is_a_known_one_or_a_file(offered: Offered):
    assert {"documented", "optimal", "ceiling"} <= set(offered("benchmark", "--policy", ""))
    assert set(offered("benchmark", "--policy", "two")) == {"two-level"}
    assert set(offered("benchmark", "--policy", "mine.js")) == {"file"}


def test_a_call_to_prune_is_one_that_may_be(offered: Offered, duplicates: Sample):
    assert list(offered("prune", duplicates.path, "--prune", "")) == ["call_second", "call_first"]
    assert list(offered("prune", duplicates.path, "--prune", "call_f")) == ["call_first"]
    assert offered("prune", duplicates.path, "--restore", "") == {}


@pytest.mark.parametrize("typed", ["~/session.jsonl", "$HOME/session.jsonl", "${HOME}/session.jsonl"])
def test_a_session_may_be_named_as_a_shell_would_understand_it(
    offered: Offered, duplicates: Sample, home: Path, typed: str
):
    shutil.copy(duplicates.path, home / "session.jsonl")
    assert list(offered("prune", typed, "--prune", "")) == ["call_second", "call_first"]
    assert len(offered("recall", typed, "")) == 2
    assert offered("recall", "~nobody-of-this-name/session.jsonl", "") == {}


def test_an_id_is_offered_up_to_what_a_shell_would_take_apart(run: Run, offered: Offered, sample: Sample):
    sample.user()
    for call in ("call_aaaaaa|fc:1", "call_bbbbbb|1", "call_bbbbbbb", "|||"):
        sample.read(call)
    sample.user()
    values = ["|||", "call_bbbbbbb", "call_bbbbbb|1", "call_aaaaaa"]
    assert list(offered("prune", sample.path, "--prune", "")) == values
    assert list(offered("prune", sample.path, "--prune", "call_a")) == ["call_aaaaaa"]
    assert [run("prune", sample.path, "--prune", value).code for value in values] == [0] * 4


def test_what_is_offered_says_what_it_was_about(offered: Offered, sample: Sample):
    sample.user()
    sample.call("call_x", "bash", {"command": "ls  -l\n| wc"}, TEXT * 40)
    sample.user()
    assert offered("prune", sample.path, "--prune", "") == {
        "call_x": "bash ls -l | wc, 660 tokens, 1 turn ago"
    }


def test_what_is_pruned_can_be_restored_and_recalled(run: Run, offered: Offered, duplicates: Sample):
    results = list(offered("recall", duplicates.path, ""))
    assert len(results) == 2
    assert run("prune", duplicates.path, "--prune", "call_first").code == 0
    assert list(offered("prune", duplicates.path, "--restore", "")) == ["call_first"]
    assert list(offered("prune", duplicates.path, "--prune", "")) == ["call_second"]
    (reference,) = offered("recall", duplicates.path, "")
    assert reference == results[-1]
    assert run("recall", duplicates.path, f"{reference}:full").out == TEXT * 40


@pytest.mark.parametrize("content", [b"", b"no session"])
def test_of_what_cannot_be_read_nothing_is_offered(offered: Offered, tmp_path: Path, content: bytes):
    (tmp_path / "s.jsonl").write_bytes(content)
    assert offered("recall", tmp_path / "s.jsonl", "") == {}
    assert offered("prune", tmp_path / "missing.jsonl", "--prune", "") == {}


def test_no_key_press_waits_for_a_very_large_session(duplicates: Sample, monkeypatch: pytest.MonkeyPatch):
    from click.shell_completion import ShellComplete

    from prunewise.cli.program import program

    def values() -> list[str]:
        asked = ShellComplete(program, {}, "prunewise", VARIABLE)
        return [item.value for item in asked.get_completions(["recall", str(duplicates.path)], "")]

    assert len(values()) == 2
    monkeypatch.setattr(completion, "MOST_BYTES", 10)
    assert values() == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_by_the_script(tmp_path: Path):
    binaries = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    asked = """
        eval "$(prunewise completion bash)"
        COMP_WORDS=(prunewise benchmark --policy do) COMP_CWORD=3
        _prunewise_completion prunewise do --policy
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", asked],
        env={**os.environ, "PATH": binaries},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "documented\n", done.stderr
