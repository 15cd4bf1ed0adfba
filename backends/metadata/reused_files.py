"""Files of an earlier snapshot that a checkpoint reuses and records by a bare name: Flink's bug FLINK-39964.

Flink records shared files of checkpoints by absolute path, and files in the directory of ``_metadata`` by name. All files of a
native savepoint are recorded by name. If a job claims the savepoint, its checkpoints record these names unchanged, and Flink up
to 2.3 looks for the files in the directory of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.properties import SAVEPOINT
from state_processor.backends.metadata.snapshot_metadata import CheckpointMetadata


def reused_files(metadata: CheckpointMetadata) -> frozenset[str]:
    """Return the names of reused files that a checkpoint records by a bare name.

    A savepoint has only files of its own. Before version 4, ``_metadata`` does not distinguish savepoints from checkpoints.
    """
    if metadata.properties is not None and metadata.properties.kind == SAVEPOINT:
        return frozenset()
    handles = (subtask.managed_keyed for operator in metadata.operators for subtask in operator.subtasks)
    streams = (stream for handle in handles for stream in _reusable(handle))
    return frozenset(stream.path for stream in streams if isinstance(stream, h.RelativeFileStateHandle))


def _reusable(handle: h.KeyedStateHandle | None) -> Iterator[h.StreamStateHandle]:
    """Yield the streams that later checkpoints may reuse: shared files, and the materialized state of a changelog."""
    if isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
        yield from (file.stream for file in handle.shared)
    elif isinstance(handle, h.ChangelogStateBackendHandle):
        for part in handle.materialized:
            if isinstance(part, h.KeyGroupsStateHandle):
                yield part.stream
            elif isinstance(part, h.IncrementalRemoteKeyedStateHandle):
                yield part.meta
                yield from (file.stream for file in part.files)
