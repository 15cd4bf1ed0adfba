"""Queries of clients in processes: what one of them takes, the server and other clients keep."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from state_processor.applications.serving import queries
from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import LimitError, Limits, MemoryLimitError, TimeLimitError
from state_processor.applications.serving.queries import QueryProcesses
from state_processor.support.errors import MissingFileError, NotFoundError, OptionError
from tests import afresh
from tests.state_processor.applications.serving.checkpoints import remove_checkpoint, write_checkpoint
from tests.state_processor.samples import ORDERS_PATH
from tests.waiting import SECONDS, wait_until

assert afresh  # processes of tests import what these do

ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000000) b WHERE a.range % 7 = b.range % 11"


class Asked:
    """Queries of a snapshot, without a server."""

    def __init__(self, path: str | os.PathLike[str], limits: Limits) -> None:
        self.followed = Followed(path, {})
        self.queries = QueryProcesses(self.followed.access, limits)

    def ask(self, sql: str) -> pa.Table:
        schema, batches = self.queries.run(self.followed.current, sql)
        return pa.Table.from_batches(batches, schema)

    def processes(self) -> set[int]:
        processes = [*self.queries._idle, *self.queries._busy]
        return {p._process.pid for p in processes if p._process.pid is not None}


@pytest.fixture(scope="module")
def orders() -> Iterator[Asked]:
    asked = Asked(ORDERS_PATH, Limits(seconds=SECONDS, memory=200 << 20))
    yield asked
    asked.queries.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT len(range(200000000))",
        "SELECT list(range) FROM range(200000000)",
        "SELECT string_agg(range::VARCHAR, '') FROM range(300000000)",
        "SELECT * FROM range(900000000) ORDER BY random()",
    ],
)
def test_memory_is_limited(orders: Asked, sql: str) -> None:
    with pytest.raises(MemoryLimitError, match="needs more memory than the server allows"):
        orders.ask(sql)
    assert orders.ask("SELECT total FROM orders WHERE key = 'amelia'").to_pylist() == [{"total": 3950}]


def test_a_process_answers_many_queries(orders: Asked) -> None:
    orders.ask("SELECT 1")
    before = orders.processes()
    for _ in range(3):
        assert orders.ask("SELECT count(*) AS n FROM orders.total").to_pylist() == [{"n": 50}]
        with pytest.raises(NotFoundError, match="nope"):
            orders.ask("SELECT nope FROM orders")
        with pytest.raises(OptionError, match="expected a SELECT"):
            orders.ask("SET threads = 100")
    assert orders.processes() == before


def test_columns_are_asked_for_without_rows(orders: Asked) -> None:
    assert orders.queries.columns(orders.followed.current, "SELECT key, 1 AS n FROM orders").names == ["key", "n"]


def test_dictionaries_are_text(orders: Asked) -> None:
    found = orders.ask("SELECT 'b'::ENUM('a', 'b') AS letter FROM range(3)")
    assert found.schema.field("letter").type == pa.string()
    assert found.to_pylist() == [{"letter": "b"}] * 3


def test_rows_in_large_batches_are_whole(orders: Asked) -> None:
    found = orders.ask("SELECT range AS n, repeat('x', 100000) AS text FROM range(300)")
    assert found["n"].to_pylist() == [*range(300)]
    assert {len(text) for text in found["text"].to_pylist()} == {100_000}


def test_the_time_of_the_processor_is_limited() -> None:
    asked = Asked(ORDERS_PATH, Limits(seconds=0.5))
    with pytest.raises(TimeLimitError, match=r"more than 0\.5 seconds"):
        asked.ask(ENDLESS)
    assert not asked.processes()


def test_a_process_that_is_killed_is_replaced(orders: Asked) -> None:
    with ThreadPoolExecutor(1) as threads:
        endless = threads.submit(orders.ask, ENDLESS)
        wait_until(lambda: orders.queries._busy, "the query runs")
        (process,) = orders.queries._busy
        assert process._process.pid is not None
        os.kill(process._process.pid, signal.SIGKILL)
        with pytest.raises(LimitError, match="ended by SIGKILL"):
            endless.result()
    orders.ask("SELECT 1")
    for pid in orders.processes():
        os.kill(pid, signal.SIGKILL)  # those that wait, too
    wait_until(lambda: not any(p.is_alive for p in orders.queries._idle), "they have ended")
    assert orders.ask("SELECT 1 AS n").to_pylist() == [{"n": 1}]


def test_a_result_that_nobody_reads_on_ends_its_process(orders: Asked) -> None:
    _, batches = orders.queries.run(orders.followed.current, "SELECT * FROM range(100000000)")
    assert next(batches).num_rows > 0
    batches.close()  # type: ignore[attr-defined]
    assert not orders.queries._busy


def test_many_at_once(orders: Asked) -> None:
    good = {f"SELECT sum(total) + {n} AS n FROM orders": n for n in range(6)}
    (total,) = orders.ask("SELECT sum(total) AS n FROM orders")["n"].to_pylist()
    bad = ["SELECT len(range(200000000))", "SELECT len(range(300000000))", "SELECT nope"]

    def ask(sql: str) -> int | str:
        try:
            return int(orders.ask(sql)["n"][0].as_py())
        except (LimitError, NotFoundError) as problem:
            return type(problem).__name__

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(ask, [*good, *bad, *good]))
    answers = [total + n for n in good.values()]
    assert found == [*answers, "MemoryLimitError", "MemoryLimitError", "NotFoundError", *answers]


def test_a_process_opens_the_snapshot_of_each_query(tmp_path: Path) -> None:
    """It compares the digest: a snapshot may be replaced by another with the same path."""
    write_checkpoint(tmp_path, 1)
    asked = Asked(tmp_path, Limits(seconds=SECONDS))
    sql = f'SELECT max(total) AS n FROM "{asked.followed.current.snapshot.metadata.operators[0].operator_id}"'
    assert asked.ask(sql).to_pylist() == [{"n": 1}]
    before = asked.processes()
    written = write_checkpoint(tmp_path, 2)
    remove_checkpoint(tmp_path, 1)
    written.rename(written.with_name("chk-1"))
    assert asked.ask(sql).to_pylist() == [{"n": 1}]  # from open files
    late = QueryProcesses(asked.followed.access, Limits(seconds=SECONDS))
    with pytest.raises(MissingFileError, match="has another snapshot than before"):
        late.run(asked.followed.current, sql)
    late.close()
    asked.followed.refresh()
    assert asked.followed.ask(lambda served: asked.ask(sql)).to_pylist() == [{"n": 2}]
    assert asked.processes() == before
    asked.queries.close()


def test_other_errors_are_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    name, message = json.loads(queries._described(ZeroDivisionError("at /home/somebody")))
    assert "somebody" not in str(queries._error(name, message))
    assert "a query failed: ZeroDivisionError: at /home/somebody" in caplog.text


def test_a_batch_is_cut_and_a_long_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_PIECE", 1000)
    monkeypatch.setattr(queries, "LARGEST", 4000)
    batch = pa.record_batch({"text": [*["a"] * 100, "b" * 2000, *["c"] * 500]})
    messages = list(queries._messages(batch))
    parts = [pa.ipc.open_stream(message[1:]).read_all() for message in messages]
    assert pa.concat_tables(parts).to_batches() != []
    assert pa.concat_tables(parts)["text"].to_pylist() == batch["text"].to_pylist()
    assert len(messages) > 2
    with pytest.raises(LimitError, match=r"a row of the result takes 5,\d+ bytes; the limit is 4,000"):
        list(queries._messages(pa.record_batch({"text": ["short", "b" * 5000]})))


def test_a_process_ends_by_the_limits_of_the_system() -> None:
    """The server needs not end it: where it watches its memory itself, and after its time of the processor."""
    watched = queries._CONTEXT.Process(target=queries._watch, args=(1,), daemon=True)
    endless = queries._CONTEXT.Process(target=run_without_end, daemon=True)
    for process in (watched, endless):
        process.start()
        process.join(SECONDS)
    assert (watched.exitcode, endless.exitcode) == (queries.OUT_OF_MEMORY, -signal.SIGXCPU)


def run_without_end() -> None:
    queries._limit_time(0.1)
    while True:
        pass


def children(pid: int) -> set[int]:
    """Return the processes that a process has started, and those that they have started."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    parents = {int(a): int(b) for a, b, state in (line.split() for line in listed.splitlines()) if not state.startswith("Z")}
    found = {pid} & parents.keys()
    while more := {p for p, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def test_silent_connections_do_not_use_up_the_descriptors() -> None:
    """GRPC closes them after about a minute. The server has more descriptors until then, where its user may have more."""
    command = [sys.executable, "-m", "state_processor.cli", "serve", ORDERS_PATH, "--port", "0", "--flight-port", "0"]
    limited = ["sh", "-c", 'ulimit -S -n 256; exec "$@"', "limited", *command]
    with subprocess.Popen(limited, stdout=subprocess.PIPE, text=True) as server, ExitStack() as stack:
        stack.callback(server.kill)
        assert server.stdout is not None
        host, port = re.findall(r"grpc://(.*):(\d+)", server.stdout.readline() + server.stdout.readline())[0]
        for _ in range(300):
            stack.enter_context(socket.create_connection((host, int(port))))
        client = flight.connect(f"grpc://{host}:{port}")
        assert client.do_get(flight.Ticket(b'{"uid": "orders", "state": "total"}')).read_all().num_rows == 50


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_server_leaves_no_process(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "state_processor.cli", "serve", ORDERS_PATH, "--port", "0", "--flight-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, ThreadPoolExecutor(1) as threads:
        assert server.stdout is not None
        lines = [server.stdout.readline(), server.stdout.readline()]
        (address,) = re.findall("grpc://.*", "".join(lines))
        client = flight.connect(address)
        answer = client.do_get(flight.Ticket(b'{"sql": "SELECT sum(total) AS n FROM orders"}')).read_all()
        assert answer.num_rows == 1
        endless = threads.submit(client.do_get, flight.Ticket(b'{"sql": "%s"}' % ENDLESS.encode()))
        started = children(server.pid)
        assert started
        server.send_signal(number)
        server.wait()
        with pytest.raises(pa.ArrowException):
            endless.result().read_all()
    wait_until(lambda: not any(_is_running(pid) for pid in started), "all processes have ended")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
