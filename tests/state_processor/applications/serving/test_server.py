"""Connections that send no complete request are closed, and others are answered. Commands that start the servers."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from state_processor.applications.serving import app, server
from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import Limits, Permission
from state_processor.applications.serving.server import http_server
from state_processor.cli import main
from tests.state_processor.samples import ORDERS_PATH
from tests.waiting import SECONDS, join, wait_until

REQUEST = b"GET /operators HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(app, "REQUEST_SECONDS", 0.2)
    listener = socket.create_server(("127.0.0.1", 0))
    server = http_server(Followed(ORDERS_PATH, {}), Permission.of("127.0.0.1", None), Limits(seconds=600), "127.0.0.1", 0)
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
    with socket.create_connection(address, timeout=SECONDS) as connection:
        connection.sendall(sent)
        assert b"200 OK" not in received(connection)


def test_whole_requests_are_answered_on_one_connection(address: tuple[str, int]) -> None:
    connection = HTTPConnection(*address, timeout=SECONDS)
    for _ in range(3):
        connection.request("GET", "/operators")
        answer = connection.getresponse()
        assert (answer.status, b"only-catalog" in answer.read()) == (200, True)
    connection.close()


def test_the_second_request_has_to_come_whole(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=SECONDS) as connection:
        connection.sendall(REQUEST + REQUEST[:-10])
        assert received(connection).count(b"200 OK") == 1


HEAD = b"Host: 127.0.0.1\r\nConnection: close\r\n"
SMUGGLED = b"0\r\n\r\nGET /operators HTTP/1.1\r\n" + HEAD + b"\r\n"
ATTACKS: dict[str, tuple[bytes, int]] = {
    "a large header": (b"GET /operators HTTP/1.1\r\n" + HEAD + b"X: " + b"a" * (1 << 20), 400),
    "many headers": (b"GET /operators HTTP/1.1\r\n" + HEAD + b"X: a\r\n" * 20_000, 400),
    "HTTP/1.0 without a host": (b"GET /operators HTTP/1.0\r\n\r\n", 200),
    "HTTP/1.0 of another host": (b"GET /operators HTTP/1.0\r\nHost: evil.example\r\n\r\n", 401),
    "HTTP/1.1 without a host": (b"GET /operators HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /operators HTTP/1.1\r\nHost: evil.example\r\n" + HEAD + b"\r\n", 400),
    "a folded host": (b"GET /operators HTTP/1.1\r\nHost: 127.0.0.1\r\n evil.example\r\nConnection: close\r\n\r\n", 401),
    "a space behind a name": (b"GET /operators HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /operators\r\n\r\n", 400),
    "HTTP/2.0": (b"GET /operators HTTP/2.0\r\n" + HEAD + b"\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "two lengths": (b"GET /operators HTTP/1.1\r\n" + HEAD + b"Content-Length: 0\r\nContent-Length: 6\r\n\r\nSELECT", 400),
    "the same length twice": (
        b"GET /operators HTTP/1.1\r\n" + HEAD + b"Content-Length: 6\r\nContent-Length: 6\r\n\r\nSELECT",
        400,
    ),
    "a negative length": (b"GET /operators HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n", 400),
    "no body": (b"GET /operators HTTP/1.1\r\n" + HEAD + b"Content-Length: 0\r\n\r\n", 200),
    "a length and chunks": (
        b"GET /operators HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED,
        400,
    ),
    "chunks": (b"GET /operators HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED, 400),
    "another encoding": (b"GET /operators HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: identity\r\n\r\n", 400),
    "the URL of another host": (b"GET http://evil.example/operators HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
    "a path without a slash": (b"GET x/operators HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
    "a tunnel": (b"CONNECT evil.example:80 HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
    "another method": (b"DELETE /operators HTTP/1.1\r\n" + HEAD + b"\r\n", 405),
    "a header in a path": (b"GET /operators/%0d%0aX-Injected:%201/states HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
    "a line feed in a path": (b"GET /operators/a\nX-Injected: 1/states HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    "bytes in a path": (b"GET /operators/\xff/states HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    "other bytes than UTF-8": (b"GET /operators/orders/keys/%ff HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    "other bytes in a query": (b"GET /browse/key?uid=orders&key=%ff HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    "two tokens": (b"GET /operators HTTP/1.1\r\n" + HEAD + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400),
    "a number of 5,000 digits": (
        b"GET /browse/rows?uid=orders&state=total&offset=" + b"9" * 5000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
        400,
    ),
    "a deep key": (b"GET /operators/orders/keys/" + b"%5B" * 15_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_requests_that_are_not_as_they_should_be(address: tuple[str, int], attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers and closes the connection at once. What follows on the connection is not a request."""
    monkeypatch.setattr(app, "REQUEST_SECONDS", 600)
    sent, status = ATTACKS[attack]
    with socket.create_connection(address, timeout=300) as connection:
        with suppress(ConnectionError):  # the answer came before the end of the request
            connection.sendall(sent)
        answer = received(connection)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"X-Injected" not in answer.partition(b"\r\n\r\n")[0]


def test_pipelined_requests_are_answered_in_their_order(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "REQUEST_SECONDS", 600)
    paths = [f"/operators/missing-{number}/states" for number in range(50)]
    requests = b"".join(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() for path in paths)
    with socket.create_connection(address, timeout=300) as connection:
        connection.sendall(requests + b"GET /operators HTTP/1.1\r\n" + HEAD + b"\r\n")
        answer = received(connection)
    assert re.findall(rb"no operator '(missing-\d+)'", answer) == [path.split("/")[2].encode() for path in paths]
    assert answer.count(b"HTTP/1.1 ") == 51


def test_arguments_reach_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(server, "serve", lambda *arguments: calls.append(arguments[:-1]))
    (tmp_path / "token").write_text("a-token-of-the-tests\n")
    assert main(["serve", ORDERS_PATH]) == 0
    flags = ["--host", "0.0.0.0", "--port", "9000", "--flight-port", "9001", "--token-file", str(tmp_path / "token")]
    limits = ["--interval", "3", "--max-rows", "7", "--time-limit", "5", "--parallel", "2", "--query-memory", "64"]
    assert main(["serve", ORDERS_PATH, *flags, *limits, "--uids", "orders"]) == 0
    assert calls == [
        (ORDERS_PATH, "127.0.0.1", 8080, None, None, Limits(), 1.0, {}),
        (ORDERS_PATH, "0.0.0.0", 9000, 9001, "a-token-of-the-tests", Limits(7, 5.0, 2, 64 << 20), 3.0, {"uids": "orders"}),
    ]


def test_the_token_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server.TOKEN_SETTING, "a-token-of-the-tests")
    calls: list[Any] = []
    monkeypatch.setattr(server, "serve", lambda *arguments: calls.append(arguments[4]))
    assert main(["serve", ORDERS_PATH]) == 0
    assert calls == ["a-token-of-the-tests"]
    assert server.TOKEN_SETTING not in os.environ  # processes of queries inherit it otherwise


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "other machines reach 0.0.0.0: give a bearer token"),
        (["--token-file", "/nowhere/token"], "--token-file /nowhere/token: "),
    ],
)
def test_mistakes_are_reported_before_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    monkeypatch.delenv(server.TOKEN_SETTING, raising=False)
    assert main(["serve", ORDERS_PATH, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_answers_are_sent_at_once() -> None:
    """Asyncio sets ``TCP_NODELAY`` on connections of sockets whose protocol is named."""
    with server._listener("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_a_port_in_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", ORDERS_PATH, "--port", str(port)]) == 2
    assert f"can't listen on 127.0.0.1, port {port}: " in capsys.readouterr().err


def test_a_directory_without_snapshots_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path)]) == 2
    assert f"{tmp_path} does not have a complete snapshot" in capsys.readouterr().err


def test_browse_starts_with_a_snapshot_that_can_not_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Server:
        def run(self, listeners: list[socket.socket]) -> None:
            for listener in listeners:
                listener.close()

    monkeypatch.setattr(server, "http_server", lambda *_: Server())
    (tmp_path / "_metadata").write_bytes(b"not a snapshot")
    assert main(["browse", str(tmp_path)]) == 0
    assert f"no snapshot can be opened in {tmp_path}: http://127.0.0.1:" in capsys.readouterr().out
    assert "follow checkpoints" not in {thread.name for thread in threading.enumerate()}
    assert main(["serve", str(tmp_path)]) == 2
    assert "does not have a complete snapshot" in capsys.readouterr().err
