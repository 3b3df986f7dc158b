"""The rules of settings files: where they lie, what a broken one does, and how one key is written."""

import json
import multiprocessing
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from prunewise.errors import SettingsError
from prunewise.settings import DEFAULTS, SETTINGS, Gate, Pruning, Settings, get
from prunewise.stores import settings_files
from prunewise.stores.settings_files import (
    Loaded,
    agent_dir,
    extension_file,
    file_of,
    global_file,
    load,
    load_file,
    project_file,
    resolve,
    write,
)

posix_only = pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX's")
not_as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write everything"
)


class Home:
    """A home folder with an agent folder and a project."""

    def __init__(self, folder: Path) -> None:
        self.environ = {"HOME": str(folder), "USERPROFILE": str(folder)}
        self.cwd = folder / "project"
        self.extension = extension_file(self.environ)
        self.globally = global_file(self.environ)
        self.project = project_file(self.cwd)

    def load(self, model: str | None = None) -> Loaded:
        return load(self.cwd, model=model, environ=self.environ)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def put(path: Path, content: object) -> Path:
    """Write a file: bytes and text as they are, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, str | bytes):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def inside(folder: Path) -> list[str]:
    """The names in a folder: no temporary file and no lock may stay behind."""
    return sorted(path.name for path in folder.iterdir())


# ---------------------------------------------------------------- where


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/h"}, "/h/.pi/agent"),
        ({"HOME": "/h", "PI_CODING_AGENT_DIR": ""}, "/h/.pi/agent"),
        ({"HOME": "/h", "PI_CODING_AGENT_DIR": "/a"}, "/a"),
        ({"HOME": "/h", "PI_CODING_AGENT_DIR": "~"}, "/h"),
        ({"HOME": "/h", "PI_CODING_AGENT_DIR": "~/a/b"}, "/h/a/b"),
        ({"HOME": "/h", "PI_CODING_AGENT_DIR": "~other/a"}, "~other/a"),
        ({"HOME": "/h", "PI_CODING_AGENT_DIR": "file:///a%20b"}, "/a b"),
    ],
)
@posix_only
def test_the_agent_folder_is_the_one_that_pi_uses(environ: dict[str, str], folder: str):
    assert agent_dir(environ) == Path(folder)


def test_without_a_home_variable_the_systems_home_holds():
    assert agent_dir({}) == Path.home() / ".pi" / "agent"


def test_the_environment_of_the_process_holds_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    put(tmp_path / "extensions" / "dynamic-context-pruning.json", {"enabled": False})
    assert extension_file().parent == tmp_path / "extensions"
    assert load().settings == Settings(enabled=False)


def test_a_command_writes_the_project_file_where_there_is_one_else_the_global_one(home: Home):
    where = lambda key: file_of(key, home.cwd, home.environ)  # noqa: E731
    assert where("gate.mode") == home.extension
    assert where("pruning.enabled") == home.globally
    put(home.project, {})
    assert where("pruning.enabled") == home.project
    assert file_of("pruning.enabled", None, home.environ) == home.globally
    with pytest.raises(SettingsError, match=r"^window is read only from a file given with --settings$"):
        where("window")


# ---------------------------------------------------------------- which file holds


def test_missing_files_are_the_defaults_without_a_word(home: Home):
    assert home.load() == Loaded()


def test_an_empty_file_is_a_missing_one(home: Home):
    put(home.extension, "")
    assert home.load() == Loaded()


def test_the_project_goes_over_the_global_file_key_by_key(home: Home):
    put(home.globally, {"pruning": {"enabled": False, "minResultTokens": 5}, "theme": "dark"})
    put(home.project, {"pruning": {"minResultTokens": 7, "protectCurrentTurn": False}})
    loaded = home.load()
    assert loaded.settings == Settings(pruning=Pruning(False, 7, False))
    assert loaded.warnings == ()


def test_each_key_knows_the_file_it_comes_from(home: Home):
    put(home.extension, {"gate": {"mode": "on"}, "enabled": "broken", "reserve": 1})
    put(
        home.globally,
        {"pruning": {"enabled": True, "minResultTokens": 5}, "compaction": {"reserveTokens": 2}},
    )
    put(home.project, {"pruning": {"minResultTokens": 7}, "compaction": {"enabled": True}})
    assert home.load().sources == {
        "gate.mode": home.extension,
        "pruning.enabled": home.globally,
        "pruning.minResultTokens": home.project,
        "reserve": home.globally,
    }


def test_without_a_project_the_global_file_holds(home: Home):
    put(home.globally, {"pruning": {"enabled": False}})
    put(home.project, {"pruning": {"enabled": True}})
    assert load(environ=home.environ).settings.pruning.enabled is False


def test_pis_files_hold_only_the_pruning_section(home: Home):
    put(home.globally, {"enabled": False, "gate": {"mode": "off"}, "reserve": 1, "enabeld": 1})
    assert home.load() == Loaded()


def test_broken_values_in_two_files_leave_what_held_before_each(home: Home):
    put(home.globally, {"pruning": {"minResultTokens": 5}})
    put(home.project, {"pruning": {"minResultTokens": "many"}})
    loaded = home.load()
    assert loaded.settings == Settings(pruning=Pruning(min_result_tokens=5))
    assert loaded.warnings == (
        (
            f'{home.project}: pruning.minResultTokens: "many" is not allowed; '
            "give a whole number, 0 or more (using 5)"
        ),
    )


def test_a_slip_in_a_key_is_pointed_out_and_other_unknown_keys_are_not(home: Home):
    put(home.extension, {"gate": {"Mode": "off"}, "$schema": "x", "mine": 1})
    assert home.load().warnings == (f"{home.extension}: gate.Mode is no setting: did you mean gate.mode?",)


# ---------------------------------------------------------------- pi's compaction


@pytest.mark.parametrize(
    ("globally", "project", "model", "reserve"),
    [
        ({}, {}, None, 16384),
        ({"reserveTokens": 9}, {}, "p/m", 9),
        ({"reserveTokens": 9}, {"reserveTokens": 0}, None, 0),
        ({"reserveTokens": 9}, {"reserveTokens": None}, None, 16384),
        ({"reserveTokens": 9}, None, None, 16384),
        ({"reserveTokens": 9, "modelOverrides": {"p/m": {"reserveTokens": 3}}}, {}, "p/m", 3),
        ({"reserveTokens": 9, "modelOverrides": {"p/m": {"reserveTokens": 3}}}, {}, "p/other", 9),
        ({"reserveTokens": 9, "modelOverrides": {"p/m": {"reserveTokens": 3}}}, {}, None, 9),
        ({"modelOverrides": {"p/m": {"reserveTokens": 3}}}, {"reserveTokens": 5}, "p/m", 3),
        ({"modelOverrides": {"p/m": {"reserveTokens": 3}}}, {"modelOverrides": {"p/n": {}}}, "p/m", 3),
        (
            {"modelOverrides": {"p/m": {"reserveTokens": 3}}},
            {"modelOverrides": {"p/m": {"reserveTokens": 4}}},
            "p/m",
            4,
        ),
        (
            {"modelOverrides": {"p/m": {"reserveTokens": 3}}},
            {"modelOverrides": {"p/m": {"reserveTokens": None}}},
            "p/m",
            16384,
        ),
        ({"modelOverrides": {"p/m": {"reserveTokens": 3}}}, {"modelOverrides": None}, "p/m", 16384),
        ({"modelOverrides": {"p/m": {"keepRecentTokens": 3}}}, {}, "p/m", 16384),
    ],
)
def test_the_reserve_is_the_one_that_pi_keeps(
    home: Home, globally: object, project: object, model: str | None, reserve: int
):
    put(home.globally, {"compaction": globally})
    put(home.project, {"compaction": project})
    loaded = home.load(model)
    assert (loaded.settings.reserve, loaded.warnings) == (reserve, ())


def test_pis_reserve_goes_over_that_of_the_extensions_file(home: Home):
    put(home.extension, {"reserve": 1})
    assert home.load().settings.reserve == 1
    put(home.globally, {"compaction": {"reserveTokens": 2}})
    assert home.load().settings.reserve == 2


@pytest.mark.parametrize(
    ("globally", "project", "on"),
    [
        ({}, {}, True),
        ({"enabled": False}, {}, False),
        ({"enabled": False}, {"enabled": True}, True),
        ({"enabled": False}, {"enabled": None}, True),
    ],
)
def test_auto_compaction_is_pis_own_switch(home: Home, globally: object, project: object, *, on: bool):
    put(home.globally, {"compaction": globally})
    put(home.project, {"compaction": project})
    assert home.load().auto_compaction is on


@pytest.mark.parametrize(
    ("compaction", "message"),
    [
        ("off", 'compaction: "off" is not allowed; give an object'),
        ({"enabled": "no"}, 'compaction.enabled: "no" is not allowed; give true or false'),
        (
            {"reserveTokens": -1},
            "compaction.reserveTokens: -1 is not allowed; give a whole number, 0 or more",
        ),
        ({"modelOverrides": []}, "compaction.modelOverrides: [] is not allowed; give an object"),
        (
            {"modelOverrides": {"p/m": 3}},
            'compaction.modelOverrides["p/m"]: 3 is not allowed; give an object',
        ),
        (
            {"modelOverrides": {"p": {"reserveTokens": []}}},
            'compaction.modelOverrides["p"].reserveTokens: [] is not allowed; give a whole number, 0 or more',
        ),
    ],
)
def test_a_broken_compaction_value_leaves_what_held_before(home: Home, compaction: object, message: str):
    put(home.globally, {"compaction": {"enabled": False, "modelOverrides": {"p/m": {"reserveTokens": 7}}}})
    put(home.project, {"compaction": compaction})
    loaded = home.load("p/m")
    assert loaded.warnings == (f"{home.project}: {message}",)
    assert (loaded.settings.reserve, loaded.auto_compaction) == (7, False)


# ---------------------------------------------------------------- broken files

DEEP = "[" * 200_000
BROKEN = {
    "comment": ('{\n  // no\n  "enabled": false\n}', ":2:3: not JSON: "),
    "trailing comma": ('{"enabled": false,}', ":1:"),
    "trailing garbage": ('{"enabled": false}\n}', ":2:1: not JSON: extra data"),
    "cut short": ('{"enabled": fal', ":1:13: not JSON: expecting value"),
    "not UTF-8": (b'{\n "a": "\xff"}', ":2:8: not UTF-8 text"),
    "UTF-16": ('{"enabled": false}'.encode("utf-16"), ":1:1: not UTF-8 text"),
    "NUL bytes": (b"\0" * 64, ":1:1: not JSON: "),
    "only blanks": (" \n", ":2:1: not JSON: "),
    "nested too deeply": (DEEP, ": not settings: nested too deeply"),
    "no object": ('["a"]', ':1:1: settings are a JSON object, not ["a"]'),
    "null": ("null", ":1:1: settings are a JSON object, not null"),
    "larger than any": (b" " * (16 * 2**20 + 1), ": larger than 16 MiB, which no settings file is"),
}
broken_files = pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN.keys())


@broken_files
def test_a_broken_file_is_the_defaults_and_one_warning_that_says_where(
    home: Home, content: str | bytes, message: str
):
    put(home.extension, content)
    put(home.globally, {"pruning": {"enabled": False}})
    settings, [warning] = home.load().settings, home.load().warnings
    assert settings == Settings(pruning=Pruning(enabled=False))
    assert warning.startswith(f"{home.extension}{message}")
    assert warning.endswith("; nothing in it holds")
    assert len(warning.splitlines()) == 1


@broken_files
def test_a_broken_file_that_was_named_is_an_error_that_says_where(
    tmp_path: Path, content: str | bytes, message: str
):
    path = put(tmp_path / "s.json", content)
    with pytest.raises(SettingsError) as caught:
        load_file(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("content", ["", " "])
def test_an_empty_file_that_was_named_is_an_error(tmp_path: Path, content: str):
    with pytest.raises(SettingsError, match=r"s\.json:1:\d: not JSON: expecting value"):
        load_file(put(tmp_path / "s.json", content))


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        (b'\xef\xbb\xbf{"enabled": false}', Settings(enabled=False)),
        (b'{"enabled": true, "enabled": false}', Settings(enabled=False)),
        (b'{"enabled": false, "other": 1e999, "more": ' + b"9" * 5000 + b"}", Settings(enabled=False)),
        (rb'{"enabled": false, "other": "\ud800"}', Settings(enabled=False)),
    ],
    ids=["byte order mark", "a key twice", "numbers without bounds", "a lone surrogate"],
)
def test_an_odd_file_that_pi_can_read_can_be_read(home: Home, content: bytes, settings: Settings):
    sources = {"enabled": home.extension}
    assert load_file(put(home.extension, content)) == home.load() == Loaded(settings, sources=sources)


def test_a_lone_surrogate_in_a_value_can_be_shown(home: Home):
    put(home.extension, rb'{"gate": {"mode": "\udc00"}}')
    [warning] = home.load().warnings
    assert r'gate.mode: "\udc00" is not allowed' in warning
    assert warning.isprintable()


def test_a_number_that_is_none_in_json_is_a_broken_value_and_no_broken_file(home: Home):
    put(home.extension, '{"enabled": false, "gate": {"breakEvenThreshold": NaN}}')
    settings, [warning] = home.load().settings, home.load().warnings
    assert settings == Settings(enabled=False)
    assert "gate.breakEvenThreshold: NaN is not allowed; give a number, 0 or more (using 22)" in warning


def test_a_folder_in_a_files_place_is_one_warning_and_an_error_when_named(home: Home):
    home.extension.mkdir(parents=True)
    assert home.load() == Loaded(warnings=(f"{home.extension}: not a file; nothing in it holds",))
    with pytest.raises(SettingsError, match="cannot be read: is a directory"):
        load_file(home.extension)


def test_a_file_in_a_folders_place_is_a_missing_file(home: Home):
    put(home.extension.parent, "x")
    assert home.load() == Loaded()


@posix_only
def test_a_pipe_is_not_waited_for_unless_it_was_named(home: Home):
    home.extension.parent.mkdir(parents=True)
    os.mkfifo(home.extension)
    assert home.load().warnings == (f"{home.extension}: not a file; nothing in it holds",)
    writer = threading.Thread(target=lambda: home.extension.write_text('{"enabled": false}'))
    writer.start()
    assert load_file(home.extension).settings == Settings(enabled=False)
    writer.join()


@posix_only
def test_a_link_in_a_circle_is_one_warning(home: Home):
    home.extension.parent.mkdir(parents=True)
    home.extension.symlink_to(home.extension)
    [warning] = home.load().warnings
    assert warning.startswith(f"{home.extension}: cannot be read: ")


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "\ud800"])
def test_a_path_that_no_system_has_is_one_error(tmp_path: Path, name: str):
    for call in (lambda: load_file(tmp_path / name), lambda: write(tmp_path / name, "enabled", True)):
        with pytest.raises(SettingsError) as caught:
            call()
        assert str(caught.value).isprintable()
    assert len(load(environ={"PI_CODING_AGENT_DIR": str(tmp_path / name)}).warnings) <= 2


def test_a_file_that_was_named_has_to_exist(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"none\.json: cannot be read: no such file or directory$"):
        load_file(tmp_path / "none.json")


@posix_only
@not_as_root
def test_a_file_that_may_not_be_read_is_one_warning(home: Home):
    put(home.extension, {}).chmod(0)
    assert home.load().warnings == (
        f"{home.extension}: cannot be read: permission denied; nothing in it holds",
    )


def test_a_read_waits_until_pi_has_written(home: Home):
    put(home.globally, "")
    lock = home.globally.with_name("settings.json.lock")
    lock.mkdir()

    def finish() -> None:
        time.sleep(0.05)
        put(home.globally, {"pruning": {"enabled": False}})
        lock.rmdir()

    writer = threading.Thread(target=finish)
    writer.start()
    assert home.load().settings.pruning.enabled is False
    writer.join()


def test_a_read_that_met_a_write_is_done_again(home: Home, monkeypatch: pytest.MonkeyPatch):
    put(home.globally, "")
    read = settings_files._optional

    def read_as_pi_writes(path: Path) -> bytes | None:
        raw = read(path)
        if path == home.globally and not path.stat().st_size:
            put(path, {"pruning": {"enabled": False}})
        return raw

    monkeypatch.setattr(settings_files, "_optional", read_as_pi_writes)
    assert home.load().settings.pruning.enabled is False


def test_a_read_does_not_wait_for_ever(home: Home):
    put(home.globally, {"pruning": {"enabled": False}})
    home.globally.with_name("settings.json.lock").mkdir()
    assert home.load().settings.pruning.enabled is False


# ---------------------------------------------------------------- resolve


def test_none_is_the_defaults_and_reads_no_file(home: Home, monkeypatch: pytest.MonkeyPatch):
    put(home.extension, {"enabled": False})
    monkeypatch.setenv("HOME", home.environ["HOME"])
    assert resolve(None) == (DEFAULTS, [])


def test_settings_go_through_as_they_are():
    settings = Settings(gate=Gate(mode="off"))
    assert resolve(settings)[0] is settings
    assert resolve(settings)[1] == []


def test_settings_made_in_code_are_checked_too():
    settings, [warning] = resolve(Settings(enabled=False, gate=Gate(cached_price_ratio=7)))
    assert settings == Settings(enabled=False)
    assert warning == "gate.cachedPriceRatio: 7 is not allowed; give a number from 0 to 1 (using 0.1)"


def test_a_mapping_and_a_file_with_it_give_the_same(tmp_path: Path):
    data = {"gate": {"mode": "no", "breakEvenThreshold": 3}, "window": 9, "reserve": 1, "enabeld": 1}
    path = put(tmp_path / "s.json", data)
    settings = Settings(gate=Gate(break_even_threshold=3), window=9, reserve=1)
    warnings = [
        'gate.mode: "no" is not allowed; give "on", "off" or "always-apply" (using "on")',
        "enabeld is no setting: did you mean enabled?",
    ]
    assert resolve(data) == (settings, warnings)
    assert resolve(path) == resolve(str(path)) == (settings, [f"{path}: {line}" for line in warnings])


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, '{\n  "gate": {\n    "mode": "off"\n  }\n}\n'),
        ("", '{\n  "gate": {\n    "mode": "off"\n  }\n}\n'),
        ('{"z":1}', '{"z": 1, "gate": {"mode": "off"}}'),
        ('{"gate": {"mode": "on", "x": 1}, "a": null}\n', '{"gate": {"mode": "off", "x": 1}, "a": null}\n'),
        (
            '{\n    "z": [],\n    "a": "é"\n}\n',
            '{\n    "z": [],\n    "a": "é",\n    "gate": {\n        "mode": "off"\n    }\n}\n',
        ),
        ('{\n\t"z": 1\n}', '{\n\t"z": 1,\n\t"gate": {\n\t\t"mode": "off"\n\t}\n}'),
        (
            '\ufeff{\r\n  "z": 1\r\n}\r\n',
            '\ufeff{\r\n  "z": 1,\r\n  "gate": {\r\n    "mode": "off"\r\n  }\r\n}\r\n',
        ),
        (r'{"z": "\ud800"}', r'{"z": "\ud800", "gate": {"mode": "off"}}'),
        ('{"gate": "broken"}', '{"gate": {"mode": "off"}}'),
    ],
    ids=[
        "missing",
        "empty",
        "one line",
        "key there",
        "four spaces",
        "tabs",
        "mark and CRLF",
        "lone surrogate",
        "broken section",
    ],
)
def test_writing_keeps_everything_else(tmp_path: Path, before: str | None, after: str):
    path = tmp_path / "new" / "folders" / "s.json"
    if before is not None:
        put(path, before)
    write(path, "gate.mode", "off")
    assert path.read_bytes().decode() == after
    assert inside(path.parent) == ["s.json"]


def test_writing_none_takes_the_key_out(tmp_path: Path):
    path = put(tmp_path / "s.json", '{"gate": {"mode": "off", "x": 1}}')
    write(path, "gate.mode", None)
    assert path.read_text() == '{"gate": {"x": 1}}'


def test_writing_what_is_there_already_leaves_the_file_alone(tmp_path: Path):
    path = put(tmp_path / "s.json", '{"gate": {"mode": "off"}}')
    before = path.stat()
    write(path, "gate.mode", "off")
    assert path.stat().st_ino == before.st_ino


def test_a_shorter_file_leaves_nothing_of_the_longer_one(tmp_path: Path):
    path = put(tmp_path / "s.json", {"protections": {"toolNames": ["x" * 1000] * 7}})
    write(path, "protections.toolNames", [])
    assert json.loads(path.read_text()) == {"protections": {"toolNames": []}}


@pytest.mark.parametrize(("key", "value"), [("gate.mode", "no"), ("gate.mod", "on"), ("gate", {})])
def test_what_is_not_allowed_is_not_written(tmp_path: Path, key: str, value: object):
    path = tmp_path / "sub" / "s.json"
    with pytest.raises(SettingsError):
        write(path, key, value)
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    # Of blanks nothing is lost.
    [pytest.param(*case, id=name) for name, case in BROKEN.items() if name != "only blanks"],
)
def test_a_broken_file_is_not_written_over(tmp_path: Path, content: str | bytes, message: str):
    path = put(tmp_path / "s.json", content)
    before = path.read_bytes()
    with pytest.raises(SettingsError) as caught:
        write(path, "enabled", False)
    assert str(caught.value).startswith(f"{path}{message}")
    assert path.read_bytes() == before
    assert inside(tmp_path) == ["s.json"]


@pytest.mark.parametrize("number", ["1e999", "NaN", "9" * 5000])
def test_a_file_with_a_number_that_json_has_not_is_not_written_over(tmp_path: Path, number: str):
    path = put(tmp_path / "s.json", f'{{"x": {number}}}')
    with pytest.raises(SettingsError, match="cannot be written: "):
        write(path, "enabled", False)
    assert path.read_text() == f'{{"x": {number}}}'


@posix_only
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_writing_keeps_the_mode(tmp_path: Path, mode: int):
    path = put(tmp_path / "s.json", {})
    path.chmod(mode)
    write(path, "enabled", False)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix_only
def test_a_new_file_has_the_mode_that_the_user_wants(tmp_path: Path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "s.json", "enabled", False)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s.json").stat().st_mode) == 0o640


@posix_only
@pytest.mark.parametrize("content", ["{}", None], ids=["there", "dangling"])
def test_writing_follows_a_link_to_its_target(tmp_path: Path, content: str | None):
    target = tmp_path / "dotfiles" / "s.json"
    if content is not None:
        put(target, content)
    link = tmp_path / "agent" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(target)
    write(link, "enabled", False)
    assert link.is_symlink()
    assert json.loads(target.read_text()) == {"enabled": False}
    assert inside(link.parent) == ["settings.json"]
    assert inside(target.parent) == ["s.json"]


def test_a_read_only_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = put(tmp_path / "s.json", {})
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *_arguments: False)  # for root everything is writable
    with pytest.raises(SettingsError, match=r"cannot be written: it is read-only$"):
        write(path, "enabled", False)
    assert path.read_text() == "{}"
    assert inside(tmp_path) == ["s.json"]


@pytest.mark.parametrize("blocked", ["s.json", "sub"])
def test_what_stands_in_the_way_is_one_error(tmp_path: Path, blocked: str):
    if blocked == "sub":
        put(tmp_path / "sub", "x")
    else:
        (tmp_path / "sub" / "s.json").mkdir(parents=True)
    with pytest.raises(SettingsError) as caught:
        write(tmp_path / "sub" / "s.json", "enabled", False)
    assert str(tmp_path / "sub" / "s.json") in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
):
    path = put(tmp_path / "s.json", '{"x": 1}')

    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), fail)
    with pytest.raises(SettingsError, match=r"s\.json: cannot be written: no space left on device$"):
        write(path, "enabled", False)
    assert path.read_text() == '{"x": 1}'
    assert inside(tmp_path) == ["s.json"]


# ---------------------------------------------------------------- writers at the same time


def write_own_key(path: Path, key: str, start: Callable[[], object]) -> None:
    start()
    for number in range(1, 11):
        write(path, key, number)


COUNTS = [entry.key for entry in SETTINGS if entry.type == "whole number"]


def run_together(path: Path, keys: list[str]) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(keys))
    writers = [context.Process(target=write_own_key, args=(path, key, barrier.wait)) for key in keys]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * len(keys)


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path: Path):
    path = put(tmp_path / "s.json", {"theirs": "x" * 5000})
    run_together(path, COUNTS)
    loaded = load_file(path)
    assert [get(loaded.settings, key) for key in COUNTS] == [10] * len(COUNTS)
    assert json.loads(path.read_text())["theirs"] == "x" * 5000
    assert inside(tmp_path) == ["s.json"]


@posix_only
def test_processes_that_find_an_abandoned_lock_lose_nothing(tmp_path: Path):
    path = put(tmp_path / "s.json", {})
    lock = tmp_path / "s.json.lock"
    lock.mkdir()
    os.utime(lock, (0, 0))
    run_together(path, COUNTS)
    assert [get(load_file(path).settings, key) for key in COUNTS] == [10] * len(COUNTS)


def test_a_reader_never_sees_half_a_file(tmp_path: Path):
    path = put(tmp_path / "s.json", {"protections": {"toolNames": ["x" * 100] * 1000}})
    writer = threading.Thread(target=write_own_key, args=(path, "window", lambda: None))
    writer.start()
    while writer.is_alive():
        assert len(load_file(path).settings.protections.tool_names) == 1000
    writer.join()


def test_a_lock_of_pis_is_waited_for(tmp_path: Path):
    path = put(tmp_path / "s.json", {})
    lock = tmp_path / "s.json.lock"
    lock.mkdir()

    def finish() -> None:
        time.sleep(0.1)
        put(path, {"by": "pi"})
        lock.rmdir()

    other = threading.Thread(target=finish)
    other.start()
    write(path, "enabled", False)
    other.join()
    assert json.loads(path.read_text()) == {"by": "pi", "enabled": False}


def test_a_lock_that_stays_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(settings_files, "_LOCK_PATIENCE_SECONDS", 0.05)
    path = put(tmp_path / "s.json", {})
    lock = tmp_path / "s.json.lock"
    lock.mkdir()
    with pytest.raises(SettingsError) as caught:
        write(path, "enabled", False)
    assert str(caught.value) == f"{path}: cannot be written: another program holds {lock}"
    assert lock.is_dir()


@posix_only
def test_a_writer_of_ours_that_stays_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import fcntl

    monkeypatch.setattr(settings_files, "_LOCK_PATIENCE_SECONDS", 0.05)
    path = put(tmp_path / "s.json", {})
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(SettingsError, match="another program is writing in "):
            write(path, "enabled", False)
    finally:
        os.close(handle)
    write(path, "enabled", False)


@posix_only
def test_a_file_system_without_locks_leaves_pis_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import fcntl

    def refuse(*_arguments: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write(tmp_path / "s.json", "enabled", False)
    assert load_file(tmp_path / "s.json").settings == Settings(enabled=False)


def test_an_abandoned_lock_is_cleared(tmp_path: Path):
    lock = tmp_path / "s.json.lock"
    lock.mkdir()
    os.utime(lock, (0, 0))
    write(tmp_path / "s.json", "enabled", False)
    assert inside(tmp_path) == ["s.json"]


@pytest.mark.parametrize("kind", ["file", "full folder"])
def test_what_is_no_lock_is_not_cleared(tmp_path: Path, kind: str):
    lock = tmp_path / "s.json.lock"
    put(lock if kind == "file" else lock / "inside", "x")
    os.utime(lock, (0, 0))
    with pytest.raises(SettingsError, match=r"is in the way, and is no lock: remove it$"):
        write(tmp_path / "s.json", "enabled", False)
    assert lock.exists()


# ---------------------------------------------------------------- properties

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
per_example = hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@per_example
@given(st.binary(max_size=200))
def test_no_bytes_make_reading_raise(home: Home, content: bytes):
    put(home.extension, content)
    put(home.globally, content)
    assert len(home.load().warnings) <= 2


@per_example
@given(
    st.dictionaries(st.text(max_size=5), values, max_size=5),
    st.sampled_from([None, 2, 4, "\t"]),
    st.integers(0, 10**6),
)
def test_writing_one_key_changes_no_other(
    tmp_path: Path, data: dict[str, object], indent: int | str | None, value: int
):
    path = put(tmp_path / "s.json", json.dumps(data, indent=indent))
    write(path, "reserve", value)
    after = json.loads(path.read_bytes())
    assert after == {**data, "reserve": value}
    assert list(after) == list({**data, "reserve": value})
    if data and "reserve" not in data:
        assert path.read_text(encoding="utf-8") == json.dumps(after, indent=indent, ensure_ascii=False)
