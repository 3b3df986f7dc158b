"""The program as a whole: exit codes, colours, closed pipes, interrupts, and faults of its own."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cli.support import Run, RunOnTerminal, RunProcess, Sample

import prunewise
from prunewise.cli import console, main
from prunewise.cli.program import program

FULL = Path("/dev/full")


def test_version(run: Run):
    assert run("--version") == (0, f"prunewise {prunewise.__version__}\n", "")


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, ...]]:
    """Every command that the help lists, and the program itself."""
    yield above
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)
        elif not command.hidden:
            yield (*above, name)


@pytest.mark.parametrize(
    "command", list(commands(program)), ids=lambda command: " ".join(command) or "prunewise"
)
def test_help_opens_with_one_sentence_and_ends_with_one_example(run: Run, command: tuple[str, ...]):
    done = run(*command, "--help")
    assert (done.code, done.err) == (0, "")
    _, first, *others = [" ".join(paragraph.split()) for paragraph in done.out.split("\n\n")]
    assert re.fullmatch(r"[A-Z][^.]+\.", first)
    example = next(paragraph for paragraph in reversed(others))
    assert example.startswith("Example: ")
    assert " ".join(("prunewise", *command)) in example
    assert done.out.count("Example: ") == 1


def test_no_example_writes_to_the_tracked_sample():
    assert "prunewise prune examples/" not in str([command.epilog for command in program.commands.values()])


@pytest.mark.parametrize(
    "arguments",
    [["nothing"], ["plan"], ["plan", "a", "b"], ["plan", "a", "--nothing"], ["plan", "a", "--window", "0"]],
)
def test_wrong_usage_is_exit_code_2(run: Run, arguments: list[str]):
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Usage: prunewise" in done.err


def test_python_m_prunewise_is_the_command(run_process: RunProcess):
    done = run_process("--version")
    assert (done.returncode, done.stdout.decode()) == (0, f"prunewise {prunewise.__version__}\n")
    assert b"Usage: prunewise " in run_process("--help").stdout


def test_without_the_extra_one_line_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("prunewise.cli.find_spec", lambda name: None if name == "click" else object())
    assert main(["--version"]) == 1
    wanted = "prunewise's command line needs its extra: pip install 'prunewise[cli]'\n"
    assert capsys.readouterr() == ("", wanted)


# ---------------------------------------------------------------- colours


def test_there_are_colours_on_a_terminal_only(
    run_process: RunProcess, run_on_terminal: RunOnTerminal, duplicates: Sample
):
    assert "\x1b[" in run_on_terminal("plan", duplicates.path).shown
    assert b"\x1b" not in run_process("plan", duplicates.path).stdout
    assert "\x1b" not in run_on_terminal("plan", "--json", duplicates.path).shown


@pytest.mark.parametrize("command", [["plan"], ["prune", "--prune", "call_first"]])
def test_no_color_is_respected(run_on_terminal: RunOnTerminal, duplicates: Sample, command: list[str]):
    shown = run_on_terminal(*command, duplicates.path, answers=[b"\n"], env={"NO_COLOR": "1"}).shown
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", shown)


def test_a_dumb_terminal_gets_plain_text(run_on_terminal: RunOnTerminal, duplicates: Sample):
    assert "\x1b" not in run_on_terminal("plan", duplicates.path, env={"TERM": "dumb"}).shown


# ---------------------------------------------------------------- ends that nobody wishes for


@pytest.mark.parametrize("buffering", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_pipe_that_is_closed_ends_it_silently(sample: Sample, options: list[str], buffering: str):
    sample.user()
    sample.call("call_long", "bash", {"command": "cat it"}, "x" * 1_000_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "prunewise", "recall", sample.path, "#4:full", *options],
        env={**os.environ, "PYTHONUNBUFFERED": buffering},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == console.PIPE_CLOSED


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is full")
def test_output_that_cannot_be_written_is_one_line(run_process: RunProcess, duplicates: Sample):
    with FULL.open("wb") as full:
        done = run_process("plan", duplicates.path, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.startswith(b"prunewise: the output cannot be written")
    assert done.stderr.count(b"\n") == 1


def test_an_interrupt_is_exit_code_130_without_a_traceback():
    code = textwrap.dedent(
        """
        import sys, time
        from prunewise.cli.program import run
        from prunewise.stores.pi_session import PiSession
        PiSession.open = lambda path: (print(flush=True), time.sleep(60))
        sys.exit(run(["plan", "it"]))
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch):
    def fail(path: Path) -> None:
        raise KeyError(f"{path}\ntwo")

    monkeypatch.setattr("prunewise.cli.sessions.PiSession.open", fail)


@pytest.mark.usefixtures("faulty")
def test_a_fault_of_ours_is_one_line_that_asks_for_a_report(run: Run):
    done = run("plan", "it")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert "KeyError" in done.err
    assert "please report" in done.err


@pytest.mark.usefixtures("faulty")
def test_a_fault_of_ours_shows_its_traceback_when_asked(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PRUNEWISE_DEBUG", "1")
    assert "Traceback (most recent call last)" in run("plan", "it").err


@pytest.mark.parametrize(
    "command",
    [
        ["plan"],
        ["plan", "--json"],
        ["prune"],
        ["prune", "--prune", "call_1"],
        ["prune", "--json"],
        ["prune", "--prune", "nothing\x1b[2J"],
        ["recall", "#4", "--json"],
        ["recall", "#9\x1b[2J"],
        ["benchmark", "--details", "--policy", "documented"],
        ["benchmark", "--json", "--policy", "documented"],
        ["benchmark", "--events"],
        ["calibrate"],
    ],
    ids=" ".join,
)
def test_no_command_shows_what_a_terminal_would_obey(run: Run, tmp_path: Path, command: list[str]):
    odd = "\x1b[2J\x1b]0;t\x07\x9b2J\r"
    (tmp_path / f"pro{odd}ject").mkdir()
    sample = Sample(tmp_path / f"pro{odd}ject" / f"s{odd}.jsonl", f"/w{odd}")
    sample.user(f"go{odd}")
    for number in range(4):
        sample.call(f"call_{number}", "read", {"path": f"a{odd}.py", "command": odd}, f"text{odd} " * 200)
    sample.call(f"call{odd}", f"tool{odd}", {"path": f"b{odd}"}, f"text{odd}", failed=True)
    sample.turns(6)
    sample.entry(
        "message", message={"role": "assistant", "model": f"m{odd}", "provider": f"p{odd}", "content": []}
    )
    name, *options = command
    done = run(name, sample.path, *options)
    shown = done.out + done.err
    assert shown
    assert not [one for one in shown if not one.isprintable() and one != "\n"]
