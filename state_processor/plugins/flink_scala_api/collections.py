"""Collections of Scala, immutable, mutable and sorted (flink-scala-api: ``ListSerializer``, ``MapSerializer``, …)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from state_processor.errors import UnsupportedFormatError
from state_processor.plugins.flink_scala_api.parts import SERIALIZERS, NullMarked, PartsSnapshot, parts_snapshot
from state_processor.serializers import (
    DataInput,
    DataOutput,
    DecodeOptions,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    simple_snapshots,
)
from state_processor.serializers.extension import (
    ELEMENT,
    KEY,
    VALUE,
    Codec,
    DelegatingSerializer,
    ListCodec,
    MapCodec,
    distinct_values,
    registering,
)

if TYPE_CHECKING:
    from state_processor.serializers.extension import Column, DecodeBuilder, EncodeBuilder

COLLECTION_SNAPSHOT: Final = f"{SERIALIZERS}CollectionSerializerSnapshot"
SORTED_COLLECTION_SNAPSHOT: Final = f"{SERIALIZERS}SortedCollectionSerializerSnapshot"
MAP_SNAPSHOT: Final = f"{SERIALIZERS}MapSerializer$MapSerializerSnapshot"
MUTABLE_MAP_SNAPSHOT: Final = f"{SERIALIZERS}MutableMapSerializerSnapshot"
SORTED_MAP_SNAPSHOTS: Final = (
    f"{SERIALIZERS}SortedMapSerializerSnapshot",
    f"{SERIALIZERS}MutableSortedMapSerializerSnapshot",
)

_LISTS: Final = ("List", "ListCC", "Vector", "Seq", "Array")
_NULLABLE_LISTS: Final = ("MutableArrayDeque", "MutableBuffer", "MutableQueue")
_SETS: Final = ("Set",)
_NULLABLE_SETS: Final = ("MutableSet", "SortedSet", "MutableSortedSet")
KINDS: Final = {f"{SERIALIZERS}{name}Serializer": name for name in (*_LISTS, *_NULLABLE_LISTS, *_SETS, *_NULLABLE_SETS)}
"""The names of collections by the classes of their serializers."""


class SetCodec(ListCodec):
    """A size and the distinct elements."""

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.distinct(column, distinct_values(self.element, of_set=True))
        super().emit_encode(builder, column)


class CollectionSerializer(DelegatingSerializer):
    """A list, set, sequence, vector, array, buffer or queue: its size and its elements. A sorted one has an ordering.

    ``serializer_class``: the Java class of the serializer; it tells the kind of collection. ``element_class``: the Java class of
    an element. ``ordering``: the serializer of the ordering of a sorted collection. It writes no bytes.
    """

    def __init__(
        self, serializer_class: str, element_class: str, element: TypeSerializer, ordering: TypeSerializer | None = None
    ) -> None:
        kind = KINDS[serializer_class]
        codec: Codec = SetCodec(element) if kind in (*_SETS, *_NULLABLE_SETS) else ListCodec(element)
        super().__init__(NullMarked(codec) if kind in (*_NULLABLE_LISTS, *_NULLABLE_SETS) else codec)
        self.serializer_class = serializer_class
        self.element_class = element_class
        self.element = element
        self.ordering = ordering

    def __str__(self) -> str:
        return f"{_spelled(KINDS[self.serializer_class])}<{self.element}>"

    @property
    def child_names(self) -> Sequence[str]:
        return (ELEMENT,) if self.ordering is None else (ELEMENT, "ordering")

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.element,) if self.ordering is None else (self.element, self.ordering)

    @property
    def column_parts(self) -> Sequence[tuple[str, Codec]]:
        return ((ELEMENT, self.element),)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return CollectionSerializer(self.serializer_class, self.element_class, *children)

    def snapshot(self) -> TypeSerializerSnapshot:
        kind = _SORTED_COLLECTION if self.ordering is not None else _COLLECTION
        name = SORTED_COLLECTION_SNAPSHOT if self.ordering is not None else COLLECTION_SNAPSHOT
        return kind(name, (self.serializer_class, self.element_class), self.child_snapshots)


class ScalaMapSerializer(DelegatingSerializer):
    """A map: its size, and key and value of each entry. Null values exist only if the serializer of values supports null.

    ``snapshot_class``: the class of the snapshot; it tells the kind of map. ``ordering``: the serializer of the ordering of a
    sorted map. It writes no bytes.
    """

    def __init__(
        self, snapshot_class: str, key: TypeSerializer, value: TypeSerializer, ordering: TypeSerializer | None = None
    ) -> None:
        codec: Codec = MapCodec(key, value)
        super().__init__(codec if snapshot_class == MAP_SNAPSHOT else NullMarked(codec))
        self.key = key
        self.value = value
        self.ordering = ordering
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"{_spelled(_simple(self._snapshot_class))}<{self.key},{self.value}>"

    @property
    def child_names(self) -> Sequence[str]:
        return (KEY, VALUE) if self.ordering is None else (KEY, VALUE, "ordering")

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.key, self.value) if self.ordering is None else (self.key, self.value, self.ordering)

    @property
    def column_parts(self) -> Sequence[tuple[str, Codec]]:
        return ((KEY, self.key), (VALUE, self.value))

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return ScalaMapSerializer(self._snapshot_class, *children)

    def snapshot(self) -> TypeSerializerSnapshot:
        return _MAPS[self._snapshot_class](self._snapshot_class, (), self.child_snapshots)


def _simple(snapshot_class: str) -> str:
    return snapshot_class.removeprefix(SERIALIZERS).partition("Serializer")[0]


def _spelled(name: str) -> str:
    """Return ``SORTED_SET`` for ``SortedSet``."""
    return "".join(f"_{c}" if c.isupper() and i and not name[i - 1].isupper() else c for i, c in enumerate(name)).upper()


# Orderings

_ORDERED: Final = ("Boolean", "Byte", "Char", "Short", "Int", "Long", "Float", "Double", "BigInt", "BigDecimal", "String")


def _orderings(*names: str) -> dict[str, str]:
    return {f"{SERIALIZERS}{name}OrderingSerializerSnapshot": name for name in names}


ORDERINGS: Final = _orderings("Unit", *map("Default{}".format, _ORDERED), "FloatIeee", "DoubleIeee")
"""The names of orderings by the classes of their snapshots."""
WRAPPED_ORDERINGS: Final = _orderings("Reverse", "Option")
"""The names of orderings that are made of another one."""


class OrderingSerializer(SimpleSerializer):
    """An ordering of the elements of a sorted collection, in no bytes."""

    length = min_size = 0

    def __init__(self, name: str, snapshot_class: str) -> None:
        super().__init__(snapshot_class)
        self.name = name

    def __str__(self) -> str:
        return f"ORDERING<{self.name}>"

    def read(self, source: DataInput) -> None:
        return None

    def write(self, value: None, target: DataOutput) -> None:
        return None

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.null()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.fill_nulls(column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        """Append nothing: a column of this type has only nulls."""


class WrappedOrderingSerializer(DelegatingSerializer):
    """The reverse of an ordering, or an ordering of options.

    ``inner``: the serializer of the ordering that it is made of.
    """

    content: TypeSerializer

    def __init__(self, inner: TypeSerializer, snapshot_class: str) -> None:
        super().__init__(inner)
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"{WRAPPED_ORDERINGS[self._snapshot_class].upper()}<{self.content}>"

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.content,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        (inner,) = children
        return WrappedOrderingSerializer(inner, self._snapshot_class)

    def snapshot(self) -> TypeSerializerSnapshot:
        return _WRAPPED_ORDERING(self._snapshot_class, (), [self.content.snapshot()])


# Snapshots


def _collection(snapshot: PartsSnapshot) -> TypeSerializer:
    serializer_class, element_class = snapshot.names
    if serializer_class not in KINDS:
        raise UnsupportedFormatError(
            f"collections that {serializer_class} writes: this class is not of flink-scala-api, its bytes are not known; give it "
            f"a snapshot class of its own and describe that one with {registering('register_snapshot()')}"
        )
    element, *ordering = [n.restore_serializer() for n in snapshot.nested]
    return CollectionSerializer(serializer_class, element_class, element, *map(_without_bytes, ordering))


def _map(snapshot: PartsSnapshot) -> TypeSerializer:
    key, value, *ordering = [n.restore_serializer() for n in snapshot.nested]
    return ScalaMapSerializer(snapshot.class_name, key, value, *map(_without_bytes, ordering))


def _wrapped_ordering(snapshot: PartsSnapshot) -> TypeSerializer:
    return WrappedOrderingSerializer(snapshot.nested[0].restore_serializer(), snapshot.class_name)


def _without_bytes(ordering: TypeSerializer) -> TypeSerializer:
    if ordering.length != 0:
        raise UnsupportedFormatError(
            f"a sorted collection whose ordering has content ({ordering}): only orderings without content are supported, such as "
            "Ordering.Int, its reverse, and case objects"
        )
    return ordering


_COLLECTION: Final = parts_snapshot(_collection, 2, names=2, nested=(ELEMENT,), decisive=(0,))
_SORTED_COLLECTION: Final = parts_snapshot(_collection, 2, names=2, nested=(ELEMENT, "ordering"), decisive=(0,))
_SORTED_MAP: Final = parts_snapshot(_map, 1, nested=(KEY, VALUE, "ordering"))
_MAPS: Final = {
    MAP_SNAPSHOT: parts_snapshot(_map, 2, nested=(KEY, VALUE)),
    MUTABLE_MAP_SNAPSHOT: parts_snapshot(_map, 1, nested=(KEY, VALUE)),
    **dict.fromkeys(SORTED_MAP_SNAPSHOTS, _SORTED_MAP),
}
_WRAPPED_ORDERING: Final = parts_snapshot(_wrapped_ordering, 1, nested=("",))
SNAPSHOTS: Final[Mapping[str, type[TypeSerializerSnapshot]]] = {
    COLLECTION_SNAPSHOT: _COLLECTION,
    SORTED_COLLECTION_SNAPSHOT: _SORTED_COLLECTION,
    **_MAPS,
    **dict.fromkeys(WRAPPED_ORDERINGS, _WRAPPED_ORDERING),
    **simple_snapshots(*(OrderingSerializer(name, snapshot) for snapshot, name in ORDERINGS.items())),
}
