"""Every relative link of README.md, CONTRIBUTING.md, CHANGELOG.md and docs/ leads somewhere.

An anchor has to work both on the site and where the repository is browsed: the two make their ids alike
but for a few signs, which a heading that is linked to has to do without.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown.extensions.toc import slugify, unique

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(
    r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)|<(?:img|a|source)\b[^>]*?\b(?:src|srcset|href)=\"([^\"]+)\"",
    re.MULTILINE,
)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def links(text: str) -> list[str]:
    prose = CODE.sub("`code`", FENCE.sub("", text))
    return [next(filter(None, found.groups())) for found in LINK.finditer(prose)]


def anchors(text: str) -> set[str]:
    """The ids of a page's headings that are the same on the site and in the repository."""
    on_site: set[str] = set()
    in_repository: set[str] = set()
    titles = [
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(FENCE.sub("", text))
    ]
    for title in titles:
        plain = title.replace("`", "").replace("*", "")
        unique(slugify(plain, "-"), on_site)
        unique(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"), in_repository)
    return on_site & in_repository


def problems(page: Path, root: Path) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not target.exists() or not target.is_relative_to(root):
            yield f"{link}: there is no such file"
        elif parts.fragment and parts.fragment not in anchors(target.read_text(encoding="utf-8")):
            yield f"{link}: the page has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path):
    assert list(problems(page, ROOT)) == []


def test_the_readme_has_links_and_a_picture():
    found = links((ROOT / "README.md").read_text(encoding="utf-8"))
    assert any(link.endswith(".svg") for link in found)
    assert any(link.startswith("docs/how-to/") for link in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a](there.md) and ![b](there.md#one-heading)", 0),
        ("[a](https://example.org/no.md), `[a](no.md)`", 0),
        ("```\n[a](no.md)\n```", 0),
        ("[a](#here)\n\n## Here", 0),
        ("[a](no.md)", 1),
        ("[a](there.md#another)", 1),
        ("[a](#nowhere)", 1),
        ("[a](../../outside.md)", 1),
        ('<img src="no.svg" alt="x">', 1),
        ("[a]: no.md", 1),
    ],
)
def test_what_counts_as_a_broken_link(tmp_path: Path, text: str, said: int):
    (tmp_path / "there.md").write_text("# One heading\n")
    (tmp_path / "page.md").write_text(text)
    assert len(list(problems(tmp_path / "page.md", tmp_path))) == said


# ---------------------------------------------------------------- the README


def test_the_first_command_of_the_readme_is_on_its_first_screen():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert next(number for number, line in enumerate(lines, 1) if line.startswith("```")) <= 25
