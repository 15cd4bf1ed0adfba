"""Pairs of types, written and wanted, and the verdict that Flink's rules give; ``tests/interop`` asks Flink for its own.

Types have the form of ``tests/interop/java``: user classes are declared where they are used, with their fields or constants, so
that two descriptions may have different classes of one name. Before a class, ``+`` marks a registered class, ``~`` a class that
was found while writing, ``-`` another class.
"""

from __future__ import annotations

import json
from typing import Any, Final

A, R, M, I = "as_is", "reconfigured", "migration", "incompatible"  # noqa: E741
UNREADABLE: Final = "unreadable"
"""Flink fails before it has a verdict: a class or a constant of the written type is gone. Incompatible for us."""
GONE: Final = "gone"
"""Incompatible for Flink, since the class path lacks a class; the snapshots don't tell, so that it is reconfigured for us."""
UNNOTICED: Final = "unnoticed"
"""Incompatible, which Flink does not notice since 1.19: it compares the nested serializers of any two composites."""
TTL: Final = "time-to-live"
"""A migration since Flink 2.1, incompatible before."""
UNTYPED: Final = "untyped"
"""Incompatible since Flink 2.0, which looks into collections; before, Kryo takes any."""

_P: Final = "POJO<a.P{x:INT,y:STRING}>"
_SUB: Final = "POJO<a.P{x:INT}"


def _record(*fields: dict[str, Any] | tuple[str, Any], name: str = "a.R", **more: Any) -> str:
    """An Avro record with fields of these names and types."""
    parts = [{"name": f[0], "type": f[1]} if isinstance(f, tuple) else f for f in fields]
    return _avro({"type": "record", "name": name, "fields": parts, **more})


def _avro(schema: Any) -> str:
    return f"AVRO {json.dumps(schema)}"


def _enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "a.E", "symbols": symbols, **more}


def _with_default(name: str, type_: Any, default: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "default": default, **more}


_FIXED: Final = {"type": "fixed", "name": "a.F", "size": 4}
_NESTED: Final = {"type": "record", "name": "a.N", "fields": [{"name": "x", "type": "int"}]}
_NESTED_WIDER: Final = {"type": "record", "name": "a.N", "fields": [{"name": "x", "type": "long"}]}
_PROMOTED: Final = (
    *("int long", "int float", "int double", "long float", "long double", "float double"),
    *("string bytes", "bytes string"),
)
_NOT_PROMOTED: Final = (
    *("long int", "double float", "float int", "int boolean"),
    *("int string", "string int", "boolean int", "bytes int"),
)
_BASIC: Final = ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "STRING", "BIG_INT", "BIG_DEC")

TABLE: Final[dict[str, list[tuple[str, str, str]]]] = {
    "basic": [
        *[(t, t, A) for t in _BASIC],
        ("INT", "LONG", I),
        ("LONG", "INT", I),
        ("SHORT", "INT", I),
        ("BYTE", "BOOLEAN", I),
        ("FLOAT", "DOUBLE", I),
        ("STRING", "BYTES", I),
        ("STRING", "INT", I),
        ("CHAR", "STRING", I),
        ("BIG_INT", "BIG_DEC", I),
    ],
    "temporal": [
        *[
            (t, t, A)
            for t in ("DATE", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME")
        ],
        ("DATE", "SQL_DATE", I),
        ("SQL_DATE", "LOCAL_DATE", I),
        ("SQL_TIMESTAMP", "INSTANT", I),
        ("LOCAL_DATE_TIME", "INSTANT", I),
        ("LONG", "INSTANT", I),
    ],
    "arrays": [
        *[(t, t, A) for t in ("BYTES", "INT_ARRAY", "LONG_ARRAY", "CHAR_ARRAY", "STRING_ARRAY", "BOXED_LONG_ARRAY")],
        ("INT_ARRAY", "LONG_ARRAY", I),
        ("BYTES", "CHAR_ARRAY", I),
        ("STRING_ARRAY", "OBJECT_ARRAY<STRING>", I),
        ("BOXED_LONG_ARRAY", "LONG_ARRAY", I),
        ("OBJECT_ARRAY<STRING>", "OBJECT_ARRAY<STRING>", A),
        ("OBJECT_ARRAY<STRING>", "OBJECT_ARRAY<LONG>", I),
        (f"OBJECT_ARRAY<{_P}>", f"OBJECT_ARRAY<{_P}>", A),
        (f"OBJECT_ARRAY<{_P}>", "OBJECT_ARRAY<POJO<a.P{x:INT}>>", M),
        (f"OBJECT_ARRAY<{_P}>", "OBJECT_ARRAY<POJO<a.P{x:LONG,y:STRING}>>", I),
        (f"OBJECT_ARRAY<{_P}>", "OBJECT_ARRAY<POJO<a.Q{x:INT,y:STRING}>>", UNREADABLE),
    ],
    "collections": [
        ("LIST<LONG>", "LIST<LONG>", A),
        ("LIST<LONG>", "LIST<INT>", I),
        ("LIST<LONG>", "SET<LONG>", UNNOTICED),
        ("LIST<LONG>", "LONG_ARRAY", I),
        (f"LIST<{_P}>", "LIST<POJO<a.P{x:INT}>>", M),
        ("LIST<ENUM<a.E{A,B}>>", "LIST<ENUM<a.E{A,B,C}>>", R),
        ("LIST<LIST<INT>>", "LIST<LIST<INT>>", A),
        ("LIST<LIST<INT>>", "LIST<INT>", I),
        ("MAP<STRING,LONG>", "MAP<STRING,LONG>", A),
        ("MAP<STRING,LONG>", "MAP<LONG,LONG>", I),
        ("MAP<STRING,LONG>", "MAP<STRING,INT>", I),
        (f"MAP<STRING,{_P}>", "MAP<STRING,POJO<a.P{x:INT,y:STRING,z:LONG}>>", M),
        (f"MAP<{_P},STRING>", "MAP<POJO<a.P{y:STRING}>,STRING>", M),
        ("MAP<ENUM<a.E{A,B}>,INT>", "MAP<ENUM<a.E{B,A}>,INT>", R),
        ("MAP<STRING,LONG>", "LIST<LONG>", I),
        ("SET<STRING>", "SET<STRING>", A),
        ("SET<STRING>", "SET<LONG>", I),
    ],
    "tuples": [
        ("TUPLE<STRING,INT>", "TUPLE<STRING,INT>", A),
        ("TUPLE<STRING,INT>", "TUPLE<STRING,LONG>", I),
        ("TUPLE<STRING,INT>", "TUPLE<INT,STRING>", I),
        ("TUPLE<STRING,INT>", "TUPLE<STRING>", I),
        ("TUPLE<STRING>", "TUPLE<STRING,INT>", I),
        (f"TUPLE<STRING,{_P}>", "TUPLE<STRING,POJO<a.P{y:STRING}>>", M),
        ("TUPLE<ENUM<a.E{A}>,INT>", "TUPLE<ENUM<a.E{A,B}>,INT>", R),
        ("TUPLE<ENUM<a.E{A}>,POJO<a.P{x:INT}>>", "TUPLE<ENUM<a.E{A,B}>,POJO<a.P{x:INT,y:INT}>>", M),
        ("TUPLE<STRING,INT>", "ROW<STRING,INT>", I),
    ],
    "rows": [
        ("ROW<STRING,INT>", "ROW<STRING,INT>", A),
        ("ROW<STRING,INT>", "ROW<STRING,LONG>", I),
        ("ROW<STRING,INT>", "ROW<STRING>", I),
        ("ROW<STRING>", "ROW<STRING,INT>", I),
        ("ROW_WITHOUT_KIND<STRING>", "ROW<STRING>", M),
        ("ROW<STRING>", "ROW_WITHOUT_KIND<STRING>", M),
        ("ROW_WITHOUT_KIND<STRING>", "ROW_WITHOUT_KIND<STRING>", A),
        ("ROW_WITHOUT_KIND<STRING>", "ROW<INT>", I),
        (f"ROW<{_P}>", "ROW<POJO<a.P{x:INT}>>", M),
        ("ROW<ENUM<a.E{A}>>", "ROW<ENUM<a.E{B,A}>>", R),
    ],
    "either, nullable": [
        ("EITHER<STRING,LONG>", "EITHER<STRING,LONG>", A),
        ("EITHER<STRING,LONG>", "EITHER<LONG,STRING>", I),
        (f"EITHER<{_P},LONG>", "EITHER<POJO<a.P{x:INT}>,LONG>", M),
        ("EITHER<ENUM<a.E{A}>,LONG>", "EITHER<ENUM<a.E{A,B}>,LONG>", R),
        ("NULLABLE<LONG>", "NULLABLE<LONG>", A),
        ("NULLABLE<LONG>", "NULLABLE<INT>", I),
        ("NULLABLE<LONG>", "NULLABLE_PADDED<LONG>", I),
        ("NULLABLE_PADDED<LONG>", "NULLABLE_PADDED<LONG>", A),
        ("NULLABLE_PADDED<LONG>", "NULLABLE<LONG>", I),
        ("LONG", "NULLABLE<LONG>", I),
        ("NULLABLE<LONG>", "LONG", I),
    ],
    "enums": [
        ("ENUM<a.E{A,B}>", "ENUM<a.E{A,B}>", A),
        ("ENUM<a.E{A,B}>", "ENUM<a.E{A,B,C}>", R),
        ("ENUM<a.E{A,B}>", "ENUM<a.E{B,A}>", R),
        ("ENUM<a.E{A,B}>", "ENUM<a.E{C,A,B}>", R),
        ("ENUM<a.E{A,B}>", "ENUM<a.E{A}>", UNREADABLE),
        ("ENUM<a.E{A,B}>", "ENUM<a.E{A,C}>", UNREADABLE),
        ("ENUM<a.E{A,B}>", "ENUM<a.F{A,B}>", UNREADABLE),
        ("ENUM<a.E{A,B}>", "STRING", UNREADABLE),
        ("STRING", "ENUM<a.E{A,B}>", I),
    ],
    "pojo": [
        (_P, _P, A),
        (_P, "POJO<a.P{y:STRING,x:INT}>", A),
        (_P, "POJO<a.P{x:INT}>", M),
        (_P, "POJO<a.P{y:STRING}>", M),
        (_P, "POJO<a.P{}>", I),
        (_P, "POJO<a.P{x:INT,y:STRING,z:LONG}>", M),
        (_P, "POJO<a.P{a:STRING,x:INT,y:STRING}>", M),
        (_P, "POJO<a.P{x:INT,z:LONG}>", M),
        (_P, "POJO<a.P{x:LONG,y:STRING}>", I),
        (_P, "POJO<a.P{x:STRING,y:STRING}>", I),
        (_P, "POJO<a.P{x:BOXED_INT,y:STRING}>", A),
        (_P, "POJO<a.P{x:BOXED_LONG,y:STRING}>", I),
        (_P, "POJO<a.P{x:LONG}>", I),
        (_P, "POJO<a.Q{x:INT,y:STRING}>", UNREADABLE),
        (_P, "TUPLE<INT,STRING>", UNREADABLE),
        ("POJO<a.P{e:ENUM<a.E{A,B}>}>", "POJO<a.P{e:ENUM<a.E{A,B,C}>}>", R),
        ("POJO<a.P{e:ENUM<a.E{A,B}>,x:INT}>", "POJO<a.P{e:ENUM<a.E{A,B,C}>}>", M),
        ("POJO<a.P{q:POJO<a.Q{x:INT}>}>", "POJO<a.P{q:POJO<a.Q{x:INT}>}>", A),
        ("POJO<a.P{q:POJO<a.Q{x:INT}>}>", "POJO<a.P{q:POJO<a.Q{x:INT,y:LONG}>}>", M),
        ("POJO<a.P{q:POJO<a.Q{x:INT}>}>", "POJO<a.P{q:POJO<a.Q{x:LONG}>}>", I),
        ("POJO<a.P{q:POJO<a.Q{x:INT}>}>", "POJO<a.P{q:POJO<a.Q{x:INT}>,r:INT}>", M),
        ("POJO<a.P{q:POJO<a.Q{r:POJO<a.R{x:INT,y:INT}>}>}>", "POJO<a.P{q:POJO<a.Q{r:POJO<a.R{x:INT}>}>}>", M),
        ("POJO<a.P{d:LOCAL_DATE,b:BIG_DEC}>", "POJO<a.P{d:LOCAL_DATE,b:BIG_DEC}>", A),
        ("POJO<a.P{t:TUPLE<STRING,LONG>}>", "POJO<a.P{t:TUPLE<STRING,LONG>}>", A),
        ("POJO<a.P{t:TUPLE<STRING,LONG>}>", "POJO<a.P{t:TUPLE<STRING,STRING>}>", I),
        ("POJO<a.P{n:INT_ARRAY}>", "POJO<a.P{n:LONG_ARRAY}>", I),
        ("POJO<a.P{l:LIST<STRING>}>", "POJO<a.P{l:LIST<STRING>}>", A),
        ("POJO<a.P{l:LIST<STRING>}>", "POJO<a.P{l:LIST<LONG>}>", UNTYPED),
        ("POJO<a.P{m:MAP<STRING,LONG>}>", "POJO<a.P{m:MAP<STRING,LONG>}>", A),
        ("POJO<a.P{m:MAP<STRING,LONG>}>", "POJO<a.P{m:LIST<LONG>}>", I),
        ("POJO<a.P{k:KRYO<a.K{}>}>", "POJO<a.P{k:KRYO<a.K{}>}>", A),
    ],
    "pojo subclasses": [
        (f"{_SUB},+a.Q{{z:LONG}}>", f"{_SUB},+a.Q{{z:LONG}}>", A),
        (f"{_SUB},+a.Q{{z:LONG}},+a.R{{w:LONG}}>", f"{_SUB},+a.Q{{z:LONG}},+a.R{{w:LONG}}>", A),
        (f"{_SUB},+a.Q{{z:LONG}},+a.R{{w:LONG}}>", f"{_SUB},+a.R{{w:LONG}},+a.Q{{z:LONG}}>", R),
        (f"{_SUB},+a.Q{{z:LONG}}>", f"{_SUB},+a.Q{{z:LONG}},+a.R{{w:LONG}}>", A),
        (f"{_SUB},+a.Q{{z:LONG}}>", f"{_SUB},+a.R{{w:LONG}},+a.Q{{z:LONG}}>", R),
        (f"{_SUB},+a.Q{{z:LONG}}>", f"{_SUB},-a.Q{{z:LONG}}>", R),
        (f"{_SUB},+a.Q{{z:LONG}},+a.R{{w:LONG}}>", f"{_SUB},+a.Q{{z:LONG}},-a.R{{w:LONG}}>", R),
        (f"{_SUB},+a.Q{{z:LONG}},+a.R{{w:LONG}}>", f"{_SUB},-a.Q{{z:LONG}},+a.R{{w:LONG}}>", R),
        (f"{_SUB},+a.Q{{z:LONG}}>", f"{_SUB},+a.Q{{z:LONG,v:INT}}>", M),
        (f"{_SUB},+a.Q{{z:LONG}}>", f"{_SUB},+a.Q{{z:STRING}}>", I),
        (f"{_SUB},+a.Q{{z:LONG}}>", "POJO<a.P{x:INT,y:INT},+a.Q{z:LONG}>", M),
        (f"{_SUB}>", f"{_SUB},+a.Q{{z:LONG}}>", A),
        (f"{_SUB},~a.Q{{z:LONG}}>", f"{_SUB},-a.Q{{z:LONG}}>", R),
        (f"{_SUB},~a.Q{{z:LONG}}>", f"{_SUB},+a.Q{{z:LONG}}>", R),
        (f"{_SUB},~a.Q{{z:LONG}}>", f"{_SUB},-a.Q{{z:STRING}}>", R),
        (f"{_SUB},~a.Q{{z:LONG}}>", f"{_SUB},~a.Q{{z:LONG}}>", R),
        (f"{_SUB}>", f"{_SUB},~a.Q{{z:LONG}}>", A),
        (f"{_SUB},+a.Q{{z:LONG}}>", f"{_SUB}>", GONE),
        (f"{_SUB},~a.Q{{z:LONG}}>", f"{_SUB}>", GONE),
    ],
    "time-to-live": [
        ("TTL<LONG>", "TTL<LONG>", A),
        ("TTL<LONG>", "LONG", I),
        ("LONG", "TTL<LONG>", I),
        (f"TTL<{_P}>", "TTL<POJO<a.P{x:INT}>>", M),
        ("STATE<TTL<LONG>>", "STATE<TTL<LONG>>", A),
        ("STATE<TTL<LONG>>", "STATE<LONG>", TTL),
        ("STATE<LONG>", "STATE<TTL<LONG>>", TTL),
        ("STATE<LONG>", "STATE<TTL<INT>>", I),
        ("STATE<TTL<LONG>>", "STATE<INT>", I),
        (f"STATE<{_P}>", "STATE<TTL<POJO<a.P{x:INT}>>>", TTL),
        (f"STATE<TTL<{_P}>>", "STATE<POJO<a.P{x:LONG,y:STRING}>>", I),
        ("STATE<ENUM<a.E{A}>>", "STATE<TTL<ENUM<a.E{A,B}>>>", TTL),
    ],
    "streaming": [
        *[(t, t, A) for t in ("VOID_NAMESPACE", "TIME_WINDOW", "GLOBAL_WINDOW")],
        ("TIME_WINDOW", "GLOBAL_WINDOW", I),
        ("VOID_NAMESPACE", "TIME_WINDOW", I),
        ("TIMER<STRING,VOID_NAMESPACE>", "TIMER<STRING,VOID_NAMESPACE>", A),
        ("TIMER<STRING,VOID_NAMESPACE>", "TIMER<LONG,VOID_NAMESPACE>", I),
        ("TIMER<STRING,VOID_NAMESPACE>", "TIMER<STRING,TIME_WINDOW>", I),
        (f"TIMER<{_P},VOID_NAMESPACE>", "TIMER<POJO<a.P{x:INT}>,VOID_NAMESPACE>", M),
        ("STREAM_ELEMENT<LONG>", "STREAM_ELEMENT<LONG>", A),
        ("STREAM_ELEMENT<LONG>", "STREAM_ELEMENT<INT>", I),
        ("TAGGED_UNION<LONG,STRING>", "TAGGED_UNION<LONG,STRING>", A),
        ("TAGGED_UNION<LONG,STRING>", "TAGGED_UNION<STRING,LONG>", I),
        (f"TAGGED_UNION<LONG,{_P}>", "TAGGED_UNION<LONG,POJO<a.P{x:INT}>>", M),
        ("BUFFER_ENTRY<LONG>", "BUFFER_ENTRY<LONG>", A),
        ("BUFFER_ENTRY<LONG>", "BUFFER_ENTRY<STRING>", I),
        ("TWO_PHASE_COMMIT<STRING,LONG>", "TWO_PHASE_COMMIT<STRING,LONG>", A),
        ("TWO_PHASE_COMMIT<STRING,LONG>", "TWO_PHASE_COMMIT_NULLABLE<STRING,LONG>", M),
        ("TWO_PHASE_COMMIT_NULLABLE<STRING,LONG>", "TWO_PHASE_COMMIT<STRING,LONG>", M),
        ("TWO_PHASE_COMMIT<STRING,LONG>", "TWO_PHASE_COMMIT<STRING,STRING>", I),
    ],
    "kryo": [
        ("KRYO<a.K{}>", "KRYO<a.K{}>", A),
        ("KRYO<a.K{}>", "KRYO<a.K{},+a.L{}>", R),
        ("KRYO<a.K{},+a.L{}>", "KRYO<a.K{},+a.L{}>", A),
        ("KRYO<a.K{},+a.L{}>", "KRYO<a.K{},-a.L{}>", R),
        ("KRYO<a.K{},+a.L{},+a.M{}>", "KRYO<a.K{},+a.M{},+a.L{}>", R),
        ("KRYO<a.K{},+a.L{}>", "KRYO<a.K{}>", GONE),
        ("KRYO<a.K{}>", "KRYO<a.L{}>", UNREADABLE),
        ("KRYO<a.K{}>", "STRING", UNREADABLE),
        ("KRYO<a.P{}>", "POJO<a.P{x:INT}>", I),
        ("KRYO<java.util.List>", "LIST<STRING>", I),
        ("KRYO<java.util.Map>", "MAP<STRING,STRING>", I),
    ],
    "table": [
        ("ROW_DATA<INT,STRING>", "ROW_DATA<INT,STRING>", A),
        ("ROW_DATA<INT,STRING>", "ROW_DATA<BIGINT,STRING>", I),
        ("ROW_DATA<INT,STRING>", "ROW_DATA<INT>", I),
        ("ROW_DATA<INT>", "ROW_DATA<INT,STRING>", I),
        ("ROW_DATA<INT>", "ROW_DATA<INT NOT NULL>", I),
        ("ROW_DATA<VARCHAR(10)>", "ROW_DATA<VARCHAR(20)>", I),
        ("ROW_DATA<DECIMAL(10, 2)>", "ROW_DATA<DECIMAL(10, 2)>", A),
        ("ROW_DATA<DECIMAL(10, 2)>", "ROW_DATA<DECIMAL(12, 2)>", I),
        ("ROW_DATA<DECIMAL(10, 2)>", "ROW_DATA<DECIMAL(10, 3)>", I),
        ("ROW_DATA<TIMESTAMP(3)>", "ROW_DATA<TIMESTAMP(6)>", I),
        ("ROW_DATA<TIMESTAMP(3)>", "ROW_DATA<TIMESTAMP_LTZ(3)>", I),
        ("ROW_DATA<ARRAY<INT>>", "ROW_DATA<ARRAY<INT>>", A),
        ("ROW_DATA<ARRAY<INT>>", "ROW_DATA<ARRAY<BIGINT>>", I),
        ("ROW_DATA<MAP<STRING, INT>>", "ROW_DATA<MAP<STRING, INT>>", A),
        ("ROW_DATA<ROW<a INT, b STRING>>", "ROW_DATA<ROW<a INT, b STRING>>", A),
        ("ROW_DATA<ROW<a INT, b STRING>>", "ROW_DATA<ROW<a INT, c STRING>>", I),
        ("ROW_DATA<ROW<a INT, b STRING>>", "ROW_DATA<ROW<a INT>>", I),
        ("ARRAY_DATA<INT>", "ARRAY_DATA<INT>", A),
        ("ARRAY_DATA<INT>", "ARRAY_DATA<BIGINT>", I),
        ("ARRAY_DATA<INT>", "ARRAY_DATA<INT NOT NULL>", I),
        ("MAP_DATA<STRING,INT>", "MAP_DATA<STRING,INT>", A),
        ("MAP_DATA<STRING,INT>", "MAP_DATA<STRING,BIGINT>", I),
        ("MAP_DATA<STRING,INT>", "MAP_DATA<INT,INT>", I),
        ("DECIMAL_DATA<10,2>", "DECIMAL_DATA<10,2>", A),
        ("DECIMAL_DATA<10,2>", "DECIMAL_DATA<11,2>", I),
        ("DECIMAL_DATA<10,2>", "DECIMAL_DATA<10,1>", I),
        ("TIMESTAMP_DATA<3>", "TIMESTAMP_DATA<3>", A),
        ("TIMESTAMP_DATA<3>", "TIMESTAMP_DATA<6>", I),
        ("BINARY_ROW_DATA<2>", "BINARY_ROW_DATA<2>", A),
        ("BINARY_ROW_DATA<2>", "BINARY_ROW_DATA<3>", I),
        ("STRING_DATA", "STRING_DATA", A),
        ("STRING_DATA", "STRING", I),
        ("LINKED_LIST<LONG>", "LINKED_LIST<LONG>", A),
        ("LINKED_LIST<LONG>", "LINKED_LIST<INT>", I),
        ("LINKED_LIST_WITHOUT_NULLS<LONG>", "LINKED_LIST<LONG>", M),
        ("LINKED_LIST<LONG>", "LIST<LONG>", UNNOTICED),
        ("LIST_VIEW<LIST<LONG>>", "LIST_VIEW<LIST<LONG>>", A),
        ("LIST_VIEW<LIST<LONG>>", "LIST_VIEW<LIST<INT>>", I),
        ("MAP_VIEW<MAP<STRING,LONG>>", "MAP_VIEW<MAP<STRING,LONG>>", A),
        ("MAP_VIEW<MAP<STRING,LONG>>", "MAP_VIEW<MAP<STRING,INT>>", I),
        ("NULL_AWARE_MAP<STRING,LONG>", "NULL_AWARE_MAP<STRING,LONG>", A),
        ("NULL_AWARE_MAP<STRING,LONG>", "MAP<STRING,LONG>", UNNOTICED),
    ],
    "pattern matching": [
        ("NFA_STATE", "NFA_STATE", A),
        ("SHARED_BUFFER_NODE", "SHARED_BUFFER_NODE", A),
        ("EVENT_ID", "EVENT_ID", A),
        ("EVENT_ID", "SHARED_BUFFER_NODE", I),
        ("LOCKABLE<LONG>", "LOCKABLE<LONG>", A),
        ("LOCKABLE<LONG>", "LOCKABLE<STRING>", I),
        (f"LOCKABLE<{_P}>", "LOCKABLE<POJO<a.P{x:INT}>>", M),
    ],
    "scala": [
        ("OPTION<LONG>", "OPTION<LONG>", A),
        ("OPTION<LONG>", "OPTION<INT>", I),
        ("OPTION<ENUM<a.E{A}>>", "OPTION<ENUM<a.E{A,B}>>", R),
        ("SCALA_EITHER<STRING,LONG>", "SCALA_EITHER<STRING,LONG>", A),
        ("SCALA_EITHER<STRING,LONG>", "SCALA_EITHER<STRING,INT>", I),
        ("SCALA_EITHER<STRING,LONG>", "EITHER<STRING,LONG>", UNNOTICED),
        ("CASE_CLASS<a.C{},STRING,LONG>", "CASE_CLASS<a.C{},STRING,LONG>", A),
        ("CASE_CLASS<a.C{},STRING,LONG>", "CASE_CLASS<a.C{},STRING,INT>", I),
        ("CASE_CLASS<a.C{},STRING,LONG>", "CASE_CLASS<a.D{},STRING,LONG>", UNREADABLE),
        ("UNIT", "UNIT", A),
    ],
    "avro": [
        (_record(("x", "int")), _record(("x", "int")), A),
        (_record(("x", "int")), _record(("x", "int"), doc="words"), A),
        (_record(("x", "int")), _record({"name": "x", "type": "int", "doc": "words"}), A),
        *[(_record(("x", p.split()[0])), _record(("x", p.split()[1])), M) for p in _PROMOTED],
        *[(_record(("x", p.split()[0])), _record(("x", p.split()[1])), I) for p in _NOT_PROMOTED],
        (_record(("x", "int"), ("y", "int")), _record(("x", "int")), M),
        (_record(("x", "int")), _record(("x", "int"), ("y", "int")), I),
        (_record(("x", "int")), _record(("x", "int"), _with_default("y", "int", 7)), M),
        (_record(("x", "int")), _record(("x", "int"), _with_default("y", ["null", "string"], None)), M),
        (_record(("x", "int"), ("y", "int")), _record(("y", "int"), ("x", "int")), M),
        (_record(("x", "int")), _record({"name": "z", "type": "int", "aliases": ["x"]}), M),
        (_record(("x", "int")), _record(("z", "int")), I),
        (_record(("x", "int")), _record(("x", "int"), name="a.S"), I),
        (_record(("x", "int")), _record(("x", "int"), name="a.S", aliases=["a.R"]), M),
        (_record(("x", "int")), _record(("x", "int"), name="b.R"), M),
        (_record(("e", _enum("A", "B"))), _record(("e", _enum("A", "B", "C"))), M),
        (_record(("e", _enum("A", "B"))), _record(("e", _enum("B", "A"))), M),
        (_record(("e", _enum("A", "B"))), _record(("e", _enum("A"))), I),
        (_record(("e", _enum("A", "B"))), _record(("e", _enum("A", default="A"))), M),
        (_record(("x", "int")), _record(("x", ["null", "int"])), M),
        (_record(("x", "int")), _record(("x", ["null", "long"])), M),
        (_record(("x", "int")), _record(("x", ["null", "string"])), I),
        (_record(("x", ["null", "int"])), _record(("x", "int")), I),
        (_record(("x", ["int", "long"])), _record(("x", "long")), M),
        (_record(("x", ["null", "int"])), _record(("x", ["int", "null"])), M),
        (_record(("x", ["null", "int"])), _record(("x", ["null", "int", "string"])), M),
        (_record(("x", ["null", "int", "string"])), _record(("x", ["null", "int"])), I),
        (_record(("x", {"type": "array", "items": "int"})), _record(("x", {"type": "array", "items": "long"})), M),
        (_record(("x", {"type": "array", "items": "int"})), _record(("x", {"type": "array", "items": "string"})), I),
        (_record(("x", {"type": "map", "values": "int"})), _record(("x", {"type": "map", "values": "double"})), M),
        (_record(("x", {"type": "map", "values": "int"})), _record(("x", {"type": "array", "items": "int"})), I),
        (_record(("n", _NESTED)), _record(("n", _NESTED_WIDER)), M),
        (_record(("n", _NESTED_WIDER)), _record(("n", _NESTED)), I),
        (_record(("x", _FIXED)), _record(("x", {**_FIXED, "size": 8})), I),
        (_record(("x", _FIXED)), _record(("x", "bytes")), I),
        (_record(("x", {"type": "int", "logicalType": "date"})), _record(("x", "int")), M),
        (_record(("x", "long")), _record(("x", {"type": "long", "logicalType": "timestamp-millis"})), M),
        (_record(("x", "int")), _avro("int"), I),
        (_avro("int"), _avro("long"), M),
    ],
}
