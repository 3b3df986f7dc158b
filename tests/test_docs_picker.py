"""The pictures of the picker are what it shows today, and show without a network."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("textual")


@pytest.fixture(scope="module")
def made(root: Path) -> dict[Path, str]:
    """What the pictures would be now, by their paths."""
    spec = importlib.util.spec_from_file_location("capture_picker", root / "docs" / "capture_picker.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {module.ASSETS / name: svg for name, svg in module.pictures().items()}


def test_the_committed_pictures_are_what_the_picker_shows(made: dict[Path, str]):
    for path, svg in made.items():
        assert path.read_text(encoding="utf-8") == svg, f"{path.name}: run python docs/capture_picker.py"


def test_the_pictures_need_no_network(made: dict[Path, str]):
    for svg in made.values():
        assert set(re.findall(r"\w+://[^\"'\s)]*", svg)) == {"http://www.w3.org/2000/svg"}
        assert "@import" not in svg
