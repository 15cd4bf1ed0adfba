"""Requests for keys to `state-processor serve` over HTTP, on 5,000,000 keys of RocksDB.

The clients are threads of this process. Each sends a request when it has received the answer to its last one. Targets with one
client: half of the answers within 5 ms, 99 of 100 within 25 ms. Target with four clients: 300 answers in a second. CPU time is
measured in the process of the server.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from urllib.parse import urlsplit

from effort import effort
from figures import Figure
from lookup_bench import KEYS, savepoint
from processes import usage

REQUESTS, SECONDS = effort(3_000, 1_000), 30.0
"""Requests of a measurement, and its limit in seconds."""
CLIENTS = (1, 4)


@dataclass(frozen=True)
class Load:
    """The result of a measurement: seconds of each answer in ascending order, seconds of all, and the server's CPU seconds."""

    answers: list[float]
    seconds: float
    cpu: float

    def percentile(self, share: float) -> float:
        """Return the time of an answer, in milliseconds, that a share of the answers does not exceed."""
        return 1000 * self.answers[min(len(self.answers) - 1, int(share * len(self.answers)))]


@contextmanager
def served(path: str) -> Iterator[tuple[str, int]]:
    """Serve a snapshot in a process; return its URL and the number of the process."""
    command = [sys.executable, "-m", "state_processor.cli", "serve", path, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if "http://" not in line:
                raise RuntimeError(f"the server did not start: {line}{process.stdout.read()}")
            yield line[line.index("http://") :].strip(), process.pid
        finally:
            process.terminate()


def ask(url: str, seconds: list[float], end: float, requests: int) -> None:
    """Send requests for random keys one after the other over one connection, and add the time of each answer."""
    host = urlsplit(url).netloc
    connection = HTTPConnection(host, timeout=30)
    for _ in range(requests):
        key = random.randrange(KEYS)
        start = time.perf_counter()
        connection.request("GET", f"/operators/bench/keys/{key}")
        answer = connection.getresponse()
        found = json.loads(answer.read())
        now = time.perf_counter()
        if answer.status != 200 or found["states"]["value"] != [{"value": 7 * key + 3}]:
            raise AssertionError(f"key {key}: found {answer.status} {found}")
        seconds.append(now - start)
        if now > end:
            break
    connection.close()


def load(url: str, server: int, clients: int, requests: int = REQUESTS) -> Load:
    """Send requests from several clients."""
    answers: list[list[float]] = [[] for _ in range(clients)]
    start, before = time.perf_counter(), usage(server).cpu_seconds
    threads = [threading.Thread(target=ask, args=(url, a, start + SECONDS, requests // clients)) for a in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, cpu = time.perf_counter() - start, usage(server).cpu_seconds - before
    found = sorted(second for one in answers for second in one)
    if len(found) < requests // clients * clients and took < SECONDS:
        raise AssertionError(f"{requests} requests were sent, {len(found)} were answered")
    return Load(found, took, cpu)


def main() -> list[Figure]:
    """Print a row for each number of clients."""
    print(f"{'clients':>8}{'requests':>10}{'p50':>10}{'p99':>10}{'a second':>10}{'CPU each':>10}")
    figures = []
    with served(str(savepoint("RocksDB"))) as (url, server):
        load(url, server, 1, 200)  # the first requests open files and compile
        for clients in CLIENTS:
            found = load(url, server, clients)
            rate, cpu = len(found.answers) / found.seconds, 1000 * found.cpu / len(found.answers)
            p50, p99 = found.percentile(0.5), found.percentile(0.99)
            print(f"{clients:8}{len(found.answers):10}{p50:7.2f} ms{p99:7.2f} ms{rate:10.0f}{cpu:7.2f} ms", flush=True)
            what = f"GET of a key, {clients} client{'s' if clients > 1 else ''}"
            targets = (5, 25) if clients == 1 else (None, None)
            figures += [
                Figure(f"{what}, median", p50, "ms", None, targets[0]),
                Figure(f"{what}, 99th percentile", p99, "ms", None, targets[1]),
                Figure(f"{what}, server", cpu, "CPU ms"),
                Figure(f"{what}", rate, "requests/s", None, 300 if clients > 1 else None, at_least=True),
            ]
    return figures
