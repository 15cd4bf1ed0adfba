"""Savepoints in an object store: files where they stay, ``_metadata`` last, abort."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer

from state_processor.backends.canonical_writer import KeyedStateFileWriter
from state_processor.backends.entry_encoder import KeyedStateEncoder, write_blobs
from state_processor.backends.key_groups import range_of_subtask
from state_processor.backends.registration import keyed_header, register
from state_processor.backends.savepoint_writer import NewOperator, SubtaskHandles, commit_savepoint
from state_processor.backends.snapshot_dir import open_snapshot
from state_processor.backends.staging import Staging
from state_processor.backends.state_access import open_state
from state_processor.backends.states import StateDescription
from state_processor.backends.storage import Storage
from state_processor.serializers.basic import NumberSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.streaming import VoidNamespaceSerializer

LONG = NumberSerializer("LONG")
TOTAL = StateDescription("total", "VALUE", LONG, VoidNamespaceSerializer(), value=LONG)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Storage]]:
    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    connection = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    connection.create_bucket(Bucket="states")
    yield connection, Storage({"endpoint_override": f"{host}:{port}", "scheme": "http", "region": "us-east-1"})
    server.stop()


def names(client: Any, prefix: str) -> list[str]:
    listed = client.list_objects_v2(Bucket="states", Prefix=prefix).get("Contents", [])
    return sorted(o["Key"].removeprefix(prefix) for o in listed if not o["Key"].endswith("/"))


def test_savepoint_in_an_object_store(client: tuple[Any, Storage]) -> None:
    connection, storage = client
    staging = Staging("s3://states/savepoints/one", "token1", storage)
    staging.prepare()
    batch = pa.RecordBatch.from_pydict({"key": list(range(100)), "value": list(range(100))})
    encoder = KeyedStateEncoder(TOTAL, 0, batch.schema, max_parallelism=128, parallelism=1)
    name = staging.file_name("ab" * 16, "keyed", 0)
    with staging.open(staging.file_name("ab" * 16, "keyed", 0, "failed")) as sink:
        sink.write(b"half a file")
    writer = KeyedStateFileWriter(staging.open(name), keyed_header(LONG, [register(TOTAL)]), range_of_subtask(0, 1, 128), 128)
    handle = write_blobs(writer, encoder.encode(batch))
    commit_savepoint(staging, [NewOperator.of_uid("o", 1, 128, {0: SubtaskHandles(handle)})])
    assert names(connection, "savepoints/one/") == ["_metadata", name]
    snapshot = open_snapshot("s3://states/savepoints/one", storage=storage)
    reader = open_state(snapshot, snapshot.metadata.operators[0], "total")
    rows = [row for split in reader.splits() for b in reader.read(split) for row in b.to_pylist()]
    assert sorted(row["key"] for row in rows) == list(range(100))
    assert all(row["key"] == row["value"] for row in rows)
    with pytest.raises(OptionError, match="holds a savepoint already"):
        Staging("s3://states/savepoints/one", "token2", storage).prepare()


def test_abort_removes_what_this_write_has_made(client: tuple[Any, Storage]) -> None:
    connection, storage = client
    connection.put_object(Bucket="states", Key="savepoints/two/somebody-else", Body=b"x")
    staging = Staging("s3://states/savepoints/two", "token1", storage)
    staging.prepare()
    with staging.open(staging.file_name("ab" * 16, "keyed", 0)) as sink:
        sink.write(b"x")
    staging.abort()
    assert names(connection, "savepoints/two/") == ["somebody-else"]
