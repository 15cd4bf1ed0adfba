"""Codecs: how the bytes of values are read, skipped, written and compiled, and which columns hold the values.

A codec is a node of a tree. It provides ``read``, ``skip`` and ``write`` of one value in plain Python (the readable reference),
and ``emit_decode`` and ``emit_encode``, which add the same to a program of the kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import (
    UNWRITABLE,
    InvalidRowError,
    NotCompilableError,
    StateProcessorError,
    UnsupportedFormatError,
    culprit_of,
    why_unwritable,
)

if TYPE_CHECKING:
    from state_processor.serializers.java.hashing import EncodedValues, Hashes
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

VARIABLE: Final = -1
"""``length`` of serializers whose values differ in size."""


def total_length(parts: Iterable[Codec]) -> int:
    """Return the sum of the lengths, if all are fixed (zero counts as fixed)."""
    lengths = [part.length for part in parts]
    return VARIABLE if VARIABLE in lengths else sum(lengths)


def total_min_size(parts: Iterable[Codec]) -> int:
    """Return the bytes of the smallest values together."""
    return sum(part.min_size for part in parts)


def default_names(count: int) -> tuple[str, ...]:
    """Return the names of children that their type does not name.

    ``count``: the number of children.
    """
    return ("",) if count == 1 else tuple(map(str, range(count)))


class Codec(ABC):
    """How the bytes of values are read, skipped and written, and the columns that hold the values.

    A codec is compiled to instructions of the kernel. It may be a part of a type, or a type in a role: elements of a list state,
    values that a reader converts. A codec that is a type of its own is a :class:`TypeSerializer`.
    ``str(codec)`` names the type of the values, like Flink's type information: ``LONG``, ``LIST<STRING>``.
    """

    length: int = VARIABLE
    """Bytes of every value, or :data:`VARIABLE` (Flink: ``getLength``)."""

    min_size: int = 1
    """Bytes of the smallest value; bounds element counts that are read from a file."""

    @property
    def size(self) -> int:
        """Bytes of every written value, or :data:`VARIABLE`."""
        return self.length

    @abstractmethod
    def __str__(self) -> str: ...

    @property
    def children(self) -> Sequence[Codec]:
        """Nested codecs; empty for a codec that contains no others.

        A codec that is made with others overrides this and :meth:`with_children`. Codecs are immutable, so none contains
        itself. A recursive type refers to itself by name (:class:`~.avro.containers.AvroReference`); the reference has an empty
        list of children.
        """
        return ()

    @property
    def child_names(self) -> Sequence[str]:
        """Names of :attr:`children` in :mod:`~state_processor.serializers.traversal`; an empty name adds nothing to a path."""
        return default_names(len(self.children))

    @property
    def named_children(self) -> Sequence[tuple[str, Codec]]:
        """The children with their names."""
        children = self.children
        return tuple(zip(self.child_names, children, strict=True)) if children else ()

    @property
    def column_parts(self) -> Sequence[tuple[str, Codec]]:
        """The codecs of the fields, elements, keys and values of a column, with their names in paths."""
        return self.named_children

    def with_children(self, children: Sequence[Any]) -> Codec:
        """Return the same codec with other children, as many as :attr:`children` has."""
        return self

    def _struct_of_children(self, options: DecodeOptions) -> pa.DataType:
        """Return a struct of the columns of the children, by their names."""
        return pa.struct([(name, child.arrow_type(options)) for name, child in self.named_children])

    def _copy_with(self, **attributes: Any) -> Self:
        """Return a copy with other values of some attributes; pass all attributes that are derived from these."""
        new = copy(self)
        for name, value in attributes.items():
            setattr(new, name, value)
        return new

    @property
    def self_delimiting(self) -> bool:
        """Whether a value shows its end; other values can be read only if they fill their part of an entry."""
        return True

    @property
    def reason(self) -> str:
        """Reason why values can't be decoded; empty if they can."""
        return ""

    def as_remainder(self) -> Codec:
        """Return the codec of values that fill their part of an entry: of raw bytes if this one can't find their end."""
        return self

    @abstractmethod
    def read(self, source: DataInput) -> Any:
        """Read one value, in its lossless Python form."""

    def skip(self, source: DataInput) -> None:
        """Skip one value."""
        if self.length >= 0:
            source.skip(self.length)
        else:
            self.read(source)

    @abstractmethod
    def write(self, value: Any, target: DataOutput) -> None:
        """Write a value of :meth:`read`."""

    def deserialize(self, data: bytes | memoryview) -> Any:
        """Read the only value in ``data``; bytes left over are an error."""
        source = DataInput(data)
        value = self.read(source)
        if not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over after a value of type {self}")
        return value

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of one value.

        Raises
        ------
        InvalidRowError
            If the value is not one of the type. Errors of serializers that are not of this package pass unchanged.
        """
        target = DataOutput()
        try:
            self.write(value, target)
        except UNWRITABLE as problem:
            if isinstance(problem, StateProcessorError) or culprit_of(problem) is not None:
                raise
            raise InvalidRowError(why_unwritable(problem, self, value)) from problem
        return target.to_bytes()

    never_null: bool = False
    """Whether a column has null for Java's null only. Keys and namespaces are never null in Flink, so their columns have none."""

    @property
    def writes_null(self) -> bool:
        """Whether null has an encoding like other values (Flink: ``NullableSerializer.checkIfNullSupported``)."""
        try:
            return self.deserialize(self.serialize(None)) is None
        except UNWRITABLE:
            return False

    @abstractmethod
    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the Arrow type of a column of such values, in Spark's mapping."""

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        """Convert a value of :meth:`read` to the form of ``pyarrow.array(…, arrow_type(options))`` and ``to_pylist``."""
        return value

    def from_column(self, value: Any) -> Any:
        """Convert a value of a column or of JSON to the form of :meth:`write`; the inverse of :meth:`to_column`."""
        return value

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        """Append the instructions that read one value into ``column``, or skip it if ``column`` is ``DISCARD``."""
        raise NotCompilableError(str(self))

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        """Append the instructions that write ``column``'s values.

        By default :meth:`from_column` and :meth:`write` do this in Python, value by value.
        """
        builder.prepare(self, column)

    def key_from_column(self, value: Any) -> Any:
        """Convert a key of keyed state to the form of :meth:`write`; :meth:`from_column` converts other values."""
        return self.from_column(value)

    def emit_encode_key(self, builder: EncodeBuilder, column: Column) -> None:
        """Append the instructions that write a column of keys of keyed state; some types encode keys differently."""
        self.emit_encode(builder, column)

    def hash_code(self, value: Any) -> int:
        """Return Java's ``hashCode`` of a value of :meth:`read`, signed 32 bits; it decides a key's key group.

        By default the rule of :meth:`hash_encoded`.
        """
        if self.length >= 0 and value is not None:
            hash_codes = self.hash_encoded(lambda: np.frombuffer(self.serialize(value), dtype=np.uint8).reshape(1, self.length))
            if hash_codes is not None:
                return int(hash_codes[0])
        raise UnsupportedFormatError(f"the hashCode of {self} is not known: keys of this type can't be assigned to key groups")

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes | None:
        """Return ``hashCode`` of a column without nulls from its encoded values; ``None`` if only :meth:`hash_code` computes it.

        Parameters
        ----------
        encode
            Encodes the column; for serializers of fixed :attr:`length` only.
        """
        return None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


class ReadOnlyCodec(Codec):
    """A codec that reads bytes of one type as values of another."""

    def write(self, value: Any, target: DataOutput) -> None:
        raise UnsupportedFormatError(f"the codec {type(self).__name__} of {self} can only read; write with the wanted serializer")
