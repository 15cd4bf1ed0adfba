"""Serializers of the rows that PyFlink's table runtime exchanges with Python (Flink: ``…typeutils.serializers.python``).

They write values one after the other; the table runtime itself uses binary rows. Snapshots of arrays and maps contain only Java
objects. Flink's ``PythonTypeUtils`` determines the encoding of their elements by the type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.collections import ListCodec, MapSerializer, NullFlagged
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.table.logical_types import ArrayType, LogicalType, MapType, RowType
from state_processor.serializers.table.python_state import PYTHON
from state_processor.serializers.table.rowdata import JavaObjectsSnapshot, RowDataSerializerSnapshot
from state_processor.serializers.table.type_descriptors import find_descriptor
from state_processor.support.errors import UnsupportedFormatError


class _OfSavepoint:
    """A part of serializers whose snapshot contains Java objects: they are restored from a savepoint, never made."""

    _written: TypeSerializerSnapshot | None

    def snapshot(self) -> TypeSerializerSnapshot:
        if self._written is None:
            raise UnsupportedFormatError(f"the snapshot of {self} contains Java objects and must come from a savepoint")
        return self._written


class PythonRowDataSerializer(_OfSavepoint, RowSerializer):
    """``RowData`` encoded like ``Row``: bit mask, then fields (Flink: ``RowDataSerializer`` of the Python package)."""

    def __init__(
        self, fields: Sequence[TypeSerializer], names: Sequence[str], written: TypeSerializerSnapshot | None = None
    ) -> None:
        super().__init__(fields, names)
        self._written = written


class PythonRowDataSerializerSnapshot(RowDataSerializerSnapshot):
    """Snapshot of :class:`PythonRowDataSerializer`, with the same bytes as the table runtime's snapshot."""

    def restore_serializer(self) -> TypeSerializer:
        type_ = RowType.of(*self.logical_types)
        return PythonRowDataSerializer(list(map(python_serializer, type_.types)), type_.names, self)


class PythonArrayDataSerializer(_OfSavepoint, ListCodec, TypeSerializer):
    """An array: a count, then a byte 1 and the element, or 0 for null (Flink: ``ArrayDataSerializer`` of the Python package)."""

    def __init__(self, type_: ArrayType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(NullFlagged(python_serializer(type_.element), null_when=False))
        self._written = written


class PythonArrayDataSerializerSnapshot(JavaObjectsSnapshot):
    """Snapshot of :class:`PythonArrayDataSerializer`."""

    current_version = 1

    def create_serializer(self, *types: Any) -> TypeSerializer:
        return PythonArrayDataSerializer(ArrayType(*types), self)


class PythonMapDataSerializer(_OfSavepoint, MapSerializer):
    """A map, as ``MapSerializer`` writes it (Flink: ``MapDataSerializer`` of the Python package)."""

    def __init__(self, type_: MapType, written: TypeSerializerSnapshot | None = None) -> None:
        super().__init__(python_serializer(type_.key), python_serializer(type_.value))
        self._written = written


class PythonMapDataSerializerSnapshot(JavaObjectsSnapshot):
    """Snapshot of :class:`PythonMapDataSerializer`."""

    current_version = 1
    type_count = 2

    def create_serializer(self, *types: Any) -> TypeSerializer:
        return PythonMapDataSerializer(MapType(*types), self)


_CONTAINERS: Final[dict[type[LogicalType], Callable[[Any], TypeSerializer]]] = {
    ArrayType: PythonArrayDataSerializer,
    MapType: PythonMapDataSerializer,
    RowType: lambda t: PythonRowDataSerializer(list(map(python_serializer, t.types)), t.names),
}
"""Serializers of types with nested types. Other types have theirs in their descriptor."""


def python_serializer(type_: LogicalType) -> TypeSerializer:
    """Return the serializer of a field or element of this type."""
    descriptor = find_descriptor(type_)
    codecs = descriptor.codecs if descriptor is not None else None
    maker = codecs.python if codecs is not None else _CONTAINERS.get(type(type_))
    if maker is None:
        raise UnsupportedFormatError(f"PyFlink's table runtime lacks a serializer for values of type {type_}")
    return maker(type_)


provide_snapshots(
    (f"{PYTHON}RowDataSerializer$RowDataSerializerSnapshot", f"{PYTHON}BaseRowSerializer$BaseRowSerializerSnapshot"),
    PythonRowDataSerializerSnapshot,
)
provide_snapshots(
    (f"{PYTHON}ArrayDataSerializer$ArrayDataSerializerSnapshot", f"{PYTHON}BaseArraySerializer$BaseArraySerializerSnapshot"),
    PythonArrayDataSerializerSnapshot,
)
provide_snapshots(
    (f"{PYTHON}MapDataSerializer$BaseMapSerializerSnapshot", f"{PYTHON}BaseMapSerializer$BaseMapSerializerSnapshot"),
    PythonMapDataSerializerSnapshot,
)
