"""Writer of values in the formats of Kryo 2.24 (Flink 1.x) and Kryo 5.6 (Flink 2.x)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from state_processor.serializers.java.types import ANY, BOXES, PRIMITIVES, JavaType, KryoClass
from state_processor.serializers.kryo import jdk, layouts
from state_processor.serializers.kryo.classes import KryoMap, Node, unknown_class, user_class
from state_processor.serializers.kryo.layouts import JAVA_SERIALIZED, PRIMITIVE_LAYOUTS, ObjectOutput, whole
from state_processor.serializers.kryo.reader import DEEPEST, JAVA_SERIALIZERS, final_element, is_referenced
from state_processor.serializers.kryo.wire import KRYO_2
from state_processor.support.doors import registering
from state_processor.support.errors import UndecodableValueError, UnsupportedFormatError


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
        if not is_referenced(name, self.version):
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
        if self._depth > DEEPEST:
            raise UndecodableValueError(f"{self.where}: objects nest deeper than {DEEPEST}")
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
        if serializer not in JAVA_SERIALIZERS:
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
        final = final_element(arguments)
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
        final, nested = final_element(arguments), arguments[-1].arguments if arguments else ()
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
