"""Where stores can be: each kind of store under one name, opened anew as another process would."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores import servers

from prunewise.stores import Store
from prunewise.stores.memory import Memory
from prunewise.stores.open import open_store

KINDS = ("memory", "file", "sqlite", "postgres")
_numbers = itertools.count()


class Place:
    """A place for conversations, empty at first."""

    def __init__(self, kind: str, url: str = "") -> None:
        self.kind, self.url = kind, url
        self._memory: dict[str, Memory] = {}
        self._opened: list[Any] = []

    def open(self, conversation: str = "c") -> Store:
        """The store of a conversation, as another process finds it."""
        if self.kind == "memory":
            return self._memory.setdefault(conversation, Memory(conversation))
        store = open_store(self.url, conversation)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Close what was opened."""
        for store in self._opened:
            with contextlib.suppress(AttributeError):  # a file is closed already
                store.database.close()
        self._opened.clear()


@contextlib.contextmanager
def schema(server: str) -> Iterator[str]:
    """The URL of an empty schema on a server."""
    import psycopg

    name = f"s{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    yield f"{server}&options=-csearch_path%3D{name}"


@contextlib.contextmanager
def place(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    """An empty place of one kind."""
    with contextlib.ExitStack() as stack:
        url = {"file": f"file:{folder}/talks/", "sqlite": f"sqlite:{folder}/all.db"}.get(kind, "")
        if kind == "postgres":
            url = stack.enter_context(schema(request.getfixturevalue("postgres_server")))
        found = Place(kind, url)
        stack.callback(found.close)
        yield found


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A server for this run of the tests."""
    why = servers.missing()
    if why is not None:
        pytest.skip(why)
    with servers.postgres() as url:
        yield url
