"""The sizes of a session's requests, what broke its cache, and the columns of its chart."""

from typing import Any

import pytest

from prunewise import ledger
from prunewise.cli.picker.timeline import Bar, Timeline, bars, drawn, estimated, recorded
from prunewise.stores.pi_entries import Entry
from prunewise.transcript import Message, Text

CUT = {"type": "custom", "customType": ledger.DECISION, "data": {}}
RESTORED = {"type": "custom", "customType": ledger.RESTORE, "data": {}}
STATS = {"type": "custom", "customType": ledger.STATS, "data": {}}
COMPACTION = {"type": "compaction"}
USER = {"type": "message", "message": {"role": "user", "content": "x"}}


def answer(read: int = 0, write: int = 0, fresh: int = 0, **fields: Any) -> dict[str, Any]:
    usage = {"input": fresh, "output": 9, "cacheRead": read, "cacheWrite": write}
    return {"type": "message", "message": {"role": "assistant", "content": [], "usage": usage, **fields}}


def branch(*records: dict[str, Any]) -> list[Entry]:
    return [Entry(at + 2, f"e{at}", None, record["type"], record) for at, record in enumerate(records)]


@pytest.mark.parametrize(
    ("records", "sizes", "marks"),
    [
        ([], (), {}),
        ([USER, answer(0, 5000, 10)], (5010,), {}),
        # what was written or read before is read again
        ([answer(0, 5000), answer(5000, 600), answer(5600, 10)], (5000, 5600, 5610), {}),
        ([answer(0, 5000), answer(0, 5600)], (5000, 5600), {"breaks": {1}}),
        # a cut in the middle: part of it is still read
        ([answer(0, 9000), CUT, STATS, answer(4000, 3000)], (9000, 7000), {"breaks": {1}, "cuts": {1}}),
        # caches that charge no writes: all that was sent is held
        ([answer(1000, 0, 4000), answer(4900, 0, 400)], (5000, 5300), {}),
        ([answer(1000, 0, 4000), answer(1000, 0, 4400)], (5000, 5400), {"breaks": {1}}),
        # no cache at all, or too small a beginning for one
        ([answer(0, 0, 9000), answer(0, 0, 9500)], (9000, 9500), {}),
        ([answer(0, 900), answer(0, 1000)], (900, 1000), {}),
        # a compaction begins anew, without a break
        ([answer(0, 9000), COMPACTION, answer(0, 3000)], (9000, 3000), {"compactions": {1}}),
        # an answer that failed, or says nothing of usage, is no call
        ([answer(0, 9000), answer(0, 1, stopReason="aborted"), answer(9000, 10)], (9000, 9010), {}),
        ([answer(0, 9000), answer(), answer(9000, 10, usage="?"), answer(9000, 5)], (9000, 9005), {}),
        # what was cut since the last call shows at the next one
        ([answer(0, 9000), CUT, RESTORED], (9000,), {"cuts": {1}}),
    ],
)
def test_a_branch_as_recorded(
    records: list[dict[str, Any]], sizes: tuple[int, ...], marks: dict[str, set[int]]
):
    timeline = recorded(branch(*records))
    assert timeline.sizes == sizes
    assert (timeline.breaks, timeline.cuts, timeline.compactions) == (
        marks.get("breaks", set()),
        marks.get("cuts", set()),
        marks.get("compactions", set()),
    )
    assert not timeline.estimated


def test_without_usage_sizes_are_estimates_of_what_came_before():
    messages = [
        Message(role, f"m{at}", (Text("x"),))
        for at, role in enumerate(["user", "assistant", "assistant", "tool", "assistant"])
    ]
    timeline = estimated(messages, lambda _: 100)
    assert timeline == Timeline((100, 400), ("m1", "m4"), estimated=True)


# ---------------------------------------------------------------- in columns


FOUR = Timeline((10, 20, 30, 40), ("a", "b", "c", "d"), breaks=frozenset({1}), cuts=frozenset({4}))


@pytest.mark.parametrize(
    ("width", "sizes", "broke", "cut"),
    [
        (0, [], [], []),
        (1, [40], [0], [0]),
        (2, [20, 40], [0], [1]),
        (4, [10, 20, 30, 40], [1], [3]),
        (7, [10, 20, 30, 40], [1], [3]),
        (8, [10, 10, 20, 20, 30, 30, 40, 40], [2], [7]),
        (100, [10] * 3 + [20] * 3 + [30] * 3 + [40] * 3, [3], [11]),
    ],
)
def test_bars_fit_the_width_and_keep_the_largest(
    width: int, sizes: list[int], broke: list[int], cut: list[int]
):
    found = bars(FOUR, width)
    assert [bar.size for bar in found] == sizes
    assert [at for at, bar in enumerate(found) if bar.broke] == broke
    assert [at for at, bar in enumerate(found) if bar.cut] == cut


def test_every_mark_of_a_long_session_is_in_some_column():
    marks = frozenset(range(0, 1001, 7))
    long = Timeline(tuple(range(1000)), tuple(map(str, range(1000))), breaks=marks, compactions=marks)
    for width in (1, 3, 79, 333, 999, 1000):
        found = bars(long, width)
        assert len(found) == width
        assert max(bar.size for bar in found) == 999
        if width >= 79:
            assert (
                sum(bar.broke for bar in found) == sum(bar.compacted for bar in found) >= min(width // 8, 79)
            )


@pytest.mark.parametrize(("message", "marked"), [("c", [2]), ("", []), ("not in it", [])])
def test_the_call_that_is_looked_at_is_marked(message: str, marked: list[int]):
    assert [at for at, bar in enumerate(bars(FOUR, 4, message)) if bar.marked] == marked


def test_a_timeline_without_calls_has_no_bars():
    assert bars(Timeline(), 80) == []
    assert drawn([], 3) == ["", "", ""]


def test_bars_are_drawn_in_eighths_of_a_line():
    assert drawn([Bar(0), Bar(1), Bar(8), Bar(9), Bar(16)], 2) == ["   ▁█", "▁▁███"]
