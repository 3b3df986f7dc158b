"""The picture of a report is what the program shows today, and shows without a network."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

for needed in ("rich", "numpy"):
    pytest.importorskip(needed)


@pytest.fixture(scope="module")
def capture(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("capture_report", root / "docs" / "capture_report.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_picture_is_what_the_program_shows(capture: ModuleType):
    assert capture.PICTURE.read_text(encoding="utf-8") == capture.picture(), (
        "run: python docs/capture_report.py"
    )


def test_the_picture_needs_no_network(capture: ModuleType):
    addresses = re.findall(r"\w+://[^\"'\s)]*", capture.PICTURE.read_text(encoding="utf-8"))
    assert set(addresses) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in capture.PICTURE.read_text(encoding="utf-8")
