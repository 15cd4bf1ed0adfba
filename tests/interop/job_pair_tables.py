"""The tables of the pairs of jobs that :mod:`~tests.interop.job_pairs` tries with real Flink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

PACKAGE = "pairs"
OLD_CLASSES = {
    "Grown": "public class Grown { public int a; public String b; }",
    "Shrunk": "public class Shrunk { public int a; public String b; }",
    "Retyped": "public class Retyped { public int a; }",
    "Boxed": "public class Boxed { public int a; }",
    "Same": "public class Same { public int a; public String b; }",
    "Color": "public enum Color { RED, GREEN }",
    "Size": "public enum Size { S, M }",
    "Coin": "public enum Coin { CENT, EURO, DOLLAR }",
    "Outer": "public class Outer { public Grown grown; public long n; }",
    "Id": "public class Id { public int a; public int hashCode() { return a; } }",
    "Painted": "public class Painted { public Color color; }",
    "Renamed": "public class Renamed { public int a; public String b; }",
    "Moved": "public class Moved { public int a; public String b; }",
    "Holder": "public class Holder { public Shrunk inner; public long n; }",
    "Unboxed": "public class Unboxed { public Integer a; public String b; }",
    "Sized": "public class Sized { public Size size; public int a; }",
    "Ordered": "public class Ordered { public int a; public int b; }",
    "Hashed": "public class Hashed { public int a; public int hashCode() { return a; } "
    "public boolean equals(Object o) { return o instanceof Hashed && ((Hashed) o).a == a; } }",
    "Fixed": "public class Fixed { public int a; public int hashCode() { return a; } "
    "public boolean equals(Object o) { return o instanceof Fixed && ((Fixed) o).a == a; } }",
    "Fact": "public record Fact(int a, String b) {}",
    "Wider": "public record Wider(int a, String b) {}",
    "Narrower": "public record Narrower(int a, String b) {}",
    "Turned": "public record Turned(int a, int b) {}",
    "Retold": "public record Retold(int a, String b) {}",
    "Typed": "public record Typed(int a) {}",
    "Bare": "public record Bare(Integer a, String b) {}",
    "Frozen": "public class Frozen { public int a; public String b; }",
    "Thawed": "public record Thawed(int a, String b) {}",
    "Point": "public record Point(int a) {}",
    "Place": "public record Place(int a) {}",
    "Framed": "public record Framed(Wider inner, long n) {}",
    "Animal": "public class Animal { public int a; }",
    "Dog": "public class Dog extends Animal { public String b; }",
    "Beast": "public class Beast { public int a; }",
    "Wolf": "public class Wolf extends Beast { public String b; }",
}
NEW_CLASSES = OLD_CLASSES | {
    "Grown": "public class Grown { public int a; public String b; public long c; }",
    "Shrunk": "public class Shrunk { public int a; }",
    "Retyped": "public class Retyped { public long a; }",
    "Boxed": "public class Boxed { public Integer a; }",
    "Id": "public class Id { public int a; public int b; public int hashCode() { return a; } }",
    "Color": "public enum Color { RED, GREEN, BLUE }",
    "Size": "public enum Size { M, S }",
    "Coin": "public enum Coin { CENT, EURO }",
    "Renamed": "public class Renamed { public int a; public String c; }",
    "Moved": "public class Moved { public int a; public long c; }",
    "Holder": "public class Holder { public Shrunk inner; public long n; }",
    "Unboxed": "public class Unboxed { public int a; public String b; }",
    "Ordered": "public class Ordered { public int b; public int a; }",
    "Hashed": "public class Hashed { public int a; public int hashCode() { return 31 * a + 7; } "
    "public boolean equals(Object o) { return o instanceof Hashed && ((Hashed) o).a == a; } }",
    "Wider": "public record Wider(int a, String b, long c) {}",
    "Narrower": "public record Narrower(int a) {}",
    "Turned": "public record Turned(int b, int a) {}",
    "Retold": "public record Retold(int a, String c) {}",
    "Typed": "public record Typed(long a) {}",
    "Bare": "public record Bare(int a, String b) {}",
    "Frozen": "public record Frozen(int a, String b) {}",
    "Thawed": "public class Thawed { public int a; public String b; }",
    "Place": "public record Place(int a, int b) {}",
    "Wolf": "public class Wolf extends Beast { public String c; }",
}

Operator = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """An old and a new job."""

    name: str
    old: tuple[Operator, ...]
    new: tuple[Operator, ...]
    old_sizes: tuple[int, int] = (2, 128)
    new_sizes: tuple[int, int] = (2, 128)
    loses: bool = False
    """Whether a state that the new job does not register counts as lost, and not as unused."""
    backends: tuple[str, str] | None = None
    """The backends of the old and the new job; by default those that are tried."""
    format: str = "canonical"
    settings: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})


def state(name: str, kind: str, value_type: str | None, entries: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
    """Return a state in the form of expected.json."""
    types = {} if value_type is None else {"value_type": value_type}
    return {"name": name, "kind": kind, **types, "entries": list(entries), "ttl": False, **more}


def operator(*states: dict[str, Any], uid: str = "o", key: str | None = "STRING") -> tuple[Operator, ...]:
    """Return a job with one operator."""
    return ({"uid": uid, **({} if key is None else {"key_type": key}), "states": list(states)},)


ONE = [{"key": "a", "value": 7}]
LONG = state("s", "VALUE", "LONG", ONE)
OTHER = state("t", "VALUE", "STRING", [{"key": "a", "value": "x"}])


def _value(old: str, new: str, value: Any = None, key: str = "STRING") -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    entries = [] if value is None else [{"key": "a", "value": value}]
    return operator(state("s", "VALUE", old, entries), key=key), operator(state("s", "VALUE", new), key=key)


def _map(key: str, old: str, new: str) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    one, other = (state("s", "MAP", value, map_key_type=key) for value in (old, new))
    return operator(one), operator(other)


def _ttl(kind: str, before: bool, after: bool, **more: Any) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    one, other = (state("s", kind, "LONG", **more) | {"ttl": ttl} for ttl in (before, after))
    return operator(one), operator(other)


def _kinds(old: str, new: str, key: str | None = "STRING") -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    def of(kind: str, entries: Sequence[Any] = ()) -> dict[str, Any]:
        return state("s", kind, "LONG", entries, **({"map_key_type": "STRING"} if kind in ("MAP", "BROADCAST") else {}))

    return operator(of(old, [1, 2] if key is None else ()), key=key), operator(of(new), key=key)


def _pojo(name: str) -> str:
    return f"POJO<{PACKAGE}.{name}>"


def _keys(old: str, new: str) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    return operator(state("s", "VALUE", "LONG"), key=old), operator(state("s", "VALUE", "LONG"), key=new)


def _lists(old: str, new: str, kind: str = "OPERATOR_LIST") -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    return operator(state("s", kind, old), key=None), operator(state("s", kind, new), key=None)


_BOTH = (LONG, OTHER)
_TIMERS = state("timers", "EVENT_TIMER", None, [{"key": "a", "timestamp": 9}], namespace_type="VOID_NAMESPACE")
_ROW = "ROW_DATA<`a` INT, `b` STRING>"

PAIRS = (
    Pair("nothing changes", operator(*_BOTH), operator(*_BOTH)),
    Pair("a field is added to a POJO", *_value(_pojo("Grown"), _pojo("Grown"), {"a": 1, "b": "x"})),
    Pair("a value has another type", *_value("LONG", "STRING", 7)),
    Pair("a value state becomes a list", *_kinds("VALUE", "LIST")),
    Pair("time-to-live is added", *_ttl("VALUE", False, True)),
    Pair("time-to-live is dropped", *_ttl("VALUE", True, False)),
    Pair("a uid changes", operator(LONG), operator(LONG, uid="other")),
    Pair("a state is dropped", operator(*_BOTH), operator(LONG)),
    Pair("an operator is added", operator(LONG), (*operator(LONG), *operator(LONG, uid="more"))),
    Pair("the key has another type", *_keys("STRING", "LONG")),
    Pair("the parallelism is over the maximum", operator(LONG), operator(LONG), (2, 4), (6, 6)),
    Pair("the max parallelism shrinks", operator(LONG), operator(LONG), (2, 256), (2, 64)),
    Pair("an operator is dropped", (*operator(LONG), *operator(LONG, uid="more")), operator(LONG)),
    Pair("a field is removed from a POJO", *_value(_pojo("Shrunk"), _pojo("Shrunk"), {"a": 1, "b": "x"})),
    Pair("a field of a POJO has another type", *_value(_pojo("Retyped"), _pojo("Retyped"), {"a": 1})),
    Pair("a field of a POJO is boxed", *_value(_pojo("Boxed"), _pojo("Boxed"), {"a": 1})),
    Pair("a POJO inside a POJO grows", *_value(_pojo("Outer"), _pojo("Outer"))),
    Pair("a POJO in a tuple grows", *_value(f"TUPLE<{_pojo('Grown')},LONG>", f"TUPLE<{_pojo('Grown')},LONG>")),
    Pair("a POJO in a list grows", *_value(f"LIST<{_pojo('Grown')}>", f"LIST<{_pojo('Grown')}>")),
    Pair("Kryo becomes a POJO", *_value(f"KRYO<{PACKAGE}.Same>", _pojo("Same"))),
    Pair("a POJO becomes Kryo", *_value(_pojo("Same"), f"KRYO<{PACKAGE}.Same>")),
    Pair("Kryo has another class", *_value(f"KRYO<{PACKAGE}.Same>", f"KRYO<{PACKAGE}.Grown>")),
    Pair("a class of Kryo grows", *_value(f"KRYO<{PACKAGE}.Grown>", f"KRYO<{PACKAGE}.Grown>")),
    Pair("a constant is added to an enum", *_value(f"ENUM<{PACKAGE}.Color>", f"ENUM<{PACKAGE}.Color>")),
    Pair("constants of an enum change places", *_value(f"ENUM<{PACKAGE}.Size>", f"ENUM<{PACKAGE}.Size>")),
    Pair("a constant is removed from an enum", *_value(f"ENUM<{PACKAGE}.Coin>", f"ENUM<{PACKAGE}.Coin>")),
    Pair("an enum in a POJO grows", *_value(_pojo("Painted"), _pojo("Painted"))),
    Pair("an enum becomes another", *_value(f"ENUM<{PACKAGE}.Color>", f"ENUM<{PACKAGE}.Size>")),
    Pair("the value of a map grows", *_map("STRING", _pojo("Grown"), _pojo("Grown"))),
    Pair("the key of a map grows", *_map(_pojo("Grown"), "LONG", "LONG")),
    Pair("the value of a map has another type", *_map("STRING", "LONG", "STRING")),
    Pair("the key is a POJO that grows", *_keys(_pojo("Id"), _pojo("Id"))),
    Pair("the key is a tuple with another field", *_keys("TUPLE<STRING,LONG>", "TUPLE<STRING,LONG,LONG>")),
    Pair("time-to-live is added to a map", *_ttl("MAP", False, True, map_key_type="STRING")),
    Pair("time-to-live is dropped from a list", *_ttl("LIST", True, False)),
    Pair("a reducing state becomes a value", *_kinds("REDUCING", "VALUE")),
    Pair("a map becomes a value", *_kinds("MAP", "VALUE")),
    Pair("a list of the operator becomes a union list", *_kinds("OPERATOR_LIST", "UNION_LIST", None)),
    Pair("a list of the operator becomes broadcast state", *_kinds("OPERATOR_LIST", "BROADCAST", None)),
    Pair("an element of a list of the operator grows", *_lists(_pojo("Grown"), _pojo("Grown"))),
    Pair("an element of a union list has another type", *_lists("LONG", "STRING", "UNION_LIST")),
    Pair("a row of the table API has another field", *_value(_ROW, "ROW_DATA<`a` INT, `b` STRING, `c` INT>")),
    Pair("a row of the table API stays", *_value(_ROW, _ROW)),
    Pair("a tuple has another field", *_value("TUPLE<LONG,STRING>", "TUPLE<LONG,STRING,LONG>")),
    Pair("timers stay", operator(LONG, _TIMERS), operator(LONG, _TIMERS)),
    Pair("the parallelism shrinks", operator(*_BOTH), operator(*_BOTH), (3, 128), (1, 128)),
    Pair("a value is nullable", *_value("NULLABLE<LONG>", "NULLABLE<LONG>")),
)
"""The first ten are tried by the tests."""


def _of(kind: str, type_: str, entries: Sequence[Any], key: str | None = "STRING", **more: Any) -> Any:
    """Return a pair of jobs with a state of one type, whose classes may differ."""
    return operator(state("s", kind, type_, entries, **more), key=key), operator(state("s", kind, type_, **more), key=key)


def _without_uids(*operators: Operator) -> tuple[Operator, ...]:
    return tuple(one | {"anonymous": True} for one in operators)


def _same(type_: str, value: Any) -> Any:
    return _value(type_, type_, value)


def _one(label: str, *states: dict[str, Any], name: str | None = None) -> Operator:
    (found,) = operator(*states, uid=label)
    return found | {"inputs": [], "name": name or label}


_NAMED = state("names", "VALUE", "STRING", [{"key": "a", "value": "x"}])
_SUMS, _COUNTS = ({**LONG, "entries": [{"key": "a", "value": number}]} for number in (7, 9))
_TWO = (_one("o", _SUMS, name="Process"), _one("p", _COUNTS, name="Process"))
_MIXED = (_one("o", _SUMS, _TIMERS, name="Process"), _one("p", _NAMED, _TIMERS, name="Process"))
_B = {"a": 1, "b": "x"}


def _of_keys(old: str, key: Any, new: str) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    return operator(state("s", "VALUE", "LONG", [{"key": key, "value": 7}]), key=old), operator(
        state("s", "VALUE", "LONG"), key=new
    )


VALUE_PAIRS = (
    Pair("a boxed field with null becomes primitive", *_same(_pojo("Unboxed"), {"a": None, "b": "x"})),
    Pair("a boxed field becomes primitive", *_same(_pojo("Unboxed"), {"a": 5, "b": "x"})),
    Pair("a field of a POJO is renamed", *_same(_pojo("Renamed"), _B)),
    Pair("a field of a POJO is replaced", *_same(_pojo("Moved"), _B)),
    Pair("a POJO inside a POJO shrinks", *_same(_pojo("Holder"), {"inner": _B, "n": 2})),
    Pair("elements of a list shrink", *_of("LIST", _pojo("Shrunk"), [{"key": "a", "value": [_B]}])),
    Pair("values of a map shrink", *_of("MAP", _pojo("Shrunk"), [{"key": "a", "value": [["k", _B]]}], map_key_type="STRING")),
    Pair("elements of an operator's list shrink", *_of("OPERATOR_LIST", _pojo("Shrunk"), [_B], None)),
    Pair("elements of a union list shrink", *_of("UNION_LIST", _pojo("Shrunk"), [_B], None)),
    Pair(
        "values of broadcast state shrink",
        *_of("BROADCAST", _pojo("Shrunk"), [{"key": "k", "value": _B}], None, map_key_type="STRING"),
    ),
    Pair("a POJO in a tuple shrinks", *_same(f"TUPLE<{_pojo('Shrunk')},LONG>", [_B, 3])),
    Pair("a POJO stays", *_same(_pojo("Same"), _B)),
    Pair("a POJO in a list stays", *_same(f"LIST<{_pojo('Same')}>", [_B])),
    Pair("a class of Kryo stays", *_same(f"KRYO<{PACKAGE}.Same>", _B)),
    Pair("a class of Kryo gets a field", *_same(f"KRYO<{PACKAGE}.Grown>", _B)),
    Pair("a class of Kryo loses a field", *_same(f"KRYO<{PACKAGE}.Shrunk>", _B)),
    Pair("a field of a class of Kryo is renamed", *_same(f"KRYO<{PACKAGE}.Renamed>", _B)),
    Pair("Kryo of BitSet", *_same("KRYO<java.util.BitSet>", {"@class": "java.util.BitSet", "bits": [3, 70]})),
    Pair("Kryo of LocalDate", *_same("KRYO<java.time.LocalDate>", "2024-02-29")),
    Pair("Kryo of Instant", *_same("KRYO<java.time.Instant>", "2024-02-29T12:30:00Z")),
    Pair("Kryo of BigInteger", *_same("KRYO<java.math.BigInteger>", "12345678901234567890")),
    Pair("Kryo of Long", *_same("KRYO<java.lang.Long>", 7)),
    Pair("Kryo of Double", *_same("KRYO<java.lang.Double>", 7.5)),
    Pair("Kryo of String", *_same("KRYO<java.lang.String>", "x")),
    Pair("a state gets another name", operator(LONG), operator({**LONG, "name": "t"}), loses=True),
    Pair("a state is replaced by one of another type", operator(LONG), operator(OTHER)),
    Pair("operators without uids stay", _without_uids(*_MIXED), _without_uids(*_MIXED)),
    Pair("operators without uids change places", _without_uids(*_MIXED), _without_uids(*_MIXED[::-1])),
    Pair("equal operators without uids change places", _without_uids(*_TWO), _without_uids(*_TWO[::-1])),
    Pair("equal operators without uids stay", _without_uids(*_TWO), _without_uids(*_TWO)),
    Pair("operators with uids change places", _MIXED, _MIXED[::-1]),
    Pair("an operator without uid loses its state", _without_uids(*_MIXED), _without_uids(_MIXED[0] | {"states": []}, _MIXED[1])),
    Pair("an operator without uid is put in front", _without_uids(_MIXED[1]), _without_uids(*_MIXED)),
    Pair("timers are dropped", operator(LONG, _TIMERS), operator(LONG), loses=True),
    Pair("timers are alone", operator(_TIMERS), operator(_TIMERS)),
    Pair("hashCode of a key changes", *_of("VALUE", "LONG", [{"key": {"a": n}, "value": n} for n in range(9)], _pojo("Hashed"))),
    Pair("hashCode of a key stays", *_of("VALUE", "LONG", [{"key": {"a": n}, "value": n} for n in range(9)], _pojo("Fixed"))),
    Pair("columns of a row change places", *_value("ROW<a:LONG,b:LONG>", "ROW<b:LONG,a:LONG>", {"kind": "+I", "fields": [1, 2]})),
    Pair("a row of the table API has values", *_same(_ROW, {"kind": "+I", "fields": [1, "x"]})),
    Pair("an int becomes a long", *_value("INT", "LONG", 7)),
    Pair("a list of the operator stays", *_of("OPERATOR_LIST", "LONG", [1, 2], None)),
    Pair("broadcast state stays", *_of("BROADCAST", "LONG", [{"key": "k", "value": 1}], None, map_key_type="STRING")),
    Pair("a key that is a tuple stays", *_of("VALUE", "LONG", [{"key": ["a", 1], "value": 3}], "TUPLE<STRING,LONG>")),
    Pair(
        "an operator has no keyed state any more",
        operator(LONG),
        operator(state("l", "OPERATOR_LIST", "LONG"), key=None),
        loses=True,
    ),
    Pair("time-to-live is dropped from values", operator(LONG | {"ttl": True}), operator(LONG)),
)
"""Pairs whose values are compared. The first six are tried by the tests."""


def _entry(value: Any, key: Any = "a") -> list[dict[str, Any]]:
    return [{"key": key, "value": value}]


_MAPPED = state("s", "MAP", "LONG", _entry([["k", 1]]), map_key_type="STRING")
_LISTED = state("s", "LIST", "LONG", _entry([1, 2]))
_RULES = state("s", "BROADCAST", "LONG", [{"key": "k", "value": 1}], map_key_type="STRING")
_UNION = state("s", "UNION_LIST", "LONG", [1, 2, 3])
_PARTS = state("s", "OPERATOR_LIST", "LONG", [1, 2, 3, 4, 5])
_KRYO = state("s", "VALUE", f"KRYO<{PACKAGE}.Same>", _entry(_B))
_REGISTERED = (
    {"pipeline.registered-kryo-types": f"{PACKAGE}.Same;{PACKAGE}.Id"},
    {"pipeline.registered-kryo-types": f"{PACKAGE}.Id;{PACKAGE}.Same"},
)
_CHANGELOG = {"state.changelog.enabled": "true", "state.backend.changelog.enabled": "true"}
_UNALIGNED = {"execution.checkpointing.unaligned": "true", "execution.checkpointing.unaligned.enabled": "true"}
_TRUNCATED = {"entries": [], "value_type": "STRING"}

EDGE_PAIRS = (
    Pair("values of broadcast state have another type", operator(_RULES, key=None), operator(_RULES | _TRUNCATED, key=None)),
    Pair(
        "keys of broadcast state have another type",
        operator(_RULES, key=None),
        operator(_RULES | {"map_key_type": "LONG"}, key=None),
    ),
    Pair("a union list is dealt to more subtasks", operator(_UNION, key=None), operator(_UNION, key=None), (2, 128), (3, 128)),
    Pair(
        "a list of the operator is dealt to fewer subtasks",
        operator(_PARTS, key=None),
        operator(_PARTS, key=None),
        (3, 128),
        (1, 128),
    ),
    Pair("time-to-live is added to a map with entries", operator(_MAPPED), operator(_MAPPED | {"ttl": True})),
    Pair("time-to-live is dropped from a map with entries", operator(_MAPPED | {"ttl": True}), operator(_MAPPED)),
    Pair("time-to-live is added to a list with elements", operator(_LISTED), operator(_LISTED | {"ttl": True})),
    Pair("time-to-live is dropped from a list with elements", operator(_LISTED | {"ttl": True}), operator(_LISTED)),
    Pair("constants in a POJO change places", *_same(_pojo("Sized"), {"size": "M", "a": 1})),
    Pair("a tuple of one field becomes a plain key", *_of_keys("TUPLE<STRING>", ["a"], "STRING")),
    Pair("a plain key becomes a tuple of one field", *_of_keys("STRING", "a", "TUPLE<STRING>")),
    Pair("the max parallelism grows", operator(LONG), operator(LONG), (2, 128), (2, 256)),
    Pair(
        "the name of a keyed state is reused for a list of the operator", operator(LONG), operator(_PARTS, key=None), loses=True
    ),
    Pair("the name of a value is reused for a map", operator(LONG), operator(_MAPPED)),
    Pair("a reducing state becomes an aggregating one", *_kinds("REDUCING", "AGGREGATING")),
    Pair("classes of Kryo are registered in another order", operator(_KRYO), operator(_KRYO), settings=_REGISTERED),
    Pair("the changelog is switched on", operator(LONG), operator(LONG), settings=({}, _CHANGELOG)),
    Pair("the changelog is switched off", operator(LONG), operator(LONG), settings=(_CHANGELOG, {})),
    Pair("RocksDB becomes ForSt", operator(*_BOTH), operator(*_BOTH), backends=("rocksdb", "forst"), format="native"),
    Pair("native RocksDB becomes a heap", operator(LONG), operator(LONG), backends=("rocksdb", "hashmap"), format="native"),
    Pair("a native heap becomes RocksDB", operator(LONG), operator(LONG), backends=("hashmap", "rocksdb"), format="native"),
    Pair("a canonical savepoint becomes ForSt", operator(LONG), operator(LONG), backends=("rocksdb", "forst")),
    Pair("timers get another service", operator(LONG, _TIMERS), operator(LONG, {**_TIMERS, "name": "others"}), loses=True),
    Pair(
        "an incremental checkpoint without alignment",
        *(operator(LONG, _MAPPED | {"name": "m"}),) * 2,
        backends=("rocksdb", "rocksdb"),
        format="incremental",
        settings=(_UNALIGNED, {}),
    ),
    Pair("fields of a POJO change places", *_same(_pojo("Ordered"), {"a": 1, "b": 2})),
)
"""Pairs at the edges: redistribution, backends and formats, and settings of the job."""


_AT = {"asynchronous": True}


def _native(*backends: str) -> dict[str, Any]:
    """Return the backends of a pair whose snapshots are native, like all snapshots of asynchronous state."""
    return {"backends": backends * 2 if len(backends) == 1 else backends, "format": "native"}


def _asynchronous(*states: dict[str, Any], **more: Any) -> tuple[Operator, ...]:
    return tuple(one | _AT for one in operator(*states, **more))


def _subclass(type_: str) -> dict[str, Any]:
    return {"@class": f"{PACKAGE}.{type_}", "a": 1, "b": "x"}


_GROWING = state("s", "VALUE", _pojo("Grown"), _entry(_B))
_SHRINKING = state("s", "VALUE", _pojo("Shrunk"), _entry(_B))
_GROWN = state("s", "VALUE", _pojo("Grown"), _entry({**_B, "c": 0}))
_SHRUNK = state("s", "VALUE", _pojo("Shrunk"), _entry({"a": 1}))
_LATE = {**_TIMERS, "kind": "PROCESSING_TIMER", "entries": [{"key": "a", "timestamp": 4_102_444_800_000}]}
_HEAP_TIMERS = {"state.backend.rocksdb.timer-service.factory": "HEAP"}
_DOGS: tuple[Mapping[str, str], Mapping[str, str]] = (
    {},
    {"pipeline.registered-pojo-types": f"{PACKAGE}.Dog", "pipeline.serialization-config": f"{PACKAGE}.Dog: {{type: pojo}}"},
)

RECORD_PAIRS = (
    Pair("a record stays", *_same(_pojo("Fact"), _B)),
    Pair("a record gets a component", *_same(_pojo("Wider"), _B)),
    Pair("a record loses a component", *_same(_pojo("Narrower"), _B)),
    Pair("components of a record change places", *_same(_pojo("Turned"), {"a": 1, "b": 2})),
    Pair("a component of a record is renamed", *_same(_pojo("Retold"), _B)),
    Pair("a component of a record has another type", *_same(_pojo("Typed"), {"a": 1})),
    Pair("a boxed component with null becomes primitive", *_same(_pojo("Bare"), {"a": None, "b": "x"})),
    Pair("a boxed component becomes primitive", *_same(_pojo("Bare"), _B)),
    Pair("a class becomes a record", *_same(_pojo("Frozen"), _B)),
    Pair("a record becomes a class", *_same(_pojo("Thawed"), _B)),
    Pair("a record is a key", *_of_keys(_pojo("Point"), {"a": 1}, _pojo("Point"))),
    Pair("a record that is a key gets a component", *_of_keys(_pojo("Place"), {"a": 1}, _pojo("Place"))),
    Pair("a record inside a record grows", *_same(_pojo("Framed"), {"inner": _B, "n": 2})),
    Pair("a record in a list grows", *_of("LIST", _pojo("Wider"), _entry([_B]))),
    Pair("a record in a list of the operator shrinks", *_of("OPERATOR_LIST", _pojo("Narrower"), [_B], None)),
    Pair("a record that is the key of a map grows", *_of("MAP", "LONG", _entry([[{"a": 1}, 2]]), map_key_type=_pojo("Place"))),
)
"""Pairs with Java records: they are POJOs since Flink 1.19."""

SUBCLASS_PAIRS = (
    Pair("a subclass stays", *_same(_pojo("Animal"), _subclass("Dog"))),
    Pair("a subclass gets another field", *_same(_pojo("Beast"), _subclass("Wolf"))),
    replace(Pair("a subclass is registered", *_same(_pojo("Animal"), _subclass("Dog"))), settings=_DOGS),
    replace(Pair("a subclass is not registered any more", *_same(_pojo("Animal"), _subclass("Dog"))), settings=_DOGS[::-1]),
    replace(Pair("a subclass is registered in both", *_same(_pojo("Animal"), _subclass("Dog"))), settings=(_DOGS[1], _DOGS[1])),
    Pair("timers of processing time stay", operator(LONG, _LATE), operator(LONG, _LATE)),
    Pair("timers are added", operator(LONG), operator(LONG, _TIMERS | {"entries": []})),
    Pair("a list state becomes a map", operator(_LISTED), operator(_MAPPED | {"entries": []})),
    Pair("a value becomes nullable", *_value("LONG", "NULLABLE<LONG>", 7)),
    Pair("a decimal becomes a double", *_value("BIG_DEC", "DOUBLE", "1.5")),
    Pair("a text becomes bytes", *_value("STRING", "BYTES", "x")),
    Pair("a date of SQL becomes a local date", *_value("SQL_DATE", "LOCAL_DATE", "2024-02-29")),
    Pair("a time stamp becomes an instant", *_value("SQL_TIMESTAMP", "INSTANT", "2024-02-29 12:30:00")),
    Pair("a list of numbers becomes an array", *_value("LIST<LONG>", "LONG_ARRAY", [1, 2])),
    Pair("names of the fields of a row change", *_value("ROW<a:LONG>", "ROW<b:LONG>", {"kind": "+I", "fields": [1]})),
    Pair("a row gets a field", *_value("ROW<a:LONG>", "ROW<a:LONG,b:LONG>", {"kind": "+I", "fields": [1]})),
    Pair("a tuple becomes a row", *_value("TUPLE<LONG,LONG>", "ROW<LONG,LONG>", [1, 2])),
    Pair("an enum becomes a text", *_value(f"ENUM<{PACKAGE}.Color>", "STRING", "RED")),
    Pair("a key becomes a long", *_of_keys("INT", 7, "LONG")),
    Pair("the max parallelism stays with more subtasks", operator(*_BOTH), operator(*_BOTH), (2, 128), (4, 128)),
    Pair(
        "the savepoint is claimed",
        operator(LONG),
        operator(LONG),
        settings=({}, {"execution.state-recovery.claim-mode": "CLAIM", "execution.savepoint-restore-mode": "CLAIM"}),
    ),
    Pair("time-to-live is added to a POJO that grows", operator(_GROWING), operator(_GROWING | {"ttl": True, "entries": []})),
    Pair("time-to-live is dropped from a POJO that shrinks", operator(_SHRINKING | {"ttl": True}), operator(_SHRUNK)),
    Pair(
        "timers move from RocksDB to the heap", *(operator(LONG, _TIMERS),) * 2, **_native("rocksdb"), settings=({}, _HEAP_TIMERS)
    ),
    Pair(
        "timers move from the heap of RocksDB to a heap",
        *(operator(LONG, _TIMERS),) * 2,
        backends=("rocksdb", "hashmap"),
        settings=(_HEAP_TIMERS, {}),
    ),
)
"""Pairs with subclasses, timers, and types that programmers exchange."""

ASYNCHRONOUS_PAIRS = (
    Pair("asynchronous state stays", _asynchronous(LONG), _asynchronous(LONG), **_native("rocksdb")),
    Pair(
        "asynchronous state stays in ForSt",
        _asynchronous(LONG, _MAPPED | {"name": "m"}),
        _asynchronous(LONG, _MAPPED | {"name": "m"}),
        **_native("forst"),
    ),
    Pair("asynchronous state stays in a heap", _asynchronous(LONG), _asynchronous(LONG), **_native("hashmap")),
    Pair("state becomes asynchronous", operator(LONG), _asynchronous(LONG), **_native("rocksdb")),
    Pair("state becomes asynchronous in a heap", operator(LONG), _asynchronous(LONG), **_native("hashmap")),
    Pair("state becomes asynchronous in ForSt", operator(LONG), _asynchronous(LONG), **_native("forst")),
    Pair("canonical state becomes asynchronous", operator(LONG), _asynchronous(LONG), backends=("rocksdb", "rocksdb")),
    Pair("state becomes synchronous", _asynchronous(LONG), operator(LONG), **_native("rocksdb")),
    Pair("state becomes synchronous in ForSt", _asynchronous(LONG), operator(LONG), **_native("forst")),
    Pair("state becomes synchronous in a heap", _asynchronous(LONG), operator(LONG), **_native("hashmap")),
    Pair("an asynchronous POJO grows", _asynchronous(_GROWING), _asynchronous(_GROWN), **_native("forst")),
    Pair("an asynchronous POJO shrinks", _asynchronous(_SHRINKING), _asynchronous(_SHRUNK), **_native("forst")),
    Pair("an asynchronous value has another type", _asynchronous(LONG), _asynchronous(OTHER | {"name": "s"}), **_native("forst")),
    Pair(
        "time-to-live is added to asynchronous state",
        _asynchronous(LONG),
        _asynchronous(LONG | {"ttl": True}),
        **_native("forst"),
    ),
    Pair(
        "time-to-live is dropped from asynchronous state",
        _asynchronous(LONG | {"ttl": True}),
        _asynchronous(LONG),
        **_native("forst"),
    ),
    Pair("timers of asynchronous state stay", _asynchronous(LONG, _TIMERS), _asynchronous(LONG, _TIMERS), **_native("forst")),
    Pair(
        "an asynchronous state gets another name",
        _asynchronous(LONG),
        _asynchronous(LONG | {"name": "t"}),
        loses=True,
        **_native("forst"),
    ),
    Pair("an asynchronous value becomes a map", _asynchronous(LONG), _asynchronous(_MAPPED), **_native("forst")),
    Pair(
        "the key of asynchronous state has another type",
        _asynchronous(LONG),
        _asynchronous(LONG | {"entries": [{"key": 1, "value": 7}]}, key="LONG"),
        **_native("forst"),
    ),
    Pair("asynchronous state moves to ForSt", _asynchronous(LONG), _asynchronous(LONG), **_native("rocksdb", "forst")),
    Pair("asynchronous state moves to a heap", _asynchronous(LONG), _asynchronous(LONG), **_native("rocksdb", "hashmap")),
    Pair("an asynchronous list stays", _asynchronous(_LISTED), _asynchronous(_LISTED), **_native("forst")),
    Pair("timers become asynchronous in ForSt", operator(LONG, _TIMERS), _asynchronous(LONG, _TIMERS), **_native("forst")),
    Pair("timers become synchronous in ForSt", _asynchronous(LONG, _TIMERS), operator(LONG, _TIMERS), **_native("forst")),
    Pair("timers become asynchronous in RocksDB", operator(LONG, _TIMERS), _asynchronous(LONG, _TIMERS), **_native("rocksdb")),
    Pair("timers become synchronous in RocksDB", _asynchronous(LONG, _TIMERS), operator(LONG, _TIMERS), **_native("rocksdb")),
    Pair(
        "timers of asynchronous state move to ForSt",
        _asynchronous(LONG, _TIMERS),
        _asynchronous(LONG, _TIMERS),
        **_native("rocksdb", "forst"),
    ),
    Pair("a map becomes asynchronous in ForSt", operator(_MAPPED), _asynchronous(_MAPPED), **_native("forst")),
    Pair("a map becomes synchronous in ForSt", _asynchronous(_MAPPED), operator(_MAPPED), **_native("forst")),
    Pair("a list becomes asynchronous in ForSt", operator(_LISTED), _asynchronous(_LISTED), **_native("forst")),
    Pair("an asynchronous map stays", _asynchronous(_MAPPED), _asynchronous(_MAPPED), **_native("forst")),
    Pair(
        "state with time-to-live becomes asynchronous",
        operator(LONG | {"ttl": True}),
        _asynchronous(LONG | {"ttl": True}),
        **_native("forst"),
    ),
    Pair(
        "state with time-to-live becomes synchronous",
        _asynchronous(LONG | {"ttl": True}),
        operator(LONG | {"ttl": True}),
        **_native("forst"),
    ),
    Pair(
        "asynchronous state with time-to-live stays",
        _asynchronous(LONG | {"ttl": True}),
        _asynchronous(LONG | {"ttl": True}),
        **_native("forst"),
    ),
    Pair("an asynchronous POJO grows in RocksDB", _asynchronous(_GROWING), _asynchronous(_GROWN), **_native("rocksdb")),
    Pair("an asynchronous POJO shrinks in a heap", _asynchronous(_SHRINKING), _asynchronous(_SHRUNK), **_native("hashmap")),
    Pair(
        "time-to-live is added to asynchronous state in RocksDB",
        _asynchronous(LONG),
        _asynchronous(LONG | {"ttl": True}),
        **_native("rocksdb"),
    ),
    Pair(
        "time-to-live is dropped from asynchronous state in RocksDB",
        _asynchronous(LONG | {"ttl": True}),
        _asynchronous(LONG),
        **_native("rocksdb"),
    ),
    Pair(
        "asynchronous state with time-to-live stays in RocksDB",
        _asynchronous(LONG | {"ttl": True}),
        _asynchronous(LONG | {"ttl": True}),
        **_native("rocksdb"),
    ),
)
"""Pairs with the asynchronous state of Flink 2."""

ALL_PAIRS = (*PAIRS, *VALUE_PAIRS, *EDGE_PAIRS, *RECORD_PAIRS, *SUBCLASS_PAIRS, *ASYNCHRONOUS_PAIRS)


def without_uids(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs of the same jobs without uids. Jobs that only exchange uids are the same ones then."""
    named = [pair for pair in pairs if not any(one.get("anonymous") for one in (*pair.old, *pair.new)) and _keeps_order(pair)]
    return [
        replace(pair, name=f"{pair.name}, without uids", old=_without_uids(*pair.old), new=_without_uids(*pair.new))
        for pair in named
    ]


def _keeps_order(pair: Pair) -> bool:
    old, new = ([one["uid"] for one in operators] for operators in (pair.old, pair.new))
    return [uid for uid in old if uid in new] == [uid for uid in new if uid in old]
