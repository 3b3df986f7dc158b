"""The sample session is what its script writes, and is a pi session of one branch."""

import itertools
import json
import runpy
from pathlib import Path


def test_the_sample_is_what_its_script_writes(root: Path):
    script = runpy.run_path(str(root / "examples" / "make_session.py"))
    written = (root / "examples" / "session.jsonl").read_text(encoding="utf-8")
    assert script["pantry"]().text() == written


def test_the_sample_is_one_chain_of_entries(root: Path):
    lines = (root / "examples" / "session.jsonl").read_text(encoding="utf-8").splitlines()
    header, *entries = map(json.loads, lines)
    assert (header["type"], header["version"]) == ("session", 3)
    assert entries[0]["parentId"] is None
    assert all(after["parentId"] == before["id"] for before, after in itertools.pairwise(entries))
    assert len({entry["id"] for entry in entries}) == len(entries)
