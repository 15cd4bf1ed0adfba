"""Planning a read of 2,000 subtasks with 50 files each, from a store with a latency of 20 ms.

The benchmark makes the metadata; headers are real. Targets: 5 s, 300 MB, one request for each header, tasks of at most 20 kB.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from apart import result_of
from figures import Figure
from object_store import object_store
from processes import peak_bytes

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState, write_metadata
from state_processor.backends.read.state_access import StatesToRead
from state_processor.backends.read.stored_operator import find_operator
from state_processor.backends.state.key_groups import range_of_subtask
from state_processor.options.data_sources import SourceOptions
from state_processor.read.scans import ProjectedReader, find_reader, open_operator, splits_of

ROOT = Path(__file__).parent.parent
FIXTURE = ROOT / "tests" / "fixtures" / "2.3.0" / "orders-rocksdb-incremental" / "savepoint"
SUBTASKS, FILES, KEY_GROUPS = 2000, 50, 32768
FILE_BYTES = 2 << 20
LATENCY = 0.02


def many_subtasks(directory: Path) -> Path:
    """Write a checkpoint of one operator: each subtask has its own header and many files."""
    (source,) = FIXTURE.glob("*/chk-*")
    snapshot = open_snapshot(source)
    operator = find_operator(snapshot, "orders")
    handle = next(s.managed_keyed for s in operator.subtasks if s.managed_keyed is not None)
    assert isinstance(handle, h.IncrementalRemoteKeyedStateHandle)
    assert isinstance(handle.meta, h.RelativeFileStateHandle)
    target = directory / "chk-1"
    target.mkdir()
    subtasks = []
    for index in range(SUBTASKS):
        header = f"header-{index}"
        shutil.copy(source / handle.meta.path, target / header)
        places = [f"file:/checkpoints/shared/{index:08x}-4b5e-{number:012x}" for number in range(FILES)]
        files = tuple(h.LocalFile(f"{i:06d}.sst", h.FileStateHandle(FILE_BYTES, place)) for i, place in enumerate(places))
        keyed = replace(
            handle,
            key_groups=range_of_subtask(index, SUBTASKS, KEY_GROUPS),
            meta=replace(handle.meta, path=header),
            shared=files,
            private=(),
        )
        subtasks.append(OperatorSubtaskState(index, managed_keyed=keyed))
    new = OperatorState(operator.operator_id, SUBTASKS, KEY_GROUPS, tuple(subtasks), uid=operator.uid, name=operator.name)
    (target / "_metadata").write_bytes(write_metadata(replace(snapshot.metadata, operators=(new,))))
    return target


def plan(path: str) -> dict[str, Any]:
    """Plan the read of a state like ``SavepointReader``, and return the costs."""
    start, cpu = time.perf_counter(), time.process_time()
    options = SourceOptions.of(path, {"uid": "orders", "state": "total"})
    reader = find_reader(options, StatesToRead.find(open_operator(options), options.state))
    projected = ProjectedReader.of(reader, reader.schema)
    tasks = [len(pickle.dumps([split])) for split in splits_of(reader, options)]
    return {
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "memory": peak_bytes(os.getpid()),
        "tasks": len(tasks),
        "task": max(tasks) + len(pickle.dumps(projected)),
    }


def main() -> list[Figure]:
    """Print the figures of a new process."""
    with tempfile.TemporaryDirectory() as directory:
        target = many_subtasks(Path(directory))
        with object_store(Path(directory), LATENCY) as store:
            found = result_of(__file__, store.url.replace("?", f"/{target.name}?"))
    read = Counter({key: count for key, count in store.requests["GET"].items() if not key.endswith("_metadata")})
    found |= {"requests": store.count, "most": max(read.values())}
    print(
        f"plan of {SUBTASKS:,} subtasks with {FILES} files: {found['wall']:.1f} s, {found['cpu']:.1f} CPU s, "
        f"{found['memory'] / 1e6:.0f} MB; {found['requests']:,} requests, {store.most} at once, "
        f"at most {found['most']} of a header; "
        f"{found['tasks']:,} tasks of at most {found['task'] / 1e3:.1f} kB (targets: 5 s, 300 MB, 1, 20 kB)"
    )
    what = f"plan of {SUBTASKS:,} subtasks with {FILES} files"
    return [
        Figure(what, found["wall"], "s", None, 5),
        Figure(f"{what}, memory", found["memory"] / 1e6, "MB", None, 300),
        Figure(f"{what}, requests for a header", found["most"], "", None, 1),
        Figure(f"{what}, largest task", found["task"] / 1e3, "kB", None, 20),
    ]


if __name__ == "__main__":
    print(json.dumps(plan(sys.argv[1])))
