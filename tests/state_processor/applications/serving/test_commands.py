"""The command that starts the servers."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from state_processor.applications.serving import commands as serving
from state_processor.applications.serving import server
from state_processor.applications.serving.limits import Limits
from state_processor.cli import main
from tests.state_processor.samples import ORDERS_PATH


def test_arguments_reach_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(serving, "serve", lambda *arguments: calls.append(arguments[:-1]))
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
    monkeypatch.setenv(serving.TOKEN_SETTING, "a-token-of-the-tests")
    calls: list[Any] = []
    monkeypatch.setattr(serving, "serve", lambda *arguments: calls.append(arguments[4]))
    assert main(["serve", ORDERS_PATH]) == 0
    assert calls == ["a-token-of-the-tests"]
    assert serving.TOKEN_SETTING not in os.environ  # processes of queries inherit it otherwise


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
    monkeypatch.delenv(serving.TOKEN_SETTING, raising=False)
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
    assert main(["serve", str(tmp_path)]) == 2
    assert "does not have a complete snapshot" in capsys.readouterr().err
