"""The priced policy over whole conversations: what it may do, and what it must never do."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import (
    assistant,
    call,
    flat,
    image,
    messages,
    read,
    result,
    thinking,
    usage,
    used,
    user,
)

from prunewise import condense, tools
from prunewise.cache import UNTOLD
from prunewise.engine import Moment, Rules
from prunewise.ledger import Decision
from prunewise.markers import reference_in
from prunewise.priced import engine_for
from prunewise.priced.candidates import ERRORS, STALE
from prunewise.priced.engine import PricedEngine
from prunewise.priced.free import NOISE, REPEAT
from prunewise.priced.hazards import Hazard, Needs, expected_calls
from prunewise.prices import Override, PriceBook, Rates, Tier
from prunewise.pruner import Policy, Pruner
from prunewise.settings import DEFAULTS
from prunewise.stores.memory import Memory

PRICED = msgspec.structs.replace(DEFAULTS, policy="priced")
WORDS = "".join(f"line {n} of some_name_{n} in src/lib/file{n}.py, as it was printed\n" for n in range(120))
CHEAP = PriceBook(Override(read=0.5, write=1.0, write_1h=1.0))
USUAL = PriceBook(Override(read=0.1, write=1.25, write_1h=1.25))
DEAR = PriceBook(Override(read=0.02, write=2.0, write_1h=2.0))


def pruner(store: Any = None, prices: Any = CHEAP, **changed: Any):
    settings = msgspec.structs.replace(PRICED, **changed)
    return Pruner("pi", Policy(settings, prices), store or Memory())


def sent(native: Any):
    """What the model reads of a message."""
    return msgspec.json.encode(native)


def play(conversation: Any, natives: Any, *, prices: Any = CHEAP, **changed: Any):
    """Every request of a conversation, as it goes out: one before each answer, and one at its end."""
    one = pruner(conversation, prices, **changed)
    requests = []
    for end, native in enumerate(natives):
        if native["role"] == "assistant":
            requests.append(one.project(natives[:end], now=1000.0 + end))
            one.observe(now=1000.0 + end)
    requests.append(one.project(natives, now=1000.0 + len(natives)))
    return one, requests


def long(count: Any, text: Any = WORDS):
    """A conversation of so many runs of a command with a large output."""
    steps = [used(f"c{n}", "bash", {"command": f"frobnicate {n}"}, f"run {n}\n{text}") for n in range(count)]
    return flat(user(), *steps)


def reads(count: Any, text: Any = WORDS):
    """A conversation of so many reads of different files."""
    return flat(user(), *[read(f"r{n}", f"f{n}.py", f"file {n}\n{text}") for n in range(count)])


def old(count: Any, text: Any = WORDS):
    """A conversation of so many test runs, which are cut once they are old."""
    steps = [used(f"r{n}", "bash", {"command": f"pytest t{n}.py"}, f"run {n}\n{text}") for n in range(count)]
    return flat(user(), *steps)


def fresh_engine(prices: Any = CHEAP, **changed: Any):
    settings = msgspec.structs.replace(PRICED, **changed)
    engine = engine_for(Rules(settings, prices=prices), lambda _message, call_id: f"#{call_id}")
    assert isinstance(engine, PricedEngine)
    return engine


def strategies(one: Any):
    return {decision.strategy_id for decision in one.store.ledger() if isinstance(decision, Decision)}


# ---------------------------------------------------------------- the free lane


PROGRESS = "\n".join(
    ["Cloning into 'x'...", *(f"Receiving objects: {n:3}% ({n}/100)" for n in range(101)), *"abc"]
)


def test_everything_goes_out_whole_first():
    for natives in (long(1), reads(1), long(1, HITS), flat(user(), used("t", "task", {}, WORDS))):
        _, requests = play(Memory(), natives)
        assert not requests[-1].edits


def test_only_noise_is_left_out_of_what_has_never_been_sent():
    natives = flat(user(), used("c", "bash", {"command": "curl -O x"}, PROGRESS))
    one, requests = play(Memory(), natives)
    assert strategies(one) == {NOISE}
    shown = requests[-1].request[2]["content"][0]["text"]
    head, rest = shown.split("\n", 1)
    assert head.startswith("[prunewise: bash output: 105 lines,")
    assert rest == condense.without_noise(PROGRESS)
    assert one.recall(reference_in(shown)) == PROGRESS
    assert one.cache_breaks == 0


@pytest.mark.parametrize(
    "natives",
    [
        pytest.param(read("c", "log", PROGRESS), id="a read"),
        pytest.param(used("c", "bash", {"command": "x"}, PROGRESS[-300:]), id="little"),
        pytest.param(used("c", "bash", {"command": "x"}, PROGRESS + WORDS), id="less than half"),
        pytest.param(used("c", "bash", {"command": "x"}, PROGRESS, image()), id="an image"),
        pytest.param(used("c", "bash", {"command": "cat .env"}, PROGRESS), id="a protected file"),
        pytest.param(used("c", "recall", {"ref": "#1"}, PROGRESS), id="a recall"),
    ],
)
def test_where_no_noise_is_left_out(natives: Any):
    _, requests = play(Memory(), flat(user(), natives))
    assert not requests[-1].edits


HITS = "".join(f"src/lib/file{n % 9}.py:{n}:error in some_name_{n}\n" for n in range(120))


def test_an_output_that_is_in_view_becomes_a_pointer():
    natives = flat(user(), read("a", "f.py", WORDS), read("b", "g.py", WORDS))
    one, requests = play(Memory(), natives)
    assert strategies(one) == {REPEAT}
    shown = requests[-1].request[4]["content"][0]["text"]
    assert "as an earlier output; recall" in shown
    assert WORDS in one.recall(reference_in(shown))
    assert requests[-1].request[2] == natives[2]


def test_what_a_pointer_leads_to_stays():
    natives = flat(user(), read("a", "f.py", WORDS), read("b", "g.py", WORDS), old(40)[1:])
    one, requests = play(Memory(), natives)
    assert STALE in strategies(one)
    assert requests[-1].request[2] == natives[2]
    again = pruner(one.store)
    assert list(again.project(natives).request) == list(requests[-1].request)


def go_on(one: Any, natives: Any, start: Any):
    """The same conversation from a message on, as `play` has it; its last request."""
    for end in range(start, len(natives)):
        if natives[end]["role"] == "assistant":
            one.project(natives[:end], now=1000.0 + end)
            one.observe(now=1000.0 + end)
    return one.project(natives, now=1000.0 + len(natives))


def test_what_a_pointer_leads_to_is_not_masked():
    masking = msgspec.structs.replace(PRICED.pruning, enabled=True, protect_current_turn=False)
    natives = flat(user(), read("a", "f.py", WORDS), read("b", "g.py", WORDS), reads(9)[1:])
    one = pruner(prices=DEAR, pruning=masking)
    for end in range(5, len(natives) + 1, 2):
        last = one.project(natives[:end], now=1000.0 + end, window=12_000, reserve=2000)
        one.observe(now=1000.0 + end)
    assert last.masked
    assert last.request[2] == natives[2]
    again = pruner(one.store, DEAR, pruning=masking)
    again.engage()
    assert again.project(natives, now=2000.0, window=12_000, reserve=2000).request[2] == natives[2]


@pytest.mark.parametrize("left_off", [5, 9], ids=["before the answer", "behind it"])
def test_what_a_pointer_leads_to_stays_after_a_restart(left_off: Any):
    natives = flat(user(), read("a", "f.py", WORDS), read("b", "g.py", WORDS), old(40)[1:])
    one, _ = play(Memory(), natives[:left_off])
    again = pruner(one.store)
    last = go_on(again, natives, left_off)
    assert STALE in strategies(again)
    assert last.request[2] == natives[2]


def test_an_output_of_before_a_restart_is_led_to():
    natives = flat(user(), read("a", "f.py", WORDS))
    one, _ = play(Memory(), natives)
    again = pruner(one.store)
    last = go_on(again, flat(natives, read("b", "g.py", WORDS)), 5)
    assert strategies(again) == {REPEAT}
    assert [edit.position for edit in last.edits] == [4]


def test_nothing_that_was_sent_is_shortened():
    one = pruner()
    natives = flat(user(), used("c", "bash", {"command": "curl x"}, PROGRESS), assistant("so"), user())
    assert not one.project(natives).edits


# ---------------------------------------------------------------- the paid lane


def test_old_outputs_are_cut_in_batches():
    one, requests = play(Memory(), old(40))
    assert strategies(one) == {STALE}
    assert 0 < one.cache_breaks <= 20
    shown = requests[-1].request[2]["content"][0]["text"]
    assert "it is old; recall" in shown
    assert "\n" not in shown
    assert WORDS in one.recall(reference_in(shown))


def test_images_go_only_with_what_a_newer_result_replaces():
    shots = [used(f"i{n}", "screenshot", {"page": n}, WORDS, image()) for n in range(3)]
    same = [used(f"s{n}", "screenshot", {"page": "same"}, WORDS, image()) for n in range(3)]
    natives = flat(user(), *shots, *same, old(40)[1:])
    one, requests = play(Memory(), natives)
    gone = {decision.target[0] for decision in one.store.ledger() if isinstance(decision, Decision)}
    assert gone & {f"i{n}" for n in range(3)} == set()
    assert {"s0", "s1"} <= gone
    shown = requests[-1].request[8]["content"][0]["text"]
    assert "and 1 image" in shown


def test_where_the_cache_cannot_pay_nothing_is_cut():
    one, _ = play(Memory(), old(40), prices=DEAR)
    assert strategies(one) == set()


def test_without_the_cache_everything_old_goes():
    natives = old(8)
    settings = msgspec.structs.replace(PRICED.priced, stake=0.2, patience=10.0)
    one, _ = play(Memory(), natives, prices=USUAL, priced=settings)
    assert strategies(one) == set()
    more = [*natives, *read("last", "g.py", "short")]
    assert one.project(more, now=100_000.0).decisions


class Tiered:
    """Prices that double above so many tokens."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def prices_for(self, model: str, provider: str = "", when: float | None = None):
        flat = PriceBook(Override(read=0.02, write=1.25, write_1h=1.25)).prices_for(model, provider, when)
        twice = Rates(*(2 * rate for rate in msgspec.structs.astuple(flat.rates)))
        return msgspec.structs.replace(flat, tiers=(Tier(self._limit, twice),))


@pytest.mark.parametrize(
    ("limit", "cuts"),
    [
        (240_000, True),
        (120_000, False),  # no cut leads so far down
        (400_000, False),  # it is below
    ],
)
def test_a_cut_takes_the_request_below_a_price_tier(limit: int, cuts: bool):
    runs = [used(f"c{n}", "bash", {"command": f"pytest t{n}"}, f"run {n}\n{2 * WORDS}") for n in range(8)]
    natives = flat(user(), *runs)
    for n, answer in enumerate(native for native in natives if native["role"] == "assistant"):
        answer["usage"] = usage(200_000 + 8_000 * n)
    settings = msgspec.structs.replace(PRICED.priced, stake=0.4, patience=1.0)
    _, requests = play(Memory(), natives, prices=Tiered(limit), priced=settings)
    assert bool(requests[-1].edits) is cuts


def test_failed_inputs_go_and_successful_ones_stay():
    body = {"path": "f.py", "content": WORDS}
    failed = [assistant(call("w", "write", body)), result("w", "no such folder", error=True, name="write")]
    fine = [assistant(call("v", "write", body)), result("v", "ok", name="write")]
    one, _ = play(Memory(), flat(user(), failed, fine, old(40)[1:]))
    made = {d.target: d.strategy_id for d in one.store.ledger() if isinstance(d, Decision)}
    assert made["w", "tool_call_input"] == ERRORS
    assert ("v", "tool_call_input") not in made


def recall_in(natives: Any, store: Any):
    """The conversation with a recall of the first output that was pruned, and that output's call."""
    one, _ = play(store, natives)
    target = next(d for d in one.store.ledger() if isinstance(d, Decision))
    full = one.recall(target.reference)
    return [*natives, *used("q", "recall", {"ref": target.reference}, full)], target


def test_what_was_recalled_stays_for_a_while_and_goes_again():
    store = Memory()
    natives, _ = recall_in(old(40), store)
    at = len(natives) - 1
    more = [*natives, *flat(*[read(f"s{n}", f"g{n}.py", f"file {n}\n{WORDS}") for n in range(60)])]
    one = pruner(store)
    gone = {}
    for end in range(at + 1, len(more), 2):
        last = one.project(more[:end], now=5000.0 + end)
        one.observe(now=5000.0 + end)
        gone.update({edit.position: end for edit in last.edits if edit.position not in gone})
    assert gone[at] > at + 2 * 10
    shown = last.request[at]["content"][0]["text"]
    assert one.recall(reference_in(shown)) == natives[at]["content"][0]["text"]


def test_a_recall_of_all_of_an_output_counts_too():
    store = Memory()
    natives, target = recall_in(old(40), store)
    natives[-2] = assistant(call("q", "recall", ref=f"{target.reference}:full"))
    one = pruner(store)
    one.project(natives, now=5000.0)
    assert isinstance(one._engine, PricedEngine)
    assert "q" in one._engine._origins


def test_a_recall_makes_everything_stay_longer_and_its_like_and_its_file_most_of_all():
    needs = Needs()
    assert needs.factor("read", ["/a.py"]) == 1
    needs.add("read", ["/a.py"])
    needs.against(0.1)
    file, like, other = (
        needs.factor(*one) for one in (("read", ["/a.py"]), ("read", ["/b.py"]), ("git", ["/b.py"]))
    )
    assert file > like > other > 1


def test_what_was_to_be_recalled_and_was_not_makes_the_rest_go_sooner():
    needs = Needs()
    needs.against(3.0)
    assert needs.factor("read", []) == pytest.approx(0.25)


def test_a_recall_is_told_from_others_by_its_reference():
    store = Memory()
    natives, _ = recall_in(old(40), store)
    decisions = [d for d in store.ledger() if isinstance(d, Decision)]
    last = decisions[-1]
    full = pruner(store).recall(last.reference)
    one = pruner(store)
    one.project([*natives, *used("q2", "recall", {"ref": last.reference}, full), user()])
    assert one._engine._origins["q2"].target != one._engine._origins["q"].target


@pytest.mark.parametrize("asked", ["#nothing", None])
def test_a_recall_of_something_else_teaches_nothing(asked: Any):
    engine = fresh_engine()
    engine.extend(messages(flat(reads(3), used("q", "recall", {"ref": asked}, WORDS))))
    assert not engine._origins
    engine.extend(messages([*used("p", "recall", {"ref": asked}, "no such output", error=True)]))
    engine.verdict()
    assert engine._account.recalls == 0


STUB = "File unchanged since last read"


def test_what_a_stub_leads_to_stays():
    vocabulary = tools.CLAUDE_CODE
    stub = used("again", "read", {"file_path": "f1.py"}, f"{STUB}. Refer to it instead.")
    others = [used(f"r{n}", "read", {"file_path": f"f{n}.py"}, f"file {n}\n{WORDS}") for n in range(40)]
    unknown = used("odd", "task", {"file_path": "f2.py"}, STUB)
    natives = flat(user(), *others[:3], stub, unknown, *others[3:])
    gateless = msgspec.structs.replace(PRICED, gate=msgspec.structs.replace(PRICED.gate, mode="off"))
    engine = engine_for(
        Rules(gateless, prices=CHEAP), lambda _, call_id: f"#{call_id}", vocabulary=vocabulary
    )
    engine.extend(messages([*natives, assistant("so"), user()]))
    gone = {one.call for one in engine.accepted(engine.verdict())}
    assert {"r0", "r2", "r9"} <= gone
    assert "r1" not in gone


# ---------------------------------------------------------------- the account


def test_hazards_fade_and_some_of_them_lasts():
    hazard = Hazard(0.2, 10.0, 0.01)
    assert hazard.at(0) == pytest.approx(0.21)
    assert hazard.at(1000) == pytest.approx(0.01)
    assert hazard.times(10).at(0) == 1.0
    assert hazard.fading(0) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("survival", "calls", "expected"),
    [((23, 30, 34, 51), 0, 23), ((23, 30, 34, 51), 10, 30), ((23, 30, 34, 51), 79, 34), ((23,), 500, 23)],
)
def test_for_how_many_calls_a_cut_serves(survival: Any, calls: Any, expected: Any):
    assert expected_calls(survival, calls) == expected


# ---------------------------------------------------------------- signatures

SIGNED = "claude-fable-5-1"


@pytest.mark.parametrize(("drops", "cuts"), [(False, False), (True, True)])
def test_signed_blocks_hold(drops: Any, cuts: Any):
    natives = flat(reads(30), assistant(thinking("hm", "sig"), "so", model=SIGNED), user())
    rules = Rules(PRICED, prices=USUAL)
    engine = engine_for(rules, lambda _message, call_id: f"#{call_id}")
    assert isinstance(engine, PricedEngine)
    engine.extend(messages(natives))
    verdict = engine.verdict(Moment(model=SIGNED, cold=True, drops_thinking=drops))
    assert bool(engine.accepted(verdict)) is cuts


@pytest.mark.parametrize("mode", ["on", "off", "always-apply"])
def test_signed_blocks_hold_without_the_gate_too(mode: Any):
    natives = flat(reads(30), assistant(thinking("hm", "sig"), "so", model=SIGNED), user())
    engine = fresh_engine(USUAL, gate=msgspec.structs.replace(PRICED.gate, mode=mode))
    engine.extend(messages(natives))
    assert not engine.accepted(engine.verdict(Moment(model=SIGNED, cold=True)))
    if mode != "on":
        assert engine.accepted(engine.verdict(Moment(model="m", cold=True)))


# ---------------------------------------------------------------- what always holds

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["bash", "read", "ls", "same", "fail", "user"]),
        st.integers(min_value=0, max_value=5),
        st.integers(min_value=1, max_value=200),
    ),
    min_size=1,
    max_size=40,
)


def conversation(steps: Any):
    natives = [user()]
    for n, (what, which, lines) in enumerate(steps):
        text = "".join(f"{what} {which if what == 'same' else n} row_{line}\n" for line in range(lines))
        if what == "user":
            natives.append(user(text))
        elif what == "read":
            natives += read(f"c{n}", f"f{which}.py", text)
        elif what == "fail":
            natives += used(f"c{n}", "bash", {"command": text}, "it failed", error=True)
        else:
            command = "ls -R" if what == "ls" else f"frobnicate {which}"
            natives += used(f"c{n}", "bash", {"command": command}, text)
    return natives


@given(STEPS)
def test_free_changes_no_byte_that_was_sent_and_no_cut_repeats(steps: Any):
    natives = conversation(steps)
    one, requests = play(Memory(), natives)
    before = []
    decided = set()
    for projected in requests:
        after = [sent(native) for native in projected.request]
        broken = before != after[: len(before)]
        fresh = {decision.target for decision in projected.decisions}
        paid = {d.target for d in projected.decisions if d.strategy_id not in (NOISE, REPEAT)}
        assert not (broken and not paid)
        assert not fresh & decided
        decided |= fresh
        before = after
    for decision in one.store.ledger():
        if isinstance(decision, Decision):
            assert reference_in(decision.placeholder or "") == decision.reference
            assert one.recall(decision.reference)


def decided(projected: Any, natives: Any):
    """The positions of the results and calls on which this request decided."""
    calls = {decision.target for decision in projected.decisions}
    found = set()
    for position, native in enumerate(natives):
        if (native.get("toolCallId"), "tool_result_content") in calls:
            found.add(position)
        if native["role"] == "assistant":
            ids = {
                (part.get("id"), "tool_call_input")
                for part in native["content"]
                if part["type"] == "toolCall"
            }
            found |= {position} if ids & calls else set()
    return found


def differing(one: Any, other: Any):
    """The positions at which two requests are not the same bytes."""
    return {at for at, pair in enumerate(zip(one, other, strict=True)) if sent(pair[0]) != sent(pair[1])}


@given(STEPS)
def test_a_restart_sends_the_same_bytes(steps: Any):
    natives = conversation(steps)
    store = Memory()
    _, requests = play(store, natives)
    again = pruner(store).project(natives, now=1000.0 + len(natives))
    assert differing(requests[-1].request, again.request) <= decided(again, natives)


@given(STEPS)
def test_everything_can_be_restored_and_stays_so(steps: Any):
    natives = conversation(steps)
    one, _ = play(Memory(), natives)
    restored = [entry for entry in one.store.ledger() if isinstance(entry, Decision)]
    for decision in restored:
        one.restore(decision.idempotency_key)
    after = one.project(natives, now=1e6)
    assert not {decision.target for decision in after.decisions} & {decision.target for decision in restored}
    assert differing(natives, after.request) == decided(after, natives)


@given(STEPS, st.sets(st.integers(min_value=0, max_value=39)))
def test_nothing_changes_in_front_of_a_signed_block(steps: Any, signed: Any):
    natives = conversation(steps)
    answers = [at for at, native in enumerate(natives) if native["role"] == "assistant"]
    for number, at in enumerate(answers):
        natives[at] = {**natives[at], "model": SIGNED}
        if number in signed:
            natives[at]["content"] = [thinking("hm", f"sig{at}"), *natives[at]["content"]]
    _, requests = play(Memory(), natives)
    shown: list[bytes] = []
    for projected in requests:
        after = [sent(native) for native in projected.request]
        last = max(
            (at for at, native in enumerate(natives[: len(after)]) if b"sig" in sent(native)), default=-1
        )
        before = min(max(last, 0), len(shown))
        assert shown[:before] == after[:before]
        shown = after


def test_it_learns_from_usage():
    natives = [user()]
    for n in range(4):
        answer = assistant(
            call(f"c{n}", "read", path=f"f{n}"),
            usage=usage(10_000, input=10_000),
            timestamp=1000 * 400 * (n + 1),
        )
        natives += [answer, result(f"c{n}", "short")]
    one = pruner()
    one.project(natives)
    engine = one._engine
    assert isinstance(engine, PricedEngine)
    assert sum(engine.warmth.misses) == 3


def test_the_plan_says_what_would_go():
    one = pruner()
    plan = one.plan(flat(user(), used("c", "bash", {"command": "curl -O x"}, PROGRESS)))
    assert [proposal.strategy for proposal in plan.proposals] == [NOISE]
    assert plan.verdict is not None
    assert plan.verdict.accepted


def test_a_cut_under_lookback_counts_what_cannot_be_found():
    engine = engine_for(Rules(PRICED, prices=USUAL), lambda _message, call_id: f"#{call_id}")
    assert isinstance(engine, PricedEngine)
    engine.extend(messages([*reads(30), user()]))
    near = engine._rewritten(engine._prices(Moment(model="gpt-5.5")))
    far = engine._rewritten(engine._prices(Moment(model="claude-opus-4-5")))
    assert far(5) > near(5)
    assert far(59) == near(59)


# ---------------------------------------------------------------- what is left alone


def everything(natives: Any, reference: Any = lambda _message, call_id: f"#{call_id}", **changed: Any):
    """What goes of a conversation without a gate, call by call."""
    gateless = msgspec.structs.replace(
        PRICED, gate=msgspec.structs.replace(PRICED.gate, mode="off"), **changed
    )
    engine = engine_for(Rules(gateless, prices=CHEAP), reference)
    gone = []
    for native in natives:
        if native["role"] == "assistant":
            gone += engine.accepted(engine.verdict())
        engine.extend(messages([native]))
    return gone + engine.accepted(engine.verdict())


@pytest.mark.parametrize(
    "natives",
    [
        pytest.param(long(1)[:2], id="no result yet"),
        pytest.param(flat(user(), used("c", "todo", {}, WORDS), reads(9, "x")), id="a protected tool"),
        pytest.param(flat(user(), read("c", "/home/u/.env", WORDS), reads(9, "x")), id="a protected file"),
    ],
)
def test_what_is_left_alone(natives: Any):
    assert "c" not in [one.call for one in everything(natives)]


def test_where_no_recall_can_be_promised_nothing_goes():
    natives = flat(long(1), read("a", "f.py", WORDS), read("b", "g.py", WORDS), reads(20)[1:])
    assert everything(natives, lambda _message, _call: None) == []


def test_a_pointer_that_is_no_shorter_is_none():
    for lines, made in ((10, set[str]()), (40, {REPEAT})):
        short = "x y\n" * lines
        natives = flat(user(), read("a", "f.py", short), read("b", "g.py", short))
        one, _ = play(Memory(), natives, priced=msgspec.structs.replace(PRICED.priced, min_tokens=1))
        assert strategies(one) == made


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("cat .env", True),
        ("cd a && head -400 secrets/x.txt", True),
        ("cat a.txt || cat .env", True),
        ("false || cat a.txt && cat .env", True),
        ("test -f a || (cd a; cat .env)", True),
        ("cat .env || true", True),
        ("cat env", False),
        ("cat a.txt || cat env", False),
    ],
)
def test_a_command_that_touches_a_protected_file_is_protected(command: str, kept: Any):
    natives = flat(user(), used("c", "bash", {"command": command}, WORDS), old(40))
    one, _ = play(Memory(), natives)
    gone = {decision.target[0] for decision in one.store.ledger() if isinstance(decision, Decision)}
    assert ("c" not in gone) is kept


def test_an_image_is_never_shortened():
    picture = {"type": "image", "data": "QUJD" * 9000, "mimeType": "image/png"}
    natives = flat(user(), used("c", "bash", {"command": "x"}, WORDS, picture))
    assert everything(natives) == []


def test_what_would_not_get_shorter_stays():
    names = " ".join(f"some_name_{n}" for n in range(7))
    settings = msgspec.structs.replace(PRICED.priced, min_tokens=1)
    natives = flat(user(), used("c", "a_tool_with_a_name_that_is_rather_long", {}, names), reads(9, "x"))
    assert everything(natives, priced=settings) == []


def test_calls_side_by_side_are_one_position_of_a_lookback():
    engine = fresh_engine()
    two = assistant(
        call("a", "read", path="a"), call("b", "read", path="b"), usage=usage(9, output=9), timestamp=1
    )
    engine.extend(
        messages(
            [user(), two, result("a", "x"), result("b", "y"), assistant("so", usage=usage(9), timestamp=2)]
        )
    )
    assert engine._steps == [0, 1, 2, 3, 4, 5]
    assert engine.warmth == UNTOLD


@pytest.mark.parametrize(("price", "cuts"), [(0.0, False), (0.5, True)])
def test_where_reading_costs_nothing_nothing_is_worth_cutting(price: Any, cuts: Any):
    one, _ = play(Memory(), old(40), prices=PriceBook(Override(read=price, write=1.0, write_1h=1.0)))
    assert bool(strategies(one)) is cuts


@pytest.mark.parametrize("moment", [Moment(), Moment(seconds_since_call=4.0), Moment(cold=True)])
def test_a_decision_is_the_same_however_often_it_is_asked_for(moment: Any):
    engine = fresh_engine()
    for native in [*old(40), *read("again", "f3.py", f"file 3\n{WORDS}")]:
        if native["role"] == "assistant":
            assert engine.decide(moment) == engine.decide(moment)
        engine.extend(messages([native]))
    choice = engine.decide(moment)
    assert choice.proposals
    assert engine.decide(moment) == choice
    assert not engine.has_proposals
    assert engine.accepted(engine.verdict(moment)) == choice.proposals


def test_what_was_sent_before_the_policy_changed_is_not_shortened():
    """Sent, and not answered yet."""
    natives = flat(user(), used("c", "bash", {"command": "curl -O x"}, PROGRESS))
    one = pruner(policy="documented")
    assert not one.project(natives).edits
    assert not one.under(Policy(PRICED, CHEAP)).project(natives).edits
    assert pruner().project(natives).edits
