"""Commands that answer requests about a job's state: ``serve`` and ``browse``."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from typing import Final

from state_processor.applications.serving.browsing import BROWSE
from state_processor.applications.serving.limits import Limits
from state_processor.applications.serving.server import serve
from state_processor.command_line import argument, command, flag_values, flags, group, not_negative, positive, say
from state_processor.errors import OptionError
from state_processor.options import Kind

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
