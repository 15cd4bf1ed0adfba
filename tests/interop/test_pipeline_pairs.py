"""The check agrees with real Flink on its operators; ``python -m tests.interop.pipeline_pairs`` tries all pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_processor.types.answers import Answer
from tests.interop.pair_campaign import BACKENDS, UPGRADE, VERSIONS
from tests.interop.pipeline_pairs import ALL_PAIRS, results, without_uids
from tests.interop.selection import EVERY_CASE

pytestmark = pytest.mark.interop

SAMPLE = (
    "tumbling windows become sessions",
    "windows get a trigger of processing time",
    "windows get an evictor",
    "a sum becomes a maximum",
    "a reduction stays",
)


@pytest.mark.parametrize("version", (*VERSIONS, UPGRADE) if EVERY_CASE else VERSIONS[-1:])
def test_verdicts_on_pipelines(version: str, tmp_path: Path) -> None:
    """The new pipeline has all results of the old one if the check says so."""
    pairs = [*ALL_PAIRS, *without_uids(ALL_PAIRS)] if EVERY_CASE else [pair for pair in ALL_PAIRS if pair.name in SAMPLE]
    backends = BACKENDS if EVERY_CASE else BACKENDS[:1]
    found = list(results(pairs, version, backends, tmp_path))
    assert [str(result) for result in found if not result.agrees] == []
    assert {result.outcome for result in found} == {"same values", "other values", "refused"}
    assert {result.report.answer for result in found} == set(Answer)
