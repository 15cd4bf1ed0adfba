"""The newest checkpoint, while checkpoints are replaced."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.serving import browsing, following
from state_processor.applications.serving.following import Followed, ServedSnapshot
from state_processor.applications.serving.limits import Limits
from state_processor.backends.metadata import discovery
from state_processor.backends.read.keyed_splits import KeyedHandle
from state_processor.read.key_contents import KeyContents
from state_processor.read.scans import StateRequest
from state_processor.serializers.kernel.interpreter import interpreter
from state_processor.support.errors import MissingFileError, NotASnapshotError
from tests.state_processor.applications.serving.checkpoints import JOB, KEYS, remove_checkpoint, write_checkpoint
from tests.state_processor.samples import ORDERS_PATH
from tests.waiting import join, wait_until

TOTALS = sp.OperatorIdentifier.of("totals")


def value_of(served: ServedSnapshot, key: int = 7) -> int:
    found = KeyContents.find(served.snapshot, TOTALS, key, "total", {})
    value: int = found.states["total"].to_pylist()[0]["value"]
    return value


def test_a_snapshot_is_served_by_itself() -> None:
    followed = Followed(ORDERS_PATH, {})
    assert followed.refresh() is followed.current
    assert followed.current.path == ORDERS_PATH


def test_the_newest_checkpoint_is_found(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    followed = Followed(tmp_path, {})
    first = followed.current
    write_checkpoint(tmp_path, 2)
    assert (followed.current.checkpoint_id, followed.refresh().checkpoint_id) == (1, 2)
    assert (value_of(first), value_of(followed.current)) == (1, 2)


def test_a_look_reads_the_metadata_of_new_checkpoints_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    read_metadata = discovery.read_metadata

    def counted(content: Any, path: str) -> Any:
        read.append(Path(path).parent.name)
        return read_metadata(content, path)

    monkeypatch.setattr(discovery, "read_metadata", counted)
    write_checkpoint(tmp_path, 1)
    followed = Followed(tmp_path, {})
    followed.refresh()
    write_checkpoint(tmp_path, 2)
    assert followed.refresh().checkpoint_id == 2
    assert read == ["chk-1", "chk-2"]


def test_a_snapshot_that_replaces_another_is_served(tmp_path: Path) -> None:
    """A job that starts again can write a checkpoint to the same path."""
    target = write_checkpoint(tmp_path, 1)
    followed = Followed(tmp_path, {})
    other = write_checkpoint(tmp_path, 2)
    remove_checkpoint(tmp_path, 1)
    other.rename(target)
    assert (followed.refresh().path, value_of(followed.current)) == (str(target), 2)


def test_a_snapshot_that_replaces_another_with_the_same_time_is_served(tmp_path: Path) -> None:
    target = write_checkpoint(tmp_path, 1)
    followed = Followed(tmp_path, {})
    times = os.stat(target / "_metadata")
    other = write_checkpoint(tmp_path, 2)
    remove_checkpoint(tmp_path, 1)
    other.rename(target)
    os.utime(target / "_metadata", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (followed.refresh().path, value_of(followed.current)) == (str(target), 2)


def test_a_directory_that_was_rolled_back_is_served(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    followed = Followed(tmp_path, {})
    write_checkpoint(tmp_path, 2)
    assert value_of(followed.refresh()) == 2
    remove_checkpoint(tmp_path, 2)
    assert value_of(followed.refresh()) == 1


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_open_files_are_read_after_their_removal(tmp_path: Path, backend: str) -> None:
    write_checkpoint(tmp_path, 1, backend)
    followed = Followed(tmp_path, {})
    old = followed.current
    remove_checkpoint(tmp_path, 1)
    assert value_of(old) == 1
    request = StateRequest(TOTALS, "total")
    scan = request.open(request.find(old.snapshot))
    assert [row["value"] for batch in scan.read() for row in batch.to_pylist()] == [1] * len(KEYS)


def test_a_store_is_opened_for_the_first_key_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, 1)
    served = Followed(tmp_path, {}).current
    opened: list[int] = []
    open_handle = KeyedHandle.open

    def counted(handle: KeyedHandle, snapshot: Any) -> Any:
        opened.append(handle.subtask)
        return open_handle(handle, snapshot)

    monkeypatch.setattr(KeyedHandle, "open", counted)
    for key in KEYS:
        assert browsing.contents(served, "totals", str(key), "total", Limits())["states"]["total"] == [{"value": 1}]
    assert sorted(opened) == [0, 0, 1]  # the first is opened for the type of the keys, too


def test_a_replaced_checkpoint_is_freed_at_once(tmp_path: Path) -> None:
    """Open files of many checkpoints would exceed the limit of a process."""
    write_checkpoint(tmp_path, 1)
    followed = Followed(tmp_path, {})
    browsing.contents(followed.current, "totals", "7", None, Limits())
    replaced = weakref.ref(followed.current)
    gc.disable()
    try:
        write_checkpoint(tmp_path, 2)
        followed.refresh()
        assert replaced() is None
    finally:
        gc.enable()


def test_an_incomplete_checkpoint_is_left_out(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    followed = Followed(tmp_path, {})
    target = write_checkpoint(tmp_path, 2)
    table = next(path for path in target.iterdir() if path.name != "_metadata" and path.stat().st_size)
    table.unlink()
    assert followed.refresh().checkpoint_id == 1


def test_a_request_moves_on_to_a_newer_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    followed = Followed(tmp_path, {})
    write_checkpoint(tmp_path, 2)
    tried = []

    def read(served: ServedSnapshot) -> int:
        tried.append(served.checkpoint_id)
        if served.checkpoint_id == 1:
            raise MissingFileError("a file of checkpoint 1 is missing")
        return value_of(served)

    assert followed.ask(read) == 2
    assert tried == [1, 2]


def test_without_a_newer_checkpoint_the_error_is_raised(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)

    def read(_: ServedSnapshot) -> None:
        raise MissingFileError("a file is missing")

    with pytest.raises(MissingFileError, match="a file is missing"):
        Followed(tmp_path, {}).ask(read)


def test_why_the_only_snapshot_can_not_be_opened(tmp_path: Path) -> None:
    metadata = write_checkpoint(tmp_path, 1) / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:100])
    with pytest.raises(NotASnapshotError, match=r"does not have a complete snapshot: \S+_metadata, offset \d+: "):
        Followed(tmp_path, {})


def test_directories_without_a_snapshot_and_with_several_jobs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotASnapshotError, match="does not have a complete snapshot"):
        Followed(tmp_path, {})
    first = write_checkpoint(tmp_path, 1)
    first.parent.rename(tmp_path / ("f" * 32))
    write_checkpoint(tmp_path, 1)
    with pytest.raises(NotASnapshotError, match=f"has checkpoints of 2 jobs: {JOB}, f+; serve the directory of one job"):
        Followed(tmp_path, {})


def test_requests_while_checkpoints_are_replaced(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    followed = Followed(tmp_path, {})
    ended = threading.Event()
    problems: list[BaseException] = []
    seen: set[int] = set()

    def ask() -> None:
        try:
            while not ended.is_set():
                for key in KEYS:
                    answer = followed.ask(lambda served, key=key: browsing.contents(served, "totals", str(key), None, Limits()))
                    assert answer["states"]["total"] == [{"value": answer["checkpoint_id"]}]
                    seen.add(answer["checkpoint_id"])
        except BaseException as problem:
            problems.append(problem)

    clients = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for client in clients:
        client.start()
    with followed.follow(0.05):
        try:
            for number in range(2, 14):
                write_checkpoint(tmp_path, number, "rocksdb" if number % 2 else "hashmap")
                remove_checkpoint(tmp_path, number - 1)
            wait_until(lambda: problems or 13 in seen, "an answer from the last checkpoint")
        finally:
            ended.set()
            for client in clients:
                join(client)
    assert not problems
    assert len(seen) > 3


def test_the_first_request_finds_an_open_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "budget", interpreter.budget)
    served = Followed(ORDERS_PATH, {}).current
    served.warm_up()
    assert interpreter.budget == 0
    monkeypatch.setattr(following, "KeyLookUp", lambda *_: pytest.fail("the operator is opened again"))
    assert browsing.contents(served, "orders", "amelia", None, Limits())["states"]["total"] == [{"value": 3950}]
