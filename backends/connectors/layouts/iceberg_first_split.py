"""Splits of Iceberg's source in the first version: Java objects. Their content has the JSON of later versions.

Iceberg: ``BaseFileScanTask``, ``ContentFileParser``, ``FileScanTaskParser``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from state_processor.backends.connectors.layouts.choices import Kept
from state_processor.backends.connectors.layouts.codecs import Codec, Content
from state_processor.backends.connectors.layouts.iceberg_classes import (
    CLASSES,
    DELETES,
    EXPRESSIONS,
    FIELDS,
    ICEBERG,
    PARTITION_FIELDS,
    TASKS,
    TYPES,
)
from state_processor.backends.connectors.layouts.iceberg_objects import FileObjects, file_content, unboxed
from state_processor.backends.connectors.layouts.java_values import JavaObjectCodec
from state_processor.serializers.errors import InvalidRowError, UnsupportedFormatError
from state_processor.serializers.java.object_input import JavaInstance, class_name
from state_processor.serializers.java.object_output import JavaArray

_KEYED: Final = {
    "column-sizes": "columnSizes",
    "value-counts": "valueCounts",
    "null-value-counts": "nullValueCounts",
    "nan-value-counts": "nanValueCounts",
    "lower-bounds": "lowerBounds",
    "upper-bounds": "upperBounds",
}
_PLAIN: Final = {"split-offsets": "splitOffsets", "equality-ids": "equalityFieldIds", "sort-order-id": "sortOrderId"}


def _file_json(content: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "spec-id": content["specId"],
        "content": content["content"].lower().replace("_", "-"),
        "file-path": content["location"],
        "file-format": content["format"].lower(),
        "partition": content["partition"],
        "file-size-in-bytes": content["fileSizeInBytes"],
        "record-count": content["recordCount"],
    }
    for key, name in _KEYED.items():
        if (values := content[name]) is not None:
            shown = [value.upper() if isinstance(value, str) else value for value in values.values()]
            found[key] = {"keys": [*map(int, values)], "values": shown}
    if content["keyMetadata"] is not None:
        found["key-metadata"] = content["keyMetadata"].upper()
    return found | {key: content[name] for key, name in _PLAIN.items() if content[name] is not None}


def _file_of_json(found: Mapping[str, Any]) -> dict[str, Any]:
    kind = "GenericDataFile" if found["content"] == "data" else "GenericDeleteFile"
    metadata = found.get("key-metadata")
    keyed = {
        name: {
            str(k): v.lower() if isinstance(v, str) else v for k, v in zip(found[key]["keys"], found[key]["values"], strict=True)
        }
        if key in found
        else None
        for key, name in _KEYED.items()
    }
    return {
        "class": f"{ICEBERG}.{kind}",
        "content": found["content"].upper().replace("-", "_"),
        "location": found["file-path"],
        "format": found["file-format"].upper(),
        "specId": found["spec-id"],
        "recordCount": found["record-count"],
        "fileSizeInBytes": found["file-size-in-bytes"],
        "keyMetadata": None if metadata is None else metadata.lower(),
        "partition": found["partition"],
        **keyed,
        **{name: found.get(key) for key, name in _PLAIN.items()},
    }


def _residual(found: JavaInstance) -> bool:
    expression = found.get("expr")
    known = (
        f"{EXPRESSIONS}.ResidualEvaluator$UnpartitionedResidualEvaluator",
        f"{EXPRESSIONS}.SerializationProxies$ConstantExpressionProxy",
    )
    if (class_name(found), class_name(expression)) != known:
        raise UnsupportedFormatError(f"residuals of {class_name(found)} and {class_name(expression)} are not known")
    return bool(unboxed(expression.get("trueOrFalse")))


def _task_json(found: JavaInstance) -> str:
    if class_name(found) != f"{ICEBERG}.BaseFileScanTask":
        raise UnsupportedFormatError(f"tasks of the class {class_name(found)} are not known")
    file = file_content(found.get("file"))
    task = {
        "task-type": "file-scan-task",
        "schema": json.loads(found.get("schemaString")),
        "spec": json.loads(found.get("specString")),
        "data-file": _file_json(file),
        "start": 0,
        "length": file["fileSizeInBytes"],
        "delete-files": [_file_json(file_content(deleted)) for deleted in found.get("deletes")],
        "residual-filter": _residual(found.get("residuals")),
    }
    return json.dumps(task, ensure_ascii=False, separators=(",", ":"))


def _task_object(objects: FileObjects, text: str) -> JavaInstance:
    found = json.loads(text)
    if found["spec"]["fields"] or not isinstance(found["residual-filter"], bool):
        raise InvalidRowError("version 1 of a split is written for tables without partitions and filters only")
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
    constant = JavaInstance("java.lang.Boolean", {"value": found["residual-filter"]})
    expression = JavaInstance(f"{EXPRESSIONS}.SerializationProxies$ConstantExpressionProxy", {"trueOrFalse": constant})
    residuals = JavaInstance(
        f"{EXPRESSIONS}.ResidualEvaluator$UnpartitionedResidualEvaluator",
        {"caseSensitive": False, "expr": expression, "spec": JavaInstance(f"{ICEBERG}.PartitionSpec", spec)},
    )
    fields = {
        "file": objects.file(_file_of_json(found["data-file"])),
        "residuals": residuals,
        "schemaString": _compact(found["schema"]),
        "specString": _compact(found["spec"]),
        "deletes": JavaArray(DELETES, [objects.file(_file_of_json(deleted)) for deleted in found["delete-files"]]),
    }
    return JavaInstance(f"{ICEBERG}.BaseFileScanTask", fields)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def first_split(task: Callable[[str], Content], text: Callable[[Content], str]) -> Codec:
    """Return the codec of splits as Java objects; ``task`` and ``text`` convert the text of a task to its content and back."""

    def to_content(found: JavaInstance) -> Content:
        if class_name(found) != f"{ICEBERG}.flink.source.split.IcebergSourceSplit":
            raise UnsupportedFormatError(f"expected an IcebergSourceSplit, found {class_name(found)}")
        tasks = [task(_task_json(inner)) for inner in found.get("task").get("tasks")]
        return {"fileOffset": found.get("fileOffset"), "recordOffset": found.get("recordOffset"), "tasks": tasks}

    def to_object(content: Content) -> JavaInstance:
        objects = FileObjects()
        tasks = JavaArray(TASKS, [_task_object(objects, text(inner)) for inner in content["tasks"]])
        fields = {
            "fileOffset": content["fileOffset"],
            "recordOffset": content["recordOffset"],
            "task": JavaInstance(f"{ICEBERG}.BaseCombinedScanTask", {"tasks": tasks}),
        }
        return JavaInstance(f"{ICEBERG}.flink.source.split.IcebergSourceSplit", fields)

    return Kept(JavaObjectCodec(to_content, to_object, CLASSES))
