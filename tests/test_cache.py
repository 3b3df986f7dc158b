import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from prunewise.cache import Block, Breakpoint, CacheState, Prefix, Request, Split
from prunewise.prices import CacheRules, Rates, rules_for
from prunewise.transcript import Usage


def rules(model: str) -> CacheRules:
    row = rules_for(model)
    assert row
    return row


CLAUDE = rules("claude-opus-5")  # breakpoints, 512 at least, 20 positions back, 5 minutes or 1 hour
GPT = rules("gpt-5.2")  # automatic, 1024 and steps of 128, 10 minutes
NEW_GPT = rules("gpt-5.6")  # breakpoints, 1024 at least, found at any distance, 30 minutes
MINIMAX = rules("minimax-m2")  # automatic, with a write premium


def blocks(*sizes: int, name: str = "b") -> list[Block]:
    return [(f"{name}{index}", size) for index, size in enumerate(sizes)]


def request(prefix: Prefix, time: float = 0.0, *at: int, long: bool = False) -> Request:
    return Request(prefix, time, tuple(Breakpoint(a, long) for a in at) if at else None)


SYSTEM = Prefix("claude", [("system", 1000)])
FIRST = SYSTEM.extended(blocks(500, 500))
SECOND = FIRST.extended(blocks(300, 200, name="c"))


# ---------------------------------------------------------------- prefixes


def test_a_prefix_knows_its_size_and_what_it_shares():
    assert (len(SECOND), SECOND.tokens, SECOND.ends) == (5, 2500, (0, 1000, 1500, 2000, 2300, 2500))
    assert SECOND.common(FIRST) == FIRST.common(SECOND) == 3
    changed = SECOND.replaced(2, [("marker", 10)])
    assert (len(changed), changed.tokens, changed.common(SECOND)) == (3, 1510, 2)
    assert Prefix("claude").common(Prefix("gpt")) == -1
    assert Prefix("claude", [("system", 999)]).common(SYSTEM) == 0


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_the_shared_beginning_is_found_by_halving(left: list[int], right: list[int]):
    one = Prefix("", [(str(value), 1) for value in left])
    two = Prefix("", [(str(value), 1) for value in right])
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    assert one.common(two) == two.common(one) == shared


def test_identities_may_hold_anything():
    assert Prefix("", [("\ud800", 1)]).common(Prefix("", [("\ud801", 1)])) == 0


def test_a_split_adds_up_and_costs():
    split = Split(1000, 100, 10, 1)
    assert split.tokens == 1111
    assert split.cost(Rates(1.0, 0.1, 1.25, 2.0, 5.0)) == 100 + 125 + 20 + 1


# ---------------------------------------------------------------- caches with breakpoints


def test_the_first_request_is_written_and_the_next_reads_it():
    state = CacheState(CLAUDE)
    assert state.expect(request(FIRST)) == Split(write=2000)
    state = state.after(request(FIRST))
    assert state.expect(request(SECOND, 60)) == Split(read=2000, write=500)


def test_input_behind_the_last_breakpoint_is_not_cached():
    assert CacheState(CLAUDE).expect(request(SECOND, 0, 3)) == Split(write=2000, uncached=500)


def test_a_request_without_breakpoints_is_cached_to_its_end_only_where_the_provider_sets_one():
    assert CacheState(CLAUDE).expect(Request(FIRST, 0, ())) == Split(uncached=2000)
    assert CacheState(CLAUDE).expect(Request(FIRST, 0, None)) == Split(write=2000)


def test_a_short_prefix_is_not_cached():
    short = Prefix("", blocks(511))
    state = CacheState(CLAUDE).after(request(short))
    assert state.expect(request(short)) == Split(uncached=511)
    assert CacheState(CLAUDE).expect(request(Prefix("", blocks(512)))) == Split(write=512)
    assert CacheState(CLAUDE).expect(request(short.extended([("x", 600)]), 0, 1, 2)) == Split(write=1111)


@pytest.mark.parametrize(("pause", "read"), [(300, 2000), (301, 0)])
def test_an_entry_lives_five_minutes(pause: float, read: int):
    state = CacheState(CLAUDE).after(request(FIRST))
    assert state.expect(request(FIRST, pause)).read == read


def test_a_use_starts_the_time_again_where_the_provider_says_so():
    state = CacheState(CLAUDE).after(request(FIRST)).after(request(FIRST, 200))
    assert state.expect(request(FIRST, 400)).read == 2000
    strict = CacheState(replace(CLAUDE, refreshed=False)).after(request(FIRST)).after(request(FIRST, 200))
    assert strict.expect(request(FIRST, 400)).read == 0


def test_reading_a_longer_entry_does_not_keep_a_shorter_one_alive():
    state = CacheState(CLAUDE).after(request(FIRST)).after(request(SECOND, 100)).after(request(SECOND, 390))
    assert state.expect(request(SECOND, 500)).read == 2500
    assert state.expect(request(FIRST.extended(blocks(900, name="other")), 500)).read == 0


@pytest.mark.parametrize(("pause", "read"), [(3600, 2000), (3601, 0)])
def test_a_long_entry_lives_an_hour_and_costs_more_to_write(pause: float, read: int):
    first = request(FIRST, 0, 3, long=True)
    assert CacheState(CLAUDE).expect(first) == Split(write_1h=2000)
    assert CacheState(CLAUDE).after(first).expect(request(FIRST, pause)).read == read


def test_long_and_short_entries_in_one_request():
    mixed = Request(FIRST, 0, (Breakpoint(1, long=True), Breakpoint(3)))
    assert CacheState(CLAUDE).expect(mixed) == Split(write_1h=1000, write=1000)
    state = CacheState(CLAUDE).after(mixed)
    assert state.expect(Request(FIRST, 1000, mixed.breakpoints)) == Split(read=1000, write=1000)


def test_only_the_last_four_breakpoints_count():
    state = CacheState(CLAUDE).after(request(SECOND, 0, 1, 2, 3, 4, 5))
    assert sorted(entry.length for entry in state.entries) == [2, 3, 4, 5]


@pytest.mark.parametrize(("added", "read"), [(19, 2000), (20, 0)])
def test_an_entry_is_found_twenty_positions_back_the_breakpoint_being_the_first(added: int, read: int):
    state = CacheState(CLAUDE).after(request(FIRST))
    longer = FIRST.extended(blocks(*[10] * added, name="new"))
    assert state.expect(request(longer, 1)).read == read


def test_a_breakpoint_of_its_own_keeps_the_system_prompt_within_reach():
    state = CacheState(CLAUDE).after(request(FIRST, 0, 1, 3))
    longer = FIRST.extended(blocks(*[10] * 30, name="new"))
    assert state.expect(request(longer, 1, 1, len(longer))) == Split(read=1000, write=1300)
    assert state.expect(request(longer, 1, 1, 3, len(longer))) == Split(read=2000, write=300)


def test_a_cut_falls_back_to_the_entry_before_it():
    state = CacheState(CLAUDE).after(request(FIRST, 0, 1, 3)).after(request(SECOND, 1, 1, 5))
    cut = SECOND.replaced(3, [("marker", 20), ("c1", 200)])
    assert state.expect(request(cut, 2, 1, 5)) == Split(read=2000, write=220)
    deep = SECOND.replaced(2, [("marker", 20), ("c0", 300), ("c1", 200)])
    assert state.expect(request(deep, 2, 1, 5)) == Split(read=1000, write=1020)


def test_a_changed_scope_shares_nothing():
    state = CacheState(CLAUDE).after(request(FIRST))
    other = Prefix("another model", [("system", 1000), *blocks(500, 500)])
    assert state.expect(request(other, 1)).read == 0


def test_openai_finds_entries_however_many_blocks_lie_between():
    prefix = Prefix("", blocks(2000))
    state = CacheState(NEW_GPT).after(request(prefix))
    assert state.expect(request(prefix.extended(blocks(*[1] * 500, name="new")), 1)).read == 2000


# ---------------------------------------------------------------- automatic caches


@pytest.mark.parametrize(
    ("size", "read"), [(1023, 0), (1024, 1024), (1151, 1024), (1152, 1152), (10_000, 9984)]
)
def test_an_automatic_cache_holds_steps_beyond_a_minimum(size: int, read: int):
    prefix = Prefix("", blocks(size))
    state = CacheState(GPT).after(request(prefix))
    longer = prefix.extended([("new", 100)])
    assert state.expect(request(longer, 1)) == Split(read=read, uncached=size + 100 - read)


def test_an_automatic_cache_finds_any_beginning():
    prefix = Prefix("", blocks(2048, 1024, 1024))
    state = CacheState(GPT).after(request(prefix))
    assert state.expect(request(prefix.replaced(1, [("marker", 5)]), 1)) == Split(read=2048, uncached=5)
    assert state.expect(request(Prefix("other", blocks(2048)), 1)) == Split(uncached=2048)


def test_an_automatic_cache_keeps_what_was_left_behind_until_it_dies():
    one = Prefix("", blocks(2048, 1024))
    two = one.replaced(1, [("other", 2048)])
    state = CacheState(GPT).after(request(one)).after(request(two, 10)).after(request(two, 20))
    assert len(state.entries) == 2
    assert state.expect(request(one, 600)).read == 3072
    assert state.expect(request(one, 601)).read == 2048
    assert len(state.after(request(two, 700)).entries) == 1


def test_a_write_premium_is_charged_from_the_minimum_on():
    state = CacheState(MINIMAX)
    assert state.expect(request(Prefix("", blocks(1023)))) == Split(uncached=1023)
    prefix = Prefix("", blocks(2000))
    assert state.expect(request(prefix)) == Split(write=2000)
    assert state.after(request(prefix)).expect(request(prefix.extended([("n", 9)]), 1)) == Split(2000, 9)


# ---------------------------------------------------------------- what usage says


def test_reads_after_a_long_pause_raise_the_time_to_live():
    state = CacheState(CLAUDE).after(request(FIRST))
    assert state.expect(request(FIRST, 900)).read == 0
    state = state.after(request(SECOND, 900), Usage(input=10, cache_read=2000, cache_write=490))
    assert state.lifetime == 900
    assert state.expect(request(SECOND, 1800)).read == 2500


def test_a_miss_takes_the_entries_out_and_lowers_a_hopeful_time_to_live():
    hopeful = CacheState(CLAUDE, time_to_live=3600).after(request(FIRST))
    miss = Usage(cache_write=2500)
    assert hopeful.corrected(request(SECOND, 900), miss).entries == ()
    assert hopeful.after(request(SECOND, 900), miss).lifetime == 900
    assert hopeful.after(request(SECOND, 10), miss).lifetime == 300
    assert hopeful.after(request(SECOND, 10), miss).expect(request(SECOND, 20)).read == 2500
    cautious = CacheState(CLAUDE).after(request(FIRST))
    assert cautious.after(request(SECOND, 200), miss).lifetime == 300


def test_what_was_read_stays_when_the_rest_is_gone():
    state = CacheState(CLAUDE).after(request(SECOND, 0, 1, 5))
    state = state.corrected(request(SECOND, 10, 1, 5), Usage(cache_read=1000, cache_write=1500))
    assert [entry.length for entry in state.entries] == [1]


def test_a_long_entrys_pause_teaches_nothing_about_short_ones():
    state = CacheState(CLAUDE).after(request(FIRST, 0, 3, long=True))
    read = Usage(cache_read=2000, cache_write=500)
    assert state.after(request(SECOND, 2000), read).lifetime == 300


def test_usage_without_cache_figures_means_that_nothing_was_written():
    state = CacheState(CLAUDE).after(request(FIRST), Usage(input=2000))
    assert state.entries == ()
    automatic = CacheState(GPT).after(request(Prefix("", blocks(2048))), Usage(input=2048))
    assert automatic.expect(request(Prefix("", blocks(2048)), 1)).read == 2048


def test_usage_that_counts_nothing_teaches_nothing():
    state = CacheState(CLAUDE).after(request(FIRST))
    assert state.corrected(request(SECOND, 900), Usage()) == state
    assert CacheState(CLAUDE).corrected(request(FIRST), Usage(cache_read=9)) == CacheState(CLAUDE)


def test_usage_of_a_request_that_could_not_be_read_teaches_nothing():
    state = CacheState(CLAUDE).after(request(FIRST))
    far = FIRST.extended(blocks(*[10] * 40, name="new"))
    assert state.corrected(request(far, 10), Usage(cache_write=2400)) == state


def test_an_automatic_miss_is_believed():
    prefix = Prefix("", blocks(2048))
    state = CacheState(GPT, time_to_live=86400).after(request(prefix))
    state = state.corrected(request(prefix, 700), Usage(input=2048))
    assert (state.entries, state.lifetime) == ((), 700)
    other = CacheState(GPT).after(request(prefix))
    assert other.corrected(request(Prefix("x", blocks(2048)), 1), Usage(input=2048)) == other


# ---------------------------------------------------------------- rules


@given(
    st.sampled_from([CLAUDE, GPT, NEW_GPT, MINIMAX]),
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 6), st.lists(st.integers(0, 900), max_size=8)),
        min_size=1,
        max_size=8,
    ),
)
def test_every_token_is_billed_once(row: CacheRules, steps: list[tuple[int, int, list[int]]]):
    state, prefix, now = CacheState(row), Prefix("", blocks(1500)), 0.0
    for index, (pause, cut, sizes) in enumerate(steps):
        now += pause
        prefix = prefix.replaced(max(0, len(prefix) - cut), blocks(*sizes, name=f"{index}-"))
        split = state.expect(request(prefix, now))
        assert split.tokens == prefix.tokens
        assert min(split.read, split.write, split.write_1h, split.uncached) >= 0
        state = state.after(request(prefix, now))
        assert state.expect(request(prefix, now)).read >= split.read
