"""pi's session files, read as recordings.

Knows which of an active branch's messages pi sends, epoch by epoch: up to a compaction everything,
after it the summary, what was kept, and what is new. An answer that failed or was aborted is an LLM
call, which costs what the provider counted for it, and is never sent again. So is a summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from prunewise import tools
from prunewise.formats.documents import Epochs
from prunewise.formats.jsonl import opening, stem, timestamp
from prunewise.formats.pi import PI
from prunewise.formats.pi_usage import NOTHING, Beside, billed, by_answer
from prunewise.formats.reading import Json, fields, string
from prunewise.recording import Recording
from prunewise.stores.json_lines import Record
from prunewise.stores.pi_entries import ContextMessage, Entry
from prunewise.stores.pi_session import PiSession
from prunewise.transcript import Usage

NAME = "pi"
VOCABULARY = tools.PI

_FAILED = ("error", "aborted")


def detect(head: bytes) -> bool:
    """Whether a file that begins with these bytes (64 kB of it, or all) is a pi session."""
    records = opening(head)
    return any(_is_header(record) for record in records[:1]) or any(_is_message(record) for record in records)


def _is_header(record: dict[str, Json]) -> bool:
    return (
        record.get("type") == "session" and "timestamp" in record and ("cwd" in record or "version" in record)
    )


def _is_message(record: dict[str, Json]) -> bool:
    """An entry that no other agent writes: of type `message`, with a message that has a role."""
    message = fields(record.get("message"))
    return record.get("type") == "message" and message is not None and type(message.get("role")) is str


def read_recording(source: str, data: bytes) -> Recording:
    """Read the active branch of a session; each compaction ends an epoch.

    Raises:
        InputError: it is no pi session.
    """
    session = PiSession.from_bytes(data, source)
    branch = session.branch()
    compactions = [index for index, entry in enumerate(branch) if entry.type == "compaction"]
    reader = _Reader(branch)
    begins = 0
    for end in [*compactions, len(branch)]:
        if end > begins:
            made_here = {entry.id: entry for entry in branch[begins:end]}
            reader.epoch(session.context(branch[end - 1].id), made_here)
        if end < len(branch):
            reader.summary(branch[end])
        reader.epochs.end("end" if end == len(branch) else "compaction")
        begins = end
    answers = {entry.id for entry in session.entries if entry.role == "assistant"}
    return Recording(
        format=NAME,
        source=source,
        session=session.conversation or stem(source),
        epochs=reader.epochs.finished(),
        vocabulary=VOCABULARY,
        cwd=session.cwd,
        warnings=tuple(session.warnings),
        branches=max(len(session.leaves), 1),
        aside=len(answers - {entry.id for entry in branch}),
    )


class _Reader:
    """Makes epochs out of the entries of a branch."""

    def __init__(self, branch: Sequence[Entry]) -> None:
        self.epochs = Epochs()
        self._beside = by_answer(branch)
        self._last: Record = {}

    def epoch(self, context: Sequence[ContextMessage], made_here: Mapping[str, Entry]) -> None:
        """Add what pi sent at the end of a stretch, with the LLM calls that were made in it."""
        for one in context:
            entry = made_here.get(one.id)
            message = PI.read(one.message, one.id)
            failed = message.role == "assistant" and one.message.get("stopReason") in _FAILED
            if message.role == "assistant" and entry is not None:
                beside = self._beside.get(one.id, NOTHING)
                message = msgspec.structs.replace(message, warmed=beside.warmed)
                self._call(one.message, billed(entry), message.time, beside, failed=failed)
            elif entry is not None and entry.type == "branch_summary":
                self.summary(entry)
            if not failed:
                self.epochs.add([message])

    def summary(self, entry: Entry) -> None:
        """The LLM call that made a summary, where its usage is told."""
        usage, time = billed(entry), timestamp(entry.timestamp)
        if usage is not None:
            self._call({**self._last, **entry.raw}, usage, time, NOTHING, failed=False)

    def _call(
        self, native: Record, usage: Usage | None, time: float | None, beside: Beside, *, failed: bool
    ) -> None:
        told = {key: string(native.get(key)) for key in ("model", "provider")}
        self._last = {key: value for key, value in told.items() if value} or self._last
        self.epochs.call(
            usage=usage,
            time=time,
            model=told["model"],
            provider=told["provider"],
            failed=failed and usage is None,
            warmed=beside.warmed,
            beside=beside.usage,
        )
