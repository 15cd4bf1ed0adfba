"""Connections that send no complete request are closed, and others are answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from state_processor.applications.serving import connections
from state_processor.applications.serving.access import Permission
from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import Limits
from state_processor.applications.serving.server import http_server
from tests.state_processor.samples import ORDERS_PATH
from tests.waiting import join, wait_until

REQUEST = b"GET /operators HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    listener = socket.create_server(("127.0.0.1", 0))
    server = http_server(Followed(ORDERS_PATH, {}), Permission.of("127.0.0.1", None), Limits(), "127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server has started")
    yield listener.getsockname()
    server.should_exit = True
    join(thread)


def received(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    content = b""
    try:
        while part := connection.recv(1 << 16):
            content += part
    except ConnectionResetError:
        pass
    return content


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"G",
        REQUEST[:-2],
        b"POST /sql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nSELECT",
    ],
    ids=["nothing", "a byte", "part of a head", "part of a body"],
)
def test_a_request_that_does_not_come(address: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(sent)
        assert b"200 OK" not in received(connection)


def test_whole_requests_are_answered_on_one_connection(address: tuple[str, int]) -> None:
    connection = HTTPConnection(*address, timeout=60)
    for _ in range(3):
        connection.request("GET", "/operators")
        answer = connection.getresponse()
        assert (answer.status, b"only-catalog" in answer.read()) == (200, True)
    connection.close()


def test_the_second_request_has_to_come_whole(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(REQUEST + REQUEST[:-10])
        assert received(connection).count(b"200 OK") == 1
