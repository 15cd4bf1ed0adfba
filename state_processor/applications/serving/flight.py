"""The server of Arrow Flight: scans of states with columns and keys, and queries of SQL."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from typing import Any, Final, Self

import pyarrow as pa
from pyarrow import flight

from state_processor import OperatorIdentifier
from state_processor.applications.serving.following import READING, Followed, ServedSnapshot
from state_processor.applications.serving.limits import BusyError, Limits, Permission, TimeLimitError
from state_processor.applications.serving.queries import QueryProcesses, with_notes
from state_processor.arrow import Rows
from state_processor.errors import OptionError, StateProcessorError
from state_processor.states import TIMER_KIND, StateRequest, StateScan

CHECKPOINT_ID: Final = b"checkpoint_id"
"""The key of the checkpoint's number in the metadata of the schema of each answer."""
_FIELDS: Final = frozenset({"uid", "state", "kind", "columns", "keys", "sql"})


@dataclass(frozen=True)
class Scan:
    """A request: a query of SQL, or a state with columns and keys."""

    uid: str | None = None
    state: str | None = None
    kind: str | None = None
    columns: tuple[str, ...] | None = None
    keys: tuple[Any, ...] | None = None
    sql: str | None = None

    @classmethod
    def parse(cls, command: bytes) -> Self:
        """Return a request from its JSON."""
        example = '{"uid": "orders", "state": "total", "columns": ["key", "value"], "keys": ["amelia"]} or {"sql": "SELECT …"}'
        try:
            request = json.loads(command)
        except (ValueError, RecursionError):
            raise OptionError(f"expected JSON such as {example}, found {command[:80]!r}") from None
        if not isinstance(request, dict) or not request.keys() <= _FIELDS or ("sql" in request) != (request.keys() == {"sql"}):
            raise OptionError(f"expected an object such as {example}, found {command[:80]!r}")
        lists: dict[str, Any] = {}
        for name in ("columns", "keys"):
            if isinstance(request.get(name), list):
                lists[name] = tuple(request.pop(name))
        if any(not isinstance(value, str) for value in request.values() if value is not None):
            raise OptionError(f"expected an object such as {example}, found {command[:80]!r}")
        if "uid" not in request and "sql" not in request:
            raise OptionError(f"the request names neither an operator nor a query; expected {example}")
        return cls(**request, **lists)

    def open(self, served: ServedSnapshot, queries: QueryProcesses) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the columns, and an iterator that reads the batches."""
        if self.sql is not None:
            return queries.run(served, self.sql)
        scan = self._scan(served)
        return _schema_of(scan), scan.read()

    def schema(self, served: ServedSnapshot, queries: QueryProcesses) -> pa.Schema:
        """Return the columns."""
        if self.sql is not None:
            return queries.columns(served, self.sql)
        return _schema_of(self._scan(served))

    def _scan(self, served: ServedSnapshot) -> StateScan:
        options = {**READING, **({} if self.columns is None else {"columns": self.columns})}
        options |= {} if self.keys is None else {"keys": self.keys}
        request = StateRequest(OperatorIdentifier.of(self.uid or ""), self.state, self.kind, None, options)
        return request.open(request.find(served.snapshot))


def _schema_of(scan: StateScan) -> pa.Schema:
    return with_notes(scan.schema, Rows(scan.schema, scan.read, scan.notes).notes)


class _Slot:
    """A place among the requests that run. At the limit of time it is free again, even if the client does not read the answer."""

    def __init__(self, slots: threading.Semaphore, seconds: float) -> None:
        self._slots = [slots]  # emptied by the first release; others come too late
        self._limit = threading.Timer(seconds, self.release)
        self._limit.daemon = True
        self._limit.start()

    def release(self) -> None:
        """Free the place, once."""
        self._limit.cancel()
        with suppress(IndexError):
            self._slots.pop().release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """The server. Tickets and descriptors have the JSON of a :class:`Scan`.

    ``address``: host and port; with port 0, :attr:`port` is a free one. ``followed``: the snapshots. ``permission``: who may ask.
    ``limits``: limits of requests.
    """

    def __init__(self, address: tuple[str, int], followed: Followed, permission: Permission, limits: Limits) -> None:
        middleware = {"permission": _Checks(permission)}
        super().__init__(f"grpc://{address[0]}:{address[1]}", middleware=middleware)
        self._followed = followed
        self._limits = limits
        self._slots = threading.Semaphore(limits.parallel)
        self._queries = QueryProcesses(followed.access, limits)

    def start_queries(self) -> None:
        """Start a process for queries, so that the first one does not wait for it."""
        if find_spec("duckdb") is not None:
            with suppress(StateProcessorError):  # which queries will raise
                self._queries.start(self._followed.current)

    def shutdown(self) -> None:
        """End the server, and the processes of queries."""
        self._queries.close()
        super().shutdown()

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        """Yield a flight for each state, and for the timers of each operator."""
        with _clear_errors(), self._slot():
            yield from list(map(self._info, self._followed.ask(_all_commands)))

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        """Return the columns of a request."""
        with _clear_errors(), self._slot():
            return self._info(descriptor.command)

    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """Return the columns of a request."""
        with _clear_errors(), self._slot():
            return flight.SchemaResult(self._schema(descriptor.command))

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Return the rows of a request. The metadata of the schema has the number of the checkpoint, and notes."""
        with _clear_errors():
            scan, slot = Scan.parse(ticket.ticket), self._slot()
            try:
                schema, batches = self._followed.ask(lambda served: _begun(served, scan, self._queries))
            except BaseException:
                slot.release()
                raise
        return flight.GeneratorStream(schema, self._sent(schema, batches, slot))

    def _sent(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], slot: _Slot) -> Iterator[pa.RecordBatch]:
        with _clear_errors(), slot:
            for batch in self._limits.bounded(batches):
                yield batch.replace_schema_metadata(schema.metadata)

    def _slot(self) -> _Slot:
        """Take a place among the requests that run."""
        if not self._slots.acquire(timeout=self._limits.seconds):
            raise BusyError(f"{self._limits.parallel} requests are running; ask again later")
        return _Slot(self._slots, self._limits.seconds)

    def _schema(self, command: bytes) -> pa.Schema:
        scan = Scan.parse(command)
        return self._followed.ask(lambda served: _named(served, scan.schema(served, self._queries)))

    def _info(self, command: bytes) -> flight.FlightInfo:
        endpoint = flight.FlightEndpoint(flight.Ticket(command), [])
        descriptor = flight.FlightDescriptor.for_command(command)
        return flight.FlightInfo(self._schema(command), descriptor, [endpoint], -1, -1)


def _all_commands(served: ServedSnapshot) -> list[bytes]:
    commands: list[bytes] = []
    for operator in served.snapshot.metadata.operators:
        name = operator.label
        states = served.surveyed[operator.operator_id][0]
        kinds = [{"state": state} for state, variants in states.items() if not variants[0].is_timer]
        kinds += [{"kind": TIMER_KIND}] if len(kinds) < len(states) else []
        commands += [json.dumps({"uid": name, **kind}).encode() for kind in kinds]
    return commands


def _begun(served: ServedSnapshot, scan: Scan, queries: QueryProcesses) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Open a request and read its first batch: until then, a newer checkpoint can be read instead."""
    schema, batches = scan.open(served, queries)
    first = list(islice(batches, 1))
    return _named(served, schema), chain(first, batches)


def _named(served: ServedSnapshot, schema: pa.Schema) -> pa.Schema:
    return schema.with_metadata({**(schema.metadata or {}), CHECKPOINT_ID: str(served.checkpoint_id).encode()})


class _Checks(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses calls without the token."""

    def __init__(self, permission: Permission) -> None:
        self._permission = permission

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> None:
        """Refuse a call that is not allowed."""
        texts = {name.lower(): values for name, values in headers.items()}
        (authorization,) = texts.get("authorization", [None])[:1]
        if not self._permission.allows(authorization, None):
            raise flight.FlightUnauthenticatedError("expected the bearer token of the server in the header authorization")


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Send errors of the library with their messages."""
    try:
        yield
    except BusyError as problem:
        raise flight.FlightUnavailableError(str(problem)) from None
    except TimeLimitError as problem:
        raise flight.FlightTimedOutError(f"TimeLimitError: {problem}") from None
    except StateProcessorError as problem:
        raise flight.FlightServerError(f"{type(problem).__name__}: {problem}") from None
