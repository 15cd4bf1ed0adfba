"""Values of a fixed number of bytes, whose columns numpy or Arrow converts as a whole: types without a kernel instruction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from state_processor.serializers.base import SimpleSerializer
from state_processor.serializers.codec import Codec
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.hashing import EncodedValues, Hashes
from state_processor.support.errors import UNWRITABLE, NotCompilableError
from state_processor.support.late import pc

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


class FixedWidthCodec(Codec):
    """A codec that converts the bytes of many values at once: a matrix with a row of :attr:`length` bytes for each value.

    The kernel copies the bytes of the values, between other fields and inside of lists and maps. :meth:`column_of` and
    :meth:`bytes_of` convert them once for each batch. They get no null. If one of them raises an error, the values of the batch
    are converted one by one, and the message of the error has the value that failed.
    """

    null: bytes | None = None
    """The bytes of null; ``None`` if the type lacks null."""

    @abstractmethod
    def column_of(self, values: EncodedValues) -> pa.Array:
        """Return a column of the values.

        Raises
        ------
        ValueError
            If bytes are not a value of the type; the message names the expected form.
        """

    @abstractmethod
    def bytes_of(self, column: pa.Array) -> EncodedValues:
        """Return the bytes of the values of a column without null; the inverse of :meth:`column_of`.

        Raises
        ------
        ValueError
            If the type lacks a value; the message names the expected form.
        """

    def hashes_of(self, values: EncodedValues) -> Hashes | None:
        """Return Java's ``hashCode`` of the values; ``None`` if values of the type can't be keys."""
        return None

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes | None:
        return self.hashes_of(encode())

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        if pa.types.is_nested(column.type):
            raise NotCompilableError(str(self))  # the kernel has the fields of such a column apart
        builder.fixed(self.length, column, self._to_column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.fixed(self, column, self._to_bytes, self.null)

    def _matrix(self, data: Any) -> EncodedValues:
        return np.frombuffer(data, dtype=np.uint8).reshape(-1, self.length)

    def _to_column(self, encoded: pa.Array, type_: pa.DataType) -> pa.Array:
        """Return the column of the values from the binary column of their bytes."""
        present = encoded.drop_null()
        data = present.buffers()[2]
        values = self._matrix(memoryview(data)[: len(present) * self.length] if len(present) else b"")
        is_present = encoded.is_valid().to_numpy(zero_copy_only=False)
        if self.null is not None:
            is_not_null = (values != np.frombuffer(self.null, dtype=np.uint8)).any(axis=1)
            values, is_present[is_present] = values[is_not_null], is_not_null
        try:
            column = self.column_of(values)
        except UNWRITABLE:
            options = DecodeOptions()
            column_values = [self.to_column(self.deserialize(value.tobytes()), options) for value in values]
            column = pa.array(column_values, type_)
        if column.type != type_ or len(column) != len(values):
            raise TypeError(
                f"{type(self).__name__}.column_of returned {len(column)} values of type {column.type} for {len(values)} values; "
                f"the column is of type {type_}"
            )
        return column if is_present.all() else column.take(pa.array(np.cumsum(is_present) - 1, mask=~is_present))

    def _to_bytes(self, column: pa.Array, type_: pa.DataType) -> pa.Array | None:
        """Return the binary column of the values' bytes; ``None`` if a value is not of the type."""
        is_present = column.is_valid().to_numpy(zero_copy_only=False)
        try:
            values = self.bytes_of(column.drop_null().cast(type_))
        except UNWRITABLE:
            return None
        ends = np.concatenate([[0], np.cumsum(is_present * self.length)])
        if ends[-1] > np.iinfo(np.int32).max:
            return None
        if values.shape != (ends[-1] // self.length, self.length) or values.dtype != np.uint8:
            raise TypeError(
                f"{type(self).__name__}.bytes_of returned {values.dtype}{list(values.shape)} for {is_present.sum()} values of "
                f"{self.length} bytes"
            )
        buffers = (np.packbits(is_present, bitorder="little"), ends.astype(np.int32), np.ascontiguousarray(values))
        return pa.Array.from_buffers(pa.binary(), len(column), list(map(pa.py_buffer, buffers)))


class FixedWidthSerializer(FixedWidthCodec, SimpleSerializer):
    """A serializer without configuration whose values have all :attr:`length` bytes.

    A subclass sets ``snapshot_class``, ``name``, ``length`` and ``column``, and has the methods :meth:`column_of` and
    :meth:`bytes_of`; for keys also :meth:`hashes_of`. Python holds a value as the column does.
    """

    name: str
    """The name of the type, such as ``INSTANT``."""

    column: pa.DataType
    """The Arrow type of a column."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.min_size = cls.length

    def __str__(self) -> str:
        return self.name

    def read(self, source: DataInput) -> Any:
        start = source.position
        data = bytes(source.read_bytes(self.length, self.name))
        if data == self.null:
            return None
        try:
            return self.column_of(self._matrix(data))[0].as_py()
        except ValueError as problem:
            raise source.corrupt(f"{data.hex()} is not a value of type {self}: {problem}", start) from problem

    def write(self, value: Any, target: DataOutput) -> None:
        if value is not None:
            target.write_bytes(self.bytes_of(pa.array([value], self.column)).tobytes())
        elif self.null is not None:
            target.write_bytes(self.null)
        else:
            raise ValueError(f"null; {self} can't store null")

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.column

    def from_column(self, value: Any) -> Any:
        parsed = isinstance(value, str) and pa.types.is_temporal(self.column)
        return pc.cast(pa.scalar(value), self.column).as_py() if parsed else value


def big_endian(numbers: Any, size: int) -> EncodedValues:
    """Return whole numbers, of numpy or Arrow, as signed numbers of 1, 2, 4 or 8 bytes, the most significant byte first."""
    values = np.asarray(numbers)
    stored = values.astype(f">i{size}")
    if (stored != values).any():
        raise ValueError(f"expected whole numbers of {size} bytes")
    return stored.view(np.uint8).reshape(-1, size)


def characters(column: pa.Array, size: int) -> EncodedValues:
    """Return the bytes of texts of ``size`` bytes each."""
    fixed = pc.cast(column, pa.binary(size))
    data = np.frombuffer(fixed.buffers()[1] or b"", dtype=np.uint8).reshape(-1, size)
    return data[fixed.offset : fixed.offset + len(fixed)]


def text(values: EncodedValues) -> pa.Array:
    """Return the bytes of each value as a column of text."""
    size = values.shape[1]
    fixed = pa.Array.from_buffers(pa.binary(size), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
    return pc.cast(pc.cast(fixed, pa.binary()), pa.string())
