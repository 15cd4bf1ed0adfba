"""Paths in a snapshot are data of whoever wrote it: they choose no host, no credentials, and no files of the reader's machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs as pafs
import pytest

import state_processor as sp
from state_processor.backends.files import storage
from state_processor.backends.files.location import Location
from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    write_metadata,
)
from state_processor.backends.read.raw_state import RawStateReader
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.support.errors import (
    CorruptSnapshotError,
    ForbiddenPathError,
    MissingFileError,
    StateProcessorError,
    UnsupportedFormatError,
)
from tests.waiting import SECONDS

JOB, OTHER = "a" * 32, "b" * 32
SECRET = b"[default]\naws_secret_access_key = hunter2\n"


def snapshot_with(directory: Path, stream: h.StreamStateHandle) -> Path:
    """A snapshot with one raw operator state; a handle refers to its bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    raw = h.OperatorStreamStateHandle((h.OperatorStateMeta("_default_", 0, h.Offsets.of([0])),), stream)
    subtask = OperatorSubtaskState(0, raw_operator=raw)
    metadata = CheckpointMetadata(3, 7, (OperatorState("00" * 16, 1, 128, (subtask,)),))
    (directory / "_metadata").write_bytes(write_metadata(metadata))
    return directory


def content(directory: Path | str, **options: object) -> bytes:
    """What the raw state of such a snapshot is read to be."""
    snapshot = open_snapshot(str(directory), **options)  # type: ignore[arg-type]
    handle = snapshot.metadata.operators[0].subtasks[0].raw_operator
    assert handle is not None
    return bytes(snapshot.open(handle.stream, "operator x").read())


@contextmanager
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """A host that takes whatever is sent to it."""
    taken: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    taken.append(connection.recv(65536))

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}", taken


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    settings = {"ACCESS_KEY_ID": "AKIAREADER", "SECRET_ACCESS_KEY": "s", "SESSION_TOKEN": "TOKENOFTHEREADER", "REGION": "eu"}
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    "form", ["s3://bucket/x?endpoint_override={}&scheme=http", "s3a://bucket/x?scheme=http&endpoint_override={}"]
)
@pytest.mark.parametrize("allowed", [[], ["s3://bucket"]])
def test_a_recorded_query_directs_no_request_to_another_host(tmp_path: Path, form: str, allowed: list[str]) -> None:
    with listener() as (host, taken):
        directory = snapshot_with(tmp_path / "snapshot", h.FileStateHandle(3, form.format(host)))
        with pytest.raises(ForbiddenPathError, match=r"has a query or fragment\. It is never used"):
            content(directory, allow_paths=allowed)
        assert taken == []


@pytest.mark.usefixtures("credentials")
def test_a_query_in_a_relative_path_directs_no_request_either() -> None:
    with listener() as (host, taken):
        relocation = Relocation(Storage(), "s3://bucket/savepoint")
        with pytest.raises(ForbiddenPathError, match="has a query or fragment"):
            relocation.relative(f"x?endpoint_override={host}&scheme=http", context="operator x")
        with pytest.raises(ForbiddenPathError, match="has a query or fragment"):
            Relocation(Storage(), f"s3://bucket/savepoint?scheme=http&endpoint_override={host}").locate(f"file:/x?region={host}")
        assert taken == []


@pytest.mark.parametrize(
    "recorded",
    [
        "s3://other/x",
        "http://127.0.0.1:1/x",
        "hdfs://host:8020/x",
        "local:///etc/passwd",
        "zip://x::file:///tmp/y",
        "memory://x/y",
        "github://o:r@main/x",
    ],
)
def test_no_connection_is_made_to_storage_that_nobody_named(
    tmp_path: Path, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(_: Storage, location: Location) -> pafs.FileSystem:
        assert location.is_local, f"connects to {location}"
        return pafs.LocalFileSystem()

    monkeypatch.setattr(Storage, "_connect", connect)
    directory = snapshot_with(tmp_path / "snapshot", h.FileStateHandle(0, recorded))
    with pytest.raises(ForbiddenPathError, match=r"(?s)operator x: .*outside of .* path_mapping={"):
        content(directory)


def test_a_recorded_user_name_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def size_to_open(_: Storage, path: str) -> int | None:
        asked.append(path)
        return 3 if "bucket/job/x" in path else None

    monkeypatch.setattr(Storage, "size_to_open", size_to_open)
    own = "s3://mine:secret@bucket/snapshots/1?region=eu"
    found = Relocation(Storage(), own).locate("s3a://AKIATHEIRS:theirs@bucket/job/x", 3)
    assert not [path for path in asked if "theirs" in path.lower()]
    assert found == "s3://mine:secret@bucket/job/x?region=eu"


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_local_files_outside_of_the_snapshot_are_not_read(tmp_path: Path, form: str) -> None:
    outside = tmp_path / "home" / ".aws" / "credentials"
    outside.parent.mkdir(parents=True)
    outside.write_bytes(SECRET)
    handle = h.FileStateHandle(len(SECRET), form.format(outside))
    for place in (tmp_path / "snapshot", tmp_path / "home" / "chk-1", tmp_path / "home" / JOB / "chk-1"):
        directory = snapshot_with(place, handle)
        with pytest.raises(ForbiddenPathError, match=r"outside of .*\n.* path_mapping={"):
            content(directory)
        assert content(directory, allow_paths=[str(outside.parent)]) == SECRET
        assert content(directory, allow_paths=[f"file://{tmp_path}/home"]) == SECRET
        assert content(directory, path_mapping={str(outside.parent): str(outside.parent)}) == SECRET
        with pytest.raises(ForbiddenPathError):
            content(directory, allow_paths=[str(outside)[:-1]])


@pytest.mark.parametrize("up", ["../credentials", "x/../../credentials", "/../credentials"])
def test_parts_that_lead_up_are_refused(tmp_path: Path, up: str) -> None:
    (tmp_path / "credentials").write_bytes(SECRET)
    for stream in (
        h.RelativeFileStateHandle(up, len(SECRET)),
        h.FileStateHandle(len(SECRET), f"file:{tmp_path}/snapshot/{up}"),
        h.SegmentFileStateHandle(0, len(SECRET), 0, f"{tmp_path}/snapshot/{up}", "log"),
    ):
        directory = snapshot_with(tmp_path / "snapshot", stream)
        with pytest.raises(ForbiddenPathError, match=r"operator x: .* has a part '\.\.'"):
            content(directory)
        with pytest.raises(ForbiddenPathError):
            content(directory, path_mapping={f"{tmp_path}/snapshot": f"{tmp_path}/snapshot"})


def test_links_that_lead_out_are_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "credentials").write_bytes(SECRET)
    directory = snapshot_with(tmp_path / "x" / JOB / "chk-1", h.RelativeFileStateHandle("state", len(SECRET)))
    (directory / "state").symlink_to(tmp_path / "home" / "credentials")
    with pytest.raises(ForbiddenPathError, match=r"state \(recorded as 'state'\) is a link to .*/home/credentials"):
        content(directory)
    assert content(directory, allow_paths=[str(tmp_path / "home")]) == SECRET
    (directory.parent / "shared").symlink_to(tmp_path / "home")
    for recorded in (f"/gone/{JOB}/shared/credentials", f"{directory.parent}/shared/credentials"):
        snapshot_with(directory, h.FileStateHandle(len(SECRET), recorded))
        with pytest.raises(ForbiddenPathError, match=r"is a link to .*/home/credentials"):
            content(directory)


def test_a_snapshot_behind_a_link_of_the_user_is_read(tmp_path: Path) -> None:
    directory = snapshot_with(tmp_path / "real" / JOB / "chk-1", h.FileStateHandle(2, f"/gone/{JOB}/shared/s"))
    (directory.parent / "shared").mkdir()
    (directory.parent / "shared" / "s").write_bytes(b"ok")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "latest").symlink_to(directory)
    assert content(tmp_path / "link" / JOB / "chk-1") == b"ok"
    (directory / "s").symlink_to(directory.parent / "shared" / "s")
    assert content(tmp_path / "link" / JOB / "chk-1") == b"ok"


FIFO_PROGRAM = """
import sys
from state_processor.backends.files.storage import Storage
from state_processor.support.errors import MissingFileError
try:
    Storage().open(sys.argv[1], "operator x").read(0, 1)
except MissingFileError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("make", "kind"),
    [(os.mkfifo, "prw"), (lambda path: os.symlink("/dev/zero", path), "crw"), (os.mkdir, "drwx")],
    ids=["pipe", "device", "directory"],
)
def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], None], kind: str) -> None:
    path = tmp_path / "state"
    make(path)
    done = subprocess.run(
        [sys.executable, "-c", FIFO_PROGRAM, str(path)], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert done.stdout.startswith(f"operator x: {path} cannot be read: it is not a regular file ({kind}")


def test_a_fifo_in_a_snapshot_is_refused(tmp_path: Path) -> None:
    directory = snapshot_with(tmp_path / "snapshot", h.RelativeFileStateHandle("state", 3))
    os.mkfifo(directory / "state")
    with pytest.raises(MissingFileError, match=r"operator x: .*state cannot be read: it is not a regular file"):
        content(directory)


def test_storage_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(pafs.LocalFileSystem):
        def open_input_file(self, path: str) -> None:
            time.sleep(60)

        def get_file_info(self, path: str) -> None:
            time.sleep(60)

    monkeypatch.setattr(storage, "_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(Storage, "_connect", lambda *_: Silent())
    started = time.monotonic()
    with pytest.raises(MissingFileError, match=r"operator x: gs://b/x cannot be read: .*not answered for 0.2 seconds"):
        Storage().read_all("gs://b/x", "operator x")
    with pytest.raises(MissingFileError, match="not answered"):
        Storage().is_file("gs://b/x")
    assert time.monotonic() - started < 60


@pytest.mark.usefixtures("credentials")
def test_connections_to_s3_have_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, object]] = []
    monkeypatch.setattr(pafs, "S3FileSystem", lambda **settings: given.append(settings) or pafs.LocalFileSystem())
    Storage().filesystem("s3://bucket/x?region=eu")
    Storage().filesystem("s3://bucket/x?region=eu&request_timeout=5")
    assert [(g["connect_timeout"], g["request_timeout"]) for g in given] == [(20.0, 60.0), (20.0, 5.0)]


@pytest.mark.parametrize("path", ["x\0y", "/gone/x\0y", "file:/x\0", "s3://bucket/x\0y", "\ud800", "/gone/\udfff", "a" * 5000])
@pytest.mark.parametrize("kind", [h.RelativeFileStateHandle, h.FileStateHandle])
def test_names_that_no_file_can_have(tmp_path: Path, path: str, kind: type) -> None:
    handle = h.RelativeFileStateHandle(path, 3) if kind is h.RelativeFileStateHandle else h.FileStateHandle(3, path)
    directory = snapshot_with(tmp_path / "snapshot", handle)
    with pytest.raises(StateProcessorError) as failure:
        content(directory)
    str(failure.value).encode()
    if not path.startswith("a"):
        assert isinstance(failure.value, CorruptSnapshotError)
        assert "operator x" in str(failure.value) or "_metadata, offset" in str(failure.value)


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("path", ["x\0y", "\ud800", "s3://bu\0cket/x", "nosuch://x/\0"])
def test_paths_of_users_that_no_file_can_have(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # where nobody listens; the region of a bucket is on the network
    for call in (Storage().read_all, Storage().is_file, Storage().list, open_snapshot):
        with pytest.raises(StateProcessorError):
            call(path)  # type: ignore[operator]


def test_a_file_system_whose_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise ImportError("install adlfs to access abfs")

    monkeypatch.setattr(Storage, "_connect", connect)
    with pytest.raises(UnsupportedFormatError, match=r"abfss://.*: a library for its file system is missing .*adlfs"):
        Storage().read_all("abfss://container@account/x")


def test_containers_are_no_users() -> None:
    relocation = Relocation(Storage(), "abfss://mine@account.dfs.core.windows.net/snapshots/1")
    relocation.storage.size_to_open = lambda path: 3 if path.endswith("net/job/x") else None  # type: ignore[method-assign]
    own = "abfss://mine@account.dfs.core.windows.net/job/x"
    assert relocation.locate(own) == own
    with pytest.raises(ForbiddenPathError):
        relocation.locate("abfss://theirs@account.dfs.core.windows.net/else/y")


def test_raw_state_names_operator_and_file(tmp_path: Path) -> None:
    directory = snapshot_with(tmp_path / "snapshot", h.FileStateHandle(3, "/etc/hostname"))
    snapshot = open_snapshot(directory)
    reader = RawStateReader(StoredOperator(snapshot, snapshot.metadata.operators[0]), "RAW_OPERATOR", ReadOptions().of_states())
    with pytest.raises(sp.ForbiddenPathError, match="/etc/hostname"):
        [list(reader.read(split)) for split in reader.splits()]
