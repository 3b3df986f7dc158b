"""Whatever goes wrong, the request goes out, and it is said once."""

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from tests.build import assistant, bash, flat, read, used, user
from tests.pruner.support import EAGER, HUGE, MASKING, conversation, names, placed, pruner_of, twice_read

from prunewise import Policy, Pruner, ledger, recall
from prunewise.formats.pi import PiFormat
from prunewise.pruner import Projected, PrunewiseWarning
from prunewise.stores import Writes
from prunewise.stores.memory import Memory
from prunewise.transcript import Message


def warned_once(pruner: Pruner, request: Any, about: str) -> list[Projected]:
    """What became of a request that is sent twice, with one warning for both."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        done = [pruner.project(request) for _ in range(2)]
    assert [one.category for one in said] == [PrunewiseWarning]
    assert about in str(said[0].message)
    return done


class Failing(Memory):
    """A store in which one thing fails, while it is switched on."""

    def __init__(self, what: str) -> None:
        super().__init__("c")
        self.what = what
        self.on = True

    def _fail(self, what: str) -> None:
        if self.on and what == self.what:
            raise OSError(f"no {what}")

    def reference(self, message: str, call_id: str) -> str | None:
        self._fail("reference")
        return None if self.on and self.what == "no reference" else super().reference(message, call_id)

    def commit(self, writes: Writes) -> None:
        self._fail("commit")
        super().commit(writes)

    def ledger(self) -> Sequence[ledger.Entry]:
        if hasattr(self, "_read_once"):
            self._fail("ledger")
        self._read_once = True
        return super().ledger()


@pytest.mark.parametrize("what", ["commit", "reference", "ledger"])
def test_what_a_store_cannot_do_leaves_the_request_as_it_was_and_is_said_once(what: str):
    store = Failing(what)
    pruner = pruner_of(store)
    history = twice_read()
    done, again = warned_once(pruner, history, f"no {what}")
    assert done.request is history
    assert again.request is history
    assert (done.edits, done.decisions) == ((), ())
    assert done.error == again.error == f"OSError: no {what}"
    store.on = False
    after = pruner.project(history)
    assert after.error is None
    assert list(placed(after)) == [2]
    assert "c1" in str(store.ledger())


def test_a_store_that_promises_no_reference_gets_no_markers():
    store = Failing("no reference")
    history = conversation()
    done = pruner_of(store).project(history, window=2000, reserve=100)
    assert done.request is history
    assert done.error is None
    assert not any(isinstance(entry, ledger.Decision) for entry in store.ledger())
    assert ledger.fold(store.ledger()).masks == {}


def test_what_stands_goes_on_standing_where_new_decisions_cannot_be_recorded():
    store = Failing("commit")
    store.on = False
    pruner = pruner_of(store)
    history = twice_read()
    first = placed(pruner.project(history))
    store.on = True
    longer = flat(history, read("c3", "a.py"), user())
    with pytest.warns(PrunewiseWarning):
        done = pruner.project(longer)
    assert placed(done) == first
    assert done.decisions == ()
    assert done.error is not None
    store.on = False
    after = pruner.project(longer)
    assert sorted(placed(after)) == [2, 5]
    assert names(after) == ["dedupe:tool_result_content:c2"]


def test_masking_whose_originals_cannot_be_kept_sends_the_original():
    store = Failing("commit")
    history = flat(user(), bash("c1", "make", HUGE), assistant("on"), user())
    pruner = pruner_of(store, MASKING)
    with pytest.warns(PrunewiseWarning, match="no commit"):
        done = pruner.project(history, window=1000, reserve=100)
    assert done.request is history
    store.on = False
    assert pruner.project(history, window=1000, reserve=100).masked == 1
    assert recall.recall(store, "c1:full") == HUGE


class Broken(PiFormat):
    """A format whose reading or writing fails while it is switched on."""

    on = True

    def __init__(self, what: str) -> None:
        self.what = what

    def read(self, native: Any, id: str) -> Message:
        if self.on and self.what == "read":
            raise ValueError("cannot read")
        return super().read(native, id)

    def apply(self, native: Any, edits: Any) -> Any:
        if self.on and self.what == "apply":
            raise ValueError("cannot apply")
        return super().apply(native, edits)


@pytest.mark.parametrize("what", ["read", "apply"])
def test_a_format_that_fails_sends_the_original(what: str):
    broken = Broken(what)
    pruner = Pruner(broken, Policy(EAGER), Memory("c"))
    history = twice_read()
    for done in warned_once(pruner, history, "cannot"):
        assert done.request is history
    broken.on = False
    assert list(placed(pruner.project(history))) == [2]


@pytest.mark.parametrize("request_", [None, 3, "text", {"input": []}, {"messages": "no"}])
def test_what_is_no_request_goes_out_as_it_came(request_: Any):
    with pytest.warns(PrunewiseWarning):
        done = pruner_of().project(request_)
    assert done.request is request_
    assert done.error is not None


@pytest.mark.parametrize("odd", [None, 3, "text", [], {}, {"role": 7}, {"role": "toolResult", "content": 3}])
def test_a_message_of_a_wrong_type_goes_out_as_it_came_and_the_others_are_pruned(odd: Any):
    history: list[Any] = [odd, *twice_read()]
    done = pruner_of().project(history)
    assert done.error is None
    assert done.request[0] is odd
    assert list(placed(done)) == [3]


def test_ids_of_another_number_than_messages_send_the_original():
    history = twice_read()
    pruner = pruner_of()
    with pytest.warns(PrunewiseWarning):
        assert pruner.project(history, ids=["a"]).request is history
    assert list(placed(pruner.project(history))) == [2]


def test_a_failure_is_said_once_for_each_conversation():
    for _ in range(2):
        warned_once(pruner_of(), None, "not a list")


def test_arguments_nested_beyond_any_stack_stop_nothing():
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    history = flat(user(), used("d1", "odd", {"deep": deep}), twice_read())
    pruner = pruner_of()
    assert list(placed(pruner.project(history))) == [5]
    same = [*history[:1], {**history[1]}, *history[2:]]
    assert pruner.project(same).error is None
