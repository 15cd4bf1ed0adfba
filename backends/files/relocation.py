"""Where the files of a snapshot are now, when ``_metadata`` says where they were.

Savepoints name their files relative to themselves. Checkpoints name shared, merged and changelog files by absolute path,
and those of an earlier job too when they were restored in claim mode; a checkpoint that was copied elsewhere has to be
searched for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state_processor.backends.files.storage import Location, Storage
from state_processor.serializers.errors import MissingFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ANCESTORS: Final = 6
"""How far up files are looked for: job directory, checkpoint directory, and a few more for a changelog beside it."""


class Relocation:
    """Finds the files that a snapshot refers to.

    A recorded absolute path is looked for in this order:

    1. ``path_mapping``, longest prefix first; what it says is final;
    2. the moves deduced before, longest prefix first;
    3. near ``_metadata``: in its directory and those above, nearest first, the longest suffix of the recorded path that
       exists there (with a directory at least, above that of ``_metadata``). So a copy beside the snapshot wins over the
       original, and an earlier job's directory is found beside the job's;
    4. the recorded path itself.

    Parameters
    ----------
    storage
        Access to the files.
    base_dir
        The directory that holds ``_metadata`` now.
    path_mapping
        Recorded prefix to present prefix, both paths or URLs.
    """

    def __init__(self, storage: Storage, base_dir: str, path_mapping: Mapping[str, str] | None = None) -> None:
        self.storage = storage
        self.base_dir = base_dir
        self.path_mapping = dict(path_mapping or {})
        self._mapping = _longest_first({_normal(old): Location.parse(new) for old, new in self.path_mapping.items()})
        self._deduced: dict[tuple[str, ...], Location] = {}
        self._unmoved: set[tuple[str, ...]] = set()

    def relative(self, path: str) -> str:
        """Where a file recorded relative to ``_metadata`` is."""
        return str(Location.parse(self.base_dir).joined(path))

    def locate(self, recorded: str, size: int = 0, context: str = "") -> str:
        """Where a file recorded by absolute path is now.

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
        """
        prefix = f"{context}: " if context else ""
        where = _normal(recorded)
        for old, new in self._mapping.items():
            if where[: len(old)] == old:
                mapped = str(new.joined("/".join(where[len(old) :])))
                if self.storage.is_file(mapped):
                    return mapped
                raise MissingFileError(
                    f"{prefix}{recorded} is mapped by path_mapping to {mapped}, which does not exist; "
                    "correct path_mapping, or copy the file there"
                )
        tried: dict[str, str] = {}
        for candidate in self._known(where):
            if self._is_here(candidate, size, tried):
                return candidate
        if where[:-1] in self._unmoved and self._is_here(recorded, size, tried):
            return recorded
        for old, base, candidate in self._nearby(where):
            if self._is_here(candidate, size, tried):
                self._deduced = _longest_first({**self._deduced, old: base})
                return candidate
        if self._is_here(recorded, size, tried):
            self._unmoved.add(where[:-1])
            return recorded
        raise MissingFileError(
            f"{prefix}{recorded} ({size} bytes) is not where _metadata says, nor near {self.base_dir}. Tried {_shown(tried)}. "
            'If the snapshot was moved, pass path_mapping={"recorded prefix": "present prefix"}'
        )

    def _is_here(self, candidate: str, size: int, tried: dict[str, str]) -> bool:
        if candidate in tried:
            return False
        actual = self.storage.size_if_file(candidate)
        tried[candidate] = "" if actual is None else f" (has only {actual} bytes)"
        return actual is not None and actual >= size

    def _known(self, where: tuple[str, ...]) -> Iterator[str]:
        for old, base in self._deduced.items():
            if where[: len(old)] == old:
                yield str(base.joined("/".join(where[len(old) :])))

    def _nearby(self, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Location, str]]:
        """Recorded prefix, directory it would be now, and the file's path there."""
        directory = Location.parse(self.base_dir)
        shortest = 1
        for _ in range(_ANCESTORS):
            for start in range(1, len(where) - shortest + 1):
                yield where[:start], directory, str(directory.joined("/".join(where[start:])))
            if directory.parent == directory:
                return
            directory, shortest = directory.parent, 2  # above, a mere file name may be anyone's


def _normal(path: str) -> tuple[str, ...]:
    """Scheme and authority, then the parts of the path: equal for ``/a``, ``file:/a`` and ``file:///a/``."""
    location = Location.parse(path)
    return (f"{location.scheme}://{location.authority}", *location.segments)


def _longest_first(mapping: dict[tuple[str, ...], Location]) -> dict[tuple[str, ...], Location]:
    return dict(sorted(mapping.items(), key=lambda item: -len(item[0])))


def _shown(tried: dict[str, str], limit: int = 8) -> str:
    """The places looked at: those with a file that is too short first, they are the likely ones."""
    places = [path + note for path, note in sorted(tried.items(), key=lambda item: not item[1])]
    return ", ".join(places[:limit]) + (f" and {len(places) - limit} more" if len(places) > limit else "")
