"""Snapshots below a directory, and whether their files are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from logging import getLogger
from os import PathLike, fspath
from typing import Any, Final, Unpack

import pyarrow as pa

from state_processor.backends.metadata.checkpoint_order import find_pointers, read_pointer, with_recovery
from state_processor.backends.metadata.discovery import DEPTH, Discovery, SnapshotInfo, find_snapshots
from state_processor.backends.read.snapshot_checks import check_files
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import DirectoryOptions
from state_processor.options.keywords import takes_options
from state_processor.options.option import WHOLE_NUMBER, check_given
from state_processor.support.doors import spelled
from state_processor.support.errors import StateProcessorError
from state_processor.support.mappings import row_of

FINDING: Final = ("path_mapping", "allow_paths")
"""Options of finding the files of a snapshot, which are looked for on request."""
_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("kind", pa.string()),
        ("job_id", pa.string()),
        ("checkpoint_id", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("size_in_bytes", pa.int64()),
        ("is_complete", pa.bool_()),
        ("needs_repair", pa.bool_()),
        ("pointers", pa.list_(pa.string())),
        ("recovers", pa.bool_()),
    ]
)
_LOG: Final = getLogger("state_processor")


@takes_options
def list_snapshots(
    directory: str | PathLike[str],
    *,
    check: bool = True,
    depth: int = DEPTH,
    high_availability: str | PathLike[str] | None = None,
    **options: Unpack[DirectoryOptions],
) -> list[SnapshotInfo]:
    """List the snapshots in a directory and below it, newest first.

    The logger ``state_processor`` warns if directories were too deep to be searched.

    Parameters
    ----------
    directory
        A directory of savepoints, checkpoints or jobs, or a snapshot: a path or URL.
    check
        Whether to look for every file of every snapshot. If false, ``is_complete`` is ``None`` unless ``_metadata`` is missing or
        damaged. This is faster if snapshots have many files.
    depth
        Number of levels below the directory to search.
    high_availability
        A file ``completedCheckpoint…``, or a directory with such files (``high-availability.storageDir``). They tell which
        checkpoint a recovering job takes. Checkpoints that they name and that do not exist are listed, too. By default, such
        files that are found in the searched directories are used; the log names damaged ones.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Raises
    ------
    NotASnapshotError
        If the directory does not exist, or there are no pointers in ``high_availability``.
    CorruptSnapshotError
        If a file of high availability is damaged.
    OptionError
        If an option has an unexpected value, or is about files that are not looked for.
    """
    access = SnapshotAccess.of(**options)
    if not check:
        check_given(options, FINDING, f"with {spelled('check', True)}: set that")
    discovery = searched(directory, depth, access)
    snapshots = checked(discovery.snapshots, access) if check else discovery.snapshots
    return recovering(snapshots, high_availability, discovery.pointers, access)


def recovering(
    snapshots: Iterable[SnapshotInfo],
    high_availability: str | PathLike[str] | None,
    pointer_files: Iterable[str],
    access: SnapshotAccess,
) -> list[SnapshotInfo]:
    """Return the snapshots, with the ones marked that recovering jobs take.

    ``high_availability``: a file of high availability, or a directory with such files. ``pointer_files``: files of high
    availability that are used by default. ``access``: options of opening files.
    """
    if high_availability is not None:
        return with_recovery(list(snapshots), find_pointers(fspath(high_availability), access.storage()))
    pointers = []
    for path in pointer_files:
        try:
            pointers.append(read_pointer(path, access.storage()))
        except StateProcessorError as problem:
            _LOG.warning("%s", problem)
    return with_recovery(list(snapshots), pointers)


def searched(directory: str | PathLike[str], depth: int, access: SnapshotAccess) -> Discovery:
    """Return what :func:`discovered` returns; the log names directories that were too deep."""
    discovery = discovered(directory, depth, access)
    if discovery.unsearched:
        _LOG.warning("%s", _unsearched_text(discovery, depth, spelled("depth", depth + 1)))
    return discovery


def discovered(directory: str | PathLike[str], depth: int, access: SnapshotAccess) -> Discovery:
    """Return the snapshots in a directory and below it; whether their files are there is unknown."""
    return find_snapshots(directory, access.storage(), WHOLE_NUMBER.of_argument("depth", depth))


def checked(snapshots: list[SnapshotInfo], access: SnapshotAccess) -> Iterator[SnapshotInfo]:
    """Look for every file of each snapshot, one snapshot after the other, and yield the snapshots with the result."""
    return (replace(s, **_completeness(access, s.path)) if s.is_complete is None else s for s in snapshots)


def snapshots_table(snapshots: Iterable[SnapshotInfo]) -> pa.Table:
    """Return a table of snapshots; see :func:`state_processor.arrow.snapshots`."""
    return pa.Table.from_pylist(list(map(row_of, snapshots)), _SCHEMA)


def _unsearched_text(discovery: Discovery, depth: int, advice: str) -> str:
    """Return the text for directories that were not searched: how many, the first, and the ``advice`` that searches them."""
    number = len(discovery.unsearched)
    levels = "1 level" if depth == 1 else f"{depth} levels"
    directories = (
        f"1 directory more than {levels} down was" if number == 1 else f"{number} directories more than {levels} down were"
    )
    return f"{directories} not searched, such as {min(discovery.unsearched)}; {advice} searches deeper"


def _completeness(access: SnapshotAccess, path: str) -> dict[str, Any]:
    try:
        check = check_files(access.open(path))
    except StateProcessorError:
        return {"is_complete": False}
    return {"is_complete": check.is_restorable, "needs_repair": not check.problems and not check.is_restorable}
