"""The check of a snapshot against a job agrees with real Flink; ``python -m tests.interop.job_pairs`` tries all pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_processor.applications.jobs.verdicts import Outcome
from state_processor.types.answers import Answer
from tests.interop.job_pair_changes import CHANGE_PAIRS
from tests.interop.job_pair_tables import (
    ALL_PAIRS,
    ASYNCHRONOUS_PAIRS,
    PAIRS,
    RECORD_PAIRS,
    SUBCLASS_PAIRS,
    VALUE_PAIRS,
    without_uids,
)
from tests.interop.job_pairs import results
from tests.interop.pair_campaign import BACKENDS, UPGRADE, VERSIONS
from tests.interop.selection import EVERY_CASE

pytestmark = pytest.mark.interop

FIRST = 10
FIRST_VALUES = 6


@pytest.mark.parametrize("version", (*VERSIONS, UPGRADE) if EVERY_CASE else VERSIONS[-1:])
def test_verdicts(version: str, tmp_path: Path) -> None:
    """Flink restores the same values if the check says so, and does not if the check denies it."""
    backends = BACKENDS if EVERY_CASE else BACKENDS[-1:]
    sample = (*PAIRS[:FIRST], *VALUE_PAIRS[:FIRST_VALUES], *RECORD_PAIRS[:3], *SUBCLASS_PAIRS[:2], *ASYNCHRONOUS_PAIRS[:FIRST])
    every = (*ALL_PAIRS, *CHANGE_PAIRS)
    pairs = (*every, *without_uids(every)) if EVERY_CASE else sample
    found = list(results(pairs, version, backends, tmp_path, repairs=EVERY_CASE))
    assert [str(result) for result in found if not result.agrees] == []
    assert {result.outcome for result in found} == {"same values", "other values", "refused"}
    assert {result.report.answer for result in found} == set(Answer)
    outcomes = {operator.outcome for result in found for operator in result.report.operators}
    assert outcomes >= {Outcome.RESTORES, Outcome.MIGRATES, Outcome.REFUSED, Outcome.LOST, Outcome.CHANGED, Outcome.NEW}
