"""Assembly of a savepoint from the handles of its subtasks, for a Flink version.

A savepoint is written in three steps: :class:`~state_processor.backends.write.staging.Staging` makes the directory; tasks write
state files into it and return handles that can be pickled; :func:`commit_savepoint` writes ``_metadata``, last of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.properties import CANONICAL, savepoint_properties
from state_processor.backends.metadata.snapshot_metadata import (
    LAYOUTS,
    CheckpointMetadata,
    MasterState,
    OperatorState,
    read_metadata,
    write_metadata,
)
from state_processor.backends.metadata.streams import recorded_files, streams_in_files
from state_processor.backends.state.key_groups import check_parallelism, range_of_subtask
from state_processor.backends.write.staging import Staging
from state_processor.serializers.format_versions import NEWEST_FLINK
from state_processor.support.errors import OptionError, StateProcessorError

WIDEST_VERSION: Final = 3
"""The version of ``_metadata`` that every Flink since 1.11 reads."""

_VERSIONS: Final = (((2, 1), 6), ((2, 0), 5), ((1, 16), 4), ((1, 13), 3))
_LAST_MINORS: Final = {1: 20, 2: int(NEWEST_FLINK.split(".")[1])}
"""By major version, the newest release that is known."""
_VERSION: Final = re.compile(r"(\d+)\.(\d+|x)(?:[.-]|$)")


def metadata_version(flink_version: str | None) -> int:
    """Return the version of ``_metadata`` that a Flink version writes; the one that all read for ``None``.

    ``2.x`` means every Flink 2, and gets what all of them read.
    """
    if flink_version is None:
        return WIDEST_VERSION
    release = release_for(flink_version)
    for least, version in _VERSIONS:
        if release >= least:
            return version
    raise OptionError(
        f"flink_version={flink_version!r}: Flink 1.13 is the first that restores canonical savepoints in each backend"
    )


def release_for(flink_version: str, option: str = "flink_version") -> tuple[int, int]:
    """Return the numbers of a version; for ``2.x`` those of the first Flink 2.

    ``option``: the name of the option, for messages.
    """
    match = _VERSION.match(flink_version) if isinstance(flink_version, str) else None  # 2.10 would be 2.1
    if match is None:
        raise OptionError(f"{option}={flink_version!r}: expected a version like '1.20' or '2.1', or '2.x'")
    major = int(match[1])
    if major > _VERSIONS[0][0][0]:
        raise OptionError(f"{option}={flink_version!r}: expected a version of Flink 1 or 2; others are not known")
    minor = min((least[1] for least, _ in _VERSIONS if least[0] == major), default=0) if match[2] == "x" else int(match[2])
    if minor > _LAST_MINORS.get(major, -1):
        newest = " and ".join(f"{of}.{last}" for of, last in _LAST_MINORS.items())
        raise OptionError(f"{option}={flink_version!r}: unknown; the newest known releases are {newest}")
    return major, minor


def oldest_flink_version(version: int) -> str | None:
    """Return the first Flink version that writes a version of ``_metadata``; ``None`` for versions that many releases write."""
    return next((f"{major}.{minor}" for (major, minor), written in _VERSIONS if written == version > WIDEST_VERSION), None)


def check_files(operator: OperatorState) -> None:
    """Refuse an operator of a new savepoint whose files hold other key groups than its subtasks."""
    check_parallelism(operator.parallelism, operator.max_parallelism)
    for subtask in operator.subtasks:
        handle = subtask.managed_keyed
        own_range = range_of_subtask(subtask.index, operator.parallelism, operator.max_parallelism)
        if isinstance(handle, h.KeyGroupsStateHandle) and handle.is_savepoint and handle.key_groups != own_range:
            raise OptionError(
                f"operator {operator.uid or operator.operator_id}, subtask {subtask.index}: its file holds key groups "
                f"{handle.key_groups}, {own_range} are its own"
            )


def commit_savepoint(
    staging: Staging,
    operators: Sequence[OperatorState],
    *,
    version: int = WIDEST_VERSION,
    checkpoint_id: int = 1,
    master_states: Sequence[MasterState] = (),
    format: str = CANONICAL,
) -> CheckpointMetadata:
    """Write ``_metadata``: from then on the directory is a savepoint.

    Parameters
    ----------
    staging
        The directory with all the files.
    operators
        All operators; operators of an existing snapshot may be given unchanged, if their files are reachable from
        the new directory.
    version
        Of ``_metadata``; see :func:`metadata_version`.
    checkpoint_id
        The number of the checkpoint, also of the stores in it; Flink goes on counting from it.
    master_states
        State of hooks of the checkpoint coordinator.
    format
        ``'CANONICAL'`` or ``'NATIVE'``, as the properties of the savepoint name it.

    Raises
    ------
    OptionError
        If an operator occurs twice, or its parts do not fit together.
    """
    states = tuple(_numbered(operator, checkpoint_id) for operator in operators)
    ids = [s.operator_id for s in states]
    if len(set(ids)) < len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise OptionError(f"operator {twice} is written twice")
    properties = savepoint_properties(format) if LAYOUTS[version].properties else None
    metadata = CheckpointMetadata(version, checkpoint_id, states, tuple(master_states), properties)
    replaced = _files_of(staging.present_metadata())
    staging.commit(write_metadata(metadata), dict(_files(states)), replaced)
    return metadata


def _numbered(operator: OperatorState, checkpoint_id: int) -> OperatorState:
    """Return an operator whose stores have the number of a checkpoint.

    Flink counts on equal numbers: it drops the files of former checkpoints of a store when a checkpoint with a higher number than
    the number of the restored store is complete (``RocksIncrementalSnapshotStrategy.notifyCheckpointComplete``).
    """
    subtasks = []
    for subtask in operator.subtasks:
        if isinstance(subtask.managed_keyed, h.IncrementalRemoteKeyedStateHandle):
            subtask = replace(subtask, managed_keyed=replace(subtask.managed_keyed, checkpoint_id=checkpoint_id))
        subtasks.append(subtask)
    return replace(operator, subtasks=tuple(subtasks))


def refers_elsewhere(metadata: CheckpointMetadata) -> bool:
    """Return whether a savepoint has files that are not in its directory."""
    return bool(recorded_files(metadata))


def _files_of(metadata: memoryview | None) -> set[str]:
    """Return the files of a savepoint that is replaced; none that are known where it can't be read."""
    with suppress(StateProcessorError):
        return {name for name, _ in _files(read_metadata(metadata).operators)} if metadata is not None else set()
    return set()


def _files(states: Sequence[OperatorState]) -> Iterator[tuple[str, int]]:
    """Yield all files in addition to ``_metadata`` that operators refer to: names and lengths."""
    for stream in streams_in_files(states):
        if isinstance(stream, h.RelativeFileStateHandle):
            yield stream.path, stream.size
