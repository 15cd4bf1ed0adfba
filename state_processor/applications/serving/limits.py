"""Limits of requests: rows, seconds, and requests at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from state_processor.errors import StateProcessorError

_T = TypeVar("_T")


class LimitError(StateProcessorError):
    """A request exceeds a limit of the server."""


class BusyError(LimitError):
    """As many requests as allowed are running."""


class TimeLimitError(LimitError):
    """A request takes longer than allowed."""


class MemoryLimitError(LimitError):
    """A query needs more memory than allowed."""

    @classmethod
    def of_query(cls) -> MemoryLimitError:
        """Return the error of a query."""
        return cls("the query needs more memory than the server allows; read fewer columns or keys, or aggregate them")


@dataclass(frozen=True)
class Limits:
    """Limits of requests."""

    rows: int = 1_000_000  # maximal number of rows of an answer
    seconds: float = 30.0  # maximal time of a request, in seconds
    parallel: int = 8  # requests that read at the same time. Others wait for one of them.
    memory: int = 1 << 30  # bytes that DuckDB may use for a query. The process of a query may use twice as much.

    def too_long(self) -> TimeLimitError:
        """Return the error of a request that takes too long."""
        return TimeLimitError(f"the request takes more than {self.seconds:g} seconds; ask for fewer keys or columns")

    def check_rows(self, rows: int) -> None:
        """Refuse an answer with too many rows."""
        if rows > self.rows:
            raise LimitError(f"the answer has more than {self.rows:,} rows; ask for fewer keys, or aggregate with SQL")

    def bounded(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches up to the limits of rows and time."""
        end, rows = time.monotonic() + self.seconds, 0
        for batch in batches:
            rows += batch.num_rows
            self.check_rows(rows)
            if time.monotonic() > end:
                raise self.too_long()
            yield batch


class Workers:
    """Threads that read for requests of HTTP."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.parallel, thread_name_prefix="request")
        self._slots = asyncio.Semaphore(limits.parallel)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run a function in a thread."""
        try:
            if self._slots.locked():
                await asyncio.wait_for(self._slots.acquire(), self._limits.seconds)
            else:
                await self._slots.acquire()
        except TimeoutError:
            raise BusyError(f"{self._limits.parallel} requests are running; ask again later") from None
        future = asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, work)
        future.add_done_callback(lambda _: self._slots.release())  # a late function occupies its thread until it ends
        try:
            return await asyncio.wait_for(asyncio.shield(future), self._limits.seconds)
        except TimeoutError:
            future.add_done_callback(lambda done: done.exception())
            raise self._limits.too_long() from None
