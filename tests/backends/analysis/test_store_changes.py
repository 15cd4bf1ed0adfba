"""Entries that may differ between two stores with common tables, compared with all entries of both stores."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from state_processor.backends.analysis.store_changes import INCREMENTAL, BytesRead, StoreChanges
from state_processor.backends.files.storage import Storage
from state_processor.backends.formats.sst.manifest import Family, Manifest, TableFile, read_manifest, write_manifest
from state_processor.backends.formats.sst.table import COMPARATOR, Table
from state_processor.backends.metadata.streams import StateStream
from tests.backends.formats.sst import stores
from tests.backends.formats.sst import table_writer as w

SEEDS = 15
Changed = dict[bytes, tuple[bytes | None, bytes | None]]


class LocalStore:
    """A store in a directory; tables with equal bytes are one table."""

    def __init__(self, directory: Path) -> None:
        self.label = str(directory)
        self._directory = directory
        manifest = read_manifest((directory / (directory / "CURRENT").read_text().strip()).read_bytes(), self.label)
        self._families = {family.name: family for family in manifest.families.values()}

    def family(self, name: str) -> Family:
        return self._families[name]

    @contextmanager
    def fetching(self) -> Iterator[None]:
        yield None

    def identity(self, file: TableFile) -> Hashable:
        return hashlib.sha256((self._directory / file.name).read_bytes()).digest()

    def place(self, file: TableFile) -> Hashable:
        return self.identity(file)

    def stream(self, file: TableFile) -> StateStream:
        path = str(self._directory / file.name)
        stored = Storage().open(path)
        return StateStream(stored, 0, stored.size, path, path)

    def open_table(self, file: TableFile, stream: StateStream) -> Table:
        return Table(stream, file, file.name)


def all_changes(old: Path, new: Path, family: str) -> Changed:
    before, after = (dict(stores.read_by_kernels(directory, family)) for directory in (old, new))
    return {k: (before.get(k), after.get(k)) for k in before.keys() | after.keys() if before.get(k) != after.get(k)}


def found_changes(old: Path, new: Path, family: str, tally: BytesRead, bounds: list[bytes]) -> Changed:
    one, other = LocalStore(old), LocalStore(new)
    changes = StoreChanges(one, other, family, 0, tally)  # type: ignore[arg-type]
    sides: tuple[dict[bytes, bytes], dict[bytes, bytes]] = ({}, {})
    for lower, upper in pairwise(bounds):
        for side, blocks in zip(sides, changes.blocks(lower, upper), strict=True):
            for data, _, rows in blocks:
                for key, key_end, value, value_end, _ in rows.tolist():
                    side[data[key:key_end].tobytes()] = data[value:value_end].tobytes()
    before, after = sides
    return {k: (before.get(k), after.get(k)) for k in before.keys() | after.keys() if before.get(k) != after.get(k)}


def grown_by_rocksdb(directory: Path, rng: random.Random) -> Iterator[Path]:
    """Yield copies of a store of RocksDB that changes: its files as they are when a checkpoint is taken."""
    options = rocksdict.Options(raw_mode=True)
    options.set_disable_auto_compactions(rng.random() < 0.5)
    options.set_target_file_size_base(rng.choice((4 << 10, 64 << 10)))
    options.set_level_zero_file_num_compaction_trigger(2)
    store: Any = rocksdict.Rdict(str(directory / "live"), options)
    key = stores.keys(rng)
    for checkpoint in range(5):
        for _ in range(rng.randrange(1, 6)):
            action = rng.random()
            if action < 0.55:
                for _ in range(rng.choice((1, 10, 400))):
                    store[key()] = stores.value(rng)
            elif action < 0.75:
                for _ in range(rng.choice((1, 30))):
                    store.delete(key())
            elif action < 0.8:
                begin, end = sorted((key(), key()))
                store.delete_range(begin, end + b"\0")
            elif action < 0.84:
                writer = rocksdict.SstFileWriter(options)
                writer.open(str(directory / "ingested.sst"))
                for k in sorted({key() for _ in range(rng.randrange(1, 100))}):
                    writer[k] = stores.value(rng)
                writer.finish()
                store.ingest_external_file([str(directory / "ingested.sst")])
            elif action < 0.9:
                store.flush()
            else:
                store.compact_range(None, None)
        store.flush()
        store.close()  # compactions end
        yield Path(shutil.copytree(directory / "live", directory / f"checkpoint-{checkpoint}"))
        store = rocksdict.Rdict(str(directory / "live"), options)
    store.close()


def changed_by_hand(directory: Path, rng: random.Random) -> Iterator[Path]:
    """Yield stores of tables of all types of entries, in which tables vanish, lose or change entries, and are added."""
    tables: list[tuple[int, list[w.Entry], w.Layout]] = []
    sequence, key = 1, stores.keys(rng)
    for checkpoint in range(4):
        for i, (level, entries, layout) in enumerate(list(tables)):
            if rng.random() < 0.3:
                kept = [e for e in entries if rng.random() < 0.95]
                filtered = [replace(e, value=b"filtered") if e.kind == w.VALUE and rng.random() < 0.02 else e for e in kept]
                tables[i] = level, filtered, layout
        tables = [table for table in tables if table[1] and rng.random() < 0.9]
        for _ in range(rng.randrange(3)):
            entries = []
            for _ in range(rng.choice((1, 30, 300))):
                kind = rng.choices((w.VALUE, w.DELETION, w.MERGE, w.RANGE_DELETION), (60, 15, 25, 0.3))[0]
                if kind == w.RANGE_DELETION:
                    begin, end = sorted((key(), key()))
                    entries.append(w.Entry(begin, sequence, kind, end + b"\0"))
                else:
                    entries.append(w.Entry(key(), sequence, kind, b"" if kind == w.DELETION else stores.value(rng)))
                sequence += 1
            tables.append((0, entries, w.random_layout(rng)))
        target = directory / f"checkpoint-{checkpoint}"
        target.mkdir()
        files = []
        for number, (level, entries, layout) in enumerate(tables, start=10):
            data = w.TableWriter(layout).write(entries)
            files.append(w.table_file(number, level, entries, len(data), None))
            (target / files[-1].name).write_bytes(data)
        family = Family("default", COMPARATOR, tuple(files))
        (target / "MANIFEST-000005").write_bytes(write_manifest(Manifest({0: family}, 900, sequence, 0)))
        (target / "CURRENT").write_text("MANIFEST-000005\n")
        yield target


@pytest.mark.parametrize("grown", [grown_by_rocksdb, changed_by_hand])
def test_changes_of_random_stores(grown: Any, tmp_path: Path) -> None:
    found = 0
    for seed in range(SEEDS):
        rng = random.Random(seed)
        (tmp_path / str(seed)).mkdir()
        checkpoints = list(grown(tmp_path / str(seed), rng))
        cuts = sorted(stores.keys(rng)() for _ in range(rng.randrange(3)))
        for old, new in [*pairwise(checkpoints), (checkpoints[-1], checkpoints[0])]:
            tally = BytesRead()
            changes = found_changes(old, new, "default", tally, [b"", *cuts, stores.LAST])
            assert changes == all_changes(old, new, "default"), f"seed {seed}, {old.name} and {new.name}"
            found += len(changes)
        shutil.rmtree(tmp_path / str(seed))
    assert found > 1000


def test_a_compaction_alone_reads_only_the_tables_that_it_replaced(tmp_path: Path) -> None:
    options = rocksdict.Options(raw_mode=True)
    options.set_disable_auto_compactions(True)
    store: Any = rocksdict.Rdict(str(tmp_path / "live"), options)
    for part in (0, 1, 2, 0):
        for i in range(4000):
            store[bytes([part]) + i.to_bytes(4, "big")] = b"value %d" % i
        store.flush()
    old = Path(shutil.copytree(tmp_path / "live", tmp_path / "old"))
    store.compact_range(None, bytes([1]))
    new = Path(shutil.copytree(tmp_path / "live", tmp_path / "new"))
    store.close()
    names = [{file.name: file.stat().st_size for file in directory.glob("*.sst")} for directory in (old, new)]
    only = sum(size for a, b in (names, names[::-1]) for name, size in a.items() if name not in b)
    assert 0 < only < sum(names[0].values())
    tally = BytesRead()
    assert found_changes(old, new, "default", tally, [b"", stores.LAST]) == {}
    assert tally.read <= 1.05 * only
    assert tally.stored == sum(names[0].values()) + sum(names[1].values())
    assert tally.method == INCREMENTAL
