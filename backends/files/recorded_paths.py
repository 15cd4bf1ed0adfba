"""Paths that a snapshot records: the limits of their use, and where the files are now.

A snapshot may come from anywhere. A path in it never selects a host, credentials or settings of a file system. It leads out of
the snapshot's storage only if the user permits this with ``path_mapping`` or ``allow_paths``.

Savepoints record paths of files relative to their own directory. Checkpoints record absolute paths of shared, merged and
changelog files, and of files of an earlier job that was restored in claim mode. If a checkpoint was copied, these files have to
be searched. A checkpoint records the files of a native savepoint that its job claimed by name alone, so these are searched too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from state_processor.backends.files.location import Location, incomplete
from state_processor.backends.files.storage import Entry, Storage
from state_processor.support.doors import spelled
from state_processor.support.errors import CorruptSnapshotError, ForbiddenPathError, MissingFileError, StateProcessorError
from state_processor.support.locks import cached_property
from state_processor.support.mappings import index_by_name
from state_processor.support.redaction import CONTAINER_SCHEMES

_CHECKPOINT: Final = re.compile(r"chk-\d+")
_JOB: Final = re.compile(r"[0-9a-f]{32}")
_FLINK_DIRECTORY: Final = re.compile(r"[0-9a-f]{32}|chk-\d+|savepoint-[0-9a-f]{6}-[0-9a-f]{12}|shared|taskowned|dstl")


def recorded_location(text: str, context: str = "") -> Location:
    """Return the location of a recorded absolute path, without the user name.

    ``text``: the path or URL in ``_metadata``. ``context``: owner of the file (operator, state), for messages.
    """
    _check_characters(text, context)
    location = Location.parse(text)
    if not location.is_local and (location.query or "?" in text or "#" in text):
        raise ForbiddenPathError(
            f"{_of(context)}the recorded path {text!r} has a query or fragment. It is never used: it could direct requests "
            "and credentials to another host. If you trust the snapshot, copy the file next to _metadata"
        )
    _check_parts(location.path.split("/"), text, context)
    return location._replace(authority=_without_user(location))


def joined(directory: Location, parts: Sequence[str], text: str, context: str = "") -> Location:
    """Return the location of a recorded path, or the last parts of one, below a directory.

    ``directory``: a directory from the user, or a directory near it. ``text``: the recorded path, for messages. ``context``:
    owner of the file, for messages.
    """
    relative = "/".join(parts)
    _check_characters(relative, context)
    _check_parts(relative.split("/"), text, context)
    if not directory.is_local and ("?" in relative or "#" in relative):
        raise ForbiddenPathError(f"{_of(context)}the recorded path {text!r} has a query or fragment. It is never used")
    return directory.joined(relative)


def storage_and_parts(location: Location) -> tuple[str, ...]:
    """Return scheme and authority, then the parts of the path. The result is equal for ``/a``, ``file:/a`` and ``file:///a/``."""
    return (f"{location.scheme}://{_without_user(location)}", *location.segments)


class Boundaries:
    """The places that recorded paths may refer to: the snapshot's own storage, and the places that the user allows.

    The own storage of a remote snapshot is its bucket or file system. The own storage of a local snapshot is its directory and
    the directories that Flink keeps next to it: ``shared``, ``taskowned`` and other checkpoints of the job, and the directories
    of other jobs in the checkpoint directory.

    ``base_dir``: the directory of ``_metadata``. ``allow_paths``: further directories or URLs; files at any level below them are
    permitted.
    """

    def __init__(self, base_dir: str, allow_paths: Iterable[str] = ()) -> None:
        base = Location.parse(base_dir)
        self.allowed = list(map(Location.given, allow_paths))
        self._whole = [base if base.is_local else base._replace(path="/"), *self.allowed]
        self._job_directories = _directories_of_job(base) if base.is_local else []
        self._real: dict[str, str] = {}

    def permitted(self, recorded: Location) -> tuple[Location, Location] | None:
        """Return the location of a recorded path, and the place that permits reading it; ``None`` if reading is not permitted.

        The location has the credentials and settings of the place; both come from the user.
        """
        recorded_parts = storage_and_parts(recorded)
        for root in (*self._whole, *self._job_directories):
            prefix = storage_and_parts(root)
            within = recorded_parts[: len(prefix)] == prefix
            if within and (root in self._whole or is_below_checkpoint_directory(recorded_parts[len(prefix) :])):
                return root._replace(path=recorded.path), root
        return None

    def check_real(self, candidate: Location, root: Location, text: str, context: str = "") -> None:
        """Check that a local file is below ``root`` or a permitted place after symbolic links are resolved."""
        if not candidate.is_local:
            return
        directory, name = os.path.split(candidate.path)
        real = os.path.normpath(os.path.join(self._real_directory(directory), name))
        if os.path.islink(real):  # the directory is resolved, and few files are links
            real = os.path.realpath(real)
        for place in (root, *self._whole, *self._job_directories):
            if place.is_local and _is_below(real, self._real_directory(place.path)):
                return
        raise ForbiddenPathError(
            f"{_of(context)}{candidate} (recorded as {text!r}) is a link to {real}, outside of the snapshot's "
            f"storage. If that is intended, pass {spelled('allow_paths', [os.path.dirname(real)])}"
        )

    def _real_directory(self, path: str) -> str:
        real = self._real.get(path)
        if real is None:
            real = self._real[path] = os.path.realpath(path)
        return real


def is_below_checkpoint_directory(parts: Sequence[str]) -> bool:
    """Return whether the last parts of a recorded path begin with a directory that Flink creates.

    Such a path is searched next to a moved snapshot. Other paths, such as ``/etc/passwd``, are not.
    """
    if len(parts) < 2:
        return False
    return bool(_FLINK_DIRECTORY.fullmatch(parts[0]) or (len(parts) > 2 and _JOB.fullmatch(parts[1])))


def movable_directory(location: Location) -> Location:
    """Return the directory that moves as a whole with a recorded file: the parent of the job's directory, or else the file's.

    It is ``/data/checkpoints`` for ``/data/checkpoints/JOB/shared/FILE``, and ``/logs`` for ``/logs/JOB/dstl/FILE``.
    """
    parts = location.segments
    job = next((i for i, part in enumerate(parts[:-1]) if _JOB.fullmatch(part)), 0)
    return location._replace(path="/" + "/".join(parts[:job])) if job else location.parent


def _directories_of_job(base: Location) -> list[Location]:
    """Return the directory of a local checkpoint's job and its parent with all jobs, as far as the names show them."""
    directories = []
    if _CHECKPOINT.fullmatch(base.name):
        directories.append(base.parent)
        if _JOB.fullmatch(base.parent.name):
            directories.append(base.parent.parent)
    return directories


def _without_user(location: Location) -> str:
    if location.scheme in CONTAINER_SCHEMES:
        return location.authority
    return location.authority.rpartition("@")[2]


def _check_characters(text: str, context: str) -> None:
    if "\0" in text:
        raise CorruptSnapshotError(f"{_of(context)}the recorded path {text!r} has a zero character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorruptSnapshotError(f"{_of(context)}the recorded path {text!r} is not valid Unicode") from error


def _check_parts(parts: Iterable[str], text: str, context: str) -> None:
    if ".." in parts:
        raise ForbiddenPathError(f"{_of(context)}the recorded path {text!r} has a part '..'. Flink does not write such paths")


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _of(context: str) -> str:
    return f"{context}: " if context else ""


BUG: Final = "FLINK-39964"
_METADATA: Final = "_metadata"
_SAVEPOINT: Final = re.compile(r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}")
WITHOUT_SNAPSHOTS: Final = frozenset({"shared", "taskowned", "dstl"})
_LEVELS: Final = (1, 2)
"""Levels below a place where snapshots are searched."""
_LISTED: Final = 64
"""Maximum number of directories that are listed at each level below a place."""

_Candidate = tuple[Location, Location]
"""A directory, and the place that has to contain it after links are resolved."""


class ClaimedSavepoint:
    """Finds files of the savepoint by name and size.

    The first of these places that has a file counts. Two places of equal rank are ambiguous, and an error:

    1. the directories in ``path_mapping`` and ``allow_paths``;
    2. snapshots one level below these directories, then two levels below;
    3. snapshots one level below the parent of the checkpoint's directory, then two levels below; then snapshots below the next
       parent, and so on.

    If ``Boundaries`` does not permit all of a parent, only directories with names that Flink creates are searched.

    ``storage``: access to the files. ``boundaries``: the places that recorded paths may refer to. ``parents``: number of parents
    to search.
    """

    def __init__(
        self, storage: Storage, checkpoint: Location, boundaries: Boundaries, named: Iterable[Location], parents: int
    ) -> None:
        self._storage = storage
        self._checkpoint = checkpoint
        self._boundaries = boundaries
        self._named = list(dict.fromkeys(named))
        self._parents = list(_parents(checkpoint, parents))
        self._last_candidate: _Candidate | None = None
        self._listings: dict[str, dict[str, Entry]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_listings": {}}

    def locate(self, name: str, size: int, context: str) -> str:
        """Return the path of a file of the savepoint.

        ``name``: the recorded name. ``size``: the recorded length of the file in bytes. ``context``: owner of the file (operator,
        state), for messages.
        """
        candidate = self._last_candidate
        if candidate is None or not self._has(candidate[0], name, size):
            candidate = self._last_candidate = self._search(name, size, context)
        directory, place = candidate
        file = directory.joined(name)
        self._boundaries.check_real(file, place, name, context)
        return str(file)

    def _search(self, name: str, size: int, context: str) -> _Candidate:
        of = f"{context}: " if context else ""
        for rank in self._ranks() if "/" not in name else ():
            holding = [candidate for candidate in rank if self._has(candidate[0], name, size)]
            if len(holding) > 1:
                first, second = (str(directory) for directory, _ in holding[:2])
                raise MissingFileError(
                    f"{of}{name} ({size} bytes) is a file of the savepoint that the job claimed (Flink's bug {BUG}).\n"
                    f"Two directories have this file: {first} and {second}.\n"
                    f"Pass the directory of the savepoint: {spelled('allow_paths', [first])}, or the other one"
                )
            if holding:
                return holding[0]
        raise MissingFileError(
            f"{of}{self._checkpoint.joined(name)} does not exist.\n"
            f"It is a file of the savepoint that the job claimed (Flink's bug {BUG}). No such savepoint is near the checkpoint.\n"
            f"Pass {spelled('allow_paths', ['DIR'])}: DIR is the directory of that savepoint"
        )

    def _ranks(self) -> Iterator[Sequence[_Candidate]]:
        yield [(place, place) for place in self._named]
        for level in _LEVELS:
            yield list(chain.from_iterable(self._snapshots(place, level, any_name=True) for place in self._named))
        for place in self._parents:
            any_name = self._boundaries.permitted(place) is not None
            for level in _LEVELS:
                yield list(self._snapshots(place, level, any_name=any_name))

    def _snapshots(self, place: Location, level: int, *, any_name: bool) -> Iterator[_Candidate]:
        """Yield the snapshots at a level below a place."""
        directories = [place]
        for _ in range(level):
            below: list[Location] = []
            for directory in directories[:_LISTED]:
                if directory == place:
                    below += self._directories_in(directory, any_name=any_name)
                elif not self._is_snapshot(directory):
                    below += self._directories_in(directory, any_name=True)
            directories = below
        for directory in directories[:_LISTED]:
            if directory != self._checkpoint and self._is_snapshot(directory):
                yield directory, place

    def _directories_in(self, directory: Location, *, any_name: bool) -> Iterator[Location]:
        """Yield the directories in a directory that may be snapshots or have some below them.

        ``any_name``: whether names that Flink does not create are searched, too.
        """
        for entry in sorted(self._listed(directory).values(), key=_savepoints_first):
            may_be = any_name or is_below_checkpoint_directory((entry.name, _METADATA))
            if may_be and entry.is_directory and entry.name not in WITHOUT_SNAPSHOTS:
                yield directory.joined(entry.name)

    def _is_snapshot(self, directory: Location) -> bool:
        """Return whether a directory has ``_metadata``, or the name of a savepoint: Flink may have removed its ``_metadata``."""
        return _SAVEPOINT.fullmatch(directory.name) is not None or _METADATA in self._listed(directory)

    def _has(self, directory: Location, name: str, size: int) -> bool:
        entry = self._listed(directory).get(name)
        return entry is not None and not entry.is_directory and entry.size == size

    def _listed(self, directory: Location) -> dict[str, Entry]:
        """Return the entries of a directory; an empty mapping if it can't be listed."""
        key = str(directory)
        if key not in self._listings:
            try:
                self._listings[key] = index_by_name(self._storage.list(key))
            except StateProcessorError:
                self._listings[key] = {}
        return self._listings[key]


def _parents(directory: Location, most: int) -> Iterator[Location]:
    """Yield the parent directories, nearest first. The root of a local file system is left out: anything may be mounted there."""
    for _ in range(most):
        parent = directory.parent
        if parent == directory or (parent.is_local and parent.parent == parent):
            return
        yield parent
        directory = parent


def _savepoints_first(entry: Entry) -> tuple[bool, str]:
    return not entry.name.startswith("savepoint"), entry.name


_ANCESTORS: Final = 6
"""Number of parent directories that are searched: job, checkpoints, and a few more for a changelog next to them."""


class Relocation:
    """Finds the files of a snapshot.

    A recorded absolute path is searched in this order:

    1. ``path_mapping``, longest prefix first; a match is final;
    2. moves that were found for earlier files, longest prefix first;
    3. near ``_metadata``: in its directory and its parents, nearest first, the longest suffix of the recorded path that exists
       there. In a parent, the suffix has to contain a directory; above the job's checkpoint directory, a directory that Flink
       creates. So a copy next to the snapshot takes precedence over the original, and the directory of an earlier job is found
       next to the job's;
    4. the recorded path itself, within the snapshot's own storage and ``allow_paths``.

    ``storage``: access to the files. ``base_dir``: the current directory of ``_metadata``. ``path_mapping``: recorded prefix to
    current prefix, both paths or URLs. ``allow_paths``: directories outside of the snapshot's storage that recorded paths may
    refer to. ``reused``: names that are recorded relative to ``_metadata``, and may belong to a savepoint that the job claimed.
    """

    def __init__(
        self,
        storage: Storage,
        base_dir: str,
        path_mapping: Mapping[str, str] | None = None,
        allow_paths: Iterable[str] = (),
        reused: Collection[str] = (),
    ) -> None:
        self.storage = storage
        self.base_dir = base_dir
        self.path_mapping = dict(path_mapping or {})
        self.reused = reused
        allowed = list(allow_paths)
        # A part of the key of files that stay open: relocations of a directory with equal values find the same files.
        self.settings = (tuple(sorted(self.path_mapping.items())), tuple(map(str, allowed)))
        self._boundaries = Boundaries(base_dir, allowed)
        mapping = {}
        for old, new in self.path_mapping.items():
            mapping[storage_and_parts(Location.parse(old))] = Location.given(new)
        self._mapping = _longest_first(mapping)
        self._deduced: dict[tuple[str, ...], Location] = {}
        self._unmoved: set[tuple[str, ...]] = set()

    @cached_property
    def _claimed(self) -> ClaimedSavepoint:
        named = [*self._boundaries.allowed, *self._mapping.values()]
        return ClaimedSavepoint(self.storage, Location.parse(self.base_dir), self._boundaries, named, _ANCESTORS)

    def relative(self, path: str, size: int = 0, context: str = "") -> str:
        """Return the path of a file recorded relative to ``_metadata``: next to it, or in the savepoint that the job claimed.

        ``path``: the name in ``_metadata``. ``size``: the recorded length. A file in a claimed savepoint needs exactly this
        length. ``context``: owner of the file (operator, state), for the error message.
        """
        base = Location.parse(self.base_dir)
        location = joined(base, [path], path, context)
        if path in self.reused and not self.storage.is_file(str(location)):
            return self._claimed.locate(path, size, context)
        self._boundaries.check_real(location, base, path, context)
        return str(location)

    def locate(self, recorded: str, size: int = 0, context: str = "") -> str:
        """Return the current path of a file that is recorded with an absolute path.

        ``recorded``: the path or URL in ``_metadata``. ``size``: the minimum length in bytes; shorter files are regarded as other
        files. ``context``: owner of the file (operator, state), for the error message.
        """
        location = recorded_location(recorded, context)
        recorded_parts = storage_and_parts(location)
        mapped = self._mapped(recorded_parts, recorded, context)
        if mapped is not None:
            return mapped
        permitted = self._boundaries.permitted(location)
        tried: dict[str, int | None] = {}
        for candidate, root, replaced in self._candidates(recorded_parts, permitted, recorded, context):
            path = str(candidate)
            if path in tried:
                continue
            actual = tried[path] = self.storage.size_to_open(path)
            if actual is None or actual < size:
                continue
            self._boundaries.check_real(candidate, root, recorded, context)
            if replaced is None:
                self._unmoved.add(recorded_parts[:-1])
            elif self._deduced.get(replaced) != root:
                self._deduced = _longest_first({**self._deduced, replaced: root})
            return path
        prefix = f"{context}: " if context else ""
        for path, actual in tried.items():
            if actual is not None:
                raise MissingFileError(incomplete(f"{prefix}{path}", actual, size))
        raise self._not_found(f"{prefix}{recorded} ({size} bytes) is missing.\n", location, is_permitted=permitted is not None)

    def _mapped(self, recorded_parts: tuple[str, ...], recorded: str, context: str) -> str | None:
        """Return the path from ``path_mapping``; ``None`` if no prefix matches."""
        for old, new in self._mapping.items():
            if recorded_parts[: len(old)] == old:
                mapped = joined(new, recorded_parts[len(old) :], recorded, context)
                if self.storage.is_file(str(mapped)):
                    self._boundaries.check_real(mapped, new, recorded, context)
                    return str(mapped)
                prefix = f"{context}: " if context else ""
                raise MissingFileError(
                    f"{prefix}{recorded} is mapped to {mapped}. This file does not exist.\nCorrect {spelled('path_mapping')}"
                )
        return None

    def _candidates(
        self, recorded_parts: tuple[str, ...], permitted: tuple[Location, Location] | None, recorded: str, context: str
    ) -> Iterator[tuple[Location, Location, tuple[str, ...] | None]]:
        """Yield possible locations, the place that contains each, and the recorded prefix that the place replaces, if any."""
        for old, base in self._deduced.items():
            if recorded_parts[: len(old)] == old:
                yield joined(base, recorded_parts[len(old) :], recorded, context), base, old
        if permitted is not None and recorded_parts[:-1] in self._unmoved:
            yield *permitted, None
        for old, base in self._nearby(recorded_parts):
            yield joined(base, recorded_parts[len(old) :], recorded, context), base, old
        if permitted is not None:
            yield *permitted, None

    def _not_found(self, missing: str, location: Location, *, is_permitted: bool) -> MissingFileError | ForbiddenPathError:
        directory = str(movable_directory(location))
        mapping = spelled("path_mapping", {directory: "DIR"})
        if is_permitted:
            return MissingFileError(
                f"{missing}It is neither at the recorded path nor near {self.base_dir}.\n"
                f"Pass {mapping}: DIR is the current directory of the files of {directory}"
            )
        return ForbiddenPathError(
            f"{missing}No copy is near {self.base_dir}, and the recorded path is outside of the snapshot's own storage.\n"
            f"If you trust the snapshot, pass {spelled('allow_paths', directory)} or, if its files are elsewhere now, {mapping}"
        )

    def _nearby(self, recorded_parts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Location]]:
        """Yield recorded prefixes, and directories that may replace them."""
        directory = Location.parse(self.base_dir)
        shortest = 1
        for _ in range(_ANCESTORS):
            any_name = shortest == 1 or self._boundaries.permitted(directory) is not None
            for start in range(1, len(recorded_parts) - shortest + 1):
                if any_name or is_below_checkpoint_directory(recorded_parts[start:]):
                    yield recorded_parts[:start], directory
            if directory.parent == directory:
                return
            directory, shortest = directory.parent, 2  # in a parent, a file name alone may belong to another job


def _longest_first(mapping: dict[tuple[str, ...], Location]) -> dict[tuple[str, ...], Location]:
    return dict(sorted(mapping.items(), key=lambda item: -len(item[0])))
