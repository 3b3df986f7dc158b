"""`prunewise plan`: the table, the JSON, the options, and everything that can be wrong with its input."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from tests.cli.support import Run, RunProcess, Sample

import prunewise
from prunewise.gates import Verdict
from prunewise.gates.words import in_words
from prunewise.stores.pi_session import PiSession

# ---------------------------------------------------------------- what it shows


def test_the_table_says_what_would_go_and_why(run: Run, duplicates: Sample):
    done = run("plan", duplicates.path)
    assert done.code == 0
    assert done.err == ""
    assert "dedupe: a newer call with the same arguments follows" in done.out
    (row,) = [line for line in done.out.splitlines() if "a.py" in line]
    assert re.fullmatch(r" +2  read  a\.py +660 +629  paid", row), row


def test_the_summary_says_how_much_there_is(run: Run, duplicates: Sample):
    lines = run("plan", duplicates.path).out.splitlines()
    assert lines[0] == str(duplicates.path)
    assert lines[1].startswith("10 messages, 1,3")
    assert lines[1].endswith("state: idle (the user spoke last)")


def test_the_verdict_is_told_with_all_its_figures(run: Run, duplicates: Sample):
    done = run("plan", duplicates.path)
    verdict = run("plan", "--json", duplicates.path).json["verdict"]
    text = " ".join(done.out[done.out.index("Verdict") :].split())
    assert f"take {verdict['tokensRemoved']} tokens out of each request, from message 2 on" in text
    assert f"{verdict['tailTokens']:,} tokens from there on are cached again" in text
    assert f"as much as {verdict['penalty']:,.1f} fresh tokens" in text
    assert f"then saves {verdict['recurringSaving']:.1f}" in text
    assert f"Break-even after {verdict['breakEvenCalls']:.1f} LLM calls, threshold 22: it pays." in text


def test_a_policy_that_is_named_comes_before_that_of_the_settings(run: Run, sample: Sample):
    noisy = "\n".join(f"Receiving objects: {n:3}% ({n}/100)" for n in range(101))
    sample.call("call_noisy", "bash", {"command": "git clone x"}, noisy)
    done = run("plan", "--policy", "priced", sample.path)
    text = " ".join(done.out.split())
    assert "noise: most of it is noise" in text
    assert "Once, that costs as much as 0 fresh tokens; each later LLM call then saves" in text
    assert text.count("it pays.") == 1
    assert "noise" not in run("plan", "--policy", "documented", sample.path).out
    assert run("plan", "--policy", "best", sample.path).code == 2


def test_a_batch_that_does_not_pay_is_said_not_to(run: Run, duplicates: Sample):
    duplicates.call("call_big", "bash", {"command": "make"}, "x" * 80_000)
    done = run("plan", duplicates.path)
    assert "threshold 22: it does not pay." in " ".join(done.out.split())
    assert "Nothing was changed." in done.out
    assert "tokens smaller" not in done.out


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ({"mode": "off"}, "The gate is off and prices nothing: all of it goes."),
        (
            {"mode": "always-apply", "breakEvenThreshold": 0},
            "it does not pay, and goes all the same (always-apply).",
        ),
        ({"cachedPriceRatio": 0}, "Break-even never, threshold 22: it does not pay."),
    ],
)
def test_the_gate_is_told_as_it_is_set(
    run: Run, duplicates: Sample, tmp_path: Path, gate: dict[str, Any], words: str
):
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"gate": gate}))
    done = run("plan", duplicates.path, "--settings", settings)
    assert words in " ".join(done.out.split())
    document = run("plan", duplicates.path, "--settings", settings, "--json").json
    assert document["verdict"].get("unbounded", False) == ("never" in words)


def test_nothing_to_propose_is_said(run: Run, sample: Sample):
    sample.user()
    assert "no old output that could go now." in run("plan", sample.path).out
    priced = " ".join(run("plan", "--policy", "priced", sample.path).out.split())
    assert "the priced policy would cut nothing at this moment." in priced


def test_pruning_that_is_off_is_said(run: Run, duplicates: Sample, tmp_path: Path):
    settings = tmp_path / "settings.json"
    settings.write_text('{"enabled": false}')
    assert "Pruning is off" in run("plan", duplicates.path, "--settings", settings).out


def test_what_stands_already_is_listed(run: Run, duplicates: Sample):
    run("prune", duplicates.path, "--prune", "call_second")
    done = run("plan", duplicates.path)
    section = done.out[done.out.index("1 decision stands already:") :]
    assert re.search(r"4  read  a\.py +manual +\d{4}-\d\d-\d\d", section)


def test_masked_outputs_are_listed(run: Run, sample: Sample):
    sample.user()
    sample.call("call_big", "bash", {"command": "make all"}, "x" * 8000)
    sample.entry(
        "message", message={"role": "bashExecution", "command": "ls -R", "output": "y" * 8000, "exitCode": 0}
    )
    sample.answer()
    sample.user()
    done = run("plan", sample.path, "--window", 1000, "--reserve", 100)
    section = done.out[done.out.index("Masking: 2 outputs would be shortened") :]
    assert "make all" in section
    assert "ls -R" in section
    assert "Masking: nothing" in run("plan", sample.path, "--window", 1_000_000).out
    assert "Masking" not in run("plan", sample.path).out


def test_the_last_line_is_a_command_that_works(run: Run, duplicates: Sample):
    odd = duplicates.path.with_name("it's a session.jsonl")
    duplicates.path.rename(odd)
    last = run("plan", odd).out.splitlines()[-1]
    assert last.strip().startswith("prunewise prune '")
    assert last.endswith(".jsonl'")


def test_lines_fit_80_columns_and_long_texts_keep_both_ends(run: Run, sample: Sample):
    sample.user()
    for call in ("call_1", "call_2"):
        sample.read(call, f"{sample.cwd}/src/{'deep/' * 30}the_file.py")
        sample.call(f"{call}b", "bash", {"command": f"cd /some/where && make {'x' * 100} | tail -5"})
    sample.turns(5)
    lines = run("plan", sample.path).out.splitlines()
    assert max(map(len, lines[1:-1])) <= 80
    assert any("src/" in line and "the_file.py" in line for line in lines)
    assert any("cd /some" in line and "| tail -5" in line for line in lines)


def test_a_wider_screen_shows_more(run: Run, duplicates: Sample, monkeypatch: pytest.MonkeyPatch):
    command = f"make {'target ' * 12}end"
    for call in ("call_1", "call_2"):
        duplicates.call(call, "bash", {"command": command})
    duplicates.turns(5)
    assert command not in run("plan", duplicates.path).out
    monkeypatch.setenv("COLUMNS", "200")
    assert command in run("plan", duplicates.path).out


def test_a_screen_of_no_columns_is_taken_for_a_usual_one(
    run: Run, duplicates: Sample, monkeypatch: pytest.MonkeyPatch
):
    usual = run("plan", duplicates.path).out
    monkeypatch.setenv("COLUMNS", "0")
    assert run("plan", duplicates.path).out == usual


def test_what_could_move_the_cursor_is_shown_as_an_escape(run: Run, sample: Sample):
    sample.user()
    for call in ("call_1", "call_2"):
        sample.call(call, "ba\x1b[2Jsh\n", {"path": "\x1b]0;owned\x07\u202e"})
    sample.turns(5)
    done = run("plan", sample.path)
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert r"ba\x1b[2Jsh\n" in done.out


@pytest.mark.parametrize(
    ("calls", "shown"),
    [(14.4, "14.4"), (15.0, "15"), (21.98, "22"), (22.04, "22.04"), (22.0, "22"), (1234.5, "1,234.5")],
)
def test_break_even_is_as_precise_as_it_takes_to_see_the_side_of_the_threshold(calls: float, shown: str):
    verdict = Verdict("on", calls <= 22, 22, 3, 1000, 100, calls * 10, 10.0, calls)
    assert f"Break-even after {shown} LLM calls, threshold 22" in in_words(verdict, "1 proposal")


def test_columns_line_up_where_characters_are_two_wide(run: Run, sample: Sample):
    sample.user()
    for call in ("call_1", "call_2"):
        sample.read(call, "日本語のファイル.py")
        sample.read(f"{call}b", "plain.py")
    sample.turns(5)
    rows = [line for line in run("plan", sample.path).out.splitlines() if ".py" in line]
    assert len({cell_len(row) for row in rows}) == 1


# ---------------------------------------------------------------- the JSON


def test_json_is_the_plan_and_nothing_else(run: Run, duplicates: Sample):
    done = run("plan", duplicates.path, "--json")
    session = PiSession.open(duplicates.path)
    ids, messages = zip(*[(one.id, one.message) for one in session.context()], strict=True)
    plan = prunewise.plan(messages, ids=ids, store=session, cwd=session.cwd)
    assert done.json == json.loads(json.dumps(plan.to_dict()))
    assert done.err == ""
    assert [one["call"] for one in done.json["proposals"]] == ["call_first"]


def test_json_stays_valid_where_the_session_holds_what_json_cannot(run_process: RunProcess, sample: Sample):
    sample.user()
    for call in ("call_\\ud800", "call_2"):
        sample.call(call.encode().decode("unicode_escape"), "read", {"path": "a"})
    sample.turns(5)
    done = run_process("plan", sample.path, "--json", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert json.loads(done.stdout)["proposals"][0]["call"] == "call_\ud800"


# ---------------------------------------------------------------- --at and --leaf


def test_at_plans_as_if_the_first_messages_were_about_to_be_sent(run: Run, duplicates: Sample):
    assert run("plan", duplicates.path, "--at", 5, "--json").json["messages"] == 5
    assert "the first 5 of 10 messages" in run("plan", duplicates.path, "--at", 5).out
    assert run("plan", duplicates.path, "--at", 0, "--json").json["messages"] == 0
    whole = run("plan", duplicates.path, "--json").json
    assert run("plan", duplicates.path, "--at", 10, "--json").json == whole


@pytest.mark.parametrize("at", ["11", "-1", "x"])
def test_at_beyond_the_messages_is_a_usage_error(run: Run, duplicates: Sample, at: str):
    done = run("plan", duplicates.path, "--at", at)
    assert done.code == 2
    assert done.out == ""
    if at == "11":
        assert "has 10 messages" in done.err


def test_at_goes_by_the_decisions_of_that_time(run: Run, duplicates: Sample):
    run("prune", duplicates.path, "--prune", "call_first")
    duplicates.last = PiSession.open(duplicates.path).leaf
    duplicates.count = 100
    duplicates.user()
    assert len(run("plan", duplicates.path, "--json").json["decisions"]) == 1
    assert len(run("plan", duplicates.path, "--at", 11, "--json").json["decisions"]) == 1
    before = run("plan", duplicates.path, "--at", 9, "--json").json
    assert before["decisions"] == []


def test_leaf_plans_another_branch(run: Run, duplicates: Sample):
    leaf, fork = duplicates.last, "00000003"
    duplicates.user("elsewhere", parentId=fork)
    assert run("plan", duplicates.path, "--json").json["messages"] == 4
    assert run("plan", duplicates.path, "--leaf", leaf, "--json").json["messages"] == 10
    done = run("plan", duplicates.path, "--leaf", "nowhere")
    assert (done.code, done.out) == (1, "")
    assert "no entry nowhere" in done.err


# ---------------------------------------------------------------- settings


def off(folder: Path, name: str, text: str = '{"pruning": {"minResultTokens": 5}}') -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_file_the_settings_are_those_of_pi(run: Run, duplicates: Sample, home: Path):
    off(
        home,
        ".pi/agent/extensions/dynamic-context-pruning.json",
        '{"strategies": {"dedupe": {"enabled": false}}}',
    )
    proposals = run("plan", duplicates.path, "--json").json["proposals"]
    assert [one["strategy"] for one in proposals] == ["superseded-file-ops"]


def test_the_projects_settings_hold_and_cwd_names_another_project(run: Run, sample: Sample, tmp_path: Path):
    sample.user()
    sample.read("call_1")
    sample.answer()
    sample.user()
    off(Path(sample.cwd), ".pi/settings.json")
    window = ("--window", 10, "--reserve", 0, "--json")
    assert len(run("plan", sample.path, *window).json["masked"]) == 1
    assert run("plan", sample.path, *window, "--cwd", tmp_path).json["masked"] == []


def test_a_named_file_replaces_pis_settings(run: Run, duplicates: Sample, home: Path, tmp_path: Path):
    off(home, ".pi/agent/extensions/dynamic-context-pruning.json", '{"enabled": false}')
    empty = off(tmp_path, "empty.json", "{}")
    assert run("plan", duplicates.path, "--settings", empty, "--json").json["proposals"]


@pytest.mark.parametrize("text", [None, "{", "[]", "\xff"])
def test_a_named_file_that_cannot_be_used_stops_it(
    run: Run, duplicates: Sample, tmp_path: Path, text: str | None
):
    path = tmp_path / "settings.json"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    done = run("plan", duplicates.path, "--settings", path)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"prunewise: {path}")
    assert done.err.count("\n") == 1


def test_a_broken_value_is_a_warning_on_stderr(run: Run, duplicates: Sample, tmp_path: Path):
    settings = off(tmp_path, "settings.json", '{"gate": {"breakEvenThreshold": "high"}}')
    done = run("plan", duplicates.path, "--settings", settings, "--json")
    assert done.code == 0
    assert done.json["verdict"]["threshold"] == 22
    assert done.err.startswith(f"warning: {settings}: gate.breakEvenThreshold")


# ---------------------------------------------------------------- what is wrong with a file


def test_ten_warnings_are_shown_and_the_rest_counted(run: Run, duplicates: Sample):
    duplicates.append(b"garbage\n" * 13)
    done = run("plan", duplicates.path)
    assert done.code == 0
    lines = done.err.splitlines()
    assert len(lines) == 11
    assert lines[0].startswith(f"warning: {duplicates.path}:12: ")
    assert lines[-1] == "warning: and 3 more"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"hello\nworld\n",
        b"[1, 2]\n",
        b'{"a": 1}\n',
        b"\0" * 5000,
        b"\xff\xfe\x00",
        b"x" * 3_000_000,
    ],
)
def test_a_file_that_is_no_session_is_one_line_on_stderr(run: Run, tmp_path: Path, content: bytes):
    path = tmp_path / "other"
    path.write_bytes(content)
    done = run("plan", path, "--json")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"prunewise: {path}: not a pi session")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", [("plan",), ("prune",), ("recall", "#1")])
def test_a_session_of_another_agent_is_told_by_its_name(run: Run, tmp_path: Path, command: tuple[str, ...]):
    path = tmp_path / "rollout.jsonl"
    path.write_text('{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"1"}}\n')
    done = run(command[0], path, *command[1:])
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"prunewise: {path}: not a pi session")
    assert done.err.endswith("; it is one of codex, which `prunewise benchmark` reads\n")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unreadable(path: Path) -> None:
    path.write_text("")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (fifo, "not a regular file"),
        (Path.mkdir, "a folder"),
        (Path.exists, "no such file"),
        (unreadable, "permission denied"),
        (lambda path: path.symlink_to(path), "cannot be read"),
    ],
    ids=["fifo", "folder", "missing", "unreadable", "link to itself"],
)
@pytest.mark.parametrize("command", [["plan"], ["prune"], ["recall", "#3"]], ids=lambda command: command[0])
def test_a_path_that_is_no_file_is_one_line_on_stderr(
    run: Run, tmp_path: Path, make: Callable[[Path], object], words: str, command: list[str]
):
    path = tmp_path / "it"
    make(path)
    done = run(command[0], path, *command[1:])
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert done.err.count("\n") == 1


def test_the_message_about_a_name_stays_one_line(run: Run, tmp_path: Path):
    done = run("plan", tmp_path / "two\nlines\x1b")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "\x1b" not in done.err


# ---------------------------------------------------------------- recorded sessions


def corpus(shared: Path, folder: str) -> list[Path]:
    return sorted(path for path in (shared / "corpus" / folder).rglob("*") if path.is_file())


@pytest.mark.corpus
def test_there_is_a_plan_for_every_recorded_session_of_pi(run: Run, shared: Path):
    paths = corpus(shared, "pi")
    assert paths
    for path in paths:
        assert run("plan", path, "--json").json["messages"] > 0, path
        lines = run("plan", path).out.splitlines()
        assert max(map(len, lines[1:-1])) <= 80, path


@pytest.mark.corpus
def test_every_recorded_session_of_another_agent_is_refused_in_one_line(run: Run, shared: Path):
    folders = [one.name for one in (shared / "corpus").iterdir() if one.is_dir() and one.name != "pi"]
    paths = [path for folder in folders for path in corpus(shared, folder)]
    assert paths
    for path in paths:
        done = run("plan", path)
        assert (done.code, done.out) == (1, ""), path
        assert done.err.startswith(f"prunewise: {path}: not a pi session"), path
        assert done.err.count("\n") == 1, path
