"""What a write leaves whose process was killed: the next write removes it at once, and takes nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from state_processor.backends.metadata.snapshot_metadata import METADATA_FILE, CheckpointMetadata, write_metadata
from state_processor.backends.write import staging
from state_processor.backends.write.staging import Staging, identity_of, is_gone, this_process
from state_processor.support.errors import OptionError, WriteError
from tests.waiting import SECONDS

KILLED = """
import os, sys
from state_processor.backends.write.staging import Staging
directory, where = sys.argv[1:]
staging = Staging(directory, "killed", replaces=True)
staging.prepare()
names = [staging.file_name("abababab", "keyed", 0, attempt) for attempt in (0, 1)]
for name in names:
    with staging.open(name) as file:
        file.write(b"state")

def kill(*_):
    os.kill(os.getpid(), 9)

if where == "before":
    kill()
elif where == "claimed":
    Staging._put_metadata = kill
else:
    Staging._clean = kill
    Staging.remove_all_but = kill
staging.commit(f"refers to {names[0]}".encode(), {names[0]: 5})
"""


def killed(directory: Path, where: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(directory), where], check=False, timeout=SECONDS)
    assert done.returncode == -9


def write(directory: Path, token: str = "next", replaces: bool = True) -> set[str]:
    staging = Staging(str(directory), token, replaces=replaces)
    staging.prepare()
    name = staging.file_name("abababab", "keyed", 0)
    with staging.open(name) as file:
        file.write(b"state")
    staging.commit(name.encode(), {name: 5})
    return {name, METADATA_FILE}


@pytest.mark.parametrize("where", ["before", "claimed", "complete"])
def test_the_next_write_needs_no_waiting_and_leaves_nothing_of_it(tmp_path: Path, where: str) -> None:
    killed(tmp_path, where)
    assert len(os.listdir(tmp_path)) >= 2
    assert write(tmp_path) == set(os.listdir(tmp_path))


@pytest.mark.parametrize("where", ["before", "claimed"])
def test_nor_does_one_that_replaces_nothing(tmp_path: Path, where: str) -> None:
    killed(tmp_path, where)
    assert write(tmp_path, replaces=False) == set(os.listdir(tmp_path))


def test_what_a_write_left_that_was_killed_when_it_was_complete_goes_and_its_savepoint_stays(tmp_path: Path) -> None:
    killed(tmp_path, "complete")
    (tmp_path / "notes").write_text("of the user")
    assert any(name.endswith("-claim") for name in os.listdir(tmp_path))
    with pytest.raises(OptionError, match="holds a savepoint already"):
        Staging(str(tmp_path), "next").prepare()
    left = set(os.listdir(tmp_path))
    assert {METADATA_FILE, "notes", "killed-abababab-keyed-0-0"} <= left
    assert not [name for name in left if name.endswith(("-claim", "-open"))]


def test_a_write_that_was_killed_before_its_mark_had_content_leaves_nothing(tmp_path: Path) -> None:
    program = KILLED.replace("staging.prepare()", "Staging._move = lambda *_: os.kill(os.getpid(), 9); staging.prepare()")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path), "before"], check=False, timeout=SECONDS)
    assert done.returncode == -9
    assert os.listdir(tmp_path) == ["killed-open-part"]
    assert Staging(str(tmp_path), "next").sweep() == ["killed-open-part"]
    assert os.listdir(tmp_path) == []


def test_a_mark_is_put_again_if_another_write_removes_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging, other = (Staging(str(tmp_path), token) for token in ("starting", "other"))
    move, swept = Staging._move, []

    def swept_once(self: Staging, name: str, target: str) -> None:
        if not swept:
            swept.append(other.sweep())
        move(self, name, target)

    monkeypatch.setattr(Staging, "_move", swept_once)
    staging.prepare()
    assert swept == [["starting-open-part"]]
    assert os.listdir(tmp_path) == ["starting-open"]
    assert other.sweep() == []


def test_files_of_writes_that_go_on_or_run_elsewhere_stay(tmp_path: Path) -> None:
    mine = Staging(str(tmp_path), "mine")
    mine.prepare()
    mine.open(mine.file_name("abababab", "keyed", 0)).close()
    elsewhere = json.dumps(json.loads(this_process()) | {"machine": "elsewhere", "pid": 999999999})
    (tmp_path / "other-open").write_text(elsewhere)
    (tmp_path / "other-abababab-keyed-0-0").write_bytes(b"")
    (tmp_path / "older-open").write_bytes(b"")
    before = set(os.listdir(tmp_path))
    assert Staging(str(tmp_path), "next").sweep() == []
    assert set(os.listdir(tmp_path)) == before


def test_a_claim_of_a_process_that_runs_is_respected(tmp_path: Path) -> None:
    (tmp_path / "other-claim").write_bytes(identity_of(os.getppid()))
    with pytest.raises(WriteError, match="another write is becoming complete right now"):
        write(tmp_path)


def test_a_claim_that_this_process_has_not_managed_to_remove_is_void(tmp_path: Path) -> None:
    (tmp_path / "other-claim").write_bytes(this_process())
    assert write(tmp_path) == set(os.listdir(tmp_path))


def test_processes_that_are_gone() -> None:
    assert not is_gone(this_process())
    child = subprocess.run(
        [sys.executable, "-c", "from state_processor.backends.write.staging import *; print(this_process().decode())"],
        capture_output=True,
        check=True,
        timeout=SECONDS,
    )
    assert is_gone(child.stdout)
    mine = json.loads(this_process())
    assert is_gone(json.dumps(mine | {"started": "1"}).encode())  # another process has this number now
    for unknown in (b"", b"x", b"[]", b"{}", json.dumps(mine | {"machine": "x", "pid": 999999999}).encode()):
        assert not is_gone(unknown)
    assert not is_gone(json.dumps(mine | {"pid": -1}).encode())


def test_a_killed_process_is_gone_before_its_parent_knows() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        identity = identity_of(child.pid)
        assert not is_gone(identity)
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
        assert is_gone(identity)


def test_files_are_on_the_disk_before_a_write_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, move = os.fsync, Staging._put_metadata

    def synced(descriptor: int) -> None:
        done.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def put(staging: Staging, metadata: bytes) -> None:
        done.append("put")
        move(staging, metadata)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Staging, "_put_metadata", put)
    write(tmp_path)
    assert done == ["next-abababab-keyed-0-0", "put", "next-metadata-part", tmp_path.name]


def test_identities_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_BOOT_ID", Path("/nowhere"))
    monkeypatch.setattr(staging, "_start_time", lambda _: None)
    assert not is_gone(this_process())
    assert is_gone(json.dumps(json.loads(this_process()) | {"pid": 2**22 + 1}).encode())


def test_a_write_that_becomes_complete_while_its_files_are_looked_at_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark that is listed and gone when it is read, and a claim that is there after it."""
    other = Staging(str(tmp_path), "other")
    other.prepare()
    name = other.file_name("abababab", "keyed", 0)
    with other.open(name) as file:
        file.write(b"state")
    listed = Staging._of_others
    steps = [
        lambda: (tmp_path / "other-open").rename(tmp_path / "other-claim"),
        lambda: (tmp_path / "other-claim").rename(tmp_path / METADATA_FILE),
    ]

    def list_and_go_on(staging: Staging) -> dict[str, list[str]]:
        found = listed(staging)
        if steps:
            steps.pop(0)()
        return found

    monkeypatch.setattr(Staging, "_of_others", list_and_go_on)
    assert Staging(str(tmp_path), "next").sweep() == []
    assert not steps
    assert set(os.listdir(tmp_path)) == {name, METADATA_FILE}


def test_files_without_a_sign_of_their_write_go_if_there_is_a_savepoint_that_does_not_refer_to_them(tmp_path: Path) -> None:
    stray = tmp_path / "late-abababab-keyed-0-0"
    stray.write_bytes(b"")
    assert Staging(str(tmp_path), "next").sweep() == []  # they may belong to a savepoint with its _metadata in another place
    (tmp_path / METADATA_FILE).write_bytes(b"damaged")
    assert Staging(str(tmp_path), "next").sweep() == []
    (tmp_path / METADATA_FILE).write_bytes(write_metadata(CheckpointMetadata(4, 1, ())))
    assert Staging(str(tmp_path), "next").sweep() == [stray.name]
    assert os.listdir(tmp_path) == [METADATA_FILE]
