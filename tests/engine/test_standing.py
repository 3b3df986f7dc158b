"""What stands goes out, and is undone: decisions, restores, markers."""

from typing import Any

import pytest
from tests import build
from tests.build import (
    LONG,
    NO_FLOOR,
    assistant,
    bash,
    call,
    flat,
    proposed,
    read,
    result,
    turns,
    used,
    user,
)
from tests.engine.support import HUGE, INPUT, RESULT, STALE, data, decide, follow, texts, undo

from prunewise import ledger, markers
from prunewise.canonical import canonical
from prunewise.errors import RefusedError
from prunewise.ledger import Entry
from prunewise.tokens import text_tokens
from prunewise.transcript import ReplacePart, ToolKind


def test_a_standing_decision_goes_out_as_it_is_stored():
    engine = build.engine(STALE, entries=[decide("dedupe", "d", placeholder="[pruned: see call_9]")])
    assert engine.edits == {4: {0: ReplacePart("m4", 4, 0, RESULT, "[pruned: see call_9]")}}
    assert ("dedupe", RESULT, "d") not in proposed(engine)
    assert engine.edit_count == 1


def test_without_a_stored_marker_it_is_what_the_typescript_extension_sends():
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
    assert texts(engine) == {
        "m4": "[pruned by dynamic-context-pruning: a reason of theirs (900 chars removed)]"
    }


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
    assert engine.take_touched() == []
    follow(engine, decide("dedupe", "d"))
    assert engine.take_touched() == [4]
    follow(engine, decide("dedupe", "d"), undo("dedupe", "d"), decide("error-purge", "p", INPUT))
    assert engine.take_touched() == [1, 4]
    engine.touch([6, 2])
    assert engine.take_touched() == [2, 6]
    assert engine.take_touched() == []


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
    assert engine.take_touched() == [4]
    assert engine.follow(folded)
    assert engine.follow(ledger.fold([decide("dedupe", "d")]))
    assert engine.take_touched() == []


@pytest.mark.parametrize("gone", [[], [decide("dedupe", "s")]], ids=["all", "one"])
def test_a_decision_that_has_gone_without_a_restore_asks_for_a_fresh_engine(gone: list[Entry]):
    engine = build.engine(STALE, entries=[decide("dedupe", "d"), decide("dedupe", "s")])
    assert not follow(engine, *gone)


def test_a_restore_that_has_gone_asks_for_a_fresh_engine():
    engine = build.engine(STALE, entries=[undo("dedupe", "d")])
    assert not follow(engine)
    assert follow(build.engine(STALE, entries=[undo("dedupe", "d")]), decide("dedupe", "d"))


def test_a_marker_of_ours_is_never_replaced():
    """The host sends back what was sent to it: the ledger knows the text, standing or restored."""
    marker = markers.output("bash", 99_999, markers.DUPLICATE, "#1") + "\n" + LONG
    again = flat(bash("1", "x", marker), bash("2", "x", marker))
    for more in ([], [undo("dedupe", "1")]):
        entries = [decide("dedupe", "1", RESULT, marker), *more]
        engine = build.engine(again, data=data(pruning={"minResultTokens": 1}), entries=entries)
        assert proposed(engine) == []
        assert "1" not in [one.call_id for one, _ in engine.mask()]
        with pytest.raises(RefusedError):
            engine.manual("1")


def test_an_input_that_was_purged_is_not_purged_again():
    marker = markers.purged_input("x", 99_999, markers.FAILED_INPUT, "#1") + LONG
    purged = {markers.INPUT_KEY: marker}
    history = flat(user(), used("1", "x", purged, "no", error=True), turns(9))
    entries = [decide("error-purge", "1", INPUT, marker), undo("error-purge", "1", INPUT)]
    engine = build.engine(history, entries=entries)
    assert proposed(engine) == []
    with pytest.raises(RefusedError):
        engine.manual("1", INPUT)


def test_what_only_begins_like_a_marker_is_replaced():
    text = markers.OPENING + LONG
    assert proposed(build.engine(bash("1", "x", text), bash("2", "x", text))) == [("dedupe", RESULT, "1")]
