"""The tally of a pruner, against a provider that bills what went out, and what would have gone out."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.build import Native, assistant, call, result, summary, user

from prunewise import Policy, Pruner
from prunewise.formats.pi import PI
from prunewise.ledger import Decision, Restore, Savings, fold
from prunewise.pruner import Caller
from prunewise.stores import Writes
from prunewise.stores.memory import Memory
from prunewise.tally import Balance
from prunewise.tokens import DOCUMENTED

EAGER = {"gate": {"mode": "off"}, "protections": {"recentTurns": 0}, "pruning": {"enabled": False}}
PRICED = {"policy": "priced", "pruning": {"enabled": False}}
LARGE = "".join(f"line {number} of a large output\n" for number in range(400))
NOISY = "\n".join(f"Receiving objects: {n // 4:3}% ({n}/400)" for n in range(401)) + "\nend" * 20
FILE = "".join(f"value_{number} = {number}\n" for number in range(300))


class Provider:
    """A cache that finds any beginning of the last request."""

    def __init__(self) -> None:
        self.held: list[Native] = []
        self.spent = 0.0

    def bill(self, request: list[Native]) -> Native:
        common = 0
        while common < min(len(request), len(self.held)) and request[common] == self.held[common]:
            common += 1
        sizes = [DOCUMENTED.message(PI.read(message, "")) for message in request]
        read, written = sum(sizes[:common]), sum(sizes[common:])
        self.held = list(request)
        self.spent += 0.1 * read + written  # as is assumed of a model that nobody knows
        return {"input": 0, "output": 100, "cacheRead": read, "cacheWrite": written}


class Talk:
    """A conversation: each request goes through the pruner, and is billed twice."""

    def __init__(self, settings: Any, **options: Any) -> None:
        self.settings = settings
        self.store = Memory("c")
        self.options = options
        self.pruner = Pruner("pi", Policy(settings), self.store, **options)
        self.natives: list[Native] = []
        self.pruned, self.whole = Provider(), Provider()
        self.extra: list[Native] = []
        """Messages that would not be there without pruning."""
        self.now = 1000.0
        self.calls = self.requests = 0

    @property
    def ids(self) -> list[str]:
        return [message["id"] for message in self.natives]

    def add(self, message: Native) -> Native:
        self.now += 1
        self.natives.append({**message, "id": f"e{self.now}", "timestamp": self.now * 1000})
        return self.natives[-1]

    def ask(self, *calls: tuple[str, Native], results: tuple[str, ...] = (), **answer: Any) -> None:
        """One request, with an answer that makes these calls, and their results."""
        self.requests += 1
        out = self.pruner.project(self.natives, ids=self.ids, now=self.now)
        usage = self.pruned.bill(out.request)
        recalls_only = bool(calls) and all(name == "recall" for name, _ in calls)
        if recalls_only:
            self.pruned.spent += usage["output"] * 5
        else:
            self.whole.bill([one for one in self.natives if one not in self.extra])
        blocks: list[Native] = []
        for name, arguments in calls:
            self.calls += 1
            blocks.append(call(f"c{self.calls}", name, arguments))
        message = assistant(*(blocks or ["Done."]), usage=usage, **answer)
        said = [self.add(message)]
        for block, text in zip(blocks, results, strict=True):
            said.append(self.add(result(block["id"], text, name=block["name"])))
        if recalls_only:
            self.extra += said

    def run(self, text: str, name: str = "bash", **arguments: str) -> None:
        self.ask((name, arguments or {"command": "make"}), results=(text,))

    def resume(self) -> None:
        """A new process."""
        self.pruner = Pruner("pi", Policy(self.settings), self.store, **self.options)

    def settle(self) -> Balance:
        """Have the last answer read."""
        self.pruner.read(self.natives, ids=self.ids)
        return self.pruner.stats.balance

    def agrees(self, balance: Balance) -> None:
        assert balance.cost == pytest.approx(self.pruned.spent, rel=1e-9)
        assert balance.without == pytest.approx(self.whole.spent, rel=0.01)


def trimmed() -> Talk:
    talk = Talk(PRICED)
    talk.add(user())
    for number in range(4):
        talk.run(f"{number}\n{NOISY}")
    return talk


def cut() -> Talk:
    talk = Talk(EAGER)
    talk.add(user())
    for _ in range(3):
        talk.run(FILE, "read", path="a.py")
        talk.run("ok")
    return talk


def restored(*calls: str) -> Talk:
    """As `cut`, where these were restored then."""
    talk = cut()
    for one in calls:
        talk.now += 1
        talk.pruner.restore(one, now=talk.now)
        talk.run("ok")
    return talk


def restored_one() -> Talk:
    return restored("c1")


def restored_both() -> Talk:
    return restored("c3", "c1")


def restored_all() -> Talk:
    talk = cut()
    talk.now += 1
    talk.pruner.decide(restore=list(fold(talk.store.ledger()).standing), now=talk.now)
    talk.run("ok")
    return talk


def restored_unsent() -> Talk:
    """Pruned and restored between two requests: neither has been sent."""
    talk = cut()
    talk.now += 1
    talk.pruner.prune_call("c5", now=talk.now)
    talk.pruner.restore("c5", now=talk.now)
    talk.run("ok")
    return talk


def pruned_again() -> Talk:
    """Restored, and then pruned by hand."""
    talk = restored("c1")
    talk.now += 1
    talk.pruner.prune_call("c1", now=talk.now)
    talk.run("ok")
    return talk


def recalled() -> Talk:
    talk = trimmed()
    talk.run("ok")
    recall_of(talk, 2)
    talk.run("ok")
    return talk


def recall_of(talk: Talk, many: int) -> None:
    """One call of the model, for the first so many outputs."""
    references = [one.reference for one in talk.store.ledger() if isinstance(one, Decision)][:many]
    calls = [("recall", {"ref": reference}) for reference in references]
    talk.ask(*calls, results=tuple(talk.pruner.recall(reference) for reference in references))


def gone_on(made: Callable[[], Talk], *, resumed: bool) -> tuple[Talk, Balance]:
    """The session after one call more, by a new process or the old one, and what it comes to in all."""
    talk = made()
    if resumed:
        talk.resume()
    talk.run("ok")
    balance = talk.settle()
    earlier = talk.pruner.stats.earlier
    return talk, balance if earlier is None else earlier.plus(balance)


@pytest.mark.parametrize("made", [trimmed, cut, recalled, restored_unsent])
@pytest.mark.parametrize("resumed", [False, True])
def test_the_saving_is_that_of_the_bills(made: Callable[[], Talk], resumed: bool):
    """Also where a new process has to tell the first half by what the ledger says."""
    talk, in_all = gone_on(made, resumed=resumed)
    assert (talk.pruner.stats.earlier is not None) is resumed
    talk.agrees(in_all)
    assert talk.pruner.stats.balance.calls == (1 if resumed else talk.requests)


@pytest.mark.parametrize("made", [restored_one, restored_both, restored_all, restored_unsent, pruned_again])
def test_a_new_process_books_what_was_restored_as_the_old_one_did(made: Callable[[], Talk]):
    balances: list[Balance] = []
    for resumed in (False, True):
        talk, in_all = gone_on(made, resumed=resumed)
        balances.append(in_all)
        assert in_all.cost == pytest.approx(talk.pruned.spent, rel=1e-9)
        assert in_all.without == pytest.approx(talk.whole.spent, rel=0.05)
    old, new = balances
    assert (new.calls, new.breaks) == (old.calls, old.breaks)
    assert new.without == pytest.approx(old.without, rel=0.005)
    assert new.break_cost == pytest.approx(old.break_cost, rel=0.02)


@pytest.mark.parametrize("lost", [Restore, Savings])
def test_a_restore_of_unknown_time_or_size_is_left_out_of_the_books(lost: type):
    talk = restored("c1")
    kept: list[Any] = []
    for entry in talk.store.ledger():
        if isinstance(entry, lost):
            if lost is Restore:
                kept.append(Restore(entry.idempotency_key, "some day"))
        else:
            kept.append(entry)
    talk.store = Memory("c")
    talk.store.commit(Writes({}, tuple(kept), 0))
    talk.resume()
    talk.run("ok")
    talk.settle()
    earlier = talk.pruner.stats.earlier
    assert earlier is not None
    assert earlier.breaks == 1  # that of the decision which stands


def test_breaks_and_recalls_are_in_it():
    balance = cut().settle()
    assert balance.breaks == 2
    assert balance.break_cost > 0
    balance = recalled().settle()
    assert (balance.breaks, balance.recalls) == (0, 2)
    assert balance.recall_cost > 0


def test_a_recall_beside_other_calls_is_no_call_of_its_own():
    talk = trimmed()
    talk.run("ok")
    reference = talk.store.ledger()[0].reference
    before = talk.settle()
    recall = ("recall", {"ref": reference})
    talk.ask(recall, ("bash", {"command": "make"}), results=(talk.pruner.recall(reference), "ok"))
    talk.run("ok")
    after = talk.settle()
    assert after.recalls == 1
    assert after.recall_cost == pytest.approx(len(talk.pruner.recall(reference)) / 4 + 10, rel=0.05)
    assert after.without > before.without


def test_a_session_that_nothing_was_pruned_in_has_no_earlier_balance():
    talk = Talk(PRICED)
    talk.add(user())
    talk.run("ok")
    talk.resume()
    talk.run("ok")
    assert talk.settle().calls == 1
    assert talk.pruner.stats.earlier is None


def test_what_answered_something_else_is_not_counted():
    """Answers from before a summary, which the host keeps behind it, and those to no request of ours."""
    talk = trimmed()
    kept = talk.natives[-4:]
    talk.natives = []
    talk.add(summary("All was well."))
    talk.natives += kept
    talk.resume()
    talk.run("ok")
    assert talk.settle().calls == 1
    assert talk.pruner.stats.earlier is not None
    assert talk.pruner.stats.earlier.calls == 0
    usage = {"input": 5, "output": 1, "cacheRead": 0, "cacheWrite": 0}
    talk.add(assistant("Nobody asked.", usage=usage))
    assert talk.settle().calls == 1


def test_a_decision_dated_before_its_output_came_counts_for_nothing_of_before():
    talk = trimmed()
    talk.natives = [{**one, "timestamp": one["timestamp"] + 10_000_000} for one in talk.natives]
    talk.resume()
    talk.run("ok")
    assert talk.settle().calls == 1
    assert talk.pruner.stats.saved_tokens > 0
    assert talk.pruner.stats.earlier is None


def test_another_branch_goes_on_from_what_it_shares():
    talk = trimmed()
    talk.settle()
    del talk.natives[3:]
    talk.run("ok")
    talk.run("ok")
    talk.settle()
    talk.agrees(talk.pruner.stats.balance)


def test_a_request_that_failed_costs_nothing():
    talk = trimmed()
    before = talk.settle().calls
    talk.pruner.project(talk.natives, ids=talk.ids, now=talk.now)
    talk.add(assistant("half", usage={"input": 1, "output": 1}, stopReason="error"))
    talk.pruner.project(talk.natives, ids=talk.ids, now=talk.now)
    talk.add(assistant("no input told", usage={"input": 0, "output": 1}))
    talk.run("ok")
    assert talk.settle().calls == before + 1


def test_another_policy_goes_on_with_the_tally():
    talk = trimmed()
    before = talk.settle()
    talk.pruner = talk.pruner.under(Policy(EAGER))
    talk.run("ok")
    after = talk.settle()
    assert after.calls == before.calls + 1
    talk.agrees(after)


def test_a_pruner_that_failed_goes_on_from_nothing():
    talk = trimmed()
    before = talk.settle().calls
    with pytest.warns(UserWarning, match="unpruned"):
        talk.pruner.project(talk.natives, ids=["one"], now=talk.now)
    talk.run("ok")
    talk.run("ok")
    assert talk.settle().calls == before + 2


def test_another_model_is_counted_by_its_own_price_and_found_nothing():
    class Book:
        def prices_for(self, model: str) -> Any:
            from prunewise.prices import assumed_prices

            asked.append(model)
            return assumed_prices(model)

    asked: list[str] = []
    talk = cut()
    talk.pruner = Pruner("pi", Policy(EAGER, Book()), Memory("d"))
    talk.natives = talk.natives[:1]
    talk.pruned, talk.whole = Provider(), Provider()
    talk.run(FILE, "read", path="a.py")
    talk.run("ok")
    talk.pruned.held = talk.whole.held = []
    talk.ask(("read", {"path": "a.py"}), results=(FILE,), model="other")
    talk.pruned.held = talk.whole.held = []
    talk.ask(model="third")
    balance = talk.settle()
    assert set(asked) == {"m", "other", "third"}
    assert (balance.breaks, balance.break_cost) == (1, 0)
    talk.agrees(balance)


def test_the_moment_goes_to_the_engine(monkeypatch: pytest.MonkeyPatch):
    talk = trimmed()
    moments: list[Any] = []
    engine = talk.pruner._engine
    verdict = engine.verdict
    monkeypatch.setattr(engine, "verdict", lambda moment: [moments.append(moment), verdict(moment)][1])
    me = Caller("m", "p", "bash")
    talk.pruner.project(talk.natives, ids=talk.ids, now=talk.now, caller=me)
    talk.pruner.observe(now=talk.now + 1)
    longer, ids = [*talk.natives, user()], [*talk.ids, "next"]
    talk.pruner.project(longer, ids=ids, now=talk.now + 61, caller=Caller("n", "p", "bash"))
    assert [(one.model, one.provider, one.cold) for one in moments] == [("m", "p", False), ("n", "p", True)]
    assert moments[1].seconds_since_call == 60


# ---- what could never have been sent


def reads(settings: Any, most: int) -> Talk:
    """The same file read again and again: what was read before goes."""
    talk = Talk(settings)
    talk.add(user())
    for _ in range(most):
        talk.run(FILE, "read", path="a.py")
        talk.run("ok")
    return talk


@pytest.mark.parametrize("window", [None, 100_000, 7_500, 7_000, 5_000])
def test_nothing_is_compared_with_a_request_that_the_window_could_not_hold(window: int | None):
    limited = reads(EAGER | {"window": window, "reserve": 1_000}, 6)
    balance = limited.settle()
    sizes = [
        sum(DOCUMENTED.message(PI.read(one, "")) for one in limited.natives[:end]) for end in range(1, 25, 2)
    ]
    fitting = sum(window is None or size <= window - 1_000 for size in sizes)
    assert (balance.calls, balance.past_window) == (fitting, 12 - fitting)
    assert balance.past_window > 0 or window in (None, 100_000)
    # What is counted is what a conversation comes to that ended there.
    free = reads(EAGER, 6)
    assert free.settle().past_window == 0
    if fitting == 12:
        assert balance == free.settle()
    else:
        assert balance.net < free.settle().net


def test_what_was_sent_whole_has_fitted_whatever_the_window_is_said_to_be():
    balance = reads(
        {"enabled": False, "pruning": {"enabled": False}, "window": 2_000, "reserve": 500}, 6
    ).settle()
    assert (balance.calls, balance.past_window, balance.net) == (12, 0, pytest.approx(0))


def test_after_a_compaction_calls_count_again():
    talk = reads(EAGER | {"window": 5_000, "reserve": 1_000}, 6)
    before = talk.settle()
    talk.natives = [{**summary("so far"), "id": "s", "timestamp": talk.now * 1000}]
    talk.pruner.compacted()
    talk.run("ok")
    talk.run("ok")
    after = talk.settle()
    assert after.past_window == before.past_window
    assert after.calls > before.calls


@pytest.mark.parametrize(("window", "told"), [(None, False), (5_000, True)])
def test_what_the_ledger_tells_of_before_stops_there_too(window: int | None, told: bool):
    talk = reads(EAGER | {"window": window, "reserve": 1_000}, 6)
    talk.resume()
    talk.pruner.project(talk.natives, ids=talk.ids, now=talk.now)
    earlier = talk.pruner.stats.earlier
    assert earlier is not None
    assert (earlier.past_window > 0) == told
