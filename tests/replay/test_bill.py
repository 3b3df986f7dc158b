import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from prunewise import tools
from prunewise.formats.detect import read_recording
from prunewise.prices import UNKNOWN, Prices, Rates, Tier, rules_for
from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.replay.bill import (
    DEFAULT_PRICES,
    Bill,
    Removal,
    Stretch,
    calibrate,
    check,
    counted_cost,
    input_tokens,
    lookback_bill,
    open_account,
    places,
    recall_charge,
    stretches,
    suffix_bill,
)
from prunewise.transcript import Message, Text, Thinking, ToolCall, ToolResult, Usage

CLAUDE = rules_for("claude-opus-5")
GPT = rules_for("gpt-5.2")
NEW_GPT = rules_for("gpt-5.6")
assert CLAUDE
assert GPT
assert NEW_GPT

RATES = Rates(1.0, 0.1, 1.25, 2.0, 5.0)
PRICES = {
    "": Prices("", CLAUDE, RATES, dollars_per_million=2.0),
    "other": Prices("other", CLAUDE, RATES),
    "gpt": Prices("gpt", GPT, Rates(1.0, 0.1, 1.0, 1.0, 8.0)),
    "new": Prices("new", NEW_GPT, RATES),
    "tiered": Prices("tiered", CLAUDE, RATES, (Tier(3000, Rates(2.0, 0.2, 2.5, 4.0, 10.0)),)),
    "plain": Prices("plain", replace(UNKNOWN, minimum=0), RATES),
}


class Book:
    def prices_for(self, model: str, provider: str = "", when: float | None = None) -> Prices:  # noqa: ARG002
        return PRICES[model]


def calls(*positions: int, model: str = "", pause: float = 60.0) -> list[LLMCall]:
    return [LLMCall(position, model=model, time=pause * index) for index, position in enumerate(positions)]


def bills(
    *found: Stretch, prefix: float = 1000, cuts: list[list[Removal]] | None = None
) -> tuple[Bill, Bill]:
    account = open_account(found, Book(), assumed_prefix=prefix)
    return suffix_bill(account, cuts or []), lookback_bill(account, cuts or [])


def rows(bill: Bill) -> list[tuple[float, ...]]:
    """Read, written, written for an hour, uncached: call by call."""
    table = np.stack([bill.read, bill.write, bill.write_1h, bill.uncached], axis=1)
    return [tuple(round(float(value), 6) for value in row) for row in table]


# One user message, then answer and result by turns; a prefix of 1,000 tokens.
SIZES = [200.0, 100.0, 900.0, 100.0, 300.0, 100.0, 400.0]
FOUR = Stretch(SIZES, calls(1, 3, 5, 7))


# ---------------------------------------------------------------- the clock decides


def test_a_warm_session_reads_what_went_out_before():
    suffix, lookback = bills(FOUR)
    expected = [(0, 1200, 0, 0), (1200, 1000, 0, 0), (2200, 400, 0, 0), (2600, 500, 0, 0)]
    assert rows(suffix) == rows(lookback) == expected
    assert suffix.cost.tolist() == pytest.approx([1500, 1370, 720, 885])
    assert suffix.total == pytest.approx(4475)
    assert suffix.total_dollars == pytest.approx(4475 * 2 / 1e6)
    assert suffix.peak == 3100
    assert suffix.breaks == 0


def test_after_the_time_to_live_everything_is_written_again():
    late = [
        replace(call, time=call.time + 301 if index >= 2 else call.time)
        for index, call in enumerate(FOUR.calls)
    ]
    suffix, _ = bills(replace(FOUR, calls=late))
    assert rows(suffix)[2:] == [(0, 2600, 0, 0), (2600, 500, 0, 0)]


def test_what_was_kept_warm_is_read():
    late = [
        replace(
            call,
            time=call.time + 1500 if index >= 2 else call.time,
            warmed=call.time + 1450 if index == 2 else None,
        )
        for index, call in enumerate(FOUR.calls)
    ]
    for bill in bills(replace(FOUR, calls=late)):
        assert rows(bill) == rows(bills(FOUR)[0])
    cold = [replace(call, warmed=60.0 if index == 2 else None) for index, call in enumerate(late)]
    assert rows(bills(replace(FOUR, calls=cold))[0])[2] == (0, 2600, 0, 0)


def test_requests_beside_the_conversation_are_in_the_total_whatever_is_cut():
    beside = (Usage(0, 1, 2000, 0), Usage(100, 1, 0, 400))
    with_them = [replace(call, beside=beside if index == 2 else ()) for index, call in enumerate(FOUR.calls)]
    cost = 0.1 * 2000 + 100 + 1.25 * 400
    for cuts in ([], [[Removal(2, 2, 800)]]):
        for bill, without in zip(
            bills(replace(FOUR, calls=with_them), cuts=cuts), bills(FOUR, cuts=cuts), strict=True
        ):
            assert bill.total == pytest.approx(without.total + cost)
            assert bill.total_dollars == pytest.approx(without.total_dollars + cost * 2 / 1e6)
            assert rows(bill) == rows(without)


def test_without_times_a_session_is_warm():
    suffix, _ = bills(replace(FOUR, calls=[replace(call, time=None) for call in FOUR.calls]))
    assert rows(suffix)[3] == (2600, 500, 0, 0)


def test_another_model_has_another_cache():
    changed = [replace(call, model="other" if index == 2 else "") for index, call in enumerate(FOUR.calls)]
    for bill in bills(replace(FOUR, calls=changed)):
        assert [row[0] for row in rows(bill)] == [0, 1200, 0, 0]
        assert math.isnan(bill.dollars[2])
        assert bill.total_dollars is None


def test_a_failed_call_costs_nothing_and_changes_nothing():
    failed = [replace(call, failed=index == 1) for index, call in enumerate(FOUR.calls)]
    for bill in bills(replace(FOUR, calls=failed)):
        assert rows(bill) == [(0, 1200, 0, 0), (0, 0, 0, 0), (1200, 1400, 0, 0), (2600, 500, 0, 0)]


def test_after_a_compaction_only_the_fixed_prefix_is_warm():
    after = Stretch([500.0, 100.0, 100.0], [LLMCall(1, time=200.0), LLMCall(3, time=210.0)])
    suffix, lookback = bills(FOUR, after)
    assert rows(suffix)[4:] == rows(lookback)[4:] == [(1000, 500, 0, 0), (1500, 200, 0, 0)]


def test_after_a_rewind_the_shared_messages_are_warm():
    after = Stretch([200.0, 100.0, 700.0], [LLMCall(3, time=200.0)], shared=2)
    suffix, _ = bills(FOUR, after)
    assert rows(suffix)[4] == (1300, 700, 0, 0)


def test_a_short_prefix_is_never_cached():
    short = Stretch([100.0] * 9, calls(1, 3, 5, 7, 9))
    _, lookback = bills(short, prefix=200)  # 300, 500, 700, 900, 1100; the least is 512
    assert rows(lookback)[:3] == [(0, 0, 0, 300), (0, 0, 0, 500), (0, 700, 0, 0)]


# ---------------------------------------------------------------- cuts


def test_a_cut_writes_again_what_lies_behind_it():
    (suffix, lookback) = bills(FOUR, cuts=[[Removal(3, 2, 850)]])
    # Of call 3's 3,100 tokens 850 are gone; before message 2 there are 1,300.
    assert rows(suffix)[3] == (1300, 950, 0, 0)
    assert rows(suffix)[:3] == [(0, 1200, 0, 0), (1200, 1000, 0, 0), (2200, 400, 0, 0)]
    # The longest entry before the cut is the first request's, of 1,200; but it was last used at 60 s
    # and lives: messages 1 to 6 are six positions away.
    assert rows(lookback)[3] == (1200, 1050, 0, 0)
    assert suffix.breaks == 1


def test_what_was_never_sent_is_cut_for_nothing():
    for bill in bills(FOUR, cuts=[[Removal(3, 6, 350)]]):
        assert rows(bill)[3] == (2600, 150, 0, 0)
        assert bill.breaks == 0


def test_a_cut_stays_and_later_calls_read_the_smaller_request():
    suffix, lookback = bills(FOUR, cuts=[[Removal(2, 2, 850)]])
    assert rows(suffix)[2:] == [(1300, 450, 0, 0), (1750, 500, 0, 0)]
    assert rows(lookback)[2:] == [(1200, 550, 0, 0), (1750, 500, 0, 0)]


def test_cuts_of_one_message_add_up_and_never_below_nothing():
    suffix, _ = bills(FOUR, cuts=[[Removal(3, 2, 500), Removal(3, 2, 600)]])
    assert suffix.tokens[3] == 3100 - 900


def test_a_cut_before_the_first_call_is_free():
    suffix, _ = bills(FOUR, cuts=[[Removal(0, 0, 100)]])
    assert rows(suffix)[0] == (0, 1100, 0, 0)
    assert suffix.breaks == 0


def test_a_cut_at_a_failed_call_breaks_the_next_ones_cache():
    failed = [replace(call, failed=index == 2) for index, call in enumerate(FOUR.calls)]
    suffix, _ = bills(replace(FOUR, calls=failed), cuts=[[Removal(2, 2, 850)]])
    assert rows(suffix)[3] == (1300, 950, 0, 0)
    assert suffix.breaks == 1


def test_a_cut_at_a_cold_call_is_free():
    cold = [
        replace(call, time=call.time + 301 if index >= 2 else call.time)
        for index, call in enumerate(FOUR.calls)
    ]
    suffix, _ = bills(replace(FOUR, calls=cold), cuts=[[Removal(2, 2, 850)]])
    assert rows(suffix)[2] == (0, 1750, 0, 0)
    assert suffix.breaks == 0


def test_each_epoch_has_its_own_cuts():
    suffix, _ = bills(FOUR, replace(FOUR, calls=calls(1, 3, 5, 7, pause=1)), cuts=[[], [Removal(3, 2, 850)]])
    assert suffix.tokens[[3, 7]].tolist() == [3100, 2250]


# ---------------------------------------------------------------- providers' rules


def test_a_deep_cut_falls_back_to_the_fixed_prefix():
    far = Stretch([100.0] * 31, calls(1, 11, 21, 31), [1] * 31)
    suffix, lookback = bills(far, cuts=[[Removal(3, 2, 50)]])
    assert rows(suffix)[3][0] == 1200
    # The end of the first request lies 30 positions back, that of the second one behind the cut.
    assert rows(lookback)[3][0] == 1000
    near = replace(far, places=[1] + [0, 1] * 15)
    _, lookback = bills(near, cuts=[[Removal(3, 2, 50)]])
    assert rows(lookback)[3][0] == 1100


def test_an_old_entry_has_died_though_the_session_is_warm():
    slow = replace(FOUR, calls=calls(1, 3, 5, 7, pause=250))
    _, lookback = bills(slow, cuts=[[Removal(3, 2, 850)]])
    assert rows(lookback)[3][0] == 1000  # the first request's entry was last used 500 s ago


def test_a_request_that_adds_too_much_misses_the_one_before():
    far = Stretch([100.0] * 31, calls(1, 31), [1] * 31)
    suffix, lookback = bills(far)
    assert (rows(suffix)[1][0], rows(lookback)[1][0]) == (1100, 1000)


def test_openai_finds_entries_at_any_distance():
    far = Stretch([100.0] * 51, calls(1, 51, model="new"))
    _, lookback = bills(far, prefix=2000)
    assert rows(lookback)[1] == (2100, 5000, 0, 0)


def test_an_automatic_cache_counts_in_steps_and_writes_for_nothing():
    suffix, lookback = bills(replace(FOUR, calls=calls(1, 3, 5, 7, model="gpt")), cuts=[[Removal(3, 2, 850)]])
    assert rows(suffix) == [(0, 0, 0, 1200), (1200, 0, 0, 1000), (2200, 0, 0, 400), (1300, 0, 0, 950)]
    assert rows(lookback) == [(0, 0, 0, 1200), (1152, 0, 0, 1048), (2176, 0, 0, 424), (1280, 0, 0, 970)]
    assert suffix.cost[1] == pytest.approx(1120)
    _, tiny = bills(replace(FOUR, calls=calls(1, 3, 5, 7, model="gpt")), prefix=100)
    assert rows(tiny)[:2] == [(0, 0, 0, 300), (0, 0, 0, 1300)]


def test_beyond_a_tier_every_token_costs_more():
    suffix, _ = bills(replace(FOUR, calls=calls(1, 3, 5, 7, model="tiered")))
    assert suffix.cost[2:].tolist() == pytest.approx([720, 2600 * 0.2 + 500 * 2.5])
    cut, _ = bills(replace(FOUR, calls=calls(1, 3, 5, 7, model="tiered")), cuts=[[Removal(3, 6, 200)]])
    assert cut.cost[3] == pytest.approx(2600 * 0.1 + 300 * 1.25)


# ---------------------------------------------------------------- usage decides


def recorded(*usages: Usage | None, pause: float = 60.0) -> Stretch:
    """The session of four calls with what the provider counted: 1200, 2200, 2600, 3100."""
    found = [
        replace(call, usage=usage) for call, usage in zip(calls(1, 3, 5, 7, pause=pause), usages, strict=True)
    ]
    return replace(FOUR, calls=found)


WARM = (Usage(0, 9, 0, 1200), Usage(0, 9, 1200, 1000), Usage(0, 9, 2200, 400), Usage(0, 9, 2600, 500))


def test_recorded_reads_decide_what_was_warm():
    suffix, lookback = bills(recorded(*WARM, pause=9999))
    assert rows(suffix) == rows(lookback) == rows(bills(FOUR)[0])
    account = open_account([recorded(*WARM)], Book())
    assert account.warmth == "recorded"
    assert (account.calibration.scale, account.calibration.prefix) == (1.0, 1000.0)


def test_a_recorded_miss_is_a_miss_for_every_policy():
    cold = recorded(*WARM[:3], Usage(0, 9, 0, 3100))
    suffix, _ = bills(cold, cuts=[[Removal(1, 1, 50), Removal(3, 2, 850)]])
    assert rows(suffix)[3] == (0, 2200, 0, 0)
    assert suffix.breaks == 0  # message 1 had never been sent, and message 2 was cold


def test_a_partly_cold_call_is_cold_from_the_same_place_on():
    partly = recorded(*WARM[:3], Usage(0, 9, 1750, 1350))  # up to the middle of message 2
    assert rows(bills(partly)[0])[3] == (1750, 1350, 0, 0)
    suffix, _ = bills(partly, cuts=[[Removal(1, 2, 600)]])
    assert rows(suffix)[3] == (1450, 1050, 0, 0)  # of the 300 that are left, half
    suffix, _ = bills(partly, cuts=[[Removal(3, 4, 200)]])
    assert rows(suffix)[3] == (1750, 1150, 0, 0)  # behind that place a cut is free
    assert suffix.breaks == 0


def test_rounding_by_the_provider_is_no_loss():
    rounded = recorded(WARM[0], Usage(5, 9, 1195, 1000), Usage(0, 9, 2195, 405), WARM[3])
    assert [row[0] for row in rows(bills(rounded)[0])] == [0, 1200, 2200, 2600]


def test_what_lay_behind_the_last_breakpoint_costs_no_premium():
    suffix, _ = bills(recorded(WARM[0], Usage(300, 9, 1200, 700), *WARM[2:]))
    assert rows(suffix)[1] == (1200, 700, 0, 300)
    assert suffix.cost[1] == pytest.approx(120 + 875 + 300)


def test_writes_for_an_hour_cost_more_and_live_longer():
    hour = [replace(usage, cache_write_1h=usage.cache_write // 2) for usage in WARM]
    suffix, lookback = bills(recorded(*hour, pause=1000), cuts=[[Removal(3, 2, 850)]])
    assert rows(suffix)[1] == (1200, 500, 500, 0)
    assert suffix.cost[1] == pytest.approx(120 + 625 + 1000)
    assert rows(lookback)[3][0] == 1200


def test_reads_beyond_what_was_sent_before_are_believed():
    more = recorded(Usage(0, 9, 600, 600), Usage(0, 9, 2000, 200), *WARM[2:])
    assert [row[0] for row in rows(bills(more)[0])][:2] == [600, 2000]
    whole = recorded(WARM[0], Usage(0, 9, 2200, 0), *WARM[2:])
    assert rows(bills(whole)[0])[1] == (2200, 0, 0, 0)


def test_a_call_without_usage_is_left_to_the_clock():
    suffix, _ = bills(recorded(WARM[0], None, WARM[2], WARM[3]))
    assert [row[0] for row in rows(suffix)] == [0, 1200, 2200, 2600]


def test_usage_without_cache_figures_leaves_the_clock_to_decide():
    told = recorded(*WARM[:3], None)
    calls = [
        replace(call, usage=call.usage and Usage(input_tokens(call.usage), call.usage.output))
        for call in told.calls
    ]
    plain = [replace(told, calls=calls)]
    account = open_account(plain, Book())
    assert account.warmth == "time to live"
    assert [call.usage and call.usage.input for call in plain[0].calls] == [1200, 2200, 2600, None]
    assert rows(suffix_bill(account)) == rows(bills(FOUR)[0])


def test_recorded_rounding_is_not_rounded_again():
    found = [
        LLMCall(1, Usage(1200, 9), model="gpt", time=0.0),
        LLMCall(3, Usage(1200, 9, 1000), model="gpt", time=1.0),
    ]
    _, lookback = bills(Stretch(SIZES[:3], found))
    assert rows(lookback)[1] == (1000, 0, 0, 1200)


# ---------------------------------------------------------------- calibration


def test_without_usage_sizes_are_taken_as_they_are():
    assert calibrate([FOUR], 7).prefix == 7
    assert (calibrate([FOUR]).scale, calibrate([]).scale, calibrate([FOUR]).measured) == (1.0, 1.0, False)


def counted_session(scale: float, prefix: float, odd: dict[int, int], count: int = 20) -> Stretch:
    sizes = [100.0 + 10 * (index % 7) for index in range(2 * count)]
    found = [
        LLMCall(
            2 * index + 1,
            Usage(odd.get(index, round(prefix + scale * sum(sizes[: 2 * index + 1])))),
            time=float(index),
        )
        for index in range(count)
    ]
    return Stretch(sizes, found)


def test_scale_and_prefix_come_from_usage():
    found = calibrate([counted_session(1.5, 4000, {})])
    assert found.scale == pytest.approx(1.5, rel=1e-3)
    assert found.prefix == pytest.approx(4000, rel=1e-3)
    assert found.measured
    assert found.pairs == 190


def test_odd_calls_do_not_move_the_scale():
    found = calibrate([counted_session(1.5, 4000, {7: 100, 12: 90_000, 15: 1})])
    assert found.scale == pytest.approx(1.5, rel=0.01)


def test_a_scale_has_its_limits_and_a_prefix_is_not_negative():
    assert calibrate([counted_session(9.0, 4000, {})]).scale == 4.0
    assert calibrate([counted_session(0.1, 4000, {})]).scale == 0.25
    assert calibrate([counted_session(1.0, 4000, {0: 5})]).prefix == 0


def test_a_long_session_is_sampled():
    assert calibrate([counted_session(1.5, 4000, {}, 600)]).pairs < 20_000


def test_cuts_are_scaled_with_their_messages():
    stretch = counted_session(2.0, 1000, {})
    account = open_account([stretch], Book())
    assert suffix_bill(account, [[Removal(19, 0, 50)]]).tokens[19] == pytest.approx(
        suffix_bill(account).tokens[19] - 100, rel=1e-3
    )


# ---------------------------------------------------------------- the check


def test_the_baseline_is_checked_against_usage():
    account = open_account([recorded(*WARM)], Book())
    found = check(account)
    assert found is not None
    assert (found.calls, found.counted_tokens) == (4, 9100)
    assert found.token_error == found.cost_error == pytest.approx(0)
    assert not found.excluded
    assert check(open_account([FOUR], Book())) is None


def test_a_session_that_is_far_off_is_excluded():
    odd = [
        replace(call, usage=Usage(usage))
        for call, usage in zip(FOUR.calls, [1200, 2200, 99_000, 3100], strict=True)
    ]
    found = check(open_account([replace(FOUR, calls=odd)], Book()))
    assert found is not None
    assert found.excluded


def test_what_usage_costs():
    assert counted_cost(Usage(10, 0, 1000, 100, 40), PRICES[""]) == pytest.approx(10 + 100 + 75 + 80)
    assert counted_cost(Usage(10, 0, 4000, 100), PRICES["tiered"]) == pytest.approx(20 + 800 + 250)
    assert counted_cost(None, PRICES[""]) == 0


@pytest.mark.corpus
def test_recorded_sessions_cost_what_was_counted(shared: Path):
    """The baseline's median error is at most a tenth; what is far off is not a real session."""
    folder = shared / "corpus"
    if not folder.is_dir():
        pytest.skip("needs recorded sessions")
    found = [
        check(open_account(stretches(read_recording(str(path), path.read_bytes()))))
        for path in sorted(folder.glob("*/*.json*"))
    ]
    checks = [one for one in found if one is not None]
    assert len(checks) > 80
    assert np.median([one.cost_error for one in checks]) < 0.1
    assert np.median([one.token_error for one in checks]) < 0.1
    assert sum(one.excluded for one in checks) <= 5


# ---------------------------------------------------------------- recalls


def test_a_recall_is_written_asked_for_and_held():
    account = open_account([FOUR], Book(), assumed_prefix=1000)
    charge = recall_charge(account, 0, 1, 900)
    # Written once; one more call that reads 2,200 and writes 150 out; held in calls 2 and 3.
    assert charge == pytest.approx(1.25 * 900 + 0.1 * 2200 + 5 * 150 + 2 * 0.1 * 900)
    assert recall_charge(account, 0, 1, 900, until=3) == pytest.approx(charge - 0.1 * 900)
    assert recall_charge(account, 0, 1, 900, context=1200) == pytest.approx(charge - 100)
    assert recall_charge(account, 0, 1, 900, output_tokens=0) == pytest.approx(charge - 750)


def test_a_held_recall_is_written_again_at_a_cold_call_and_a_failed_one_costs_nothing():
    late = [
        replace(FOUR.calls[0]),
        FOUR.calls[1],
        replace(FOUR.calls[2], failed=True),
        replace(FOUR.calls[3], time=9e9),
    ]
    account = open_account([replace(FOUR, calls=late)], Book(), assumed_prefix=1000)
    assert recall_charge(account, 0, 1, 900, output_tokens=0) == pytest.approx(1125 + 220 + 1.25 * 900)


# ---------------------------------------------------------------- recordings


def message(role: str, id: str, *parts: Text | Thinking | ToolCall | ToolResult) -> Message:
    return Message(role, id, parts)  # pyright: ignore[reportArgumentType]


def test_a_recording_becomes_sizes():
    user = message("user", "a", Text("12345678"))
    calling = message(
        "assistant",
        "b",
        Thinking("1234"),
        ToolCall("1", "ls", {}, "{}"),
        ToolCall("2", "ls", {}, "{}"),
        Text("x"),
    )
    results = message(
        "user", "c", ToolResult("1", "ls", (Text("1"),)), ToolResult("2", "ls", (Text("2"),)), Text("")
    )
    again = message("user", "c", Text("something else"))
    recording = Recording(
        "f",
        "s",
        "s",
        (
            Epoch((user, calling, results), (LLMCall(1), LLMCall(3)), "rewind"),
            Epoch((user, calling, again), (LLMCall(3),)),
        ),
        tools.PI,
    )
    first, second = stretches(recording)
    assert next(iter(first.sizes)) == 2
    assert list(first.places) == [1, 3, 2]
    assert (first.shared, second.shared) == (0, 2)
    assert places(message("user", "d")) == 0


def test_default_prices_are_never_none():
    assert DEFAULT_PRICES.prices_for("nobody knows it").default
    assert not DEFAULT_PRICES.prices_for("claude-opus-5", "anthropic").default
    assert open_account([FOUR]).pages[0].prices[0].default


def test_an_empty_session_costs_nothing():
    assert suffix_bill(open_account([])).total == 0
    empty = suffix_bill(open_account([Stretch([], [])]))
    assert (empty.total, empty.peak) == (0, 0)


# ---------------------------------------------------------------- rules


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[Stretch], list[list[Removal]]]:
    found: list[Stretch] = []
    cuts: list[list[Removal]] = []
    now = 0.0
    for _ in range(draw(st.integers(1, 3))):
        sizes = [float(size) for size in draw(st.lists(st.integers(0, 3000), min_size=1, max_size=12))]
        made: list[LLMCall] = []
        for position in sorted(draw(st.lists(st.integers(0, len(sizes)), max_size=6))):
            now += draw(st.sampled_from([1.0, 200.0, 400.0]))
            usage = draw(st.none() | st.builds(Usage, *[st.integers(0, 4000)] * 4))
            model = draw(st.sampled_from(["", "", "gpt", "new", "plain", "tiered"]))
            made.append(LLMCall(position, usage, now, model, failed=draw(st.integers(0, 5)) == 0))
        found.append(Stretch(sizes, made, shared=draw(st.integers(0, len(sizes)))))
        cuts.append(
            [
                Removal(
                    draw(st.integers(0, 6)), draw(st.integers(0, len(sizes) - 1)), draw(st.integers(0, 3000))
                )
                for _ in range(draw(st.integers(0, 4)))
            ]
        )
    return found, cuts


@given(sessions())
def test_every_token_is_billed_once(case: tuple[list[Stretch], list[list[Removal]]]):
    found, cuts = case
    account = open_account(found, Book(), assumed_prefix=600)
    for bill in (suffix_bill(account, cuts), lookback_bill(account, cuts)):
        parts = np.stack([bill.read, bill.write, bill.write_1h, bill.uncached])
        assert (parts >= -1e-9).all()
        assert np.allclose(parts.sum(axis=0), bill.tokens)
        assert len(bill.cost) == sum(len(stretch.calls) for stretch in found)


@given(sessions())
def test_providers_rules_never_keep_more_than_the_suffix_model(
    case: tuple[list[Stretch], list[list[Removal]]],
):
    found, cuts = case
    account = open_account(found, Book(), assumed_prefix=600)
    assert (lookback_bill(account, cuts).read <= suffix_bill(account, cuts).read + 1e-6).all()


@pytest.mark.parametrize(
    ("speeds", "counted"),
    [
        (("", "", ""), [0, 2000, 2100]),
        (("fast", "fast", "fast"), [0, 2000, 2100]),
        (("", "fast", "fast"), [0, 0, 2100]),
        (("fast", "", "fast"), [0, 0, 0]),
        (("", "", "us"), [0, 2000, 0]),
    ],
)
def test_nothing_is_cached_for_another_speed(speeds: tuple[str, ...], counted: list[float]):
    made = [replace(one, speed=speed) for one, speed in zip(calls(1, 3, 5), speeds, strict=True)]
    account = open_account([Stretch([1000.0, 50, 50, 50, 50], made)], Book(), assumed_prefix=1000)
    assert [float(one) for one in lookback_bill(account).read] == counted
