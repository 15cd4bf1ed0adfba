"""Kills of what follows a running job: ``python -m tests.faults.following --version 2.3.0 --seconds 300``.

Real Flink runs a job with a checkpoint each second. ``sync`` keeps tables of Delta, Iceberg and Parquet equal to its state. A
query of Spark keeps a table of Delta and a ledger of changes. Their processes are killed at random moments and started again. In
the end each table equals the savepoint of the job.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

import state_processor as sp
from state_processor import cli
from tests.faults import followed_stream
from tests.faults.followed_stream import STATE, UID
from tests.interop import flink
from tests.spark_python import interpreter

_LAST_RUN_SECONDS = 300.0
"""The last run of what follows a job is killed after this time, and fails then."""
STARTED = "the query starts"
BATCH = '{"batch"'
STREAM = "stream"


@dataclass
class Follower:
    """A process that follows a job, and is killed.

    Parameters
    ----------
    start
        Starts it. With ``True`` it reads what is left, and ends.
    longest
        Seconds after which it is killed at the latest, counted from one of the texts ``begins``.
    read
        Returns the rows of its table.
    log
        The file of its output.
    expected
        Exit codes of the last run; 1 is for a table that has the newest checkpoint already.
    begins
        Texts of its log; the kill is counted from a random one of them. Without a text, it is counted from the start.
    """

    start: Callable[[bool], Child]
    longest: float
    read: Callable[[], pa.Table]
    log: Path
    expected: tuple[int, ...] = (0, 1)
    begins: tuple[str, ...] = ("",)
    kills: int = 0
    problems: list[str] = field(default_factory=list)

    def run(self, ended: threading.Event, seed: int, most: int) -> None:
        """Run it until the job has ended, and kill it at random moments; then have it read what is left."""
        chance = random.Random(seed)
        while not ended.is_set():
            seconds = chance.uniform(0.3, self.longest) if self.kills < most else None
            code = self._once(False, seconds, chance.choice(self.begins), ended)
            if code is not None and not ended.is_set():
                self.problems.append(f"ended by itself with {code}")
                return
        code = self._once(True, _LAST_RUN_SECONDS, "", threading.Event())
        if code not in self.expected:
            self.problems.append(f"the last run ended with {code}")

    def _once(self, to_the_end: bool, seconds: float | None, begin: str, ended: threading.Event) -> int | None:
        """Run it once; return its exit code, ``None`` if it was killed: after some seconds, or because the job has ended."""
        earlier = self._number_of(begin)
        child = self.start(to_the_end)
        until = math.inf
        while child.code() is None and time.monotonic() < until and not ended.is_set():
            time.sleep(0.02)
            if seconds is not None and until == math.inf and (not begin or self._number_of(begin) > earlier):
                until = time.monotonic() + seconds
        if child.code() is not None:
            return child.code()
        child.kill()
        self.kills += 1
        return None

    def _number_of(self, text: str) -> int:
        """Return how often its log has a text."""
        return self.log.read_text("utf-8", "replace").count(text) if text and self.log.exists() else 0


class Child(Protocol):
    """A process that may be killed."""

    def code(self) -> int | None:
        """Return its exit code; ``None`` while it runs."""

    def kill(self) -> None:
        """Kill it with its children."""


_IMPORTED: Final = ["state_processor.cli", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "tests.faults.followed_stream"]


class Fork:
    """A fork of a process that has imported what it needs: its start takes no time, so that kills meet its work."""

    context: ClassVar[Any] = multiprocessing.get_context("forkserver")

    def __init__(self, run: Callable[..., int], *arguments: Any, log: Path) -> None:
        self.context.set_forkserver_preload(_IMPORTED)
        self._process = self.context.Process(target=_run, args=(run, arguments, str(log)), daemon=True)
        self._process.start()

    def code(self) -> int | None:
        found: int | None = self._process.exitcode
        return found

    def kill(self) -> None:
        """Kill it with the JVM that it has started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it does not have its own group yet
            self._process.kill()
        self._process.join()


def _run(run: Callable[..., int], arguments: Sequence[Any], log: str) -> None:
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    code = 1
    try:
        code = run(*arguments)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class StartedSparks:
    """Starts queries in sessions of Spark that have started before: the next one starts while a query runs."""

    def __init__(self, places: Mapping[str, Path], log: Path, python: str) -> None:
        self._places = places
        self._python = python
        self._log = log
        self._spare: tuple[Fork, Any] | None = None

    def __call__(self, to_the_end: bool) -> Child:
        """Start the query; with ``True`` it ends when it has read all checkpoints."""
        if self._spare is None or self._spare[0].code() is not None:
            self._spare = self._session()
        child, told = self._spare
        told.send(to_the_end)
        told.close()
        self._spare = None if to_the_end else self._session()
        return child

    def _session(self) -> tuple[Fork, Any]:
        asked, told = Fork.context.Pipe(duplex=False)
        return Fork(_follow_in_spark, asked, self._places, self._python, log=self._log), told


def _follow_in_spark(asked: Any, places: Mapping[str, Path], python: str) -> int:
    def note(line: str) -> None:
        print(line, flush=True)

    spark = followed_stream.session(python)
    to_the_end = asked.recv()
    note(STARTED)
    followed_stream.follow(spark, places, note, to_the_end=to_the_end)
    return 0


def tables(root: Path, checkpoints: Path, kinds: Sequence[str]) -> dict[str, Follower]:
    """Return processes of ``sync``, by the kind of their table."""
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
    }
    logs = {kind: root / f"{kind}.log" for kind in kinds}
    return {k: Follower(partial(_start_sync, [*sync, *to[k]], follow, logs[k]), 6, reads[k], logs[k]) for k in kinds}


def places_of_stream(root: Path, checkpoints: Path) -> dict[str, Path]:
    """Return where the stream keeps what, see :func:`tests.faults.followed_stream.follow`."""
    return {"checkpoints": checkpoints, "table": root / "streamed", "ledger": root / "ledger.parquet", "query": root / "query"}


def rows_of_stream(places: Mapping[str, Path]) -> pa.Table:
    """Return the rows of both tables of the stream."""
    table, ledger = DeltaTable(places["table"]).to_pyarrow_table(), pq.read_table(places["ledger"])
    assert _rows(table) == _rows(ledger), "the tables of the stream differ"
    return table


def stream(root: Path, checkpoints: Path, python: str) -> Follower:
    """Return processes of the stream."""
    places, log = places_of_stream(root, checkpoints), root / "stream.log"
    return Follower(StartedSparks(places, log, python), 8, partial(rows_of_stream, places), log, (0,), (STARTED, BATCH))


def _start_sync(arguments: Sequence[str], follow: Sequence[str], log: Path, to_the_end: bool) -> Child:
    return Fork(cli.main, arguments if to_the_end else [*arguments, *follow], log=log)


def follow_a_job(
    version: str,
    root: Path,
    runs: str,
    followers: Callable[[Path, Path], dict[str, Follower]],
    *,
    interval: int = 500,
    retained: int,
    seed: int,
    most: int,
    keys: int,
    rate: int,
) -> dict[str, Follower]:
    """Run a job with followers, and compare their tables with its savepoint.

    Args:
        version: of Flink.
        root: a directory.
        runs: of the job, see :func:`tests.interop.flink.run_with_checkpoints`.
        followers: returns what follows, for the directory and the checkpoint directory.
        interval: milliseconds between checkpoints.
        retained: number of checkpoints that Flink keeps.
        seed: of the random moments.
        most: kills of each follower at the most.
        keys, rate: of the job.
    """
    checkpoints, savepoints = root / "checkpoints", root / "savepoints"
    checkpoints.mkdir()
    savepoints.mkdir()
    found, ended, result = followers(root, checkpoints), threading.Event(), list[Any]()

    def job() -> None:
        try:
            result.append(
                flink.run_with_checkpoints(
                    version, checkpoints, savepoints, interval=interval, retained=retained, keys=keys, rate=rate, runs=runs
                )
            )
        except Exception as error:
            result.append(error)
        ended.set()

    running = threading.Thread(target=job)
    running.start()
    while not ended.is_set() and not _has_state(checkpoints):  # the job registers it with its first record
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


def _has_state(checkpoints: Path) -> bool:
    try:
        return any(sp.arrow.read_state(path.parent, UID, STATE).schema for path in checkpoints.glob("*/chk-*/_metadata"))
    except sp.StateProcessorError:
        return False


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["key"], row["value"]) for row in table.to_pylist())


def main() -> int:
    """Run the campaign, and print the number of kills of each follower."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="2.3.0")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--interval", type=int, default=1000, help="milliseconds between checkpoints")
    parser.add_argument("--kills", type=int, default=50, help="of each follower at the most")
    parser.add_argument("--retained", type=int, default=20)
    parser.add_argument("--kind", dest="kinds", action="append", choices=("delta", "parquet", "iceberg", STREAM))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    part = options.seconds * 1000 // 3
    kinds = options.kinds or ["delta", "parquet", "iceberg", STREAM]
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="following-", ignore_cleanup_errors=True) as directory, ExitStack() as stack:
        python = stack.enter_context(interpreter()) if STREAM in kinds else ""

        def followers(root: Path, checkpoints: Path) -> dict[str, Follower]:
            found = tables(root, checkpoints, [kind for kind in kinds if kind != STREAM])
            return found | ({STREAM: stream(root, checkpoints, python)} if STREAM in kinds else {})

        found = follow_a_job(
            options.version,
            Path(directory),
            f"2:{part},3:{part},1:{part}",
            followers,
            interval=options.interval,
            retained=options.retained,
            seed=options.seed,
            most=options.kills,
            keys=2000,
            rate=1000,
        )
        for kind, follower in found.items():
            log = follower.log.read_text("utf-8", "replace")
            full, some = (len(re.findall(rf'"(?:is_)?full": {flag}', log)) for flag in ("true", "false"))
            problems = "; ".join(follower.problems) or "equal"
            print(f"{kind}: {follower.kills} kills; of all rows {full}, of changes {some}; {problems}")
            if follower.problems:
                print(log[-3000:])
    return 1 if any(f.problems for f in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
