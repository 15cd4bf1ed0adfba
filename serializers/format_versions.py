"""Versions of the formats that Flink writes: the supported versions, and the Flink version that first wrote each.

Flink writes a version number before each structure whose layout may change. A version that is missing in the structure's table
has an unknown layout. Reading it could give wrong values, so it is refused by name.

The registry checks every serializer snapshot that is read against :data:`SNAPSHOT_VERSIONS`, and refuses to register other
classes. Scalar types have their versions in their own description (``ScalarType`` in ``core/basic.py``). Rows were compared with
``getCurrentVersion`` of all snapshot classes in the releases 1.9 to 2.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from state_processor.serializers.java.types import class_names
from state_processor.support.errors import StateProcessorError, UnsupportedFormatError

Release = tuple[int, ...]
"""Major and minor version of Flink."""

FLINK: Final = "Flink"
NEWEST_FLINK: Final = "2.3"
"""The newest release of Flink whose formats were compared with these tables."""


@dataclass(frozen=True, slots=True)
class FormatVersions:
    """Versions of one structure."""

    title: str  # the name of the structure in messages
    # the supported versions, each with the first Flink that wrote it; without it for structures of users
    since: Mapping[int, str]
    # advice for a version that is older than all of these
    advice: str = "restore it with that Flink or the next one, and take a new savepoint"
    writer: str = FLINK  # what writes the structure: Flink, or the library whose versions are in ``since``

    def check(
        self,
        version: int,
        source: str,
        offset: int,
        flink_major: int | None = None,
        error: type[StateProcessorError] = UnsupportedFormatError,
    ) -> None:
        """Refuse an unknown version.

        ``version``: the version in the bytes. ``source`` and ``offset``: where the version was read. ``flink_major``: the major
        version of the Flink that wrote the snapshot, if known. ``error``: the class of the error.
        """
        if version not in self.since:
            problem = f"{source}, offset {offset}: version {version} of {self.title} is not known"
            raise error(f"{problem}, only {self.listed}.\n{self._probable_cause(version, flink_major)}")

    @property
    def listed(self) -> str:
        """The versions as text: ``3 (Flink 1.11) and 4 (Flink 2.4)``."""
        by_version = sorted(self.since.items())
        *earlier, last = (f"{version} ({self.writer} {first})" if first else f"{version}" for version, first in by_version)
        return f"{', '.join(earlier)} and {last}" if earlier else last

    def _probable_cause(self, version: int, flink_major: int | None) -> str:
        if self.writer != FLINK:
            return self._cause_in_library(version)
        if not any(self.since.values()):
            return "The class that was registered declares no other in `versions` or `outer_versions`: register one that does."
        if version < min(self.since):
            return f"A Flink before {self.since[min(self.since)]} wrote it, or the bytes are damaged: {self.advice}."
        newest = max(self.since.values(), key=release_of)
        if version < max(self.since) or (flink_major is not None and flink_major < release_of(newest)[0]):
            written = "" if flink_major is None else f" The snapshot is of Flink {flink_major}.x."
            return f"No release of Flink writes it: a modified Flink did, or the bytes are damaged.{written}"
        latest = max(newest, NEWEST_FLINK, key=release_of)
        return f"A Flink after {latest} probably wrote it (install a newer state-processor), or the bytes are damaged."

    def _cause_in_library(self, version: int) -> str:
        first = self.since[min(self.since)]
        if version < min(self.since) and first:
            return f"A {self.writer} before {first} wrote it, or the bytes are damaged: {self.advice}."
        release = "A later" if version > max(self.since) else "Another"
        return f"{release} {self.writer} probably wrote it (install a newer state-processor), or the bytes are damaged."


def release_of(flink: str) -> Release:
    """Return the numbers of a version: ``(1, 20)``."""
    return tuple(map(int, flink.split(".")))


# Serializer snapshots

ADAPTER_VERSION: Final = 0x7A53C4F0
"""The version that means "a serializer in Java serialization follows" (``TypeSerializerConfigSnapshot.ADAPTER_VERSION``)."""

_BEFORE_SNAPSHOTS: Final = "restore it with Flink 1.7 to 1.16, and take a new savepoint"
FLINK_PACKAGES: Final = "org.apache.flink."


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
    """Return the names of snapshot classes that are nested in their serializers; ``serializers`` lack the end of their names."""
    return tuple(f"{package}{s}Serializer${s.rpartition('$')[2]}SerializerSnapshot" for s in serializers)


def _beside(package: str, *serializers: str) -> tuple[str, ...]:
    """Return the names of snapshot classes next to their serializers; ``serializers`` lack the end of their names."""
    return tuple(f"{package}{s}SerializerSnapshot" for s in serializers)


def _of_windows(package: str, *windows: str) -> tuple[str, ...]:
    """Return the names of the snapshot classes of windows, which are nested in their serializers."""
    return tuple(f"{package}{w}$Serializer${w}SerializerSnapshot" for w in windows)


def _scala(home: str, first: str | None) -> Iterator[tuple[tuple[str, ...], _Layouts]]:
    """Yield the rows of the Scala API in one of its packages; ``first`` is the first Flink with the package."""
    since = first or "1.8"
    yield (*_of_serializers(home, "Unit"), *_beside(home, "Nothing")), _simple(first or "1.7")
    yield _beside(home, "ScalaEnum"), _plain(v3=since)
    yield _beside(home, "ScalaEither"), _composite(since, v1=since)
    second = ("ScalaCaseClass", "Tuple2CaseClass", "ScalaOption", "ScalaTry", "Traversable")
    yield _beside(home, *second), _composite(since, v2=since)


_PRIMITIVES: Final = ("Boolean", "Byte", "Char", "Double", "Float", "Int", "Long", "Short")
_COUNTED: Final = ("Boolean", "Char", "Double", "Float", "Int", "Long", "Short")
_VALUES: Final = tuple(f"{p}Value" for p in _PRIMITIVES)

_ROWS: Final[tuple[tuple[tuple[str, ...], _Layouts], ...]] = (
    (_of_serializers(_BASE, *_VALUES, "StringValue", "NullValue", "Void"), _simple()),
    (_of_serializers(_BASE, "Variant"), _simple("2.1")),
    (_of_serializers(_BASE, "Bitmap"), _simple("2.3")),
    (
        _of_serializers(f"{_BASE}array.", *(f"{p}PrimitiveArray" for p in _COUNTED), "StringArray"),
        _simple(),
    ),
    (_of_serializers(_BASE, "Enum"), _plain(v3="1.8")),
    (_beside(_BASE, "GenericArray", "List", "Map"), _composite(v1="1.7")),
    (_beside(_BASE, "Set"), _composite("2.0", v1="2.0")),
    ((f"{_BASE}GenericArraySerializerConfigSnapshot", f"{_RUNTIME}EitherSerializerSnapshot"), ({2: "1.7"}, {2: "1.7"})),
    (
        (
            "api.common.typeutils.ParameterlessTypeSerializerConfig",
            f"{_BASE}CollectionSerializerConfigSnapshot",
            f"{_BASE}MapSerializerConfigSnapshot",
        ),
        _ADAPTER,
    ),
    (_of_serializers("api.common.typeutils.", "SingleThreadAccessCheckingType"), _composite(v1="1.8")),
    (_of_serializers(_RUNTIME, "CopyableValue", "Value", "Writable"), _plain(v2="1.8")),
    ((f"{_RUNTIME}PojoSerializerSnapshot", f"{_RUNTIME}kryo.KryoSerializerSnapshot"), _plain(v2="1.8")),
    (("formats.avro.typeutils.AvroSerializerSnapshot",), _plain(v1="1.7", v2="1.8", v3="1.12")),
    ((f"{_RUNTIME}JavaEitherSerializerSnapshot",), _composite(v1="1.8")),
    (_of_serializers(_RUNTIME, "Nullable"), _composite(v2="1.8")),
    ((f"{_RUNTIME}TupleSerializerSnapshot",), _composite(v2="1.8")),
    ((f"{_RUNTIME}Tuple0SerializerSnapshot",), _simple()),
    (_of_serializers(_RUNTIME, "Row"), _composite(v2="1.8", v3="1.11", v4="1.14")),
    (("runtime.state.ArrayListSerializerSnapshot",), _composite(v1="1.7")),
    (_of_serializers("runtime.state.", "Java", "VoidNamespace"), _simple()),
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
    (_of_serializers("streaming.runtime.streamrecord.", "StreamElement"), _composite(v2="1.8")),
    (_of_windows("streaming.api.windowing.windows.", "TimeWindow", "GlobalWindow"), _simple()),
    (_of_windows(_WINDOW, "TimeWindow", "CountWindow"), _simple()),
    (_of_windows(_WINDOW, "GlobalWindow"), _simple("2.0")),
    (_of_serializers("table.runtime.operators.sink.", "SortedLong"), _simple("2.3")),
    # Flink SQL
    (_of_serializers(_TABLE, "RowData"), _plain(v3="1.11", v4="2.4")),
    (_of_serializers(_TABLE, "BinaryRowData", "ArrayData", "MapData"), _plain(v3="1.11")),
    (_of_serializers(_TABLE, "BaseRow", "BinaryRow"), _plain(v3="1.9")),
    (_of_serializers(_TABLE, "BaseArray", "BaseMap"), _plain(v3="1.9")),
    (_of_serializers(_TABLE, "StringData"), _simple("1.11")),
    (_of_serializers(_TABLE, "BinaryString"), _simple("1.9")),
    ((f"{_TABLE}DecimalDataSerializer$DecimalSerializerSnapshot",), _plain(v3="1.11")),
    (_of_serializers(_TABLE, "Decimal"), _plain(v3="1.9")),
    (_of_serializers(_TABLE, "TimestampData"), _plain(v1="1.11")),
    (_of_serializers(_TABLE, "SqlTimestamp"), _plain(v1="1.10")),
    (_of_serializers(_TABLE, "RawValueData"), _composite("1.11", v0="1.11")),
    (_of_serializers(_TABLE, "BinaryGeneric"), _composite("1.9", v0="1.9")),
    (_beside(_TABLE, "SortedMap"), _plain(v3="1.9")),
    (_of_serializers(_TABLE, "External"), _composite("1.12", v1="1.12")),
    (_of_serializers(_TABLE, "LinkedList"), _composite("1.13", v1="1.13", v2="1.13", v3="1.14")),
    (_of_serializers(_TABLE, "WindowKey"), _composite("1.13", v1="1.13")),
    (_beside("table.dataview.", "ListView", "MapView"), _composite(v1="1.8")),
    (_beside("table.dataview.", "NullAwareMap"), _composite("1.9", v1="1.9")),
    (_of_serializers("table.dataview.", "Null"), _simple("1.9")),
    (_of_serializers(_MULTISET, "MetaSqnInfo", "Node", "RowSqnInfo"), _composite("2.2", v0="2.2")),
    ((f"{_MULTISET}RowDataKeySerializerSnapshot",), _plain(v0="2.2")),
    # PyFlink
    (_of_serializers(_PYTHON, "BigDec", "Date", "String", "Time"), _simple("1.10")),
    (_of_serializers(_PYTHON, "Timestamp"), _plain(v1="1.10")),
    (_of_serializers(_PYTHON, "BaseRow"), _plain(v3="1.10")),
    (_of_serializers(_PYTHON, "BaseArray", "BaseMap", "Decimal"), _plain(v1="1.10")),
    (_of_serializers(_PYTHON, "RowData"), _plain(v3="1.11")),
    (
        (
            *_of_serializers(_PYTHON, "ArrayData"),
            f"{_PYTHON}MapDataSerializer$BaseMapSerializerSnapshot",
            f"{_PYTHON}DecimalDataSerializer$DecimalSerializerSnapshot",
        ),
        _plain(v1="1.11"),
    ),
    (_of_serializers("streaming.api.utils.", "ByteArrayWrapper"), _simple("1.12")),
    # Pattern matching
    (("cep.nfa.DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot",), _simple()),
    (_of_serializers(_SHARED_BUFFER, "EventId$EventId"), _simple()),
    (
        (
            *_of_serializers(_SHARED_BUFFER, "NodeId$NodeId", "SharedBufferEdge$SharedBufferEdge"),
            *_of_serializers(_SHARED_BUFFER, "SharedBufferNode$SharedBufferNode"),
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
    writer: str = FLINK,
    advice: str = _BEFORE_SNAPSHOTS,
) -> SnapshotVersions:
    """Return the versions of a snapshot class and of its outer part, each with the first release that wrote it.

    ``writer``: the project of these releases. ``advice``: what to do with a version that is not known.
    """
    around = None if outer is None else FormatVersions(f"{name}, outer part", outer, advice, writer)
    return SnapshotVersions(FormatVersions(name, versions, advice, writer), around)


def _snapshot_versions() -> Iterator[tuple[str, SnapshotVersions]]:
    for names, versions in _ROWS:
        for name in class_names(FLINK_PACKAGES, *names):
            yield name, declared_versions(name, *versions)
    for name, versions in _BEAM_ROWS:
        yield _BEAM_TYPES + name, declared_versions(_BEAM_TYPES + name, *versions, _BEAM, _BEFORE_BEAM)


SNAPSHOT_VERSIONS: Final[dict[str, SnapshotVersions]] = dict(_snapshot_versions())
"""The supported versions of each snapshot class, by its name. Those of scalar types and plug-ins are added with these."""


def declare_simple(class_name: str, since: str) -> None:
    """Add the snapshot class of a serializer without configuration, and the first Flink that wrote it."""
    SNAPSHOT_VERSIONS[class_name] = declared_versions(class_name, *_simple(since))
