"""The same rows wherever, in whatever order and after whatever interruption they are found."""

import cProfile
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.replay import sessions
from tests.replay.deadly import Deadly

from prunewise import InputError, SettingsError
from prunewise.prices import Override, PriceBook
from prunewise.recording import Recording
from prunewise.replay import corpus, journal, runner
from prunewise.replay.corpus import Selection, Source, find
from prunewise.replay.journal import Done, Journal, encode, open_journal
from prunewise.replay.results import ErrorRow, Row, SessionRow
from prunewise.replay.runner import Choice, Inquiry, choose, run

INQUIRY = Inquiry((choose("none"), choose("documented"), choose("langchain")), with_optimal=True)
SMALL = Inquiry((choose("none"),), with_loss=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session of each format, a database, and files that are none."""
    folder = tmp_path / "in"
    folder.mkdir()
    sessions.one_of_each(folder)
    sessions.database(folder / "opencode.db", ("ses_1", "/repo", 1), ("ses_2", "/other", 2))
    for seed in range(1, 5):
        (folder / f"more-{seed}.jsonl").write_bytes(sessions.pi(3, seed))
    (folder / "bad-empty.json").write_bytes(b"")
    (folder / "bad-other.json").write_bytes(b'{"name": "package"}')
    (folder / "bad-torn.json").write_bytes(sessions.gemini_cli()[:-40])
    return folder


@pytest.fixture
def sources(folder: Path) -> tuple[Source, ...]:
    return find([folder]).sources


def by_source(rows: Iterable[Row]) -> bytes:
    """The rows in order, to the last digit."""
    return msgspec.json.encode(sorted(rows, key=lambda row: row.source))


class Steps:
    """A progress that counts."""

    def __init__(self) -> None:
        self.files = self.size = self.workers = 0
        self.done: list[tuple[int, int, int]] = []

    def begin(self, files: int, size: int, workers: int) -> None:
        self.files, self.size, self.workers = files, size, workers

    def step(self, size: int, sessions: int, left_out: int) -> None:
        self.done.append((size, sessions, left_out))


# ---------------------------------------------------------------- the same rows


def test_rows_are_the_same_for_any_number_of_workers_and_any_order(sources: tuple[Source, ...]):
    alone = list(run(sources, INQUIRY))
    assert len(alone) == len(sources) + 1  # the database holds two
    assert sum(isinstance(row, SessionRow) for row in alone) == 15
    wanted = by_source(alone)
    for jobs in (2, 3):
        shuffled = random.Random(jobs).sample(sources, len(sources))
        steps = Steps()
        assert by_source(run(shuffled, INQUIRY, jobs=jobs, progress=steps)) == wanted
        assert (steps.files, steps.workers) == (len(sources), jobs)
        assert sorted(size for size, _, _ in steps.done) == sorted(source.size for source in sources)


def test_bad_files_cost_a_row_each(sources: tuple[Source, ...]):
    bad = [row for row in run(sources, SMALL) if isinstance(row, ErrorRow)]
    assert {Path(row.source).name: row.reason.split(":")[0] for row in bad} == {
        "bad-empty.json": "empty",
        "bad-other.json": "no session that any reader knows",
        "bad-torn.json": "no JSON document",
    }
    assert all(row.bytes == Path(row.source).stat().st_size for row in bad)


def test_a_file_that_has_gone_costs_a_row(sources: tuple[Source, ...], folder: Path):
    (folder / "pi.jsonl").unlink()
    (row,) = [row for row in run(sources, SMALL) if row.source.endswith("pi.jsonl")]
    assert row == ErrorRow(str(folder / "pi.jsonl"), "no such file or directory", row.bytes)


def test_a_reader_that_crashes_costs_a_row(sources: tuple[Source, ...], monkeypatch: pytest.MonkeyPatch):
    def crash(source: Source, *_: Any, **__: Any) -> Iterator[Recording]:
        if source.name.endswith("codex.jsonl"):
            raise KeyError("odd")
        yield from load(source)

    load = corpus.load
    monkeypatch.setattr(runner, "load", crash)
    rows = list(run(sources, SMALL))
    (row,) = [row for row in rows if row.source.endswith("codex.jsonl")]
    assert isinstance(row, ErrorRow)
    assert row.reason == "KeyError: 'odd'"
    assert len(rows) == len(sources) + 1


def test_one_bad_session_of_a_database_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = sessions.database(tmp_path / "opencode.db", ("ses_1", "/repo", 1), ("ses_2", "/other", 2))

    def crash(recording: Recording, *arguments: Any, **options: Any) -> SessionRow:
        if recording.session == "ses_1":
            raise ZeroDivisionError
        return replay(recording, *arguments, **options)

    replay = runner.replay
    monkeypatch.setattr(runner, "replay", crash)
    first, second = run(find([path]).sources, SMALL)
    assert first == ErrorRow(f"{path}:ses_1", "ZeroDivisionError")
    assert second.source == f"{path}:ses_2"


def test_a_figure_that_json_does_not_know_costs_a_row(
    sources: tuple[Source, ...], monkeypatch: pytest.MonkeyPatch
):
    def endless(recording: Recording, *arguments: Any, **options: Any) -> SessionRow:
        return msgspec.structs.replace(replay(recording, *arguments, **options), scale=float("inf"))

    replay = runner.replay
    monkeypatch.setattr(runner, "replay", endless)
    (row,) = run([one for one in sources if one.name.endswith("codex.jsonl")], SMALL)
    assert isinstance(row, ErrorRow)
    assert row.reason.startswith("a figure that is no number")


def test_a_worker_that_dies_costs_the_file_that_it_died_of(sources: tuple[Source, ...], folder: Path):
    for number in (1, 2):
        (folder / f"deadly-{number}.jsonl").write_bytes(sessions.pi(3, 9))
    every = find([folder]).sources
    rows = list(run(every, msgspec.structs.replace(SMALL, selection=Deadly()), jobs=2))
    died = {Path(row.source).name: row for row in rows if "deadly" in row.source}
    assert set(died) == {"deadly-1.jsonl", "deadly-2.jsonl"}
    assert all("died" in row.reason for row in died.values() if isinstance(row, ErrorRow))
    assert by_source(row for row in rows if "deadly" not in row.source) == by_source(run(sources, SMALL))


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="file names are text there")
def test_a_file_name_that_is_no_text(tmp_path: Path):
    name = os.fsdecode(bytes(tmp_path) + b"/\xff.jsonl")
    with open(name, "wb") as file:  # noqa: PTH123
        file.write(sessions.pi())
    (found,) = find([tmp_path]).sources
    (row,) = run([found], SMALL)
    assert row.source.endswith("/\\udcff.jsonl")
    with_journal, _ = open_journal(tmp_path / "cache", "q", resume=True)
    list(run([found], SMALL, journal=with_journal))
    assert found in with_journal
    assert list(with_journal.rows([found])) == [row]
    with_journal.close()


@pytest.mark.parametrize(
    "inquiry", [Inquiry(with_loss=False), Inquiry((choose("none"), choose("documented")))]
)
def test_the_work_grows_with_the_length_of_a_session(tmp_path: Path, inquiry: Inquiry):
    counts: list[int] = []
    for turns in (2, 100, 200):
        (tmp_path / f"{turns}.jsonl").write_bytes(sessions.pi(turns))
        (source,) = find([tmp_path / f"{turns}.jsonl"]).sources
        profile = cProfile.Profile()
        profile.runcall(runner.replay_file, source, inquiry)
        counts.append(sum(entry.callcount for entry in profile.getstats()))
    assert counts[2] < 2.3 * counts[1]


# ---------------------------------------------------------------- the question


def test_a_policy_is_chosen_by_name_or_by_its_settings(tmp_path: Path):
    (tmp_path / "mine.json").write_text('{"gate": {"mode": "off"}}')
    mine = choose(str(tmp_path / "mine.json"))
    assert (mine.name, mine.settings and mine.settings.gate.mode) == ("mine.json", "off")
    assert mine.policy().name == "mine.json"
    assert choose("documented") == Choice("documented")
    with pytest.raises(InputError, match="neither known nor a settings file"):
        choose("nothing")
    (tmp_path / "mine.json").write_text("{")
    with pytest.raises(SettingsError):
        choose(str(tmp_path / "mine.json"))


@pytest.mark.parametrize(
    "other",
    [
        {"policies": ()},
        {"with_optimal": False},
        {"with_loss": False},
        {"prices": PriceBook(Override(read=0.5))},
        {"window": 100},
        {"format": "pi"},
        {"compaction": False},
        {"selection": Selection(project="x")},
        {"policies": (Choice("documented", choose("documented").settings),)},
    ],
)
def test_every_part_of_the_question_tells_it_from_others(other: dict[str, Any]):
    assert msgspec.structs.replace(INQUIRY, **other).digest() != INQUIRY.digest()


def test_another_version_asks_another_question(monkeypatch: pytest.MonkeyPatch):
    before = INQUIRY.digest()
    assert before == msgspec.structs.replace(INQUIRY).digest()
    monkeypatch.setattr(runner, "__version__", "999")
    assert INQUIRY.digest() != before


def test_what_was_replayed_without_the_extra_priced_is_replayed_again_with_it(
    monkeypatch: pytest.MonkeyPatch,
):
    before = INQUIRY.digest()
    monkeypatch.setattr(runner.shell, "problem", lambda: "no parser")
    assert INQUIRY.digest() != before


def test_sessions_that_are_not_asked_for_have_no_row(sources: tuple[Source, ...]):
    steps = Steps()
    asked = msgspec.structs.replace(SMALL, selection=Selection(project="other"))
    rows = [row for row in run(sources, asked, progress=steps) if isinstance(row, SessionRow)]
    assert [row.session for row in rows] == ["ses_2"]
    assert sum(left_out for _, _, left_out in steps.done) == 14


def test_prices_are_the_users(sources: tuple[Source, ...]):
    one = [source for source in sources if source.name.endswith("claude-code.jsonl")]
    (row,) = run(one, SMALL)
    (dear,) = run(one, msgspec.structs.replace(SMALL, prices=PriceBook(Override(read=1.0, write=1.0))))
    assert isinstance(row, SessionRow)
    assert isinstance(dear, SessionRow)
    assert row.figures[0].cost < dear.figures[0].cost


# ---------------------------------------------------------------- the journal


class Rounds:
    """Runs with a journal in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, sources: Sequence[Source], *, resume: bool = True, most: int = 10**6
    ) -> tuple[bytes, int]:
        """The journal's rows after a run that is left after so many rows, and how many files it replayed."""
        found, problem = open_journal(self.folder, SMALL.digest(), resume=resume)
        assert not problem
        steps = Steps()
        rows = run(sources, SMALL, journal=found, progress=steps)
        for number, _ in enumerate(rows, start=1):
            if number == most:
                break
        rows.close()  # pyright: ignore[reportAttributeAccessIssue]
        result = by_source(found.rows(sources)), len(steps.done)
        found.close()
        return result

    @property
    def path(self) -> Path:
        (path,) = self.folder.glob("*.jsonl")
        return path


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    return Rounds(tmp_path / "cache")


def test_a_run_goes_on_where_it_stopped(rounds: Rounds, sources: tuple[Source, ...]):
    wanted = by_source(run(sources, SMALL))
    _, first = rounds(sources, most=5)
    assert 0 < first <= 5
    assert rounds(sources) == (wanted, len(sources) - first)
    assert rounds(sources) == (wanted, 0)
    assert rounds(sources, resume=False) == (wanted, len(sources))


def test_the_rows_of_the_journal_are_in_the_order_of_sources(rounds: Rounds, sources: tuple[Source, ...]):
    rounds(tuple(reversed(sources)))
    found, _ = open_journal(rounds.folder, SMALL.digest(), resume=True)
    rows = found.rows(sources)
    assert list(rows) == list(rows) == sorted(rows, key=lambda row: row.source)
    assert len(found) == len(sources)
    assert [row.source for row in found.rows(sources[2:4])] == [row.source for row in list(rows)[2:4]]
    found.close()


@pytest.mark.parametrize(
    "tail", [b"{", b'{"source":{"name":"x"', b'{"source":1}\n', b"\xff\xff\n", b"\x00" * 50]
)
def test_a_torn_end_is_passed_over(rounds: Rounds, sources: tuple[Source, ...], tail: bytes):
    wanted, _ = rounds(sources[:4])
    with rounds.path.open("ab") as file:
        file.write(tail)
    assert rounds(sources[:4]) == (wanted, 0)
    _, replayed = rounds(sources)
    assert replayed == len(sources) - 4


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_journal_that_ends_anywhere_is_gone_on_with(rounds: Rounds, sources: tuple[Source, ...], cut: int):
    wanted, _ = rounds(sources)
    data = rounds.path.read_bytes()
    rounds.path.write_bytes(data[: len(data) * cut // 60])
    assert rounds(sources)[0] == wanted


@pytest.mark.parametrize("head", [b"", b"junk\n", b'{"question":"other"}\n', b'{"question":'])
def test_a_journal_of_another_question_is_begun_anew(
    rounds: Rounds, sources: tuple[Source, ...], head: bytes
):
    rounds(sources[:2])
    lines = rounds.path.read_bytes().splitlines(keepends=True)
    rounds.path.write_bytes(b"".join([head, *lines[1:]]))
    assert rounds(sources[:2])[1] == 2


def test_a_file_that_has_changed_is_replayed_again(rounds: Rounds, sources: tuple[Source, ...], folder: Path):
    rounds(sources)
    (folder / "more-1.jsonl").write_bytes(sessions.pi(4, 1))
    os.utime(folder / "more-2.jsonl", ns=(1, 1))
    changed = find([folder]).sources
    assert rounds(changed) == (by_source(run(changed, SMALL)), 2)
    assert rounds(changed)[1] == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"suffixCost"', b'"suffixCosu"'),
        (b'"llmCalls":', b'"llmCalls":9'),  # still JSON, and another figure
        (b'"source"', b'"sourcf"'),
        (b'"size":', b'"size":1'),
        (b'{"source"', b'\x00"source"'),
        (b"cost", b"\xff\xfest"),
        (b" {", b"  {"),
    ],
)
def test_a_damaged_line_is_replayed_again(
    rounds: Rounds, sources: tuple[Source, ...], old: bytes, new: bytes
):
    some = [one for one in sources if one.name.endswith(("codex.jsonl", "more-1.jsonl", "more-2.jsonl"))]
    found, replayed = rounds(some)
    assert replayed == 3
    lines = rounds.path.read_bytes().splitlines(keepends=True)
    damaged = [line.replace(old, new, 1) for line in lines[1:]]
    assert damaged != lines[1:]
    rounds.path.write_bytes(b"".join([lines[0], *damaged]))
    assert rounds(some) == (
        found,
        sum(one != two for one, two in zip(damaged, lines[1:], strict=True)),
    )
    assert rounds(some) == (found, 0)


def test_a_file_whose_copy_has_come_or_gone_is_replayed_again(rounds: Rounds, folder: Path):
    (folder / "copy.jsonl").write_bytes((folder / "more-1.jsonl").read_bytes())
    alone, both = (
        find([folder / "more-1.jsonl"]).sources,
        find([folder / "more-1.jsonl", folder / "copy.jsonl"]).sources,
    )
    assert rounds(alone)[1] == 1
    assert rounds(both)[1] == 2
    assert rounds(both)[1] == 0
    assert rounds(alone) == (by_source(run(alone, SMALL)), 1)


def test_two_runs_do_not_write_one_journal(tmp_path: Path, sources: tuple[Source, ...]):
    first, problem = open_journal(tmp_path, "q", resume=True)
    assert not problem
    second, problem = open_journal(tmp_path, "q", resume=True)
    assert "another run is writing to it" in problem
    line = encode(Done(sources[0], ()))
    second.add(sources[0], (), line)
    assert sources[0] in second
    assert sources[0] not in first
    first.close()
    second.close()


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, sources: tuple[Source, ...]):
    (tmp_path / "file").write_text("")
    found, problem = open_journal(tmp_path / "file" / "cache", "q", resume=True)
    assert problem.startswith(str(tmp_path / "file"))
    list(run(sources[:2], SMALL, journal=found))
    assert len(list(found.rows(sources))) == 2
    found.close()


def test_journals_that_nobody_uses_are_removed(tmp_path: Path):
    old, other = tmp_path / "old.jsonl", tmp_path / "old.txt"
    for path in (old, other):
        path.write_text("")
        os.utime(path, (0, 0))
    found, _ = open_journal(tmp_path, "q", resume=True)
    found.close()
    assert {path.name for path in tmp_path.iterdir()} == {"old.txt", "q.jsonl"}
    if sys.platform != "win32":
        assert (tmp_path / "q.jsonl").stat().st_mode & 0o077 == 0
    assert isinstance(found, Journal)
    assert journal.decode(encode(Done(Source("a"), ()))) == Done(Source("a"), ())


# ---------------------------------------------------------------- killed, and interrupted

PROGRAM = """
    import sys
    from pathlib import Path
    from prunewise.replay.corpus import find
    from prunewise.replay.journal import open_journal
    from prunewise.replay.runner import Inquiry, choose, run

    if __name__ == "__main__":
        sources = find([sys.argv[1]]).sources
        inquiry = Inquiry((choose("none"),), with_loss=False)
        journal, _ = open_journal(Path(sys.argv[2]), inquiry.digest(), resume=True)
        for row in run(sources, inquiry, jobs=int(sys.argv[3]), journal=journal):
            print(row.source, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no signals on this system")
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_killed_is_gone_on_with(tmp_path: Path, jobs: int, ends: signal.Signals):
    folder = tmp_path / "in"
    folder.mkdir()
    for seed in range(100):
        (folder / f"{seed}.jsonl").write_bytes(sessions.pi(20, seed))
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    process = subprocess.Popen(
        [sys.executable, str(program), str(folder), str(tmp_path / "cache"), str(jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, ends)
    process.stdout.read()
    process.wait(timeout=30)
    process.stdout.close()
    end = time.monotonic() + 30
    while _group_lives(process.pid):
        assert time.monotonic() < end, "its workers go on"
        time.sleep(0.05)
    wanted = by_source(run(find([folder]).sources, SMALL))
    rows, replayed = Rounds(tmp_path / "cache")(find([folder]).sources)
    assert rows == wanted
    assert 0 < replayed < 100


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


# ---------------------------------------------------------------- Dask


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x"])
def test_a_cluster_that_is_not_there_is_said(
    sources: tuple[Source, ...], address: str, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("distributed")
    monkeypatch.setattr(runner, "_PATIENCE_SECONDS", 0.5)
    with pytest.raises(InputError, match="no Dask cluster"):
        list(run(sources[:1], SMALL, dask=address))


def test_without_dask_it_is_said(sources: tuple[Source, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"prunewise\[dask\]"):
        list(run(sources[:1], SMALL, dask="local"))
