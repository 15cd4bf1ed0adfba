"""Snapshots in an object store, over the protocol of S3: everything is read, and no more than that is fetched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import fsspec
import pytest

import state_processor as sp
from state_processor.backends.files.scratch import DIRECTORY_VARIABLE
from state_processor.backends.formats import rocksdb_store
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.write.build import SavepointBuild
from state_processor.write.tasks.local_engine import LocalEngine
from tests import corpus
from tests.backends.open_stores import close_stores
from tests.interop.many_tables import STATE, UID, a_key, many_tables, value_of
from tests.interop.selection import in_turn
from tests.object_stores import S3Server

pytestmark = pytest.mark.slow

BUCKET = "states"
NAMES = ["orders-hashmap-canonical", "orders-hashmap-native", "orders-rocksdb-native", "orders-rocksdb-incremental"]
IN_S3, IN_MEMORY = (
    [case for number, name in enumerate(NAMES) for case in in_turn(corpus.cases(corpus.FIXTURES, name), number + first)]
    for first in (0, 1)
)
"""Each snapshot is read from one of two stores, and each kind of snapshot from both."""
CANONICAL = corpus.Case(corpus.FIXTURES / "2.3.0" / "orders-hashmap-canonical")
NATIVE = corpus.Case(corpus.FIXTURES / "2.3.0" / "orders-rocksdb-native")
INCREMENTAL = corpus.Case(corpus.FIXTURES / "1.20.5" / "orders-rocksdb-incremental")
ORDERS_HASH = sp.OperatorIdentifier.for_uid("orders").uid_hash
_TIMERS = {"EVENT_TIMER": "_timer_state/event_", "PROCESSING_TIMER": "_timer_state/processing_"}


@dataclass
class Traffic:
    """What was fetched: bytes by object, how often each object was asked for, and all requests by method."""

    fetched: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)

    def counting(self, app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        """The WSGI application, watched."""

        def watched(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            name = environ["PATH_INFO"].rpartition("/")[2]
            self.methods[environ["REQUEST_METHOD"]] += 1

            def started(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
                if environ["REQUEST_METHOD"] == "GET" and status[:3] in ("200", "206"):
                    length = next((v for n, v in headers if n.lower() == "content-length"), "0")
                    self.fetched[name] += int(length)
                    self.requests[name] += 1
                return start_response(status, headers, *rest)

            return app(environ, started)

        return watched

    def clear(self) -> None:
        self.fetched.clear()
        self.requests.clear()
        self.methods.clear()


@dataclass
class Store:
    """A server of S3 with one bucket."""

    client: Any
    traffic: Traffic

    def put(self, directory: Path, prefix: str) -> str:
        """Upload a directory; the URL it then has."""
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(directory)}"
                self.client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
        self.traffic.clear()
        return f"s3://{BUCKET}/{prefix}"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Store]]:
    running = S3Server()
    running.start()
    host, port = running.get_host_and_port()
    traffic = Traffic()
    running._server.app = traffic.counting(running._server.app)  # type: ignore[union-attr]
    endpoint = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    yield endpoint, Store(boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys), traffic)
    running.stop()


@pytest.fixture
def store(server: tuple[str, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    endpoint, store = server
    settings = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        DIRECTORY_VARIABLE: str(tmp_path / "scratch"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    close_stores()
    store.client.create_bucket(Bucket=BUCKET)
    yield store
    close_stores()
    found = store.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    if found:
        store.client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": entry["Key"]} for entry in found]})
    store.client.delete_bucket(Bucket=BUCKET)


def rows(path: str, uid: str, state: str, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in sp.arrow.read_state(path, uid, state, **options) for row in batch.to_pylist()]


def check(case: corpus.Case, path: str) -> None:
    """All states of a case have the expected values when they are read from remote storage."""
    for operator, state in corpus.states_of(case):
        name = _TIMERS.get(state["kind"], "") + state["name"]
        keyed = "key" in state["entries"][0]
        shape = {"flatten": False} if keyed else {}
        found = rows(path, operator["uid"], name, nanos="string", **shape)
        if keyed and state["kind"] != "BROADCAST":
            assert corpus.differences(found, state) == []
        else:
            here = rows(case.snapshot, operator["uid"], name, nanos="string", **shape)
            assert corpus.bag(found) == corpus.bag(here)
            assert len(found) == len(state["entries"])


def below(case: corpus.Case) -> str:
    """Where in a case's ``savepoint`` directory the snapshot is."""
    return str(Path(case.snapshot).relative_to(case.directory / "savepoint")).strip(".")


@pytest.mark.parametrize("case", IN_S3, ids=lambda case: case.id)
def test_snapshots_are_read_completely(case: corpus.Case, store: Store) -> None:
    url = store.put(case.directory / "savepoint", "moved/here")
    path = f"{url}/{below(case)}".rstrip("/")
    assert sp.arrow.operators(path) == sp.arrow.operators(case.snapshot)
    assert sp.arrow.states(path) == sp.arrow.states(case.snapshot)
    check(case, path)
    assert rows(path.replace("s3://", "s3a://"), "orders", "total") == rows(case.snapshot, "orders", "total")


@pytest.mark.parametrize("case", IN_MEMORY, ids=lambda case: case.id)
def test_snapshots_are_read_by_fsspec(case: corpus.Case, store: Store) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(case.directory / "savepoint"), "/remote", recursive=True)
    try:
        check(case, f"memory://remote/{below(case)}".rstrip("/"))
    finally:
        memory.rm("/remote", recursive=True)


def test_the_checkpoint_that_was_moved_has_absolute_paths(store: Store) -> None:
    """The tests above really use remote storage."""
    handle = next(
        s.managed_keyed for o in open_snapshot(INCREMENTAL.snapshot).metadata.operators for s in o.subtasks if s.managed_keyed
    )
    assert isinstance(handle, h.IncrementalRemoteKeyedStateHandle)
    recorded = [f.stream.path for f in handle.shared if isinstance(f.stream, h.FileStateHandle)]
    assert recorded
    assert not any(Path(path.removeprefix("file:")).exists() for path in recorded)
    url = store.put(INCREMENTAL.directory / "savepoint", "elsewhere")
    assert len(rows(f"{url}/{below(INCREMENTAL)}", "orders", "total")) == 50


def test_files_are_copied_in_the_store(store: Store) -> None:
    """The store copies within a bucket: only the metadata of a RocksDB checkpoint passes through this process."""
    url = store.put(INCREMENTAL.directory / "savepoint", "job")
    plan = SavepointBuild.from_existing(f"{url}/{below(INCREMENTAL)}")
    plan.choose_format("native", "rocksdb")
    assert all(operator.carried for operator in plan.write_to(f"s3://{BUCKET}/copy", LocalEngine()).operators)
    copies = [o for o in store.client.list_objects_v2(Bucket=BUCKET, Prefix="copy/")["Contents"] if "-store-" in o["Key"]]
    assert len(copies) == 20
    stored = {path.name for path in (INCREMENTAL.directory / "savepoint").rglob("shared/*")}
    assert len(stored) > 10
    assert not stored & store.traffic.fetched.keys()
    check(INCREMENTAL, f"s3://{BUCKET}/copy")


def test_snapshots_in_the_store_are_listed(store: Store) -> None:
    url = store.put(INCREMENTAL.directory / "savepoint", "checkpoints")
    store.put(CANONICAL.directory / "savepoint", "checkpoints/savepoint-012345-0123456789ab")
    job = below(INCREMENTAL).split("/")[0]
    found = sorted((s.path, s.kind, s.job_id, s.checkpoint_id, s.is_complete) for s in sp.list_snapshots(url, check=True))
    assert found == [
        (f"{url}/{job}/chk-1", "checkpoint", job, 1, True),
        (f"{url}/savepoint-012345-0123456789ab", "savepoint", "012345", 1, True),
    ]
    with pytest.raises(sp.NotASnapshotError, match=f"Snapshots below it: {url}/savepoint-.*, {url}/{job}/chk-1"):
        sp.arrow.operators(url)


def test_keys_fetch_the_ranges_that_hold_them(store: Store) -> None:
    """Of a canonical savepoint that is the header, once for planning and once for reading, and a key group."""
    url = store.put(CANONICAL.directory / "savepoint", "savepoint")
    everything = rows(url, "orders", "total", metadata=True)
    whole = dict(store.traffic.fetched)
    wanted = next(row for row in everything if row["key"] == "amelia")
    store.traffic.clear()
    assert rows(url, "orders", "total", metadata=True, keys=["amelia"]) == [wanted]
    operator = next(o for o in open_snapshot(CANONICAL.snapshot).metadata.operators if o.uid == "orders")
    for subtask in operator.subtasks:
        handle = subtask.managed_keyed
        assert isinstance(handle, h.KeyGroupsStateHandle)
        assert isinstance(handle.stream, h.RelativeFileStateHandle)
        bounds = sorted({*handle.offsets, handle.stream.size} - {0})
        header, fetched = bounds[0], store.traffic.fetched[handle.stream.path]
        assert whole[handle.stream.path] == header + handle.stream.size
        if subtask.index == wanted["_subtask"]:
            offset = handle.offsets[wanted["_key_group"] - handle.key_groups.start]
            assert fetched == 2 * header + bounds[bounds.index(offset) + 1] - offset
        else:
            assert fetched == header


def test_only_tables_of_the_state_are_fetched(store: Store) -> None:
    url = store.put(NATIVE.directory / "savepoint", "native")
    local = open_snapshot(NATIVE.snapshot)
    [operator] = (o for o in local.metadata.operators if o.uid == "orders")
    wanted, others = set(), set()
    for subtask in operator.subtasks:
        handle = subtask.managed_keyed
        assert isinstance(handle, h.IncrementalRemoteKeyedStateHandle)
        tables = {file.name for file in rocksdb_store.open_store(local, handle, "").family("total").files}
        for file in handle.files:
            if file.local_name.endswith(".sst"):
                assert isinstance(file.stream, h.RelativeFileStateHandle)
                (wanted if file.local_name in tables else others).add(file.stream.path)
    assert wanted
    assert others
    assert len(rows(url, "orders", "total")) == len(rows(NATIVE.snapshot, "orders", "total"))
    assert wanted <= store.traffic.fetched.keys()
    assert not others & store.traffic.fetched.keys()
    check(NATIVE, url)


@pytest.mark.parametrize("inline", [True, False])
def test_one_of_many_tables_is_fetched_in_part(inline: bool, store: Store, tmp_path: Path) -> None:
    """A key takes the end of its table, with the index, and a block. The client of the store sends HEAD for each object."""
    target = many_tables(tmp_path, inline=inline, table_bytes=16 << 20)
    for path in target.iterdir():
        if path.stat().st_nlink == 1:  # the others are empty
            store.client.put_object(Bucket=BUCKET, Key=f"many/{path.name}", Body=path.read_bytes())
    store.traffic.clear()
    key = a_key()
    found = sp.arrow.lookup(f"s3://{BUCKET}/many", UID, key, STATE)
    assert found.states[STATE].to_pylist() == [{"key": key, "value": value_of(key)}]
    manifest = {} if inline else {"manifest": 1}
    (table,) = store.traffic.requests.keys() - {"_metadata", "manifest"}
    assert store.traffic.requests == {"_metadata": 1, table: 2, **manifest}
    assert store.traffic.methods == {"GET": 3 + len(manifest), "HEAD": 2 + len(manifest)}
    assert store.traffic.fetched.total() < 250_000


def test_a_file_that_is_searched_is_opened_by_the_request_that_finds_it(store: Store) -> None:
    url = store.put(INCREMENTAL.directory / "savepoint", "job")
    assert len(rows(f"{url}/{below(INCREMENTAL)}", "orders", "total")) == 50
    store.traffic.clear()
    snapshot = open_snapshot(f"{url}/{below(INCREMENTAL)}")
    handle = next(s.managed_keyed for o in snapshot.metadata.operators for s in o.subtasks if s.managed_keyed)
    assert isinstance(handle, h.IncrementalRemoteKeyedStateHandle)
    first, second, *_ = (file.stream for file in handle.shared)
    snapshot.open(first).read()  # finds the directory of shared files
    store.traffic.clear()
    assert len(snapshot.open(second).read()) == second.state_size
    assert store.traffic.methods == {"HEAD": 1, "GET": 1}


def test_a_missing_object_is_named(store: Store) -> None:
    url = store.put(NATIVE.directory / "savepoint", "damaged")
    tables = {r["path"] for r in sp.arrow.handles(url).to_pylist() if str(r["local_name"]).endswith(".sst")}
    store.traffic.clear()
    rows(url, "orders", "total")
    lost = next(path for path in store.traffic.fetched if path in tables)
    close_stores()
    store.client.delete_object(Bucket=BUCKET, Key=f"damaged/{lost}")
    told = f"state 'total' of operator 'orders', subtask .*{re.escape(url)}/{lost} does not exist"
    with pytest.raises(sp.MissingFileError, match=told):
        rows(url, "orders", "total")
