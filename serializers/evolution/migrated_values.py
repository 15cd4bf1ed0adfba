"""Conversion of values that Kryo 2 wrote to values of the serializers of Flink 2.x.

:func:`converting` makes the serializer that reads such a value as a value of a new serializer. :class:`Observations` collects the
classes of the elements of collections, because snapshots do not contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.codec import Codec, ReadOnlyCodec
from state_processor.serializers.core import arrays
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.serializers.core.nullable import NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.pojo_fields import PojoValue
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.core.templates import ObservedCodec
from state_processor.serializers.core.time_values import Instant, SqlTimestamp
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.evolution.migration import COLLECTIONS, FLINK_2, collection_of
from state_processor.serializers.io import DataInput
from state_processor.serializers.java.types import BOXES, PRIMITIVES
from state_processor.serializers.kryo import jdk, layouts
from state_processor.serializers.kryo.classes import KryoMap, Node, user_class
from state_processor.serializers.kryo.layouts import whole
from state_processor.serializers.kryo.serializer import Encoding, KryoSerializer, KryoValue
from state_processor.serializers.kryo.wire import KRYO_2
from state_processor.serializers.traversal import fold
from state_processor.support.errors import UndecodableValueError, UnsupportedFormatError

Convert = Callable[[Any], Any]
"""Makes a value of an object (a node of a tree), or of the bare value of a primitive."""


class ConvertedCodec(ReadOnlyCodec):
    """Codec that reads values that Kryo wrote as values of another serializer.

    ``written``: the serializer that wrote the bytes. ``convert``: makes the value of the tree of objects that Kryo 2 wrote;
    ``None`` is null.
    """

    def __init__(self, written: KryoSerializer, convert: Callable[[Node | None], Any]) -> None:
        self.written = written
        self._convert = convert
        self.length = written.length
        self.min_size = written.min_size

    def __str__(self) -> str:
        return str(self.written)

    def read(self, source: DataInput) -> Any:
        return self._convert(_node_of(self.written.read(source)))

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.written.arrow_type(options)

    @property
    def self_delimiting(self) -> bool:
        return self.written.self_delimiting

    @property
    def reason(self) -> str:
        return self.written.reason


def _node_of(value: KryoValue | None) -> Node | None:
    return None if value is None else value.node


def converting(path: str, written: KryoSerializer, target: TypeSerializer | None) -> Codec:
    """Return the codec that reads a Kryo value as a value of ``target``; it can't read undecided types."""
    if target is not None:
        return ConvertedCodec(written, converter_to(target))

    def undecided(node: Node | None) -> Any:
        raise UnsupportedFormatError(f"{path or 'the value'}: the type of its elements is unknown")

    return ConvertedCodec(written, undecided)


# From trees of objects to values


def converter_to(target: TypeSerializer) -> Convert:
    """Return the function that makes values of a serializer from objects, or from the bare values of primitives.

    It raises ``UndecodableValueError`` if the class of an object is not the class of the serializer.
    """
    return fold(target, lambda _, part, inner: _converter(part, inner))


def _converter(target: TypeSerializer, inner: Callable[[TypeSerializer], list[Convert]]) -> Convert:
    for kind, make in _CONVERTERS:
        if isinstance(target, kind):
            return partial(make, target, inner(target))
    return partial(_scalar, target)


def _scalar(target: TypeSerializer, node: Any) -> Any:
    if not isinstance(node, Node):
        if node is None:
            raise _unfit(target, node)
        return node
    scalar = _SCALARS.get(node.class_name) or _ONLY_IF_NAMED.get(node.class_name)
    if scalar is None or str(scalar.type) != str(target):
        raise _unfit(target, node)
    return scalar.take(whole(node.content))


def _unfit(target: TypeSerializer, node: Any) -> UndecodableValueError:
    node_text = f"an object of class {node.class_name}" if isinstance(node, Node) else "null"
    return UndecodableValueError(f"{node_text} can't be a value of {target}")


def _elements(target: TypeSerializer, node: Any) -> Sequence[Any]:
    if not isinstance(node, Node) or not isinstance(node.content, list):
        raise _unfit(target, node)
    return node.content


def _nullable(target: NullableSerializer, inner: Sequence[Convert], node: Any) -> Any:
    return None if node is None else inner[0](node)


def _list(target: ListSerializer, inner: Sequence[Convert], node: Any) -> Any:
    return [inner[0](element) for element in _elements(target, node)]


def _with_nulls(target: TypeSerializer, inner: Sequence[Convert], node: Any) -> Any:
    """Convert a set or an array of objects, whose elements may be null."""
    return [None if element is None else inner[0](element) for element in _elements(target, node)]


def _map(target: MapSerializer, inner: Sequence[Convert], node: Any) -> Any:
    if not isinstance(node, Node) or not isinstance(node.content, KryoMap):
        raise _unfit(target, node)
    key, value = inner
    return [(key(k), None if v is None else value(v)) for k, v in node.content]


def _pojo(target: PojoSerializer, inner: Sequence[Convert], node: Any) -> Any:
    if node is None:
        return None
    if not isinstance(node, Node) or node.class_name != target.class_name or not isinstance(node.content, dict):
        raise _unfit(target, node)
    missing = [f.name for f in target.fields if f.name not in node.content]
    if missing:
        raise UndecodableValueError(f"{target} has a field {missing[0]!r}, but the value written by Kryo lacks it")
    values = {}
    for field, convert in zip(target.fields, inner, strict=False):
        content = node.content[field.name]
        values[field.name] = None if content is None else convert(content)
    return PojoValue(target.class_name, values)


def _enum(target: EnumSerializer, inner: Sequence[Convert], node: Any) -> Any:
    described = user_class(node.class_name) if isinstance(node, Node) else None
    if described is None or described.name != target.enum_class or node.content not in target.names:
        raise _unfit(target, node)
    return node.content


def _array(target: arrays.SimpleArraySerializer | arrays.BytesSerializer, inner: Sequence[Convert], node: Any) -> Any:
    if not isinstance(node, Node) or str(_ARRAYS.get(node.class_name)) != str(target) or node.content is None:
        raise _unfit(target, node)
    return node.content if isinstance(node.content, bytes) else [e.content if isinstance(e, Node) else e for e in node.content]


def _kryo(target: KryoSerializer, inner: Sequence[Convert], node: Any) -> Any:
    """Return a tree without its bytes; the serializer writes it in its own encoding."""
    return None if node is None else KryoValue(b"", node, _UNWRITTEN)


_UNWRITTEN: Final = Encoding(KRYO_2, (), 0)

_CONVERTERS: Final[tuple[tuple[type[TypeSerializer], Callable[[Any, Sequence[Convert], Any], Any]], ...]] = (
    (NullableSerializer, _nullable),
    (SetSerializer, _with_nulls),
    (ListSerializer, _list),
    (MapSerializer, _map),
    (PojoSerializer, _pojo),
    (EnumSerializer, _enum),
    (arrays.GenericArraySerializer, _with_nulls),
    (arrays.SimpleArraySerializer, _array),
    (arrays.BytesSerializer, _array),
    (KryoSerializer, _kryo),
)
"""Makers of values by the class of the serializer. They get the serializer, the converters of its children, and the object."""


@dataclass(frozen=True, slots=True)
class _Scalar:
    """Flink's serializer of a class of the JDK, and the content of a node converted to its value."""

    type: TypeSerializer
    take: Callable[[Any], Any]


def _unchanged(content: Any) -> Any:
    return content


def _millis(moment: Instant) -> int:
    return moment.seconds * 1000 + moment.nano // 1_000_000


_TAKEN: Final[dict[str, Callable[[Any], Any]]] = {
    "java.util.Date": _millis,
    "java.sql.Timestamp": lambda moment: SqlTimestamp(_millis(moment), moment.nano),
}
"""Conversions for classes whose nodes have a content that Flink's serializer does not accept."""


def _scalars(extracted: bool) -> dict[str, _Scalar]:
    scalars = {}
    for scalar in SCALARS.values():
        if scalar.extracted is extracted:
            name = scalar.boxed_class or scalar.java_class
            scalars[name] = _Scalar(scalar.serializer, _TAKEN.get(name, _unchanged))
    return scalars


_SCALARS: Final = _scalars(extracted=True)
"""Classes that Flink has serializers for. Values may be null if the serializer supports null."""

_ONLY_IF_NAMED: Final = _scalars(extracted=False)
"""Classes that Flink leaves to Kryo, unless a job declares their types."""

_ARRAYS: Final[dict[str, TypeSerializer]] = {
    "[B": arrays.BytesSerializer(),
    **{f"[{code}": arrays.PrimitiveArraySerializer(name.upper()) for name, code in PRIMITIVES.items() if name != "byte"},
    "[Ljava.lang.String;": arrays.string_array(),
    **{f"[L{box};": arrays.GenericArraySerializer(_SCALARS[box].type, box) for box in BOXES.values()},
}


# Element types


def type_of_class(class_name: str) -> TypeSerializer | None:
    """Return the type that Flink 2.x infers for a type argument that is a plain class; ``None`` if the class does not decide it.

    A user class may be a POJO or a Kryo type. If a class has subclasses, its values may be elements declared with another class.
    """
    scalar = _SCALARS.get(class_name)
    if scalar is not None:
        return scalar.type
    if class_name in _ARRAYS:
        return _ARRAYS[class_name]
    described = user_class(class_name)
    if described is not None:
        return None if described.constants is None else EnumSerializer(described.name, described.constants)
    if class_name in jdk.TABLE and jdk.is_final(class_name):
        return KryoSerializer(class_name, flink=FLINK_2)
    return None


def holds_others(class_name: str) -> bool:
    """Check if a class has type arguments. With elements of such a class, Flink leaves the whole collection to Kryo."""
    containers = (layouts.COLLECTIONS, layouts.MAPS, {layouts.OPTIONAL})
    return class_name.startswith("java.util.Collections$") or any(class_name in classes for classes in containers)


@dataclass
class ElementClasses:
    """Classes of elements in the collections at one path (for a map: of keys and of values)."""

    declared: str
    classes: tuple[set[str], ...]

    @classmethod
    def nothing(cls, declared: str) -> ElementClasses:
        """Return the empty observations of a declared class."""
        return cls(declared, (set(), set()) if COLLECTIONS[declared] == "MAP" else (set(),))

    def add(self, observed: ElementClasses) -> None:
        """Add observations from elsewhere."""
        for own_classes, observed_classes in zip(self.classes, observed.classes, strict=True):
            own_classes |= observed_classes

    def see(self, node: Node | None) -> None:
        """Add the classes in a collection."""
        if node is None:
            return
        if isinstance(node.content, KryoMap):
            parts: Iterable[Iterable[Any]] = zip(*node.content, strict=True) if node.content else ()
        else:
            parts = (node.content or (),)
        for seen, elements in zip(self.classes, parts, strict=False):
            seen.update(element.class_name for element in elements if isinstance(element, Node))

    def decide(self) -> TypeSerializer | str:
        """Return the type that the new job has for the collection, or why the type is unknown."""
        parts = [("elements",), ("keys", "values")][len(self.classes) - 1]
        if any(map(holds_others, set().union(*self.classes))):
            return KryoSerializer(self.declared)
        types = []
        for role, classes in zip(parts, self.classes, strict=True):
            if not classes:
                return f"all {role} are null or missing, so their type is unknown"
            if len(classes) > 1:
                return f"its {role} are of several classes: {', '.join(sorted(classes))}"
            (name,) = classes
            type_ = type_of_class(name)
            if type_ is None:
                return f"its {role} are of class {name}, and only the job decides whether that is a POJO or a Kryo type"
            types.append(type_)
        return collection_of(self.declared, types)


class Observations:
    """Classes in collections of undecided type, by path, and the serializers that collect them."""

    def __init__(self) -> None:
        self.elements_by_path: dict[str, ElementClasses] = {}

    def adapt(self, path: str, written: KryoSerializer, target: TypeSerializer | None) -> Codec:
        """Return the codec of :func:`converting` that also tries to write, or one that observes an undecided collection."""
        if target is None:
            return observing(written, self.elements_by_path.setdefault(path, ElementClasses.nothing(written.type_class)))
        to_value, to_bytes = converter_to(target), target.serialize

        def tried(node: Node | None) -> Any:
            value = to_value(node)
            to_bytes(value)
            return value

        return ConvertedCodec(written, tried)


def observing(written: KryoSerializer, observed: ElementClasses) -> Codec:
    """Return the codec of a collection that adds the classes of the elements that it reads to observations."""
    return ObservedCodec(written, lambda source, start, value: observed.see(_node_of(value)))
