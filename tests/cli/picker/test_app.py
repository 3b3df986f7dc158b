"""The picker, driven by Textual's pilot: what keys and clicks do, and what is in the file then."""

import asyncio
import gc
import os
import signal
import threading
from pathlib import Path

import click
import pytest
from tests.cli.picker.support import Driven, desk_of, drive, ledger_of
from tests.cli.support import TEXT, Sample
from textual.pilot import Pilot
from textual.widgets import Input

from prunewise.cli import picker as the_picker
from prunewise.cli.change import Change
from prunewise.cli.desk import Desk
from prunewise.cli.picker.app import PickerApp, _theme
from prunewise.cli.picker.dialogs import Confirm, Help
from prunewise.cli.picker.screen import PickerScreen
from prunewise.cli.picker.sitting import Sitting
from prunewise.stores.pi_session import PiSession

NEWEST_FIRST = ["call_second", "call_other", "call_wrong", "call_wrong", "call_make", "call_first"]
MANUAL = "manual:tool_result_content"


# ---------------------------------------------------------------- looking


def test_every_part_is_listed_the_newest_first(session: Sample):
    async def steps(picker: Driven) -> None:
        assert picker.calls == NEWEST_FIRST
        assert picker.here == "call_second"
        screen = picker.screen
        assert "6 listed, 0 pruned: 0 tokens out of each request" in screen
        assert any(line.split() == ["read", "a.py", "660", "0", "active"] for line in screen.splitlines())

    assert drive(session.path, steps) == []


def test_of_what_is_too_long_both_ends_are_shown(session: Sample):
    async def steps(picker: Driven) -> None:
        line = next(line for line in picker.screen.splitlines() if "input of:" in line)
        assert "…" in line
        assert "..." not in line

    drive(session.path, steps)


def test_an_old_read_shows_the_strategy_that_proposes_it(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("end")
        assert picker.here == "call_first"
        assert "dedupe" in picker.screen

    drive(session.path, steps)


def test_quitting_without_a_change_writes_nothing(session: Sample):
    before = session.path.read_bytes()

    async def steps(picker: Driven) -> None:
        await picker.press("space", "p", "escape", "q")

    assert drive(session.path, steps) == []
    assert session.path.read_bytes() == before


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_quitting_ends_it(session: Sample, key: str):
    async def steps(picker: Driven) -> None:
        await picker.press(key)
        assert not picker.app.is_running

    drive(session.path, steps)


def test_quitting_waits_for_what_is_being_written(session: Sample, monkeypatch: pytest.MonkeyPatch):
    asked = threading.Event()
    carry_out = Sitting.carry_out

    def slow(sitting: Sitting, change: Change) -> Desk:
        assert asked.wait(30)
        return carry_out(sitting, change)

    monkeypatch.setattr(Sitting, "carry_out", slow)

    async def steps(picker: Driven) -> None:
        await picker.pilot.press("p", "y", "q")
        assert picker.app.is_running
        asked.set()
        async with asyncio.timeout(30):
            while picker.app.is_running:
                await asyncio.sleep(0.01)

    assert len(drive(session.path, steps)) == 1
    assert ledger_of(session.path) == [("prune", f"{MANUAL}:call_second")]


def test_ctrl_c_quits_while_a_filter_is_typed_and_in_a_dialog(session: Sample):
    for keys in (["slash", "x", "ctrl+c"], ["p", "ctrl+c"], ["question_mark", "ctrl+c"]):

        async def steps(picker: Driven, keys: list[str] = keys) -> None:
            await picker.press(*keys)
            assert not picker.app.is_running

        drive(session.path, steps)


def test_at_80_columns_the_output_takes_the_place_of_the_list(session: Sample):
    async def steps(picker: Driven) -> None:
        assert (picker.exchanges.display, picker.look.display) == (True, False)
        await picker.press("tab")
        assert (picker.exchanges.display, picker.look.display) == (False, True)
        screen = picker.screen
        assert TEXT.strip() in screen
        assert "[prunewise: read output (2,640 characters) left out" in screen
        assert "break-even" in screen
        await picker.press("tab")
        assert (picker.exchanges.display, picker.look.display) == (True, False)
        assert picker.exchanges.has_focus

    drive(session.path, steps)


def test_at_160_columns_list_and_output_stand_side_by_side_and_go_together(session: Sample):
    async def steps(picker: Driven) -> None:
        assert (picker.exchanges.display, picker.look.display) == (True, True)
        assert "output, 2,640 characters" in picker.screen
        await picker.press("down")
        assert "output, 660 characters" in picker.screen

    drive(session.path, steps, size=(160, 50))


def test_a_terminal_that_gets_wider_shows_the_output(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("down")
        await picker.pilot.resize_terminal(160, 50)
        await picker.settle()
        assert "output, 660 characters" in picker.screen

    drive(session.path, steps)


def test_the_input_of_a_failed_call_is_looked_at_as_such(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("down", "down", "down", "enter")
        assert picker.exchanges.current.part.kind == "tool_call_input"
        assert 'input of bash {"command":"make all' in picker.screen

    drive(session.path, steps)


@pytest.mark.parametrize(("lines", "presses"), [(5000, 1), (35_000, 4)])
def test_an_output_scrolls_to_its_end(sample: Sample, lines: int, presses: int):
    sample.user("begin")
    sample.read("call_long", output="".join(f"line {number}\n" for number in range(lines)))
    last = f"line {lines - 1}"

    async def steps(picker: Driven) -> None:
        await picker.press("tab", "pagedown")
        assert last not in picker.screen
        await picker.press(*["end"] * presses)
        assert last in picker.screen
        await picker.press("home")
        assert "output, " in picker.screen

    drive(sample.path, steps)


def test_nothing_is_said_of_llm_calls_before_they_were_counted(
    session: Sample, monkeypatch: pytest.MonkeyPatch
):
    async def steps(picker: Driven) -> None:
        assert "LLM call" not in picker.screen.replace("age is in LLM calls", "")

    monkeypatch.setattr(PickerScreen, "_show_timeline", lambda _: None)
    drive(session.path, steps)


# ---------------------------------------------------------------- filter, sort, group


def test_a_filter_narrows_the_list_with_each_key(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("slash", "r", "e", "a")
        assert picker.calls == ["call_second", "call_other", "call_first"]
        await picker.press("d", "space", "b")
        assert picker.calls == ["call_other"]
        await picker.press("enter")
        assert picker.exchanges.has_focus
        await picker.press("escape")
        assert picker.calls == NEWEST_FIRST

    drive(session.path, steps)


@pytest.mark.parametrize("ending", ["enter", "down", "escape", "tab"])
def test_no_key_is_lost_where_many_come_at_once(session: Sample, ending: str):
    async def steps(picker: Driven) -> None:
        await picker.press_at_once("slash", *"read", ending, "tab", "tab", *"sgg", "space")
        assert picker.first.query_one("#filter", Input).value == "read"
        assert picker.exchanges.order == "tokens"
        assert picker.calls[0] == "a.py"
        assert picker.exchanges.selected

    drive(session.path, steps)


def test_a_path_can_be_filtered_for(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("slash", "l", "i", "b", "slash", "b")
        assert picker.calls == ["call_other"]

    drive(session.path, steps)


def test_a_filter_that_nothing_matches_leaves_an_empty_list(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("slash", "#", "#", "enter", "down", "space", "enter")
        assert picker.calls == []
        await picker.press("p", "r")
        assert picker.said == ["there is nothing to prune", "there is nothing to restore"]

    drive(session.path, steps)


def test_the_cursor_stays_on_its_row_where_that_is_still_listed(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("down", "slash", "r", "e", "a", "d")
        assert picker.here == "call_other"

    drive(session.path, steps)


def test_keys_sort_by_the_next_column_and_turn_the_order(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("s")
        assert picker.exchanges.order == "tokens"
        assert picker.calls[0] == "call_make"
        assert "sorted by tokens" in picker.chosen
        await picker.press("S")
        assert picker.calls[-1] == "call_make"
        assert "tokens▲" in picker.screen

    drive(session.path, steps)


def test_a_click_on_a_head_sorts_and_a_second_one_turns(session: Sample):
    async def steps(picker: Driven) -> None:
        at = picker.screen.splitlines()[2].index("tokens")
        await picker.pilot.click("#list", offset=(at, 0))
        assert (picker.exchanges.order, picker.exchanges.turned) == ("tokens", False)
        await picker.pilot.click("#list", offset=(at, 0))
        assert (picker.exchanges.order, picker.exchanges.turned) == ("tokens", True)

    drive(session.path, steps)


def test_groups_by_tool_and_by_path_fold_and_are_selected_as_one(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("g", "home")
        assert picker.calls[0] == "bash"
        assert "▾ bash  3 listed, " in picker.screen
        await picker.press("enter")
        assert picker.calls == ["bash", "read", "call_second", "call_other", "call_first"]
        await picker.press("home", "space")
        assert {call for call, _ in picker.exchanges.selected} == {"call_make", "call_wrong"}
        assert "3 selected" in picker.chosen
        await picker.press("g")
        assert [name for name in picker.calls if not name.startswith("call")] == [
            "no path",
            "a.py",
            "lib/b.py",
        ]
        await picker.press("g")
        assert picker.calls == NEWEST_FIRST

    drive(session.path, steps)


def test_a_group_is_looked_at_as_a_batch_with_its_price(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("g", "g", "home", "end", "up")
        assert picker.here == "lib/b.py"
        assert "all of lib/b.py" in picker.screen
        assert "takes 141 tokens out of each request" in picker.screen
        assert "output, " not in picker.screen
        await picker.press("p", "y")
        assert picker.statuses["call_other"] == "pruned"
        assert "all of it is pruned already" in picker.screen

    drive(session.path, steps, size=(160, 50))


# ---------------------------------------------------------------- the mouse


def test_the_mouse_moves_selects_and_looks(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.pilot.click("#list", offset=(20, 2))
        assert picker.here == "call_other"
        await picker.pilot.click("#list", offset=(0, 5))
        assert {call for call, _ in picker.exchanges.selected} == {"call_make"}
        await picker.pilot.click("#list", offset=(20, 15))  # below the last row
        assert picker.here == "call_make"
        await picker.pilot.double_click("#list", offset=(20, 1))
        await picker.settle()
        assert picker.here == "call_second"
        assert picker.look.display

    drive(session.path, steps)


def test_a_click_on_a_key_in_the_last_line_presses_it(session: Sample):
    async def click(picker: Driven, name: str) -> None:
        last = picker.screen.splitlines()[-1]
        await picker.pilot.click("#keys", offset=(last.index(name), 0))
        await picker.settle()

    async def steps(picker: Driven) -> None:
        await click(picker, "Prune")
        assert isinstance(picker.app.screen, Confirm)
        await picker.press("n")
        await click(picker, "Look")
        assert picker.look.display
        await click(picker, "Filter")
        assert picker.screen.splitlines()[-1] == "Enter goes to what the filter leaves"
        await picker.press("enter")
        await click(picker, "Quit")
        assert not picker.app.is_running

    drive(session.path, steps)


# ---------------------------------------------------------------- pruning, restoring, undoing


def test_a_prune_is_priced_asked_for_and_written(session: Sample):
    before = session.path.read_bytes()

    async def steps(picker: Driven) -> None:
        await picker.press("p")
        assert isinstance(picker.app.screen, Confirm)
        said = picker.screen
        assert "1 prune would take 635 tokens" in said
        assert "Prune read a.py (call_second, 660 tokens)" in said
        assert "The cache is " in said
        assert session.path.read_bytes() == before
        await picker.press("y")
        assert picker.statuses["call_second"] == "pruned"
        assert "6 listed, 1 pruned: 635 tokens out of each request" in picker.screen
        assert picker.said == ["Added 2 entries to the session. The next request is 635 tokens smaller."]

    outcomes = drive(session.path, steps)
    assert outcomes == ["Added 2 entries to the session. The next request is 635 tokens smaller."]
    assert session.path.read_bytes().startswith(before)
    assert ledger_of(session.path) == [("prune", f"{MANUAL}:call_second")]


def test_many_are_priced_and_pruned_together_in_one_batch(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("space", "space")
        assert "2 selected, 825 tokens; pruned together: break-even " in picker.chosen
        await picker.press("p")
        assert "2 prunes would take 776 tokens" in picker.screen
        await picker.press("enter")
        assert picker.exchanges.selected == set()

    assert len(drive(session.path, steps)) == 1
    assert ledger_of(session.path) == [
        ("prune", f"{MANUAL}:call_other"),
        ("prune", f"{MANUAL}:call_second"),
    ]


def test_all_that_a_filter_leaves_is_selected(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("slash", "r", "e", "a", "d", "enter", "a")
        assert {call for call, _ in picker.exchanges.selected} == {"call_first", "call_second", "call_other"}
        await picker.press("a")
        assert picker.exchanges.selected == set()
        await picker.press("a", "escape")
        assert picker.exchanges.selected == set()

    drive(session.path, steps)


def test_a_restore_says_what_it_puts_back(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("p", "y", "r")
        assert "Restoring puts 635 tokens back" in picker.screen
        await picker.press("y")
        assert picker.statuses["call_second"] == "restored"

    drive(session.path, steps)
    assert ledger_of(session.path) == [
        ("prune", f"{MANUAL}:call_second"),
        ("restore", f"{MANUAL}:call_second"),
    ]


def test_undo_goes_back_batch_by_batch(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("p", "y")  # prune the second read
        await picker.press("r", "y")  # and restore it
        await picker.press("u")
        assert "Undo the last batch" in picker.screen
        await picker.press("y")
        assert picker.statuses["call_second"] == "pruned"
        await picker.press("u", "y")
        assert picker.statuses["call_second"] == "restored"
        await picker.press("u")
        assert picker.said[-1] == "nothing was done yet that could be undone"

    assert len(drive(session.path, steps)) == 4
    assert [what for what, _ in ledger_of(session.path)] == ["prune", "restore", "prune", "restore"]


@pytest.mark.parametrize("key", ["n", "escape", "q"])
def test_without_a_yes_nothing_is_written(session: Sample, key: str):
    before = session.path.read_bytes()

    async def steps(picker: Driven) -> None:
        await picker.press("p", key)
        assert not isinstance(picker.app.screen, Confirm)
        await picker.press("p", "right", "enter")
        assert not isinstance(picker.app.screen, Confirm)

    assert drive(session.path, steps) == []
    assert session.path.read_bytes() == before


def test_with_yes_nothing_is_asked(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("p")
        assert picker.statuses["call_second"] == "pruned"

    drive(session.path, steps, ask=False)


def test_the_entries_are_those_of_the_command_line(session: Sample, tmp_path: Path):
    by_hand = tmp_path / "project" / "copy.jsonl"
    by_hand.write_bytes(session.path.read_bytes())
    desk = desk_of(by_hand)
    Change(desk, desk.picker.choose(["call_second"], [], None)).carry_out(force=False)

    async def steps(picker: Driven) -> None:
        await picker.press("p", "y")

    drive(session.path, steps)

    def told(path: Path) -> list[dict[str, object]]:
        return [
            {**entry.raw["data"], "createdAt": "", "appliedAt": ""}
            for entry in PiSession.open(path).entries
            if entry.type == "custom"
        ]

    assert told(session.path) == told(by_hand)


# ---------------------------------------------------------------- what is refused, what others do


def test_what_is_pruned_already_is_not_pruned_again(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("p", "y", "p")
        assert picker.said[-1] == "there is nothing to prune: it is pruned already"
        await picker.press("down", "r")
        assert picker.said[-1] == "there is nothing to restore: it is not pruned"

    drive(session.path, steps)


def test_another_process_with_the_file_open_is_a_refusal(session: Sample, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PiSession, "open_elsewhere", lambda _: [4711])
    monkeypatch.setattr("prunewise.cli.change._SECONDS_BETWEEN_LOOKS", 0)
    before = session.path.read_bytes()

    async def refused(picker: Driven) -> None:
        await picker.press("p", "y")
        assert "another process has it open (pid 4711)" in picker.said[-1]
        assert picker.statuses["call_second"] == "active"

    assert drive(session.path, refused) == []
    assert session.path.read_bytes() == before

    async def forced(picker: Driven) -> None:
        await picker.press("p", "y")
        assert picker.statuses["call_second"] == "pruned"

    assert len(drive(session.path, forced, force=True)) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="this user may write everywhere")
def test_a_file_that_cannot_be_written_is_one_line(session: Sample):
    session.path.chmod(0o400)

    async def steps(picker: Driven) -> None:
        await picker.press("p", "y")
        assert "cannot be written" in picker.said[-1]

    assert drive(session.path, steps) == []


def test_a_session_that_goes_on_is_read_again(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("down", "space")
        session.read("call_third", "c.py")
        picker.first._look_at_file()
        await picker.settle()
        assert picker.calls[0] == "call_third"
        assert picker.said == ["the session has changed, and was read again"]
        assert {call for call, _ in picker.exchanges.selected} == {"call_other"}

    drive(session.path, steps)


def test_a_session_that_goes_on_and_on_is_said_once_in_a_while(session: Sample):
    async def steps(picker: Driven) -> None:
        for number in range(3):
            session.read(f"call_more{number}", "c.py")
            picker.first._look_at_file()
            await picker.settle()
            assert picker.calls[0] == f"call_more{number}"
        assert picker.said == ["the session has changed, and was read again"]

    drive(session.path, steps)


def test_a_batch_is_refused_where_the_session_went_on_before_the_answer(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("p")
        session.read("call_third", "c.py")
        await picker.press("y")
        assert "is not where the session stands now" in picker.said[-1]
        picker.first._look_at_file()
        await picker.settle()
        await picker.press("p", "y")
        assert picker.statuses["call_second"] == "pruned"

    assert len(drive(session.path, steps)) == 1
    assert ledger_of(session.path) == [("prune", f"{MANUAL}:call_second")]


def test_a_session_that_is_gone_is_said_in_one_line_until_it_is_back(session: Sample):
    data = session.path.read_bytes()

    async def steps(picker: Driven) -> None:
        session.path.unlink()
        picker.first._look_at_file()
        await picker.settle()
        assert "there is no such file" in picker.chosen
        await picker.press("p", "y")
        assert "there is no such file" in picker.said[-1]
        session.path.write_bytes(data)
        picker.first._look_at_file()
        await picker.settle()
        assert "sorted by age" in picker.chosen

    assert drive(session.path, steps) == []


def test_what_someone_else_has_restored_is_not_undone_again(session: Sample):
    async def steps(picker: Driven) -> None:
        await picker.press("p", "y")
        desk = desk_of(session.path)
        Change(desk, desk.picker.choose([], ["call_second"], None)).carry_out(force=False)
        picker.first._look_at_file()
        await picker.settle()
        await picker.press("u")
        assert picker.said[-1] == "the last batch has been undone already, by someone else"

    drive(session.path, steps)


def test_what_nobody_foresaw_ends_it_without_showing_the_session(
    session: Sample, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault")

    async def steps(pilot: Pilot[object]) -> None:
        await pilot.press("p", "y")
        await pilot.pause()

    monkeypatch.setattr(Sitting, "carry_out", broken)
    app = PickerApp(Sitting(desk_of(session.path)))
    app.run(headless=True, size=(80, 24), auto_pilot=steps)
    assert isinstance(app.fault, ZeroDivisionError)
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ((), "Nothing was changed.\n"),
        (("p", "y"), "Added 2 entries to the session. The next request is 635 tokens smaller.\n"),
    ],
)
@pytest.mark.parametrize("ended_by", [None, signal.SIGTERM])
def test_what_was_done_is_left_behind_however_it_ended(
    session: Sample,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    *,
    keys: tuple[str, ...],
    said: str,
    ended_by: int | None,
):
    async def steps(pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        if ended_by is None:
            await pilot.press("q")
        else:
            os.kill(os.getpid(), ended_by)

    run = PickerApp.run
    monkeypatch.setattr(
        PickerApp, "run", lambda app: run(app, headless=True, size=(80, 24), auto_pilot=steps)
    )
    if ended_by is None:
        the_picker.pick(desk_of(session.path), force=False, ask=True)
    else:
        with pytest.raises(click.exceptions.Exit) as ended:
            the_picker.pick(desk_of(session.path), force=False, ask=True)
        assert ended.value.exit_code == 128 + ended_by
    assert capfd.readouterr().out == said
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


# ---------------------------------------------------------------- the rest


def test_the_keys_are_shown_with_what_cannot_be_pruned(session: Sample):
    session.call("call_todo", "todo", {"items": "x"})

    async def steps(picker: Driven) -> None:
        await picker.press("question_mark")
        assert isinstance(picker.app.screen, Help)
        assert "undo the last batch" in picker.screen
        assert "1: tool todo is protected" in picker.screen
        await picker.press("escape")
        assert not isinstance(picker.app.screen, Help)

    drive(session.path, steps, size=(100, 40))


def test_light_and_dark_change_places(session: Sample):
    async def steps(picker: Driven) -> None:
        assert picker.app.theme == "textual-dark"
        await picker.press("t")
        assert picker.app.theme == "textual-light"
        await picker.press("t")
        assert picker.app.theme == "textual-dark"

    drive(session.path, steps)


@pytest.mark.parametrize(
    ("colours", "theme"),
    [
        ("", "textual-dark"),
        ("15;0", "textual-dark"),
        ("0;15", "textual-light"),
        ("0;default;7", "textual-light"),
    ],
)
def test_a_terminal_that_says_its_background_gets_its_theme(colours: str, theme: str):
    assert _theme(colours) == theme


def test_a_theme_from_the_environment_is_left_alone(session: Sample, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TEXTUAL_THEME", "nord")
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert PickerApp(Sitting(desk_of(session.path))).theme != "textual-light"


@pytest.mark.parametrize("size", [(40, 10), (20, 5), (80, 24), (120, 16), (300, 80)])
def test_it_fits_every_size_and_follows_when_it_changes(session: Sample, size: tuple[int, int]):
    async def steps(picker: Driven) -> None:
        for key in ("down", "tab", "tab", "g", "p", "n", "question_mark", "escape"):
            await picker.press(key)
        await picker.pilot.resize_terminal(*size)
        await picker.settle()
        for key in ("down", "tab", "tab", "g", "p", "n", "question_mark", "escape"):
            await picker.press(key)
        assert picker.exchanges.has_focus
        assert all(len(line) <= size[0] for line in picker.screen.splitlines())

    drive(session.path, steps)


def test_nothing_of_a_session_reaches_the_terminal_as_a_command(sample: Sample):
    evil = "\x1b[31m\x1b]0;title\x07 [bold]no markup[/bold] \x9b2J \u202e \r\nnext"
    sample.user("begin")
    sample.call("call_evil", "ba\x1bsh", {"command": evil}, evil * 20)
    sample.turns(1)

    async def steps(picker: Driven) -> None:
        for key in ("home", "tab", "p"):
            await picker.press(key)
            screen = picker.screen
            assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r"} & set(screen)
            assert "\\x1b" in screen
        assert "[bold]no markup[/bold]" in screen
        await picker.press("y")
        assert picker.statuses["call_evil"] == "pruned"

    drive(sample.path, steps)


def test_a_session_without_anything_to_prune(sample: Sample):
    sample.user("begin")

    async def steps(picker: Driven) -> None:
        await picker.press("down", "up", "space", "enter", "tab", "tab", "g", "s", "p", "r", "u", "a", "end")
        assert "0 listed, 0 pruned" in picker.screen
        assert "no LLM call yet" in picker.screen

    assert drive(sample.path, steps) == []


def test_wide_characters_keep_the_columns_in_line(sample: Sample):
    sample.user("begin")
    sample.read("call_wide", "文書/絵文字😀" * 9 + ".py", "漢字と😀\n" * 200)
    sample.read("call_plain", "a.py")

    async def steps(picker: Driven) -> None:
        strips = picker.app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {80}
        await picker.press("down", "tab")
        assert "漢字と😀" in picker.screen
        assert "read output (1,200 characters)" in picker.screen
        assert "output, 1,200 characters" in picker.screen
        strips = picker.app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {80}

    drive(sample.path, steps)
