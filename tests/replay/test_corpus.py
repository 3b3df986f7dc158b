"""Which files are found, what is read of them, and what becomes of those that cannot be read."""

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.formats.sessions import manifest
from tests.replay import sessions
from tests.stores.sessions import Log

from prunewise import InputError
from prunewise.recording import Recording
from prunewise.replay import corpus
from prunewise.replay.corpus import Selection, Source, find, find_known, load
from prunewise.replay.results import ErrorRow
from prunewise.replay.sweep import Candidate, percentiles, sweep


def names(listing: corpus.Listing, folder: Path) -> list[str]:
    return [os.path.relpath(source.name, folder) for source in listing.sources]


def source(path: Path) -> Source:
    (found,) = find([path]).sources
    return found


def one(path: Path, **options: Any) -> Recording:
    (recording,) = load(source(path), **options)
    return recording


# ---------------------------------------------------------------- finding


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files that could be sessions, at several depths, and others."""
    for name in ("b.jsonl", "a.json", "deep/er/c.traj", "deep/d.db", "notes.txt", "deep/.hidden/e.jsonl"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return tmp_path / "in"


ALL = ["a.json", "b.jsonl", "deep/.hidden/e.jsonl", "deep/d.db", "deep/er/c.traj"]


def test_a_folder_is_searched_at_any_depth_by_the_names_of_files(folder: Path):
    assert names(find([folder]), folder) == ALL


def test_a_file_that_is_named_is_taken_whatever_its_name(folder: Path):
    assert names(find([folder / "notes.txt"]), folder) == ["notes.txt"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.json*", ["a.json", "b.jsonl"]),
        ("**/*.traj", ["deep/er/c.traj"]),
        ("de*", ["deep/.hidden/e.jsonl", "deep/d.db", "deep/er/c.traj"]),
        ("*", ALL),
        ("*.txt", ["notes.txt"]),
    ],
)
def test_a_glob(folder: Path, pattern: str, found: list[str]):
    assert names(find([folder / pattern]), folder) == found


def test_a_name_with_the_letters_of_a_glob_is_a_name(folder: Path):
    (folder / "[x].jsonl").write_text("{}")
    assert names(find([folder / "[x].jsonl"]), folder) == ["[x].jsonl"]


def test_each_file_counts_once_however_often_it_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    (folder / "link.jsonl").symlink_to("b.jsonl")
    listing = find([folder, folder / "deep", "b.jsonl", folder / "b.jsonl", str(folder / "*.jsonl")])
    assert names(listing, folder) == ALL
    assert find([folder / "deep", folder]).sources == find([folder, folder / "deep"]).sources


def test_links_that_lead_in_circles_end(folder: Path):
    (folder / "deep" / "up").symlink_to("..")
    (folder / "deep" / "self").symlink_to(".")
    assert names(find([folder]), folder) == ALL


def test_a_link_to_a_folder_elsewhere_is_followed(folder: Path, tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "z.jsonl").write_text("{}")
    (folder / "away").symlink_to(tmp_path / "out")
    assert "away/z.jsonl" in names(find([folder]), folder)


def test_a_broken_link_costs_a_row(folder: Path):
    (folder / "gone.jsonl").symlink_to("nowhere")
    listing = find([folder])
    assert names(listing, folder) == ALL
    assert listing.problems == (ErrorRow(str(folder / "gone.jsonl"), "no such file or directory"),)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_no_session(folder: Path):
    os.mkfifo(folder / "pipe.jsonl")
    assert find([folder]).problems == (ErrorRow(str(folder / "pipe.jsonl"), "not a regular file"),)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="this user may read everything")
def test_a_folder_that_may_not_be_read_costs_a_row(folder: Path):
    (folder / "deep").chmod(0)
    try:
        listing = find([folder])
    finally:
        (folder / "deep").chmod(0o755)
    assert [row.reason for row in listing.problems] == ["permission denied"]
    assert names(listing, folder) == ["a.json", "b.jsonl"]


@pytest.mark.parametrize(
    ("path", "said"), [("nothing", "no such file or folder"), ("*.nothing", "nothing matches this pattern")]
)
def test_what_is_not_there_is_said(folder: Path, path: str, said: str):
    with pytest.raises(InputError, match=said):
        find([folder / path])


def test_the_home_folder_may_be_short(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    assert names(find(["~/deep/*.db"]), folder) == ["deep/d.db"]


def test_sources_say_size_and_time(folder: Path):
    found = source(folder / "a.json")
    assert (found.size, int(found.stamp)) == (2, (folder / "a.json").stat().st_mtime_ns)


def test_every_known_agent_is_looked_for(tmp_path: Path):
    places = {
        "pi": ".pi/agent/sessions/--repo--/s.jsonl",
        "claude-code": ".claude/projects/-repo/s.jsonl",
        "codex": ".codex/sessions/2026/03/02/rollout-1.jsonl",
        "gemini-cli": ".gemini/tmp/abc/chats/s.json",
        "copilot": ".copilot/session-state/s/events.jsonl",
        "opencode": ".local/share/opencode/opencode.db",
    }
    for place in places.values():
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text("{}")
    listing = find_known({}, tmp_path)
    assert {folder.agent: folder.files for folder in listing.folders} == dict.fromkeys(places, 1)
    assert names(listing, tmp_path) == sorted(places.values())
    assert find_known({}, tmp_path / "nobody") == corpus.Listing(())


# ---------------------------------------------------------------- URLs


@pytest.fixture
def bucket() -> Any:
    """A bucket in memory."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/bucket/in/s.jsonl", sessions.pi())
    memory.pipe("/bucket/t.traj", sessions.swe_agent())
    memory.pipe("/bucket/readme.txt", b"x")
    yield memory
    memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("memory://bucket", ["memory:///bucket/in/s.jsonl", "memory:///bucket/t.traj"]),
        ("memory://bucket/**/*.jsonl", ["memory:///bucket/in/s.jsonl"]),
        ("memory://bucket/*", ["memory:///bucket/in/s.jsonl", "memory:///bucket/t.traj"]),
        ("memory://bucket/t.traj", ["memory:///bucket/t.traj"]),
    ],
)
@pytest.mark.usefixtures("bucket")
def test_urls_are_found_and_read(url: str, found: list[str]):
    listing = find([url])
    assert [one.name.replace("memory://bucket", "memory:///bucket") for one in listing.sources] == found
    assert [recording.llm_calls for one in listing.sources for recording in load(one)] == [14] * len(found)


def test_an_archive_is_read(tmp_path: Path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/s.jsonl", sessions.pi())
    (found,) = find([f"zip://in/*::file://{tmp_path}/a.zip"]).sources
    assert [recording.session for recording in load(found)] == ["pi-0"]


def test_a_package_that_a_url_needs_is_named(monkeypatch: pytest.MonkeyPatch):
    core = pytest.importorskip("fsspec.core")

    def missing(_url: str) -> None:
        message = "Install s3fs to access S3"
        raise ImportError(message)

    monkeypatch.setattr(core, "url_to_fs", missing)
    with pytest.raises(InputError, match=r"^s3://bucket/x: Install s3fs to access S3$"):
        find(["s3://bucket/x"])


@pytest.mark.parametrize("url", ["memory://nothing/x.jsonl", "nobody://x"])
def test_a_url_that_leads_nowhere_is_said(url: str):
    with pytest.raises(InputError, match=f"^{url}: "):
        find([url])


def test_a_url_without_sessions_is_said(bucket: Any):
    bucket.pipe("/bucket/texts/a.txt", b"x")
    with pytest.raises(InputError, match="no session file"):
        find(["memory://bucket/texts"])


def test_a_database_at_a_url_is_not_read(bucket: Any, tmp_path: Path):
    path = sessions.database(tmp_path / "opencode.db", ("ses_1", "/repo", 1))
    bucket.pipe("/bucket/o.db", path.read_bytes())
    with pytest.raises(InputError, match="only where it is a file on this machine"):
        list(load(find(["memory://bucket/o.db"]).sources[0]))


# ---------------------------------------------------------------- reading


def test_every_format_is_read(tmp_path: Path):
    for name, path in sessions.one_of_each(tmp_path).items():
        recording = one(path)
        assert recording.source == str(path)
        assert recording.format == ("anthropic" if name == "request" else name)
        assert recording.llm_calls == (15 if name == "request" else 14)


def test_a_database_holds_many_sessions(tmp_path: Path):
    path = sessions.database(tmp_path / "opencode.db", ("ses_1", "/repo", 1), ("ses_2", "/other", 2))
    found = list(load(source(path)))
    assert [recording.source for recording in found] == [f"{path}:ses_1", f"{path}:ses_2"]
    assert [recording.cwd for recording in found] == ["/repo", "/other"]
    assert [one.session for one in load(source(path), "opencode")] == ["ses_1", "ses_2"]


def test_a_format_can_be_forced(tmp_path: Path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(sessions.pi())
    assert one(path, format="pi").format == "pi"
    with pytest.raises(InputError):
        one(path, format="codex")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b'{"name": "package"}', "no session that any reader knows"),
        (b"\x00\xff" * 1000, "no session that any reader knows"),
        (b"SQLite format 3\x00" + b"\x00" * 1000, "no opencode database"),
    ],
)
def test_a_file_that_is_no_session_is_said(tmp_path: Path, data: bytes, said: str):
    path = tmp_path / "s.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=said) as caught:
        one(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpus, "MOST_BYTES", 3 * 2**20)
    path = tmp_path / "s.jsonl"
    path.write_bytes(sessions.pi())
    with path.open("r+b") as file:
        file.truncate(3 * 2**20 + 1)
    with pytest.raises(InputError, match="larger than 3 MB"):
        one(path)


def test_a_line_that_is_still_being_written_is_passed_over(tmp_path: Path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(sessions.claude_code()[:-100])
    recording = one(path)
    assert recording.llm_calls == 14
    assert len(recording.warnings) == 1


def test_a_file_that_is_being_replaced_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "s.json"
    whole = sessions.gemini_cli()
    path.write_bytes(whole[:-50])
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)

    states = iter([(1, 1), (2, 2), (3, 3)])
    monkeypatch.setattr(corpus, "_state", lambda name: next(states))  # noqa: ARG005
    monkeypatch.setattr(corpus.time, "sleep", lambda seconds: (pause(seconds), path.write_bytes(whole)))
    assert one(path).llm_calls == 14
    assert len(paused) == 1


def test_a_broken_file_that_nobody_writes_is_read_once(tmp_path: Path):
    path = tmp_path / "s.json"
    path.write_bytes(sessions.gemini_cli()[:-50])
    with pytest.raises(InputError, match="no JSON document"):
        one(path)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError("s.json: broken, left out"), "broken, left out"),
        (InputError(""), "cannot be read"),
        (PermissionError(13, "Permission denied"), "permission denied"),
        (ValueError("odd\nmore"), "ValueError: odd"),
        (RecursionError(), "RecursionError"),
    ],
)
def test_the_reason_is_one_line(error: Exception, said: str):
    assert corpus.reason(error, "s.json") == said


# ---------------------------------------------------------------- which are asked for

NOW = datetime(2026, 3, 31, 15, 30, 20).astimezone().timestamp()


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("2026-03-01", (3, 1)),
        ("2026-03-01T12:30", (3, 1, 12, 30)),
        ("30d", (3, 1)),
        ("2w", (3, 17)),
        ("4h", (3, 31, 11)),
    ],
)
def test_since(text: str, then: tuple[int, ...]):
    assert corpus.since(text, NOW) == datetime(2026, *then).astimezone().timestamp()


@pytest.mark.parametrize("text", ["", "yesterday", "30", "d", "2026-13-01", "99999999999999d"])
def test_since_what_is_no_time(text: str):
    with pytest.raises(InputError, match="neither a date"):
        corpus.since(text, NOW)


@pytest.mark.parametrize(("after", "taken"), [(-1, True), (0, True), (1, False)])
def test_a_session_counts_from_its_last_call(tmp_path: Path, after: float, taken: bool):
    path = tmp_path / "s.jsonl"
    path.write_bytes(sessions.pi())
    recording = one(path)
    last = max(call.time for epoch in recording.epochs for call in epoch.calls if call.time)
    assert Selection(since=last + after).takes(recording, source(path)) is taken


def test_a_file_that_was_changed_before_holds_nothing_newer(tmp_path: Path):
    path = tmp_path / "s.traj"
    path.write_bytes(sessions.swe_agent())
    os.utime(path, (1000, 1000))
    found = source(path)
    assert not Selection(since=1001.0).may_hold(found)
    assert Selection(since=1000.0).may_hold(found)
    assert Selection(since=1001.0).may_hold(Source("s3://x", 1, "W/etag"))
    # The session knows no times, so the file's own counts.
    assert Selection(since=999.0).takes(one(path), found)
    assert not Selection(since=1001.0).takes(one(path), found)


@pytest.mark.parametrize(
    ("project", "taken"),
    [
        ("", True),
        ("repo", True),
        ("REPO", True),
        ("/home/me/repo", True),
        ("/home/*/repo", True),
        ("/home/*", True),
        ("-home-me", True),
        ("*repo", True),
        ("projects", False),
        ("home/?", False),
        ("other", False),
    ],
)
def test_a_project_is_a_part_of_its_folder_or_a_glob(tmp_path: Path, project: str, taken: bool):
    path = tmp_path / "projects" / "-home-me-repo" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(sessions.claude_code(cwd="/home/me/repo"))
    assert Selection(project=project).takes(one(path), source(path)) is taken


def test_a_project_is_told_by_the_folder_where_the_session_does_not_say(tmp_path: Path):
    path = tmp_path / "tmp" / "abc" / "chats" / "s.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(sessions.gemini_cli())
    assert corpus.project_of(one(path), source(path)) == "abc"
    assert Selection(project="abc").takes(one(path), source(path))


# ---------------------------------------------------------------- without compaction


def test_without_compaction_every_message_of_the_branch_is_sent(tmp_path: Path):
    log = Log()
    log.user()
    log.exchange()
    kept = log.user()
    log.add("compaction", summary="s", firstKeptEntryId=kept, tokensBefore=10)
    log.exchange()
    log.answer("no", stop="error")
    path = log.save(tmp_path / "s.jsonl")
    compacted, whole = one(path), one(path, compaction=False)
    assert len(compacted.epochs) == 2
    (epoch,) = whole.epochs
    assert [message.role for message in epoch.messages] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert [(call.position, call.failed) for call in epoch.calls] == [(1, False), (4, False), (6, True)]
    assert (whole.format, whole.session, whole.cwd) == ("pi", "the-session", "/project")


@pytest.mark.corpus
def test_the_sweep_agrees_with_the_extensions_own(shared: Path):
    golden = json.loads((shared / "golden" / "benchmark-pi.json").read_bytes())
    found = [
        Candidate(row["state"], row["tailTokens"], row["tokensRemoved"], row["remainingCalls"])
        for session in golden["sessions"]
        for row in session["candidates"]
    ]
    recommended = {str(one.ratio): one for one in sweep(found, golden["ratios"])}
    for ratio, wanted in golden["aggregate"]["recommended"].items():
        for state, threshold in wanted.items():
            got = getattr(recommended[ratio], state)
            assert (got.threshold, round(got.total, 1), got.tested) == (
                threshold["threshold"],
                threshold["total"],
                threshold["maxTested"],
            ), (ratio, state)
    remaining = percentiles(one.remaining_calls for one in found)
    assert {"count": remaining.count, "p50": remaining.p50, "p90": remaining.p90} == golden["aggregate"][
        "remainingCalls"
    ]


NOT_REQUESTED = "No response requested."
"""An answer that Claude Code wrote itself: the manifest counts it, but no request was made."""


@pytest.mark.corpus
def test_llm_calls_are_those_of_the_manifest(shared: Path):
    rows = manifest(shared)
    found = {file: one(shared / "corpus" / file).llm_calls for file in rows}
    other = {file for file, row in rows.items() if found[file] != int(row["llm_calls"])}
    for file in other:
        text = (shared / "corpus" / file).read_text(encoding="utf-8")
        assert text.count(NOT_REQUESTED) == 1 == int(rows[file]["llm_calls"]) - found[file], file
    assert len(rows) - len(other) >= 118
