"""Iceberg's Java objects: its serializable classes, as object streams describe them, and results of its writers.

Unchanged content is written with the bytes that it was read from.
Iceberg: ``WriteResult``, ``BaseFile``, ``PartitionData``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any, Final

from state_processor.connectors.codecs import Codec, Content, Kept
from state_processor.connectors.java import (
    JDK,
    OBJECTS,
    STRING_TYPE,
    JavaArray,
    JavaClassDescription,
    JavaEnum,
    JavaInstance,
    JavaObjectCodec,
    array_bytes,
    byte_array,
    class_name,
    described,
)
from state_processor.errors import InvalidRowError, UnsupportedFormatError

# Classes. Their numbers follow from the sources of Iceberg 1.11 and javac 17; other releases have other numbers.

ICEBERG: Final = "org.apache.iceberg"
TYPES: Final = f"{ICEBERG}.types"
EXPRESSIONS: Final = f"{ICEBERG}.expressions"
_MAP: Final = "Ljava/util/Map;"
_LONG: Final = "Ljava/lang/Long;"
_STRUCT: Final = "Lorg/apache/iceberg/types/Types$StructType;"
_EXPRESSION: Final = "Lorg/apache/iceberg/expressions/Expression;"
_LITERAL: Final = "Lorg/apache/iceberg/expressions/Literal;"
_COMPARABLE: Final = {
    "Boolean": 1507343750249867288,
    "Integer": -1128431206649548252,
    "Long": 6229832616188949603,
    "Float": 7758837622016073718,
    "Double": -3301793845948748147,
}
"""Literals of numbers, and the numbers of their classes."""
FILES: Final = "[Lorg.apache.iceberg.DataFile;"
DELETES: Final = "[Lorg.apache.iceberg.DeleteFile;"
_DELETE_FIELDS: Final = "[Lorg/apache/iceberg/DeleteFile;"
TEXTS: Final = "[Ljava.lang.CharSequence;"
FIELDS: Final = "[Lorg.apache.iceberg.types.Types$NestedField;"
TASKS: Final = "[Lorg.apache.iceberg.FileScanTask;"
PARTITION_FIELDS: Final = "[Lorg.apache.iceberg.PartitionField;"
NO_PARTITION: Final = f"{ICEBERG}.PartitionData$1"
BOUNDS: Final = f"{ICEBERG}.SerializableByteBufferMap$MapSerializationProxy"
PROJECTION: Final = 22
"""The number of fields of a file, which all are projected."""


def _comparable_literal(kind: str, number: int) -> JavaClassDescription:
    return JavaClassDescription(
        f"{EXPRESSIONS}.Literals${kind}Literal", number, parent=f"{EXPRESSIONS}.Literals$ComparableLiteral"
    )


CLASSES: Final = {
    **JDK,
    **described(
        JavaClassDescription(FILES, -7103718466467973455),
        JavaClassDescription(DELETES, 4763814488877023404),
        JavaClassDescription(TEXTS, 854775547960056199),
        JavaClassDescription(FIELDS, 256068217724045144),
        JavaClassDescription(TASKS, 6229704005097206873),
        JavaClassDescription(PARTITION_FIELDS, 8282357810364492598),
        JavaClassDescription(
            f"{ICEBERG}.io.WriteResult",
            8152341190075857801,
            (
                ("[Lorg/apache/iceberg/DataFile;", "dataFiles"),
                (_DELETE_FIELDS, "deleteFiles"),
                ("[Ljava/lang/CharSequence;", "referencedDataFiles"),
                (_DELETE_FIELDS, "rewrittenDeleteFiles"),
            ),
        ),
        JavaClassDescription(f"{ICEBERG}.avro.SupportsIndexProjection", -2210345318900972776, (("[I", "fromProjectionPos"),)),
        JavaClassDescription(
            f"{ICEBERG}.BaseFile",
            -7721823478814408831,
            (
                ("J", "fileSizeInBytes"),
                ("I", "partitionSpecId"),
                (_MAP, "columnSizes"),
                ("Lorg/apache/iceberg/FileContent;", "content"),
                (_LONG, "contentOffset"),
                (_LONG, "contentSizeInBytes"),
                (_LONG, "dataSequenceNumber"),
                ("[I", "equalityIds"),
                (_LONG, "fileOrdinal"),
                (STRING_TYPE, "filePath"),
                (_LONG, "fileSequenceNumber"),
                (_LONG, "firstRowId"),
                ("Lorg/apache/iceberg/FileFormat;", "format"),
                ("[B", "keyMetadata"),
                (_MAP, "lowerBounds"),
                (STRING_TYPE, "manifestLocation"),
                (_MAP, "nanValueCounts"),
                (_MAP, "nullValueCounts"),
                ("Lorg/apache/iceberg/PartitionData;", "partitionData"),
                (_STRUCT, "partitionType"),
                (_LONG, "recordCount"),
                (STRING_TYPE, "referencedDataFile"),
                ("Ljava/lang/Integer;", "sortOrderId"),
                ("[J", "splitOffsets"),
                (_MAP, "upperBounds"),
                (_MAP, "valueCounts"),
            ),
            f"{ICEBERG}.avro.SupportsIndexProjection",
        ),
        JavaClassDescription(f"{ICEBERG}.GenericDataFile", -7885172820882998410, parent=f"{ICEBERG}.BaseFile"),
        JavaClassDescription(f"{ICEBERG}.GenericDeleteFile", 1155853813462607292, parent=f"{ICEBERG}.BaseFile"),
        JavaClassDescription(
            f"{ICEBERG}.PartitionData",
            2199118142413186540,
            (("I", "size"), ("[Ljava/lang/Object;", "data"), (_STRUCT, "partitionType"), (STRING_TYPE, "stringSchema")),
        ),
        JavaClassDescription(NO_PARTITION, 3987291216222788813, parent=f"{ICEBERG}.PartitionData"),
        JavaClassDescription(BOUNDS, -7408476023582045377, (("[I", "keys"), ("[[B", "values"))),
        JavaClassDescription(f"{TYPES}.Type$NestedType", 7661852484127258369),
        JavaClassDescription(
            f"{TYPES}.Types$StructType",
            7161733173113448308,
            (("[Lorg/apache/iceberg/types/Types$NestedField;", "fields"),),
            f"{TYPES}.Type$NestedType",
        ),
        JavaClassDescription(
            f"{TYPES}.Types$NestedField",
            5076151173055250178,
            (
                ("I", "id"),
                ("Z", "isOptional"),
                (STRING_TYPE, "doc"),
                (_LITERAL, "initialDefault"),
                (STRING_TYPE, "name"),
                ("Lorg/apache/iceberg/types/Type;", "type"),
                (_LITERAL, "writeDefault"),
            ),
        ),
        JavaClassDescription(f"{TYPES}.PrimitiveLikeHolder", -2654533404693938832, ((STRING_TYPE, "typeAsString"),)),
        JavaClassDescription(
            f"{ICEBERG}.flink.source.split.IcebergSourceSplit",
            1,
            (("I", "fileOffset"), ("J", "recordOffset"), ("Lorg/apache/iceberg/CombinedScanTask;", "task")),
        ),
        JavaClassDescription(
            f"{ICEBERG}.BaseCombinedScanTask", 4673271016955296547, (("[Lorg/apache/iceberg/FileScanTask;", "tasks"),)
        ),
        JavaClassDescription(
            f"{ICEBERG}.BaseContentScanTask",
            -303771338424514814,
            (
                ("Lorg/apache/iceberg/ContentFile;", "file"),
                ("Lorg/apache/iceberg/expressions/ResidualEvaluator;", "residuals"),
                (STRING_TYPE, "schemaString"),
                (STRING_TYPE, "specString"),
            ),
        ),
        JavaClassDescription(
            f"{ICEBERG}.BaseFileScanTask",
            -4560110968960450066,
            ((_DELETE_FIELDS, "deletes"),),
            f"{ICEBERG}.BaseContentScanTask",
        ),
        JavaClassDescription(
            f"{EXPRESSIONS}.ResidualEvaluator",
            -1756149414122911953,
            (("Z", "caseSensitive"), (_EXPRESSION, "expr"), ("Lorg/apache/iceberg/PartitionSpec;", "spec")),
        ),
        JavaClassDescription(
            f"{EXPRESSIONS}.ResidualEvaluator$UnpartitionedResidualEvaluator",
            7806243612422941122,
            ((_EXPRESSION, "expr"),),
            f"{EXPRESSIONS}.ResidualEvaluator",
        ),
        JavaClassDescription(
            f"{EXPRESSIONS}.SerializationProxies$ConstantExpressionProxy",
            -8658517682245371015,
            (("Ljava/lang/Boolean;", "trueOrFalse"),),
        ),
        JavaClassDescription(f"{EXPRESSIONS}.And", -2020238359745978219, ((_EXPRESSION, "left"), (_EXPRESSION, "right"))),
        JavaClassDescription(f"{EXPRESSIONS}.Or", 6976766107769249644, ((_EXPRESSION, "left"), (_EXPRESSION, "right"))),
        JavaClassDescription(f"{EXPRESSIONS}.Not", 709583337068022365, ((_EXPRESSION, "child"),)),
        JavaClassDescription(
            f"{EXPRESSIONS}.Predicate",
            6794290644423754532,
            (
                ("Lorg/apache/iceberg/expressions/Expression$Operation;", "op"),
                ("Lorg/apache/iceberg/expressions/Term;", "term"),
            ),
        ),
        JavaClassDescription(
            f"{EXPRESSIONS}.UnboundPredicate",
            7574595489516288470,
            (("Ljava/util/List;", "literals"),),
            f"{EXPRESSIONS}.Predicate",
        ),
        JavaClassDescription(f"{EXPRESSIONS}.NamedReference", -5281321515271189545, ((STRING_TYPE, "name"),)),
        JavaClassDescription(f"{EXPRESSIONS}.Literals$BaseLiteral", 8619824965478888066, (("Ljava/lang/Object;", "value"),)),
        JavaClassDescription(
            f"{EXPRESSIONS}.Literals$ComparableLiteral", -3528552192654302789, parent=f"{EXPRESSIONS}.Literals$BaseLiteral"
        ),
        JavaClassDescription(
            f"{EXPRESSIONS}.Literals$StringLiteral", -4321402179087588009, parent=f"{EXPRESSIONS}.Literals$BaseLiteral"
        ),
        *starmap(_comparable_literal, _COMPARABLE.items()),
        JavaClassDescription(
            f"{ICEBERG}.BaseFileScanTask$SplitScanTask",
            -6919142976182914618,
            (("J", "len"), ("J", "offset"), ("Lorg/apache/iceberg/FileScanTask;", "fileScanTask")),
        ),
        JavaClassDescription(
            f"{ICEBERG}.PartitionSpec",
            606064603290947798,
            (
                ("I", "lastAssignedFieldId"),
                ("I", "specId"),
                ("[Lorg/apache/iceberg/PartitionField;", "fields"),
                ("Lorg/apache/iceberg/Schema;", "schema"),
            ),
        ),
        JavaClassDescription(
            f"{ICEBERG}.Schema",
            -1265875184407129845,
            (("I", "highestFieldId"), ("I", "schemaId"), ("[I", "identifierFieldIds"), (_STRUCT, "struct")),
        ),
    ),
}


# Reading


def _counts(counts: Any) -> Content:
    if counts is None:
        return None
    objects = [element.get("value") for element in counts.annotations[1:]]
    return {str(key): value for key, value in zip(objects[::2], objects[1::2], strict=True)}


def _bounds(bounds: Any) -> Content:
    if bounds is None:
        return None
    values = [None if value is None else array_bytes(value).hex() for value in bounds.get("values")]
    return {str(key): value for key, value in zip(bounds.get("keys"), values, strict=True)}


def unboxed(boxed: Any) -> Content:
    """Return the value of a boxed number; other values are returned unchanged."""
    return boxed.get("value") if isinstance(boxed, JavaInstance) else boxed


def file_content(file: JavaInstance) -> dict[str, Any]:
    """Return the content of a data file or a delete file."""
    metadata = file.get("keyMetadata")
    return {
        "class": file.class_name,
        "content": file.get("content").constant,
        "location": file.get("filePath"),
        "format": file.get("format").constant,
        "specId": file.get("partitionSpecId"),
        "recordCount": unboxed(file.get("recordCount")),
        "fileSizeInBytes": file.get("fileSizeInBytes"),
        **{name: _counts(file.get(name)) for name in _COUNTS},
        "keyMetadata": None if metadata is None else array_bytes(metadata).hex(),
        "splitOffsets": file.get("splitOffsets"),
        "equalityFieldIds": file.get("equalityIds"),
        "sortOrderId": unboxed(file.get("sortOrderId")),
        **{name: _bounds(file.get(name)) for name in _BOUND_NAMES},
        "partition": list(map(unboxed, file.get("partitionData").get("data"))),
        **{name: value for name in _LATER if (value := unboxed(file.fields.get(name))) is not None},
    }


_COUNTS: Final = ("columnSizes", "valueCounts", "nullValueCounts", "nanValueCounts")
_BOUND_NAMES: Final = ("lowerBounds", "upperBounds")
_LATER: Final = {
    "contentOffset": "Long",
    "contentSizeInBytes": "Long",
    "referencedDataFile": None,
    "firstRowId": "Long",
    "dataSequenceNumber": "Long",
    "fileSequenceNumber": "Long",
    "fileOrdinal": "Long",
    "manifestLocation": None,
}
"""Fields that are part of the content only where they are set, such as those of deletion vectors: the class of the value."""
_RESULTS: Final[Mapping[str, tuple[str, bool]]] = {
    "dataFiles": (FILES, True),
    "deleteFiles": (DELETES, True),
    "referencedDataFiles": (TEXTS, False),
    "rewrittenDeleteFiles": (DELETES, True),
}
"""The arrays of a result: their class, and whether they hold files."""


def _result_content(result: JavaInstance) -> Content:
    if class_name(result) != f"{ICEBERG}.io.WriteResult":
        raise UnsupportedFormatError(f"expected a WriteResult, found {class_name(result)}")
    content = {}
    for name, (_, has_files) in _RESULTS.items():
        values = result.get(name)
        content[name] = list(map(file_content, values) if has_files else values)
    return content


# Writing

_BOXED_ONCE: Final = range(-128, 128)
"""Numbers that Java boxes into the same object each time."""
_AVRO_TYPES: Final = {str: "string", bool: "boolean", int: "int", float: "double"}


class FileObjects:
    """The objects of one stream. Objects that Java shares are made once."""

    def __init__(self) -> None:
        self._boxed: dict[tuple[str, Any], JavaInstance] = {}
        self._maps: list[tuple[Content, JavaInstance]] = []
        self._unpartitioned: JavaInstance | None = None

    def box(self, kind: str, value: Any) -> JavaInstance | None:
        """Return a boxed value. Java has small integers once."""
        if value is None:
            return None
        new = JavaInstance(f"java.lang.{kind}", {"value": value})
        if kind == "Boolean" or (kind in ("Integer", "Long") and value in _BOXED_ONCE):
            return self._boxed.setdefault((kind, value), new)
        return new

    def counts(self, content: Content) -> JavaInstance | None:
        if content is None:
            return None
        for stored_content, written in self._maps:
            if stored_content == content:
                return written
        capacity = 16
        while len(content) > capacity * 3 // 4:
            capacity *= 2
        elements: list[Any] = [capacity.to_bytes(4, "big") + len(content).to_bytes(4, "big")]
        for key, value in content.items():
            elements += [self.box("Integer", int(key)), self.box("Long", value)]
        java_map = JavaInstance("java.util.HashMap", {"loadFactor": 0.75, "threshold": capacity * 3 // 4}, elements)
        self._maps.append((content, java_map))
        return java_map

    @staticmethod
    def bounds(content: Content) -> JavaInstance | None:
        if content is None:
            return None
        values = [None if value is None else byte_array(bytes.fromhex(value)) for value in content.values()]
        return JavaInstance(BOUNDS, {"keys": JavaArray("[I", [*map(int, content)]), "values": JavaArray("[[B", values)})

    def partition(self, content: Content) -> JavaInstance:
        if content["partition"]:
            return _partition(content)
        if self._unpartitioned is None:
            self._unpartitioned = _partition_data(NO_PARTITION, [], [])
        return self._unpartitioned

    def file(self, content: Content) -> JavaInstance:
        partition = self.partition(content)
        metadata = content["keyMetadata"]
        later = {name: kind for name, kind in _LATER.items() if content.get(name) is not None}
        return JavaInstance(
            content["class"],
            {
                **dict.fromkeys(name for _, name in CLASSES[f"{ICEBERG}.BaseFile"].fields),
                "fromProjectionPos": JavaArray("[I", range(PROJECTION)),
                "fileSizeInBytes": content["fileSizeInBytes"],
                "partitionSpecId": content["specId"],
                **{name: self.counts(content[name]) for name in _COUNTS},
                **{name: self.bounds(content[name]) for name in _BOUND_NAMES},
                "content": JavaEnum(f"{ICEBERG}.FileContent", content["content"]),
                "equalityIds": _array("[I", content["equalityFieldIds"]),
                "filePath": content["location"],
                "format": JavaEnum(f"{ICEBERG}.FileFormat", content["format"]),
                "keyMetadata": None if metadata is None else byte_array(bytes.fromhex(metadata)),
                "partitionData": partition,
                "partitionType": partition.get("partitionType"),
                "recordCount": self.box("Long", content["recordCount"]),
                "sortOrderId": self.box("Integer", content["sortOrderId"]),
                "splitOffsets": _array("[J", content["splitOffsets"]),
                **{name: content[name] if kind is None else self.box(kind, content[name]) for name, kind in later.items()},
            },
        )


def _array(name: str, content: Sequence[Any] | None) -> JavaArray | None:
    return None if content is None else JavaArray(name, content)


def _partition(content: Content) -> JavaInstance:
    """Return the partition of a file. Its names are taken from the path, as content has only its values."""
    values = content["partition"]
    names = [part.partition("=")[0] for part in content["location"].split("/")[:-1] if "=" in part]
    if len(names) != len(values) or not all(type(value) in _AVRO_TYPES for value in values):
        raise InvalidRowError(
            f"partition {values!r}: the names and types of its fields do not follow from the location "
            f"{content['location']!r}; encode what decode returned, with changes to other files only"
        )
    return _partition_data(f"{ICEBERG}.PartitionData", names, values)


def _nested_field(number: int, name: str, type_: str) -> JavaInstance:
    return JavaInstance(
        f"{TYPES}.Types$NestedField",
        {
            "id": number,
            "isOptional": True,
            "doc": None,
            "initialDefault": None,
            "name": name,
            "type": JavaInstance(f"{TYPES}.PrimitiveLikeHolder", {"typeAsString": type_}),
            "writeDefault": None,
        },
    )


def _partition_data(name: str, names: Sequence[str], values: Sequence[Any]) -> JavaInstance:
    types = [_AVRO_TYPES[type(value)] for value in values]
    numbered = list(enumerate(zip(names, types, strict=True), start=1000))
    fields = [_nested_field(number, field, type_) for number, (field, type_) in numbered]
    avro = [{"name": field, "type": ["null", type_], "default": None, "field-id": number} for number, (field, type_) in numbered]
    schema = {"type": "record", "name": "PartitionData", "namespace": ICEBERG, "fields": avro}
    return JavaInstance(
        name,
        {
            "size": len(values),
            "data": JavaArray(OBJECTS, list(map(_boxed_value, values))),
            "partitionType": JavaInstance(f"{TYPES}.Types$StructType", {"fields": JavaArray(FIELDS, fields)}),
            "stringSchema": json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
        },
    )


def _boxed_value(value: Any) -> Any:
    kind = {bool: "Boolean", int: "Integer", float: "Double"}.get(type(value))
    return value if kind is None else JavaInstance(f"java.lang.{kind}", {"value": value})


def _result_object(content: Content) -> Any:
    objects = FileObjects()
    arrays = {}
    for name, (kind, has_files) in _RESULTS.items():
        values = content[name]
        arrays[name] = JavaArray(kind, list(map(objects.file, values) if has_files else values))
    return JavaInstance(f"{ICEBERG}.io.WriteResult", arrays)


WRITE_RESULT: Final[Codec] = Kept(JavaObjectCodec(_result_content, _result_object, CLASSES))
