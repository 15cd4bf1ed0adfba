"""The CPU time of RocksDB alone: iterate over all entries of a state with ``rocksdict``, without decoding or another process."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from state_processor.backends.files.scratch import scratch_space
from state_processor.backends.formats.rocksdb_server import Server, read_options
from state_processor.backends.formats.rocksdb_store import Store, materialize
from state_processor.backends.metadata.handles import IncrementalRemoteKeyedStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot

_REPEATS = 3
_BEHIND_ALL = b"\xff"


def iteration_seconds(path: Path, state: str) -> float:
    """Return the median CPU seconds of an iteration over the entries of a state in all stores of a snapshot."""
    runs = []
    for _ in range(_REPEATS):
        with tempfile.TemporaryDirectory() as scratch:
            families = _families(path, Path(scratch), state)
            start = time.process_time()
            for family in families:
                for _ in family.items(read_opt=read_options(_BEHIND_ALL)):
                    pass
            runs.append(time.process_time() - start)
    return statistics.median(runs)


def _families(path: Path, scratch: Path, state: str) -> list[Any]:
    snapshot = open_snapshot(path)
    server, families = Server(), []
    for operator in snapshot.metadata.operators:
        for subtask in operator.subtasks:
            handle = subtask.managed_keyed
            assert isinstance(handle, IncrementalRemoteKeyedStateHandle)
            directory = scratch / str(subtask.index)
            directory.mkdir()
            Store(directory, handle, "", materialize(snapshot, handle, scratch_space(None), directory, ""))
            families.append(server.store(str(directory)).get_column_family(state))
    return families
