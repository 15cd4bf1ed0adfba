"""Finding and opening a snapshot by the path from the user, and naming its operators by the uids from the user."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Final

from state_processor.backends.files.location import Location
from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.files.storage import ClosedStorage, Storage, StoredFile
from state_processor.backends.metadata.operator_id import operator_id, uids_of_sink
from state_processor.backends.metadata.snapshot_metadata import (
    LAYOUTS,
    METADATA_FILE,
    CheckpointMetadata,
    beginning_digest,
    check_not_replaced,
    content_digest,
    described_directory,
    kept_metadata,
    metadata_content,
    stored_digest,
    stored_metadata,
)
from state_processor.backends.metadata.streams import StateStream, open_stream, reused_files, stream_identity
from state_processor.support.doors import spelled
from state_processor.support.errors import MissingFileError, NotASnapshotError, OptionError, StateProcessorError, foreign_errors
from state_processor.support.mappings import names_of, only_keys
from state_processor.support.redaction import redacted_repr

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from state_processor.backends.metadata.handles import StreamStateHandle
    from state_processor.backends.metadata.queries import QueryPlan


_DEPTH: Final = 3
_SHOWN: Final = 2
_NUMBER: Final = re.compile(r"\d+$")
_LISTED: Final = 200


def locate_metadata(path: str | os.PathLike[str], storage: Storage | None = None) -> str:
    """Find the ``_metadata`` file of a snapshot.

    ``path``: the snapshot's directory or its ``_metadata`` file, as a path or URL. ``storage``: access to files; by default
    without settings.
    """
    storage = storage or Storage()
    check_path(path)
    location = Location.given(path)  # tasks on other machines have another working directory
    if location.name == METADATA_FILE and storage.is_file(str(location)):
        return str(location)
    inside = str(location.joined(METADATA_FILE))
    if storage.is_file(inside):
        return inside
    if storage.is_file(str(location)):
        whole = storage.is_file(str(location.parent.joined(METADATA_FILE)))
        hint = f": pass {location.parent}" if whole else ""
        raise NotASnapshotError(f"{path} is a file; a snapshot is a directory with a file {METADATA_FILE}{hint}")
    if not storage.is_directory(str(location)):
        raise NotASnapshotError(f"{path} does not exist{_near(storage, location)}")
    raise NotASnapshotError(f"{path} does not contain {METADATA_FILE}, so it is not a snapshot. {_instead(storage, location)}")


def check_path(path: object) -> None:
    """Check that an argument is a path of a snapshot."""
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        problem = f"found {path!r}" if isinstance(path, str) or path is None else f"found a {type(path).__name__}"
        raise OptionError(f"path: expected the directory of a savepoint or checkpoint, {problem}")


def _near(storage: Storage, location: Location) -> str:
    """Return the end of a message about a path that does not exist: the most similar name."""
    with suppress(StateProcessorError):
        names = names_of(storage.list(str(location.parent)))
        near = get_close_matches(location.name, names, n=1)
        if near:
            return f"; did you mean {location.parent.joined(near[0])}?"
        if location.is_local and not storage.is_directory(str(location.parent)):
            return f", nor does {location.parent}; pass the directory of a savepoint or checkpoint"
    return f"; pass the directory of a savepoint or checkpoint: it contains {METADATA_FILE}"


def _instead(storage: Storage, location: Location) -> str:
    """Return a description of a directory that is not a snapshot, or the snapshots below it."""
    description = described_directory(names_of(storage.list(str(location))))
    if description:
        return f"It looks like {description}"
    below = _snapshots_below(storage, str(location))
    if below:
        likely = sorted(below, key=_savepoints_then_newest_checkpoints)
        omitted = f" and {len(below) - _SHOWN} more" if len(below) > _SHOWN else ""
        return f"Snapshots below it: {', '.join(likely[:_SHOWN])}{omitted}"
    return "No snapshots are near below it; pass the directory of a savepoint or checkpoint"


def _savepoints_then_newest_checkpoints(path: str) -> tuple[bool, int]:
    name = Location.parse(path).name
    number = _NUMBER.search(name)
    return not name.startswith("savepoint"), -int(number.group()) if number else 0


def _snapshots_below(storage: Storage, root: str) -> list[str]:
    """Return directories with ``_metadata`` below ``root``, breadth first; search a bounded number of directories."""
    directories: list[str] = []
    level, listed = [root], 0
    for _ in range(_DEPTH):
        following: list[str] = []
        for directory in level:
            if listed >= _LISTED:
                return directories
            listed += 1
            for entry in storage.list(directory):
                if not entry.is_directory:
                    continue
                if storage.is_file(str(Location.parse(entry.path).joined(METADATA_FILE))):
                    directories.append(entry.path)
                else:
                    following.append(entry.path)
        level = following
    return directories


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot with access to its files; it can be pickled.

    ``directory`` contains ``_metadata``; ``digest`` identifies the content of ``_metadata``. ``query_plan`` is the compiled
    plan of the Flink SQL query that wrote the snapshot, if the user passed it. ``time_zone`` is the zone of the job's JVM.
    ``beginning`` is a digest of the size and the first bytes of ``_metadata``, which have the number of the checkpoint and names
    of files: tasks, and errors of missing files, compare it. Reading all of a large ``_metadata`` would take too long.
    ``unmatched_uids`` are uids from the user that don't match an operator. ``recorded_ids`` has the ids in ``_metadata`` of
    operators that got other ids from the plan: those of a query that was submitted as text. ``threads`` is the largest number
    of threads of a read, if the user chooses it.
    """

    directory: str
    metadata: CheckpointMetadata
    storage: Storage
    relocation: Relocation
    query_plan: QueryPlan | None = None
    time_zone: str = "UTC"
    digest: str = ""
    beginning: str = ""
    unmatched_uids: tuple[str, ...] = ()
    recorded_ids: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = field(default=None, compare=False)

    __repr__ = redacted_repr

    @property
    def flink_major(self) -> int:
        """Major version of the Flink that wrote the snapshot; it determines the version of Kryo."""
        return 2 if self.metadata.version >= 5 else 1

    @property
    def is_local(self) -> bool:
        """Whether the directory is in a file system of this machine."""
        return Location.parse(self.directory).is_local

    @property
    def is_current(self) -> bool:
        """Whether ``_metadata`` still has the content that was read: False if it was replaced or removed since."""
        return stored_digest(self.directory, self.storage) == self.digest

    def without_files(self) -> Snapshot:
        """Return the snapshot without its files: reads of state outside ``_metadata`` raise :class:`MissingFileError`."""
        storage = ClosedStorage()
        return replace(self, storage=storage, relocation=Relocation(storage, self.directory))

    def check_plan(self) -> None:
        """Check that the directory still has the snapshot that a read was planned for.

        Spark, Polars and DuckDB keep plans for later queries. A snapshot that was removed meanwhile is not refused: its files
        tell whether the read can go on.
        """
        stored = stored_metadata(self.directory, self.storage)
        if stored is not None and beginning_digest(stored) != self.beginning:
            raise MissingFileError(
                f"{self.directory} has another snapshot than when this read was planned. DataFrames, views, lazy frames, "
                "connections and readers keep the plan: make them again, and they have the rows of the new snapshot"
            )

    def open(self, handle: StreamStateHandle, context: str = "") -> StateStream:
        """Open the stream of a handle; see :func:`~state_processor.backends.metadata.streams.open_stream`."""
        try:
            stream = open_stream(handle, self.storage, self.relocation, context)
        except MissingFileError:
            check_not_replaced(self.storage, self.directory, self.beginning)
            raise
        stream.snapshot = (self.directory, self.beginning)
        return stream

    def place(self, stream: StreamStateHandle, context: str = "") -> Hashable:
        """Return where the bytes of a stream are now; inline state is at the place of its content.

        Two snapshots that record the same path have different bytes if each has a copy of the file.
        """
        return self.open(stream, context).path or stream_identity(stream, self.directory)


def open_snapshot(
    path: str | os.PathLike[str],
    path_mapping: Mapping[str, str] | None = None,
    storage: Storage | None = None,
    allow_paths: Iterable[str] = (),
) -> Snapshot:
    """Read ``_metadata`` of a snapshot.

    ``path``: the snapshot's directory or its ``_metadata`` file, as a path or URL. ``path_mapping``: recorded prefix to current
    prefix, for moved files that are not found automatically. ``storage``: access to files; by default without settings.
    ``allow_paths``: directories outside of the snapshot's storage that recorded paths may refer to.
    """
    storage = storage or Storage()
    stored = _open_metadata(path, storage)
    file = stored.path
    directory = str(Location.parse(file).parent)
    with foreign_errors(file):
        data = metadata_content(stored)
        metadata = kept_metadata(data, file)
        digest, beginning = content_digest(data), beginning_digest(data)
    relocation = Relocation(storage, directory, path_mapping, allow_paths, reused_files(metadata))
    return Snapshot(directory, metadata, storage, relocation, digest=digest, beginning=beginning)


def _open_metadata(path: str | os.PathLike[str], storage: Storage) -> StoredFile:
    """Open the ``_metadata`` file of a snapshot: most paths lead to one, so it is opened before anything else is asked for."""
    check_path(path)
    location = Location.given(path)
    inside = location if location.name == METADATA_FILE else location.joined(METADATA_FILE)
    stored = storage.open_if_file(str(inside))
    return storage.open(locate_metadata(path, storage)) if stored is None else stored


_NAMED_UIDS: Final = 5


def with_uids(snapshot: Snapshot, uids: Sequence[str]) -> Snapshot:
    """Give operators the uids with matching hashes. The other uids become ``unmatched_uids`` of the snapshot.

    The uid of a sink also matches the committers of the sink.

    ``snapshot``: the snapshot. Its recorded uids are preserved. ``uids``: the uids that the job may use.
    """
    operators = snapshot.metadata.operators
    uids_of_committers = chain.from_iterable(map(uids_of_sink, uids))
    uids_by_hash = {operator_id(uid): uid for uid in (*uids_of_committers, *uids)}
    uids_by_id = only_keys(uids_by_hash, snapshot.metadata.operators_by_id)
    if operators and not uids_by_id:
        labels = some_of([o.label for o in operators])
        raise OptionError(
            f"{spelled('uids')}: expected uids of operators of {snapshot.directory}, found {some_of(uids)}\n"
            f"The operators are {labels}; pass the uids of the job that wrote the snapshot"
        )
    named = tuple(replace(o, uid=o.uid or uids_by_id.get(o.operator_id)) for o in operators)
    unmatched = tuple(uid for uid in uids if not uids_by_id.keys() & {operator_id(uid), *map(operator_id, uids_of_sink(uid))})
    return replace(snapshot, metadata=replace(snapshot.metadata, operators=named), unmatched_uids=unmatched)


def uids_hint(snapshot: Snapshot) -> str:
    """Return how to name the operators of a snapshot that records only hashes of uids; empty if operators have uids."""
    operators = snapshot.metadata.operators
    if LAYOUTS[snapshot.metadata.version].names or not operators or any(o.uid for o in operators):
        return ""
    return (
        "This snapshot records hashes of uids, as Flink 1.x does. A uid that you name finds its operator. To see uids here, pass "
        f"the uids of the job by {spelled('uids')}."
    )


def some_of(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    omitted = len(names) - _NAMED_UIDS
    return ", ".join(map(repr, names[:_NAMED_UIDS])) + (f" and {omitted:,} more" if omitted > 0 else "")
