"""The servers of HTTP and Arrow Flight in one process, and the commands ``serve`` and ``browse``, which start them."""

from __future__ import annotations

import argparse
import os
import resource
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from typing import Any, Final

from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import Limits, Permission
from state_processor.command_line import argument, command, flag_values, flags, group, not_negative, positive, say
from state_processor.errors import OptionError
from state_processor.options import Kind
from state_processor.support import require

_IDLE_SECONDS: Final = 30
"""Time in seconds until a connection without requests is closed."""

_DESCRIPTORS: Final = 10_240
"""Open files and connections of the process; macOS does not permit more."""
_BACKLOG: Final = 1024
"""Connections that wait to be accepted."""
_SWITCH_SECONDS: Final = 0.001
"""Time in seconds that a thread may take until another gets its turn."""


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
    subject = f"checkpoint {followed.current.checkpoint_id} of" if followed.can_be_opened else "no snapshot can be opened in"
    with followed.follow(seconds), _short_turns():
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


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take turns more often while the context lasts: many requests are shorter than Python's 5 milliseconds."""
    seconds = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(seconds)


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


# The commands

_TOKEN_BYTES: Final = 24
TOKEN_SETTING: Final = "STATE_PROCESSOR_TOKEN"
INTERVAL: Final = argument(
    "--interval",
    type=positive,
    default=1,
    metavar="SECONDS",
    help="time between looks for a newer checkpoint (default: 1)",
)
QUERY_MEMORY: Final = argument(
    "--query-memory",
    type=positive,
    default=Limits.memory >> 20,
    metavar="MB",
    help=f"memory of DuckDB for a query of SQL; its process may use twice as much (default: {Limits.memory >> 20})",
)


@command(
    "serve",
    "server of HTTP and Arrow Flight for a job's newest checkpoint",
    "Answer requests for keys and states from the newest complete checkpoint of a job, or from one snapshot. "
    "GET /operators/UID/keys/KEY returns the values of a key; /docs describes all paths. Arrow Flight returns whole states and "
    "results of SQL. Answers name their checkpoint.",
    argument("directory", metavar="DIRECTORY", help="the job's directory of checkpoints, or a snapshot: a path or URL"),
    group(
        "options of the server",
        argument(
            "--host", default="127.0.0.1", help="address; a token is needed if other machines reach it (default: 127.0.0.1)"
        ),
        argument("--port", type=not_negative, default=8080, help="port of HTTP (default: 8080)"),
        argument("--flight-port", type=not_negative, metavar="PORT", help="port of Arrow Flight; without it HTTP alone"),
        argument(
            "--token-file", metavar="FILE", help=f"file with the bearer token of requests; or set {TOKEN_SETTING} to the token"
        ),
        INTERVAL,
        argument(
            "--max-rows", type=positive, default=Limits.rows, metavar="N", help=f"rows of an answer (default: {Limits.rows})"
        ),
        argument(
            "--time-limit",
            type=positive,
            default=int(Limits.seconds),
            metavar="SECONDS",
            help="time of a request (default: 30)",
        ),
        argument(
            "--parallel",
            type=positive,
            default=Limits.parallel,
            metavar="N",
            help="requests at the same time (default: 8)",
        ),
        QUERY_MEMORY,
    ),
    flags(Kind.SIZES),
    python=(),
)
def _serve(options: argparse.Namespace) -> None:
    limits = Limits(options.max_rows, float(options.time_limit), options.parallel, options.query_memory << 20)
    serve(
        options.directory,
        options.host,
        options.port,
        options.flight_port,
        _token(options.token_file),
        limits,
        float(options.interval),
        flag_values(options),
        _say_at_once,
    )


@command(
    "browse",
    "a page in the browser about a snapshot, or about the newest of a job",
    "Serve a page about a snapshot on this machine: operators, states, rows, keys with their timers, sizes, snapshots over time, "
    "differences and SQL. For a directory, the page follows the newest complete checkpoint. The printed address has the token "
    "of this run. Nothing is written.",
    argument("directory", metavar="PATH", help="a snapshot, or a job's directory of checkpoints: a path or URL"),
    group(
        "options of the server",
        argument("--port", type=not_negative, default=0, help="port (default: a free port)"),
        INTERVAL,
        argument("--time-limit", type=positive, default=120, metavar="SECONDS", help="time of a request (default: 120)"),
        QUERY_MEMORY,
    ),
    flags(Kind.SIZES),
    python=(),
)
def _browse(options: argparse.Namespace) -> None:
    from state_processor.applications.serving.browsing import BROWSE

    token = secrets.token_urlsafe(_TOKEN_BYTES)
    limits = Limits(seconds=float(options.time_limit), memory=options.query_memory << 20)
    serve(
        options.directory,
        "127.0.0.1",
        options.port,
        None,
        token,
        limits,
        float(options.interval),
        flag_values(options),
        _say_at_once,
        f"{BROWSE}#token={token}",
    )


def _say_at_once(text: str) -> None:
    """Print a line that a waiting program reads at once, although the command goes on."""
    say(text)
    sys.stdout.flush()


def _token(file: str | None) -> str | None:
    if file is None:
        return os.environ.pop(TOKEN_SETTING, None) or None  # processes that run queries do not get it
    try:
        with open(file, encoding="ascii") as opened:
            return opened.read().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise OptionError(f"--token-file {file}: {problem}") from None
