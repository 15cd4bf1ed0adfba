"""Files of writes where they stay, on disk and in an object store: ``_metadata`` last, abort, several writes at a time."""

from __future__ import annotations

import os
import pickle
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import boto3
import pyarrow as pa
import pytest

from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import StateDescription, keyed_header, register
from state_processor.backends.state.key_groups import range_of_subtask
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.entry_encoder import BlobAddress, KeyedStateEncoder
from state_processor.backends.write.keyed_writer import KeyedStateFileWriter, KeyedSubtask
from state_processor.backends.write.staging import Staging
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.errors import OptionError, StateProcessorError, WriteError
from tests.backends.operator_files import SubtaskHandles, new_operator
from tests.backends.write.blob_files import write_blobs
from tests.object_stores import S3Server

LONG = NumberSerializer("LONG")
TOTAL = StateDescription.of("total", "VALUE", LONG, VoidNamespaceSerializer(), value=LONG)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Storage]]:
    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    server = S3Server()
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
    encoder = KeyedStateEncoder(TOTAL, BlobAddress(0, 1, 128), batch.schema)
    name = staging.file_name("ab" * 16, "keyed", 0)
    with staging.open(staging.file_name("ab" * 16, "keyed", 0, "failed")) as sink:
        sink.write(b"half a file")
    writer = KeyedStateFileWriter(
        staging.open(name), KeyedSubtask(keyed_header(LONG, [register(TOTAL)]), range_of_subtask(0, 1, 128), 128)
    )
    handle = write_blobs(writer, encoder.encode(batch))
    commit_savepoint(staging, [new_operator("o", 1, 128, {0: SubtaskHandles(handle)})])
    assert names(connection, "savepoints/one/") == ["_metadata", name]
    snapshot = open_snapshot("s3://states/savepoints/one", storage=storage)
    reader = open_state(StoredOperator(snapshot, snapshot.metadata.operators[0]), "total")
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


@pytest.fixture(params=["disk", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Storage]:
    """A directory for writes."""
    if request.param == "disk":
        return str(tmp_path / "target"), Storage()
    return f"s3://states/{tmp_path.name}", request.getfixturevalue("client")[1]


def begun(place: tuple[str, Storage], token: str, replaces: bool = False) -> tuple[Staging, dict[str, int]]:
    """A write that has written one file."""
    staging = Staging(place[0], token, place[1], replaces=replaces)
    staging.prepare()
    with staging.open(staging.file_name("ab" * 16, "keyed", 0)) as sink:
        sink.write(token.encode())
    return staging, {sink.name: sink.size}


def metadata(files: dict[str, int]) -> bytes:
    """A replacement for ``_metadata`` with the names of the files."""
    return " ".join(files).encode()


def contents(place: tuple[str, Storage]) -> set[str]:
    return {entry.name for entry in place[1].list(place[0]) if not entry.is_directory}


def test_the_first_that_is_complete_counts(place: tuple[str, Storage]) -> None:
    killed, _ = begun(place, "killed")
    slow, slow_files = begun(place, "slow", replaces=True)
    fast, fast_files = begun(place, "fast")
    fast.commit(metadata(fast_files), fast_files)
    assert contents(place) == {"_metadata", *fast_files}
    with pytest.raises(WriteError, match="another write was complete before"):
        slow.commit(metadata(slow_files), slow_files)
    with pytest.raises(OptionError, match="filled with another savepoint meanwhile"):
        killed.commit(b"", {})
    slow.abort()
    killed.abort()
    assert contents(place) == {"_metadata", *fast_files}
    late, late_files = begun(place, "late", replaces=True)
    late.commit(metadata(late_files), late_files, fast_files)
    assert contents(place) == {"_metadata", *late_files}


def test_what_is_complete_is_not_aborted(place: tuple[str, Storage]) -> None:
    staging, files = begun(place, "token1")
    staging.commit(metadata(files), files)
    failure = KeyboardInterrupt()
    staging.give_up(failure)
    assert contents(place) == {"_metadata", *files}
    assert failure.__notes__ == [f"{staging.directory} is complete nevertheless"]


def test_files_that_the_driver_does_not_see(place: tuple[str, Storage]) -> None:
    staging, files = begun(place, "token1")
    with pytest.raises(WriteError, match="token1-abababab-keyed-0-0 was written with 7 bytes and has 6 bytes there"):
        staging.commit(b"", {name: size + 1 for name, size in files.items()})
    with pytest.raises(WriteError, match="elsewhere was written with 5 bytes and is not there; the driver and all workers"):
        staging.commit(b"", {"elsewhere": 5})
    staging.abort()
    assert contents(place) == set()


def test_a_claim_of_a_write_that_was_killed(tmp_path: Path) -> None:
    place = (str(tmp_path), Storage())
    staging, files = begun(place, "token1")
    claim = tmp_path / "token2-claim"
    claim.touch()
    with pytest.raises(WriteError, match=r"becoming complete right now \(token2-claim\)"):
        staging.commit(metadata(files), files)
    long_ago = time.time() - 3600
    os.utime(claim, (long_ago, long_ago))
    staging.commit(metadata(files), files)
    assert contents(place) == {"_metadata", *files}


def test_a_claim_counts_as_long_as_its_write_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another write of the same process waits for nobody: a claim that is left of a failed commit is not in its way."""
    place = (str(tmp_path), Storage())
    first, first_files = begun(place, "token1")

    def fail(*_: Any) -> None:
        second, second_files = begun(place, "token2", replaces=True)
        with pytest.raises(WriteError, match=r"becoming complete right now \(token1-claim\)"):
            second.commit(metadata(second_files), second_files)
        raise WriteError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Staging, "_put_metadata", fail)
        patched.setattr(Staging, "_is_in_doubt", lambda _: True)  # so that the claim stays
        with pytest.raises(WriteError, match="the disk is full"):
            first.commit(metadata(first_files), first_files)
    assert (tmp_path / "token1-claim").is_file()
    second, second_files = begun(place, "token3", replaces=True)
    second.commit(metadata(second_files), second_files)
    assert (tmp_path / "_metadata").read_bytes() == metadata(second_files)


def test_a_late_task_does_not_take_the_directory_of_the_next_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next write has made the directory, and a task of a write that was given up removes it while it is empty."""
    place = (str(tmp_path / "new"), Storage())
    failed, failed_files = begun(place, "token1")
    failed.abort()
    opened, removed = Staging.open, []

    def open_late(staging: Staging, name: str) -> FileSink:
        if not removed:
            failed.discard(*failed_files)
            removed.append(not (tmp_path / "new").exists())
        return opened(staging, name)

    with monkeypatch.context() as patched:
        patched.setattr(Staging, "open", open_late)
        staging, files = begun(place, "token2")
    assert removed == [True]
    staging.commit(metadata(files), files)
    assert contents(place) == {"_metadata", *files}


@pytest.mark.parametrize("is_made_by_user", [False, True])
def test_a_write_that_fails_removes_the_directory_only_if_a_write_has_made_it(tmp_path: Path, is_made_by_user: bool) -> None:
    directory = tmp_path / "new"
    if is_made_by_user:
        directory.mkdir()
        directory.chmod(0o2770)
        permissions = directory.stat()
    failed, files = begun((str(directory), Storage()), "token1")
    in_task = pickle.loads(pickle.dumps(failed))
    failed.abort()
    assert directory.exists() == is_made_by_user
    in_task.discard(*files)
    in_task.abort()
    assert directory.exists() == is_made_by_user
    if is_made_by_user:
        assert (directory.stat().st_ino, directory.stat().st_mode) == (permissions.st_ino, permissions.st_mode)


def test_files_of_a_savepoint_that_a_job_has_claimed_stay(place: tuple[str, Storage]) -> None:
    """Flink removes the ``_metadata`` of a savepoint that a job has claimed, and its checkpoints refer to the files."""
    claimed, claimed_files = begun(place, "token1")
    claimed.commit(metadata(claimed_files), claimed_files)
    claimed.remove("_metadata")
    begun(place, "killed")
    staging, files = begun(place, "token2")
    staging.commit(metadata(files), files)
    assert contents(place) == {"_metadata", *claimed_files, *files}


@pytest.mark.parametrize("replaces", [False, True])
def test_writes_that_become_complete_at_the_same_time(tmp_path: Path, replaces: bool) -> None:
    """One write wins or all fail. Failed writes leave nothing; the directory contains one complete savepoint."""
    count, chance, outcomes = 3, random.Random(7), set()
    with ThreadPoolExecutor(count) as threads:
        for turn in range(60):
            place = (str(tmp_path / str(turn)), Storage())
            writes = [begun(place, f"token{i}", replaces) for i in range(count)]
            barrier = Barrier(count, timeout=60)

            def complete(
                write: tuple[Staging, dict[str, int]], pause: float, barrier: Barrier = barrier
            ) -> StateProcessorError | None:
                staging, files = write
                barrier.wait()
                time.sleep(pause)
                try:
                    staging.commit(metadata(files), files)
                except StateProcessorError as problem:
                    staging.abort()
                    return problem
                return None

            pauses = [chance.random() * 0.002 * (turn % 4) for _ in writes]
            problems = list(threads.map(complete, writes, pauses))
            won = [files for error, (_, files) in zip(problems, writes, strict=True) if error is None]
            assert len(won) <= 1
            if won:
                assert contents(place) == {"_metadata", *won[0]}
                assert (Path(place[0]) / "_metadata").read_bytes() == metadata(won[0])
            else:
                assert not Path(place[0]).exists()
            outcomes.add(len(won))
    assert 1 in outcomes
