"""The purse of a session that goes on: figures by hand, and the same as if it had never stopped."""

from typing import Any

import pytest
from tests.build import Native, assistant, bash, flat, messages, read, usage, user

from prunewise.priced.engine import PricedEngine
from prunewise.priced.purse import Purse
from prunewise.priced.recount import Recalled, Request, Taken, call_of, recount, requests
from prunewise.prices import Override, PriceBook, Prices, Rates, assumed_prices
from prunewise.pruner import Policy, Pruner
from prunewise.stores.memory import Memory

RATES = Rates(1.0, 0.1, 1.25, 1.25, 5.0)
PRICES = Prices("m", assumed_prices().rules, RATES)
EARLIER = [Request(1, 0, 1000, 10.0), Request(3, 2, 2100, 20.0), Request(5, 4, 4200, 30.0)]
SIZES = [1000, 100, 1000, 100, 2000]


def counted(*taken: Taken, recalls: tuple[Recalled, ...] = ()) -> Purse:
    purse = Purse()
    recount(purse, PRICES, EARLIER, SIZES, taken, recalls=recalls)
    return purse


def test_requests_are_what_came_before_each_answer():
    natives = flat(user(), assistant("a", usage=usage(5000)), user(), assistant("b"), assistant("c"), user())
    assert [(one.end, one.sent, one.context) for one in requests(messages(natives), [10] * 6)] == [
        (1, 0, 10),
        (3, 2, 5010),
    ]


@pytest.mark.parametrize(
    ("decided_at", "call"),
    [(5.0, 0), (10.0, 0), (10.001, 0), (10.1, 1), (20.0, 1), (29.0, 2), (99.0, 2), (None, 7)],
)
def test_a_decision_was_first_in_the_request_that_was_answered_next(decided_at: float | None, call: int):
    assert call_of(decided_at, EARLIER, unknown=7) == call


def test_without_times_nobody_knows():
    assert call_of(5.0, [Request(1, 0, 10, None)], unknown=7) == 7


def test_without_decisions_there_is_what_was_spent():
    purse = counted()
    new = [1.25 * 1000, 0.1 * 1100 + 1.25 * 1000, 0.1 * 2200 + 1.25 * 2000]
    assert purse.spent == pytest.approx(sum(new))
    assert purse.gained == 0


def test_what_was_shortened_at_birth_is_never_written_and_then_not_read():
    purse = counted(Taken(1, 1, 2, 400, "test", 1000))
    assert purse.gained == pytest.approx(1.25 * 400 + 0.1 * 400)
    assert purse.may_break(0)


def test_a_cut_costs_what_was_written_again_and_brings_what_is_not_read_from_then_on():
    purse = counted(Taken(1, 0, 0, 900, "read", 1000))
    again = 1000 + 100 - 900
    assert purse.gained == pytest.approx(-1.15 * again + 0.1 * 900)
    assert not purse.may_break(0), "it was the one break that a session may begin with"


def test_cuts_of_one_request_break_the_cache_once():
    purse = counted(Taken(2, 0, 0, 900, "read", 1000), Taken(2, 1, 2, 900, "read", 1000))
    assert purse.gained == pytest.approx(-1.15 * (1000 + 100 + 1000 + 100 - 1800))


def test_what_came_back_saves_nothing_any_more():
    purse = counted(Taken(1, 1, 2, 400, "test", 1000), recalls=(Recalled(3, 300),))
    assert purse.gained == pytest.approx(1.25 * 400 + 0.1 * (400 - 300))


def test_what_may_come_back_is_at_stake():
    assert counted(Taken(1, 1, 2, 400, "read", 1000)).at_stake(RATES, 4000, 3, 20)[0] > 0
    assert counted(Taken(1, 1, 2, 400)).at_stake(RATES, 4000, 3, 20) == (0, 0)


def test_a_cache_that_may_have_been_lost_makes_reads_dearer_and_breaks_cheaper():
    purse = Purse()
    taken = Taken(1, 0, 0, 900, "read", 1000)
    recount(purse, PRICES, EARLIER, SIZES, [taken], warm=lambda pause: {10.0: 0.5}[pause or 0.0])
    read = (0.1 + 1.25) / 2
    assert purse.spent == pytest.approx(1250 + read * 1100 + 1250 + read * 2200 + 2500)
    assert purse.gained == pytest.approx(-0.5 * 1.15 * 200 + read * 900)
    untimed = [Request(one.end, one.sent, one.context, None) for one in EARLIER]
    cold = Purse()
    recount(cold, PRICES, untimed, SIZES, [taken], warm=lambda pause: 0.0 if pause is None else 1.0)
    assert cold.gained == pytest.approx(1.25 * 900)
    assert cold.may_break(0), "a cold cache is not broken"


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


def purse_of(one: Pruner) -> Purse:
    engine: Any = one._engine
    assert isinstance(engine, PricedEngine)
    return engine._purse


def session(calls: int) -> list[Native]:
    runs = [
        bash(f"b{n}", f"frobnicate {n}", f"run {n}\n{WORDS}")
        if n % 3
        else read(f"r{n}", f"f{n}.py", WORDS[n:])
        for n in range(calls)
    ]
    return timed(flat(user(), *runs))


def test_a_session_that_goes_on_has_what_it_had():
    natives = session(60)
    store = Memory()
    one = play(Pruner("pi", POLICY, store), natives)
    assert store.ledger()
    live = purse_of(one)
    again = purse_of(play(Pruner("pi", POLICY, store), [*natives, user()], start=len(natives) + 1))
    assert again.spent == pytest.approx(live.spent, rel=0.05)
    assert again.gained == pytest.approx(live.gained, rel=0.05)
    assert again.may_break(60) == live.may_break(60)


def test_a_restart_does_not_end_the_cuts():
    """As many tokens go in the end, wherever the session was left off."""
    natives = session(80)
    whole = play(Pruner("pi", POLICY, Memory()), natives).stats.saved_tokens
    for left_off in (41, 81, 121):
        store = Memory()
        play(Pruner("pi", POLICY, store), natives[:left_off])
        assert play(Pruner("pi", POLICY, store), natives, left_off).stats.saved_tokens >= 0.9 * whole


def test_decisions_of_another_branch_have_brought_nothing_here():
    natives = session(40)
    store = Memory()
    play(Pruner("pi", POLICY, store), natives)
    other = timed([{**one, "toolCallId": "x"} if one["role"] == "toolResult" else one for one in natives[:3]])
    assert purse_of(play(Pruner("pi", POLICY, store), [*other, assistant("so"), user()], 5)).gained == 0
