"""The engine process: lines in, lines out. It serves one pi session until its input ends.

Each line is one JSON-RPC 2.0 request; they are answered one after another. A request that fails gets
an error, and the next one is served. Nothing else is ever written to standard output.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar, cast

import msgspec

from prunewise.errors import PrunewiseError
from prunewise.hosts.pi.commands import COMPLETIONS, Dialogs
from prunewise.hosts.pi.protocol import (
    FAILED,
    WRONG_VERSION,
    AnswerParams,
    CommandParams,
    Error,
    Hello,
    RecallParams,
    Request,
    Response,
    ViewParams,
    Welcome,
)
from prunewise.hosts.pi.session import Session, WrongVersionError

_Params = TypeVar("_Params")


def main() -> int:
    """Serve on standard input and output until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for pi, which then ends our input
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # whoever prints does not get between the lines
        serve(sys.stdin.buffer, output)
    return 0


def serve(lines: BinaryIO, output: BinaryIO) -> None:
    """Answer each line of the input, until it ends or nobody reads the answers."""
    engine = _Engine()
    for line in lines:
        if not line.strip():
            continue
        reply = engine.reply(line)
        if reply is not None:
            try:
                output.write(reply + b"\n")
                output.flush()
            except OSError:
                return
        engine.rest()


class _Engine:
    """The methods that an extension may ask for."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._dialogs: Dialogs | None = None
        self._greeted = False
        self._methods: dict[str, Callable[[Any], Any]] = {
            "hello": self._hello,
            "context": lambda raw: self._ready.context(_read(raw, ViewParams).view),
            "compaction": lambda raw: self._ready.compaction(_read(raw, ViewParams).view),
            "recall": lambda raw: self._ready.recall(_read(raw, RecallParams)),
            "command": lambda raw: self._talking.begin(_read(raw, CommandParams)),
            "answer": lambda raw: self._talking.go_on(_read(raw, AnswerParams)),
        }

    @property
    def _ready(self) -> Session:
        if self._session is None:
            raise PrunewiseError("nobody has said hello yet")
        return self._session

    @property
    def _talking(self) -> Dialogs:
        if self._dialogs is None:
            self._dialogs = Dialogs(self._ready)
        return self._dialogs

    def _hello(self, raw: Any) -> Welcome:
        self._session = Session(_read(raw, Hello))
        self._dialogs = None
        self._greeted = True
        return self._session.welcome(COMPLETIONS)

    def rest(self) -> None:
        """Do what nobody waits for: read the session after a greeting."""
        if self._greeted and self._session is not None:
            self._greeted = False
            try:
                self._session.warm()
            except Exception as error:  # noqa: BLE001 - whoever asks about the session is told
                sys.stderr.write(f"prunewise: the session cannot be read yet: {error}\n")

    def reply(self, line: bytes) -> bytes | None:
        """The answer to one line; None to a notification."""
        try:
            request, params = _request(line)
        except Exception as error:  # noqa: BLE001 - not a request, whatever it is
            return _line(Response(None, error=Error(-32700, f"not a request: {error}")))
        method = self._methods.get(request.method)
        if method is None:
            response = Response(request.id, error=Error(-32601, f"no method {request.method}"))
        else:
            response = self._call(request.id, method, params)
        return None if request.id is None else _line(response)

    def _call(self, name: int | None, method: Callable[[Any], Any], params: Any) -> Response:
        try:
            return Response(name, method(params))
        except WrongVersionError as error:
            return Response(name, error=Error(WRONG_VERSION, str(error)))
        except PrunewiseError as error:
            return Response(name, error=Error(FAILED, str(error)))
        except Exception as error:  # noqa: BLE001 - the request goes out unpruned, the next may go well
            if os.environ.get("PRUNEWISE_DEBUG"):
                import traceback

                traceback.print_exception(error)
            return Response(name, error=Error(FAILED, f"{type(error).__name__}: {error}"))


def _request(line: bytes) -> tuple[Request, Any]:
    """A line's request, and its parameters: as text, or decoded already where half a character is in them.

    Half of a pair of surrogates, which JSON may hold, only Python's decoder takes.

    Raises:
        ValueError: it is no request.
    """
    try:
        request = msgspec.json.decode(line, type=Request)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeError):
        value: Any = json.loads(line)
        params = value.pop("params", {})
        return msgspec.convert(value, Request), params
    return request, request.params


def _read(params: Any, shape: type[_Params]) -> _Params:
    """Read parameters, text or decoded."""
    if isinstance(params, dict):
        return msgspec.convert(_with_raw_entries(cast("dict[str, Any]", params)), shape)
    return msgspec.json.decode(params, type=shape)


def _with_raw_entries(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters, with entries as text where they are read as text."""
    if isinstance(params.get("view"), dict):
        return {**params, "view": _with_raw_entries(params["view"])}
    entries: list[Any] = params.get("entries") or []
    return {**params, "entries": [msgspec.Raw(json.dumps(one).encode()) for one in entries]}


def _line(response: Response) -> bytes:
    try:
        return msgspec.json.encode(response)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(response)).encode()
