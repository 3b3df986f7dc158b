import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from prunewise.prices import UNKNOWN, Prices, Rates
from prunewise.recording import LLMCall
from prunewise.replay import optimum as module
from prunewise.replay.bill import Account, Removal, Stretch, open_account, suffix_bill
from prunewise.replay.optimum import Candidate, optimum
from prunewise.transcript import Usage

FREE_RULES = replace(UNKNOWN, minimum=0)


class Book:
    """A model's name is its rates: read and write. No minimum, no steps, no tiers."""

    def prices_for(self, model: str, provider: str = "", when: float | None = None) -> Prices:  # noqa: ARG002
        read, write = map(float, model.split())
        return Prices(model, FREE_RULES, Rates(1.0, read, write, 2 * write, 5.0))


def session(sizes: list[float], calls: list[LLMCall], prefix: float = 50) -> Account:
    return open_account([Stretch(sizes, calls)], Book(), assumed_prefix=prefix)


def growing(count: int, size: float, model: str = "0.1 1.25") -> Account:
    """Two messages a call."""
    calls = [LLMCall(2 * index + 1, model=model, time=float(index)) for index in range(count)]
    return session([size] * (2 * count), calls)


# ---------------------------------------------------------------- by hand


def test_without_candidates_there_is_nothing_to_save():
    account = growing(3, 100)
    # 150 written; 150 read, 200 written; 350 read, 200 written
    assert optimum(account, []).cost == pytest.approx(1.25 * 550 + 0.1 * 500)
    assert optimum(account, [[]]).saving == 0
    assert optimum(account, [()]).cuts == ((),)
    assert optimum(open_account([], Book()), []).cost == 0


def test_a_cut_that_pays_is_made_as_soon_as_it_may_be():
    account = growing(40, 100)
    best = optimum(account, [[Candidate(1, 90, 3)]])
    # At call 3 messages 1 to 4 are cached, 400 tokens, of which 310 stay: (1.25 - 0.1) * 310 once,
    # for 9 in each of calls 3 to 39.
    assert best.saving < 0.1 * 90 * 37
    assert best.cuts == ((),)
    best = optimum(account, [[Candidate(1, 90, 3)]] * 1)
    assert best.saving == 0
    cheap = growing(40, 100, "0.5 1.0")
    best = optimum(cheap, [[Candidate(1, 90, 3)]])
    assert best.cuts == ((Removal(3, 1, 90),),)
    assert best.saving == pytest.approx(0.5 * 90 * 37 - 0.5 * 310)


def test_a_cut_waits_for_what_comes_up_soon():
    account = growing(30, 100, "0.5 1.0")
    best = optimum(account, [[Candidate(1, 95, 3), Candidate(3, 95, 4)]])
    assert {cut.call for cut in best.cuts[0]} == {4}


def test_what_was_never_sent_goes_for_nothing():
    account = growing(3, 100)
    best = optimum(account, [[Candidate(4, 60, 0)]])
    assert best.cuts == ((Removal(2, 4, 60),),)
    assert best.saving == pytest.approx(1.25 * 60)


def test_at_a_cold_call_everything_goes_for_nothing():
    calls = [LLMCall(2 * index + 1, model="0.1 1.25", time=float(index)) for index in range(4)]
    calls[3] = replace(calls[3], time=10_000.0)
    account = session([100.0] * 8, calls)
    best = optimum(account, [[Candidate(1, 90, 2), Candidate(2, 50, 3), Candidate(0, 10, 9)]])
    assert best.cuts == ((Removal(3, 1, 90), Removal(3, 2, 50)),)
    assert best.saving == pytest.approx(1.25 * 140)


def test_no_more_goes_than_there_is():
    account = growing(3, 100)
    best = optimum(
        account, [[Candidate(4, 60, 0), Candidate(4, 70, 0), Candidate(4, 5, 0), Candidate(4, 0, 0)]]
    )
    assert sum(cut.removed for cut in best.cuts[0]) == 100


def test_a_failed_call_is_no_free_moment():
    calls = [
        LLMCall(2 * index + 1, model="0.1 1.25", time=float(index), failed=index == 2) for index in range(6)
    ]
    account = session([100.0] * 12, calls)
    best = optimum(account, [[Candidate(1, 90, 2)]])
    assert best.cuts == ((),)
    assert best.cost == pytest.approx(suffix_bill(account).total)


# ---------------------------------------------------------------- against brute force


def simulate(account: Account, candidates: list[Candidate], chosen: tuple[int | None, ...]) -> float:
    """The suffix model, said as plainly as it can be: each candidate goes at a call of its own."""
    (page,) = account.pages
    total, sizes, gone = 0.0, page.sizes.tolist(), set[int]()
    changed = len(sizes)
    for call in range(len(page.calls)):
        for index, candidate in enumerate(candidates):
            if chosen[index] is not None and chosen[index] <= call and index not in gone:
                gone.add(index)
                sizes[candidate.position + 1] -= candidate.removed
                changed = min(changed, candidate.position + 1)
        if not page.billed[call]:
            continue
        rates, held = page.prices[call].rates, min(page.cached[call], changed)
        for item in range(page.ends[call]):
            share = min(1.0, max(0.0, held - item))
            total += sizes[item] * (share * rates.read + (1 - share) * rates.write)
        changed = len(sizes)
    return total


models = st.sampled_from(["0.1 1.25", "0.5 1.0", "0.25 1.0", "0.025 1.25", "0.3 2.0"])


@st.composite
def instances(draw: st.DrawFn) -> tuple[Account, list[Candidate]]:
    count = draw(st.integers(1, 5))
    model = draw(models)
    calls: list[LLMCall] = []
    sizes: list[float] = []
    now = 0.0
    for _ in range(count):
        sizes += [float(size) for size in draw(st.lists(st.integers(1, 90), min_size=1, max_size=3))]
        now += draw(st.sampled_from([1, 1, 1, 400]))
        one = draw(st.sampled_from([model, model, model, draw(models)]))
        calls.append(LLMCall(len(sizes), model=one, time=now, failed=draw(st.integers(0, 9)) == 0))
    if draw(st.booleans()):
        calls = [replace(call, usage=draw(usages())) for call in calls]
    account = session(sizes, calls, draw(st.integers(0, 60)))
    left = account.pages[0].sizes[1:].copy()
    candidates: list[Candidate] = []
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(sizes) - 1))
        removed = float(left[position]) * draw(st.sampled_from([0.3, 0.9, 1.0])) / account.calibration.scale
        left[position] -= removed * account.calibration.scale
        born = next((index for index, call in enumerate(calls) if call.position > position), count)
        candidates.append(Candidate(position, removed, born + draw(st.integers(0, 2))))
    return account, candidates


@st.composite
def usages(draw: st.DrawFn) -> Usage | None:
    """Usage that has little to do with the messages: caches that hold odd parts of requests."""
    read, write = draw(st.integers(0, 200)), draw(st.integers(1, 100))
    return draw(st.sampled_from([None, Usage(0, 1, read, write)]))


@given(instances())
def test_brute_force_finds_no_cheaper_schedule(instance: tuple[Account, list[Candidate]]):
    account, candidates = instance
    scale = account.calibration.scale
    scaled = [replace(one, removed=one.removed * scale) for one in candidates]
    count = len(account.pages[0].calls)
    best = optimum(account, [candidates])
    choices = [[None, *range(one.eligible, count)] for one in candidates]
    cheapest = min(simulate(account, scaled, chosen) for chosen in itertools.product(*choices))
    assert best.cost == pytest.approx(cheapest, rel=1e-9, abs=1e-9)
    assert best.baseline == pytest.approx(
        simulate(account, scaled, (None,) * len(scaled)), rel=1e-9, abs=1e-9
    )


@given(instances())
def test_the_schedule_costs_what_is_said(instance: tuple[Account, list[Candidate]]):
    account, candidates = instance
    best = optimum(account, [candidates])
    assert suffix_bill(account, best.cuts).total == pytest.approx(best.cost, rel=1e-9, abs=1e-6)
    assert suffix_bill(account).total == pytest.approx(best.baseline, rel=1e-9, abs=1e-6)


def masking(calls: int, seed: int = 0) -> tuple[Account, list[list[Candidate]]]:
    """A session in which every result may go eight calls later."""
    rng = np.random.default_rng(seed)
    sizes = [float(size) for size in rng.lognormal(6, 1, 2 * calls)]
    account = session(sizes, [LLMCall(2 * n + 1, model="0.1 1.25", time=float(n)) for n in range(calls)])
    return account, [[Candidate(2 * n, sizes[2 * n] * 0.95, n + 8) for n in range(calls)]]


def test_little_memory_gives_the_same_schedule(monkeypatch: pytest.MonkeyPatch):
    account, candidates = masking(60)
    best = optimum(account, candidates)
    monkeypatch.setattr(module, "_UNDO_BYTES", 60 * 60 * 2 * 7)
    monkeypatch.setattr(module, "_BLOCK_CELLS", 61 * 7)
    assert optimum(account, candidates) == best


def test_where_not_all_calls_are_tried_the_schedule_is_dearer_and_costs_what_is_said(
    monkeypatch: pytest.MonkeyPatch,
):
    account, candidates = masking(120)
    best = optimum(account, candidates)
    monkeypatch.setattr(module, "MOST_WORK", 120 * 30**3)
    near = optimum(account, candidates)
    assert len({cut.call for cut in near.cuts[0]}) < len({cut.call for cut in best.cuts[0]})
    assert best.cost < near.cost < best.cost + 0.1 * best.saving
    assert suffix_bill(account, near.cuts).total == pytest.approx(near.cost, rel=1e-9)


@given(instances())
def test_few_calls_give_a_schedule_that_costs_what_is_said(instance: tuple[Account, list[Candidate]]):
    account, candidates = instance
    best = optimum(account, [candidates])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_WORK", 1)
        near = optimum(account, [candidates])
    assert best.cost <= near.cost + 1e-6
    assert suffix_bill(account, near.cuts).total == pytest.approx(near.cost, rel=1e-9, abs=1e-6)


def test_a_session_of_150_calls_has_a_schedule():
    account, candidates = masking(150)
    best = optimum(account, candidates)
    assert 0.1 < best.saving / best.baseline < 0.9
