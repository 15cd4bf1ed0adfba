"""Bytes of one value: Flink's type serializers and their snapshots. No files, no Spark."""

from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    SimpleSerializer,
    SimpleTypeSerializerSnapshot,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
    simple_snapshots,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import register_snapshot, registrations
from state_processor.support.plugin_table import PLUGINS

if TYPE_CHECKING:
    from state_processor.serializers.core.arrays import SimpleArraySerializer
    from state_processor.serializers.core.basic import CharSerializer, NumberSerializer, StringSerializer, StringValueSerializer
    from state_processor.serializers.core.fixed_width import FixedWidthSerializer
    from state_processor.serializers.core.pojo import PojoSerializer
    from state_processor.serializers.core.pojo_fields import PojoField, register_pojo_class, register_primitive_fields
    from state_processor.serializers.core.rows import TupleSerializer, TupleSerializerSnapshot
    from state_processor.serializers.core.self_written import register_value_class
    from state_processor.serializers.kryo.serializer import KryoSerializer, KryoSerializerSnapshot
    from state_processor.serializers.kryo.user_classes import register_kryo_class, register_protobuf
    from state_processor.serializers.runtime.beam import register_coder
    from state_processor.serializers.table.operator_records import SortedMapSerializerSnapshot
    from state_processor.serializers.table.rowdata import RowDataSerializer

_HOMES: Final = {
    "CharSerializer": "core.basic",
    "FixedWidthSerializer": "core.fixed_width",
    "KryoSerializer": "kryo.serializer",
    "KryoSerializerSnapshot": "kryo.serializer",
    "NumberSerializer": "core.basic",
    "PojoField": "core.pojo_fields",
    "PojoSerializer": "core.pojo",
    "RowDataSerializer": "table.rowdata",
    "SimpleArraySerializer": "core.arrays",
    "SortedMapSerializerSnapshot": "table.operator_records",
    "StringSerializer": "core.basic",
    "StringValueSerializer": "core.basic",
    "TupleSerializer": "core.rows",
    "TupleSerializerSnapshot": "core.rows",
    "register_coder": "runtime.beam",
    "register_kryo_class": "kryo.user_classes",
    "register_pojo_class": "core.pojo_fields",
    "register_primitive_fields": "core.pojo_fields",
    "register_protobuf": "kryo.user_classes",
    "register_value_class": "core.self_written",
}
"""Modules that few processes need."""
_OF_PLUGINS: Final = dict(chain.from_iterable(plugin.functions.items() for plugin in PLUGINS))
"""Functions of plug-ins, by the modules in ``state_processor.plugins``."""

__all__ = [
    "CharSerializer",
    "CompositeTypeSerializerSnapshot",
    "DataInput",
    "DataOutput",
    "DecodeOptions",
    "FixedWidthSerializer",
    "KryoSerializer",
    "KryoSerializerSnapshot",
    "NumberSerializer",
    "PojoField",
    "PojoSerializer",
    "RowDataSerializer",
    "SchemaCompatibility",
    "SimpleArraySerializer",
    "SimpleSerializer",
    "SimpleTypeSerializerSnapshot",
    "SortedMapSerializerSnapshot",
    "StringSerializer",
    "StringValueSerializer",
    "TupleSerializer",
    "TupleSerializerSnapshot",
    "TypeSerializer",
    "TypeSerializerSnapshot",
    "read_serializer_snapshot",
    "read_versioned_snapshot",
    "register_coder",
    "register_kryo_class",
    "register_pojo_class",
    "register_primitive_fields",
    "register_protobuf",
    "register_snapshot",
    "register_value_class",
    "registrations",
    "simple_snapshots",
]
__all__ += [*_OF_PLUGINS]
__all__.sort(key=lambda name: (name.islower(), name))


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _OF_PLUGINS:
        return getattr(import_module(f"state_processor.plugins.{_OF_PLUGINS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def read_serializer_snapshot(
    data: bytes, source: str = "serializer snapshot", *, flink_major: int | None = None
) -> TypeSerializerSnapshot:
    """Read a snapshot in the framing of ``TypeSerializerSnapshot.writeVersionedSnapshot``.

    Parameters
    ----------
    data
        All bytes of the snapshot.
    source
        Name of the bytes, for error messages.
    flink_major
        The major version of the Flink that wrote values with this serializer. Without it, each value determines the version of
        Kryo.

    Raises
    ------
    CorruptSnapshotError
        If the bytes end early, or bytes are left over.
    UnknownSerializerError
        If its class is not registered.
    """
    reader = DataInput(data, source, flink_major=flink_major)
    snapshot = read_versioned_snapshot(reader)
    if not reader.at_end():
        raise reader.corrupt(f"{reader.remaining} bytes are left over after {snapshot.class_name}")
    return snapshot
