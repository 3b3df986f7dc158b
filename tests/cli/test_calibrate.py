"""`prunewise calibrate`: what it says, and what it writes where."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.support import Run, Sample

from prunewise import shell
from prunewise.cli import calibrate as command
from prunewise.replay import calibrate as fitting
from prunewise.replay.totals import FEWEST
from prunewise.settings import DEFAULTS


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch):
    """Have the fit come to something without fitting: `fitted(low=.01, patience=.5)`."""

    def patch(
        low: float, held_out: int = 10, worst: float = -0.01, saved_low: float = 0.2, **changed: Any
    ) -> None:
        after = msgspec.structs.replace(DEFAULTS.priced, **changed)
        given = after if low > 0 and saved_low > 0 and held_out >= FEWEST else DEFAULTS.priced
        found = fitting.Calibrated(
            given, after, 5, held_out, 0.3, 0.25, low, 0.08, worst, 1.5, 2.0, saved_low, 0.4
        )

        def fit(_recordings: Any, _question: Any, *, step: fitting.Step) -> fitting.Calibrated:
            step(1, 1)
            return found

        monkeypatch.setattr(fitting, "calibrate", fit)

    return patch


@pytest.fixture
def session(sample: Sample):
    sample.user()
    for number in range(3):
        sample.read(f"call_{number}", f"{number}.py")
    return sample.path


def test_it_says_what_the_other_half_gained_and_writes_nothing(
    run: Run, session: Path, tmp_path: Path, fitted: Any
):
    fitted(0.01, patience=0.5, survival=(9.0, 10.0))
    target = tmp_path / "own.json"
    said = run("calibrate", session, "--settings", target).out
    assert "fitted on 5 sessions, tried on 10 others\n" in said
    saved = "saved there: 30.0% of the input cost (20.0% to 40.0% in 90% of resamples); by default 25.0%\n"
    assert f"{saved}each with everything charged that may have been needed again\n" in said
    assert "the difference is +1.0 to +8.0 points in 90% of resamples\n" in said
    assert "the worst session there costs 1.0% more\n" in said
    assert "priced.patience = 0.5\n" in said
    assert "priced.survival = [9.0,10.0]\n" in said
    assert said.endswith(f"nothing was written: --write puts them into {target}\n")
    assert not target.exists()


def test_it_writes_when_told_to_and_keeps_all_else(run: Run, session: Path, tmp_path: Path, fitted: Any):
    fitted(0.01, patience=0.5, survival=(9, 10))
    target = tmp_path / "own.json"
    target.write_text('{"mine": 1, "priced": {"stake": 0.01, "theirs": 2}}')
    said = run("calibrate", session, "--write", "--settings", target).out
    assert said.endswith(f"written to {target}; they hold where the policy is priced\n")
    after = json.loads(target.read_text())
    assert after == {
        "mine": 1,
        "priced": {"stake": 0.01, "theirs": 2, "patience": 0.5, "survival": [9, 10]},
    }


def test_where_the_other_half_does_not_gain_nothing_is_written(
    run: Run, session: Path, tmp_path: Path, fitted: Any
):
    fitted(-0.01, patience=0.5)
    target = tmp_path / "own.json"
    said = run("calibrate", session, "--write", "--settings", target).out
    assert said.endswith("the defaults stay: the other half does not gain for certain\n")
    assert not target.exists()


def test_where_the_policy_itself_does_not_pay_nothing_is_written(
    run: Run, session: Path, tmp_path: Path, fitted: Any
):
    fitted(0.01, patience=0.5, saved_low=0.0)
    target = tmp_path / "own.json"
    said = run("calibrate", session, "--write", "--settings", target).out
    assert said.endswith("the policy priced does not save there for certain: leave it off\n")
    assert not target.exists()
    assert run("calibrate", session, "--json").json["pays"] is False


def test_a_handful_of_other_sessions_tells_nothing(run: Run, session: Path, tmp_path: Path, fitted: Any):
    fitted(0.01, held_out=9, worst=0.02, patience=0.5)
    target = tmp_path / "own.json"
    said = run("calibrate", session, "--write", "--settings", target).out
    assert "the worst session there saves 2.0%\n" in said
    assert said.endswith("the defaults stay: it takes 10 other sessions to tell\n")
    assert not target.exists()


@pytest.mark.parametrize("write", [False, True])
def test_json(run: Run, session: Path, tmp_path: Path, fitted: Any, write: bool):
    fitted(0.01, patience=0.5)
    target = tmp_path / "own.json"
    document = json.loads(
        run("calibrate", session, "--json", *(["--write"] if write else []), "--settings", target).out
    )
    assert document["settings"]["patience"] == 0.5
    assert (document["gains"], document["pays"]) == (True, True)
    assert document["written"] == (str(target) if write else None)
    assert target.exists() is write


def test_no_session_is_one_clear_line(run: Run, tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"type": "session", "version": 3, "id": "x"}\nnot json\n')
    done = run("calibrate", tmp_path)
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith("no session could be read: there is nothing to fit to")


def test_plain_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    clock = iter([0.0, 5.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr(command.time, "monotonic", lambda: next(clock))
    with command._told() as step:
        for done in (1, 2, 3):
            step(done, 3)
    assert capsys.readouterr().err.count("2 of 3 trials") == 1


def test_without_other_sessions_there_are_no_figures(run: Run, session: Path, fitted: Any):
    fitted(0.0, held_out=0)
    said = run("calibrate", session).out
    assert (
        said
        == "fitted on 5 sessions, tried on 0 others\nthe defaults stay: it takes 10 other sessions to tell\n"
    )


def test_without_its_extra_it_warns(run: Run, session: Path, fitted: Any, monkeypatch: pytest.MonkeyPatch):
    fitted(-0.01)
    assert "reads no shell commands" not in run("calibrate", session).err
    monkeypatch.setattr(shell, "_parser", lambda: None)
    assert "warning: `priced` reads no shell commands" in run("calibrate", session).err


def test_it_fits_for_real(run: Run, session: Path):
    document = json.loads(run("calibrate", session, "--json").out)
    assert document["fittedOn"] == document["heldOut"] == 0
    assert document["gains"] is False
