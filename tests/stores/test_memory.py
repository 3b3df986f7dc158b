"""The store in memory: references are call ids, and what was kept first stays."""

import pytest

from prunewise import ledger
from prunewise.errors import RecallError
from prunewise.stores import Original, Store
from prunewise.stores.memory import Memory
from prunewise.transcript import Text

FIRST = Original("m1", "read", (Text("first"),))


def test_it_is_a_store():
    store: Store = Memory("talk")
    assert store.conversation == "talk"
    assert list(store.ledger()) == []


def test_a_reference_is_the_calls_id_and_without_one_the_messages():
    store = Memory()
    assert store.reference("m1", "c1") == "c1"
    assert store.reference("m1", "") == "m1"
    assert store.reference("", "") is None


def test_what_was_kept_comes_back():
    store = Memory()
    store.keep("c1", FIRST)
    assert store.original(" c1 ") == FIRST


def test_what_was_kept_first_stays():
    store = Memory()
    store.keep("c1", FIRST)
    store.keep("c1", Original("m1", "read", (Text("a marker"),)))
    assert store.original("c1") == FIRST


def test_a_purged_input_is_added_to_what_was_kept():
    store = Memory()
    store.keep("c1", FIRST)
    store.keep("c1", Original("m1", "read", (Text("a marker"),), {"path": "a"}))
    store.keep("c1", Original("m1", "read", (Text("first"),), {"pruned": "a marker"}))
    assert store.original("c1") == Original("m1", "read", (Text("first"),), {"path": "a"})


@pytest.mark.parametrize(("reference", "named"), [("c2", "c2"), ("", "an empty reference")])
def test_what_was_not_kept_is_said(reference: str, named: str):
    with pytest.raises(RecallError, match=f"{named}: no output was kept"):
        Memory().original(reference)


def test_the_ledger_grows():
    entries = [ledger.Restore("a"), ledger.Restore("b"), ledger.Restore("c")]
    store = Memory(entries=entries[:1])
    store.append(entries[1:])
    assert list(store.ledger()) == entries
