"""Ordered paths find what a scan of all paths finds."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.applications.retention import file_uses
from state_processor.applications.retention.file_uses import FileUses, OrderedPaths, StoredSnapshot, find_file_uses, is_below
from state_processor.applications.retention.removal import possibly_claimed
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata.snapshot import Snapshot
from tests.old_checkpoints import JOB, job_with_checkpoints

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
