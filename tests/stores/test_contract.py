"""What every store has to do: one table of tests, over all of them."""

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import histories
from tests.build import assistant, call, flat, read, result, shell, turns, used, user
from tests.stores import killed
from tests.stores.places import KINDS, Place, place, schema

from prunewise import Policy, Pruner, ledger, recall
from prunewise.errors import ConflictError, RecallError
from prunewise.ledger import Decision, Entry, Mask, Masking, Restore, Savings
from prunewise.stores import Original, Store, Writes
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, Image, Text

LASTING = KINDS[1:]


@pytest.fixture(params=KINDS)
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place(request.param, tmp_path, request) as found:
        yield found


@pytest.fixture(params=LASTING)
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place(request.param, tmp_path, request) as found:
        yield found


def original(*content: str | Image, **more: Any) -> Original:
    parts = tuple(Text(part) if isinstance(part, str) else part for part in content)
    return Original("m1", "read", parts, **more)


def decision(call_id: str, message: str = "m1", reference: str | None = None) -> Decision:
    return ledger.decide(
        "dedupe",
        call_id,
        TOOL_RESULT,
        reason="why",
        placeholder=f"[{call_id}]",
        created_at="2026-01-01T00:00:00.000Z",
        reference=reference or call_id,
        entry_id=message,
        session_id="c",
    )


ENTRIES: tuple[Entry, ...] = (
    decision("c1"),
    Savings("dedupe:tool_result_content:c1", "dedupe", 5, "2026-01-01T00:00:00.000Z"),
    Masking(
        engaged=True,
        masks=(
            Mask("c2", TOOL_RESULT, "[x \ud800]", "c2", "m2"),
            Mask("m3", "shell_output", "[y]", "m3", "m3"),
        ),
        request_id="m9",
        raw_tokens=9,
    ),
    Restore("dedupe:tool_result_content:c1"),
    Masking(engaged=False),
    decision("c\u2603"),
)

# ---- the ledger


def test_a_new_store_is_empty(at: Place):
    store = at.open("c")
    assert (list(store.ledger()), store.conversation) == ([], "c")


@pytest.mark.parametrize("pieces", [[6], [1, 5], [2, 2, 2], [1] * 6])
def test_entries_come_back_whole_and_in_order(at: Place, pieces: list[int]):
    store, start = at.open(), 0
    for piece in pieces:
        store.commit(Writes(entries=ENTRIES[start : start + piece], known=start))
        start += piece
        assert tuple(store.ledger()) == ENTRIES[:start]
        assert tuple(at.open().ledger()) == ENTRIES[:start]


def test_conversations_share_nothing(at: Place):
    names = ["c", "C", "c/d", "../c", "", " c", "☃", "c" * 100]
    for name in names:
        at.open(name).commit(Writes({"c1": original(name)}, (decision("c1", name),)))
    for name in names:
        store = at.open(name)
        assert store.original("c1") == original(name)
        assert tuple(store.ledger()) == (decision("c1", name),)


@pytest.mark.parametrize("known", [0, 1, 3])
def test_who_has_not_seen_all_of_the_ledger_writes_nothing(at: Place, known: int):
    store = at.open()
    store.commit(Writes(entries=ENTRIES[:2]))
    with pytest.raises(ConflictError):
        store.commit(Writes({"c9": original("never")}, ENTRIES[2:3], known))
    for one in (store, at.open()):
        assert tuple(one.ledger()) == ENTRIES[:2]
        with pytest.raises(RecallError):
            one.original("c9")
    store.commit(Writes(entries=ENTRIES[2:], known=2))
    assert tuple(at.open().ledger()) == ENTRIES


def test_what_another_process_adds_is_seen_before_anything_is_added_to_it(lasting: Place):
    one, other = lasting.open(), lasting.open()
    one.commit(Writes({"c1": original("x")}, ENTRIES[:2]))
    with pytest.raises(ConflictError):
        other.commit(Writes(entries=ENTRIES[2:3]))
    assert tuple(other.ledger()) == ENTRIES[:2]
    assert other.original("c1") == original("x")
    other.commit(Writes(entries=ENTRIES[2:]))
    assert tuple(one.ledger()) == ENTRIES


# ---- originals

ORIGINALS = {
    "text": original("some text"),
    "none": original(),
    "empty": original(""),
    "several parts": original("one", Image("image/png", 12), "two", Image("", 0)),
    "what no database takes in a string": original("a\0b \ud83d c \U0001f600"),
    "control characters": original("".join(map(chr, range(32))) + "\x7f\u2028"),
    "a large one": original("line of it\n" * 100_000),
    "native parts": original(
        "x", images=({"type": "image", "data": "AAAA", "deep": [{"a": None}]}, "loose", 3)
    ),
    "bytes": original("x", images=({"inline_data": {"data": b"\0\xff" * 9}},)),
    "a purged input": original("x", input={"path": "a", "deep": {"b": [1, 2.5, None, True]}}),
    "an empty input": original("x", input={}),
    "large numbers": original("x", input={"n": 10**30, "d": 1e300, "i": math.inf}),
    "odd keys": original("x", input={"": 1, "\ud800": 2, "$bytes ": 3}),
}


@pytest.mark.parametrize("name", ORIGINALS)
def test_an_original_comes_back_as_it_was(at: Place, name: str):
    at.open().commit(Writes({"c1": ORIGINALS[name]}, ENTRIES[:1]))
    assert at.open().original("c1") == ORIGINALS[name]
    assert at.open().original(" c1\n") == ORIGINALS[name]


@pytest.mark.parametrize("reference", ["", " ", "c2", "C1", "c1:full", "\0", "\ud800", "c" * 9_000])
def test_a_reference_that_was_never_issued_leads_to_nothing(at: Place, reference: str):
    store = at.open()
    store.commit(Writes({"c1": original("x")}))
    with pytest.raises(RecallError, match="no output was kept"):
        store.original(reference)


ONE, OTHER = original("one"), original("other", images=("i",))
WITH = original("one", input={"path": "a"})
AFTER = [
    ([ONE, ONE], ONE),
    ([ONE, OTHER], OTHER),
    ([OTHER, ONE], ONE),
    ([ONE, WITH], WITH),
    ([WITH, ONE], WITH),
    ([WITH, OTHER], original("other", images=("i",), input={"path": "a"})),
    ([WITH, original("one", input={"path": "b"})], original("one", input={"path": "b"})),
    ([WITH, original("one", input={})], original("one", input={})),
    ([ONE, WITH, OTHER, ONE], WITH),
    ([original("", images=("a",)), original("", images=("b",))], original("", images=("b",))),
]


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(("kept", "left"), AFTER)
def test_a_newer_output_takes_the_place_and_a_purged_input_stays(
    at: Place, kept: list[Original], left: Original, anew: bool
):
    store = at.open()
    for one in kept:
        store = at.open() if anew else store
        store.commit(Writes({"c1": one}))
    assert store.original("c1") == left
    assert at.open().original("c1") == left


class Unwritable:
    pass


NOT_JSON = [
    Unwritable(),
    {1, 2},
    {"deep": [Unwritable()]},
    {"$bytes": "AAAA"},
    {"$bytes": b"x", "other": {"$bytes": 1}},
    10**5_000,
]


@pytest.mark.parametrize("odd", NOT_JSON, ids=range(len(NOT_JSON)))
def test_what_cannot_be_written_is_refused_with_all_that_was_to_be_written(lasting: Place, odd: Any):
    store = lasting.open()
    store.commit(Writes({"c0": original("x")}, ENTRIES[:1]))
    writes = Writes({"c1": original("y"), "c2": original("x", images=(odd,))}, ENTRIES[1:3])
    with pytest.raises((TypeError, ValueError)):
        store.commit(writes)
    for one in (store, lasting.open()):
        assert tuple(one.ledger()) == ENTRIES[:1]
        with pytest.raises(RecallError):
            one.original("c1")
    store.commit(Writes({"c1": original("y")}, ENTRIES[1:]))
    assert tuple(lasting.open().ledger()) == ENTRIES


# ---- references


def test_no_two_outputs_have_one_reference_and_each_keeps_its_own(at: Place):
    outputs = [("m1", "c1"), ("m2", "c1"), ("m3", ""), ("m4", "m3"), ("m5", "c@m6"), ("m6", "c")]
    store = at.open()
    issued = {output: store.reference(*output) for output in outputs}
    assert len(set(issued.values())) == len(outputs)
    assert issued == {output: store.reference(*output) for output in reversed(outputs)}
    for message, call_id in outputs:
        reference = issued[message, call_id]
        if call_id:
            store.commit(Writes(entries=(decision(call_id, message, reference),)))
        else:
            mask = Mask(message, "shell_output", "[x]", reference or "", message)
            store.commit(Writes(entries=(Masking(engaged=True, masks=(mask,)),)))
    other = at.open()
    assert issued == {output: other.reference(*output) for output in reversed(outputs)}


@pytest.mark.parametrize("output", [("", ""), ("m", "a b"), ("m", "[c]"), ("m:full", "c:full"), ("m n", "")])
def test_what_can_stand_in_no_marker_is_promised_nothing(at: Place, output: tuple[str, str]):
    assert at.open().reference(*output) is None


def test_a_decided_output_keeps_its_reference_though_another_asks_first(at: Place):
    at.open().commit(Writes({"c1": original("x")}, (decision("c1", "m7"),)))
    store = at.open()
    assert store.reference("m1", "c1") == "c1@m1"
    assert store.reference("m7", "c1") == "c1"


# ---- with a pruner

EAGER = histories.SETTINGS["eager"]
WINDOW, RESERVE = killed.WINDOW, killed.RESERVE


def bytes_of(
    store: Any, history: Sequence[Any], settings: dict[str, Any], restarts: set[int], reopen: Any
) -> list[str]:
    made: list[str] = []
    pruner = Pruner("pi", Policy(settings), store, cwd=histories.CWD)
    for end in range(1, len(history) + 1):
        if end in restarts:
            pruner = Pruner("pi", Policy(settings), reopen(), cwd=histories.CWD)
        done = pruner.project(list(history[:end]), now=float(end), window=WINDOW, reserve=RESERVE)
        assert done.error is None
        made.append(json.dumps(done.request))
    return made


@pytest.mark.parametrize("setup", [*histories.SETTINGS, "priced"])
def test_any_history_goes_out_as_with_a_store_in_memory_with_restarts_in_between(lasting: Place, setup: str):
    settings = histories.SETTINGS.get(setup, {"policy": "priced", "pruning": {"minResultTokens": 60}})
    differ = 0
    for seed in range(25):
        history = histories.seeded(seed, recalls=seed % 2 == 1)
        chance = random.Random(seed)
        restarts = {end for end in range(len(history)) if chance.random() < 0.3}
        name = f"{setup} {seed}"
        memory = Place("memory")
        expected = bytes_of(memory.open(), history, settings, restarts, memory.open)
        opened = lambda name=name: lasting.open(name)  # noqa: E731
        assert bytes_of(opened(), history, settings, restarts, opened) == expected
        assert_keeps_its_promises(opened())
        one, other = [ledger.to_data(entry) for entry in memory.open().ledger()], opened().ledger()
        assert len(one) == len(other)
        differ += expected != [json.dumps(history[:end]) for end in range(1, len(history) + 1)]
        lasting.close()
    assert differ > 5, "what goes out differs from what came in, so that the comparison says something"


def assert_keeps_its_promises(store: Store) -> None:
    """Each decision is there with its saving and its original."""
    entries = list(store.ledger())
    decided = [one for one in entries if isinstance(one, Decision)]
    saved = [one.idempotency_key for one in entries if isinstance(one, Savings)]
    assert [one.idempotency_key for one in decided] == saved
    masks = [mask for one in entries if isinstance(one, Masking) for mask in one.masks]
    for one in (*decided, *masks):
        assert one.reference is not None
        found = store.original(one.reference)
        assert one.kind != TOOL_INPUT or found.input is not None


def test_two_pruners_of_one_conversation_decide_each_thing_once(at: Place):
    history = flat(user(), *(read(f"c{number}", "a.py") for number in range(8)), user())
    pruners = [Pruner("pi", Policy(EAGER), at.open(), cwd="/w") for _ in range(3)]
    sent = ""
    for end in range(1, len(history) + 1):
        for pruner in pruners[end % 3 :] + pruners[: end % 3]:
            done = pruner.project(history[:end], now=1.0 * end)
            assert done.error is None
            sent, before = json.dumps(done.request), sent if pruner is not pruners[end % 3] else ""
            assert not before or sent == before
    keys = [one.idempotency_key for one in at.open().ledger() if isinstance(one, Decision)]
    assert len(keys) == len(set(keys)) == 7
    assert_keeps_its_promises(at.open())


def test_who_comes_late_decides_anew_by_what_the_other_has_decided(lasting: Place, monkeypatch: Any):
    """Both have read the ledger before either writes."""
    history = flat(user(), read("c1", "a.py"), user(), read("c2", "a.py"), user())
    late = Pruner("pi", Policy(EAGER), lasting.open(), cwd="/w")
    first: list[Any] = []
    commit = late.store.commit

    def overtaken(writes: Writes) -> None:
        if not first:
            first.append(Pruner("pi", Policy(EAGER), lasting.open(), cwd="/w").project(history, now=1.0))
        commit(writes)

    monkeypatch.setattr(late.store, "commit", overtaken)
    done = late.project(history, now=2.0)
    assert (done.error, done.decisions, done.edits) == (None, (), first[0].edits)
    assert len(first[0].decisions) == 1
    assert len(lasting.open().ledger()) == 2


# ---- killed

SURVIVED = flat(
    user(),
    read("c1", "a.py"),
    used("c2", "write", {"path": "b.py", "content": "x\n" * 400}, "failed", error=True),
    read("c3", "a.py"),
    turns(2),
    shell("ls", "a line of output\n" * 300),
    used("c4", "grep", {"q": "x"}, "a line of output\n" * 500),
    assistant(call("c5", "read", {"path": "c.py"})),
    result("c5", "some \ud83d text\n" * 300, name="read"),
    user(),
    read("c6", "c.py"),
    turns(1),
)


@pytest.mark.parametrize("kind", LASTING)
def test_killed_at_any_write_a_marker_that_went_out_leads_to_its_output(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    urls = {"file": f"file:{tmp_path}/{{n}}.jsonl", "sqlite": f"sqlite:{tmp_path}/{{n}}.db"}
    if kind == "postgres":
        with schema(request.getfixturevalue("postgres_server")) as url:
            assert_survives_any_kill(url, tmp_path)
    else:
        assert_survives_any_kill(urls[kind], tmp_path)


def assert_survives_any_kill(url: str, folder: Path) -> None:
    (folder / "logs").mkdir()
    (folder / "history").write_text(json.dumps(SURVIVED))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, killed.__file__, url, str(folder / "logs"), str(folder / "history")],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{root}/src:{root}"},
    )
    last = int(done.stdout)
    logs = {number: lines(folder / "logs" / str(number)) for number in range(1, last + 1)}
    whole = [line["request"] for line in logs[last]]
    assert len(whole) == len(SURVIVED)
    assert logs[last][-1]["entries"] >= 7, "there is something to lose"
    assert len({len(log) for log in logs.values()}) > 5, "it was killed early and late"
    for number, log in logs.items():
        here = Place("", url.replace("{n}", str(number)))
        assert_survived(here, f"run{number}", log, whole)
        here.close()


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_bytes().splitlines()] if log.exists() else []


@pytest.mark.filterwarnings("ignore:.*torn")
def assert_survived(here: Place, name: str, log: list[dict[str, Any]], whole: list[Any]) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torn")
        store = here.open(name)
        assert_keeps_its_promises(store)
        for line in log:
            for position, part, kind, reference in line["edits"]:
                assert_leads_to(store, SURVIVED[position], part, kind, reference)
        pruner = Pruner("pi", Policy(killed.SETTINGS), here.open(name), cwd="/w")
        known = log[-1]["entries"] if log else 0
        if log and len(store.ledger()) == known:
            again, _ = killed.sent(pruner, SURVIVED, log[-1]["end"])
            assert again == log[-1]["request"]
        for end in range(len(log) + 1, len(SURVIVED) + 1):
            assert killed.sent(pruner, SURVIVED, end)[0] == whole[end - 1]
        assert_keeps_its_promises(here.open(name))


def assert_leads_to(store: Store, native: Any, part: int, kind: str, reference: str) -> None:
    found = recall.original(store, reference)
    text = "\n".join(one.text for one in found.content if isinstance(one, Text))
    if kind == TOOL_INPUT:
        assert found.input == native["content"][part]["arguments"]
    elif native["role"] == "bashExecution":
        assert native["output"] in text
    else:
        assert text == "\n".join(block["text"] for block in native["content"])


# ---- several processes

_ADDING = """
import sys
from prunewise import ledger
from prunewise.errors import ConflictError
from prunewise.stores import Original, Writes
from prunewise.stores.open import open_store
from prunewise.transcript import Text
url, who, many = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = open_store(url, "c")
for number in range(many):
    name = f"{who}-{number}"
    made = ledger.decide("s", name, "tool_result_content", reason="", placeholder="p", created_at="",
                         reference=name, entry_id="m")
    while True:
        known = len(store.ledger())
        try:
            store.commit(Writes({name: Original("m", "t", (Text(name * 500),))}, (made,), known))
        except ConflictError:
            continue
        break
print(len(store.ledger()))
"""


def test_processes_side_by_side_lose_nothing_and_add_nothing_twice(lasting: Place):
    many, names = 40, ("a", "b", "c")
    root = Path(__file__).parents[2]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _ADDING, lasting.url, name, str(many)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{root}/src"},
        )
        for name in names
    ]
    assert [len(one.communicate()[0]) > 0 and one.returncode for one in running] == [0] * len(names)
    store = lasting.open()
    calls = [one.target[0] for one in store.ledger() if isinstance(one, Decision)]
    assert sorted(calls) == sorted(f"{name}-{number}" for name in names for number in range(many))
    for name in names:
        own = [one for one in calls if one.startswith(name)]
        assert own == [f"{name}-{number}" for number in range(many)]
    for one in calls:
        assert store.original(one).content == (Text(one * 500),)
