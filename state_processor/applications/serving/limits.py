"""Rules for requests: who may ask, and limits of rows, seconds, memory and requests at the same time."""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, TypeVar

import pyarrow as pa

from state_processor.errors import OptionError, StateProcessorError

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


# Access: bearer tokens, and host names of this machine

_SCHEME: Final = "bearer"
"""The scheme of the header ``Authorization``, in any case (RFC 9110, 11.1)."""
_HOST: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_LEAST: Final = 16
"""Characters of a token."""


@dataclass(frozen=True, repr=False)
class Permission:
    """The rule for requests."""

    token: str | None  # the bearer token of each request; ``None`` if only this machine reaches the server

    @classmethod
    def of(cls, host: str, token: str | None) -> Permission:
        """Return the rule for a server at an address."""
        if token is None and not is_local(host):
            raise OptionError(f"other machines reach {host}: give a bearer token, in a file or in STATE_PROCESSOR_TOKEN")
        if token is not None and (len(token) < _LEAST or not token.isascii() or not token.isprintable() or " " in token):
            raise OptionError(f"expected a token of at least {_LEAST} printable characters of ASCII without spaces")
        return cls(token)

    def allows(self, authorization: str | None, host: str | None) -> bool:
        """Return whether a request may be answered.

        ``authorization`` and ``host``: the headers of the request. Without a token, only names of this machine are accepted as
        ``Host``. This refuses pages of other hosts that use a name which resolves to this machine.
        """
        if self.token is None:
            return host is None or _HOST.fullmatch(host) is not None
        scheme, _, token = (authorization or "").partition(" ")
        is_token = hmac.compare_digest(token.strip(" ").encode(), self.token.encode())
        return is_token and scheme.lower() == _SCHEME


def is_local(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
