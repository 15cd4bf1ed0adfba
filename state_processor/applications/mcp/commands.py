"""The command ``mcp``: tools of the Model Context Protocol about a job's state."""

from __future__ import annotations

import argparse

from state_processor.applications.serving.limits import Limits
from state_processor.applications.serving.server import INTERVAL, QUERY_MEMORY
from state_processor.command_line import argument, command, flag_values, flags, group, positive
from state_processor.options import Kind
from state_processor.support import require


@command(
    "mcp",
    "read-only tools of the Model Context Protocol, for programs that ask about a job's state",
    "Answer calls of the Model Context Protocol on standard input and output: operators, states, rows, keys, sizes, SQL, "
    "differences, checks of a new job, and explanations of failed restores. The tools read the snapshots of one directory, "
    "and write nothing.",
    argument("directory", metavar="PATH", help="a snapshot, or a job's directory of checkpoints: a path or URL"),
    group(
        "options of the server",
        INTERVAL,
        argument("--max-rows", type=positive, default=200, metavar="N", help="rows of a list in an answer (default: 200)"),
        argument("--time-limit", type=positive, default=60, metavar="SECONDS", help="time of a call (default: 60)"),
        QUERY_MEMORY,
    ),
    flags(Kind.SIZES),
    python=(),
)
def _mcp(options: argparse.Namespace) -> None:
    require("mcp", "mcp", "tools")
    from state_processor.applications.mcp.server import run

    limits = Limits(options.max_rows, float(options.time_limit), memory=options.query_memory << 20)
    run(options.directory, limits, float(options.interval), flag_values(options))
