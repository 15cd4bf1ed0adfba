"""Requests to the server of a running job: ``python -m tests.faults.serving --version 1.20.5 --seconds 600``.

Real Flink runs a job with a checkpoint each second, and removes its old checkpoints. Clients ask ``state-processor serve`` for
keys, states, scans and results of SQL. Each answer names its checkpoint. Links keep the files of all checkpoints, so that each
answer is compared with the content of its checkpoint in the end. The last checkpoint equals the savepoint of the job.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow import flight

import state_processor as sp
from tests.interop import flink
from tests.waiting import end_soon, join, line_of, wait_until

UID: Final = "totals"
_VIEW: Final = f'"{sp.OperatorIdentifier.for_uid(UID).uid_hash}"'  # snapshots of Flink 1.x don't contain uids
_SUMS: Final = f"SELECT count(*) AS n, CAST(sum(value % 1000) AS BIGINT) AS total FROM {_VIEW}.total"
_FEW: Final = 10
"""Keys of a scan of some keys."""

Content = dict[str, dict[int, Any]]
"""The values of the states ``total`` and ``items`` by key."""


@dataclass(frozen=True)
class Answered:
    """An answer: the number of its checkpoint, what it says, and the function that works the same out from a checkpoint."""

    checkpoint: int
    found: Any
    expected: Callable[[Content], Any]


class Web:
    """A client of HTTP."""

    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=60)

    def get(self, path: str) -> tuple[int, Any]:
        """Return the status and the content of an answer."""
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def key(self, key: int) -> Answered:
        """Ask for all states of a key."""
        number, states = self._states(f"/operators/{UID}/keys/{key}")
        found = (_value(states, "total"), dict(_value(states, "items") or ()))  # a map is a list of pairs in JSON
        return Answered(number, found, lambda content: (content["total"].get(key), content["items"].get(key, {})))

    def state(self, key: int) -> Answered:
        """Ask for one state of a key."""
        number, states = self._states(f"/operators/{UID}/keys/{key}/total")
        return Answered(number, _value(states, "total"), lambda content: content["total"].get(key))

    def listed(self, _: int) -> Answered:
        """Ask for the states of the operator, except timers."""
        status, answer = self.get(f"/operators/{UID}/states")
        assert status == 200, answer
        names = sorted(row["state_name"] for row in answer["states"] if not row["state_kind"].endswith("TIMER"))
        return Answered(answer["checkpoint_id"], names, sorted)

    def _states(self, path: str) -> tuple[int, Mapping[str, Any]]:
        status, answer = self.get(path)
        if status == 404:  # the job has removed the key
            absent = re.search(r"does not have the key \d+ in checkpoint (\d+)", answer["error"]["message"])
            assert absent, answer
            return int(absent[1]), {}
        assert status == 200, answer
        return answer["checkpoint_id"], answer["states"]


class Flights:
    """A client of Arrow Flight."""

    def __init__(self, url: str) -> None:
        self._client = flight.connect(url)

    def scan(self, _: int) -> Answered:
        """Read all totals."""
        number, rows = self._rows(uid=UID, state="total")
        return Answered(number, {row["key"]: row["value"] for row in rows}, lambda content: content["total"])

    def keys(self, key: int) -> Answered:
        """Read some keys."""
        some = [key + i for i in range(_FEW)]
        number, rows = self._rows(uid=UID, state="total", columns=["value"], keys=some)
        found = sorted(row["value"] for row in rows)
        return Answered(number, found, lambda content: sorted(v for k, v in content["total"].items() if k in some))

    def query(self, _: int) -> Answered:
        """Add all totals up with SQL."""
        number, (row,) = self._rows(sql=_SUMS)
        return Answered(number, (row["n"], row["total"]), _sums)

    def key_by_query(self, key: int) -> Answered:
        """Read both states of a key with SQL."""
        number, rows = self._rows(sql=f"SELECT total, cardinality(items) AS items FROM {_VIEW} WHERE key = {key}")
        found = [(row["total"], row["items"] or 0) for row in rows]
        return Answered(number, found, lambda content: _row_of(content, key))

    def _rows(self, **request: Any) -> tuple[int, list[dict[str, Any]]]:
        table = self._client.do_get(flight.Ticket(json.dumps(request).encode())).read_all()
        return int(table.schema.metadata[b"checkpoint_id"]), table.to_pylist()


def _value(states: Mapping[str, Any], name: str) -> Any:
    return next((row["value"] for row in states.get(name, [])), None)


def _sums(content: Content) -> tuple[int, int]:
    totals = content["total"].values()
    return len(totals), sum(total % 1000 for total in totals)


def _row_of(content: Content, key: int) -> list[tuple[int | None, int]]:
    total, items = content["total"].get(key), content["items"].get(key, {})
    return [] if total is None and not items else [(total, len(items))]


@dataclass
class Client:
    """A thread that asks one kind of question again and again.

    Parameters
    ----------
    ask
        Asks about a key.
    pause
        Seconds between an answer and the next question.
    """

    ask: Callable[[int], Answered]
    pause: float
    answers: list[Answered] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def run(self, ended: threading.Event, seed: int, keys: int) -> None:
        """Ask until the job has ended. The number of the checkpoint never decreases."""
        chance = random.Random(seed)
        while not ended.wait(self.pause):
            start = time.perf_counter()
            try:
                answer = self.ask(chance.randrange(keys))
            except Exception as problem:
                self.problems.append(f"{type(problem).__name__}: {problem}"[:500])
                continue
            self.seconds.append(time.perf_counter() - start)
            if self.answers and answer.checkpoint < self.answers[-1].checkpoint:
                self.problems.append(f"checkpoint {answer.checkpoint} after {self.answers[-1].checkpoint}")
            self.answers.append(answer)

    def compare(self, content: Callable[[int], Content]) -> None:
        """Compare the answers with the checkpoints that they name."""
        for answer in self.answers:
            wanted = answer.expected(content(answer.checkpoint))
            if answer.found != wanted:
                self.problems.append(f"checkpoint {answer.checkpoint}: expected {wanted}, found {answer.found}"[:500])


def keep_links(job: Path, kept: Path, ended: threading.Event) -> None:
    """Link the files of all complete checkpoints of a job into another directory until the job has ended."""
    seen = set[Path]()
    while True:
        is_last = ended.is_set()
        complete = [path for path in job.glob("chk-*") if path not in seen and (path / "_metadata").exists()]
        for path in [job / "shared", job / "taskowned", *complete]:
            for file in path.glob("*") if path.exists() else ():
                target = kept / file.relative_to(job)
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    with suppress(FileNotFoundError):  # removed meanwhile; the comparison fails if an answer is from it
                        os.link(file, target)
        seen.update(complete)
        if is_last:
            return
        time.sleep(0.1)


@contextmanager
def served(directory: Path, log: Path) -> Iterator[tuple[str, str]]:
    """Serve the checkpoints of a job in a process; return the URLs of HTTP and Arrow Flight."""
    command = [sys.executable, "-m", "state_processor.cli", "serve", str(directory), "--port", "0", "--flight-port", "0"]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            lines = [line_of(process.stdout), line_of(process.stdout)]
            assert all("://" in line for line in lines), f"the server did not start: {lines} {log.read_text()}"
            web, flights = (re.findall(r"\w+://[\d.:]+", line)[0] for line in lines)
            yield web, flights
        finally:
            process.terminate()
            end_soon(process)


def content_of(path: Path) -> Content:
    """Read the states of a snapshot."""
    totals, entries = (sp.arrow.read_state(path, UID, state).read_all().to_pylist() for state in ("total", "items"))
    items: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for row in entries:
        items[row["key"]][row["map_key"]] = row["map_value"]
    return {"total": {row["key"]: row["value"] for row in totals}, "items": dict(items)}


def ask_about_a_job(root: Path, version: str, seconds: int, interval: int, retained: int, keys: int, rate: int) -> list[str]:
    """Run a job and its clients; print a row for each kind of question, and return the problems."""
    checkpoints, savepoints, kept = (root / name for name in ("checkpoints", "savepoints", "kept"))
    for directory in (checkpoints, savepoints, kept):
        directory.mkdir()
    ended, result = threading.Event(), list[Any]()
    given: dict[str, Any] = {
        "interval": interval,
        "retained": retained,
        "keys": keys,
        "rate": rate,
        "runs": f"2:{1000 * seconds}",
    }

    def run() -> None:
        try:
            result.append(flink.run_with_checkpoints(version, checkpoints, savepoints, **given))
        except Exception as error:
            result.append(error)
        ended.set()

    job = threading.Thread(target=run, name="the job")
    job.start()
    wait_until(lambda: ended.is_set() or any(_with_state(checkpoints)), "the first checkpoint with state")
    if ended.is_set():
        raise result[0]
    (directory,) = (path.parent for path in list(_with_state(checkpoints))[:1])
    links = threading.Thread(target=keep_links, args=(directory, kept, ended), name="the links")
    links.start()
    with served(directory, root / "server.log") as (web, flights):
        clients = {
            "key": Client(Web(web).key, 0.1),
            "state of a key": Client(Web(web).state, 0.1),
            "states": Client(Web(web).listed, 0.5),
            "scan": Client(Flights(flights).scan, 0.5),
            "scan of keys": Client(Flights(flights).keys, 0.3),
            "SQL": Client(Flights(flights).query, 0.5),
            "SQL of a key": Client(Flights(flights).key_by_query, 0.5),
        }
        threads = [threading.Thread(target=c.run, args=(ended, seed, keys)) for seed, c in enumerate(clients.values())]
        for thread in threads:
            thread.start()
        for thread in (job, *threads, links):
            join(thread, seconds + 900)
    if isinstance(result[0], Exception):
        raise result[0]
    return _report(clients, kept, result[0], (root / "server.log").read_text())


def _report(clients: Mapping[str, Client], kept: Path, savepoint: Path, log: str) -> list[str]:
    content = cache(lambda number: content_of(kept / f"chk-{number}"))
    last = max(int(path.name.removeprefix("chk-")) for path in kept.glob("chk-*"))
    problems = [] if content(last) == content_of(savepoint) else [f"checkpoint {last} differs from the savepoint of the job"]
    named = set[int]()
    print(f"{'question':16}{'answers':>9}{'checkpoints':>13}{'p50':>10}{'p99':>10}{'problems':>10}")
    for kind, client in clients.items():
        client.compare(content)
        numbers, times = {answer.checkpoint for answer in client.answers}, sorted(client.seconds) or [0.0]
        p50, p99 = (1000 * times[int(share * len(times))] for share in (0.5, 0.99))
        print(f"{kind:16}{len(times):9}{len(numbers):13}{p50:7.1f} ms{p99:7.1f} ms{len(client.problems):10}")
        named |= numbers
        problems += [f"{kind}: {problem}" for problem in client.problems]
    print(f"{sum(len(c.answers) for c in clients.values())} answers name {len(named)} checkpoints of {last}")
    problems += [f"log of the server: {line}" for line in log.splitlines()]
    return problems


def _with_state(checkpoints: Path) -> Iterator[Path]:
    for metadata in checkpoints.glob("*/chk-*/_metadata"):
        with suppress(sp.StateProcessorError):
            if sp.arrow.read_state(metadata.parent, UID, "items").schema:
                yield metadata.parent


def main() -> int:
    """Run the campaign, and print its problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="1.20.5")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--interval", type=int, default=1000, help="milliseconds between checkpoints")
    parser.add_argument("--retained", type=int, default=3)
    parser.add_argument("--keys", type=int, default=2000)
    parser.add_argument("--rate", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="serving-", ignore_cleanup_errors=True) as directory:
        given = vars(options)
        problems = ask_about_a_job(Path(directory), **given)
    for problem, count in Counter(problems).most_common(20):
        print(f"{count} x {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
