"""Values of one type read as another type, in Python and by the kernel."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DataInput
from state_processor.serializers.avro.records import AvroSerializer
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import CharSerializer, NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.serializers.core.nullable import EitherSerializer, NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.pojo_fields import PojoValue
from state_processor.serializers.core.rows import RowSerializer, TupleSerializer
from state_processor.serializers.core.temporal import InstantSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.evolution.resolution import resolve
from state_processor.serializers.runtime.namespaces import TimeWindowSerializer
from state_processor.serializers.runtime.scala import OptionSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer, TtlValue
from state_processor.serializers.shared_types import PortableType
from state_processor.support.errors import StateMigrationError, UnsupportedFormatError
from tests.serializers.harness import PLAIN, compiles, decode_with_kernel, skip_with_kernel

INT, LONG, BOOLEAN, DOUBLE = (NumberSerializer(n) for n in ("INT", "LONG", "BOOLEAN", "DOUBLE"))
STRING = StringSerializer()
OLD = PojoSerializer.of("a.P", {"gone": ListSerializer(STRING), "x": INT, "y": STRING})
ADDED = {"flag": BOOLEAN, "since": InstantSerializer(), "tags": ListSerializer(STRING)}
NEW = PojoSerializer.of("a.P", {"x": INT, "y": STRING, **ADDED})
DEFAULTS = {"flag": False, "since": None, "tags": None}


def pojo(x: int, y: str | None, class_name: str = "a.P", **more: Any) -> PojoValue:
    return PojoValue(class_name, {"gone": ["a", "b"], "x": x, "y": y, **more})


def read(written: TypeSerializer, wanted: TypeSerializer, values: list[Any], options: DecodeOptions = PLAIN) -> list[Any]:
    """Values as a column of the wanted type; the kernel agrees with Python wherever it can."""
    resolved = resolve(written, wanted)
    payloads = [written.serialize(v) for v in values]
    found = []
    for payload in payloads:
        found.append(resolved.deserialize(payload))
        source = DataInput(payload)
        resolved.skip(source)
        assert source.at_end()
    shown = pa.array([resolved.to_column(v, options) for v in found], resolved.arrow_type(options)).to_pylist()
    if compiles(resolved, options):
        assert decode_with_kernel(resolved, payloads, options) == shown
        assert skip_with_kernel(resolved, payloads, options) in (0, len(payloads))
    return shown


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.none() | st.text()), max_size=20))
def test_fields(rows: list[tuple[int, str | None]]) -> None:
    assert compiles(resolve(OLD, NEW))
    assert read(OLD, NEW, [pojo(x, y) for x, y in rows]) == [{**DEFAULTS, "x": x, "y": y} for x, y in rows]


def test_null_pojo() -> None:
    assert read(OLD, NEW, [None, pojo(1, "a"), None]) == [None, {**DEFAULTS, "x": 1, "y": "a"}, None]


def test_defaults_of_all_types() -> None:
    zeros = dict.fromkeys(("BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BOOLEAN"), 0)
    types: dict[str, TypeSerializer] = {n: NumberSerializer(n) for n in zeros}
    types |= {"CHAR": CharSerializer(), "s": STRING, "p": OLD, "m": MapSerializer(STRING, LONG)}
    wanted = PojoSerializer.of("a.P", {"x": INT, **types, "t": TupleSerializer([INT, STRING])})
    rest = {"CHAR": "\0", "s": None, "p": None, "m": None, "t": None}
    assert read(OLD, wanted, [pojo(5, None), pojo(-6, "y")]) == [{**zeros, **rest, "x": 5}, {**zeros, **rest, "x": -6}]


@pytest.mark.parametrize(
    ("wrap", "value", "shown"),
    [
        (ListSerializer, lambda p: [p, p], lambda s: [s, s]),
        (SetSerializer, lambda p: [p], lambda s: [s]),
        (lambda p: MapSerializer(STRING, p), lambda p: [("k", p), ("n", None)], lambda s: [("k", s), ("n", None)]),
        (lambda p: TupleSerializer([LONG, p]), lambda p: (7, p), lambda s: {"f0": 7, "f1": s}),
        (lambda p: EitherSerializer(p, LONG), lambda p: (True, p), lambda s: {"left": s, "right": None}),
        (NullableSerializer, lambda p: p, lambda s: s),
        (OptionSerializer, lambda p: (p,), lambda s: s),
        (lambda p: RowSerializer([p, INT], ["p", "i"]), lambda p: ("+I", (p, 4)), lambda s: {"p": s, "i": 4}),
        (lambda p: PojoSerializer.of("a.Q", {"p": p}), lambda p: PojoValue("a.Q", {"p": p}), lambda s: {"p": s}),
    ],
    ids=["list", "set", "map", "tuple", "either", "nullable", "option", "row", "pojo"],
)
def test_nested(wrap: Any, value: Any, shown: Any) -> None:
    expected = {**DEFAULTS, "x": 3, "y": "z"}
    assert read(wrap(OLD), wrap(NEW), [value(pojo(3, "z"))]) == [shown(expected)]


def test_same_type_is_the_same_serializer() -> None:
    for serializer in (LONG, ListSerializer(STRING), TupleSerializer([INT, STRING]), TimeWindowSerializer()):
        assert resolve(serializer, serializer) is serializer


def test_subclasses() -> None:
    base = {"x": INT, "y": STRING, "gone": ListSerializer(STRING)}
    first = PojoSerializer.of("a.First", {**base, "own": LONG, "lost": DOUBLE})
    second = PojoSerializer.of("a.Second", {**base, "more": STRING})
    third = PojoSerializer.of("a.Third", {**base, "n": LONG})
    written = PojoSerializer("a.P", OLD.fields, {"a.First": first, "a.Second": second}, {"a.Third": third})
    fewer = {"x": INT, "y": STRING, "flag": BOOLEAN}
    new_first = PojoSerializer.of("a.First", {**fewer, "own": LONG, "won": STRING})
    new_base = PojoSerializer.of("a.P", fewer)
    wanted = PojoSerializer("a.P", new_base.fields, {"a.First": new_first})
    values = [
        pojo(1, "p"),
        pojo(2, "f", "a.First", own=20, lost=0.5),
        pojo(3, "s", "a.Second", more="m"),
        pojo(4, "t", "a.Third", n=40),
        None,
    ]
    common = dict.fromkeys(("own", "won", "more", "n")) | {"flag": False}
    assert read(written, wanted, values) == [
        {**common, "_class": "a.P", "x": 1, "y": "p"},
        {**common, "_class": "a.First", "x": 2, "y": "f", "own": 20},
        {**common, "_class": "a.Second", "x": 3, "y": "s", "more": "m"},
        {**common, "_class": "a.Third", "x": 4, "y": "t", "n": 40},
        None,
    ]


def test_subclass_that_was_not_written_has_columns() -> None:
    new = PojoSerializer.of("a.New", {"x": INT, "own": LONG})
    wanted = PojoSerializer("a.P", PojoSerializer.of("a.P", {"x": INT}).fields, {"a.New": new})
    assert read(OLD, wanted, [pojo(1, "p")]) == [{"_class": "a.P", "x": 1, "own": None}]


def test_enums_go_by_name() -> None:
    old, new = EnumSerializer("a.E", ["A", "B"]), EnumSerializer("a.E", ["C", "B", "A"])
    assert read(old, new, ["A", "B", "A"]) == ["A", "B", "A"]


def test_rows() -> None:
    old, new = RowSerializer([INT, OLD], supports_row_kind=False), RowSerializer([INT, NEW], ["n", "p"])
    shown = {"row_kind": "+I", "n": 1, "p": {**DEFAULTS, "x": 2, "y": None}}
    assert read(old, new, [("+I", (1, pojo(2, None))), ("+I", (None, None))], DecodeOptions(row_kind=True)) == [
        shown,
        {"row_kind": "+I", "n": None, "p": None},
    ]


def test_time_to_live_stays_as_written() -> None:
    with_time = resolve(TtlSerializer(LONG, OLD), NEW)
    assert isinstance(with_time, TtlSerializer)
    payload = TtlSerializer(LONG, OLD).serialize(TtlValue(5, pojo(1, "a")))
    assert decode_with_kernel(with_time, [payload]) == [{**DEFAULTS, "x": 1, "y": "a"}]
    assert read(OLD, TtlSerializer(LONG, NEW), [pojo(1, "a")]) == [{**DEFAULTS, "x": 1, "y": "a"}]


def avro(*fields: dict[str, Any], **more: Any) -> AvroSerializer:
    return AvroSerializer(json.dumps({"type": "record", "name": "a.R", "fields": fields, **more}))


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def test_avro() -> None:
    colour = {"type": "enum", "name": "a.C", "symbols": ["RED", "BLUE"]}
    kept = (field("n", "int"), field("was", "string"), field("c", colour), field("o", ["null", "int"]))
    old = avro(field("gone", "string"), *kept)
    new = avro(
        field("c", {**colour, "symbols": ["BLUE", "NONE"], "default": "NONE"}),
        field("n", "double"),
        field("is", "string", aliases=["was"]),
        field("o", ["null", "long"]),
        field("more", {"type": "array", "items": "int"}, default=[1, 2]),
    )
    value = {"gone": "g", "n": 3, "was": "w", "c": "RED", "o": None}
    other = {"gone": "g", "n": -4, "was": "", "c": "BLUE", "o": 9}
    assert read(old, new, [value, other]) == [
        {"c": "NONE", "n": 3.0, "is": "w", "o": None, "more": [1, 2]},
        {"c": "BLUE", "n": -4.0, "is": "", "o": 9, "more": [1, 2]},
    ]
    assert read(ListSerializer(old), ListSerializer(new), [[value]])[0][0]["is"] == "w"


@pytest.mark.parametrize(
    ("written", "wanted", "message"),
    [
        (OLD, PojoSerializer.of("a.P", {"x": LONG}), "as POJO<a.P>: field 'x' of a.P: INT was written, LONG is required"),
        (OLD, PojoSerializer.of("a.Q", {"x": INT}), "class a.P was written, class a.Q is required"),
        (ListSerializer(INT), ListSerializer(LONG), "LIST<INT> can't be read as LIST<LONG>: .*IntSerializer.* was written"),
        (TupleSerializer([INT]), TupleSerializer([INT, INT]), "1 nested serializers were written, 2 are required"),
        (EnumSerializer("a.E", ["A", "B"]), EnumSerializer("a.E", ["A"]), "a.E no longer has B"),
        (avro(field("n", "long")), avro(field("n", "int")), "n: long was written, int is required"),
        (avro(field("n", "long")), avro(field("m", "long")), "m: a new field needs a default"),
    ],
)
def test_incompatible(written: TypeSerializer, wanted: TypeSerializer, message: str) -> None:
    with pytest.raises(StateMigrationError, match=message):
        resolve(written, wanted)


def test_only_reads() -> None:
    resolved = resolve(OLD, NEW)
    with pytest.raises(UnsupportedFormatError, match="can only read"):
        resolved.serialize(pojo(1, "a"))
    assert not isinstance(resolved, TypeSerializer)


def test_portable_types_keep_the_names_of_rows() -> None:
    row = RowSerializer([INT, ListSerializer(RowSerializer([NEW], ["inner"])), RowSerializer([LONG])], ["a", "b", "c"])
    portable = pickle.loads(pickle.dumps(PortableType.of(MapSerializer(STRING, row))))
    assert str(portable.restore()) == str(MapSerializer(STRING, row))
