"""`prunewise recall`: the stored output, exactly."""

import json
import sys

import pytest
from tests.cli.support import Run, RunOnTerminal, RunProcess, Sample

IMAGE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
TRICKY = "tabs\tand \x1b[31mcolours\x1b[0m, caf\u00e9, \U0001f600, \u2028 and a\rreturn\r\n\n"


@pytest.fixture
def outputs(sample: Sample):
    sample.user()
    sample.call("call_tricky", "bash", {"command": "cat it"}, TRICKY)
    sample.call("call_long", "bash", {"command": "cat long"}, "x" * 20_000)
    sample.call("call_image", "read", {"path": "a.png"}, [{"type": "text", "text": "an image"}, IMAGE])
    sample.call("call_failed", "bash", {"command": "make " * 200}, "failed", failed=True)
    sample.entry(
        "message", message={"role": "bashExecution", "command": "ls", "output": "a b", "exitCode": 0}
    )
    return sample


def test_the_output_comes_out_exactly(run_process: RunProcess, outputs: Sample):
    for reference in ("#4:full", "#4", "00000003", "00000003:full"):
        done = run_process("recall", outputs.path, reference)
        assert done.returncode == 0
        assert done.stdout == TRICKY.encode()
        assert done.stderr == b""


def test_a_long_output_is_cut_and_the_hint_says_how_to_get_all(run: Run, outputs: Sample):
    short = run("recall", outputs.path, "#6").out
    assert short.startswith("x" * 12_000 + "\n[")
    assert '"#6:full"' in short
    assert run("recall", outputs.path, "#6:full").out == "x" * 20_000


def test_a_users_own_command_is_recalled(run: Run, outputs: Sample):
    assert run("recall", outputs.path, "#11").out == "a b"


def test_json_has_the_parts(run: Run, outputs: Sample):
    document = run("recall", outputs.path, "#8", "--json").json
    assert document == {
        "reference": "#8",
        "tool": "read",
        "text": "an image\n[image: image/png]",
        "input": None,
        "images": [IMAGE],
    }
    assert run("recall", outputs.path, "#6:full", "--json").json["reference"] == "#6"


def test_a_purged_input_comes_first(run: Run, outputs: Sample):
    run("prune", outputs.path, "--prune", "call_failed", "--input")
    assert run("recall", outputs.path, "#10").out.startswith('Input: {"command": "make make ')
    assert run("recall", outputs.path, "#10", "--json").json["input"] == {"command": "make " * 200}


def test_the_reference_in_a_marker_leads_back(run: Run, outputs: Sample):
    run("prune", outputs.path, "--prune", "call_long")
    decision = json.loads(outputs.path.read_bytes().splitlines()[-2])["data"]
    assert "recall #6 for all of it" in decision["placeholder"]
    assert run("recall", outputs.path, f"{decision['reference']}:full").out == "x" * 20_000


@pytest.mark.parametrize("reference", ["#1", "#2", "#3", "#999", "#x", "6", "", ":full", "nothing", "#0"])
def test_a_reference_that_leads_to_no_output_is_one_line_on_stderr(run: Run, outputs: Sample, reference: str):
    done = run("recall", outputs.path, reference)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("prunewise: ")
    assert done.err.count("\n") == 1


def test_half_a_character_is_written_as_its_escape(run_process: RunProcess, sample: Sample):
    sample.user()
    sample.call("call_1", "bash", {"command": "cat it"}, "half \ud83d of it")
    done = run_process("recall", sample.path, "#4")
    assert (done.returncode, done.stdout) == (0, b"half \\ud83d of it")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_an_encoding_lacks_is_written_as_its_escape(
    run_process: RunProcess, outputs: Sample, encoding: str
):
    done = run_process("recall", outputs.path, "#4", env={"PYTHONIOENCODING": encoding})
    assert done.returncode == 0
    assert b"\\U0001f600" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_on_a_terminal_the_last_line_ends(run_on_terminal: RunOnTerminal, outputs: Sample):
    assert run_on_terminal("recall", outputs.path, "#11").shown == "a b\r\n"


OBEYED = {
    "clear screen": "\x1b[2J",
    "another screen": "\x1b[?1049h",
    "the title": "\x1b]0;gone\x07",
    "the clipboard": "\x1b]52;c;cm0gLXJmIC8=\x1b\\",
    "a colour": "\x1b[31m",
    "an 8-bit sequence": "\x9b2J",
    "a bell": "\x07",
    "back to the line's begin": "\r",
    "back by one": "\x08",
    "shift out": "\x0e",
    "delete": "\x7f",
    "right to left": "\u202e",
    "a line separator": "\u2028",
}


@pytest.mark.parametrize("obeyed", OBEYED.values(), ids=OBEYED)
def test_on_a_terminal_what_it_would_obey_is_shown(
    run_on_terminal: RunOnTerminal, sample: Sample, obeyed: str
):
    sample.user()
    sample.call("call_1", "bash", {"command": "cat it"}, f"one\ttwo \u3000 caf\u00e9{obeyed}three\nfour")
    escaped = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in obeyed)
    shown = run_on_terminal("recall", sample.path, "#4").shown.replace("\r\n", "\n")
    assert shown == f"one\ttwo \u3000 caf\u00e9{escaped}three\nfour\n"
    assert obeyed in run_on_terminal("recall", sample.path, "#4:full").shown
    assert obeyed not in run_on_terminal("recall", sample.path, "#4", "--json").shown.replace("\r\n", "\n")
