"""The same messages again: a retry, a restart and another policy's second opinion change nothing.

A retry sends the same bytes and decides nothing. So does another process that has the messages and the
record alone. No target is decided on twice.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.build import (
    Native,
    assistant,
    bash,
    call,
    flat,
    image,
    read,
    result,
    shell,
    text,
    turns,
    usage,
    used,
    user,
)
from tests.histories import PiFile, entry_id

from prunewise import Policy, Pruner, errors, ledger
from prunewise.ledger import Decision
from prunewise.markers import reference_in
from prunewise.pruner import Caller, Projected
from prunewise.stores.memory import Memory
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, Usage

OUTPUT = "some output, rather long\n" * 150
BIG = "x y z\n" * 6_000
EAGER_PRICED = {"recentCalls": 0, "minTokens": 20, "stake": 1, "patience": 0, "caution": 0}
SETTINGS: dict[str, dict[str, Any]] = {
    "documented": {},
    "documented, eager": {"gate": {"mode": "always-apply"}, "protections": {"recentTurns": 1}},
    "documented, by the gate": {"protections": {"recentTurns": 0}, "gate": {"breakEvenThreshold": 9}},
    "priced": {"policy": "priced"},
    "priced, eager": {"policy": "priced", "priced": EAGER_PRICED, "gate": {"mode": "off"}},
    "priced, by its prices": {"policy": "priced", "priced": EAGER_PRICED},
    "masking alone": {"enabled": False, "pruning": {"minResultTokens": 60}},
    "masking, the current turn too": {"pruning": {"minResultTokens": 60, "protectCurrentTurn": False}},
}
ROOMS: list[dict[str, int]] = [{}, {"window": 30_000, "reserve": 1_000}, {"window": 4_000, "reserve": 100}]


def encoded(done: Projected) -> str:
    return json.dumps(done.request)


def copied(store: Memory) -> Memory:
    """What another process would have of a store."""
    other = Memory(store.conversation, copy.deepcopy(list(store.ledger())))
    other._originals.update(store._originals)
    return other


# ---- a retry


def listing(at: int, held: str = BIG) -> list[Native]:
    return used(f"b{at}", "list", {"n": at}, held)


def searches(*held: str) -> list[Native]:
    return flat(*(used(f"g{at}", "grep", {"q": "x"}, one) for at, one in enumerate(held)))


HISTORIES: dict[str, list[Native]] = {
    "what masking makes small": flat(
        user(), searches(OUTPUT, OUTPUT), *(listing(at) for at in range(3)), turns(5)
    ),
    "a repeat": flat(user(), bash("a", "x", OUTPUT), bash("b", "y", OUTPUT), user()),
    "reads and changes": flat(
        user(),
        read("r1", "a.py", OUTPUT),
        read("r2", "a.py", OUTPUT),
        used("w", "write", {"path": "a.py"}),
        turns(3),
    ),
    "a failed call": flat(
        user(), used("w", "bash", {"command": "y" * 3_000}, "no", error=True), turns(7), listing(1), user()
    ),
    "shell commands of the user": flat(user(), shell("ls", BIG), shell("ls", BIG), turns(2)),
    "images": flat(
        user(), used("s", "shot", {}, text(OUTPUT), image()), used("t", "shot", {}, image()), turns(3)
    ),
    "usage": flat(
        user(),
        searches(OUTPUT, BIG),
        assistant("so", usage=usage(20_000)),
        user(),
        searches(OUTPUT)[:0],
        listing(2),
    ),
    "a long one": flat(user(), *(listing(at, f"{at} {OUTPUT}") for at in range(25)), turns(2)),
}

Between = Callable[[Pruner, list[Native]], None]
BETWEEN: dict[str, tuple[float, Between]] = {
    "at once": (0, lambda _pruner, _history: None),
    "an hour later": (3_600, lambda _pruner, _history: None),
    "answered, and asked anew": (9, lambda pruner, _history: pruner.observe(Usage(input=9_000), now=5.0)),
    "looked at in between": (1, lambda pruner, history: [pruner.plan(history, window=900), None][1]),
    "read in between": (1, lambda pruner, history: pruner.read(history)),
    "the ledger read anew": (1, lambda pruner, _history: pruner.follow()),
    "a compaction checked": (1, lambda pruner, _history: [pruner.check_compaction(9_000, 100), None][1]),
    "another model": (
        1,
        lambda pruner, history: [pruner.project(history, now=3.0, caller=Caller("x")), None][1],
    ),
}


@pytest.mark.parametrize("setup", SETTINGS)
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_a_retry_sends_the_same_bytes_and_decides_nothing(
    setup: str, history: list[Native], room: dict[str, int]
):
    for later, between in BETWEEN.values():
        pruner = Pruner("pi", Policy(SETTINGS[setup]), Memory("c"), cwd="/w")
        for end in range(1, len(history) + 1):
            first = pruner.project(history[:end], now=1.0 * end, **room)
            before = copied(pruner.store)  # pyright: ignore[reportArgumentType]
            between(pruner, history[:end])
            again = pruner.project(copy.deepcopy(history[:end]), now=end + later, **room)
            assert encoded(again) == encoded(first)
            assert (again.decisions, again.changed, again.masked) == ((), False, first.masked)
            decided = [one for one in pruner.store.ledger() if isinstance(one, Decision)]
            assert decided == [one for one in before.ledger() if isinstance(one, Decision)]


def test_what_a_person_decides_in_between_counts_and_nothing_else():
    history = HISTORIES["what masking makes small"]
    pruner = Pruner("pi", Policy(), Memory("c"))
    first = pruner.project(history, now=1.0, **ROOMS[1])
    pruner.prune_call("g1", now=2.0)
    again = pruner.project(history, now=3.0, **ROOMS[1])
    assert {edit.position for edit in again.edits} - {edit.position for edit in first.edits} == {4}
    assert again.decisions == ()


# ---- a restart

Step = Callable[["Talk"], None]


class Talk:
    """A conversation, and what another process makes of each of its requests."""

    def __init__(self, setup: str, room: dict[str, int], folder: Path | None = None) -> None:
        self.setup, self.room = setup, room
        self.data = SETTINGS.get(setup) or {}
        self.file = None if folder is None else PiFile(folder / "s.jsonl")
        self.history: list[Native] = []
        self.now = 1.0
        self.store: Any = Memory("c") if self.file is None else self.file.open()
        self.pruner = self.made(self.store)

    def made(self, store: Any) -> Pruner:
        return Pruner("pi", Policy(self.data), store, cwd="/w")

    def say(self, *natives: Any) -> None:
        """More messages, and a request."""
        for native in flat(*natives):
            if self.file is not None:
                self.file.message(native, entry_id(len(self.history)))
            self.history.append(native)
        self.send()

    def send(self) -> Projected:
        """A request; another process would send the same."""
        self.now += 7
        if self.file is not None:
            self.store.refresh()
        given: dict[str, Any] = {**self.room, "now": self.now, "ids": self.ids}
        done = self.pruner.project(self.history, **given)
        assert done.error is None
        for other in (self.made(self.another()), self.made(self.another())):
            other._clock = copy.copy(self.pruner._clock)
            again = other.project(self.history, **given)
            assert again.decisions == ()
            assert encoded(again) == encoded(done)
            assert again.edits == done.edits
        return done

    @property
    def ids(self) -> list[str] | None:
        return None if self.file is None else [entry_id(at) for at in range(len(self.history))]

    def another(self) -> Any:
        return copied(self.store) if self.file is None else self.file.open()

    def restart(self) -> None:
        if self.file is not None:
            self.store = self.file.open()
        self.pruner = self.made(self.store)

    def under(self, **data: Any) -> None:
        self.data = {**self.data, **data}
        self.pruner = self.pruner.under(Policy(self.data))
        self.send()

    def back_to(self, length: int) -> None:
        if self.file is None:  # a session file is gone back in by its tree; see the tests of stores
            del self.history[length:]
            self.send()

    def compacted(self, dropped: int) -> None:
        if self.file is None:
            self.history[:dropped] = [user("so far")]
            self.send()


def _hand(call_id: str, kind: Any = TOOL_RESULT) -> Step:
    def step(talk: Talk) -> None:
        try:
            talk.pruner.prune_call(call_id, kind, now=talk.now)
        except errors.RefusedError:
            return
        talk.send()

    return step


def _restored(call_id: str) -> Step:
    def step(talk: Talk) -> None:
        try:
            talk.pruner.restore(call_id, now=talk.now)
        except errors.RefusedError:
            return
        talk.send()
        assert call_id not in [target[0] for target in talk.pruner._record.ledger.standing]

    return step


def said(*natives: Any) -> Step:
    return lambda talk: talk.say(*natives)


SHOT = used("s", "shot", {}, text(OUTPUT), image())
SHORT = [said(used(f"f{at}", "bash", {"command": str(at)}, "ok")) for at in range(8)]
STEPS: dict[str, list[Step]] = {
    "equal to a protected output": [
        said(user(), used("t", "todo", {}, OUTPUT)),
        said(bash("b", "x", OUTPUT)),
    ],
    "equal to the text beside an image": [said(user(), SHOT), said(bash("b", "x", OUTPUT))],
    "equal to a small output": [said(user(), bash("a", "x", "ok")), said(bash("b", "y", "ok"))],
    "a pointer that is restored": [
        said(user(), bash("a", "x", OUTPUT)),
        said(bash("b", "y", OUTPUT)),
        _restored("b"),
        *SHORT,
    ],
    "a pointer whose source a person prunes": [
        said(user(), bash("a", "x", OUTPUT)),
        said(bash("b", "y", OUTPUT)),
        _hand("a"),
        said(bash("c", "z", OUTPUT)),
        _restored("a"),
        *SHORT,
    ],
    "three alike": [
        said(user(), bash("a", "x", OUTPUT), bash("b", "y", OUTPUT), bash("c", "z", OUTPUT)),
        *SHORT,
    ],
    "masked, and proposed afterwards": [
        said(user(), used("g1", "grep", {"q": "x"}, OUTPUT * 6), user()),
        said(listing(1, BIG * 3), user()),
        said(used("g2", "grep", {"q": "x"}, OUTPUT * 6), turns(2)),
    ],
    "masked, and pruned by hand": [
        said(user(), listing(1, BIG * 3), user()),
        _hand("b1"),
        _restored("b1"),
        said(listing(2, BIG), user()),
    ],
    "engaged with nothing to mask": [
        said(user("y" * 160_000)),
        said(assistant("so", usage=usage(300)), user()),
        said(listing(1, OUTPUT), user()),
        said(assistant("so", usage=usage(200)), user()),
        said(listing(2, OUTPUT), user()),
    ],
    "usage that drops": [
        said(user(), listing(1, BIG), assistant("so", usage=usage(90_000)), user()),
        said(assistant("so", usage=usage(900)), user(), listing(2, BIG), user()),
        said(assistant("so", usage=usage(800)), user()),
    ],
    "a turn that is open again": [
        said(user("x" * 150_000), listing(1, BIG), user()),
        lambda talk: talk.back_to(3),
        said(listing(2, OUTPUT)),
        said(user("and on")),
        said(listing(3, OUTPUT), user()),
    ],
    "a compaction": [
        said(user(), *(listing(at, BIG) for at in range(6)), user()),
        lambda talk: talk.compacted(8),
        said(listing(9, OUTPUT), user()),
        said(*(listing(at, BIG) for at in range(10, 16)), user()),
    ],
    "shell commands": [
        said(user(), shell("ls", BIG * 3), user()),
        said(shell("ls", BIG * 3), user()),
        said(listing(1, BIG), user()),
    ],
    "restarts in between": [
        said(user(), listing(1, BIG * 3), user()),
        Talk.restart,
        said(listing(2, BIG * 3), user()),
        Talk.restart,
        Talk.restart,
        said(searches(OUTPUT, OUTPUT), turns(3)),
    ],
    "switched off and on": [
        said(user(), listing(1, BIG * 3), searches(OUTPUT, OUTPUT), turns(4)),
        lambda talk: talk.under(pruning={"enabled": False}),
        lambda talk: talk.under(enabled=False),
        said(listing(2, BIG), user()),
        lambda talk: talk.under(pruning={"enabled": True}, enabled=True),
        said(listing(3, BIG), user()),
    ],
    "another policy": [
        said(user(), listing(1, BIG * 3), searches(OUTPUT, OUTPUT), turns(4)),
        lambda talk: talk.under(policy="priced"),
        said(listing(2, BIG), bash("a", "x", OUTPUT), user()),
        lambda talk: talk.under(policy="documented"),
        said(bash("b", "x", OUTPUT), user()),
    ],
    "an input and its output": [
        said(user(), used("w", "bash", {"command": "y" * 9_000}, BIG, error=True), turns(7)),
        _hand("w"),
        _hand("w", TOOL_INPUT),
        _restored("w"),
        said(user()),
    ],
    "what comes back as it was sent": [
        said(user(), listing(1, BIG * 3), bash("a", "x", OUTPUT), bash("b", "x", OUTPUT), turns(4)),
        lambda talk: talk.history.__setitem__(slice(None), talk.send().request),
        said(listing(2, OUTPUT), user()),
    ],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("setup", SETTINGS)
@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_another_process_sends_the_same_from_the_record_alone(
    steps: list[Step], setup: str, room: dict[str, int]
):
    talk = Talk(setup, room)
    for step in steps:
        step(talk)


FILES = [name for name in STEPS if name != "what comes back as it was sent"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("setup", ["documented, eager", "priced, eager", "masking alone"])
def test_so_it_does_with_a_session_file(name: str, setup: str, tmp_path: Path):
    talk = Talk(setup, ROOMS[2], tmp_path)
    for step in STEPS[name]:
        step(talk)
    for edit in talk.send().edits:
        assert not talk.pruner.recall(f"{reference_in(edit.text)}:full").startswith("[prunewise")


def test_what_is_masked_is_in_the_ledger_and_the_rest_of_it_is_what_it_was():
    store = Memory("c")
    history = HISTORIES["what masking makes small"]
    done = Pruner("pi", Policy(SETTINGS["masking alone"]), store).project(history, now=1.0, **ROOMS[2])
    [entry] = store.ledger()
    name, data = ledger.to_data(entry)
    assert name == ledger.MASKING
    assert ledger.from_data(name, json.loads(json.dumps(data))) == entry
    assert [mask["placeholder"] for mask in data["masks"]] == [edit.text for edit in done.edits]
    folded = ledger.fold(store.ledger())
    assert (folded.standing, folded.restored, folded.active, folded.savings) == ({}, frozenset(), (), ())
    assert folded.engaged
    ended = ledger.fold([*store.ledger(), ledger.Masking(engaged=False)])
    assert (ended.engaged, ended.masks, ended.markers) == (False, {}, folded.markers)


# ---- one decision a target


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("setup", ["documented, eager", "priced, eager"])
@pytest.mark.parametrize("proposed", [2, 3])
def test_a_target_is_decided_on_once_whatever_a_policy_says(
    monkeypatch: pytest.MonkeyPatch, first: str, setup: str, proposed: int
):
    history = flat(user(), bash("a", "x", OUTPUT), bash("b", "x", OUTPUT), turns(2))
    pruner = Pruner("pi", Policy(SETTINGS[setup]), Memory("c"))
    pruner.read(history)
    one = pruner._engine.manual(first)
    names = ("dedupe", "superseded-file-ops", "another")[:proposed]
    every = [msgspec.structs.replace(one, strategy=name) for name in names]
    monkeypatch.setattr(pruner._engine, "accepted", lambda _verdict: every)
    done = pruner.project(history, now=1.0)
    assert [(decision.strategy_id, decision.target) for decision in done.decisions] == [
        ("dedupe", one.target)
    ]
    assert list(pruner.stats.removed_by_strategy) == ["dedupe"]
    pruner.restore(done.decisions[0].idempotency_key, now=2.0)
    assert ledger.fold(pruner.store.ledger()).standing == {}
    assert pruner.project(history, now=3.0).request == history


@pytest.mark.parametrize("key", ["dedupe:tool_result_content:a", "manual:tool_result_content:a", "a"])
def test_a_restore_of_one_of_two_decisions_that_came_otherwise_is_one_of_both(key: str):
    """Another program may have written a second decision on a target: undoing either shows the output."""
    made = [
        ledger.decide(name, "a", TOOL_RESULT, reason="r", placeholder=f"[{name}]", created_at="")
        for name in ("dedupe", "manual")
    ]
    history = flat(user(), bash("a", "x", OUTPUT), turns(2))
    pruner = Pruner("pi", Policy(), Memory("c", made))
    assert len(pruner.project(history, now=1.0).edits) == 1
    pruner.restore(key, now=2.0)
    assert pruner.project(history, now=3.0).request == history
    assert ledger.fold(pruner.store.ledger()).restored == {("a", TOOL_RESULT)}


def test_a_person_who_names_a_target_twice_decides_once():
    history = flat(user(), assistant(call("a", "bash", {"command": "x"})), result("a", OUTPUT), turns(2))
    pruner = Pruner("pi", Policy(), Memory("c"))
    pruner.read(history)
    entries = pruner.decide(prune=[("a", TOOL_RESULT), ("a", TOOL_RESULT)], now=1.0)
    assert [type(entry).__name__ for entry in entries] == ["Decision", "Savings"]
