"""A conversation whose beginning is another than before."""

import copy
from collections.abc import Callable

import pytest
from tests.build import Native, edit, flat, read, result, summary, user
from tests.histories import encoded
from tests.pruner.support import EAGER, conversation, placed, pruner_of, twice_read

from prunewise import Policy, Pruner
from prunewise.stores.memory import Memory

Change = Callable[[list[Native]], list[Native]]


def _edited(history: list[Native]) -> list[Native]:
    history[4] = result("c2", "something else\n" * 60)
    return history


CHANGES: dict[str, Change] = {
    "a fork: shorter, then others": lambda h: [*h[:3], user("another way"), *read("d1", "a.py"), user()],
    "shorter, and nothing else": lambda h: h[:4],
    "shorter than anything edited": lambda h: h[:2],
    "a compaction": lambda h: [summary(), *h[3:]],
    "a compaction that keeps nothing": lambda _: [summary(), user("and now")],
    "one message edited in the middle": _edited,
    "a message inserted": lambda h: [*h[:3], user("steering"), *h[3:]],
    "a message gone": lambda h: [*h[:1], *h[2:]],
    "empty": lambda _: [],
    "another conversation": lambda _: flat(user("hello"), read("x1", "z.py"), user()),
    "all copied": copy.deepcopy,
    "the same": lambda h: h,
}


@pytest.mark.parametrize("window", [None, 2000])
@pytest.mark.parametrize("change", list(CHANGES))
def test_after_a_changed_prefix_it_sends_what_a_fresh_one_would(change: str, window: int | None):
    history = conversation()
    pruner = pruner_of()
    for end in range(1, len(history) + 1):
        pruner.project(history[:end], window=window, reserve=100)
    changed = CHANGES[change](list(history))
    done = pruner.project(changed, now=1.0, window=window, reserve=100)
    fresh = pruner_of(Memory("c", pruner.store.ledger()))
    again = fresh.project(changed, now=1.0, window=window, reserve=100)
    assert done.error is None
    assert done.edits == again.edits
    assert encoded(done.request) == encoded(again.request)
    assert done.saved == again.saved
    for position, message in enumerate(changed):
        assert position in placed(done) or done.request[position] is message
    assert encoded(pruner.project(changed, window=window, reserve=100).request) == encoded(done.request)


def test_other_ids_make_other_messages():
    """A host that names its messages says by the name which one it is, whatever it holds."""
    history = twice_read()
    pruner = pruner_of()
    first = pruner.project(history, ids=list("abcdefg"))
    assert list(placed(first)) == [2]
    other = pruner.project(history, ids=list("tuvwxyz"))
    assert placed(other) == {}, "the decision was made for an output with another id"


def test_interleaved_conversations_under_one_policy_keep_apart():
    policy = Policy(EAGER)
    alone = {name: pruner_of() for name in "ab"}
    together = {name: Pruner("pi", policy, Memory(name)) for name in "ab"}
    histories = {
        "a": conversation(),
        "b": flat(user("b"), twice_read(), read("c9", "b.py"), edit("c3", "b.py"), user()),
    }
    for end in range(1, 20):
        for name, pruner in together.items():
            messages = histories[name][:end]
            done = pruner.project(messages, window=3000, reserve=100)
            expected = alone[name].project(messages, window=3000, reserve=100)
            assert encoded(done.request) == encoded(expected.request)
            assert pruner.engaged == alone[name].engaged
    assert together["a"].store.ledger() != together["b"].store.ledger()
