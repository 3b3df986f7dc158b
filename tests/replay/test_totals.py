"""Totals of small tables that were worked out by hand, and the rules that any rows keep."""

import math
import random
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given
from tests.replay.rows import candidate, figures, pair, rich_rows, session

from prunewise.replay.results import Detected, ErrorRow, Missed, Row, SessionRow, WorstRecall
from prunewise.replay.totals import Interval, PolicyTotals, Totals, gather, percent, signed


def documented(totals: Totals, block: str = "all") -> PolicyTotals:
    found = getattr(totals, block).policy("documented")
    assert found is not None
    return found


# ----------------------------------------------------------------- by hand


def test_costs_are_those_of_the_sums_and_of_the_sessions():
    totals = gather(
        [
            session(
                "a",
                figures("none", 1000, suffix_cost=990),
                figures("documented", 900, recall_cost=20, suffix_cost=880),
            ),
            session(
                "b",
                figures("none", 400),
                figures("documented", 500, recall_cost=10, suffix_cost=480),
                llm_calls=5,
            ),
            session("c", figures("none", 600), figures("documented", 600), llm_calls=5),
        ]
    )
    mine = documented(totals)
    assert mine.net.total == 2030
    assert mine.gross.total == 2000
    assert mine.net.change == pytest.approx(0.015)
    assert mine.gross.change == 0
    assert mine.suffix.change == pytest.approx(1960 / 1990 - 1)
    assert mine.suffix_net.change == pytest.approx(1990 / 1990 - 1)
    # The sessions: -8%, +27.5%, 0.
    assert (mine.net.median, mine.net.p5, mine.net.worst) == pytest.approx((0, 0.275, 0.275))
    assert (mine.gross.median, mine.gross.worst) == pytest.approx((0, 0.25))
    assert (mine.gained, mine.lost) == (1, 1)
    assert mine.recall_cost == 30
    # Only the first has 20 calls.
    assert totals.long.sessions == 1
    assert documented(totals, "long").net.change == pytest.approx(-0.08)
    assert [one.source for one in totals.sessions] == ["a", "b", "c"]
    assert totals.sessions[1].changes == pytest.approx((0, 0.275))
    assert totals.all.largest_share == pytest.approx(0.5)


def test_what_the_detector_finds_stands_beside_the_upper_bound():
    def of(name: str, none: float, lower: float, likely: float) -> SessionRow:
        detected = Detected(likely - 5, likely, 5, 1, Missed(4, 100, 1, 2, {"old-line": 1}))
        return session(
            name,
            figures("none", none, detected=Detected(none, none, 0, 0, Missed())),
            figures("documented", lower, removed=100, missed=Missed(4, 100, 3, 9), detected=detected),
        )

    rows = [of("a", 1000, 990, 900), of("b", 1000, 1200, 1010)]
    mine = documented(gather(rows))
    found = mine.detected
    assert found is not None
    assert (mine.net.change, found.net.change) == pytest.approx((0.095, -0.045))
    assert (found.net.worst, found.gained, found.lost, found.recall_cost) == (pytest.approx(0.01), 1, 1, 10)
    assert (mine.missed.recalls, found.missed.recalls, found.missed.recalls_per_100_blocks) == (6, 2, 25)
    assert found.net.interval is None
    more = documented(gather([of(f"{n:02}", 1000, 990, 900) for n in range(12)])).detected
    assert more is not None
    assert more.net.interval is not None
    assert more.net.interval.low == pytest.approx(-0.1)
    # Where some session was replayed without it, it is not known.
    assert documented(gather([*rows, pair("c", 1000, 900)])).detected is None


def test_p5_and_p1_are_the_sessions_that_so_many_do_worse_than():
    # 200 sessions from 0.5% dearer to 100% dearer: 10 do worse than p5, 2 than p1.
    totals = gather(pair(f"{n:03}", 1000, 1000 + 5 * n) for n in range(1, 201))
    net = documented(totals).net
    assert (net.p5, net.p1, net.worst) == pytest.approx((0.95, 0.99, 1.0))
    assert net.median == pytest.approx(0.5025)


def test_shares_of_the_optimum_are_taken_on_the_suffix_model():
    totals = gather(
        [
            session(
                name,
                figures("none", 1000),
                figures("documented", 1000, suffix_cost=970, own_optimum=900, recall_cost=500),
                figures("oldest-first", 1000, suffix_cost=850, own_optimum=700),
                figures("optimal", 1000, suffix_cost=900, own_optimum=900),
            )
            for name in "ab"
        ]
    )
    assert documented(totals).optimum_share == pytest.approx(0.3)
    assert documented(totals).own_optimum_share == pytest.approx(0.3)
    other = totals.all.policy("oldest-first")
    assert other is not None
    assert other.optimum_share == pytest.approx(1.5)
    assert (other.own_optimum, other.own_optimum_share) == (1400, pytest.approx(0.5))


def test_there_is_no_share_of_an_optimum_that_saves_nothing_or_was_not_asked_for():
    same = session(
        "a", figures("none", 10), figures("documented", 10), figures("optimal", 10, own_optimum=10)
    )
    assert documented(gather([same])).optimum_share is None
    assert documented(gather([pair("a", 10, 9)])).optimum_share is None
    assert documented(gather([pair("a", 10, 9)])).own_optimum is None


def test_counts_add_up():
    cut = {
        "removed": 100,
        "removed_by_strategy": {"dedupe": 60, "masking": 40},
        "removed_by_tool": {"read": 100},
        "breaks": 3,
        "compactions_avoided": 1,
        "calls_gained": 2.5,
        "peak": 50.0,
        "final": 40.0,
        "missed": Missed(4, 100, 1, 3, {"old-line": 1}),
        "missed_at_random": Missed(5, 110, 2, 2, {"page": 2}),
    }
    totals = gather(
        [
            session(name, figures("none", 100), figures("documented", 90, **cut), compactions=2, llm_calls=60)
            for name in "ab"
        ]
        + [session("c", figures("none", 100), figures("documented", 100), llm_calls=30)]
    )
    mine = documented(totals)
    assert (mine.removed, mine.removed_by_strategy) == (200, {"dedupe": 120, "masking": 80})
    assert mine.removed_by_tool == {"read": 200}
    assert (mine.acted, mine.breaks, mine.breaks_per_100_calls) == (2, 6, pytest.approx(4))
    assert (mine.compactions_avoided, totals.all.compactions, mine.calls_gained) == (2, 4, 5)
    assert (mine.peak, mine.final) == pytest.approx((200 / 3, 60))
    missed = mine.missed
    assert (missed.blocks, missed.tokens, missed.recalls, missed.faults) == (8, 200, 2, 6)
    assert missed.recalls_by_kind == {"old-line": 2}
    assert missed.recalls_per_100_blocks == pytest.approx(25)
    assert missed.recalls_per_million_tokens == pytest.approx(10_000)
    assert missed.recalls_per_session == pytest.approx(2 / 3)
    assert missed.faults_per_session == pytest.approx(2)
    assert mine.missed_at_random.recalls == 4
    assert mine.missed_oldest_first.recalls_per_100_blocks is None


def test_dollars_are_of_the_sessions_whose_prices_are_known():
    known = session("a", figures("none", 10, dollars=2.0), figures("documented", 9, dollars=1.5))
    unknown = session("b", figures("none", 10), figures("documented", 9), price_known=False)
    totals = gather([known, unknown])
    dollars = documented(totals).dollars
    assert dollars is not None
    assert (dollars.sessions, dollars.none, dollars.policy) == (1, 2.0, 1.5)
    assert totals.assumed_prices == 1
    assert documented(gather([unknown])).dollars is None


def test_the_harness_is_summed_by_strategy_and_session():
    # Penalty (1 - 0.5) * 1000 = 500, saving 0.5 * 100 = 50 a call: 10 calls pay it back.
    found = (
        candidate(remaining_calls=30),
        candidate(state="mid_loop", remaining_calls=4),
        candidate(strategy="error-purge", tokens_removed=0, remaining_calls=2),
    )
    totals = gather([pair("a", 10, 10, candidates=found), pair("b", 10, 10)], (0.5,), sweep_max=60)
    harness = totals.harness
    assert (harness.sessions, harness.candidates) == (2, 3)
    dedupe, purge = harness.by_strategy
    assert (dedupe.strategy, dedupe.candidates, dedupe.idle, dedupe.mid_loop) == ("dedupe", 2, 1, 1)
    assert (dedupe.original_tokens, dedupe.tokens_removed, purge.tokens_removed) == (240, 200, 0)
    assert (harness.remaining_calls.p50, harness.remaining_calls.p90) == (4, 30)
    best = harness.recommended[0]
    # Together 30 * 50 - 500 + 4 * 50 - 500 = 700; by themselves 1000 and -300.
    assert (best.overall.threshold, best.overall.total) == (10, 700)
    assert (best.idle.threshold, best.idle.total) == (10, 1000)
    assert (best.mid_loop.threshold, best.mid_loop.total) == (1, 0)
    curve = harness.curves[0]
    assert curve.overall[8:10] == (0, 700)
    assert curve.mid_loop[9] == -300
    mine, nothing = harness.by_session
    assert (mine.penalty, mine.recurring_saving, mine.break_even_calls, mine.realized) == (1000, 100, 10, 700)
    assert nothing.break_even_calls == math.inf


# ------------------------------------------------------- what is left out


def test_sessions_of_copies_alone_are_in_no_total_and_all_copies_are_counted():
    rows = [
        pair("a", 0, 0, llm_calls=0, copied=5),
        pair("b", 1000, 800, llm_calls=50, aside=3),
        pair("c", 100, 90, llm_calls=4, copied=46),
        pair("d", 0, 0, llm_calls=0),
    ]
    totals = gather(rows)
    assert totals.all.sessions == 2
    assert [one.source for one in totals.copies] == ["a"]
    assert [one.source for one in totals.empty] == ["d"]
    assert (totals.copied_calls, totals.aside_calls, totals.llm_calls) == (51, 3, 54)
    assert documented(totals).net.change == pytest.approx(890 / 1100 - 1)


def test_excluded_sessions_are_counted_and_in_no_total():
    rows = [
        pair("a", 100, 90),
        pair("b", 1000, 10, excluded=True, baseline_error=0.3, candidates=(candidate(),)),
        ErrorRow("c", "unreadable", 7),
    ]
    totals = gather(rows)
    assert (totals.all.sessions, totals.read_sessions, totals.files, totals.bytes) == (1, 2, 3, 27)
    assert documented(totals).net.change == pytest.approx(-0.1)
    assert totals.excluded[0].baseline_error == 0.3
    assert [one.source for one in totals.errors] == ["c"]
    assert totals.harness.candidates == 1, "the harness needs no bill"
    assert (totals.baseline.checked, totals.baseline.median, totals.baseline.p90) == (2, 0.15, 0.3)


def test_a_session_without_an_answered_call_is_in_no_total():
    totals = gather([pair("a", 0, 0), pair("b", 0, 0, llm_calls=0), pair("c", 10, 9)])
    assert totals.all.sessions == 1
    assert [one.source for one in totals.empty] == ["a", "b"]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [ErrorRow("a", "unreadable")],
        [pair("a", 100, 90, excluded=True)],
        [pair("a", 0, 0)],
    ],
)
def test_where_nothing_counts_nothing_is_said(rows: list[Row]):
    totals = gather(rows)
    assert totals.all.sessions == totals.long.sessions == 0
    assert totals.verdict.outcome == "nothing"
    assert totals.verdict.change is None
    assert totals.verdict.sentences == ("No session could be counted: there is nothing to say.",)
    assert all(one.net.change is None for one in totals.all.policies)


def test_sessions_under_different_policies_cannot_be_put_together():
    other = session("b", figures("none", 1), figures("both", 1))
    with pytest.raises(ValueError, match="b: replayed under none, both"):
        gather([pair("a", 1, 1), other])
    with pytest.raises(ValueError, match="'none' first"):
        gather([session("a", figures("both", 1))])


# ------------------------------------------------- the same, whatever order

Costs = st.floats(0.1, 1e6)


@given(
    st.lists(st.tuples(Costs, Costs, Costs, st.sampled_from(["", "x", "y"])), max_size=25),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_changes_no_digit(
    values: list[tuple[float, float, float, str]], order: random.Random
):
    rows: list[Row] = [
        pair(
            f"{n:02}",
            none,
            cost,
            recalls,
            lineage=lineage,
            llm_calls=n,
            candidates=(candidate(tail_tokens=int(none)),),
            worst=(WorstRecall("documented", 0, n, 0, 0, n, "page", "k", n % 3, "dedupe"),),
        )
        for n, (none, cost, recalls, lineage) in enumerate(values, 1)
    ]
    expected = msgspec.json.encode(gather(rows))
    order.shuffle(rows)
    assert msgspec.json.encode(gather(rows)) == expected


def test_the_interval_is_the_same_each_time_and_holds_the_total():
    rows = rich_rows(sessions=40)
    first, second = documented(gather(rows)).net, documented(gather(rows[::-1])).net
    assert first == second
    assert first.interval is not None
    assert first.change is not None
    assert first.interval.low < first.change < first.interval.high


def test_the_interval_is_that_of_the_sampling_distribution():
    # 400 sessions of equal cost, half 20% cheaper, half 10% dearer: the mean is -5%, and its standard
    # error 0.15 / sqrt(400) = 0.75%, so that the interval is about -6.5% to -3.5%.
    net = documented(gather(pair(f"{n:03}", 100, 80 if n % 2 else 110) for n in range(400))).net
    assert net.change == pytest.approx(-0.05)
    assert net.interval is not None
    assert (net.interval.low, net.interval.high) == pytest.approx((-0.0647, -0.0353), abs=0.001)


def test_few_sessions_have_no_interval():
    totals = gather(pair(f"{n}", 100, 50) for n in range(9))
    assert documented(totals).net.interval is None
    assert totals.verdict.outcome == "undecided"
    assert "fewer than 10 sessions" in " ".join(totals.verdict.sentences)
    alone = gather([pair("a", 100, 50)])
    assert documented(alone).net.change == -0.5
    assert alone.verdict.outcome == "undecided"
    assert alone.verdict.sentences[0].startswith("On this one session documented would have cost 50.0% less")


# ------------------------------------------------------------------ verdict


def some(change: float, sessions: int = 20, **given: Any) -> list[SessionRow]:
    return [pair(f"{n:03}", 100, 100 * (1 + change * (1 + n % 3 / 10)), **given) for n in range(sessions)]


@pytest.mark.parametrize(
    ("rows", "outcome", "words"),
    [
        (some(-0.2), "gains", "For sessions like these it gains"),
        (some(-0.002), "gains", "That is under 1.0%: hardly any gain."),
        (some(0.2), "loses", "For sessions like these it loses"),
        (some(0), "nothing", "would have removed nothing"),
        (
            [pair(f"{n:02}", 100, 90 if n % 2 else 111) for n in range(20)],
            "undecided",
            "Whether it gains or loses on sessions like these is not certain",
        ),
    ],
)
def test_the_verdict_says_it_plainly(rows: list[Row], outcome: str, words: str):
    verdict = gather(rows).verdict
    assert verdict.outcome == outcome
    assert words in " ".join(verdict.sentences)


def test_a_handful_of_sessions_decides_nothing():
    # All nine that differ are cheaper, so the interval is below zero; but they are nine.
    rows = [pair(f"{n:02}", 100, 50 if n < 9 else 100) for n in range(40)]
    totals = gather(rows)
    interval = documented(totals).net.interval
    assert interval is not None
    assert interval.high < 0
    assert totals.verdict.outcome == "undecided"
    assert "only 9 sessions of these tell" in " ".join(totals.verdict.sentences)


def test_no_pruning_is_named_where_it_is_better():
    verdict = gather(some(0.2)).verdict
    assert [one.policy for one in verdict.better] == ["none"]
    assert verdict.better[0].certain
    assert verdict.better[0].difference == pytest.approx(-verdict.change) if verdict.change else False
    assert "Better, and by more than chance would explain: no pruning." in verdict.sentences


def three(other: float, sessions: int = 20) -> list[SessionRow]:
    return [
        session(
            f"{n:02}",
            figures("none", 100),
            figures("documented", 90 + n % 3, removed=5),
            figures("both", other + n % 3, removed=5),
            figures("optimal", 50),
        )
        for n in range(sessions)
    ]


def test_a_better_policy_is_named_and_the_optimum_is_none():
    verdict = gather(three(80)).verdict
    assert [(one.policy, one.certain) for one in verdict.better] == [("both", True)]
    assert (
        "Better, and by more than chance would explain: documented + masking (-19.1% against no pruning)."
        in verdict.sentences
    )
    assert "None of the compared policies would have done better." in gather(three(95)).verdict.sentences


def test_a_difference_that_may_be_chance_is_called_so():
    verdict = gather(three(80, sessions=5)).verdict
    assert not verdict.better[0].certain
    assert any(
        one.startswith("Cheaper on these sessions, though that may be chance") for one in verdict.sentences
    )


def test_a_saving_that_a_handful_of_sessions_brings_is_called_so():
    names = ("none", "documented", "both", "optimal")
    same = [session(f"x{n}", *(figures(one, 100) for one in names)) for n in range(5)]
    verdict = gather([*three(80, sessions=9), *same]).verdict
    better = verdict.better[0]
    assert not better.certain
    assert better.interval is not None
    assert better.interval.high < 0
    assert (
        "Cheaper on these sessions, though only 9 of them tell: documented + masking "
        "(-12.2% against no pruning)." in verdict.sentences
    )


def test_the_worst_session_is_named_only_where_one_is_dearer():
    assert gather(some(-0.1)).verdict.sentences[-1].endswith(" cost less, 0 more.")
    assert ", the worst +" in " ".join(gather(some(0.1)).verdict.sentences)


def test_another_policy_may_be_the_active_one():
    rows = three(95)
    assert gather(rows, active="both").verdict.policy == "both"
    assert gather(rows, active="absent").active == "documented"
    only = gather([session("a", figures("none", 1))])
    assert (only.active, only.verdict.outcome) == ("none", "nothing")


def test_one_session_that_outweighs_all_is_pointed_out():
    rows = [*some(-0.1), pair("x", 100_000, 90_000)]
    assert "One session makes up 98.0% of all costs" in " ".join(gather(rows).verdict.sentences)


def test_loss_that_was_not_looked_for_is_said():
    cut = figures("documented", 90, removed=5)
    totals = gather([session("a", figures("none", 100), cut)])
    assert not totals.with_loss
    assert "recalls not looked for" in totals.verdict.sentences[0]
    assert gather([pair("a", 100, 90, 1)]).with_loss


# ------------------------------------------------------------ worst of all


def test_the_sessions_that_a_policy_makes_dearest_are_listed():
    rows = [pair(f"{n:02}", 100, 100 + n, recalls=n / 2) for n in range(-5, 20)]
    worst = gather(rows).worst_sessions
    assert [round(one.change, 3) for one in worst] == [round(0.015 * n, 3) for n in range(19, 9, -1)]
    assert (worst[0].source, worst[0].extra, worst[0].of_recalls) == ("19", 28.5, 9.5)


def test_the_gravest_recalls_of_counted_sessions_are_listed():
    def recall(n: int, policy: str = "documented") -> WorstRecall:
        return WorstRecall(policy, 0, n, 1, 0, 10 * n, "page", f"key {n}", n % 7, "dedupe")

    rows = [pair(f"{n:03}", 100, 90, 1, worst=(recall(n),), excluded=n % 2 == 0) for n in range(900)]
    found = gather(rows).worst_recalls
    assert len(found) == 10
    assert {one.recall.serves for one in found} == {6}
    assert [one.recall.tokens for one in found] == sorted(
        (10 * n for n in range(900) if n % 14 == 13), reverse=True
    )[:10]


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.0%"),
        (0.00001, "0.0%"),
        (-0.00001, "0.0%"),
        (0.0054, "+0.54%"),
        (-0.0054, "-0.54%"),
        (0.0123, "+1.2%"),
        (0.95, "+95.0%"),
        (4.356, "+436%"),
        (12.0, "+1,200%"),
    ],
)
def test_changes_are_written_with_their_sign(share: float, text: str):
    assert signed(share) == text
    assert percent(abs(share)) == text.lstrip("+-")


def test_an_interval_is_a_plain_value():
    assert msgspec.to_builtins(Interval(-0.1, 0.2)) == {"low": -0.1, "high": 0.2}
