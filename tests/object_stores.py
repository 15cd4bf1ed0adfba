"""A store of S3 in a thread of this process."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

from moto.moto_server.werkzeug_app import create_backend_app
from moto.server import ThreadedMotoServer


@cache
def _application() -> Any:
    return create_backend_app("s3")


class S3Server(ThreadedMotoServer):
    """A server of S3 alone: the one of all services looks through the directories of all of them for each request."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1", 0, verbose=False)
        logging.getLogger("werkzeug").setLevel(logging.WARNING)  # without a line for each request

    def start(self) -> None:
        """Start it; all servers of a process have the same buckets."""
        super().start()
        assert self._server is not None
        self._server.app = _application()
