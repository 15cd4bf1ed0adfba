"""Avro records, generic, specific or by reflection (Flink: ``flink-avro``'s ``AvroSerializer``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from state_processor.serializers.avro.reader_schema import AvroResolution
from state_processor.serializers.avro.scalars import AvroLogical
from state_processor.serializers.avro.schema import AvroSchema
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.core.templates import DelegatingSerializer
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.traversal import walk
from state_processor.support.errors import UnsupportedFormatError

if TYPE_CHECKING:
    pass

AVRO_SNAPSHOT: Final = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
GENERIC_RECORD: Final = "org.apache.avro.generic.GenericRecord"
_REFLECT_MARKS: Final = ('"java-class"', '"java-element-class"', '"java-key-class"')
_TEXT: Final = StringSerializer()


class AvroSerializer(DelegatingSerializer):
    """Values of an Avro schema, in Flink's own encoding.

    The types of the schema are not children: a snapshot holds the schema's text, and the text can't be made from the types.

    ``schema``: the schema that values were written with, as JSON. ``class_name``: the Java class: ``GenericRecord``, or the class
    of a specific or reflected record.
    """

    def __init__(self, schema: str, class_name: str = GENERIC_RECORD, snapshot: AvroSerializerSnapshot | None = None) -> None:
        self.schema = AvroSchema(schema)
        self.class_name = class_name
        self.type = self.schema.type()
        super().__init__(self.type)
        self.never_null = self.type.never_null
        self._snapshot = snapshot

    def __str__(self) -> str:
        # The snapshot does not name the kind. Reflection names Java classes in its schemas of arrays and collections.
        name = str(self.type) if self.class_name == GENERIC_RECORD else self.class_name
        if self.class_name == GENERIC_RECORD:
            return f"AVRO_GENERIC<{name}>"
        return f"AVRO_{'REFLECT' if any(m in self.schema.text for m in _REFLECT_MARKS) else 'SPECIFIC'}<{name}>"

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot or AvroSerializerSnapshot(AVRO_SNAPSHOT, None, self.class_name, self.schema.text)

    def hash_code(self, value: Any) -> int:
        has_logical = any(isinstance(part, AvroLogical) for part in walk(self.type))
        if self.class_name != GENERIC_RECORD and ("REFLECT" in str(self) or has_logical):
            raise UnsupportedFormatError(
                f"the hashCode of {self} is code of the class {self.class_name}: keys can't be assigned to key groups"
            )
        return self.type.hash_code(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSerializer) and (self.class_name, self.schema.text) == (other.class_name, other.schema.text)

    def __hash__(self) -> int:
        return hash((self.class_name, self.schema.text))


class AvroSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`AvroSerializer`: class and schema. Version 1 has only the schema, version 3 strings of any length.

    ``runtime_class``: the Java class; in version 1 the class that the schema names. ``schema``: the schema of the written values.
    """

    current_version = 3

    def __init__(self, class_name: str, version: int | None, runtime_class: str, schema: str) -> None:
        super().__init__(class_name, version)
        self.runtime_class = runtime_class
        self.schema = schema

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> AvroSerializerSnapshot:
        if version == 1:
            schema = source.read_utf()
            return cls(class_name, version, str(AvroSchema(schema).type()), schema)
        if version == 2:
            return cls(class_name, version, source.read_utf(), source.read_utf())
        return cls(class_name, version, _TEXT.read(source) or "", _TEXT.read(source) or "")

    def write(self, target: DataOutput) -> None:
        parts = (self.schema,) if self.version == 1 else (self.runtime_class, self.schema)
        for part in parts:
            if self.version < self.current_version:
                target.write_utf(part)
            else:
                _TEXT.write(part, target)

    def restore_serializer(self) -> TypeSerializer:
        return AvroSerializer(self.schema, self.runtime_class, self)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, AvroSerializerSnapshot)
        if _significant(json.loads(self.schema)) == _significant(json.loads(new.schema)):
            return SchemaCompatibility.compatible_as_is()
        problem = AvroResolution(AvroSchema(self.schema), AvroSchema(new.schema)).problem()
        return SchemaCompatibility.incompatible(problem) if problem else SchemaCompatibility.compatible_after_migration()


def _significant(node: Any) -> Any:
    """Return a schema without the attributes that ``Schema.equals`` ignores."""
    if isinstance(node, list):
        return list(map(_significant, node))
    if isinstance(node, dict):
        return {k: _significant(v) for k, v in node.items() if k not in ("doc", "aliases")}
    return node


provide_snapshots((AVRO_SNAPSHOT,), AvroSerializerSnapshot)
