"""What a tally says in pi: gains and losses alike, and how far they are known."""

import pytest

from prunewise.hosts.pi.words import saving, short
from prunewise.pruner import Stats
from prunewise.tally import Balance

LOST = Balance(4, 1100.0, 1000.0, 1, 150.0, 2, 30.0, -0.0002, 4)
GAINED = Balance(16, 7000.0, 9000.0, dollars=2.5, priced_calls=16)


def stats(balance: Balance, earlier: Balance | None = None) -> Stats:
    return Stats(0, 0, 0, 0, 0, {}, 0, balance, earlier)


def test_before_any_answer_nothing_is_claimed():
    assert saving(stats(Balance())) == ["net saving: not known yet (no answer has told its usage)"]
    assert short(stats(Balance())) == ""


def test_a_loss_is_shown_as_a_loss():
    assert saving(stats(LOST)) == [
        "net saving: -100 input tokens (-$0.0002), -10.0% of what the input of 4 LLM calls would have cost",
        "  after 1 cache break that cost 150, and 2 recalls that cost 30",
        "  since this process started",
    ]
    assert short(stats(LOST)) == "net -10.0% (-$0.0002)"


def test_calls_that_are_not_counted_are_told():
    assert saving(stats(Balance(4, 900.0, 1000.0, past_window=3)))[-1] == (
        "  3 later calls not counted: without pruning there would have been a compaction before, and what "
        "would have followed it is not known"
    )
    assert len(saving(stats(Balance(past_window=1)))) == 2


def test_what_was_before_this_process_is_told_apart():
    first, _, last = saving(stats(LOST, GAINED))
    assert first == (
        "net saving: +1,900 input tokens ($2.50), +19.0% of what the input of 20 LLM calls would have cost"
    )
    assert last == (
        "  16 of these calls were before this process started: counted by what the session says, in which "
        "masking, what was restored since and when pruning was off are not"
    )


@pytest.mark.parametrize(
    ("balance", "text"),
    [
        (Balance(3, 100.0, 100.0), ""),
        (Balance(3, 100.0, 100.0, 1), "net +0.0%"),
        (Balance(3, 90.0, 100.0), "net +10.0%"),
        (Balance(3, 90.0, 100.0, dollars=0.00002, priced_calls=3), "net +10.0%"),
        (Balance(3, 90.0, 100.0, dollars=0.0123, priced_calls=2), "net +10.0%"),
    ],
)
def test_a_footer_says_something_where_something_was_done(balance: Balance, text: str):
    assert short(stats(balance)) == text
