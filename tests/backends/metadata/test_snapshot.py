from __future__ import annotations

import os
import pickle

import fsspec
import pytest

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import locate_metadata, open_snapshot
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    write_metadata,
)
from state_processor.support.errors import CorruptSnapshotError, MissingFileError, NotASnapshotError, OptionError

RELATIVE = h.RelativeFileStateHandle("data", 4)
ABSOLUTE = h.FileStateHandle(3, "file:/data/job/shared/x")


def keyed(stream):
    return h.KeyGroupsStateHandle(7, h.KeyGroupRange(0, 0), h.Offsets.of([0]), stream)


SUBTASKS = (OperatorSubtaskState(0, managed_keyed=keyed(RELATIVE)), OperatorSubtaskState(1, managed_keyed=keyed(ABSOLUTE)))
METADATA = CheckpointMetadata(3, 7, (OperatorState("00" * 16, 2, 128, SUBTASKS),))


@pytest.fixture
def checkpoint(tmp_path):
    directory = tmp_path / "job" / "chk-7"
    directory.mkdir(parents=True)
    (directory / "_metadata").write_bytes(write_metadata(METADATA))
    (directory / "data").write_bytes(b"four")
    return directory


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/_metadata", "file:{}", "file://{}", "file:{}/_metadata"])
def test_any_way_to_name_it(checkpoint, form):
    assert locate_metadata(form.format(checkpoint)) == f"{checkpoint}/_metadata"


def test_path_objects_and_relative_paths(checkpoint, monkeypatch):
    assert locate_metadata(checkpoint) == f"{checkpoint}/_metadata"
    monkeypatch.chdir(checkpoint.parent)
    assert locate_metadata("chk-7") == f"{checkpoint}/_metadata"
    monkeypatch.chdir(checkpoint)
    assert locate_metadata("_metadata") == locate_metadata(".") == f"{os.getcwd()}/_metadata"


def test_a_directory_and_a_loop_of_links_with_the_name_of_the_file(checkpoint, tmp_path):
    directory = checkpoint.rename(tmp_path / "_metadata")
    assert open_snapshot(directory).directory == str(directory)
    with pytest.raises(NotASnapshotError, match="does not contain _metadata, so it is not a snapshot"):
        open_snapshot(tmp_path)
    loop = tmp_path / "loop"
    loop.mkdir()
    (loop / "_metadata").symlink_to("_metadata")
    with pytest.raises(NotASnapshotError, match="loop does not contain _metadata"):
        open_snapshot(loop)


def test_snapshots_below_are_named(checkpoint, tmp_path):
    (tmp_path / "savepoint-1").mkdir()
    (tmp_path / "savepoint-1" / "_metadata").touch()
    with pytest.raises(NotASnapshotError) as e:
        locate_metadata(tmp_path)
    assert str(e.value) == (
        f"{tmp_path} does not contain _metadata, so it is not a snapshot. "
        f"Snapshots below it: {tmp_path}/savepoint-1, {checkpoint}"
    )


def test_many_snapshots_below_are_cut_short(tmp_path):
    for i in range(30):
        (tmp_path / f"chk-{i:02}").mkdir()
        (tmp_path / f"chk-{i:02}" / "_metadata").touch()
    with pytest.raises(NotASnapshotError, match=r"Snapshots below it: [^ ]*chk-29, [^ ]*chk-28 and 28 more$"):
        locate_metadata(tmp_path)


def test_looking_below_has_an_end(tmp_path):
    deep = tmp_path / "a" / "b" / "c" / "chk-1"
    deep.mkdir(parents=True)
    (deep / "_metadata").touch()
    with pytest.raises(NotASnapshotError, match="No snapshots are near below it"):
        locate_metadata(tmp_path)
    with pytest.raises(NotASnapshotError, match=r"Snapshots below it: .*chk-1$"):
        locate_metadata(tmp_path / "a")


def test_what_is_no_snapshot(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotASnapshotError, match="file is a file; a snapshot is a directory"):
        locate_metadata(tmp_path / "file")
    with pytest.raises(NotASnapshotError, match="nowhere does not exist"):
        locate_metadata(tmp_path / "nowhere")
    with pytest.raises(NotASnapshotError, match="_metadata does not exist"):
        locate_metadata(tmp_path / "_metadata")


def test_open(checkpoint):
    (checkpoint.parent / "shared").mkdir()
    (checkpoint.parent / "shared" / "x").write_bytes(b"abc")
    snapshot = pickle.loads(pickle.dumps(open_snapshot(checkpoint)))
    assert snapshot.metadata == METADATA
    assert snapshot.directory == str(checkpoint)
    assert snapshot.open(RELATIVE).read() == b"four"
    assert snapshot.open(ABSOLUTE).read() == b"abc"


def test_open_with_path_mapping(checkpoint, tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    with pytest.raises(MissingFileError, match="path_mapping"):
        open_snapshot(checkpoint).open(ABSOLUTE)
    assert open_snapshot(checkpoint, {"file:/data/job/shared": str(tmp_path)}).open(ABSOLUTE).read() == b"abc"


def test_open_by_url():
    fsspec.filesystem("memory").pipe({"/there/chk-1/_metadata": write_metadata(METADATA), "/there/chk-1/data": b"four"})
    snapshot = open_snapshot("memory://there/chk-1")
    assert snapshot.directory == "memory://there/chk-1"
    assert snapshot.open(RELATIVE).read() == b"four"
    with pytest.raises(NotASnapshotError, match=r"memory://there/chk-1$"):
        locate_metadata("memory://there")


def test_open_what_is_damaged(checkpoint):
    (checkpoint / "_metadata").write_bytes(write_metadata(METADATA)[:-1])
    with pytest.raises(CorruptSnapshotError, match=f"{checkpoint}/_metadata, offset"):
        open_snapshot(checkpoint)


FOREIGN = [
    (b"", "the file is empty: writing or copying it was interrupted"),
    (b"PAR1\x15\x04", "it is a Parquet file"),
    (b"PK\x03\x04\x14", "it is a zip archive; unpack it"),
    (b'{"id": 1}', "it is JSON"),
    (b"notes\nof a job", "it is text: 'notes'"),
    (b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of Git LFS; run git lfs pull"),
    (b"\x00\x01\x02\x03\x04", "it starts with 00010203, not 4960672d"),
]


@pytest.mark.parametrize(("content", "found"), FOREIGN)
def test_other_files_are_named_as_what_they_are(content, found, tmp_path):
    (tmp_path / "_metadata").write_bytes(content)
    with pytest.raises(CorruptSnapshotError) as e:
        open_snapshot(tmp_path)
    assert f"{tmp_path}/_metadata, offset 0: " in str(e.value)
    assert found in str(e.value)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["offsets", "commits", "state"], "a checkpoint of Spark Structured Streaming"),
        (["_delta_log", "data"], "a Delta table"),
        (["_SUCCESS"], "the output of a Spark job"),
        (["CURRENT", "MANIFEST-000004"], "a working directory of RocksDB"),
        (["shared", "taskowned"], "the checkpoint directory of a job without a complete checkpoint"),
    ],
)
def test_other_directories_are_named_as_what_they_are(names, found, tmp_path):
    for name in names:
        (tmp_path / name).mkdir()
    with pytest.raises(NotASnapshotError, match=f"{tmp_path} does not contain _metadata, .* It looks like {found}"):
        locate_metadata(tmp_path)


def test_near_names_of_a_path_that_does_not_exist(checkpoint):
    with pytest.raises(NotASnapshotError, match=rf"chk7 does not exist; did you mean {checkpoint}\?$"):
        locate_metadata(checkpoint.parent / "chk7")
    with pytest.raises(NotASnapshotError, match=f"nor does {checkpoint.parent}/nowhere; pass the directory"):
        locate_metadata(checkpoint.parent / "nowhere" / "chk-7")


def test_a_file_of_a_snapshot_is_not_the_snapshot(checkpoint):
    (checkpoint / "part").touch()
    with pytest.raises(NotASnapshotError, match=f"part is a file; .*: pass {checkpoint}$"):
        locate_metadata(checkpoint / "part")


@pytest.mark.parametrize(("path", "found"), [("", "''"), (None, "None"), (7, "a int")])
def test_what_is_no_path(path, found):
    with pytest.raises(OptionError, match=f"path: expected the directory of a savepoint or checkpoint, found {found}"):
        locate_metadata(path)
