"""Random stores, and what RocksDB reads in them.

RocksDB makes stores with random options. The tests write tables too: with types of entries that ``rocksdict`` does not offer.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import rocksdict

from state_processor.backends.files.storage import Storage
from state_processor.backends.formats.sst.family_scan import FamilyScan
from state_processor.backends.formats.sst.manifest import Family, Manifest, TableFile, read_manifest, write_manifest
from state_processor.backends.formats.sst.table import COMPARATOR, Table
from state_processor.backends.metadata.state_stream import StateStream
from tests.backends.formats.sst import table_writer as w

LAST: Final = b"\xff" * 24
Pairs = list[tuple[bytes, bytes]]

_OPTIONS: Final = """\
[Version]
  rocksdb_version=8.10.0
  options_file_version=1.1
[DBOptions]
[CFOptions "default"]
  merge_operator={id=StringAppendTESTOperator;delimiter=,;}
[TableOptions/BlockBasedTable "default"]
"""


def read_by_rocksdb(directory: Path, family: str, lower: bytes = b"", upper: bytes = LAST) -> Pairs:
    """Return the entries of a column family as RocksDB iterates over them."""
    options = directory / "flink-options" / "OPTIONS-000001"
    options.parent.mkdir(exist_ok=True)
    options.write_text(_OPTIONS)
    of_family = rocksdict.Options.load_latest(str(options.parent))[1]["default"]
    of_family.set_num_levels(64)
    families = dict.fromkeys(rocksdict.Rdict.list_cf(str(directory)), of_family)
    store = rocksdict.Rdict(str(directory), rocksdict.Options(raw_mode=True), families, rocksdict.AccessType.read_only(False))
    shutil.rmtree(options.parent)
    bounded = rocksdict.ReadOptions()
    bounded.set_iterate_upper_bound(upper)
    try:
        found = store.get_column_family(family).iter(bounded)
        found.seek(lower)
        pairs = []
        while found.valid():
            pairs.append((found.key(), found.value()))
            found.next()
        found.status()
        return pairs
    finally:
        store.close()


def manifest_of(directory: Path) -> Manifest:
    """Return the manifest of a store."""
    return read_manifest((directory / (directory / "CURRENT").read_text().strip()).read_bytes(), str(directory))


def tables_of(directory: Path) -> Callable[[TableFile], Table]:
    """Return an opener of the tables of a store."""
    storage, opened = Storage(), {}

    def open_table(file: TableFile) -> Table:
        if file.number not in opened:
            path = str(directory / file.name)
            stored = storage.open(path)
            opened[file.number] = Table(StateStream(stored, 0, stored.size, path, path), file, path)
        return opened[file.number]

    return open_table


def read_by_kernels(directory: Path, family: str, lower: bytes = b"", upper: bytes = LAST) -> Pairs:
    """Return the entries of a column family as this project reads them."""
    files = next(f.files for f in manifest_of(directory).families.values() if f.name == family)
    scan = FamilyScan(files, tables_of(directory), 0, str(directory))
    return [
        (data[key:key_end].tobytes(), data[value:value_end].tobytes())
        for data, rows in scan.blocks(lower, upper)
        for key, key_end, value, value_end, _ in rows.tolist()
    ]


def make_by_rocksdb(directory: Path, rng: random.Random) -> list[str]:
    """Make a store with RocksDB, and return the names of its column families."""
    families = [f"family-{i}" for i in range(rng.randrange(1, 4))]
    options = _options(rng)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    store = rocksdict.Rdict(str(directory), options, {name: _options(rng) for name in families})
    key = keys(rng)
    ingested = 0
    for _ in range(rng.randrange(1, 12)):
        family = store.get_column_family(rng.choice(families))
        action = rng.random()
        if action < 0.5:
            for _ in range(rng.choice((1, 20, 300))):
                family[key()] = value(rng)
        elif action < 0.65:
            for _ in range(rng.choice((1, 50))):
                family.delete(key())
        elif action < 0.75:
            begin, end = sorted((key(), key()))
            family.delete_range(begin, end + b"\0")
        elif action < 0.85:
            path, ingested = directory.parent / f"{directory.name}-{ingested}.sst", ingested + 1
            writer = rocksdict.SstFileWriter(_options(rng))
            writer.open(str(path))
            for k in sorted({key() for _ in range(rng.randrange(1, 100))}):
                writer[k] = value(rng)
            writer.finish()
            family.ingest_external_file([str(path)])
            path.unlink()
        elif action < 0.95:
            family.flush()
        else:
            family.compact_range(None, None)
    for name in families:
        store.get_column_family(name).flush()
    store.close()
    return families


def _options(rng: random.Random) -> Any:
    table = rocksdict.BlockBasedOptions()
    table.set_format_version(rng.randrange(2, 7))
    table.set_checksum_type(
        getattr(rocksdict.ChecksumType, rng.choice(("no_checksum", "crc32c", "xxhash", "xxhash64", "xxh3")))()
    )
    table.set_block_size(rng.choice((64, 512, 4096)))
    table.set_block_restart_interval(rng.choice((1, 3, 16)))
    table.set_index_block_restart_interval(rng.choice((1, 1, 5)))
    if rng.random() < 0.3:
        table.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
        table.set_metadata_block_size(128)
    if rng.random() < 0.2:
        table.set_data_block_index_type(rocksdict.DataBlockIndexType.binary_and_hash())
    if rng.random() < 0.3:
        table.set_bloom_filter(10, False)
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    compression = rng.choice(("none", "snappy", "lz4", "lz4hc", "zstd"))
    options.set_compression_type(getattr(rocksdict.DBCompressionType, compression)())
    options.set_write_buffer_size(rng.choice((1 << 14, 64 << 20)))
    options.set_target_file_size_base(rng.choice((4 << 10, 64 << 20)))
    options.set_disable_auto_compactions(rng.random() < 0.5)
    return options


def make_by_hand(directory: Path, rng: random.Random) -> list[str]:
    """Make a store of tables that the tests write: all types of entries, on several levels; return its column family."""
    directory.mkdir()
    changes = _changes(rng)
    cuts = sorted(rng.randrange(len(changes) + 1) for _ in range(rng.randrange(6)))
    epochs = [changes[a:b] for a, b in zip([0, *cuts], [*cuts, len(changes)], strict=True)]
    below = rng.randrange(3)  # epochs that are at lower levels, the oldest at the lowest
    files: list[TableFile] = []
    for number, epoch in enumerate(epochs):
        level = below - number if number < below else 0
        for part in _split(epoch, rng) if level else [epoch]:
            if part:
                files.append(_table(directory, len(files) + 10, level, part, rng))
    last = max((e.sequence for e in changes), default=0)
    if rng.random() < 0.5:
        last += 1
        some = {k: w.Entry(k, 0, w.VALUE, value(rng)) for k in (keys(rng)() for _ in range(rng.randrange(1, 50)))}
        files.append(_table(directory, len(files) + 10, 0, list(some.values()), rng, last))
    family = Family("state", COMPARATOR, tuple(files))
    manifest = Manifest({0: Family("default", COMPARATOR), 1: family}, len(files) + 20, last, 1)
    (directory / "MANIFEST-000005").write_bytes(write_manifest(manifest))
    (directory / "CURRENT").write_text("MANIFEST-000005\n")
    return ["state"]


def _changes(rng: random.Random) -> list[w.Entry]:
    key, found = keys(rng), []
    for sequence in range(1, rng.choice((2, 30, 600))):
        kind = rng.choices((w.VALUE, w.DELETION, w.MERGE, w.SINGLE_DELETION, w.RANGE_DELETION), (50, 10, 30, 5, 3))[0]
        if kind == w.RANGE_DELETION:
            begin, end = sorted((key(), key()))
            found.append(w.Entry(begin, sequence, kind, end + b"\0"))
        else:
            found.append(w.Entry(key(), sequence, kind, value(rng) if kind in (w.VALUE, w.MERGE) else b""))
    return found


def _split(entries: Sequence[w.Entry], rng: random.Random) -> Iterator[list[w.Entry]]:
    """Cut entries at random keys; a range deletion becomes one in each part."""
    cuts = sorted({e.key for e in rng.sample(entries, min(len(entries), rng.randrange(4)))})
    for lower, upper in zip([b"", *cuts], [*cuts, LAST], strict=True):
        part = [e for e in entries if e.kind != w.RANGE_DELETION and lower <= e.key < upper]
        deletions = [(max(e.key, lower), min(e.value, upper), e.sequence) for e in entries if e.kind == w.RANGE_DELETION]
        part += [w.Entry(begin, sequence, w.RANGE_DELETION, end) for begin, end, sequence in deletions if begin < end]
        yield part


def _table(
    directory: Path, number: int, level: int, entries: Sequence[w.Entry], rng: random.Random, sequence: int | None = None
) -> TableFile:
    layout = w.random_layout(rng)
    if sequence is not None:
        layout = w.Layout(**{**vars(layout), "ingested": True})
    data = w.TableWriter(layout).write(entries)
    file = w.table_file(number, level, entries, len(data), sequence)
    (directory / file.name).write_bytes(data)
    return file


def keys(rng: random.Random) -> Callable[[], bytes]:
    """Return a maker of keys, which occur again."""
    form, many = rng.randrange(3), rng.choice((5, 200, 5000))
    if form == 0:
        return lambda: rng.randrange(many).to_bytes(8, "big")
    if form == 1:
        return lambda: bytes(rng.choice(b"\0a\xff") for _ in range(rng.randrange(1, 6)))
    stem = rng.randbytes(rng.choice((1, 30, 200)))
    return lambda: stem[: rng.randrange(1, len(stem) + 1)] + bytes([rng.randrange(many % 251 + 1)])


def value(rng: random.Random) -> bytes:
    """Return a value."""
    size = rng.choice((0, 1, 8, 30, 30, 500)) if rng.random() < 0.99 else 20_000
    return rng.randbytes(size) if rng.random() < 0.5 else bytes([rng.randrange(256)]) * size
