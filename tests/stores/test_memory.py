"""The store in memory: references are call ids, and what was kept last stands."""

import pytest

from prunewise import ledger, markers
from prunewise.errors import RecallError
from prunewise.stores import Original, Store, Writes
from prunewise.stores.memory import Memory
from prunewise.transcript import Image, Text

FIRST = Original("m1", "read", (Text("first"),))
SECOND = Original("m1", "read", (Text("second"),))
MARKER = markers.output("read", 400, "for a test", "c1")


def test_it_is_a_store():
    store: Store = Memory("talk")
    assert store.conversation == "talk"
    assert list(store.ledger()) == []


def test_a_reference_is_the_calls_id_and_without_one_the_messages():
    store = Memory()
    assert store.reference("m1", "c1") == "c1"
    assert store.reference("m1", "") == "m1"
    assert store.reference("", "") is None


@pytest.mark.parametrize(
    ("outputs", "references"),
    [
        ([("m1", "c1"), ("m1", "c2")], ["c1", "c2"]),
        ([("m1", "c1"), ("m2", "c1")], ["c1", "c1@m2"]),
        ([("m1", "c1"), ("m2", "c1"), ("m1", "c1"), ("m2", "c1")], ["c1", "c1@m2", "c1", "c1@m2"]),
        ([("m1", "m1"), ("m4", "m1")], ["m1", "m1@m4"]),
        ([("m5", "m7"), ("m7", "m7")], ["m7", "m7@m7"]),
        ([("m1", ""), ("m2", "m1")], ["m1", "m1@m2"]),
        ([("m2", "c1@m1"), ("m0", "c1"), ("m1", "c1")], ["c1@m1", "c1", None]),
        ([("m 1", "c1"), ("m1", "c 1"), ("m1", "c1:full")], ["c1", None, "c1:full@m1"]),
    ],
)
def test_each_output_has_a_reference_of_its_own(outputs: list[tuple[str, str]], references: list[str | None]):
    store = Memory()
    assert [store.reference(*output) for output in outputs] == references


def test_what_was_kept_comes_back():
    store = Memory()
    store.commit(Writes({"c1": FIRST}))
    assert store.original(" c1 ") == FIRST


def test_a_newer_output_under_a_reference_takes_the_place():
    store = Memory()
    store.commit(Writes({"c1": FIRST}))
    store.commit(Writes({"c1": SECOND}))
    assert store.original("c1") == SECOND


def test_an_image_may_be_all_that_is_another():
    store = Memory()
    one, other = (
        Original("m1", "shot", (Image("image/png", 4),), None, ({"data": data},)) for data in ("AAAA", "BBBB")
    )
    store.commit(Writes({"c1": one}))
    store.commit(Writes({"c1": other}))
    assert store.original("c1") == other


def test_what_looks_like_a_marker_is_kept_like_any_output():
    store = Memory()
    store.commit(Writes({"c1": FIRST}))
    store.commit(Writes({"c1": Original("m1", "read", (Text(MARKER),))}))
    assert store.original("c1") == Original("m1", "read", (Text(MARKER),))


def test_a_purged_input_is_added_to_what_was_kept():
    store = Memory()
    store.commit(Writes({"c1": FIRST}))
    store.commit(Writes({"c1": Original("m1", "read", (Text("first"),), {"path": "a"})}))
    store.commit(Writes({"c1": FIRST}))
    assert store.original("c1") == Original("m1", "read", (Text("first"),), {"path": "a"})


def test_a_purged_input_stays_with_a_newer_output():
    store = Memory()
    store.commit(Writes({"c1": Original("m1", "read", (Text("first"),), {"path": "a"})}))
    store.commit(Writes({"c1": SECOND}))
    assert store.original("c1") == Original("m1", "read", (Text("second"),), {"path": "a"})
    store.commit(Writes({"c1": Original("m1", "read", (Text("second"),), {"path": "b"})}))
    assert store.original("c1").input == {"path": "b"}


@pytest.mark.parametrize(("reference", "named"), [("c2", "c2"), ("", "an empty reference")])
def test_what_was_not_kept_is_said(reference: str, named: str):
    with pytest.raises(RecallError, match=f"{named}: no output was kept"):
        Memory().original(reference)


def test_the_ledger_grows():
    entries = [ledger.Restore("a"), ledger.Restore("b"), ledger.Restore("c")]
    store = Memory(entries=entries[:1])
    store.commit(Writes(entries=tuple(entries[1:])))
    assert list(store.ledger()) == entries
