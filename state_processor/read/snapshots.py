"""Snapshots below a directory, and whether their files are there."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Unpack

from state_processor.backends.metadata import discovery
from state_processor.backends.metadata.discovery import SnapshotInfo
from state_processor.backends.read.file_check import check_files
from state_processor.options.access import SnapshotAccess
from state_processor.options.keywords import takes_options
from state_processor.options.table import SnapshotOptions
from state_processor.serializers.errors import StateProcessorError


@takes_options
def list_snapshots(
    directory: str | PathLike[str], *, check: bool = True, **options: Unpack[SnapshotOptions]
) -> list[SnapshotInfo]:
    """List the snapshots in a directory and up to four levels below, by path.

    Parameters
    ----------
    directory
        A directory of checkpoints, savepoints or jobs, or a snapshot.
    check
        Whether to look for every file of every snapshot. If false, ``is_complete`` is ``None`` unless ``_metadata`` is missing or
        damaged, which is faster where there are many files.
    **options
        See :class:`~state_processor.options.table.SnapshotOptions`.

    Raises
    ------
    NotASnapshotError
        If the directory does not exist.
    """
    access = SnapshotAccess.of(**options)
    found = discovery.list_snapshots(directory, access.storage())
    return [replace(i, is_complete=_is_complete(access, i.path)) if check and i.is_complete is None else i for i in found]


def _is_complete(access: SnapshotAccess, path: str) -> bool:
    try:
        _, problems = check_files(access.open(path))
    except StateProcessorError:
        return False
    return not problems
