"""A server of HTTP in a thread of the tests, and its client."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import Limits, Permission
from state_processor.applications.serving.server import http_server
from tests.waiting import SECONDS, join, wait_until


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class Web:
    """A server of a snapshot, on a free port."""

    def __init__(
        self,
        path: str,
        limits: Limits | None = None,
        token: str | None = None,
        host: str = "127.0.0.1",
        *,
        may_be_damaged: bool = False,
    ) -> None:
        permission = Permission.of(host, token)
        followed = Followed(path, {}, may_be_damaged=may_be_damaged)
        self._server = http_server(followed, permission, limits or Limits(seconds=600), "127.0.0.1", 0)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started, "the start of the server")
        self._port = self._server.servers[0].sockets[0].getsockname()[1]

    def get(self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)
        connection.request(method, path, headers=dict(headers or {}))
        found = connection.getresponse()
        answer = Answer(found.status, found.read().decode())
        connection.close()
        return answer

    def close(self) -> None:
        self._server.should_exit = True
        join(self._thread)

    def __enter__(self) -> Web:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
