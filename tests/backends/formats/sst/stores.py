"""Random stores, and what RocksDB reads in them.

RocksDB makes stores with random options. The tests write tables too: with types of entries and a compression that ``rocksdict``
does not offer. RocksDB goes on with some of these stores, and writes tables with these types of entries itself.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import rocksdict

from state_processor.backends.files.storage import Storage
from state_processor.backends.formats.sst.family_scan import FamilyScan
from state_processor.backends.formats.sst.key_set import KeySet
from state_processor.backends.formats.sst.manifest import Family, Manifest, TableFile, read_manifest, write_manifest
from state_processor.backends.formats.sst.table import COMPARATOR, Table
from state_processor.backends.metadata.streams import StateStream
from tests.backends.formats.sst import table_writer as w

LAST: Final = b"\xff" * 24
_LEVELS: Final = 7
_MOST_LEVELS: Final = 64
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
    twin = _twin(directory)
    directory = twin if twin.exists() else directory
    of_family = _options_of_flink(directory)
    of_family.set_num_levels(_MOST_LEVELS)
    families = dict.fromkeys(rocksdict.Rdict.list_cf(str(directory)), of_family)
    store = rocksdict.Rdict(str(directory), rocksdict.Options(raw_mode=True), families, rocksdict.AccessType.read_only(False))
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


def _options_of_flink(directory: Path) -> Any:
    """Return options of a column family with the merge operator of Flink; ``rocksdict`` takes it from a file only."""
    options = directory / "flink-options" / "OPTIONS-000001"
    options.parent.mkdir(exist_ok=True)
    options.write_text(_OPTIONS)
    found = rocksdict.Options.load_latest(str(options.parent))[1]["default"]
    shutil.rmtree(options.parent)
    return found


def _twin(directory: Path) -> Path:
    """Return the directory of the same store with compressions that ``rocksdict`` reads."""
    return directory.parent / f"{directory.name}-twin"


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


def read_by_kernels(directory: Path, family: str, lower: bytes = b"", upper: bytes = LAST, keys: KeySet | None = None) -> Pairs:
    """Return the entries of a column family, or of some keys of it, as this project reads them."""
    files = next(f.files for f in manifest_of(directory).families.values() if f.name == family)
    scan = FamilyScan(files, tables_of(directory), 0, str(directory), keys=keys)
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
    can_ingest_behind = rng.random() < 0.1
    options.set_allow_ingest_behind(can_ingest_behind)
    is_compacting = rng.random() < 0.3
    live = directory.parent / f"{directory.name}-live" if is_compacting else directory
    store = rocksdict.Rdict(str(live), options, {name: _options(rng) for name in families})
    _change(store, families, rng, keys(rng), live, can_ingest_behind=can_ingest_behind)
    if is_compacting:
        # RocksDB compacts in the background, and goes on while the checkpoint is made
        rocksdict.Checkpoint(store).create_checkpoint(str(directory))
    store.close()
    return families


def make_by_both(directory: Path, rng: random.Random) -> list[str]:
    """Make a store of tables that the tests write, and let RocksDB go on; return the names of its column families."""
    families = make_by_hand(directory, rng, for_compaction=True)
    of_flink = {name: _options(rng, _options_of_flink(directory)) for name in ("default", *families)}
    store = rocksdict.Rdict(str(directory), _options(rng), of_flink)
    _change(store, families, rng, keys(rng), directory)
    store.close()
    return families


def _change(
    store: Any,
    families: Sequence[str],
    rng: random.Random,
    key: Callable[[], bytes],
    directory: Path,
    *,
    can_ingest_behind: bool = False,
) -> None:
    """Make random changes of a store, and flush them."""
    without_log: Any = rocksdict.WriteOptions()
    without_log.disable_wal = True
    of_name = {name: store.get_column_family(name) for name in families}
    for family in of_name.values():
        family.set_write_options(without_log)
    snapshots = []
    for number in range(rng.randrange(1, 14)):
        family = of_name[rng.choice(families)]
        action = rng.random()
        if action < 0.45:
            for _ in range(rng.choice((1, 20, 300))):
                family[key()] = value(rng)
        elif action < 0.6:
            for _ in range(rng.choice((1, 50))):
                family.delete(key())
        elif action < 0.7:
            begin, end = sorted((key(), key()))
            family.delete_range(begin, end + b"\0")
        elif action < 0.8:
            _ingest(family, rng, key, directory.parent / f"{directory.name}-{number}.sst", can_ingest_behind)
        elif action < 0.85:
            snapshots.append(family.snapshot())  # RocksDB keeps the versions that it has
        elif action < 0.95:
            family.flush()
        else:
            _compact(family, rng, key, can_move=not can_ingest_behind)
    for family in of_name.values():
        family.flush()


def _compact(family: Any, rng: random.Random, key: Callable[[], bytes], *, can_move: bool) -> None:
    """Compact all entries or a range, perhaps to a certain level; tables that are ingested behind others need the last one."""
    compaction = rocksdict.CompactOptions()
    if can_move and rng.random() < 0.5:
        compaction.set_change_level(True)
        compaction.set_target_level(rng.randrange(1, _LEVELS))
    bounds = (None, None) if rng.random() < 0.6 else sorted((key(), key()))
    family.compact_range(*bounds, compaction)


def _ingest(family: Any, rng: random.Random, key: Callable[[], bytes], path: Path, can_ingest_behind: bool) -> None:
    """Add tables to a store: RocksDB gives their entries one sequence number."""
    chosen = {key(): rng.choices((w.VALUE, w.DELETION, w.RANGE_DELETION), (85, 10, 5))[0] for _ in range(rng.randrange(1, 100))}
    ingest = rocksdict.IngestExternalFileOptions()
    if rng.random() < 0.5:
        writer = rocksdict.SstFileWriter(_options(rng))
        writer.open(str(path))
        for one in sorted(chosen):
            if chosen[one] == w.VALUE:
                writer[one] = value(rng)
            else:
                del writer[one]
        writer.finish()
    else:
        entries = []
        for one, kind in chosen.items():
            end = max(one, key()) + b"\0" if kind == w.RANGE_DELETION else b""
            entries.append(w.Entry(one, 0, kind, value(rng) if kind == w.VALUE else end))
        path.write_bytes(w.TableWriter(replace(w.random_layout(rng), ingested=True)).write(entries))
    if can_ingest_behind and rng.random() < 0.5:
        ingest.set_ingest_behind(True)
    with suppress(Exception) if can_ingest_behind else nullcontext():  # RocksDB refuses tables behind others that it moved there
        family.ingest_external_file([str(path)], ingest)
    path.unlink()


def _options(rng: random.Random, options: Any = None) -> Any:
    """Return random options for tables and their compaction."""
    table = rocksdict.BlockBasedOptions()
    table.set_format_version(rng.randrange(2, 7))
    table.set_checksum_type(
        getattr(rocksdict.ChecksumType, rng.choice(("no_checksum", "crc32c", "xxhash", "xxhash64", "xxh3")))()
    )
    table.set_block_size(rng.choice((64, 512, 4096)))
    table.set_block_restart_interval(rng.choice((1, 3, 16)))
    table.set_index_block_restart_interval(rng.choice((1, 1, 5)))
    options = rocksdict.Options(raw_mode=True) if options is None else options
    index = rng.random()
    if index < 0.3:
        table.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
        table.set_metadata_block_size(128)
    elif index < 0.45:
        table.set_index_type(rocksdict.BlockBasedIndexType.hash_search())
        table.set_index_block_restart_interval(1)
        options.set_prefix_extractor(rocksdict.SliceTransform.create_fixed_prefix(2))
    if rng.random() < 0.2:
        table.set_data_block_index_type(rocksdict.DataBlockIndexType.binary_and_hash())
        table.set_data_block_hash_ratio(rng.choice((0.5, 0.75)))
    if rng.random() < 0.3:
        table.set_bloom_filter(10, False)
        table.set_partition_filters(0.0 <= index < 0.3)
    options.set_block_based_table_factory(table)
    if rng.random() < 0.7:
        options.set_compression_type(_compression(rng))
    else:
        options.set_compression_per_level([_compression(rng) for _ in range(_LEVELS)])
    if rng.random() < 0.2:
        options.set_bottommost_compression_type(_compression(rng))
    if rng.random() < 0.2:
        options.set_compaction_style(rocksdict.DBCompactionStyle.universal())
    options.set_num_levels(_LEVELS)
    options.set_level_compaction_dynamic_level_bytes(rng.random() < 0.5)
    options.set_level_zero_file_num_compaction_trigger(rng.choice((1, 2, 4)))
    options.set_max_bytes_for_level_base(rng.choice((1 << 10, 256 << 20)))
    options.set_max_bytes_for_level_multiplier(2)
    options.set_write_buffer_size(rng.choice((1 << 14, 64 << 20)))
    options.set_target_file_size_base(rng.choice((1 << 10, 4 << 10, 64 << 20)))
    options.set_disable_auto_compactions(rng.random() < 0.5)
    return options


def _compression(rng: random.Random) -> Any:
    return getattr(rocksdict.DBCompressionType, rng.choice(("none", "snappy", "lz4", "lz4hc", "zstd")))()


def make_with_zlib(directory: Path, rng: random.Random) -> list[str]:
    """Make a store with the compression zlib, and the same one with other compressions for RocksDB."""
    return make_by_hand(directory, rng, zlib=True)


def make_by_hand(
    directory: Path,
    rng: random.Random,
    *,
    for_compaction: bool = False,
    zlib: bool = False,
    layout: Callable[[random.Random], w.Layout] = w.random_layout,
) -> list[str]:
    """Make a store of tables that the tests write: all types of entries, on several levels; return its column families.

    With ``for_compaction``, RocksDB can go on with the store: single deletions keep its rules.
    """
    directory.mkdir()
    if zlib:
        _twin(directory).mkdir()
    families = {0: Family("default", COMPARATOR)}
    manifests, number, last = dict.fromkeys([directory, *([_twin(directory)] if zlib else [])], families), 10, 0
    for which in range(1, rng.choice((1, 1, 3)) + 1):
        changes = _changes(rng, last, by_the_rules=for_compaction)
        tables: list[tuple[int, list[w.Entry], int | None]] = list(_placed(changes, rng))
        last = max((last, *(e.sequence for e in changes)))
        if rng.random() < 0.5:
            last += 1
            some = {k: w.Entry(k, 0, w.VALUE, value(rng)) for k in (keys(rng)() for _ in range(rng.randrange(1, 50)))}
            tables.append((0, list(some.values()), last))
        layouts = [replace(layout(rng), ingested=sequence is not None) for _, _, sequence in tables]
        for target in manifests:
            kind = w.ZLIB if zlib and target == directory else None
            files = [
                _table(target, number + i, *table, one if kind is None else replace(one, compression=kind))
                for i, (table, one) in enumerate(zip(tables, layouts, strict=True))
            ]
            manifests[target] = manifests[target] | {which: Family(f"state-{which}", COMPARATOR, tuple(files))}
        number += len(tables)
    for target, found in manifests.items():
        (target / "MANIFEST-000005").write_bytes(write_manifest(Manifest(found, number + 10, last, len(found) - 1)))
        (target / "CURRENT").write_text("MANIFEST-000005\n")
    return [family.name for which, family in manifests[directory].items() if which]


def _placed(changes: Sequence[w.Entry], rng: random.Random) -> Iterator[tuple[int, list[w.Entry], int | None]]:
    """Yield tables: their level, and their entries. The oldest entries are at the lowest level."""
    cuts = sorted(rng.randrange(len(changes) + 1) for _ in range(rng.randrange(8)))
    epochs = [changes[a:b] for a, b in zip([0, *cuts], [*cuts, len(changes)], strict=True)]
    below = rng.randrange(min(_LEVELS, len(epochs) + 2))
    for number, epoch in enumerate(epochs):
        level = max(0, below - number)
        for part in _split(epoch, rng) if level else [list(epoch)]:
            if part:
                yield level, part, None


def _changes(rng: random.Random, after: int, *, by_the_rules: bool) -> list[w.Entry]:
    """Return random entries with the sequence numbers behind ``after``.

    RocksDB compacts a single deletion together with one value of its key. By the rules, such keys have no other entries.
    """
    key, found = keys(rng), []
    once: set[bytes] = set()
    for sequence in range(after + 1, after + rng.choice((2, 30, 600))):
        kind = rng.choices((w.VALUE, w.DELETION, w.MERGE, w.SINGLE_DELETION, w.RANGE_DELETION), (50, 10, 30, 5, 3))[0]
        if kind == w.RANGE_DELETION:
            begin, end = sorted((key(), key()))
            found.append(w.Entry(begin, sequence, kind, end + b"\0"))
            continue
        one = key()
        if by_the_rules and one[-1] % 4 == 0:
            kind = w.SINGLE_DELETION if one in once else w.VALUE
            once ^= {one}
        elif by_the_rules and kind == w.SINGLE_DELETION:
            kind = w.DELETION
        found.append(w.Entry(one, sequence, kind, value(rng) if kind in (w.VALUE, w.MERGE) else b""))
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
    directory: Path, number: int, level: int, entries: Sequence[w.Entry], sequence: int | None, layout: w.Layout
) -> TableFile:
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
