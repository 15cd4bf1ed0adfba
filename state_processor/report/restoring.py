"""Restorability of a snapshot: versions of Flink, state backends, and the outcome of a migration to Flink 2.x."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

from state_processor.backends.metadata.properties import NATIVE, SAVEPOINT
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.write.assembly import WIDEST_VERSION, oldest_flink_version
from state_processor.options.access import SnapshotAccess
from state_processor.write.build import SavepointBuild
from state_processor.write.local_engine import LocalEngine
from state_processor.write.migration_report import IMPOSSIBLE

_NEXT_MAJOR: Final = "2.0"
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


def restored_by(
    oldest: str | None, flink_major: int, states: Sequence[Mapping[str, Any]], migration: Sequence[Row] | None
) -> Iterator[Restoring]:
    """Yield the versions and backends that restore a snapshot.

    Parameters
    ----------
    oldest, flink_major
        The first Flink version that restores the snapshot, and the major version that wrote it.
    states
        Rows of :func:`state_processor.arrow.states`.
    migration
        See :func:`previewed_migration`; ``None`` without a preview.
    """
    if oldest is not None:
        yield Restoring(f"Flink {oldest} and later {'' if flink_major > 1 else '1.x versions '}read the snapshot.")
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


def previewed_migration(path: str | PathLike[str], access: SnapshotAccess) -> list[Row]:
    """Read values, and return the outcome of a migration to Flink 2.x for each state."""
    build = SavepointBuild.from_existing(path, None, access)
    build.migrate(LocalEngine(), _NEXT_MAJOR)
    return [
        {
            "operator": report.uid or report.uid_hash,
            "state": report.state,
            "kind": report.kind,
            "outcome": report.outcome,
            "notes": "; ".join(report.problems or report.changes),
        }
        for report in build.migration_report()
    ]
