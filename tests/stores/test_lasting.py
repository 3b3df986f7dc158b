"""What is of one kind of store alone: torn lines, migrations, who may read, and URLs."""

import stat
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.stores.test_contract import ENTRIES, original

from prunewise import errors
from prunewise.errors import ConflictError, InputError, PrunewiseError, PrunewiseWarning, RecallError
from prunewise.stores import Writes, file, tables
from prunewise.stores.file import FileStore
from prunewise.stores.open import open_store
from prunewise.stores.sqlite import SQLiteDatabase

# ---- a file


def two_lines(path: Path) -> tuple[bytes, bytes]:
    """The lines of two commits."""
    store = FileStore(path)
    store.commit(Writes({"c1": original("one\n☃")}, ENTRIES[:1]))
    first = path.read_bytes()
    store.commit(Writes({"c2": original("two")}, ENTRIES[1:]))
    return first, path.read_bytes()[len(first) :]


def test_a_commit_is_one_line_and_one_that_adds_nothing_is_none(tmp_path: Path):
    path = tmp_path / "talk.jsonl"
    first, second = two_lines(path)
    assert (first.count(b"\n"), second.count(b"\n")) == (1, 1)
    FileStore(path).commit(Writes({"c1": original("one\n☃")}))
    assert path.read_bytes() == first + second


def test_a_line_torn_anywhere_counts_for_nothing_and_is_said_once(tmp_path: Path):
    first, second = two_lines(tmp_path / "talk.jsonl")
    for cut in [1, 8, 16, 17, 18, 40, len(second) // 2, len(second) - 2, len(second) - 1]:
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(first + second[:cut])
        whole = cut == len(second) - 1  # but for the line's end
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            store = FileStore(path, "talk")
            store.ledger()
        assert [one.category for one in said] == ([] if whole else [PrunewiseWarning])
        assert tuple(store.ledger()) == (ENTRIES if whole else ENTRIES[:1])
        assert store.original("c1") == original("one\n☃")
        store.commit(Writes({"c3": original("three")}, ENTRIES[:2]))
        assert path.read_bytes().startswith(first + second[:cut] + b"\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = FileStore(path, "talk")
        assert tuple(again.ledger()) == (*store.ledger(),)
        assert again.original("c3") == original("three")


@pytest.mark.parametrize("at", [0, 5, 20, 60, -3])
def test_a_damaged_line_is_passed_over_whatever_was_damaged(tmp_path: Path, at: int):
    path = tmp_path / "talk.jsonl"
    first, second = two_lines(path)
    damaged = bytearray(first)
    damaged[at] ^= 1
    path.write_bytes(bytes(damaged) + second)
    with pytest.warns(PrunewiseWarning, match="1 torn or damaged"):
        store = FileStore(path)
    assert tuple(store.ledger()) == ENTRIES[1:]
    with pytest.raises(RecallError):
        store.original("c1")


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_line_that_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: Any, failing: str
):
    path = tmp_path / "talk.jsonl"
    store = FileStore(path)
    store.commit(Writes(entries=ENTRIES[:1]))
    before, write = path.read_bytes(), file.os.write

    def full(handle: int, data: Any) -> int:
        if len(data) < 50:
            raise OSError(28, "no space")
        return write(handle, data[:-49])

    def refuse(_handle: int) -> None:
        raise OSError(5, "input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(file.os, failing, full if failing == "write" else refuse)
        with pytest.raises(OSError, match=r"no space|output error"):
            store.commit(Writes({"c1": original("x" * 99)}, ENTRIES[1:]))
    assert path.read_bytes() == before
    assert tuple(store.ledger()) == ENTRIES[:1]
    with pytest.raises(RecallError):
        store.original("c1")
    store.commit(Writes(entries=ENTRIES[1:]))
    assert tuple(FileStore(path).ledger()) == ENTRIES


NOT_STORES = {
    "text": b"hello\n",
    "lines of text": b"one\ntwo\nthree",
    "a session": b'{"type":"session"}\n{"type":"message"}\n',
    "bytes": b"\0\1\n\2\n",
    "one line": b"%s {}\n" % (b"0" * 16),
}


@pytest.mark.parametrize("name", NOT_STORES)
def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path, name: str):
    path = tmp_path / "x.jsonl"
    path.write_bytes(NOT_STORES[name])
    with pytest.raises(InputError, match="not a store"):
        FileStore(path)
    assert path.read_bytes() == NOT_STORES[name]


def test_a_file_of_another_conversation_or_a_newer_version_is_refused(tmp_path: Path, monkeypatch: Any):
    path = tmp_path / "talk.jsonl"
    two_lines(path)
    with pytest.raises(InputError, match="holds the conversation 'talk'"):
        FileStore(path, "other")
    with monkeypatch.context() as patched:
        patched.setattr(file, "_VERSION", 2)
        FileStore(tmp_path / "new.jsonl").commit(Writes(entries=ENTRIES))
    with pytest.raises(InputError, match="newer prunewise, version 2"):
        FileStore(tmp_path / "new.jsonl")


def test_a_file_that_was_cut_short_gets_nothing_more(tmp_path: Path):
    path = tmp_path / "talk.jsonl"
    first, _ = two_lines(path)
    store = FileStore(path)
    path.write_bytes(first)
    for act in (store.ledger, lambda: store.commit(Writes(entries=ENTRIES))):
        with pytest.raises(PrunewiseError, match="cut short"):
            act()


@pytest.mark.parametrize("odd", [".", "none/at/all.jsonl"])
def test_a_file_that_cannot_be_opened_is_said_to_be_so(tmp_path: Path, odd: str):
    with pytest.raises(InputError, match="cannot be opened"):
        FileStore(tmp_path / odd)


# ---- who may read


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
@pytest.mark.parametrize("url", ["file:{}/a.jsonl", "file:{}/talks/", "sqlite:{}/a.db"])
def test_only_the_owner_may_read(tmp_path: Path, url: str):
    store: Any = open_store(url.format(tmp_path), "c")
    store.commit(Writes({"c1": original("secret")}, ENTRIES))
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert files
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}


# ---- tables

NEWER = (
    "ALTER TABLE prunewise_entries ADD COLUMN note TEXT",
    "UPDATE prunewise_entries SET note = conversation",
)


def test_tables_are_brought_up_to_date_with_what_is_in_them(tmp_path: Path, monkeypatch: Any):
    path = tmp_path / "a.db"
    before = SQLiteDatabase(path)
    before.store("c").commit(Writes({"c1": original("x")}, ENTRIES))
    before.close()
    monkeypatch.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, NEWER))
    for _ in range(2):
        database = SQLiteDatabase(path)
        store = database.store("c")
        assert tuple(store.ledger()) == ENTRIES
        assert store.original("c1") == original("x")
        with database.reading() as run:
            assert list(run("SELECT version FROM prunewise_version ORDER BY version")) == [(1,), (2,)]
            assert set(run("SELECT note FROM prunewise_entries")) == {("c",)}
        database.close()


def test_a_migration_that_fails_leaves_the_tables_as_they_were(tmp_path: Path, monkeypatch: Any):
    path = tmp_path / "a.db"
    SQLiteDatabase(path).close()
    with monkeypatch.context() as patched:
        patched.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, (*NEWER, "NO SUCH STATEMENT")))
        with pytest.raises(PrunewiseError, match="syntax"):
            SQLiteDatabase(path)
    database = SQLiteDatabase(path)
    with database.reading() as run:
        assert list(run("SELECT version FROM prunewise_version")) == [(1,)]
        assert "note" not in {column[1] for column in run("PRAGMA table_info(prunewise_entries)")}
    database.close()


def test_tables_of_a_newer_version_are_left_alone(tmp_path: Path, monkeypatch: Any):
    path = tmp_path / "a.db"
    with monkeypatch.context() as patched:
        patched.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, NEWER))
        SQLiteDatabase(path).close()
    with pytest.raises(PrunewiseError, match="newer prunewise, version 2"):
        SQLiteDatabase(path)


def test_a_store_without_entries_of_a_kind_that_it_knows_goes_on_behind_them(tmp_path: Path):
    """Another version's entries are passed over, and nothing is written on top of them."""
    database = SQLiteDatabase(tmp_path / "a.db")
    with database.writing("c") as run:
        for number, entry in enumerate(
            (b'["prunewise:later", {}]', b'["prunewise:masking", {"engaged": 3}]'), 1
        ):
            run("INSERT INTO prunewise_entries VALUES (?, ?, ?)", "c", number, entry)
    store = database.store("c")
    assert tuple(store.ledger()) == ()
    store.commit(Writes(entries=ENTRIES, known=0))
    assert tuple(database.store("c").ledger()) == ENTRIES
    database.close()


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x\udfff"])
def test_an_id_that_no_database_takes_is_refused(tmp_path: Path, name: str):
    database = SQLiteDatabase(tmp_path / "a.db")
    with pytest.raises(InputError, match="no id"):
        database.store(name)
    database.close()


@pytest.mark.parametrize("content", [b"no database, but long enough to be looked at\n" * 30, None])
def test_a_file_that_is_no_database_is_said_to_be_so(tmp_path: Path, content: bytes | None):
    path = tmp_path / "a.db"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(PrunewiseError, match=r"a\.db"):
        SQLiteDatabase(path)


# ---- URLs


def test_a_url_says_where_a_store_is(tmp_path: Path, monkeypatch: Any):
    monkeypatch.chdir(tmp_path)
    for url, made in [
        ("file:talk.jsonl", "talk.jsonl"),
        (f"file://{tmp_path}/other.jsonl", "other.jsonl"),
        ("file:talks/", "talks/a%2Fb c.jsonl"),
        ("sqlite:one.db", "one.db"),
        (f"sqlite:{tmp_path}/two.db", "two.db"),
        ("sqlite:with%20space.db", "with space.db"),
    ]:
        store: Any = open_store(url, "a/b c")
        assert store.conversation == "a/b c"
        assert (tmp_path / made).is_file()
        if url.startswith("sqlite"):
            store.database.close()


@pytest.mark.parametrize(
    "url",
    ["", "talk.jsonl", "mysql:x", "file:", "sqlite:", "sqlite://host/x", "file:x?mode=ro", "sqlite:a#b"],
)
def test_a_url_of_no_store_is_refused(url: str):
    with pytest.raises(InputError):
        open_store(url, "c")


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: Any):
    monkeypatch.setitem(sys.modules, "prunewise.stores.postgres", None)
    with pytest.raises(InputError, match=r"prunewise\[postgres\]"):
        open_store("postgresql://x@/y", "c")


def test_a_conflict_is_an_error_of_ours():
    assert issubclass(ConflictError, errors.PrunewiseError)
