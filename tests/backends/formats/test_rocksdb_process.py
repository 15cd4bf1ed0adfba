"""RocksDB runs in a separate process: a crash or a loop becomes an error, and readers of other stores continue."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rocksdict

from state_processor.backends.formats import rocksdb_process
from state_processor.backends.formats.rocksdb_server import MOST_PARTS, send
from state_processor.backends.formats.rocksdb_store import Store
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.serializers.errors import CorruptSnapshotError
from tests.corpus import FIXTURES

NATIVE = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"
HANDLE: Any = SimpleNamespace(files=(), backend_id="b", checkpoint_id=1)
ROWS = 500


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """The checksum of a block as files of RocksDB have it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one file, whose blocks are not compressed and have CRC32C checksums."""

    def options() -> rocksdict.Options:
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_format_version(5)  # later ones mix the file's number into checksums
        blocks.set_checksum_type(rocksdict.ChecksumType.crc32c())
        given = rocksdict.Options(raw_mode=True)
        given.set_block_based_table_factory(blocks)
        given.set_compression_type(rocksdict.DBCompressionType.none())
        given.create_if_missing(True)
        given.create_missing_column_families(True)
        return given

    made, kept = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("store")
    store = rocksdict.Rdict(str(made), options(), {"total": options()})
    family = store.get_column_family("total")
    for i in range(ROWS):
        family[struct.pack(">BI", i % 100, i)] = b"value" * (i % 7)
    family.flush()
    store.close()
    for file in made.iterdir():
        if file.suffix == ".sst" or file.name == "CURRENT" or file.name.startswith("MANIFEST"):
            shutil.copy(file, kept)
    return kept


def varints(data: bytes, count: int) -> list[int]:
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
        if len(numbers) == count:
            break
    return numbers


def first_block(data: bytes) -> int:
    """Where the first block ends: its kind and its checksum follow."""
    return next(end for end in range(4000, 4200) if struct.unpack_from("<I", data, end + 1)[0] == masked(data[: end + 1]))


def forged(plain: Path, target: Path, block: str) -> Path:
    """The store with an offset in one block that leads out of it, and the checksum that belongs to that."""
    shutil.copytree(plain, target)
    file = next(target.glob("*.sst"))
    data = bytearray(file.read_bytes())
    metaindex, size, *_ = varints(data[-52:], 4)
    begin, end = (metaindex, metaindex + size) if block == "metaindex" else (0, first_block(data))
    for place in range(struct.unpack_from("<I", data, end - 4)[0] & 0xFFFF):
        struct.pack_into("<I", data, end - 8 - 4 * place, 0x7FFFFFF0)  # where its entries begin
    struct.pack_into("<I", data, end + 1, masked(data[begin : end + 1]))
    file.write_bytes(data)
    return target


def count(directory: Path) -> int:
    store = Store(directory, HANDLE, "operator x", {})
    return sum(len(entries) for _, _, entries in store.blocks("total", b"", b"\xff", 1))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_process, "_CPU_SECONDS", 2)
    if rocksdb_process._current is not None:
        rocksdb_process._current.stop()


def test_the_store_as_it_is(plain: Path) -> None:
    assert count(plain) == ROWS


@pytest.mark.parametrize("block", ["metaindex", "data"])
def test_a_forged_block_that_crashes_rocksdb_is_an_error(plain: Path, tmp_path: Path, block: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=r"operator x, store b of checkpoint 1.*: RocksDB has crashed"):
        count(forged(plain, tmp_path / "store", block))
    assert count(plain) == ROWS


@pytest.mark.usefixtures("quick")
def test_a_manifest_that_rocksdb_reads_without_end_is_an_error(tmp_path: Path) -> None:
    operator = next(o for o in open_snapshot(NATIVE).metadata.operators if o.uid == "orders")
    handle = operator.subtasks[0].managed_keyed
    assert isinstance(handle, h.IncrementalRemoteKeyedStateHandle)
    for file in handle.files:
        (tmp_path / file.local_name).write_bytes(open_snapshot(NATIVE).open(file.stream).read())
    manifest = next(tmp_path.glob("MANIFEST-*"))
    data = bytearray(manifest.read_bytes())
    record = 0
    for _ in range(4):
        record += 7 + struct.unpack_from("<H", data, record + 4)[0]
    struct.pack_into("<HB", data, record + 4, 0x06D8, 6)  # a record of another kind, longer than the file
    manifest.write_bytes(data)
    started = time.monotonic()
    with pytest.raises(CorruptSnapshotError, match=r"RocksDB (has computed for more than 2 seconds|reports)"):
        count(tmp_path)
    assert time.monotonic() - started < 60


def test_a_store_is_read_on_when_another_one_has_ended_the_process(plain: Path, tmp_path: Path) -> None:
    store = Store(plain, HANDLE, "operator x", {})
    blocks = store.blocks("total", b"", b"\xff", 1)
    with pytest.raises(CorruptSnapshotError):
        count(forged(plain, tmp_path / "store", "data"))
    assert sum(len(entries) for _, _, entries in blocks) == ROWS


def test_reading_in_many_chunks_and_side_by_side(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_process, "_SOURCE", rocksdb_process._SOURCE.replace("MOST_ROWS = 1 << 15", "MOST_ROWS = 1 << 4"))
    rocksdb_process._running().stop()
    store = Store(plain, HANDLE, "operator x", {})

    def rows(lower: int, upper: int) -> list[bytes]:
        found = store.blocks("total", bytes([lower]), bytes([upper]), 1)
        return [bytes(buffer[e[0] : e[1]]) + bytes(buffer[e[2] : e[3]]) for buffer, _, entries in found for e in entries]

    whole = rows(0, 100)
    assert len(whole) == ROWS == len(set(whole))
    both = [store.blocks("total", b"", b"\xff", 1) for _ in range(2)]
    pairs = list(zip(*both, strict=True))
    assert len(pairs) > 10
    assert all((one[0] == other[0]).all() for one, other in pairs)
    with ThreadPoolExecutor(4) as threads:
        assert [row for part in threads.map(rows, range(0, 100, 10), range(10, 110, 10)) for row in part] == whole
    rocksdb_process._running().stop()


def test_a_fork_while_threads_read_does_not_wait(plain: Path) -> None:
    assert count(plain) == ROWS
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            count(plain)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if not child:
                os._exit(0 if count(plain) == ROWS else 1)
            deadline = time.monotonic() + 60
            while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
            if not done[0]:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            assert done == (child, 0)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_modules_of_the_working_directory_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Path) -> None:
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    rocksdb_process._running().stop()
    assert count(plain) == ROWS
    assert not (tmp_path / "run").exists()


def test_answers_of_any_size_pass_through_the_pipe_in_order() -> None:
    parts = [bytes([i % 251]) * (i % 7) for i in range(3 * MOST_PARTS)]
    parts[MOST_PARTS] = os.urandom(3 << 20)  # more than a pipe holds: it is written in pieces
    reading, writing = os.pipe()
    with ThreadPoolExecutor(1) as pool, os.fdopen(reading, "rb") as answers:
        received = pool.submit(answers.read)
        send(writing, parts)
        os.close(writing)
        assert received.result() == b"".join(parts)
