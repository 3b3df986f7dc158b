"""The ledger: entries in the TypeScript extension's shape, and what they fold to."""

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise import ledger
from prunewise.ledger import DECISION, RESTORE, STATS, Decision, Entry, Restore, Savings
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, ToolKind

RESULT, INPUT = TOOL_RESULT, TOOL_INPUT


def decision_data(
    strategy: str = "dedupe", call: str = "c1", kind: str = RESULT, **fields: Any
) -> dict[str, Any]:
    """A decision as the TypeScript extension writes it."""
    return {
        "idempotencyKey": f"{strategy}:{kind}:{call}",
        "strategyId": strategy,
        "correlation": {"type": "toolCallId", "toolCallId": call},
        "kind": kind,
        "reason": "Superseded by a newer call",
        "placeholder": f"[gone {call}]",
        "createdAt": "2025-11-05T08:30:00.000Z",
        "source": "manual" if strategy == "manual" else "auto",
        **fields,
    }


def without(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in keys}


# ---------------------------------------------------------------- samples in the documented shape

AUTO = '{"type":"custom","customType":"dynamic-context-pruning:decision","data":{"idempotencyKey":"dedupe:tool_result_content:call_1","strategyId":"dedupe","correlation":{"type":"toolCallId","toolCallId":"call_1"},"kind":"tool_result_content","reason":"duplicate of call_9","placeholder":"[pruned: see call_9]","createdAt":"2025-11-05T08:30:00.000Z","source":"auto"},"id":"a0000001","parentId":null,"timestamp":"2025-11-05T08:30:00.000Z"}'  # noqa: E501
PURGE = '{"type":"custom","customType":"dynamic-context-pruning:decision","data":{"idempotencyKey":"error-purge:tool_call_input:call_2","strategyId":"error-purge","correlation":{"type":"toolCallId","toolCallId":"call_2"},"kind":"tool_call_input","reason":"errored 5 turns ago","createdAt":"2025-11-05T08:31:00.000Z","source":"auto"},"id":"a0000002","parentId":"a0000001","timestamp":"2025-11-05T08:31:00.000Z"}'  # noqa: E501
MANUAL = '{"type":"custom","customType":"dynamic-context-pruning:decision","data":{"idempotencyKey":"manual:tool_result_content:call_1","strategyId":"manual","correlation":{"type":"toolCallId","toolCallId":"call_1"},"kind":"tool_result_content","reason":"manual prune","placeholder":"[pruned by hand]","createdAt":"2025-11-05T08:32:00.000Z","source":"manual"},"id":"a0000003","parentId":"a0000002","timestamp":"2025-11-05T08:32:00.000Z"}'  # noqa: E501
UNDO = '{"type":"custom","customType":"dynamic-context-pruning:restore","data":{"idempotencyKey":"dedupe:tool_result_content:call_1","createdAt":"2025-11-05T08:33:00.000Z"},"id":"a0000004","parentId":"a0000003","timestamp":"2025-11-05T08:33:00.000Z"}'  # noqa: E501
UNDO_MANUAL = '{"type":"custom","customType":"dynamic-context-pruning:restore","data":{"idempotencyKey":"manual:tool_result_content:call_1","createdAt":"2025-11-05T08:34:00.000Z"},"id":"a0000005","parentId":"a0000004","timestamp":"2025-11-05T08:34:00.000Z"}'  # noqa: E501
SAVED = '{"type":"custom","customType":"dynamic-context-pruning:stats","data":{"idempotencyKey":"dedupe:tool_result_content:call_1","strategyId":"dedupe","tokensRemoved":250,"appliedAt":"2025-11-05T08:30:00.000Z"},"id":"a0000006","parentId":"a0000001","timestamp":"2025-11-05T08:30:00.000Z"}'  # noqa: E501
BROKEN = '{"type":"custom","customType":"dynamic-context-pruning:decision","data":{"idempotencyKey":"dedupe:tool_result_content:call_3","strategyId":"dedupe"},"id":"a0000007","parentId":"a0000001","timestamp":"2025-11-05T08:30:00.000Z"}'  # noqa: E501
FOREIGN = '{"type":"custom","customType":"another-extension:state","data":{"on":true},"id":"a0000008","parentId":"a0000001","timestamp":"2025-11-05T08:30:00.000Z"}'  # noqa: E501


def read_lines(*lines: str) -> list[Entry]:
    """The ledger entries of a branch's lines; malformed ones are passed over."""
    entries: list[Entry] = []
    for line in lines:
        native = json.loads(line)
        try:
            entry = ledger.from_data(native["customType"], native["data"])
        except msgspec.ValidationError:
            continue
        if entry is not None:
            entries.append(entry)
    return entries


@dataclass
class Branch:
    lines: list[str]
    standing: dict[str, str | None]
    """For each call that stands pruned, its marker."""
    restored: set[str]
    """The calls that are restored."""


BRANCHES = {
    "nothing": Branch([], {}, set()),
    "an automatic prune": Branch([AUTO], {"call_1": "[pruned: see call_9]"}, set()),
    "a purged input has no marker of its own there": Branch([PURGE], {"call_2": None}, set()),
    "a manual prune": Branch([MANUAL], {"call_1": "[pruned by hand]"}, set()),
    "restored": Branch([AUTO, UNDO], {}, {"call_1"}),
    "re-pruned": Branch([AUTO, UNDO, AUTO], {"call_1": "[pruned: see call_9]"}, set()),
    "re-pruned and restored again": Branch([AUTO, UNDO, AUTO, UNDO], {}, {"call_1"}),
    "restored twice": Branch([AUTO, UNDO, UNDO], {}, {"call_1"}),
    "pruned twice, restored once": Branch([AUTO, AUTO, UNDO], {}, {"call_1"}),
    "a manual prune of what was restored": Branch(
        [AUTO, UNDO, MANUAL], {"call_1": "[pruned by hand]"}, set()
    ),
    "two keys on one target: the first that stands": Branch(
        [AUTO, MANUAL], {"call_1": "[pruned: see call_9]"}, set()
    ),
    "two keys on one target, the other way": Branch([MANUAL, AUTO], {"call_1": "[pruned by hand]"}, set()),
    "two keys on one target, the first restored": Branch(
        [AUTO, MANUAL, UNDO], {"call_1": "[pruned by hand]"}, set()
    ),
    "two keys on one target, the first restored and pruned again": Branch(
        [AUTO, MANUAL, UNDO, AUTO], {"call_1": "[pruned by hand]"}, set()
    ),
    "two keys on one target, both restored": Branch([AUTO, MANUAL, UNDO, UNDO_MANUAL], {}, {"call_1"}),
    "a restore of what was never pruned here": Branch([UNDO], {}, {"call_1"}),
    "two targets": Branch([AUTO, PURGE, UNDO], {"call_2": None}, {"call_1"}),
    "savings decide nothing": Branch([SAVED], {}, set()),
    "malformed and foreign entries are passed over": Branch(
        [BROKEN, AUTO, FOREIGN, SAVED], {"call_1": "[pruned: see call_9]"}, set()
    ),
    "one branch of two: restored there": Branch([AUTO, SAVED, UNDO], {}, {"call_1"}),
    "the other branch: it stands there": Branch(
        [AUTO, SAVED, PURGE], {"call_1": "[pruned: see call_9]", "call_2": None}, set()
    ),
}


@pytest.mark.parametrize("branch", BRANCHES.values(), ids=BRANCHES)
def test_folding_a_branch(branch: Branch):
    folded = ledger.fold(read_lines(*branch.lines))
    assert {call: one.placeholder for (call, _), one in folded.standing.items()} == branch.standing
    assert {call for call, _ in folded.restored} == branch.restored


def test_result_and_input_of_one_call_are_two_targets():
    entries = [ledger.from_data(DECISION, decision_data(kind=kind)) for kind in (RESULT, INPUT)]
    undo = Restore(f"dedupe:{RESULT}:c1")
    folded = ledger.fold([*entries, undo])  # type: ignore[list-item]
    assert set(folded.standing) == {("c1", INPUT)}
    assert folded.restored == {("c1", RESULT)}


def test_all_keys_that_stand_are_known():
    folded = ledger.fold(read_lines(AUTO, MANUAL, PURGE, UNDO))
    assert [one.idempotency_key for one in folded.active] == [
        "manual:tool_result_content:call_1",
        "error-purge:tool_call_input:call_2",
    ]


def test_savings_are_cumulative_by_strategy():
    entries = [Savings("k1", "dedupe", 100), Savings("k2", "error-purge", 7), Savings("k3", "dedupe", 20)]
    folded = ledger.fold([*entries, Restore("k1")])
    assert folded.removed_by_strategy == {"dedupe": 120, "error-purge": 7}
    assert folded.savings == tuple(entries)


def test_nothing_folds_to_the_empty_ledger():
    assert ledger.fold([]) == ledger.EMPTY


# ---------------------------------------------------------------- the target that a key names

KEYS: dict[str, tuple[str, tuple[str, str] | None]] = {
    "result": ("dedupe:tool_result_content:c1", ("c1", RESULT)),
    "input": ("error-purge:tool_call_input:c1", ("c1", INPUT)),
    "colons in the call id": ("dedupe:tool_result_content:a:b:c", ("a:b:c", RESULT)),
    "an empty call id": ("dedupe:tool_result_content:", ("", RESULT)),
    "an unknown kind": ("dedupe:thinking:c1", None),
    "too few parts": ("dedupe", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize(("key", "target"), KEYS.values(), ids=KEYS)
def test_a_restore_of_an_unknown_decision_goes_by_its_key(key: str, target: tuple[str, str] | None):
    assert ledger.fold([Restore(key)]).restored == (frozenset() if target is None else {target})


def test_a_decision_s_correlation_counts_and_not_its_key():
    odd = ledger.from_data(DECISION, decision_data(idempotencyKey="odd"))
    assert set(ledger.fold([odd]).standing) == {("c1", RESULT)}  # type: ignore[list-item]
    assert ledger.fold([odd, Restore("odd")]).restored == {("c1", RESULT)}  # type: ignore[list-item]


# ---------------------------------------------------------------- reading and writing

MALFORMED: dict[str, tuple[str, object]] = {
    "no object": (DECISION, None),
    "a list": (DECISION, []),
    "no key": (DECISION, without(decision_data(), "idempotencyKey")),
    "no strategy": (DECISION, without(decision_data(), "strategyId")),
    "no correlation": (DECISION, without(decision_data(), "correlation")),
    "no kind": (DECISION, without(decision_data(), "kind")),
    "an unknown kind": (DECISION, decision_data(kind="thinking")),
    "an unknown correlation": (DECISION, decision_data(correlation={"type": "entryId", "toolCallId": "c1"})),
    "a correlation without its call": (DECISION, decision_data(correlation={"type": "toolCallId"})),
    "a call id that is a number": (
        DECISION,
        decision_data(correlation={"type": "toolCallId", "toolCallId": 1}),
    ),
    "an unknown source": (DECISION, decision_data(source="magic")),
    "a marker that is no text": (DECISION, decision_data(placeholder=["x"])),
    "a restore without its key": (RESTORE, {"createdAt": "2025-11-05T08:30:00.000Z"}),
    "savings without tokens": (STATS, {"idempotencyKey": "k", "strategyId": "dedupe"}),
    "savings of a text": (STATS, {"idempotencyKey": "k", "strategyId": "dedupe", "tokensRemoved": "many"}),
}


@pytest.mark.parametrize(("custom_type", "data"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_entries_are_told(custom_type: str, data: object):
    with pytest.raises(msgspec.ValidationError):
        ledger.from_data(custom_type, data)


LENIENT: dict[str, dict[str, Any]] = {
    "all there": decision_data(),
    "no marker": without(decision_data(), "placeholder"),
    "a marker of null": decision_data(placeholder=None),
    "no source": without(decision_data(), "source"),
    "no reason, no time": without(decision_data(), "reason", "createdAt"),
    "a field from a later version": decision_data(confidence=0.5),
}


@pytest.mark.parametrize("data", LENIENT.values(), ids=LENIENT)
def test_what_may_be_missing_or_more(data: dict[str, Any]):
    read = ledger.from_data(DECISION, data)
    assert isinstance(read, Decision)
    assert read.target == ("c1", RESULT)
    assert read.source == "auto"


@pytest.mark.parametrize(
    "custom_type", ["another-extension:state", "dynamic-context-pruning:config", "", "decision"]
)
def test_entries_of_others_are_none(custom_type: str):
    assert ledger.from_data(custom_type, decision_data()) is None


@pytest.mark.parametrize(("strategy", "source"), [("dedupe", "auto"), ("manual", "manual")])
def test_a_decision_is_written_in_the_documented_shape(strategy: str, source: str):
    made = ledger.decide(
        strategy, "c1", INPUT, reason="why", placeholder="[marker]", created_at="2025-11-05T08:30:00.000Z"
    )
    assert ledger.to_data(made) == (
        DECISION,
        {
            "idempotencyKey": f"{strategy}:tool_call_input:c1",
            "strategyId": strategy,
            "correlation": {"type": "toolCallId", "toolCallId": "c1"},
            "kind": "tool_call_input",
            "reason": "why",
            "placeholder": "[marker]",
            "createdAt": "2025-11-05T08:30:00.000Z",
            "source": source,
        },
    )


def test_fields_of_ours_stand_beside():
    made = ledger.decide(
        "dedupe",
        "c1",
        RESULT,
        reason="why",
        placeholder="[marker]",
        created_at="t",
        reference="#7",
        entry_id="e1",
        session_id="s1",
    )
    custom_type, data = ledger.to_data(made)
    assert {"reference": "#7", "entryId": "e1", "sessionId": "s1"}.items() <= data.items()
    assert ledger.from_data(custom_type, data) == made


def test_restores_and_savings_are_written_in_the_documented_shape():
    assert ledger.to_data(Restore("k", "t")) == (RESTORE, {"idempotencyKey": "k", "createdAt": "t"})
    assert ledger.to_data(Savings("k", "dedupe", 7, "t")) == (
        STATS,
        {"idempotencyKey": "k", "strategyId": "dedupe", "tokensRemoved": 7, "appliedAt": "t"},
    )


# ---------------------------------------------------------------- any order of prune, restore and re-prune

KINDS: list[ToolKind] = [RESULT, INPUT]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["prune", "restore"]),
        st.sampled_from(["dedupe", "superseded-file-ops", "manual"]),
        st.sampled_from(["c1", "c2"]),
        st.sampled_from(KINDS),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_latest_of_each_key_holds(steps: list[tuple[str, str, str, ToolKind]]):
    entries: list[Entry] = []
    latest: dict[tuple[str, str, ToolKind], tuple[str, str]] = {}
    """For each key its latest step, and the marker of its latest prune."""
    began: dict[tuple[str, str, ToolKind], int] = {}
    """For each key the step since which it has stood without a restore."""
    for number, (step, strategy, call, kind) in enumerate(steps):
        key = (strategy, call, kind)
        if step == "prune":
            marker = f"[marker {number}]"
            entries.append(
                ledger.decide(strategy, call, kind, reason="r", placeholder=marker, created_at="t")
            )
            if latest.get(key, ("restore", ""))[0] == "restore":
                began[key] = number
            latest[key] = ("prune", marker)
        else:
            entries.append(Restore(f"{strategy}:{kind}:{call}"))
            latest[key] = ("restore", "")
    folded = ledger.fold(entries)
    for call in ("c1", "c2"):
        for kind in KINDS:
            keys = [key for key in latest if key[1:] == (call, kind)]
            standing = [key for key in keys if latest[key][0] == "prune"]
            if standing:
                first = min(standing, key=lambda key: began[key])
                assert folded.standing[call, kind].strategy_id == first[0]
                assert folded.standing[call, kind].placeholder == latest[first][1]
            else:
                assert (call, kind) not in folded.standing
            assert ((call, kind) in folded.restored) == (bool(keys) and not standing)
    assert {one.idempotency_key for one in folded.active} == {
        f"{strategy}:{kind}:{call}" for (strategy, call, kind), (step, _) in latest.items() if step == "prune"
    }


@given(STEPS)
def test_what_is_written_folds_to_the_same(steps: list[tuple[str, str, str, ToolKind]]):
    entries: list[Entry] = [
        ledger.decide(strategy, call, kind, reason="r", placeholder="[m]", created_at="t")
        if step == "prune"
        else Restore(f"{strategy}:{kind}:{call}", "t")
        for step, strategy, call, kind in steps
    ]
    stored = [json.loads(json.dumps(ledger.to_data(entry))) for entry in entries]
    assert [ledger.from_data(*pair) for pair in stored] == entries


@pytest.mark.parametrize(
    ("created_at", "seconds"),
    [("1970-01-01T00:01:00.500Z", 60.5), ("1970-01-01T01:00:00+01:00", 0.0), ("yesterday", None), ("", None)],
)
def test_a_decision_s_time(created_at: str, seconds: float | None):
    made = ledger.decide("dedupe", "c", RESULT, reason="r", placeholder="[m]", created_at=created_at)
    assert made.decided_at == seconds
