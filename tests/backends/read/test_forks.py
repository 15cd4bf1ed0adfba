"""Forks beside threads that read: no lock that a reading path takes stays locked in the child."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path("tests/fixtures/1.20.5").resolve()
PROGRAM = """
import os, signal, sys, threading, time
import state_processor as sp
path = sys.argv[1]

def read():
    reader = sp.open(path)
    found = [reader.read_keyed_state("orders", state).read_all().num_rows for state in ("total", "items")]
    found.append(reader.lookup("orders", "amelia").states["total"].num_rows)
    return found

expected = read()
ended = threading.Event()
problems = []

def loop():
    while not ended.is_set():
        if read() != expected:
            problems.append("other rows")

threads = [threading.Thread(target=loop, daemon=True) for _ in range(16)]
for thread in threads:
    thread.start()
children = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if read() == expected else 3)
    children.append(child)
    time.sleep(0.05)  # the threads go on to other places
ended.set()  # children have no threads of this process
for thread in threads:
    thread.join(60)
hung = 0
for child in children:
    for _ in range(6000):  # five minutes: busy machines are slow
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            problems += [] if status == 0 else [f"status {status}"]
            break
        time.sleep(0.05)
    else:
        hung += 1
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
print(hung, problems)
"""


@pytest.mark.parametrize("case", ["orders-rocksdb-incremental", "orders-hashmap-canonical"])
def test_a_fork_beside_sixteen_reading_threads(case: str) -> None:
    path = next(p.parent for p in (ROOT / case).rglob("_metadata"))
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, timeout=3000, check=False)
    assert (run.returncode, run.stdout.strip()) == (0, "0 []"), run.stderr
