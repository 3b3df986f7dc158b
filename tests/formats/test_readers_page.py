"""Each record and field that the tables of docs/explanation/readers.md name is tested."""

import re
from pathlib import Path

import pytest

SECTIONS = {
    "Claude Code": "claude_code",
    "Codex": "codex",
    "Copilot CLI": "copilot",
    "Qwen Code": "qwen",
    "opencode": "opencode",
    "Gemini CLI": "gemini_cli",
    "pi": "pi_recording",
}
ELSEWHERE = {"pi_recording": ("pi", "pi_usage"), "codex": ("openai_responses",), "gemini_cli": ("gemini",)}
"""The tests of what a reader leaves to others."""
STORES = (
    "stores/test_pi_session.py",
    "stores/test_pi_entries.py",
    "replay/test_copies.py",
    "formats/wire.py",
)


def rows(root: Path, section: str) -> list[str]:
    """The first cells of a section's tables."""
    page = (root / "docs" / "explanation" / "readers.md").read_text(encoding="utf-8")
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    return [cell for cell in cells if cell and not set(cell) <= set("-: ")][1:]


@pytest.mark.parametrize("section", SECTIONS)
def test_each_record_and_field_of_the_page_is_tested(root: Path, section: str):
    module = SECTIONS[section]
    files = [f"formats/test_{name}.py" for name in (module, *ELSEWHERE.get(module, ()))]
    files += STORES if module == "pi_recording" else ()
    tests = "".join((root / "tests" / file).read_text() for file in files if (root / "tests" / file).exists())
    named = [name for cell in rows(root, section) for name in re.findall(r"`([^`]+)`", cell)]
    assert len(named) > 5
    missing = [name for name in named if not all(word in tests for word in re.findall(r"[\w$]+", name))]
    assert not missing
