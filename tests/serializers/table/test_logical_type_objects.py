"""Types and serializers of Flink SQL as Java objects: the streams that Flink writes, and read back what went in."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from state_processor.serializers import read_serializer_snapshot
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import MAX_NESTING, DataInput
from state_processor.serializers.java.object_input import JavaEnum, JavaInstance, read_java_object
from state_processor.serializers.java.object_output import JavaArray, JavaClassDescription, JavaList, write_java_object
from state_processor.serializers.table.binary_format import slot_of
from state_processor.serializers.table.logical_type_objects import logical_type, serializer_object, type_object
from state_processor.serializers.table.logical_types import (
    ArrayType,
    BytesType,
    DistinctType,
    LogicalType,
    MapType,
    RowType,
    TimestampType,
)
from state_processor.serializers.table.rowdata import (
    ArrayDataSerializer,
    BinaryDataSerializer,
    MapDataSerializer,
    RowDataSerializer,
    internal_serializer,
)
from state_processor.serializers.table.type_descriptors import SQL_TYPES, descriptor_of, parse_logical_type
from state_processor.support.errors import OptionError, UnsupportedFormatError

GOLDEN = Path(__file__).resolve().parents[2] / "fixtures" / "compatibility"
TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "NULL", "VARIANT", "BITMAP", "DATE", "TIME(3)"),
    *("CHAR(3)", "VARCHAR(7)", "STRING", "BINARY(2)", "VARBINARY(9)", "BYTES", "DECIMAL(10, 2)", "DECIMAL(38, 18)"),
    *("TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(6)", "INTERVAL YEAR(4) TO MONTH", "INTERVAL MONTH"),
    *("INTERVAL DAY(3) TO SECOND(2)", "INTERVAL HOUR TO MINUTE", "INTERVAL SECOND(9)"),
    *("ARRAY<INT NOT NULL>", "MAP<STRING, ARRAY<BIGINT>>", "MULTISET<STRING>", "ROW<>"),
    "ROW<`a` INT NOT NULL, `odd ``name` STRING, `r` ROW<`x` ARRAY<MAP<INT, ROW<`y` DATE>>>>>",
)


def golden() -> Iterator[tuple[str, str, str]]:
    for path in sorted(GOLDEN.glob("flink-*.json.gz")):
        for name, snapshot in json.loads(gzip.decompress(path.read_bytes()))["snapshots"].items():
            if name.startswith(("ROW_DATA<", "ARRAY_DATA<", "MAP_DATA<")):
                yield path.name.removesuffix(".json.gz"), name, snapshot


@pytest.mark.parametrize(("version", "name", "snapshot"), [pytest.param(*g, id=f"{g[0]} {g[1]}") for g in golden()])
def test_snapshots_are_those_of_flink(version: str, name: str, snapshot: str) -> None:
    kind, inside = name[:-1].split("<", 1)
    types = [parse_logical_type(text) for text in re.split(r",(?! )", inside)]
    serializer: BinaryDataSerializer
    match kind:
        case "ROW_DATA":
            serializer = RowDataSerializer(RowType.of(*types))
        case "ARRAY_DATA":
            serializer = ArrayDataSerializer(ArrayType(*types))
        case _:
            serializer = MapDataSerializer(MapType(*types))
    assert serializer.snapshot().to_bytes().hex() == snapshot


@pytest.mark.parametrize("text", TYPES)
def test_types_are_read_back(text: str) -> None:
    for sql in (text, f"{text} NOT NULL"):
        type_ = parse_logical_type(sql)
        assert str(type_) == sql
        assert logical_type(type_object(type_).content) == type_
        assert str(internal_serializer(type_).snapshot().restore_serializer()) == str(internal_serializer(type_)).replace(
            "`a`", "`f0`"
        ).replace("`odd ``name`", "`f1`").replace("`r` ROW", "`f2` ROW")
        assert serializer_object(type_).class_name.endswith("Serializer")


def test_every_type_has_a_sample() -> None:
    samples = [parse_logical_type(text) for text in TYPES]
    assert {descriptor_of(type_).java_class for type_ in samples} == {known.java_class for known in SQL_TYPES}
    assert all(descriptor_of(parse_logical_type(name)) is known for known in SQL_TYPES for name in known.names)


@pytest.mark.parametrize("text", [text for text in TYPES if "_LTZ" not in text])
def test_a_field_has_the_column_of_a_single_value(text: str) -> None:
    type_ = parse_logical_type(text)
    for options in (DecodeOptions(), DecodeOptions(nanos="string")):
        assert slot_of(type_).arrow_type(options) == internal_serializer(type_).arrow_type(options) == type_.arrow_type(options)


def test_time_attributes_stay_what_they_are() -> None:
    type_ = TimestampType(3, kind="ROWTIME")
    assert str(logical_type(type_object(type_).content)) == "TIMESTAMP(3) *ROWTIME*"


def test_a_name_for_another_type_is_no_type_to_make() -> None:
    with pytest.raises(UnsupportedFormatError, match="not made"):
        type_object(DistinctType("`d`", parse_logical_type("INT")))
    assert str(internal_serializer(DistinctType("`d`", parse_logical_type("INT")))) == "INT"


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("integer", "INT"),
        ("dec(5)", "DECIMAL(5, 0)"),
        ("numeric", "DECIMAL(10, 0)"),
        ("char varying(4)", "VARCHAR(4)"),
        ("binary varying(4)", "VARBINARY(4)"),
        ("varchar", "VARCHAR(1)"),
        ("time without time zone", "TIME(0)"),
        ("timestamp(2) without time zone", "TIMESTAMP(2)"),
        ("timestamp with local time zone null", "TIMESTAMP_LTZ(6)"),
        ("interval day", "INTERVAL DAY(2)"),
        ("int not null array not null multiset", "MULTISET<ARRAY<INT NOT NULL> NOT NULL>"),
        ("row(a int, b string)", "ROW<`a` INT, `b` STRING>"),
    ],
)
def test_other_ways_to_say_it(text: str, sql: str) -> None:
    assert str(parse_logical_type(text)) == sql


@pytest.mark.parametrize(
    "text", ["", "INT INT", "ARRAY<INT", "MAP<INT>", "ROW<INT>", "DECIMAL(1,2,3)", "INTERVAL MONTH TO DAY", "CHAR(x)"]
)
def test_texts_that_are_no_types(text: str) -> None:
    with pytest.raises((OptionError, UnsupportedFormatError)):
        parse_logical_type(text)


# Java objects


def test_objects_are_read_back() -> None:
    classes = {
        "a.Base": JavaClassDescription("a.Base", -5, (("Z", "flag"),)),
        "a.Item": JavaClassDescription("a.Item", 7, (("I", "n"), ("La/Item;", "next"), ("Ljava/lang/String;", "text")), "a.Base"),
    }
    inner = JavaInstance("a.Item", {"flag": False, "n": -1, "next": None, "text": "ünï\0"})
    outer = JavaInstance("a.Item", {"flag": True, "n": 2**31 - 1, "next": inner, "text": None})
    written = write_java_object(
        JavaList([outer, inner, JavaEnum("a.E", "X"), JavaEnum("a.E", "Y"), JavaEnum("a.E", "X")]), classes
    )
    source = DataInput(written + b"rest")
    found = read_java_object(source).content
    assert source.remaining == 4
    first, second, *constants = found.annotations[1:]
    assert first.fields == {"flag": True, "n": 2**31 - 1, "next": second, "text": None}
    assert first.fields["next"] is second
    assert second.fields == inner.fields
    assert constants == [JavaEnum("a.E", "X"), JavaEnum("a.E", "Y"), JavaEnum("a.E", "X")]
    array = read_java_object(DataInput(write_java_object(JavaArray("[Ljava.lang.String;", ["a", None]), {}))).content
    assert array == ["a", None]


def test_objects_that_can_not_be_written() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"a\.Unknown"):
        write_java_object(JavaInstance("a.Unknown"), {})
    with pytest.raises(UnsupportedFormatError, match="can't be made of float"):
        write_java_object(1.5, {})


def test_long_text_has_a_length_of_eight_bytes() -> None:
    assert write_java_object("x" * 70_000, {}) == b"\xac\xed\0\5\x7c" + (70_000).to_bytes(8, "big") + b"x" * 70_000
    assert write_java_object("x" * 65_535, {})[:7] == b"\xac\xed\0\5t\xff\xff"


@pytest.mark.parametrize("levels", [MAX_NESTING, MAX_NESTING + 50])
def test_a_type_nested_beyond_the_limit_is_refused(levels: int) -> None:
    type_: LogicalType = BytesType()
    for _ in range(levels - 2):
        type_ = ArrayType(type_)
    data = ArrayDataSerializer(type_).snapshot().to_bytes()
    if levels == MAX_NESTING:
        assert read_serializer_snapshot(data).restore_serializer().snapshot().to_bytes() == data
    else:
        with pytest.raises(UnsupportedFormatError, match=f"nested more than {MAX_NESTING} levels deep"):
            read_serializer_snapshot(data).restore_serializer()
