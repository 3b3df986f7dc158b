"""The engine: propose, protect, drop what is too small, one proposal a target, price, edit, undo."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import build
from tests.build import (
    LONG,
    NO_FLOOR,
    Native,
    assistant,
    bash,
    call,
    edit,
    flat,
    image,
    proposed,
    read,
    result,
    shell,
    turns,
    used,
    user,
    write,
)

from prunewise import ledger, markers, strategies
from prunewise.canonical import canonical
from prunewise.engine import Engine, Moment, Rules
from prunewise.errors import RefusedError
from prunewise.gates import Batch, Verdict, break_even
from prunewise.ledger import Entry, Restore
from prunewise.settings import Gate, Settings
from prunewise.tokens import PI, text_tokens, utf16_length
from prunewise.transcript import SHELL_OUTPUT, TOOL_INPUT, TOOL_RESULT, Exchange, ReplacePart, ToolKind

RESULT, INPUT = TOOL_RESULT, TOOL_INPUT
HUGE = {"content": "x" * 900}
"""An input that is worth purging."""


def data(*, recent: int = 0, floor: int = 0, **more: Any) -> dict[str, Any]:
    """Settings in JSON shape."""
    return {"thresholds": {"minCharsSaved": floor}, "protections": {"recentTurns": recent}, **more}


def decide(
    strategy: str, call_id: str, kind: ToolKind = RESULT, placeholder: str = "[gone]", **more: Any
) -> Entry:
    return ledger.decide(strategy, call_id, kind, reason="r", placeholder=placeholder, created_at="t", **more)


def undo(strategy: str, call_id: str, kind: ToolKind = RESULT) -> Entry:
    return Restore(f"{strategy}:{kind}:{call_id}")


def follow(engine: Engine, *entries: Entry) -> bool:
    return engine.follow(ledger.fold(entries))


def texts(engine: Engine) -> dict[str, str]:
    """What goes out changed: the message's id and the text in place."""
    return {one.message: one.text for parts in engine.edits.values() for one in parts.values()}


# ---------------------------------------------------------------- one target, one proposal

COLLAPSE: dict[str, tuple[list[Native], list[tuple[str, str, str]]]] = {
    "nothing is stale": (read("1", "f"), []),
    "dedupe before superseded-file-ops": (
        flat(read("1", "f"), read("2", "f")),
        [("dedupe", RESULT, "1")],
    ),
    "dedupe before superseded-file-ops, found first or not": (
        flat(read("1", "f"), edit("2", "f"), read("3", "f")),
        [("dedupe", RESULT, "1")],
    ),
    "superseded-file-ops where it is alone": (
        flat(read("1", "f"), edit("2", "f")),
        [("superseded-file-ops", RESULT, "1")],
    ),
    "input and result are two targets": (
        flat(user(), used("1", "x", HUGE, error=True), used("2", "x", HUGE), turns(5)),
        [("error-purge", INPUT, "1"), ("dedupe", RESULT, "1")],
    ),
    "a failed write's input and its output": (
        flat(user(), used("1", "write", {"path": "f", **HUGE}, error=True), write("2", "f"), turns(5)),
        [("error-purge", INPUT, "1"), ("superseded-file-ops", RESULT, "1")],
    ),
    "by position": (
        flat(read("1", "f"), bash("2", "x"), bash("3", "x"), edit("4", "f")),
        [("superseded-file-ops", RESULT, "1"), ("dedupe", RESULT, "2")],
    ),
    "by position of the results, not of the calls": (
        flat(
            assistant(*(call(str(n), "x", n=n % 2) for n in range(4))),
            result("3"),
            result("1"),
            result("2"),
            result("0"),
        ),
        [("dedupe", RESULT, "1"), ("dedupe", RESULT, "0")],
    ),
    "at one position by call order": (
        flat(
            user(),
            assistant(call("1", "x", {"n": 1, **HUGE}), call("2", "x", {"n": 2, **HUGE})),
            result("2", error=True),
            result("1", error=True),
            turns(5),
        ),
        [("error-purge", INPUT, "1"), ("error-purge", INPUT, "2")],
    ),
    "an id used twice: the second is never proposed": (
        flat(bash("1", "x"), bash("1", "x"), bash("1", "x")),
        [("dedupe", RESULT, "1")],
    ),
    "calls without results and results without calls": (
        flat(assistant(call("1", "x")), result("2", name="x"), bash("3", "y"), result("4")),
        [],
    ),
}


@pytest.mark.parametrize(("natives", "expected"), COLLAPSE.values(), ids=COLLAPSE)
def test_one_proposal_a_target_in_order(natives: list[Native], expected: list[tuple[str, str, str]]):
    assert proposed(build.engine(natives)) == expected


@pytest.mark.parametrize(("natives", "expected"), COLLAPSE.values(), ids=COLLAPSE)
def test_message_by_message_it_comes_to_the_same(natives: list[Native], expected: list[tuple[str, str, str]]):
    engine = build.engine()
    for message in build.messages(natives):
        engine.extend([message])
    assert proposed(engine) == expected


def test_a_proposal_says_all_about_itself():
    engine = build.engine(user(), read("1", "f"), read("2", "f"), assistant("done"))
    (proposal,) = engine.proposals
    marker = markers.output("read", 900, markers.DUPLICATE, "#m2")
    assert msgspec.to_builtins(proposal) == {
        "strategy": "dedupe",
        "kind": "tool_result_content",
        "call": "1",
        "position": 2,
        "originalTokens": 225,
        "tokensRemoved": 225 - text_tokens(marker),
        "reason": markers.DUPLICATE,
        "lane": "paid",
        "order": 0,
        "marker": marker,
        "reference": "#m2",
    }
    assert proposal.target == ("1", RESULT)


def test_a_proposal_to_purge_an_input_is_about_the_call_s_message():
    engine = build.engine(user(), used("1", "x", HUGE, "no", error=True), turns(5))
    (proposal,) = engine.proposals
    size = len(canonical(HUGE))
    marker = markers.purged_input("x", size, markers.FAILED_INPUT, "#m2")
    assert (proposal.position, proposal.marker, proposal.original_tokens) == (1, marker, (size + 3) // 4)
    assert proposal.tokens_removed == (size + 3) // 4 - text_tokens(canonical({"pruned": marker}))


# ---------------------------------------------------------------- switches

STALE = flat(
    user(),
    used("p", "x", HUGE, "no", error=True),
    bash("d", "x"),
    bash("e", "x"),
    read("s", "f"),
    edit("t", "f"),
    turns(5),
)
ALL = {"dedupe", "error-purge", "superseded-file-ops"}


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({}, ALL),
        ({"dedupe": {"enabled": False}}, ALL - {"dedupe"}),
        ({"errorPurge": {"enabled": False}}, ALL - {"error-purge"}),
        ({"supersededFileOps": {"enabled": False}}, ALL - {"superseded-file-ops"}),
        ({"errorPurge": {"minTurnsOld": 5}}, ALL - {"error-purge"}),
    ],
    ids=["all on", "dedupe", "error-purge", "superseded-file-ops", "age"],
)
def test_each_strategy_has_its_switch(switches: dict[str, Any], expected: set[str]):
    engine = build.engine(STALE, data=data(strategies=switches))
    assert {one.strategy for one in engine.proposals} == expected


def test_with_dedupe_off_superseded_file_ops_speaks_for_reads():
    engine = build.engine(
        read("1", "f"), read("2", "f"), data=data(strategies={"dedupe": {"enabled": False}})
    )
    assert proposed(engine) == [("superseded-file-ops", RESULT, "1")]


def test_disabled_proposes_and_edits_nothing_and_keeps_the_ledger():
    folded = ledger.fold([decide("dedupe", "d")])
    engine = build.engine(data=data(enabled=False))
    engine.follow(folded)
    engine.extend(build.messages(STALE))
    assert (engine.proposals, engine.edits, engine.removed_tokens) == ([], {}, 0)
    assert follow(engine, decide("dedupe", "d"), decide("dedupe", "s"))
    assert follow(engine, decide("dedupe", "d"), undo("dedupe", "d"), decide("dedupe", "s"))
    assert engine.edits == {}


def test_switched_on_again_the_same_edits_go_out():
    before = build.engine(STALE, entries=[decide("dedupe", "d")])
    again = build.engine(STALE, entries=[decide("dedupe", "d")])
    assert before.edits == again.edits != {}


# ---------------------------------------------------------------- protections


def test_a_protected_tool_is_never_proposed():
    natives = flat(user(), used("1", "Todo", HUGE, error=True), used("2", "todo", HUGE), turns(5))
    assert proposed(build.engine(natives)) == []
    own = {"protections": {"toolNames": [], "recentTurns": 0}, "thresholds": {"minCharsSaved": 0}}
    assert proposed(build.engine(natives, data=own)) == [("error-purge", INPUT, "1"), ("dedupe", RESULT, "1")]


def test_a_protected_path_is_never_proposed_by_any_strategy():
    natives = flat(
        user(),
        used("p", "write", {"path": ".env", **HUGE}, "no", error=True),
        used("d", "grep", {"where": "a/server.pem"}),
        used("e", "grep", {"where": "a/server.pem"}),
        read("s", "secrets/x"),
        edit("t", "secrets/x"),
        turns(5),
    )
    assert proposed(build.engine(natives)) == []
    unprotected = {"protections": {"pathGlobs": [], "recentTurns": 0}, "thresholds": {"minCharsSaved": 0}}
    assert {one.strategy for one in build.engine(natives, data=unprotected).proposals} == ALL


def test_the_normalised_path_is_protected():
    natives = flat(read("1", "x"), edit("2", "x"))
    assert proposed(build.engine(natives, cwd="/a/secrets")) == []
    assert proposed(build.engine(natives, cwd="/a/public")) != []


RECENCY: dict[str, tuple[list[Native], int, list[str]]] = {
    # messages, recentTurns, calls that are proposed
    "0 protects nothing": (flat(user(), read("1", "f"), read("2", "f")), 0, ["1"]),
    "0 protects nothing before the first turn": (flat(read("1", "f"), read("2", "f")), 0, ["1"]),
    "1 protects the current turn": (flat(user(), read("1", "f"), read("2", "f")), 1, []),
    "1, one turn later": (flat(user(), read("1", "f"), read("2", "f"), user()), 1, ["1"]),
    "4, three turns later": (flat(user(), read("1", "f"), read("2", "f"), turns(3)), 4, []),
    "4, four turns later": (flat(user(), read("1", "f"), read("2", "f"), turns(4)), 4, ["1"]),
    "only user messages count": (
        flat(
            user(), read("1", "f"), read("2", "f"), turns(3), shell("ls", ""), build.other(), build.summary()
        ),
        4,
        [],
    ),
    "answers and results do not count": (
        flat(user(), read("1", "f"), read("2", "f"), *(bash(f"b{n}", f"{n}") for n in range(9))),
        4,
        [],
    ),
    "before the first turn": (flat(read("1", "f"), read("2", "f"), turns(3)), 4, []),
    "before the first turn, four turns later": (flat(read("1", "f"), read("2", "f"), turns(4)), 4, ["1"]),
    "what is stale only now, and old already": (
        flat(user(), read("1", "f"), turns(4), read("2", "f")),
        4,
        ["1"],
    ),
    "the result's turn counts for a result": (
        flat(assistant(call("1", "x")), turns(2), result("1", name="x"), used("2", "x", {}), turns(1)),
        2,
        [],
    ),
    "the call's turn counts for an input": (
        flat(assistant(call("1", "x", HUGE)), turns(5), result("1", "no", error=True), turns(0)),
        5,
        ["1"],
    ),
    "it holds for error-purge": (flat(user(), used("1", "x", HUGE, "no", error=True), turns(6)), 7, []),
    "it holds for error-purge no longer than it says": (
        flat(user(), used("1", "x", HUGE, "no", error=True), turns(7)),
        7,
        ["1"],
    ),
}


@pytest.mark.parametrize(("natives", "recent", "calls"), RECENCY.values(), ids=RECENCY)
def test_recency(natives: list[Native], recent: int, calls: list[str]):
    assert [one.call for one in build.engine(natives, data=data(recent=recent)).proposals] == calls


@pytest.mark.parametrize(("natives", "recent", "calls"), RECENCY.values(), ids=RECENCY)
def test_recency_message_by_message(natives: list[Native], recent: int, calls: list[str]):
    engine = build.engine(data=data(recent=recent))
    for message in build.messages(natives):
        engine.extend([message])
    assert [one.call for one in engine.proposals] == calls


def test_the_default_is_four_turns():
    natives = flat(user(), read("1", "f"), read("2", "f"), turns(3))
    assert proposed(build.engine(natives, data={})) == []
    assert proposed(build.engine(natives, user(), data={})) == [("dedupe", RESULT, "1")]


# ---------------------------------------------------------------- the size floor


def duplicates(text: str, *more: Native) -> list[Native]:
    return flat(used("1", "x", {}, text, *more), used("2", "x", {}, text, *more))


def at_floor(floor: int) -> int:
    """The length of a text of which a duplicate's marker saves exactly `floor` characters."""
    return floor + utf16_length(markers.output("x", 999, markers.DUPLICATE, "#m1"))


@pytest.mark.parametrize("floor", [200, 333])
def test_the_floor_is_a_least_saving_in_characters(floor: int):
    exactly = at_floor(floor)
    assert proposed(build.engine(duplicates("x" * exactly), data=data(floor=floor))) == [
        ("dedupe", RESULT, "1")
    ]
    assert proposed(build.engine(duplicates("x" * (exactly - 1)), data=data(floor=floor))) == []


def test_the_default_floor_is_200():
    settings = {"protections": {"recentTurns": 0}}
    assert proposed(build.engine(duplicates("x" * at_floor(200)), data=settings)) != []
    assert proposed(build.engine(duplicates("x" * (at_floor(200) - 1)), data=settings)) == []


def test_the_floor_counts_utf16_units():
    exactly = at_floor(200) // 2 * 2
    floor = 200 - at_floor(200) % 2
    assert proposed(build.engine(duplicates("🙂" * (exactly // 2)), data=data(floor=floor))) != []
    assert proposed(build.engine(duplicates("🙂" * (exactly // 2)), data=data(floor=floor + 1))) == []


def test_several_texts_count_together_with_a_line_feed_between():
    exactly = at_floor(200)
    parts = ["x" * (exactly - 11), "y" * 10]
    natives = flat(used("1", "x", {}, *parts), used("2", "x", {}, *parts))
    assert proposed(build.engine(natives, data=data(floor=200))) != []
    assert proposed(build.engine(natives, data=data(floor=201))) == []


def test_the_floor_holds_for_inputs():
    def failed(length: int) -> list[Native]:
        return flat(user(), used("1", "x", {"c": "x" * length}, "no", error=True), turns(5))

    marker = markers.purged_input("x", 999, markers.FAILED_INPUT, "#m2")
    exactly = 200 + len(canonical({"pruned": marker})) - len('{"c":""}')
    assert proposed(build.engine(failed(exactly), data=data(floor=200))) == [("error-purge", INPUT, "1")]
    assert proposed(build.engine(failed(exactly - 1), data=data(floor=200))) == []


@pytest.mark.parametrize("content", [("",), ("short",), (LONG,), ()], ids=["empty", "short", "long", "alone"])
def test_results_that_hold_images_bypass_the_floor(content: tuple[str, ...]):
    natives = flat(used("1", "x", {}, *content, image()), used("2", "x", {}, *content, image()))
    engine = build.engine(natives, data=data(floor=5000))
    (proposal,) = engine.proposals
    texts_only = sum(text_tokens(text) for text in content)
    assert proposal.original_tokens == 1200 + texts_only
    assert proposal.tokens_removed == 1200 + texts_only - text_tokens(proposal.marker)


def test_images_do_not_bypass_the_floor_for_inputs():
    natives = flat(user(), used("1", "x", HUGE, "no", image(), error=True), turns(5))
    assert proposed(build.engine(natives, data=data(floor=5000))) == []


@pytest.mark.parametrize("length", [0, 1, 40, at_floor(0) - 1, at_floor(0)])
def test_a_marker_that_is_not_smaller_is_not_used(length: int):
    assert proposed(build.engine(duplicates("x" * length))) == []


def test_a_marker_that_is_a_token_smaller_is_used_without_a_floor():
    engine = build.engine(duplicates("x" * (at_floor(0) + 4)))
    assert [one.tokens_removed for one in engine.proposals] == [1]


def test_a_marker_that_saves_tokens_by_rounding_alone_is_not_used():
    # Thirty texts of a character each are thirty tokens, and fewer characters than a marker.
    many = ["x"] * 30
    natives = flat(used("1", "x", {}, *many), used("2", "x", {}, *many))
    assert proposed(build.engine(natives)) == []


def test_the_floor_comes_before_one_proposal_a_target():
    # Of this length superseded-file-ops passes the floor, whose marker is shorter, and dedupe does not.
    length = 200 + len(markers.output("read", 999, markers.CHANGED_AFTER, "#m1"))
    assert length < 200 + len(markers.output("read", 999, markers.DUPLICATE, "#m1"))
    natives = flat(read("1", "f", "x" * length), edit("2", "f"), read("3", "f", "x" * length))
    expected = [("superseded-file-ops", RESULT, "1")]
    assert proposed(build.engine(natives, data=data(floor=200))) == expected
    grown = build.engine(data=data(floor=200))
    for message in build.messages(natives):
        grown.extend([message])
    assert proposed(grown) == expected


# ---------------------------------------------------------------- references


def without_references(*natives: Native | Iterable[Native]) -> Engine:
    engine = Engine(Rules(build.with_settings(NO_FLOOR)), lambda _message, _call: None)
    engine.extend(build.messages(flat(*natives)))
    return engine


def test_without_a_reference_nothing_goes():
    engine = without_references(STALE, bash("m", "y", LONG * 9), shell("ls", LONG * 9), user())
    assert proposed(engine) == []
    assert engine.mask() == []
    with pytest.raises(RefusedError):
        engine.manual("m")


def test_the_reference_is_asked_for_by_message_and_call():
    asked: list[tuple[str, str]] = []
    engine = Engine(Rules(build.with_settings(NO_FLOOR)), lambda *pair: asked.append(pair))
    engine.extend(build.messages(flat(user(), bash("1", "x"), bash("2", "x"))))
    assert asked == [("m2", "1")]


def test_a_recalled_output_goes_by_its_original():
    natives = flat(used("1", "recall", {"ref": "#7"}), used("2", "RECALL", {"ref": "#7"}))
    asked: list[tuple[str, str]] = []

    def recalled(reference: str, exchange: Exchange) -> str | None:
        asked.append((reference, exchange.call.id))
        return "#original"

    engine = build.engine(natives, recalled=recalled)
    (proposal,) = engine.proposals
    assert (proposal.reference, markers.reference_in(proposal.marker)) == ("#original", "#original")
    assert asked == [("#7", "1")]
    assert [one.call.id for one in engine.recalls] == ["1", "2"]


OWN_REFERENCE: dict[str, list[Native]] = {
    "a recall that failed": flat(
        used("1", "recall", {"ref": "#7"}, error=True), used("2", "recall", {"ref": "#7"})
    ),
    "a recall of no reference": flat(used("1", "recall", {}), used("2", "recall", {})),
    "a recall of a number": flat(used("1", "recall", {"ref": 7}), used("2", "recall", {"ref": 7})),
    "a recall of something unknown": flat(
        used("1", "recall", {"ref": "#8"}), used("2", "recall", {"ref": "#8"})
    ),
    "another tool": flat(used("1", "grep", {"ref": "#7"}), used("2", "grep", {"ref": "#7"})),
}


@pytest.mark.parametrize("natives", OWN_REFERENCE.values(), ids=OWN_REFERENCE)
def test_else_an_output_goes_by_its_own_reference(natives: list[Native]):
    def recalled(reference: str, _: Exchange) -> str | None:
        return "#original" if reference == "#7" else None

    assert [one.reference for one in build.engine(natives, recalled=recalled).proposals] == ["#m1"]


def test_without_a_way_to_look_recalls_up_they_go_by_their_own():
    engine = build.engine(used("1", "recall", {"ref": "#7"}), used("2", "recall", {"ref": "#7"}))
    assert [one.reference for one in engine.proposals] == ["#m1"]


# ---------------------------------------------------------------- lanes

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


# ---------------------------------------------------------------- the gate


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


# ---------------------------------------------------------------- what stands


def test_a_standing_decision_goes_out_as_it_is_stored():
    engine = build.engine(STALE, entries=[decide("dedupe", "d", placeholder="[pruned: see call_9]")])
    assert engine.edits == {4: {0: ReplacePart("m4", 4, 0, RESULT, "[pruned: see call_9]")}}
    assert ("dedupe", RESULT, "d") not in proposed(engine)
    assert engine.edit_count == 1


def test_without_a_stored_marker_one_is_made():
    stored = ledger.from_data(
        ledger.DECISION,
        {
            "idempotencyKey": "dedupe:tool_result_content:d",
            "strategyId": "dedupe",
            "correlation": {"type": "toolCallId", "toolCallId": "d"},
            "kind": "tool_result_content",
            "reason": "a reason of theirs",
        },
    )
    assert stored is not None
    engine = build.engine(STALE, entries=[stored])
    assert texts(engine) == {"m4": markers.output("bash", 900, "a reason of theirs", "#m4")}


def test_without_a_stored_marker_and_reason_one_is_made_still():
    stored = msgspec.structs.replace(decide("manual", "d"), placeholder=None, reason="")
    engine = build.engine(STALE, entries=[stored])
    assert texts(engine) == {"m4": markers.output("bash", 900, markers.BY_USER, "#m4")}


def test_without_a_stored_marker_none_is_made_that_would_not_be_smaller():
    stored = msgspec.structs.replace(decide("manual", "1"), placeholder=None)
    assert build.engine(bash("1", "x", "short"), entries=[stored]).edits == {}


def test_a_stored_marker_that_is_not_smaller_is_not_used():
    assert (
        build.engine(bash("1", "x", "short"), entries=[decide("manual", "1", placeholder="y" * 9)]).edits
        == {}
    )
    assert build.engine(bash("1", "x", "short"), entries=[decide("manual", "1", placeholder="y")]).edits != {}


def test_an_input_s_marker_is_the_one_value_of_an_object():
    engine = build.engine(STALE, entries=[decide("error-purge", "p", INPUT)])
    assert engine.edits == {1: {0: ReplacePart("m1", 1, 0, INPUT, "[gone]")}}
    assert engine.removed_tokens == text_tokens(canonical(HUGE)) - text_tokens('{"pruned":"[gone]"}')


def test_decisions_of_calls_that_are_not_here_change_nothing():
    assert build.engine(STALE, entries=[decide("dedupe", "elsewhere")]).edits == {}


def test_a_decision_of_another_output_under_the_same_call_id_changes_nothing():
    assert build.engine(STALE, entries=[decide("dedupe", "d", entry_id="m9")]).edits == {}
    assert build.engine(STALE, entries=[decide("dedupe", "d", entry_id="m4")]).edits != {}


def test_the_restore_of_a_decision_that_changed_nothing_changes_nothing():
    engine = build.engine(STALE, entries=[decide("dedupe", "d", entry_id="m9")])
    assert follow(engine, decide("dedupe", "d", entry_id="m9"), undo("dedupe", "d"))
    assert (engine.edits, engine.removed_tokens) == ({}, 0)
    assert engine.message_tokens == build.engine(STALE).message_tokens


def test_a_decision_reaches_the_first_of_an_id_used_twice():
    engine = build.engine(bash("1", "x"), bash("1", "y"), entries=[decide("manual", "1")])
    assert texts(engine) == {"m1": "[gone]"}


SWITCHED: dict[str, dict[str, Any]] = {
    "as before": NO_FLOOR,
    "the strategy is off": data(strategies={"dedupe": {"enabled": False}}),
    "all strategies are off": data(
        strategies={name: {"enabled": False} for name in ("dedupe", "errorPurge", "supersededFileOps")}
    ),
    "the tool is protected now": data(protections={"toolNames": ["bash"]}),
    "the path is protected now": data(protections={"pathGlobs": ["**"]}),
    "the turn is recent now": data(recent=99),
    "the floor is higher now": data(floor=99_999),
    "the gate accepts nothing now": data(gate={"breakEvenThreshold": 0}),
    "the gate is off": data(gate={"mode": "off"}),
}


@pytest.mark.parametrize("settings", SWITCHED.values(), ids=SWITCHED)
def test_what_stands_stays_whatever_settings_change(settings: dict[str, Any]):
    entries = [decide("dedupe", "d"), decide("error-purge", "p", INPUT)]
    engine = build.engine(STALE, data=settings, entries=entries)
    assert texts(engine) == {"m1": "[gone]", "m4": "[gone]"}


@pytest.mark.parametrize("strategy", ["dedupe", "error-purge", "superseded-file-ops", "manual"])
@pytest.mark.parametrize(("call_id", "kind"), [("d", RESULT), ("p", INPUT), ("s", RESULT)])
def test_a_restored_target_is_never_proposed_again_by_any_strategy(
    strategy: str, call_id: str, kind: ToolKind
):
    engine = build.engine(STALE, entries=[undo(strategy, call_id, kind)])
    assert (call_id, kind) not in {(one.call, one.kind) for one in engine.proposals}
    assert len(engine.proposals) == 2


def test_restored_while_it_waits_for_its_turn():
    natives = flat(user(), read("1", "f"), read("2", "f"))
    engine = build.engine(natives, data=data(recent=2))
    assert follow(engine, decide("manual", "1"), undo("manual", "1"))
    engine.extend(build.messages(turns(5)))
    assert proposed(engine) == []


def test_prune_restore_and_prune_again():
    engine = build.engine(STALE)
    raw, sizes = engine.total_tokens, engine.message_tokens
    entries: list[Entry] = [decide("dedupe", "d")]
    assert follow(engine, *entries)
    assert texts(engine) == {"m4": "[gone]"}
    assert engine.message_tokens[4] == text_tokens("[gone]")
    assert engine.removed_tokens == sizes[4] - text_tokens("[gone]")
    entries.append(undo("dedupe", "d"))
    assert follow(engine, *entries)
    assert (engine.edits, engine.removed_tokens, engine.message_tokens) == ({}, 0, sizes)
    assert ("dedupe", RESULT, "d") not in proposed(engine)
    entries.append(decide("manual", "d", placeholder="[gone again]"))
    assert follow(engine, *entries)
    assert texts(engine) == {"m4": "[gone again]"}
    assert engine.total_tokens == raw


def test_positions_whose_edits_changed_are_noted():
    engine = build.engine(STALE)
    assert engine.touched == set()
    follow(engine, decide("dedupe", "d"))
    assert engine.touched == {4}
    engine.touched.clear()
    follow(engine, decide("dedupe", "d"), undo("dedupe", "d"), decide("error-purge", "p", INPUT))
    assert engine.touched == {1, 4}


def test_two_keys_on_one_target_show_the_first_s_marker_until_it_is_restored():
    engine = build.engine(STALE)
    entries = [decide("dedupe", "d", placeholder="[one]"), decide("manual", "d", placeholder="[two]")]
    follow(engine, *entries)
    assert texts(engine) == {"m4": "[one]"}
    follow(engine, *entries, undo("dedupe", "d"))
    assert texts(engine) == {"m4": "[two]"}


def test_two_parts_of_one_message_are_edited_and_undone_apart():
    natives = [assistant(call("1", "x", HUGE), call("2", "x", HUGE)), result("1"), result("2")]
    engine = build.engine(natives, entries=[decide("manual", "1", INPUT), decide("manual", "2", INPUT)])
    assert set(engine.edits[0]) == {0, 1}
    assert engine.edit_count == 2
    follow(engine, decide("manual", "1", INPUT), decide("manual", "2", INPUT), undo("manual", "1", INPUT))
    assert set(engine.edits[0]) == {1}


def test_the_same_ledger_again_costs_nothing():
    folded = ledger.fold([decide("dedupe", "d")])
    engine = build.engine(STALE)
    engine.follow(folded)
    engine.touched.clear()
    assert engine.follow(folded)
    assert engine.follow(ledger.fold([decide("dedupe", "d")]))
    assert engine.touched == set()


@pytest.mark.parametrize("gone", [[], [decide("dedupe", "s")]], ids=["all", "one"])
def test_a_decision_that_has_gone_without_a_restore_asks_for_a_fresh_engine(gone: list[Entry]):
    engine = build.engine(STALE, entries=[decide("dedupe", "d"), decide("dedupe", "s")])
    assert not follow(engine, *gone)


def test_a_restore_that_has_gone_asks_for_a_fresh_engine():
    engine = build.engine(STALE, entries=[undo("dedupe", "d")])
    assert not follow(engine)
    assert follow(build.engine(STALE, entries=[undo("dedupe", "d")]), decide("dedupe", "d"))


def test_a_marker_is_never_replaced():
    marker = markers.output("bash", 99_999, markers.DUPLICATE, "#1")
    padded = marker + "\n" + LONG
    engine = build.engine(
        bash("1", "x", padded), bash("2", "x", padded), data=data(pruning={"minResultTokens": 1})
    )
    assert proposed(engine) == []
    assert [one for one, _ in engine.mask()] == []
    with pytest.raises(RefusedError):
        engine.manual("1")


def test_an_input_that_was_purged_is_not_purged_again():
    marker = markers.purged_input("x", 99_999, markers.FAILED_INPUT, "#1")
    purged = {markers.INPUT_KEY: marker}
    engine = build.engine(user(), used("1", "x", purged, "no", error=True), turns(5))
    assert proposed(engine) == []
    with pytest.raises(RefusedError):
        engine.manual("1", INPUT)


def test_a_masked_shell_output_is_not_masked_again():
    marker = markers.masked_shell("make", 0, "\n".join(["x" * 200] * 9000), "#1")
    again = flat(user(), shell("make", marker), bash("1", "make", marker), user())
    engine = build.engine(again, data=data(pruning={"minResultTokens": 1}))
    assert engine.unmasked_saving == 0
    assert engine.mask() == []


def test_what_only_begins_like_a_marker_is_replaced():
    text = markers.OPENING + LONG
    assert proposed(build.engine(bash("1", "x", text), bash("2", "x", text))) == [("dedupe", RESULT, "1")]


# ---------------------------------------------------------------- a person's own prunes


def test_a_manual_prune_bypasses_floor_recency_and_gate():
    settings = data(recent=99, floor=99_999, gate={"breakEvenThreshold": 0})
    engine = build.engine(user(), bash("1", "x"), data=settings)
    proposal = engine.manual("1")
    assert (proposal.strategy, proposal.kind, proposal.position) == ("manual", RESULT, 2)
    assert proposal.marker == markers.output("bash", 900, markers.BY_USER, "#m2")


def test_a_manual_prune_of_an_input():
    proposal = build.engine(STALE).manual("p", INPUT)
    assert (proposal.kind, proposal.position) == (INPUT, 1)


def test_a_manual_prune_brings_a_restored_target_back():
    assert build.engine(STALE, entries=[undo("dedupe", "d")]).manual("d").call == "d"


REFUSED: dict[str, tuple[list[Native], str]] = {
    "not there": (bash("2", "x"), "no completed call"),
    "in flight": ([assistant(call("1", "x"))], "no completed call"),
    "a protected tool": (used("1", "Todo", {}), "tool Todo is protected"),
    "a protected path": (read("1", "a/.env"), "path is protected by **/.env"),
    "pruned already": (bash("1", "x"), "pruned already"),
    "no smaller": (bash("1", "x", "short"), "not be smaller"),
}


@pytest.mark.parametrize(("natives", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_manual_prune_is_refused_with_the_reason(natives: list[Native], reason: str):
    entries = [decide("dedupe", "1")] if reason == "pruned already" else []
    with pytest.raises(RefusedError) as refused:
        build.engine(natives, entries=entries).manual("1")
    assert str(refused.value).startswith("1: ")
    assert reason in str(refused.value)


def test_an_image_alone_can_be_pruned_by_hand():
    assert build.engine(bash("1", "x", image())).manual("1").original_tokens == 1200


def test_a_preview_edits_as_if_the_proposal_stood():
    engine = build.engine(STALE)
    for proposal in engine.proposals:
        engine.preview(proposal)
    assert texts(engine) == {f"m{one.position}": one.marker for one in build.engine(STALE).proposals}
    assert engine.removed_tokens == sum(one.tokens_removed for one in build.engine(STALE).proposals)


def test_a_preview_of_a_call_that_is_not_here_changes_nothing():
    engine = build.engine(bash("1", "x"))
    engine.preview(build.engine(bash("2", "x")).manual("2"))
    assert engine.edits == {}


# ---------------------------------------------------------------- masking

BIG = LONG * 6  # 5,400 characters, 1,350 tokens
MASKABLE = flat(
    user(), bash("1", "ls", BIG), read("2", "f", BIG), shell("make", BIG), bash("3", "ls", BIG), user()
)


def test_masking_replaces_large_outputs_with_their_markers():
    engine = build.engine(MASKABLE)
    masked = engine.mask()
    assert [(output.call_id, reference) for output, reference in masked] == [
        ("1", "#m2"),
        ("2", "#m4"),
        ("m5", "#m5"),
        ("3", "#m7"),
    ]
    edits = [part for parts in engine.edits.values() for part in parts.values()]
    assert [(one.position, one.part, one.kind, one.keep_images) for one in edits] == [
        (2, 0, RESULT, True),
        (4, 0, RESULT, True),
        (5, 0, SHELL_OUTPUT, True),
        (7, 0, RESULT, True),
    ]
    assert [markers.reference_in(one.text) for one in edits] == ["#m2", "#m4", "#m5", "#m7"]
    assert engine.masked == {
        ("1", RESULT): (2, 0),
        ("2", RESULT): (4, 0),
        ("m5", SHELL_OUTPUT): (5, 0),
        ("3", RESULT): (7, 0),
    }
    assert engine.removed_tokens == sum(1350 - text_tokens(one.text) for one in edits)


def test_masking_again_gives_what_is_new():
    engine = build.engine(MASKABLE)
    engine.mask()
    assert engine.mask() == []
    engine.extend(build.messages(flat(MASKABLE, bash("4", "pwd", BIG)))[len(MASKABLE) :])
    assert engine.mask() == []
    engine.extend([build.messages([*MASKABLE, *bash("4", "pwd", BIG), user()])[-1]])
    assert [output.call_id for output, _ in engine.mask()] == ["4"]


def test_what_masking_could_save_is_known_before():
    engine = build.engine(MASKABLE)
    could = engine.unmasked_saving
    assert engine.edits == {}
    engine.mask()
    assert engine.removed_tokens == could > 0
    assert engine.unmasked_saving == 0


def test_masking_takes_what_remains():
    engine = build.engine(MASKABLE, entries=[decide("dedupe", "1"), undo("dedupe", "2")])
    saving = engine.unmasked_saving
    assert [output.call_id for output, _ in engine.mask()] == ["m5", "3"]
    assert texts(engine)["m2"] == "[gone]"
    assert "m4" not in texts(engine)
    assert saving == engine.removed_tokens - (1350 - text_tokens("[gone]"))


def test_a_masked_output_is_proposed_no_more():
    engine = build.engine(MASKABLE)
    assert proposed(engine) == [("dedupe", RESULT, "1")]
    engine.mask()
    assert proposed(engine) == []
    assert engine.verdict().earliest is None
    engine.extend(build.messages([*MASKABLE, *edit("5", "f")])[len(MASKABLE) :])
    assert proposed(engine) == []


def test_a_decision_takes_a_masked_output_over():
    engine = build.engine(MASKABLE)
    engine.mask()
    before = engine.message_tokens
    follow(engine, decide("manual", "2"))
    assert texts(engine)["m4"] == "[gone]"
    assert ("2", RESULT) not in engine.masked
    assert not engine.edits[4][0].keep_images
    assert engine.message_tokens[4] == text_tokens("[gone]") < before[4]


def test_a_restored_output_is_masked_no_more():
    engine = build.engine(MASKABLE)
    engine.mask()
    assert follow(engine, decide("manual", "1"), undo("manual", "1"))
    assert "m2" not in texts(engine)
    assert ("1", RESULT) not in engine.masked
    assert engine.mask() == []
    assert follow(engine, decide("manual", "1"), undo("manual", "1"), decide("manual", "1"))
    assert texts(engine)["m2"] == "[gone]"


def test_a_decision_without_effect_leaves_a_masked_output_masked():
    engine = build.engine(MASKABLE)
    engine.mask()
    masked = texts(engine)["m2"]
    follow(engine, decide("manual", "1", entry_id="m99"))
    assert texts(engine)["m2"] == masked
    follow(engine, decide("manual", "1", entry_id="m99", placeholder="[other]"))
    assert texts(engine)["m2"] == masked


def test_what_is_pruned_again_without_effect_takes_a_fresh_engine_since_it_may_be_masked():
    engine = build.engine(MASKABLE)
    engine.mask()
    assert follow(engine, decide("manual", "1"), undo("manual", "1"))
    without_effect = decide("manual", "1", entry_id="m99")
    assert not follow(engine, decide("manual", "1"), undo("manual", "1"), without_effect)


def test_a_mask_that_is_not_smaller_is_not_used():
    # Twenty lines of a shell output all stay, so its marker is larger.
    lines = "\n".join(["x" * 200] * 20)
    engine = build.engine(user(), shell("ls", lines), user(), data=data(pruning={"minResultTokens": 1}))
    assert engine.unmasked_saving == 0
    assert engine.mask() == []
    assert engine.edits == {}


def test_images_beside_a_masked_text_stay_and_are_not_saved():
    engine = build.engine(user(), bash("1", "x", BIG, image()), user())
    engine.mask()
    (edit_,) = engine.edits[2].values()
    assert edit_.keep_images
    assert engine.message_tokens[2] == 1200 + text_tokens(edit_.text)


def test_a_message_that_counts_nothing_never_counts_less():
    # The documented estimate leaves shell commands of the user out.
    engine = build.engine(user("x"), shell("make", BIG), user("x"))
    engine.mask()
    assert engine.message_tokens == [1, 0, 1]
    assert engine.tail_tokens(0) == 2


def test_a_recalled_output_is_masked_under_its_original_s_reference():
    engine = build.engine(
        user(), used("1", "recall", {"ref": "#7"}, BIG), user(), recalled=lambda _ref, _exchange: "#original"
    )
    assert [reference for _, reference in engine.mask()] == ["#original"]


# ---------------------------------------------------------------- sizes


def test_sizes_follow_the_rules_estimator():
    rules = Rules(Settings(), estimator=PI)
    engine = Engine(rules, lambda message, _: message)
    messages = build.messages(MASKABLE)
    engine.extend(messages)
    assert engine.message_tokens == [PI.message(message) for message in messages]
    assert engine.total_tokens == sum(engine.message_tokens)


def test_the_context_is_the_host_s_estimate_of_the_messages_so_far():
    engine = build.engine(user("x" * 40))
    assert engine.context.estimate == 10
    engine.extend(build.messages([user(), assistant("x", usage=build.usage(5000))])[1:])
    assert engine.context.estimate == 5000


def test_the_saving_at_a_place():
    engine = build.engine(STALE, entries=[decide("dedupe", "d")])
    assert engine.saving_at((4, 0)) == 225 - text_tokens("[gone]") == engine.removed_tokens
    assert engine.saving_at((4, 1)) == 0


# ---------------------------------------------------------------- laws

CALLS = st.tuples(
    st.sampled_from(["read", "Read", "write", "edit", "grep", "todo"]),
    st.sampled_from(["f", "./f", "g", ".env"]),
    st.sampled_from([{}, {"offset": 2}, {"offset": 2, "limit": 3}, {"limit": 400}, {"content": "x" * 500}]),
    st.booleans(),
    st.sampled_from(["", "short", "x" * 230, "x" * 300, LONG]),
    st.booleans(),
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Native]:
    """Answers with parallel calls, results in any order, some missing, some failed, with users between."""
    natives: list[Native] = []
    number = 0
    for batch in draw(st.lists(st.lists(CALLS, max_size=4), max_size=8)):
        natives += turns(draw(st.integers(0, 2)))
        blocks, results = [], []
        for name, path, more, error, text, has_image in batch:
            number += 1
            # Now and then an id comes twice.
            id_ = f"c{draw(st.integers(1, number)) if draw(st.integers(0, 9)) == 0 else number}"
            blocks.append(call(id_, name, {"path": path, **more}))
            results.append(result(id_, text, *([image()] if has_image else []), error=error, name=name))
        natives.append(assistant("ok", *blocks))
        results = draw(st.permutations(results))
        natives += results[: len(results) - draw(st.integers(0, 1))]
    return natives


SETTINGS = st.builds(
    lambda recent, floor, age: data(
        recent=recent, floor=floor, strategies={"errorPurge": {"minTurnsOld": age}}
    ),
    st.integers(0, 3),
    st.sampled_from([0, 100, 180, 200]),
    st.integers(0, 3),
)


@given(conversations(), st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_each_strategy_step_by_step_finds_what_it_finds_at_once(natives: list[Native], steps: list[int]):
    everything = build.transcript(natives, cwd="/w")
    for entry in strategies.STRATEGIES:
        at_once = list(entry.make(Settings()).advance(everything))
        assert entry.make(Settings()).name == entry.name
        grown, stepped, found = build.transcript(cwd="/w"), entry.make(Settings()), []
        for start, end in _cuts(len(natives), steps):
            grown.extend(everything.messages[start:end])
            found += stepped.advance(grown)
        assert {(one.exchange.order, one.kind) for one in found} == {
            (one.exchange.order, one.kind) for one in at_once
        }
        assert len(found) == len(at_once)


@given(conversations(), SETTINGS, st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_step_by_step_it_proposes_what_it_proposes_at_once(
    natives: list[Native], settings: dict[str, Any], steps: list[int]
):
    grown, messages = build.engine(data=settings, cwd="/w"), build.messages(natives)
    for start, end in _cuts(len(natives), steps):
        grown.extend(messages[start:end])
    whole = build.engine(natives, data=settings, cwd="/w")
    # Which reason superseded-file-ops gives first may differ; who proposes what does not.
    assert proposed(grown) == proposed(whole)
    assert [one.position for one in grown.proposals] == [one.position for one in whole.proposals]
    assert grown.verdict().earliest == whole.verdict().earliest
    assert (grown.total_tokens, grown.message_tokens) == (whole.total_tokens, whole.message_tokens)


@given(conversations(), SETTINGS)
def test_every_proposal_keeps_the_rules(natives: list[Native], settings: dict[str, Any]):
    engine = build.engine(natives, data=settings, cwd="/w")
    proposals = engine.proposals
    assert len({one.target for one in proposals}) == len(proposals)
    assert proposals == sorted(proposals, key=lambda one: (one.position, one.order))
    turn = engine.transcript.turn
    for one in proposals:
        exchange = engine.transcript.exchange(one.call)
        assert exchange is not None
        assert exchange.call.name.lower() != "todo"
        assert exchange.call.arguments["path"] != ".env"
        assert one.tokens_removed > 0
        assert markers.reference_in(one.marker) == one.reference
        recent = settings["protections"]["recentTurns"]
        assert engine.transcript.turns[one.position] <= turn - recent
        assert one.kind == RESULT or exchange.result.is_error


LEDGERS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["prune", "restore"]),
            st.sampled_from(["dedupe", "manual"]),
            st.integers(1, 8),
            st.sampled_from([RESULT, INPUT]),
            st.sampled_from(["[gone]", "[gone too]", "x" * 250]),
        ),
        max_size=4,
    ),
    max_size=6,
)


@given(conversations(), LEDGERS, st.booleans(), st.integers(1, 20))
def test_after_any_edits_and_undos_sizes_are_what_goes_out(
    natives: list[Native], batches: list[list[tuple[Any, ...]]], mask: bool, half: int
):
    settings = data(pruning={"minResultTokens": 60, "protectCurrentTurn": False})
    messages = build.messages(natives)
    engine = build.engine(data=settings)
    engine.extend(messages[:half])
    entries: list[Entry] = []
    for number, batch in enumerate(batches):
        for step, strategy, call_number, kind, marker in batch:
            call_id = f"c{call_number}"
            prune = step == "prune"
            entries.append(
                decide(strategy, call_id, kind, marker) if prune else undo(strategy, call_id, kind)
            )
        if not follow(engine, *entries):  # what was masked and restored is pruned again without effect
            assert mask
            seen = engine.transcript.messages
            engine = build.engine(data=settings)
            engine.extend(seen)
            assert follow(engine, *entries)
        if mask and number == 1:
            engine.mask()
        if number == 2:
            engine.extend(messages[half:])
        _check_sizes(engine)
    engine.extend(messages[len(engine.transcript) :])
    if mask:
        engine.mask()
    _check_sizes(engine)
    if not mask:
        fresh = build.engine(natives, data=settings, entries=entries)
        assert (fresh.edits, fresh.message_tokens) == (engine.edits, engine.message_tokens)
        assert proposed(fresh) == proposed(engine)


def _check_sizes(engine: Engine) -> None:
    """Every tail is the sum of its messages, each of which is what its parts and edits make of it."""
    estimate = engine.rules.estimator
    sizes = []
    for position, message in enumerate(engine.transcript.messages):
        parts = list(message.parts)
        for part, one in engine.edits.get(position, {}).items():
            old: Any = parts[part]
            text = canonical({"pruned": one.text}) if one.kind == INPUT else one.text
            if one.kind == INPUT:
                parts[part] = msgspec.structs.replace(old, text=text)
            else:
                kept = [piece for piece in old.content if one.keep_images and not hasattr(piece, "text")]
                new = build.messages([result("x", text)])[0].parts[0]
                parts[part] = msgspec.structs.replace(old, content=(*new.content, *kept))  # type: ignore[union-attr]
        sizes.append(estimate.message(msgspec.structs.replace(message, parts=tuple(parts))))
    assert engine.message_tokens == sizes
    assert [engine.tail_tokens(at) for at in range(len(sizes) + 1)] == [
        sum(sizes[at:]) for at in range(len(sizes) + 1)
    ]
    assert engine.total_tokens - engine.removed_tokens == sum(sizes)


def _cuts(length: int, steps: list[int]) -> Iterable[tuple[int, int]]:
    start = 0
    for step in steps:
        yield start, min(start + step, length)
        start = min(start + step, length)
    yield start, length
