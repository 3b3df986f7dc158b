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
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
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
from prunewise.replay.copies import Answers, answers_of, copied, without
from prunewise.replay.corpus import Selection, Source, load, project_of
from prunewise.replay.journal import Copies, Done, Journal, decode, encode, name_of
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


class Task(msgspec.Struct, frozen=True, order=True):
    """A file to be replayed."""

    source: Source
    copies: tuple[Copies, ...] = ()
    """What of it other files count."""


Chunk = tuple[Task, ...]
Work = Callable[[Chunk, "Inquiry"], list[bytes]]
"""What is done with some files: lines, at least one for each."""


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
    with _workers(jobs, dask) as spread:
        tasks = _tasks(wanted, inquiry, spread)
        todo = [task for task in tasks if journal is None or not journal.knows(task.source, task.copies)]
        chunks = _chunks(todo, jobs)
        if progress is not None:
            size = sum(task.source.size for task in todo)
            progress.begin(len(todo), size, max(1, min(jobs, len(chunks))))
        if journal is not None:
            known = {task.source for task in tasks} - {task.source for task in todo}
            for source in wanted:
                if source in known:
                    yield from journal.done(source).rows
        for line in spread(chunks, inquiry, replay_chunk):
            done = decode(line)
            if journal is not None:
                journal.add(done.source, done.copies, line)
            if progress is not None:
                sessions = sum(isinstance(row, SessionRow) for row in done.rows)
                progress.step(done.source.size, sessions, done.left_out)
            yield from done.rows


def _chunks(tasks: Sequence[Task], jobs: int) -> list[Chunk]:
    """Files put together, so that a small one costs no journey of its own; the largest files first."""
    most = min(_CHUNK_BYTES, sum(task.source.size for task in tasks) // (_CHUNKS_A_WORKER * jobs))
    files = max(1, min(_CHUNK_FILES, len(tasks) // (_CHUNKS_A_WORKER * jobs)))
    chunks: list[Chunk] = []
    chunk: list[Task] = []
    size = 0
    for task in sorted(tasks, key=lambda task: (-task.source.size, task)):
        if chunk and (size + task.source.size > most or len(chunk) >= files):
            chunks.append(tuple(chunk))
            chunk, size = [], 0
        chunk.append(task)
        size += task.source.size
    return [*chunks, tuple(chunk)] if chunk else chunks


# ---------------------------------------------------------------- what several files hold


class _Surveyed(msgspec.Struct, frozen=True):
    """The answers in one file."""

    source: str
    sessions: tuple[Answers, ...]


_decode_surveyed = msgspec.json.Decoder(_Surveyed).decode


def _tasks(sources: Sequence[Source], inquiry: Inquiry, spread: _Spread) -> list[Task]:
    """The files, each with the calls in it that another one counts."""
    tasks = [Task(source) for source in sources]
    named: list[tuple[tuple[str, str], Answers]] = []
    for line in spread(_chunks(tasks, spread.jobs), inquiry, survey_chunk):
        with suppress(msgspec.MsgspecError):  # what a process that died leaves
            surveyed = _decode_surveyed(line)
            named += [((surveyed.source, one.session), one) for one in surveyed.sessions]
    copies: dict[str, list[Copies]] = {}
    for (source, session), calls in copied(sorted(named, key=lambda one: one[0])).items():
        copies.setdefault(source, []).append(Copies(session, calls))
    return [Task(source, tuple(sorted(copies.get(name_of(source), ())))) for source in sources]


def survey_chunk(chunk: Chunk, inquiry: Inquiry) -> list[bytes]:
    """The answers in some files, a line for each; a file that cannot be read holds none."""
    lines: list[bytes] = []
    for task in chunk:
        sessions: list[Answers] = []
        with suppress(Exception):  # said when the file is replayed
            found = load(task.source, inquiry.format, compaction=inquiry.compaction)
            sessions += [answers_of(one) for one in found if inquiry.selection.takes(one, task.source)]
        lines.append(msgspec.json.encode(_Surveyed(name_of(task.source), tuple(sessions))))
    return lines


# ---------------------------------------------------------------- one file


def replay_chunk(chunk: Chunk, inquiry: Inquiry) -> list[bytes]:
    """What is found in some files, a line of the journal for each."""
    return [replay_file(task.source, inquiry, task.copies) for task in chunk]


def replay_file(source: Source, inquiry: Inquiry, copies: tuple[Copies, ...] = ()) -> bytes:
    """What is found in one file, as a line of the journal. Whatever goes wrong is a row."""
    question = _question(inquiry)
    out = {one.session: one.calls for one in copies}
    rows: list[Row] = []
    left_out = 0
    try:
        for found in load(source, inquiry.format, compaction=inquiry.compaction):
            if not inquiry.selection.takes(found, source):
                left_out += 1
                continue
            recording = without(found, out.get(found.session, ()))
            size = source.size if recording.source == source.name else 0
            try:
                rows.append(replay(recording, question, size=size, project=project_of(recording, source)))
            except Exception as error:  # noqa: BLE001 - the other sessions of the file are still to come
                rows.append(ErrorRow(recording.source, corpus.reason(error, source.name), size))
    except Exception as error:  # noqa: BLE001 - one bad file must not end the run
        rows.append(ErrorRow(source.name, corpus.reason(error, source.name), source.size))
    return _line(Done(source, tuple(rows), left_out, copies))


def _line(done: Done) -> bytes:
    """The line, read once, since JSON knows no infinite number."""
    line = encode(done)
    try:
        decode(line)
    except msgspec.MsgspecError as error:
        row = ErrorRow(done.source.name, f"a figure that is no number: {error}", done.source.size)
        return encode(Done(done.source, (row,), done.left_out, done.copies))
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


class _Spread(Protocol):
    """Does some work with files, wherever it is done: the lines as they come."""

    jobs: int

    def __call__(self, chunks: Sequence[Chunk], inquiry: Inquiry, work: Work) -> Iterator[bytes]:
        """The lines, in no order."""
        ...


class _Here:
    """In this process, or in several where there is work for them. Those stay until the run ends."""

    def __init__(self, jobs: int, stack: ExitStack) -> None:
        self.jobs = jobs
        self._stack = stack
        self._running: ProcessPoolExecutor | None = None

    def __call__(self, chunks: Sequence[Chunk], inquiry: Inquiry, work: Work) -> Iterator[bytes]:
        if min(self.jobs, len(chunks)) > 1:
            return self._in_processes(chunks, inquiry, work)
        return (line for chunk in chunks for task in chunk for line in work((task,), inquiry))

    def _in_processes(self, chunks: Iterable[Chunk], inquiry: Inquiry, work: Work) -> Iterator[bytes]:
        """Work in several processes. Where one dies, the files it may have died of are tried alone."""
        waiting = deque(chunks)
        suspects: deque[Chunk] = deque()
        while waiting:
            self._running = self._running or self._stack.enter_context(_pool(self.jobs))
            lost = yield from _work(self._running, waiting, inquiry, work, _AHEAD * self.jobs)
            suspects.extend((task,) for chunk in lost for task in chunk)
            if lost:
                self._running = None
                self._stack.pop_all().close()
        while suspects:
            with _pool(1) as pool:
                lost = yield from _work(pool, suspects, inquiry, work, 1)
            yield from (_died(task) for chunk in lost for task in chunk)


@contextmanager
def _workers(jobs: int, dask: str | None) -> Generator[_Spread]:
    if dask is not None:
        with _on_dask(dask, jobs) as spread:
            yield spread
        return
    with ExitStack() as stack:
        yield _Here(jobs, stack)


def _died(task: Task) -> bytes:
    row = ErrorRow(task.source.name, _DIED, task.source.size)
    return encode(Done(task.source, (row,), copies=task.copies))


def _work(
    pool: ProcessPoolExecutor, waiting: deque[Chunk], inquiry: Inquiry, work: Work, ahead: int
) -> Generator[bytes, None, list[Chunk]]:
    """Work off the queue until it is empty or a process dies; gives what was being worked on then."""
    running: dict[Future[list[bytes]], Chunk] = {}
    while waiting or running:
        try:
            while waiting and len(running) < ahead:
                running[pool.submit(work, waiting[0], inquiry)] = waiting[0]
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


class _OnDask:
    """On a cluster, whose workers have to reach the same files."""

    def __init__(self, distributed: Any, client: Any, jobs: int) -> None:
        self.jobs = jobs
        self._distributed = distributed
        self._client = client

    def __call__(self, chunks: Sequence[Chunk], inquiry: Inquiry, work: Work) -> Iterator[bytes]:
        waiting = deque(chunks)
        running: dict[Any, Chunk] = {}
        finished: Any = self._distributed.as_completed()
        workers = len(self._client.scheduler_info(n_workers=-1)["workers"])
        while waiting or running:
            while waiting and len(running) < _AHEAD * max(1, workers):
                future = self._client.submit(work, waiting[0], inquiry, pure=False)
                running[future] = waiting.popleft()
                finished.add(future)
            future = next(finished)
            chunk = running.pop(future)
            try:
                yield from future.result()
            except self._distributed.KilledWorker:
                yield from map(_died, chunk)
            future.release()


@contextmanager
def _on_dask(address: str, jobs: int) -> Generator[_Spread]:
    try:
        import distributed
    except ImportError:
        message = "--dask needs its extra: pip install 'prunewise[dask]'"
        raise InputError(message) from None
    with _client(distributed, address, jobs) as client:
        yield _OnDask(distributed, client, jobs)


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
