"""Splits of Iceberg's source in the first version: Java objects. Their content has the JSON of later versions.

Iceberg: ``BaseFileScanTask``, ``ContentFileParser``, ``FileScanTaskParser``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from state_processor.connectors.codecs import Codec, Content, Kept, json_text
from state_processor.connectors.java import JavaArray, JavaInstance, JavaObjectCodec, JavaText, class_name
from state_processor.errors import InvalidRowError, UnsupportedFormatError
from state_processor.plugins.iceberg.classes import CLASSES, DELETES, EXPRESSIONS, FIELDS, ICEBERG, PARTITION_FIELDS, TASKS, TYPES
from state_processor.plugins.iceberg.expressions import ExpressionObjects, expression_json, residual_of
from state_processor.plugins.iceberg.objects import FileObjects, file_content, unboxed

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
    keyed = {
        name: {
            str(k): v.lower() if isinstance(v, str) else v
            for k, v in zip(fields[key]["keys"], fields[key]["values"], strict=True)
        }
        if key in fields
        else None
        for key, name in _KEYED.items()
    }
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
        **keyed,
        **{name: fields.get(key) for key, name in _PLAIN.items()},
    }


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
    values = {
        columns[field["source-id"]][0]: value
        for field, value in zip(spec["fields"], partition, strict=True)
        if field["transform"] == "identity" and field["source-id"] in columns
    }
    return residual_of(json, values)


def _partition_json(file: JavaInstance) -> list[Content]:
    """Return the values of a file's partition as JSON has them: dates as text."""
    partition = file.get("partitionData")
    fields = partition.get("partitionType").get("fields")
    values = [unboxed(value) for value in partition.get("data")]
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
