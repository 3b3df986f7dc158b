"""Installing into pi: one file, for the interpreter that runs; and the doctor's findings."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from prunewise import __version__, shell
from prunewise.cli.program import program
from prunewise.errors import InputError, PrunewiseError
from prunewise.hosts.pi import doctor, install
from prunewise.hosts.pi.protocol import Halves
from prunewise.replay import outcome
from prunewise.replay.policies import POLICIES, can_be_chosen
from prunewise.replay.report.summary import SWITCHES
from prunewise.stores import settings_files


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv(doctor.PYTHON_VARIABLE, raising=False)
    return folder


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(program, ["pi", *arguments], standalone_mode=False)
    assert done.exception is None, done.output
    return done.return_value or 0, done.stdout


def test_what_is_installed_is_one_file_that_names_the_interpreter(agent_dir: Path):
    done = install.install()
    assert [path for path in agent_dir.rglob("*") if path.is_file()] == [done.path]
    text = done.path.read_text()
    assert json.dumps(sys.executable) in text
    assert json.dumps(str(install.EXTENSION)) in text
    assert install.EXTENSION.exists()


def test_twice_is_once(agent_dir: Path):
    assert install.install().changed
    before = (agent_dir / "extensions" / "prunewise" / "index.ts").stat().st_mtime_ns
    assert not install.install().changed
    assert (agent_dir / "extensions" / "prunewise" / "index.ts").stat().st_mtime_ns == before


def test_out_again_leaves_nothing_and_touches_nothing_else(agent_dir: Path):
    other = agent_dir / "extensions" / "other.ts"
    other.parent.mkdir(parents=True)
    other.write_text("export default () => {}")
    install.install()
    assert install.uninstall()[1]
    assert list(other.parent.iterdir()) == [other]
    assert not install.uninstall()[1]


def test_a_project_has_its_own(project: Path, agent_dir: Path):
    done = install.install(project)
    assert done.path == project / ".pi" / "extensions" / "prunewise" / "index.ts"
    assert not agent_dir.exists()
    assert install.uninstall(project) == (done.path, True)


def test_a_file_of_someone_else_is_left_alone(agent_dir: Path):
    path = agent_dir / "extensions" / "prunewise" / "index.ts"
    path.parent.mkdir(parents=True)
    path.write_text("export default () => {}")
    with pytest.raises(InputError, match="left alone"):
        install.install()
    with pytest.raises(InputError, match="left alone"):
        install.uninstall()
    assert path.read_text() == "export default () => {}"


def test_a_folder_that_cannot_be_written_is_said(agent_dir: Path):
    agent_dir.write_text("a file")
    with pytest.raises(PrunewiseError, match="cannot be written"):
        install.install()


SECTION = {"settings.json": {"pruning": {"enabled": True}, "theme": "dark"}}
OWN = {"extensions/dynamic-context-pruning.json": {"gate": {"mode": "off"}}}


@pytest.mark.parametrize(
    ("files", "halves"),
    [
        ({}, Halves()),
        ({"settings.json": {"theme": "dark"}}, Halves()),
        ({"settings.json": []}, Halves()),
        (SECTION, Halves(strategies=False)),
        (OWN, Halves(masking=False)),
        ({**SECTION, **OWN}, Halves()),
    ],
)
def test_the_half_that_has_settings_is_on(agent_dir: Path, files: dict[str, Any], halves: Halves):
    for name, data in files.items():
        path = agent_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data))
    assert install.install().halves == halves
    for name, data in files.items():
        assert json.loads((agent_dir / name).read_text()) == data
    (place,) = doctor.examine(Path.cwd()).installed
    assert Halves(place.strategies, place.masking) == halves


def test_a_projects_section_counts_in_the_project(project: Path):
    (project / ".pi").mkdir()
    (project / ".pi" / "settings.json").write_text(json.dumps({"pruning": {}}))
    assert install.install(project).halves == Halves(strategies=False)
    assert install.install().halves == Halves()


# ---- the doctor


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `pi` and a `node` on PATH, and nothing else."""
    folder = tmp_path / "programs"
    package = tmp_path / "package"
    (package / "dist").mkdir(parents=True)
    folder.mkdir()
    (package / "package.json").write_text(
        json.dumps({"name": "@earendil-works/pi-coding-agent", "version": "1.6.0"})
    )
    executable(package / "dist" / "cli.js", "#!/bin/sh\n")
    (folder / "pi").symlink_to(package / "dist" / "cli.js")
    executable(folder / "node", "#!/bin/sh\necho v24.1.0\n")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_all_is_well(programs: Path):
    install.install()
    report = doctor.examine(Path.cwd())
    assert report.problems == []
    assert report.pi == doctor.Program(str(programs / "pi"), "1.6.0")
    assert report.node == doctor.Program(str(programs / "node"), "24.1.0")
    assert report.handshake is not None
    assert (report.handshake.version, report.handshake.problem) == (__version__, "")


def test_the_doctor_says_what_is_missing(programs: Path):
    shutil.rmtree(programs)
    not_on_path, not_installed = doctor.examine(Path.cwd()).problems
    assert "no `pi` on PATH" in not_on_path
    assert "run `prunewise pi install`" in not_installed


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("python", "problems"),
    [
        ("/nowhere/python", ["the interpreter is not there any more", "the engine does not answer"]),
        ("/bin/false", ["the engine does not answer"]),
    ],
)
def test_an_interpreter_that_does_not_work_is_said(python: str, problems: list[str]):
    path = install.install().path
    path.write_text(path.read_text().replace(json.dumps(sys.executable), json.dumps(python)))
    found = doctor.examine(Path.cwd()).problems
    assert [part in problem for part, problem in zip(problems, found, strict=True)] == [True] * len(found)


def test_an_old_node_is_said(programs: Path):
    install.install()
    executable(programs / "node", "#!/bin/sh\necho v20.1.0\n")
    (problem,) = doctor.examine(Path.cwd()).problems
    assert problem == "Node 20.1.0 is too old for pi, which needs 22.19 or newer"


@pytest.mark.usefixtures("programs")
def test_both_places_at_once_are_said(project: Path):
    install.install()
    install.install(project)
    (problem,) = doctor.examine(project).problems
    assert problem.startswith("the extension is installed twice")


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"extensions/p.ts": 'pi.registerCommand("prune", {})'}, ["command /prune"]),
        ({"extensions/p/index.ts": "pi.registerTool({ name: 'recall' })"}, ["tool recall"]),
        (
            {"extensions/p/src/a.js": '"dynamic-context-pruning:decision"; registerCommand("prune"'},
            ["command /prune", "its session entries"],
        ),
        ({"settings.json": json.dumps({"packages": ["npm:pi-dynamic-context-pruning"]})}, ["by its name"]),
        (
            {
                "settings.json": json.dumps({"packages": [{"source": "./mine"}]}),
                "mine/index.ts": 'registerCommand("pruning"',
            },
            ["command /pruning"],
        ),
        ({"extensions/p.ts": 'pi.registerCommand("review", {})'}, []),
        ({"extensions/p.md": 'registerCommand("prune"'}, []),
        ({"extensions/p/node_modules/x.js": 'registerCommand("prune"'}, []),
    ],
)
def test_others_that_prune_are_found(agent_dir: Path, files: dict[str, str], found: list[str]):
    for name, text in files.items():
        path = agent_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    install.install()
    report = doctor.examine(Path.cwd())
    assert [conflict for other in report.others for conflict in other.conflicts] == found
    assert len(report.problems) == bool(found)
    stands_down = "so prunewise does nothing" in "".join(report.problems)
    assert stands_down == ("tool recall" in found)
    _, said = run("install")
    assert said.count("Warning:") == len(report.others)
    assert json.loads(run("install", "--json")[1])["warnings"] == report.problems


@pytest.mark.parametrize(
    "text",
    [
        "pi.registerTool({ name: 'recall' })",
        'pi.registerTool({name:"recall"})',
        "const NAME = `recall`;\npi.registerTool({ name: NAME })",
        'for (const name of ["find", "recall"]) pi.registerTool(make(name));',
        'const names = { recall: "recall" };\npi.registerTool(tool(names.recall));',
    ],
)
@pytest.mark.usefixtures("programs")
def test_a_tool_recall_of_another_extension_is_found(agent_dir: Path, text: str):
    path = agent_dir / "extensions" / "other.ts"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (other,) = doctor.others_in(Path.cwd())
    assert other.conflicts == ["tool recall"]
    assert f"{path} has a tool recall too" in run("install")[1]


@pytest.mark.parametrize(
    "source", [str(install.EXTENSION.parent), "npm:prunewise-pi@0.1.0", "git:example.org/someone/prunewise"]
)
def test_installed_as_a_package_it_is_no_other_extension(
    programs: Path, agent_dir: Path, monkeypatch: pytest.MonkeyPatch, source: str
):
    agent_dir.mkdir(parents=True, exist_ok=True)
    (agent_dir / "settings.json").write_text(json.dumps({"packages": [source]}))
    report = doctor.examine(Path.cwd())
    assert report.others == []
    assert report.problems == [
        f"{source}: no Python is known to it: set PRUNEWISE_PYTHON, or have `prunewise` on PATH"
    ]
    executable(programs / "prunewise", f'#!/bin/sh\nexec {sys.executable} -m prunewise "$@"\n')
    report = doctor.examine(Path.cwd())
    assert report.problems == []
    assert [(one.path, one.python) for one in report.installed] == [(source, str(programs / "prunewise"))]
    assert report.handshake is not None
    assert report.handshake.version == __version__
    monkeypatch.setenv("PRUNEWISE_PYTHON", sys.executable)
    report = doctor.examine(Path.cwd())
    assert report.problems == []
    assert report.handshake is not None
    assert report.handshake.command[0] == sys.executable
    install.install()
    (problem,) = doctor.examine(Path.cwd()).problems
    assert problem.startswith("the extension is installed twice")


@pytest.mark.usefixtures("programs")
def test_problems_of_the_settings_are_the_doctors_too(agent_dir: Path):
    install.install()
    (agent_dir / "settings.json").write_text("{")
    assert "not JSON" in doctor.examine(Path.cwd()).problems[0]


@pytest.mark.usefixtures("programs")
def test_a_folder_that_may_only_be_read_is_no_fault_and_is_told(
    agent_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    install.install()
    assert not [note for note in doctor.examine(Path.cwd()).notes if "written" in note]
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (agent_dir, os.W_OK))
    report = doctor.examine(Path.cwd())
    (note,) = [note for note in report.notes if "written" in note]
    assert note.startswith(f"{agent_dir} cannot be written to: ")
    assert not [problem for problem in report.problems if "written" in problem]


@pytest.mark.usefixtures("programs")
def test_the_policy_is_told_and_what_was_measured_of_the_other_one(
    agent_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    install.install()
    report = doctor.examine(Path.cwd())
    assert report.policy == "documented"
    assert report.notes == [outcome.advice(None)]
    folder = outcome.cache_folder()
    assert folder is not None
    found = outcome.Outcome("2026-01-02", 12, 345, None, outcome.Share(0.01), outcome.Share(0.2))
    outcome.keep(found, folder)
    assert f"note         {outcome.advice(found)}" in run("doctor")[1]
    (agent_dir / "extensions" / "dynamic-context-pruning.json").write_text('{"policy": "priced"}')
    report = doctor.examine(Path.cwd())
    assert (report.policy, report.notes) == ("priced", [])
    monkeypatch.setattr(shell, "_parser", lambda: None)
    assert doctor.examine(Path.cwd()).notes == [shell.problem()]


# ---- the commands


@pytest.mark.usefixtures("programs")
def test_the_commands_say_what_they_did(agent_dir: Path):
    path = agent_dir / "extensions" / "prunewise" / "index.ts"
    code, text = run("install")
    assert code == 0
    assert text.splitlines() == [
        f"Installed: {path}",
        "Both halves are on, the strategies and masking, since there are settings of neither.",
        "Start pi, or type /reload in one that runs.",
    ]
    assert run("install")[1].startswith("Installed already: ")
    code, text = run("doctor")
    assert code == 0
    assert text.endswith("All is well.\n")
    assert run("uninstall") == (0, f"Removed: {path}\n")
    assert run("uninstall") == (0, f"Nothing to remove: {path}\n")
    code, text = run("doctor")
    assert code == 1
    assert "not installed" in text


@pytest.mark.usefixtures("programs")
def test_the_commands_in_json(agent_dir: Path):
    (agent_dir / "extensions").mkdir(parents=True)
    (agent_dir / "extensions" / "dynamic-context-pruning.json").write_text("{}")
    document = json.loads(run("install", "--json")[1])
    assert (document["changed"], document["strategies"], document["masking"]) == (True, True, False)
    report = json.loads(run("doctor", "--json")[1])
    assert report["problems"] == []
    assert report["handshake"]["command"][0] == sys.executable
    assert json.loads(run("uninstall", "--json")[1])["changed"] is True


def test_the_text_names_the_half_that_is_off(agent_dir: Path):
    agent_dir.mkdir()
    (agent_dir / "settings.json").write_text('{"pruning": {}}')
    assert "the strategies are off (on with /context-pruning on)" in run("install")[1]
    (agent_dir / "settings.json").unlink()
    (agent_dir / "extensions" / "dynamic-context-pruning.json").write_text("{}")
    assert "masking is off (on with /pruning settings enabled=true)" in run("install")[1]
    assert [path.name for path in agent_dir.iterdir()] == ["extensions"]


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ([], (None, None)),
        (["--policy", "documented"], ({"enabled": True, "policy": "documented"}, None)),
        (["--policy", "priced", "--no-masking"], ({"enabled": True, "policy": "priced"}, False)),
        (["--policy", "documented", "--masking"], ({"enabled": True, "policy": "documented"}, True)),
        (["--policy", "none", "--masking"], ({"enabled": False}, True)),
        (["--no-masking"], (None, False)),
    ],
)
def test_one_command_installs_and_sets_the_policy(
    agent_dir: Path, options: list[str], settings: tuple[object, bool | None]
):
    code, text = run("install", *options)
    assert code == 0, text
    strategies, masking = settings
    file = agent_dir / "extensions" / "dynamic-context-pruning.json"
    assert (json.loads(file.read_text()) if file.exists() else None) == strategies
    file = agent_dir / "settings.json"
    found = json.loads(file.read_text())["pruning"]["enabled"] if file.exists() else None
    assert found is masking
    if strategies and masking is not None:
        assert "Both halves are on" in text, "each by its own settings"


def test_the_commands_that_a_report_shows_set_what_was_replayed(agent_dir: Path):
    assert list(SWITCHES) == [name for name in POLICIES if can_be_chosen(name)]
    replayed = {
        "documented": (True, "documented", False),
        "two-level": (False, "documented", True),
        "both": (True, "documented", True),
        "priced": (True, "priced", False),
    }
    for policy, command in SWITCHES.items():
        program, group, *words = command.split()
        assert (program, group) == ("prunewise", "pi")
        assert run(*words)[0] == 0
        after = settings_files.load().settings
        found = (after.enabled, after.policy if after.enabled else "documented", after.pruning.enabled)
        assert found == replayed[policy], policy
    assert agent_dir.is_dir()


def test_the_package_for_npm_has_the_version_of_this_one():
    package = json.loads((install.EXTENSION.parent / "package.json").read_text())
    assert package["version"] == __version__
