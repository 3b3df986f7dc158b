"""What is proven to be noise in the output of a command, and which lines may tell of failure.

Works on text alone. The same text gives the same lines, on any machine.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import NamedTuple

KEPT_AT_END = 20
"""The last lines of an output, which always stay."""

_FAILURE = re.compile(
    r"""err(?:or|\b|!)|fail|exception|traceback|panic|fatal|crash|abort|assert|warn|denied|refus|reject
    |invalid|illegal|unable|(?:can|could|do|does|did|was|were|has|is)n?(?:ot\b|['\u2019]?t\b)|\bnot\b|\bno\b
    |missing|undefined|unresolved|unexpected|unknown|unsupported|mismatch|conflict|corrupt|core\ dump
    |seg(?:ment|v|fault)|signal|\bsig(?!n)[a-z]{3,4}\b|kill|\boom\b|out\ of|time[ds]?[-\s]?out|deadlock|violat
    |overflow|leak|broken|\bbad\b|exit(?:ed|\s|:|=)|status|return\ code|unauthori|forbidden|expired
    |unreachable|problem|\bissue|\blost|closed|reset\b|incomplete|partial|interrupt|cancel|terminat|\bskip|\bstop
    |unsuccess|unavailable|unhealthy|unmet|insufficient|exceed|too\ (?:many|large|long|big|old)|throttl|quota
    |wrong|discard|dropped|offline|disconnect|degraded|rollback|rolled\ back|revert|ignor|gave\ up|giving\ up
    |retry|retri|\bstall|\bhang|\bhung|mislukt|\bfout|fehl|fall[oóò]|erro|erreur|échec|échou|impossible|fallit|błąd
    |niepowodzenie|\bhata|başar\u0131s\u0131z|ошибк|не\ удалось|сбой|错误|錯誤|失败|失敗|警告|エラー|오류|실패
    |[✖\u00d7✗✘❌⚠\u2a2f🔴‼]|\b(?-i:[A-Z]){1,6}\d{3,5}\b""",
    re.IGNORECASE | re.VERBOSE,
)

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_LONGEST_PROGRESS = 300
"""No line longer than this is progress, in characters."""
_LEAST_PROGRESS = 5
"""Of fewer lines of one form none is left out."""

_SIZE = r"\d[\d.,]*\s?(?:[kKMGT]i?)?[bB](?:ytes?|it)?"
_BAR = (
    r"(?<![^\s%])(?:[\[|(<][\-+.o*\s]{0,99}[=\#>█▉▊▋▌▍▎▏░▒▓■□▰▱━╸╺][=\#\-+.>o*█▉▊▋▌▍▎▏░▒▓■□▰▱━╸╺─\s]{4,}[\]|)>]"
    r"|[█▉▊▋▌▍▎▏░▒▓■□▰▱━╸╺]{3,}|\.{8,}(?:\s\.{8,})*|\#{5,})(?!\S)"
)
_MEASURE = re.compile(
    rf"""(?P<bar>{_BAR})
    |(?<![\w.,/-])(?:
      (?P<percent>\d+(?:[.,]\d+)?)\s?%
      |\[?\(?\s?(?P<done>\d[\d.,]*)\s?(?P<unit>[kKMGT]?i?[bB]?)\s?(?:/|\sof\s)\s?
        (?P<total>\d[\d.,]*\s?[kKMGT]?i?[bB]?)\s?\)?\]?
      |\d[\d.,]*\s?(?:[kKMGT]i?)?(?:[bB](?:ytes?|it)?|it|files?|objects?)\s?(?:/\s?|p)s(?:ec)?
      |(?P<size>\d[\d.,]*)(?P<of>\s?(?:[kKMGT]i?)?[bB](?:ytes?|it)?|[KMGT])
      |[\d-]+:[\d-]{{2}}(?::[\d-]{{2}})?(?:\.\d+)?
      |\d+(?:\.\d+)?\s?(?:ms|s|sec|secs|seconds?|m|min|mins|h)
    )(?![\w/])
    |(?<!\S)(?P<spinner>[⠀-⣿◐◓◑◒◴◷◶◵|/\\-])(?!\S)""",
    re.VERBOSE,
)
"""What a progress line measures: bars, percentages, counts to a total, sizes, speeds, times, spinners."""

_BETWEEN = re.compile(
    r"(?:[\s\0.,;:|()\[\]<~@…-]|\b(?:eta|ets|elapsed|remaining|left|of|at|in|complete|completed|speed|avg|building"
    r"|objects|files|modules|chunks|packages|bytes|crates|executing|configuring)\b)*",
    re.IGNORECASE,
)
"""What may stand between and behind measures. Anything else tells more than how far something has come."""

_ACTION = re.compile(
    r"[\s<>(*#.\d\[\]\w:-]{0,24}?\b(?:downloading|downloaded|uploading|uploaded|fetching|receiving|resolving"
    r"|compressing|counting|enumerating|writing|unpacking|extracting|installing|updating|copying|transferring|transferred|syncing"
    r"|pulling|pushing|cloning|checking out|building|compiling|linking|bundling|transforming"
    r"|rendering|generating|indexing|scanning|loading|reading|processing|progress|preparing|caching|filtering|rewriting"
    r"|converting|encoding|decoding|collecting|optimizing|minifying)\b",
    re.IGNORECASE,
)
_TARGET = r"(?<!\S)[\w@+~-]*(?:[./][\w@+~-]+)+(?!\S)"
_COUNTS = re.compile(r"\d\s?(?:%|/|of\b|[kKMGT]|[bB])|\.{8}|[0-9a-f]{12}:|\d:\d\d")
"""What every line of progress has."""
_STEP = re.compile(
    r"\s*(?:\[\s*(?P<done>\d+)\s?/\s?(?P<total>\d+)\s*\]|\[\s*(?P<percent>\d+)%\s*\]|\((?P<done2>\d+)/(?P<total2>\d+)\))"
    r"\s+(?P<what>(?:re)?(?:building|compiling|linking|generating|assembling|archiving|cc|cxx|ld|ar)"
    r"(?:\s(?:c|cxx|c\+\+|cuda|fortran|asm|objc|swift|object|static|shared|library|executable|module|target"
    rf"|source|file|header))*\s+{_TARGET}(?:\s+(?:-\S+|->|{_TARGET}))*)\s*",
    re.IGNORECASE,
)
"""A step of a build: its number and what is built."""

_LAYER = re.compile(
    r"(?:[0-9a-f]{12}: (?:Pulling fs layer|Waiting|Downloading|Verifying Checksum|Download complete"
    r"|Extracting|Pull complete|Preparing|Pushing|Pushed|Already exists|Layer already exists)"
    rf"|\#\d+ (?:extracting )?sha256:[0-9a-f]{{64}})(?:{_BAR}|{_SIZE}|[\d.]+s|[\s/]|done)*"
)
_DOTS = re.compile(r"\s*\.{8,}")
_CURL = re.compile(
    r"\s*\d+\s+[\d.]+[kMGT]?(?:\s+\d+\s+[\d.]+[kMGT]?){2}(?:\s+[\d.]+[kMGT]?){2}(?:\s+[\d:-]{7,}){3}\s+\S+"
)

_ENCODED = re.compile(
    r"(?P<sure>(?:(?<=;base64,)|(?<=\"mappings\":\")|(?<=\"mappings\": \"))[\w+/,;]{4000,}={0,2})"
    r"|(?<![\w+/\\-])[\w+/\\-]{4000,}={0,2}",
    re.ASCII,
)
_ENCODED_LINE = re.compile(r"[A-Za-z0-9+/]{1,76}={0,2}")
_WRAPPED = (60, 76)
_ARMOURED = (64, 76)
"""The widths of encoded lines; the second below a line that announces them."""
_LEAST_ENCODED = 4000
"""In characters. What is shorter may be a key, or something to decode."""
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_LEAST_SHARE = 0.08
"""Of each kind of character in encoded data; twice that of digits, and no more than that of marks."""
_LOWER = re.compile(r"[a-z]+")
_LONGEST_RUN = 2.5
"""Of small letters, on average: those of words are longer."""

_LONGEST_BLOCK = 40
_LEAST_REPEATS = 5
"""Fewer repeats stay: code and lists have some."""
_LEAST_SAVED = 100
"""What a note about repeated lines has to save, in characters."""


class _Note(str):
    """A line of ours, about what was left out."""

    __slots__ = ()


def tells_of_failure(line: str) -> bool:
    """Whether a line may tell of a failure, or of something left undone. In doubt it does."""
    return _FAILURE.search(line) is not None


def without_noise(text: str) -> str | None:
    """The output of a command without what is proven to be noise; None where nothing is.

    Noise is progress, what a terminal overwrote, lines and blocks that repeat those just above, and encoded
    data. A line in brackets says what is left out and how much; all else stays verbatim and in order. A line
    that may tell of failure is left out only where it repeats one that stays. Of the last `KEPT_AT_END`
    lines only encoded data and what was overwritten is left out.
    """
    rows = text.split("\n")
    if "\x1b[" in text:
        rows = _without_overwritten(rows)
    if "\r" in text:
        rows = [_without_redraws(row) for row in rows]
    rows = _without_repeats(_without_progress(_without_encoded(rows)))
    left = "\n".join(rows)
    return left if len(left) < len(text) else None


# ---- what a terminal overwrote

_HEAD = re.compile(r"(?:\x1b\[[0-?]*[ -/]*[@-~]|\r)+")
_UP = re.compile(r"\x1b\[(\d*)[AF]")
_ERASED_AT_START = re.compile(r"(?:\x1b\[[\d;?]*[A-Za-z])*?\x1b\[[02]?K")
_ERASED_AT_END = re.compile(r"\x1b\[2K(?:\x1b\[[\d;?]*[A-Za-z])*$")


def _visible(row: str) -> str:
    return _ANSI.sub("", row)


def _without_overwritten(rows: list[str]) -> list[str]:
    """Without the lines to which the cursor went back, to erase them or to write others over them."""
    screen: list[int] = []
    gone: set[int] = set()
    line = 0
    for index, row in enumerate(rows):
        head = _HEAD.match(row)
        codes = head[0] if head else ""
        up = sum(int(count or 1) for count in _UP.findall(codes))
        line = max(0, line - up)
        if up and ("\x1b[J" in codes or "\x1b[0J" in codes or codes.count("\x1b[2K") >= up):
            gone.update(screen[line:])
            del screen[line:]
        elif line < len(screen):
            new, old = _visible(row), _visible(rows[screen[line]])
            if "K" in codes or len(new) >= len(old.rstrip()):
                gone.add(screen[line])
        screen[line : line + 1] = [index]
        line += 1
    gone = {index for index in gone if not tells_of_failure(_visible(rows[index]))}
    return _left_out(rows, gone, "line that was overwritten", "lines that were overwritten")


def _without_redraws(row: str) -> str:
    """A line without the states over which it was drawn again."""
    body = row.rstrip("\r")
    if "\r" not in body:
        return row
    drawn = body.split("\r")
    kept = [drawn[-1]]
    for old, new in zip(reversed(drawn[:-1]), reversed(drawn[1:]), strict=True):
        if not _redrawn(old, new):
            kept.append(old)
    count = len(drawn) - len(kept)
    states = "state" if count == 1 else "states"
    note = f"[{count:,} earlier {states} of the line below left out]\n"
    left = note + "\r".join(reversed(kept)) + row[len(body) :]
    return _Note(left) if len(left) < len(row) else row


def _redrawn(old: str, new: str) -> bool:
    """Whether nothing is lost with what stood there before."""
    seen, after = _visible(old), _visible(new)
    if tells_of_failure(seen):
        return False
    if _ERASED_AT_START.match(new) or _ERASED_AT_END.search(old) or after.startswith(seen.rstrip()):
        return True
    counts = any(one.lastgroup for one in _MEASURE.finditer(seen))
    return counts and _form(seen) == _form(after)


def _form(line: str) -> str:
    return " ".join(_MEASURE.sub("\0", line).split())


# ---- encoded data


def _without_encoded(rows: list[str]) -> list[str]:
    """With encoded data replaced: within a line, or where it fills lines of equal width."""
    made: list[str] = []
    at = 0
    while at < len(rows):
        end = _encoded_to(rows, at)
        if end > at:
            made.append(_Note(_encoded_note(sum(map(len, rows[at:end])))))
            at = end
            continue
        row = rows[at]
        if len(row) >= _LEAST_ENCODED:
            row = _ENCODED.sub(_encoded_in, row)
        made.append(row)
        at += 1
    return made


def _encoded_note(characters: int) -> str:
    return f"[encoded data, {characters:,} characters, left out]"


def _encoded_in(match: re.Match[str]) -> str:
    found = match[0]
    return _encoded_note(len(found)) if match["sure"] or _is_encoded(found) else found


def _encoded_to(rows: list[str], at: int) -> int:
    """The end of the encoded lines that start here; `at` where none do.

    Lines of a width that hashes have are a list of hashes, unless something above them says otherwise.
    """
    width = len(rows[at])
    armoured = at > 0 and rows[at - 1].startswith("-----BEGIN ")
    if width not in (_ARMOURED if armoured else _WRAPPED):
        return at
    end = at
    while end < len(rows) and len(rows[end]) == width and _ENCODED_LINE.fullmatch(rows[end]):
        end += 1
    if end < len(rows) and 0 < len(rows[end]) < width and _ENCODED_LINE.fullmatch(rows[end]):
        end += 1
    joined = "".join(rows[at:end])
    return end if len(joined) >= _LEAST_ENCODED and _is_encoded(joined) else at


def _is_encoded(text: str) -> bool:
    """Whether a run without spaces is base64 or hexadecimal, by the characters in it: no words, no path."""
    text = text.replace("\\n", "").replace("\\r", "").replace("\\/", "/").rstrip("=")
    size = len(text)
    if not size:
        return False
    digits = sum(map(str.isdigit, text)) / size
    if _HEX.fullmatch(text):
        return _LEAST_SHARE < digits < 1 - _LEAST_SHARE
    lower, upper = sum(map(str.islower, text)) / size, sum(map(str.isupper, text)) / size
    runs = sum(1 for _ in _LOWER.finditer(text)) / size
    return (
        min(lower, upper, digits * 2) > _LEAST_SHARE
        and 1 - digits - lower - upper < _LEAST_SHARE
        and lower < _LONGEST_RUN * runs
    )


# ---- progress


class _Step(NamedTuple):
    """What a line of progress counts, and how far it has come."""

    what: str
    done: float


def _without_progress(rows: list[str]) -> list[str]:
    """Without the lines of progress between the first and the last of each count."""
    counts: dict[str, list[int]] = {}
    last: dict[str, float] = {}
    gone: set[int] = set()

    def close(what: str) -> None:
        indices = counts.pop(what, [])
        if len(indices) >= _LEAST_PROGRESS:
            gone.update(indices[1:-1])

    for index, row in enumerate(rows[:-KEPT_AT_END]):
        step = None if isinstance(row, _Note) else _progress(row)
        if step is None:
            continue
        if step.done < last.get(step.what, 0.0):
            close(step.what)
        last[step.what] = step.done
        counts.setdefault(step.what, []).append(index)
    for what in list(counts):
        close(what)
    return _left_out(rows, gone, "progress line", "progress lines")


def _left_out(rows: list[str], gone: set[int], one: str, more: str) -> list[str]:
    """The rows without some, and a note where these were."""
    made: list[str] = []
    for missing, group in groupby(range(len(rows)), key=gone.__contains__):
        indices = list(group)
        if missing:
            made.append(_Note(f"[{len(indices):,} {one if len(indices) == 1 else more} left out]"))
        else:
            made += [rows[index] for index in indices]
    return made


def _progress(row: str) -> _Step | None:
    """What a line counts, where it is progress and nothing else."""
    if len(row) > _LONGEST_PROGRESS or not _COUNTS.search(row):
        return None
    line = _visible(row).rstrip()
    step = _step(line)
    return None if step is None or tells_of_failure(line) else step


def _step(line: str) -> _Step | None:
    if _LAYER.fullmatch(line):
        return _Step("layers", 0.0)
    if _CURL.fullmatch(line):
        return _Step("curl", 0.0)
    step = _STEP.fullmatch(line)
    return _build_step(step) if step else _measured(line)


def _build_step(step: re.Match[str]) -> _Step:
    what = re.sub(_TARGET, "\0", step["what"])
    total = step["total"] or step["total2"] or "%"
    done = step["done"] or step["done2"] or step["percent"]
    return _Step(f"{total} {what}", float(done))


def _measured(line: str) -> _Step | None:
    """A line that says of one thing how far it has come, in a known way."""
    found = list(_MEASURE.finditer(line))
    if not found:
        return None
    start = found[0].start()
    if not _BETWEEN.fullmatch(_MEASURE.sub("\0", line[start:])):
        return None
    label = " ".join(line[:start].split())
    bars, percents, counts, sizes = (
        [one for one in found if one[name]] for name in ("bar", "percent", "done", "size")
    )
    if max(len(bars), len(percents), len(counts)) > 1 or not (bars or _ACTION.match(label)):
        return None
    if counts:
        label += f" {counts[0]['total'].strip()}"
    if percents:
        done = _amount(percents[0]["percent"])
    elif counts:
        done = _amount(counts[0]["done"], counts[0]["unit"])
    elif sizes:
        done = _amount(sizes[0]["size"], sizes[0]["of"] or "")
    else:
        return _Step("dots", 0.0) if _DOTS.fullmatch(line) else None
    return _Step(label, done)


def _amount(number: str, unit: str = "") -> float:
    return float(number.replace(",", "").rstrip(".") or 0) * 1000 ** " KMGT".find(unit[:1].upper() or " ")


# ---- repeats


def _without_repeats(rows: list[str]) -> list[str]:
    """Without lines and blocks that repeat those just above."""
    seen: dict[str, int] = {}
    names = [
        -index - 1 if isinstance(row, _Note) else seen.setdefault(row, index)
        for index, row in enumerate(rows)
    ]
    following = _following(names)
    made: list[str] = []
    at, end = 0, len(rows) - KEPT_AT_END
    while at < len(rows):
        block, times = _repeated(rows, names, following, at, end)
        made += rows[at : at + block]
        if times:
            lines = "line above repeats" if block == 1 else f"{block} lines above repeat"
            made.append(_Note(f"[the {lines} {times:,} times more]"))
        at += block * (times + 1)
    return made


def _following(names: list[int]) -> list[int]:
    """For each line where the same line comes next; 0 where it does not."""
    following = [0] * len(names)
    latest: dict[int, int] = {}
    for index in range(len(names) - 1, -1, -1):
        following[index] = latest.get(names[index], 0)
        latest[names[index]] = index
    return following


def _repeated(rows: list[str], names: list[int], following: list[int], at: int, end: int) -> tuple[int, int]:
    """The length of the block that starts here, and how often it repeats up to `end`."""
    again = following[at]
    while again and again - at <= _LONGEST_BLOCK:
        block = again - at
        unit = names[at:again]
        times = 0
        while again + block <= end and names[again : again + block] == unit:
            times += 1
            again += block
        if (
            times >= _LEAST_REPEATS
            and times * sum(len(row) + 1 for row in rows[at : at + block]) >= _LEAST_SAVED
        ):
            return block, times
        again = following[at + block]
    return 1, 0
