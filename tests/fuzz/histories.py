"""A random history, step by step, and the rules of the house that every request of it has to keep."""

import copy
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.stores import InFile, InMemory, InSession
from tests.fuzz.wires import WIRES, Asked, Native

from prunewise import Policy, Pruner, errors, formats, ledger, markers, recall
from prunewise.pruner import Caller, Projected
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, Message, Shell, Text, ToolCall, ToolResult, Usage

_LINES = "".join(f"{number}: some line of output, name_{number}\n" for number in range(60))
_LOOKS = markers.output("read", 99, markers.OLD, "c1")
OUTPUTS = (
    _LINES,
    "ok",
    _LINES + "error: it failed here\n" * 40,
    "",
    " \n",
    "Größe ☃ 😀 " * 90,
    "one line " * 500,
    "x" * 9_000,
    "FAILED tests/test_a.py::test_b\n" + _LINES * 2,
    _LOOKS,
    _LOOKS + "\n" + _LINES,
    markers.masked_output("bash", _LINES, "c2") + "\n" + _LINES,
    "\n" * 3_000,
    "a\tb\r\n" * 500,
    "\x00\x1b[31m" * 300,
)
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read", {"path": "a.py"}),
    ("read", {"path": "./a.py", "offset": 1, "limit": 10}),
    ("write", {"path": "a.py", "content": _LINES}),
    ("edit", {"path": "src/b.py", "oldText": "old " * 90, "newText": "né" * 200}),
    ("read", {"path": "src/b.py"}),
    ("bash", {"command": "make test"}),
    ("bash", {"command": "cat a.py"}),
    ("bash", {"command": "echo 'ünïcode'; " * 60}),
    ("grep", {"pattern": "x", "deep": {"b": [1, 2.0, None], "a": True}}),
    ("todo", {"items": ["one"]}),
    ("read", {"path": ".env"}),
    ("screenshot", {}),
    ("recall", {}),
    ("mcp__x", {"q": "z" * 900}),
    ("write", {markers.INPUT_KEY: markers.purged_input("write", 9, "x" * 900, "c1")}),
)
_PROTECTED = (("todo", None), ("read", ".env"))
_KEEN = {"recentCalls": 0, "minTokens": 20, "stake": 1, "patience": 0, "caution": 0}
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {
        "protections": {"recentTurns": 0},
        "thresholds": {"minCharsSaved": 0},
        "gate": {"mode": "off"},
        "strategies": {"errorPurge": {"minTurnsOld": 0}},
        "pruning": {"minResultTokens": 60},
    },
    {
        "protections": {"recentTurns": 1},
        "gate": {"breakEvenThreshold": 40},
        "pruning": {"minResultTokens": 200},
    },
    {"gate": {"mode": "always-apply"}, "pruning": {"minResultTokens": 30, "protectCurrentTurn": False}},
    {"policy": "priced"},
    {"policy": "priced", "priced": _KEEN, "pruning": {"minResultTokens": 60}},
    {"policy": "priced", "priced": _KEEN, "gate": {"mode": "off"}, "pruning": {"minResultTokens": 60}},
    {"policy": "priced", "priced": {**_KEEN, "recentCalls": 3}, "pruning": {"enabled": False}},
    {"enabled": False, "pruning": {"minResultTokens": 60}},
)
MODELS = ("claude-sonnet-4-5", "gpt-5", "gemini-2.5-pro", "nobody-7b", "")
SIGNATURE = "c2ln" * 9
_STEPS = (
    *(("calls",) * 9),
    *(("user",) * 4),
    *(("send",) * 9),
    *(
        "answer",
        "prune",
        "restore",
        "recall",
        "back",
        "compact",
        "restart",
        "restart",
        "policy",
        "engage",
        "fork",
    ),
)


class BrokenRuleError(AssertionError):
    """A request that breaks a rule of the house."""


class History:
    """One history: its conversation, its pruner, and what its requests have shown so far."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.dice = random.Random(seed)
        choose = self.dice.choice
        self.wire = choose(WIRES)
        self.format = formats.named(self.wire.name)
        kinds = (
            (InMemory, InMemory, InFile, InSession)
            if self.wire.name == "pi"
            else (InMemory, InMemory, InFile)
        )
        self.kept = choose(kinds)(folder)
        self.file = self.kept.file if isinstance(self.kept, InSession) else None
        self.data = choose(SETTINGS)
        self.model = choose(MODELS)
        self.room = choose(({}, {}, {"window": 1_500, "reserve": 100}, {"window": 6_000, "reserve": 100}))
        self.is_named = self.file is not None or choose((True, False, False))
        self.messages: list[Native] = []
        self.ids: list[str] = []
        self.made = 0
        self.calls: list[str] = []
        self.now = 1.7e9
        self.pruner = self.pruner_over(self.kept.store)
        self.sent: list[str] = []
        """The last request as it went out, and as it came in."""
        self.came: list[str] = []
        self.standing: dict[tuple[int, int], str] = {}
        """What stands in, by position and part."""
        self.touched = True
        """Whether something was done by hand since, or the conversation is another one."""
        self.restarted = False
        self.known: dict[str, str] = {}
        """What each reference that went out leads to."""
        self.requests = self.decisions = self.masked = 0

    def pruner_over(self, store: Any) -> Pruner:
        return Pruner(self.wire.name, Policy(self.data), store, cwd="/w")

    def run(self, steps: int) -> None:
        for _ in range(steps):
            getattr(self, "_" + self.dice.choice(_STEPS))()
        self._send()

    # ---- what happens

    def _add(self, natives: Sequence[Native]) -> None:
        for native in natives:
            name = f"e{self.made:07x}"
            self.made += 1
            if self.file is not None:
                self.file.message(native, name)
            self.messages.append(native)
            self.ids.append(name)

    def _user(self) -> None:
        self._add([self.wire.user(f"go on {self.made}", blocks=self.dice.random() < 0.5)])

    def _answer(self, asked: Sequence[Asked] = ()) -> None:
        self.now += 3
        usage = self.dice.choice(
            (None, {"input": 3_000}, {"input": 40, "cacheRead": 2_000}, {"input": 10**400})
        )
        thinks = self.dice.choice(("", "", SIGNATURE))
        self._add(self.wire.answer("so", asked, thinks=thinks, usage=usage, time=self.now))

    def _calls(self) -> None:
        dice, asked = self.dice, []
        for _ in range(dice.choice((1, 1, 2, 3))):
            name, given = dice.choice(CALLS)
            output = dice.choice(OUTPUTS)
            if name == "recall":
                if not self.known:
                    continue
                reference = dice.choice(sorted(self.known)) + dice.choice(("", ":full"))
                given, output = {"ref": reference}, self.pruner.recall(reference)
            reused = bool(self.calls) and dice.random() < 0.04
            call_id = dice.choice(self.calls) if reused else f"c{len(self.calls)}"
            self.calls.append(call_id)
            shapes = ("text", "text", "blocks", "error", "image", "file", "empty", "missing")
            asked.append(Asked(call_id, name, copy.deepcopy(given), output, dice.choice(shapes)))
        self._answer(asked)
        if dice.random() < 0.1:
            self._user()  # before the results come
        order = dice.choice((1, 1, -1))
        self._add(self.wire.results(asked[::order], then=dice.choice(("", "", "and go on"))))

    def _prune(self) -> None:
        exchanges = self.pruner.transcript.exchanges
        if exchanges:
            exchange, kind = self.dice.choice(exchanges), self.dice.choice((TOOL_RESULT, TOOL_INPUT))
            try:
                self.pruner.prune_call(exchange.call.id, kind, now=self.now)
            except errors.RefusedError:
                return
            self.touched = True

    def _restore(self) -> None:
        standing = list(ledger.fold(self.kept.store.ledger()).standing.values())
        if standing:
            one = self.dice.choice(standing)
            self.pruner.restore(self.dice.choice((one.idempotency_key, one.target[0])), now=self.now)
            self.touched = True
            self.expect(one.target not in ledger.fold(self.kept.store.ledger()).standing, "a restore undoes")

    def _recall(self) -> None:
        for reference, held in self.known.items():
            self.expect(
                _is_same(held, self.pruner.recall(f"{reference}:full")), "a reference leads to one output"
            )

    def _back(self) -> None:
        """The host goes back, and on another way."""
        left = len(self.messages) - self.dice.randrange(1, 8)
        if left < 1:
            return
        if self.file is not None:
            self.file.go_to(self.ids[left - 1])
        del self.messages[left:], self.ids[left:]
        self.touched = True
        self._user()
        self._moved()

    def _compact(self) -> None:
        dropped = self.dice.randrange(1, 10)
        if dropped >= len(self.messages):
            return
        self.touched = True
        if self.file is None:
            self.messages[:dropped] = [self.wire.user("so far", blocks=False)]
            self.ids[:dropped] = [f"e{self.made:07x}"]
            self.made += 1
            return
        name, first = f"e{self.made:07x}", self.ids[dropped]
        self.made += 1
        self.file.add("compaction", name, summary="so far", firstKeptEntryId=first, tokensBefore=9)
        self._moved()
        self.pruner.compacted()

    def _moved(self) -> None:
        """What a session file holds now, where it is one."""
        if self.file is None:
            return
        self.kept.store.refresh()
        self.pruner.follow()
        context = self.kept.store.context()
        self.messages, self.ids = [one.message for one in context], [one.id for one in context]

    def _restart(self) -> None:
        self.pruner = self.pruner_over(self.kept.reopened())
        self.restarted = True

    def _fork(self) -> None:
        """Another one goes on from here; nothing of it shows in this one."""
        if self.file is None and not isinstance(self.kept, InFile):
            other = self.pruner_over(self.kept.another())
            more = [*self.messages, self.wire.user("elsewhere", blocks=False)]
            other.project(
                more, now=self.now, **self.room, **({"ids": [*self.ids, "else"]} if self.is_named else {})
            )

    def _policy(self) -> None:
        self.data = self.dice.choice(SETTINGS)
        self.pruner = self.pruner.under(Policy(self.data))
        self.touched = True

    def _engage(self) -> None:
        self.pruner.engage()
        self.touched = True

    # ---- a request

    def _given(self) -> dict[str, Any]:
        given: dict[str, Any] = {"now": self.now, "caller": Caller(self.model), **self.room}
        return {**given, "ids": list(self.ids)} if self.is_named else given

    def _send(self) -> None:
        if not self.messages:
            return
        self.now += self.dice.choice((1, 5, 60, 400, 4_000, -100))
        if self.file is not None:
            self.kept.store.refresh()
        before = [json.dumps(one) for one in self.messages]
        restored = ledger.fold(self.kept.store.ledger()).restored
        done = self.pruner.project(self.messages, **self._given())
        self.requests += 1
        self.decisions += len(done.decisions)
        self.masked += done.masked
        self.expect(done.error is None, f"nothing fails: {done.error}")
        self.expect([json.dumps(one) for one in self.messages] == before, "what came in is never changed")
        after = [json.dumps(one) for one in done.request]
        self._keeps_in_place(done)
        self._decides_rightly(done, restored)
        self._is_sticky(done, before, after)
        self._goes_out_again(after)
        if self.dice.random() < 0.7:
            usage = self.dice.choice((None, Usage(input=1_000, cache_read=500, output=10), Usage(input=-5)))
            self.pruner.observe(usage, now=self.now + 2)

    def expect(self, holds: bool, rule: str) -> None:
        if not holds:
            raise BrokenRuleError(rule)

    def _keeps_in_place(self, done: Projected) -> None:
        """Rules 1, 3 and 5: edits where they are said to be and nowhere else, each led back from."""
        natives = list(self.format.messages(self.messages))
        self.expect(len(done.request) == len(self.messages), "no message comes or goes")
        edits: dict[int, dict[int, Any]] = {}
        for edit in done.edits:
            edits.setdefault(edit.position, {})[edit.part] = edit
        again = list(self.format.messages(done.request))
        for position, (old, new) in enumerate(zip(self.messages, done.request, strict=True)):
            if position not in edits:
                self.expect(new is old, "what is not edited is the same object")
                continue
            self.expect(list(old) == list(new), "keys and their order stay")
            one, other = (
                self._read(natives[position], natives[position]),
                self._read(again[position], natives[position]),
            )
            self.expect((one.role, len(one.parts)) == (other.role, len(other.parts)), "roles and parts stay")
            for at, (part, now) in enumerate(zip(one.parts, other.parts, strict=True)):
                if at in edits[position]:
                    self._leads_back(part, now, edits[position][at].text)
                else:
                    self.expect(part == now, "a part that is not edited stays")

    def _read(self, native: Any, linked: Any) -> Message:
        """A message read with the ids that its neighbours told when it came in."""
        bare = getattr(native, "native", native)
        return self.format.read(type(linked)(bare, linked.ids) if hasattr(linked, "ids") else bare, "x")

    def _leads_back(self, part: Any, now: Any, marker: str) -> None:
        reference = markers.reference_in(marker) or ""
        self.expect(bool(reference), "what stands in is a marker")
        found = self.pruner.recall(f"{reference}:full")
        self.expect(_is_same(self.known.get(reference, found), found), "a reference leads to one output")
        self.known[reference] = found
        if isinstance(part, ToolCall):
            self.expect((part.id, part.name) == (now.id, now.name), "ids and names stay")
            given = json.dumps(part.arguments, ensure_ascii=False)
            self.expect(found.startswith(f"Input: {given}\n\nOutput:\n"), "a purged input comes back")
            return
        self.expect(isinstance(part, (ToolResult, Shell)), "only outputs and inputs change")
        if isinstance(part, ToolResult):
            same = (part.call_id, part.name, part.is_error) == (now.call_id, now.name, now.is_error)
            self.expect(same, "ids and error flags stay")
            self.expect(now.text == marker, "the marker is all the text there is")
            held = "\n".join(one.text if isinstance(one, Text) else one.label for one in part.content)
            whole = found.split("\n\nOutput:\n", 1)[-1] if found.startswith("Input: ") else found
            self.expect(held in {found, whole}, "an output comes back byte for byte")
            if part.has_image:
                parts = recall.recall_parts(self.pruner.store, reference)
                self.expect(len(parts) > part.images + part.files, "images and files come back")

    def _decides_rightly(self, done: Projected, restored: frozenset[Any]) -> None:
        targets = [one.target for one in done.decisions]
        self.expect(len(set(targets)) == len(targets), "one decision a target")
        self.expect(restored.isdisjoint(targets), "what was restored is not decided on again")
        for decision in done.decisions:
            exchange = self.pruner.transcript.exchange(decision.target[0])
            self.expect(exchange is not None, "a decision is about an exchange")
            assert exchange is not None
            touched = (exchange.call.name, exchange.call.arguments.get("path"))
            self.expect(
                not any(touched[0] == name and path in (None, touched[1]) for name, path in _PROTECTED),
                "what is protected stays",
            )
        active = [one.target for one in ledger.fold(self.kept.store.ledger()).active]
        self.expect(len(set(active)) == len(active), "one decision stands for a target")

    def _is_sticky(self, done: Projected, before: list[str], after: list[str]) -> None:
        """Rule 4: while the conversation grows, what was replaced stays so, byte for byte."""
        standing = {(edit.position, edit.part): edit.text for edit in done.edits}
        if before[: len(self.came)] == self.came and not self.touched:
            self.expect(self.standing.items() <= standing.items(), "what was replaced stays so")
            changed = after[: len(self.sent)] != self.sent
            self.expect(done.changed == (changed and not self.restarted), "a change of what was sent is told")
        self.came, self.sent, self.standing = before, after, standing
        self.touched = self.restarted = False

    def _goes_out_again(self, after: list[str]) -> None:
        """Rule 4: a retry, and another process over what is kept, send the same bytes and decide nothing."""
        again = self.pruner.project(copy.deepcopy(self.messages), **self._given())
        self.expect([json.dumps(one) for one in again.request] == after, "a retry sends the same bytes")
        self.expect(not again.decisions and not again.changed, "a retry decides nothing")
        other = self.pruner_over(self.kept.another())
        fresh = other.project(self.messages, **self._given())
        self.expect(not fresh.decisions, "another process decides nothing more")
        self.expect(
            [json.dumps(one) for one in fresh.request] == after, "another process sends the same bytes"
        )
        for edit in fresh.edits:
            reference = markers.reference_in(edit.text) or ""
            found = other.recall(f"{reference}:full")
            self.expect(_is_same(self.known.get(reference, found), found), "another process recalls the same")


def _is_same(before: str, now: str) -> bool:
    """Whether a reference leads to the same output; an input that was purged since comes before it."""
    return now == before or now.endswith("\n\nOutput:\n" + before)


def check(seed: int, steps: Sequence[int] = (8, 14, 20, 30)) -> History:
    """Run one history.

    Raises:
        BrokenRuleError: a request of it breaks a rule.
    """
    with tempfile.TemporaryDirectory() as folder:
        history = History(seed, Path(folder))
        try:
            history.run(random.Random(seed).choice(steps))
        except Exception as error:
            where = f"{history.wire.name}, {type(history.kept).__name__}, {history.data}"
            raise BrokenRuleError(f"history {seed} ({where}): {type(error).__name__}: {error}") from error
    return history
