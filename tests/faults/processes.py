"""Processes of Spark: drivers, a standalone cluster on this machine, and their child processes."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyspark

from tests.faults.driver import JAVA_OPTIONS
from tests.faults.writes import Write
from tests.waiting import end_of

_ROOT: Final = Path(__file__).resolve().parents[2]
_SECONDS: Final = 600
_ENVIRONMENT: Final = {
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(_ROOT),
    "SPARK_HOME": str(Path(pyspark.__file__).parent),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
    "SPARK_DAEMON_MEMORY": "256m",
}


def descendants(pid: int) -> list[int]:
    """Return a process and all that it has started, and these."""
    parents = {int(path.name): parent(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def parent(pid: int) -> int:
    """Return the process that has started a process; 0 if it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def command(pid: int) -> str:
    """Return the command line of a process; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def kill(pids: Sequence[int]) -> None:
    """Kill processes all at once."""
    for number in (signal.SIGSTOP, signal.SIGKILL) if len(pids) > 1 else (signal.SIGKILL,):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


class Driver:
    """Process of :mod:`tests.faults.driver`."""

    def __init__(self, master: str) -> None:
        arguments = [sys.executable, "-m", "tests.faults.driver", master]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        environment = os.environ | _ENVIRONMENT
        self.process = subprocess.Popen(arguments, text=True, env=environment, cwd=_ROOT, **pipes)
        self._ready = False

    def wait(self) -> None:
        """Wait until it has its session."""
        if not self._ready:
            assert self.answer() == {}
            self._ready = True

    def start(self, api: str, write: Write) -> None:
        """Begin a write."""
        self.wait()
        assert self.process.stdin is not None
        print(json.dumps({"api": api, **asdict(write)}), file=self.process.stdin, flush=True)

    def has_answered(self) -> bool:
        """Return whether the write is over, or the process."""
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def answer(self) -> dict[str, Any]:
        """Return the error of a write; empty after success."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], _SECONDS)[0], "no answer"
        answer = json.loads(self.process.stdout.readline() or '{"type": "the process has ended", "message": ""}')
        assert isinstance(answer, dict)
        return answer

    def jvm(self) -> int:
        """Return the JVM."""
        return next(p for p in descendants(self.process.pid) if "org.apache.spark.deploy.SparkSubmit" in command(p))

    def end(self) -> None:
        """Kill it and all that it has started."""
        kill(descendants(self.process.pid))
        end_of(self.process)


class Cluster:
    """Standalone cluster of a master and two workers, each a JVM of its own."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._master = self._start("master.Master", "--port", str(port))
        self.workers = [self._worker(i) for i in range(2)]

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        directory = str(self._scratch / f"worker-{number}")
        return self._start("worker.Worker", "-c", "2", "-m", "2g", "-d", directory, self.master)

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        program = f"{_ENVIRONMENT['SPARK_HOME']}/bin/spark-class"
        where = ["--host", "127.0.0.1", "--webui-port", "0"]
        full = [program, f"org.apache.spark.deploy.{name}", *where, *arguments]
        silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(full, env=os.environ | _ENVIRONMENT, cwd=_ROOT, **silent)

    def processes(self, part: str) -> list[int]:
        """Return processes that workers have started, by a part of their command lines."""
        return [p for w in self.workers for p in descendants(w.pid) if part in command(p)]

    def replace_worker(self, number: int) -> None:
        """Restart a killed worker."""
        end_of(self.workers[number])
        self.workers[number] = self._worker(number)

    def end(self) -> None:
        """Kill all of its processes."""
        for one in (*self.workers, self._master):
            kill(descendants(one.pid))
            end_of(one)
