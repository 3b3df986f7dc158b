import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.model_server import ModelServer
from tests.e2e.pi_agent import NODE, PI, Pi


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def pi(tmp_path: Path, model: ModelServer) -> Pi:
    """pi with the extension installed."""
    if not PI.exists() or not os.access(NODE, os.X_OK):
        pytest.skip(f"needs pi: `make test` installs it ({PI} is missing)")
    agent = Pi(tmp_path, model.port)
    agent.install()
    return agent
