"""Sizes and numbers of entries of states over all snapshots below a directory. No entry is decoded."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from logging import getLogger
from os import PathLike
from typing import Any, Final, Unpack

import pyarrow as pa

from state_processor.backends.formats.rocksdb_store import open_store
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.discovery import DEPTH, SnapshotInfo
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.state_listing import subtask_label
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import DirectoryOptions
from state_processor.options.keywords import takes_options
from state_processor.read.snapshots import discovered, unsearched_text
from state_processor.serializers.doors import spelled

_LOG: Final = getLogger("state_processor")
HISTORY_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("checkpoint_id", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("operator_uid", pa.string()),
        ("operator_uid_hash", pa.string()),
        ("state_name", pa.string()),
        ("size_in_bytes", pa.int64()),
        ("entries_estimate", pa.int64()),
        ("bytes_per_hour", pa.float64()),
    ]
)
_HOUR: Final = 3600
_Row = dict[str, Any]


@takes_options
def history(directory: str | PathLike[str], *, depth: int = DEPTH, **options: Unpack[DirectoryOptions]) -> pa.Table:
    """Return the sizes of operators and states in all snapshots below a directory, oldest snapshot first.

    Sizes are sizes of files in bytes. The size of an operator is the size of its handles in ``_metadata``. The size of a state in
    RocksDB or ForSt is the size of its tables. Tables contain old values and deletions until RocksDB compacts them.

    Parameters
    ----------
    directory
        A directory of checkpoints, savepoints or jobs.
    depth
        Number of levels below the directory to search. The log names deeper directories.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Returns
    -------
    pyarrow.Table
        A row per operator of each snapshot, with null in ``state_name``, and a row per state in RocksDB and ForSt: ``path``,
        ``checkpoint_id``, ``time``, ``operator_uid``, ``operator_uid_hash``, ``state_name``, ``size_in_bytes``,
        ``entries_estimate`` and ``bytes_per_hour``. The estimate is RocksDB's: the entries of all tables minus twice
        their deletions. A key counts once for each table that contains it. The estimate is null for operators. ``bytes_per_hour``
        is the growth since the previous snapshot with the same operator and state; null for the first one. Snapshots that can't
        be read are left out.

    Raises
    ------
    NotASnapshotError
        If the directory does not exist.
    MissingFileError, CorruptSnapshotError
        If a file of a store is missing or damaged.
    """
    access = SnapshotAccess.of(**options)
    discovery = discovered(directory, depth, access)
    if discovery.unsearched:
        _LOG.warning("%s", unsearched_text(discovery, depth, spelled("depth", str(depth + 1))))
    found = [info for info in discovery.snapshots if info.is_complete is not False]
    counts: dict[Hashable, int] = {}
    before: dict[tuple[str, str | None], tuple[float, int]] = {}
    rows: list[_Row] = []
    for info in sorted(found, key=_oldest_first):
        snapshot = access.open(info.path)
        seconds = info.time.timestamp() if info.time is not None else None
        for row in _rows(snapshot, counts):
            place = row["operator_uid_hash"], row["state_name"]
            earlier = before.get(place)
            rate = None
            if earlier is not None and seconds is not None and seconds > earlier[0]:
                rate = (row["size_in_bytes"] - earlier[1]) / (seconds - earlier[0]) * _HOUR
            if seconds is not None:
                before[place] = seconds, row["size_in_bytes"]
            about = {"path": info.path, "checkpoint_id": info.checkpoint_id, "time": info.time}
            rows.append(about | row | {"bytes_per_hour": rate})
    return pa.Table.from_pylist(rows, HISTORY_SCHEMA)


def _oldest_first(info: SnapshotInfo) -> tuple[float, int, str]:
    return info.time.timestamp() if info.time is not None else 0.0, info.checkpoint_id or 0, info.path


def _rows(snapshot: Snapshot, counts: dict[Hashable, int]) -> Iterator[_Row]:
    for operator in snapshot.metadata.operators:
        about = {"operator_uid": operator.uid, "operator_uid_hash": operator.operator_id}
        yield {**about, "state_name": None, "size_in_bytes": operator.state_size, "entries_estimate": None}
        states = _states(snapshot, operator, counts)
        yield from ({**about, "state_name": n, "size_in_bytes": s, "entries_estimate": e} for n, (s, e) in states.items())


def _states(snapshot: Snapshot, operator: OperatorState, counts: dict[Hashable, int]) -> dict[str, tuple[int, int]]:
    """Return bytes and entries of the states in stores; ``counts`` has the entries of tables that were seen before."""
    found: dict[str, tuple[int, int]] = {}
    for subtask in operator.subtasks:
        handle = subtask.managed_keyed
        if not isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
            continue
        store = open_store(snapshot, handle, subtask_label(operator, subtask))
        for family in store.manifest.families.values():
            for file in family.files:
                identity = store.identity(file)
                if identity not in counts:
                    counts[identity] = store.open_table(file).entries_estimate
                size, entries = found.get(family.name, (0, 0))
                found[family.name] = size + file.size, entries + counts[identity]
    return found
