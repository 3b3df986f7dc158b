"""The account of a session: figures by hand, and the same as if the session had never stopped."""

from typing import Any

import pytest
from tests.build import Native, assistant, bash, flat, read, user

from prunewise.priced.account import Account, Request, Taken, asking_price, recall_price
from prunewise.priced.engine import PricedEngine
from prunewise.priced.hazards import HAZARDS
from prunewise.prices import Override, PriceBook, Rates
from prunewise.pruner import Policy, Pruner
from prunewise.stores.memory import Memory

RATES = Rates(1.0, 0.1, 1.25, 1.25, 5.0)
REQUESTS = [Request(1, 0, 1000, None), Request(3, 2, 2100, 10.0), Request(5, 4, 4200, 10.0)]
SIZES = [1000, 100, 1000, 100, 2000]


def tokens(start: int, end: int) -> float:
    return sum(SIZES[start:end])


def taken(call: int, position: int, removed: int, sort: str | None = "read", target: str = "c") -> Taken:
    hazard = None if sort is None else HAZARDS[sort]
    born = position // 2
    return Taken((target, "tool_result_content"), position, born, call, removed, 1000, hazard, sort or "")


def counted(*out: Taken, warm: float = 1.0) -> Account:
    account = Account()
    for call, request in enumerate(REQUESTS):
        fresh = [one for one in out if one.call == call]
        account.answered(request, RATES, warm if call else 0.0, fresh, tokens)
    return account


def test_without_decisions_there_is_what_was_spent():
    account = counted()
    new = [1.25 * 1000, 0.1 * 1100 + 1.25 * 1000, 0.1 * 2200 + 1.25 * 2000]
    assert account.spent == pytest.approx(sum(new))
    assert account.gained == 0


def test_what_went_before_it_was_sent_is_never_written_and_then_not_read():
    assert counted(taken(1, 2, 400)).gained == pytest.approx(1.25 * 400 + 0.1 * 400)


def test_a_cut_costs_what_was_written_again_and_brings_what_is_not_read_from_then_on():
    again = 1000 + 100 - 900
    assert counted(taken(1, 0, 900)).gained == pytest.approx(-1.15 * again + 0.1 * 900 + 0.1 * 900)


def test_cuts_of_one_request_break_the_cache_once():
    account = counted(taken(2, 0, 900), taken(2, 2, 900, target="d"))
    assert account.gained == pytest.approx(-1.15 * (1000 + 100 + 1000 + 100 - 1800) + 0.1 * 1800)


def test_a_cache_that_may_have_been_lost_makes_reads_dearer_and_breaks_cheaper():
    account = counted(taken(1, 0, 900), warm=0.5)
    read_price = (0.1 + 1.25) / 2
    assert account.spent == pytest.approx(1250 + read_price * 1100 + 1250 + read_price * 2200 + 2500)
    assert account.gained == pytest.approx(-0.5 * 1.15 * 200 + 2 * read_price * 900)


def test_it_says_whether_a_request_changed_what_was_cached():
    account = Account()
    assert not account.answered(REQUESTS[0], RATES, 0.0, [], tokens)
    assert not account.answered(REQUESTS[1], RATES, 1.0, [taken(1, 2, 400)], tokens)
    assert account.answered(REQUESTS[2], RATES, 1.0, [taken(2, 0, 100, target="d")], tokens)


def test_a_recall_costs_its_request_and_ends_the_saving():
    account = counted(taken(1, 2, 400))
    before = account.gained
    account.recalled(("c", "tool_result_content"), 400, RATES, 4000)
    assert account.gained == before - asking_price(RATES, 4000, 400)
    assert account.recalls == 1
    account.answered(Request(5, 5, 4200, 10.0), RATES, 1.0, [], tokens)
    assert account.gained == before - asking_price(RATES, 4000, 400)


def test_what_is_restored_saves_nothing_any_more():
    account = counted(taken(1, 2, 400))
    before = account.gained
    account.restored(("c", "tool_result_content"))
    account.restored(("never there", "tool_result_content"))
    account.answered(Request(5, 5, 4200, 10.0), RATES, 1.0, [], tokens)
    assert account.gained == before


def test_what_recalls_may_cost_fades_is_forgotten_and_ends_with_the_recall():
    account = counted(taken(1, 2, 400))

    def at_stake(call: int, level: float = 1.0) -> tuple[float, float]:
        return account.at_stake(RATES, 10_000.0, call, 20.0, lambda _: level)

    early, spread = at_stake(3)
    assert 0 < early < recall_price(RATES, 10_000.0, 1000, 20.0)
    assert spread > 0
    assert at_stake(3, 2.0)[0] == pytest.approx(2 * early)
    assert 0 < at_stake(30)[0] < early
    assert at_stake(300) == (0.0, 0.0)
    account.recalled(("c", "tool_result_content"), 400, RATES, 4000)
    assert at_stake(3) == (0.0, 0.0)
    assert counted(taken(1, 2, 400, None)).at_stake(RATES, 10_000.0, 3, 20.0, lambda _: 1.0) == (0.0, 0.0)


def test_what_has_gone_lately_is_exposed_and_what_stayed_away_is_trusted():
    account = counted(taken(1, 2, 400), taken(2, 0, 400, target="d"), taken(2, 4, 400, None, "e"))
    price = recall_price(RATES, 4000, 1000, 20.0)
    assert [account.exposed(RATES, 4000, call, 20.0) for call in (2, 3, 4)] == [2 * price, price, 0]
    assert [account.stayed(call) for call in (2, 3, 4)] == [0, 1, 2]
    account.recalled(("c", "tool_result_content"), 400, RATES, 4000)
    assert account.stayed(4) == 1


def test_fewer_recalls_are_expected_the_older_what_went():
    old, young = counted(taken(2, 0, 400)), counted(taken(2, 2, 400))
    assert 0 < old.expected(9) < young.expected(9) < young.expected(20)
    assert counted(taken(1, 2, 400, None)).expected(9) == 0


# ---------------------------------------------------------------- in a session

WORDS = "".join(f"line {n} of some_name_{n} in src/lib/file{n}.py, as it was printed\n" for n in range(120))
POLICY = Policy({"policy": "priced"}, PriceBook(Override(read=0.1, write=1.25, write_1h=1.25)))


def timed(natives: list[Native]) -> list[Native]:
    return [{**one, "timestamp": 1_000_000 + 1000 * at} for at, one in enumerate(natives)]


def play(one: Pruner, natives: list[Native], start: int = 0) -> Pruner:
    for end in range(start, len(natives)):
        if natives[end]["role"] == "assistant":
            one.project(natives[:end], now=1000.0 + end)
            one.observe(now=1000.0 + end)
    one.project(natives, now=1000.0 + len(natives))
    return one


def account_of(one: Pruner) -> Account:
    engine: Any = one._engine
    assert isinstance(engine, PricedEngine)
    engine.decide()
    return engine._account


def session(calls: int) -> list[Native]:
    runs = [
        bash(f"b{n}", f"pytest t{n}.py", f"run {n}\n{WORDS}")
        if n % 3
        else read(f"r{n}", f"f{n}.py", WORDS[n:])
        for n in range(calls)
    ]
    return timed(flat(user(), *runs))


@pytest.mark.parametrize("calls", [90, 91, 120])
def test_a_session_that_goes_on_has_the_account_that_it_had(calls: int):
    natives = session(calls)
    store = Memory()
    live = account_of(play(Pruner("pi", POLICY, store), natives))
    again = account_of(play(Pruner("pi", POLICY, store), natives, start=len(natives)))
    assert (again.spent, again.gained) == pytest.approx((live.spent, live.gained))
    assert store.ledger()


def test_a_restart_changes_no_cut():
    natives = session(80)
    whole = Memory()
    play(Pruner("pi", POLICY, whole), natives)
    for left_off in (41, 81, 121):
        store = Memory()
        play(Pruner("pi", POLICY, store), natives[:left_off])
        play(Pruner("pi", POLICY, store), natives, left_off)
        assert store.ledger() == whole.ledger()


def test_decisions_of_another_branch_have_brought_nothing_here():
    natives = session(60)
    store = Memory()
    play(Pruner("pi", POLICY, store), natives)
    other = timed([{**one, "toolCallId": "x"} if one["role"] == "toolResult" else one for one in natives[:3]])
    account = account_of(play(Pruner("pi", POLICY, store), [*other, assistant("so"), user()], 5))
    assert account.gained == 0
