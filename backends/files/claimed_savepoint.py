"""Files of a savepoint that the job of a checkpoint has claimed, if the checkpoint records only their names.

Such a name does not contain the location of the savepoint. The savepoint is searched in places that recorded paths may refer to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from state_processor.backends.files.location import Location
from state_processor.backends.files.recorded_paths import Boundaries, is_below_checkpoint_directory
from state_processor.backends.files.storage import Entry, Storage
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import MissingFileError, StateProcessorError

BUG: Final = "FLINK-39964"
_METADATA: Final = "_metadata"
_SAVEPOINT: Final = re.compile(r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}")
_WITHOUT_SNAPSHOTS: Final = frozenset({"shared", "taskowned", "dstl"})
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
        self._found: _Candidate | None = None
        self._listings: dict[str, dict[str, Entry]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_listings": {}}

    def locate(self, name: str, size: int, context: str) -> str:
        """Return the path of a file of the savepoint.

        ``name``: the recorded name. ``size``: the recorded length of the file in bytes. ``context``: owner of the file (operator,
        state), for messages.
        """
        candidate = self._found
        if candidate is None or not self._has(candidate[0], name, size):
            candidate = self._found = self._search(name, size, context)
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
            yield [candidate for place in self._named for candidate in self._snapshots(place, level, any_name=True)]
        for place in self._parents:
            any_name = self._boundaries.permitted(place) is not None
            for level in _LEVELS:
                yield list(self._snapshots(place, level, any_name=any_name))

    def _snapshots(self, place: Location, level: int, *, any_name: bool) -> Iterator[_Candidate]:
        """Yield the snapshots at a level below a place."""
        directories = [place]
        for _ in range(level):
            directories = [
                directory.joined(entry.name)
                for directory in directories[:_LISTED]
                if directory == place or not self._is_snapshot(directory)
                for entry in sorted(self._listed(directory).values(), key=_savepoints_first)
                if entry.is_directory
                and entry.name not in _WITHOUT_SNAPSHOTS
                and (any_name or directory != place or is_below_checkpoint_directory((entry.name, _METADATA)))
            ]
        for directory in directories[:_LISTED]:
            if directory != self._checkpoint and self._is_snapshot(directory):
                yield directory, place

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
                self._listings[key] = {entry.name: entry for entry in self._storage.list(key)}
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
