"""Files that a checkpoint reuses of an earlier snapshot, and records by a bare name: Flink's bug FLINK-39964.

Flink records the files that checkpoints share by absolute path, and those beside ``_metadata`` by their name. All files of a
native savepoint are recorded by their name. A job that claimed the savepoint refers to them in its checkpoints as they were
recorded, and Flink up to 2.3 looks for them beside the ``_metadata`` of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.properties import SAVEPOINT
from state_processor.backends.metadata.snapshot_metadata import CheckpointMetadata


def reused_files(metadata: CheckpointMetadata) -> frozenset[str]:
    """Return the names of files that a checkpoint records by a bare name where Flink reuses files.

    A savepoint has only files of its own; before version 4 of ``_metadata``, which snapshots are savepoints is not known.
    """
    if metadata.properties is not None and metadata.properties.kind == SAVEPOINT:
        return frozenset()
    handles = (subtask.managed_keyed for operator in metadata.operators for subtask in operator.subtasks)
    streams = (stream for handle in handles for stream in _reusable(handle))
    return frozenset(stream.path for stream in streams if isinstance(stream, h.RelativeFileStateHandle))


def _reusable(handle: h.KeyedStateHandle | None) -> Iterator[h.StreamStateHandle]:
    """Yield the streams that later checkpoints refer to, too: shared files, and all that a changelog begins with."""
    if isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
        yield from (file.stream for file in handle.shared)
    elif isinstance(handle, h.ChangelogStateBackendHandle):
        for part in handle.materialized:
            if isinstance(part, h.KeyGroupsStateHandle):
                yield part.stream
            elif isinstance(part, h.IncrementalRemoteKeyedStateHandle):
                yield part.meta
                yield from (file.stream for file in part.files)
