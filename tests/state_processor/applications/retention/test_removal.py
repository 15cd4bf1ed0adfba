"""Removals beside jobs that run: directories that change meanwhile, files of the next checkpoint, the newest checkpoint."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.retention import file_uses, removal
from state_processor.applications.retention import housekeeping as retention
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import read_metadata, write_metadata
from state_processor.backends.metadata.streams import with_streams
from tests.claimed_checkpoints import FIXTURES
from tests.old_checkpoints import DAYS, JOB, STRAY, aged, complete, content, job_with_checkpoints, names


def test_a_snapshot_that_vanishes_meanwhile_has_a_successor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running job replaces its only checkpoint between the listing and the reading of ``_metadata``."""
    job = job_with_checkpoints(tmp_path, [2])
    (job / "shared" / STRAY).write_bytes(b"?")
    aged(tmp_path)
    opened, shared = file_uses.open_snapshot, content(job / "shared")
    numbers = iter(range(3, 6))

    def subsuming(path: str, **options: Any) -> Any:
        number = next(numbers, None)
        if number is not None:
            shutil.copytree(job / f"chk-{number - 1}", job / f"chk-{number}")
            shutil.rmtree(job / f"chk-{number - 1}")
        return opened(path, **options)

    monkeypatch.setattr(file_uses, "open_snapshot", subsuming)
    summary = sp.orphans(tmp_path, older_than="0s", delete=True)
    assert names(summary.files) == {STRAY}
    assert content(job / "shared") == shared - {STRAY}
    assert complete(tmp_path) == {"chk-5": True}


def test_a_job_that_takes_over_the_files_of_another_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job claims the last checkpoint of another one while it is read: the files have no user in the first listing."""
    job = job_with_checkpoints(tmp_path, [2])
    aged(tmp_path)
    heir = tmp_path / f"{7:032x}" / "chk-3"
    opened, before = file_uses.open_snapshot, content(job / "shared")

    def claiming(path: str, **options: Any) -> Any:
        if not heir.exists():
            shutil.copytree(job / "chk-2", heir)
            shutil.rmtree(job / "chk-2")
        return opened(path, **options)

    monkeypatch.setattr(file_uses, "open_snapshot", claiming)
    assert sp.orphans(tmp_path, older_than="0s", delete=True).files == ()
    assert content(job / "shared") == before


def test_nothing_is_removed_while_readings_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_with_checkpoints(tmp_path)
    listed = file_uses.files_below
    numbers = iter(range(100))

    def growing(directory: str, storage: Any) -> Any:
        (job / "shared" / f"{next(numbers):08x}{STRAY[8:]}").write_bytes(b"?")
        aged(job / "shared")
        return listed(directory, storage)

    monkeypatch.setattr(file_uses, "files_below", growing)
    with pytest.raises(sp.WriteError, match=r"nothing is removed: .* readings of the directory differ"):
        sp.orphans(tmp_path, delete=True)


def test_snapshots_that_always_vanish_stop_the_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_with_checkpoints(tmp_path, [2])
    opened = file_uses.open_snapshot

    def moving(path: str, **options: Any) -> Any:
        (current,) = job.glob("chk-*")
        current.rename(job / f"chk-{int(current.name[4:]) + 1}")
        return opened(path, **options)

    monkeypatch.setattr(file_uses, "open_snapshot", moving)
    with pytest.raises(sp.WriteError, match=r"users of files below .* are unknown"):
        sp.orphans(tmp_path, delete=True)


def test_metadata_that_is_being_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_with_checkpoints(tmp_path)
    whole = (job / "chk-3" / "_metadata").read_bytes()
    (job / "chk-3" / "_metadata").write_bytes(whole[:100])
    aged(tmp_path)
    opened = file_uses.open_snapshot

    def writing(path: str, **options: Any) -> Any:
        try:
            return opened(path, **options)
        finally:
            (job / "chk-3" / "_metadata").write_bytes(whole)

    monkeypatch.setattr(file_uses, "open_snapshot", writing)
    assert sp.orphans(tmp_path, older_than="0s", delete=True).searched == 3


def test_a_job_that_began_again_keeps_its_present_checkpoint(tmp_path: Path) -> None:
    job = tmp_path / JOB
    source = FIXTURES / "2.3.0" / "orders-hashmap-canonical" / "savepoint"
    metadata = read_metadata((source / "_metadata").read_bytes())
    for number, days in ((899, 31), (900, 30), (4, 3), (5, 2)):
        checkpoint = shutil.copytree(source, job / f"chk-{number}")
        plain = replace(metadata, checkpoint_id=number, properties=None)
        (checkpoint / "_metadata").write_bytes(write_metadata(plain))
        aged(checkpoint, days)
    summary = sp.retain(tmp_path, keep=1)
    assert names(summary.snapshots) == {"chk-899", "chk-900", "chk-4"}
    assert any(note.startswith(f"{job}/chk-5 is the newest by its time") for note in summary.notes)
    aged(job / "chk-900", 2.001)  # as if both had been copied
    close = sp.retain(tmp_path, keep=1, delete=True)
    assert names(close.snapshots) == {"chk-899", "chk-4"}
    assert any("too close to tell whether the job began again. Both stay" in note for note in close.notes)


def test_copies_of_nearly_the_same_time(tmp_path: Path) -> None:
    """The newest by their numbers and the newest by their times stay: copies may be written in any order."""
    job = tmp_path / JOB
    source = FIXTURES / "2.3.0" / "orders-hashmap-canonical" / "savepoint"
    metadata = read_metadata((source / "_metadata").read_bytes())
    for position, number in enumerate((1, 10, 11, 2, 3)):
        checkpoint = shutil.copytree(source, job / f"chk-{number}")
        (checkpoint / "_metadata").write_bytes(write_metadata(replace(metadata, checkpoint_id=number, properties=None)))
        aged(checkpoint, 2 - position / 24 / 60)
    assert names(sp.retain(tmp_path, keep=1).snapshots) == {"chk-1", "chk-2", "chk-10"}
    assert names(sp.retain(tmp_path, keep=2).snapshots) == {"chk-1"}


def test_numbers_decide_in_a_lineage(tmp_path: Path) -> None:
    """Times of copied checkpoints may be in any order; these share files, so that their numbers count."""
    job = job_with_checkpoints(tmp_path)
    for days, number in enumerate((4, 2, 3), 5):
        aged(job / f"chk-{number}", 20 - days)
    assert names(sp.retain(tmp_path, keep=1).snapshots) == {"chk-2", "chk-3"}


def test_a_job_that_begins_does_not_keep_orphans_of_others(tmp_path: Path) -> None:
    job, young = job_with_checkpoints(tmp_path), tmp_path / f"{3:032x}" / "shared"
    (job / "shared" / STRAY).write_bytes(b"of a checkpoint that failed")
    aged(tmp_path)
    young.mkdir(parents=True)
    (young / STRAY).write_bytes(b"of the first checkpoint, which is not complete")
    assert sp.orphans(tmp_path, delete=True).files == (f"{job}/shared/{STRAY}",)
    aged(young.parent)
    with pytest.raises(sp.WriteError, match=f"nothing is removed: {young.parent} has 1 files"):
        sp.orphans(tmp_path, delete=True)


def test_merged_files_of_a_running_job_stay(tmp_path: Path) -> None:
    """Flink appends to a merged file as long as it is small, also if no checkpoint uses its earlier parts any more.

    An idle job does so after any time: all files of its directory may be old.
    """
    job = job_with_checkpoints(tmp_path)
    merged = [job / "shared" / "job_1_op_1_0_2" / STRAY, job / "taskowned" / "job_1_tm_1" / STRAY]
    for file in merged:
        file.parent.mkdir(parents=True)
        file.write_bytes(b"merged")
    aged(tmp_path)
    running = job / "chk-5" / STRAY
    running.parent.mkdir()
    running.write_bytes(b"of a checkpoint that is not complete")
    assert sp.orphans(tmp_path, delete=True).files == ()
    aged(tmp_path)
    assert sp.orphans(tmp_path, delete=True).files == (str(running),)
    job_with_checkpoints(tmp_path / f"{8:032x}")
    for checkpoint in job.glob("chk-*"):
        shutil.rmtree(checkpoint)
    assert {*map(str, merged)} < {*sp.orphans(tmp_path, also=[tmp_path]).files}


@pytest.mark.parametrize("is_active", [True, False])
def test_merged_files_of_a_retired_checkpoint_of_a_running_job_stay(tmp_path: Path, is_active: bool) -> None:
    job = job_with_checkpoints(tmp_path, (2,))
    merged = job / "shared" / "job_1_op_1_0_2" / STRAY
    metadata = read_metadata((job / "chk-2" / "_metadata").read_bytes())
    stream = h.FileStateHandle(6, f"file:{merged}")
    operators = tuple(with_streams(operator, lambda _: stream) for operator in metadata.operators)
    retired = replace(metadata, checkpoint_id=1, operators=operators)
    for file, data in ((merged, b"merged"), (job / "chk-1" / "_metadata", write_metadata(retired))):
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
    aged(tmp_path)
    if is_active:
        (job / "chk-3").mkdir()
        (job / "chk-3" / STRAY).write_bytes(b"of a checkpoint that is not complete")
    summary = sp.retain(tmp_path, keep=1, delete=True)
    assert names(summary.snapshots) == {"chk-1"}
    assert summary.spared == (str(merged),)
    assert merged.exists()


def test_files_that_the_next_checkpoint_may_name_stay(tmp_path: Path) -> None:
    """The checkpoints of a running job fail for longer than the guard; it has written a changelog meanwhile."""
    job = job_with_checkpoints(tmp_path)
    old, new = job / "dstl" / STRAY, job / "dstl" / f"1{STRAY[1:]}"
    old.parent.mkdir()
    for file in (old, new):
        file.write_bytes(b"changes")
    aged(tmp_path)
    for file, days in ((job / "chk-4" / "_metadata", 3), (old, 5), (new, 2.5)):
        os.utime(file, (time.time() - days * DAYS,) * 2)
    (job / "dstl" / f"2{STRAY[1:]}").write_bytes(b"of now")
    assert sp.orphans(tmp_path, delete=True).files == (str(old),)


def test_a_listing_may_lack_a_checkpoint_and_its_successor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_with_checkpoints(tmp_path)
    files_below = file_uses.files_below

    def listed_over_some_time(directory: str, storage: Storage) -> list[file_uses.ListedFile]:
        files = files_below(directory, storage)
        return [file for file in files if directory != str(tmp_path) or "/chk-4/_metadata" not in file.path]

    monkeypatch.setattr(file_uses, "files_below", listed_over_some_time)
    assert {"chk-4"} in [names(use.snapshots) for use in sp.files(tmp_path)]
    assert names(sp.retain(tmp_path, keep=1).snapshots) == {"chk-2", "chk-3"}


def snapshot_naming(job: Path, stray: str) -> None:
    """Complete a checkpoint that uses a file which no snapshot has used before."""
    metadata = read_metadata((job / "chk-2" / "_metadata").read_bytes())
    stream = h.FileStateHandle(1, f"file:{stray}")
    operators = tuple(with_streams(operator, lambda _: stream) for operator in metadata.operators)
    target = job / "chk-8" / "_metadata"
    target.parent.mkdir()
    target.write_bytes(write_metadata(replace(metadata, checkpoint_id=8, operators=operators)))


def damaged(job: Path, stray: str) -> None:
    """Write a ``_metadata`` whose files are unknown."""
    (job / "chk-8").mkdir()
    (job / "chk-8" / "_metadata").write_bytes(b"?")


def touched(job: Path, stray: str) -> None:
    os.utime(stray)


def rewritten(job: Path, stray: str) -> None:
    """Replace a file by another one of the same time."""
    modified = os.stat(stray).st_mtime
    Path(stray).write_bytes(b"of another program")
    os.utime(stray, (modified, modified))


def after_the_plan(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Change the directory after its two equal readings."""
    agreed = retention.agreed

    def agreeing(plan: Callable[[], Any]) -> Any:
        agreement = agreed(plan)
        change()
        return agreement

    monkeypatch.setattr(retention, "agreed", agreeing)


def after_the_first_file(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Change the directory after the first file was removed."""
    removals = iter([change])
    remove = removal.remove_file

    def removing(storage: Storage, path: str) -> None:
        remove(storage, path)
        if not path.endswith("-clock"):
            for change in removals:
                change()

    monkeypatch.setattr(removal, "remove_file", removing)


def two_strays(job: Path) -> list[str]:
    strays = [job / "shared" / f"{number}{STRAY[1:]}" for number in (0, 1)]
    for stray in strays:
        stray.write_bytes(b"?")
    return list(map(str, strays))


@pytest.mark.parametrize("change", [snapshot_naming, rewritten])
def test_orphans_that_change_after_the_plan_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, str], None]
) -> None:
    job = job_with_checkpoints(tmp_path)
    first, last = two_strays(job)
    aged(tmp_path)
    after_the_plan(monkeypatch, lambda: change(job, first))
    summary = sp.orphans(tmp_path, delete=True)
    assert (summary.files, summary.size, summary.spared) == ((last,), 1, (first,))
    assert summary.notes == ("1 of 2 planned files stay: they were changed, or came into use meanwhile",)
    assert os.path.exists(first)


def test_snapshots_that_another_process_removes_after_the_plan_are_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_with_checkpoints(tmp_path, [2, 3, 4])
    aged(tmp_path)
    after_the_plan(monkeypatch, lambda: shutil.rmtree(job / "chk-2"))
    summary = sp.retain(tmp_path, keep=1, delete=True)
    assert names(summary.snapshots) == {"chk-3"}
    assert complete(tmp_path) == {"chk-4": True}


def test_orphans_of_a_job_that_begins_after_the_plan_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_with_checkpoints(tmp_path)
    strays = two_strays(job)
    aged(tmp_path)
    after_the_plan(monkeypatch, lambda: touched(job, strays[0]))
    assert sp.orphans(tmp_path, delete=True).spared == tuple(strays)
    assert all(map(os.path.exists, strays))


@pytest.mark.parametrize(("change", "batch"), [(snapshot_naming, 1), (touched, 1), (touched, 1000), (rewritten, 1000)])
def test_orphans_that_change_during_the_removal_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, str], None], batch: int
) -> None:
    """Snapshots are looked for before each batch of files, and each file is looked at before it is removed."""
    job = job_with_checkpoints(tmp_path)
    first, last = two_strays(job)
    aged(tmp_path)
    monkeypatch.setattr(removal, "_BATCH", batch)
    after_the_first_file(monkeypatch, lambda: change(job, last))
    summary = sp.orphans(tmp_path, delete=True)
    assert (summary.files, summary.spared) == ((first,), (last,))
    assert os.path.exists(last)


def test_a_removal_stops_at_a_snapshot_whose_files_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_with_checkpoints(tmp_path)
    strays = two_strays(job)
    aged(tmp_path)
    monkeypatch.setattr(removal, "_BATCH", 1)
    after_the_first_file(monkeypatch, lambda: damaged(job, ""))
    with pytest.raises(sp.WriteError, match=r"the removal stopped after 1 of 2 files:\nnothing is removed.*chk-8 are unknown"):
        sp.orphans(tmp_path, delete=True)
    assert [os.path.exists(stray) for stray in strays] == [False, True]


@pytest.mark.parametrize("hook", [after_the_plan, after_the_first_file])
def test_files_that_a_new_checkpoint_shares_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Callable[[pytest.MonkeyPatch, Callable[[], object]], None]
) -> None:
    """A job is restored from the checkpoint that is removed, and completes a checkpoint meanwhile."""
    job = job_with_checkpoints(tmp_path, [2])
    heir = tmp_path / f"{7:032x}" / "chk-3"
    shared, saved = content(job / "shared"), shutil.copytree(job / "chk-2", tmp_path.with_name(f"{tmp_path.name}-saved"))
    monkeypatch.setattr(removal, "_BATCH", 1)
    hook(monkeypatch, lambda: shutil.copytree(saved, heir))
    summary = sp.dispose(job / "chk-2", delete=True)
    assert content(job / "shared") == shared
    assert names(summary.spared) == shared
    assert not (job / "chk-2" / "_metadata").exists()
    assert complete(tmp_path)["chk-3"]


@pytest.mark.parametrize(
    "call", [lambda path: sp.dispose(path / JOB / "chk-2", delete=True), lambda path: sp.retain(path, keep=1, delete=True)]
)
@pytest.mark.parametrize("hook", [after_the_plan, after_the_first_file])
def test_a_checkpoint_that_was_written_again_keeps_its_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hook: Callable[[pytest.MonkeyPatch, Callable[[], object]], None],
    call: Callable[[Path], sp.RemovalSummary],
) -> None:
    """A job that began again in the directory writes the checkpoint of the same number."""
    job = job_with_checkpoints(tmp_path, (2, 4))
    before = content(tmp_path)
    metadata = (job / "chk-2" / "_metadata").read_bytes()
    monkeypatch.setattr(removal, "_BATCH", 1)
    hook(monkeypatch, lambda: (job / "chk-2" / "_metadata").write_bytes(metadata))
    with suppress(sp.WriteError):
        call(tmp_path)
    assert content(tmp_path) == before
    assert complete(tmp_path) == {"chk-2": True, "chk-4": True}


def test_a_checkpoint_that_is_touched_just_before_its_removal_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_with_checkpoints(tmp_path, (2, 3, 4))
    before = content(job / "chk-3")
    after_the_first_file(monkeypatch, lambda: os.utime(job / "chk-3" / "_metadata"))
    summary = sp.retain(tmp_path, keep=1, delete=True)
    assert names(summary.snapshots) == {"chk-2"}
    assert f"{job}/chk-3/_metadata" in summary.spared
    assert content(job / "chk-3") == before
    assert complete(tmp_path) == {"chk-3": True, "chk-4": True}


def test_the_directory_is_looked_at_a_limited_number_of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``_metadata`` that is as it was listed is not read again for these looks."""
    job = job_with_checkpoints(tmp_path)
    for number in range(100):
        (job / "shared" / f"{number:08x}{STRAY[8:]}").write_bytes(b"?")
    aged(tmp_path)
    monkeypatch.setattr(removal, "_BATCH", 1)
    listings: list[str] = []
    openings: list[str] = []
    listed, opened = file_uses.files_below, file_uses.open_snapshot
    monkeypatch.setattr(file_uses, "files_below", lambda *arguments: listings.append("") or listed(*arguments))
    monkeypatch.setattr(file_uses, "open_snapshot", lambda *paths, **options: openings.append("") or opened(*paths, **options))
    assert len(sp.orphans(tmp_path, delete=True).files) == 100
    assert (len(listings), len(openings)) == (2 + 15, 2 * 3)  # ceil(100 / 16) files in a batch
