"""Real Flink 2 restores state of the asynchronous API that ``SavepointWriter`` writes, with every entry and timer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.write.plan.source_operator import SourceOperator
from tests.interop.restored_cases import Case, Outcome, check_entries, check_going_on, restored
from tests.interop.selection import asking

pytestmark = pytest.mark.interop

VERSIONS = ("2.0.2", "2.3.0")
ENTRIES: list[Case] = [
    *(("asynchronous", version, "forst") for version in VERSIONS),
    *(("asynchronous", "2.3.0", backend) for backend in (None, "rocksdb", "hashmap")),
    *((f"asynchronous {patched}", "2.3.0", "forst") for patched in ("patched in steps", "with keys deleted")),
    *(("synchronous becomes asynchronous", version, "forst") for version in VERSIONS),
    *(("asynchronous becomes synchronous", "2.3.0", backend) for backend in (None, "forst")),
]
GOING_ON: list[Case] = [
    *(("an asynchronous job that goes on", version, "forst") for version in VERSIONS),
    *(("an asynchronous job that claims", version, "forst") for version in VERSIONS),
    ("asynchronous windows that go on", "2.3.0", "forst"),
]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[Case, Outcome]:
    """All cases that are asked for."""
    asked = [item.callspec.params["case"] for item in asking(request, "outcomes")]
    return restored(None, tmp_path_factory, asked, {})


@pytest.mark.parametrize("case", ENTRIES, ids=map(str, ENTRIES))
def test_flink_finds_every_entry(case: Case, outcomes: Mapping[Case, Outcome]) -> None:
    check_entries(outcomes[case])


@pytest.mark.parametrize("case", GOING_ON, ids=map(str, GOING_ON))
def test_a_restored_job_goes_on(case: Case, outcomes: Mapping[Case, Outcome]) -> None:
    """Its next snapshot is a checkpoint whose files are in its working directory."""
    check_going_on(outcomes[case])
    asynchronous = {operator["uid"] for operator in outcomes[case].written.operators if operator.get("asynchronous")}
    for answer in outcomes[case].answers:
        assert Path(answer["savepoint"]).name.startswith("chk-")
        snapshot = open_snapshot(answer["savepoint"])
        sources = {o.uid: SourceOperator(snapshot, o) for o in snapshot.metadata.operators}
        assert {uid for uid, source in sources.items() if source.is_asynchronous} == asynchronous
