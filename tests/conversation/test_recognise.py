"""Which conversation a request belongs to: by what it says, however it is told, and by nothing else."""

import copy
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise import errors, formats
from prunewise.conversation.recognise import (
    Chain,
    Growth,
    Known,
    MemoryIndex,
    Recognised,
    chain,
    growth,
    hashes,
    recognise,
    root,
)

Json = Any
NAMES = ("anthropic", "openai-chat", "openai-responses", "gemini", "pi")
KEYS = {"openai-responses": "input", "gemini": "contents"}


def said(name: str, text: str, role: str = "user") -> Json:
    """A message of a format that says no more than a text."""
    if name == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    return {"role": role, "content": text}


def of(name: str, messages: Sequence[Json], **fields: Json) -> Chain:
    return chain(formats.named(name), {KEYS.get(name, "messages"): messages, **fields}, account="a")


def anthropic(*texts: str, **fields: Json) -> Chain:
    return of("anthropic", [said("anthropic", text) for text in texts], **fields)


class Server:
    """Recognises and records each request, as a driver would; ids of new conversations count up."""

    def __init__(self) -> None:
        self.index = MemoryIndex()
        self.conversations = 0

    def take(self, request: Chain) -> tuple[Recognised, str]:
        found = recognise(request, self.index)
        name = found.conversation
        if name is None:
            self.conversations += 1
            name = f"c{self.conversations}"
        assert self.index.grow(growth(request, found, name))
        return found, name

    def kinds(self, *requests: Chain) -> list[tuple[str, int, str]]:
        taken = [self.take(request) for request in requests]
        return [(found.kind, found.known, name) for found, name in taken]


# ---- the chain


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_an_edit_of_one_message_changes_its_hash_and_all_later_ones(name: str, data: st.DataObject):
    texts = data.draw(st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=12))
    at = data.draw(st.integers(0, len(texts) - 1))
    edited = [*texts[:at], texts[at] + "!", *texts[at + 1 :]]
    before = of(name, [said(name, text) for text in texts])
    after = of(name, [said(name, text) for text in edited])
    same = [old == new for old, new in zip(before.nodes, after.nodes, strict=True)]
    assert same == [True] * at + [False] * (len(texts) - at)


@given(st.lists(st.sampled_from(["a", "b"]), max_size=12))
def test_no_two_messages_of_a_chain_share_a_hash(texts: list[str]):
    nodes = anthropic("a", *texts).nodes
    assert len(set(nodes)) == len(nodes) == len(texts) + 1


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_a_chain_can_go_on_from_any_of_its_hashes(name: str, data: st.DataObject):
    messages = [said(name, text) for text in data.draw(st.lists(st.text(), min_size=1, max_size=6))]
    at = data.draw(st.integers(0, len(messages)))
    whole = of(name, messages)
    parent = whole.nodes[at - 1] if at else whole.root
    assert hashes(formats.named(name), parent, messages[at:]) == whole.nodes[at:]


def reordered(value: Json) -> Json:
    """The same JSON with the keys of each object the other way round."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(one) for one in value] if isinstance(value, list) else value


CACHED = {"cache_control": {"type": "ephemeral"}}
CUSTOM = {"type": "custom_tool_call_output", "call_id": "c"}
ITEM = {"type": "input_text", "text": "a"}
CALL = {"type": "tool_use", "id": "c", "name": "f", "input": {"id": 2**60 + 1}}
SPELLINGS: dict[str, tuple[str, list[Json], list[Json]]] = {
    "a string is one block": (
        "anthropic",
        [{"role": "user", "content": "a"}],
        [{"role": "user", "content": [{"type": "text", "text": "a", **CACHED}]}],
    ),
    "a breakpoint that moves on": (
        "anthropic",
        [{"role": "user", "content": [{**CALL, **CACHED}]}, {"role": "user", "content": "b"}],
        [
            {"role": "user", "content": [CALL]},
            {"role": "user", "content": [{"type": "text", "text": "b", **CACHED}]},
        ],
    ),
    "a system message within": (
        "anthropic",
        [{"role": "system", "content": "a"}],
        [{"role": "system", "content": "a", **CACHED}],
    ),
    "Chat": (
        "openai-chat",
        [{"role": "tool", "tool_call_id": "c", "content": "a"}],
        [{"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}], **CACHED}],
    ),
    "an item": (
        "openai-responses",
        [{"role": "user", "content": "a"}, {**CUSTOM, "output": "a"}],
        [{"role": "user", "content": [ITEM], "type": "message"}, {**CUSTOM, "output": [ITEM]}],
    ),
    "a result that is told by its neighbour": (
        "gemini",
        [
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"b": 1, "a": [1.5]}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
        ],
        [
            {"role": "model", "parts": [{"functionCall": {"args": {"a": [1.5], "b": 1}, "name": "f"}}]},
            {"parts": [{"functionResponse": {"response": {}, "name": "f"}}], "role": "user"},
        ],
    ),
}


@pytest.mark.parametrize(("name", "one", "other"), SPELLINGS.values(), ids=SPELLINGS)
def test_the_same_messages_in_another_spelling_are_the_same_chain(name: str, one: Json, other: Json):
    before = copy.deepcopy((one, other))
    assert of(name, one) == of(name, other) == of(name, reordered(one))
    linked = formats.named(name).messages(one)
    assert hashes(formats.named(name), b"", linked) == hashes(formats.named(name), b"", one)
    assert (one, other) == before


def test_an_input_that_is_one_string_is_the_users_message():
    wire = formats.named("openai-responses")
    bare = chain(wire, {"input": "a"}, account="a")
    assert bare == of("openai-responses", [{"role": "user", "content": "a"}])
    assert bare != chain(wire, {"input": "b"}, account="a")


NUMBERS = [
    2**53,
    2**53 + 1,
    2**60 + 1,
    2**60 + 2,
    2**70,
    2**70 + 1,
    0.1,
    "0.1",
    True,
    1,
    None,
    "null",
    [],
    {},
]


def test_values_that_differ_are_told_apart():
    """Also integers that no double holds, and what is like a breakpoint but stands in an argument."""
    inputs: list[Json] = [{"id": number} for number in NUMBERS]
    inputs += [{}, CACHED, {"prompt_cache_breakpoint": {}}, {"content": "a"}, {"content": [{"text": "a"}]}]
    chains = [of("anthropic", [{"role": "user", "content": [{**CALL, "input": one}]}]) for one in inputs]
    assert len({one.nodes for one in chains}) == len(inputs)


def nested(depth: int, inner: Json) -> Json:
    for _ in range(depth):
        inner = [inner]
    return inner


ODD: dict[str, Json] = {
    "a lone surrogate": "a\ud800",
    "another": "a\ud801",
    "its escape": "a\\ud800",
    "nested deep": nested(20_000, 1),
    "nested deep, another": nested(20_000, 2),
    "a key that is no string": {1: 2},
    "bytes, as a library has them": {"data": b"abc"},
    "other bytes": {"data": b"abd"},
    "what JSON does not have": 3j,
}


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_in_a_message_has_a_hash_of_its_own(name: str):
    key = "parts" if name == "gemini" else "content"
    found = {label: of(name, [{"role": "user", key: value}]).nodes for label, value in ODD.items()}
    assert len(set(found.values())) == len(ODD)
    assert of(name, [1]).nodes != of(name, ["1"]).nodes, "also what is no message"
    assert of(name, [{"role": "user", key: nested(20_000, 1)}]).nodes == found["nested deep"]


def test_the_first_hash_is_over_protocol_account_and_what_the_provider_holds():
    told = [said("anthropic", "a")]
    held = {"previous_response_id": "r1"}
    chains = [
        of("anthropic", told),
        of("openai-chat", told),
        of("openai-responses", told),
        of("openai-responses", told, **held),
        of("openai-responses", told, previous_response_id="r2"),
        of("openai-responses", told, conversation="r1"),
        of("anthropic", told, thread={"type": "continue", "previous_message_id": "r1"}),
        of("gemini", [said("gemini", "a")], cachedContent="cachedContents/1"),
        of("gemini", [said("gemini", "a")], cachedContent="cachedContents/2"),
        chain(formats.named("anthropic"), told, account="b"),
    ]
    assert len({one.root for one in chains}) == len({one.nodes for one in chains}) == len(chains)
    assert of("openai-responses", told, previous_response_id=None) == of("openai-responses", told)
    assert chains[3].root == root("openai-responses", "a", held)


FIXED: dict[str, tuple[str, Json, Json]] = {
    "the model": ("anthropic", {"model": "m1"}, {"model": "m2"}),
    "the tools": ("anthropic", {"tools": [{"name": "f"}]}, {"tools": [{"name": "g"}]}),
    "no tools": ("openai-chat", {"tools": [{"name": "f"}]}, {}),
    "the system prompt": ("anthropic", {"system": "a"}, {"system": "b"}),
    "instructions": ("openai-responses", {"instructions": "a"}, {"instructions": "b"}),
    "a prompt": ("openai-responses", {"prompt": {"id": "1"}}, {"prompt": {"id": "2"}}),
    "Gemini's": ("gemini", {"systemInstruction": {"parts": []}}, {"systemInstruction": {"parts": [1]}}),
}


@pytest.mark.parametrize(("name", "one", "other"), FIXED.values(), ids=FIXED)
def test_the_fixed_prefix_is_in_none_of_the_messages_hashes(name: str, one: Json, other: Json):
    before, after = of(name, [said(name, "a")], **one), of(name, [said(name, "a")], **other)
    assert before.nodes == after.nodes
    assert before.fixed != after.fixed


def test_the_fixed_prefix_has_one_spelling_too_and_no_sampling_in_it():
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    one = anthropic("a", system="s", tools=tools, temperature=0, stream=True)
    system = [{"type": "text", "text": "s", **CACHED}]
    assert one == anthropic("a", tools=[{**reordered(tools[0]), **CACHED}], system=system, max_tokens=5)
    assert anthropic("a", tools=[]) == anthropic("a") != one
    gemini = formats.named("gemini")
    named = [chain(gemini, [said("gemini", "a")], account="a", model=model) for model in ("m1", "m2", "m1")]
    assert named[0] == named[2] != named[1]


@pytest.mark.parametrize("request_", [{"messages": []}, [], {}, {"messages": 1}, "a", None])
def test_without_messages_there_is_no_chain(request_: Json):
    with pytest.raises(errors.InputError, match="no messages"):
        chain(formats.named("anthropic"), request_, account="a")


# ---- extend, fork, new


def test_a_request_goes_on_with_its_conversation_or_leaves_it():
    server = Server()
    assert server.kinds(
        anthropic("a"),
        anthropic("a", "b", "c"),
        anthropic("a", "b", "c"),
        anthropic("x"),
        anthropic("a", "b", "c", "d", "e"),
        anthropic("a", "b", "z"),
        anthropic("a", "b", "z", "y"),
        anthropic("a", "b", "c", "d", "e", "f"),
        anthropic("a", "b"),
        anthropic("a", "b", "q"),
    ) == [
        ("new", 0, "c1"),
        ("extend", 1, "c1"),
        ("extend", 3, "c1"),  # a retry
        ("new", 0, "c2"),
        ("extend", 3, "c1"),
        ("fork", 2, "c3"),  # another third message
        ("extend", 3, "c3"),
        ("extend", 5, "c1"),
        ("fork", 2, "c4"),  # a rewind
        ("extend", 2, "c4"),
    ]
    assert len(server.index) == len({*"abcdefxzyq"}), "what is shared is on record once"


def test_two_agents_with_the_same_task_part_where_their_answers_do():
    server = Server()
    assert server.kinds(
        anthropic("task"), anthropic("task"), anthropic("task", "1"), anthropic("task", "2")
    ) == [("new", 0, "c1"), ("extend", 1, "c1"), ("extend", 1, "c1"), ("fork", 1, "c2")]


def test_the_same_task_with_other_tools_is_another_conversation_from_the_first_request_on():
    server = Server()
    mine, yours = {"tools": [{"name": "f"}]}, {"tools": [{"name": "g"}]}
    assert server.kinds(
        anthropic("task", **mine),
        anthropic("task", **yours),
        anthropic("task", "1", **mine),
        anthropic("task", "2", **yours),
        anthropic("task", "1", "3", **mine),
        anthropic("task", "2", "4", **yours),
    ) == [
        ("new", 0, "c1"),
        ("fork", 1, "c2"),
        ("extend", 1, "c1"),
        ("extend", 1, "c2"),
        ("extend", 2, "c1"),
        ("extend", 2, "c2"),
    ]


def test_a_request_beside_a_conversation_knows_what_it_shares_and_is_told_whose_it_is():
    server = Server()
    server.take(anthropic("a", "b", tools=[{"name": "f"}]))
    beside = anthropic("a", "b", "summarise", model="small")
    for _ in range(2):  # it is not recorded, and changes nothing
        assert recognise(beside, server.index) == Recognised(known=2, conversation=None, origin="c1")
    assert server.kinds(anthropic("a", "b", "c", tools=[{"name": "f"}])) == [("extend", 2, "c1")]


def test_growth_says_what_is_new_and_where_it_stands():
    server = Server()
    server.take(anthropic("a"))
    request = anthropic("a", "b", "c")
    found = recognise(request, server.index)
    grown = growth(request, found, "c1")
    first, second, third = request.nodes
    assert [(node.hash, node.parent, node.position) for node in grown.nodes] == [
        (second, first, 1),
        (third, second, 2),
    ]
    assert {node.conversation for node in grown.nodes} == {"c1"}
    assert (grown.begin, grown.end, grown.fixed) == (first, third, request.fixed)
    fresh = growth(request, Recognised(), "c2")
    assert (fresh.nodes[0].parent, fresh.begin) == (request.root, None)


RACES: dict[str, tuple[list[Chain], Chain, Chain, str]] = {
    "the same first request": ([], anthropic("a"), anthropic("a"), "extend"),
    "two ways to go on": ([anthropic("a")], anthropic("a", "b"), anthropic("a", "c"), "fork"),
    "the same fork": (
        [anthropic("a"), anthropic("a", "b")],
        anthropic("a", "c"),
        anthropic("a", "c"),
        "extend",
    ),
    "a retry beside what follows": ([anthropic("a")], anthropic("a", "b"), anthropic("a"), "fork"),
}


@pytest.mark.parametrize(("before", "first", "second", "then"), RACES.values(), ids=RACES)
def test_of_two_requests_at_once_the_later_is_refused_and_recognised_anew(
    before: list[Chain], first: Chain, second: Chain, then: str
):
    server = Server()
    server.kinds(*before)
    late = recognise(second, server.index)
    server.take(first)
    size = len(server.index)
    assert not server.index.grow(growth(second, late, late.conversation or "late"))
    assert len(server.index) == size, "nothing of it was written"
    assert server.take(second)[0].kind == then


def test_two_forks_at_once_are_both_recorded():
    server = Server()
    server.kinds(anthropic("a"), anthropic("a", "b"))
    late = recognise(anthropic("a", "d"), server.index)
    server.take(anthropic("a", "c"))
    assert server.index.grow(growth(anthropic("a", "d"), late, "late"))
    assert server.kinds(anthropic("a", "d", "e"), anthropic("a", "c", "e")) == [
        ("extend", 2, "late"),
        ("extend", 2, "c2"),
    ]


def test_a_message_that_is_known_stays_its_first_senders():
    server = Server()
    late = recognise(anthropic("a", "b"), server.index)
    server.take(anthropic("a"))
    assert server.index.grow(growth(anthropic("a", "b"), late, "late"))
    assert recognise(anthropic("a", "x"), server.index).origin == "c1"
    assert recognise(anthropic("a", "b", "x"), server.index).conversation == "late"


# ---- any interleaving of any conversations


class Plain:
    """What `recognise` answers, from all requests so far, told in full and compared one by one."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, ...]] = []
        self.latest: dict[str, tuple[tuple[str, ...], str]] = {}

    def find(self, texts: tuple[str, ...], tools: str) -> tuple[int, set[str]]:
        known = max((common(texts, other) for other in self.sent), default=0)
        ends = {name for name, latest in self.latest.items() if latest == (texts[:known], tools)}
        return known, ends if known else set()


def common(one: Sequence[Json], other: Sequence[Json]) -> int:
    for index, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours:
            return index
    return min(len(one), len(other))


steps = st.tuples(
    st.integers(0, 3),  # which agent
    st.integers(0, 4),  # how many messages it takes back
    st.lists(st.sampled_from("ab"), min_size=1, max_size=12),  # what it says then
    st.sampled_from(["f", "f", "g"]),  # under which tools
)


@given(st.lists(steps, max_size=30))
def test_any_interleaving_of_conversations_that_fork_is_told_apart_as_in_full(
    moves: list[tuple[int, int, list[str], str]],
):
    server, plain = Server(), Plain()
    agents: dict[int, tuple[str, ...]] = {}
    for agent, back, new, tools in moves:
        old = agents.get(agent, ())
        texts = agents[agent] = (*old[: max(0, len(old) - back)], *new)
        known, ends = plain.find(texts, tools)
        found, name = server.take(anthropic(*texts, tools=[{"name": tools}]))
        assert found.known == known
        assert {found.conversation} == (ends or {None}), "never more than one ends there"
        assert (found.origin is None) == (known == 0)
        plain.sent.append(texts)
        plain.latest[name] = (texts, tools)
    nodes = {texts[: end + 1] for texts in plain.sent for end in range(len(texts))}
    assert len(server.index) == len(nodes)


@given(st.lists(st.integers(0, 4), max_size=40), st.data())
def test_agents_whose_tasks_differ_never_meet(turns: list[int], data: st.DataObject):
    server = Server()
    agents: dict[int, list[str]] = {}
    owner: dict[str, int] = {}
    for agent in turns:
        texts = agents.setdefault(agent, [f"task {agent}"])
        found, name = server.take(anthropic(*texts))
        assert found.kind == ("new" if len(texts) == 1 else "extend")
        assert owner.setdefault(name, agent) == agent
        texts += data.draw(st.lists(st.sampled_from(["yes", "no"]), min_size=1, max_size=3))


class Counting(MemoryIndex):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def known(self, hashes: Sequence[bytes]) -> Mapping[bytes, Known]:
        assert len(set(hashes)) == len(hashes)
        self.asked.append(len(hashes))
        return super().known(hashes)


def cut(whole: Chain, end: int) -> Chain:
    return msgspec.structs.replace(whole, nodes=whole.nodes[:end])


@pytest.mark.parametrize(
    ("known", "questions"),
    [
        pytest.param(0, 1, id="new"),
        pytest.param(4_000, 1, id="a retry"),
        pytest.param(3_998, 1, id="one call"),
        pytest.param(3_993, 1, id="seven messages"),
        pytest.param(3_900, 4, id="a hundred"),
        pytest.param(2_000, 8, id="half of it"),
        pytest.param(1, 9, id="all but the first"),
    ],
)
def test_few_questions_find_what_is_known(known: int, questions: int):
    whole = anthropic(*map(str, range(4_000)))
    index = Counting()
    if known:
        assert index.grow(growth(cut(whole, known), Recognised(), "c"))
    assert recognise(whole, index).known == known
    assert len(index.asked) <= questions
    assert max(index.asked) <= 20


@given(st.integers(1, 200), st.data())
def test_the_longest_known_beginning_is_found_wherever_it_ends(length: int, data: st.DataObject):
    whole = anthropic(*map(str, range(length)))
    known = data.draw(st.integers(0, length))
    index = MemoryIndex()
    if known:
        assert index.grow(growth(cut(whole, known), Recognised(), "c"))
    found = recognise(whole, index)
    assert (found.known, found.conversation) == (known, "c" if known else None)


def test_where_the_beginning_was_forgotten_nothing_false_is_found():
    """Whoever forgets should begin at the end; else less is found."""
    whole = anthropic(*map(str, range(30)))
    index = MemoryIndex()
    late = Growth(
        conversation="c",
        nodes=growth(whole, Recognised(known=20), "c").nodes,
        begin=None,
        end=whole.nodes[-1],
        fixed=whole.fixed,
    )
    assert index.grow(late)
    found = recognise(whole, index)
    assert (found.known, found.conversation) == (30, "c"), "the hash of the last one vouches for all"
    assert recognise(cut(whole, 10), index) == Recognised()


# ---- what real clients send


_PROTOCOLS = {"contents": "gemini", "input": "openai-responses", "messages": "anthropic"}


def recorded(folder: Path) -> Iterator[tuple[str, list[tuple[Chain, Json, Json]]]]:
    """By client: of each request the chain, and beside it what it says, made comparable by other code."""
    for path in sorted(folder.glob("*/requests.jsonl")):
        requests: list[tuple[Chain, Json, Json]] = []
        for line in path.read_text().splitlines():
            record = json.loads(line)
            body, address = record["body"], record["path"]
            key = next((key for key in _PROTOCOLS if isinstance(body, dict) and key in body), None)
            if key is None or "count" in address:
                continue
            name = "openai-chat" if "chat/completions" in address else _PROTOCOLS[key]
            rest = {field: body.get(field) for field in ("model", "tools", "system", "systemInstruction")}
            held = [body.get(field) for field in ("thread", "previous_response_id")]
            requests.append(
                (
                    chain(formats.named(name), body, account="a", model=address),
                    [(name, held), *map(comparable, body[key])],
                    (address, comparable(rest)),
                )
            )
        yield path.parent.name, requests


def comparable(value: Json) -> str:
    return json.dumps(_bare(value), sort_keys=True)


def _bare(value: Json) -> Json:
    if isinstance(value, dict):
        kept = {key: _bare(one) for key, one in value.items() if key != "cache_control"}
        if isinstance(kept.get("content"), str):
            kept["content"] = [{"type": "text", "text": kept["content"]}]
        return kept
    return [_bare(one) for one in value] if isinstance(value, list) else value


def interleaved(lengths: Mapping[str, int], seed: int) -> Iterable[tuple[str, int]]:
    """All requests, those of one client in their order: by turns, one client after another, or shuffled."""
    if seed == 0:
        return sorted(((name, at) for name in lengths for at in range(lengths[name])), key=lambda one: one[1])
    names = [name for name in lengths for _ in range(lengths[name])]
    if seed > 1:
        random.Random(seed).shuffle(names)
    return [(name, names[:at].count(name)) for at, name in enumerate(names)]


@pytest.mark.parametrize("seed", range(12))
def test_each_recorded_request_goes_to_its_own_conversation(shared: Path, seed: int):
    """Or to one that was byte-identical so far; no header is looked at."""
    folder = shared / "clients" / "recordings"
    if not folder.is_dir():
        pytest.skip("needs recorded requests")
    clients = dict(recorded(folder))
    server = Server()
    last: dict[str, tuple[str, Json, Json]] = {}
    mine: dict[str, list[tuple[Json, Json, str]]] = {name: [] for name in clients}
    extended = 0
    for client, at in interleaved({name: len(requests) for name, requests in clients.items()}, seed):
        request, told, fixed = clients[client][at]
        found, name = server.take(request)
        if found.conversation is not None:
            extended += 1
            whose, before, under = last[name]
            assert (told[: len(before)], fixed) == (before, under), "it goes on with what was sent"
            own = [one for one in mine[client] if one[:2] == (before, under)]
            assert whose == client or own or told == before, "it was this client's, or is identical so far"
        for before, under, conversation in mine[client][-1:]:
            if told[: len(before)] == before and fixed == under and last[conversation][0] == client:
                assert name == conversation, "a history that grew stays one conversation"
        last[name] = (client, told, fixed)
        mine[client].append((told, fixed, name))
    total = sum(map(len, clients.values()))
    assert total > 200
    assert extended > 0.75 * total
