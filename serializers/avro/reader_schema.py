"""Conversion of data of one Avro schema to values of another, by Avro's rules.

The rules (``org.apache.avro.SchemaCompatibility`` and ``ResolvingDecoder``): numbers widen; bytes and strings convert to each
other; fields match by name or alias; a field that the writer lacks gets its default; unknown symbols become the enum's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from state_processor.serializers.avro.containers import AvroBranch
from state_processor.serializers.avro.schema import AvroSchema
from state_processor.serializers.paths import join
from state_processor.support.errors import StateMigrationError

_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))

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
        place = join(path, field["name"])
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
        place = join(path, field["name"])
        written = _field(writer, field)
        if written is not None:
            return self._convert(written["type"], field["type"], value[written["name"]], place)
        if "default" not in field:
            raise StateMigrationError(f"{place}: a new field needs a default")
        return default_value(self._reader, field["type"], field["default"])

    def _reader_branch(self, writer: Any, reader: list[Any], path: str) -> int:
        """Choose the branch as Avro does: the one of the same type, else the first that accepts the data."""
        same = [i for i, b in enumerate(reader) if _same_type(writer, _definition(self._reader, b))]
        fitting = [i for i in same or range(len(reader)) if not self._problem(writer, reader[i], path)]
        if not fitting:
            raise StateMigrationError(f"{path or 'value'}: no branch of the wanted union takes the written {_title(writer)}")
        return fitting[0]


def default_value(schema: AvroSchema, node: Any, default: Any) -> Any:
    """Return a field's default, stored as JSON in the schema, as a value of the field's type."""
    definition = _definition(schema, node)
    match _kind(definition):
        case "union":
            number = next((i for i, b in enumerate(definition) if _takes_default(_kind(_definition(schema, b)), default)), 0)
            content = default_value(schema, definition[number], default)
            return content if _is_nullable(definition) or content is None else AvroBranch(number, content)
        case "bytes" | "fixed":
            return default.encode("iso-8859-1")
        case "float" | "double":
            return float(default)
        case "array":
            return [default_value(schema, definition["items"], v) for v in default]
        case "map":
            return [(k, default_value(schema, definition["values"], v)) for k, v in default.items()]
        case "record" | "error":
            return {
                f["name"]: default_value(schema, f["type"], default.get(f["name"], f.get("default")))
                for f in definition["fields"]
            }
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
