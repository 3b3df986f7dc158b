"""What readers say went to the model is about as large as what the provider counted."""

import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from prunewise.formats import claude_code, codex
from prunewise.recording import Recording
from prunewise.tokens import PI

# Synthetic samples have made-up usage; the files named here have reasons:
_OFF = {
    "019ed9f4": "counted, and not written down: pages that a search opened, and sealed reasoning",
}


def ratio(recording: Recording) -> float | None:
    """The estimated input of all LLM calls to the recorded one, the fixed prefix being what the first
    call has more; None where fewer than two calls have a usage."""
    estimated = counted = calls = 0
    prefix: int | None = None
    for epoch in recording.epochs:
        before = [0]
        for message in epoch.messages:
            before.append(before[-1] + PI.message(message))
        for call in epoch.calls:
            recorded = call.usage.input + call.usage.cache_read + call.usage.cache_write if call.usage else 0
            if recorded:
                prefix = recorded - before[call.position] if prefix is None else prefix
                estimated += before[call.position] + prefix
                counted += recorded
                calls += 1
    return estimated / counted if calls > 1 else None


def ratios(shared: Path, format: str) -> Iterator[tuple[str, float]]:
    reader = {"claude-code": claude_code, "codex": codex}[format]
    with (shared / "corpus" / "MANIFEST.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["format"] == format and row["synthetic_fixture"] == "0":
                path = shared / "corpus" / row["file"]
                found = ratio(reader.read_recording(row["file"], path.read_bytes()))
                if found is not None:
                    yield row["file"].split("__")[-1][:8], found


@pytest.mark.corpus
@pytest.mark.parametrize(("format", "least"), [("claude-code", 0.88), ("codex", 0.9)])
def test_the_messages_read_account_for_the_input_counted(shared: Path, format: str, least: float) -> None:
    found = dict(ratios(shared, format))
    assert {name for name, value in found.items() if not 0.75 <= value <= 1.25} <= set(_OFF)
    assert least <= median(found.values()) <= 1.05
