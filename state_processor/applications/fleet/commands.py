"""The command ``fleet``: one table for all jobs below directories, as text, as a page, and as metrics for alerts."""

from __future__ import annotations

import argparse
import re
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from logging import getLogger
from typing import Any, Final

import pyarrow as pa

from state_processor import __version__
from state_processor.applications.fleet.measures import KINDS
from state_processor.applications.fleet.table import SORTS, fleet
from state_processor.applications.report.page import STYLE
from state_processor.applications.row_files.formats import write_rows
from state_processor.command_line import (
    PRINTING,
    UNBOUNDED,
    argument,
    call,
    check_new,
    command,
    count_text,
    flags,
    new_file,
    not_negative,
    positive,
    print_json,
    print_table,
    say,
    size_text,
    switch,
    text_of,
    write_text,
)
from state_processor.errors import OptionError, StateProcessorError
from state_processor.options import Kind
from state_processor.snapshots import Location
from state_processor.support import presentable, process_lock

# Metrics in the text format of OpenMetrics: as text, and served to a scraper

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PATH: Final = "/metrics"
_LOG: Final = getLogger("state_processor")

Row = Mapping[str, Any]
_Sample = tuple[dict[str, str], float]


def metrics(rows: Sequence[Row]) -> str:
    """Return the metrics of the rows of a fleet. Unknown values are left out."""
    lines: list[str] = []
    for name, unit, help_text, samples in _FAMILIES:
        lines += [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {help_text}"]
        for row in rows:
            lines += (f"{name}{_labels(labels)} {value!r}" for labels, value in samples(row))
    return "\n".join([*lines, "# EOF", ""])


def _job(row: Row) -> dict[str, str]:
    return {"directory": row["directory"], "job_id": row["job_id"] or ""}


def _column(name: str) -> Callable[[Row], Iterator[_Sample]]:
    def samples(row: Row) -> Iterator[_Sample]:
        if row[name] is not None:
            yield _job(row), row[name]

    return samples


def _time(row: Row) -> Iterator[_Sample]:
    if row["time"] is not None:
        yield _job(row), row["time"].timestamp()


def _error(row: Row) -> Iterator[_Sample]:
    yield _job(row), int(row["error"] is not None)


def _findings(row: Row) -> Iterator[_Sample]:
    if row["findings"] is not None:
        kinds = {finding["kind"] for finding in row["findings"]}
        for kind in KINDS:
            yield _job(row) | {"kind": kind}, int(kind in kinds)


_FAMILIES: Final = (
    ("flink_snapshot_timestamp_seconds", "seconds", "Time of the newest complete snapshot.", _time),
    ("flink_snapshot_size_bytes", "bytes", "State of the newest complete snapshot.", _column("size_in_bytes")),
    ("flink_snapshot_growth_bytes_per_day", "", "Growth since the oldest snapshot of the same kind.", _column("bytes_per_day")),
    ("flink_snapshots", "", "Snapshots of the job.", _column("snapshots")),
    ("flink_snapshots_incomplete", "", "Snapshots without a readable _metadata or without files.", _column("incomplete")),
    ("flink_orphan_files", "", "Files that no snapshot uses.", _column("orphans")),
    ("flink_snapshot_finding", "", "1 if the newest snapshot has a finding of the kind.", _findings),
    ("flink_snapshot_error", "", "1 if a snapshot or the directory can not be read.", _error),
)


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MetricsServer:
    """A server of metrics at ``/metrics``.

    ``address``: host and port; port 0 for a free port. ``measure``: returns the rows of the fleet. ``seconds``: seconds until a
    request measures again.
    """

    def __init__(self, address: tuple[str, int], measure: Callable[[], Sequence[Row]], seconds: float) -> None:
        self._measure = measure
        self._seconds = seconds
        self._lock = process_lock()
        self._measured: tuple[float, str] | None = None
        answer = self._text

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != _PATH:
                    self.send_error(404, f"metrics are at {_PATH}")
                    return
                try:
                    content = answer().encode("utf-8", "replace")
                except StateProcessorError:
                    _LOG.exception("the metrics could not be measured")
                    self.send_error(503, "the metrics could not be measured; the log has the reason")
                    return
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(content)))
                with suppress(ConnectionError):  # a scraper has its own timeout
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *arguments: Any) -> None:
                _LOG.debug(format, *arguments)

        try:
            self._server = ThreadingHTTPServer(address, Handler)
        except OSError as problem:
            raise OptionError(f"--openmetrics {address[0]}:{address[1]}: {problem.strerror or problem}") from None

    @property
    def port(self) -> int:
        """The port."""
        return int(self._server.server_address[1])

    def _text(self) -> str:
        with self._lock:
            if self._measured is None or time.monotonic() - self._measured[0] > self._seconds:
                self._measured = (time.monotonic(), metrics(self._measure()))
            return self._measured[1]

    def serve(self) -> None:
        """Answer requests until the process is interrupted, or :meth:`close` is called."""
        self._server.serve_forever()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


# The page

_SCRIPT: Final = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.parentElement, up = head.getAttribute("aria-sort") === "descending", body = document.querySelector("tbody");
  for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.children[head.cellIndex].dataset.value;
  const compared = (a, b) => head.dataset.text ? a.localeCompare(b) : a - b;
  const rows = [...body.rows], empty = rows.filter(row => value(row) === "");
  const filled = rows.filter(row => value(row) !== "").sort((a, b) => compared(value(a), value(b)) * (up ? 1 : -1));
  body.append(...filled, ...empty);
});
"""
_DIGEST: Final = b64encode(sha256(_SCRIPT.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_DIGEST}'"
_STYLE: Final = """
body { max-width: 1900px; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort=descending] button::after { content: " ↓"; } th[aria-sort=ascending] button::after { content: " ↑"; }
td.number { text-align: right; white-space: nowrap; }
"""
_DAY, _HOUR, _MINUTE = 86_400, 3600, 60


def age_text(seconds: float | None) -> str:
    """Return an age in two units: ``3d 4h``."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    for unit, name, part, part_name in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s")):
        if whole >= unit:
            return f"{whole // unit}{name} {whole % unit // part}{part_name}"
    return f"{whole}s"


def growth_text(bytes_per_day: float | None) -> str:
    """Return a growth per day with its sign."""
    if bytes_per_day is None:
        return ""
    return f"{'-' if bytes_per_day < 0 else '+'}{size_text(round(abs(bytes_per_day)))}"


def largest_text(row: Row) -> str:
    """Return the largest operators with their sizes."""
    return ", ".join(f"{o['operator']} {size_text(o['size_in_bytes'])}" for o in row["largest_operators"] or ())


def findings_text(row: Row) -> str:
    """Return the error and the findings of a row."""
    texts = [f"{finding['kind']}: {finding['text']}" for finding in row["findings"] or ()]
    return "; ".join([*([row["error"]] if row["error"] else ()), *texts])


def fleet_page(rows: Sequence[Row], directories: Iterable[str], time: datetime) -> str:
    """Return the page about the rows of a fleet."""
    failed = sum(row["error"] is not None for row in rows)
    with_findings = sum(bool(row["findings"]) for row in rows)
    size = sum(row["size_in_bytes"] or 0 for row in rows)
    facts = {
        "rows": count_text(len(rows)),
        "size of the newest snapshots": size_text(size),
        "with findings": count_text(with_findings),
        "with errors": count_text(failed),
        "made": f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
    }
    entries = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    head = ""
    for name, is_number, _, _ in _COLUMNS:
        kind = "" if is_number else " data-text=1"
        head += f'<th{kind} scope="col"><button>{escape(name)}</button></th>'
    body = "".join(map(_line, rows))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>Jobs</title>
<style>{STYLE}{_STYLE}</style>
</head>
<body>
<h1>Jobs</h1>
<p class="path">{escape(text_of(", ".join(directories)))}</p>
<section><dl>{entries}</dl></section>
<section><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>
<footer>state-processor {escape(__version__)}</footer>
<script>{_SCRIPT}</script>
</body>
</html>
"""


_COLUMNS: Final = (
    ("job", False, lambda row: row["job_id"] or row["directory"], lambda row: row["job_id"] or ""),
    ("directory", False, lambda row: row["directory"], lambda row: row["directory"]),
    ("checkpoint", True, lambda row: row["checkpoint_id"], lambda row: count_text(row["checkpoint_id"])),
    ("age", True, lambda row: row["age_seconds"], lambda row: age_text(row["age_seconds"])),
    ("size", True, lambda row: row["size_in_bytes"], lambda row: size_text(row["size_in_bytes"])),
    ("per day", True, lambda row: row["bytes_per_day"], lambda row: growth_text(row["bytes_per_day"])),
    ("snapshots", True, lambda row: row["snapshots"], lambda row: count_text(row["snapshots"])),
    ("incomplete", True, lambda row: row["incomplete"], lambda row: count_text(row["incomplete"])),
    ("orphans", True, lambda row: row["orphans"], lambda row: count_text(row["orphans"])),
    ("restorable by", False, lambda row: row["restorable_by"], lambda row: row["restorable_by"] or ""),
    ("largest operators", False, largest_text, largest_text),
    ("findings", True, lambda row: len(row["findings"] or ()) or (0 if row["error"] else None), findings_text),
    ("not checked", False, lambda row: "; ".join(row["unchecked"] or ()), lambda row: "; ".join(row["unchecked"] or ())),
)
"""Columns: the name, whether it has numbers, the value that sorts it, and its text."""


def _line(row: Row) -> str:
    return f"<tr>{''.join(_cell(row, column) for column in _COLUMNS)}</tr>"


def _cell(row: Row, column: tuple[str, bool, Any, Any]) -> str:
    name, is_number, value, text = column
    sorted_by = value(row)
    kind = (
        ' class="number"' if is_number and name != "findings" else ' class="bad"' if name == "findings" and row["error"] else ""
    )
    return f'<td{kind} data-value="{escape("" if sorted_by is None else str(sorted_by))}">{escape(text_of(text(row)))}</td>'


# The command

_ADDRESS: Final = re.compile(r"(?P<host>[A-Za-z0-9.\-]*|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")
_PAGE, _PARQUET = (".html", ".htm"), ".parquet"


@command(
    "fleet",
    "one table for all jobs below directories",
    "Show a row for each job below directories or buckets: the newest complete snapshot, its age and size, growth per day, the "
    "largest operators, and findings. Only _metadata files are read, unless --headers, --check or --orphans is given. A snapshot "
    "or directory that can't be read is an error in its row.",
    argument("--depth", type=not_negative, metavar="N", help="levels below DIRECTORIES to search (default: %(default)s)"),
    argument("--sort", choices=SORTS, help="order of the rows; all but job: largest first (default: %(default)s)"),
    switch("--headers", "read the headers of state files, to know which Flink restores the states and what Kryo wrote"),
    switch("--check", "look for every file of the newest snapshots"),
    switch("--orphans", "list all files, and count those that no snapshot uses; nothing is removed"),
    argument(
        "--transaction-timeout",
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
    measure = partial(call, fleet, options)
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
                fleet_page(table.to_pylist(), map(presentable, options.directories), datetime.now(UTC)).encode("utf-8", "replace")
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


def _job_line(row: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {
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


def _print(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    if not rows:
        say("No job found")
        return
    prefix = f"{str(Location.given(options.directories[0])).rstrip('/')}/" if len(options.directories) == 1 else ""
    lines = [_job_line(row, prefix) for row in rows]
    columns = [*lines[0]]
    for optional in ("orphans", "restorable_by"):
        if all(line[optional] is None for line in lines):
            columns.remove(optional)
    print_table(columns, lines, options, UNBOUNDED, frozenset({"job", "largest_operators", "findings"}))
    unchecked = sorted(set(chain.from_iterable(row["unchecked"] or () for row in rows)))
    if unchecked:
        say(f"Not checked: {'; '.join(unchecked[:3])}{'; …' if len(unchecked) > 3 else ''}")
