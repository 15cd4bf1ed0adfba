"""Restorability of a snapshot: versions of Flink, state backends, and the outcome of a migration to Flink 2.x."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

from state_processor import StateReport
from state_processor.arrow import SavepointWriter
from state_processor.options import SnapshotAccess
from state_processor.snapshots import (
    NATIVE,
    RELEASES,
    SAVEPOINT,
    WIDEST_VERSION,
    Obstacle,
    RegisteredStates,
    RelativeFileStateHandle,
    Release,
    Snapshot,
    oldest_flink_version,
    release_of,
    some_of,
    streams_in_files,
)
from state_processor.support import attributes
from state_processor.write import IMPOSSIBLE

_NEXT_MAJOR: Final = "2.0"
_LAST_OF_1: Final = (1, 20)
_OLDEST: Final = "1.11"
"""The first Flink version that reads ``_metadata`` of the oldest supported version."""
_OLDEST_NATIVE: Final = "1.15"
_NO_BACKENDS: Final = (None, "operator", "raw")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Restoring:
    """A sentence about restoring a snapshot; ``is_bad`` if it can't be restored."""

    text: str
    is_bad: bool = False


def oldest_flink(snapshot: Snapshot) -> str | None:
    """Return the first Flink version that restores a snapshot; ``None`` for old formats."""
    metadata = snapshot.metadata
    if metadata.version > WIDEST_VERSION:
        return oldest_flink_version(metadata.version)
    if metadata.version < WIDEST_VERSION:
        return None
    properties = metadata.properties
    is_native = properties is not None and (properties.format, properties.kind) == (NATIVE, SAVEPOINT)
    return _OLDEST_NATIVE if is_native else _OLDEST


def restored_by(snapshot: Snapshot, states: Sequence[Mapping[str, Any]], migration: Sequence[Row] | None) -> Iterator[Restoring]:
    """Yield the versions and backends that restore a snapshot.

    ``snapshot``: the open snapshot. ``states``: rows of :func:`state_processor.arrow.states`. ``migration``: see
    :func:`previewed_migration`; ``None`` without a preview.
    """
    yield from _releases(snapshot)
    backends = sorted({row["backend"] for row in states if row["backend"] not in _NO_BACKENDS})
    if backends == ["canonical"]:
        yield Restoring("Every state backend except ForSt restores the keyed state.")
    elif backends:
        yield Restoring(f"The keyed state has the format of one backend ({', '.join(backends)}). Only this backend restores it.")
    if migration:
        impossible = sum(row["outcome"] == IMPOSSIBLE for row in migration)
        if impossible:
            yield Restoring(f"{impossible:,} states can't be migrated to Flink 2.x unchanged.", is_bad=True)
        else:
            yield Restoring("All states can be migrated to Flink 2.x.")


@dataclass(frozen=True, slots=True)
class RestoringReleases:
    """The releases that restore the states of a snapshot as they are, by their serializers."""

    text: str  # the releases, such as ``1.11 and later``; empty if no release restores all states, or the format is too old
    obstacles: Sequence[Obstacle] = ()  # the states that the newest release does not restore, and why
    unchecked: Sequence[str] = ()  # what only the code of the job reads, and states that were not read


def restoring_releases(snapshot: Snapshot, registered: RegisteredStates) -> RestoringReleases:
    """Return the releases that restore the registered states of a snapshot."""
    oldest = oldest_flink(snapshot)
    if oldest is None:
        return RestoringReleases("", (), registered.unchecked)
    obstacles_of = {release: registered.obstacles(release) for release in RELEASES if release >= release_of(oldest)}
    restoring = [release for release, obstacles in obstacles_of.items() if not obstacles]
    text = ""
    if restoring:
        first = oldest if restoring[0] == next(iter(obstacles_of)) else _text_of(restoring[0])
        later = " 1.x versions" if restoring[-1][0] == 1 else ""
        is_newest = restoring[-1] in (RELEASES[-1], _LAST_OF_1)
        text = f"{first} {f'and later{later}' if is_newest else f'to {_text_of(restoring[-1])}'}"
    return RestoringReleases(text, obstacles_of[RELEASES[-1]], registered.unchecked)


def _releases(snapshot: Snapshot) -> Iterator[Restoring]:
    """Yield the releases that restore the states as they are, by their serializers, and the states that the newest does not."""
    if oldest_flink(snapshot) is None:
        return
    releases = restoring_releases(snapshot, RegisteredStates.of(snapshot))
    if releases.text:
        yield Restoring(f"Flink {releases.text} restore the snapshot.")
    if releases.obstacles:
        states = len({(obstacle.operator, obstacle.state) for obstacle in releases.obstacles})
        refused = f"Flink {_text_of(RELEASES[-1])} does not restore {states:,} states as they are"
        yield Restoring(f"{refused}, such as {releases.obstacles[0]}.", is_bad=True)
    if releases.unchecked:
        names = some_of(releases.unchecked)
        yield Restoring(f"Not checked, since code of the job or of connectors reads it: {names}.")


def _text_of(release: Release) -> str:
    return ".".join(map(str, release))


def files_elsewhere(snapshot: Snapshot) -> Iterator[str]:
    """Yield why Flink does not restore a copy of the snapshot's directory: it does not look for all files in the directory."""
    streams = streams_in_files(snapshot.metadata.operators)
    fixed = sorted({stream.path for stream in streams if not isinstance(stream, RelativeFileStateHandle)})
    if fixed:
        yield (
            f"the snapshot is not self-contained: {len(fixed):,} files are recorded by absolute paths, such as {fixed[0]}, and a "
            "copy of the directory refers to the same places. state-processor copy writes a savepoint that has all its files"
        )


def previewed_migration(path: str | PathLike[str], access: SnapshotAccess) -> list[Row]:
    """Read values, and return the outcome of a migration to Flink 2.x for each state."""
    writer = SavepointWriter.from_existing(path, **access.values())
    writer.migrate(_NEXT_MAJOR)
    return list(map(_migration_row, writer.migration_report()))


def _migration_row(report: StateReport) -> Row:
    named = {"operator": report.uid or report.uid_hash} | attributes(report, ("state", "kind", "outcome"))
    return named | {"notes": "; ".join(report.problems or report.changes)}
