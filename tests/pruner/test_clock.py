"""When the cache is surely cold, and since when it may be: what a pruner tells of the moment."""

from typing import Any

import pytest

from prunewise import Policy, Pruner
from prunewise.engine import Moment
from prunewise.priced.engine import PricedEngine
from prunewise.pruner.clock import NOBODY, Caller, Clock, caller_in
from prunewise.transcript import Message, Usage

ME = Caller("m", "p", "read bash")


def test_before_the_first_answer_nothing_is_known():
    moment = Clock().ask(100.0, ME)
    assert (moment.seconds_since_call, moment.model, moment.provider, moment.cold) == (None, "m", "p", False)


def test_the_clock_starts_with_the_last_answer_and_never_goes_back():
    clock = Clock()
    clock.answered(100.0)
    clock.answered(50.0)  # of another branch
    assert clock.ask(130.0, NOBODY).seconds_since_call == 30.0
    assert clock.ask(90.0, NOBODY).seconds_since_call == 0.0


@pytest.mark.parametrize(
    ("caller", "cold"),
    [
        (ME, False),
        (Caller("other", "p", "read bash"), True),
        (Caller("m", "other", "read bash"), True),
        (Caller("m", "p", "read"), True),
        (Caller("m", "p"), False),
        (NOBODY, False),
    ],
)
def test_another_model_or_other_tools_find_nothing_cached(caller: Caller, cold: bool):
    clock = Clock()
    clock.ask(1.0, ME)
    clock.answered(2.0)
    assert clock.ask(3.0, caller).cold is cold


def test_a_model_that_has_not_answered_is_cold_however_often_it_is_asked():
    clock = Clock()
    clock.ask(1.0, ME)
    clock.answered(2.0)
    other = Caller("other", "p", "read bash")
    assert clock.ask(3.0, other).cold
    assert clock.ask(4.0, other).cold  # the first request failed
    clock.answered(5.0)
    assert not clock.ask(6.0, other).cold
    assert clock.ask(7.0, ME).cold


def test_after_a_compaction_it_is_cold_until_something_is_answered():
    clock = Clock()
    clock.answered(2.0)
    clock.compacted()
    assert clock.ask(3.0, ME).cold
    clock.answered(4.0)
    assert not clock.ask(5.0, ME).cold


@pytest.mark.parametrize(
    ("request_", "caller"),
    [
        ([{"role": "user"}], NOBODY),
        ({"messages": []}, NOBODY),
        ({"model": "m", "messages": []}, Caller("m")),
        ({"model": 7, "tools": [{"name": "a"}]}, Caller(tools="[{'name': 'a'}]")),
    ],
)
def test_a_body_says_who_is_to_answer(request_: Any, caller: Caller):
    assert caller_in(request_) == caller


def test_a_body_s_model_counts_though_no_message_names_one():
    """Anthropic's messages name no model; the body does."""
    use = {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "a"}}
    again = {**use, "id": "d"}
    shown = {"type": "tool_result", "tool_use_id": "c", "content": "line of output\n" * 99}
    messages = [
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [shown]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, again]},
        {"role": "user", "content": [{**shown, "tool_use_id": "d"}]},
    ]
    eager = {"protections": {"recentTurns": 0}, "gate": {"mode": "always-apply"}}
    for model, edits in (("claude-opus-4-5", 1), ("claude-fable-5-1", 0)):
        pruner = Pruner("anthropic", Policy(eager))
        assert len(pruner.project({"model": model, "messages": messages}).edits) == edits


# ---------------------------------------------------------------- what keeps the cache warm


@pytest.mark.parametrize(
    ("warmed", "now", "seconds"),
    [
        ((), 1000.0, 900.0),
        ((400.0,), 1000.0, 600.0),
        ((400.0, 700.0, 940.0), 1000.0, 60.0),
        ((940.0, 400.0, 700.0), 1000.0, 60.0),  # told in any order
        ((940.0, 940.0), 1000.0, 60.0),
        ((50.0,), 1000.0, 900.0),  # before the answer
        ((1500.0,), 1000.0, 900.0),  # by a clock that is ahead
        ((1000.0,), 1000.0, 0.0),
    ],
)
def test_the_newest_use_of_the_cache_counts(warmed: tuple[float, ...], now: float, seconds: float):
    clock = Clock()
    clock.answered(100.0)
    for time in warmed:
        clock.kept_warm(time)
    assert clock.ask(now, ME).seconds_since_call == seconds


def test_what_is_kept_warm_before_anything_was_answered_tells_nothing():
    clock = Clock()
    clock.kept_warm(10.0)
    assert clock.ask(20.0, ME).seconds_since_call is None


def test_two_clocks_share_nothing():
    Clock().kept_warm(10.0)
    assert Clock().warmed == []


PRICED = {"policy": "priced", "protections": {"recentTurns": 0}}
FILE = "".join(f"def name_{number}(value): return value\n" for number in range(200))


LONG_LIVED = {"cacheWrite1h": 1200}


def session(pause: float, usage: dict[str, int]) -> list[Any]:
    """A session of reads, a question after a pause, and what each request used of the cache."""
    natives: list[Any] = [{"role": "user", "content": "go", "timestamp": 0}]
    size = 9000
    for number in range(40):
        counted = {"cacheRead": size, "cacheWrite": 1200, **usage}
        size += 1200
        content = [
            {"type": "toolCall", "id": f"c{number}", "name": "read", "arguments": {"path": f"{number}"}}
        ]
        about = {"model": "claude-sonnet-4-5", "usage": counted, "stopReason": "toolUse"}
        natives += [
            {"role": "assistant", "content": content, "timestamp": 20_000 * (number + 1), **about},
            {
                "role": "toolResult",
                "toolCallId": f"c{number}",
                "toolName": "read",
                "content": [{"type": "text", "text": f"{number}\n{FILE}"}],
                "isError": False,
                "timestamp": 20_000 * (number + 1),
            },
        ]
    natives += [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "done"}],
            "timestamp": 800_000,
            "model": "claude-sonnet-4-5",
            "usage": {"cacheRead": size, "cacheWrite": 1200, **usage},
        },
        {"role": "user", "content": "and now?", "timestamp": 800_000 + 1000 * int(pause)},
    ]
    return natives


@pytest.mark.parametrize(
    ("pause", "usage", "options", "warmed", "cold"),
    [
        (180, {}, {}, (), False),
        (1500, {}, {}, (), True),
        (1500, {}, {}, (1440,), False),
        (1500, {}, {}, (240, 480, 720, 960, 1200, 1440), False),
        (1500, {}, {}, (10,), True),
        (1500, LONG_LIVED, {}, (), False),
        (3500, LONG_LIVED, {}, (), False),
        (1500, {}, {"long_lived": True}, (), False),
        (3700, LONG_LIVED, {"long_lived": True}, (), True),
        (3700, LONG_LIVED, {}, (900,), False),
        (9000, {}, {}, (8990,), False),
    ],
)
def test_a_warm_cache_is_known_for_one(  # noqa: PLR0917
    monkeypatch: pytest.MonkeyPatch,
    pause: float,
    usage: dict[str, int],
    options: dict[str, bool],
    warmed: tuple[float, ...],
    cold: bool,
):
    pruner = Pruner("pi", Policy(PRICED), **options)
    natives = session(pause, usage)
    pruner.read(natives[:-1])
    pruner.observe(now=800.0)
    for after in warmed:
        pruner.kept_warm(now=800.0 + after)
    engine, moments = pruner._engine, list[Moment]()
    assert isinstance(engine, PricedEngine)
    decide = engine.decide
    monkeypatch.setattr(engine, "decide", lambda moment: [moments.append(moment), decide(moment)][1])
    out = pruner.project(natives, now=800.0 + pause, caller=Caller("claude-sonnet-4-5"))
    assert out.error is None
    assert (engine._warm(moments[0]) > 0.6) is not cold


def test_what_was_kept_warm_teaches_nothing_of_longer_pauses():
    natives = session(1500, {})
    answer = {"role": "assistant", "content": [], "model": "claude-sonnet-4-5", "timestamp": 2_310_000}
    answer["usage"] = {"input": 3, "cacheRead": 57000, "cacheWrite": 100}
    for warmed, times in (((), [1510.0]), ((2240.0,), [70.0])):
        pruner = Pruner("pi", Policy(PRICED))
        for time in warmed:
            pruner.kept_warm(now=time)
        pruner.read([*natives, answer])
        messages = pruner.transcript.messages
        assert [messages[-1].pause_after(messages[-3])] == times


@pytest.mark.parametrize(
    ("at", "before", "warmed", "pause"),
    [
        (100.0, 40.0, None, 60.0),
        (100.0, 40.0, 70.0, 30.0),
        (100.0, 40.0, 30.0, 60.0),
        (100.0, 140.0, None, 0.0),
        (None, 40.0, 70.0, None),
        (100.0, None, 70.0, None),
    ],
)
def test_a_pause_is_counted_from_the_last_use(
    at: float | None, before: float | None, warmed: float | None, pause: float | None
):
    answer = Message("assistant", "a", (), None, before)
    assert Message("assistant", "b", (), None, at, warmed=warmed).pause_after(answer) == pause


@pytest.mark.parametrize(
    ("write", "long", "is_long"),
    [(0, 0, False), (100, 0, False), (100, 49, False), (100, 50, True), (100, 100, True)],
)
def test_writes_that_live_an_hour_are_known_by_usage(write: int, long: int, is_long: bool):
    assert Usage(cache_write=write, cache_write_1h=long).is_long_lived is is_long
