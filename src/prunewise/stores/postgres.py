"""PostgreSQL: for several machines. Needs `prunewise[postgres]`."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any, LiteralString, cast

import psycopg
from psycopg_pool import ConnectionPool

from prunewise.errors import PrunewiseError
from prunewise.stores.tables import Run, TableStore, migrate

_Connection = psycopg.Connection[tuple[Any, ...]]

_WAIT = 10.0
"""Seconds to wait for a connection."""


class PostgresDatabase:
    """A database on a server. One object may be used by several threads."""

    def __init__(self, url: str, *, connections: int = 4) -> None:
        """Connect, and make the tables where they are missing.

        `url` is libpq's: `postgresql://user@host/database`, or its `key=value` form. `connections` is how
        many there are at most.

        Raises:
            PrunewiseError: the database cannot be used.
        """
        with _said():
            self._pool = ConnectionPool[_Connection](
                url,
                min_size=1,
                max_size=connections,
                open=True,
                timeout=_WAIT,
                check=ConnectionPool.check_connection,
            )
        try:
            with self.writing("") as run:
                [[found]] = run("SELECT to_regclass('prunewise_version')::text")
                migrate(run, has_version=found is not None, bytes_type="BYTEA")
        except BaseException:
            self.close()
            raise

    def store(self, conversation: str) -> TableStore:
        """The store of one conversation."""
        return TableStore(self, conversation)

    @contextlib.contextmanager
    def reading(self) -> Generator[Run]:
        """One look at what is committed."""
        with _said(), self._pool.connection() as connection:
            yield _runner(connection)

    @contextlib.contextmanager
    def writing(self, conversation: str) -> Generator[Run]:
        """A transaction behind the conversation's advisory lock."""
        with _said(), self._pool.connection() as connection:
            run = _runner(connection)
            run("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", f"prunewise:{conversation}")
            yield run

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


def _runner(connection: _Connection) -> Run:
    def run(statement: str, *values: object) -> Sequence[Sequence[Any]]:
        query = cast("LiteralString", statement.replace("?", "%s"))
        cursor = connection.execute(query, values)
        return cursor.fetchall() if cursor.description is not None else ()

    return run


@contextlib.contextmanager
def _said() -> Generator[None]:
    """Say that it was the database that failed. No error of its names a password."""
    try:
        yield
    except psycopg.Error as error:
        raise PrunewiseError(f"PostgreSQL: {error}") from error
