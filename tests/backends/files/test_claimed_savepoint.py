"""Files that a checkpoint names as its own, but that belong to a claimed savepoint."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from pathlib import Path

import fsspec
import pytest

from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.files.storage import Entry, Storage
from state_processor.support.doors import Door, entered
from state_processor.support.errors import ForbiddenPathError, MissingFileError

JOB, OTHER = "a" * 32, "b" * 32
SAVEPOINT, SECOND = "savepoint-012345-0123456789ab", "savepoint-aaaaaa-0123456789ab"
NAMES = tuple(f"sst-{i}" for i in range(5))
SIZE = 7


class CountingStorage(Storage):
    """Counts requests."""

    asked = 0

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        self.asked += 1
        return super().is_file(path)

    def list(self, path: str | os.PathLike[str]) -> list[Entry]:
        self.asked += 1
        return super().list(path)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    (tmp_path / "flink" / "checkpoints" / JOB / "chk-3").mkdir(parents=True)
    return tmp_path / "flink" / "checkpoints"


def filled(directory: Path, names: Iterable[str] = (*NAMES, "_metadata"), content: bytes = b"x" * SIZE) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_bytes(content)
    return directory


def relocation(checkpoints: Path, *allowed: Path | str, storage: Storage | None = None) -> Relocation:
    return Relocation(storage or Storage(), str(checkpoints / JOB / "chk-3"), None, map(str, allowed), NAMES)


def test_files_of_the_checkpoint_itself_come_first(checkpoints: Path) -> None:
    filled(checkpoints / SAVEPOINT)
    own = filled(checkpoints / JOB / "chk-3", NAMES[:1])
    found = relocation(checkpoints)
    assert found.relative(NAMES[0], SIZE) == str(own / NAMES[0])
    assert found.relative(NAMES[1], SIZE) == str(checkpoints / SAVEPOINT / NAMES[1])


@pytest.mark.parametrize("place", [SAVEPOINT, f"{JOB}/{SAVEPOINT}", f"../{SAVEPOINT}", f"{OTHER}/chk-7", f"{JOB}/chk-2"])
def test_snapshots_near_the_checkpoint(checkpoints: Path, place: str) -> None:
    savepoint = filled(checkpoints / place)
    found = relocation(checkpoints).relative(NAMES[0], SIZE)
    assert Path(found).samefile(savepoint / NAMES[0])


def test_a_savepoint_without_metadata(checkpoints: Path) -> None:
    """Flink removes it with the snapshot, and keeps the files that later checkpoints refer to."""
    savepoint = filled(checkpoints / SAVEPOINT, NAMES)
    assert relocation(checkpoints).relative(NAMES[0], SIZE) == str(savepoint / NAMES[0])


@pytest.mark.parametrize("place", ["savepoints/mine", f"savepoints/{SAVEPOINT}", "mine", f"x/{JOB}/chk-1"])
def test_places_that_recorded_paths_may_not_refer_to(checkpoints: Path, place: str) -> None:
    savepoint = filled(checkpoints.parent / place)
    with pytest.raises(MissingFileError) as failure:
        relocation(checkpoints).relative(NAMES[0], SIZE, "operator orders")
    assert str(failure.value).splitlines() == [
        f"operator orders: {checkpoints / JOB / 'chk-3' / NAMES[0]} does not exist.",
        "It is a file of the savepoint that the job claimed (Flink's bug FLINK-39964). No such savepoint is near the checkpoint.",
        "Pass allow_paths=['DIR']: DIR is the directory of that savepoint",
    ]
    for allowed in (savepoint, savepoint.parent, savepoint.parent.parent):
        assert relocation(checkpoints, allowed).relative(NAMES[0], SIZE) == str(savepoint / NAMES[0])
    mapped = Relocation(Storage(), str(checkpoints / JOB / "chk-3"), {"s3://old": str(savepoint)}, (), NAMES)
    assert mapped.relative(NAMES[0], SIZE) == str(savepoint / NAMES[0])


def test_the_size_counts(checkpoints: Path) -> None:
    filled(checkpoints / SAVEPOINT, content=b"longer than recorded")
    with pytest.raises(MissingFileError, match="FLINK-39964"):
        relocation(checkpoints).relative(NAMES[0], SIZE)
    right = filled(checkpoints / SECOND)
    assert relocation(checkpoints).relative(NAMES[0], SIZE) == str(right / NAMES[0])


def test_two_savepoints_of_equal_rank(checkpoints: Path) -> None:
    one, other = filled(checkpoints / SAVEPOINT), filled(checkpoints / SECOND)
    with entered(Door.COMMAND_LINE), pytest.raises(MissingFileError) as failure:
        relocation(checkpoints).relative(NAMES[0], SIZE, "operator orders")
    assert str(failure.value).splitlines() == [
        f"operator orders: {NAMES[0]} ({SIZE} bytes) is a file of the savepoint that the job claimed (Flink's bug FLINK-39964).",
        f"Two directories have this file: {one} and {other}.",
        f"Pass the directory of the savepoint: --allow {one}, or the other one",
    ]
    assert relocation(checkpoints, other).relative(NAMES[0], SIZE) == str(other / NAMES[0])
    assert relocation(checkpoints, checkpoints, other).relative(NAMES[0], SIZE) == str(other / NAMES[0])
    with pytest.raises(MissingFileError, match="Two directories"):
        relocation(checkpoints, one, other).relative(NAMES[0], SIZE)


def test_the_nearer_savepoint_counts(checkpoints: Path) -> None:
    filled(checkpoints / SAVEPOINT)
    nearer = filled(checkpoints / JOB / SAVEPOINT)
    assert relocation(checkpoints).relative(NAMES[0], SIZE) == str(nearer / NAMES[0])


def test_in_a_bucket_every_directory_counts() -> None:
    files = fsspec.filesystem("memory")
    for name in ("_metadata", *NAMES):
        files.pipe(f"/claims/savepoints/mine/{name}", b"x" * SIZE)
    found = Relocation(Storage(), f"memory://claims/checkpoints/{JOB}/chk-3", reused=NAMES)
    assert found.relative(NAMES[0], SIZE) == f"memory://claims/savepoints/mine/{NAMES[0]}"


def test_a_savepoint_is_searched_for_once(checkpoints: Path) -> None:
    savepoint, storage = filled(checkpoints / SAVEPOINT), CountingStorage()
    found = relocation(checkpoints, storage=storage)
    found.relative(NAMES[0], SIZE)
    before = storage.asked
    for name in NAMES[1:]:
        assert found.relative(name, SIZE) == str(savepoint / name)
    assert storage.asked == before + len(NAMES) - 1
    copy = pickle.loads(pickle.dumps(found))
    filled(checkpoints / SECOND)  # the savepoint that was found stays
    assert copy.relative(NAMES[1], SIZE) == str(savepoint / NAMES[1])


def test_what_is_nowhere_is_searched_for_once(checkpoints: Path) -> None:
    for i in range(20):
        filled(checkpoints / f"savepoint-{i:06}-0123456789ab", ["_metadata"])
    storage = CountingStorage()
    found = relocation(checkpoints, storage=storage)
    for name in NAMES:
        with pytest.raises(MissingFileError):
            found.relative(name, SIZE)
    assert storage.asked < 40


def test_other_names_are_those_of_files_beside_metadata(checkpoints: Path) -> None:
    filled(checkpoints / SAVEPOINT, ["meta"])
    storage = CountingStorage()
    assert relocation(checkpoints, storage=storage).relative("meta", SIZE) == str(checkpoints / JOB / "chk-3" / "meta")
    assert storage.asked == 0


def test_links_that_lead_out_are_refused(checkpoints: Path, tmp_path: Path) -> None:
    home = filled(tmp_path / "home")
    (checkpoints / SAVEPOINT).symlink_to(home)
    with pytest.raises(ForbiddenPathError, match="is a link to"):
        relocation(checkpoints).relative(NAMES[0], SIZE)
    (checkpoints / SAVEPOINT).unlink()
    (checkpoints / SAVEPOINT).mkdir()
    (checkpoints / SAVEPOINT / NAMES[0]).symlink_to(home / NAMES[0])
    with pytest.raises((ForbiddenPathError, MissingFileError)):
        relocation(checkpoints).relative(NAMES[0], SIZE)
    assert relocation(checkpoints, home).relative(NAMES[0], SIZE) == str(home / NAMES[0])


@pytest.mark.parametrize("name", [f"{SAVEPOINT}/sst-0", "sub/sst-0"])
def test_names_with_directories_are_not_searched_for(checkpoints: Path, name: str) -> None:
    filled(checkpoints / SAVEPOINT)
    filled(checkpoints / SAVEPOINT / "sub")
    with pytest.raises(MissingFileError, match="does not exist"):
        Relocation(Storage(), str(checkpoints / JOB / "chk-3"), reused=[name]).relative(name, SIZE)


def test_directories_that_cannot_be_listed(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Storage, path: str | os.PathLike[str]) -> list[Entry]:
        raise MissingFileError(f"{path} cannot be listed: permission denied")

    monkeypatch.setattr(Storage, "list", refuse)
    with pytest.raises(MissingFileError, match="FLINK-39964"):
        relocation(checkpoints).relative(NAMES[0], SIZE)
