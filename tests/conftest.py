"""What all tests share: where things lie, and how hypothesis runs."""

import os
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]
# Recorded sessions that are not part of this repository. A relative path starts at its root.
SHARED = (ROOT / os.environ.get("PRUNEWISE_SHARED", "../shared")).resolve()

hypothesis.settings.register_profile("prunewise", deadline=None)  # machines differ in speed
hypothesis.settings.register_profile("ci", deadline=None, max_examples=30)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "prunewise"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded sessions; without it the test is skipped."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the folder of recorded sessions, and {SHARED} is none")
    return SHARED
