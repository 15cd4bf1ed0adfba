"""The files of a snapshot: where they are now, when ``_metadata`` says where they were.

Savepoints name their files relative to themselves. Checkpoints name shared, merged and changelog files by absolute path,
and those of an earlier job too when they were restored in claim mode; a checkpoint that was copied elsewhere has to be
searched for them. So has a checkpoint after a native savepoint was claimed, whose files it names as if they were its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state_processor.backends.files.claimed_savepoint import ClaimedSavepoint
from state_processor.backends.files.location import Location
from state_processor.backends.files.missing_files import incomplete
from state_processor.backends.files.recorded_paths import (
    Boundaries,
    is_below_checkpoint_directory,
    joined,
    movable_directory,
    recorded_location,
    storage_and_parts,
)
from state_processor.backends.files.storage import Storage
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import ForbiddenPathError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_ANCESTORS: Final = 6
"""Number of parent directories in which files are searched: job, checkpoints, and a few more for a changelog beside it."""


class Relocation:
    """Finds the files that a snapshot refers to.

    A recorded absolute path is looked for in this order:

    1. ``path_mapping``, longest prefix first; what it says is final;
    2. the moves deduced before, longest prefix first;
    3. near ``_metadata``: in its directory and those above, nearest first, the longest suffix of the recorded path that
       exists there (with a directory at least, above that of ``_metadata``; one that Flink makes, above the job's checkpoint
       directory). So a copy beside the snapshot wins over the original, and an earlier job's directory is found beside the job's;
    4. the recorded path itself, within the snapshot's own storage and ``allow_paths``.

    Parameters
    ----------
    storage
        Access to the files.
    base_dir
        The directory that holds ``_metadata`` now.
    path_mapping
        Recorded prefix to present prefix, both paths or URLs.
    allow_paths
        Directories outside of the snapshot's storage that recorded paths may refer to.
    reused
        Names that are recorded relative to ``_metadata``, and may be those of files of a savepoint that the job claimed.
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
        self._boundaries = Boundaries(base_dir, allowed)
        mapping = {storage_and_parts(Location.parse(old)): Location.given(new) for old, new in self.path_mapping.items()}
        self._mapping = _longest_first(mapping)
        self._deduced: dict[tuple[str, ...], Location] = {}
        self._unmoved: set[tuple[str, ...]] = set()
        named = [*map(Location.given, allowed), *mapping.values()]
        self._claimed = ClaimedSavepoint(storage, Location.parse(base_dir), self._boundaries, named, _ANCESTORS)

    def relative(self, path: str, size: int = 0, context: str = "") -> str:
        """Return where a file recorded relative to ``_metadata`` is: beside it, or in the savepoint that the job claimed.

        Parameters
        ----------
        path
            The name in ``_metadata``.
        size
            The recorded length; a file in a savepoint that the job claimed has to have it.
        context
            What the file belongs to (operator, state), for the error message.

        Raises
        ------
        ForbiddenPathError
            The path leads out of the snapshot's directory.
        CorruptSnapshotError
            No file has such a name.
        MissingFileError
            A file of a savepoint that the job claimed is not found, or in two places.
        """
        base = Location.parse(self.base_dir)
        found = joined(base, [path], path, context)
        if path in self.reused and not self.storage.is_file(str(found)):
            return self._claimed.locate(path, size, context)
        self._boundaries.check_real(found, base, path, context)
        return str(found)

    def locate(self, recorded: str, size: int = 0, context: str = "") -> str:
        """Return where a file recorded by absolute path is now.

        Parameters
        ----------
        recorded
            The path or URL in ``_metadata``.
        size
            The bytes the file must at least have; shorter ones are taken for other files.
        context
            What the file belongs to (operator, state), for the error message.

        Raises
        ------
        MissingFileError
            It is nowhere.
        ForbiddenPathError
            It may be where ``_metadata`` says, which is not permitted, or is behind a link that leads elsewhere.
        CorruptSnapshotError
            No file has such a name.
        """
        prefix = f"{context}: " if context else ""
        location = recorded_location(recorded, context)
        where = storage_and_parts(location)
        tried: dict[str, int | None] = {}

        def is_here(candidate: Location, root: Location) -> bool:
            path = str(candidate)
            if path in tried:
                return False
            actual = tried[path] = self.storage.size_if_file(path)
            if actual is None or actual < size:
                return False
            self._boundaries.check_real(candidate, root, recorded, context)
            return True

        for old, new in self._mapping.items():
            if where[: len(old)] == old:
                mapped = joined(new, where[len(old) :], recorded, context)
                if self.storage.is_file(str(mapped)):
                    self._boundaries.check_real(mapped, new, recorded, context)
                    return str(mapped)
                raise MissingFileError(
                    f"{prefix}{recorded} is mapped to {mapped}, which does not exist.\nCorrect {spelled('path_mapping')}"
                )
        for old, base in self._deduced.items():
            if where[: len(old)] == old and is_here(candidate := joined(base, where[len(old) :], recorded, context), base):
                return str(candidate)
        permitted = self._boundaries.permitted(location)
        if permitted and where[:-1] in self._unmoved and is_here(*permitted):
            return str(permitted[0])
        for old, base in self._nearby(where):
            if is_here(candidate := joined(base, where[len(old) :], recorded, context), base):
                self._deduced = _longest_first({**self._deduced, old: base})
                return str(candidate)
        if permitted is not None and is_here(*permitted):
            self._unmoved.add(where[:-1])
            return str(permitted[0])
        for path, actual in tried.items():
            if actual is not None:
                raise MissingFileError(incomplete(f"{prefix}{path}", actual, size))
        missing = f"{prefix}{recorded} ({size} bytes) is missing.\n"
        directory = movable_directory(location)
        mapping = spelled("path_mapping", {str(directory): "DIR"})
        if permitted is None:
            allowing = spelled("allow_paths", str(directory))
            raise ForbiddenPathError(
                f"{missing}No copy is near {self.base_dir}, and the recorded path is outside of the snapshot's own storage.\n"
                f"If you trust the snapshot, pass {allowing} or, if its files are elsewhere now, {mapping}"
            )
        raise MissingFileError(
            f"{missing}It is neither where it was recorded nor near {self.base_dir}.\n"
            f"Pass {mapping}: DIR is where the files of {directory} are now"
        )

    def _nearby(self, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Location]]:
        """Yield recorded prefixes, and directories that they may be now."""
        directory = Location.parse(self.base_dir)
        shortest = 1
        for _ in range(_ANCESTORS):
            any_name = shortest == 1 or self._boundaries.permitted(directory) is not None
            for start in range(1, len(where) - shortest + 1):
                if any_name or is_below_checkpoint_directory(where[start:]):
                    yield where[:start], directory
            if directory.parent == directory:
                return
            directory, shortest = directory.parent, 2  # above, a mere file name may be anyone's


def _longest_first(mapping: dict[tuple[str, ...], Location]) -> dict[tuple[str, ...], Location]:
    return dict(sorted(mapping.items(), key=lambda item: -len(item[0])))
