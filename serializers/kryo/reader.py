"""Reader of values in the formats of Kryo 2.24 (Flink 1.x) and Kryo 5.6 (Flink 2.x).

The two versions differ in byte order, strings, collections, maps and dates, and share the framing. Each object follows its class
(a number, or a name that later objects refer to by number), unless the declared type is final. Then comes a reference marker: 0
for null, 1 for a new object, else the number of an object that was already read.

The bytes contain neither field names nor lengths: a class outside the JDK must be described with
:func:`~state_processor.serializers.register_kryo_class`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from state_processor.serializers.java.types import ANY, BOXES, PRIMITIVES, UNBOXED, JavaType, KryoClass
from state_processor.serializers.kryo import jdk, layouts
from state_processor.serializers.kryo.classes import KryoMap, Node, unknown_class, user_class
from state_processor.serializers.kryo.layouts import JAVA_SERIALIZED, PRIMITIVE_LAYOUTS, Layout, ObjectInput
from state_processor.serializers.kryo.plain_values import plain
from state_processor.serializers.kryo.wire import KRYO_2
from state_processor.support.doors import registering
from state_processor.support.errors import UndecodableValueError, UnsupportedFormatError

DEEPEST: Final = 100
"""Limit of nested objects in reads and writes."""
JAVA_SERIALIZERS: Final = {
    "com.esotericsoftware.kryo.serializers.JavaSerializer",
    "org.apache.flink.api.java.typeutils.runtime.kryo.JavaSerializer",
}
"""Kryo serializers that use Java serialization."""

_MOST_REPEATED: Final = 1 << 24


def is_referenced(name: str, version: int) -> bool:
    """Return True if objects of a class have numbers, for references to them."""
    if name in UNBOXED:
        return False
    described = user_class(name)
    return version == KRYO_2 or described is None or described.constants is None


@dataclass(slots=True)
class KryoReader(ObjectInput):
    """Reader of one value with its class (Kryo: ``readClassAndObject``).

    ``source``: the input, at the beginning of the value. ``version``: :data:`~state_processor.serializers.kryo.wire.KRYO_2` or
    :data:`~state_processor.serializers.kryo.wire.KRYO_5`.
    """

    ids: Mapping[int, str]  # class by number, of :func:`~state_processor.serializers.kryo.classes.class_ids`
    custom: Mapping[str, str] = field(default_factory=dict)  # Kryo serializers that the job configured, by class
    _names: list[str] = field(default_factory=list)
    _objects: list[Node | None] = field(default_factory=list)
    _depth: int = 0

    @property
    def where(self) -> str:
        """Position, for messages."""
        return f"{self.source.source}, offset {self.source.position}"

    def class_(self) -> str | None:
        """Read the class of the next object; ``None`` if the object is null."""
        start = self.source.position
        number = self.varint()
        if number == 0:
            return None
        if number > 1:
            name = self.ids.get(number - 2)
            if name is None:
                raise UnsupportedFormatError(
                    f"{self.source.source}, offset {start}: Kryo's class number {number - 2} is neither one of Flink's, nor "
                    "registered in the serializer snapshot (numbers 10 to 72 are classes of Scala)"
                )
            return name
        index = self.varint()
        if index < len(self._names):
            return self._names[index]
        if index > len(self._names):
            raise self.source.corrupt(f"class name {index} is referred to, {len(self._names)} were read", start)
        self._names.append(self.text())
        return self._names[-1]

    def class_and_object(self) -> Any:
        """Read an object of any class, or null, as a plain value; for functions that users register."""
        return plain(self.node())

    def node(self, arguments: tuple[JavaType, ...] = ()) -> Node | None:
        """Read an object of any class, or null."""
        name = self.class_()
        return None if name is None else self.object(name, arguments, nullable=False)

    def object(self, name: str, arguments: tuple[JavaType, ...] = (), *, nullable: bool) -> Node | None:
        """Read an object of a known class: reference marker and content."""
        if not is_referenced(name, self.version):
            return None if nullable and self.varint() == 0 else self._fill(Node(name, None), arguments)
        start = self.source.position
        marker = self.varint()
        if marker == 0:
            return None
        if marker == 1:
            node = Node(name, None)
            self._objects.append(None)
            number = len(self._objects) - 1
            self._fill(node, arguments)
            self._objects[number] = node
            return node
        if marker - 2 >= len(self._objects):
            raise self.source.corrupt(f"object {marker - 2} is referred to, {len(self._objects)} were read", start)
        earlier = self._objects[marker - 2]
        if earlier is None:
            raise UndecodableValueError(f"{self.source.source}, offset {start}: a {name} contains itself")
        return earlier

    def declared(self, type_: JavaType) -> Any:
        """Read the value of a field: a primitive alone, an object of a final class without its class."""
        if type_.name in PRIMITIVES:
            return PRIMITIVE_LAYOUTS[BOXES[type_.name]].read(self)
        if jdk.is_final(type_.name):
            return self.object(type_.name, type_.arguments, nullable=True)
        return self.node(type_.arguments)

    def fields(self, fields: Iterable[tuple[str, JavaType]]) -> dict[str, Any]:
        """Read the fields of an object, in the order given."""
        return {name: self.declared(type_) for name, type_ in fields}

    def constant(self, described: KryoClass) -> str | None:
        """Read a constant of an enum."""
        assert described.constants is not None
        start = self.source.position
        ordinal = self.varint() - 1
        if ordinal >= len(described.constants):
            raise self.source.corrupt(f"constant {ordinal} of {described.name}; it has {len(described.constants)}", start)
        return None if ordinal < 0 else described.constants[ordinal]

    def _fill(self, node: Node, arguments: tuple[JavaType, ...]) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise UndecodableValueError(f"{self.where}: objects nest deeper than {DEEPEST}")
        node.content = self._content(node, arguments)
        self._depth -= 1
        return node

    def _content(self, node: Node, arguments: tuple[JavaType, ...]) -> Any:
        name = node.class_name
        described = user_class(name)
        if described is not None and described.read is not None:
            return described.read(self)
        if name in self.custom:
            return self._by_custom_serializer(name)
        row = jdk.TABLE.get(name)
        layout = row.layouts.get(self.version) if row is not None else None
        if layout is not None:
            return self._value(layout)
        if described is not None and described.constants is not None:
            return self.constant(described)
        if described is not None and not described.abstract:
            values = self.fields(described.in_order)
            return {field_name: values[field_name] for field_name, _ in described.fields}
        if name == layouts.OPTIONAL:
            inner = arguments[0] if arguments else ANY
            # A field whose type is a type variable: Kryo 2 treats the variable's type argument as the declared type.
            return self.declared(inner) if self.version == KRYO_2 else self.node(inner.arguments)
        if name.startswith("["):
            return self._array(JavaType(name).component)
        if name in layouts.COLLECTIONS:
            return self._collection_2(node, arguments) if self.version == KRYO_2 else self._collection_5(node, arguments)
        if name in layouts.MAPS:
            return self._map(node, arguments)
        if name in layouts.SINGLETONS:
            return [self.node()]
        if name == layouts.SINGLETON_MAP:
            return KryoMap([(self.node(), self.node())])
        raise unknown_class(name, self.where)

    def _value(self, layout: Layout) -> Any:
        start = self.source.position
        try:
            return layout.read(self)
        except ValueError as problem:  # fields that can't form a value
            raise self.source.corrupt(str(problem), start) from None

    def _by_custom_serializer(self, name: str) -> Any:
        serializer = self.custom[name]
        if serializer in JAVA_SERIALIZERS:
            return JAVA_SERIALIZED.read(self)
        raise UnsupportedFormatError(
            f"{self.where}: a value of class {name}, written by the Kryo serializer "
            f"{serializer} of the job: call {registering(f'register_kryo_class({name!r}, reader)')} with a function that reads "
            "from a KryoReader the bytes of that serializer"
        )

    def _array(self, component: str) -> Any:
        size = self.varint() - 1
        if size < 0:
            return None
        self.count("array elements", size)
        if component == "byte":
            return self.source.read_bytes(size)
        if component in PRIMITIVES:
            layout = PRIMITIVE_LAYOUTS[BOXES[component]]
            return [layout.read(self) for _ in range(size)]
        if jdk.is_final(component):
            return [self.object(component, nullable=True) for _ in range(size)]
        return [self.node() for _ in range(size)]

    def _collection_2(self, node: Node, arguments: tuple[JavaType, ...]) -> Any:
        if node.class_name in layouts.ORDERED_SETS:
            node.header = self.node()
        size = self.count("collection elements", self.varint())
        final = final_element(arguments)
        if node.class_name == layouts.AS_LIST:
            node.header = self.class_()
            final = None
        if final is not None:
            return [self.object(final.name, final.arguments, nullable=True) for _ in range(size)]
        return [self.node() for _ in range(size)]

    def _collection_5(self, node: Node, arguments: tuple[JavaType, ...]) -> Any:
        final, nested = final_element(arguments), arguments[-1].arguments if arguments else ()
        nulls = node.class_name not in layouts.IMMUTABLE
        flag, size = self.flagged_varint() if final is None or nulls else (False, self.varint())
        if size == 0:
            return None
        size = self.count("collection elements", size - 1, 0 if flag else 1)
        if node.class_name in layouts.ORDERED_SETS:
            node.header = self.node()
        if final is not None:
            return [self.object(final.name, nested, nullable=flag) for _ in range(size)]
        if not flag or size == 0:
            return [self.node(nested) for _ in range(size)]
        common = self.class_()
        if common is None:
            return [None] * self._repeated(size)
        has_null = nulls and self.boolean()
        if common in jdk.EMPTY:
            self._repeated(size)
        return [self.object(common, nested, nullable=has_null) for _ in range(size)]

    def _repeated(self, size: int) -> int:
        """Check a count of elements without bytes against a limit."""
        if size > _MOST_REPEATED:
            raise self.source.corrupt(f"{size} elements without content announced")
        return size

    def _map(self, node: Node, arguments: tuple[JavaType, ...]) -> Any:
        size = 0
        if self.version != KRYO_2:
            size = self.varint() - 1
            if size < 0:
                return None
        if node.class_name in layouts.ORDERED_MAPS:
            node.header = self.node()
        if self.version == KRYO_2:
            size = self.varint()
        self.count("map entries", size, 2)
        key, value = arguments if len(arguments) == 2 else (ANY, ANY)
        return KryoMap((self._argument(key), self._argument(value)) for _ in range(size))

    def _argument(self, type_: JavaType) -> Node | None:
        if jdk.is_final(type_.name):
            return self.object(type_.name, type_.arguments, nullable=True)
        return self.node(type_.arguments if self.version != KRYO_2 else ())


def final_element(arguments: tuple[JavaType, ...]) -> JavaType | None:
    """Return the declared type of the elements of a collection if it is a final class; Kryo omits such a class."""
    return arguments[-1] if arguments and jdk.is_final(arguments[-1].name) else None
