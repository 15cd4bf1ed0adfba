"""An object store that fails, answers late or in part, and processes that are killed while they write to it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

import state_processor as sp
from state_processor.backends.files import storage
from tests.afresh import run_afresh
from tests.faults.children import run_and_say
from tests.faults.truth import COMPLETE, NOTHING, check_complete, check_second_write, content, names, visible
from tests.faults.writes import Write
from tests.object_stores import S3Server
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values
from tests.waiting import join, wait_until

pytestmark = pytest.mark.slow

BUCKET = "faulty"
TOTALS = expected_values(ORDERS, "orders", "total")
App = Callable[..., Iterable[bytes]]
Answer = tuple[str, list[tuple[str, str]], bytes]
Change = Callable[[int, dict[str, Any], Callable[[], Answer]], Answer]


class Store:
    """Server of S3 whose answers a test changes."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.change: Change | None = None
        self.requests = 0
        self.endpoint = ""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        self.requests += 1
        change = self.change or (lambda number, environ, answer: answer())
        status, headers, body = change(self.requests, environ, lambda: self._answer(environ))
        start_response(status, headers)
        return [body]

    def _answer(self, environ: dict[str, Any]) -> Answer:
        started: list[Any] = []
        body = b"".join(self._app(environ, lambda *given: started.extend(given)))
        return started[0], started[1], body

    def url(self, prefix: str) -> str:
        """Return the URL of a directory; it says how to reach the store."""
        return f"s3://{BUCKET}/{prefix}?endpoint_override={self.endpoint}&scheme=http&region=us-east-1&access_key=k&secret_key=s"

    def write(self, prefix: str) -> Write:
        """Return a write from a base in the store."""
        return Write(self.url(prefix), end=20, base=self.url("base"))


@pytest.fixture(scope="module")
def running() -> Iterator[Store]:
    """A store with a base in it, which nothing changes."""
    server = S3Server()
    server.start()
    store = Store(server._server.app)  # type: ignore[union-attr]
    server._server.app = store  # type: ignore[union-attr]
    store.endpoint = ":".join(map(str, server.get_host_and_port()))
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    client = boto3.client("s3", endpoint_url=f"http://{store.endpoint}", region_name="us-east-1", **keys)
    client.create_bucket(Bucket=BUCKET)
    for path in Path(ORDERS_PATH).iterdir():
        client.put_object(Bucket=BUCKET, Key=f"base/{path.name}", Body=path.read_bytes())
    before = {o["Key"]: o["ETag"] for o in client.list_objects_v2(Bucket=BUCKET, Prefix="base/")["Contents"]}
    yield store
    store.change = None
    assert {o["Key"]: o["ETag"] for o in client.list_objects_v2(Bucket=BUCKET, Prefix="base/")["Contents"]} == before
    server.stop()


@pytest.fixture
def store(running: Store) -> Iterator[Store]:
    yield running
    running.change = None


def failing(every: int, done: bool) -> Change:
    """Each ``every``-th request fails, before or after the store has done it."""

    def change(number: int, environ: dict[str, Any], answer: Callable[[], Answer]) -> Answer:
        if number % every:
            return answer()
        if done:
            answer()
        return "503 Slow Down" if number % 2 else "500 Internal Server Error", [("Content-Length", "0")], b""

    return change


def test_each_tenth_request_fails(store: Store) -> None:
    """The client of S3 asks again, so that nobody sees it."""
    store.change = failing(10, done=False)
    for _ in range(3):
        assert content(store.url("base")) == TOTALS


@pytest.mark.parametrize("done", [False, True], ids=["refused", "answer lost"])
def test_requests_fail_while_a_savepoint_is_written(store: Store, done: bool) -> None:
    """The client asks again; where it gives up there is an error."""
    write = store.write(f"failing-{done}")
    store.change = failing(31, done)
    outcome = ""
    try:
        write.run()
    except sp.StateProcessorError as error:
        outcome = str(error)
    store.change = None
    found = visible(write)
    assert found == COMPLETE or "s3://faulty/failing" in outcome
    check_second_write(write, found)


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_short_answers(store: Store, chosen: int) -> None:
    """Ranges that are shorter than was asked for are read again, and never filled up with what memory holds."""
    asked: dict[tuple[str, str], int] = {}

    def shorter(times: int) -> Change:
        """Answer some requests for one range in part. Other ranges are asked for at the same time."""
        asked.clear()

        def change(number: int, environ: dict[str, Any], answer: Callable[[], Answer]) -> Answer:
            status, headers, body = answer()
            if environ["REQUEST_METHOD"] == "GET" and status.startswith("206"):
                range_ = environ["PATH_INFO"], environ["HTTP_RANGE"]
                asked[range_] = asked.get(range_, 0) + 1
                if list(asked).index(range_) == chosen and asked[range_] <= times:
                    body = body[: len(body) // 2]
                    headers = [(n, v) for n, v in headers if n.lower() != "content-length"]
                    headers.append(("Content-Length", str(len(body))))
            return status, headers, body

        return change

    store.change = shorter(1)
    assert content(store.url("base")) == TOTALS
    assert len(asked) > chosen
    store.change = shorter(2)
    with pytest.raises(sp.MissingFileError, match="the storage returned fewer than"):
        content(store.url("base"))


def test_connections_that_are_cut(store: Store) -> None:
    """In the midst of an answer, again and again."""

    def cut(number: int, environ: dict[str, Any], answer: Callable[[], Answer]) -> Answer:
        status, headers, body = answer()
        half = environ["REQUEST_METHOD"] == "GET" and status.startswith("206") and not number % 10
        return status, headers, body[: len(body) // 2] if half else body

    store.change = cut
    for _ in range(3):
        assert content(store.url("base")) == TOTALS


def test_a_store_that_is_slow(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(number: int, environ: dict[str, Any], answer: Callable[[], Answer]) -> Answer:
        time.sleep(1)
        return answer()

    write = store.write("slow")
    monkeypatch.setattr(storage, "_ANSWER_SECONDS", 0.5)
    store.change = late
    with pytest.raises(sp.MissingFileError, match=r"the storage has not answered for 0.5 seconds"):
        content(store.url("base"))
    with pytest.raises(sp.StateProcessorError, match=r"the storage has not answered for 0.5 seconds"):
        write.run()
    store.change = None
    monkeypatch.undo()
    for thread in threading.enumerate():
        if thread.name == "state-processor-storage":
            join(thread)
    assert visible(write) == NOTHING
    check_second_write(write, NOTHING)


@pytest.mark.parametrize(("at", "done"), [("PUT keyed", False), ("PUT claim", True), ("PUT _metadata", False)])
def test_a_process_that_is_killed(store: Store, at: str, done: bool, tmp_path: Path) -> None:
    """At a request that changes the visible state."""
    method, part = at.split()
    write = store.write(f"killed-{at.encode().hex()}-{done}")
    number_of_process = tmp_path / "number"

    def kill(number: int, environ: dict[str, Any], answer: Callable[[], Answer]) -> Answer:
        meant = environ["REQUEST_METHOD"] == method and part in environ["PATH_INFO"].replace("metadata-part", "")
        found = answer() if done or not meant else ("503 Slow Down", [], b"")
        if meant:
            process = int(number_of_process.read_text())
            os.kill(process, signal.SIGKILL)
            wait_until(lambda: not Path(f"/proc/{process}").exists(), "the end of the process")
        return found

    store.change = kill
    assert run_afresh(run_and_say, write, number_of_process) == -signal.SIGKILL
    store.change = None
    assert visible(write) == NOTHING
    check_second_write(write, NOTHING)


def test_the_savepoint_that_is_replaced_stays_until_the_end(store: Store) -> None:
    before, write = store.write("replaced"), replace(store.write("replaced"), first=20, end=30, overwrite=True)
    before.run()
    files = names(before.target)

    def refused(number: int, environ: dict[str, Any], answer: Callable[[], Answer]) -> Answer:
        if environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith("/_metadata"):
            return "403 Forbidden", [("Content-Length", "0")], b""
        return answer()

    store.change = refused
    with pytest.raises(sp.WriteError, match=r"/_metadata\?.* cannot be written"):
        write.run()
    store.change = None
    check = replace(before, overwrite=True)
    assert content(check.target) == before.expected
    assert files <= names(before.target)
    write.run()
    check_complete(write)
