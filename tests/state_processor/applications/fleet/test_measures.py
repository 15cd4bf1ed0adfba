"""Snapshots of jobs, newest first."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.applications.fleet.measures import JobSnapshots
from state_processor.backends.metadata.discovery import SnapshotInfo
from state_processor.options.access import SnapshotAccess

TIMES = st.one_of(st.none(), st.sampled_from([1.0, 2.0, 3.0, 900.0, 5000.0]))


def snapshot(name: str, number: int, time: float | None) -> SnapshotInfo:
    moment = None if time is None else datetime.fromtimestamp(time, UTC)
    return SnapshotInfo(f"/none/{name}-{number}", name, None, number, moment, 0, None)


def seconds(info: SnapshotInfo) -> float:
    return 0.0 if info.time is None else info.time.timestamp()


@settings(deadline=None)
@given(st.lists(TIMES, max_size=5), st.lists(TIMES, max_size=5))
def test_a_savepoint_comes_before_the_first_snapshot_that_is_not_newer(
    checkpoints: list[float | None], savepoints: list[float | None]
) -> None:
    access = SnapshotAccess.of()
    numbered = tuple(snapshot("chk", number, time) for number, time in enumerate(checkpoints))
    others = [snapshot("savepoint", number, time) for number, time in enumerate(savepoints)]
    expected = JobSnapshots("/none", None, numbered).newest_first(access)
    for info in sorted(others, key=seconds):
        places = [place for place, earlier in enumerate(expected) if seconds(earlier) <= seconds(info)]
        expected.insert(min(places, default=len(expected)), info)
    assert JobSnapshots("/none", None, (*numbered, *others)).newest_first(access) == expected
