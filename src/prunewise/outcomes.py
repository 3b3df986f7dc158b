"""Whether a tool's result says that its call went well: the one place that decides it.

Works on text alone. Hosts flag failures, or do not; whatever the flag says, a result that reads like a
failure proves nothing.
"""

from __future__ import annotations

import re
from typing import Any, Literal, cast

import msgspec

Outcome = Literal["failed", "doubtful", "succeeded"]
"""`failed`: its host flags it, or its exit code says so. `doubtful`: it may have failed."""

_EXIT_CODE = re.compile(
    r"^\W*(?:(?:the )?(?:process|command) )?(?:(?:exited|terminated|finished|failed) with |exit(?:ed)? )"
    r"(?:exit )?(?:code|status)\b[ :=]*(-?\d+)\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_HEADER = 400
"""How far the header of an output reaches, and its last lines, in characters."""
_OUTPUT = re.compile(r"^(?:Total output lines: \d+\n)?Output:", re.MULTILINE)
"""Where Codex's header ends."""

_FAILS = re.compile(
    r"\W*(?:(?:tool_use_)?error|err|fatal|killed|fail(?:ed|ure)|exception|panic|abort(?:ed)?|cancel(?:l?ed)?)"
    r"(?:[:\s!.,>\])]|$)"
    r"|\W*[\w.]*(?:error|exception)(?: \[[^\]]*\])?[:(]"
    r"|\W*traceback \(most recent"
    r"|\W*(?-i:E(?:[A-Z]{3,}|RR_\w+))\b(?:[:, ]|$)"
    r"|[^\w\n]*[❌✗✘⛔🚫⚠✖]"
    r"|(?:[\w./-]+: ){1,3}.*(?:cannot|can't|denied|no such|not |fail|invalid|unable|refus|illegal|usage)",
    re.IGNORECASE,
)
"""How the first line of a failure begins. `Errors: 0` and `ErrorKind = ...` begin otherwise."""
_COMPLAINS = re.compile(
    r"^(?:[\w./-]+: ){1,3}.*\b(?:cannot|can't|denied|no such|not|fail\w*|invalid|unable|refus\w*|skipp\w*)\b"
    r"|\bcommand not found\b|\boperation not permitted\b|\bin (?:the )?background\b|\bstill running\b",
    re.IGNORECASE | re.MULTILINE,
)
"""A line by which a command tells that something did not work: `rm: cannot remove 'a': ...`."""
_DENIES = re.compile(
    r"\b(?:not|no|none|nothing|never|without|cannot|unable|fail\w*|errors?|denied|deny|reject\w*|refus\w*"
    r"|declin\w*|unchanged|invalid|illegal|unknown|unsupported|abort\w*|cancel\w*|skipp\w*|ignored|missing"
    r"|conflict\w*|timed? ?-?out|interrupt\w*|dry[- ]?run|would|pending|preview|simulat\w*|queued|stale"
    r"|already|identical|no-?op|revert\w*|rolled|restored|partial\w*|outside"
    r"|terminated|dumped|suppress\w*|redacted|cleared|cached|see (?:above|previous|earlier)|out of memory"
    r"|is a directory|rate limit\w*"
    r"|blocked|forbidden|must|should|please|instead|too|expected|ambiguous|multiple"
    r"|mismatch\w*|but|same|since|again|before|proposed|propose|await\w*|approv\w*|confirm|read-?only|errno|matches"
    r"|0 (?:replacement|change|edit|occurrence|match|line|byte|file)\w*)\b|n't\b",
    re.IGNORECASE,
)
"""Words by which a short result tells that something was not done."""
_CONFIRMS = re.compile(
    r"\b(?:success\w*|ok|okay|done|updated|edited|wrote|written|created|applied|replaced|saved|modified"
    r"|overwritten|overwrote|changed|inserted|deleted|removed|patched|completed?)\b|[✓✔✅]",
    re.IGNORECASE,
)
"""Words by which a result tells that a change was made."""
_BESIDE = re.compile(
    r"\b(?:an?|the|tool|operation|files?|edits?|changes?|replacements?|occurrences?|blocks?|strings?|text"
    r"|contents?|lines?|characters?|chars?|bytes?|snippet|result|cat|has|have|been|was|were|is|and|all|new|with"
    r"|to|in|at|on|from|for|here|s|running|added|[1-9]\d*(?! of\b)|of(?! \d)|n)\b|[\W_]",
    re.IGNORECASE,
)
"""What else is in a result that tells that a change was made, and takes nothing back."""
_EXCERPT = re.compile(r"^(?:@@ |--- |diff |[ \t]*\d+[→\t])", re.MULTILINE)
"""Where a result goes on with lines of the file."""
_NO_TROUBLE = re.compile(
    r"\b(?:error|failure|warning|conflict)s?\W{1,2}(?:0|none)\b"
    r"|\b(?:0|no|without) (?:error|failure|warning|conflict)s?\b",
    re.IGNORECASE,
)
"""Counts of troubles that were none."""
_TELLS_NOTHING = re.compile(rf"\S*(?:[/\\]|\.\w)\S*|{_NO_TROUBLE.pattern}", re.IGNORECASE)
"""Paths, and counts of troubles that were none."""
_LONGEST_MESSAGE = 400
_MESSAGE_LINES = 3
_STATUS = ("status", "state", "outcome", "type")
_WENT_WELL = frozenset({"ok", "success", "succeeded", "completed", "done", "passed"})
_WENT_WRONG = re.compile(
    r"err|fail|den(?:y|ied)|reject|cancel|abort|invalid|timeout|refus|not_?found", re.IGNORECASE
)
_ERROR_KEYS = ("error", "errors", "error_message", "errorMessage", "exception", "failure")
_SUCCESS_KEYS = ("success", "ok", "succeeded")
_NO = frozenset({"false", "0", "no", "none"})
_FAILURE_KEYS = ("is_error", "isError", "failed")
_CODES = ("exit_code", "exitCode", "exit_status", "returncode", "return_code")
_MESSAGES = ("message", "content", "text", "output", "result")
_WRAPPED = ("metadata", "result", "data", "response", "output")


def exit_code(text: str) -> int | None:
    """The exit code that an output gives in its header, its last line, or beside the output as JSON."""
    found = _object(text)
    return _code_in(text) if found is None else _code(found)


def says_failure(text: str) -> bool:
    """Whether a result begins as a failure does, or says it as JSON or by its exit code."""
    found = _object(text)
    if found is not None:
        return _tells_failure(found) or _code(found) not in (None, 0)
    return _FAILS.match(text.lstrip()[:_HEADER]) is not None or _code_in(text) not in (None, 0)


def complains(text: str) -> bool:
    """Whether an output tells that a command could not do what it was to do, or waits to be told."""
    return _COMPLAINS.search(text) is not None or (
        _is_short(text) and (_DENIES.search(text) is not None or text.rstrip().endswith("?"))
    )


def outcome(text: str, *, is_error: bool, flagged: bool, changed: str) -> Outcome:
    """How a call went.

    `flagged` says whether its host flags failures, `changed` which file the call was to change, if any. A
    change whose host flags none has to be confirmed by the result.
    """
    if is_error:
        return "failed"
    if says_failure(text):
        return "doubtful"
    if not text or text.isspace():
        return "succeeded" if flagged else "doubtful"
    if changed and not flagged:
        return "succeeded" if _confirms_change(text, changed) else "doubtful"
    if (not changed and not _is_short(text)) or _object(text) is not None:
        return "succeeded"
    message = _EXCERPT.split(text.strip(), maxsplit=1)[0]
    if changed or not _is_short(message):
        message = _first_line(message)
    return "doubtful" if _DENIES.search(_TELLS_NOTHING.sub("", message)) else "succeeded"


def _confirms_change(text: str, path: str) -> bool:
    """Whether a result tells that this file was changed, and nothing else but lines of it."""
    found = _object(text)
    if found is not None:
        return _confirms(found) and not _takes_back("", msgspec.json.decode(text))
    rows = text.strip()
    if _FAILS.match(rows[rows.rfind("\n") + 1 :][:_HEADER]):
        return False
    told = _EXCERPT.split(rows, maxsplit=1)[0]
    name = re.escape(path.rpartition("/")[2])
    told = re.sub(rf"(?<!\S)\S*(?<![\w.-]){name}(?![\w-]|\.\w)", "", told)
    told = _NO_TROUBLE.sub("", told)
    return _CONFIRMS.search(told) is not None and not _BESIDE.sub("", _CONFIRMS.sub("", told))


def _code_in(text: str) -> int | None:
    end = _OUTPUT.search(text, 0, _HEADER)
    if end is not None:
        found = _EXIT_CODE.search(text, 0, end.start())
        return None if found is None else int(found[1])
    rows = text.strip()
    for row in (_first_line(rows), rows[rows.rfind("\n") + 1 :][:_HEADER]):
        found = _EXIT_CODE.fullmatch(row.strip())
        if found is not None:
            return int(found[1])
    return None


def _is_short(text: str) -> bool:
    """Whether a text is a message rather than content."""
    return len(text) <= _LONGEST_MESSAGE and text.count("\n") <= _MESSAGE_LINES


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:_HEADER]


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that a result is, or the first of a list."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return cast("dict[str, Any]", values[0]) if values and isinstance(values[0], dict) else None


def _parts(found: dict[str, Any]) -> list[dict[str, Any]]:
    """An object, and the objects in which results are wrapped."""
    return [found, *(found[key] for key in _WRAPPED if isinstance(found.get(key), dict))]


def _code(found: dict[str, Any]) -> int | None:
    codes = [one.get(key) for one in _parts(found) for key in _CODES]
    return next((code for code in codes if type(code) is int), None)


def _statuses(one: dict[str, Any]) -> list[str]:
    return [one[key] for key in _STATUS if isinstance(one.get(key), str)]


def _tells_failure(found: dict[str, Any]) -> bool:
    return any(
        any(one.get(key) for key in (*_ERROR_KEYS, *_FAILURE_KEYS))
        or any(str(one.get(key, True)).lower() in _NO for key in _SUCCESS_KEYS)
        or any(_WENT_WRONG.search(status) for status in _statuses(one))
        or any(_FAILS.match(one[key]) for key in _MESSAGES if isinstance(one.get(key), str))
        for one in _parts(found)
    )


def _confirms(found: dict[str, Any]) -> bool:
    return _code(found) == 0 or any(
        any(one.get(key) is True for key in _SUCCESS_KEYS)
        or any(status.lower() in _WENT_WELL for status in _statuses(one))
        for one in _parts(found)
    )


def _takes_back(key: str, value: Any) -> bool:
    """Whether a value anywhere in a JSON result tells that something was not done."""
    if isinstance(value, dict):
        return any(_takes_back(name, each) for name, each in cast("dict[str, Any]", value).items())
    if isinstance(value, list):
        return any(_takes_back(key, each) for each in cast("list[Any]", value))
    if isinstance(value, str):
        return _FAILS.match(value) is not None or _DENIES.search(_TELLS_NOTHING.sub("", value)) is not None
    if key in (*_ERROR_KEYS, *_FAILURE_KEYS, *_CODES):
        return bool(value)
    return value in (False, 0) or (value is True and _DENIES.search(key.replace("_", " ")) is not None)
