"""Requests over Arrow Flight."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

import state_processor as sp
from state_processor.applications.serving import flight as of_flight
from state_processor.applications.serving.flight import CHECKPOINT_ID, FlightServer
from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import Limits, Permission
from state_processor.applications.serving.queries import NOTES
from tests.state_processor.applications.serving.checkpoints import KEYS, TOKEN, remove_checkpoint, write_checkpoint
from tests.state_processor.samples import ORDERS_PATH, WINDOWS_PATH
from tests.waiting import join, wait_until


@dataclass(frozen=True)
class Served:
    client: flight.FlightClient
    followed: Followed
    port: int

    def ask(self, options: Any = None, **request: Any) -> pa.Table:
        return self.client.do_get(flight.Ticket(json.dumps(request).encode()), options).read_all()


@contextmanager
def served(path: str, limits: Limits | None = None, token: str | None = None) -> Iterator[Served]:
    followed = Followed(path, {})
    permission = Permission.of("127.0.0.1", token)
    with FlightServer(("127.0.0.1", 0), followed, permission, limits or Limits(seconds=600)) as server:
        yield Served(flight.connect(f"grpc://127.0.0.1:{server.port}"), followed, server.port)


@pytest.fixture(scope="module")
def orders() -> Iterator[Served]:
    with served(ORDERS_PATH) as client:
        yield client


def test_columns_and_keys_are_selected(orders: Served) -> None:
    found = orders.ask(uid="orders", state="total", columns=["value"], keys=["amelia"])
    assert found.to_pylist() == [{"value": 3950}]
    assert found.schema.metadata[CHECKPOINT_ID] == b"1"
    assert orders.ask(uid="orders").num_rows == 50


def test_answers_name_the_states_that_they_leave_out() -> None:
    """Also without the column ``key``, whose comment has the note."""
    expected = "a row for each key does not have the states of windows and other namespaces: 'window-contents'"
    names = [name for name in sp.arrow.read_state(WINDOWS_PATH, "session-process").schema.names if name != "key"]
    requests: list[dict[str, Any]] = [
        {"uid": "session-process"},
        {"uid": "session-process", "columns": names},
        {"sql": 'SELECT count(*) AS n FROM "session-process"'},
    ]
    with served(WINDOWS_PATH, Limits(seconds=300)) as server:
        for request in requests:
            descriptor = flight.FlightDescriptor.for_command(json.dumps(request).encode())
            for schema in (server.ask(**request).schema, server.client.get_flight_info(descriptor).schema):
                assert any(expected in note for note in json.loads(schema.metadata[NOTES])), request
        assert NOTES not in server.ask(uid="session-process", state="window-contents", columns=["list_value"]).schema.metadata


def test_flights_are_the_states(orders: Served) -> None:
    found = {info.descriptor.command: info for info in orders.client.list_flights()}
    info = found[b'{"uid": "orders", "state": "total"}']
    assert info.schema.names == ["key", "value"]
    assert orders.client.do_get(info.endpoints[0].ticket).read_all().num_rows == 50
    timers = flight.FlightDescriptor.for_command(b'{"uid": "orders", "kind": "TIMER"}')
    assert "fires_at" in orders.client.get_schema(timers).schema.names


def test_queries_of_sql(orders: Served) -> None:
    assert orders.ask(sql="SELECT total FROM orders WHERE key = 'amelia'").to_pylist() == [{"total": 3950}]
    assert orders.ask(sql="SELECT count(*) AS n FROM orders.total").to_pylist() == [{"n": 50}]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"sql": "SELECT * FROM read_csv('/etc/hostname')"}, "disabled by configuration"),
        ({"sql": "SELECT * FROM '/etc/hostname'"}, "does not exist"),
        ({"sql": "COPY (SELECT 1) TO '/tmp/written-by-a-query.csv'"}, "expected a SELECT, found a statement of kind COPY"),
        ({"sql": "SET enable_external_access = true"}, "expected a SELECT, found a statement of kind SET"),
        ({"sql": "ATTACH '/tmp/written-by-a-query.db'"}, "expected a SELECT, found a statement of kind ATTACH"),
        ({"sql": "SELECT 1; SELECT 2"}, "expected one statement"),
        ({"uid": "orders", "state": "nope"}, "NotFoundError: no state 'nope'"),
        ({"uid": "orders", "path": "/etc"}, "OptionError: expected an object such as"),
        ({"state": "total"}, "names neither an operator nor a query"),
        ({"uid": 5}, "OptionError: expected an object such as"),
    ],
)
def test_errors(orders: Served, request_: dict[str, Any], message: str) -> None:
    with pytest.raises(flight.FlightError, match=message) as caught:
        orders.ask(**request_)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("ticket", [b"[" * 100_000, b"\xff", b'{"uid": ' * 50_000, b"9" * 5000])
def test_tickets_that_are_not_requests(orders: Served, ticket: bytes) -> None:
    with pytest.raises(flight.FlightServerError, match="OptionError: expected "):
        orders.client.do_get(flight.Ticket(ticket))


def test_rows_and_time_are_limited() -> None:
    with served(ORDERS_PATH, Limits(rows=10, seconds=0.5)) as client:
        with pytest.raises(flight.FlightError, match="LimitError: the answer has more than 10 rows"):
            client.ask(uid="orders", state="total")
        with pytest.raises(flight.FlightError, match=r"TimeLimitError: the request takes more than 0\.5 seconds"):
            client.ask(sql="SELECT count(*) FROM range(10000000000) a, range(1000000) b WHERE a.range % 7 = b.range % 11")


def test_a_token_is_checked() -> None:
    with served(ORDERS_PATH, token=TOKEN) as client:
        with pytest.raises(flight.FlightUnauthenticatedError, match="expected the bearer token"):
            client.ask(uid="orders", state="total")
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
        assert client.ask(options, uid="orders", state="total").num_rows == 50


def test_a_scan_of_a_removed_checkpoint_is_whole(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    with served(str(tmp_path)) as client:
        write_checkpoint(tmp_path, 2)
        remove_checkpoint(tmp_path, 1)
        before = client.ask(uid="totals", state="total")
        client.followed.refresh()
        after = client.ask(uid="totals", state="total")
    for number, found in ((1, before), (2, after)):
        assert found.schema.metadata[CHECKPOINT_ID] == str(number).encode()
        assert found.column("value").to_pylist() == [number] * len(KEYS)


def test_queries_while_checkpoints_are_replaced(tmp_path: Path) -> None:
    """A query that reads all values of a checkpoint sees one number: the number that the answer names."""
    write_checkpoint(tmp_path, 1)
    ended, problems, seen = threading.Event(), list[BaseException](), set[int]()
    with served(str(tmp_path)) as client, client.followed.follow(0.05):

        def ask(query: str) -> None:
            try:
                while not ended.is_set():
                    found = client.ask(sql=query)
                    number = int(found.schema.metadata[CHECKPOINT_ID])
                    assert found.to_pylist() == [{"keys": len(KEYS), "least": number, "most": number}]
                    seen.add(number)
            except BaseException as problem:
                problems.append(problem)

        what = "SELECT count(*) AS keys, min({0}) AS least, max({0}) AS most FROM {1}"
        view = f'"{sp.OperatorIdentifier.for_uid("totals").uid_hash}"'  # snapshots of Flink 1.x don't contain uids
        queries = [what.format("total", view), what.format("value", f"{view}.total")]
        clients = [threading.Thread(target=ask, args=(query,), daemon=True) for query in queries]
        for thread in clients:
            thread.start()
        try:
            wait_until(lambda: problems or 1 in seen, "an answer from the first checkpoint")
            for number in range(2, 8):
                write_checkpoint(tmp_path, number)
                remove_checkpoint(tmp_path, number - 1)
            wait_until(lambda: problems or 7 in seen, "an answer from the last checkpoint")
        finally:
            ended.set()
            for thread in clients:
                join(thread)
    assert not problems
    assert len(seen) > 1


def test_a_client_that_does_not_read_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[Callable[[], None]] = []

    class Timer:
        """A timer whose time comes when the test calls its function."""

        def __init__(self, _: float, function: Callable[[], None]) -> None:
            limits.append(function)

        def start(self) -> None: ...

        def cancel(self) -> None: ...

    monkeypatch.setattr(of_flight, "threading", SimpleNamespace(Timer=Timer, Semaphore=threading.Semaphore))
    with served(ORDERS_PATH, Limits(rows=1 << 40, seconds=300, parallel=1)) as server:
        unread = server.client.do_get(flight.Ticket(b'{"sql": "SELECT * FROM range(100000000)"}'))
        (end,) = limits
        end()
        assert server.ask(uid="orders", state="total").num_rows == 50
        unread.cancel()


def test_connections_that_send_a_part_of_a_call_are_in_nobodys_way() -> None:
    """The beginning of HTTP/2, with and without an unfinished call."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    unfinished = bytes([0, 0, 10, 1, 0, 0, 0, 0, 1]) + b"half"
    with served(ORDERS_PATH, Limits(seconds=300)) as server, ExitStack() as stack:
        for part in (b"", preface, preface + unfinished) * 50:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            connection.sendall(part)
        assert server.ask(uid="orders", state="total").num_rows == 50


def test_questions_about_columns_take_a_place() -> None:
    with served(ORDERS_PATH, Limits(rows=1 << 40, seconds=0.5, parallel=0)) as server:
        descriptor = flight.FlightDescriptor.for_command(b'{"uid": "orders", "state": "total"}')
        for ask in (server.client.get_flight_info, server.client.get_schema):
            with pytest.raises(pa.ArrowException, match="0 requests are running"):
                ask(descriptor)
