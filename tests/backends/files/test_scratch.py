"""Scratch space: shared copies, bounds, clean-up."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from state_processor.backends.files import scratch as module
from state_processor.backends.files.scratch import Scratch
from state_processor.serializers.errors import OptionError, ScratchSpaceError


class Reads:
    """A file of one repeated byte that counts how often it is read."""

    def __init__(self, byte: bytes, size: int) -> None:
        self.size, self._byte, self.count = size, byte, 0

    def __call__(self, offset: int, length: int) -> memoryview:
        self.count += 1
        return memoryview(self._byte * length)


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path, limit=1000)


def test_a_copy_is_made_once_and_linked_into_every_directory(tmp_path: Path, scratch: Scratch) -> None:
    reads, other = Reads(b"a", 10), Scratch(tmp_path, limit=1000)
    for space in (scratch, scratch, other):
        target = space.directory() / "000001.sst"
        space.link_copy("s3://bucket/file", 10, reads, target)
        assert target.read_bytes() == b"a" * 10
    assert reads.count == 1


def test_copies_that_nobody_uses_make_room_the_oldest_first(scratch: Scratch) -> None:
    targets = {}
    for key, age in (("first", 300), ("second", 200), ("third", 100)):
        targets[key] = scratch.directory() / key
        scratch.link_copy(key, 300, Reads(b"x", 300), targets[key])
        past = targets[key].stat().st_mtime - age
        os.utime(targets[key], (past, past))
    targets["second"].unlink()
    targets["third"].unlink()
    again = {key: Reads(b"x", 300) for key in targets}
    scratch.link_copy("fourth", 300, Reads(b"y", 300), scratch.directory() / "fourth")
    for key, reads in again.items():
        if key != "second":
            scratch.link_copy(key, 300, reads, scratch.directory() / "f")
    assert {key: reads.count for key, reads in again.items()} == {"first": 0, "second": 0, "third": 0}
    with pytest.raises(ScratchSpaceError, match="needs 300 more bytes, 900 of 1000 bytes"):
        scratch.link_copy("second", 300, again["second"], scratch.directory() / "f")


def test_a_copy_larger_than_the_limit_is_refused(scratch: Scratch) -> None:
    with pytest.raises(ScratchSpaceError, match=r"needs 1001 more bytes.*STATE_PROCESSOR_SCRATCH"):
        scratch.link_copy("large", 1001, Reads(b"x", 1001), scratch.directory() / "f")


def test_a_full_disk_is_said_to_be_full_and_leaves_no_half_copy(scratch: Scratch) -> None:
    def full(offset: int, length: int) -> memoryview:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = scratch.directory() / "f"
    with pytest.raises(ScratchSpaceError, match=r"the disk is full \(10 bytes had to be written\)"):
        scratch.link_copy("file", 10, full, target)
    assert not target.exists()
    scratch.link_copy("file", 10, Reads(b"a", 10), target)
    assert target.read_bytes() == b"a" * 10


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ScratchSpaceError, match=r"file.*cannot be used"):
        Scratch(tmp_path / "file")


def test_closing_removes_what_the_process_made_and_the_last_one_everything(tmp_path: Path, scratch: Scratch) -> None:
    other = Scratch(tmp_path, limit=1000)
    scratch.link_copy("file", 10, Reads(b"a", 10), scratch.directory() / "f")
    scratch.close()
    assert len(list(scratch.root.glob("run-*"))) == 1
    assert len(list((scratch.root / "files").iterdir())) == 1
    other.close()
    assert [p.name for p in other.root.iterdir()] == ["lock"]


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = (
        "import os, sys; from state_processor.backends.files.scratch import Scratch; "
        "s = Scratch(sys.argv[1]); (s.directory() / 'f').write_bytes(b'x'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    root = next(tmp_path.glob("state-processor-*"))
    assert len(list(root.glob("run-*/store-*/f"))) == 1
    Scratch(tmp_path)
    assert list(root.glob("run-*/store-*")) == []


def test_limits_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.DIRECTORY_VARIABLE, str(tmp_path))
    monkeypatch.setenv(module.LIMIT_VARIABLE, "100")
    space = module.scratch_space()
    assert space.root.parent == tmp_path
    assert module.scratch_space() is space
    with pytest.raises(ScratchSpaceError, match="of 100 bytes"):
        space.link_copy("large", 101, Reads(b"x", 101), space.directory() / "f")
    monkeypatch.setenv(module.LIMIT_VARIABLE, "much")
    with pytest.raises(OptionError, match="STATE_PROCESSOR_SCRATCH_BYTES='much'"):
        Scratch(tmp_path)


def root_of(base: Path) -> Path:
    return base / f"state-processor-{os.getuid()}"


def test_a_root_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir(mode=0o700)
    (tmp_path / "victim" / "run-precious").mkdir()
    root_of(tmp_path).symlink_to(tmp_path / "victim")
    with pytest.raises(OptionError, match="is a link or a file, not a directory"):
        Scratch(tmp_path)
    assert [p.name for p in (tmp_path / "victim").iterdir()] == ["run-precious"]


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777, 0o1777])
def test_a_root_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    root_of(tmp_path).mkdir()
    root_of(tmp_path).chmod(mode)
    with pytest.raises(OptionError, match=f"has mode {mode:04o}, so other users can access it; expected 0700"):
        Scratch(tmp_path)
    assert list(root_of(tmp_path).iterdir()) == []


def test_a_root_with_other_things_is_refused(tmp_path: Path) -> None:
    (root_of(tmp_path) / "run-2024").mkdir(parents=True)
    root_of(tmp_path).chmod(0o700)
    with pytest.raises(OptionError, match="contains files that are not scratch files, such as run-2024"):
        Scratch(tmp_path)
    assert (root_of(tmp_path) / "run-2024").is_dir()


def test_a_root_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    (tmp_path / f"state-processor-{own + 1}").mkdir(mode=0o700)
    with pytest.raises(OptionError, match="belongs to another user"):
        Scratch(tmp_path)


def test_nothing_is_deleted_that_is_not_marked(tmp_path: Path) -> None:
    Scratch(tmp_path).close()
    root = root_of(tmp_path)
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "alive").write_bytes(b"")
    (root / "run-linked").symlink_to(tmp_path / "victim")
    (root / "run-unmarked").mkdir()
    (root / "run-unmarked" / "precious").write_bytes(b"x")
    (root / "files").mkdir()
    (root / "files" / "precious").write_bytes(b"x")
    (root / "files" / ("a" * 64)).symlink_to(tmp_path / "victim" / "alive")
    for path in (root / "files" / "precious", tmp_path / "victim" / "alive"):
        os.utime(path, (0, 0))
    space = Scratch(tmp_path, limit=10)
    space.link_copy("file", 10, Reads(b"a", 10), space.directory() / "f")
    space.close()
    for path in ("run-unmarked/precious", "files/precious"):
        assert (root / path).read_bytes() == b"x"
    assert (tmp_path / "victim" / "alive").exists()


def test_a_fork_while_a_thread_opens_scratch_space_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.DIRECTORY_VARIABLE, str(tmp_path))
    with module._spaces_mutex:
        child = os.fork()
        if not child:
            signal.alarm(20)
            os._exit(0 if module.scratch_space().directory().is_dir() else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_locks_of_processes_that_were_killed_go_and_those_of_running_ones_stay(tmp_path: Path) -> None:
    first = Scratch(tmp_path, limit=1000)
    left = first.root / f"making-{'0' * 64}"
    left.touch()
    with first._one_at_a_time("1" * 64):
        other = Scratch(tmp_path, limit=1000)
        assert [p.name for p in first.root.glob("making-*")] == [f"making-{'1' * 64}"]
    assert not list(first.root.glob("making-*"))
    other.close()
    first.close()
