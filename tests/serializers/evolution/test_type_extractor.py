"""What Flink infers for fields of Java classes."""

from __future__ import annotations

import pytest

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.evolution.type_extractor import inferred_by_flink
from state_processor.support.errors import OptionError
from state_processor.types.flink_types import Types

T = Types

POINT = "com.acme.Point"


@pytest.mark.parametrize(
    ("declared", "in_flink_1", "in_flink_2"),
    [
        (T.LIST(T.STRING()), "KRYO<java.util.List<java.lang.String>>", "NULLABLE<LIST<NULLABLE<STRING>>>"),
        (T.SET(T.LONG()), "KRYO<java.util.Set<java.lang.Long>>", "NULLABLE<SET<LONG>>"),
        (
            T.MAP(T.STRING(), T.LONG()),
            "KRYO<java.util.Map<java.lang.String,java.lang.Long>>",
            "NULLABLE<MAP<NULLABLE<STRING>,LONG>>",
        ),
        (T.NULLABLE(T.LIST(T.STRING())), "NULLABLE<LIST<STRING>>", "NULLABLE<LIST<STRING>>"),
        (T.LOCAL_DATE(), "KRYO<java.time.LocalDate>", "KRYO<java.time.LocalDate>"),
        (T.LOCAL_TIME(), "KRYO<java.time.LocalTime>", "KRYO<java.time.LocalTime>"),
        (T.LOCAL_DATE_TIME(), "KRYO<java.time.LocalDateTime>", "KRYO<java.time.LocalDateTime>"),
        (T.NULLABLE(T.LOCAL_DATE()), "NULLABLE<LOCAL_DATE>", "NULLABLE<LOCAL_DATE>"),
        (T.INSTANT(), "INSTANT", "INSTANT"),
        (T.SQL_DATE(), "SQL_DATE", "SQL_DATE"),
        (T.OBJECT_ARRAY(T.LOCAL_DATE()), *["OBJECT_ARRAY<KRYO<java.time.LocalDate>>"] * 2),
        (T.TUPLE([T.INT(), T.LOCAL_DATE()]), *["TUPLE<INT,KRYO<java.time.LocalDate>>"] * 2),
        (T.EITHER(T.INT(), T.LOCAL_TIME()), *["EITHER<INT,KRYO<java.time.LocalTime>>"] * 2),
        (
            T.LIST(T.LOCAL_DATE()),
            "KRYO<java.util.List<java.time.LocalDate>>",
            "NULLABLE<LIST<NULLABLE<KRYO<java.time.LocalDate>>>>",
        ),
        (T.LIST(T.KRYO("java.util.List<java.lang.Long>")), "KRYO<java.util.List<java.util.List<java.lang.Long>>>", None),
        (T.KRYO("java.util.List"), "KRYO<java.util.List>", "KRYO<java.util.List>"),
    ],
)
def test_types(declared: TypeSerializer, in_flink_1: str, in_flink_2: str | None) -> None:
    assert str(inferred_by_flink(declared, 1)) == in_flink_1
    if in_flink_2 is not None:
        assert str(inferred_by_flink(declared, 2)) == in_flink_2


def test_fields_of_pojos() -> None:
    declared = T.POJO(POINT, {"tags": T.LIST(T.STRING()), "inner": T.POJO(POINT + "2", {"ids": T.SET(T.INT())}), "x": T.INT()})
    inner, tags, x = inferred_by_flink(declared, 1).fields  # type: ignore[attr-defined]
    assert [str(tags.serializer), str(x.serializer)] == ["KRYO<java.util.List<java.lang.String>>", "INT"]
    assert [str(f.serializer) for f in inner.serializer.fields] == ["KRYO<java.util.Set<java.lang.Integer>>"]


def test_fields_of_pojos_inside_collections() -> None:
    inferred = inferred_by_flink(T.LIST(T.POJO(POINT, {"tags": T.LIST(T.STRING()), "x": T.INT()})), 2)
    (tags, x) = inferred.inner.element.inner.fields  # type: ignore[attr-defined]
    assert [str(tags.serializer), str(x.serializer)] == ["NULLABLE<LIST<NULLABLE<STRING>>>", "INT"]


@pytest.mark.parametrize(
    "nested",
    [
        T.LIST(T.LIST(T.INT())),
        T.MAP(T.STRING(), T.SET(T.INT())),
        T.SET(T.MAP(T.INT(), T.INT())),
        T.LIST(T.TUPLE([T.INT()])),
        T.LIST(T.KRYO("java.util.List<java.lang.Long>")),
    ],
)
def test_collections_of_types_with_arguments_stay_with_kryo(nested: TypeSerializer) -> None:
    with pytest.raises(OptionError, match=r'give KRYO\("java.util.List"\)'):
        inferred_by_flink(nested, 2)


def test_classes_that_kryo_does_not_know_have_to_be_described() -> None:
    with pytest.raises(OptionError, match="does not map to a Java type"):
        inferred_by_flink(T.LIST(T.POJO("com.acme.Undescribed", {"x": T.INT()})), 1)


def test_versions() -> None:
    assert str(T.INFERRED(T.LIST(T.INT()))) == "KRYO<java.util.List<java.lang.Integer>>"
    assert str(T.INFERRED(T.LIST(T.INT()), "2.x")) == "NULLABLE<LIST<NULLABLE<INT>>>"
    with pytest.raises(OptionError, match="a version like"):
        T.INFERRED(T.LIST(T.INT()), "newest")


def test_fields_of_subclasses() -> None:
    inferred = T.INFERRED(T.POJO(POINT, {"x": T.LOCAL_DATE()}, {POINT + "3": {"z": T.LIST(T.INT())}}))
    (subclass,) = inferred.registered.values()  # type: ignore[attr-defined]
    assert [str(f.serializer) for f in subclass.fields] == [
        "KRYO<java.time.LocalDate>",
        "KRYO<java.util.List<java.lang.Integer>>",
    ]
