"""Which proposals cost a cache break, and what the gate is told of them."""

import pytest
from tests import build
from tests.build import NO_FLOOR, Native, assistant, bash, call, edit, flat, read, result, user
from tests.engine.support import STALE, data, decide, follow

from prunewise.engine import Engine, Moment, Rules
from prunewise.gates import Batch, Verdict, break_even
from prunewise.settings import Gate

# ---- lanes

LANES: dict[str, tuple[list[Native], str]] = {
    "sent before": (flat(bash("1", "x"), bash("2", "x"), assistant("done"), user()), "paid"),
    "sent with the last answer's request": (flat(bash("1", "x"), bash("2", "x")), "paid"),
    "not sent yet": (
        [assistant(call("1", "bash", command="x"), call("2", "bash", command="x")), result("1"), result("2")],
        "free",
    ),
}


@pytest.mark.parametrize(("natives", "lane"), LANES.values(), ids=LANES)
def test_free_is_what_has_never_been_sent(natives: list[Native], lane: str):
    engine = build.engine(natives)
    assert [(one.call, one.lane) for one in engine.proposals] == [("1", lane)]


def test_what_was_free_is_paid_once_it_was_sent():
    engine = build.engine(LANES["not sent yet"][0])
    engine.extend(build.messages([assistant("done")]))
    assert [one.lane for one in engine.proposals] == ["paid"]


# ---- the gate


def test_the_verdict_prices_all_proposals_as_one_batch():
    engine = build.engine(STALE, data=data(gate={"cachedPriceRatio": 0.5, "breakEvenThreshold": 1}))
    pairs = [(one.position, one.tokens_removed) for one in engine.proposals]
    assert len(pairs) == 3
    expected = break_even(
        engine.message_tokens, pairs, Gate(cached_price_ratio=0.5, break_even_threshold=1), "idle"
    )
    assert engine.verdict() == expected
    assert expected.accepted is False


def test_the_verdict_prices_what_goes_out_now_and_not_what_stands():
    entries = [decide("dedupe", "d"), decide("superseded-file-ops", "s")]
    engine = build.engine(STALE, entries=entries)
    assert [one.strategy for one in engine.proposals] == ["error-purge"]
    assert engine.verdict().tail_tokens == sum(engine.message_tokens[1:])
    assert engine.verdict().tail_tokens < build.engine(STALE).verdict().tail_tokens


def test_without_proposals_there_is_nothing_to_price():
    engine = build.engine(user(), read("1", "f"))
    assert not engine.has_proposals
    assert engine.verdict() == Verdict("on", True, 22)


def test_a_gate_is_told_all_that_a_price_may_depend_on():
    batches: list[Batch] = []

    def gate(batch: Batch, settings: Gate) -> Verdict:
        batches.append(batch)
        return Verdict(settings.mode, True, 0)

    prices = object()
    engine = Engine(
        Rules(build.with_settings(NO_FLOOR), gate=gate, prices=prices), lambda message, _: f"#{message}"
    )
    engine.extend(
        build.messages(flat(user(), bash("1", "x"), read("a", "f"), bash("2", "x"), read("b", "f")))
    )
    assert engine.verdict(Moment(7.5)) == Verdict("on", True, 0)
    (batch,) = batches
    assert [(one.position, one.tokens_removed, one.lane) for one in batch.candidates()] == [
        (one.position, one.tokens_removed, one.lane) for one in engine.proposals
    ]
    assert (batch.earliest, batch.tokens_removed) == (2, sum(one.tokens_removed for one in engine.proposals))
    assert batch.tail_tokens(2) == sum(engine.message_tokens[2:])
    assert (batch.state, batch.sent, batch.seconds_since_call, batch.calls) == ("mid_loop", 8, 7.5, 4)
    assert batch.prices is prices


@pytest.mark.parametrize("mode", ["on", "off", "always-apply"])
def test_chosen_proposals_are_priced_together_whatever_the_mode(mode: str):
    gate = {"mode": mode, "cachedPriceRatio": 0.5, "breakEvenThreshold": 0}
    engine = build.engine(STALE, data=data(gate=gate))
    chosen = engine.proposals[:0:-1]
    pairs = [(one.position, one.tokens_removed) for one in chosen]
    assert len(pairs) == 2
    assert engine.price(chosen) == break_even(
        engine.message_tokens, pairs, {**gate, "mode": "always-apply"}, "idle"
    )


def test_no_chosen_proposals_have_no_price():
    assert build.engine(STALE).price([]) == Verdict("always-apply", True, 22)


def test_new_proposals_are_told_once():
    engine = build.engine(flat(bash("3", "x"), read("1", "f"), bash("4", "x"), read("2", "f")))
    assert [one.call for one in engine.take_new()] == ["3", "1"]
    assert engine.take_new() == []
    engine.extend(build.messages(read("5", "f")))
    assert [one.call for one in engine.take_new()] == ["2"]


def test_what_has_gone_again_is_not_told():
    engine = build.engine(flat(read("1", "f"), edit("2", "f"), read("3", "f")))
    follow(engine, decide("dedupe", "1"))
    assert engine.take_new() == []
