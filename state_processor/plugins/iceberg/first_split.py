"""Splits of Iceberg's source in the first version: Java objects. Their content has the JSON of later versions.

Iceberg: ``BaseFileScanTask``, ``ContentFileParser``, ``FileScanTaskParser``.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from state_processor.connectors.codecs import Codec, Content, Kept, json_text
from state_processor.connectors.java import (
    SCALARS,
    JavaArray,
    JavaEnum,
    JavaInstance,
    JavaList,
    JavaObjectCodec,
    JavaText,
    array_bytes,
    class_name,
    elements,
)
from state_processor.errors import InvalidRowError, UnsupportedFormatError
from state_processor.plugins.iceberg.objects import (
    CLASSES,
    DELETES,
    EXPRESSIONS,
    FIELDS,
    ICEBERG,
    PARTITION_FIELDS,
    TASKS,
    TYPES,
    FileObjects,
    file_content,
    unboxed,
)

TRANSFORMS: Final = f"{ICEBERG}.transforms"
_OPERATION: Final = f"{EXPRESSIONS}.Expression$Operation"
_CONSTANT: Final = f"{EXPRESSIONS}.SerializationProxies$ConstantExpressionProxy"
_PREDICATE: Final = f"{EXPRESSIONS}.UnboundPredicate"
_REFERENCE: Final = f"{EXPRESSIONS}.NamedReference"
_PAIRS: Final = {f"{EXPRESSIONS}.And": "and", f"{EXPRESSIONS}.Or": "or"}
_NOT: Final = f"{EXPRESSIONS}.Not"
_SETS: Final = ("in", "not-in")
_BYTES: Final = ("FixedLiteralProxy", "BinaryLiteralProxy")
_NAMED: Final = {
    **{f"{TRANSFORMS}.SerializationProxies${name}sTransformProxy": name.lower() for name in ("Year", "Month", "Day", "Hour")},
    f"{TRANSFORMS}.SerializationProxies$IdentityTransformProxy": "identity",
    f"{TRANSFORMS}.SerializationProxies$VoidTransformProxy": "void",
}
_SIZED: Final = {f"{TRANSFORMS}.Bucket": ("bucket", "numBuckets"), f"{TRANSFORMS}.Truncate": ("truncate", "width")}


# Objects to JSON


def transform_text(transform: Any) -> str:
    """Return the text of a transform."""
    name = class_name(transform)
    for prefix, (text, field) in _SIZED.items():
        if name == prefix or name.startswith(f"{prefix}$"):
            return f"{text}[{transform.get(field)}]"
    if name not in _NAMED:
        raise UnsupportedFormatError(f"partition transforms of {name} are not known")
    return _NAMED[name]


def expression_json(expression: Any) -> Content:
    """Return the JSON of an expression: true or false, a predicate, or a combination of expressions."""
    name = class_name(expression)
    if name == _CONSTANT:
        return bool(unboxed(expression.get("trueOrFalse")))
    if name in _PAIRS:
        sides = {side: expression_json(expression.get(side)) for side in ("left", "right")}
        return {"type": _PAIRS[name], **sides}
    if name == _NOT:
        return {"type": "not", "child": expression_json(expression.get("child"))}
    if name != _PREDICATE:
        raise UnsupportedFormatError(f"expressions of {name} are not known")
    kind = expression.get("op").constant.lower().replace("_", "-")
    json = {"type": kind, "term": _term(expression.get("term"))}
    literals = expression.get("literals")
    if literals is None:
        return json
    values = list(map(_literal, elements(literals)))
    return json | ({"values": values} if kind in _SETS else {"value": values[0]})


def _term(term: Any) -> Content:
    name = class_name(term)
    if name == _REFERENCE:
        return term.get("name")
    if name == f"{EXPRESSIONS}.UnboundTransform":
        return {"type": "transform", "transform": transform_text(term.get("transform")), "term": term.get("ref").get("name")}
    raise UnsupportedFormatError(f"terms of {name} are not known")


def _literal(literal: Any) -> Content:
    name = class_name(literal)
    if name.endswith(_BYTES):
        return array_bytes(literal.get("bytes")).hex().upper()
    value = literal.get("value")
    if not isinstance(value, JavaInstance):
        return value
    if value.class_name not in SCALARS:
        raise UnsupportedFormatError(f"values of {value.class_name} in filters are not known")
    content = SCALARS[value.class_name].to_content(value)
    return format(Decimal(content), "f") if value.class_name == "java.math.BigDecimal" else content


# Residuals of partitions

_TESTS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "lt": operator.lt,
    "lt-eq": operator.le,
    "gt": operator.gt,
    "gt-eq": operator.ge,
    "eq": operator.eq,
    "not-eq": operator.ne,
    "in": lambda value, values: value in values,
    "not-in": lambda value, values: value not in values,
    "starts-with": lambda value, prefix: value.startswith(prefix),
    "not-starts-with": lambda value, prefix: not value.startswith(prefix),
    "is-null": lambda value, _: value is None,
    "not-null": lambda value, _: value is not None,
    "is-nan": lambda value, _: value != value,
    "not-nan": lambda value, _: value == value,
}
_OF_NULL: Final = {
    **dict.fromkeys(("lt", "lt-eq", "not-eq", "not-in", "is-null", "not-nan"), True),
    **dict.fromkeys(("gt", "gt-eq", "eq", "in", "not-null", "is-nan"), False),
}
"""The tests of a null, which Iceberg sorts before all values."""


def residual_of(json: Content, partition: Mapping[str, Any]) -> Content:
    """Return the rest of a filter in a partition.

    ``partition``: the values of columns that are the same in all rows of the partition. Filters on other columns stay.
    """
    if isinstance(json, bool):
        return json
    kind = json["type"]
    if kind == "not":
        return _negated(residual_of(json["child"], partition))
    if kind in _PAIRS.values():
        return _combined(kind, residual_of(json["left"], partition), residual_of(json["right"], partition))
    if not isinstance(json["term"], str) or json["term"] not in partition:
        return json
    value = partition[json["term"]]
    if value is None:
        return _OF_NULL.get(kind, json)
    return _TESTS[kind](value, json.get("values", json.get("value")))


def _negated(json: Content) -> Content:
    if isinstance(json, bool):
        return not json
    return json["child"] if json["type"] == "not" else {"type": "not", "child": json}


def _combined(kind: str, first: Content, right: Content) -> Content:
    decides = kind == "or"
    if first is decides or right is decides:
        return decides
    if isinstance(first, bool):
        return right
    return first if isinstance(right, bool) else {"type": kind, "left": first, "right": right}


# JSON to objects

_LITERALS: Final = {
    "boolean": ("BooleanLiteral", "Boolean"),
    "int": ("IntegerLiteral", "Integer"),
    "date": ("IntegerLiteral", "Integer"),
    "long": ("LongLiteral", "Long"),
    "time": ("LongLiteral", "Long"),
    "timestamp": ("LongLiteral", "Long"),
    "timestamptz": ("LongLiteral", "Long"),
    "float": ("FloatLiteral", "Float"),
    "double": ("DoubleLiteral", "Double"),
}
"""The literals of numbers, by the type of the column: their class, and the class of the value."""


class ExpressionObjects:
    """The expressions of one stream. Java has each constant once."""

    def __init__(self, box: Callable[[str, Any], Any]) -> None:
        self._box = box
        self._constants: dict[bool, JavaInstance] = {}

    def expression(self, json: Content, columns: Mapping[str, Any]) -> JavaInstance:
        """Return the object of an expression.

        ``columns``: the types of columns, by name.
        """
        if isinstance(json, bool):
            new = JavaInstance(_CONSTANT, {"trueOrFalse": JavaInstance("java.lang.Boolean", {"value": json})})
            return self._constants.setdefault(json, new)
        kind = json["type"]
        for name, text in _PAIRS.items():
            if kind == text:
                return JavaInstance(name, {side: self.expression(json[side], columns) for side in ("left", "right")})
        if kind == "not":
            return JavaInstance(_NOT, {"child": self.expression(json["child"], columns)})
        if kind not in _TESTS or not isinstance(json["term"], str):
            raise InvalidRowError(f"the filter {json!r} can't be written in version 1 of a split: use a later version")
        values: Sequence[Any] | None = json.get("values", [json["value"]] if "value" in json else None)
        type_ = columns.get(json["term"])
        literals = None if values is None else JavaList([self._literal(value, type_) for value in values])
        fields = {"op": JavaEnum(_OPERATION, kind.upper().replace("-", "_"))}
        reference = JavaInstance(_REFERENCE, {"name": json["term"]})
        return JavaInstance(_PREDICATE, {**fields, "term": reference, "literals": literals})

    def _literal(self, value: Any, type_: Any) -> JavaInstance:
        if isinstance(value, str) and type_ == "string":
            return JavaInstance(f"{EXPRESSIONS}.Literals$StringLiteral", {"value": value})
        if type_ not in _LITERALS or isinstance(value, str):
            raise InvalidRowError(
                f"the value {value!r} of a filter on a column of {type_!r} can't be written in version 1 of a split"
            )
        literal, kind = _LITERALS[type_]
        return JavaInstance(f"{EXPRESSIONS}.Literals${literal}", {"value": self._box(kind, value)})


_KEYED: Final = {
    "column-sizes": "columnSizes",
    "value-counts": "valueCounts",
    "null-value-counts": "nullValueCounts",
    "nan-value-counts": "nanValueCounts",
    "lower-bounds": "lowerBounds",
    "upper-bounds": "upperBounds",
}
_PLAIN: Final = {
    "split-offsets": "splitOffsets",
    "equality-ids": "equalityFieldIds",
    "sort-order-id": "sortOrderId",
    "first-row-id": "firstRowId",
    "data-sequence-number": "dataSequenceNumber",
    "referenced-data-file": "referencedDataFile",
    "content-offset": "contentOffset",
    "content-size-in-bytes": "contentSizeInBytes",
}
_UNPARTITIONED: Final = f"{EXPRESSIONS}.ResidualEvaluator$UnpartitionedResidualEvaluator"
_PART: Final = f"{ICEBERG}.BaseFileScanTask$SplitScanTask"


def _file_json(content: Mapping[str, Any], partition: Sequence[Content]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "spec-id": content["specId"],
        "content": content["content"].lower().replace("_", "-"),
        "file-path": content["location"],
        "file-format": content["format"].lower(),
        "partition": partition,
        "file-size-in-bytes": content["fileSizeInBytes"],
        "record-count": content["recordCount"],
    }
    for key, name in _KEYED.items():
        if (values := content[name]) is not None:
            texts = [value.upper() if isinstance(value, str) else value for value in values.values()]
            described[key] = {"keys": [*map(int, values)], "values": texts}
    if content["keyMetadata"] is not None:
        described["key-metadata"] = content["keyMetadata"].upper()
    numbered = content["content"] == "DATA" and "firstRowId" in content
    left_out = () if numbered else ("data-sequence-number",)
    return described | {key: content[n] for key, n in _PLAIN.items() if content.get(n) is not None and key not in left_out}


def _file_of_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    kind = "GenericDataFile" if fields["content"] == "data" else "GenericDeleteFile"
    metadata = fields.get("key-metadata")
    return {
        "class": f"{ICEBERG}.{kind}",
        "content": fields["content"].upper().replace("-", "_"),
        "location": fields["file-path"],
        "format": fields["file-format"].upper(),
        "specId": fields["spec-id"],
        "recordCount": fields["record-count"],
        "fileSizeInBytes": fields["file-size-in-bytes"],
        "keyMetadata": None if metadata is None else metadata.lower(),
        "partition": fields["partition"],
        **{name: _by_text(fields.get(key)) for key, name in _KEYED.items()},
        **{name: fields.get(key) for key, name in _PLAIN.items()},
    }


def _by_text(pairs: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the values of a map of Iceberg's JSON by their keys as text."""
    if pairs is None:
        return None
    values = {}
    for key, value in zip(pairs["keys"], pairs["values"], strict=True):
        values[str(key)] = value.lower() if isinstance(value, str) else value
    return values


def _columns(schema: Mapping[str, Any]) -> dict[int, tuple[str, Any]]:
    """Return the names and the types of the columns of a table, by their ids."""
    return {column["id"]: (column["name"], column["type"]) for column in schema["fields"]}


def _residual(residuals: JavaInstance, spec: Mapping[str, Any], schema: Mapping[str, Any], partition: Sequence[Any]) -> Content:
    json = expression_json(residuals.get("expr"))
    if class_name(residuals) == _UNPARTITIONED:
        return json
    if class_name(residuals) != f"{EXPRESSIONS}.ResidualEvaluator":
        raise UnsupportedFormatError(f"residuals of {class_name(residuals)} are not known")
    columns = _columns(schema)
    values = {}
    for field, value in zip(spec["fields"], partition, strict=True):
        source = field["source-id"]
        if field["transform"] == "identity" and source in columns:
            values[columns[source][0]] = value
    return residual_of(json, values)


def _partition_json(file: JavaInstance) -> list[Content]:
    """Return the values of a file's partition as JSON has them: dates as text."""
    partition = file.get("partitionData")
    fields = partition.get("partitionType").get("fields")
    values = list(map(unboxed, partition.get("data")))
    return [_value_json(value, field.get("type")) for value, field in zip(values, fields, strict=True)]


def _value_json(value: Any, type_: JavaInstance) -> Content:
    name = type_.get("typeAsString")
    if value is None or name in _PLAIN_TYPES:
        return value
    if name not in _VALUE_TEXTS:
        raise UnsupportedFormatError(f"values of the type {name} in partitions are not known")
    return _VALUE_TEXTS[name](value)


_PLAIN_TYPES: Final = ("boolean", "int", "long", "float", "double", "string")
_VALUE_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "date": lambda days: str(date.fromordinal(days + date(1970, 1, 1).toordinal())),
    "timestamp": lambda micros: _timestamp(micros),
    "timestamptz": lambda micros: f"{_timestamp(micros)}+00:00",
}


def _timestamp(micros: int) -> str:
    text = (datetime(1970, 1, 1) + timedelta(microseconds=micros)).isoformat()
    return text.rstrip("0") if "." in text else text


def _task_json(task_object: JavaInstance) -> str:
    whole = task_object.get("fileScanTask") if class_name(task_object) == _PART else task_object
    if class_name(whole) != f"{ICEBERG}.BaseFileScanTask":
        raise UnsupportedFormatError(f"tasks of the class {class_name(whole)} are not known")
    file = file_content(whole.get("file"))
    schema, spec = json.loads(whole.get("schemaString")), json.loads(whole.get("specString"))
    start, length = (
        (task_object.get("offset"), task_object.get("len")) if task_object is not whole else (0, file["fileSizeInBytes"])
    )
    task = {
        "task-type": "file-scan-task",
        "schema": schema,
        "spec": spec,
        "data-file": _file_json(file, _partition_json(whole.get("file"))),
        "start": start,
        "length": length,
        "delete-files": [_file_json(file_content(deleted), _partition_json(deleted)) for deleted in whole.get("deletes")],
        "residual-filter": _residual(whole.get("residuals"), spec, schema, file["partition"]),
    }
    return json_text(task)


class _TaskObjects:
    """The tasks of one stream. It stores once the objects that the tasks of a plan share."""

    def __init__(self) -> None:
        self._files = FileObjects()
        self._expressions = ExpressionObjects(self._files.box)
        self._residuals: dict[str, JavaInstance] = {}
        self._whole: dict[str, JavaInstance] = {}
        schema = JavaInstance(
            f"{ICEBERG}.Schema",
            {
                "highestFieldId": 0,
                "schemaId": 0,
                "identifierFieldIds": JavaArray("[I", []),
                "struct": JavaInstance(f"{TYPES}.Types$StructType", {"fields": JavaArray(FIELDS, [])}),
            },
        )
        spec = {"lastAssignedFieldId": 999, "specId": 0, "fields": JavaArray(PARTITION_FIELDS, []), "schema": schema}
        self._unpartitioned = JavaInstance(f"{ICEBERG}.PartitionSpec", spec)

    def task(self, text: str) -> JavaInstance:
        """Return the object of a task."""
        fields = json.loads(text)
        if fields["spec"]["fields"]:
            raise InvalidRowError("version 1 of a split is written for tables without partitions only: use a later version")
        key = json_text({name: value for name, value in fields.items() if name not in ("start", "length")})
        if key not in self._whole:
            self._whole[key] = self._task_of(fields)
        if (fields["start"], fields["length"]) == (0, fields["data-file"]["file-size-in-bytes"]):
            return self._whole[key]
        return JavaInstance(_PART, {"len": fields["length"], "offset": fields["start"], "fileScanTask": self._whole[key]})

    def _task_of(self, task_fields: Mapping[str, Any]) -> JavaInstance:
        """Return the object of a task for a whole file."""
        fields = {
            "file": self._files.file(_file_of_json(task_fields["data-file"])),
            "residuals": self._residual(task_fields),
            "schemaString": JavaText(json_text(task_fields["schema"])),
            "specString": JavaText(json_text(task_fields["spec"])),
            "deletes": JavaArray(DELETES, [self._files.file(_file_of_json(deleted)) for deleted in task_fields["delete-files"]]),
        }
        return JavaInstance(f"{ICEBERG}.BaseFileScanTask", fields)

    def _residual(self, task: Mapping[str, Any]) -> JavaInstance:
        text = json_text(task["residual-filter"])
        if text not in self._residuals:
            columns = dict(_columns(task["schema"]).values())
            expression = self._expressions.expression(task["residual-filter"], columns)
            fields = {"caseSensitive": False, "expr": expression, "spec": self._unpartitioned}
            self._residuals[text] = JavaInstance(_UNPARTITIONED, fields)
        return self._residuals[text]


def first_split(task: Callable[[str], Content], text: Callable[[Content], str]) -> Codec:
    """Return the codec of splits as Java objects; ``task`` and ``text`` convert the text of a task to its content and back."""

    def to_content(split: JavaInstance) -> Content:
        if class_name(split) != f"{ICEBERG}.flink.source.split.IcebergSourceSplit":
            raise UnsupportedFormatError(f"expected an IcebergSourceSplit, found {class_name(split)}")
        tasks = [task(_task_json(inner)) for inner in split.get("task").get("tasks")]
        return {"fileOffset": split.get("fileOffset"), "recordOffset": split.get("recordOffset"), "tasks": tasks}

    def to_object(content: Content) -> JavaInstance:
        objects = _TaskObjects()
        tasks = JavaArray(TASKS, [objects.task(text(inner)) for inner in content["tasks"]])
        fields = {
            "fileOffset": content["fileOffset"],
            "recordOffset": content["recordOffset"],
            "task": JavaInstance(f"{ICEBERG}.BaseCombinedScanTask", {"tasks": tasks}),
        }
        return JavaInstance(f"{ICEBERG}.flink.source.split.IcebergSourceSplit", fields)

    return Kept(JavaObjectCodec(to_content, to_object, CLASSES))
