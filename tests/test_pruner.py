"""Policy and Pruner, case by case: changed prefixes, failures, the two levels, a person's own decisions."""

import copy
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.build import (
    LONG,
    Native,
    assistant,
    bash,
    call,
    edit,
    flat,
    image,
    read,
    result,
    shell,
    summary,
    text,
    turns,
    usage,
    used,
    user,
    write,
)
from tests.histories import SETTINGS, PiFile, encoded, entry_id

from prunewise import Policy, Pruner, errors, ledger, markers, recall
from prunewise.formats.pi import PiFormat
from prunewise.pruner import Projected, PrunewiseWarning
from prunewise.stores import Original
from prunewise.stores.memory import Memory
from prunewise.stores.pi_session import PiSession
from prunewise.transcript import SHELL_OUTPUT, Message, Text

EAGER = SETTINGS["eager"]
HUGE = "a line of a large output\n" * 400
"""10,000 characters, 2,500 tokens."""
MASKING: dict[str, Any] = {"enabled": False}
"""Masking alone: the other document's strategies are off."""


def pruner_of(store: Any = None, data: Any = EAGER, **options: Any) -> Pruner:
    return Pruner("pi", Policy(data), store or Memory("c"), **options)


def placed(done: Projected) -> dict[int, str]:
    """What stands in, by position."""
    return {one.position: one.text for one in done.edits}


def names(done: Projected) -> list[str]:
    return [decision.idempotency_key for decision in done.decisions]


def twice_read() -> list[Native]:
    """Two reads of one file: the first may go."""
    return flat(user(), read("c1", "a.py"), user(), read("c2", "a.py"), user())


# ---- the request


def test_a_list_goes_in_and_a_list_comes_out():
    history = twice_read()
    out = pruner_of().prune(history)
    assert out is not history
    assert [position for position, one in enumerate(out) if one is not history[position]] == [2]
    assert pruner_of().prune(history[:3]) == history[:3]


def test_a_body_with_messages_keeps_its_other_fields_and_their_order():
    body = {"system": "be brief", "messages": twice_read(), "extra": [1]}
    done = pruner_of().project(body)
    assert list(done.request) == list(body)
    assert done.request["extra"] is body["extra"]
    assert len(done.edits) == 1
    assert pruner_of(data={"enabled": False}).project(body).request is body


def test_nothing_to_prune_gives_the_request_itself():
    for history in ([], [user()], flat(user(), read("c1", "a.py"))):
        done = pruner_of().project(history)
        assert done.request is history
        assert (done.edits, done.decisions, done.saved, done.changed, done.error) == ((), (), 0, False, None)


def test_a_request_says_what_it_took_out():
    history = twice_read()
    pruner = pruner_of()
    done = pruner.project(history)
    [decision] = done.decisions
    [savings] = [one for one in pruner.store.ledger() if isinstance(one, ledger.Savings)]
    assert decision.placeholder == done.edits[0].text == done.request[2]["content"][0]["text"]
    assert savings.tokens_removed == done.saved > 0
    stats = pruner.stats
    assert (stats.saved_tokens, stats.standing, stats.masked) == (done.saved, 1, 0)
    assert stats.raw_tokens - stats.effective_tokens == done.saved
    assert stats.removed_by_strategy == {"dedupe": done.saved}
    assert pruner.project(history).decisions == ()
    assert pruner.stats.removed_by_strategy == {"dedupe": done.saved}, "counted once"


def test_a_decision_carries_what_the_ledger_documents():
    history = twice_read()
    store = Memory("the-conversation")
    [decision] = pruner_of(store).project(history, ids=list("abcdefg"), now=0.5).decisions
    kind, data = ledger.to_data(decision)
    assert kind == "dynamic-context-pruning:decision"
    assert data["idempotencyKey"] == "dedupe:tool_result_content:c1"
    assert data["correlation"] == {"type": "toolCallId", "toolCallId": "c1"}
    assert (data["strategyId"], data["kind"], data["source"]) == ("dedupe", "tool_result_content", "auto")
    assert data["createdAt"] == "1970-01-01T00:00:00.500Z"
    assert data["entryId"] == "c"
    assert data["sessionId"] == "the-conversation"


def test_a_read_that_fails_half_way_leaves_nothing_half_read():
    history = twice_read()
    ids = [f"e{position}" for position in range(len(history))]
    pruner = pruner_of()
    pruner.read(history, ids=ids)
    with pytest.raises(ValueError, match="shorter"):
        pruner.read([*history[:3], user("another way"), user("and another")], ids=ids[:4])
    pruner.read(history, ids=ids)
    assert [message.id for message in pruner.transcript.messages] == ids


# ---- a plan records nothing


@pytest.mark.parametrize("setup", sorted(SETTINGS))
def test_a_plan_changes_nothing_of_what_follows(setup: str):
    history = flat(
        twice_read(), bash("c3", "make", HUGE, error=True), turns(6), assistant(usage=usage(900)), user()
    )
    planned, plain = pruner_of(data=SETTINGS[setup]), pruner_of(data=SETTINGS[setup])
    for end in range(1, len(history) + 1):
        if end > 5 and "c1" not in str(planned.store.ledger()):
            for one in (planned, plain):
                one.read(history[:5])
                one.prune_call("c1")
        before = tuple(planned.store.ledger())
        planned.plan(history[:end], window=1000, reserve=100)
        assert tuple(planned.store.ledger()) == before
        one = planned.project(history[:end], now=1.0, window=1000, reserve=100)
        other = plain.project(history[:end], now=1.0, window=1000, reserve=100)
        assert encoded(one.request) == encoded(other.request)
        assert (one.edits, one.saved, one.changed) == (other.edits, other.saved, other.changed)
    assert planned.stats == plain.stats
    assert planned.engaged == plain.engaged


def test_a_plan_says_what_a_request_then_does():
    history = flat(twice_read(), write("c3", "a.py"), bash("c4", "make", HUGE), user())
    plan = pruner_of().plan(history, window=2000, reserve=100)
    done = pruner_of().project(history, window=2000, reserve=100)
    assert [(one.strategy, one.call) for one in plan.proposals] == [
        (one.strategy_id, one.correlation.tool_call_id) for one in done.decisions
    ]
    assert len(plan.masked) == done.masked == 2
    assert plan.saved == done.saved
    assert plan.verdict == done.verdict


# ---- a prefix that changed

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


def conversation() -> list[Native]:
    return flat(
        twice_read(),
        bash("c3", "make " + "x" * 900, HUGE, error=True),
        turns(2),
        read("c4", "b.py", HUGE),
        write("c5", "b.py"),
        shell("ls", HUGE),
        user(),
    )


@pytest.mark.parametrize("window", [None, 2000])
@pytest.mark.parametrize("change", list(CHANGES))
def test_after_a_changed_prefix_it_sends_what_a_fresh_one_would(change: str, window: int | None):
    history = conversation()
    pruner = pruner_of()
    for end in range(1, len(history) + 1):
        pruner.project(history[:end], window=window, reserve=100)
    changed = CHANGES[change](list(history))
    fresh = pruner_of(Memory("c", pruner.store.ledger()))
    done = pruner.project(changed, now=1.0, window=window, reserve=100)
    if pruner.engaged:
        fresh.engage()
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


# ---- fail open


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

    def keep(self, reference: str, original: Original) -> None:
        self._fail("keep")
        super().keep(reference, original)

    def append(self, entries: Iterable[ledger.Entry]) -> None:
        self._fail("append")
        super().append(entries)

    def ledger(self) -> Sequence[ledger.Entry]:
        if hasattr(self, "_read_once"):
            self._fail("ledger")
        self._read_once = True
        return super().ledger()


@pytest.mark.parametrize("what", ["append", "keep", "reference", "ledger"])
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
    assert store.ledger() == ()


def test_what_stands_goes_on_standing_where_new_decisions_cannot_be_recorded():
    store = Failing("append")
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
    store = Failing("keep")
    history = flat(user(), bash("c1", "make", HUGE), user())
    pruner = pruner_of(store, MASKING)
    with pytest.warns(PrunewiseWarning, match="no keep"):
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


# ---- two levels: when masking engages


def loaded(tokens: int) -> list[Native]:
    """A history whose context pi estimates at so many tokens, by the usage of its last answer."""
    return flat(user(), bash("c1", "make", HUGE), user(), assistant("done", usage=usage(tokens)), user(""))


@pytest.mark.parametrize(("tokens", "engaged"), [(9_000, False), (9_001, True)])
def test_masking_engages_strictly_above_window_less_reserve(tokens: int, engaged: bool):
    pruner = pruner_of(data=MASKING)
    done = pruner.project(loaded(tokens), window=10_000, reserve=1_000)
    assert pruner.engaged is engaged
    assert done.masked == int(engaged)


def test_window_and_reserve_come_from_the_settings_where_the_host_says_none():
    assert pruner_of(data={**MASKING, "window": 10_000, "reserve": 1_000}).project(loaded(9_001)).masked == 1
    assert pruner_of(data={**MASKING, "window": 10_000}).project(loaded(1)).masked == 1, "reserve 16,384"
    assert pruner_of(data=MASKING).project(loaded(10**6)).masked == 0, "no window, no masking"


def test_masking_stays_engaged_when_the_usage_drops():
    pruner = pruner_of(data=MASKING)
    history = loaded(9_500)
    masked = placed(pruner.project(history, window=10_000, reserve=1_000))
    assert list(masked) == [2]
    history = flat(history, assistant("less now", usage=usage(7_000)), user())
    assert placed(pruner.project(history, window=10_000, reserve=1_000)) == masked


@pytest.mark.parametrize(
    "smaller",
    [
        [summary(), user("on")],
        [summary(), assistant("done", usage=usage(9_500)), user("on")],
    ],
    ids=["a summary alone", "a summary and an answer of before"],
)
def test_a_compaction_starts_masking_from_raw_again(smaller: list[Native]):
    pruner = pruner_of(data=MASKING)
    pruner.project(loaded(9_500), window=10_000, reserve=1_000)
    assert pruner.engaged
    stamped = [{**one, "timestamp": 1_000 + (one["role"] == "compactionSummary") * 99} for one in smaller]
    pruner.project(stamped, window=10_000, reserve=1_000)
    assert not pruner.engaged


def test_the_raw_size_has_dropped_where_only_a_shell_output_went():
    history = flat(user(), shell("ls", HUGE), user(), assistant("done", usage=usage(9_500)), user())
    pruner = pruner_of(data=MASKING)
    assert pruner.project(history, window=10_000, reserve=1_000).masked == 1
    pruner.project([history[0], *history[2:]], window=12_000, reserve=1_000)
    assert not pruner.engaged


def test_a_host_that_tells_its_compactions_may_go_to_a_smaller_branch():
    history = loaded(9_500)
    pruner = pruner_of(data=MASKING, tells_compactions=True)
    pruner.project(history, window=10_000, reserve=1_000)
    pruner.project(history[:1], window=10_000, reserve=1_000)
    assert pruner.engaged
    pruner.compacted()
    assert not pruner.engaged


def test_masking_that_had_engaged_before_goes_on():
    pruner = pruner_of(data=MASKING, engaged=True)
    assert pruner.project(loaded(5_000), window=10_000, reserve=1_000).masked == 1


def test_another_policy_goes_on_with_the_conversation():
    history = twice_read()
    pruner = pruner_of(tells_compactions=True)
    marked = pruner.project(history).request
    pruner.engage()
    off = pruner.under(Policy({"enabled": False}))
    assert off.project(history).request is history
    on = off.under(Policy(EAGER))
    assert on.engaged
    assert on.project(history).request == marked
    assert on.cache_breaks == 2, "off and on again changed what had gone out"
    assert not on.under(Policy({"pruning": {"enabled": False}})).engaged


def test_a_longer_conversation_with_another_prefix_stays_engaged():
    pruner = pruner_of(data=MASKING)
    history = loaded(9_500)
    pruner.project(history, window=10_000, reserve=1_000)
    pruner.project([user("inserted"), *history], window=10**6, reserve=1_000)
    assert pruner.engaged


def test_at_session_start_the_larger_of_usage_and_raw_estimate_counts():
    """The usage may be that of a pruned request, and never prices the raw one."""
    history = flat(user(), bash("c1", "make", HUGE), user(), assistant("done", usage=usage(500)), user())
    assert pruner_of(data=MASKING).project(history, window=3_000, reserve=1_000).masked == 1
    history = flat(user(), bash("c1", "make", HUGE), user(), assistant("done", usage=usage(9_001)), user())
    assert pruner_of(data=MASKING).project(history, window=10_000, reserve=1_000).masked == 1


def test_a_usage_that_this_pruner_has_seen_come_back_is_taken_as_it_is():
    """Its own raw request was counted by the provider: the estimate of the characters counts no more."""
    pruner = pruner_of(data=MASKING)
    history = flat(user(), bash("c1", "make", HUGE), user())
    pruner.project(history, window=100_000, reserve=1_000)
    history = flat(history, assistant("done", usage=usage(500)), user())
    assert pruner.project(history, window=3_000, reserve=1_000).masked == 0


def test_a_usage_from_another_branch_prices_no_raw_request():
    """After a fork the answers on the new branch are none that this pruner has seen."""
    pruner = pruner_of(data=MASKING)
    start = flat(user(), bash("c1", "make", HUGE), user())
    pruner.project(flat(start, assistant("one way"), user()), window=100_000, reserve=1_000)
    other = flat(
        start, assistant("the other", usage=usage(500)), user(), assistant("on", usage=usage(520)), user()
    )
    assert pruner.project(other, window=3_000, reserve=1_000).masked == 1


def test_a_usage_prices_no_request_that_a_restore_made_larger():
    pruner = pruner_of(data={"gate": {"mode": "off"}, "protections": {"recentTurns": 0}})
    history = flat(user(), bash("c1", "make", HUGE), user())
    pruner.project(history[:3])
    pruner.prune_call("c1")
    pruner.project(history, window=100_000, reserve=1_000)
    pruner.restore("c1")
    history = flat(history, assistant("done", usage=usage(500)), user())
    pruner.project(history, window=3_000, reserve=1_000)
    assert pruner.engaged, "500 were counted without the 2,500 that are back"


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_the_usage_of_a_failed_answer_does_not_count(stop: str):
    history = flat(
        user(), bash("c1", "make", HUGE), user(), assistant("x", usage=usage(10**6), stopReason=stop), user()
    )
    assert not pruner_of(data=MASKING).project(history, window=10_000, reserve=1_000).masked


def test_masking_can_be_switched_off_alone():
    data = {**EAGER, "pruning": {"enabled": False}}
    done = pruner_of(data=data).project(flat(twice_read(), loaded(10**6)), window=10_000, reserve=1_000)
    assert (done.masked, list(placed(done))) == (0, [2])


# ---- two levels: what is masked


def test_only_what_is_larger_than_the_least_size_and_before_the_current_turn_is_masked():
    rows = {"c1": 4_000, "c2": 4_001, "c3": 4_001}
    history = flat(
        user(),
        bash("c1", "one", "x" * rows["c1"]),
        bash("c2", "two", "y" * rows["c2"]),
        user(),
        bash("c3", "three", "z" * rows["c3"]),
    )
    done = pruner_of(data=MASKING).project(history, window=100, reserve=0)
    assert list(placed(done)) == [4]
    open_turn = {**MASKING, "pruning": {"protectCurrentTurn": False}}
    assert list(placed(pruner_of(data=open_turn).project(history, window=100, reserve=0))) == [4, 7]


def test_masking_keeps_images_and_they_do_not_count():
    shots = result("c1", image(90_000), text(HUGE), image(4), name="shot")
    history = flat(user(), assistant(call("c1", "shot")), shots, user())
    done = pruner_of(data=MASKING).project(history, window=100, reserve=0)
    assert done.request[2]["content"][1:] == [shots["content"][0], shots["content"][2]]
    only = flat(user(), assistant(call("c1", "shot")), result("c1", image(90_000), "small"), user())
    assert pruner_of(data=MASKING).project(only, window=100, reserve=0).masked == 0


def test_a_shell_command_is_masked_and_one_kept_from_the_model_is_not():
    history = flat(user(), shell("ls", HUGE, code=3), shell("pwd", HUGE, excludeFromContext=True), user())
    done = pruner_of(data=MASKING).project(history, window=100, reserve=0)
    [one] = done.edits
    assert (one.position, one.kind) == (1, SHELL_OUTPUT)
    assert "$ ls" in one.text
    assert "exit code 3" in one.text
    assert {**done.request[1], "output": HUGE} == history[1]


# ---- two levels: the compaction check


def checked(tokens: int, window: int = 20_000, reserve: int = 1_000, **data: Any) -> Any:
    pruner = pruner_of(data={**MASKING, **data})
    pruner.project(loaded(tokens), window=10**6, reserve=reserve)
    return pruner.check_compaction(window, reserve)


def test_a_compaction_is_cancelled_at_or_below_window_less_twice_the_reserve():
    saving = checked(20_000).before - checked(20_000).after
    assert saving > 2_000
    at_the_limit = checked(18_000 + saving)
    assert (at_the_limit.after, at_the_limit.limit, at_the_limit.cancel) == (18_000, 18_000, True)
    assert not checked(18_001 + saving).cancel


def test_a_pruner_that_has_read_nothing_cancels_no_compaction():
    assert not pruner_of(data=MASKING).check_compaction(10_000, 1_000).cancel


def test_savings_that_the_usage_lacks_already_are_not_counted_again():
    pruner = pruner_of(data=MASKING)
    history = loaded(9_500)
    first = pruner.project(history, window=10_000, reserve=1_000)
    assert first.masked == 1
    history = flat(history, assistant("pruned", usage=usage(9_400)), user())
    pruner.project(history, window=10_000, reserve=1_000)
    check = pruner.check_compaction(10_000, 1_000)
    assert check.before - check.after == 0
    assert check.before == pytest.approx(9_400, abs=10)
    assert not check.cancel


def test_the_compaction_check_changes_nothing():
    pruner, plain = pruner_of(data=MASKING), pruner_of(data=MASKING)
    history = loaded(9_500)
    for end in range(1, len(history) + 1):
        one = pruner.project(history[:end], window=10_000, reserve=1_000)
        other = plain.project(history[:end], window=10_000, reserve=1_000)
        pruner.check_compaction(10_000, 1_000)
        assert one == other
    assert pruner.stats == plain.stats


# ---- both documents together


def test_strategies_come_first_and_masking_takes_what_remains():
    history = flat(user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py", HUGE), user(), *turns(2))
    done = pruner_of().project(history, window=100, reserve=0)
    assert [(one.position, one.keep_images) for one in done.edits] == [(2, False), (5, True)]
    assert done.masked == 1
    assert names(done) == ["dedupe:tool_result_content:c1"]


def test_what_is_masked_is_not_proposed_and_stays_as_it_was_sent():
    pruner = pruner_of(data={**EAGER, "protections": {"recentTurns": 2}})
    history = flat(user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py", HUGE), user())
    masked = placed(pruner.project(history, window=100, reserve=0))
    assert sorted(masked) == [2, 5]
    longer = flat(history, *turns(5))
    done = pruner.project(longer, window=100, reserve=0)
    assert done.decisions == ()
    assert placed(done) == masked


@pytest.mark.parametrize("lines", [1, 400])
@pytest.mark.parametrize("least", [5, 1000])
def test_neither_document_acts_on_a_marker(least: int, lines: int):
    """Whoever put it there: a second engine over a projection finds nothing to do."""
    output = "word " * 2_000 if lines == 1 else ("x" * 300 + "\n") * lines
    history = flat(
        user(),
        bash("c1", "make", output),
        shell("ls", output),
        used("c2", "grep", {"q": 1}, output),
        read("c3", "a.py", output),
        read("c4", "a.py", output),
        used("c5", "bash", {"command": "y" * 3_000}, "failed", error=True),
        used("c6", "fetch", {}, text(output), image()),
        *turns(7),
    )
    data = {**EAGER, "pruning": {"minResultTokens": least}}
    done = pruner_of(data=data).project(history, window=100, reserve=0)
    assert len(done.edits) == 7
    again = pruner_of(data=data).project(done.request, window=100, reserve=0)
    assert again.edits == ()
    assert again.request is done.request


# ---- a person's own decisions


def test_a_manual_prune_passes_floor_recency_and_gate():
    data = {"thresholds": {"minCharsSaved": 10**6}, "gate": {"breakEvenThreshold": 0}}
    pruner = pruner_of(data=data)
    history = flat(user(), bash("c1", "make", "x" * 200))
    pruner.project(history)
    decision = pruner.prune_call("c1")
    assert (decision.source, decision.strategy_id) == ("manual", "manual")
    assert list(placed(pruner.project(history))) == [2]


REFUSED = {
    "not there": ("nobody", "no completed call"),
    "no result yet": ("c4", "no completed call"),
    "a protected tool": ("c1", "tool Todo is protected"),
    "a protected path": ("c2", r"path is protected by \*\*/\.env"),
    "too small": ("c3", "smaller"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_manual_prune_is_refused_with_the_reason(case: str):
    target, reason = REFUSED[case]
    pruner = pruner_of()
    history = flat(
        user(),
        used("c1", "Todo", {}),
        read("c2", "x/.env"),
        bash("c3", "true", "ok"),
        assistant(call("c4", "bash", {"command": "sleep"})),
    )
    pruner.project(history)
    with pytest.raises(errors.RefusedError, match=reason):
        pruner.prune_call(target)
    assert pruner.project(history).request is history


def test_a_second_prune_is_refused_and_a_restore_of_nothing_too():
    pruner = pruner_of()
    pruner.project(twice_read())
    with pytest.raises(errors.RefusedError, match="pruned already"):
        pruner.prune_call("c1")
    with pytest.raises(errors.RefusedError, match="nothing is pruned"):
        pruner.restore("c2")


def test_a_restored_target_is_not_proposed_by_any_strategy_nor_masked_until_a_person_prunes_it():
    history = flat(user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py", HUGE), user())
    pruner = pruner_of()
    pruner.project(history)
    pruner.restore("c1")
    longer = flat(history, write("c3", "a.py"), user())
    for one in (pruner, pruner_of(pruner.store)):
        done = one.project(longer, window=100, reserve=0)
        assert 2 not in placed(done)
    pruner.prune_call("c1")
    for one in (pruner, pruner_of(pruner.store)):
        assert "at the user's wish" in placed(one.project(longer, window=100, reserve=0))[2]


def test_a_restore_by_call_id_undoes_all_that_stands_for_it():
    pruner = pruner_of()
    history = flat(user(), used("c1", "bash", {"command": "x" * 2_000}, LONG, error=True), *turns(2))
    pruner.project(history)
    pruner.prune_call("c1")
    assert len(pruner.project(history).edits) == 2
    assert len(pruner.restore("c1")) == 2
    assert pruner.project(history).request is history


def test_what_another_process_adds_stands_once_the_ledger_is_followed():
    store = Memory("c")
    here, there = pruner_of(store, MASKING | {"enabled": True}), pruner_of(store)
    history = flat(user(), bash("c1", "make"), user())
    assert here.project(history).edits == ()
    there.project(history)
    there.prune_call("c1")
    here.follow()
    assert list(placed(here.project(history))) == [2]
    there.restore("c1")
    here.follow()
    assert here.project(history).request is history


# ---- recall


def test_a_marker_leads_to_every_part_of_what_it_stands_for(tmp_path: Path):
    file = PiFile(tmp_path / "s.jsonl")
    shot = [text("before"), image(44), text("after")]
    history = flat(
        user(),
        used("c1", "shot", {"n": 1}, *shot),
        used("c2", "shot", {"n": 1}, *shot),
        used("c3", "bash", {"command": "y" * 3_000, "é": "\ud800"}, "it\nfailed", error=True),
        shell("ls", HUGE),
        *turns(7),
    )
    for number, native in enumerate(history):
        file.message(native, entry_id(number))
    session = file.open()
    context = session.context()
    messages, ids = [one.message for one in context], [one.id for one in context]
    done = pruner_of(session).project(messages, ids=ids, window=100, reserve=0)
    references = {one.position: markers.reference_in(one.text) or "" for one in done.edits}
    assert sorted(references) == [2, 5, 7]
    for store in (session, PiSession.open(file.path)):
        parts = recall.recall_parts(store, references[2])
        assert parts == [text("before\n[image: image/png]\nafter"), image(44)]
        purged = recall.recall(store, references[5])
        assert purged.startswith('Input: {"command": "yyy')
        assert purged.endswith("\n\nOutput:\nit\nfailed")
        assert recall.recall(store, references[7] + ":full") == HUGE
        assert recall.recall(store, ids[2]) == recall.recall(store, references[2])


def test_in_memory_too_recall_gives_the_images():
    history = flat(
        user(), used("c1", "shot", {}, text("a"), image(44)), used("c2", "shot", {}, image()), *turns(2)
    )
    pruner = pruner_of()
    [one] = pruner.project(history).edits
    parts = recall.recall_parts(pruner.store, markers.reference_in(one.text) or "")
    assert parts == [text("a\n[image: image/png]"), image(44)]


@pytest.mark.parametrize("depth", [1, 3])
def test_a_recalled_output_that_is_pruned_again_leads_to_the_original(tmp_path: Path, depth: int):
    file = PiFile(tmp_path / "s.jsonl")
    history = flat(user(), read("c0", "a.py", HUGE), user())
    for level in range(depth):
        ref = entry_id(3 + 2 * level if level else 2)
        history += used(f"r{level}", "recall", {"ref": ref}, HUGE)
    history += turns(2)
    for number, native in enumerate(history):
        file.message(native, entry_id(number))
    session = file.open()
    context = session.context()
    data = {**MASKING, "pruning": {"minResultTokens": 100}}
    done = pruner_of(session, data).project(
        [one.message for one in context], ids=[one.id for one in context], window=100, reserve=0
    )
    references = {markers.reference_in(one.text) for one in done.edits}
    assert len(done.edits) == depth + 1
    assert len(references) == 1
    assert recall.recall(session, f"{references.pop()}:full") == HUGE


def test_a_mask_leads_to_what_it_stands_for_after_the_message_was_edited():
    """The host put another output in the place of one: the marker that goes out now stands for that."""
    pruner = pruner_of(data=MASKING)
    history = flat(user(), bash("c1", "make", HUGE), user())
    pruner.project(history, window=100, reserve=0)
    other = HUGE.replace("large", "fresh")
    changed = flat(user(), bash("c1", "make", other), user())
    [one] = pruner.project(changed, window=100, reserve=0).edits
    assert pruner.recall(f"{markers.reference_in(one.text)}:full") == other


def test_a_decision_of_before_leads_to_what_it_stands_for_after_the_message_was_edited():
    pruner = pruner_of()
    pruner.project(twice_read())
    changed = flat(user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py"), user())
    [one] = pruner.project(changed).edits
    assert pruner.recall(f"{markers.reference_in(one.text)}:full") == HUGE


def test_in_another_process_the_markers_of_before_lead_somewhere():
    """Only the ledger was kept: the outputs come in with the messages, before their markers go out."""
    store = Memory("c")
    history = flat(user(), used("c1", "bash", {"command": "x" * 2_000}, LONG, error=True), *turns(7))
    pruner_of(store).project(history)
    again = pruner_of(Memory("c", store.ledger()))
    [one] = again.project(history).edits
    assert again.recall(markers.reference_in(one.text) or "").startswith('Input: {"command": "xxx')


def test_the_output_of_another_tool_named_recall_is_its_own():
    history = flat(
        user(),
        bash("c1", "make", HUGE),
        used("c2", "recall", {"ref": "c1"}, "other " + HUGE),
        used("c3", "recall", {"ref": "c1"}, "other " + HUGE),
        *turns(2),
    )
    pruner = pruner_of()
    [one] = pruner.project(history).edits
    assert markers.reference_in(one.text) == "c2"
    assert pruner.recall("c2:full") == "other " + HUGE


def test_what_a_recall_showed_does_not_take_the_place_of_the_original():
    history = flat(user(), bash("c1", "make", HUGE), user(), used("c2", "recall", {"ref": "c1"}, "half"))
    pruner = pruner_of(data=MASKING)
    pruner.project(history[:4], window=100, reserve=0)
    longer = flat(history[:4], used("c2", "recall", {"ref": "c1"}, HUGE[:8_000]), *turns(2))
    done = pruner.project(longer, window=100, reserve=0)
    assert [markers.reference_in(one.text) for one in done.edits] == ["c1", "c1"]
    assert pruner.recall("c1:full") == HUGE


# ---- messages that come again in another shape


def block(value: str, **fields: Any) -> Native:
    return {"type": "text", "text": value, **fields}


def anthropic_turns() -> list[Native]:
    """Two reads of one file through the Messages API, and a word of the user's after each."""
    history: list[Native] = [{"role": "user", "content": "go"}]
    for number in ("c1", "c2"):
        arguments = {"path": "a.py"}
        called = {"type": "tool_use", "id": number, "name": "read_file", "input": arguments}
        answered = {"type": "tool_result", "tool_use_id": number, "content": LONG}
        history += {"role": "assistant", "content": [called]}, {"role": "user", "content": [answered]}
        history.append({"role": "user", "content": f"after {number}"})
    return history


BREAKPOINT = {"cache_control": {"type": "ephemeral"}}


def told_anew(history: list[Native], at: int) -> list[Native]:
    """The same as a client sends it: everything decoded anew, the breakpoint on one message."""
    history = copy.deepcopy(history)
    content = history[at]["content"]
    blocks = [block(content)] if isinstance(content, str) else content
    history[at] = {**history[at], "content": [*blocks[:-1], {**blocks[-1], **BREAKPOINT}]}
    return history


def test_a_message_that_comes_again_in_another_shape_is_as_it_was():
    history = anthropic_turns()
    pruner = Pruner("anthropic", Policy(EAGER))
    pruner.project(told_anew(history[:4], 3))
    before = pruner.transcript
    first = pruner.project(told_anew(history, 6))
    assert pruner.transcript is before, "the conversation only grew"
    assert list(placed(first)) == [2]
    for at in (6, 2, 4):
        sent = told_anew(history, at)
        done = pruner.project(sent)
        assert pruner.transcript is before
        assert (done.decisions, done.changed, done.edits) == ((), False, first.edits)
        assert done.request[2]["content"] == [{**sent[2]["content"][0], "content": first.edits[0].text}], (
            "the breakpoint is where the client put it now"
        )
        assert [at for at, one in enumerate(done.request) if one is not sent[at]] == [2]
    again = pruner.project(copy.deepcopy(history))
    assert "cache_control" not in str(again.request)


def test_an_edited_message_that_comes_again_in_equal_parts_goes_out_as_it_went():
    history = anthropic_turns()
    pruner = Pruner("anthropic", Policy(EAGER))
    first = pruner.project(history)
    assert pruner.project(copy.deepcopy(history)).request[2] is first.request[2]


def test_shape_counts_for_nothing_where_a_message_is_another():
    history = anthropic_turns()
    pruner = Pruner("anthropic", Policy(EAGER))
    pruner.project(told_anew(history, 3))
    before = pruner.transcript
    changed = told_anew(history, 1)
    changed[3]["content"] = "something else"
    pruner.project(changed)
    assert pruner.transcript is not before
    assert pruner.transcript.messages[3].parts == (Text("something else"),)


def test_a_message_of_another_id_is_another():
    history = twice_read()
    pruner = pruner_of()
    pruner.project(history, ids=[f"a{at}" for at in range(len(history))])
    pruner.project(copy.deepcopy(history), ids=["a0", "b1", *[f"a{at}" for at in range(2, len(history))]])
    assert [message.id for message in pruner.transcript.messages[:3]] == ["a0", "b1", "a2"]


# Requests of Claude Code that a gateway in front had pruned already are none of this.
CLAUDE = ("claude", "claude2_opus48", "claude2_reread", "claude2_sonnet", "claude_mcp_eager")


@pytest.mark.corpus
@pytest.mark.parametrize("client", CLAUDE)
def test_the_recorded_requests_of_claude_code_only_grow(shared: Path, client: str):
    lines = (shared / "clients" / "recordings" / client / "requests.jsonl").read_text().splitlines()
    logged = [json.loads(line) for line in lines]
    bodies = [one["body"] for one in logged if "count_tokens" not in one["path"] and one["body"]]
    bodies = [body for body in bodies if body.get("tools")]
    pruner = Pruner("anthropic", Policy(EAGER))
    pruner.project(bodies[0])
    first = pruner.transcript
    for before, body in pairwise(bodies):
        done = pruner.project(body)
        assert pruner.transcript is first
        assert done.error is None
        assert before["messages"] != body["messages"][: len(before["messages"])], "they do change shape"
    assert pruner.transcript.llm_calls == len(bodies) - 1


def test_what_is_masked_stays_masked_where_only_the_last_message_changes():
    """A host may move a breakpoint, or send the last message anew: what lies before keeps its bytes."""
    pruner = pruner_of(data={**EAGER, "protections": {"recentTurns": 4}})
    history = flat(user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py", HUGE), turns(2))
    masked = placed(pruner.project(history, window=100, reserve=0))
    assert sorted(masked) == [2, 5]
    for last in ("another", "and again, with more in it"):
        history = flat(history[:-1], user(last), turns(4))
        done = pruner.project(history, window=100, reserve=0)
        assert done.decisions == ()
        assert placed(done) == masked
        assert not done.changed
    shorter = pruner.project(history[:7], window=10**6, reserve=0)
    assert not pruner.engaged
    assert shorter.masked == 0, "the conversation got smaller: it runs raw again"


def test_what_is_masked_in_a_turn_that_is_open_again_is_not():
    pruner = pruner_of(data=MASKING)
    history = flat(user("x" * 40_000), bash("c1", "make", HUGE), user())
    assert list(placed(pruner.project(history, window=100, reserve=0))) == [2]
    again = flat(history[:3], used("c2", "fetch", {}, HUGE * 2))
    assert placed(pruner.project(again, window=100, reserve=0)) == {}


# ---------------------------------------------------------------- what a person is shown


def test_a_target_has_the_marker_that_stands_in_for_it_or_would():
    target = ("a", "tool_result_content")
    pruner = pruner_of()
    natives = [user("x"), *read("a", "a.py", LONG), user("y")]
    pruner.read(natives)
    would = pruner.marker(target)
    assert markers.reference_in(would) is not None
    pruner.decide([target])
    assert pruner.marker(target) == would
    (stands,) = pruner.project(natives).edits
    assert stands.text == would
    pruner.decide(restore=[target])
    assert pruner.marker(target) == would
    with pytest.raises(errors.RefusedError, match="no completed call"):
        pruner.marker(("b", "tool_result_content"))


def test_with_pruning_off_a_standing_decision_still_has_its_marker():
    target = ("a", "tool_result_content")
    natives = [user("x"), *read("a", "a.py", LONG), user("y")]
    store = Memory("c")
    pruner = pruner_of(store)
    pruner.read(natives)
    pruner.decide([target])
    off = pruner_of(store, {"enabled": False})
    off.read(natives)
    assert off.marker(target) == pruner.marker(target)


def test_the_tail_shrinks_with_what_is_pruned():
    target = ("a", "tool_result_content")
    pruner = pruner_of()
    pruner.read([user("x"), *read("a", "a.py", LONG), user("y")])
    before = pruner.tail_tokens(0)
    removed = pruner.preview([target]).tokens_removed
    pruner.decide([target])
    assert pruner.tail_tokens(0) == before - removed


def test_what_strategies_propose_is_told_whatever_the_gate_says():
    pruner = pruner_of(
        data={**EAGER, "gate": {"mode": "break-even", "idleThreshold": 0, "midLoopThreshold": 0}}
    )
    pruner.read([user("x"), *read("a", "a.py", LONG), *read("b", "a.py", LONG), *turns(9)])
    assert [one.call for one in pruner.proposals] == ["a"]
