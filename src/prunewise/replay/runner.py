"""Runs a question over many files: in this process, in several, or on a Dask cluster.

The rows are the same wherever and in whatever order they are found. One bad file costs a row, and so does
one that brings down the process that replays it. Memory does not grow with the number of files: rows are
handed on as they come, and kept in the journal.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import active_children, connection, get_context, parent_process
from pathlib import Path
from typing import Any, Protocol

import msgspec

from prunewise import __version__, shell
from prunewise.errors import InputError
from prunewise.prices import PriceBook, Prices
from prunewise.replay import corpus, policies
from prunewise.replay.corpus import Selection, Source, load, project_of
from prunewise.replay.journal import Done, Journal, decode, encode
from prunewise.replay.results import ErrorRow, Row, SessionRow
from prunewise.replay.session import Question, replay
from prunewise.settings import Settings
from prunewise.stores.settings_files import load_file

_CHUNK_BYTES = 4 * 2**20
_CHUNK_FILES = 100
_CHUNKS_A_WORKER = 4
"""How many chunks each worker gets at least, as far as there are files: so that all end at about one time."""
_AHEAD = 2
"""How many chunks a worker is ahead, so that it need not wait for the next one."""
_PATIENCE_SECONDS = 10
"""How long a scheduler has to answer."""
_DIED = "the process that replayed it died: perhaps there was not enough memory"

Chunk = tuple[Source, ...]


class Choice(msgspec.Struct, frozen=True):
    """A policy, as it can be sent to another process: by its name, or by its settings."""

    name: str
    settings: Settings | None = None

    def policy(self) -> policies.Policy:
        """The policy."""
        if self.settings is None:
            return policies.named(self.name)
        return policies.of_settings(self.name, self.settings, f"the settings of {self.name}")


class Inquiry(msgspec.Struct, frozen=True):
    """What to find out about which sessions: plain values, the same in any process."""

    policies: tuple[Choice, ...] = ()
    with_optimal: bool = False
    with_ceiling: bool = False
    with_loss: bool = True
    with_timeline: bool = False
    prices: PriceBook = PriceBook()
    window: int = 200_000
    """The context window where the model's is not known, in tokens."""
    reserve: int = 16_384
    format: str | None = None
    compaction: bool = True
    selection: Selection = Selection()

    def question(self) -> Question:
        """What to ask about each session."""
        return Question(
            tuple(choice.policy() for choice in self.policies),
            with_optimal=self.with_optimal,
            with_ceiling=self.with_ceiling,
            with_loss=self.with_loss,
            with_timeline=self.with_timeline,
            prices=_Book(self.prices),
            window=self.window,
            reserve=self.reserve,
        )

    def digest(self) -> str:
        """What tells this question, asked of this version, from every other."""
        asked = msgspec.json.encode([__version__, _prices_version(), shell.problem() is None, self])
        return blake2b(asked, digest_size=10).hexdigest()


class Progress(Protocol):
    """Who is told how far a run is."""

    def begin(self, files: int, size: int, workers: int) -> None:
        """There are so many files to replay, of so many bytes, by so many processes."""
        ...

    def step(self, size: int, sessions: int, left_out: int) -> None:
        """A file of so many bytes is done: it held so many sessions, and others that were not asked for."""
        ...


def choose(name: str) -> Choice:
    """The policy of a name, or that of a settings file.

    Raises:
        InputError: there is neither.
        SettingsError: the file is not JSON.
    """
    if name in policies.POLICIES or not Path(name).is_file():
        return Choice(policies.named(name).name)
    return Choice(Path(name).name, load_file(name).settings)


def run(
    sources: Sequence[Source],
    inquiry: Inquiry,
    *,
    jobs: int = 1,
    dask: str | None = None,
    journal: Journal | None = None,
    progress: Progress | None = None,
) -> Iterator[Row]:
    """Replay files, and give their rows as they come, in no order.

    Args:
        sources: the files.
        inquiry: what to find out.
        jobs: how many processes; with one it is this one.
        dask: the address of a scheduler, or `local` for a cluster of `jobs` processes on this machine.
        journal: where rows are kept; files that it knows are not replayed again.
        progress: who is told how far it is.

    Raises:
        InputError: `dask` is given, and there is no such cluster, or no dask.
    """
    wanted = [source for source in sources if inquiry.selection.may_hold(source)]
    todo = [source for source in wanted if journal is None or source not in journal]
    chunks = _chunks(todo, jobs)
    workers = min(jobs, len(chunks))
    if progress is not None:
        progress.begin(len(todo), sum(source.size for source in todo), max(1, workers))
    if journal is not None:
        for source in wanted:
            if source in journal:
                yield from journal.done(source).rows
    if dask is not None:
        found = _on_dask(chunks, inquiry, dask, jobs)
    elif workers > 1:
        found = _in_processes(chunks, inquiry, workers)
    else:
        found = (replay_file(source, inquiry) for source in todo)
    for line in found:
        done = decode(line)
        if journal is not None:
            journal.add(done.source, line)
        if progress is not None:
            sessions = sum(isinstance(row, SessionRow) for row in done.rows)
            progress.step(done.source.size, sessions, done.left_out)
        yield from done.rows


def _chunks(sources: Sequence[Source], jobs: int) -> list[Chunk]:
    """Files put together, so that a small one costs no journey of its own; the largest files first."""
    most = min(_CHUNK_BYTES, sum(source.size for source in sources) // (_CHUNKS_A_WORKER * jobs))
    files = max(1, min(_CHUNK_FILES, len(sources) // (_CHUNKS_A_WORKER * jobs)))
    chunks: list[Chunk] = []
    chunk: list[Source] = []
    size = 0
    for source in sorted(sources, key=lambda source: (-source.size, source)):
        if chunk and (size + source.size > most or len(chunk) >= files):
            chunks.append(tuple(chunk))
            chunk, size = [], 0
        chunk.append(source)
        size += source.size
    return [*chunks, tuple(chunk)] if chunk else chunks


# ---------------------------------------------------------------- one file


def replay_chunk(chunk: Chunk, inquiry: Inquiry) -> list[bytes]:
    """What is found in some files, a line of the journal for each."""
    return [replay_file(source, inquiry) for source in chunk]


def replay_file(source: Source, inquiry: Inquiry) -> bytes:
    """What is found in one file, as a line of the journal. Whatever goes wrong is a row."""
    question = _question(inquiry)
    rows: list[Row] = []
    left_out = 0
    try:
        for recording in load(source, inquiry.format, compaction=inquiry.compaction):
            if not inquiry.selection.takes(recording, source):
                left_out += 1
                continue
            size = source.size if recording.source == source.name else 0
            try:
                rows.append(replay(recording, question, size=size, project=project_of(recording, source)))
            except Exception as error:  # noqa: BLE001 - the other sessions of the file are still to come
                rows.append(ErrorRow(recording.source, corpus.reason(error, source.name), size))
    except Exception as error:  # noqa: BLE001 - one bad file must not end the run
        rows.append(ErrorRow(source.name, corpus.reason(error, source.name), source.size))
    return _line(Done(source, tuple(rows), left_out))


def _line(done: Done) -> bytes:
    """The line, read once, since JSON knows no infinite number."""
    line = encode(done)
    try:
        decode(line)
    except msgspec.MsgspecError as error:
        row = ErrorRow(done.source.name, f"a figure that is no number: {error}", done.source.size)
        return encode(Done(done.source, (row,), done.left_out))
    return line


@lru_cache(maxsize=1)
def _question(inquiry: Inquiry) -> Question:
    return inquiry.question()


class _Book:
    """A price book that looks a model up once a day of its calls, for all sessions of this process."""

    def __init__(self, prices: PriceBook) -> None:
        self._prices = prices
        self._known: dict[tuple[str, str, int | None], Prices] = {}

    def prices_for(self, model: str, provider: str = "", when: float | None = None) -> Prices:
        """What a model costs."""
        key = (model, provider, None if when is None else int(when // 86400))
        if key not in self._known:
            self._known[key] = self._prices.prices_for(model, provider, when)
        return self._known[key]


def _prices_version() -> str:
    try:
        return version("genai-prices")
    except PackageNotFoundError:
        return ""


# ---------------------------------------------------------------- processes


def _in_processes(chunks: Iterable[Chunk], inquiry: Inquiry, workers: int) -> Iterator[bytes]:
    """Replay in several processes. Where one dies, the files it may have died of are tried alone."""
    waiting = deque(chunks)
    suspects: deque[Chunk] = deque()
    while waiting:
        lost = yield from _work(waiting, inquiry, workers)
        suspects.extend((source,) for chunk in lost for source in chunk)
    while suspects:
        lost = yield from _work(suspects, inquiry, 1)
        yield from (_died(source) for chunk in lost for source in chunk)


def _died(source: Source) -> bytes:
    return encode(Done(source, (ErrorRow(source.name, _DIED, source.size),)))


def _work(waiting: deque[Chunk], inquiry: Inquiry, workers: int) -> Generator[bytes, None, list[Chunk]]:
    """Work off the queue until it is empty or a process dies; gives what was being worked on then."""
    ahead = 1 if workers == 1 else _AHEAD * workers
    running: dict[Future[list[bytes]], Chunk] = {}
    with _pool(workers) as pool:
        while waiting or running:
            try:
                while waiting and len(running) < ahead:
                    running[pool.submit(replay_chunk, waiting[0], inquiry)] = waiting[0]
                    waiting.popleft()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    lines = future.result()
                    del running[future]
                    yield from lines
            except BrokenProcessPool:
                return list(running.values())
    return []


@contextmanager
def _pool(workers: int) -> Generator[ProcessPoolExecutor]:
    """Processes that end with the block; at once where it is left by an error or an interrupt."""
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin_worker)
    try:
        yield pool
    except BaseException:
        children = set(active_children()) - others
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.terminate()
        raise
    pool.shutdown()


def _begin_worker() -> None:
    """A worker leaves interrupts to its parent, and ends with it, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: Any) -> None:
    connection.wait([sentinel])
    os._exit(1)


# ---------------------------------------------------------------- Dask


def _on_dask(chunks: list[Chunk], inquiry: Inquiry, address: str, jobs: int) -> Iterator[bytes]:
    """Replay on a Dask cluster, whose workers have to reach the same files."""
    try:
        import distributed
    except ImportError:
        message = "--dask needs its extra: pip install 'prunewise[dask]'"
        raise InputError(message) from None
    with _client(distributed, address, jobs) as client:
        waiting = deque(chunks)
        running: dict[Any, Chunk] = {}
        finished: Any = distributed.as_completed()
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        while waiting or running:
            while waiting and len(running) < _AHEAD * max(1, workers):
                future = client.submit(replay_chunk, waiting[0], inquiry, pure=False)
                running[future] = waiting.popleft()
                finished.add(future)
            future = next(finished)
            chunk = running.pop(future)
            try:
                yield from future.result()
            except distributed.KilledWorker:
                yield from map(_died, chunk)
            future.release()


@contextmanager
def _client(distributed: Any, address: str, jobs: int) -> Generator[Any]:
    logging.getLogger("distributed").setLevel(logging.ERROR)
    try:
        if address == "local":
            cluster = distributed.LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any port: the usual one may be taken
                silence_logs=logging.CRITICAL,
            )
        else:
            cluster = None
        client = distributed.Client(cluster or address, timeout=_PATIENCE_SECONDS)
    except (OSError, ValueError) as error:
        message = f"{address}: no Dask cluster: {corpus.reason(error, address)}"
        raise InputError(message) from error
    try:
        yield client
    finally:
        client.close()
        if cluster is not None:
            cluster.close()
