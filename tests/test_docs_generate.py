"""Each page that comes from the code is what the code makes of it today."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
assert spec
assert spec.loader
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)


@pytest.mark.parametrize("page", generate.PAGES)
def test_a_committed_page_is_the_generated_one(page: str):
    committed = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert committed == generate.generated(page), "run: python docs/generate.py"
    assert "python docs/generate.py" in committed.splitlines()[0]


@pytest.mark.parametrize("page", generate.PAGES)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page: str):
    widths = set()
    for line in [*generate.generated(page).splitlines(), ""]:
        if line.startswith("|"):
            widths.add(line.count("|"))
        else:
            assert len(widths) <= 1
            widths.clear()
