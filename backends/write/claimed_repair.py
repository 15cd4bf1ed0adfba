"""Repair of a checkpoint that refers to files of a claimed savepoint as if they were its own (Flink's bug FLINK-39964).

Its ``_metadata`` gets the absolute paths of these files, as Flink versions without the bug record them. Nothing is copied: the
files stay in the savepoint. The job owns them since it claimed the savepoint.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from state_processor.backends.files.location import Location
from state_processor.backends.files.recorded_paths import storage_and_parts
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import write_metadata
from state_processor.backends.metadata.streams import StreamInFile, streams_in_files, with_streams
from state_processor.backends.write.carried_files import shared_file
from state_processor.backends.write.staging import Staging
from state_processor.serializers.errors import WriteError


def is_moved(snapshot: Snapshot) -> bool:
    """Return whether files that a snapshot records by absolute path are elsewhere now, so that Flink does not find them.

    Raises
    ------
    MissingFileError
        If one is nowhere.
    """
    streams = streams_in_files(snapshot.metadata.operators)
    recorded = {stream.path for stream in streams if not isinstance(stream, h.RelativeFileStateHandle)}
    return any(_place(snapshot.relocation.locate(path)) != _place(path) for path in recorded)


def refer_to_claimed(snapshot: Snapshot) -> None:
    """Record where the files of the claimed savepoint are, in a new ``_metadata`` that replaces the present one at once.

    Raises
    ------
    WriteError
        If the checkpoint was moved, or ``_metadata`` can't be written.
    MissingFileError
        If a file is not found.
    """
    if is_moved(snapshot):
        raise WriteError(f"{snapshot.directory} was moved: Flink looks for its files where they were recorded.\nMove it back")
    directory = Location.parse(snapshot.directory)

    def referred(stream: StreamInFile) -> h.StreamStateHandle:
        if not isinstance(stream, h.RelativeFileStateHandle) or stream.path not in snapshot.relocation.reused:
            return stream
        opened = snapshot.open(stream)
        is_own = Location.parse(opened.path or "").parent == directory
        return stream if is_own else shared_file(opened) or stream

    metadata = replace(snapshot.metadata, operators=with_streams(snapshot.metadata.operators, referred))
    staging = Staging(snapshot.directory, uuid4().hex[:16], snapshot.storage, replaces=True)
    staging.prepare()
    try:
        staging.commit(write_metadata(metadata), {})
    except BaseException as failure:
        staging.give_up(failure)
        raise


def _place(path: str) -> tuple[str, ...]:
    return storage_and_parts(Location.parse(path))
