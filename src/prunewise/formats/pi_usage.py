"""What a pi session tells of requests whose answers are no messages: what they used, and what they kept warm.

pi writes one `usage` entry for each request beside the conversation: those of its cache warmer, and those of
extensions. The usage of a summary stands in the entry of the summary, that of an answer that failed or was
aborted in its message.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from prunewise.formats.pi import PI
from prunewise.stores.pi_entries import Entry, instant
from prunewise.transcript import Usage

_FAILED = ("error", "aborted")
_WARMER = "cache_warm"


class Beside(msgspec.Struct, frozen=True):
    """Requests between two answers."""

    usage: tuple[Usage, ...] = ()
    warmed: float | None = None
    """When one of them last kept the cache warm, in seconds since the epoch; None where none did."""


NOTHING = Beside()


def warmed_at(entry: Entry) -> float | None:
    """When the request that an entry tells of kept the cache warm, in seconds since the epoch; None where it
    did not, and for an entry of another type.

    The cache warmer's did. Of another it is believed where most of its input came from a cache.
    """
    usage = _usage(entry)
    moment = instant(entry.timestamp)
    if usage is None or moment is None:
        return None
    sent = usage.input + usage.cache_read + usage.cache_write
    if entry.raw.get("kind") == _WARMER:
        return moment.timestamp() if sent else None
    return moment.timestamp() if 2 * usage.cache_read > sent else None


def by_answer(branch: Iterable[Entry]) -> dict[str, Beside]:
    """For each answer, by the id of its entry, the requests since the one before; for the last one also those
    after it. Answers without any are left out.
    """
    found: dict[str, Beside] = {}
    last = ""
    usage: list[Usage] = []
    warmed: float | None = None
    for entry in branch:
        counted = _usage(entry)
        if counted is not None:
            usage.append(counted)
            warmed = max(filter(None, (warmed, warmed_at(entry))), default=None)
        elif entry.type == "compaction":
            warmed = None
        elif entry.role == "assistant":
            if usage or warmed is not None:
                found[entry.id] = Beside(tuple(usage), warmed)
            usage, last = [], entry.id
            if (entry.message or {}).get("stopReason") not in _FAILED:
                warmed = None
    if usage and last:
        before = found.get(last, NOTHING)
        found[last] = Beside((*before.usage, *usage), before.warmed)
    return found


def billed(entry: Entry) -> Usage | None:
    """What the provider counted for the answer, or the summary, that an entry holds; None where nothing."""
    told: object = (entry.message or {}).get("usage") if entry.type == "message" else entry.raw.get("usage")
    return PI.read({"role": "assistant", "usage": told}, entry.id).usage


def _usage(entry: Entry) -> Usage | None:
    return billed(entry) if entry.type == "usage" else None
