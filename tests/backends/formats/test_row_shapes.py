from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.formats import row_shapes as shapes
from state_processor.support.errors import UndecodableValueError

MAP = pa.map_(pa.string(), pa.int64())


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_points_in_time_of_milliseconds() -> None:
    first, last = -62_135_596_800_000, 253_402_300_799_999
    given_ = [1, -1, first, last, first - 1, last + 1, 2**63 - 1, -(2**63)]
    found = shapes.instants(pa.array(given_, pa.int64()))
    assert found.type == pa.timestamp("us", tz="UTC")
    assert found.cast(pa.int64()).to_pylist() == [1000, -1000, first * 1000, last * 1000, None, None, None, None]


def rows(found: pa.RecordBatch) -> list[tuple]:
    return [tuple(r.values()) for r in found.to_pylist()]


@given(st.lists(st.lists(st.integers(0, 9), max_size=4) | st.none(), max_size=8), st.data())
def test_lists_are_flattened_with_their_index(lists, data) -> None:
    whole = batch(key=pa.array(range(len(lists)), pa.int64()), value=pa.array(lists, pa.list_(pa.int64())))
    start = data.draw(st.integers(0, len(lists)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "MOST_ELEMENTS", data.draw(st.integers(1, 9)))
        found = list(shapes.explode_list(whole.slice(start), "value"))
        assert all(0 < part.num_rows <= shapes.MOST_ELEMENTS for part in found)
    assert all(part.schema.names == ["key", "list_index", "list_value"] for part in found)
    expected = [(k, i, v) for k, of in list(enumerate(lists))[start:] for i, v in enumerate(of or [])]
    assert [row for part in found for row in rows(part)] == expected


PAIRS = st.lists(st.tuples(st.text("ab", max_size=2), st.integers(0, 9) | st.none()), max_size=4)


@given(st.lists(PAIRS | st.none(), max_size=8), st.data())
def test_maps_are_flattened(maps, data) -> None:
    whole = batch(key=pa.array(range(len(maps)), pa.int64()), value=pa.array(maps, MAP))
    start = data.draw(st.integers(0, len(maps)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "MOST_ELEMENTS", data.draw(st.integers(1, 9)))
        found = list(shapes.explode_map(whole.slice(start), "value", "k", "v"))
    expected = [(n, k, v) for n, of in list(enumerate(maps))[start:] for k, v in of or []]
    assert [row for part in found for row in rows(part)] == expected


@given(st.lists(st.integers(1, 5), max_size=8), st.data())
def test_collecting_is_the_inverse_wherever_batches_end(runs, data) -> None:
    flat = [(g, f"{g}-{i}", i) for g, n in enumerate(runs) for i in range(n)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(flat)), max_size=6)))
    parts = [flat[a:b] for a, b in zip([0, *cuts], [*cuts, len(flat)], strict=True)]
    batches = [
        batch(
            group=pa.array([bytes([g]) for g, _, _ in part], pa.binary()),
            k=pa.array([k for _, k, _ in part], pa.string()),
            v=pa.array([v for _, _, v in part], pa.int64()),
        )
        for part in parts
    ]
    found = [r for b in shapes.collect_map(iter(batches), "group", "k", "v", "value") for r in rows(b)]
    assert found == [(bytes([g]), [(f"{g}-{i}", i) for i in range(n)]) for g, n in enumerate(runs)]


def test_null_keys_have_no_place_in_maps() -> None:
    flat = batch(group=pa.array([b"a"]), k=pa.array([None], pa.string()), v=pa.array([1]))
    with pytest.raises(UndecodableValueError, match="null key"):
        list(shapes.collect_map(iter([flat]), "group", "k", "v", "value"))


def test_time_of_last_access_is_taken_out() -> None:
    type_ = pa.struct([("_last_access", shapes.TIMESTAMP), ("value", pa.string())])
    wrapped = pa.array([{"_last_access": 5, "value": "a"}, None], type_)
    found = shapes.split_ttl(batch(key=pa.array([1, 2]), v=wrapped), "v")
    assert found.schema.names == ["key", "v", "_last_access"]
    assert found.column("v").to_pylist() == ["a", None]
    assert found.column("_last_access").cast(pa.int64()).to_pylist() == [5, None]


NARROW = pa.struct([("b", pa.int64()), ("a", pa.list_(pa.struct([("x", pa.int32())])))])
WIDE_ELEMENT = pa.struct([("x", pa.int32()), ("y", pa.string())])
WIDE = pa.struct([("_class", pa.string()), ("a", pa.list_(WIDE_ELEMENT)), ("b", pa.int64())])


@pytest.mark.parametrize("start", [0, 1, 2])
def test_structs_get_the_fields_they_lack(start: int) -> None:
    values = [{"b": 1, "a": [{"x": 5}, None]}, None, {"b": None, "a": None}, {"b": 2, "a": []}]
    found = shapes.conform(pa.array(values, NARROW).slice(start), WIDE)
    assert found.type == WIDE
    expected = [
        {"_class": None, "a": [{"x": 5, "y": None}, None], "b": 1},
        None,
        {"_class": None, "a": None, "b": None},
        {"_class": None, "a": [], "b": 2},
    ]
    assert found.to_pylist() == expected[start:]
    found.validate(full=True)


@pytest.mark.parametrize("start", [0, 1])
def test_maps_and_lists_conform_inside(start: int) -> None:
    narrow, wide = pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int32()), ("y", pa.int32())])
    values = [[("k", {"x": 1})], None, [("l", None)]]
    found = shapes.conform(pa.array(values, pa.map_(pa.string(), narrow)).slice(start), pa.map_(pa.string(), wide))
    assert found.to_pylist() == [[("k", {"x": 1, "y": None})], None, [("l", None)]][start:]
    found.validate(full=True)


def test_nothing_but_nulls_fits_any_type() -> None:
    assert shapes.conform(pa.nulls(2, pa.string()), WIDE).to_pylist() == [None, None]
    assert shapes.conform(pa.array([], pa.string()), pa.int64()).type == pa.int64()


def test_values_that_do_not_fit_are_our_error() -> None:
    assert shapes.conform(pa.array([1], pa.int32()), pa.int64()).to_pylist() == [1]
    with pytest.raises(UndecodableValueError, match="type string do not fit the column's type int64"):
        shapes.conform(pa.array(["x"]), pa.int64())


def test_rows_get_the_columns_they_lack_and_wider_types() -> None:
    rows_of_first = batch(b=pa.array([1, None], pa.int32()), a=pa.array(["x", "y"]))
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("c", pa.list_(pa.int8()))])
    found = shapes.with_schema(rows_of_first, schema)
    assert found.schema == schema
    assert rows(found) == [("x", 1, None), ("y", None, None)]


def test_batches_are_joined_in_their_order() -> None:
    parts = [batch(n=pa.array([1, 2]), t=pa.array(["a", None])), batch(n=pa.array([], pa.int64()), t=pa.array([], pa.string()))]
    assert rows(shapes.concatenate([*parts, parts[0].slice(1)])) == [(1, "a"), (2, None), (2, None)]


def test_wider_types() -> None:
    merged = shapes.wider(NARROW, WIDE)
    assert merged.field("_class").type == pa.string()
    assert [f.name for f in merged] == ["b", "a", "_class"]
    assert merged.field("a").type == pa.list_(WIDE_ELEMENT)
    assert shapes.wider(pa.map_(pa.string(), NARROW), pa.map_(pa.string(), WIDE)) == pa.map_(pa.string(), merged)
    assert shapes.wider(pa.null(), pa.int64()) == shapes.wider(pa.int64(), pa.null()) == pa.int64()


def test_wider_schemas_keep_the_order_of_columns() -> None:
    first, second = pa.schema([("a", pa.null()), ("b", pa.int64())]), pa.schema([("c", pa.string()), ("a", pa.int32())])
    assert shapes.wider_schema([first, second]) == pa.schema([("a", pa.int32()), ("b", pa.int64()), ("c", pa.string())])
