"""`prunewise benchmark`: what it reads, what it asks, where it writes, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Run, RunOnTerminal, RunProcess
from tests.replay import sessions

from prunewise import shell
from prunewise.cli import benchmark as module
from prunewise.cli import progress
from prunewise.replay import corpus, outcome


@pytest.fixture(autouse=True)
def cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own, and no agent's folder elsewhere."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    return home / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session of each format, and a file that is none."""
    folder = tmp_path / "in"
    folder.mkdir()
    sessions.one_of_each(folder)
    (folder / "bad.json").write_text('{"name": "package"}')
    return folder


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


# ---------------------------------------------------------------- the report


def test_the_report_compares_policies(run: Run, folder: Path):
    done = run("benchmark", folder)
    assert done.code == 0
    shown = ("documented", "masking", r"documented \+ masking", "priced")
    for policy in (*shown, "LangChain's rule"):
        assert re.search(rf"^ +{policy} ", done.out, re.MULTILINE), policy
    assert "Verdict:" not in done.out
    details = run("benchmark", folder, "--details").out
    assert details.startswith(done.out)
    assert "Verdict:" in details
    for policy in (*shown, "no pruning", "documented in hindsight"):
        assert re.search(rf"^ +{policy} ", details, re.MULTILINE), policy
    assert done.err == f"warning: {folder}/bad.json: no session that any reader knows\n"


def test_the_json_document_is_all_that_stdout_has(run: Run, folder: Path):
    done = run("benchmark", folder, "--json")
    assert done.code == 0
    assert [one["policy"] for one in done.json["policies"]] == [
        "none",
        "documented",
        "two-level",
        "both",
        "priced",
        "langchain",
        "optimal",
    ]
    assert [error["source"] for error in done.json["errors"]] == [f"{folder}/bad.json"]
    assert done.json["all"]["sessions"] == 9


def test_nothing_that_is_read_is_written(run: Run, folder: Path):
    sessions.database(folder / "opencode.db", ("ses_1", "/repo", 1))
    before = contents(folder)
    assert run("benchmark", folder).code == 0
    assert run("benchmark", folder, "--events").code == 0
    assert contents(folder) == before


def test_the_report_is_the_same_for_any_number_of_processes(run: Run, folder: Path):
    alone = run("benchmark", folder, "--json", "--jobs", 1).out
    assert run("benchmark", folder, "--json", "--jobs", 2).out == alone
    assert run("benchmark", folder, "--json", "--resume").out == alone


@pytest.mark.parametrize(
    ("size", "cores", "jobs"), [(0, 8, 1), (10**6, 8, 1), (5 * 10**6, 8, 3), (10**9, 8, 8), (10**9, None, 1)]
)
def test_there_are_as_many_processes_as_are_worth_it(
    monkeypatch: pytest.MonkeyPatch, size: int, cores: int | None, jobs: int
):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert module._jobs([corpus.Source("a", size)]) == jobs


def test_files_are_written_where_they_are_asked_for(run: Run, folder: Path, tmp_path: Path):
    parquet, html = tmp_path / "r.parquet", tmp_path / "r.html"
    done = run("benchmark", folder, "--parquet", parquet, "--html", html)
    assert done.code == 0
    import pyarrow.parquet as pq

    assert pq.read_table(parquet).num_rows == 9 * 7 + 1
    assert html.read_text().lstrip().lower().startswith("<!doctype html")
    assert f"written: {html}\n" in done.err


@pytest.mark.parametrize("option", ["--parquet", "--html"])
def test_a_place_that_is_not_there_is_said_before_the_run(run: Run, folder: Path, option: str):
    done = run("benchmark", folder, option, folder / "nowhere" / "file")
    assert (done.code, done.out) == (1, "")
    assert "there is no folder" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("option", ["--parquet", "--html"])
def test_a_file_that_cannot_be_written_is_said(run: Run, folder: Path, tmp_path: Path, option: str):
    (tmp_path / "taken").mkdir()
    done = run("benchmark", folder / "pi.jsonl", option, tmp_path / "taken")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith(f"prunewise: {tmp_path}/taken: ")


def test_what_is_shared_has_no_path_and_no_text(run: Run, folder: Path, tmp_path: Path):
    html = tmp_path / "r.html"
    for arguments in (("--json",), (), ("--html", html)):
        done = run("benchmark", folder, "--share", *arguments)
        assert done.code == 0
        written = done.out + done.err.replace(f"written: {html}\n", "")
        written += html.read_text() if arguments[:1] == ("--html",) else ""
        for secret in (str(folder), "pi.jsonl", "/repo", "bad.json", "compute_everything", "pi-0", "go on"):
            assert secret not in written, (arguments, secret)
        assert "warning: 1 file could not be replayed\n" in done.err


# ---------------------------------------------------------------- which sessions


def test_without_paths_every_known_agents_sessions_are_taken(run: Run, home: Path):
    for place, data in {
        ".pi/agent/sessions/--repo--/s.jsonl": sessions.pi(),
        ".claude/projects/-repo/s.jsonl": sessions.claude_code(),
        ".codex/sessions/2026/03/02/rollout-1.jsonl": sessions.codex(),
    }.items():
        (home / place).parent.mkdir(parents=True)
        (home / place).write_bytes(data)
    done = run("benchmark", "--json")
    assert done.code == 0
    assert done.json["all"]["sessions"] == 3
    assert done.err.splitlines() == [
        f"pi: 1 file in {home}/.pi/agent/sessions",
        f"claude-code: 1 file in {home}/.claude/projects",
        f"codex: 1 file in {home}/.codex/sessions",
    ]


def test_what_all_of_a_users_sessions_came_to_is_kept_for_advice(run: Run, home: Path):
    """Not what a choice of them came to, and not what other prices would have."""
    folder = home / ".pi" / "agent" / "sessions" / "project"
    folder.mkdir(parents=True)
    (folder / "session.jsonl").write_bytes(sessions.pi())
    for asked in (("--limit", "1"), ("--read", "0.5"), ("--no-loss",), ("--policy", "priced"), (folder,)):
        run("benchmark", *asked)
        assert outcome.last(outcome.cache_folder()) is None
    document = run("benchmark", "--json").json
    found = outcome.last(outcome.cache_folder())
    assert found is not None
    changes = {one["policy"]: one["net"]["change"] for one in document["all"]["policies"]}
    assert (found.documented.saved, found.priced.saved) == (-changes["documented"], -changes["priced"])


def test_without_paths_and_agents_it_is_said(run: Run):
    done = run("benchmark")
    assert (done.code, done.out) == (1, "")
    assert done.err == ("prunewise: no agent's sessions were found on this machine: name files or folders\n")


@pytest.mark.parametrize(
    ("arguments", "sessions_counted"),
    [
        (["--limit", 4], 3),  # bad.json is the first
        (["--since", "2026-03-01"], 9),
        (["--project", "/repo"], 7),
        (["--project", "*/rep?"], 7),
        (["--project", "/repo", "--limit", 3], 2),
        (["--format", "pi"], 1),
    ],
)
def test_which_sessions(run: Run, folder: Path, arguments: list[Any], sessions_counted: int):
    done = run("benchmark", folder, "--json", *arguments)
    assert done.code == 0, done.err
    assert done.json["all"]["sessions"] == sessions_counted


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "2999-01-01"], "no session is of the time and project that were asked for"),
        (["--project", "elsewhere"], "no session is of the time and project that were asked for"),
        (["--format", "codex", "--limit", 1], "no session could be replayed"),
    ],
)
def test_no_session_at_all_is_the_inputs_fault(run: Run, folder: Path, arguments: list[Any], said: str):
    (folder / "bad.json").unlink()
    done = run("benchmark", *sorted(folder.glob("c*")), *arguments)
    if arguments[0] == "--format":
        done = run("benchmark", folder / "pi.jsonl", *arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1] == f"prunewise: {said}"


def test_a_folder_without_sessions_is_said(run: Run, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    done = run("benchmark", tmp_path / "empty")
    assert (done.code, done.out, done.err) == (1, "", f"prunewise: {tmp_path}/empty: no session files\n")


def test_without_compaction_a_session_is_one_epoch(run: Run, tmp_path: Path):
    lines = sessions.pi().splitlines(keepends=True)
    entry = json.loads(lines[10])
    compaction = {"type": "compaction", "id": "cccc", "parentId": json.loads(lines[20])["id"]}
    compaction |= {"timestamp": entry["timestamp"], "summary": "s", "firstKeptEntryId": entry["id"]}
    after = json.loads(lines[21]) | {"parentId": "cccc"}
    path = tmp_path / "s.jsonl"
    path.write_bytes(
        b"".join(
            [
                *lines[:21],
                json.dumps(compaction).encode() + b"\n",
                json.dumps(after).encode() + b"\n",
                *lines[22:],
            ]
        )
    )
    with_it = run("benchmark", path, "--json", "--policy", "documented")
    without = run("benchmark", path, "--json", "--policy", "documented", "--no-compaction")
    assert with_it.json["all"]["compactions"] == 1
    assert without.json["all"]["compactions"] == 0


# ---------------------------------------------------------------- what is asked


def names(document: Any) -> list[str]:
    return [one["policy"] for one in document["policies"]]


def test_policies_are_those_asked_for_with_none_and_the_users_own(run: Run, folder: Path, tmp_path: Path):
    mine = tmp_path / "mine.json"
    mine.write_text('{"gate": {"mode": "off"}}')
    done = run("benchmark", folder / "pi.jsonl", "--json", "--policy", "every-call", "--policy", mine)
    assert names(done.json) == ["none", "every-call", "mine.json", "both"]
    done = run("benchmark", folder / "pi.jsonl", "--json", "--policy", "both", "--policy", "optimal")
    assert names(done.json) == ["none", "both", "optimal"]


@pytest.mark.parametrize(
    ("policy", "said"), [("priced", True), ("ski", True), ("own.json", True), ("both", False)]
)
def test_without_its_extra_the_figures_of_priced_are_said_to_be_off(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, *, policy: str, said: bool
):
    (folder.parent / "own.json").write_text('{"policy": "priced"}')
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr(shell, "_parser", lambda: None)
    done = run("benchmark", folder, "--policy", policy)
    assert ("warning: `priced` reads no shell commands" in done.err) is said


def test_two_settings_files_of_one_name_are_told_apart(run: Run, folder: Path, tmp_path: Path):
    files = [tmp_path / "one" / "s.json", tmp_path / "two" / "s.json"]
    for file in files:
        file.parent.mkdir()
        file.write_text("{}")
    done = run("benchmark", folder / "pi.jsonl", "--json", "--policy", files[0], "--policy", files[1])
    assert names(done.json)[:3] == ["none", "s.json", str(files[1])]


def test_the_verdict_is_on_the_users_settings(run: Run, folder: Path, home: Path):
    assert run("benchmark", folder, "--json").json["verdict"]["policy"] == "both"
    settings = home / ".pi" / "agent" / "extensions" / "dynamic-context-pruning.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"gate": {"mode": "off"}}')
    done = run("benchmark", folder, "--json")
    assert done.json["verdict"]["policy"] == "your settings"
    assert "your settings" in names(done.json)


@pytest.mark.parametrize(
    ("arguments", "ratios"),
    [([], [0.1]), (["--ratio", "0.5"], [0.5]), (["--ratio", "0.1,0.25", "--ratio", "0.9"], [0.1, 0.25, 0.9])],
)
def test_ratios(run: Run, folder: Path, arguments: list[str], ratios: list[float]):
    done = run("benchmark", folder, "--json", *arguments)
    assert [one["ratio"] for one in done.json["harness"]["recommended"]] == ratios


def test_the_sweep_ends_at_the_threshold_that_was_asked_for(run: Run, folder: Path):
    done = run("benchmark", folder, "--json", "--sweep-max", 12)
    assert done.json["harness"]["recommended"][0]["overall"]["tested"] == 12


def cost(document: Any) -> float:
    return document["all"]["policies"][0]["net"]["total"]


def test_prices_of_ones_own(run: Run, folder: Path, tmp_path: Path):
    path = folder / "claude-code.jsonl"
    usual = cost(run("benchmark", path, "--json").json)
    dear = cost(run("benchmark", path, "--json", "--read", 1, "--write", 1).json)
    assert dear > usual
    for name, text in {
        "p.json": '{"default": {"read": 1, "write": 1, "write_1h": 1}}',
        "p.toml": '[models."claude-*"]\nread = 1\nwrite = 1\nwrite_1h = 1\n',
    }.items():
        (tmp_path / name).write_text(text)
        assert cost(run("benchmark", path, "--json", "--prices", tmp_path / name).json) == dear
        again = run("benchmark", path, "--json", "--prices", tmp_path / name, "--read", 0.05)
        assert cost(again.json) < dear
    assert cost(run("benchmark", path, "--json", "--ttl", "0").json) > usual


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file or directory"),
        ("{", "p.json: "),
        ('{"default": {"reed": 1}}', "reed"),
        ('{"read": 1}', "p.json: prices: Object contains unknown field `read`; a file has `default`"),
        ('{"default": {"read": -1}}', "default.read"),
    ],
)
def test_a_price_file_that_is_wrong_is_said(
    run: Run, folder: Path, tmp_path: Path, text: str | None, said: str
):
    if text is not None:
        (tmp_path / "p.json").write_text(text)
    done = run("benchmark", folder, "--prices", tmp_path / "p.json")
    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_without_loss_no_recall_is_charged(run: Run, folder: Path):
    done = run("benchmark", folder, "--json", "--no-loss", "--policy", "oldest-first")
    assert all(one["recallCost"] == 0 for one in done.json["all"]["policies"])
    assert done.json["withLoss"] is False


@pytest.mark.parametrize(
    "arguments",
    [
        ["--ratio", "x"],
        ["--ratio", "1.5"],
        ["--ratio", "0.1,"],
        ["--ttl", "soon"],
        ["--limit", "0"],
        ["--sweep-max", "0"],
        ["--jobs", "0"],
        ["--format", "word"],
        ["--read", "-1"],
        ["--nothing"],
        ["--events", "--json"],
        ["--events", "--share"],
    ],
)
def test_wrong_usage_is_exit_code_2(run: Run, folder: Path, arguments: list[str]):
    done = run("benchmark", folder, *arguments)
    assert (done.code, done.out) == (2, "")
    assert "Usage: prunewise benchmark" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["--policy", "nothing"], "policy 'nothing' is neither known nor a settings file"),
        (["--since", "yesterday"], "'yesterday' is neither a date"),
        (["--dask", "nonsense://x"], "nonsense://x: no Dask cluster"),
    ],
)
def test_what_cannot_be_read_is_exit_code_1(run: Run, folder: Path, arguments: list[str], said: str):
    done = run("benchmark", *([folder] if arguments[0].startswith("-") else []), *arguments)
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert "fault of prunewise" not in done.err


def test_without_the_extra_one_line_says_how_to_get_it(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "numpy" else object())
    done = run("benchmark", folder)
    wanted = "prunewise: `benchmark` needs its extra: pip install 'prunewise[cli,replay]'\n"
    assert (done.code, done.out, done.err) == (1, "", wanted)


# ---------------------------------------------------------------- events


def test_events_are_a_line_each_and_the_same_whatever_the_policy(run: Run, folder: Path):
    (folder / "needs.jsonl").write_bytes(
        sessions.pi()
        + json.dumps(
            {
                "type": "message",
                "id": "ffff0000",
                "parentId": "00000023",
                "timestamp": "2026-03-02T10:00:00.000Z",
                "message": {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "it is compute_everything that does it"}],
                    "timestamp": 0,
                },
            }
        ).encode()
        + b"\n"
    )
    done = run("benchmark", folder, "--events")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    (event,) = [event for event in events if event["key"] == "compute_everything"]
    assert event["source"] == str(folder / "needs.jsonl")
    assert (event["kind"], event["message"]) == ("reference", "ffff0000")
    assert (event["session"], event["epoch"], event["call"]) == ("pi-0", 0, 14)
    assert done.err == f"warning: {folder}/bad.json: no session that any reader knows\n"
    assert run("benchmark", folder, "--events", "--policy", "langchain").out == done.out


# ---------------------------------------------------------------- long runs


def test_a_run_that_goes_on_says_so(run: Run, folder: Path, cache: Path):
    assert run("benchmark", folder, "--limit", 3).code == 0
    done = run("benchmark", folder, "--resume")
    assert "going on: 3 of 10 files are done already\n" in done.err
    assert len(list((cache / "prunewise" / "benchmark").iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_said_and_done_without(run: Run, folder: Path, cache: Path):
    cache.write_text("")
    done = run("benchmark", folder)
    assert done.code == 0
    assert "this run cannot be resumed" in done.err


def test_off_a_terminal_progress_is_a_line_now_and_then(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
    lines = [line for line in run("benchmark", folder).err.splitlines() if " of 10 files, " in line]
    assert len(lines) == 10
    assert re.fullmatch(
        r"10 of 10 files, \d+ of \d+ MB, \d+\.\d MB/s, [\d.,]+ sessions/s, 0:00 left", lines[-1]
    )


@pytest.mark.parametrize(
    ("size", "seconds", "left"), [(0, 1, ""), (50, 10, "0:10 left"), (1, 100, "2:45:00 left")]
)
def test_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch, size: int, seconds: int, left: str):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    pace = progress.Pace()
    pace.begin(10, 100, 1)
    now += seconds
    pace.step(size, 1, 0)
    assert pace.left() == left
    assert pace.line().endswith(left or "sessions/s")


def test_on_a_terminal_there_is_a_bar_that_goes_away(run_on_terminal: RunOnTerminal, folder: Path):
    done = run_on_terminal("benchmark", folder, "--jobs", "1")
    assert done.code == 0
    assert "All policies" in done.shown


@pytest.mark.skipif(sys.platform == "win32", reason="no signals on this system")
def test_ctrl_c_ends_it_and_the_journal_is_kept(tmp_path: Path, run: Run):
    folder = tmp_path / "many"
    folder.mkdir()
    for seed in range(60):
        (folder / f"{seed}.jsonl").write_bytes(sessions.pi(20, seed))
    process = subprocess.Popen(
        [sys.executable, "-m", "prunewise", "benchmark", str(folder), "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "prunewise" / "benchmark"
    end = time.monotonic() + 60
    while not any(path.read_bytes().count(b"\n") > 5 for path in cache.glob("*")):
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == b""
    assert re.search(rb"interrupted after \d+ files: --resume goes on from here\n", err)
    assert b"Traceback" not in err
    done = run("benchmark", folder, "--resume", "--json")
    assert re.match(r"going on: \d+ of 60 files", done.err)
    assert done.json["all"]["sessions"] == 60


def test_a_reader_that_leaves_early_is_no_fault(run_process: RunProcess, folder: Path):
    read, write = os.pipe()
    os.close(read)
    done = run_process(
        "benchmark", folder, "--events", stdout=write, stderr=subprocess.PIPE, capture_output=False
    )
    os.close(write)
    assert done.returncode in (0, 141)
    assert b"Traceback" not in done.stderr


@pytest.mark.e2e
def test_a_cluster_of_dask_gives_the_same(run: Run, run_process: RunProcess, folder: Path):
    pytest.importorskip("distributed")
    done = run_process("benchmark", folder, "--json", "--dask", "local", "--jobs", 2)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == run("benchmark", folder, "--json").json


def test_help_has_a_sentence_and_an_example(run: Run):
    done = run("benchmark", "--help")
    assert done.code == 0
    assert "Replay recorded sessions, and show what pruning would have saved" in done.out
    assert done.out.rstrip().splitlines()[-1].startswith("  Example: prunewise benchmark ")
    assert corpus.SUFFIXES == (".jsonl", ".json", ".traj", ".db")
