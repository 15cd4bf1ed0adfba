"""Common parts of all classes of input: the protocol, failures that targets detect, and memory instead of files."""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Entry, Storage
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.support.errors import MissingFileError
from tests.corpus import CORPUS, Case, corpus_cases, own_cases
from tests.fuzz.edits import Edits, Seed

OPTIONS: Final = (
    DecodeOptions(),
    DecodeOptions(nanos="string", row_kind=True),
    DecodeOptions(nanos="truncate", ttl=True),
    DecodeOptions(nanos="string"),
)


class InvalidArrowError(Exception):
    """A batch does not follow the Arrow format."""


class WrongRowsError(Exception):
    """Another number of rows than the format counts."""


class Target(ABC):
    """One class of input."""

    name: str
    most_memory: int | None = None
    """Bytes that reading one input may take."""

    @cached_property
    def seeds(self) -> list[Seed]:
        """Well-formed inputs, always in the same order."""
        found: dict[str, Seed] = {}
        for seed in self.find_seeds():
            found.setdefault(seed.name, seed)
        return [found[name] for name in sorted(found)]

    @abstractmethod
    def find_seeds(self) -> Iterator[Seed]:
        """Find them, in any order."""

    @abstractmethod
    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        """Read one input."""


def check(batch: pa.RecordBatch) -> int:
    """Validate a batch and return its number of rows."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise InvalidArrowError(f"{problem} ({batch.schema})") from None
    return int(batch.num_rows)


def seed_cases(pattern: str = "*") -> list[Case]:
    """Return the snapshots of the repository and, if STATE_PROCESSOR_CORPUS names it, of the external corpus."""
    found = own_cases(pattern) + (corpus_cases(pattern) if external() else [])
    return [case for case in found if "snapshot_dir" in case.facts]


def external() -> bool:
    """Return True if seeds of the external corpus are to be used."""
    return bool(os.environ.get("STATE_PROCESSOR_CORPUS")) and CORPUS.is_dir()


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.size = len(data)

    def read(self, offset: int, length: int) -> memoryview:
        return self._data[offset : offset + length]


class MemoryStorage(Storage):
    """The files of one directory in memory. No path leads out of it: an input can't make the fuzzer open anything else."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self._files: dict[str, bytes] = {}
        for folder, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    self._files[path] = file.read()
        self.replaced: dict[str, bytes] = {}

    def _content(self, path: Any) -> bytes | None:
        location = Location.parse(path)
        if not location.is_local:
            return None
        return self.replaced.get(location.path, self._files.get(location.path))

    def _open(self, path: Any, context: str) -> Any:
        content = self._content(path)
        if content is None:
            raise MissingFileError(f"{context}: {path} does not exist")
        return _Bytes(content)

    def size_if_file(self, path: Any) -> int | None:
        content = self._content(path)
        return None if content is None else len(content)

    size_to_open = size_if_file

    def is_file(self, path: Any) -> bool:
        return self._content(path) is not None

    def exists(self, path: Any) -> bool:
        return self.is_file(path) or self.is_directory(path)

    def is_directory(self, path: Any) -> bool:
        folder = Location.parse(path).path.rstrip("/") + "/"
        return any(name.startswith(folder) for name in self._files)

    def list(self, path: Any) -> list[Entry]:
        return []

    def filesystem(self, path: Any) -> Any:
        raise MissingFileError(f"{path} is not in memory")


def open_in_memory(case: Case) -> tuple[Any, MemoryStorage]:
    """Open a snapshot whose files are all in memory."""
    storage = MemoryStorage(str(case.directory))
    return open_snapshot(case.snapshot, storage=storage), storage
