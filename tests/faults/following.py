"""Kills of what follows a running job: ``python -m tests.faults.following --version 2.3.0 --seconds 300``.

Real Flink runs a job with a checkpoint each half second. ``sync`` keeps tables of Delta, Iceberg and Parquet equal to its state,
and a query of Spark a table of Delta. Their processes are killed at random moments and started again. In the end each table
equals the savepoint of the job.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

import state_processor as sp
from state_processor import cli
from tests.faults.followed_stream import STARTED
from tests.interop import flink
from tests.waiting import end_of

UID, STATE = "totals", "total"
_LAST_RUN_SECONDS = 300.0
"""The last run of what follows a job is killed after this time, and fails then."""


@dataclass
class Follower:
    """A process that follows a job, and is killed.

    Parameters
    ----------
    start
        Starts it. With ``True`` it reads what is left, and ends.
    longest
        Seconds after which it is killed at the latest, counted from the line ``started``.
    read
        Returns the rows of its table.
    log
        The file of its output.
    expected
        Exit codes of the last run; 1 is for a table that has the newest checkpoint already.
    started
        The line of its log after which it reads checkpoints. Without a line, it reads them at once.
    """

    start: Callable[[bool], Child]
    longest: float
    read: Callable[[], pa.Table]
    log: Path
    expected: tuple[int, ...] = (0, 1)
    started: str = ""
    kills: int = 0
    problems: list[str] = field(default_factory=list)

    def run(self, ended: threading.Event, seed: int, most: int) -> None:
        """Run it until the job has ended, and kill it at random moments; then have it read what is left."""
        chance = random.Random(seed)
        while not ended.is_set():
            code = self._once(False, chance.uniform(0.3, self.longest) if self.kills < most else None, ended)
            if code is not None and not ended.is_set():
                self.problems.append(f"ended by itself with {code}")
                return
        code = self._once(True, _LAST_RUN_SECONDS, threading.Event())
        if code not in self.expected:
            self.problems.append(f"the last run ended with {code}")

    def _once(self, to_the_end: bool, seconds: float | None, ended: threading.Event) -> int | None:
        """Run it once; return its exit code, ``None`` if it was killed: after some seconds, or because the job has ended."""
        earlier = self._starts()
        child = self.start(to_the_end)
        until = math.inf
        while child.code() is None and time.monotonic() < until and not ended.is_set():
            time.sleep(0.02)
            if seconds is not None and until == math.inf and (not self.started or self._starts() > earlier):
                until = time.monotonic() + seconds
        if child.code() is not None:
            return child.code()
        child.kill()
        self.kills += 1
        return None

    def _starts(self) -> int:
        """Return how often it has started."""
        return self.log.read_text("utf-8", "replace").count(self.started) if self.started and self.log.exists() else 0


class Child(Protocol):
    """A process that may be killed."""

    def code(self) -> int | None:
        """Return its exit code; ``None`` while it runs."""

    def kill(self) -> None:
        """Kill it with its children."""


class Command:
    """A process of a command, such as Spark's driver with its JVM."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen([*command], stdout=output, stderr=output, start_new_session=True)

    def code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        end_of(self._process)


class Fork:
    """A fork of a process that has imported the command line: its start takes no time, so that kills meet its work."""

    context: ClassVar[Any] = multiprocessing.get_context("forkserver")

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._process = self.context.Process(target=_run_command, args=([*arguments], str(log)), daemon=True)
        self._process.start()

    def code(self) -> int | None:
        found: int | None = self._process.exitcode
        return found

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


Fork.context.set_forkserver_preload(["state_processor.cli", "deltalake", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow"])


def _run_command(arguments: Sequence[str], log: str) -> None:
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    code = cli.main(arguments)
    sys.stdout.flush()
    os._exit(code)


def followers(root: Path, checkpoints: Path, kinds: Sequence[str]) -> dict[str, Follower]:
    """Return what follows, by the kind of the table."""
    sync = ["sync", str(checkpoints), "--uid", UID, "--state", STATE, "--json", "--to"]
    follow = ["--follow", "--interval", "100ms"]
    catalog = {"uri": f"sqlite:///{root}/catalog.db", "warehouse": root.as_uri()}
    to = {
        "delta": [f"{root}/delta"],
        "parquet": [f"{root}/totals.parquet"],
        "iceberg": ["lake.totals", "--format", "iceberg", *(o for n, v in catalog.items() for o in ("--to-option", f"{n}={v}"))],
    }
    reads: dict[str, Callable[[], pa.Table]] = {
        "delta": lambda: DeltaTable(root / "delta").to_pyarrow_table(),
        "parquet": lambda: pq.read_table(root / "totals.parquet"),
        "iceberg": lambda: load_catalog("default", type="sql", **catalog).load_table("lake.totals").scan().to_arrow(),
        "stream": lambda: DeltaTable(root / "streamed").to_pyarrow_table(),
    }
    stream = [sys.executable, "-m", "tests.faults.followed_stream", str(checkpoints), f"{root}/streamed", f"{root}/query"]
    found = {}
    for kind in kinds:
        log = root / f"{kind}.log"
        if kind == "stream":
            found[kind] = Follower(partial(_start_stream, stream, log), 60, reads[kind], log, (0,), STARTED)
        else:
            found[kind] = Follower(partial(_start_sync, [*sync, *to[kind]], follow, log), 6, reads[kind], log)
    return found


def _start_stream(command: Sequence[str], log: Path, to_the_end: bool) -> Child:
    return Command([*command, "--once"] if to_the_end else command, log)


def _start_sync(arguments: Sequence[str], follow: Sequence[str], log: Path, to_the_end: bool) -> Child:
    return Fork(arguments if to_the_end else [*arguments, *follow], log)


def follow_a_job(
    version: str, root: Path, runs: str, *, kinds: Sequence[str], retained: int, seed: int, most: int, keys: int, rate: int
) -> dict[str, Follower]:
    """Run a job with followers, and compare their tables with its savepoint.

    Args:
        version: of Flink.
        root: a directory.
        runs: of the job, see :func:`tests.interop.flink.run_with_checkpoints`.
        kinds: what follows.
        retained: number of checkpoints that Flink keeps.
        seed: of the random moments.
        most: kills of each follower at the most.
        keys, rate: of the job.
    """
    checkpoints, savepoints = root / "checkpoints", root / "savepoints"
    checkpoints.mkdir()
    savepoints.mkdir()
    found, ended, result = followers(root, checkpoints, kinds), threading.Event(), list[Any]()

    def job() -> None:
        try:
            result.append(
                flink.run_with_checkpoints(
                    version, checkpoints, savepoints, interval=500, retained=retained, keys=keys, rate=rate, runs=runs
                )
            )
        except Exception as error:
            result.append(error)
        ended.set()

    running = threading.Thread(target=job)
    running.start()
    while not ended.is_set() and not list(checkpoints.glob("*/chk-*/_metadata")):
        time.sleep(0.05)
    threads = [threading.Thread(target=f.run, args=(ended, seed + i, most)) for i, f in enumerate(found.values())]
    for thread in threads:
        thread.start()
    for thread in (*threads, running):
        thread.join()
    if isinstance(result[0], Exception):
        raise result[0]
    wanted = _rows(sp.arrow.read_state(result[0], UID, STATE).read_all())
    for follower in found.values():
        try:
            if _rows(follower.read()) != wanted:
                follower.problems.append("its table does not equal the savepoint")
        except Exception as error:
            follower.problems.append(f"its table can't be read: {error}")
    return found


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["key"], row["value"]) for row in table.to_pylist())


def main() -> int:
    """Run the campaign, and print the number of kills of each follower."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="2.3.0")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--kills", type=int, default=50, help="of each follower at the most")
    parser.add_argument("--retained", type=int, default=5)
    parser.add_argument("--kind", dest="kinds", action="append", choices=("delta", "parquet", "iceberg", "stream"))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    part = options.seconds * 1000 // 3
    kinds = options.kinds or ["delta", "parquet", "iceberg", "stream"]
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="following-", ignore_cleanup_errors=True) as directory:
        found = follow_a_job(
            options.version,
            Path(directory),
            f"2:{part},3:{part},1:{part}",
            kinds=kinds,
            retained=options.retained,
            seed=options.seed,
            most=options.kills,
            keys=2000,
            rate=1000,
        )
        for kind, follower in found.items():
            log = follower.log.read_text("utf-8", "replace")
            full, some = log.count('"is_full": true'), log.count('"is_full": false')
            commits = "" if kind == "stream" else f"commits of all rows {full}, of changes {some}; "
            print(f"{kind}: {follower.kills} kills; {commits}{'; '.join(follower.problems) or 'equal'}")
            if follower.problems:
                print(log[-3000:])
    return 1 if any(f.problems for f in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
