"""More pairs for :mod:`~tests.interop.job_pairs`: types, keys and classes change, and operators take the place of others."""

from __future__ import annotations

from typing import Any

from tests.interop.job_pair_tables import PACKAGE, Operator, Pair, operator, state

OLD_SHAPES = {
    "Parent": "public class Parent { public int a; }",
    "Child": "public class Child extends Parent { public String b; }",
    "Base": "public class Base { }",
    "Lifted": "public class Lifted extends Base { public int a; public String b; }",
    "Passing": "public class Passing { public int a; public String b; }",
    "Middle": "public enum Middle { LOW, HIGH }",
    "Cased": "public class Cased { public Middle middle; public int a; }",
    "Pet": "public class Pet { public int a; }",
    "Cat": "public class Cat extends Pet { public String b; }",
    "Fish": "public class Fish extends Pet { public long c; }",
    "Wrapped": "public class Wrapped { public Child child; public long n; }",
    "Small": "public class Small { public float a; public short b; }",
    "Text": "public class Text { public String a; public long b; }",
    "Key": "public class Key { public int a; public String b; public int hashCode() { return a; } "
    "public boolean equals(Object o) { return o instanceof Key && ((Key) o).a == a; } }",
}
NEW_SHAPES = OLD_SHAPES | {
    "Parent": "public class Parent { }",
    "Child": "public class Child extends Parent { public int a; public String b; }",
    "Base": "public class Base { public int a; }",
    "Lifted": "public class Lifted extends Base { public String b; }",
    "Passing": "public class Passing { public int a; public transient String b; }",
    "Middle": "public enum Middle { LOW, HALF, HIGH }",
    "Small": "public class Small { public double a; public int b; }",
    "Text": "public class Text { public long a; public String b; }",
    "Key": "public class Key { public String b; public int a; public int hashCode() { return a; } "
    "public boolean equals(Object o) { return o instanceof Key && ((Key) o).a == a; } }",
}


def _pojo(name: str) -> str:
    return f"POJO<{PACKAGE}.{name}>"


def _change(
    old: str, new: str, value: Any, kind: str = "VALUE", key: str | None = "STRING", **more: Any
) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    entries = value if key is None else [{"key": "a", "value": value}]
    return operator(state("s", kind, old, entries, **more), key=key), operator(state("s", kind, new, **more), key=key)


def _stay(type_: str, value: Any, kind: str = "VALUE", **more: Any) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    return _change(type_, type_, value, kind, **more)


def _keys(old: str, key: Any, new: str, *more: dict[str, Any]) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    written = state("s", "VALUE", "LONG", [{"key": key, "value": 7}])
    return operator(written, *more, key=old), operator(state("s", "VALUE", "LONG"), *more, key=new)


def _at(label: str, *states: dict[str, Any], name: str | None = None) -> Operator:
    (described,) = operator(*states, uid=label)
    return described | {"inputs": [], "name": name or label}


def _one(name: str, type_: str, value: Any, kind: str = "VALUE", **more: Any) -> dict[str, Any]:
    return state(name, kind, type_, [{"key": "a", "value": value}], **more)


def _anonymous(*operators: Operator) -> tuple[Operator, ...]:
    return tuple(described | {"anonymous": True} for described in operators)


_SUM, _COUNT, _NAME = _one("sum", "LONG", 7), _one("count", "LONG", 9), _one("name", "STRING", "x")
_LIST = _one("s", "LONG", [1, 2], "LIST")
_MAP = _one("s", "LONG", [["k", 1]], "MAP", map_key_type="STRING")
_RULES = state("rules", "BROADCAST", "LONG", [{"key": "k", "value": 1}], map_key_type="STRING")
_TIMERS = state("timers", "EVENT_TIMER", None, [{"key": "a", "timestamp": 9}], namespace_type="VOID_NAMESPACE")
_WINDOW = {"start": 0, "end": 10}
_IN_WINDOW = state("s", "VALUE", "LONG", [{"key": "a", "namespace": _WINDOW, "value": 7}], namespace_type="TIME_WINDOW")
_KEY = {"a": 1, "b": "x"}
_CHILD = {"a": 1, "b": "x"}


def _registered(*names: str) -> dict[str, str]:
    """Return the settings of Flink 1 and of Flink 2 that register subclasses of POJOs."""
    classes = [f"{PACKAGE}.{name}" for name in names]
    kinds = ", ".join(f"{name}: {{type: pojo}}" for name in classes)
    return {"pipeline.registered-pojo-types": ";".join(classes), "pipeline.serialization-config": f"[{kinds}]"}


_PETS = _registered("Cat", "Fish")
_SIZE, _MIDDLE = f"ENUM<{PACKAGE}.Size>", f"ENUM<{PACKAGE}.Middle>"
_ROW = {"kind": "+I", "fields": [1, "x"]}

CHANGE_PAIRS = (
    Pair("an operator takes the uid of another", operator(_SUM), (*operator(_NAME), *operator(_SUM, uid="new")), loses=True),
    Pair("an operator is split", operator(_SUM, _NAME), (*operator(_SUM), *operator(_NAME, uid="new")), loses=True),
    Pair("two operators become one", (*operator(_SUM), *operator(_NAME, uid="p")), operator(_SUM, _NAME)),
    Pair(
        "a state moves to another operator",
        (_at("o", _SUM, _NAME), _at("p", _COUNT)),
        (_at("o", _SUM), _at("p", _COUNT, _NAME)),
        loses=True,
    ),
    Pair(
        "three operators change places",
        (_at("a", _SUM), _at("b", _NAME), _at("c", _COUNT)),
        (_at("b", _SUM), _at("c", _NAME), _at("a", _COUNT)),
        loses=True,
    ),
    Pair(
        "three operators without uids change places",
        _anonymous(_at("a", _SUM), _at("b", _NAME), _at("c", _COUNT)),
        _anonymous(_at("c", _COUNT), _at("a", _SUM), _at("b", _NAME)),
    ),
    Pair("an operator without uid is removed in front", _anonymous(_at("a", _SUM), _at("b", _NAME)), _anonymous(_at("b", _NAME))),
    Pair(
        "operators without uids move up",
        _anonymous(_at("a", _SUM), _at("b", _NAME), _at("c", _COUNT)),
        _anonymous(_at("b", _NAME), _at("c", _COUNT)),
    ),
    Pair(
        "the first of equal operators without uids is removed",
        _anonymous(_at("a", _SUM), _at("b", _SUM)),
        _anonymous(_at("b", _SUM)),
    ),
    Pair(
        "operators with uids move up",
        (_at("a", _SUM), _at("b", _NAME), _at("c", _COUNT)),
        (_at("a", _NAME), _at("b", _COUNT)),
        loses=True,
    ),
    Pair("an operator without uid is added at the end", _anonymous(_at("a", _SUM)), _anonymous(_at("a", _SUM), _at("b", _NAME))),
    Pair("an operator gets a uid", _anonymous(_at("a", _SUM)), (_at("a", _SUM),)),
    Pair("an operator loses its uid", (_at("a", _SUM),), _anonymous(_at("a", _SUM))),
    Pair("constants of keys of a map change places", *_stay("LONG", [["M", 2], ["S", 1]], "MAP", map_key_type=_SIZE)),
    Pair("constants in a tuple change places", *_stay(f"TUPLE<{_SIZE},LONG>", ["M", 3])),
    Pair("constants in a list change places", *_stay(f"LIST<{_SIZE}>", ["M", "S"])),
    Pair("constants in an array change places", *_stay(f"OBJECT_ARRAY<{_SIZE}>", ["M", "S"])),
    Pair("a constant is put between others", *_stay(_MIDDLE, "HIGH")),
    Pair("a constant in a POJO is put between others", *_stay(_pojo("Cased"), {"middle": "HIGH", "a": 1})),
    Pair(
        "a constant in a list of the operator is put between others", *_stay(_MIDDLE, ["HIGH", "LOW"], "OPERATOR_LIST", key=None)
    ),
    Pair("a constant that is removed was used", *_stay(f"ENUM<{PACKAGE}.Coin>", "DOLLAR")),
    Pair("a field moves into a subclass", *_stay(_pojo("Child"), _CHILD)),
    Pair("a field moves into a superclass", *_stay(_pojo("Lifted"), _CHILD)),
    Pair("a field of a nested POJO moves into a subclass", *_stay(_pojo("Wrapped"), {"child": _CHILD, "n": 2})),
    Pair("a field becomes transient", *_stay(_pojo("Passing"), _CHILD)),
    Pair("fields become wider numbers", *_stay(_pojo("Small"), {"a": 1.5, "b": 2})),
    Pair("fields exchange their types", *_stay(_pojo("Text"), {"a": "5", "b": 6})),
    Pair(
        "registered subclasses change places",
        *_stay(_pojo("Pet"), {"@class": f"{PACKAGE}.Fish", "a": 1, "c": 3}),
        settings=(_PETS, _registered("Fish", "Cat")),
    ),
    Pair(
        "registered subclasses stay",
        *_stay(_pojo("Pet"), {"@class": f"{PACKAGE}.Fish", "a": 1, "c": 3}),
        settings=(_PETS, _PETS),
    ),
    Pair("a float becomes a double", *_change("FLOAT", "DOUBLE", 1.5)),
    Pair("a long becomes an int", *_change("LONG", "INT", 7)),
    Pair("a short becomes an int in a tuple", *_change("TUPLE<SHORT,STRING>", "TUPLE<INT,STRING>", [1, "x"])),
    Pair("an integer becomes a decimal", *_change("BIG_INT", "BIG_DEC", "12")),
    Pair("a character becomes a text", *_change("CHAR", "STRING", "x")),
    Pair("fields of a tuple change places", *_change("TUPLE<STRING,LONG>", "TUPLE<LONG,STRING>", ["x", 1])),
    Pair("a tuple becomes a POJO", *_change("TUPLE<INT,STRING>", _pojo("Same"), [1, "x"])),
    Pair("the sides of an either change places", *_change("EITHER<LONG,STRING>", "EITHER<STRING,LONG>", {"left": 1})),
    Pair("a value is not nullable any more", *_change("NULLABLE<LONG>", "LONG", 7)),
    Pair("an array becomes a list", *_change("LONG_ARRAY", "LIST<LONG>", [1, 2])),
    Pair("an array of objects becomes one of others", *_change("OBJECT_ARRAY<STRING>", "OBJECT_ARRAY<LONG>", ["x"])),
    Pair("a local time becomes a time stamp", *_change("LOCAL_DATE_TIME", "SQL_TIMESTAMP", "2024-02-29T12:30")),
    Pair("a value of a map becomes a map state", operator(_one("s", "MAP<STRING,LONG>", [["k", 1]])), operator(_MAP)),
    Pair("a list state becomes a value of a list", operator(_LIST), operator(_one("s", "LIST<LONG>", [1]))),
    Pair("a sum of numbers becomes a sum of narrower ones", *_change("LONG", "INT", 7, "REDUCING")),
    Pair("an aggregate has another accumulator", *_change("TUPLE<LONG,LONG>", "TUPLE<LONG,DOUBLE>", [6, 2], "AGGREGATING")),
    Pair("an aggregate stays", *_stay("TUPLE<LONG,LONG>", [6, 2], "AGGREGATING")),
    Pair("a rule of the operator is dropped", operator(_SUM, _RULES), operator(_SUM)),
    Pair("a rule of the operator is added", operator(_SUM), operator(_SUM, _RULES | {"entries": []})),
    Pair(
        "broadcast state becomes a union list",
        operator(_RULES, key=None),
        operator(state("rules", "UNION_LIST", "LONG"), key=None),
        loses=True,
    ),
    Pair(
        "time-to-live is added to a sum",
        operator(_one("s", "LONG", 7, "REDUCING")),
        operator(_one("s", "LONG", 7, "REDUCING") | {"ttl": True}),
    ),
    Pair(
        "time-to-live is dropped from an aggregate",
        operator(_one("s", "TUPLE<LONG,LONG>", [6, 2], "AGGREGATING") | {"ttl": True}),
        operator(_one("s", "TUPLE<LONG,LONG>", [6, 2], "AGGREGATING")),
    ),
    Pair("a key becomes a text", *_keys("INT", 7, "STRING")),
    Pair("a key of two fields loses one", *_keys("TUPLE<STRING,LONG>", ["a", 1], "TUPLE<STRING>")),
    Pair("fields of a key change places", *_keys("TUPLE<STRING,LONG>", ["a", 1], "TUPLE<LONG,STRING>")),
    Pair("a key becomes a POJO", *_keys("TUPLE<INT,STRING>", [1, "x"], _pojo("Key"))),
    Pair("fields of a POJO that is a key change places", *_keys(_pojo("Key"), _KEY, _pojo("Key"))),
    Pair("a key becomes a row", *_keys("TUPLE<STRING,LONG>", ["a", 1], "ROW<STRING,LONG>")),
    Pair("windows of a state disappear", operator(_IN_WINDOW), operator(_one("s", "LONG", 7))),
    Pair(
        "timers get windows", operator(_SUM, _TIMERS), operator(_SUM, _TIMERS | {"namespace_type": "TIME_WINDOW", "entries": []})
    ),
    Pair(
        "a column of the table API has another precision",
        *_change("ROW_DATA<`a` DECIMAL(10, 2)>", "ROW_DATA<`a` DECIMAL(12, 2)>", {"kind": "+I", "fields": ["1.50"]}),
    ),
    Pair(
        "a column of the table API gets a limit",
        *_change("ROW_DATA<`a` INT, `b` STRING>", "ROW_DATA<`a` INT, `b` VARCHAR(9)>", _ROW),
    ),
    Pair(
        "columns of the table API change places", *_change("ROW_DATA<`a` INT, `b` STRING>", "ROW_DATA<`b` STRING, `a` INT>", _ROW)
    ),
    Pair("Kryo of a text becomes a text", *_change("KRYO<java.lang.String>", "STRING", "x")),
    Pair("Kryo of a number becomes Kryo of another", *_change("KRYO<java.lang.Integer>", "KRYO<java.lang.Long>", 7)),
    Pair("Kryo of a UUID stays", *_stay("KRYO<java.util.UUID>", "123e4567-e89b-12d3-a456-426614174000")),
    Pair("Kryo of a duration stays", *_stay("KRYO<java.time.Duration>", "PT5M")),
    Pair(
        "an incremental checkpoint becomes a heap",
        operator(_SUM, _NAME),
        operator(_SUM, _NAME),
        backends=("rocksdb", "hashmap"),
        format="incremental",
    ),
)
"""Pairs whose types, keys, classes or identifiers change."""
