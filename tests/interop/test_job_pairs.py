"""The check of a snapshot against a job agrees with real Flink; ``python -m tests.interop.job_pairs`` tries all pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_processor.job.verdicts import Outcome
from tests.interop.job_pairs import BACKENDS, PAIRS, UPGRADE, VERSIONS, results
from tests.interop.selection import EVERY_CASE

pytestmark = pytest.mark.interop

FIRST = 10


@pytest.mark.parametrize("version", (*VERSIONS, UPGRADE) if EVERY_CASE else VERSIONS[-1:])
def test_verdicts(version: str, tmp_path: Path) -> None:
    backends, pairs = (BACKENDS, PAIRS) if EVERY_CASE else (BACKENDS[-1:], PAIRS[:FIRST])
    found = list(results(pairs, version, backends, tmp_path))
    assert [str(result) for result in found if not result.agrees] == []
    assert {result.expected for result in found} == {True, False}
    outcomes = {operator.outcome for result in found for operator in result.report.operators}
    assert outcomes >= {Outcome.RESTORES, Outcome.MIGRATES, Outcome.REFUSED, Outcome.LOST, Outcome.NEW}
