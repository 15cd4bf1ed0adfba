"""Processes for queries of clients, with limits of memory and of CPU time. A query can't take the server's memory, nor stop it.

DuckDB's own limit does not count all memory: ``SELECT len(range(200000000))`` makes a list of 8 GB.
"""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from state_processor import errors
from state_processor.applications.serving import limits as of_limits
from state_processor.applications.serving.following import ServedSnapshot, open_kept
from state_processor.applications.serving.limits import LimitError, Limits, MemoryLimitError
from state_processor.applications.sql.session import SqlSession
from state_processor.errors import MissingFileError, StateProcessorError
from state_processor.options import SnapshotAccess
from state_processor.support import process_lock

# The work in a process

ROWS, FAILURE, END = b"R", b"F", b"E"
"""The first byte of a message: rows as a stream of Arrow, an error as JSON, and the end of the result."""
LARGEST: Final = 64 << 20
"""Bytes of a message. A result in larger batches is cut."""
OUT_OF_MEMORY: Final = 77
"""The exit code of a process that exceeds its memory."""
THREADS: Final = 2
"""Threads of a query."""
_PIECE: Final = LARGEST // 4
_LOOK_SECONDS: Final = 0.1
"""Time between two looks at the memory, and at the server."""
_DATA: Final = re.compile(r"VmData:\s*(\d+) kB")
_RESIDENT_UNIT: Final = 1 if os.uname().sysname == "Darwin" else 1024


NOTES: Final = b"notes"
"""The key in the metadata of a schema for omitted content: JSON, a list of sentences."""


def with_notes(schema: pa.Schema, notes: Sequence[str]) -> pa.Schema:
    """Return a schema whose metadata have notes; without a note, the same schema."""
    return schema.with_metadata({**(schema.metadata or {}), NOTES: json.dumps(list(notes)).encode()}) if notes else schema


@dataclass(frozen=True)
class Query:
    """A query of a client.

    ``path``, ``digest`` and ``access``: the snapshot that the server has open, the digest of its ``_metadata``, and how to open
    it.
    """

    path: str
    digest: str
    access: SnapshotAccess
    sql: str | None  # the query; ``None`` to open the snapshot alone
    only_columns: bool  # whether the rows are not needed
    memory: int  # bytes that DuckDB may use
    seconds: float  # the time of the query


def work(pipe: Connection, memory: int) -> None:
    """Answer queries until the server closes the pipe or ends.

    ``pipe``: queries come from it, and messages with rows go to it. ``memory``: bytes that the process may use in addition to
    what it uses now.
    """
    logging.disable()  # the server has logged its remarks about the snapshot
    _limit_memory(memory)
    opened = _Opened()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the server has no further query
        while True:
            query = pipe.recv()
            _limit_time(query.seconds)
            try:
                for message in opened.answer(query):
                    pipe.send_bytes(message)
                pipe.send_bytes(END)
            except Exception as problem:
                pipe.send_bytes(FAILURE + _described(problem))


class _Opened:
    """The snapshot of the last query, with its open files."""

    def __init__(self) -> None:
        self._key: tuple[str, str] | None = None
        self._snapshot: Any = None

    def answer(self, query: Query) -> Iterator[bytes]:
        """Yield the messages with the columns and rows of a query."""
        if self._key != (query.path, query.digest):
            self._key = self._snapshot = None
            snapshot = open_kept(query.access, query.path)
            if snapshot.digest != query.digest:
                raise MissingFileError(f"{query.path} has another snapshot than before")
            self._key, self._snapshot = (query.path, query.digest), snapshot
        session = SqlSession.isolated(self._snapshot, {"nanos": "check"}, query.memory, THREADS)
        if query.sql is None:
            return
        result = session.execute(query.sql)
        empty = _decoded(pa.RecordBatch.from_pylist([], result.schema))
        yield _message(pa.RecordBatch.from_arrays(empty.columns, schema=with_notes(empty.schema, result.notes)))
        if not query.only_columns:
            for batch in result.batches:
                yield from _messages(_decoded(batch))


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with text instead of dictionaries, which streams of Flight lack."""
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _messages(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Cut a batch into messages."""
    rows = min(batch.num_rows, batch.num_rows * _PIECE // max(1, batch.nbytes)) or 1
    for start in range(0, batch.num_rows, rows):
        part = batch.slice(start, rows)
        if part.nbytes > _PIECE and part.num_rows > 1:
            yield from _messages(part)
        else:
            yield _message(part)


def _message(batch: pa.RecordBatch) -> bytes:
    """Return rows as a stream of Arrow with its columns and dictionaries."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    content = sink.getvalue()
    if content.size >= LARGEST:
        raise LimitError(f"a row of the result takes {content.size:,} bytes; the limit is {LARGEST:,}")
    return ROWS + bytes(content)


def _described(problem: Exception) -> bytes:
    """Return the JSON of an error: the name of its class, and its message.

    DuckDB and Arrow have errors of their own for memory. One of them may be the context of ours.
    """
    for reason in (problem, problem.__context__):
        if isinstance(reason, MemoryError) or str(reason).startswith("Out of Memory"):
            problem = MemoryLimitError.of_query()
    return json.dumps([type(problem).__name__, str(problem)]).encode()


def _limit_memory(memory: int) -> None:
    """Set the limit of memory, and begin to watch the memory where the system does not do it.

    Linux counts memory that is written to (``RLIMIT_DATA``). macOS limits neither ``RLIMIT_DATA`` nor ``RLIMIT_AS``: a thread
    looks at the memory there.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RESIDENT_UNIT
    threading.Thread(target=_watch, args=(resident + memory,), daemon=True).start()
    with suppress(OSError):
        used = _DATA.search(Path("/proc/self/status").read_text())
        if used is not None:
            limit = int(used[1]) * 1024 + memory
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _limit_time(seconds: float) -> None:
    """Let the system end the process if the server does not do it in time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + seconds * (THREADS + 1)) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _watch(most: int) -> None:
    """End the process when the server has ended, or the memory exceeds the limit."""
    server = parent_process()
    while server is None or server.is_alive():
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RESIDENT_UNIT > most:
            os._exit(OUT_OF_MEMORY)
        time.sleep(_LOOK_SECONDS) if server is None else server.join(_LOOK_SECONDS)
    os._exit(1)


# Processes of a server

_LOG: Final = logging.getLogger("state_processor")
_CONTEXT: Final = get_context("forkserver")
"""Processes are forked from a process without connections and locks of the server."""
_IDLE: Final = 2
"""Processes that wait for the next query."""
_QUERIES: Final = 100
"""Queries of a process: what DuckDB and the allocators keep counts as its memory."""


class _Process:
    """A process, and the pipe to it."""

    def __init__(self, memory: int) -> None:
        self._pipe, end = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=work, args=(end, memory), name="query", daemon=True)
        self._process.start()
        end.close()
        self._is_late = False
        self.queries = 0

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def messages(self, query: Query, limits: Limits) -> Iterator[pa.RecordBatch]:
        """Send a query and yield the batches of the answer, the first without rows. The process ends at the limit of time."""
        self.queries += 1
        timer = threading.Timer(limits.seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            self._pipe.send(query)
            while (message := self._pipe.recv_bytes(2 * LARGEST)) != END:
                if message[:1] == FAILURE:
                    raise _error(*json.loads(message[1:]))
                with pa.ipc.open_stream(pa.py_buffer(message)[1:]) as stream:
                    yield stream.read_next_batch()
        except (EOFError, OSError):
            raise self._reason(limits) from None
        finally:
            timer.cancel()

    def _end(self) -> None:
        self._is_late = True
        self.kill()

    def kill(self) -> None:
        self._process.kill()

    def _reason(self, limits: Limits) -> LimitError:
        """Return why the process has ended."""
        self._process.join(limits.seconds)
        code = self._process.exitcode
        if self._is_late or code == -signal.SIGXCPU:
            return limits.too_long()
        if code == OUT_OF_MEMORY:
            return MemoryLimitError.of_query()
        end = f"with code {code}" if code is None or code >= 0 else f"by {signal.Signals(-code).name}"
        return LimitError(f"the process of the query was ended {end}; memory of the machine may be short: ask for less")


class QueryProcesses:
    """Processes for the queries of a server.

    ``access``: how snapshots are opened. ``limits``: limits of requests.
    """

    def __init__(self, access: SnapshotAccess, limits: Limits) -> None:
        self._access = access
        self._limits = limits
        self._lock = process_lock()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._is_closed = False

    def start(self, served: ServedSnapshot) -> None:
        """Start the process that others are forked from, and one that opens a snapshot."""
        _CONTEXT.set_forkserver_preload(["state_processor.applications.serving.query_imports"])
        list(self._batches(served, None, only_columns=True))

    def columns(self, served: ServedSnapshot, sql: str) -> pa.Schema:
        """Return the columns of a query; for errors see :meth:`run`."""
        (empty,) = self._batches(served, sql, only_columns=True)
        return empty.schema

    def run(self, served: ServedSnapshot, sql: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Run a query.

        Returns: the columns, and an iterator of batches. The process is free for another query when the iterator ends.
        """
        batches = self._batches(served, sql)
        return next(batches).schema, batches

    def _batches(self, served: ServedSnapshot, sql: str | None, *, only_columns: bool = False) -> Iterator[pa.RecordBatch]:
        limits = self._limits
        query = Query(served.path, served.snapshot.digest, self._access, sql, only_columns, limits.memory, limits.seconds)
        process = self._take()
        is_whole = False
        try:
            yield from process.messages(query, limits)
            is_whole = True
        except LimitError:
            raise
        except StateProcessorError:
            is_whole = True
            raise
        finally:
            self._give_back(process, is_usable=is_whole)

    def _take(self) -> _Process:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive:
                    self._busy.add(process)
                    return process
        process = _Process(2 * self._limits.memory)
        with self._lock:
            self._busy.add(process)
            if self._is_closed:
                process.kill()
        return process

    def _give_back(self, process: _Process, *, is_usable: bool) -> None:
        with self._lock:
            self._busy.discard(process)
            if is_usable and not self._is_closed and len(self._idle) < _IDLE and process.queries < _QUERIES:
                self._idle.append(process)
                return
        process.kill()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._is_closed = True
            processes = [*self._idle, *self._busy]
            self._idle.clear()
        for process in processes:
            process.kill()


def _error(name: str, message: str) -> StateProcessorError:
    """Return an error of a process."""
    kind = getattr(of_limits, name, None) or getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, StateProcessorError):
        return kind(message)
    _LOG.error("a query failed: %s: %s", name, message)
    return StateProcessorError("the query failed; the log of the server has the reason")
