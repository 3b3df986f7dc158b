"""Superseded file operations: what later operations on a path prove to be stale, and nothing on a guess."""

import msgspec
import pytest
from tests import build
from tests.build import LONG, Native, assistant, bash, call, edit, image, read, result, used, user, write

from prunewise import markers, tools
from prunewise.strategies import SupersededFileOps
from prunewise.transcript import TOOL_RESULT


def rows(first: int, last: int) -> str:
    """The lines of a file, each of them another one."""
    return "".join(f"{number} times {number}\n" for number in range(first, last + 1))


R, A, W = markers.READ_AGAIN, markers.CHANGED_AFTER, markers.CHANGED_AGAIN

CASES: dict[str, tuple[list[list[Native]], dict[str, str]]] = {
    # operations; for each stale call the reason
    #
    # reads by reads
    "a full read by a later full one": ([read("1", "f"), read("2", "f")], {"1": R}),
    "three full reads: the newest stays": (
        [read("1", "f"), read("2", "f"), read("3", "f")],
        {"1": R, "2": R},
    ),
    "one read alone": ([read("1", "f")], {}),
    "a full read of another path": ([read("1", "f"), read("2", "g")], {}),
    "letter case of a path counts": ([read("1", "f"), read("2", "F")], {}),
    "a partial read by a later full one": ([read("1", "f", offset=5, limit=9), read("2", "f")], {"1": R}),
    "a full read not by a partial one": (
        [read("1", "f", rows(1, 60)), read("2", "f", rows(1, 59), limit=59)],
        {},
    ),
    "a full read not by a read of its tail": ([read("1", "f"), read("2", "f", offset=2)], {}),
    "a partial read by the same lines": (
        [read("1", "f", offset=5, limit=9), read("2", "f", offset=5, limit=9)],
        {"1": R},
    ),
    "a partial read by more lines": (
        [read("1", "f", rows(5, 9), offset=5, limit=5), read("2", "f", rows(4, 10), offset=4, limit=7)],
        {"1": R},
    ),
    "a partial read not by fewer lines": (
        [read("1", "f", rows(5, 9), offset=5, limit=5), read("2", "f", rows(5, 8), offset=5, limit=4)],
        {},
    ),
    "a partial read not by lines that begin later": (
        [read("1", "f", offset=5, limit=5), read("2", "f", offset=6, limit=90)],
        {},
    ),
    "two halves do not cover a whole": (
        [
            read("1", "f", rows(1, 10), offset=1, limit=10),
            read("2", "f", rows(1, 5), offset=1, limit=5),
            read("3", "f", rows(6, 10), offset=6, limit=5),
        ],
        {},
    ),
    "an unbounded read not by a later bounded one": (
        [read("1", "f", rows(5, 90), offset=5), read("2", "f", rows(5, 80), offset=5, limit=100_000)],
        {},
    ),
    "an unbounded read by an unbounded one from an earlier line": (
        [read("1", "f", offset=5), read("2", "f", offset=4)],
        {"1": R},
    ),
    "an unbounded read not by one from a later line": (
        [read("1", "f", offset=5), read("2", "f", offset=6)],
        {},
    ),
    "a bounded read by an unbounded one": (
        [read("1", "f", offset=5, limit=5), read("2", "f", offset=5)],
        {"1": R},
    ),
    "offset 1 without a limit is all of it": ([read("1", "f"), read("2", "f", offset=1)], {"1": R}),
    "an offset of 0 is as if absent": ([read("1", "f"), read("2", "f", offset=0)], {"1": R}),
    "a negative limit is as if absent": ([read("1", "f"), read("2", "f", limit=-5)], {"1": R}),
    "lines that are not known, by the whole file": (
        [read("1", "f", rows(90, 99), offset=-10), read("2", "f", rows(1, 60))],
        {"1": R},
    ),
    "lines that are not known, by fewer lines": (
        [read("1", "f", rows(90, 99), offset=-10), read("2", "f", rows(1, 9))],
        {},
    ),
    "lines that are not known, by a part": (
        [read("1", "f", rows(90, 99), offset=-10), read("2", "f", rows(1, 60), limit=60)],
        {},
    ),
    "a limit in words leaves open what was read": (
        [read("1", "f", rows(1, 9), limit="10"), read("2", "f", rows(1, 5), limit=5)],
        {},
    ),
    "fractions as they are": (
        [read("1", "f", offset=1.5, limit=2), read("2", "f", offset=1.25, limit=2)],
        {},
    ),
    "fractions that cover": (
        [read("1", "f", offset=1.5, limit=2), read("2", "f", offset=1.5, limit=2.5)],
        {"1": R},
    ),
    "an errored read supersedes nothing": ([read("1", "f"), read("2", "f", error=True)], {}),
    "an errored read is superseded": ([read("1", "f", error=True), read("2", "f")], {"1": R}),
    "a read past an errored one": (
        [read("1", "f"), read("2", "f", error=True), read("3", "f")],
        {"1": R, "2": R},
    ),
    #
    # reads by changes
    "a read by a later write": ([read("1", "f"), write("2", "f")], {"1": A}),
    "a read by a later edit": ([read("1", "f"), edit("2", "f")], {"1": A}),
    "a partial read by a later edit": ([read("1", "f", offset=5, limit=9), edit("2", "f")], {"1": A}),
    "a read not by an earlier write": ([write("1", "f"), read("2", "f")], {}),
    "an errored write supersedes no read": ([read("1", "f"), write("2", "f", error=True)], {}),
    "an errored edit supersedes no read": ([read("1", "f"), edit("2", "f", error=True)], {}),
    "a write to another path": ([read("1", "f"), write("2", "g")], {}),
    "all reads before a change": (
        [read("1", "f", limit=5), read("2", "f", offset=9), edit("3", "f")],
        {"1": A, "2": A},
    ),
    #
    # changes by changes
    "a write by a later write": ([write("1", "f"), write("2", "f")], {"1": W}),
    "an edit by a later write": ([edit("1", "f"), write("2", "f")], {"1": W}),
    "a write by a later edit": ([write("1", "f"), edit("2", "f")], {"1": W}),
    "an edit by a later edit": ([edit("1", "f"), edit("2", "f"), edit("3", "f")], {"1": W, "2": W}),
    "an errored write supersedes no write": ([write("1", "f"), write("2", "f", error=True)], {}),
    "an errored edit by a later success": ([edit("1", "f", error=True), edit("2", "f")], {"1": A}),
    "a change not by a later read": ([edit("1", "f"), read("2", "f")], {}),
    "read, edit, read, edit": (
        [read("1", "f"), edit("2", "f"), read("3", "f"), edit("4", "f")],
        {"1": A, "2": W, "3": A},
    ),
    "an errored change in between": (
        [read("1", "f"), edit("2", "f", error=True), edit("3", "f")],
        {"1": A, "2": A},
    ),
    #
    # what an operation is
    "spellings of one path": (
        [read("1", " ./x/../f "), read("2", "f"), write("3", "/w/f")],
        {"1": R, "2": A},
    ),
    "argument names": (
        [used("1", "read", {"file_path": "f"}), used("2", "read", {"filePath": "f"}), read("3", "f")],
        {"1": R, "2": R},
    ),
    "letter case of tools": ([used("1", "Read", {"path": "f"}), used("2", "WRITE", {"path": "f"})], {"1": A}),
    "a shell command is not looked into": ([read("1", "f"), bash("2", "echo > f")], {}),
    "other tools with a path": ([read("1", "f"), used("2", "grep", {"path": "f"})], {}),
    "a read without a path": ([used("1", "read", {}), used("2", "read", {})], {}),
    "a result of nothing but images stays": ([read("1", "f", image()), read("2", "f")], {}),
    "a result of nothing but white space stays": ([read("1", "f", " \n"), read("2", "f")], {}),
    "an empty result stays": ([read("1", "f", ""), edit("2", "f")], {}),
    "text beside an image goes": ([read("1", "f", LONG, image()), read("2", "f")], {"1": R}),
    "a newer result of nothing but an image holds no lines": (
        [read("1", "f"), read("2", "f", image())],
        {},
    ),
    "a write in flight": ([read("1", "f"), [assistant(call("2", "write", path="f"))]], {}),
    "user messages in between": ([read("1", "f"), [user()], read("2", "f")], {"1": R}),
    #
    # parallel calls: the order of calls counts, whichever result comes first
    "parallel reads, results in order": (
        [[assistant(call("1", "read", path="f"), call("2", "read", path="f")), result("1"), result("2")]],
        {"1": R},
    ),
    "parallel reads, results in another order": (
        [[assistant(call("1", "read", path="f"), call("2", "read", path="f")), result("2"), result("1")]],
        {"1": R},
    ),
    #
    # of a read and a change that were called at once nobody knows which came first
    "a read and a change at once": (
        [[assistant(call("1", "read", path="f"), call("2", "edit", path="f")), result("1"), result("2")]],
        {},
    ),
    "a read and a change at once, results in another order": (
        [[assistant(call("1", "read", path="f"), call("2", "edit", path="f")), result("2"), result("1")]],
        {},
    ),
    "a change that was called before the read had its result": (
        [
            [assistant(call("1", "read", path="f")), assistant(call("2", "edit", path="f"))],
            [result("1"), result("2")],
        ],
        {},
    ),
    "two changes at once": (
        [[assistant(call("1", "edit", path="f"), call("2", "write", path="f")), result("1"), result("2")]],
        {},
    ),
    "a read and a change at once, and a change later": (
        [
            [assistant(call("1", "read", path="f"), call("2", "edit", path="f")), result("1"), result("2")],
            edit("3", "f"),
        ],
        {"1": A, "2": W},
    ),
    "a late result of an older change, after a read": (
        [[assistant(call("1", "edit", path="f"), call("2", "read", path="f")), result("2"), result("1")]],
        {},
    ),
    "a late failed change supersedes nothing": (
        [
            [
                assistant(call("1", "read", path="f"), call("2", "edit", path="f")),
                result("2", error=True),
                result("1"),
            ]
        ],
        {},
    ),
    "a late result without text stays": (
        [
            [
                assistant(call("1", "read", path="f"), call("2", "edit", path="f")),
                result("2"),
                result("1", image()),
            ]
        ],
        {},
    ),
    "a late change still makes an older read stale": (
        [
            [assistant(*(call(str(n), name, path="f") for n, name in enumerate(("read", "edit", "read"))))],
            [result("2"), result("0"), result("1")],
        ],
        {"0": R},
    ),
}


@pytest.mark.parametrize(("operations", "stale"), CASES.values(), ids=CASES)
def test_what_is_stale(operations: list[list[Native]], stale: dict[str, str]):
    found = list(SupersededFileOps().advance(build.transcript(*operations, cwd="/w")))
    assert {one.exchange.call.id: one.reason for one in found} == stale
    assert len(found) == len(stale)
    assert all(one.kind == TOOL_RESULT for one in found)


def test_without_a_working_directory_paths_stay_relative():
    relative = build.transcript(read("1", "f"), read("2", "./f"), write("3", "/w/f"))
    assert [one.exchange.call.id for one in SupersededFileOps().advance(relative)] == ["1"]


def test_a_note_that_the_file_is_unchanged_supersedes_nothing():
    stubs = msgspec.structs.replace(tools.PI, unchanged_stubs=("unchanged",))
    natives = build.flat(read("1", "f"), read("2", "f", "unchanged since"))
    assert list(SupersededFileOps().advance(build.transcript(natives, vocabulary=stubs))) == []
    assert list(SupersededFileOps().advance(build.transcript(natives))) == [], "nor where it is not known"


def test_it_tells_each_finding_once():
    superseded, transcript = SupersededFileOps(), build.transcript(read("1", "f"), read("2", "f"))
    assert [one.exchange.call.id for one in superseded.advance(transcript)] == ["1"]
    assert list(superseded.advance(transcript)) == []
    transcript.extend(build.messages(write("3", "f")))
    assert [one.exchange.call.id for one in superseded.advance(transcript)] == ["2"]


def test_its_name_is_the_ledger_s():
    assert SupersededFileOps.name == "superseded-file-ops"
