"""One word, one thing: the docs call things as docs/explanation/architecture.md does, and not otherwise.

Code, and what stands in backquotes, may call things as others do: it is somebody's interface.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
WORDS = ROOT / "docs" / "explanation" / "architecture.md"

RIVALS = {
    "marker": r"placeholders?|tombstones?|stubs?|breadcrumbs?",
    "LLM call": r"(?:API|model|inference|completion) calls?|LLM (?:requests?|invocations?)|round[- ]trips?"
    r"|(?:each|every|per|later|further) calls?",
    "prune": r"compress(?:es|ed|ing|ion)?(?! blocks?)|evict(?:s|ed|ing|ion)?|truncat(?:es?|ed|ing|ion)"
    r"|compact(?:s|ed|ing) (?:tool|outputs?)",
    "recall": r"retriev(?:es?|ed|ing|al)|rehydrat\w+|unfold\w*",
    "restore": r"un-?prun(?:es?|ing)|revert(?:s|ed|ing)?|roll(?:s|ed)? back",
    "masking": r"offload\w*",
    "ledger": r"decision logs?|audit (?:logs?|trails?)|state files?",
    "exchange": r"(?:tool|call)[- ](?:pairs?|result pairs?)",
    "protection": r"white-?lists?\w*|allow-?lists?\w*|exclusion lists?",
    "projection": r"snapshots?|rewritten (?:history|transcript)",
    "strategy": r"heuristics?|optimi[sz]ers?",
    "replay": r"back-?tests?\w*",
    "time": r"TTLs?",
    "cache": r"cache (?:busts?\w*|invalidations?|misses|miss)",
    "store": r"storage backends?|persistence layers?",
}
"""What else a thing of the architecture's table could be called (`time` and `cache` stand for the field's
*time to live* and *cache break*)."""

OTHERS_OF_PAGES = {
    "explanation/readers.md": r"stub|snapshots",  # what agents write into their sessions
    "explanation/comparison.md": r"compress\w*|retriev\w*|placeholders?",  # what others do, in their words
    "explanation/architecture.md": r"placeholder",  # a field of the ledger's entries
    # These say that a call is an LLM call there.
    "explanation/cost-model.md": r"(?:each|every|per|later|further) calls?",
    "explanation/priced-policy.md": r"(?:each|every|per|later|further) calls?",
}
"""Rivals that name something else on one page, below docs/."""


def prose(text: str) -> str:
    """A page's text without code, with as many lines."""
    text = re.sub(
        r"^( *)(```+).*?^\1\2\s*$",
        lambda found: "\n" * found[0].count("\n"),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    text = re.sub(r"<!--.*?-->|\]\([^)]*\)", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    return re.sub(r"`[^`]*`", lambda found: "\n" * found[0].count("\n"), text)


def found_in(text: str, allowed: str = "") -> Iterator[str]:
    for number, line in enumerate(prose(text).splitlines(), 1):
        for word, rivals in RIVALS.items():
            for found in re.finditer(rf"(?<!LLM )\b(?:{rivals})\b", line, re.IGNORECASE):
                if not (allowed and re.fullmatch(allowed, found[0], re.IGNORECASE)):
                    yield f"{number}: {found[0]!r}, for {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_thing_has_one_name(page: Path):
    allowed = OTHERS_OF_PAGES.get(
        page.relative_to(ROOT / "docs").as_posix() if "docs" in page.parts else "", ""
    )
    assert list(found_in(page.read_text(encoding="utf-8"), allowed)) == []


def test_the_table_is_of_the_architectures_words():
    words = re.findall(r"^\| ([\w ,/]+?) \|", WORDS.read_text(encoding="utf-8"), re.MULTILINE)
    known = {one for cell in words for one in re.split(r", | / ", cell)} | {"prune", "time", "cache"}
    assert set(RIVALS) <= known


@pytest.mark.parametrize(
    ("text", "rivals"),
    [
        ("A placeholder stands there, and another Tombstone.", 2),
        ("It saves on each call.", 1),
        ("It saves on each LLM call, and per tool call.", 0),
        ("`placeholder` is their name, and so is\n\n```json\nplaceholder\n```", 0),
        ("Compression blocks come later: compressed outputs.", 1),
        ("[the API](../retrieve/compress.md)", 0),
    ],
)
def test_what_counts_as_a_rival(text: str, rivals: int):
    assert len(list(found_in(text))) == rivals
