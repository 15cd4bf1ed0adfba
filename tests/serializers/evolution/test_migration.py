"""Types of Flink 1.x in Flink 2.x, and conversion of values of Kryo 2 to its serializers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import state_processor as sp
from state_processor.serializers import register_kryo_class
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot, read_versioned_snapshot
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.nullable import EITHER_SNAPSHOT, LEGACY_EITHER_SNAPSHOT, EitherSerializerSnapshot
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.unread import OptionalEntry
from state_processor.serializers.evolution.migrated_values import ElementClasses, Observations, converting
from state_processor.serializers.evolution.migration import (
    LOST_KRYO_SERIALIZERS,
    TypeMigration,
    collection_of,
    inferred_by_flink,
    with_kryo_5,
)
from state_processor.serializers.io import DataInput
from state_processor.serializers.kryo.serializer import KryoSerializer, KryoSerializerSnapshot
from state_processor.serializers.runtime.scala import OptionSerializer
from state_processor.serializers.runtime.stream_records import (
    OLD_TWO_PHASE_COMMIT_SNAPSHOT,
    TWO_PHASE_COMMIT_SNAPSHOT,
    TwoPhaseCommitStateSerializer,
)
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.support.errors import UndecodableValueError, UnsupportedFormatError

T = sp.Types
LIST, SET, MAP, DATE = "java.util.List", "java.util.Set", "java.util.Map", "java.time.LocalDate"
COLOUR, POINT = "com.acme.Colour", "com.acme.Point"

register_kryo_class(COLOUR, ["RED", "GREEN"])
register_kryo_class(POINT, {"x": "int", "name": "java.lang.String"})


def kryo(class_name: str) -> KryoSerializer:
    """As Flink 1.x has it."""
    return KryoSerializer(class_name, flink=1, snapshot=_read(KryoSerializerSnapshot.of(class_name), 1))  # type: ignore[arg-type]


def _read(snapshot: TypeSerializerSnapshot, flink_major: int | None = None) -> TypeSerializerSnapshot:
    return read_versioned_snapshot(DataInput(snapshot.to_bytes(), flink_major=flink_major))


def of_flink_1(type_: TypeSerializer) -> TypeSerializer:
    """A type as the header of a savepoint of Flink 1.x gives it."""
    return _read(type_.snapshot(), 1).restore_serializer()


def migrate(old: TypeSerializer, types: dict[str, TypeSerializer] | None = None) -> tuple[Callable[[bytes], bytes], Any]:
    """What turns old bytes into new ones, and the migration; types that are not given are found in no values."""
    migration = TypeMigration(types or {}, converting)
    migrated = migration.migrate(old.snapshot())
    reading, new = migrated.reading.restore_serializer(), migrated.new.restore_serializer()
    migration.new = new  # type: ignore[attr-defined]
    return lambda data: new.serialize(reading.deserialize(data)), migration


VALUES = [
    (LIST, '["a", null, "c"]', T.LIST(T.STRING()), ["a", None, "c"]),
    (LIST, "[]", T.LIST(T.STRING()), []),
    ("java.util.Collection", '["x"]', T.LIST(T.STRING()), ["x"]),
    (SET, '["a"]', T.SET(T.STRING()), ["a"]),
    (MAP, '{"a": "b", "c": null}', T.MAP(T.STRING(), T.STRING()), [("a", "b"), ("c", None)]),
]


@pytest.mark.parametrize(("declared", "json", "type_", "value"), VALUES)
def test_collections_of_kryo_become_those_of_flink(declared: str, json: str, type_: TypeSerializer, value: Any) -> None:
    """In a field of a POJO; the field has its own null flag."""
    old = of_flink_1(T.POJO("com.acme.P", {"many": T.KRYO(declared), "n": T.INT()}))
    convert, migration = migrate(old, {"many": type_})
    data = old.serialize(old.from_column({"many": json, "n": 7}))
    assert dict(migration.new.deserialize(convert(data))) == {"many": value, "n": 7}
    assert convert(data) == bytes([2, 0]) + inferred_by_flink(type_, 2).serialize(value) + bytes([0, 0, 0, 0, 7])
    absent = old.serialize(old.from_column({"many": None, "n": 7}))
    assert convert(absent) == absent == bytes([2, 1, 0, 0, 0, 0, 7])
    assert [str(n) for n in migration.changes] == [f"many: KRYO<{declared}> becomes {inferred_by_flink(type_, 2)}"]
    assert migration.used == {"many"}


def test_what_stays_with_kryo_has_the_bytes_of_kryo_5() -> None:
    for class_name, shown in ((DATE, "2024-02-29"), ("java.util.BitSet", [1, 70]), (LIST, '["a", "b"]')):
        old = kryo(class_name)
        convert, migration = migrate(old, {"": T.KRYO(class_name)})
        data = old.serialize(old.from_column(shown))
        assert convert(data) == old.for_flink(2).serialize(old.from_column(shown)) != data
        assert convert(old.serialize(None)) == b"\0"
        assert [str(n) for n in migration.changes] == [f"KRYO<{class_name}>: from Kryo 2 to Kryo 5"]


def test_a_type_may_be_named_for_anything_of_kryos() -> None:
    convert, migration = migrate(kryo(DATE), {"": T.LOCAL_DATE()})
    assert convert(kryo(DATE).serialize("2024-02-29")) == T.LOCAL_DATE().serialize(T.LOCAL_DATE().from_column("2024-02-29"))
    assert [str(n) for n in migration.changes] == [f"KRYO<{DATE}> becomes LOCAL_DATE"]
    convert, _ = migrate(kryo(POINT), {"": T.POJO(POINT, {"name": T.STRING(), "x": T.INT()})})
    pojo = T.POJO(POINT, {"name": T.STRING(), "x": T.INT()})
    assert convert(kryo(POINT).serialize({"x": 3, "name": "p"})) == pojo.serialize(pojo.from_column({"x": 3, "name": "p"}))


def test_elements_that_stay_with_kryo() -> None:
    convert, migration = migrate(kryo(LIST), {"": T.LIST(T.KRYO(DATE))})
    converted = convert(KryoSerializer(f"{LIST}<{DATE}>", [LIST], flink=1).serialize(["2024-02-29", None]))
    day = KryoSerializer(DATE, flink=2).serialize("2024-02-29")
    assert converted == bytes([0, 0, 0, 0, 2, 0]) + day + b"\1"  # not null, two elements, one not null, one null
    assert str(migration.new) == f"NULLABLE<LIST<NULLABLE<KRYO<{DATE}>>>>"


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (T.LIST(T.LONG()), "an object of class java.lang.String can't be a value of LONG"),
        (T.SET(T.INT()), "java.lang.String can't be a value of INT"),
        (T.MAP(T.STRING(), T.INT()), "java.util.ArrayList can't be a value of MAP"),
        (T.STRING(), "java.util.ArrayList can't be a value of STRING"),
    ],
)
def test_values_of_other_types_than_named(type_: TypeSerializer, message: str) -> None:
    convert, _ = migrate(kryo(LIST), {"": type_})
    with pytest.raises(UndecodableValueError, match=message):
        convert(kryo(LIST).serialize('["a"]'))


def test_paths() -> None:
    """Through POJOs, tuples, rows, lists, maps, Either, arrays; null and times of last access add nothing."""
    inner = T.POJO("com.acme.Inner", {"days": T.KRYO(DATE)})
    whole = T.TUPLE(
        [
            T.LIST(inner),
            T.MAP(T.KRYO(DATE), T.ROW([T.INT(), inner])),
            T.EITHER(T.KRYO(DATE), T.NULLABLE(inner)),
            T.OBJECT_ARRAY(inner),
        ]
    )
    _, migration = migrate(of_flink_1(TtlSerializer.of(whole)))
    assert [n.path for n in migration.changes] == [
        "f0.element.days",
        "f1.key",
        "f1.value.f1.days",
        "f2.left",
        "f2.right.days",
        "f3.element.days",
    ]
    assert migration.problems == []


def test_subclasses() -> None:
    """What a subclass inherits has the path of the class; its own fields have its name before them."""
    base = PojoSerializer.of("com.acme.Shape", {"tags": T.KRYO(LIST)})
    circle = PojoSerializer(
        "com.acme.Circle", [*base.fields, *PojoSerializer.of("com.acme.Circle", {"when": T.KRYO(DATE)}).fields]
    )
    shape = of_flink_1(PojoSerializer("com.acme.Shape", base.fields, {"com.acme.Circle": circle}))
    convert, migration = migrate(shape, {"tags": T.LIST(T.STRING())})
    assert sorted(n.path for n in migration.changes) == ["Circle.when", "tags"]
    value = {"_class": "com.acme.Circle", "tags": '["a"]', "when": "2024-02-29"}
    read = migration.new.deserialize(convert(shape.serialize(shape.from_column(value))))
    assert (read.class_name, read["tags"], str(read["when"].value)) == ("com.acme.Circle", ["a"], "2024-02-29")


def test_undecided_collections_are_named_and_not_read() -> None:
    convert, migration = migrate(of_flink_1(T.TUPLE([T.INT(), T.KRYO(LIST)])))
    assert migration.undecided == {"f1": LIST}
    with pytest.raises(UnsupportedFormatError, match="f1: the type of its elements is unknown"):
        convert(bytes(4) + kryo(LIST).serialize("[]"))


@pytest.mark.parametrize(
    ("declared", "jsons", "decided"),
    [
        (LIST, ['["a"]', "[]", '["b", null]'], "LIST<STRING>"),
        (SET, ['["a"]'], "SET<STRING>"),
        (MAP, ['{"a": "b"}', '{"a": null}'], "MAP<STRING,STRING>"),
        (LIST, ["[]", "[null]"], "all elements are null or missing"),
        (MAP, ['{"a": null}'], "all values are null or missing"),
        (LIST, ['[["a"]]'], f"KRYO<{LIST}>"),
    ],
)
def test_types_that_values_tell(declared: str, jsons: list[str], decided: str) -> None:
    seen = Observations()
    migration = TypeMigration({}, seen.adapt)
    reading = migration.migrate(kryo(declared).snapshot()).reading.restore_serializer()
    for json in jsons:
        data = kryo(declared).serialize(json)
        assert reading.deserialize(data) == kryo(declared).deserialize(data)
    assert str(seen.elements_by_path[""].decide()).startswith(decided)


@pytest.mark.parametrize(
    ("classes", "decided"),
    [
        ({"java.lang.Integer"}, "LIST<INT>"),
        ({"java.util.Date"}, "LIST<DATE>"),
        ({"java.time.Instant"}, "LIST<INSTANT>"),
        ({DATE}, f"LIST<KRYO<{DATE}>>"),
        ({"[B"}, "LIST<BYTES>"),
        ({"[Ljava.lang.Long;"}, "LIST<BOXED_LONG_ARRAY>"),
        ({COLOUR}, f"LIST<ENUM<{COLOUR}>>"),
        ({"java.util.HashMap", "java.util.TreeMap"}, f"KRYO<{LIST}>"),
        ({"java.util.Optional"}, f"KRYO<{LIST}>"),
        ({"java.util.Collections$EmptyMap"}, f"KRYO<{LIST}>"),
        ({"java.lang.Integer", "java.lang.Long"}, "its elements are of several classes: java.lang.Integer, java.lang.Long"),
        ({POINT}, f"its elements are of class {POINT}, and only the job decides whether that is a POJO"),
    ],
)
def test_types_of_classes(classes: set[str], decided: str) -> None:
    assert str(ElementClasses(LIST, (classes,)).decide()).startswith(decided)


def test_found_in_several_parts() -> None:
    one, other = ElementClasses(MAP, ({"java.lang.String"}, set())), ElementClasses(MAP, (set(), {"java.lang.Long"}))
    one.add(other)
    assert str(one.decide()) == "MAP<STRING,LONG>"
    assert str(collection_of("java.lang.Iterable", [T.INT()])) == "LIST<INT>"


def test_renamed_snapshots() -> None:
    old = TwoPhaseCommitStateSerializer(T.STRING(), T.LONG(), snapshot_class=OLD_TWO_PHASE_COMMIT_SNAPSHOT, outer_version=3)
    _, migration = migrate(old)
    assert migration.new.snapshot().class_name == TWO_PHASE_COMMIT_SNAPSHOT
    assert [str(n) for n in migration.changes] == [f"{OLD_TWO_PHASE_COMMIT_SNAPSHOT} is called {TWO_PHASE_COMMIT_SNAPSHOT} now"]
    either = EitherSerializerSnapshot(LEGACY_EITHER_SNAPSHOT, [T.STRING().snapshot(), T.LONG().snapshot()], 2)
    migrated = TypeMigration({}, converting).migrate(either)
    assert migrated.new.to_bytes() == T.EITHER(T.STRING(), T.LONG()).snapshot().to_bytes()
    assert migrated.new.to_bytes() == _read(migrated.new).to_bytes()
    assert EITHER_SNAPSHOT.encode() in migrated.new.to_bytes()


def test_scala_has_no_successor() -> None:
    _, migration = migrate(T.LIST(OptionSerializer(T.STRING())))
    assert [(n.path, n.text.rpartition(": ")[2]) for n in migration.problems] == [
        ("element", "Flink 2.0 has removed the Scala API and its serializers")
    ]


def test_what_flink_2_wrote_stays() -> None:
    snapshot = _read(T.POJO("com.acme.P", {"a": T.KRYO(LIST), "b": T.KRYO(DATE)}).snapshot(), 2)
    migration = TypeMigration({}, converting)
    assert not migration.migrate(snapshot).is_changed
    assert (migration.changes, migration.undecided) == ([], {})


def test_nothing_changes_without_kryo() -> None:
    type_ = T.POJO("com.acme.P", {"a": T.LIST(T.STRING()), "b": T.TUPLE([T.INT(), ListSerializer(T.LONG())])}).snapshot()
    migrated = TypeMigration({}, converting).migrate(type_)
    assert migrated.new is type_
    assert migrated.reading is type_


def test_serializers_for_kryo_that_flink_lost() -> None:
    """Flink 2.x without Avro has a stand-in for it, as Flink 1.x without Avro."""
    plain = KryoSerializerSnapshot.of(DATE)
    lost = b"\0\x01A\0\0\0\1\0\x20" + f"{LOST_KRYO_SERIALIZERS[0]}ForArrayList".encode()
    entries = tuple(OptionalEntry(e.name, e.key, lost) if "Array" in e.name else e for e in plain.registrations)
    others = (OptionalEntry("com.acme.A", b"", b"\0\4com."), OptionalEntry("com.acme.B", b"", LOST_KRYO_SERIALIZERS[1].encode()))
    written = KryoSerializerSnapshot(plain.class_name, None, DATE, entries, (), others)
    assert written.registrations != plain.registrations
    assert with_kryo_5(written).default_serializer_classes == others[:1]
    assert with_kryo_5(written).registrations == plain.registrations
    assert with_kryo_5(written).flink == 2
