"""Tables of RocksDB without checksums, and edits of manifests with checksums that fit: kernels read every input."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from state_processor.backends.formats.framing import ENTRY_FIELDS
from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst.erased_table import without
from state_processor.backends.formats.sst.family_scan import FamilyScan, plain_content, stored_entries
from state_processor.backends.formats.sst.key_set import Beginnings, KeySet
from state_processor.backends.formats.sst.manifest import Manifest, TableFile, _append, _records, read_manifest
from state_processor.backends.formats.sst.table import FOOTER, Table
from state_processor.backends.metadata.streams import StateStream
from tests.backends.formats.sst import stores
from tests.backends.formats.sst import table_writer as w
from tests.fuzz.edits import Edit, Edits, Field, Seed
from tests.fuzz.targets.base import Target, WrongRowsError, _Bytes

_STORES: Final = 60
_LARGEST: Final = 24 << 10
_NUMBERS: Final = (0, 1, 127, 128, 1 << 14, 1 << 28, (1 << 31) - 1, 1 << 32, 1 << 56, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)
_COUNTS: Final = (0, 1, (1 << 28) - 1, 1 << 28, 1 << 31, (1 << 31) + 1, (1 << 32) - 1)


@dataclass(frozen=True)
class _Store:
    """A store in memory: its manifest, and its tables by their numbers."""

    manifest: Manifest
    tables: dict[int, bytes]
    opened: dict[int, Table] = field(default_factory=dict)

    def open(self, file: TableFile) -> Table:
        if file.number not in self.opened:
            self.opened[file.number] = _open(file, self.tables[file.number])
        return self.opened[file.number]


def _open(file: TableFile, data: bytes) -> Table:
    return Table(StateStream(_Bytes(data), 0, len(data), file.name, None), file, file.name)


class TableTarget(Target):
    """A table, or an edit of the manifest, of a store."""

    name = "tables"
    most_memory = 200 << 20

    def find_seeds(self) -> Iterator[Seed]:
        for number in range(_STORES):
            store, edits = _store(number)
            for table, data in store.tables.items():
                if len(data) <= _LARGEST:
                    place = (store, table)
                    yield Seed(f"{number}/{table}", data, place, find_fields=partial(_footer, data), special=_special(place))
            for at, edit in enumerate(edits):
                yield Seed(f"{number}/manifest/{at}", edit, (store, edits, at))

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        if len(seed.context) == 2:
            store, number = seed.context
            _read(store.manifest, lambda file: _open(file, data) if file.number == number else store.open(file), number, rng)
            return
        store, records, at = seed.context
        log = bytearray()
        for record in (*records[:at], data, *records[at + 1 :]):
            _append(log, record)
        manifest = read_manifest(bytes(log), "manifest")
        _read(manifest, lambda file: _open(file, store.tables.get(file.number, b"")), None, rng)


def _read(manifest: Manifest, open_table: Callable[[TableFile], Table], number: int | None, rng: random.Random) -> None:
    """Read a store, or some of its tables, in one of the ways in which this project reads tables."""
    families = [f for f in manifest.families.values() if f.files and (number is None or number in {t.number for t in f.files})]
    opened = cache(open_table)
    for family in rng.sample(families, min(len(families), 1)):
        roll = rng.random()
        file = rng.choice(family.files) if number is None else next(f for f in family.files if f.number == number)
        if roll < 0.8:
            others = rng.sample(family.files, min(len(family.files), rng.choice((0, 1, 3))))
            _scan([file, *(other for other in others if other is not file)], opened, rng)
            continue
        if roll < 0.87:
            _check(stored_entries(opened(file), 0), ordered=False)
        elif roll < 0.92:
            opened(file).verify()
            for part in plain_content(opened(file)):
                bytes(part)
        else:
            erased = without(opened(file), Beginnings(key for key in _some_keys(family.files, rng) if key.strip(b"\xff")))
            if erased is not None and not erased.is_empty:
                erased.write(bytes, 99)


def _scan(files: Sequence[TableFile], opened: Callable[[TableFile], Table], rng: random.Random) -> None:
    lower, upper = b"", stores.LAST
    if rng.random() < 0.4:
        lower, upper = sorted(_some_keys(files, rng))
    keys = None
    if rng.random() < 0.2:
        wanted = sorted({*_some_keys(files, rng), *_some_keys(files, rng)})
        ends = np.cumsum([len(key) for key in wanted])
        entries = np.zeros((len(wanted), ENTRY_FIELDS), dtype=np.int64)
        entries[:, k.KEY], entries[:, k.KEY_END] = ends - [len(key) for key in wanted], ends
        keys = KeySet.of(np.frombuffer(b"".join(wanted) + bytes(k.SLACK), dtype=np.uint8), entries, 0, 0)
    prefix = rng.choice((0, 0, 0, 1, 2))
    newest = rng.random() < 0.1
    scan = FamilyScan(files, opened, prefix, "store", keys=keys, newest=newest)
    _check(scan.blocks(lower, upper), ordered=prefix == 0 and not newest, bounds=(lower, upper))


def _some_keys(files: Sequence[TableFile], rng: random.Random) -> tuple[bytes, bytes]:
    """Return two keys near the keys of some tables."""
    known = [key[:-8] for file in files for key in (file.smallest, file.largest)] or [b"a"]
    one, other = rng.choice(known), rng.choice(known)
    return one, other[: rng.randrange(len(other) + 1)] + rng.choice((b"", b"\0", b"\x80"))


def _check(blocks: Iterator[tuple[Any, Any]], ordered: bool, bounds: tuple[bytes, bytes] = (b"", stores.LAST)) -> None:
    """Verify that entries are within their bytes, and that their keys ascend between the bounds."""
    last: bytes | None = None
    for data, rows in blocks:
        places = rows[:, : k.VALUE_END + 1]
        if len(places) and not (places.min() >= 0 and places.max() <= len(data) and (places[:, ::2] <= places[:, 1::2]).all()):
            raise WrongRowsError("an entry is not within its bytes")
        if not ordered:
            continue
        keys = [data[begin:end].tobytes() for begin, end in rows[:, [k.KEY, k.KEY_END]].tolist()]
        if any(one >= other for one, other in pairwise([*([] if last is None else [last]), *keys])):
            raise WrongRowsError("keys do not ascend")
        if keys and not bounds[0] <= keys[0] <= keys[-1] < bounds[1]:
            raise WrongRowsError("a key is not between the bounds")
        last = keys[-1] if keys else last


def _store(number: int) -> tuple[_Store, list[bytes]]:
    """Make a store: its tables don't have checksums."""
    rng = random.Random(number)
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made) / "store"
        stores.make_by_hand(directory, rng, layout=_bomb if number % 20 == 0 else _without_checksums)
        log = (directory / "MANIFEST-000005").read_bytes()
        tables = {int(path.stem): path.read_bytes() for path in directory.glob("*.sst")}
    manifest = read_manifest(log, "manifest")
    return _Store(manifest, tables), list(_records(np.frombuffer(log, dtype=np.uint8), "manifest"))


def _without_checksums(rng: random.Random) -> w.Layout:
    layout = replace(w.random_layout(rng), checksum=0)
    return replace(layout, compression=w.NONE) if rng.random() < 0.5 else layout


def _bomb(rng: random.Random) -> w.Layout:
    return replace(w.random_layout(rng), checksum=0, compression=w.ZSTD)


def _footer(data: bytes) -> tuple[Field, ...]:
    """Return the fields at the end of a table."""
    at = len(data) - FOOTER
    return (*(Field(at + i, 1) for i in range(FOOTER)), *(Field(at + i, 4, "little") for i in (5, 9, 13, 41)))


def _special(place: tuple[_Store, int]) -> Callable[[random.Random, bytes], Edit]:
    """Return a function that draws edits of numbers and places of blocks."""

    @cache
    def found() -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        return _numbers(place[0], place[1])

    def draw(rng: random.Random, data: bytes) -> Edit:
        numbers, blocks = found()
        if not numbers:
            return Edit(rng.randrange(len(data)), 1, rng.randbytes(1))
        at, size = rng.choice(numbers)
        roll = rng.random()
        if roll < 0.4:
            number = rng.choice((*_NUMBERS, len(data), len(data) - at, rng.randrange(1 << 16)))
            written = w.varint(number)
            return Edit(at, min(len(data) - at, size if rng.random() < 0.3 else len(written)), written)
        if roll < 0.6:
            number = rng.choice((*_NUMBERS, rng.randrange(len(data)))) & ((1 << 7 * size) - 1)
            return Edit(at, size, _wide(number, size))
        if roll < 0.85 and blocks:
            block, other = rng.choice(blocks), rng.choice(numbers)
            written = w.handle(*block)
            return Edit(other[0], min(len(written), len(data) - other[0]), written)
        # the last numbers of a block
        offset, size = rng.choice(blocks) if blocks else (0, len(data) - 8)
        width = min(4, size)
        begin = max(0, offset + size - width - 4 * rng.choice((0, 0, 1, 2)))
        number = rng.choice(
            (0, 1, (1 << 28) - 1, 1 << 28, 1 << 31, (1 << 31) + 1, (1 << 32) - 1, size, size // 4, rng.randrange(256))
        )
        return Edit(begin, width, number.to_bytes(4, "little")[:width])

    return draw


def _wide(number: int, size: int) -> bytes:
    """Return a number of up to seven bits a byte in exactly ``size`` bytes."""
    return bytes((number >> 7 * i & 0x7F) | (0x80 if i < size - 1 else 0) for i in range(size))


def _numbers(store: _Store, number: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the numbers of a table, and its blocks: their offsets and sizes."""
    file = next(file for file in store.manifest.files if file.number == number)
    table, data = store.open(file), store.tables[number]
    blocks = [(int(row[2]), int(row[3])) for row in table.blocks().rows]
    if table._index_handle is not None:
        blocks.append(table._index_handle)
    blocks += table._meta.values()
    found = []
    for offset, size in blocks:
        if data[offset + size]:  # compressed: it begins with its size
            found.append((offset, _width(data, offset)))
        else:
            found += _of_block(data, offset, offset + size)
    return found, blocks


def _of_block(data: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers of a block that is not compressed, as far as it has entries with three numbers."""
    count = int.from_bytes(data[end - 4 : end], "little") & ~(1 << 31)
    end = max(at, end - 4 - 4 * count)
    while at < end:
        sizes = []
        for _ in range(3):
            width = _width(data, at)
            yield at, width
            sizes.append(data[at] & 0x7F)
            at += width
        at += sizes[1] + sizes[2]


def _width(data: bytes, at: int) -> int:
    """Return the bytes of a number."""
    width = 1
    while data[at + width - 1] & 0x80 and at + width < len(data):
        width += 1
    return width
