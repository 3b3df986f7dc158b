from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.pi.support import Talk


@pytest.fixture(autouse=True)
def agent_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pi's agent folder, of this test's own."""
    folder = tmp_path / "agent"
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def talk(tmp_path: Path) -> Callable[..., Talk]:
    """A session with its file, and an engine that has been greeted."""

    def make(**greeting: Any) -> Talk:
        return Talk(tmp_path, **greeting)

    return make
