"""A native savepoint whose store has many tables of full size. Only the table of one key group has content.

Small files are inline, as Flink writes them by default.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

import state_processor as sp
from state_processor.backends.formats.sst.manifest import TableFile, read_manifest, write_manifest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, write_metadata
from state_processor.backends.state.key_groups import key_group

UID: Final = "bench"
STATE: Final = "value"
KEY_GROUPS: Final = 128
TABLES: Final = 200
VALUE_BYTES: Final = 4000
"""A block of a table has one or two such values."""
TABLE_BYTES: Final = 60 << 20
"""Values of the real table. The writer begins a new table at 64 MiB."""
_REAL: Final = 64
"""The key group that the real table has."""
_TAG: Final = bytes(8)


def _keys(count: int) -> list[int]:
    """Return keys of one key group; the hash code of such a number is the number."""
    keys = np.arange(2 * KEY_GROUPS * count)
    return np.flatnonzero(key_group(keys, KEY_GROUPS) == _REAL)[:count].tolist()  # type: ignore[no-any-return]


def a_key() -> int:
    """Return a key of the savepoint."""
    return _keys(1000)[-1]


def value_of(key: int) -> bytes:
    """Return the value of a key; it can't be compressed."""
    return random.Random(key).randbytes(VALUE_BYTES)


def many_tables(directory: Path, *, inline: bool, table_bytes: int = TABLE_BYTES) -> Path:
    """Write a savepoint with 200 tables, and return its directory; ``inline``: whether the manifest is inline."""
    writer = sp.arrow.SavepointWriter.new(max_parallelism=KEY_GROUPS)
    rows = [{"key": key, "value": value_of(key)} for key in _keys(table_bytes // VALUE_BYTES)]
    writer.with_keyed_state(UID, rows, states={STATE: sp.ValueState(sp.Types.BYTES())}, key_type=sp.Types.LONG(), parallelism=1)
    target = directory / "savepoint"
    writer.write(target, format="native", backend="rocksdb")
    snapshot = open_snapshot(target)
    (operator,) = snapshot.metadata.operators
    (subtask,) = operator.subtasks
    handle = subtask.managed_keyed
    assert isinstance(handle, h.IncrementalRemoteKeyedStateHandle)
    found = {file.local_name: snapshot.open(file.stream) for file in handle.files}
    name = next(name for name in found if name.startswith("MANIFEST"))
    manifest = read_manifest(found[name].read(), name)
    (number,) = (number for number, family in manifest.families.items() if family.name == STATE)
    (real,) = manifest.families[number].files
    real = replace(real, level=6)
    files = [real, *_others(real)]
    content = write_manifest(manifest.with_files({n: files if n == number else () for n in manifest.families}))
    (target / "other").write_bytes(b"")
    os.truncate(target / "other", real.size)
    (target / "manifest").write_bytes(content)
    stored = h.ByteStreamStateHandle("manifest", content) if inline else h.RelativeFileStateHandle("manifest", len(content))
    stores: dict[str, h.StreamStateHandle] = {name: stored}
    for file in files[1:]:
        os.link(target / "other", target / file.name)
        stores[file.name] = h.RelativeFileStateHandle(file.name, file.size)
    local = [replace(file, stream=stores.get(file.local_name, file.stream)) for file in handle.files]
    local += [h.LocalFile(name, stream) for name, stream in stores.items() if name not in found]
    is_table = {file.name for file in files}
    whole = replace(
        handle,
        meta=h.ByteStreamStateHandle("header", bytes(snapshot.open(handle.meta).read())),
        shared=tuple(file for file in local if file.local_name in is_table),
        private=tuple(file for file in local if file.local_name not in is_table),
    )
    one = OperatorState(
        operator.operator_id, 1, KEY_GROUPS, (replace(subtask, managed_keyed=whole),), uid=operator.uid, name=operator.name
    )
    (target / "_metadata").write_bytes(write_metadata(replace(snapshot.metadata, operators=(one,))))
    return target


def _others(real: TableFile) -> Iterator[TableFile]:
    """Yield tables of the other key groups."""
    groups = [group for group in range(KEY_GROUPS) if group != _REAL]
    for i in range(TABLES - 1):
        group, half = groups[i * len(groups) // (TABLES - 1)], i.to_bytes(2, "big")
        first = bytes([group]) + half
        yield replace(real, number=real.number + 1 + i, smallest=first + bytes(6) + _TAG, largest=first + b"\xff" * 6 + _TAG)
