"""Real Flink restores native savepoints of ``SavepointWriter``, rescaled too, and takes incremental checkpoints on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.restored_cases import Case, Outcome, check_entries, check_going_on, restored
from tests.interop.selection import asking
from tests.interop.written_cases import CASES

pytestmark = pytest.mark.interop

BOTH = ("1.20.5", "2.3.0")
ALL = CASES["bootstrapped"].versions
PATCHES = ("native updated", "incremental updated", "native with keys deleted", "native with four states")
CHAINS = ("native patched in steps", "incremental patched in steps")
OF_FORST = ("2.0.2", "2.3.0")
ENTRIES: list[Case] = [
    *(("bootstrapped", version, "rocksdb") for version in ALL),
    *(("bootstrapped", version, "hashmap") for version in ALL),
    *(("bootstrapped", version, "forst") for version in OF_FORST),
    *((name, version, "rocksdb") for name in (*PATCHES, *CHAINS) for version in BOTH),
    *((name, "2.3.0", "forst") for name in CHAINS),
    *(("all kinds in 512 key groups", version, "rocksdb") for version in BOTH),
    *(("native with shared files", version, "rocksdb") for version in BOTH),
    *(("copied operators", version, "rocksdb") for version in BOTH),
    ("native with shared files", "2.3.0", "forst"),
    ("heap timers in 512 key groups", "1.20.5", "hashmap"),
    ("heap timers in 512 key groups", "2.3.0", "rocksdb"),
    ("orders in 32768 key groups", "1.20.5", "rocksdb"),
    ("orders in 32768 key groups", "2.3.0", "forst"),
    ("windows in 32 key groups", "1.20.5", "hashmap"),
]
GOING_ON: list[Case] = [
    *(("a job that goes on", version, "rocksdb") for version in BOTH),
    *(("windows that go on", version, "rocksdb") for version in BOTH),
    ("a job that goes on", "2.3.0", "forst"),
    ("a job that goes on", "1.20.5", "hashmap"),
    *(("a copied job that goes on", version, "rocksdb") for version in BOTH),
    *(("a job that claims", version, "rocksdb") for version in BOTH),
    ("a job that claims", "2.3.0", "forst"),
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
    """Its next snapshot is an incremental checkpoint."""
    check_going_on(outcomes[case])
    for answer in outcomes[case].answers:
        assert Path(answer["savepoint"]).name.startswith("chk-")
