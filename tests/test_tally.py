"""What pruning has brought, against a provider that bills every conversation twice: pruned and not."""

from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise.prices import Rates, Tier, assumed_prices
from prunewise.tally import Account, Balance, Call, Tally
from prunewise.transcript import Usage

RATES = Rates(1.0, 0.1, 1.25, 2.0, 5.0)
PRICES = msgspec.structs.replace(assumed_prices("m"), rates=RATES, dollars_per_million=2.0)
PREFIX = 1000


def cost(usage: Usage) -> float:
    return usage.input + 0.1 * usage.cache_read + 1.25 * usage.cache_write


@dataclass
class Provider:
    """A cache that holds the last request, and finds any beginning of the next one in it."""

    scale: float = 1.0
    held: list[float] = field(default_factory=list)
    spent: float = 0.0

    def bill(self, sizes: list[float], *, cold: bool = False) -> Usage:
        row = [PREFIX, *(self.scale * size for size in sizes)]
        common = 0
        while common < min(len(row), len(self.held)) and row[common] == self.held[common]:
            common += 1
        read = 0 if cold else round(sum(row[:common]))
        usage = Usage(0, 100, read, round(sum(row)) - read)
        self.held = row
        self.spent += cost(usage)
        return usage


@dataclass
class Twice:
    """One conversation, told to a tally, and billed as it went out and as it would have gone out."""

    scale: float = 1.0
    raw: list[float] = field(default_factory=list)
    removed: dict[int, float] = field(default_factory=dict)
    extra: set[int] = field(default_factory=set)
    """Messages that are there only because something was recalled."""

    def __post_init__(self) -> None:
        self.tally, self.account = Tally(), Account()
        self.pruned, self.whole = Provider(self.scale), Provider(self.scale)

    def add(self, *sizes: float) -> None:
        self.tally.extend(sizes)
        self.raw += sizes

    def remove(self, position: int, tokens: float) -> None:
        self.removed[position] = tokens
        self.tally.remove(position, tokens)

    def call(self, *, cold: bool = False, recalls_only: bool = False, warm: float = 1.0) -> None:
        """A request, and what answers it: without pruning it is billed too, unless it is for a recall."""
        self.tally.request(len(self.raw))
        sent = [size - self.removed.get(at, 0) for at, size in enumerate(self.raw)]
        usage = self.pruned.bill(sent, cold=cold)
        if recalls_only:
            self.pruned.spent += 5 * usage.output
        else:
            self.whole.bill([size for at, size in enumerate(self.raw) if at not in self.extra], cold=cold)
        call = self.tally.answer(usage, warm=warm, recalls_only=recalls_only)
        assert call is not None
        self.account.add(call, "m")

    @property
    def balance(self) -> Balance:
        return self.account.balance(lambda _: PRICES)

    def agrees(self, within: float = 1e-6) -> None:
        balance = self.balance
        assert balance.cost == pytest.approx(self.pruned.spent, rel=within)
        assert balance.without == pytest.approx(self.whole.spent, rel=within)


def test_what_is_left_out_before_it_is_sent_is_spared_its_writing_and_each_reading():
    twice = Twice()
    twice.add(2000)
    twice.call()
    twice.add(10, 5000)
    twice.remove(2, 4000)
    twice.call()
    twice.add(10, 10)
    twice.call()
    twice.agrees()
    assert twice.balance.net == pytest.approx(4000 * (1.25 + 0.1))
    assert twice.balance.breaks == 0


def test_a_cut_costs_the_tail_once_and_spares_reading_from_then_on():
    twice = Twice()
    twice.add(5000, 3000)
    twice.call()
    twice.add(10, 10)
    twice.remove(0, 4000)
    twice.call()
    balance = twice.balance
    twice.agrees()
    assert (balance.breaks, balance.break_cost) == (1, pytest.approx(1.15 * 4000))
    assert balance.net == pytest.approx(4000 * 0.1 - 1.15 * 4000)
    assert balance.gross == pytest.approx(4000 * 0.1)
    assert balance.share == pytest.approx(balance.net / balance.without)


def test_a_recall_costs_its_call_and_what_it_holds():
    twice = Twice()
    twice.add(2000)
    twice.call()
    twice.add(10, 5000)
    twice.remove(2, 4000)
    twice.call(recalls_only=True)  # its answer asks for the recall
    twice.add(20, 5000)
    twice.extra = {3, 4}
    for position in (3, 4):
        twice.tally.recalled(position, twice.raw[position])
    twice.account.add_recall()
    twice.call()
    twice.add(10, 10)
    twice.call()
    twice.agrees()
    balance = twice.balance
    assert balance.recalls == 1
    asked = 0.1 * (PREFIX + 2000) + 1.25 * 1010 + 5 * 100
    assert balance.recall_cost == pytest.approx(asked + 5020 * (1.25 + 0.1))
    assert balance.gross == pytest.approx(balance.net + balance.break_cost + balance.recall_cost)
    assert balance.net < 0


def test_where_the_cache_was_cold_it_would_have_been_cold_without_pruning_too():
    twice = Twice()
    twice.add(5000, 3000)
    twice.remove(0, 4000)
    twice.call()
    twice.add(10, 10)
    twice.call(cold=True)
    twice.agrees()
    assert twice.balance.net == pytest.approx(4000 * (1.25 + 1.25))


def test_a_break_that_hides_whether_the_cache_was_warm_counts_as_likely_as_it_was():
    def broken(warm: float) -> Balance:
        twice = Twice()
        twice.add(5000, 3000)
        twice.call()
        twice.add(10, 10)
        twice.remove(0, 4000)
        twice.call(warm=warm)
        return twice.balance

    assert broken(0.0).break_cost == 0
    assert broken(0.0).net == pytest.approx(4000 * 1.25)
    assert broken(0.5).net == pytest.approx((broken(0.0).net + broken(1.0).net) / 2)


def test_a_request_that_failed_is_not_counted_and_its_break_is():
    twice = Twice()
    twice.add(5000, 3000)
    twice.call()
    twice.remove(0, 4000)
    twice.tally.request(2)  # not answered
    twice.add(10)
    twice.call()
    assert (twice.balance.calls, twice.balance.breaks) == (2, 1)
    assert twice.tally.answer(Usage(10)) is None  # to nothing that went out
    twice.tally.request(3)
    assert twice.tally.answer(Usage(0, 5)) is None  # which says nothing of the input


def test_requests_of_which_nobody_knows_are_not_counted():
    twice = Twice()
    twice.add(5000, 3000)
    twice.tally.unknown(2)
    assert twice.balance == Balance()
    twice.add(10)
    twice.pruned.held = twice.whole.held = [PREFIX, 5000, 3000]
    twice.call()
    twice.agrees()


def test_after_a_cut_by_the_host_what_is_left_goes_on():
    twice = Twice()
    twice.add(5000, 3000, 10)
    twice.remove(1, 2000)
    twice.call()
    twice.remove(1, 0)
    twice.remove(1, 0)
    assert twice.tally.broken
    for kept in (3, 2, 1):
        twice.tally.cut(kept)
    assert not twice.tally.broken
    assert len(twice.tally) == 1
    del twice.raw[1:], twice.removed[1]
    twice.add(700)
    twice.call()
    twice.agrees()


def test_dollars_are_said_where_every_price_is_known():
    twice = Twice()
    twice.add(5000)
    twice.remove(0, 4000)
    assert twice.balance.net_dollars is None
    twice.call()
    assert twice.balance.net_dollars == pytest.approx(4000 * 1.25 * 2 / 1e6)
    twice.add(10)
    twice.call()
    unpriced = {"m": PRICES, "x": assumed_prices("x")}
    twice.account.add(Call(Usage(0, 1, 2000), 2000, 2000), "x")
    assert twice.account.balance(unpriced.__getitem__).net_dollars is None
    both = twice.balance.plus(twice.balance)
    assert (both.calls, both.net) == (6, pytest.approx(2 * twice.balance.net))


def test_an_hour_in_the_cache_and_a_larger_request_cost_what_they_cost():
    doubled = Rates(2.0, 0.2, 2.5, 4.0, 10.0)
    tiered = msgspec.structs.replace(PRICES, tiers=(Tier(3000, doubled),))
    tally = Tally()
    tally.extend([4000])
    tally.remove(0, 3000)
    tally.request(1)
    call = tally.answer(Usage(100, 1, 0, 900, 900))
    assert call is not None
    balance = call.bill(tiered)
    assert balance.cost == 100 + 900 * 2.0
    assert balance.without == pytest.approx(4000 * (100 + 900 * 2.0) / 1000 * 2)
    assert balance.share == 1 - balance.cost / balance.without
    assert Balance().share == 0


def test_what_nothing_was_written_of_is_priced_as_written():
    tally = Tally()
    tally.extend([1000])
    tally.remove(0, 400)
    tally.request(1)
    call = tally.answer(Usage(0, 1, 600))
    assert call is not None
    assert call.bill(PRICES).without == pytest.approx(600 * 0.1 + 400 * 1.25)


def test_how_the_provider_counts_can_be_learnt_before_anything_is_counted():
    twice = Twice(1.3)
    for size in (2000, 1000, 3000):
        twice.add(size)
        twice.tally.request(len(twice.raw))
        twice.tally.learn(twice.pruned.bill(twice.raw))
        twice.tally.learn(Usage())  # answers nothing
        twice.whole.bill(twice.raw)
    twice.pruned.spent = twice.whole.spent = 0.0
    twice.add(10, 5000)
    twice.remove(4, 4000)
    twice.call()
    twice.agrees()
    assert twice.balance.calls == 1


def test_another_model_counts_in_its_own_way():
    tally = Tally()
    for scale in (1.0, 2.0):
        tally.other_model()
        for size in (1000, 2000):
            tally.extend([size])
            tally.request(len(tally))
            tally.answer(Usage(int(scale * sum([1000, 2000, 1000, 2000][: len(tally)])), 1))
    tally.remove(0, 500)
    tally.request(4)
    call = tally.answer(Usage(11_000, 1), warm=0.0)
    assert call is not None
    assert call.bill(PRICES).net == pytest.approx(2 * 500)


def tens(tokens: float) -> int:
    """So many tens of tokens: the provider's figures are whole numbers then, at every scale."""
    return 10 * round(tokens)


@given(
    st.lists(
        st.tuples(st.integers(1, 500).map(tens), st.floats(0, 0.9), st.lists(st.integers(0, 30), max_size=2)),
        min_size=2,
        max_size=30,
    ),
    st.sampled_from([0.8, 1.0, 1.3]),
)
def test_the_tally_agrees_with_the_provider_whatever_is_cut(
    steps: list[tuple[int, float, list[int]]], scale: float
):
    """Outputs are shortened before they go out, and others behind are cut: both bills come out right."""
    twice = Twice(scale)
    twice.add(1000)
    twice.call()
    twice.add(2000)
    twice.call()  # two requests tell how the provider counts
    for size, share, cuts in steps:
        twice.add(20, size)
        if share > 0.5:
            twice.remove(len(twice.raw) - 1, tens(share * size / 10))
        for cut in cuts:
            if cut < len(twice.raw) and cut not in twice.removed:
                twice.remove(cut, tens(0.09 * twice.raw[cut]))
        twice.call()
    twice.agrees(within=0.005)
