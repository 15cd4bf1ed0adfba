from __future__ import annotations

import os
import pickle
from threading import Barrier

import boto3
import fsspec
import numpy as np
import pyarrow.fs as pafs
import pytest
from fsspec.spec import AbstractFileSystem

from state_processor.backends.files.location import Location
from state_processor.backends.files.ordered_threads import at_once
from state_processor.backends.files.storage import Storage
from state_processor.support.errors import MissingFileError, OptionError, UnsupportedFormatError
from tests.object_stores import S3Server
from tests.waiting import status_of

SMALL, LARGE = b"0123456789", bytes(range(256)) * 1024


@pytest.fixture
def files(tmp_path):
    (tmp_path / "small").write_bytes(SMALL)
    (tmp_path / "large").write_bytes(LARGE)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "below").write_bytes(b"x")
    return tmp_path


@pytest.fixture(scope="module")
def s3_endpoint():
    server = S3Server()
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_endpoint, monkeypatch):
    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="states", ACL="public-read")
    client.put_object(Bucket="states", Key="snap/_metadata", Body=SMALL, ACL="public-read")
    client.put_object(Bucket="states", Key="snap/dir/file", Body=LARGE, ACL="public-read")
    return "states"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a/b", ("", "", "/a/b", "")),
        ("a/b", ("", "", "a/b", "")),
        ("file:/a/b", ("", "", "/a/b", "")),
        ("file:///a/b", ("", "", "/a/b", "")),
        ("file://localhost/a", ("", "", "/a", "")),
        ("FILE:/a b%20c?d", ("", "", "/a b%20c?d", "")),
        ("a:b", ("", "", "a:b", "")),
        ("s3://bucket/a/b", ("s3", "bucket", "/a/b", "")),
        ("s3a://bucket/a", ("s3", "bucket", "/a", "")),
        ("s3://bucket/a?region=eu", ("s3", "bucket", "/a", "region=eu")),
        ("hdfs://name:8020/a", ("hdfs", "name:8020", "/a", "")),
        ("hdfs:/a", ("hdfs", "", "/a", "")),
    ],
)
def test_locations(text, expected):
    assert tuple(Location.parse(text)) == expected


def test_a_file_url_with_a_host_is_a_mistake():
    with pytest.raises(OptionError, match="file:///data/x"):
        Location.parse("file://data/x")


@pytest.mark.parametrize(
    ("text", "parent"),
    [("/a/b", "/a"), ("/a/b/", "/a"), ("/a", "/"), ("/", "/"), ("a/b", "a"), ("a", "."), ("s3://b/a?q=1", "s3://b/?q=1")],
)
def test_parents(text, parent):
    assert str(Location.parse(text).parent) == parent


def test_joining_keeps_the_query():
    assert str(Location.parse("s3://b/a/?region=eu").joined("c/d")) == "s3://b/a/c/d?region=eu"


@pytest.mark.parametrize("url", ["{}", "file:{}", "file://{}"])
@pytest.mark.parametrize(("name", "content"), [("small", SMALL), ("large", LARGE), ("empty", b"")])
def test_local_files(files, url, name, content):
    path = url.format(files / name)
    storage = Storage()
    assert storage.read_all(path) == content
    assert storage.size(path) == len(content)
    assert storage.exists(path)
    assert storage.is_file(path)
    assert storage.size_if_file(path) == len(content)
    assert np.frombuffer(storage.read_all(path), dtype=np.uint8).tobytes() == content


def test_paths_may_be_path_objects(files):
    assert Storage().read_all(files / "small") == SMALL


@pytest.mark.parametrize("name", ["small", "large"])
def test_ranges(files, name):
    path = files / name
    assert Storage().open(path).read(3, 4) == path.read_bytes()[3:7]
    assert Storage().open(path).read(10, 0) == b""
    size = path.stat().st_size
    with pytest.raises(MissingFileError, match=rf"orders: .*{name} has {size} bytes; bytes 5 to 1000005 are needed"):
        Storage().open(path, "orders").read(5, 1_000_000)


def test_a_file_that_shrinks_while_it_is_read_is_an_error(files):
    file = Storage().open(files / "large")
    assert len(file.read(0, 10)) == 10
    with (files / "large").open("r+b") as opened:
        opened.truncate(5)
    with pytest.raises(MissingFileError, match="large ends at 5"):
        file.read(0, 10)


def test_directories(files):
    storage = Storage()
    assert storage.exists(files / "dir")
    assert storage.is_directory(files / "dir")
    assert not storage.is_file(files / "dir")
    assert storage.size_if_file(files / "dir") is None
    listed = [(e.name, e.path, e.is_directory, e.size) for e in storage.list(files)]
    assert [(name, is_directory) for name, _, is_directory, _ in listed] == [
        ("dir", True), ("empty", False), ("large", False), ("small", False),
    ]  # fmt: skip
    assert listed[3] == ("small", str(files / "small"), False, 10)
    assert storage.list(files / "nowhere") == []


def test_missing_files(files):
    storage = Storage()
    path = files / "nowhere"
    assert not storage.exists(path)
    for read in (storage.read_all, storage.size):
        with pytest.raises(MissingFileError, match=r"operator orders: .*nowhere does not exist"):
            read(path, "operator orders")
    with pytest.raises(MissingFileError, match="cannot be read"):
        storage.read_all(files / "dir")


def test_a_file_shorter_than_recorded(files):
    file = Storage().open(files / "small", "state total", recorded_size=11)
    with pytest.raises(MissingFileError, match=r"state total: .*small has 10 bytes; the snapshot records 11"):
        file.read(0, 1)
    assert Storage().open(files / "small", recorded_size=10).read(0, 10) == SMALL


def test_storage_and_open_files_can_be_pickled(files):
    storage = Storage({"region": "eu"})
    file = storage.open(files / "large")
    file.read(0, 1)
    storage.exists(files)
    assert pickle.loads(pickle.dumps(file)).read(0, 256) == LARGE[:256]
    assert pickle.loads(pickle.dumps(storage)).options == {"region": "eu"}


class RememberingFileSystem(AbstractFileSystem):
    """A file system that answers from its listings, as those of Azure and Google do. It has the files of ``memory``."""

    protocol = "remembering"

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        entries = self.dircache[path] if path in self.dircache else fsspec.filesystem("memory").ls(path, detail=True)
        self.dircache[path] = entries = [{**entry, "name": entry["name"].strip("/")} for entry in entries]
        return entries if detail else [entry["name"] for entry in entries]

    def _open(self, path, mode="rb", **kwargs):
        return fsspec.filesystem("memory").open(path, mode)


def test_files_that_others_replace_are_seen_in_spite_of_kept_listings():
    fsspec.register_implementation("remembering", RememberingFileSystem, clobber=True)
    files = fsspec.filesystem("memory")
    files.pipe("/kept/first", SMALL)
    theirs = fsspec.filesystem("remembering")
    assert [e["name"] for e in theirs.ls("kept")] == ["kept/first"]
    storage = Storage()
    assert [e.name for e in storage.list("remembering://kept")] == ["first"]
    assert [e.size for e in storage.list("remembering://kept")] == [len(SMALL)]
    files.pipe({"/kept/first": LARGE, "/kept/second": b"x"})
    for again in (storage, Storage()):
        assert [(e.name, e.size) for e in again.list("remembering://kept")] == [("first", len(LARGE)), ("second", 1)]
        assert bytes(again.read_all("remembering://kept/first")) == LARGE
    assert [e["name"] for e in theirs.ls("kept")] == ["kept/first"]  # their own instance is as it was


def test_two_settings_for_one_scheme_are_refused():
    storage = Storage()
    storage.filesystem("s3://states/a?region=eu-west-1")
    storage.filesystem("s3://states/b")
    with pytest.raises(OptionError, match=r"expected the settings \?region=eu-west-1 .*, found \?region=us-east-2"):
        storage.filesystem("s3://others/c?region=us-east-2")


def test_any_other_scheme_by_fsspec():
    fsspec.filesystem("memory").pipe({"/snap/_metadata": SMALL, "/snap/dir/file": b"x"})
    storage = Storage()
    assert storage.read_all("memory://snap/_metadata") == SMALL
    assert storage.open("memory://snap/_metadata").read(2, 3) == SMALL[2:5]
    assert storage.size("memory://snap/_metadata") == 10
    assert [(e.name, e.path, e.is_directory) for e in storage.list("memory://snap")] == [
        ("_metadata", "memory://snap/_metadata", False),
        ("dir", "memory://snap/dir", True),
    ]
    assert not storage.exists("memory://snap/nowhere")
    with pytest.raises(MissingFileError, match="memory://snap/nowhere does not exist"):
        storage.read_all("memory://snap/nowhere")


def test_an_unknown_scheme():
    with pytest.raises(UnsupportedFormatError, match="no file system for nosuch://"):
        Storage().read_all("nosuch://host/file")


def check_s3(storage: Storage, query: str) -> None:
    assert storage.read_all(f"s3://states/snap/_metadata{query}") == SMALL
    # file names in a snapshot don't have a query
    assert storage.open("s3a://states/snap/dir/file").read(1000, 24) == LARGE[1000:1024]
    assert storage.size("s3://states/snap/_metadata") == 10
    assert [(e.name, e.is_directory) for e in storage.list("s3://states/snap")] == [("_metadata", False), ("dir", True)]
    assert not storage.exists("s3://states/snap/nowhere")
    with pytest.raises(MissingFileError, match="s3://states/snap/nowhere"):
        storage.read_all("s3://states/snap/nowhere")
    assert pickle.loads(pickle.dumps(storage)).read_all("s3://states/snap/_metadata") == SMALL


def test_s3_with_the_endpoint_in_the_url(bucket, s3_endpoint):
    check_s3(Storage(), f"?endpoint_override={s3_endpoint.removeprefix('http://')}&scheme=http&region=us-east-1")


def test_s3_with_the_endpoint_in_the_environment(bucket, s3_endpoint, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    check_s3(Storage(), "")


def test_s3_with_options(bucket, s3_endpoint, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    check_s3(Storage({"endpoint_override": s3_endpoint, "access_key": "k", "secret_key": "s"}), "")
    check_s3(Storage({"endpoint_override": s3_endpoint, "anonymous": "true"}), "")


def test_an_unknown_setting_of_s3():
    with pytest.raises(OptionError, match="does not have a setting 'endpoint'; did you mean 'endpoint_override'\\?"):
        Storage({"endpoint": "x", "region": "eu"}).exists("s3://states/snap")


def test_a_fork_connects_again(monkeypatch, files):
    made = []

    def connect(_, location):
        made.append(os.getpid())
        return pafs.SubTreeFileSystem(str(files), pafs.LocalFileSystem())

    monkeypatch.setattr(Storage, "_connect", connect)
    storage = Storage()
    file = storage.open("gs://x")
    monkeypatch.setattr(Storage, "_path_in", staticmethod(lambda _: "small"))
    assert file.read(0, 4) == SMALL[:4]
    child = os.fork()
    if not child:
        same = file.read(0, 4) == SMALL[:4] and made[-1] == os.getpid()
        os._exit(0 if same else 1)
    assert status_of(child) == 0
    assert file.read(4, 4) == SMALL[4:8]
    assert len(made) == 1


def test_files_are_opened_at_the_same_time(files, monkeypatch):
    """Not one after the other, as ``cached_property`` of Python 3.11 does; a request to remote storage takes its time."""
    storage, both = Storage(), Barrier(2)
    opened = storage._open

    def wait_for_another(path, context):
        both.wait(timeout=30)
        return opened(path, context)

    monkeypatch.setattr(storage, "_open", wait_for_another)
    paths = [str(files / name) for name in ("small", "large")]
    assert at_once(lambda path: storage.open(path).size, paths) == [len(SMALL), len(LARGE)]


def test_local_directories_are_listed_as_by_pyarrow(files):
    storage = Storage()
    (files / "link").symlink_to("small")
    (files / "dangling").symlink_to("nowhere")
    infos = pafs.LocalFileSystem().get_file_info(pafs.FileSelector(str(files)))
    expected = {(info.base_name, info.size or 0) for info in infos if info.type != pafs.FileType.NotFound}
    assert {(entry.name, entry.size) for entry in storage.list(files)} == expected
    assert storage.list(files / "nowhere") == storage.list(files / "small" / "below") == storage.list(f"{files}/small/") == []
    with pytest.raises(MissingFileError, match="a file has this name"):
        storage.list(files / "small")


def test_a_file_with_a_time_beyond_the_calendar_is_read(files, monkeypatch):
    found = os.stat(files / "small")
    late = os.stat_result((*found[:8], 1 << 50, found[9]))
    monkeypatch.setattr(os, "stat", lambda path: late)
    assert Storage().size_if_file(files / "small") == len(SMALL)
