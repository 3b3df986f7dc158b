"""What a pi session tells of requests beside the conversation."""

from typing import Any

import pytest

from prunewise.formats.pi_usage import Beside, by_answer, warmed_at
from prunewise.stores.pi_entries import Entry
from prunewise.transcript import Usage

STAMP, TIME = "2026-01-02T00:00:00.000Z", 1767312000.0
READ = {"input": 1, "output": 1, "cacheRead": 5000, "cacheWrite": 0}
WRITTEN = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 5000}


def entry(type: str, id: str = "e", /, **fields: Any) -> Entry:
    return Entry(1, id, None, type, {"type": type, "timestamp": STAMP, **fields})


def warmer(usage: Any = READ, **fields: Any) -> Entry:
    return entry("usage", kind="cache_warm", usage=usage, **fields)


@pytest.mark.parametrize(
    ("told", "time"),
    [
        (warmer(), TIME),
        (warmer(WRITTEN), TIME),  # it found nothing, and wrote it again
        (warmer({"input": 5000, "output": 1}), TIME),  # of a cache that says nothing of writes
        (warmer({"input": 0, "output": 1}), None),
        (warmer({}), None),
        (warmer(None), None),
        (warmer("x"), None),
        (warmer(timestamp="no time"), None),
        (warmer(timestamp=3), None),
        (entry("usage", kind="side_question", usage=READ), TIME),
        (entry("usage", kind="title", usage={"input": 300, "output": 9}), None),
        (entry("usage", kind="title", usage=WRITTEN), None),
        (entry("usage", usage=READ), TIME),
        (entry("usage", kind=7, usage={"input": 5000, "cacheRead": 4000}), None),
        (entry("custom", kind="cache_warm", usage=READ), None),
        (entry("message", message={"role": "assistant", "usage": READ}), None),
    ],
)
def test_which_requests_keep_the_cache_warm(told: Entry, time: float | None):
    assert warmed_at(told) == time


def answer(id: str, stop: str = "stop") -> Entry:
    return entry("message", id, message={"role": "assistant", "content": [], "stopReason": stop})


COUNTED = Usage(1, 1, 5000, 0)


@pytest.mark.parametrize(
    ("branch", "found"),
    [
        ([answer("a"), answer("b")], {}),
        ([answer("a"), warmer(), answer("b")], {"b": Beside((COUNTED,), TIME)}),
        ([answer("a"), warmer(), warmer(), answer("b"), answer("c")], {"b": Beside((COUNTED,) * 2, TIME)}),
        ([warmer(), answer("a")], {"a": Beside((COUNTED,), TIME)}),
        ([answer("a"), warmer()], {"a": Beside((COUNTED,))}),
        ([answer("a"), warmer(), answer("b"), warmer()], {"b": Beside((COUNTED,) * 2, TIME)}),
        ([warmer()], {}),
        (
            [warmer(), answer("a", "error"), answer("b")],  # one that failed started no clock
            {"a": Beside((COUNTED,), TIME), "b": Beside((), TIME)},
        ),
        ([warmer(), entry("compaction"), answer("a")], {"a": Beside((COUNTED,))}),
        (
            [warmer(), warmer(timestamp="2026-01-01T00:00:00.000Z"), answer("a")],
            {"a": Beside((COUNTED,) * 2, TIME)},
        ),
        (
            [entry("usage", kind="title", usage={"input": 9, "output": 1}), answer("a")],
            {"a": Beside((Usage(9, 1),))},
        ),
    ],
)
def test_requests_belong_to_the_answer_after_them(branch: list[Entry], found: dict[str, Beside]):
    assert by_answer(branch) == found
