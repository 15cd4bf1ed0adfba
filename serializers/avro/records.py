"""Avro records, generic, specific or by reflection (Flink: ``flink-avro``'s ``AvroSerializer``), and their schemas.

:class:`AvroResolution` converts data of one schema to values of another by Avro's rules
(``org.apache.avro.SchemaCompatibility`` and ``ResolvingDecoder``): numbers widen; bytes and strings convert to each other; fields
match by name or alias; a field that the writer lacks gets its default; unknown symbols become the enum's default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from state_processor.serializers.avro.containers import AvroArray, AvroBranch, AvroMap, AvroRecord, AvroReference, AvroUnion
from state_processor.serializers.avro.scalars import (
    AvroBytes,
    AvroDecimal,
    AvroEnum,
    AvroFixed,
    AvroLogical,
    AvroNull,
    AvroNumber,
    AvroString,
)
from state_processor.serializers.base import SchemaCompatibility, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.core.templates import DelegatingSerializer
from state_processor.serializers.io import MAX_NESTING, DataInput, DataOutput
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.traversal import join_path, parts_of
from state_processor.support.errors import CorruptSnapshotError, StateMigrationError, StateProcessorError, UnsupportedFormatError

# Types of a schema

MOST_TYPES: Final = 1 << 16
"""The limit of fields, elements and branches in a type, counting the fields of each referenced record."""

_LARGEST_FIXED: Final = 2**31 - 1
_NUMBERS: Final = ("boolean", "int", "long", "float", "double")
_LOGICAL: Final = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}

Enclosing = Mapping[str, Mapping[str, AvroRecord]]
"""Enclosing records by name; each is in a mapping that is filled when the record is made."""


class AvroSchema:
    """A parsed schema with full names everywhere, and its named types by name.

    ``text``: the schema as JSON.
    """

    def __init__(self, text: str) -> None:
        from fastavro.schema import parse_schema  # importing it takes longer than a small read of a state without Avro

        self.text = text
        self.named: dict[str, Any] = {}
        with _reading(text):
            text.encode()  # names become columns, and columns can't hold unpaired surrogates
            plain = _without_invalid_decimals(json.loads(text))
            self.content: Any = parse_schema(plain, self.named, expand=False, _write_hint=False)

    def resolve(self, node: Any) -> Any:
        """Return a type's definition if ``node`` is its name."""
        return self.named.get(node, node) if isinstance(node, str) else node

    def type(self) -> Codec:
        """Return the type that the schema describes."""
        with _reading(self.text):
            return _TypeBuilder(self).build(self.content, {}, 0)


class _TypeBuilder:
    """Builder of one schema's type, up to a limited size."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._built = 0

    def build(self, node: Any, inside: Enclosing, depth: int) -> Codec:
        """Build the type of a node that is ``depth`` levels inside other types."""
        self._built += 1
        if self._built > MOST_TYPES:
            raise UnsupportedFormatError(
                f"an Avro schema of more than {MOST_TYPES} fields, counting referenced records: {self._schema.text[:200]}"
            )
        if depth > MAX_NESTING:
            raise _too_deep(self._schema.text)
        node = self._schema.resolve(node)
        if isinstance(node, list):
            return AvroUnion([self.build(branch, inside, depth + 1) for branch in node])
        definition = {"type": node} if isinstance(node, str) else node
        kind = definition["type"]
        if isinstance(kind, (dict, list)) or kind in self._schema.named:
            return self.build(kind, inside, depth + 1)
        return _with_logical(self._plain(kind, definition, inside, depth), definition)

    def _plain(self, kind: str, definition: Mapping[str, Any], inside: Enclosing, depth: int) -> Codec:
        if kind in _NUMBERS:
            return AvroNumber(kind.upper())
        match kind:
            case "null":
                return AvroNull()
            case "string":
                return AvroString()
            case "bytes":
                return AvroBytes()
            case "fixed":
                return AvroFixed(_name(definition), _size(definition))
            case "enum":
                return AvroEnum(_name(definition), _symbols(definition))
            case "array":
                return AvroArray(self.build(definition["items"], inside, depth + 1))
            case "map":
                return AvroMap(self.build(definition["values"], inside, depth + 1))
        name = _name(definition)
        if name in inside:
            return AvroReference(name, inside[name])
        enclosing: dict[str, AvroRecord] = {}
        within = {**inside, name: enclosing}
        fields = {_name(f): self.build(f["type"], within, depth + 1) for f in definition["fields"]}
        unordered = frozenset(_name(f) for f in definition["fields"] if f.get("order") == "ignore")
        record = enclosing[name] = AvroRecord(name, fields, unordered)
        return record


@contextmanager
def _reading(text: str) -> Iterator[None]:
    """Convert any error caused by a text that is not an Avro schema into an error of this library."""
    try:
        yield
    except StateProcessorError:
        raise
    except RecursionError:
        raise _too_deep(text) from None
    except Exception as problem:  # fastavro checks only some attributes of a schema; others cause errors of any class
        problem_text = f"{type(problem).__name__}: {problem}: {text[:200]}".encode("utf-8", "backslashreplace").decode()
        raise CorruptSnapshotError(f"not an Avro schema: {problem_text}") from None


def _too_deep(text: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(f"an Avro schema whose types are nested more than {MAX_NESTING} levels deep: {text[:200]}")


def _name(definition: Mapping[str, Any]) -> str:
    name = definition["name"]
    if not isinstance(name, str):
        raise TypeError(f"text is expected for a name, found {name!r}")
    name.encode()  # JSON may escape surrogates
    return name


def _size(definition: Mapping[str, Any]) -> int:
    size = definition["size"]
    if type(size) is not int or not 0 <= size <= _LARGEST_FIXED:
        raise ValueError(f"0 to {_LARGEST_FIXED} bytes are expected for a fixed type, found {size!r}")
    return size


def _symbols(definition: Mapping[str, Any]) -> list[str]:
    symbols = definition["symbols"]
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise TypeError(f"a list of texts is expected for symbols, found {symbols!r}")
    "".join(symbols).encode()
    return symbols


def _with_logical(base: Codec, definition: Mapping[str, Any]) -> Codec:
    """Return the type with its logical type, if Avro has it and it fits; else the base alone, as Avro does."""
    kind = definition.get("logicalType")
    if isinstance(kind, str) and kind in _LOGICAL and str(base) == _LOGICAL[kind]:
        return AvroLogical(base, kind)
    if kind == "decimal" and isinstance(base, (AvroBytes, AvroFixed)):
        return AvroDecimal(base, definition["precision"], definition.get("scale", 0))
    return base


def _without_invalid_decimals(node: Any) -> Any:
    """Return a schema as Avro's Java library reads it: a decimal with invalid precision or scale is bytes."""
    if isinstance(node, list):
        return list(map(_without_invalid_decimals, node))
    if not isinstance(node, dict):
        return node
    plain_schema = dict(node)
    if node.get("logicalType") == "decimal":
        precision, scale = node.get("precision"), node.get("scale", 0)
        if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision):
            del plain_schema["logicalType"]
    for key in ("type", "items", "values", "fields"):
        if key in plain_schema:
            plain_schema[key] = _without_invalid_decimals(plain_schema[key])
    return plain_schema


# Resolution of a reader's schema

_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_PRIMITIVES: Final = frozenset((*_NUMBERS, "null", "bytes", "string"))

Convert = Callable[[Any], Any]


class AvroResolution:
    """Rules for reading data of a writer's schema with a reader's schema.

    ``writer`` and ``reader``: the two schemas.
    """

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self._writer = writer
        self._reader = reader
        self._checking: set[tuple[str, str]] = set()

    def problem(self) -> str:
        """Return why data can't be read, with the path of the problem; empty if it can."""
        return self._problem(self._writer.content, self._reader.content, "")

    def convert(self, value: Any) -> Any:
        """Return a value of the writer's schema as a value of the reader's."""
        return self._convert(self._writer.content, self._reader.content, value, "")

    # Checks

    def _problem(self, writer: Any, reader: Any, path: str) -> str:
        writer, reader = _definition(self._writer, writer), _definition(self._reader, reader)
        old, new = _kind(writer), _kind(reader)
        at = f"{path}: " if path else ""
        if old == "union":
            problems = (self._problem(branch, reader, path) for branch in writer)
            return next(filter(None, problems), "")
        if new == "union":
            if any(not self._problem(writer, branch, path) for branch in reader):
                return ""
            return f"{at}no branch of the wanted union takes the written {_title(writer)}"
        if old != new:
            return "" if new in _PROMOTIONS.get(old, ()) else f"{at}{_title(writer)} was written, {_title(reader)} is required"
        if old in _PRIMITIVES:
            return ""
        if old in ("array", "map"):
            inner = "items" if old == "array" else "values"
            return self._problem(writer[inner], reader[inner], f"{path}[]")
        if not _same_name(writer, reader):
            return f"{at}{writer['name']} was written, {reader['name']} is required"
        if old == "fixed":
            return (
                ""
                if writer["size"] == reader["size"]
                else f"{at}{writer['name']} has {writer['size']} bytes, {reader['size']} are required"
            )
        if old == "enum":
            missing = [s for s in writer["symbols"] if s not in reader["symbols"]]
            return (
                f"{at}the wanted enum {reader['name']} lacks {', '.join(missing)}" if missing and "default" not in reader else ""
            )
        pair = (writer["name"], reader["name"])
        if pair in self._checking:
            return ""
        self._checking.add(pair)
        try:
            problems = (self._field_problem(writer, field, path) for field in reader["fields"])
            return next(filter(None, problems), "")
        finally:
            self._checking.discard(pair)

    def _field_problem(self, writer: Mapping[str, Any], field: Mapping[str, Any], path: str) -> str:
        place = join_path(path, field["name"])
        written = _field(writer, field)
        if written is not None:
            return self._problem(written["type"], field["type"], place)
        return "" if "default" in field else f"{place}: a new field needs a default"

    # Conversion

    def _convert(self, writer: Any, reader: Any, value: Any, path: str) -> Any:
        writer, reader = _definition(self._writer, writer), _definition(self._reader, reader)
        old, new = _kind(writer), _kind(reader)
        if old == "union":
            number, content = _branch(writer, value)
            return self._convert(writer[number], reader, content, path)
        if new == "union":
            number = self._reader_branch(writer, reader, path)
            content = self._convert(writer, reader[number], value, path)
            return content if _is_nullable(reader) or content is None else AvroBranch(number, content)
        if old == new:
            return self._convert_same(old, writer, reader, value, path)
        if new not in _PROMOTIONS.get(old, ()):
            raise StateMigrationError(f"{path or 'value'}: {_title(writer)} was written, {_title(reader)} is required")
        match new:
            case "float" | "double":
                return float(value)
            case "bytes":
                return value.encode()
            case "string":
                return value.decode()
        return value

    def _convert_same(self, kind: str, writer: Any, reader: Any, value: Any, path: str) -> Any:
        match kind:
            case "array":
                return [self._convert(writer["items"], reader["items"], v, f"{path}[]") for v in value]
            case "map":
                return [(k, self._convert(writer["values"], reader["values"], v, f"{path}[]")) for k, v in value]
            case "enum":
                if value in reader["symbols"]:
                    return value
                if "default" in reader:
                    return reader["default"]
                raise StateMigrationError(f"{path or 'value'}: the wanted enum {reader['name']} lacks {value} and a default")
            case "record" | "error":
                return {f["name"]: self._convert_field(writer, f, value, path) for f in reader["fields"]}
        return value

    def _convert_field(self, writer: Mapping[str, Any], field: Mapping[str, Any], value: Any, path: str) -> Any:
        place = join_path(path, field["name"])
        written = _field(writer, field)
        if written is not None:
            return self._convert(written["type"], field["type"], value[written["name"]], place)
        if "default" not in field:
            raise StateMigrationError(f"{place}: a new field needs a default")
        return _default_value(self._reader, field["type"], field["default"])

    def _reader_branch(self, writer: Any, reader: list[Any], path: str) -> int:
        """Choose the branch as Avro does: the one of the same type, else the first that accepts the data."""
        same = [i for i, b in enumerate(reader) if _same_type(writer, _definition(self._reader, b))]
        fitting = [i for i in same or range(len(reader)) if not self._problem(writer, reader[i], path)]
        if not fitting:
            raise StateMigrationError(f"{path or 'value'}: no branch of the wanted union takes the written {_title(writer)}")
        return fitting[0]


def _default_value(schema: AvroSchema, node: Any, default: Any) -> Any:
    """Return a field's default, stored as JSON in the schema, as a value of the field's type."""
    definition = _definition(schema, node)
    match _kind(definition):
        case "union":
            number = next((i for i, b in enumerate(definition) if _takes_default(_kind(_definition(schema, b)), default)), 0)
            content = _default_value(schema, definition[number], default)
            return content if _is_nullable(definition) or content is None else AvroBranch(number, content)
        case "bytes" | "fixed":
            return default.encode("iso-8859-1")
        case "float" | "double":
            return float(default)
        case "array":
            return [_default_value(schema, definition["items"], v) for v in default]
        case "map":
            return [(k, _default_value(schema, definition["values"], v)) for k, v in default.items()]
        case "record" | "error":
            record = {}
            for field in definition["fields"]:
                default_of_field = default.get(field["name"], field.get("default"))
                record[field["name"]] = _default_value(schema, field["type"], default_of_field)
            return record
    return default


def _takes_default(kind: str, default: Any) -> bool:
    """Check if a JSON value can be the default of a type, or of the branch of a union."""
    match kind:
        case "null":
            return default is None
        case "boolean":
            return isinstance(default, bool)
        case "int" | "long":
            return isinstance(default, int) and not isinstance(default, bool)
        case "float" | "double":
            return isinstance(default, (int, float)) and not isinstance(default, bool)
        case "array":
            return isinstance(default, list)
        case "map" | "record" | "error":
            return isinstance(default, dict)
    return isinstance(default, str)


def _definition(schema: AvroSchema, node: Any) -> Any:
    node = schema.resolve(node)
    while isinstance(node, dict) and (isinstance(node["type"], (dict, list)) or node["type"] in schema.named):
        node = schema.resolve(node["type"])
    return node


def _kind(definition: Any) -> str:
    if isinstance(definition, list):
        return "union"
    return str(definition if isinstance(definition, str) else definition["type"])


def _title(definition: Any) -> str:
    return str(definition.get("name", definition["type"])) if isinstance(definition, dict) else _kind(definition)


def _is_nullable(branches: list[Any]) -> bool:
    """Check if values of a union can omit their branch."""
    return sum(_kind(b) != "null" for b in branches) <= 1


def _branch(branches: list[Any], value: Any) -> tuple[int, Any]:
    if isinstance(value, AvroBranch):
        return value
    return next((i, value) for i, b in enumerate(branches) if (_kind(b) == "null") is (value is None))


def _same_name(writer: Mapping[str, Any], reader: Mapping[str, Any]) -> bool:
    names = {reader["name"], *reader.get("aliases", ())}
    return _short(writer["name"]) in set(map(_short, names))


def _same_type(writer: Any, reader: Any) -> bool:
    if _kind(writer) != _kind(reader):
        return False
    named = isinstance(writer, dict) and "name" in writer
    return not named or _same_name(writer, reader)


def _field(record: Mapping[str, Any], reader_field: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the written field with the name or an alias of a field of the reader."""
    for name in (reader_field["name"], *reader_field.get("aliases", ())):
        for field in record["fields"]:
            if field["name"] == name:
                return dict(field)
    return None


def _short(name: str) -> str:
    return name.rpartition(".")[2]


# Serializer

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
        has_logical = bool(parts_of(AvroLogical, self.type))
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
