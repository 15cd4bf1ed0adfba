"""Manifests of RocksDB: the column families of a store, and the files of each column family.

A manifest is a log of edits (RocksDB: ``VersionEdit::DecodeFrom``). This module reads all edits, and writes a short list of
equivalent edits. A new manifest can add files to a store: RocksDB takes names, bounds and sequence numbers of files from the
manifest. RocksDB since 6.20 reads the written manifests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.sst.crc32c import masked_checksum
from state_processor.backends.formats.sst.plain_blocks import varint
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from state_processor.support.mappings import only_keys, without_none

DEFAULT_FAMILY: Final = "default"
"""The column family that each store has; its id is 0."""

_BLOCK: Final = 32 << 10
_HEADER: Final = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_COMPARATOR, _LOG_NUMBER, _NEXT_FILE, _LAST_SEQUENCE, _CURSOR, _DELETED_FILE = 1, 2, 3, 4, 5, 6
_PREVIOUS_LOG, _LEAST_LOG = 9, 10
_NEW_FILES: Final = {7: 1, 100: 2, 102: 3, 103: 4}
"""Tags of new files, with the versions of their formats."""
_FAMILY, _ADD_FAMILY, _DROP_FAMILY, _LARGEST_FAMILY, _ATOMIC_GROUP = 200, 201, 202, 203, 300
_NUMBERS: Final = frozenset({_NEXT_FILE, _LAST_SEQUENCE, _PREVIOUS_LOG, _LEAST_LOG, _LARGEST_FAMILY, _ATOMIC_GROUP})
"""Tags of numbers of the whole store: the largest one counts."""
_REQUIRED: Final = {_NEXT_FILE: "number of the next file", _LAST_SEQUENCE: "last sequence number"}
"""Numbers without which RocksDB refuses a manifest."""
_OF_FAMILY: Final = {_COMPARATOR: "comparator", _LOG_NUMBER: "log_number"}
"""Tags of attributes of a column family."""
_BLOB_FILES: Final = frozenset({400, 401})
_MAY_BE_IGNORED: Final = 1 << 13
_NEW_FILE: Final = 103
_END_OF_DETAILS, _EPOCH, _PATH = 1, 13, 65
MOST_SEQUENCE: Final = (1 << 56) - 1
"""The largest sequence number (RocksDB: ``kMaxSequenceNumber``)."""
END_OF_DELETION: Final = (MOST_SEQUENCE << 8 | 0x0F).to_bytes(8, "little")
"""The end of an internal key that is the exclusive end of a range deletion (RocksDB: ``kRangeTombstoneSentinel``)."""
_ENTRY_TYPES: Final = frozenset({0, 1, 2, 7, 0x0F, 0x11, 0x14, 0x16, 0x18})
"""Types that internal keys may have (RocksDB: ``IsExtendedValueType``)."""
_TAG_BYTES: Final = 8
_MUST_BE_KNOWN: Final = 1 << 6
"""Properties of a file with this bit can't be ignored (RocksDB: ``kCustomTagNonSafeIgnoreMask``)."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a column family.

    ``smallest`` and ``largest``: the first and the last internal key.
    """

    level: int  # level of the file; entries of lower levels are newer
    number: int  # number of the file; the name is derived from it
    size: int  # length of the file in bytes
    smallest: bytes
    largest: bytes
    sequences: tuple[int, int]  # the smallest and the largest sequence number of the entries
    details: tuple[tuple[int, bytes], ...] = ()  # other properties: bytes by tag
    # the last sequence number of the store, as its manifest records it; entries can't have larger ones
    last_sequence: int = field(default=MOST_SEQUENCE, compare=False)

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.number:06}.sst"

    @property
    def epoch(self) -> int | None:
        """Position in the order of level 0 files (RocksDB 7.8 and later)."""
        return next((_Bytes(value, "").number() for tag, value in self.details if tag == _EPOCH), None)

    def in_epoch(self, epoch: int | None) -> TableFile:
        """Return the file in another epoch; with ``None``, RocksDB orders files by sequence numbers."""
        details = tuple((tag, value) for tag, value in self.details if tag != _EPOCH)
        return replace(self, details=details if epoch is None else (*details, (_EPOCH, varint(epoch))))


@dataclass(frozen=True)
class Family:
    """A column family."""

    name: str
    comparator: bytes
    files: tuple[TableFile, ...] = ()
    log_number: int = 0

    def above(self, below: Family) -> Family:
        """Return the column family with additional files of another one; all entries of the other one are older."""
        epochs = [file.epoch for file in below.files]
        epochs_known = without_none(epochs)
        if len(epochs_known) < len(epochs):  # RocksDB orders all files by their sequence numbers
            return replace(self, files=tuple(file.in_epoch(None) for file in (*below.files, *self.files)))
        first = max(epochs_known, default=0)
        return replace(self, files=(*below.files, *(file.in_epoch((file.epoch or 0) + first) for file in self.files)))


@dataclass(frozen=True)
class Manifest:
    """Content of a manifest.

    ``next_file``, ``last_sequence`` and ``largest_family``: the number of the next file, the last sequence number, and the
    largest id of a column family, including dropped ones.
    """

    families: Mapping[int, Family] = field(default_factory=dict)  # the column families by their ids
    next_file: int = 2
    last_sequence: int = 0
    largest_family: int = 0

    def only(self, names: Collection[str]) -> Manifest:
        """Return the manifest of the store without other column families."""
        families = {number: family for number, family in self.families.items() if family.name in names or number == 0}
        return replace(self, families=families)

    def without_files(self) -> Manifest:
        """Return the manifest of a store with the same families, but without files."""
        return self.with_files(dict.fromkeys(self.families, ()))

    def with_files(self, files: Mapping[int, Sequence[TableFile]]) -> Manifest:
        """Return the manifest with other files of its column families, by their ids."""
        families = {number: replace(family, files=tuple(files[number])) for number, family in self.families.items()}
        return replace(self, families=families)

    def with_numbers_for_all(self) -> Manifest:
        """Return the manifest with a number for a new version of each file; see :meth:`spare_number`."""
        return replace(self, next_file=self.next_file + len(self._numbers))

    def spare_number(self, file: TableFile) -> int:
        """Return the number for a new version of a file, in a manifest of :meth:`with_numbers_for_all`."""
        return self.next_file - len(self._numbers) + self._numbers.index(file.number)

    @property
    def _numbers(self) -> list[int]:
        return [file.number for file in self.files]

    def above(self, below: Manifest) -> Manifest:
        """Return the manifest of a store with additional files of another store; all entries of the other store are older.

        Both stores have the same column families with the same ids; numbers of files differ.
        """
        families = dict(self.families)
        for number, family in only_keys(self.families, below.families).items():
            families[number] = family.above(below.families[number])
        return replace(self, families=families)

    @property
    def files(self) -> Iterator[TableFile]:
        """The files of all column families."""
        for family in self.families.values():
            yield from family.files


def read_manifest(data: bytes | memoryview, context: str) -> Manifest:
    """Read a manifest.

    ``data``: the file. ``context``: the file, for messages.
    """
    reading = _Reading(context)
    for record in _records(np.frombuffer(data, dtype=np.uint8), context):
        reading.apply(_Bytes(record, context))
    return reading.manifest()


class _Reading:
    """A store between two edits."""

    def __init__(self, context: str) -> None:
        self._context = context
        self._families: dict[int, Family] = {0: Family(DEFAULT_FAMILY, b"")}
        self._files: dict[int, dict[int, TableFile]] = {0: {}}
        self._numbers = dict.fromkeys(_NUMBERS, 0)
        self._recorded: dict[int, int] = {}

    def manifest(self) -> Manifest:
        last = self._recorded.get(_LAST_SEQUENCE, 0)
        families = {}
        for number, family in self._families.items():
            files = tuple(replace(file, last_sequence=last) for file in self._files[number].values())
            families[number] = replace(family, files=files)
        manifest = Manifest(families, self._numbers[_NEXT_FILE], self._numbers[_LAST_SEQUENCE], self._numbers[_LARGEST_FAMILY])
        if any(not family.comparator for family in families.values()):
            raise CorruptSnapshotError(f"{self._context}: the manifest is cut off: a column family does not have a comparator")
        missing = [name for tag, name in _REQUIRED.items() if tag not in self._recorded]
        if missing:
            raise CorruptSnapshotError(f"{self._context}: the manifest is cut off: it does not have the {missing[0]}")
        return replace(
            manifest,
            next_file=max([manifest.next_file, *(file.number + 1 for file in manifest.files)]),
            last_sequence=max([manifest.last_sequence, *(file.sequences[1] for file in manifest.files)]),
            largest_family=max([manifest.largest_family, *families]),
        )

    def apply(self, edit: _Bytes) -> None:
        values = _values(edit, self._context)
        for tag in _NUMBERS & values.keys():
            self._numbers[tag] = max(self._numbers[tag], *values[tag])
            self._recorded[tag] = values[tag][-1]
        number = values.get(_FAMILY, [0])[-1]
        for name in values.get(_ADD_FAMILY, ()):
            if number in self._families or any(family.name == name for family in self._families.values()):
                raise CorruptSnapshotError(f"{self._context}: the column family {name!r} (number {number}) is added twice")
            self._families[number], self._files[number] = Family(name, b""), {}
        if number not in self._families:
            raise CorruptSnapshotError(f"{self._context}: an edit of the unknown column family {number}")
        if _DROP_FAMILY in values:
            del self._families[number], self._files[number]
            return
        for tag, attribute in _OF_FAMILY.items():
            for value in values.get(tag, ()):
                self._families[number] = replace(self._families[number], **{attribute: value})
        files = self._files[number]
        for level, deleted in values.get(_DELETED_FILE, ()):
            if deleted not in files or files[deleted].level != level:
                raise CorruptSnapshotError(f"{self._context}: the deleted file {deleted} is not in level {level}")
            del files[deleted]
        for file in values.get(_NEW_FILE, ()):
            if file.number in files:
                raise CorruptSnapshotError(f"{self._context}: the file {file.number} is added twice")
            files[file.number] = file


def _values(edit: _Bytes, context: str) -> dict[int, list[Any]]:
    """Return the values of an edit by tag. New files have the tag of the latest format."""
    values_by_tag: dict[int, list[Any]] = {}
    while not edit.is_at_end:
        tag = edit.number()
        if tag in _BLOB_FILES:
            raise UnsupportedFormatError(f"{context}: the store has blob files; write a canonical savepoint")
        if tag in _READERS:
            values_by_tag.setdefault(_NEW_FILE if tag in _NEW_FILES else tag, []).append(_READERS[tag](edit))
        elif tag & _MAY_BE_IGNORED:
            edit.bytes()
        else:
            raise UnsupportedFormatError(f"{context}: an edit with the unknown tag {tag}; write a canonical savepoint")
    return values_by_tag


def _new_file(edit: _Bytes, version: int) -> TableFile:
    level, number = edit.number(), edit.number()
    if version == 3:
        edit.number()  # path
    size, smallest, largest = edit.number(), _internal_key(edit), _internal_key(edit)
    if smallest[:-_TAG_BYTES] > largest[:-_TAG_BYTES]:
        raise CorruptSnapshotError(f"{edit.context}: the first key of the file {number} in the manifest is behind its last key")
    sequences = (edit.number(), edit.number()) if version > 1 else (0, 0)
    details: list[tuple[int, bytes]] = []
    if version == 4:
        while (tag := edit.number()) != _END_OF_DETAILS:
            if tag & _MUST_BE_KNOWN and tag != _PATH:
                raise UnsupportedFormatError(
                    f"{edit.context}: the file {number} has the unknown property {tag}; write a canonical savepoint"
                )
            details.append((tag, edit.bytes()))
    return TableFile(level, number, size, smallest, largest, sequences, tuple(details))


def _internal_key(edit: _Bytes) -> bytes:
    """Read a key with its tag (RocksDB: ``VersionEdit::GetInternalKey``)."""
    key = edit.bytes()
    if len(key) < _TAG_BYTES or key[-_TAG_BYTES] not in _ENTRY_TYPES:
        raise CorruptSnapshotError(f"{edit.context}: an edit of the manifest has the key {key!r}; its type is not valid")
    return key


def write_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as the bytes of its file."""
    edits: list[bytes] = []
    for number, family in sorted(manifest.families.items()):
        family_field = _field(_FAMILY, number) if number else b""
        added = family_field + varint(_ADD_FAMILY) + _text(family.name.encode()) if number else b""
        edits.append(added + varint(_COMPARATOR) + _text(family.comparator))
        edits.append(family_field + _field(_LOG_NUMBER, family.log_number) + b"".join(map(_file_bytes, family.files)))
    counters = (
        (_PREVIOUS_LOG, 0),
        (_NEXT_FILE, manifest.next_file),
        (_LAST_SEQUENCE, manifest.last_sequence),
        (_LARGEST_FAMILY, manifest.largest_family),
    )
    edits.append(b"".join(_field(tag, value) for tag, value in counters))
    log = bytearray()
    for edit in edits:
        _append(log, edit)
    return bytes(log)


def _file_bytes(file: TableFile) -> bytes:
    numbers = b"".join(map(varint, (_NEW_FILE, file.level, file.number, file.size)))
    keys = _text(file.smallest) + _text(file.largest) + b"".join(map(varint, file.sequences))
    details = b"".join(varint(tag) + _text(value) for tag, value in file.details)
    return numbers + keys + details + varint(_END_OF_DETAILS)


# Logs (RocksDB: log_format.h)


def _records(data: npt.NDArray[np.uint8], context: str) -> Iterator[bytes]:
    """Yield the records of a log."""
    parts: list[bytes] = []
    position = 0
    while position < len(data):
        room = _BLOCK - position % _BLOCK
        if room < _HEADER:
            position += room
            continue
        head = bytes(data[position : position + _HEADER])
        size, kind = int.from_bytes(head[4:6], "little"), head[6] if len(head) == _HEADER else 0
        end = position + _HEADER + size
        if not _FULL <= kind <= _LAST or _HEADER + size > room or end > len(data) or bool(parts) != (kind in (_MIDDLE, _LAST)):
            raise CorruptSnapshotError(f"{context}: byte {position} of the manifest is not the start of a record")
        if masked_checksum(data, position + 6, end) != int.from_bytes(head[:4], "little"):
            raise CorruptSnapshotError(f"{context}: the checksum of the record at byte {position} of the manifest is wrong")
        parts.append(bytes(data[position + _HEADER : end]))
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []
        position = end
    if parts:
        raise CorruptSnapshotError(f"{context}: the manifest ends in the middle of a record")


def _append(log: bytearray, record: bytes) -> None:
    """Append a record to a log."""
    begin, is_first = 0, True
    while True:
        room = _BLOCK - len(log) % _BLOCK
        if room < _HEADER:
            log += bytes(room)
            continue
        part = record[begin : begin + room - _HEADER]
        is_last = begin + len(part) == len(record)
        kind = (_FULL if is_last else _FIRST) if is_first else (_LAST if is_last else _MIDDLE)
        body = np.frombuffer(bytes([kind]) + part, dtype=np.uint8)
        log += masked_checksum(body, 0, len(body)).to_bytes(4, "little") + len(part).to_bytes(2, "little") + bytes(body)
        begin, is_first = begin + len(part), False
        if is_last:
            return


class _Bytes:
    """Position in an edit."""

    def __init__(self, data: bytes, context: str) -> None:
        self._data = data
        self.context = context
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._data)

    def number(self) -> int:
        value = shift = 0
        while self._position < len(self._data) and shift < 64:
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise self._damaged()

    def bytes(self) -> bytes:
        size = self.number()
        begin, self._position = self._position, self._position + size
        if self._position > len(self._data):
            raise self._damaged()
        return self._data[begin : self._position]

    def text(self) -> str:
        try:
            return self.bytes().decode()
        except UnicodeDecodeError:
            raise self._damaged() from None

    def _damaged(self) -> CorruptSnapshotError:
        return CorruptSnapshotError(f"{self.context}: an edit of the manifest ends in the middle of a value")


def _field(tag: int, value: int) -> bytes:
    return varint(tag) + varint(value)


def _text(value: bytes) -> bytes:
    return varint(len(value)) + value


_READERS: Final[Mapping[int, Callable[[_Bytes], Any]]] = {
    **dict.fromkeys((_FAMILY, _LOG_NUMBER, *_NUMBERS), _Bytes.number),
    _ADD_FAMILY: _Bytes.text,
    _DROP_FAMILY: lambda _: True,
    _COMPARATOR: _Bytes.bytes,
    _CURSOR: lambda edit: (edit.number(), _internal_key(edit)),
    _DELETED_FILE: lambda edit: (edit.number(), edit.number()),
    **{tag: partial(_new_file, version=version) for tag, version in _NEW_FILES.items()},
}
"""How the value after a tag is read."""
