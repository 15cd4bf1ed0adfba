"""Versions of the formats that Flink writes: the supported versions, and the Flink version that first wrote each.

Flink writes a version number before each structure whose layout may change. A version that is missing in the structure's table
has an unknown layout. Reading it could give wrong values, so it is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from state_processor.support.errors import StateProcessorError, UnsupportedFormatError

Release = tuple[int, ...]
"""Major and minor version of Flink."""

FLINK: Final = "Flink"
NEWEST_FLINK: Final = "2.3"
"""The newest release of Flink whose formats were compared with these tables."""


@dataclass(frozen=True, slots=True)
class FormatVersions:
    """Versions of one structure."""

    what: str  # the name of the structure in messages
    # the supported versions, each with the first Flink that wrote it; without it for structures of users
    since: Mapping[int, str]
    # advice for a version that is older than all of these
    advice: str = "restore it with that Flink or the next one, and take a new savepoint"
    writer: str = FLINK  # what writes the structure: Flink, or the library whose versions are in ``since``

    def check(
        self,
        version: int,
        source: str,
        offset: int,
        flink_major: int | None = None,
        error: type[StateProcessorError] = UnsupportedFormatError,
    ) -> None:
        """Refuse an unknown version.

        ``version``: the version in the bytes. ``source`` and ``offset``: where the version was read. ``flink_major``: the major
        version of the Flink that wrote the snapshot, if known. ``error``: the class of the error.
        """
        if version not in self.since:
            problem = f"{source}, offset {offset}: version {version} of {self.what} is not known"
            raise error(f"{problem}, only {self.listed}.\n{self._probable_cause(version, flink_major)}")

    @property
    def listed(self) -> str:
        """The versions as text: ``3 (Flink 1.11) and 4 (Flink 2.4)``."""
        by_version = sorted(self.since.items())
        *earlier, last = (f"{version} ({self.writer} {first})" if first else f"{version}" for version, first in by_version)
        return f"{', '.join(earlier)} and {last}" if earlier else last

    def _probable_cause(self, version: int, flink_major: int | None) -> str:
        if self.writer != FLINK:
            return self._cause_in_library(version)
        if not any(self.since.values()):
            return "The class that was registered declares no other in `versions` or `outer_versions`: register one that does."
        if version < min(self.since):
            return f"A Flink before {self.since[min(self.since)]} wrote it, or the bytes are damaged: {self.advice}."
        newest = max(self.since.values(), key=release_of)
        if version < max(self.since) or (flink_major is not None and flink_major < release_of(newest)[0]):
            written = "" if flink_major is None else f" The snapshot is of Flink {flink_major}.x."
            return f"No release of Flink writes it: a modified Flink did, or the bytes are damaged.{written}"
        latest = max(newest, NEWEST_FLINK, key=release_of)
        return f"A Flink after {latest} probably wrote it (install a newer state-processor), or the bytes are damaged."

    def _cause_in_library(self, version: int) -> str:
        first = self.since[min(self.since)]
        if version < min(self.since) and first:
            return f"A {self.writer} before {first} wrote it, or the bytes are damaged: {self.advice}."
        which = "A later" if version > max(self.since) else "Another"
        return f"{which} {self.writer} probably wrote it (install a newer state-processor), or the bytes are damaged."


def release_of(flink: str) -> Release:
    """Return the numbers of a version: ``(1, 20)``."""
    return tuple(map(int, flink.split(".")))
