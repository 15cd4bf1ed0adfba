"""Connections of HTTP: those that send no complete request in time are closed."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS: Final = 10.0
"""Time in seconds for a whole request to come, from the start of a connection or from the first byte of a further request."""


class WatchedProtocol(H11Protocol):
    """HTTP on one connection. uvicorn itself limits only the time between two requests."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and go on waiting until a request is complete."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if not self._is_waiting():
            self._stop()
        elif self._limit is None:
            self._limit = self.loop.call_later(REQUEST_SECONDS, self._end)

    def _is_waiting(self) -> bool:
        """Return whether the head or the body of a request is not complete."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _end(self) -> None:
        if self._is_waiting():
            self.transport.abort()
