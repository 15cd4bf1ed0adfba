"""A checkpoint as Flink up to 2.3 writes it after a native savepoint was claimed (FLINK-39964), made of an ordinary one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import read_metadata, write_metadata
from state_processor.backends.metadata.streams import StreamInFile, with_streams

FIXTURES = Path(__file__).parent / "fixtures"
SAVEPOINT = "savepoint-012345-0123456789ab"


def claimed_checkpoint(directory: Path, savepoint: Path) -> Path:
    """Copy a checkpoint of RocksDB below a directory, with its tables in a savepoint and recorded by their names only."""
    fixture = FIXTURES / "2.3.0" / "orders-rocksdb-incremental"
    shutil.copytree(fixture / "savepoint", directory, dirs_exist_ok=True)
    (file,) = directory.glob("*/chk-*/_metadata")
    job = file.parent.parent
    savepoint.mkdir(parents=True)
    (savepoint / "_metadata").write_bytes(b"of the savepoint")

    def placed(stream: StreamInFile) -> h.StreamStateHandle:
        if not isinstance(stream, h.FileStateHandle):
            return stream
        return replace(stream, path=f"file:{job}/shared/{stream.path.rpartition('/')[2]}")

    def reused(file: h.LocalFile) -> h.LocalFile:
        assert isinstance(file.stream, h.FileStateHandle)
        name = file.stream.path.rpartition("/")[2]
        (job / "shared" / name).rename(savepoint / name)
        return replace(file, stream=h.RelativeFileStateHandle(name, file.stream.size))

    metadata = read_metadata(file.read_bytes())
    operators = []
    for operator in metadata.operators:
        subtasks = []
        for subtask in operator.subtasks:
            handle = subtask.managed_keyed
            if isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
                handle = replace(handle, shared=tuple(map(reused, handle.shared)))
            subtasks.append(with_streams(replace(subtask, managed_keyed=handle), placed))
        operators.append(replace(operator, subtasks=tuple(subtasks)))
    file.write_bytes(write_metadata(replace(metadata, operators=tuple(operators))))
    return file.parent
