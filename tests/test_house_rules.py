"""The rules of the house (docs/explanation/architecture.md), each as a property of any history.

What is said here is the rule, not what the code does: where they part, the code is wrong.
"""

import contextlib
import copy
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests import histories
from tests.build import LONG, Native, assistant, call, result, text, user
from tests.histories import CWD, SETTINGS, PiFile, encoded, entry_id

from prunewise import Policy, Pruner, errors, ledger, markers, recall
from prunewise.formats.pi import PiFormat
from prunewise.pruner import Projected
from prunewise.stores import Store, Writes
from prunewise.stores.memory import Memory
from prunewise.stores.pi_session import PiSession
from prunewise.transcript import SHELL_OUTPUT, TOOL_INPUT, TOOL_RESULT, Message

WINDOW, RESERVE = 1_500, 100
"""Small enough that masking engages on most histories."""

setups = st.sampled_from(sorted(SETTINGS))


def pruner_for(setup: str | Mapping[str, Any], store: Store | None = None) -> Pruner:
    data = SETTINGS[setup] if isinstance(setup, str) else setup
    return Pruner("pi", Policy(data), store or Memory("c"), cwd=CWD)


def prefixes(history: Sequence[Native]) -> Iterator[list[Native]]:
    for end in range(1, len(history) + 1):
        yield list(history[:end])


def copied(store: Memory) -> Memory:
    """Another process's view of the same ledger and originals."""
    other = Memory(store.conversation, store.ledger())
    for reference, original in store._originals.items():
        other.commit(Writes({reference: original}))
    return other


# ---- 1 and 3: edits, not rewrites; replaced in place


def assert_only_documented_parts_differ(before: Sequence[Any], done: Projected) -> None:
    """Every message is the object that came in, apart from the parts that the edits name."""
    after = done.request
    edits: dict[int, list[Any]] = {}
    for edit in done.edits:
        assert markers.reference_in(edit.text) is not None, "what stands in is a marker"
        edits.setdefault(edit.position, []).append(edit)
    assert edits or after is before
    assert len(after) == len(before)
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if position in edits:
            _assert_edited(old, new, edits[position])
        else:
            assert new is old


def _assert_edited(old: Native, new: Native, edits: list[Any]) -> None:
    assert list(new) == list(old), "keys and their order stay"
    changed = {key for key in old if new[key] is not old[key]}
    if old["role"] == "assistant":
        texts = {edit.part: edit.text for edit in edits}
        assert changed == {"content"}
        assert len(new["content"]) == len(old["content"])
        for part, (one, other) in enumerate(zip(old["content"], new["content"], strict=True)):
            if part not in texts:
                assert other is one, "text, thinking and other calls are the same objects"
                continue
            assert one["type"] == "toolCall"
            assert other == {**one, "arguments": {markers.INPUT_KEY: texts[part]}}
            assert list(other) == list(one)
        return
    [edit] = edits
    if old["role"] == "bashExecution":
        assert (changed, edit.kind, new["output"]) == ({"output"}, SHELL_OUTPUT, edit.text)
        return
    assert old["role"] == "toolResult", "only outputs and inputs of calls change"
    kept = [block for block in old["content"] if block["type"] == "image"] if edit.keep_images else []
    assert changed == {"content"}
    assert new["content"] == [{"type": "text", "text": edit.text}, *kept]
    assert all(one is other for one, other in zip(new["content"][1:], kept, strict=True))


@given(histories.histories(), setups)
def test_untouched_messages_are_the_same_objects_and_nothing_else_differs(history: list[Native], setup: str):
    snapshot = copy.deepcopy(history)
    pruner = pruner_for(setup)
    for messages in prefixes(history):
        done = pruner.project(messages, window=WINDOW, reserve=RESERVE)
        assert done.error is None
        assert_only_documented_parts_differ(messages, done)
        assert encoded(history) == encoded(snapshot), "what came in is never changed"


@given(histories.histories(), setups, st.integers(0, 99))
def test_a_host_may_copy_any_of_its_messages(history: list[Native], setup: str, seed: int):
    """Fresh equal objects, the same ones, or some of each: the same result, around the objects given now."""
    same, fresh = pruner_for(setup), pruner_for(setup)
    for number, messages in enumerate(prefixes(history)):
        mixed = [
            message if (position * 7 + number + seed) % 3 else copy.deepcopy(message)
            for position, message in enumerate(messages)
        ]
        one = same.project(messages, window=WINDOW, reserve=RESERVE)
        other = fresh.project(mixed, window=WINDOW, reserve=RESERVE)
        assert one.edits == other.edits
        assert encoded(one.request) == encoded(other.request)
        assert one.changed == other.changed
        edited = {edit.position for edit in other.edits}
        for position, message in enumerate(mixed):
            assert position in edited or other.request[position] is message


# ---- 4: sticky and deterministic

_CHILD = """
import hashlib, json, sys
from prunewise import Policy, Pruner
for row in json.load(sys.stdin):
    pruner = Pruner("pi", Policy(row["settings"]), cwd="/w")
    digest = hashlib.sha256()
    for end in range(1, len(row["history"]) + 1):
        done = pruner.project(row["history"][:end], now=1.0, window=row["window"], reserve=100)
        digest.update(json.dumps(done.request).encode())
    print(digest.hexdigest())
"""


def test_the_same_bytes_in_another_process_whatever_its_hash_seed():
    rows = [
        {
            "history": [*histories.seeded(seed), assistant("done"), user()],
            "settings": SETTINGS[setup],
            "window": window,
        }
        for seed in range(12)
        for setup in sorted(SETTINGS)
        for window in (None, WINDOW)
    ]
    expected: list[str] = []
    for row in rows:
        pruner = Pruner("pi", Policy(row["settings"]), cwd=CWD)
        digest = hashlib.sha256()
        for messages in prefixes(row["history"]):
            done = pruner.project(messages, now=2.0, window=row["window"], reserve=RESERVE)
            digest.update(json.dumps(done.request).encode())
        expected.append(digest.hexdigest())
    assert len(set(expected)) > len(rows) // 2, "the rows differ, so that the comparison says something"
    for hash_seed in ("0", "4242"):
        child = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input=json.dumps(rows),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert child.stdout.split() == expected


@given(histories.histories(), setups)
def test_incremental_equals_the_full_pass_at_every_prefix(history: list[Native], setup: str):
    """Without masking: a pruner that grew with the conversation, a fresh one over the ledger as it was
    before this request, and a fresh one over the ledger behind it, all send the same bytes."""
    store = Memory("c")
    grown = pruner_for(setup, store)
    for messages in prefixes(history):
        before = copied(store)
        done = grown.project(messages, now=1.0)
        late = pruner_for(setup, before).project(messages, now=1.0)
        again = pruner_for(setup, store).project(messages, now=1.0)
        assert late.edits == done.edits == again.edits
        assert late.decisions == done.decisions
        assert again.decisions == ()
        assert encoded(late.request) == encoded(done.request) == encoded(again.request)
        assert late.saved == done.saved == again.saved


@given(histories.histories(), setups)
def test_masking_follows_from_messages_and_ledger(history: list[Native], setup: str):
    """With masking: a pruner that grew with the conversation, a fresh one over the ledger as it was before
    this request, and a fresh one over the ledger behind it, all send the same bytes."""
    store = Memory("c")
    grown = pruner_for(setup, store)
    for messages in prefixes(history):
        before = copied(store)
        done = grown.project(messages, now=1.0, window=WINDOW, reserve=RESERVE)
        for fresh in (before, copied(store)):
            again = pruner_for(setup, fresh).project(messages, now=1.0, window=WINDOW, reserve=RESERVE)
            assert again.edits == done.edits
            assert again.masked == done.masked
            assert encoded(again.request) == encoded(done.request)


def _repeats() -> list[Native]:
    """Three equal outputs of one message, and a fourth: three of them go out as pointers to the first."""
    reads = [f"call_{index}|fc_{index}" for index in range(4)]
    return [
        assistant(*(call(one, "read", path="a.py") for one in reads[:3])),
        *(result(one, LONG) for one in reads[:3]),
        assistant(call(reads[3], "read", path="a.py")),
        result(reads[3], LONG),
        user(),
        user(),
    ]


@given(histories.histories(), setups, st.sampled_from([None, WINDOW]))
@example(_repeats(), "priced, past the gate", None)
def test_running_again_on_the_projection_changes_nothing(
    history: list[Native], setup: str, window: int | None
):
    """The host sends back what was sent to it: the ledger knows its markers."""
    store = Memory("c")
    pruner = pruner_for(setup, store)
    for messages in prefixes(history):
        done = pruner.project(messages, window=window, reserve=RESERVE)
    again = pruner_for(setup, store)
    if pruner.engaged:
        again.engage()
    twice = again.project(done.request, window=window, reserve=RESERVE)
    places = {(edit.position, edit.part) for edit in done.edits}
    assert places.isdisjoint({(edit.position, edit.part) for edit in twice.edits})
    if window is None:
        assert twice.decisions == ()
        assert twice.request is done.request


@given(
    histories.histories(),
    st.lists(st.tuples(setups, st.booleans(), st.booleans()), min_size=2, max_size=12),
)
def test_an_applied_edit_keeps_its_bytes_whatever_is_set_later(
    history: list[Native], later: list[tuple[str, bool, bool]]
):
    store = Memory("c")
    standing: dict[tuple[int, int], str] = {}
    cuts = [1 + (len(history) - 1) * step // (len(later) - 1) for step in range(len(later))]
    for (setup, enabled, everything_protected), cut in zip(later, cuts, strict=True):
        data = {**SETTINGS[setup], "enabled": enabled}
        if everything_protected:
            names = ["read", "write", "edit", "bash", "grep", "screenshot"]
            data = {**data, "protections": {"toolNames": names, "recentTurns": 50}}
        messages = history[:cut]
        entries = len(store.ledger())
        done = pruner_for(data, store).project(messages)
        if not enabled:
            assert done.request is messages
            assert len(store.ledger()) == entries
            continue
        now = {(edit.position, edit.part): edit.text for edit in done.edits}
        assert standing.items() <= now.items()
        standing = now


@given(histories.histories(), st.booleans())
def test_what_masking_replaced_stays_replaced_while_the_conversation_grows(
    history: list[Native], protect: bool
):
    pruner = pruner_for({"enabled": False, "pruning": {"minResultTokens": 60, "protectCurrentTurn": protect}})
    masked: dict[int, str] = {}
    for messages in prefixes(history):
        done = pruner.project(messages, window=WINDOW, reserve=RESERVE)
        now = {edit.position: edit.text for edit in done.edits}
        assert masked.items() <= now.items()
        masked = now


_CHANGES = st.sampled_from(["grow", "grow", "grow", "prune", "restore", "plan", "again", "compaction check"])


@given(
    histories.histories(),
    setups,
    st.lists(_CHANGES, min_size=4, max_size=25),
    st.sampled_from([None, WINDOW]),
)
def test_cache_breaks_are_counted_exactly_when_a_sent_byte_changes(
    history: list[Native], setup: str, changes: list[str], window: int | None
):
    pruner = pruner_for(setup)
    sent: list[bytes] = []
    breaks, end = 0, len(history) // 2
    for number, change in enumerate(changes):
        if change == "grow" or not end:
            end = min(len(history), end + 2)
        elif change == "plan":
            pruner.plan(history[:end], window=window, reserve=RESERVE)
        elif change == "compaction check":
            pruner.check_compaction(WINDOW, RESERVE)
        elif change != "again":
            calls = [part.call.id for part in pruner._engine.transcript.exchanges]
            if calls:
                act = pruner.prune_call if change == "prune" else pruner.restore
                with contextlib.suppress(errors.RefusedError):
                    act(calls[number % len(calls)])
        done = pruner.project(history[:end], window=window, reserve=RESERVE)
        now = encoded(done.request)
        broken = now[: len(sent)] != sent
        breaks += broken
        assert done.changed == broken
        assert pruner.cache_breaks == breaks
        sent = now


# ---- 5: a marker is a promise


def laid_out(message: Native, purged: Mapping[str, Any] | None) -> str:
    """An output as recall has to give it, from the message itself."""
    if message["role"] == "bashExecution":
        return message["output"]
    content = message["content"]
    blocks = [text(content)] if isinstance(content, str) else content
    pieces = [b["text"] if b["type"] == "text" else f"[image: {b['mimeType']}]" for b in blocks]
    output = "\n".join(pieces)
    if purged is None:
        return output
    return f"Input: {json.dumps(purged, ensure_ascii=False)}\n\nOutput:\n{output}"


def first_exchanges(messages: Sequence[Any]) -> dict[str, tuple[int, Mapping[str, Any], int]]:
    """For each call id: where its first result stands, and the arguments it answers; our own pairing."""
    opened: dict[str, tuple[int, Any]] = {}
    found: dict[str, tuple[int, Any, int]] = {}
    for position, message in enumerate(messages):
        if message["role"] == "assistant":
            for block in message["content"] if isinstance(message["content"], list) else ():
                if isinstance(block, dict) and block["type"] == "toolCall":
                    opened[block["id"]] = (position, block["arguments"])
        elif message["role"] == "toolResult" and message["toolCallId"] in opened:
            asked = opened.pop(message["toolCallId"])
            found.setdefault(message["toolCallId"], (position, asked[1], asked[0]))
    return found


def assert_every_marker_resolves(
    messages: Sequence[Any], done: Projected, store: Store, purged: set[str]
) -> None:
    exchanges = first_exchanges(messages)
    for edit in done.edits:
        message = messages[edit.position]
        if edit.kind == TOOL_INPUT:
            block = message["content"][edit.part]
            position, arguments, asked_at = exchanges[block["id"]]
            assert asked_at == edit.position
            expected = laid_out(messages[position], arguments)
        elif edit.kind == TOOL_RESULT:
            arguments = exchanges[message["toolCallId"]][1]
            expected = laid_out(message, arguments if message["toolCallId"] in purged else None)
        else:
            expected = laid_out(message, None)
        reference = markers.reference_in(edit.text)
        assert reference is not None
        assert recall.recall(store, reference + ":full") == expected


@given(histories.histories(), setups)
def test_every_marker_that_goes_out_resolves_to_its_original(history: list[Native], setup: str):
    store = Memory("c")
    pruner = pruner_for(setup, store)
    purged: set[str] = set()
    for messages in prefixes(history):
        done = pruner.project(messages, window=WINDOW, reserve=RESERVE)
        purged |= {one.correlation.tool_call_id for one in done.decisions if one.kind == TOOL_INPUT}
        assert_every_marker_resolves(messages, done, store, purged)


_SEARCHES = st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.booleans()), min_size=2, max_size=9)


@given(_SEARCHES, setups)
def test_of_a_group_of_duplicates_the_newest_and_the_newest_successful_stay(
    searches: list[tuple[str, bool, bool]], setup: str
):
    """Failed or not, with results in the order of their calls or, two calls at once, the other way round."""
    history: list[Native] = []
    for number, (pattern, failed, late) in enumerate(searches):
        asked = call(f"c{number}", "grep", {"pattern": pattern})
        answer = result(f"c{number}", LONG, error=failed, name="grep")
        if late and history and history[-1]["role"] == "toolResult":
            history[-2]["content"].append(asked)
            history.insert(len(history) - 1, answer)
            history.append(user())
        else:
            history += [user(), assistant(asked), answer]
    history += [user()] * 5
    pruner = pruner_for(setup)
    for messages in prefixes(history):
        done = pruner.project(messages)
        exchanges = pruner._engine.transcript.exchanges
        for decision in done.decisions:
            if decision.strategy_id != "dedupe":
                continue
            one = next(e for e in exchanges if e.call.id == decision.correlation.tool_call_id)
            group = [
                e
                for e in exchanges
                if (e.call.name.lower(), e.call.text) == (one.call.name.lower(), one.call.text)
            ]
            newest = max(group, key=lambda e: e.order)
            successful = [e for e in group if not e.result.is_error]
            assert one is not newest
            assert not successful or one is not max(successful, key=lambda e: e.order)


# ---- prune, restore and prune again, in any order

_CALLS = tuple(f"c{number}" for number in range(6))


class PruneAndRestore(RuleBasedStateMachine):
    """A model of two sets, what stands and what was restored, beside a pruner that is restarted at times."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Memory("c")
        self.pruner = self.start()
        self.history: list[Native] = []
        self.standing: dict[str, str] = {}
        self.restored: set[str] = set()

    def start(self) -> Pruner:
        return pruner_for({**SETTINGS["eager"], "gate": {"mode": "always-apply"}}, self.store)

    @initialize(paths=st.lists(st.sampled_from("ab"), min_size=6, max_size=6), small=st.integers(0, 5))
    def begin(self, paths: list[str], small: int) -> None:
        for number, path in enumerate(paths):
            output = "tiny" if number == small else f"{path} {number}\n{LONG}"
            name = "todo" if number == 5 else "read"
            self.history += [
                user(),
                assistant(call(f"c{number}", name, {"path": path})),
                result(f"c{number}", output, name=name),
            ]
        self.small = f"c{small}"
        self.sent = 3

    def send(self) -> Projected:
        done = self.pruner.project(self.history[: self.sent])
        for decision in done.decisions:
            target = decision.correlation.tool_call_id
            assert target not in self.restored, "a restored target is never proposed again"
            assert target not in self.standing
            self.standing[target] = decision.placeholder or ""
        return done

    @rule()
    def grow(self) -> None:
        self.sent = min(len(self.history), self.sent + 3)
        self.send()

    @rule()
    def restart(self) -> None:
        self.pruner = self.start()
        self.send()

    @rule(target_call=st.sampled_from(_CALLS))
    def prune(self, target_call: str) -> None:
        self.send()
        known = any(message.get("toolCallId") == target_call for message in self.history[: self.sent])
        refused = not known or target_call in self.standing or target_call in (self.small, "c5")
        if refused:
            with pytest.raises(errors.RefusedError, match=target_call):
                self.pruner.prune_call(target_call)
            return
        decision = self.pruner.prune_call(target_call)
        assert (decision.source, decision.strategy_id) == ("manual", "manual")
        self.standing[target_call] = decision.placeholder or ""
        self.restored.discard(target_call)

    @rule(target_call=st.sampled_from(_CALLS), by_key=st.booleans())
    def restore(self, target_call: str, by_key: bool) -> None:
        self.send()
        if target_call not in self.standing:
            with pytest.raises(errors.RefusedError, match=target_call):
                self.pruner.restore(target_call)
            return
        key = ledger.fold(self.pruner.store.ledger()).standing[(target_call, TOOL_RESULT)].idempotency_key
        self.pruner.restore(key if by_key else target_call)
        del self.standing[target_call]
        self.restored.add(target_call)

    @precondition(lambda self: self.history)
    @invariant()
    def what_goes_out_is_the_latest(self) -> None:
        done = self.send()
        markers_out = {
            message["toolCallId"]: message["content"][0]["text"]
            for message in done.request
            if message["role"] == "toolResult" and message["content"][0]["text"].startswith(markers.OPENING)
        }
        assert markers_out == self.standing


TestPruneAndRestore = PruneAndRestore.TestCase
TestPruneAndRestore.settings = settings(
    parent=settings(), max_examples=max(10, settings().max_examples // 3), stateful_step_count=20
)


# ---- session files: trees, branches, compactions, context edits

_STEPS = st.lists(
    st.sampled_from(["message"] * 9 + ["request"] * 6 + ["branch", "compact", "edit", "drop", "label"]),
    min_size=8,
    max_size=45,
)


def sessions() -> st.SearchStrategy[tuple[list[Native], list[str], int]]:
    """A history to write, what happens between its messages, and a seed for choices on the way."""
    return st.tuples(histories.histories(recalls=True, most=12), _STEPS, st.integers(0, 99))


class Played:
    """One session, played into a file: entries as pi writes them, requests as a host would send them."""

    def __init__(self, folder: Path, setup: str) -> None:
        self.file = PiFile(folder / "s.jsonl")
        self.setup = setup
        self.session = self.file.open()
        self.pruner = pruner_for(setup, self.session)
        self.messages: dict[str, Native] = {}

    def step(self, step: str, number: int, choice: int, waiting: list[Native]) -> bool:
        """Do one step; whether it is a request."""
        file, ids = self.file, list(self.messages)
        if step == "message" and waiting:
            name = entry_id(len(self.messages))
            self.messages[name] = waiting.pop(0)
            file.message(self.messages[name], name)
        elif step == "branch" and ids:
            file.go_to(ids[choice % len(ids)])
            file.add("branch_summary", f"b{number:07}", fromId="root", summary="that way led nowhere")
            self.session.refresh()
            self.pruner.follow()
        elif step == "compact" and ids:
            on_branch = [entry.id for entry in self.branch() if entry.id in self.messages]
            if on_branch:
                kept = on_branch[choice % len(on_branch)]
                file.add(
                    "compaction", f"f{number:07}", summary="so far", firstKeptEntryId=kept, tokensBefore=9
                )
        elif step in ("edit", "drop") and ids:
            editable = [one for one in ids if self.messages[one].get("role") in ("user", "toolResult")]
            if editable:
                new = {"content": [text("edited " * (choice % 90))]} if step == "edit" else None
                file.add(
                    "context_edit",
                    f"e{number:07}",
                    targetId=editable[choice % len(editable)],
                    replacement=new,
                )
        elif step == "label":
            file.add("label", f"a{number:07}", targetId="x", label="here")
        return step == "request"

    def branch(self) -> list[Any]:
        self.session.refresh()
        return self.session.branch()

    def context(self) -> tuple[list[Any], list[str]]:
        self.session.refresh()
        context = self.session.context()
        return [one.message for one in context], [one.id for one in context]


def recall_and_read_by_one_id() -> list[Native]:
    """An output that is recalled, and a read by the recall's id; then the same read again."""
    shown = LONG * 2
    return [
        {"role": "bashExecution", "command": "ls -la", "output": shown, "exitCode": 0},
        assistant(call("c1", "recall", {"ref": entry_id(0)}), call("c1", "read", {"path": "a.py"})),
        result("c1", shown, name="recall"),
        result("c1", shown),
        assistant(call("c2", "read", {"path": "a.py"})),
        result("c2", shown),
    ]


@given(sessions(), setups)
@example((recall_and_read_by_one_id(), ["message"] * 8, 0), "always, unprotected")
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_session_file_gives_the_same_bytes_to_a_process_that_starts_now(
    session: tuple[list[Native], list[str], int], setup: str
):
    """Over branches, compactions and edited contexts, and every marker resolves from the file."""
    waiting, steps, seed = session
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder, warnings.catch_warnings():
        played = Played(Path(folder), setup)
        for number, step in enumerate([*steps, "request"]):
            if not played.step(step, number, number * 31 + seed, waiting):
                continue
            messages, ids = played.context()
            written = played.file.path.read_bytes()
            done = played.pruner.project(messages, ids=ids, now=1.0)
            assert done.error is None
            assert played.file.path.read_bytes().startswith(written), "the file only grows"
            assert_only_documented_parts_differ(messages, done)
            fresh = PiSession.open(played.file.path)
            again = pruner_for(setup, fresh).project(messages, ids=ids, now=1.0)
            assert again.decisions == ()
            assert again.edits == done.edits
            assert encoded(again.request) == encoded(done.request)
            assert_resolves_from_the_file(done, fresh, played.messages)


def assert_resolves_from_the_file(done: Projected, session: PiSession, written: Mapping[str, Native]) -> None:
    """Each marker gives what the file holds; a recalled output that of its original."""
    for edit in done.edits:
        reference = markers.reference_in(edit.text)
        assert reference is not None
        found = recall.recall(session, reference + ":full")
        if edit.kind == TOOL_INPUT:
            block = written[edit.message]["content"][edit.part]
            assert found.startswith(
                f"Input: {json.dumps(block['arguments'], ensure_ascii=False)}\n\nOutput:\n"
            )
        else:
            expected = laid_out(written[_origin(edit.message, session, written)], None)
            assert found == expected or found.endswith(f"\n\nOutput:\n{expected}")


def _origin(output: str, session: PiSession, written: Mapping[str, Native]) -> str:
    """The entry that a chain of recalls leads back to: by the calls on the branch before each."""
    while True:
        message = written[output]
        if message.get("toolName") != "recall" or message.get("isError"):
            return output
        asked: Native | None = None
        for entry in session.branch(output):
            blocks = (written.get(entry.id) or {}).get("content")
            for block in blocks if entry.role == "assistant" and isinstance(blocks, list) else ():
                if isinstance(block, dict) and block.get("id") == message["toolCallId"]:
                    asked = block
        assert asked is not None
        if asked["name"] != "recall":
            return output  # of several calls with its id the last one is answered: no recall
        origin = asked["arguments"]["ref"].removesuffix(":full")
        shown = "".join(block.get("text", "") for block in message["content"])
        if not shown.startswith(recall.recall(session, origin)[:64]):
            return output  # nothing was recalled: another tool of that name, or an answer of images
        output = origin


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class ReadOnce(PiFormat):
    """pi's format, for histories of which every prefix is read: each message is read once."""

    def __init__(self) -> None:
        self.known: dict[str, Message] = {}

    def read(self, native: Any, id: str) -> Message:
        if id not in self.known:
            self.known[id] = super().read(native, id)
        return self.known[id]


@pytest.mark.corpus
@pytest.mark.parametrize("setup", sorted(SETTINGS))
def test_incremental_equals_the_full_pass_on_recorded_sessions(shared: Path, setup: str):
    """At every prefix under eager settings, which decide the most, and at each sixteenth under others."""
    files = sorted((shared / "corpus" / "pi").glob("*.jsonl"))
    assert files
    decided = 0
    policy = Policy(SETTINGS[setup])
    for path in files:
        context = PiSession.open(path).context()
        messages, ids = [one.message for one in context], [one.id for one in context]
        once, store = ReadOnce(), Memory("c")
        grown = Pruner(once, policy, store)
        for end in range(1, len(messages) + 1):
            full = setup == "eager" or end % 16 == 0 or end == len(messages)
            before = copied(store) if full else store
            done = grown.project(messages[:end], ids=ids[:end], now=1.0)
            decided += len(done.decisions)
            if full and done.decisions:
                late = Pruner(once, policy, before).project(messages[:end], ids=ids[:end], now=1.0)
                assert (late.edits, late.decisions) == (done.edits, done.decisions), f"{path.name}, {end}"
            if full or done.decisions:
                again = Pruner(once, policy, store).project(messages[:end], ids=ids[:end], now=1.0)
                assert (again.edits, again.decisions) == (done.edits, ()), f"{path.name}, {end}"
        assert_only_documented_parts_differ(messages, grown.project(messages, ids=ids))
    assert decided
