"""CPU time and memory of this process, the JVM that Spark starts, and Spark's Python workers, from ``/proc``."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT = 1
_TIMES = slice(11, 15)  # user, system, and both of ended children


@dataclass(frozen=True)
class Usage:
    """CPU seconds of a tree of processes, and the peak memory of its largest Python worker in bytes."""

    cpu_seconds: float
    peak_worker_bytes: int


def usage(root: int | None = None) -> Usage:
    """Return the usage of a process (by default this one) and its descendants, including ended ones."""
    tree = _tree(root or os.getpid())
    ticks = 0
    peak = 0
    for pid in tree:
        fields = _stat(pid)
        if fields is None:
            continue
        ticks += sum(map(int, fields[_TIMES]))
        if _is_worker(pid):
            peak = max(peak, peak_bytes(pid))
    return Usage(ticks / _TICKS, peak)


def command_lines(root: int | None = None) -> dict[int, str]:
    """Return the command lines of the tree below ``root`` (default: this process) by process id, words separated by NUL."""
    found = {}
    for pid in _tree(root or os.getpid()):
        with suppress(OSError):
            found[pid] = Path(f"/proc/{pid}/cmdline").read_text()
    return found


def hold_on_cores(words: str) -> int:
    """Pin each descendant with ``words`` in its command line, and its descendants, to one core; return their number."""
    found = sorted(pid for pid, line in command_lines().items() if words in line)
    for number, pid in enumerate(found):
        for member in _tree(pid):
            for thread in Path(f"/proc/{member}/task").iterdir():
                with suppress(ProcessLookupError):  # it has ended
                    os.sched_setaffinity(int(thread.name), {number % (os.cpu_count() or 1)})
    return len(found)


def _tree(root: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            parents[int(entry.name)] = int(fields[_PARENT])
    tree = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        if not more:
            return tree
        tree |= more


def _stat(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` after the name; ``None`` if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def peak_bytes(pid: int) -> int:
    """Return the peak memory of a process. Unlike ``ru_maxrss``, it does not start with the memory of the parent."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = next((x for x in status.splitlines() if x.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(line.split()[1]) * 1024
