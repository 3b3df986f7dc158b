"""Whatever a session file holds: it is read and replayed, or refused in one line."""

import copy
import json
import random
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.replay import sessions

from prunewise.replay.corpus import find, load
from prunewise.replay.journal import decode
from prunewise.replay.results import SessionRow
from prunewise.replay.runner import Choice, Inquiry, replay_file

ODD: dict[str, Any] = {
    "half of a pair": "half \ud83d of a pair",
    "beyond a double": 10**400,
    "below a double": -(10**400),
    "no number": float("nan"),
    "infinite": float("inf"),
    "negative": -7,
    "fraction": 0.5,
    "truth": True,
    "nothing": None,
    "an empty text": "",
    "an empty list": [],
    "an empty object": {},
    "a list of lists": [[["x"], 3], None],
    "an object in the place of a text": {"text": {"text": 7}},
    "control characters": "\x00\x1b[2J\u2028\r\n",
    "a number as text": "12",
    "a date after all dates": "9999-12-31T23:59:59.999999999Z",
    "a late instant": 8.7e15,
}
INQUIRY = Inquiry((Choice("none"), Choice("priced")))
CRASHED = re.compile(r"\w+(Error|Exception)\b")
"""How the reason begins where something fell over."""
PLACES = 4
"""How many values of each file are replaced, one at a time."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values, objects and lists among them."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, (*path, index))


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    changed = copy.deepcopy(value)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = odd
    return changed


def documents(data: bytes) -> list[Any]:
    """The file's JSON values: one, or one a line."""
    try:
        return [json.loads(data)]
    except ValueError:
        return [json.loads(line) for line in data.splitlines()]


def kinds(paths: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """The paths by what they are paths of, whichever the line and the element."""
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for path in paths:
        found.setdefault(tuple("*" if isinstance(key, int) else key for key in path), []).append(path)
    return found


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("format", sessions.FORMATS)
def test_a_file_with_odd_values_is_replayed_or_refused(tmp_path: Path, format: str, odd: str):
    suffix, make = sessions.FORMATS[format]
    values = documents(make(2))
    draw = random.Random(f"{format} {odd}")
    by_kind = kinds(list(leaves(values)))
    for kind in draw.sample(sorted(by_kind, key=str), min(PLACES, len(by_kind))):
        changed = replaced(values, draw.choice(by_kind[kind]), ODD[odd])
        file = tmp_path / f"s{suffix}"
        file.write_text("".join(f"{json.dumps(one)}\n" for one in changed))
        (source,) = find([file]).sources
        for compaction in (True, False)[: 1 + (format == "pi")]:
            done = decode(replay_file(source, msgspec.structs.replace(INQUIRY, compaction=compaction)))
            for row in done.rows:
                assert isinstance(row, SessionRow) or not CRASHED.match(row.reason), row


def test_a_message_entry_without_its_message(tmp_path: Path):
    header = {"type": "session", "version": 3, "id": "x", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}
    entries = [
        {"type": "message", "id": "a", "parentId": None, "timestamp": "2026-01-01T00:00:01Z"},
        {
            "type": "message",
            "id": "b",
            "parentId": "a",
            "timestamp": "2026-01-01T00:00:02Z",
            "message": {"role": "assistant", "content": "hi"},
        },
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, [header, *entries])))
    (source,) = find([tmp_path / "a.jsonl"]).sources
    for compaction in (True, False):
        (recording,) = load(source, compaction=compaction)
        assert [one.id for epoch in recording.epochs for one in epoch.messages] == ["b"]


@pytest.mark.parametrize("column", ["directory", "revert"])
def test_a_text_of_a_database_need_not_be_utf8(tmp_path: Path, column: str):
    path = sessions.database(tmp_path / "o.db", ("ses_1", "/repo", 1), ("ses_2", "/other", 2))
    with sqlite3.connect(path) as base:
        base.execute(f"UPDATE session SET {column} = cast(x'2fff41' AS text) WHERE id = 'ses_1'")
    base.close()
    (source,) = find([path]).sources
    found = list(load(source))
    assert [one.session for one in found] == ["ses_1", "ses_2"]
    assert found[0].cwd == ("/\ufffdA" if column == "directory" else "/repo")
