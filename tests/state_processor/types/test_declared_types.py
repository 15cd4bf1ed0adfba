"""Types as text."""

from __future__ import annotations

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.types.declared_types import parse_type, type_of_column


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("LONG", "LONG"),
        (" MAP< STRING , LIST<LONG> > ", "MAP<STRING,LIST<LONG>>"),
        ("TUPLE<STRING,INT,DOUBLE>", "TUPLE<STRING,INT,DOUBLE>"),
        ("ROW<STRING,INT>", "ROW<STRING,INT>"),
        ("ROW<name STRING, inner ROW<a INT>>", "ROW<name:STRING,inner:ROW<a:INT>>"),
        ("ROW<name:STRING,inner:ROW<a:INT>>", "ROW<name:STRING,inner:ROW<a:INT>>"),
        ("POJO<com.acme.Outer$Inner>(name STRING, tags LIST<STRING>)", "POJO<com.acme.Outer$Inner>"),
        ("NULLABLE<LONG>", "NULLABLE<LONG>"),
        ("LIST<ENUM<com.acme.Tier>(LOW, HIGH)>", "LIST<ENUM<com.acme.Tier>>"),
        ("ROW_DATA<id BIGINT NOT NULL, name STRING>", "ROW<`id` BIGINT NOT NULL, `name` STRING>"),
        ("MAP<ROW_DATA<a INT, m MAP<STRING, ARRAY<INT>>>,LONG>", "MAP<ROW<`a` INT, `m` MAP<STRING, ARRAY<INT>>>,LONG>"),
        ("LIST<KRYO<java.util.Map<java.lang.String, int[]>>>", "LIST<KRYO<java.util.Map<java.lang.String,int[]>>>"),
    ],
)
def test_types(text: str, name: str) -> None:
    assert str(parse_type(text)) == name


def test_fields_of_the_column() -> None:
    found = parse_type("POJO<com.acme.Account>", pa.struct([("name", pa.string()), ("score", pa.float64())]))
    assert found == sp.Types.POJO("com.acme.Account", {"name": sp.Types.STRING(), "score": sp.Types.DOUBLE()})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LONGS", "at character 0: there is no type 'LONGS'"),
        ("MAP<STRING>", "MAP has 2 types inside, not 1"),
        ("LIST<LONG", "unexpected end, or unexpected character"),
        ("LONG STRING", "at character 4: expected the end of the text"),
        ("POJO<com.acme.Account>", "name the fields of com.acme.Account"),
        ("ROW_DATA<id BIGINT", "expected '>'"),
        ("ROW_DATA<id LONG>", "'LONG' is not a type of Flink SQL"),
        ("", "unexpected end, or unexpected character"),
    ],
)
def test_no_types(text: str, message: str) -> None:
    with pytest.raises(sp.OptionError, match=message):
        parse_type(text)


def test_inferred_types() -> None:
    struct = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.map_(pa.string(), pa.decimal128(10, 2))))])
    assert str(type_of_column(struct, "column")) == "ROW<a:LONG,b:LIST<MAP<STRING,BIG_DEC>>>"
    with pytest.raises(sp.OptionError, match="column 'x' is of type duration"):
        type_of_column(pa.duration("us"), "column 'x'")
