"""Processes for queries of clients. A query can neither take the memory of the server, nor stop it."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Final

import pyarrow as pa

from state_processor import errors
from state_processor.applications.serving import limits as of_limits
from state_processor.applications.serving.following import ServedSnapshot
from state_processor.applications.serving.limits import LimitError, Limits, MemoryLimitError
from state_processor.applications.serving.query_process import END, FAILURE, LARGEST, OUT_OF_MEMORY, Query, work
from state_processor.errors import StateProcessorError
from state_processor.options import SnapshotAccess
from state_processor.support import process_lock

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
