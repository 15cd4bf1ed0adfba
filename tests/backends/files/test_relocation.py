from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import fsspec
import pytest

from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import read_metadata
from state_processor.support.doors import Door, entered
from state_processor.support.errors import ForbiddenPathError, MissingFileError
from tests.backends.snapshot_corpus import metadata_files, streams

JOB, EARLIER = "a" * 32, "b" * 32


class CountingStorage(Storage):
    """Counts how often it is asked for a file."""

    asked = 0

    def size_if_file(self, path):
        self.asked += 1
        return super().size_if_file(path)


def put(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint at its original place: files of its job, of an earlier job, and of a changelog."""
    original = tmp_path / "original" / "checkpoints"
    put(original, f"{JOB}/chk-3/_metadata", f"{JOB}/shared/s1", f"{JOB}/shared/s2", f"{JOB}/taskowned/t1")
    put(original, f"{EARLIER}/shared/e1", f"dstl/{JOB}/d1")
    return original


FILES = [f"{JOB}/shared/s1", f"{JOB}/shared/s2", f"{JOB}/taskowned/t1", f"{EARLIER}/shared/e1", f"dstl/{JOB}/d1"]


def moved(checkpoint, tmp_path):
    target = tmp_path / "elsewhere" / "copy"
    shutil.move(checkpoint, target)
    return target


@pytest.mark.parametrize("url", ["{}", "file:{}", "file://{}"])
@pytest.mark.parametrize("name", FILES)
def test_where_it_was_written(checkpoint, name, url):
    relocation = Relocation(Storage(), str(checkpoint / JOB / "chk-3"))
    assert Storage().read_all(relocation.locate(url.format(checkpoint / name))) == name.encode()


@pytest.mark.parametrize("url", ["{}", "file:{}", "s3://bucket{}", "hdfs://host:8020{}"])
@pytest.mark.parametrize("name", FILES)
def test_moved(checkpoint, tmp_path, name, url):
    now = moved(checkpoint, tmp_path)
    relocation = Relocation(Storage(), str(now / JOB / "chk-3"))
    assert relocation.locate(url.format(checkpoint / name)) == str(now / name)


def test_moved_to_another_file_system():
    fsspec.filesystem("memory").pipe({f"/moved/{JOB}/shared/s1": b"abc"})
    relocation = Relocation(Storage(), f"memory://moved/{JOB}/chk-3")
    assert relocation.locate(f"file:/data/{JOB}/shared/s1", 3) == f"memory://moved/{JOB}/shared/s1"


def test_a_copy_beside_the_snapshot_is_preferred(checkpoint, tmp_path):
    copy = tmp_path / "original" / "copy"
    shutil.copytree(checkpoint, copy)
    relocation = Relocation(Storage(), str(copy / JOB / "chk-3"))
    for name in FILES:
        assert relocation.locate(f"file:{checkpoint / name}") == str(copy / name)


def test_the_recorded_path_where_nothing_was_copied(checkpoint, tmp_path):
    alone = tmp_path / "alone"
    shutil.copytree(checkpoint / JOB / "chk-3", alone)
    relocation = Relocation(Storage(), str(alone), allow_paths=[str(checkpoint)])
    for name in FILES:
        assert relocation.locate(str(checkpoint / name)) == str(checkpoint / name)


def test_a_shorter_file_is_another_file(checkpoint, tmp_path):
    now = moved(checkpoint, tmp_path)
    relocation = Relocation(Storage(), str(now / JOB / "chk-3"))
    actual = (now / FILES[0]).stat().st_size
    assert relocation.locate(f"file:{checkpoint / FILES[0]}", actual) == str(now / FILES[0])
    problem = rf"/s1 has {actual} bytes; the snapshot records {actual + 1}\.\nIt was copied incompletely: copy it again$"
    with pytest.raises(MissingFileError, match=problem):
        relocation.locate(f"file:{checkpoint / FILES[0]}", actual + 1)


def test_a_move_is_deduced_once(checkpoint, tmp_path):
    now = moved(checkpoint, tmp_path)
    put(now, *(f"{JOB}/shared/n{i}" for i in range(50)))
    storage = CountingStorage()
    relocation = Relocation(storage, str(now / JOB / "chk-3"))
    relocation.locate(f"file:{checkpoint}/{JOB}/shared/n0")
    asked = storage.asked
    for i in range(1, 50):
        relocation.locate(f"file:{checkpoint}/{JOB}/shared/n{i}")
    assert storage.asked == asked + 49


def test_a_deduced_place_whose_files_were_moved_again(checkpoint, tmp_path):
    """What was deduced is tried first, and given up where its files are not there any more."""
    now = moved(checkpoint, tmp_path)
    relocation = Relocation(Storage(), str(now / JOB / "chk-3"), allow_paths=[f"file:{checkpoint}"])
    assert relocation.locate(f"file:{checkpoint}/{JOB}/shared/s1") == str(now / JOB / "shared" / "s1")
    put(checkpoint, f"{JOB}/shared/s1")
    shutil.rmtree(now / JOB / "shared")
    assert relocation.locate(f"file:{checkpoint}/{JOB}/shared/s1") == str(checkpoint / JOB / "shared" / "s1")
    put(now, f"{JOB}/shared/s1")  # a copy beside the snapshot counts again
    assert relocation.locate(f"file:{checkpoint}/{JOB}/shared/s1") == str(now / JOB / "shared" / "s1")
    shutil.rmtree(now / JOB / "shared")
    shutil.rmtree(checkpoint)
    with pytest.raises(MissingFileError, match="is missing"):
        relocation.locate(f"file:{checkpoint}/{JOB}/shared/s1")


def test_an_unmoved_directory_is_searched_for_once(checkpoint, tmp_path):
    put(checkpoint, *(f"{JOB}/shared/n{i}" for i in range(50)))
    alone = tmp_path / "alone"
    alone.mkdir()
    storage = CountingStorage()
    relocation = Relocation(storage, str(alone), allow_paths=[f"file:{checkpoint}"])
    relocation.locate(f"file:{checkpoint}/{JOB}/shared/n0")
    asked = storage.asked
    for i in range(1, 50):
        relocation.locate(f"file:{checkpoint}/{JOB}/shared/n{i}")
    assert storage.asked == asked + 49


@pytest.mark.parametrize("old", ["{}", "file:{}", "file://{}/"])
@pytest.mark.parametrize("new", ["{}", "file:{}/"])
def test_path_mapping_wins(checkpoint, tmp_path, old, new):
    put(tmp_path / "mapped", f"{JOB}/shared/s1")
    mapping = {old.format(checkpoint): new.format(tmp_path / "mapped"), old.format(checkpoint.parent): "/nowhere"}
    relocation = Relocation(Storage(), str(checkpoint / JOB / "chk-3"), mapping)
    assert relocation.locate(f"file:{checkpoint}/{JOB}/shared/s1") == str(tmp_path / "mapped" / JOB / "shared" / "s1")


def test_a_mere_file_name_counts_beside_the_metadata_only(tmp_path):
    put(tmp_path, "job/s1", "job/chk-3/_metadata")
    with pytest.raises(MissingFileError):
        Relocation(Storage(), str(tmp_path / "job" / "chk-3")).locate("file:/data/shared/s1")
    put(tmp_path, "job/chk-3/s1")
    relocation = Relocation(Storage(), str(tmp_path / "job" / "chk-3"))
    assert relocation.locate("file:/data/shared/s1") == str(tmp_path / "job" / "chk-3" / "s1")


def test_path_mapping_maps_whole_names(checkpoint):
    relocation = Relocation(Storage(), str(checkpoint / JOB / "chk-3"), {str(checkpoint)[:-1]: "/nowhere"})
    assert relocation.locate(str(checkpoint / FILES[0])) == str(checkpoint / FILES[0])


def test_a_wrong_path_mapping_is_an_error(checkpoint):
    relocation = Relocation(Storage(), str(checkpoint / JOB / "chk-3"), {str(checkpoint): "/nowhere"})
    with pytest.raises(MissingFileError, match=r"orders: .* is mapped to /nowhere/a+/shared/s1\. .*\nCorrect path_mapping$"):
        relocation.locate(str(checkpoint / FILES[0]), context="orders")


@pytest.mark.parametrize(
    ("recorded", "directory"),
    [
        (f"/data/{JOB}/shared/s1", "/data"),
        (f"/flink/logs/{JOB}/dstl/s1", "/flink/logs"),
        (f"/flink/{EARLIER}/taskowned/job_{JOB}_tm_1/s1", "/flink"),
        ("/data/savepoint-012345-0123456789ab/s1", "/data/savepoint-012345-0123456789ab"),
        (f"/{JOB}/shared/s1", f"/{JOB}/shared"),
    ],
)
def test_a_file_that_is_nowhere(tmp_path, recorded, directory):
    with pytest.raises(ForbiddenPathError) as e:
        Relocation(Storage(), str(tmp_path)).locate(f"file:{recorded}", 5, "operator orders")
    assert str(e.value).splitlines() == [
        f"operator orders: file:{recorded} (5 bytes) is missing.",
        f"No copy is near {tmp_path}, and the recorded path is outside of the snapshot's own storage.",
        f"If you trust the snapshot, pass allow_paths='{directory}' or, if its files are elsewhere now, "
        f"path_mapping={{'{directory}': 'DIR'}}",
    ]


def test_a_file_that_is_not_where_it_was_recorded(checkpoint):
    relocation = Relocation(Storage(), str(checkpoint / JOB / "chk-3"))
    with entered(Door.COMMAND_LINE), pytest.raises(MissingFileError) as e:
        relocation.locate(f"file:{checkpoint}/{JOB}/shared/gone", 5, "operator orders")
    assert str(e.value).splitlines() == [
        f"operator orders: file:{checkpoint}/{JOB}/shared/gone (5 bytes) is missing.",
        f"It is neither at the recorded path nor near {checkpoint / JOB / 'chk-3'}.",
        f"Pass --map {checkpoint}=DIR: DIR is the current directory of the files of {checkpoint}",
    ]


@pytest.mark.parametrize(
    ("job", "log"),
    [
        (f"checkpoints/{JOB}", f"dstl/{JOB}/dstl/d1"),
        (f"checkpoints/{JOB}", f"checkpoints/{JOB}/dstl/d1"),
        (f"checkpoints/{JOB}", f"checkpoints/dstl/{JOB}/dstl/d1"),
        ("renamed", f"renamed/{JOB}/dstl/d1"),
        ("renamed", "renamed/dstl/d1"),
        (".", "dstl/d1"),
        (".", "chk-3/dstl/d1"),
    ],
)
def test_the_log_of_a_changelog_moves_with_the_job(tmp_path, job, log):
    """Flink keeps it in ``BASE/JOB/dstl``; the base may be the directory of checkpoints or another."""
    put(tmp_path / job, "chk-3/_metadata")
    put(tmp_path, log)
    found = Relocation(Storage(), str(tmp_path / job / "chk-3")).locate(f"s3://logs/flink/dstl/{JOB}/dstl/d1", 3)
    assert Path(found).samefile(tmp_path / log)


def test_relative_files(tmp_path):
    assert Relocation(Storage(), str(tmp_path)).relative("x") == str(tmp_path / "x")
    assert Relocation(Storage(), "s3://b/snap").relative("x") == "s3://b/snap/x"


def test_it_can_be_pickled(checkpoint, tmp_path):
    now = moved(checkpoint, tmp_path)
    relocation = Relocation(Storage(), str(now / JOB / "chk-3"))
    relocation.locate(f"file:{checkpoint / FILES[0]}")
    copy = pickle.loads(pickle.dumps(relocation))
    assert copy.locate(f"file:{checkpoint / FILES[1]}") == str(now / FILES[1])


@pytest.mark.parametrize("file", metadata_files(generated=True))
def test_every_file_of_real_snapshots_is_found(file):
    storage = CountingStorage()
    relocation = Relocation(storage, str(file.parent))
    calls, directories = 0, set()
    for stream in streams(read_metadata(file.read_bytes()).operators):
        if isinstance(stream, (h.FileStateHandle, h.SegmentFileStateHandle)):
            end = stream.size + (stream.start if isinstance(stream, h.SegmentFileStateHandle) else 0)
            found = relocation.locate(stream.path, end)
            assert storage.size(found) >= end
            assert found.rsplit("/", 1)[1] == stream.path.rsplit("/", 1)[1]
            calls, directories = calls + 2, directories | {stream.path.rpartition("/")[0]}
        elif isinstance(stream, h.RelativeFileStateHandle):
            assert storage.size(relocation.relative(stream.path)) == stream.size
            calls += 1
    assert storage.asked <= calls + 100 * len(directories)  # a search for each directory, not for each file
