"""The files below directories, and the snapshots that use them.

A snapshot uses its ``_metadata`` and every file that a state handle refers to. If the snapshot was copied, a handle with an
absolute path uses two files: Flink opens the file at the recorded path, and this package prefers the copy near ``_metadata``.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

import pyarrow.fs as pafs

from state_processor.errors import NotASnapshotError, StateProcessorError, WriteError
from state_processor.snapshots import (
    METADATA_FILE,
    Location,
    RelativeFileStateHandle,
    Snapshot,
    Storage,
    StreamInFile,
    is_checkpoint_name,
    open_snapshot,
    recorded_location,
    refuse_undecodable,
    streams_in_files,
)
from state_processor.support import cached_property, redacted_repr

# Names and places of the files that Flink writes for checkpoints and savepoints. No other files are removed.
#
# Each file has a random UUID as its name. These classes of Flink 1.13 to 2.3 make them:
#
# - ``FsCheckpointStreamFactory``: ``chk-N``, ``savepoint-…``, ``shared``; also ``taskowned``, for files that state may name
# - ``FileMergingSnapshotManager`` (1.20): ``shared/job_JOB_op_OPERATOR_SUBTASK_SUBTASKS``, ``taskowned/job_JOB_tm_TASKMANAGER``
# - ``StateChangeFsUploader`` (changelog): ``dstl``
# - ForSt's ``FileMappingManager`` (2.0): ``shared/op_OPERATOR_attempt_N/db``
# - ``LocalRecoverableWriter`` and ``HadoopRecoverableWriter``: ``._metadata.inprogress.UUID`` beside a ``_metadata`` that is
#   being written, which stays if the process ends meanwhile

_UUID: Final = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_SAVEPOINT: Final = re.compile(r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}")
_STATE_FILE: Final = re.compile(_UUID)
_UNFINISHED_METADATA: Final = re.compile(rf"\._metadata\.inprogress\.{_UUID}")
_OF_SNAPSHOT: Final = rf"chk-\d+|{_SAVEPOINT.pattern}"
_MERGED: Final = r"shared/job_[^/]+_op_[^/]+_\d+_\d+|taskowned/job_[^/]+_tm_[^/]+"
_OF_JOB: Final = rf"(?:{_MERGED}|shared/op_[^/]+_attempt_\d+/db|shared|dstl)"
_MERGED_FILE: Final = re.compile(rf"(?:.*/)?(?:{_MERGED})/{_UUID}")
_FILE: Final = re.compile(rf"(?:.*/)?(?:(?:{_OF_SNAPSHOT}|{_OF_JOB})/{_UUID}|(?:{_OF_SNAPSHOT})/{_UNFINISHED_METADATA.pattern})")
_PLACE_IN_JOB: Final = re.compile(rf"(?P<job>.*)/(?:chk-\d+|{_OF_JOB}|taskowned)/[^/]+")


def is_savepoint_name(name: str) -> bool:
    """Check if a directory has the name that Flink gives to a savepoint."""
    return bool(_SAVEPOINT.fullmatch(name))


def is_name_of_flink(name: str) -> bool:
    """Check if a file has a name that Flink gives to files in the directory of a snapshot, which users may have renamed."""
    return bool(_STATE_FILE.fullmatch(name) or _UNFINISHED_METADATA.fullmatch(name))


def is_made_by_flink(location: Location) -> bool:
    """Check if a file has the name and the place of a file of a checkpoint or savepoint.

    Files directly in ``taskowned`` belong to operators, and state may name them.
    """
    return bool(_FILE.fullmatch(location.path))


def is_merged(location: Location) -> bool:
    """Check if a file has the name and the place of a merged file."""
    return bool(_MERGED_FILE.fullmatch(location.path))


def directory_of_job(location: Location) -> str | None:
    """Return the directory of the job that has written a file; ``None`` for other places."""
    place = _PLACE_IN_JOB.fullmatch(location.path)
    return None if place is None else str(location._replace(path=place["job"]))


# Files and their users

_ATTEMPTS: Final = 8
"""Readings until a directory is called too restless."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as its storage lists it."""

    path: str  # the path or URL, without symbolic links
    size: int  # bytes
    modified: datetime | None  # time of the last change; ``None`` where the storage does not have it

    __repr__ = redacted_repr

    @property
    def location(self) -> Location:
        """The path, taken apart."""
        return Location.parse(self.path)

    def is_as_listed(self, size: int, modified: datetime | None) -> bool:
        """Check if a file is still the listed one. Object stores list times with milliseconds, and answer in whole seconds."""
        if size != self.size or modified is None or self.modified is None:
            return False
        return abs(modified - self.modified) < timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot and the files that it uses."""

    directory: str  # the directory of its ``_metadata``
    checkpoint_id: int  # its number
    kind: str | None  # ``savepoint``, ``checkpoint``, or ``None`` where ``_metadata`` does not record it
    written: datetime | None  # when its ``_metadata`` was written
    files: frozenset[str]  # the paths of the files that it uses, ``_metadata`` included
    # listed files with the names of used files that are not listed: one place may have two paths, by mounts or host names. They
    # are in use, and are not removed with the snapshot.
    namesakes: frozenset[str] = frozenset()

    @property
    def metadata_file(self) -> str:
        """The path of ``_metadata``."""
        return str(Location.parse(self.directory).joined(METADATA_FILE))


class OrderedPaths:
    """Paths in order: those below a directory are one range, and are found without a scan.

    ``paths``: the paths, as :func:`real_path` returns them.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(paths)

    def below(self, directory: str) -> list[str]:
        """Return the paths below a directory; see :func:`is_below`."""
        return self._paths[self._range(directory)]

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[str]]:
        """The paths by the last part of the path."""
        paths: dict[str, list[str]] = defaultdict(list)
        for path in self._paths:
            paths[path.rpartition("/")[2]].append(path)
        return paths

    def replace_below(self, directory: str, paths: Iterable[str]) -> None:
        """Replace the paths below a directory; paths outside of it are added."""
        self.__dict__.pop("by_name", None)
        places = sorted({*paths})
        self._paths[self._range(directory)] = [path for path in places if is_below(path, directory)]
        for path in places:
            position = bisect_left(self._paths, path)
            if self._paths[position : position + 1] != [path]:
                insort(self._paths, path)

    def _range(self, directory: str) -> slice:
        start = directory.rstrip("/")
        first, after = start + "/", start + chr(ord("/") + 1)
        return slice(bisect_left(self._paths, first), bisect_left(self._paths, after))


@dataclass(frozen=True)
class FileUses:
    """The files below some directories, and the snapshots that use them."""

    files: dict[str, ListedFile]  # all files, by path
    snapshots: dict[str, StoredSnapshot]  # the snapshots, by directory
    # directories of snapshots whose files are unknown, with the reason. While there are any, no file is known to be unused.
    unreadable: dict[str, str]
    users: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        users: dict[str, list[str]] = defaultdict(list)
        for directory, snapshot in sorted(self.snapshots.items()):
            for path in snapshot.files | snapshot.namesakes:
                users[path].append(directory)
        object.__setattr__(self, "users", dict(users))

    def users_of(self, path: str) -> Sequence[str]:
        """Return the directories of the snapshots that use a file."""
        return self.users.get(path, ())

    def snapshots_in(self, directory: str) -> set[str]:
        """Return the snapshots in a directory or below it, and those that use files there."""
        inside = {directory, *self._ordered_snapshots.below(directory)} & self.snapshots.keys()
        return inside.union(*(self.users[path] for path in self._ordered_users.below(directory)))

    def files_in(self, directories: Iterable[str]) -> list[ListedFile]:
        """Return the files below some directories, each file once."""
        paths = set[str]().union(*map(self._ordered_files.below, directories))
        return [self.files[path] for path in sorted(paths)]

    @cached_property
    def _ordered_files(self) -> OrderedPaths:
        return OrderedPaths(self.files)

    @cached_property
    def _ordered_snapshots(self) -> OrderedPaths:
        return OrderedPaths(self.snapshots)

    @cached_property
    def _ordered_users(self) -> OrderedPaths:
        return OrderedPaths(self.users)

    def with_removed(self, files: Iterable[ListedFile], snapshots: Iterable[StoredSnapshot]) -> FileUses:
        """Return these uses together with files and snapshots that were there before, unless others have taken their places."""
        earlier = {file.path: file for file in files}
        removed = {snapshot.directory: snapshot for snapshot in snapshots}
        return FileUses(earlier | self.files, removed | self.snapshots, self.unreadable)


def find_file_uses(
    directories: Sequence[str],
    storage: Storage,
    allow_paths: Iterable[str] = (),
    path_mapping: Mapping[str, str] | None = None,
    previous: FileUses | None = None,
) -> FileUses:
    """List the files below some directories and read the ``_metadata`` of every snapshot there.

    Running jobs replace their checkpoints meanwhile. A ``_metadata`` that vanishes after it was listed had a successor that was
    not listed, so that its job is listed again.

    ``directories``: directories of checkpoints, savepoints or jobs. ``storage``: access to files. ``allow_paths``: directories
    outside of a snapshot's storage that recorded paths may refer to. ``path_mapping``: recorded prefix to current prefix, for
    moved files that are not found automatically. ``previous``: an earlier result: each ``_metadata`` that is listed with the same
    size and time is not read again.
    """

    def read(file: ListedFile, reading: _Reading) -> StoredSnapshot:
        if previous is not None and file.modified is not None and previous.files.get(file.path) == file:
            unchanged = previous.snapshots.get(str(file.location.parent))
            if unchanged is not None:
                return unchanged
        snapshot = open_snapshot(file.path, storage=storage, allow_paths=allow_paths, path_mapping=path_mapping)
        return _stored(file, snapshot, reading)

    for _ in range(_ATTEMPTS):
        listed: dict[str, ListedFile] = {}
        for directory in directories:
            listed |= {file.path: file for file in files_below(directory, storage)}
        reading = _Reading(listed, storage)
        if reading.read_all(read):
            return FileUses(reading.files, reading.snapshots, reading.unreadable)
    raise WriteError(
        f"the users of files below {', '.join(directories)} are unknown: in {_ATTEMPTS} readings, snapshots vanished before they "
        "were read. Try again when fewer jobs begin and end"
    )


@dataclass(frozen=True)
class _Reading:
    """One reading of listed files: the snapshots among them."""

    files: dict[str, ListedFile]
    storage: Storage
    snapshots: dict[str, StoredSnapshot] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)

    @cached_property
    def paths(self) -> OrderedPaths:
        """The paths of the files."""
        return OrderedPaths(self.files)

    def read_all(self, read: Callable[[ListedFile, _Reading], StoredSnapshot]) -> bool:
        """Read every ``_metadata``; return False if all directories have to be listed again."""
        jobs = {file.location.parent.parent for file in self.files.values() if is_checkpoint_name(file.location.parent.name)}
        return self._read(_metadata_files(self.files.values()), read) and all(self._settled(job, read) for job in jobs)

    def _settled(self, job: Location, read: Callable[[ListedFile, _Reading], StoredSnapshot]) -> bool:
        """Read a job again until it has the checkpoints that were read.

        A listing is not of one moment. It may have neither a checkpoint, which was removed before its directory was listed, nor
        its successor, which was complete after that.
        """
        for _ in range(_ATTEMPTS):
            if not self.storage.is_directory(str(job)):
                return False
            entries = [Location.parse(entry.path) for entry in self.storage.list(str(job)) if is_checkpoint_name(entry.name)]
            complete = {real_path(str(entry)) for entry in entries if self.storage.is_file(str(entry.joined(METADATA_FILE)))}
            inside = (path for path in map(Location.parse, self._read_below(str(job))) if path.parent == job)
            if all(map(self._is_read, complete)) and {str(path) for path in inside if is_checkpoint_name(path.name)} <= complete:
                return True
            if not self._read(self._list_again(str(job)), read):
                return False
        return False

    def _is_read(self, directory: str) -> bool:
        return directory in self.snapshots or directory in self.unreadable

    def _read_below(self, job: str) -> list[str]:
        """Return the directories, of a job and below it, whose ``_metadata`` was read. Each ``_metadata`` is a listed file."""
        listed = (self.files[path] for path in self.paths.below(job))
        directories = [str(file.location.parent) for file in _metadata_files(listed)]
        return list(filter(self._is_read, directories))

    def _read(self, waiting: list[ListedFile], read: Callable[[ListedFile, _Reading], StoredSnapshot]) -> bool:
        """Read some ``_metadata`` files; return False if all directories have to be listed again."""
        attempts: Counter[str] = Counter()
        while waiting:
            file = waiting.pop()
            directory = str(file.location.parent)
            try:
                self.snapshots[directory] = read(file, self)
                continue
            except StateProcessorError as problem:
                reason = str(problem)
            attempts[directory] += 1
            if not self.storage.is_file(file.path):
                job = str(file.location.parent.parent)
                attempts[job] += 1
                successors = self._list_again(job)
                if not successors or attempts[job] > _ATTEMPTS:
                    return False  # another job may have its files
                waiting = [*(listed for listed in waiting if not is_below(listed.path, job)), *successors]
            elif attempts[directory] < _ATTEMPTS:
                waiting.insert(0, file)  # it may be written now
            else:
                self.unreadable[directory] = reason
        return True

    def _list_again(self, job: str) -> list[ListedFile]:
        """List the directory of a job again, forget its content, and return its ``_metadata`` files."""
        try:
            files = files_below(job, self.storage)
        except NotASnapshotError:
            return []
        for directory in self._read_below(job):
            self.snapshots.pop(directory, None)
            self.unreadable.pop(directory, None)
        for path in self.paths.below(job):
            del self.files[path]
        self.files.update({file.path: file for file in files})
        self.paths.replace_below(job, (file.path for file in files))
        return _metadata_files(files)


def _metadata_files(files: Iterable[ListedFile]) -> list[ListedFile]:
    return [file for file in files if file.location.name == METADATA_FILE]


def _stored(file: ListedFile, snapshot: Snapshot, reading: _Reading) -> StoredSnapshot:
    metadata = snapshot.metadata
    places = [frozenset(_paths(snapshot, stream, reading.files.keys())) for stream in _streams(snapshot)]
    unlisted = filter(reading.files.keys().isdisjoint, places)  # `isdisjoint` of the places would go through all listed files
    elsewhere = {Location.parse(path).name for path in chain.from_iterable(unlisted)}
    namesakes = frozenset[str]().union(*(reading.paths.by_name.get(name, ()) for name in elsewhere))
    kind = metadata.properties.kind if metadata.properties is not None else None
    files = frozenset({file.path}).union(*places)
    return StoredSnapshot(str(file.location.parent), metadata.checkpoint_id, kind, file.modified, files, namesakes)


def _streams(snapshot: Snapshot) -> Iterable[StreamInFile]:
    """Return each stream once, in the order of ``_metadata``: errors name the first."""
    streams: dict[StreamInFile, None] = {}
    for operator in snapshot.metadata.operators:
        for part in (operator.coordinator_state, *operator.subtasks):
            streams |= dict.fromkeys(streams_in_files(part))
    return streams


def _paths(snapshot: Snapshot, stream: StreamInFile, listed: Collection[str]) -> Iterator[str]:
    """Yield the paths that a stream may be at: Flink opens the recorded path, this package prefers a copy near ``_metadata``.

    A recorded path that was listed needs no copy, also where the snapshot may not refer to it.
    """
    if isinstance(stream, RelativeFileStateHandle):
        yield real_path(snapshot.relocation.relative(stream.path, stream.size))
        return
    recorded = real_path(str(recorded_location(stream.path)))
    yield recorded
    try:
        yield real_path(snapshot.relocation.locate(stream.path, stream.size))
    except StateProcessorError:
        if recorded not in listed:
            raise


def real_path(path: str) -> str:
    """Return one spelling for each file, so that paths can be compared: local paths without symbolic links."""
    location = Location.parse(path)
    return os.path.realpath(location.path) if location.is_local else str(location)


def files_below(directory: str, storage: Storage) -> list[ListedFile]:
    """Return all files below a directory, and files behind symbolic links there, by their places.

    A file behind a link may be outside of the directory. Snapshots there count as users of files, and are not removed.
    """
    if not storage.is_directory(directory):
        raise NotASnapshotError(f"{directory} is not a directory; give one that has snapshots somewhere below it")
    root = Location.parse(real_path(directory))

    def infos_in(filesystem: pafs.FileSystem, inner: str) -> tuple[str, list[pafs.FileInfo]]:
        return inner, list(filesystem.get_file_info(pafs.FileSelector(inner or "/", recursive=True)))

    refuse_undecodable(str(root))
    inner, infos = storage.call(str(root), infos_in, "listed")
    try:
        places = [info.path.lstrip("/").removeprefix(inner.strip("/")) for info in infos]  # fsspec may begin paths with "/"
    except UnicodeDecodeError:
        for folder, directories, files in os.walk(root.path):
            for name in (*directories, *files):
                refuse_undecodable(os.path.join(folder, name))
        raise
    listed = []
    for place, info in zip(places, infos, strict=True):
        if info.type is pafs.FileType.File:
            modified = None if info.mtime_ns is None else datetime.fromtimestamp(info.mtime_ns / 1e9, UTC)
            listed.append(ListedFile(real_path(str(root.joined(place))), int(info.size or 0), modified))
    return sorted(listed, key=lambda file: file.path)


def is_below(path: str, directory: str) -> bool:
    """Check if a path is below a directory; both as :func:`real_path` returns them."""
    return path.startswith(directory.rstrip("/") + "/")
