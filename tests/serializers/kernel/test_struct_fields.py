"""Which field of a struct is which field of a type: for every kind of type, at every depth, in the kernel and in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.kernel.encode.conversion import match_fields
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.runtime.scala import CaseClassSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.serializers.shared_types import PortableType
from state_processor.serializers.table.row_names import row_names, with_row_names
from state_processor.support.errors import InvalidRowError, OptionError
from state_processor.types.flink_types import Types

T = Types
FIELDS = (T.STRING(), T.INT())
ROW = T.ROW(FIELDS)
ROW_XY = T.ROW_NAMED(["x", "y"], FIELDS)
ROW_F1_F0 = T.ROW_NAMED(["f1", "f0"], FIELDS)
TUPLE = T.TUPLE(FIELDS)
PAIR = T.TUPLE([T.STRING()] * 2)
CASE_CLASS = CaseClassSerializer("com.acme.Pair", FIELDS)
DATA = T.ROW_DATA(["STRING", "INT"])
DATA_XY = T.ROW_DATA("x STRING, y INT")

MATCHING = [
    *((type_, names, ("a", 1)) for type_ in (ROW, TUPLE, CASE_CLASS, DATA) for names in ("f0 f1", "_1 _2", "col1 col2")),
    *((type_, names, row) for type_ in (ROW_XY, DATA_XY) for names, row in (("x y", ("a", 1)), ("y x", (1, "a")))),
    (ROW_F1_F0, "f1 f0", ("a", 1)),
    (ROW_F1_F0, "f0 f1", (1, "a")),
]
REFUSED = [
    *((type_, names) for type_ in (ROW, TUPLE, CASE_CLASS, DATA) for names in ("f1 f0", "_2 _1", "x y", "f0 x", "f1 f2", "f0")),
    *((type_, names) for type_ in (ROW_XY, DATA_XY) for names in ("f0 f1", "_1 _2", "x", "x y z", "X Y", "x x")),
    *((ROW_F1_F0, names) for names in ("_1 _2", "col1 col2", "f0")),
]
TYPED = {"a": pa.string(), 1: pa.int32()}

Nesting = Callable[[Any], Any]
PLACES: dict[str, tuple[Callable[[TypeSerializer], TypeSerializer], Callable[[pa.DataType], pa.DataType], Nesting]] = {
    "alone": (lambda t: t, lambda t: t, lambda v: v),
    "list": (T.LIST, pa.list_, lambda v: [v]),
    "map key": (lambda t: T.MAP(t, T.INT()), lambda t: pa.map_(t, pa.int32()), lambda v: [(v, 1)]),
    "map value": (lambda t: T.MAP(T.INT(), t), lambda t: pa.map_(pa.int32(), t), lambda v: [(1, v)]),
    "tuple": (lambda t: T.TUPLE([t]), lambda t: pa.struct([("f0", t)]), lambda v: {"f0": v}),
    "row": (lambda t: T.ROW_NAMED(["in"], [t]), lambda t: pa.struct([("in", t)]), lambda v: {"in": v}),
    "either": (
        lambda t: T.EITHER(t, T.INT()),
        lambda t: pa.struct([("left", t), ("right", pa.int32())]),
        lambda v: {"left": v, "right": None},
    ),
    "pojo": (lambda t: T.POJO("com.acme.P", {"in": t}), lambda t: pa.struct([("in", t)]), lambda v: {"in": v}),
}


def struct(names: str, row: Sequence[Any]) -> tuple[pa.DataType, dict[str, Any]]:
    columns = names.split()
    return pa.struct([(n, TYPED[v]) for n, v in zip(columns, row, strict=True)]), dict(zip(columns, row, strict=True))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("serializer", "names", "row"), MATCHING, ids=lambda x: x if isinstance(x, str) else "")
def test_fields_find_their_place(serializer: TypeSerializer, names: str, row: Sequence[Any], place: str) -> None:
    """The first field of the type is the text, the second the number, wherever they are in the struct."""
    wrap, wrap_type, nest = PLACES[place]
    type_, value = struct(names, row)
    outer = wrap(serializer)
    expected = outer.serialize(outer.from_column(nest(_as_read(serializer))))
    (written,) = encode_column(outer, pa.array([nest(value)], wrap_type(type_)))
    assert written == expected
    if place == "alone":
        assert serializer.serialize(serializer.from_column(value)) == expected
        read = pa.array([_as_read(serializer)], serializer.arrow_type(DecodeOptions()))
        if serializer is not CASE_CLASS:
            assert hash_codes(serializer, pa.array([value], type_)).tolist() == hash_codes(serializer, read).tolist()


def _as_read(serializer: TypeSerializer) -> dict[str, Any]:
    return dict(zip([f.name for f in serializer.arrow_type(DecodeOptions())], ("a", 1), strict=True))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("serializer", "names"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_doubtful_fields_are_refused(serializer: TypeSerializer, names: str, place: str) -> None:
    """With both lists of names; fields are not guessed."""
    wrap, wrap_type, _ = PLACES[place]
    columns = names.split()
    given = pa.StructArray.from_arrays([pa.array(["a"]) for _ in columns], names=columns)
    own = ", ".join(f.name for f in serializer.arrow_type(DecodeOptions()))
    with pytest.raises(InvalidRowError) as refused:
        encode_column(wrap(serializer), pa.array([], wrap_type(given.type)))
    assert f"is a struct of ({', '.join(columns)}); the type has the fields ({own})" in str(refused.value)
    if place == "alone" and len(set(columns)) == len(columns):
        with pytest.raises(InvalidRowError, match="is a struct of"):
            serializer.from_column(dict.fromkeys(columns, "a"))


def test_optional_fields() -> None:
    """The kind of a row may be at any position or missing; it is not a positional field."""
    assert match_fields(["f0", "row_kind", "f1"], ["row_kind", "f0", "f1"], "v") == {"f0": 0, "f1": 2, "row_kind": 1}
    assert match_fields(["_1", "_2"], ["row_kind", "f0", "f1"], "v") == {"f0": 0, "f1": 1}
    assert match_fields(["y", "x"], ["_class", "x", "y"], "v") == {"x": 1, "y": 0}
    assert match_fields([], [], "v") == {}


def test_values_written_in_python_are_matched_too() -> None:
    """A serializer without instructions gets its fields under the type's names."""

    class Slow(type(ROW_XY)):  # type: ignore[misc]
        emit_encode = TypeSerializer.emit_encode

    type_, value = struct("y x", (1, "a"))
    (written,) = encode_column(Slow(FIELDS, ["x", "y"]), pa.array([value], type_))
    assert written == ROW_XY.serialize(ROW_XY.from_column({"x": "a", "y": 1}))
    type_, value = struct("_1 _2", ("a", 1))
    (written,) = encode_column(Slow(FIELDS), pa.array([value], type_))
    assert written == ROW.serialize(ROW.from_column(("a", 1)))


@pytest.mark.parametrize("value", ["xy", b"xy", {"x", "y"}, 5, ("x",), ["x", "y", "z"]])
@pytest.mark.parametrize("serializer", [T.ROW_NAMED(["x", "y"], [T.STRING()] * 2), T.ROW_DATA("x STRING, y STRING"), PAIR])
def test_what_is_no_list_of_fields_is_refused(serializer: TypeSerializer, value: Any) -> None:
    """Text and sets can be iterated over, as if their letters and members were fields."""
    names = ", ".join(f.name for f in serializer.arrow_type(DecodeOptions()))
    with pytest.raises(InvalidRowError, match=rf"expected the fields \({names}\), by name or as a list"):
        serializer.from_column(value)
    assert serializer.serialize(serializer.from_column(["x", "y"])) == serializer.serialize(serializer.from_column(("x", "y")))


def test_a_field_is_not_called_as_the_kind_of_a_row() -> None:
    with pytest.raises(InvalidRowError, match=r"one of them is called row_kind, as what rows have beside fields: rename it"):
        match_fields(["row_kind", "b"], ["row_kind", "row_kind", "b"], "v")


def test_names_are_given_to_copies() -> None:
    """Rows in rows, in wrappers and in POJOs get other names; existing rows keep their names, and the bytes are the same."""
    inner = T.ROW_NAMED(["a"], [T.INT()])
    for wrap in (T.LIST, T.NULLABLE, lambda t: T.POJO("com.acme.P", {"in": t}), lambda t: T.MAP(t, t), TtlSerializer.of):
        named = wrap(T.ROW_NAMED(["x", "y"], [inner, T.STRING()]))
        plain = wrap(T.ROW([T.ROW([T.INT()]), T.STRING()]))
        found = with_row_names(plain, row_names(named))
        assert str(found) == str(named)
        assert found.arrow_type(DecodeOptions()) == named.arrow_type(DecodeOptions()) != plain.arrow_type(DecodeOptions())
        assert found.snapshot().to_bytes() == plain.snapshot().to_bytes()
        assert PortableType.of(found).restore().arrow_type(DecodeOptions()) == named.arrow_type(DecodeOptions())
    with pytest.raises(OptionError, match="do not match the rows"):
        with_row_names(ROW, (("x", "y", "z"),))
