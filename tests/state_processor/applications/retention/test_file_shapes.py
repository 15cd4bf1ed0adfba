"""Names and places of files that Flink writes, and of files that it does not write."""

from __future__ import annotations

from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.retention.file_uses import directory_of_job, is_made_by_flink, is_merged
from state_processor.backends.files.location import Location
from tests.claimed_checkpoints import SAVEPOINT
from tests.old_checkpoints import STRAY, aged, job_with_checkpoints

BASE = "s3://bucket/checkpoints"
JOB = f"{BASE}/9219181524fcb88610db0f9620df1f57"
SHARED_MERGED = "job_9219181524fcb88610db0f9620df1f57_op_20ba6b65f97481d5570070de90e4e791_0_2"
EXCLUSIVE_MERGED = "job_9219181524fcb88610db0f9620df1f57_tm_10.0.0.1:6122-5d3a"
FORST = "shared/op_AsyncKeyedProcessOperator_20ba6b65f97481d5570070de90e4e791__1_2__attempt_0/db"
OF_A_JOB = {
    "checkpoint": f"chk-17/{STRAY}",
    "metadata that is being written": f"chk-17/._metadata.inprogress.{STRAY}",
    "incremental": f"shared/{STRAY}",
    "changelog": f"dstl/{STRAY}",
    "ForSt": f"{FORST}/{STRAY}",
}
MERGED = {"shared": f"shared/{SHARED_MERGED}/{STRAY}", "exclusive": f"taskowned/{EXCLUSIVE_MERGED}/{STRAY}"}
OF_OTHERS = [
    f"taskowned/{STRAY}",  # an operator may name it in its state: GenericWriteAheadSink
    f"taskowned/mine/{STRAY}",
    f"shared/mine/{STRAY}",
    f"shared/{SHARED_MERGED}/deeper/{STRAY}",
    f"shared/op_mine_attempt_0/{STRAY}",
    f"shared/op_mine_attempt_0/db/{STRAY}.sst",
    f"mine/db/{STRAY}",
    f"dstl/mine/{STRAY}",
    f"chk-17/mine/{STRAY}",
    f"chk-x/{STRAY}",
    f"mine/{STRAY}",
    STRAY,
    "chk-17/_metadata",
    "chk-17/_SUCCESS",
    "chk-17/important.parquet",
    f"chk-17/{STRAY}.parquet",
    f"chk-17/{STRAY.upper()}",
    f"chk-17/x{STRAY}",
    f"chk-17/.part-0.inprogress.{STRAY}",
    f"shared/._metadata.inprogress.{STRAY}",
    f"chk-17/_metadata_tmp_{STRAY}",
    "shared/000012.sst",
    "shared/MANIFEST-000004",
]


@pytest.mark.parametrize("place", [*OF_A_JOB.values(), *MERGED.values()], ids=[*OF_A_JOB, *MERGED])
def test_files_of_a_job(place: str) -> None:
    location = Location.parse(f"{JOB}/{place}")
    assert is_made_by_flink(location)
    assert directory_of_job(location) == JOB
    assert is_merged(location) == (place in MERGED.values())


def test_files_of_a_savepoint() -> None:
    for name in (STRAY, f"._metadata.inprogress.{STRAY}"):
        location = Location.parse(f"{BASE}/{SAVEPOINT}/{name}")
        assert is_made_by_flink(location)
        assert directory_of_job(location) is None


@pytest.mark.parametrize("place", OF_OTHERS)
def test_files_that_flink_does_not_write(place: str) -> None:
    assert not is_made_by_flink(Location.parse(f"{JOB}/{place}"))


def test_orphans_are_files_that_flink_writes(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    by_flink = [job / place for place in OF_A_JOB.values()]
    merged = [job / place for place in MERGED.values()]  # the job may append to them
    for file in (*by_flink, *merged, *(job / place for place in OF_OTHERS)):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.name != "_metadata":
            file.write_bytes(b"?")
    aged(tmp_path)
    summary = sp.orphans(tmp_path, delete=True)
    assert sorted(summary.files) == sorted(map(str, by_flink))
    assert all(file.exists() for file in merged)
    assert all((job / place).exists() for place in OF_OTHERS if not place.endswith("_metadata"))


def test_nothing_is_removed_where_no_snapshot_is_found(tmp_path: Path) -> None:
    """With entropy in paths of object stores, files of checkpoints lie below other prefixes than their ``_metadata``."""
    job = job_with_checkpoints(tmp_path / "bucket" / "checkpoints")
    state = tmp_path / "bucket" / "4f3a" / "checkpoints" / job.name / "chk-4" / STRAY
    state.parent.mkdir(parents=True)
    state.write_bytes(b"of a checkpoint that lies elsewhere")
    aged(tmp_path)
    for also in ([], [tmp_path / "bucket" / "4f3a"]):
        with pytest.raises(sp.WriteError, match=r"1 files, such as .*/chk-4/\S+, seem unused, but no snapshot was found"):
            sp.orphans(tmp_path / "bucket" / "4f3a", also=also, delete=True)
    assert state.exists()
