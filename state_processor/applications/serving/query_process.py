"""A process that runs queries of clients, with limits of memory and of CPU time.

DuckDB's own limit does not count all memory: ``SELECT len(range(200000000))`` makes a list of 8 GB.
"""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from state_processor.applications.serving.following import open_kept
from state_processor.applications.serving.limits import LimitError, MemoryLimitError
from state_processor.applications.sql.session import SqlSession
from state_processor.errors import MissingFileError
from state_processor.options import SnapshotAccess

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
