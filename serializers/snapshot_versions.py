"""Versions of serializer snapshots: the versions of each class, and the first release of Flink or a library that wrote each.

The registry checks every snapshot that is read against this table, and refuses to register other classes. Scalar types have their
versions in their own description (``core/scalar_type.py``). Rows were compared with
``getCurrentVersion`` of all snapshot classes in the releases 1.9 to 2.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from state_processor.serializers.format_versions import FLINK as FLINK_WRITER
from state_processor.serializers.format_versions import FormatVersions

ADAPTER_VERSION: Final = 0x7A53C4F0
"""The version that means "a serializer in Java serialization follows" (``TypeSerializerConfigSnapshot.ADAPTER_VERSION``)."""

_BEFORE_SNAPSHOTS: Final = "restore it with Flink 1.7 to 1.16, and take a new savepoint"
FLINK: Final = "org.apache.flink."


@dataclass(frozen=True, slots=True)
class SnapshotVersions:
    """Versions of one snapshot class."""

    own: FormatVersions  # versions of the class, stored after its name
    # versions of the outer part of a composite snapshot, stored before the nested ones; ``None`` for other snapshots
    outer: FormatVersions | None = None


_Layouts = tuple[Mapping[int, str], Mapping[int, str] | None]
"""Versions of a snapshot class and of its outer part, each with the first Flink."""


def _simple(since: str = "1.7") -> _Layouts:
    """Return the versions of a snapshot without configuration: version 2, of Flink 1.7, repeats the serializer's class."""
    return ({2: "1.7", 3: "1.8"} if since == "1.7" else {3: since}), None


def _plain(**since: str) -> _Layouts:
    """Return the versions of a snapshot that is neither simple nor composite."""
    return _numbers(since), None


def _composite(since: str = "1.8", **outer: str) -> _Layouts:
    """Return the versions of a composite snapshot.

    Flink reads versions 1 and 2 as written by Flink 1.7, where both versions are the same.
    """
    numbers = _numbers(outer)
    before = {version: "1.7" for version in numbers if version < 3} if since == "1.8" else {}
    return {**before, 3: since}, numbers


def _numbers(since: Mapping[str, str]) -> dict[int, str]:
    return {int(version.removeprefix("v")): flink for version, flink in since.items()}


_ADAPTER: Final[_Layouts] = {ADAPTER_VERSION: "1.7"}, None

_BASE: Final = "api.common.typeutils.base."
_RUNTIME: Final = "api.java.typeutils.runtime."
_TABLE: Final = "table.runtime.typeutils."
_PYTHON: Final = f"{_TABLE}serializers.python."
_WINDOW: Final = "table.runtime.operators.window."
_MULTISET: Final = "table.runtime.sequencedmultisetstate.linked."
_SHARED_BUFFER: Final = "cep.nfa.sharedbuffer."


def _of_serializers(package: str, *serializers: str) -> tuple[str, ...]:
    """Return the names of snapshot classes nested in serializers of these names."""
    return tuple(f"{package}{s}${s.rpartition('$')[2]}Snapshot" for s in serializers)


def _scala(home: str, first: str | None) -> Iterator[tuple[tuple[str, ...], _Layouts]]:
    """Yield the rows of the Scala API in one of its packages; ``first`` is the first Flink with the package."""
    since = first or "1.8"
    yield (*_of_serializers(home, "UnitSerializer"), f"{home}NothingSerializerSnapshot"), _simple(first or "1.7")
    yield (f"{home}ScalaEnumSerializerSnapshot",), _plain(v3=since)
    yield (f"{home}ScalaEitherSerializerSnapshot",), _composite(since, v1=since)
    second = ("ScalaCaseClass", "Tuple2CaseClass", "ScalaOption", "ScalaTry", "Traversable")
    yield tuple(f"{home}{name}SerializerSnapshot" for name in second), _composite(since, v2=since)


_PRIMITIVES: Final = ("Boolean", "Byte", "Char", "Double", "Float", "Int", "Long", "Short")
_COUNTED: Final = ("Boolean", "Char", "Double", "Float", "Int", "Long", "Short")
_VALUES: Final = tuple(f"{p}Value" for p in _PRIMITIVES)

_ROWS: Final[tuple[tuple[tuple[str, ...], _Layouts], ...]] = (
    (_of_serializers(_BASE, *(f"{t}Serializer" for t in (*_VALUES, "StringValue", "NullValue", "Void"))), _simple()),
    (_of_serializers(_BASE, "VariantSerializer"), _simple("2.1")),
    (_of_serializers(_BASE, "BitmapSerializer"), _simple("2.3")),
    (
        _of_serializers(f"{_BASE}array.", *(f"{p}PrimitiveArraySerializer" for p in _COUNTED), "StringArraySerializer"),
        _simple(),
    ),
    (_of_serializers(_BASE, "EnumSerializer"), _plain(v3="1.8")),
    (tuple(f"{_BASE}{c}SerializerSnapshot" for c in ("GenericArray", "List", "Map")), _composite(v1="1.7")),
    ((f"{_BASE}SetSerializerSnapshot",), _composite("2.0", v1="2.0")),
    ((f"{_BASE}GenericArraySerializerConfigSnapshot", f"{_RUNTIME}EitherSerializerSnapshot"), ({2: "1.7"}, {2: "1.7"})),
    (
        (
            "api.common.typeutils.ParameterlessTypeSerializerConfig",
            f"{_BASE}CollectionSerializerConfigSnapshot",
            f"{_BASE}MapSerializerConfigSnapshot",
        ),
        _ADAPTER,
    ),
    (_of_serializers("api.common.typeutils.", "SingleThreadAccessCheckingTypeSerializer"), _composite(v1="1.8")),
    (_of_serializers(_RUNTIME, "CopyableValueSerializer", "ValueSerializer", "WritableSerializer"), _plain(v2="1.8")),
    ((f"{_RUNTIME}PojoSerializerSnapshot", f"{_RUNTIME}kryo.KryoSerializerSnapshot"), _plain(v2="1.8")),
    (("formats.avro.typeutils.AvroSerializerSnapshot",), _plain(v1="1.7", v2="1.8", v3="1.12")),
    ((f"{_RUNTIME}JavaEitherSerializerSnapshot",), _composite(v1="1.8")),
    (_of_serializers(_RUNTIME, "NullableSerializer"), _composite(v2="1.8")),
    ((f"{_RUNTIME}TupleSerializerSnapshot",), _composite(v2="1.8")),
    ((f"{_RUNTIME}Tuple0SerializerSnapshot",), _simple()),
    (_of_serializers(_RUNTIME, "RowSerializer"), _composite(v2="1.8", v3="1.11", v4="1.14")),
    (("runtime.state.ArrayListSerializerSnapshot",), _composite(v1="1.7")),
    (_of_serializers("runtime.state.", "JavaSerializer", "VoidNamespaceSerializer"), _simple()),
    (("runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot",), _composite(v2="1.8")),
    (("runtime.state.ttl.TtlAwareSerializerSnapshot",), _plain(v1="2.0")),
    (("runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot",), _composite("2.0", v2="2.0")),
    (("streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot",), _composite(v2="1.8")),
    (
        ("streaming.api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializerSnapshot",),
        _composite(v2="1.8", v3="1.14", v4="1.14"),
    ),
    (
        ("streaming.api.functions.sink.legacy.TwoPhaseCommitSinkFunction$StateSerializerSnapshot",),
        _composite("2.0", v4="2.0"),
    ),
    (("streaming.api.operators.TimerSerializerSnapshot",), _composite(v2="1.8")),
    (("streaming.api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot",), _composite(v2="1.8")),
    (_of_serializers("streaming.runtime.streamrecord.", "StreamElementSerializer"), _composite(v2="1.8")),
    (
        tuple(f"streaming.api.windowing.windows.{w}$Serializer${w}SerializerSnapshot" for w in ("TimeWindow", "GlobalWindow")),
        _simple(),
    ),
    (tuple(f"{_WINDOW}{w}$Serializer${w}SerializerSnapshot" for w in ("TimeWindow", "CountWindow")), _simple()),
    ((f"{_WINDOW}GlobalWindow$Serializer$GlobalWindowSerializerSnapshot",), _simple("2.0")),
    (_of_serializers("table.runtime.operators.sink.", "SortedLongSerializer"), _simple("2.3")),
    # Flink SQL
    (_of_serializers(_TABLE, "RowDataSerializer"), _plain(v3="1.11", v4="2.4")),
    (_of_serializers(_TABLE, "BinaryRowDataSerializer", "ArrayDataSerializer", "MapDataSerializer"), _plain(v3="1.11")),
    (_of_serializers(_TABLE, "BaseRowSerializer", "BinaryRowSerializer"), _plain(v3="1.9")),
    (_of_serializers(_TABLE, "BaseArraySerializer", "BaseMapSerializer"), _plain(v3="1.9")),
    (_of_serializers(_TABLE, "StringDataSerializer"), _simple("1.11")),
    (_of_serializers(_TABLE, "BinaryStringSerializer"), _simple("1.9")),
    ((f"{_TABLE}DecimalDataSerializer$DecimalSerializerSnapshot",), _plain(v3="1.11")),
    (_of_serializers(_TABLE, "DecimalSerializer"), _plain(v3="1.9")),
    (_of_serializers(_TABLE, "TimestampDataSerializer"), _plain(v1="1.11")),
    (_of_serializers(_TABLE, "SqlTimestampSerializer"), _plain(v1="1.10")),
    (_of_serializers(_TABLE, "RawValueDataSerializer"), _composite("1.11", v0="1.11")),
    (_of_serializers(_TABLE, "BinaryGenericSerializer"), _composite("1.9", v0="1.9")),
    ((f"{_TABLE}SortedMapSerializerSnapshot",), _plain(v3="1.9")),
    (_of_serializers(_TABLE, "ExternalSerializer"), _composite("1.12", v1="1.12")),
    (_of_serializers(_TABLE, "LinkedListSerializer"), _composite("1.13", v1="1.13", v2="1.13", v3="1.14")),
    (_of_serializers(_TABLE, "WindowKeySerializer"), _composite("1.13", v1="1.13")),
    (tuple(f"table.dataview.{view}SerializerSnapshot" for view in ("ListView", "MapView")), _composite(v1="1.8")),
    (("table.dataview.NullAwareMapSerializerSnapshot",), _composite("1.9", v1="1.9")),
    (_of_serializers("table.dataview.", "NullSerializer"), _simple("1.9")),
    (_of_serializers(_MULTISET, "MetaSqnInfoSerializer", "NodeSerializer", "RowSqnInfoSerializer"), _composite("2.2", v0="2.2")),
    ((f"{_MULTISET}RowDataKeySerializerSnapshot",), _plain(v0="2.2")),
    # PyFlink
    (_of_serializers(_PYTHON, *(f"{t}Serializer" for t in ("BigDec", "Date", "String", "Time"))), _simple("1.10")),
    (_of_serializers(_PYTHON, "TimestampSerializer"), _plain(v1="1.10")),
    (_of_serializers(_PYTHON, "BaseRowSerializer"), _plain(v3="1.10")),
    (_of_serializers(_PYTHON, "BaseArraySerializer", "BaseMapSerializer", "DecimalSerializer"), _plain(v1="1.10")),
    (_of_serializers(_PYTHON, "RowDataSerializer"), _plain(v3="1.11")),
    (
        (
            *_of_serializers(_PYTHON, "ArrayDataSerializer"),
            f"{_PYTHON}MapDataSerializer$BaseMapSerializerSnapshot",
            f"{_PYTHON}DecimalDataSerializer$DecimalSerializerSnapshot",
        ),
        _plain(v1="1.11"),
    ),
    (_of_serializers("streaming.api.utils.", "ByteArrayWrapperSerializer"), _simple("1.12")),
    # Pattern matching
    (("cep.nfa.DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot",), _simple()),
    (_of_serializers(_SHARED_BUFFER, "EventId$EventIdSerializer"), _simple()),
    (
        (
            *_of_serializers(_SHARED_BUFFER, "NodeId$NodeIdSerializer", "SharedBufferEdge$SharedBufferEdgeSerializer"),
            *_of_serializers(_SHARED_BUFFER, "SharedBufferNode$SharedBufferNodeSerializer"),
            f"{_SHARED_BUFFER}LockableTypeSerializerSnapshot",
        ),
        _composite(v1="1.8"),
    ),
    ((f"{_SHARED_BUFFER}SharedBufferNodeSerializerSnapshotV2",), _composite("1.13", v1="1.13")),
    (("cep.nfa.NFAStateSerializerSnapshot",), _composite(v1="1.8", v2="1.16")),
    (("cep.nfa.NFA$MigratedNFASerializerSnapshot", "cep.nfa.SharedBuffer$SharedBufferSerializerSnapshot"), _composite(v2="1.8")),
    # Scala
    *_scala("api.scala.typeutils.", None),
    *_scala("table.api.typeutils.", "2.0"),
)


# Apache Beam

_BEAM: Final = "Apache Beam"
_BEAM_TYPES: Final = "org.apache.beam.runners.flink.translation.types."
_BEFORE_BEAM: Final = "restore it with that version of Beam, and take a new savepoint with a later one"

_BEAM_ROWS: Final[tuple[tuple[str, _Layouts], ...]] = (
    ("CoderTypeSerializer$LegacySnapshot", ({ADAPTER_VERSION: ""}, None)),
    ("UnversionedTypeSerializerSnapshot", ({1: ""}, None)),
)


def declared_versions(
    name: str,
    versions: Mapping[int, str],
    outer: Mapping[int, str] | None = None,
    writer: str = FLINK_WRITER,
    advice: str = _BEFORE_SNAPSHOTS,
) -> SnapshotVersions:
    """Return the versions of a snapshot class and of its outer part, each with the first release that wrote it.

    ``writer``: the project of these releases. ``advice``: what to do with a version that is not known.
    """
    around = None if outer is None else FormatVersions(f"{name}, outer part", outer, advice, writer)
    return SnapshotVersions(FormatVersions(name, versions, advice, writer), around)


SNAPSHOT_VERSIONS: Final[dict[str, SnapshotVersions]] = {
    **{f"{FLINK}{name}": declared_versions(f"{FLINK}{name}", *versions) for names, versions in _ROWS for name in names},
    **{
        f"{_BEAM_TYPES}{name}": declared_versions(f"{_BEAM_TYPES}{name}", *versions, _BEAM, _BEFORE_BEAM)
        for name, versions in _BEAM_ROWS
    },
}
"""The supported versions of each snapshot class, by its name. Those of scalar types and plug-ins are added with these."""


def declare_simple(class_name: str, since: str) -> None:
    """Add the snapshot class of a serializer without configuration, and the first Flink that wrote it."""
    SNAPSHOT_VERSIONS[class_name] = declared_versions(class_name, *_simple(since))
