"""What the tests of the session readers share: the corpus, and what a recording comes to."""

import csv
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from prunewise.errors import InputError
from prunewise.formats.detect import HEAD
from prunewise.recording import Recording
from prunewise.transcript import ToolCall, ToolResult


class Counts(NamedTuple):
    """What a session came to: LLM calls, tool calls, and results that are errors."""

    llm_calls: int
    tool_calls: int
    tool_errors: int


def manifest(shared: Path, format: str | None = None) -> dict[str, dict[str, str]]:
    """The rows of the corpus's manifest, of one format or of all, by file."""
    with (shared / "corpus" / "MANIFEST.tsv").open(newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return {row["file"]: row for row in rows if format in (None, row["format"])}


def expected(row: dict[str, str]) -> Counts:
    """What the manifest says of a session."""
    return Counts(int(row["llm_calls"]), int(row["tool_calls"]), int(row["tool_errors"]))


def counted(recording: Recording) -> Counts:
    """What a recording comes to; a message that two epochs hold counts once."""
    messages = {message.id: message for epoch in recording.epochs for message in epoch.messages}
    parts = [part for message in messages.values() for part in message.parts]
    return Counts(
        recording.llm_calls,
        sum(type(part) is ToolCall for part in parts),
        sum(type(part) is ToolResult and part.is_error for part in parts),
    )


def check_order(recording: Recording) -> None:
    """What holds for every recording: messages with ids of their own, and calls in order."""
    for epoch in recording.epochs:
        ids = [message.id for message in epoch.messages]
        assert len(ids) == len(set(ids))
        positions = [call.position for call in epoch.calls]
        assert positions == sorted(positions)
        for call in epoch.calls:
            assert call.position <= len(epoch.messages)
            assert not (call.failed and call.usage)


def check(recording: Recording) -> None:
    """The same where answers are recorded: they are where the calls say, or the call was billed for none."""
    check_order(recording)
    for epoch in recording.epochs:
        for call in epoch.calls:
            if call.position < len(epoch.messages) and not call.failed:
                assert epoch.messages[call.position].role == "assistant" or call.usage


def check_corpus(
    shared: Path,
    format: str,
    detect: Callable[[bytes], bool],
    read: Callable[[str, bytes], Recording],
    exceptions: dict[str, Counts],
) -> dict[str, Recording]:
    """Every file of the corpus is told, and every one of the format comes to what the manifest says, or to
    what `exceptions` (by file) says instead."""
    found: dict[str, Recording] = {}
    for file, row in manifest(shared).items():
        data = (shared / "corpus" / file).read_bytes()
        assert detect(data[:HEAD]) is (row["format"] == format), file
        if row["format"] == format:
            recording = read(file, data)
            check(recording)
            assert counted(recording) == exceptions.get(file, expected(row)), file
            if row["has_usage"] == "1" and row["quirks"].find("per-run") < 0:
                assert any(call.usage for epoch in recording.epochs for call in epoch.calls) or all(
                    call.failed for epoch in recording.epochs for call in epoch.calls
                )
            found[file] = recording
    return found


def refuses(read: Callable[[str, bytes], Recording], data: bytes) -> None:
    """The file is none of the format: one line says so, and names the file."""
    with pytest.raises(InputError) as caught:
        read("s.json", data)
    assert str(caught.value).startswith("s.json: ")
    assert "\n" not in str(caught.value)


def never_raises(read: Callable[[str, bytes], Recording], data: bytes) -> None:
    """Whatever the bytes are, there is a sound recording or an InputError."""
    with suppress(InputError):
        check_order(read("s.json", data))
