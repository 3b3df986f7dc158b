"""pi's session files, read as recordings.

Knows which of an active branch's messages pi sends, epoch by epoch: up to a compaction everything,
after it the summary, what was kept, and what is new. An answer that failed or was aborted is an LLM
call, and is never sent again.
"""

from __future__ import annotations

import msgspec

from prunewise import tools
from prunewise.formats.documents import Epochs
from prunewise.formats.jsonl import opening, stem
from prunewise.formats.pi import PI
from prunewise.formats.pi_usage import NOTHING, Beside, by_answer
from prunewise.formats.reading import Json, fields, string
from prunewise.recording import Ending, Recording
from prunewise.stores.pi_entries import ContextMessage
from prunewise.stores.pi_session import PiSession

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
    epochs = Epochs()
    beside = by_answer(branch)
    begins = 0
    for end in [*compactions, len(branch)]:
        if end > begins:
            made_here = {entry.id: beside.get(entry.id, NOTHING) for entry in branch[begins:end]}
            ended_by: Ending = "end" if end == len(branch) else "compaction"
            _epoch(epochs, session.context(branch[end - 1].id), made_here, ended_by)
        begins = end
    return Recording(
        format=NAME,
        source=source,
        session=session.conversation or stem(source),
        epochs=epochs.finished(),
        vocabulary=VOCABULARY,
        cwd=session.cwd,
        warnings=tuple(session.warnings),
        branches=max(len(session.leaves), 1),
    )


def _epoch(
    epochs: Epochs, context: list[ContextMessage], made_here: dict[str, Beside], ended_by: Ending
) -> None:
    """Add what pi sent at the end of a stretch, with the LLM calls that were made in it, and the requests
    beside each.
    """
    for one in context:
        native = one.message
        message = PI.read(native, one.id)
        failed = message.role == "assistant" and native.get("stopReason") in _FAILED
        beside = made_here.get(one.id)
        if message.role == "assistant" and beside is not None:
            message = msgspec.structs.replace(message, warmed=beside.warmed)
            epochs.call(
                usage=message.usage,
                time=message.time,
                model=message.model,
                provider=string(native.get("provider")),
                failed=failed,
                warmed=beside.warmed,
                beside=beside.usage,
            )
        if not failed:
            epochs.add([message])
    epochs.end(ended_by)
