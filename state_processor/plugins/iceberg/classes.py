"""Iceberg's serializable classes, as object streams describe them.

The numbers of the classes follow from the sources of Iceberg 1.11 and javac 17. Other releases have other numbers.
"""

from __future__ import annotations

from typing import Final

from state_processor.connectors.java import JDK, STRING_TYPE, JavaClassDescription, described

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
        *(
            JavaClassDescription(f"{EXPRESSIONS}.Literals${kind}Literal", uid, parent=f"{EXPRESSIONS}.Literals$ComparableLiteral")
            for kind, uid in _COMPARABLE.items()
        ),
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
