"""The command ``fleet``: one table for all jobs below directories."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa

from state_processor.applications.fleet.openmetrics import MetricsServer, metrics
from state_processor.applications.fleet.page import age_text, findings_text, fleet_page, growth_text, largest_text
from state_processor.applications.fleet.table import SORTS, TRANSACTION_TIMEOUT, fleet
from state_processor.command_line import (
    PRINTING,
    UNBOUNDED,
    argument,
    check_new,
    command,
    flag_values,
    flags,
    new_file,
    not_negative,
    positive,
    print_json,
    print_table,
    say,
    size_text,
    switch,
    write_rows,
    write_text,
)
from state_processor.errors import OptionError
from state_processor.options import Kind
from state_processor.snapshots import DEPTH, Location
from state_processor.support import presentable

_ADDRESS: Final = re.compile(r"(?P<host>[A-Za-z0-9.\-]*|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")
_PAGE, _PARQUET = (".html", ".htm"), ".parquet"


@command(
    "fleet",
    "one table for all jobs below directories",
    "Show a row for each job below directories or buckets: the newest complete snapshot, its age and size, growth per day, the "
    "largest operators, and findings. Only _metadata files are read, unless --headers, --check or --orphans is given. A snapshot "
    "or directory that can't be read is an error in its row.",
    argument("paths", metavar="DIR", nargs="+", help="directories of checkpoints, savepoints or jobs: paths or URLs"),
    argument("--depth", type=not_negative, default=DEPTH, metavar="N", help="levels below DIR to search (default: %(default)s)"),
    argument("--sort", choices=SORTS, default="job", help="order of the rows; all but job: largest first (default: %(default)s)"),
    switch("--headers", "read the headers of state files, to know which Flink restores the states and what Kryo wrote"),
    switch("--check", "look for every file of the newest snapshots"),
    switch("--orphans", "list all files, and count those that no snapshot uses; nothing is removed"),
    argument(
        "--transaction-timeout",
        default=TRANSACTION_TIMEOUT,
        metavar="TIME",
        help="age of a snapshot after which brokers have aborted the transactions of its sinks (default: %(default)s)",
    ),
    argument("-o", "--output", metavar="FILE", help="a new file instead of a table: .parquet, or .html for one page"),
    argument(
        "--openmetrics",
        metavar="FILE|[HOST]:PORT",
        help="write metrics into this file, which is replaced, or serve them at /metrics of this port (HOST: 127.0.0.1)",
    ),
    argument(
        "--interval", type=positive, metavar="SECONDS", help="with --openmetrics :PORT: time between measurements (default: 60)"
    ),
    PRINTING,
    flags(Kind.SNAPSHOTS),
    fails="a row has an error, or no job is found",
    python=("sp.fleet",),
)
def _fleet(options: argparse.Namespace) -> bool:
    address = _ADDRESS.fullmatch(options.openmetrics or "")
    if options.interval is not None and address is None:
        raise OptionError("--interval is for --openmetrics :PORT: add that")
    if options.output is not None:
        _check_output(options.output)
    measure = partial(
        fleet,
        options.paths,
        sort=options.sort,
        headers=options.headers,
        check=options.check,
        orphans=options.orphans,
        transaction_timeout=options.transaction_timeout,
        depth=options.depth,
        **flag_values(options),
    )
    if address is not None:
        _serve(address, measure, options)
        return True
    table = measure()
    rows = table.to_pylist()
    if options.openmetrics is not None:
        write_text(options.openmetrics, metrics(rows), replaced=True)
    if options.output is not None:
        _write(table, options)
    elif options.json:
        print_json(rows)
    elif options.openmetrics is None:
        _print(rows, options)
    return bool(rows) and not any(row["error"] for row in rows)


def _check_output(path: str) -> None:
    if not path.lower().endswith((*_PAGE, _PARQUET)):
        raise OptionError(f"-o {path}: expected a name that ends with .parquet or .html")
    check_new(path)


def _write(table: pa.Table, options: argparse.Namespace) -> None:
    with new_file(options.output) as file:
        if options.output.lower().endswith(_PARQUET):
            write_rows(file, "parquet", None, table.schema, iter(table.to_batches()), quote_formulas=False)
        else:
            file.write(
                fleet_page(table.to_pylist(), map(presentable, options.paths), datetime.now(UTC)).encode("utf-8", "replace")
            )
    say(f"{table.num_rows} rows")


def _serve(address: re.Match[str], measure: Any, options: argparse.Namespace) -> None:
    if options.output is not None or options.json:
        raise OptionError("--openmetrics :PORT serves metrics until it is interrupted: leave out -o and --json")
    host = address["host"].strip("[]") or "127.0.0.1"
    server = MetricsServer((host, int(address["port"])), lambda: measure().to_pylist(), options.interval or 60)
    say(f"http://{host}:{server.port}/metrics")
    sys.stdout.flush()
    server.serve()


def _print(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    if not rows:
        say("No job found")
        return
    prefix = f"{str(Location.given(options.paths[0])).rstrip('/')}/" if len(options.paths) == 1 else ""
    lines = [
        {
            "job": row["job_id"] or row["directory"].removeprefix(prefix),
            "checkpoint": row["checkpoint_id"],
            "age": age_text(row["age_seconds"]),
            "size": size_text(row["size_in_bytes"]) if row["size_in_bytes"] is not None else "",
            "per_day": growth_text(row["bytes_per_day"]),
            "orphans": row["orphans"],
            "restorable_by": row["restorable_by"],
            "largest_operators": largest_text(row),
            "findings": findings_text(row),
        }
        for row in rows
    ]
    names = [*lines[0]]
    optional = {"orphans", "restorable_by"}
    columns = [n for n in names if n not in optional or any(row[n] is not None for row in lines)]
    print_table(columns, lines, options, UNBOUNDED, frozenset({"job", "largest_operators", "findings"}))
    unchecked = sorted({text for row in rows for text in row["unchecked"] or ()})
    if unchecked:
        say(f"Not checked: {'; '.join(unchecked[:3])}{'; …' if len(unchecked) > 3 else ''}")
