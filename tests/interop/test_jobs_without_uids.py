"""Operators without uids get their own state, or none; ``python -m tests.interop.jobs_without_uids`` tries all jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.jobs_without_uids import JOBS, VERSIONS, results
from tests.interop.selection import EVERY_CASE

pytestmark = pytest.mark.interop

FIRST = 5


@pytest.mark.parametrize("version", VERSIONS)
def test_operators_get_their_own_state(version: str, tmp_path: Path) -> None:
    jobs = JOBS if EVERY_CASE else JOBS[:FIRST]
    found = list(results(jobs, version, tmp_path))
    assert [str(result) for result in found if result.wrong] == []
    assert {result.job.name: result.open for result in found} == {job.name: job.open for job in jobs}
    assert sum(len(result.right) for result in found) >= len(jobs)
