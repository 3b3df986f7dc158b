"""Prunes a conversation over and over, killed at one point of writing after another.

Run as a program: `killed.py URL FOLDER HISTORY`. In `URL`, `{n}` is the number of the run, which is the
conversation too. Each run is a process of its own: it kills itself at its n-th point, and what it has
sent until then lies in `FOLDER/n`. Prints the number of the first run that came to its end.
"""

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from prunewise import Policy, Pruner, markers
from prunewise.stores.open import open_store

SETTINGS: dict[str, Any] = {
    "protections": {"recentTurns": 0},
    "thresholds": {"minCharsSaved": 0},
    "gate": {"mode": "off"},
    "strategies": {"errorPurge": {"minTurnsOld": 0}},
    "pruning": {"minResultTokens": 60},
}
WINDOW, RESERVE = 1_500, 100
MOST = 2_000


class Points:
    """Counts the points at which a process may die, and dies at one of them."""

    def __init__(self, last: int) -> None:
        self.left = last

    def reach(self) -> None:
        """One of them."""
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, with a point before it and one behind."""

        def called(*arguments: Any, **more: Any) -> Any:
            self.reach()
            result = call(*arguments, **more)
            self.reach()
            return result

        return called


def watch(points: Points) -> None:
    """Have every write pass by a point: of a file, in the midst of it too."""
    write, connect = os.write, sqlite3.connect

    def torn(file: int, data: Any) -> int:
        points.reach()
        done = write(file, data[: len(data) // 2])
        points.reach()
        done += write(file, data[len(data) // 2 :])
        points.reach()
        return done

    def started(statement: str) -> None:
        if not statement.startswith("SELECT"):
            points.reach()

    def traced(*arguments: Any, **more: Any) -> Any:
        connection = connect(*arguments, **more)
        connection.set_trace_callback(started)
        return connection

    execute, commit = psycopg.Connection.execute, psycopg.Connection.commit
    writing: set[int] = set()

    def executed(connection: Any, statement: Any, *more: Any, **options: Any) -> Any:
        if statement and not statement.startswith("SELECT"):
            writing.add(id(connection))
            points.reach()
        return execute(connection, statement, *more, **options)

    def committed(connection: Any) -> None:
        if id(connection) in writing:
            points.around(commit)(connection)
            writing.discard(id(connection))
        else:
            commit(connection)

    os.write, os.fsync, sqlite3.connect = torn, points.around(os.fsync), traced  # pyright: ignore[reportAttributeAccessIssue]
    psycopg.Connection.execute = executed  # pyright: ignore[reportAttributeAccessIssue]
    psycopg.Connection.commit = committed  # pyright: ignore[reportAttributeAccessIssue]


def sent(pruner: Pruner, history: list[Any], end: int) -> tuple[Any, list[Any]]:
    """What goes out of the first messages, and the markers in it: position, part, kind and reference."""
    done = pruner.project(history[:end], now=float(end), window=WINDOW, reserve=RESERVE)
    assert done.error is None, done.error
    return done.request, [
        [edit.position, edit.part, edit.kind, markers.reference_in(edit.text)] for edit in done.edits
    ]


def run(url: str, name: str, history: list[Any], log: int, points: Points) -> None:
    """One conversation, request by request."""
    write = os.write
    watch(points)
    pruner = Pruner("pi", Policy(SETTINGS), open_store(url, name), cwd="/w")
    for end in range(1, len(history) + 1):
        request, edits = sent(pruner, history, end)
        line = {"end": end, "request": request, "edits": edits, "entries": len(pruner.store.ledger())}
        write(log, json.dumps(line).encode() + b"\n")


def main(url: str, folder: str, history: str) -> None:
    """Run until one run comes to its end."""
    messages = json.loads(Path(history).read_bytes())
    for number in range(1, MOST):
        child = os.fork()
        if child == 0:
            log = os.open(f"{folder}/{number}", os.O_WRONLY | os.O_CREAT, 0o600)
            run(url.replace("{n}", str(number)), f"run{number}", messages, log, Points(number))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            sys.stdout.write(str(number) if status == 0 else f"failed: {status}")
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
