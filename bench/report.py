"""The page docs/performance.md: figures of all benchmarks, measured in one run of one commit on an idle machine.

The figures of a benchmark are kept below .cache until the page is written, so that a run that was interrupted can go on.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Final

from figures import Figure

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "performance.md"
KEPT: Final = ROOT / ".cache" / "bench" / "report"
IDLE: Final = 0.25
"""Largest load average of a minute, for each core, at which a run begins."""
_PACKAGES: Final = ("pyspark", "pyarrow", "numba")


@dataclass(frozen=True)
class Table:
    """A table of the page."""

    title: str
    gain: str
    command: str = ""


TABLES: Final = {
    "read": Table(
        "Reading through Spark, and decoding",
        "A DataFrame of a state is compared with the same rows in Parquet: plan a query of a savepoint like one of a table.",
    ),
    "write": Table(
        "Writing through Spark",
        "Rows of a DataFrame become a savepoint: compare with `df.write.parquet`, and choose the size of your executors.",
    ),
    "engines": Table(
        "Writing without Spark",
        "A savepoint of millions of keys, or a change of ten, needs neither a Spark session nor a Flink job.",
    ),
    "native": Table(
        "Native savepoints of RocksDB",
        "Flink restores a native savepoint by opening its files: compare the time of a restart, and the cost of the write.",
    ),
    "metadata": Table("Metadata", "What is in a large checkpoint can be asked before its files are read."),
    "encode": Table("Encoding", "Values are encoded in compiled kernels, without a Python object for each row."),
    "cold": Table("First questions of a new process", "A command answers at once, and a script does not wait for a session."),
    "plan": Table("Planning", "Spark's driver plans checkpoints of thousands of subtasks with bounded time and memory."),
    "lookup": Table("Look-ups", "One key is read without the rest of the state."),
    "scale": Table(
        "Number of keys",
        "Cost per key and memory stay the same as a state grows: size executors by a savepoint of a million keys. "
        "CPU time is measured while the host of a virtual machine takes no free pages back, if that can be turned off (as root).",
    ),
    "many_keys": Table(
        "Number of keys without Spark",
        "The same holds for one Python process, and for patches, comparisons and conversions.",
        "scale --keys 10 100",
    ),
    "listing": Table(
        "Number of handles and checkpoints",
        "Old directories with thousands of checkpoints, and checkpoints with a million files, can be listed and cleaned.",
    ),
    "kernel": Table(
        "First values of a new installation",
        "The first read after an installation compiles kernels: a container saves this time if its image has run `warm-up`.",
    ),
    "flink": Table("Flink's State Processor API", "The same rows, read by a job of Flink."),
    "ask": Table("Questions", "`diff` and `sizes` are compared with a read of the rows: plan a question like a read."),
    "changes": Table(
        "Differences between checkpoints",
        "What changed between two incremental checkpoints is read from the files that differ.",
    ),
    "serve": Table("Requests to the server", "A dashboard or another language can ask for single keys by HTTP."),
}
"""Tables of the page, by the benchmark's module without ``_bench``, in the order of the page."""
_HEAD: Final = """\
# Performance

All figures are from one run of `./dev bench report` on an idle machine. CPU seconds are the sum over all processes: the driver,
the JVM that Spark starts, and all Python workers. Targets are the largest ratio, or the largest figure if nothing is compared
(≥: the least); missed targets are in bold.

`./dev bench NAME` repeats one table; `--quick` repeats less and measures smaller savepoints.

| | |
|---|---|
| commit | {commit} |
| date | {date} |
| machine | {machine} |
| packages | {packages} |
| load average at the start | {load} |"""


def make(resume: bool) -> Path:
    """Measure all benchmarks and write the page.

    Parameters
    ----------
    resume
        Go on with the run of this commit that was interrupted.

    Returns
    -------
    The path of the page.

    Raises
    ------
    SystemExit
        If the checkout has changes that are in no commit, or if the machine is busy.
    """
    run = _begun_run() if resume else _new_run()
    for name in TABLES:
        path = run / f"{name}.json"
        if not path.exists():
            figures = import_module(f"{name}_bench").main()
            path.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")
    PAGE.write_text("\n".join(_page(run)) + "\n")
    return PAGE


def _new_run() -> Path:
    conditions = _conditions()
    load = _idle_load()
    run = KEPT / conditions["commit"]
    run.mkdir(parents=True, exist_ok=True)
    for path in run.iterdir():
        path.unlink()
    (run / "conditions").write_text(json.dumps(conditions | {"load": f"{load:.2f}"}))
    return run


def _begun_run() -> Path:
    conditions = _conditions()
    _idle_load()
    run = KEPT / conditions["commit"]
    if not (run / "conditions").exists():
        raise SystemExit(f"bench report: no run of the commit {run.name} was interrupted: leave out --resume")
    begun = json.loads((run / "conditions").read_text())
    changed = [f"{name} {begun[name]}, now {value}" for name, value in conditions.items() if begun[name] != value]
    if changed:
        raise SystemExit(f"bench report: the run began with other conditions ({'; '.join(changed)}): leave out --resume")
    return run


def _idle_load() -> float:
    """Return the load average of the last minute, and refuse a busy machine."""
    load, most = os.getloadavg()[0], IDLE * (os.cpu_count() or 1)
    if load > most:
        raise SystemExit(f"bench report: the machine is busy: its load average is {load:.2f}, and at most {most:.2f} is idle")
    return load


def _conditions() -> dict[str, str]:
    return {
        "commit": _commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}",
        "packages": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
    }


def _commit() -> str:
    """Return the commit of the checkout. Changes outside of the page are refused: they belong to no commit."""
    changes = _git("status", "--porcelain", "--", ".", f":!{PAGE.relative_to(ROOT)}")
    if changes:
        raise SystemExit(f"bench report: figures belong to a commit, and these files have changes: {changes}")
    return _git("rev-parse", "--short=12", "HEAD")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _page(run: Path) -> list[str]:
    lines = [_HEAD.format(**json.loads((run / "conditions").read_text()))]
    for name, table in TABLES.items():
        figures = [_figure(stored) for stored in json.loads((run / f"{name}.json").read_text())]
        # A benchmark without its requirements, such as a jar, returns no figures.
        if figures:
            lines += ["", f"## {table.title}", "", f"{table.gain} `./dev bench {table.command or name}`", "", *_rows(figures)]
    return lines


def _figure(stored: dict[str, object]) -> Figure:
    against = stored["against"]
    return Figure(**stored | {"against": tuple(against) if isinstance(against, list) else None})  # type: ignore[arg-type]


def _rows(figures: Sequence[Figure]) -> list[str]:
    return ["| | figure | compared with | ratio | target |", "|---|---:|---:|---:|---:|", *map(_row, figures)]


def _row(figure: Figure) -> str:
    against = "" if figure.against is None else f"{figure.against[0]:,.2f} ({figure.against[1]})"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    target = figure.stated_target
    if figure.is_reached is False:
        target = f"**{target}**"
    return f"| {figure.what} | {figure.value:,.2f} {figure.unit} | {against} | {ratio} | {target} |"
