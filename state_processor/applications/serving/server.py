"""The servers of HTTP and Arrow Flight in one process."""

from __future__ import annotations

import resource
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from typing import Any, Final

from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import Limits, Permission
from state_processor.errors import OptionError
from state_processor.support import require

_IDLE_SECONDS: Final = 30
"""Time in seconds until a connection without requests is closed."""

_DESCRIPTORS: Final = 10_240
"""Open files and connections of the process; macOS does not permit more."""
_BACKLOG: Final = 1024
"""Connections that wait to be accepted."""
_SWITCH_SECONDS: Final = 0.001
"""Time in seconds that a thread may take until another gets its turn: many requests are shorter than Python's 5 milliseconds."""


def serve(
    directory: str | PathLike[str],
    host: str,
    port: int,
    flight_port: int | None,
    token: str | None,
    limits: Limits,
    seconds: float,
    options: Mapping[str, Any],
    started: Callable[[str], None],
    page: str = "docs",
) -> None:
    """Serve the newest snapshot of a directory until the process is interrupted.

    ``directory``: a directory with checkpoints of one job, or a snapshot. ``host`` and ``port``: the address of HTTP; with port
    0, a free port. ``flight_port``: the port of Arrow Flight; ``None`` for HTTP alone. ``token``: the bearer token of requests;
    required if other machines reach ``host``. ``limits``: limits of requests. ``seconds``: time between two looks for a newer
    checkpoint, in seconds. ``options``: keyword arguments of opening snapshots. ``started``: receives a line about each server
    that is ready. ``page``: the page that the line about HTTP names.
    """
    require("starlette", "serve", "servers")
    _permit_descriptors()
    permission = Permission.of(host, token)
    followed = Followed(directory, options, may_be_damaged=page != "docs")
    server = http_server(followed, permission, limits, host, port)
    url_host = f"[{host}]" if ":" in host else host
    listener = _listener(host, port)
    if followed.can_be_opened:
        followed.current.warm_up()
    followed.follow(seconds)
    sys.setswitchinterval(_SWITCH_SECONDS)
    subject = f"checkpoint {followed.current.checkpoint_id} of" if followed.can_be_opened else "no snapshot can be opened in"
    started(f"{subject} {directory}: http://{url_host}:{listener.getsockname()[1]}/{page}")
    if flight_port is None:
        server.run([listener])
        return
    from state_processor.applications.serving.flight import FlightServer

    with FlightServer((url_host, flight_port), followed, permission, limits) as flights:
        flights.start_queries()
        started(f"Arrow Flight: grpc://{url_host}:{flights.port}")
        threading.Thread(target=flights.serve, name="flight", daemon=True).start()
        server.run([listener])


def _permit_descriptors() -> None:
    """Let the process have as many open files and connections as its user may have: the usual limit is 256 on macOS.

    gRPC closes connections without requests after about a minute. Until then, they must not use up the descriptors.
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = _DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _DESCRIPTORS)
    if limit < descriptors:
        with suppress(OSError, ValueError):  # macOS has another limit beside it
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, most))


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections to an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small packets at once (TCP_NODELAY) if the protocol is named; an answer takes 40 ms longer otherwise
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        return listener
    except OSError as problem:
        listener.close()
        raise OptionError(f"can't listen on {host}, port {port}: {problem.strerror}; choose another --host or --port") from None


def http_server(followed: Followed, permission: Permission, limits: Limits, host: str, port: int) -> Any:
    """Return the server of HTTP, an object of uvicorn."""
    uvicorn = require("uvicorn", "serve", "servers")
    from state_processor.applications.serving.app import WatchedProtocol, application

    config = uvicorn.Config(
        application(followed, permission, limits),
        host=host,
        port=port,
        http=WatchedProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
    )
    return uvicorn.Server(config)
