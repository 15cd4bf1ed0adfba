"""The check of a query against another one agrees with real Flink; ``python -m tests.interop.query_pairs`` tries all pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_processor.applications.jobs.verdicts import Outcome
from state_processor.types.answers import Answer
from tests.interop.pair_campaign import BACKENDS, UPGRADE, VERSIONS
from tests.interop.query_pairs import PLAN_PAIRS, QUERY_PAIRS, results
from tests.interop.selection import EVERY_CASE

pytestmark = pytest.mark.interop

FIRST = 6


@pytest.mark.parametrize("version", (*VERSIONS, UPGRADE) if EVERY_CASE else VERSIONS[-1:])
def test_verdicts_on_queries(version: str, tmp_path: Path) -> None:
    """Flink continues with the state that the new query would have if the check says so, and does not if the check denies it."""
    found = list(results((*QUERY_PAIRS, *PLAN_PAIRS) if EVERY_CASE else QUERY_PAIRS[:FIRST], version, BACKENDS[:1], tmp_path))
    assert [str(result) for result in found if not result.agrees] == []
    assert {result.outcome for result in found} == {"same values", "other values", "refused"}
    assert {result.report.answer for result in found} >= {Answer.YES, Answer.NO}
    outcomes = {state.outcome for result in found for operator in result.report.operators for state in operator.states}
    assert outcomes >= {Outcome.RESTORES, Outcome.CHANGED, Outcome.REFUSED}
