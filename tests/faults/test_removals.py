"""Removals beside running jobs leave every living checkpoint whole; ``python -m tests.faults.removals`` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.removals import JOBS, VERSIONS, Campaign

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("version", VERSIONS)
def test_living_checkpoints_are_restored_after_removals(version: str, tmp_path: Path) -> None:
    campaign = Campaign(version, tmp_path, 1, {name: JOBS[name] for name in ("incremental", "merged")})
    campaign.run(8, halt=False)
    assert campaign.report.problems == []
    assert campaign.report.removals.total() == 8
    assert campaign.report.compared >= 2
