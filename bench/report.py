"""The page docs/performance.md: each figure with its ratio, its comparison, and the command to repeat it.

Figures are stored in the folder figures next to this module, in a file for each benchmark, so that a report can be made in parts.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import effort
from figures import Figure

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "performance.md"
KEPT: Final = Path(__file__).parent / "figures"
_PACKAGES: Final = ("pyspark", "pyarrow", "numba")
_TITLES: Final = {
    "read": "Reading through Spark, and decoding",
    "write": "Writing through Spark",
    "engines": "Writing without Spark",
    "native": "Native savepoints of RocksDB",
    "metadata": "Metadata",
    "encode": "Encoding",
    "cold": "First questions of a new process",
    "plan": "Planning",
    "lookup": "Look-ups",
    "scale": "Number of keys",
    "listing": "Number of handles and checkpoints",
    "kernel": "First values of a new installation",
    "flink": "Flink's State Processor API",
    "ask": "Questions",
    "changes": "Differences between checkpoints",
    "serve": "Requests to the server",
}
_NEEDS: Final = {"flink": " The variable `FLINK_STATE_PROCESSOR_JAR` has to name its jar. The package index does not have it."}
_REMARKS: Final = {
    "scale": " CPU time is measured while a virtual machine's host takes no free pages back, if that can be turned off (as root)."
}
_HEAD: Final = """\
# Performance

CPU seconds are the sum over all processes: the driver, the JVM that Spark starts, and all Python workers. Figures are compared
within one run on one machine. Targets are the largest ratio, or the largest figure if nothing is compared (≥: the least); missed
targets are in bold.

`./dev bench NAME` repeats one table, `./dev bench report` all, and writes this page; `--quick` repeats less and measures smaller
savepoints."""


@dataclass
class Run:
    """Figures of one benchmark, with time and conditions."""

    date: str
    seconds: float
    load: tuple[float, float]
    quick: bool
    figures: list[Figure]


def is_kept(name: str) -> bool:
    """Return whether figures of a benchmark are stored."""
    return (KEPT / f"{name}.json").exists()


@contextmanager
def kept(name: str) -> Iterator[list[Figure]]:
    """Store the figures that the block adds to a list, with the load before and after."""
    before, start = os.getloadavg()[0], time.monotonic()
    figures: list[Figure] = []
    yield figures
    if not figures:
        return
    load = before, os.getloadavg()[0]
    run = Run(f"{datetime.now(UTC):%Y-%m-%d}", time.monotonic() - start, load, effort.is_quick(), figures)
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{name}.json").write_text(json.dumps(asdict(run), indent=1) + "\n")


def write_page(names: Iterable[str]) -> Path:
    """Write the page with the stored figures, and return its path."""
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    lines = [_HEAD, "", f"Machine: {machine}, {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}."]
    for name in names:
        lines += ["", f"## {_TITLES.get(name, name)}", ""]
        lines += _table(name, _read(name)) if is_kept(name) else [f"`./dev bench {name}`: not measured.{_NEEDS.get(name, '')}"]
    PAGE.write_text("\n".join(lines) + "\n")
    return PAGE


def _read(name: str) -> Run:
    found = json.loads((KEPT / f"{name}.json").read_text())
    figures = [Figure(**f | {"against": None if f["against"] is None else tuple(f["against"])}) for f in found["figures"]]
    return Run(**found | {"figures": figures})


def _table(name: str, run: Run) -> list[str]:
    how = f"`./dev bench {name}{' --quick' * run.quick}`"
    load = f"load average {run.load[0]:.1f} before and {run.load[1]:.1f} after"
    head = ["| | figure | compared with | ratio | target |", "|---|---:|---:|---:|---:|"]
    when = f"{how}, {run.date}, {run.seconds / 60:.1f} minutes, {load}.{_REMARKS.get(name, '')}"
    return [when, "", *head, *map(_row, run.figures)]


def _row(figure: Figure) -> str:
    against = "" if figure.against is None else f"{figure.against[0]:,.2f} ({figure.against[1]})"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    target = figure.stated_target
    if figure.is_reached is False:
        target = f"**{target}**"
    return f"| {figure.what} | {figure.value:,.2f} {figure.unit} | {against} | {ratio} | {target} |"
