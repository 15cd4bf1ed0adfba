"""Everything in a snapshot but the names of its files: what two writes of the same plan agree in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from hashlib import sha256
from itertools import chain
from typing import Any, Final, get_args

from state_processor.backends.formats.rocksdb_store import open_store
from state_processor.backends.formats.source import Block, UnframedRun
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_splits import keyed_handles

_STREAMS: Final = get_args(h.StreamStateHandle)
_IDENTITIES: Final = ("handle_id", "backend_id")


def content(snapshot: Snapshot) -> Any:
    """Return ``_metadata`` with the bytes of files instead of their names, and without random identities of handles."""
    return _plain(snapshot, snapshot.metadata)


def _plain(snapshot: Snapshot, value: Any) -> Any:
    if isinstance(value, _STREAMS):
        stream = snapshot.open(value)
        return "stream", stream.size, sha256(stream.read(0, stream.size)).hexdigest()
    if isinstance(value, h.IncrementalRemoteKeyedStateHandle):
        return "store", value.checkpoint_id, value.key_groups, tuple(_store(snapshot, value))
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in _IDENTITIES}
        return type(value).__name__, {name: _plain(snapshot, part) for name, part in named.items()}
    if isinstance(value, h.Offsets):
        return tuple(value)
    if isinstance(value, tuple | list):
        return [_plain(snapshot, part) for part in value]
    return bytes(value) if isinstance(value, memoryview) else value


def _store(snapshot: Snapshot, handle: h.IncrementalRemoteKeyedStateHandle) -> Iterator[tuple[Any, ...]]:
    """Yield the header, and the bytes of all entries: RocksDB's tables contain a random identity of their session."""
    header = snapshot.open(handle.meta)
    yield ("", bytes(header.read(0, header.size)))
    store = open_store(snapshot, handle, "")
    for family in sorted(family.name for family in store.manifest.families.values()):
        digest, count = sha256(), 0
        for buffer, _, entries in store.blocks(family, b"", b"\xff", 1):
            for key, middle, value, end, *_ in entries.tolist():
                digest.update(b"%d %d " % (middle - key, end - value) + bytes(buffer[key:middle]) + bytes(buffer[value:end]))
            count += len(entries)
        yield family, count, digest.hexdigest()


def unordered_content(snapshot: Snapshot) -> dict[Any, Any]:
    """Return the entries of keyed state by operator, state and key group, in any order."""
    found: dict[Any, Any] = {}
    for operator in snapshot.metadata.operators:
        found[operator.operator_id] = operator.uid, operator.parallelism, operator.max_parallelism
        for handle in keyed_handles(operator, snapshot):
            source = handle.open(snapshot)
            for meta in source.header.states:
                blocks = (
                    run.bounded() if isinstance(run, UnframedRun) else run.blocks
                    for run in source.runs(meta.name, handle.key_groups)
                )
                for block in chain.from_iterable(blocks):
                    for group, entry in _entries(block):
                        found.setdefault((operator.operator_id, meta.name, group), Counter())[entry] += 1
    return found


def _entries(block: Block) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    buffer, _, lines = block
    for start, middle, value, end, group in lines.tolist():
        yield group, (bytes(buffer[start:middle]), bytes(buffer[value:end]))
