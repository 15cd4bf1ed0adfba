"""The CPU time of RocksDB alone: all entries of a state from ``rocksdict``, none of them decoded."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import rocksdict

from state_processor.backends.metadata.handles import IncrementalRemoteKeyedStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot

_REPEATS = 3


def iteration_seconds(path: Path, state: str) -> float:
    """Return the median CPU seconds of an iteration over the entries of a state in all stores of a snapshot."""
    runs = []
    for _ in range(_REPEATS):
        with tempfile.TemporaryDirectory() as copies:
            stores = _stores(path, Path(copies))
            start = time.process_time()
            for store in stores:
                for _ in store.get_column_family(state).items():
                    pass
            runs.append(time.process_time() - start)
            for store in stores:
                store.close()
    return statistics.median(runs)


def _stores(path: Path, copies: Path) -> list[Any]:
    """Return the stores of a snapshot, opened by RocksDB under the names that their files had in Flink."""
    snapshot, stores = open_snapshot(path), []
    for operator in snapshot.metadata.operators:
        for subtask in operator.subtasks:
            handle = subtask.managed_keyed
            assert isinstance(handle, IncrementalRemoteKeyedStateHandle)
            directory = copies / str(subtask.index)
            directory.mkdir()
            for file in handle.files:
                if not file.local_name.startswith("OPTIONS"):
                    (directory / file.local_name).write_bytes(snapshot.open(file.stream).read())
            options = rocksdict.Options(raw_mode=True)
            families = dict.fromkeys(rocksdict.Rdict.list_cf(str(directory)), options)
            stores.append(rocksdict.Rdict(str(directory), options, families, rocksdict.AccessType.read_only(False)))
    return stores
