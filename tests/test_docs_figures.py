"""What is said elsewhere of the replay's figures is what the pages say that hold them, rounded at most."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXPLANATION = ROOT / "docs" / "explanation"
SOURCES = (EXPLANATION / "corpus-comparison.md", EXPLANATION / "priced-policy.md")


def section(page: Path, title: str) -> str:
    found = re.search(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)",
        page.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert found, f"{page.name} has no section {title!r}"
    return found[1]


def percentages(text: str) -> list[str]:
    """Every percentage, without its sign; of a range both ends."""
    found = re.findall(r"(\d+(?:\.\d+)?)(?:%? to [+-]?(\d+(?:\.\d+)?))?%", text)
    return [number for pair in found for number in pair if number]


@pytest.mark.parametrize(
    ("page", "title"),
    [
        (ROOT / "README.md", "What it saves"),
        (EXPLANATION / "prompt-cache.md", "What the replay shows"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_every_percentage_has_a_source(page: Path, title: str):
    texts = "\n".join(source.read_text(encoding="utf-8") for source in SOURCES)
    known = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", texts)]
    said = [number for number in percentages(section(page, title)) if number != "95"]
    assert said
    for number in said:
        digits = len(number.partition(".")[2])
        assert any(round(one, digits) == float(number) for one in known), f"{number}% is on none of the pages"


def test_the_table_of_cuts_is_that_of_the_comparison():
    source = SOURCES[0].read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([\w-]+)` \| ([\d.]+) \| (\S+) \| (\S+) \|$",
        section(EXPLANATION / "prompt-cache.md", "What the replay shows"),
        re.MULTILINE,
    )
    assert len(rows) > 3
    for policy, breaks, net, suffix in rows:
        costs, losses = (
            [cell.strip() for cell in line.split("|")]
            for line in re.findall(rf"^\| `{policy}` \|.*$", source, re.MULTILINE)
        )
        assert (costs[2].strip("*"), costs[8], losses[4]) == (net, suffix, breaks)


def test_what_counts_as_a_percentage():
    assert percentages("**2.2% less**, 0.8% to 3.7%, 22% to 53% more, -1.8 to +0.5%, 10 of 12") == [
        "2.2", "0.8", "3.7", "22", "53", "1.8", "0.5",
    ]  # fmt: skip
