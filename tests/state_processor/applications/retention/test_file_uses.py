"""Ordered paths find what a scan of all paths finds. Names and places of files that Flink writes, and of other files."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import state_processor as sp
from state_processor.applications.retention import file_uses
from state_processor.applications.retention.file_uses import (
    FileUses,
    OrderedPaths,
    StoredSnapshot,
    directory_of_job,
    find_file_uses,
    is_below,
    is_made_by_flink,
    is_merged,
)
from state_processor.applications.retention.removal import possibly_claimed
from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata.snapshot import Snapshot
from tests.claimed_checkpoints import SAVEPOINT
from tests.old_checkpoints import JOB, STRAY, aged, job_with_checkpoints

JOBS = 3
NAMES = st.sampled_from(["a", "b", "a.", "a-", "a0", "A", "é", "", "chk-1", "shared", "savepoint-012345-0123456789ab"])
PATHS = st.builds(
    lambda root, parts: root + "/".join(parts), st.sampled_from(["/", "s3://b/", "s3://b0/"]), st.lists(NAMES, max_size=4)
)
SETS_OF_PATHS = st.sets(PATHS, max_size=30)


@given(SETS_OF_PATHS, PATHS)
def test_paths_below_a_directory(paths: set[str], directory: str) -> None:
    assert OrderedPaths(paths).below(directory) == sorted(path for path in paths if is_below(path, directory))


@given(SETS_OF_PATHS, st.lists(st.tuples(PATHS, SETS_OF_PATHS), max_size=4), PATHS)
def test_replaced_paths(paths: set[str], changes: list[tuple[str, set[str]]], directory: str) -> None:
    """Paths behind symbolic links are outside of the directory that is listed again."""
    ordered = OrderedPaths(paths)
    for place, listed in changes:
        assert sum(map(len, ordered.by_name.values())) == len(paths)
        ordered.replace_below(place, listed)
        paths = {path for path in paths if not is_below(path, place)} | listed
    assert ordered.below(directory) == sorted(path for path in paths if is_below(path, directory))
    named = {name: {*group} for name, group in ordered.by_name.items()}
    assert named == {name: {p for p in paths if p.rpartition("/")[2] == name} for name in {p.rpartition("/")[2] for p in paths}}


@given(st.dictionaries(PATHS, st.tuples(SETS_OF_PATHS, SETS_OF_PATHS), max_size=8), SETS_OF_PATHS, PATHS)
def test_snapshots_in_a_directory(files: dict[str, tuple[set[str], set[str]]], orphans: set[str], place: str) -> None:
    """A user of a file below the directory is never forgotten, also if the file is only a namesake."""
    snapshots = {
        directory: StoredSnapshot(directory, 1, None, None, frozenset(used), frozenset(namesakes))
        for directory, (used, namesakes) in files.items()
    }
    listed = {path: file_uses.ListedFile(path, 1, None) for path in orphans}
    uses = FileUses(listed, snapshots, {})

    def scanned(directory: str) -> set[str]:
        inside = {path for path in snapshots if path == directory or is_below(path, directory)}
        return inside.union(*(users for path, users in uses.users.items() if is_below(path, directory)))

    assert uses.snapshots_in(place) == scanned(place)
    assert {file.path for file in uses.files_in([place])} == {path for path in orphans if is_below(path, place)}
    claimed = possibly_claimed(uses, listed.values())
    places = {directory for path in orphans for directory in possibly_claimed(FileUses({}, {}, {}), [listed[path]])}
    assert claimed.keys() == {directory for directory in places if not scanned(directory)}


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.integers(0, JOBS - 1), st.booleans()), max_size=JOBS))
def test_jobs_that_change_while_they_are_read(changes: list[tuple[int, bool]]) -> None:
    """Each change adds a checkpoint or replaces the oldest one; the result is that of a directory at rest."""
    opened = file_uses.open_snapshot
    with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        first = job_with_checkpoints(Path(root), [2])
        jobs = [first, *(Path(root) / f"{number:032x}" for number in range(1, JOBS))]
        for job in jobs[1:]:
            shutil.copytree(first, job)
        coming = list(changes)

        def open_and_change(path: str, **options: object) -> Snapshot:
            if coming:
                number, subsumes = coming.pop()
                checkpoints = sorted(jobs[number].glob("chk-*"), key=lambda checkpoint: int(checkpoint.name[4:]))
                shutil.copytree(checkpoints[-1], jobs[number] / f"chk-{int(checkpoints[-1].name[4:]) + 1}")
                if subsumes:
                    shutil.rmtree(checkpoints[0])
            return opened(path, **options)  # type: ignore[arg-type]

        patch.setattr(file_uses, "open_snapshot", open_and_change)
        changed = find_file_uses([root], Storage())
        assert changed == find_file_uses([root], Storage())
        assert sum(JOB in path for path in changed.snapshots) == 1 + sum(not s for number, s in changes if number == 0)


BASE = "s3://bucket/checkpoints"
DIRECTORY_OF_JOB = f"{BASE}/9219181524fcb88610db0f9620df1f57"
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
    location = Location.parse(f"{DIRECTORY_OF_JOB}/{place}")
    assert is_made_by_flink(location)
    assert directory_of_job(location) == DIRECTORY_OF_JOB
    assert is_merged(location) == (place in MERGED.values())


def test_files_of_a_savepoint() -> None:
    for name in (STRAY, f"._metadata.inprogress.{STRAY}"):
        location = Location.parse(f"{BASE}/{SAVEPOINT}/{name}")
        assert is_made_by_flink(location)
        assert directory_of_job(location) is None


@pytest.mark.parametrize("place", OF_OTHERS)
def test_files_that_flink_does_not_write(place: str) -> None:
    assert not is_made_by_flink(Location.parse(f"{DIRECTORY_OF_JOB}/{place}"))


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
