"""File system with faults: the scheme ``faulty``, whose files are in a local directory, and faults in local files."""

from __future__ import annotations

import io
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.fs as pafs

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage

Fault = Callable[["Request"], None]
"""What happens at a request: raises, waits, kills, or changes the request."""


class Request:
    """Request to storage.

    Attributes
    ----------
    number
        Its place among all requests, from 1 on.
    action
        ``info``, ``list``, ``make``, ``open``, ``read``, ``create``, ``write``, ``close``, ``remove``, ``move``.
    path
        The file.
    done
        Whether the storage has done it: a fault then loses the answer.
    most
        The number of bytes that a read returns at most.
    """

    def __init__(self, number: int, action: str, path: str) -> None:
        self.number = number
        self.action = action
        self.path = path
        self.done = False
        self.most: int | None = None


class Requests:
    """Requests to storage. Each has a fault twice: before and after the request."""

    def __init__(self, fault: Fault) -> None:
        self.counts: Counter[str] = Counter()
        self._fault = fault
        self._mutex = threading.RLock()  # the garbage collector closes files, in a thread that may hold it

    @property
    def number(self) -> int:
        """The number of requests so far."""
        return self.counts.total()

    @contextmanager
    def request(self, action: str, path: str) -> Iterator[Request]:
        """Wrap a function that does a request."""
        with self._mutex:
            self.counts[action] += 1
            request = Request(self.number, action, path)
        self._fault(request)
        yield request
        request.done = True
        self._fault(request)


class _Reading(io.RawIOBase):
    def __init__(self, file: pa.NativeFile, path: str, requests: Requests) -> None:
        self._file, self._path, self._requests = file, path, requests

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def read(self, size: int = -1) -> bytes:
        with self._requests.request("read", self._path) as request:
            most = size if request.most is None or size < 0 else min(size, request.most)
            return bytes(self._file.read(None if most < 0 else most))


class _Writing(io.RawIOBase):
    def __init__(self, file: pa.NativeFile, path: str, requests: Requests) -> None:
        self._file, self._path, self._requests = file, path, requests

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with self._requests.request("write", self._path):
            return int(self._file.write(data))

    def close(self) -> None:
        if not self._file.closed:
            with self._requests.request("close", self._path):
                self._file.close()
        super().close()


class FaultyFiles(pafs.FileSystemHandler):
    """File system on top of another one, with faults at its requests."""

    def __init__(self, inner: pafs.FileSystem, requests: Requests) -> None:
        self._inner, self._requests = inner, requests

    def get_type_name(self) -> str:
        return "faulty"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        with self._requests.request("info", paths[0]):
            return list(self._inner.get_file_info(paths))

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        with self._requests.request("list", selector.base_dir):
            return list(self._inner.get_file_info(selector))

    def create_dir(self, path: str, recursive: bool) -> None:
        with self._requests.request("make", path):
            self._inner.create_dir(path, recursive=recursive)

    def delete_file(self, path: str) -> None:
        with self._requests.request("remove", path):
            self._inner.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        with self._requests.request("move", dest):
            self._inner.move(src, dest)

    def open_input_file(self, path: str) -> pa.NativeFile:
        with self._requests.request("open", path):
            return pa.PythonFile(_Reading(self._inner.open_input_file(path), path, self._requests), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        with self._requests.request("create", path):
            return pa.PythonFile(_Writing(self._inner.open_output_stream(path), path, self._requests), mode="w")

    def _unused(self, *_: Any) -> Any:
        raise NotImplementedError

    open_input_stream = open_append_stream = copy_file = delete_dir = delete_dir_contents = _unused
    delete_root_dir_contents = _unused


@contextmanager
def faults(fault: Fault, root: Path) -> Iterator[Requests]:
    """Add the scheme ``faulty`` with directories in ``root`` as authorities, and faults to operations on local files.

    Local files are read without requests.
    """
    requests = Requests(fault)
    connect = Storage._connect

    def connected(storage: Storage, location: Location) -> pafs.FileSystem:
        local = pafs.LocalFileSystem()
        if location.is_local:
            return pafs.PyFileSystem(FaultyFiles(local, requests))
        if location.scheme == "faulty":
            return pafs.PyFileSystem(FaultyFiles(pafs.SubTreeFileSystem(str(root), local), requests))
        return connect(storage, location)

    with patch.object(Storage, "_connect", connected):
        yield requests


def no_fault(request: Request) -> None:
    """Let a request pass."""
