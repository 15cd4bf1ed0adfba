"""Reader and writer of values in the formats of Kryo 2.24 (Flink 1.x) and Kryo 5.6 (Flink 2.x).

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
from state_processor.serializers.kryo.columns import plain
from state_processor.serializers.kryo.layouts import JAVA_SERIALIZED, PRIMITIVE_LAYOUTS, Layout, ObjectInput, ObjectOutput, whole
from state_processor.serializers.kryo.wire import KRYO_2
from state_processor.support.doors import registering
from state_processor.support.errors import UndecodableValueError, UnsupportedFormatError

_DEEPEST: Final = 100
"""Limit of nested objects in reads and writes."""
_JAVA_SERIALIZERS: Final = {
    "com.esotericsoftware.kryo.serializers.JavaSerializer",
    "org.apache.flink.api.java.typeutils.runtime.kryo.JavaSerializer",
}
"""Kryo serializers that use Java serialization."""

_MOST_REPEATED: Final = 1 << 24


def _is_referenced(name: str, version: int) -> bool:
    """Return True if objects of a class have numbers, for references to them."""
    if name in UNBOXED:
        return False
    described = user_class(name)
    return version == KRYO_2 or described is None or described.constants is None


def _final_element(arguments: tuple[JavaType, ...]) -> JavaType | None:
    """Return the declared type of the elements of a collection if it is a final class; Kryo omits such a class."""
    return arguments[-1] if arguments and jdk.is_final(arguments[-1].name) else None


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
        if not _is_referenced(name, self.version):
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
        if self._depth > _DEEPEST:
            raise UndecodableValueError(f"{self.where}: objects nest deeper than {_DEEPEST}")
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
        if serializer in _JAVA_SERIALIZERS:
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
        final = _final_element(arguments)
        if node.class_name == layouts.AS_LIST:
            node.header = self.class_()
            final = None
        if final is not None:
            return [self.object(final.name, final.arguments, nullable=True) for _ in range(size)]
        return [self.node() for _ in range(size)]

    def _collection_5(self, node: Node, arguments: tuple[JavaType, ...]) -> Any:
        final, nested = _final_element(arguments), arguments[-1].arguments if arguments else ()
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


@dataclass(slots=True)
class KryoWriter(ObjectOutput):
    """Writer of one value with its class (Kryo: ``writeClassAndObject``); the inverse of :class:`KryoReader`.

    A node that occurs several times in the tree is written once; later occurrences are references.

    ``target``: the output. ``version``: :data:`~state_processor.serializers.kryo.wire.KRYO_2` or
    :data:`~state_processor.serializers.kryo.wire.KRYO_5`.
    """

    numbers: Mapping[str, int]  # the numbers of registered classes
    custom: Mapping[str, str] = field(default_factory=dict)  # Kryo serializers that the job configured, by class
    _names: dict[str, int] = field(default_factory=dict)
    _objects: dict[Node, int] = field(default_factory=dict)
    _depth: int = 0

    @property
    def where(self) -> str:
        """Position, for messages."""
        return f"byte {self.target.position} of the written value"

    def class_(self, name: str | None) -> None:
        """Write the class of the next object; ``None`` if the object is null."""
        if name is None:
            self.varint(0)
        elif name in self.numbers:
            self.varint(self.numbers[name] + 2)
        else:
            self.varint(1)
            is_written = name in self._names
            self.varint(self._names.setdefault(name, len(self._names)))
            if not is_written:
                self.class_name(name)

    def node(self, node: Node | None, arguments: tuple[JavaType, ...] = ()) -> None:
        """Write an object of any class, or null."""
        self.class_(None if node is None else node.class_name)
        if node is not None:
            self.object(node, node.class_name, arguments, nullable=False)

    def object(self, node: Node | None, name: str, arguments: tuple[JavaType, ...] = (), *, nullable: bool) -> None:
        """Write an object of a known class: reference marker and content."""
        if not _is_referenced(name, self.version):
            if nullable:
                self.varint(0 if node is None else 1)
            if node is not None:
                self._write(node, name, arguments)
        elif node is None:
            self.varint(0)
        elif node in self._objects:
            self.varint(self._objects[node] + 2)
        else:
            self.varint(1)
            self._objects[node] = len(self._objects)
            self._write(node, name, arguments)

    def declared(self, type_: JavaType, value: Any) -> None:
        """Write the value of a field: a primitive alone, an object of a final class without its class."""
        if type_.name in PRIMITIVES:
            PRIMITIVE_LAYOUTS[BOXES[type_.name]].write(self, value)
        elif jdk.is_final(type_.name):
            self.object(value, type_.name, type_.arguments, nullable=True)
        else:
            self.node(value, type_.arguments)

    def constant(self, described: KryoClass, constant: str | None) -> None:
        """Write a constant of an enum."""
        assert described.constants is not None
        self.varint(0 if constant is None else described.constants.index(constant) + 1)

    def _write(self, node: Node, name: str, arguments: tuple[JavaType, ...]) -> None:
        described = user_class(node.class_name)
        if node.class_name != name and (described is None or described.name != name):
            raise ValueError(f"expected an object of the final class {name}, found one of class {node.class_name}")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UndecodableValueError(f"{self.where}: objects nest deeper than {_DEEPEST}")
        self._content(node, arguments)
        self._depth -= 1

    def _content(self, node: Node, arguments: tuple[JavaType, ...]) -> None:
        name, content = node.class_name, node.content
        described = user_class(name)
        row = jdk.TABLE.get(name)
        layout = row.layouts.get(self.version) if row is not None else None
        if described is not None and described.read is not None:
            self._by_function(described, content)
        elif name in self.custom:
            self._by_custom_serializer(name, content)
        elif layout is not None:
            layout.write(self, content if self.version == KRYO_2 else whole(content))
        elif described is not None and described.constants is not None:
            self.constant(described, content)
        elif described is not None and not described.abstract:
            for field_name, type_ in described.in_order:
                self.declared(type_, content[field_name])
        else:
            self._container(node, arguments)

    def _container(self, node: Node, arguments: tuple[JavaType, ...]) -> None:
        """Write the content of an object that holds others."""
        name, content = node.class_name, node.content
        if name == layouts.OPTIONAL:
            self._optional(content, arguments[0] if arguments else ANY)
        elif name.startswith("["):
            self._array(JavaType(name).component, content)
        elif self.version == KRYO_2 and content is None:
            raise ValueError(f"expected a {name} with content: Kryo 2 can't write one that is null inside")
        elif name in layouts.COLLECTIONS:
            (self._collection_2 if self.version == KRYO_2 else self._collection_5)(node, arguments)
        elif name in layouts.MAPS:
            self._map(node, arguments)
        elif name in layouts.SINGLETONS:
            self.node(content[0])
        elif name == layouts.SINGLETON_MAP:
            for part in content[0]:
                self.node(part)
        else:
            raise unknown_class(name, self.where)

    def _optional(self, content: Any, inner: JavaType) -> None:
        if self.version == KRYO_2:
            self.declared(inner, content)
        else:
            self.node(content, inner.arguments)

    def _by_function(self, described: KryoClass, value: Any) -> None:
        if described.write is None:
            raise UnsupportedFormatError(
                f"{self.where}: a value of class {described.name}: its function can only read: pass write= "
                f"to {registering(f'register_kryo_class({described.name!r}, …)')}"
            )
        described.write(self, value)

    def _by_custom_serializer(self, name: str, content: Any) -> None:
        serializer = self.custom[name]
        if serializer not in _JAVA_SERIALIZERS:
            raise UnsupportedFormatError(
                f"{self.where}: a value of class {name}; the Kryo serializer {serializer} of the job writes this class: "
                f"call {registering(f'register_kryo_class({name!r}, reader, write=writer)')} with functions for its format"
            )
        JAVA_SERIALIZED.write(self, content)

    def _array(self, component: str, content: Any) -> None:
        self.varint(0 if content is None else len(content) + 1)
        if content is None:
            return
        if component == "byte":
            self.target.write_bytes(content)
            return
        layout = PRIMITIVE_LAYOUTS[BOXES[component]] if component in PRIMITIVES else None
        for element in content:
            if layout is not None:
                layout.write(self, element)
            elif jdk.is_final(component):
                self.object(element, component, nullable=True)
            else:
                self.node(element)

    def _collection_2(self, node: Node, arguments: tuple[JavaType, ...]) -> None:
        final = _final_element(arguments)
        if node.class_name in layouts.ORDERED_SETS:
            self.node(node.header)
        self.varint(len(node.content))
        if node.class_name == layouts.AS_LIST:
            self.class_(node.header or ANY.name)
            final = None
        for element in node.content:
            if final is not None:
                self.object(element, final.name, final.arguments, nullable=True)
            else:
                self.node(element)

    def _collection_5(self, node: Node, arguments: tuple[JavaType, ...]) -> None:
        elements = node.content
        if elements is None:
            self.varint(0)
            return
        final, nested = _final_element(arguments), arguments[-1].arguments if arguments else ()
        nulls, has_null = node.class_name not in layouts.IMMUTABLE, None in elements
        classes = {element.class_name for element in elements if element is not None}
        alike = final is None and bool(elements) and len(classes) <= 1
        if final is None or nulls:
            self.flagged_varint(bool(elements) and (alike or (final is not None and has_null)), len(elements) + 1)
        else:
            self.varint(len(elements) + 1)
        if node.class_name in layouts.ORDERED_SETS:
            self.node(node.header)
        if final is not None:
            for element in elements:
                self.object(element, final.name, nested, nullable=has_null)
        elif not alike:
            for element in elements:
                self.node(element, nested)
        else:
            self._alike(elements, next(iter(classes), None), nested, has_null if nulls else None)

    def _alike(
        self, elements: list[Node | None], common: str | None, nested: tuple[JavaType, ...], has_null: bool | None
    ) -> None:
        """Write elements of one class with a single class name; ``has_null`` is ``None`` if null is impossible."""
        self.class_(common)
        if common is None:
            return
        if has_null is not None:
            self.boolean(has_null)
        for element in elements:
            self.object(element, common, nested, nullable=bool(has_null))

    def _map(self, node: Node, arguments: tuple[JavaType, ...]) -> None:
        entries: KryoMap | None = node.content
        if entries is None:
            self.varint(0)
            return
        if self.version != KRYO_2:
            self.varint(len(entries) + 1)
        if node.class_name in layouts.ORDERED_MAPS:
            self.node(node.header)
        if self.version == KRYO_2:
            self.varint(len(entries))
        key_type, value_type = arguments if len(arguments) == 2 else (ANY, ANY)
        for key, value in entries:
            self._argument(key_type, key)
            self._argument(value_type, value)

    def _argument(self, type_: JavaType, node: Node | None) -> None:
        if jdk.is_final(type_.name):
            self.object(node, type_.name, type_.arguments, nullable=True)
        else:
            self.node(node, type_.arguments if self.version != KRYO_2 else ())
