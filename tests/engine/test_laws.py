"""What holds for every conversation: step by step as at once, and sizes that add up."""

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests import build
from tests.build import LONG, Native, assistant, call, image, proposed, result, turns
from tests.engine.support import INPUT, RESULT, data, decide, follow, undo

from prunewise import markers, strategies
from prunewise.canonical import canonical
from prunewise.engine import Engine
from prunewise.ledger import Entry
from prunewise.settings import Settings

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
