"""`prunewise prune`: the list, pruning and restoring, what is refused, and what becomes of the file."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.cli.support import Run, RunOnTerminal, Sample

from prunewise.cli import console, picker
from prunewise.cli.desk import Desk
from prunewise.cli.picking import numbers, short_ids
from prunewise.stores.pi_session import PiSession

PLAIN = {"TERM": "dumb"}
"""A terminal on which nothing but lines can be shown: it gets the list, and the question."""
IMAGE = {"type": "image", "data": "A" * 4000, "mimeType": "image/png"}


@pytest.fixture
def various(sample: Sample):
    """One exchange of each sort."""
    sample.user("begin")
    sample.read("call_read")
    sample.call(
        "call_failed", "bash", {"command": "make " + "all " * 200}, "no such target " * 40, failed=True
    )
    sample.call("call_todo", "todo", {"items": "x" * 500})
    sample.read("call_env", ".env")
    sample.call("call_small", "bash", {"command": "true"}, "ok")
    sample.user("end")
    sample.call("call_image", "read", {"path": "a.png"}, [IMAGE])
    return sample


def listed(run: Run, path: Path):
    return {(one["call"], one["kind"]): one for one in run("prune", path, "--json").json["exchanges"]}


def result(call: str):
    return (call, "tool_result_content")


def of_input(call: str):
    return (call, "tool_call_input")


# ---------------------------------------------------------------- the list


def test_the_list_has_every_part_that_can_be_pruned_newest_last(run: Run, various: Sample):
    before = various.path.read_bytes()
    assert list(listed(run, various.path)) == [
        result("call_read"),
        of_input("call_failed"),
        result("call_failed"),
        result("call_image"),
    ]
    assert various.path.read_bytes() == before


def test_a_row_says_how_large_and_how_old_a_part_is(run: Run, various: Sample):
    one = listed(run, various.path)[result("call_read")]
    assert (one["tool"], one["arguments"]) == ("read", {"path": "a.py"})
    assert (one["tokens"], one["age"], one["status"], one["source"]) == (660, 1, "active", None)
    row = next(line for line in run("prune", various.path).out.splitlines() if "a.py" in line)
    assert row.split() == ["call_read", "read", "a.py", "660", "1", "active"]


def test_what_is_left_out_is_counted_with_the_reason(run: Run, various: Sample):
    document = run("prune", various.path, "--json").json
    assert document["leftOut"] == [
        "1: tool todo is protected",
        "1: path is protected by **/.env",
        "1: a marker would not be smaller than what it replaces",
    ]
    shown = run("prune", various.path).out
    assert all(line in shown for line in document["leftOut"])


def test_the_list_says_who_has_decided(run: Run, various: Sample):
    run("prune", various.path, "--prune", "call_read")
    run("prune", various.path, "--prune", "call_failed", "--input")
    run("prune", various.path, "--restore", "call_failed")
    parts = listed(run, various.path)
    read = parts[result("call_read")]
    assert (read["status"], read["source"], read["strategy"]) == ("pruned", "manual", "manual")
    assert parts[of_input("call_failed")]["status"] == "restored"
    assert parts[result("call_failed")]["status"] == "active"
    shown = run("prune", various.path).out
    assert "660    1  pruned    manual" in shown
    assert "4 listed, 1 of them pruned" in shown


def test_lines_of_the_list_fit_80_columns(run: Run, various: Sample):
    lines = run("prune", various.path).out.splitlines()
    assert max(len(line) for line in lines[1:] if "prunewise prune" not in line) <= 80


def test_numbers_that_json_has_not_are_null_in_the_list(run: Run, sample: Sample):
    sample.user()
    sample.call("call_odd", "bash", {"command": "x", "timeout": float("inf"), "more": [float("nan")]})
    (part,) = run("prune", sample.path, "--json").json["exchanges"]
    assert part["arguments"] == {"command": "x", "timeout": None, "more": [None]}


def test_an_empty_session_has_an_empty_list(run: Run, sample: Sample):
    sample.user()
    done = run("prune", sample.path)
    assert done.code == 0
    assert "0 listed" in done.out


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        (["call_1", "call_10"], ["call_1", "call_10"]),
        (["toolu_01aaaaaaaa", "toolu_01bbbbbbbb"], ["toolu_01aa", "toolu_01bb"]),
        (["toolu_01aaaaaaaaX", "toolu_01aaaaaaaaY"], ["toolu_01aaaaaaaaX", "toolu_01aaaaaaaaY"]),
        ([], []),
    ],
)
def test_ids_are_shortened_as_far_as_they_stay_clear(ids: list[str], short: list[str]):
    assert [short_ids(ids)[one] for one in ids] == short


# ---------------------------------------------------------------- pruning and restoring by id


def test_pruning_adds_a_decision_and_its_saving_and_nothing_else(run: Run, various: Sample):
    before = various.path.read_bytes()
    done = run("prune", various.path, "--prune", "call_read")
    after = various.path.read_bytes()
    assert done.code == 0
    assert after.startswith(before)
    entries = [json.loads(line) for line in after[len(before) :].splitlines()]
    assert [one["customType"].partition(":")[2] for one in entries] == ["decision", "stats"]
    decision = entries[0]["data"]
    assert decision["idempotencyKey"] == "manual:tool_result_content:call_read"
    assert (decision["strategyId"], decision["source"]) == ("manual", "manual")
    assert decision["placeholder"].startswith("[prunewise: read output")


def test_the_effect_is_measured_in_the_file_and_told(run: Run, various: Sample):
    done = run("prune", various.path, "--prune", "call_read", "--prune", "call_image")
    saved = sum(
        listed(run, various.path)[result(call)]["tokensRemoved"] for call in ("call_read", "call_image")
    )
    assert f"Added 4 entries to the session. The next request is {saved:,} tokens smaller." in done.out
    back = run("prune", various.path, "--restore", "call_image")
    assert "Added 1 entry to the session." in back.out
    assert "tokens larger." in back.out


def test_the_cost_is_told_before(run: Run, various: Sample):
    text = " ".join(run("prune", various.path, "--prune", "call_read").out.split())
    assert "1 prune would take 635 tokens out of each request, from message 2 on." in text
    assert "Break-even after" in text
    assert "threshold 22: it" in text


def test_a_long_id_is_shortened_in_what_people_read_and_whole_in_json(run: Run, sample: Sample):
    long = "call_" + "x" * 400
    sample.user("begin")
    sample.read(long)
    done = run("prune", sample.path, "--prune", long)
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 110
    assert run("prune", sample.path, "--restore", long, "--json").json["restored"][0]["call"] == long


def test_pruning_and_restoring_may_be_said_in_any_order_and_the_last_holds(run: Run, various: Sample):
    for _ in range(2):
        run("prune", various.path, "--prune", "call_read")
        assert listed(run, various.path)[result("call_read")]["status"] == "pruned"
        run("prune", various.path, "--restore", "call_read")
        assert listed(run, various.path)[result("call_read")]["status"] == "restored"


def test_one_run_may_do_both(run: Run, various: Sample):
    run("prune", various.path, "--prune", "call_read")
    done = run("prune", various.path, "--restore", "call_read", "--prune", "call_failed", "--json")
    assert done.json["pruned"] == [{"call": "call_failed", "kind": "tool_result_content"}]
    assert done.json["restored"] == [{"call": "call_read", "kind": "tool_result_content"}]
    assert done.json["entriesAdded"] == 3
    assert done.json["verdict"]["tokensRemoved"] > 0


def test_restoring_a_call_undoes_all_that_stands_for_it(run: Run, various: Sample):
    run("prune", various.path, "--prune", "call_failed")
    run("prune", various.path, "--prune", "call_failed", "--input")
    run("prune", various.path, "--restore", "call_failed", "--input")
    parts = listed(run, various.path)
    assert parts[of_input("call_failed")]["status"] == "restored"
    assert parts[result("call_failed")]["status"] == "pruned"
    run("prune", various.path, "--prune", "call_failed", "--input")
    assert len(run("prune", various.path, "--restore", "call_failed", "--json").json["restored"]) == 2


def test_what_a_strategy_pruned_can_be_restored_and_is_not_proposed_again(run: Run, duplicates: Sample):
    session = PiSession.open(duplicates.path)
    from prunewise.pruner import Pruner

    ids, messages = zip(*[(one.id, one.message) for one in session.context()], strict=True)
    assert Pruner("pi", store=session).project(list(messages), ids=ids).decisions
    assert listed(run, duplicates.path)[result("call_first")]["strategy"] == "dedupe"
    run("prune", duplicates.path, "--restore", "call_first")
    assert run("plan", duplicates.path, "--json").json["proposals"] == []


def test_a_call_that_is_not_sent_any_more_can_be_restored(run: Run, various: Sample):
    run("prune", various.path, "--prune", "call_read")
    leaf = PiSession.open(various.path).leaf
    various.entry(
        "compaction", summary="it began", firstKeptEntryId="00000008", tokensBefore=9000, parentId=leaf
    )
    assert "1 more decision stands, for what is not sent any more." in run("prune", various.path).out
    assert run("prune", various.path, "--prune", "call_read").code == 1
    done = run("prune", various.path, "--restore", "call_read")
    assert done.code == 0
    assert "The next request is 0 tokens smaller." in done.out
    assert "more decision" not in run("prune", various.path).out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--prune", "call_todo"], "tool todo is protected"),
        (["--prune", "call_env"], "path is protected by **/.env"),
        (["--prune", "call_small"], "a marker would not be smaller"),
        (["--prune", "nothing"], "no completed call with this id"),
        (["--prune", ""], "no completed call with this id"),
        (["--restore", "nothing"], "no completed call with this id"),
        (["--prune", "call_"], "6 call ids begin so: call_env, call_failed, call_image, ..."),
        (["--prune", "call_read", "--input"], "did not fail"),
        (["--prune", "call_read", "--prune", "call_todo"], "protected"),
    ],
)
def test_what_cannot_be_pruned_is_refused_and_nothing_is_written(
    run: Run, various: Sample, options: list[str], words: str
):
    before = various.path.read_bytes()
    done = run("prune", various.path, *options)
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert various.path.read_bytes() == before


def test_asking_for_both_at_once_is_refused(run: Run, various: Sample):
    run("prune", various.path, "--prune", "call_read")
    before = various.path.read_bytes()
    assert run("prune", various.path, "--prune", "call_read", "--restore", "call_read").code == 1
    assert various.path.read_bytes() == before


@pytest.mark.parametrize("option", ["--prune", "--restore"])
def test_what_is_so_already_is_told_and_nothing_is_written(run: Run, various: Sample, option: str):
    run("prune", various.path, "--prune", "call_read")
    if option == "--restore":
        run("prune", various.path, "--restore", "call_read")
    before = various.path.read_bytes()
    done = run("prune", various.path, option, "call_read")
    assert done.code == 0
    assert done.out.splitlines() == [
        "call_read: is pruned already, by hand" if option == "--prune" else "call_read: is not pruned",
        "Nothing was added.",
    ]
    assert various.path.read_bytes() == before
    document = run("prune", various.path, option, "call_read", "--json").json
    assert (document["entriesAdded"], document["tokensSaved"]) == (0, 0)


def test_the_beginning_of_an_id_is_enough(run: Run, various: Sample):
    assert run("prune", various.path, "--prune", "call_r").code == 0
    assert listed(run, various.path)[result("call_read")]["status"] == "pruned"


def test_input_needs_an_id(run: Run, various: Sample):
    assert run("prune", various.path, "--input").code == 2


def test_a_prune_while_pruning_is_off_says_that_it_has_no_effect(run: Run, various: Sample, tmp_path: Path):
    settings = tmp_path / "settings.json"
    settings.write_text('{"enabled": false}')
    done = run("prune", various.path, "--prune", "call_read", "--settings", settings)
    assert done.code == 0
    assert "Pruning is off in the settings" in done.out


# ---------------------------------------------------------------- other processes


@pytest.fixture
def holder(various: Sample):
    process = subprocess.Popen(
        [sys.executable, "-c", f"f = open({str(various.path)!r}); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdout.readline()
    yield process
    process.communicate(b"\n")


def test_a_file_that_another_process_has_open_is_left_alone(
    run: Run, various: Sample, holder: subprocess.Popen[bytes]
):
    before = various.path.read_bytes()
    done = run("prune", various.path, "--prune", "call_read")
    assert done.code == 1
    assert f"pid {holder.pid}" in done.err
    assert "--force" in done.err
    assert various.path.read_bytes() == before
    assert run("prune", various.path).code == 0
    assert run("prune", various.path, "--prune", "call_read", "--force").code == 0
    assert various.path.read_bytes() != before


def test_processes_that_prune_at_once_lose_nothing(run: Run, sample: Sample):
    sample.user()
    calls = [f"call_{letter}" for letter in "abcdef"]
    for call in calls:
        sample.read(call, f"{call}.py")
    sample.user()
    before = sample.path.read_bytes()
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "prunewise", "prune", str(sample.path), "--prune", call, "--force"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for call in calls
    ]
    outcomes = [(one.communicate(timeout=60), one.returncode) for one in running]
    assert [code for _, code in outcomes] == [0] * len(calls), outcomes
    assert sample.path.read_bytes().startswith(before)
    assert {one["status"] for one in listed(run, sample.path).values()} == {"pruned"}
    assert PiSession.open(sample.path).warnings == []


def test_a_prune_that_is_killed_while_it_writes_leaves_a_file_that_goes_on(run: Run, various: Sample):
    before = various.path.read_bytes()
    killed_half_way = textwrap.dedent(
        """
        import os, signal, sys
        from prunewise.cli import main
        write = os.write
        def half(file, data):
            if b"customType" not in bytes(data):
                return write(file, data)
            write(file, bytes(data)[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        os.write = half
        main(sys.argv[1:])
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", killed_half_way, "prune", various.path, "--prune", "call_read"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -9
    torn = various.path.read_bytes()
    assert torn.startswith(before)
    assert len(torn) > len(before)
    assert not torn.endswith(b"\n")
    assert run("plan", various.path).code == 0
    assert run("prune", various.path, "--prune", "call_failed").code == 0
    after = various.path.read_bytes()
    assert after.startswith(torn + b"\n")
    assert listed(run, various.path)[result("call_failed")]["status"] == "pruned"
    assert run("prune", various.path, "--prune", "call_read").code == 0
    assert listed(run, various.path)[result("call_read")]["status"] == "pruned"


def test_a_file_that_cannot_be_written_says_so(run: Run, various: Sample):
    various.path.chmod(0o444)
    if os.access(various.path, os.W_OK):
        pytest.skip("this user may write everywhere")
    done = run("prune", various.path, "--prune", "call_read")
    assert done.code == 1
    assert "cannot be written" in done.err


# ---------------------------------------------------------------- on a terminal


def test_on_a_terminal_numbers_are_asked_for_and_the_cost_is_told(
    run: Run, run_on_terminal: RunOnTerminal, various: Sample
):
    done = run_on_terminal("prune", various.path, answers=[b"1\n", b"y\n"], env=PLAIN)
    assert done.code == 0
    assert "would take 635 tokens" in done.shown
    assert "Added 2 entries" in done.shown
    assert listed(run, various.path)[result("call_read")]["status"] == "pruned"
    done = run_on_terminal("prune", various.path, answers=[b"1 3\n", b"y\n"], env=PLAIN)
    assert "Added 3 entries" in done.shown
    parts = listed(run, various.path)
    assert parts[result("call_read")]["status"] == "restored"
    assert parts[result("call_failed")]["status"] == "pruned"


@pytest.mark.parametrize(
    "answers",
    [
        [b"\n"],
        [b"\x04"],
        [b"1\n", b"n\n"],
        [b"1\n", b"\n"],
        [b"1\n", b"\x04"],
        [b"9\n", b"\n"],
        [b"x\n", b"\n"],
    ],
)
def test_without_a_yes_nothing_is_written(
    run_on_terminal: RunOnTerminal, various: Sample, answers: list[bytes]
):
    before = various.path.read_bytes()
    done = run_on_terminal("prune", various.path, answers=answers, env=PLAIN)
    assert done.code == 0
    assert "Nothing was changed." in done.shown
    assert various.path.read_bytes() == before


def test_an_id_is_confirmed_on_a_terminal_unless_yes_is_given(
    run_on_terminal: RunOnTerminal, various: Sample
):
    before = various.path.read_bytes()
    done = run_on_terminal("prune", various.path, "--prune", "call_read", answers=[b"n\n"])
    assert (done.code, various.path.read_bytes()) == (0, before)
    assert "Do it? [y/N]" in done.shown
    done = run_on_terminal("prune", various.path, "--prune", "call_read", "--yes")
    assert "Do it?" not in done.shown
    assert various.path.read_bytes() != before


@pytest.mark.parametrize(("installed", "hints"), [(True, 0), (False, 1)])
def test_the_question_names_the_extra_where_it_is_missing(
    various: Sample,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    installed: bool,
    hints: int,
):
    monkeypatch.setattr(console, "is_interactive", lambda: True)
    monkeypatch.setattr(console, "ask", lambda _: None)
    monkeypatch.setattr(picker, "is_installed", lambda: installed)
    monkeypatch.setenv("TERM", "dumb" if installed else "xterm")
    done = run("prune", various.path)
    assert (done.code, done.out.count(picker.HINT)) == (0, hints)
    assert "Nothing was changed." in done.out


@pytest.mark.parametrize(
    ("term", "interactive", "errors", "has"),
    [
        ("xterm", True, True, True),
        ("dumb", True, True, False),
        (None, True, True, False),
        ("xterm", False, True, False),
        ("xterm", True, False, False),
    ],
)
def test_the_picker_needs_a_terminal_that_can_move_its_cursor(
    monkeypatch: pytest.MonkeyPatch, term: str | None, interactive: bool, errors: bool, has: bool
):
    monkeypatch.setattr(console, "is_interactive", lambda: interactive)
    monkeypatch.setattr(console, "has_errors_on_terminal", lambda: errors)
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    assert picker.has_screen() == has


@pytest.mark.parametrize("options", [[], ["--force", "--yes"]])
def test_on_a_terminal_the_picker_opens(
    various: Sample, monkeypatch: pytest.MonkeyPatch, run: Run, options: list[str]
):
    asked: list[dict[str, bool]] = []

    def pick(desk: Desk, **how: bool) -> None:
        assert desk.conversation.path == various.path
        asked.append(how)

    monkeypatch.setattr(picker, "has_screen", lambda: True)
    monkeypatch.setattr(picker, "is_installed", lambda: True)
    monkeypatch.setattr(picker, "pick", pick)
    assert run("prune", various.path, *options) == (0, "", "")
    assert asked == [{"force": bool(options), "ask": not options}]


def test_ctrl_c_at_the_question_ends_it(run_on_terminal: RunOnTerminal, various: Sample):
    before = various.path.read_bytes()
    done = run_on_terminal("prune", various.path, answers=[b"\x03"], env=PLAIN)
    assert done.code == 130
    assert "Traceback" not in done.shown
    assert various.path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "picked"),
    [("3", [3]), ("1 3", [1, 3]), ("2-4", [2, 3, 4]), ("4,1,2-3,2", [1, 2, 3, 4]), ("", [])],
)
def test_numbers_may_be_listed_and_in_ranges(text: str, picked: list[int]):
    assert numbers(text, 5) == picked


@pytest.mark.parametrize("text", ["0", "6", "4-2", "1-6", "-1", "x", "1.5", "1--2", "٣x"])
def test_anything_else_is_no_number(text: str):
    with pytest.raises(ValueError, match="no number from 1 to 5"):
        numbers(text, 5)


# ---------------------------------------------------------------- recorded sessions


@pytest.mark.corpus
def test_every_part_listed_of_a_recorded_session_can_be_pruned(run: Run, shared: Path, tmp_path: Path):
    for path in sorted((shared / "corpus" / "pi").iterdir()):
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes())
        parts = listed(run, copy)
        options = [word for call, kind in parts if kind == result("")[1] for word in ("--prune", call)]
        if not options:
            continue
        before = sum(one["tokensRemoved"] for (_, kind), one in parts.items() if kind == result("")[1])
        done = run("prune", Path(copy), *options, "--force", "--json")
        assert done.code == 0, done.err
        assert done.json["tokensSaved"] == before
        assert copy.read_bytes().startswith(path.read_bytes())
