"""Metrics of a fleet for alerts, in the text format of OpenMetrics: as text, and served to a scraper."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from logging import getLogger
from typing import Any, Final

from state_processor.applications.fleet.measures import KINDS
from state_processor.errors import OptionError, StateProcessorError
from state_processor.support import process_lock

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PATH: Final = "/metrics"
_LOG: Final = getLogger("state_processor")

_Row = Mapping[str, Any]
_Sample = tuple[dict[str, str], float]


def metrics(rows: Sequence[_Row]) -> str:
    """Return the metrics of the rows of a fleet. Unknown values are left out."""
    lines: list[str] = []
    for name, unit, help_text, samples in _FAMILIES:
        lines += [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {help_text}"]
        lines += [f"{name}{_labels(labels)} {value!r}" for row in rows for labels, value in samples(row)]
    return "\n".join([*lines, "# EOF", ""])


def _job(row: _Row) -> dict[str, str]:
    return {"directory": row["directory"], "job_id": row["job_id"] or ""}


def _column(name: str) -> Callable[[_Row], Iterator[_Sample]]:
    def samples(row: _Row) -> Iterator[_Sample]:
        if row[name] is not None:
            yield _job(row), row[name]

    return samples


def _time(row: _Row) -> Iterator[_Sample]:
    if row["time"] is not None:
        yield _job(row), row["time"].timestamp()


def _error(row: _Row) -> Iterator[_Sample]:
    yield _job(row), int(row["error"] is not None)


def _findings(row: _Row) -> Iterator[_Sample]:
    if row["findings"] is not None:
        kinds = {finding["kind"] for finding in row["findings"]}
        yield from ((_job(row) | {"kind": kind}, int(kind in kinds)) for kind in KINDS)


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

    def __init__(self, address: tuple[str, int], measure: Callable[[], Sequence[_Row]], seconds: float) -> None:
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
