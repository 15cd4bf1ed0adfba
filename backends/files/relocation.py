"""Current locations of the files of a snapshot; ``_metadata`` records their locations at the time of the snapshot.

Savepoints record paths of files relative to their own directory. Checkpoints record absolute paths of shared, merged and
changelog files, and of files of an earlier job that was restored in claim mode. If a checkpoint was copied, these files have to
be searched. The files of a native savepoint that was claimed have to be searched too: the checkpoint records them as its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state_processor.backends.files.claimed_savepoint import ClaimedSavepoint
from state_processor.backends.files.location import Location
from state_processor.backends.files.recorded_paths import (
    Boundaries,
    is_below_checkpoint_directory,
    joined,
    movable_directory,
    recorded_location,
    storage_and_parts,
)
from state_processor.backends.files.storage import Storage
from state_processor.backends.files.storage_advice import incomplete
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import ForbiddenPathError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

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
        self.given = (tuple(sorted(self.path_mapping.items())), tuple(map(str, allowed)))
        self._boundaries = Boundaries(base_dir, allowed)
        mapping = {storage_and_parts(Location.parse(old)): Location.given(new) for old, new in self.path_mapping.items()}
        self._mapping = _longest_first(mapping)
        self._deduced: dict[tuple[str, ...], Location] = {}
        self._unmoved: set[tuple[str, ...]] = set()
        named = [*map(Location.given, allowed), *mapping.values()]
        self._claimed = ClaimedSavepoint(storage, Location.parse(base_dir), self._boundaries, named, _ANCESTORS)

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
