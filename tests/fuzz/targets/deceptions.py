"""Stores of RocksDB that were changed on purpose, with right checksums: RocksDB reads each of them, too.

A store has tables that :mod:`~tests.backends.formats.sst.table_writer` writes. One table or the manifest is changed in its
structure: entries, separators, places of blocks, restarts, properties, names of blocks, range deletions, bounds or sequence
numbers.
The store is read as a whole, in small rounds, and in ranges of keys. Allowed results are

* an error of this project;
* the entries that RocksDB reads;
* the entries of the unchanged store, if RocksDB refuses the changed store, or reads others.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from state_processor.backends.formats.sst import family_scan
from state_processor.backends.formats.sst.manifest import Family, Manifest, write_manifest
from state_processor.backends.formats.sst.table import COMPARATOR
from state_processor.support.errors import StateProcessorError
from tests.backends.formats.sst import stores
from tests.backends.formats.sst import table_writer as w
from tests.fuzz.edits import Edits, Seed
from tests.fuzz.targets.base import Target, WrongRowsError

FAMILY: Final = "state"
SEEDS: Final = 400
_FIRST_NUMBER: Final = 10
_EXTERNAL: Final = b"rocksdb.external_sst_file."
_NUMBERS: Final = (b"", b"\0", b"\1", b"\2", b"\5", b"\x80", b"\xff" * 9 + b"\1", bytes(4), b"\1\0\0\0", b"\2\0\0\0", b"\3\0\0\0")
_RENAMED: Final = (b"rocksdb.range_de", b"rocksdb.range_del2", b"rocksdb.propertiez", b"a", b"zz", b"rocksdb.index")


class DeceptiveWriter(w.TableWriter):
    """Writes a table with one deception.

    Parameters
    ----------
    layout
        How the table is written.
    kind
        The deception: a key of :data:`OF_TABLES`.
    rng
        Draws its details.
    """

    def __init__(self, layout: w.Layout, kind: str, rng: random.Random) -> None:
        super().__init__(layout)
        self._kind = kind
        self._rng = rng

    def change(self, kind: str, value: Any) -> Any:
        """Return a part of the table, changed if this is the deception."""
        return OF_TABLES[kind](self._rng, value) if kind == self._kind else value

    def write_parts(self, entries: Sequence[w.Entry]) -> bytes:
        layout = self._layout
        points = sorted((e for e in entries if e.kind != w.RANGE_DELETION), key=lambda e: e.order)
        deletions = sorted((e for e in entries if e.kind == w.RANGE_DELETION), key=lambda e: e.order)
        deletions = self.change("range deletions", deletions)
        points = self.change("entries", points)
        blocks = _blocks(points, layout.block_bytes)
        exact = layout.keys_are_exact and all(a[-1].key != b[0].key for a, b in pairwise(blocks))
        contents = [w.block([(e.internal, e.value) for e in part], layout.restart_interval, layout.hashed) for part in blocks]
        handles = [self.put(content) for content in contents]
        separators = [w._separator(a[-1], b[0], exact) for a, b in pairwise(blocks)]
        if blocks:
            separators.append(blocks[-1][-1].key if exact else blocks[-1][-1].internal)
        firsts = [part[0].internal for part in blocks]
        listed = self.change("index", list(zip(separators, handles, firsts, strict=True)))
        index = self._index([*listed])
        properties = self._properties(points, deletions, exact, len(handles))
        pairs = self.change("properties", sorted(properties.items()))
        meta = {b"rocksdb.properties": self.put(self.change("restarts of properties", w.block(pairs, 1 << 30)), w.NONE)}
        if deletions:
            content = w.block([(e.internal, e.value) for e in deletions], 1)
            meta[b"rocksdb.range_del"] = self.put(self.change("restarts of range deletions", content), w.NONE)
        if layout.version >= 6:
            meta[b"rocksdb.index"] = index
        names = self.change("names of blocks", sorted((name, w.handle(*place)) for name, place in meta.items()))
        places = self.put(self.change("restarts of names", w.block(names, 1)), w.NONE), index
        self._footer(*self.change("footer", places))
        return bytes(self.data)

    def _index_block(self, entries: Sequence[tuple[bytes, tuple[int, int], bytes]]) -> bytes:
        content = super()._index_block(entries)
        return bytes(self.change("restarts of the index", content))


def _blocks(points: Sequence[w.Entry], block_bytes: int) -> list[list[w.Entry]]:
    blocks: list[list[w.Entry]] = []
    size = 0
    for entry in points:
        if not blocks or size >= block_bytes:
            blocks.append([])
            size = 0
        blocks[-1].append(entry)
        size += len(entry.key) + len(entry.value) + 11
    return blocks


# Deceptions of tables


def near(rng: random.Random, key: bytes) -> bytes:
    """Return a key near another one."""
    roll = rng.random()
    if roll < 0.25 or not key:
        return key + rng.choice((b"\0", b"\xff", b"a", rng.randbytes(2)))
    if roll < 0.5:
        return key[: rng.randrange(len(key))]
    at = rng.randrange(len(key))
    return key[:at] + bytes([(key[at] + rng.choice((1, -1, 16, 128))) % 256]) + key[at + 1 :]


def _of_list(rng: random.Random, items: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    """Change, leave out, repeat or exchange items of a list."""
    items = list(items)
    if not items:
        return items
    at, other, roll = rng.randrange(len(items)), rng.randrange(len(items)), rng.random()
    if roll < 0.6:
        items[at] = change(items[at])
    elif roll < 0.75:
        items[at], items[other] = items[other], items[at]
    elif roll < 0.85:
        del items[at]
    elif roll < 0.95:
        items.insert(other, items[at])
    else:
        items.reverse()
    return items


def _entry(rng: random.Random, entry: w.Entry) -> w.Entry:
    roll = rng.random()
    if roll < 0.3:
        return replace(entry, key=near(rng, entry.key))
    if roll < 0.6:
        return replace(
            entry, sequence=rng.choice((0, 1, max(0, entry.sequence - 1), entry.sequence + 1, 10_000, w.MOST_SEQUENCE))
        )
    return replace(entry, kind=rng.choice((0, 1, 2, 7, 15, 3, 0x11, 0x16, 200)))


def _deletion(rng: random.Random, entry: w.Entry) -> w.Entry:
    return replace(entry, value=near(rng, entry.value)) if rng.random() < 0.3 else _entry(rng, entry)


def _of_index(rng: random.Random, listed: list[Any]) -> list[Any]:
    def change(item: tuple[bytes, tuple[int, int], bytes]) -> tuple[bytes, tuple[int, int], bytes]:
        separator, (offset, size), first = item
        roll = rng.random()
        if roll < 0.5:
            return (
                rng.choice((near(rng, separator), rng.choice(listed)[0], near(rng, separator[:-8]) + separator[-8:])),
                (offset, size),
                first,
            )
        if roll < 0.7:
            return separator, rng.choice(listed)[1], first
        if roll < 0.85:
            return separator, (max(0, offset + rng.choice((-1, 1, 5))), max(0, size + rng.choice((0, -1, 1)))), first
        return separator, (offset, size), near(rng, first)

    return _of_list(rng, listed, change)


def _of_properties(rng: random.Random, pairs: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    if rng.random() < 0.2:
        name = _EXTERNAL + rng.choice((b"version", b"global_seqno"))
        return sorted([*pairs, (name, rng.choice((*_NUMBERS, bytes(8), b"\7" + bytes(7))))])
    return _of_list(
        rng, pairs, lambda pair: (pair[0], rng.choice(_NUMBERS)) if rng.random() < 0.7 else (near(rng, pair[0]), pair[1])
    )


def _of_names(rng: random.Random, names: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    def change(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        if rng.random() < 0.6:
            return rng.choice((*_RENAMED, near(rng, pair[0]))), pair[1]
        return pair[0], rng.choice(names)[1]

    changed = _of_list(rng, names, change)
    return sorted(changed) if rng.random() < 0.5 else changed


def _of_restarts(rng: random.Random, content: bytes) -> bytes:
    count = int.from_bytes(content[-4:], "little") & 0xFFFFFF
    words = [content[i : i + 4] for i in range(len(content) - 4 * count - 4, len(content), 4)]
    body = content[: len(content) - 4 * len(words)]
    at = rng.randrange(len(words))
    number = rng.choice((0, 1, 2, len(body), rng.randrange(len(body) + 1), int.from_bytes(rng.choice(words), "little")))
    words[at] = number.to_bytes(4, "little")
    return body + b"".join(words)


def _of_footer(rng: random.Random, places: tuple[Any, Any]) -> tuple[Any, Any]:
    meta, index = places
    return rng.choice(((index, meta), (meta, meta), (index, index), (meta, (index[0], max(0, index[1] - 1)))))


OF_TABLES: Final[dict[str, Callable[[random.Random, Any], Any]]] = {
    "entries": lambda rng, points: _of_list(rng, points, lambda e: _entry(rng, e)),
    "range deletions": lambda rng, found: _of_list(rng, found, lambda e: _deletion(rng, e)),
    "index": _of_index,
    "properties": _of_properties,
    "names of blocks": _of_names,
    "footer": _of_footer,
    **{f"restarts of {what}": _of_restarts for what in ("the index", "properties", "range deletions", "names")},
}


# Deceptions of manifests


def _of_manifest(rng: random.Random, manifest: Manifest, which: int) -> Manifest:
    """Change the record of one file, or the last sequence number."""
    if rng.random() < 0.2:
        last = rng.choice((0, 1, max(0, manifest.last_sequence - rng.randrange(1, 5)), manifest.last_sequence + 1))
        return replace(manifest, last_sequence=last)
    files = list(manifest.families[which].files)
    at = rng.randrange(len(files))
    file, roll = files[at], rng.random()
    bound = rng.choice(("smallest", "largest"))
    key = getattr(file, bound)
    if roll < 0.3:
        files[at] = replace(file, **{bound: near(rng, key[:-8]) + key[-8:]})
    elif roll < 0.45:
        change: dict[str, Any] = {bound: rng.choice((key[: rng.randrange(8)], b"", key[:-8], near(rng, key)))}
        files[at] = replace(file, **change)
    elif roll < 0.55:
        files[at] = replace(file, smallest=file.largest, largest=file.smallest)
    elif roll < 0.7:
        files[at] = replace(file, level=rng.choice((0, 1, 2, 6, 7)))
    elif roll < 0.85:
        files[at] = replace(file, sequences=rng.choice(((0, 0), (file.sequences[0], file.sequences[0]), (1, w.MOST_SEQUENCE))))
    elif roll < 0.92 and len(files) > 1:
        del files[at]
    else:
        files[at] = replace(file, number=rng.choice(files).number)
    return manifest.with_files({number: files if number == which else f.files for number, f in manifest.families.items()})


@dataclass
class Worker:
    """The process with RocksDB."""

    process: subprocess.Popen[bytes] | None = None

    def read(self, directory: Path) -> Any:
        """Return the entries of a store, or a text if RocksDB refuses it or ends."""
        if self.process is None:
            command = [sys.executable, "-m", "tests.fuzz.rocksdb_worker"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(f"{directory}\n{FAMILY}\n".encode())
            self.process.stdin.flush()
            (size,) = struct.unpack(">q", self.process.stdout.read(8))
            return pickle.loads(self.process.stdout.read(size))
        except (OSError, struct.error):  # it has ended
            self.process.kill()
            self.process.wait()
            self.process = None
            return "RocksDB has ended"


@cache
def _worker(process: int) -> Worker:
    return Worker()


@dataclass(frozen=True)
class _Base:
    """An unchanged store: its tables with their entries and layouts, its manifest, and what RocksDB would read."""

    directory: Path
    tables: list[tuple[list[w.Entry], w.Layout]]
    manifest: Manifest
    entries: stores.Pairs


class DeceptionTarget(Target):
    """A changed store, read by this project and by RocksDB."""

    name = "deceptions"

    def find_seeds(self) -> Iterator[Seed]:
        for number in range(SEEDS):
            yield Seed(f"{number:03}", b"\0", number)  # the random choices of an input make the change

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        work = Path(tempfile.mkdtemp())
        try:
            check(work / "store", seed.context, rng, _worker(os.getpid()), None if edits else "")
        finally:
            shutil.rmtree(work)


@cache
def _base(number: int, process: int) -> _Base:
    """Make the unchanged store of a seed."""
    rng = random.Random(f"store {number}")
    directory = Path(tempfile.mkdtemp()) / "store"
    directory.mkdir()
    changes = stores._changes(rng, 0, by_the_rules=False)
    tables, files = [], []
    for at, (level, entries, _) in enumerate(stores._placed(changes, rng)):
        layout = w.random_layout(rng)
        data = w.TableWriter(layout).write(entries)
        file = w.table_file(_FIRST_NUMBER + at, level, entries, len(data))
        (directory / file.name).write_bytes(data)
        tables.append((entries, layout))
        files.append(file)
    families = {0: Family("default", COMPARATOR), 1: Family(FAMILY, COMPARATOR, tuple(files))}
    manifest = Manifest(families, _FIRST_NUMBER + len(files), max(e.sequence for e in changes), 1)
    _write_manifest(directory, manifest)
    return _Base(directory, tables, manifest, stores.read_by_kernels(directory, FAMILY))


def _write_manifest(directory: Path, manifest: Manifest) -> None:
    (directory / "MANIFEST-000005").write_bytes(write_manifest(manifest))
    (directory / "CURRENT").write_text("MANIFEST-000005\n")


def check(directory: Path, number: int, rng: random.Random, worker: Worker, kind: str | None = None) -> str:
    """Make a changed store from the one of a seed, and compare what is read; return the deception.

    Raises
    ------
    WrongRowsError
        If neither RocksDB nor the unchanged store has the entries.
    """
    base = _base(number, os.getpid())
    kind = rng.choice((*OF_TABLES, "manifest", "index", "manifest", "range deletions", "entries")) if kind is None else kind
    directory.mkdir()
    files = list(base.manifest.families[1].files)
    chosen = rng.randrange(len(files))
    for at, (file, (entries, layout)) in enumerate(zip(files, base.tables, strict=True)):
        if at != chosen or kind not in OF_TABLES:
            (directory / file.name).hardlink_to(base.directory / file.name)
            continue
        data = _deceptive_table(layout, kind, rng, entries)
        (directory / file.name).write_bytes(data)
        files[at] = replace(file, size=len(data))
    manifest = base.manifest.with_files({0: (), 1: files})
    _write_manifest(directory, _of_manifest(rng, manifest, 1) if kind == "manifest" else manifest)
    _compare(directory, kind, base.entries, worker, rng)
    return kind


def _deceptive_table(layout: w.Layout, kind: str, rng: random.Random, entries: Sequence[w.Entry]) -> bytes:
    state = rng.getstate()
    try:
        return DeceptiveWriter(layout, kind, rng).write_parts(entries)
    except AssertionError:  # places of blocks that differences can't express
        rng.setstate(state)
        return DeceptiveWriter(replace(layout, is_delta=False), kind, rng).write_parts(entries)


def _compare(directory: Path, kind: str, true: stores.Pairs, worker: Worker, rng: random.Random) -> None:
    """Read a changed store in several ways, and compare each with RocksDB; see :func:`check`."""
    cuts = sorted({stores.keys(rng)() for _ in range(2)})
    whole, ranges = [(b"", stores.LAST)], list(pairwise([b"", *cuts, stores.LAST]))
    problems = []
    by_rocksdb: Any = None
    for way, share, parts in (("whole", 2 << 20, whole), ("in rounds", 1, whole), ("in ranges", 2 << 20, ranges)):
        sizes: dict[str, Any] = dict.fromkeys(("_LEAST_SHARE", "_COMPRESSED", "_PLAIN"), share)
        try:
            with patch.multiple(family_scan, **sizes):
                found = [pair for part in parts for pair in stores.read_by_kernels(directory, FAMILY, *part)]
        except StateProcessorError:
            continue
        if found == true:
            continue
        by_rocksdb = worker.read(directory) if by_rocksdb is None else by_rocksdb
        if found != by_rocksdb:
            others = by_rocksdb if isinstance(by_rocksdb, str) else f"{len(by_rocksdb)} entries"
            problems.append(f"{way}: {len(found)} entries of {len(true)}; RocksDB: {others[:200]}")
    if problems:
        raise WrongRowsError(f"{kind}: {'; '.join(problems)}")
