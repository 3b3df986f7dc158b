"""What several sessions hold counts once, and what is a session's own always counts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from prunewise import tools
from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.replay.copies import answers_of, copied, each_once, without
from prunewise.replay.corpus import find
from prunewise.replay.results import SessionRow
from prunewise.replay.runner import Inquiry, choose, run
from prunewise.transcript import Message, Text, Thinking, ToolCall, ToolResult, Usage

START = 1_750_000_000.0


class Said(NamedTuple):
    """One round: what the user says, and what comes of it."""

    prompt: str
    answer: str = "fine"
    call: str = ""
    failed: bool = False
    time: float | None = 0.0
    usage: Usage | None = Usage(10, 5, 100)
    sealed: str = ""


def session(name: str, *rounds: Said, format: str = "pi", preludes: Sequence[str] = ()) -> Recording:
    """A session of these rounds, a minute each; `time` is added to their own."""
    messages: list[Message] = [
        Message("other", f"p{number}", (Text(text),)) for number, text in enumerate(preludes)
    ]
    calls: list[LLMCall] = []
    for number, one in enumerate(rounds):
        time = None if one.time is None else START + 60 * number + one.time
        messages.append(Message("user", f"u{number}", (Text(one.prompt),)))
        if one.failed:
            calls.append(LLMCall(len(messages), None, time, failed=True))
            continue
        calls.append(LLMCall(len(messages), one.usage, time, "m"))
        parts = [Thinking("", one.sealed)] if one.sealed else []
        asked = [ToolCall(one.call, "bash", {}, "{}")] if one.call else []
        messages.append(Message("assistant", f"a{number}", (*parts, Text(one.answer), *asked)))
        if one.call:
            messages.append(Message("tool", f"t{number}", (ToolResult(one.call, "bash", (Text("out"),)),)))
    return Recording(format, f"{name}.jsonl", name, (Epoch(tuple(messages), tuple(calls)),), tools.PI)


def rounds(*names: str, **given: Any) -> list[Said]:
    return [Said(name, f"of {name}")._replace(**given) for name in names]


A = rounds(*"abcd")
X = rounds("x")[0]
UNTOLD = {"time": None, "usage": None}
FAILED = Said("go on", failed=True)


def later(made: Sequence[Said], seconds: float) -> list[Said]:
    return [one._replace(time=seconds) for one in made]


@pytest.mark.parametrize(
    ("sessions", "own"),
    [
        # A fork: the parent is copied whole, and each fork has its own.
        (
            [session("p", *A), session("f", *A, *rounds("x", "y", "z")), session("g", *A, *rounds("v", "w"))],
            (0, 7, 2),
        ),
        # The parent went on after the fork, and is the longer one; or the shorter one.
        ([session("p", *A, *rounds("x", "y")), session("f", *A, *rounds("z"))], (6, 1)),
        ([session("p", *A, *rounds("x")), session("f", *A, *rounds("y", "z"))], (1, 6)),
        # Equal files.
        ([session("p", *A), session("p", *A), session("p", *A)], (4, 0, 0)),
        # A fork of a fork.
        ([session("p", *A), session("f", *A, X), session("g", *A, X, *rounds("y"))], (0, 0, 6)),
        # A session that begins with the end of another one.
        (
            [
                session("p", *A),
                session("f", *[one._replace(time=120.0) for one in A[2:]], *rounds("x", time=120.0)),
            ],
            (4, 1),
        ),
        # They only begin alike: the answers differ, or their times, their counts, their prompts.
        ([session("a", Said("go", "one"), *A), session("b", Said("go", "two"), *later(A, 1.0))], (5, 5)),
        ([session("a", Said("go"), *A), session("b", *later([Said("go"), *A], 0.5))], (5, 5)),
        ([session("a", Said("go")), session("b", Said("go", usage=Usage(10, 5, 99)))], (1, 1)),
        ([session("a", Said("go")), session("b", Said("come"))], (1, 1)),
        # They begin alike with requests that failed.
        ([session("a", FAILED, Said("go on", "one")), session("b", FAILED, Said("go on", "two"))], (2, 2)),
        ([session("a", FAILED), session("b", FAILED)], (1, 1)),
        ([session("a", FAILED, FAILED, Said("go on", "one")), session("b", FAILED)], (3, 1)),
        # A failed request in what was copied is copied too, and one behind it is not.
        ([session("p", *A[:2], FAILED, *A[2:]), session("f", *A[:2], FAILED, *A[2:], FAILED)], (0, 6)),
        ([session("p", *A, *rounds("x", "y", "z")), session("f", *A, FAILED, *rounds("w"))], (7, 2)),
        # What the host puts before a copy does not make it another one.
        ([session("p", *A), session("f", *A, *rounds("x"), preludes=("today is Monday",))], (0, 5)),
        # Codex writes copies with their own time: an id of the provider's tells them.
        (
            [
                session("p", *rounds("a", "b", call="c1"), format="codex"),
                session("f", *later(rounds("a", "b", call="c1"), 500.0), *rounds("x"), format="codex"),
            ],
            (0, 3),
        ),
        (
            [
                session("p", *rounds("a", sealed="s"), format="codex"),
                session("f", *later(rounds("a", sealed="s"), 500.0), *rounds("x"), format="codex"),
            ],
            (0, 2),
        ),
        (
            [
                session("p", Said("hi"), format="codex"),
                session("f", *later([Said("hi")], 9.0), format="codex"),
            ],
            (1, 1),
        ),
        # Neither time nor usage: copies only where all is equal.
        (
            [
                session("a", *rounds("x", **UNTOLD)),
                session("b", *rounds("x", "y", **UNTOLD)),
            ],
            (1, 2),
        ),
        (
            [
                session("a", *rounds("x", **UNTOLD)),
                session("b", *rounds("x", **UNTOLD)),
            ],
            (1, 0),
        ),
    ],
)
def test_each_answer_counts_once(sessions: list[Recording], own: tuple[int, ...]):
    names = list(range(len(sessions)))
    out = copied([(name, answers_of(one)) for name, one in zip(names, sessions, strict=True)])
    kept = [without(one, out.get(name, ())) for name, one in zip(names, sessions, strict=True)]
    assert tuple(one.llm_calls for one in kept) == own
    assert [one.llm_calls + one.copied for one in kept] == [one.llm_calls for one in sessions]
    assert [[epoch.messages for epoch in one.epochs] for one in kept] == [
        [epoch.messages for epoch in one.epochs] for one in sessions
    ]
    assert sum(one.llm_calls for one in each_once(sessions)) == sum(own)


def test_a_digest_is_made_of_any_value():
    odd = session("s", Said("half \ud83d", "of a pair"), Said("big", usage=Usage(2**63, 1)))
    assert answers_of(odd) == answers_of(odd)
    assert len(set(answers_of(odd).digests)) == 2


ANSWERED = ',"usage":{"input":100,"output":5},"stopReason":"stop"'


def pi_lines(name: str, *texts: str) -> bytes:
    lines = ['{"type":"session","version":3,"id":"%s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}' % name]  # noqa: UP031
    parent = "null"
    for number, text in enumerate(texts):
        for role, more in (
            ("user", ""),
            ("assistant", ',"usage":{"input":100,"output":5},"stopReason":"stop"'),
        ):
            entry = f'"{number:04}{role[0]}"'
            lines.append(
                f'{{"type":"message","id":{entry},"parentId":{parent},"timestamp":"2026-01-01T00:00:01Z","message":'
                f'{{"role":"{role}","content":[{{"type":"text","text":"{text} {role}"}}],'
                f'"timestamp":{1767225605000 + number}{more}}}}}'
            )
            parent = entry
    return "\n".join(lines).encode()


def test_a_run_counts_what_files_share_in_one_of_them(tmp_path: Path):
    (tmp_path / "parent.jsonl").write_bytes(pi_lines("p", "a", "b"))
    (tmp_path / "fork.jsonl").write_bytes(pi_lines("f", "a", "b", "x"))
    (tmp_path / "other.jsonl").write_bytes(pi_lines("g", "a", "b", "y", "z"))
    inquiry = Inquiry((choose("none"),), with_loss=False)
    for jobs in (1, 2):
        rows = list(run(find([tmp_path]).sources, inquiry, jobs=jobs))
        found = {one.session: (one.llm_calls, one.copied) for one in rows if isinstance(one, SessionRow)}
        assert found == {"p": (0, 2), "f": (1, 2), "g": (4, 0)}
