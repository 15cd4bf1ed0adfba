"""Scratch space: its directory, clean-up."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from state_processor.backends.files import scratch as module
from state_processor.backends.files.scratch import Scratch
from state_processor.support.errors import OptionError, ScratchSpaceError
from tests.waiting import status_of


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)


def test_a_full_disk(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(ScratchSpaceError, match=r"the disk is full\. Set STATE_PROCESSOR_SCRATCH"):
        scratch.directory()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ScratchSpaceError, match=r"file.*cannot be used"):
        Scratch(tmp_path / "file")


def test_closing_removes_the_files_of_the_process(tmp_path: Path, scratch: Scratch) -> None:
    other = Scratch(tmp_path)
    kept = other.directory()
    (scratch.directory() / "f").write_bytes(b"x")
    scratch.close()
    assert list(scratch.root.glob("run-*/store-*")) == [kept]
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


def test_the_directory_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.DIRECTORY_VARIABLE, str(tmp_path))
    space = module.scratch_space()
    assert space.root.parent == tmp_path
    assert module.scratch_space() is space


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
    space = Scratch(tmp_path)
    space.directory()
    space.close()
    assert (root / "run-unmarked" / "precious").read_bytes() == b"x"
    assert (tmp_path / "victim" / "alive").exists()


def test_a_fork_while_a_thread_opens_scratch_space_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.DIRECTORY_VARIABLE, str(tmp_path))
    with module._spaces_mutex:
        child = os.fork()
        if not child:
            signal.alarm(20)
            os._exit(0 if module.scratch_space().directory().is_dir() else 1)
        assert status_of(child) == 0
