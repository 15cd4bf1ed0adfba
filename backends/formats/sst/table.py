"""One table: its footer, properties, index and range deletions (RocksDB: ``table/format.cc``, ``table/block_based``).

They are at the end of a file. The end is read first; a larger index is read together with blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

import numpy as np

from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst.block_format import CHECKSUMS, TRAILER, BlockFormat, Bytes, Numbers, RawBlocks
from state_processor.backends.formats.sst.manifest import END_OF_DELETION, MOST_SEQUENCE, TableFile
from state_processor.backends.formats.sst.merge_kernel import RangeDeletion, fragments
from state_processor.backends.formats.sst.plain_blocks import block_entries, read_varint
from state_processor.backends.metadata.streams import StateStream
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from state_processor.support.locks import cached_property

FOOTER: Final = 53
"""Bytes of the footer."""
HANDLES: Final = 40
"""Bytes of the places of blocks in the footer."""
MAGIC: Final = 0x88E241B785F4CFF7
_OTHER_MAGICS: Final = {
    0xDB4775248B80FB57: "a block-based table of format version 0",
    0x8242229663BF9564: "a plain table",
    0x4F3418EB7A8F13B8: "a plain table",
    0x926789D0C5F17873: "a cuckoo table",
}
RANGE_DELETIONS: Final = b"rocksdb.range_del"
"""The name of the block of range deletions."""
_EXTENDED_MAGIC: Final = bytes((0x3E, 0, 0x7A, 0))
_VERSIONS: Final = range(2, 7)
WITH_CONTEXT: Final = 6
"""The first version whose checksums depend on offsets."""
_TAIL: Final = 16 << 10
_REMOTE_TAIL: Final = 64 << 10
_WITH_INDEX: Final = 128
"""Part of a remote file that usually has the index and all that follows: an entry of 20 bytes for a block of 4 kB."""
_FIRST_BLOCKS: Final = 1 << 12
"""Blocks that a list of blocks has room for at first; more for a large index."""
_BLOCK_IN_INDEX: Final = 16
"""Bytes of a block in an index: its separator and its place usually take more."""
_VERIFIED_AT_ONCE: Final = 4 << 20
_PARTITIONED_FILTER: Final = b"partitionedfilter."
_COUNT: Final = b"rocksdb.num.entries"
_INGESTED: Final = 2
"""The version of tables that were ingested with a sequence number of their own."""
_MOST_PROPERTIES: Final = 1 << 20
_MOST_KEY_BYTES: Final = 256 << 20
_BINARY, _HASH, _PARTITIONED, _WITH_FIRST_KEY = 0, 1, 2, 3
COMPARATOR: Final = b"leveldb.BytewiseComparator"
_MERGE_OPERATORS: Final = frozenset({b"StringAppendTESTOperator", b"StringAppendOperator", b"stringappendtest", b"nullptr", b""})
"""Names of Flink's merge operator, and names in tables without a merge operator."""


@dataclass(frozen=True, slots=True)
class BlockList:
    """Blocks of a table, in order."""

    keys: Bytes  # bytes of the separators
    rows: Numbers  # a row for each block: start and end of its separator in ``keys``, its offset and size

    def __len__(self) -> int:
        return len(self.rows)

    def separator(self, block: int) -> bytes:
        """Return a key that is at or after the last key of a block, and at or before the first key of the next block."""
        begin, end = self.rows[block, :2].tolist()
        return self.keys[begin:end].tobytes()

    def first_from(self, bound: Bound) -> int:
        """Return the number of the first block whose separator is not before a key."""
        return int(k.first_from(self.keys, self.rows, bound.padded, bound.size))


def padded(key: bytes) -> Bytes:
    """Return bytes as an array, with additional space for kernels."""
    return np.frombuffer(key + bytes(k.SLACK), dtype=np.uint8)


class Bound:
    """A key that bounds a part of a store.

    ``padded`` and ``size``: the key as an array with additional space for kernels, and its length.
    """

    __slots__ = ("key", "padded", "size")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.padded = padded(key)
        self.size = len(key)


class Table:
    """A table of a store.

    Parameters
    ----------
    stream
        The file.
    file
        The manifest's record of the table.
    context
        Operator, subtask, store and file, for messages.
    needs_index
        Whether the index will be needed. From remote storage, it is read together with the end of the file if possible.

    Attributes
    ----------
    tail, tail_begin
        The last bytes of the file, and their offset.
    version, format
        The version of the format, and the common properties of all blocks.
    keys_are_exact
        Whether separators of the index do not have tags.
    is_delta
        Whether the index stores handles as differences.

    Raises
    ------
    CorruptSnapshotError
        If the table is damaged.
    UnsupportedFormatError
        If it has another format or an unsupported feature.
    """

    def __init__(self, stream: StateStream, file: TableFile, context: str, *, needs_index: bool = False) -> None:
        self.stream = stream
        self.file = file
        self.context = context
        if stream.size < FOOTER:
            raise CorruptSnapshotError(f"{context}: {stream.size} bytes are too few for a table")
        usual = max(_REMOTE_TAIL, needs_index * stream.size // _WITH_INDEX) if stream.is_remote else _TAIL
        size = min(stream.size, usual)
        self.tail_begin = stream.size - size
        self.tail = stream.read(self.tail_begin, size)
        footer = bytes(self.tail[-FOOTER:])
        self.version = self._checked_version(footer)
        if self.version >= WITH_CONTEXT:
            self.format, metaindex, self._index_handle = self._newer_footer(footer)
        else:
            self.format, metaindex, self._index_handle = self._older_footer(footer)
        self._meta = {name: self._handle(value, 0)[:2] for name, value in self._sorted(metaindex, "names of blocks")}
        self._check_meta()

    @property
    def smallest(self) -> bytes:
        """The first key."""
        return self.file.smallest[: -k.TAG_BYTES]

    @property
    def largest(self) -> bytes:
        """The last key."""
        return self.file.largest[: -k.TAG_BYTES]

    @property
    def has_range_deletions(self) -> bool:
        """Whether the table deletes ranges of keys; its first and its last key are then bounds of these, perhaps."""
        return RANGE_DELETIONS in self._meta

    def has_other_keys(self) -> CorruptSnapshotError:
        """Return the error for a table whose first or last key is not the one of the manifest."""
        return CorruptSnapshotError(
            f"{self.context}: its first or last key is not the one that the manifest of the store records; another file may have "
            "the name of this one; copy the snapshot again"
        )

    def check_sequences(self, smallest: int, largest: int) -> None:
        """Refuse sequence numbers of entries that the manifest excludes.

        RocksDB does not see entries behind the last sequence number of the store. It relies on the order of levels: entries of
        lower levels are newer.
        """
        first, last = self.file.sequences if self.file.sequences != (0, 0) else (0, MOST_SEQUENCE)
        last = min(last, self.file.last_sequence)
        if smallest < first or largest > last:
            raise CorruptSnapshotError(
                f"{self.context}: it has an entry with the sequence number {smallest if smallest < first else largest}; expected "
                f"{first} to {last}, as the manifest of the store has it. The table or the manifest belongs to another store"
            )

    @cached_property
    def sequence(self) -> int:
        """The sequence number of all entries, if the table was ingested; else -1 (RocksDB: ``GetGlobalSequenceNumber``)."""
        stored = self.properties.get(b"rocksdb.external_sst_file.version", b"")
        version = int.from_bytes(stored, "little")
        global_sequence = int.from_bytes(self.properties.get(b"rocksdb.external_sst_file.global_seqno", b""), "little")
        if version > _INGESTED:
            raise CorruptSnapshotError(f"{self.context}: it has version {version} of ingested tables; expected 1 or {_INGESTED}")
        if version < _INGESTED:
            if b"rocksdb.external_sst_file.global_seqno" in self.properties or version != len(stored[:1]):
                raise CorruptSnapshotError(f"{self.context}: its properties of ingested tables contradict each other")
            return -1
        largest = self.file.sequences[1]
        if global_sequence not in (0, largest):
            raise CorruptSnapshotError(
                f"{self.context}: it has the sequence number {global_sequence}, the manifest says {largest}"
            )
        return largest

    @property
    def entries_estimate(self) -> int:
        """Number of entries less twice the number of deletions, as RocksDB estimates keys (``rocksdb.estimate-num-keys``)."""
        entries, deletions = map(self._number, (_COUNT, b"rocksdb.deleted.keys"))
        return max(0, entries - 2 * deletions)

    def _number(self, name: bytes) -> int:
        """Return a property that is a varint; 0 if the table does not have it."""
        return read_varint(self.properties.get(name, b""))

    def blocks(self, lower: bytes = b"", upper: bytes | None = None) -> BlockList:
        """Return the blocks that may have keys from ``lower`` to before ``upper``, by default all blocks."""
        if self._index_type != _PARTITIONED:
            return self._listed(*self._index, lower, upper)
        parts = self._listed(*self._index, b"", None)
        behind = len(parts) if upper is None else self.blocks_before(parts, Bound(upper))[1]
        inner = [self._partition(parts, part, lower, upper) for part in range(parts.first_from(Bound(lower)), behind)]
        if not inner:
            return BlockList(parts.keys, parts.rows[:0])
        starts = np.cumsum([0, *(len(part.keys) for part in inner[:-1])])
        for part, start in zip(inner, starts.tolist(), strict=True):
            part.rows[:, :2] += start
        rows = np.concatenate([part.rows for part in inner])
        self._check_places(rows)
        return BlockList(np.concatenate([part.keys for part in inner]), rows)

    def _partition(self, parts: BlockList, part: int, lower: bytes, upper: bytes | None) -> BlockList:
        """Return the blocks of a partition of the index.

        Each separator has to be between two separators of partitions. In the first partition, no separator may precede the
        first key of the table: a read skips the blocks whose separators precede its keys. In the last one, only the last
        separator may be behind the last key: a read ends there.
        """
        content = self._block((int(parts.rows[part, 2]), int(parts.rows[part, 3])))
        whole = self._listed(*content, b"", None)
        least = parts.separator(part - 1) if part else self.smallest
        if len(whole) and (whole.separator(0) < least or whole.separator(len(whole) - 1) > parts.separator(part)):
            raise CorruptSnapshotError(f"{self.context}: its index is damaged: a partition has separators of another one")
        if len(whole) > 1 and whole.separator(len(whole) - 2) > self.largest:
            raise self.has_other_keys()
        return self._listed(*content, lower, upper)

    def blocks_before(self, blocks: BlockList, upper: Bound) -> tuple[int, int]:
        """Return the numbers of blocks of a list whose keys are all before ``upper``, and that may have keys before it."""
        behind = blocks.first_from(upper)
        # keys of the block after a separator without a tag are larger than the separator
        if behind > 0 and self.keys_are_exact and blocks.separator(behind - 1) + b"\0" == upper.key:
            return behind, behind
        return behind, min(len(blocks), behind + 1)

    @cached_property
    def deletions(self) -> list[RangeDeletion]:
        """The range deletions within the keys of the table, as fragments that don't overlap."""
        deletions: list[RangeDeletion] = []
        for key, end in self.stored_deletions:
            if len(key) < k.TAG_BYTES or key[-k.TAG_BYTES] != k.RANGE_DELETION:
                raise CorruptSnapshotError(f"{self.context}: its range deletions include an entry of another type")
            tag = int.from_bytes(key[-k.TAG_BYTES :], "little")
            sequence = tag >> 8 if self.sequence < 0 else self.sequence
            self.check_sequences(sequence, sequence)
            deletions += self._within_bounds(RangeDeletion(key[: -k.TAG_BYTES], end, sequence))
        return fragments(deletions)

    def _within_bounds(self, deletion: RangeDeletion) -> Iterator[RangeDeletion]:
        """Yield the parts of a range deletion that delete, as RocksDB cuts it (``TruncatedRangeDelIterator``).

        It begins at the first entry of the table, and does not delete newer entries of the same key in other tables. RocksDB
        records the end of a range deletion as the last key of the table. A deletion that ends after another last key is damage:
        versions of RocksDB read older entries of that key differently.
        """
        begin, end, sequence = deletion
        if self.file.largest.endswith(END_OF_DELETION):
            end = min(end, self.largest)
        elif begin <= self.largest < end:
            raise self.has_other_keys()
        if begin <= self.smallest < end:
            begin = self.smallest + b"\0"
            newest = int.from_bytes(self.file.smallest[-k.TAG_BYTES :], "little") >> 8
            yield RangeDeletion(self.smallest, begin, min(sequence, newest + 1))
        if begin < end:
            yield RangeDeletion(begin, end, sequence)

    @cached_property
    def stored_deletions(self) -> list[tuple[bytes, bytes]]:
        """The stored range deletions: internal keys, and exclusive ends."""
        handle = self._meta.get(RANGE_DELETIONS)
        return [] if handle is None else list(block_entries(self.plain_block(handle), self.context))

    def plain_metadata(self) -> Iterator[Bytes]:
        """Yield the decompressed blocks of metadata, and each bound of a range deletion as a whole."""
        for name, handle in self._meta.items():
            data, size = self._block(handle)
            yield data[:size]
            if name == RANGE_DELETIONS:
                for bound in chain.from_iterable(self.stored_deletions):
                    yield np.frombuffer(bound, dtype=np.uint8)

    def verify(self) -> int:
        """Verify the checksums of all blocks: of entries, the index, filters and properties.

        Returns: the number of blocks; 0 if the table does not have checksums.
        """
        if self.format.checksum == k.NO_CHECKSUM:
            return 0
        listed = [self.blocks()]  # reading the index verifies its blocks
        for name, handle in self._meta.items():
            if name.startswith(_PARTITIONED_FILTER):
                listed.append(self._listed(*self._block(handle), b"", None))
        rows = np.concatenate([*(part.rows[:, [k.OFFSET, k.SIZE]] for part in listed), np.array(list(self._meta.values()))])
        rows = rows[np.argsort(rows[:, 0])]
        self._check_places(np.pad(rows, ((0, 0), (k.OFFSET, 0))))
        first = 0
        while first < len(rows):
            ends = rows[:, 0] + rows[:, 1] + TRAILER
            behind = max(first + 1, int(np.searchsorted(ends, rows[first, 0] + _VERIFIED_AT_ONCE, side="right")))
            begin, end = int(rows[first, 0]), int(ends[behind - 1])
            offsets, sizes = np.ascontiguousarray(rows[first:behind].T)
            data = np.frombuffer(self.stream.read(begin, end - begin), dtype=np.uint8)
            self.format.verify(RawBlocks.of(data, offsets - begin, offsets, sizes, self.context), self.context)
            first = behind
        return len(rows)

    @cached_property
    def properties(self) -> dict[bytes, bytes]:
        """The properties by name."""
        handle = self._meta.get(b"rocksdb.properties")
        if handle is None:
            raise CorruptSnapshotError(f"{self.context}: the block of properties is missing")
        if handle[1] > _MOST_PROPERTIES:
            raise CorruptSnapshotError(f"{self.context}: its properties have {handle[1]} bytes")
        return dict(self._sorted(handle, "properties"))

    def _sorted(self, handle: tuple[int, int], title: str) -> list[tuple[bytes, bytes]]:
        """Return the entries of a block of metadata, which RocksDB looks up by binary search."""
        entries = list(block_entries(self.plain_block(handle), self.context))
        if any(key >= next_key for (key, _), (next_key, _) in pairwise(entries)):
            raise CorruptSnapshotError(f"{self.context}: its {title} are not in order")
        return entries

    def _check_meta(self) -> None:
        """Refuse unsupported features, and names of blocks that are exchanged."""
        properties = self.properties
        places = sorted(self._meta.values())
        overlap = any(offset + size + TRAILER > next_offset for (offset, size), (next_offset, _) in pairwise(places))
        if _COUNT not in properties or overlap:
            raise CorruptSnapshotError(
                f"{self.context}: the names of its blocks are damaged: a block has the name of another one"
            )
        comparator = properties.get(b"rocksdb.comparator", COMPARATOR)
        merge_operator = properties.get(b"rocksdb.merge.operator", b"")
        self._index_type = int.from_bytes(properties.get(b"rocksdb.block.based.table.index.type", b"\0"), "little")
        self.keys_are_exact = properties.get(b"rocksdb.index.key.is.user.key", b"\0") not in (b"\0", b"")
        self.is_delta = properties.get(b"rocksdb.index.value.is.delta.encoded", b"\0") not in (b"\0", b"")
        operands = properties.get(b"rocksdb.merge.operands", b"\0") not in (b"\0", b"")
        if comparator != COMPARATOR:
            raise self._unsupported(f"its {unsupported_order(comparator)}")
        if operands and merge_operator not in _MERGE_OPERATORS:
            raise self._unsupported(
                f"its merge operator {_text(merge_operator)} is not StringAppendTESTOperator, the merge operator of Flink"
            )
        ranges = properties.get(b"rocksdb.num.range-deletions")
        if ranges is not None and bool(read_varint(ranges)) != self.has_range_deletions:
            raise CorruptSnapshotError(
                f"{self.context}: its properties count {read_varint(ranges)} range deletions, but the table has "
                f"{'a' if self.has_range_deletions else 'no'} block of them"
            )
        if b"rocksdb.compression_dict" in self._meta:
            raise self._unsupported("its blocks are compressed with a dictionary")
        if self._index_type not in (_BINARY, _HASH, _PARTITIONED, _WITH_FIRST_KEY):
            raise self._unsupported(f"its index is of the unknown type {self._index_type}")

    def _unsupported(self, feature: str) -> UnsupportedFormatError:
        return UnsupportedFormatError(f"{self.context}: {feature}; write a canonical savepoint")

    @property
    def kept_bytes(self) -> int:
        """Bytes of the end of the file and of the index that this object keeps."""
        index = vars(self).get("_index")
        return len(self.tail) + (0 if index is None else len(index[0]))

    @cached_property
    def _index(self) -> tuple[Bytes, int]:
        handle = self._index_handle or self._meta.get(b"rocksdb.index")
        if handle is None:
            raise CorruptSnapshotError(f"{self.context}: the index is missing")
        index = self._block(handle)
        self._check_separators(index)
        return index

    def _check_separators(self, index: tuple[Bytes, int]) -> None:
        """Refuse an index whose first or last separators contradict the smallest and the largest key in the manifest."""
        self._listed(*index, b"", None)  # a list of a part does not see the order of all separators
        first, last = self._listed(*index, b"", self.smallest), self._listed(*index, self.largest, None)
        # The first block has the first key, and only the last block may have a larger separator than the last key
        if len(first) > 1 or (len(first) and first.separator(0) < self.smallest):
            raise self.has_other_keys()
        if len(last) > 1 and last.separator(len(last) - 2) > self.largest:
            raise self.has_other_keys()
        if not len(last) and not self.has_range_deletions:
            raise self.has_other_keys()

    def _listed(self, data: Bytes, size: int, lower: bytes, upper: bytes | None) -> BlockList:
        """Return the blocks that a block of an index lists."""
        exact, delta, first = self.keys_are_exact, self.is_delta, self._index_type == _WITH_FIRST_KEY
        above, below = Bound(lower), Bound(upper or b"")
        below_size = -1 if upper is None else below.size
        buffer, room, most = data, 0, max(_FIRST_BLOCKS, size // _BLOCK_IN_INDEX)
        result = np.zeros(k.RESULT_FIELDS, dtype=np.int64)
        while True:
            table = np.empty((min(most, size // 3 + 1), k.INDEX_FIELDS), dtype=np.int64)
            k.decode_index(
                *(buffer, 0, size, above.padded, below.padded, above.size, below_size),
                *(0 if exact else k.TAG_BYTES, int(delta), int(first), table, size, size + room, result),
            )
            if result[k.STATUS] != k.FULL or room > _MOST_KEY_BYTES:
                break
            room, most = 4 * max(room, size) + 4096, 8 * most
            buffer = np.zeros(size + room + k.SLACK, dtype=np.uint8)
            buffer[:size] = data[:size]
        if result[k.STATUS] != k.DONE:
            raise CorruptSnapshotError(f"{self.context}: its index is damaged")
        rows = table[: result[k.ROWS]]
        self._check_places(rows)
        return BlockList(buffer, rows)

    def _check_places(self, rows: Numbers) -> None:
        """Refuse blocks of an index that overlap, or that are not within the file."""
        end = self.stream.size - FOOTER
        places = rows[:, [k.OFFSET, k.SIZE]]
        ends = places.sum(axis=1) + TRAILER
        # A place is compared first: the sum of two large numbers overflows
        if (places > end).any() or (ends > end).any() or (ends[:-1] > places[1:, 0]).any():
            raise CorruptSnapshotError(
                f"{self.context}: its index lists blocks that overlap, or that are behind the end of the file"
            )

    def plain_block(self, place: tuple[int, int]) -> bytes:
        """Read a block at an offset, of a size, and decompress it."""
        data, size = self._block(place)
        return data[:size].tobytes()

    def _block(self, handle: tuple[int, int]) -> tuple[Bytes, int]:
        """Read one block; return its bytes with additional space, and its size."""
        offset, size = handle
        if offset < 0 or size < 0 or offset + size + TRAILER > self.stream.size:
            raise CorruptSnapshotError(f"{self.context}: a block is after the end of the file")
        base, data = self._part(offset, offset + size + TRAILER)
        begin, place, length = np.array([[offset - base], [offset], [size]], dtype=np.int64)
        blocks = RawBlocks.of(np.frombuffer(data, dtype=np.uint8), begin, place, length, self.context)
        plain = int(blocks.plain_sizes[0])
        target = np.empty(plain + k.SLACK, dtype=np.uint8)
        target[plain:] = 0
        self.format.decompress(blocks, target, 0, self.context)
        return target, plain

    def _part(self, begin: int, end: int) -> tuple[int, memoryview]:
        """Return the offset and the content of a part of the file with the bytes from ``begin`` to ``end``."""
        if begin >= self.tail_begin:
            return self.tail_begin, self.tail
        front = self.stream.read(begin, min(end, self.tail_begin) - begin)
        return begin, front if end <= self.tail_begin else memoryview(b"".join((front, self.tail[: end - self.tail_begin])))

    def _checked_version(self, footer: bytes) -> int:
        magic = int.from_bytes(footer[-8:], "little")
        version = int.from_bytes(footer[-12:-8], "little")
        if magic in _OTHER_MAGICS:
            raise self._unsupported(f"it is {_OTHER_MAGICS[magic]}; supported are block-based tables of format versions 2 to 6")
        if magic != MAGIC:
            raise CorruptSnapshotError(f"{self.context}: its end is not the end of a table")
        if version not in _VERSIONS:
            raise self._unsupported(f"its format version is {version}; supported are versions 2 to 6")
        if footer[0] not in CHECKSUMS:
            raise self._unsupported(f"its checksums are of the unknown kind {footer[0]}")
        return version

    def _older_footer(self, footer: bytes) -> tuple[BlockFormat, tuple[int, int], tuple[int, int] | None]:
        offset, size, at = self._handle(footer[1 : 1 + HANDLES], 0)
        return BlockFormat(footer[0], 0), (offset, size), self._handle(footer[1 : 1 + HANDLES], at)[:2]

    def _newer_footer(self, footer: bytes) -> tuple[BlockFormat, tuple[int, int], tuple[int, int] | None]:
        if footer[1:5] != _EXTENDED_MAGIC:
            raise CorruptSnapshotError(f"{self.context}: its footer is damaged")
        expected, context, size = (int.from_bytes(footer[i : i + 4], "little") for i in (5, 9, 13))
        form = BlockFormat(footer[0], context)
        place = self.stream.size - FOOTER
        computed = form.checksum_of(memoryview(footer[:5] + bytes(4) + footer[9:]))
        if context:
            computed = computed + (context ^ ((place + (place >> 32)) & 0xFFFFFFFF)) & 0xFFFFFFFF
        if computed != expected:
            raise CorruptSnapshotError(f"{self.context}: the checksum of its footer is wrong; the file is damaged")
        return form, (place - TRAILER - size, size), None

    def _handle(self, data: bytes, at: int) -> tuple[int, int, int]:
        """Read the offset and the size of a block; return them, and their end."""
        numbers = []
        for _ in range(2):
            value = shift = 0
            while True:
                if at >= len(data) or shift > 56:
                    raise CorruptSnapshotError(f"{self.context}: the place of a block is damaged")
                byte = data[at]
                value |= (byte & 0x7F) << shift
                shift, at = shift + 7, at + 1
                if byte < 0x80:
                    break
            numbers.append(value)
        return numbers[0], numbers[1], at


def unsupported_order(comparator: bytes) -> str:
    """Return the problem of keys that a comparator orders, for messages."""
    order = "have user-defined timestamps" if comparator.endswith(b".u64ts") else "are not in the order of their bytes"
    return f"keys {order} (comparator {_text(comparator)})"


def _text(name: bytes) -> str:
    return repr(name.decode("utf-8", "replace"))
