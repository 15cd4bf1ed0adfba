"""Names of fields in snapshots of rows (version 4, Flink 2.4): read, kept, and not contradicted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import Verdict
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.serializers.table.logical_types import AtomicType, LogicalType, RowType, TextType
from state_processor.serializers.table.row_names import row_names, with_row_names
from state_processor.serializers.table.rowdata import ROW_SNAPSHOT, RowDataSerializer, RowDataSerializerSnapshot, resolve_by_name
from state_processor.support.errors import CorruptSnapshotError, OptionError
from tests.serializers.harness import PLAIN, check_codec

INT, LONG, STRING = AtomicType("INT"), AtomicType("BIGINT"), TextType()
NOT_NULL = AtomicType("INT", nullable=False)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


def row(**fields: LogicalType) -> RowType:
    return RowType.of(*fields.values()).renamed(list(fields))


def written(type_: RowType, names: Sequence[str] | None, version: int = 4) -> RowDataSerializer:
    """A serializer as a snapshot restores it; rows inside have names where the outermost row has."""
    new = RowDataSerializer(type_).new_snapshot()
    assert isinstance(new, RowDataSerializerSnapshot)
    nested = [
        written(t, None if names is None else t.names, version).snapshot() if isinstance(t, RowType) else s
        for t, s in zip(type_.types, new.nested, strict=True)
    ]
    data = RowDataSerializerSnapshot(ROW_SNAPSHOT, new.types, nested, version, names).to_bytes()
    serializer = read_serializer_snapshot(data).restore_serializer()
    assert isinstance(serializer, RowDataSerializer)
    assert serializer.snapshot().to_bytes() == data
    return serializer


@given(st.lists(NAMES, max_size=5, unique=True), st.booleans())
def test_names_are_read_and_written_again(names: list[str], named: bool) -> None:
    serializer = written(RowType.of(*[INT] * len(names)), names if named else None)
    expected = names if named else [f"f{i}" for i in range(len(names))]
    assert [f.name for f in serializer.arrow_type(PLAIN)] == expected


def test_the_bytes_are_those_of_flink() -> None:
    three = RowDataSerializer(row(id=LONG, name=STRING)).new_snapshot().to_bytes()
    four = written(row(id=LONG, name=STRING), ["id", "näme"]).snapshot().to_bytes()
    start = 2 + len(ROW_SNAPSHOT)
    assert four[:start] == three[:start]
    assert four[start : start + 4] == b"\0\0\0\4"
    assert four[start + 4 :] == three[start + 4 :] + b"\1\0\2id\0\5n\xc3\xa4me"
    assert written(row(id=LONG), None).snapshot().to_bytes().endswith(b"\0")


def test_values_have_the_names() -> None:
    serializer = written(row(f0=LONG, f1=row(x=INT)), ["id", "place"])
    check_codec(serializer, [serializer.row({"id": 5, "place": {"x": 7}})])
    assert str(serializer) == "ROW<`id` BIGINT, `place` ROW<`x` INT>>"
    value = serializer.deserialize(serializer.serialize({"id": 5, "place": None}))
    assert serializer.to_column(value, PLAIN) == {"id": 5, "place": None}


def test_new_rows_are_written_as_every_flink_reads_them() -> None:
    assert RowDataSerializer(row(id=LONG)).snapshot().version == 3


def test_names_end_early() -> None:
    data = written(row(id=LONG), ["id"]).snapshot().to_bytes()
    with pytest.raises(CorruptSnapshotError):
        read_serializer_snapshot(data[:-1])


@pytest.mark.parametrize(
    "around",
    [
        lambda r: TtlSerializer(NumberSerializer("LONG"), r),
        ListSerializer,
        lambda r: MapSerializer(NumberSerializer("INT"), r),
        lambda r: MapSerializer(r, ListSerializer(r)),
    ],
)
def test_names_inside_of_other_types(around) -> None:  # type: ignore[no-untyped-def]
    serializer: TypeSerializer = around(written(row(f0=LONG, f1=INT), ["id", "level"]))
    again = read_serializer_snapshot(serializer.snapshot().to_bytes()).restore_serializer()
    assert set(row_names(again)) == {("id", "level")}
    assert again.snapshot().to_bytes() == serializer.snapshot().to_bytes()


def test_a_plan_or_a_user_may_name_what_has_a_generated_name() -> None:
    serializer = written(RowType.of(LONG, INT, INT, INT), ["id", "f1", "$f2", "EXPR$0"])
    named = with_row_names(serializer, (("id", "level", "SUM(x)", "COUNT(*)"),))
    assert row_names(named) == (("id", "level", "SUM(x)", "COUNT(*)"),)
    assert named.snapshot().to_bytes() == serializer.snapshot().to_bytes()
    assert row_names(with_row_names(serializer, (("f0", "f1", "f2", "f3"),))) == (("id", "f1", "$f2", "EXPR$0"),)


@pytest.mark.parametrize("names", [("level", "id"), ("id", "stage"), ("f1", "level")])
def test_other_names_are_refused(names: tuple[str, str]) -> None:
    serializer = written(RowType.of(INT, INT), ["id", "level"])
    with pytest.raises(OptionError, match=r"the snapshot names it '(id|level)': it has id, level; give these names, or none"):
        with_row_names(serializer, (names,))


def test_names_that_occur_twice_are_made_distinct() -> None:
    serializer = written(RowType.of(INT, INT), ["a", "a"])
    assert row_names(serializer) == (("a", "a_1"),)
    assert row_names(with_row_names(serializer, row_names(serializer))) == (("a", "a_1"),)


NESTED = row(id=INT, place=row(x=INT, y=STRING))


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        (row(a=INT, b=STRING), row(a=INT, b=STRING), "as_is", ""),
        (row(a=INT, b=STRING), row(a=INT, b=STRING, c=INT), "after_migration", ""),
        (row(a=INT, c=LONG), row(a=INT, b=INT, c=LONG), "after_migration", ""),
        (row(a=INT, b=LONG), row(b=LONG, a=INT), "after_migration", ""),
        (row(a=INT, b=INT), row(b=INT, a=INT), "after_migration", ""),
        (row(a=INT), row(x=INT), "incompatible", "field 'a' was written, but the new row lacks it"),
        (row(a=INT), row(a=INT, b=NOT_NULL), "incompatible", "field 'b' is new and must not be null"),
        (row(a=INT, b=LONG), row(a=INT), "incompatible", "field 'b' was written"),
        (row(a=INT, b=INT), row(a=INT, b=LONG), "incompatible", "field 'b' was written as INT, BIGINT is required"),
        (NESTED, row(id=INT, place=row(y=STRING, x=INT, z=INT)), "after_migration", ""),
        (NESTED, row(id=INT, place=row(x=LONG, y=STRING)), "incompatible", "field 'x' was written as INT, BIGINT is required"),
        (NESTED, row(id=INT, place=row(x=INT)), "incompatible", "field 'y' was written"),
    ],
)
def test_fields_are_matched_by_name(old: RowType, new: RowType, verdict: str, reason: str) -> None:
    before = written(old, old.names)
    for wrap in (lambda s: s, TtlSerializer.of):
        found = resolve_by_name(wrap(before), wrap(RowDataSerializer(new)))
        assert found is not None
        assert str(found.verdict.name).lower().removeprefix("compatible_") == verdict
        assert reason in found.reason


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (row(a=INT, b=LONG), row(x=INT, y=LONG), "as_is"),
        (row(a=INT, b=LONG), row(a=INT, b=LONG, c=INT), "after_migration"),
        (row(a=INT, b=LONG), row(a=INT, b=LONG, c=NOT_NULL), "incompatible"),
        (row(a=INT, b=LONG), row(a=INT, b=INT, c=INT), "incompatible"),
        (row(a=INT, b=LONG), row(b=LONG, a=INT), "incompatible"),
        (row(a=INT, b=LONG), row(a=INT), "incompatible"),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
def test_rows_without_names_may_only_get_more_fields(version: int, old: RowType, new: RowType, verdict: str) -> None:
    found = resolve_by_name(written(old, None, version), RowDataSerializer(new))
    assert found is not None
    assert str(found.verdict.name).lower().removeprefix("compatible_") == verdict


def test_without_the_option_names_do_not_count() -> None:
    before = written(row(a=INT, b=INT), ["a", "b"]).snapshot()
    assert before.resolve_schema_compatibility(RowDataSerializer(row(b=INT, a=INT))).verdict is Verdict.COMPATIBLE_AS_IS
    assert before.resolve_schema_compatibility(RowDataSerializer(row(a=INT, b=INT, c=INT))).is_incompatible


def test_time_to_live_that_is_turned_on_migrates() -> None:
    before = written(row(a=INT), ["a"])
    found = resolve_by_name(before, TtlSerializer.of(RowDataSerializer(row(a=INT))))
    assert found is not None
    assert found.verdict is Verdict.COMPATIBLE_AFTER_MIGRATION
    assert resolve_by_name(before, NumberSerializer("INT")) is None
