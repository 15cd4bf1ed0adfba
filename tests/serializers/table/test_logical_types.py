"""The types of Flink SQL: from Java, in SQL, in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput
from state_processor.serializers.java.object_input import read_java_object
from state_processor.serializers.table.logical_type_objects import logical_type, type_of_data_type
from state_processor.serializers.table.logical_types import (
    PACKAGE,
    AtomicType,
    DateType,
    DecimalType,
    LinkedListType,
    LogicalType,
    RowField,
    RowType,
    StructuredType,
    TimestampType,
)
from state_processor.support.errors import UnsupportedFormatError
from tests.serializers import java_streams as js

PLAIN, TEXT, KINDS = DecodeOptions(), DecodeOptions(nanos="string"), DecodeOptions(row_kind=True)
INT, STRING = js.logical("IntType"), js.logical("VarCharType", length=2**31 - 1)


def structured(class_name: str, **attributes: bytes) -> bytes:
    return js.instance(
        f"{PACKAGE}StructuredType",
        {
            "isInstantiable": True,
            "attributes": js.unmodifiable(
                [
                    js.instance(
                        f"{PACKAGE}StructuredType$StructuredAttribute",
                        {"description": js.NULL, "name": js.string(name), "type": type_},
                    )
                    for name, type_ in attributes.items()
                ]
            ),
            "implementationClass": js.java_class(class_name),
            "superType": js.NULL,
            "objectIdentifier": js.NULL,
        },
        f"{PACKAGE}LogicalType",
        {"isNullable": True},
    )


POJO = structured("a.Pojo", own=INT)
INTERVAL = js.enum(f"{PACKAGE}DayTimeIntervalType$DayTimeResolution", "DAY_TO_SECOND")
MONTHS = js.enum(f"{PACKAGE}YearMonthIntervalType$YearMonthResolution", "YEAR_TO_MONTH")


def read(content: bytes) -> LogicalType:
    return logical_type(read_java_object(DataInput(js.stream(content))).content)


TYPES = [
    (js.logical("BooleanType"), "BOOLEAN", pa.bool_()),
    (js.logical("TinyIntType"), "TINYINT", pa.int8()),
    (js.logical("SmallIntType"), "SMALLINT", pa.int16()),
    (js.logical("IntType", nullable=False), "INT NOT NULL", pa.int32()),
    (js.logical("BigIntType"), "BIGINT", pa.int64()),
    (js.logical("FloatType"), "FLOAT", pa.float32()),
    (js.logical("DoubleType"), "DOUBLE", pa.float64()),
    (js.logical("NullType"), "NULL", pa.null()),
    (js.logical("DateType"), "DATE", pa.date32()),
    (js.logical("TimeType", precision=3), "TIME(3)", pa.string()),
    (js.logical("CharType", length=4), "CHAR(4)", pa.string()),
    (js.logical("VarCharType", length=10, nullable=False), "VARCHAR(10) NOT NULL", pa.string()),
    (STRING, "STRING", pa.string()),
    (js.logical("BinaryType", length=2), "BINARY(2)", pa.binary()),
    (js.logical("VarBinaryType", length=2**31 - 1), "BYTES", pa.binary()),
    (js.logical("DecimalType", precision=10, scale=2), "DECIMAL(10, 2)", pa.decimal128(10, 2)),
    (js.timestamp("TimestampType", 3, "ROWTIME"), "TIMESTAMP(3) *ROWTIME*", pa.timestamp("us")),
    (js.timestamp("LocalZonedTimestampType", 9), "TIMESTAMP_LTZ(9)", pa.timestamp("us", tz="UTC")),
    (
        js.logical("DayTimeIntervalType", resolution=INTERVAL, dayPrecision=2, fractionalPrecision=3),
        "INTERVAL DAY(2) TO SECOND(3)",
        pa.int64(),
    ),
    (js.logical("YearMonthIntervalType", resolution=MONTHS, yearPrecision=4), "INTERVAL YEAR(4) TO MONTH", pa.int32()),
    (js.logical("ArrayType", elementType=INT), "ARRAY<INT>", pa.list_(pa.int32())),
    (js.logical("MapType", keyType=STRING, valueType=INT), "MAP<STRING, INT>", pa.map_(pa.string(), pa.int32())),
    (js.logical("MultisetType", elementType=STRING), "MULTISET<STRING>", pa.map_(pa.string(), pa.int32())),
    (js.row(a=INT, b=STRING), "ROW<`a` INT, `b` STRING>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    (POJO, "*a.Pojo*", pa.struct([("own", pa.int32())])),
    (js.logical("RawType", clazz=js.java_class("a.B"), serializer=js.instance("a.S", {})), "RAW('a.B', '...')", pa.binary()),
]


@pytest.mark.parametrize(("content", "sql", "arrow"), TYPES, ids=[sql for _, sql, _ in TYPES])
def test_type(content: bytes, sql: str, arrow: pa.DataType) -> None:
    assert str(read(content)) == sql
    assert read(content).arrow_type(PLAIN) == arrow


@pytest.mark.parametrize(
    ("class_name", "serializer", "buffer"),
    [
        ("LagAggFunction$LagAcc", {"hasNullMask": True}, pa.list_(pa.date32())),
        ("LagAggFunction$LagAcc", {"hasNullMask": False}, pa.list_(pa.date32())),
        ("LagAggFunction$LagAcc", {}, pa.binary()),
        ("OtherFunction$Acc", {"hasNullMask": True}, pa.binary()),
    ],
)
def test_buffers_of_lag(class_name: str, serializer: dict[str, bool], buffer: pa.DataType) -> None:
    linked = js.instance("org.apache.flink.table.runtime.typeutils.LinkedListSerializer", dict(serializer))
    raw = js.logical("RawType", clazz=js.java_class("java.util.LinkedList"), serializer=linked)
    of = f"org.apache.flink.table.runtime.functions.aggregate.{class_name}"
    found = read(structured(of, offset=INT, defaultValue=js.logical("DateType"), buffer=raw))
    assert isinstance(found, StructuredType)
    assert found.arrow_type(PLAIN) == pa.struct([("offset", pa.int32()), ("defaultValue", pa.date32()), ("buffer", buffer)])
    list_ = found.types[-1]
    assert str(list_) == "RAW('java.util.LinkedList', '...')"
    if isinstance(list_, LinkedListType):
        assert list_.has_null_mask is serializer.get("hasNullMask")
        assert list_ == LinkedListType("java.util.LinkedList", DateType())
        assert list_ != LinkedListType("java.util.LinkedList", DecimalType(9, 0))


def test_options_change_columns() -> None:
    type_ = read(js.row(at=js.timestamp("TimestampType", 9), day=js.logical("DateType")))
    assert type_.arrow_type(TEXT) == pa.struct([("at", pa.string()), ("day", pa.string())])
    assert type_.arrow_type(KINDS).field(0) == pa.field("row_kind", pa.string())


def test_time_attributes_and_nullability() -> None:
    assert TimestampType(3, kind="ROWTIME") == TimestampType(3)
    assert TimestampType(3) != TimestampType(3, nullable=False)
    assert str(TimestampType(3, local_zoned=True, kind="PROCTIME", nullable=False)) == "TIMESTAMP_LTZ(3) NOT NULL *PROCTIME*"


def test_fields_of_one_name() -> None:
    type_ = RowType((RowField("a", AtomicType("INT")), RowField("a", AtomicType("INT")), RowField("a_1", AtomicType("INT"))))
    assert type_.names == ("a", "a_1", "a_1_2")


def test_data_type() -> None:
    content = js.instance("org.apache.flink.table.types.AtomicDataType", {"logicalType": INT})
    assert type_of_data_type(read_java_object(DataInput(js.stream(content))).content) == AtomicType("INT")


@pytest.mark.parametrize("content", [js.logical("SymbolType"), js.instance("a.B", {}), js.string("INT"), js.NULL])
def test_unknown_classes_are_named(content: bytes) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"SymbolType|a\.B|java\.lang\.String|null"):
        read(content)


def test_impossible_decimals() -> None:
    for precision, scale in [(0, 0), (39, 0), (5, 6), (5, -1)]:
        with pytest.raises(UnsupportedFormatError):
            DecimalType(precision, scale)


def test_type_that_contains_itself() -> None:
    # Handles: LogicalType's array class description comes first, then the field's type name, the superclass, its field.
    for handle in range(0x7E0000, 0x7E0008):
        content = js.logical("ArrayType", elementType=b"\x71" + handle.to_bytes(4, "big"))
        try:
            found = read_java_object(DataInput(js.stream(content))).content
        except Exception:
            continue
        if found.fields["elementType"] is found:
            with pytest.raises(UnsupportedFormatError, match="contains itself"):
                logical_type(found)
            return
    pytest.fail("no handle refers to the type itself")
