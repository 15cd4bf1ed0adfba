from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import (
    DataInput,
    DecodeOptions,
    read_serializer_snapshot,
    register_pojo_class,
    register_primitive_fields,
    registrations,
)
from state_processor.serializers.base import TypeSerializer, Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.pojo import POJO_SNAPSHOT, PojoSerializer, PojoSerializerSnapshot
from state_processor.serializers.core.pojo_fields import PojoField, PojoValue
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.support.errors import (
    CorruptSnapshotError,
    InvalidRowError,
    OptionError,
    StateProcessorError,
    UndecodableValueError,
    UnknownSerializerError,
    UnsupportedFormatError,
)
from state_processor.types.flink_types import Types
from tests.serializers.harness import (
    PLAIN,
    Specimen,
    check_codec,
    check_payloads,
    check_snapshot,
    check_specimen,
    decode_with_kernel,
    specimens,
)

INT, LONG, DOUBLE, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), NumberSerializer("DOUBLE"), StringSerializer()

ADDRESS = PojoSerializer.of("a.Address", {"zip": INT, "city": STRING})
PERSON = PojoSerializer.of("a.Person", {"name": STRING, "age": INT, "home": ADDRESS, "tags": ListSerializer(STRING)})
CIRCLE = PojoSerializer("a.Circle", [PojoField("name", STRING, "a.Shape"), PojoField("size", DOUBLE, "a.Circle")])
SQUARE = PojoSerializer("a.Outer$Square", [PojoField("size", LONG, "a.Outer$Square"), PojoField("name", STRING, "a.Shape")])
SHAPE = PojoSerializer("a.Shape", [PojoField("name", STRING, "a.Shape")], {"a.Circle": CIRCLE}, {"a.Outer$Square": SQUARE})


def address(zip_code: int | None, city: str | None) -> PojoValue:
    return PojoValue("a.Address", {"city": city, "zip": zip_code})


def circle(name: str | None, size: float | None) -> PojoValue:
    return PojoValue("a.Circle", {"name": name, "size": size})


def square(name: str | None, size: int | None) -> PojoValue:
    return PojoValue("a.Outer$Square", {"size": size, "name": name})


def shape(name: str | None) -> PojoValue:
    return PojoValue("a.Shape", {"name": name})


ints, longs, texts = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)
addresses = st.builds(address, st.none() | ints, st.none() | texts)
people = st.none() | st.builds(
    lambda name, age, home, tags: PojoValue("a.Person", {"age": age, "home": home, "name": name, "tags": tags}),
    st.none() | texts,
    st.none() | ints,
    st.none() | addresses,
    st.none() | st.lists(texts, max_size=3),
)
shapes = (
    st.none()
    | st.builds(shape, st.none() | texts)
    | st.builds(circle, st.none() | texts, st.none() | st.floats(allow_nan=False))
    | st.builds(square, st.none() | texts, st.none() | longs)
)


def test_bytes() -> None:
    assert ADDRESS.serialize(address(7, "ab")) == bytes.fromhex("02 00 03 61 62 00 00000007")
    assert ADDRESS.serialize(address(None, None)) == bytes.fromhex("02 01 01")
    assert ADDRESS.serialize(None) == b"\x01"
    assert SHAPE.serialize(circle("", 1.0)) == bytes.fromhex("08 00 02 00 01 00 3ff0000000000000")
    assert SHAPE.serialize(square(None, 1)) == b"\x04\x00\x0ea.Outer$Square" + bytes.fromhex("02 00 0000000000000001 01")


def test_a_mapping_is_taken_as_of_the_class_itself() -> None:
    assert ADDRESS.serialize({"zip": 7, "city": "ab"}) == ADDRESS.serialize(address(7, "ab"))


def test_a_null_in_a_primitive_field() -> None:
    with registrations():
        assert ADDRESS.deserialize(ADDRESS.serialize(address(None, "Oslo"))) == address(None, "Oslo")
        register_primitive_fields("a.Address", ["zip"])
        assert ADDRESS.deserialize(ADDRESS.serialize(address(1, None))) == address(1, None)
        with pytest.raises(ValueError, match=r"field zip of a\.Address is primitive"):
            ADDRESS.serialize(address(None, "Oslo"))


def test_fields_keep_the_order_of_the_snapshot() -> None:
    assert SQUARE.serialize(square("a", 1)) == bytes.fromhex("02 00 0000000000000001 00 02 61")
    assert [f.name for f in SQUARE.arrow_type(PLAIN)] == ["size", "name"]


@given(st.lists(people, max_size=6))
def test_round_trip(values: list[PojoValue | None]) -> None:
    check_codec(PERSON, values)


@given(st.lists(shapes, max_size=6))
def test_round_trip_with_subclasses(values: list[PojoValue | None]) -> None:
    check_codec(SHAPE, values)


@given(st.lists(st.lists(shapes, max_size=3), max_size=4))
def test_round_trip_of_subclasses_inside_lists(values: list[list[PojoValue | None]]) -> None:
    check_codec(ListSerializer(SHAPE), values)


def test_columns_with_subclasses() -> None:
    assert SHAPE.arrow_type(PLAIN) == pa.struct(
        [("_class", pa.string()), ("name", pa.string()), ("size", pa.float64()), ("size_Square", pa.int64())]
    )
    payloads = [SHAPE.serialize(v) for v in (shape("s"), circle("c", 1.5), square("q", 4), None)]
    assert decode_with_kernel(SHAPE, payloads) == [
        {"_class": "a.Shape", "name": "s", "size": None, "size_Square": None},
        {"_class": "a.Circle", "name": "c", "size": 1.5, "size_Square": None},
        {"_class": "a.Outer$Square", "name": "q", "size": None, "size_Square": 4},
        None,
    ]


def test_columns_of_a_field_named_like_the_class_column() -> None:
    pojo = PojoSerializer("a.B", [PojoField("_class", INT, "a.B")], {"a.C": PojoSerializer("a.C", [PojoField("x", INT, "a.C")])})
    assert [f.name for f in pojo.arrow_type(PLAIN)] == ["_class", "_class_B", "x"]
    check_codec(pojo, [PojoValue("a.B", {"_class": 5}), PojoValue("a.C", {"x": 6})])


def test_columns_of_two_classes_with_the_same_simple_name() -> None:
    subclasses = {
        name: PojoSerializer(name, [PojoField("x", serializer, name)])
        for name, serializer in (("a.B", INT), ("b.B", LONG), ("c.B", STRING))
    }
    pojo = PojoSerializer("a.A", [], subclasses)
    assert [f.name for f in pojo.arrow_type(PLAIN)] == ["_class", "x", "x_B", "x_B_"]
    check_codec(
        pojo, [PojoValue("a.B", {"x": 1}), PojoValue("b.B", {"x": 2}), PojoValue("c.B", {"x": "3"}), PojoValue("a.A", {})]
    )


UNDESCRIBED = b"\x04\x00\x05a.New\x02"


def test_a_subclass_that_the_snapshot_does_not_describe() -> None:
    with pytest.raises(UndecodableValueError, match=r"offset 0: a value of class a\.New, a subclass of a\.Shape"):
        SHAPE.deserialize(UNDESCRIBED)
    with pytest.raises(UndecodableValueError, match=r"a\.New"):
        SHAPE.skip(DataInput(UNDESCRIBED))
    for serializer in (SHAPE, ADDRESS):
        with pytest.raises(UndecodableValueError, match=r"class a\.New"):
            decode_with_kernel(serializer, [serializer.serialize(None), UNDESCRIBED])


def test_a_registered_subclass_without_a_serializer() -> None:
    pojo = PojoSerializer("a.Shape", [], {"a.Gone": None, "a.Circle": CIRCLE})
    with pytest.raises(UndecodableValueError, match=r"a\.Gone"):
        pojo.deserialize(bytes.fromhex("08 00 02"))
    assert check_payloads(pojo, [bytes.fromhex("08 01 02 01 01")]) == [circle(None, None)]
    check_snapshot(pojo.snapshot())
    with pytest.raises(UnsupportedFormatError, match=r"a\.Gone"):
        pojo.serialize(PojoValue("a.Gone", {}))


@pytest.mark.parametrize("data", ["00", "03", "08 07 02", "08 00 01", "02", "04 00 0e 61"])
def test_damage(data: str) -> None:
    with pytest.raises(CorruptSnapshotError):
        SHAPE.deserialize(bytes.fromhex(data))
    with pytest.raises(StateProcessorError):
        decode_with_kernel(SHAPE, [bytes.fromhex(data)])


def test_hash_code_is_the_users() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"POJO<a\.Address>"):
        ADDRESS.hash_code(address(1, "a"))


def test_snapshot_names_declaring_classes() -> None:
    snapshot = read_serializer_snapshot(SQUARE.snapshot().to_bytes())
    assert isinstance(snapshot, PojoSerializerSnapshot)
    assert [(f.name, f.declaring_class) for f in snapshot.fields] == [("size", "a.Outer$Square"), ("name", "a.Shape")]
    assert [f.name for f in snapshot.restore_serializer().arrow_type(PLAIN)] == ["size", "name"]


def test_snapshot_with_missing_frames() -> None:
    header, text = bytes.fromhex("000004F2C69A3D70"), lambda s: len(s).to_bytes(2, "big") + s.encode()
    field = INT.snapshot().to_bytes()
    framed = b"\x01" + len(field).to_bytes(4, "big") + field
    data = (
        text(POJO_SNAPSHOT)
        + bytes.fromhex("00000002")
        + text("a.B")
        + header
        + bytes.fromhex("00000001")
        + text("missing-field-at-0")
        + b"\x00"
        + framed
        + header
        + bytes.fromhex("00000001")
        + text("a.Gone")
        + b"\x00\x00"
        + header
        + bytes(4)
    )
    snapshot = read_serializer_snapshot(data)
    assert snapshot.to_bytes() == data
    serializer = snapshot.restore_serializer()
    assert check_payloads(serializer, [bytes.fromhex("02 00 00000005")]) == [PojoValue("a.B", {"missing-field-at-0": 5})]
    verdict = snapshot.resolve_schema_compatibility(PojoSerializer.of("a.B", {}))
    assert verdict.is_incompatible
    assert "a.Gone" in verdict.reason


def test_snapshot_with_an_unknown_field_serializer_is_kept() -> None:
    known = PojoSerializer.of("a.B", {"x": INT, "y": LONG}).snapshot().to_bytes()
    data = known.replace(b"IntSerializer$IntSerializerSnapshot", b"OwnSerializer$OwnSerializerSnapshot")
    snapshot = read_serializer_snapshot(data)
    assert snapshot.to_bytes() == data
    with pytest.raises(UnknownSerializerError, match=r"OwnSerializer\$OwnSerializerSnapshot"):
        snapshot.restore_serializer()


def test_damaged_snapshot() -> None:
    data = ADDRESS.snapshot().to_bytes()
    for size in range(len(data)):
        with pytest.raises(StateProcessorError):
            read_serializer_snapshot(data[:size])
    with pytest.raises(CorruptSnapshotError, match="header"):
        read_serializer_snapshot(data.replace(bytes.fromhex("04F2C69A3D70"), bytes(6)))


def of(*, registered: tuple[PojoSerializer, ...] = (), **fields: object) -> PojoSerializer:
    pojo = PojoSerializer.of("a.A", fields)  # type: ignore[arg-type]
    return PojoSerializer("a.A", pojo.fields, {r.class_name: r for r in registered})


OTHER_CIRCLE = PojoSerializer("a.Circle", [PojoField("name", STRING, "a.Shape")])


@pytest.mark.parametrize(
    ("written", "wanted", "verdict"),
    [
        (of(x=INT), of(x=INT), Verdict.COMPATIBLE_AS_IS),
        (of(x=INT), of(x=INT, y=INT), Verdict.COMPATIBLE_AFTER_MIGRATION),
        (of(x=INT, y=INT), of(x=INT), Verdict.COMPATIBLE_AFTER_MIGRATION),
        (of(x=INT), of(x=LONG), Verdict.INCOMPATIBLE),
        (of(x=INT), PojoSerializer.of("a.B", {"x": INT}), Verdict.INCOMPATIBLE),
        (of(x=INT), INT, Verdict.INCOMPATIBLE),
        (of(p=of(x=INT)), of(p=of(x=INT, y=INT)), Verdict.COMPATIBLE_AFTER_MIGRATION),
        (of(p=of(x=INT)), of(p=of(x=LONG)), Verdict.INCOMPATIBLE),
        (of(), of(registered=(CIRCLE,)), Verdict.COMPATIBLE_AS_IS),
        (of(registered=(CIRCLE,)), of(registered=(CIRCLE, SQUARE)), Verdict.COMPATIBLE_AS_IS),
        (of(registered=(CIRCLE, SQUARE)), of(registered=(SQUARE, CIRCLE)), Verdict.COMPATIBLE_WITH_RECONFIGURED_SERIALIZER),
        (of(registered=(CIRCLE,)), of(), Verdict.COMPATIBLE_WITH_RECONFIGURED_SERIALIZER),
        (of(registered=(CIRCLE,)), of(registered=(OTHER_CIRCLE,)), Verdict.COMPATIBLE_AFTER_MIGRATION),
        (SHAPE, SHAPE, Verdict.COMPATIBLE_WITH_RECONFIGURED_SERIALIZER),
    ],
)
def test_compatibility(written: PojoSerializer, wanted: PojoSerializer, verdict: Verdict) -> None:
    assert written.snapshot().resolve_schema_compatibility(wanted).verdict is verdict


def test_the_first_incompatible_field_is_named() -> None:
    verdict = of(p=of(x=INT)).snapshot().resolve_schema_compatibility(of(p=of(x=LONG)))
    assert "field 'x' of a.A: INT was written, LONG is required" in verdict.reason
    names = [f"f{i}" for i in range(20)]
    verdict = of(**dict.fromkeys(names, INT)).snapshot().resolve_schema_compatibility(of(**dict.fromkeys(names, LONG)))
    assert verdict.reason.startswith("field 'f0' of a.A: ")


@pytest.mark.parametrize("specimen", specimens("flink-core", "pojo-*") + specimens("flink-tests-java17", "pojo-*"), ids=str)
def test_specimen(specimen: Specimen) -> None:
    assert isinstance(check_specimen(specimen), PojoValue)
    check_snapshot(read_serializer_snapshot(specimen.snapshot))


@pytest.mark.parametrize("specimen", specimens("flink-core", "pojo-serializer-with-modified-schema-in-*"), ids=str)
def test_specimen_of_a_registered_subclass(specimen: Specimen) -> None:
    serializer = read_serializer_snapshot(specimen.snapshot).restore_serializer()
    assert decode_with_kernel(serializer, [specimen.data], DecodeOptions()) == [
        {"_class": "SublassPojo", "baseFieldA": 911108, "baseFieldB": "Gordon", "subclassFieldC": True, "subclassFieldD": 66.7}
    ]


@pytest.mark.parametrize("specimen", specimens("flink-tests-java17", "pojo-*"), ids=str)
def test_specimen_of_a_record(specimen: Specimen) -> None:
    assert dict(check_specimen(specimen)) == {"id": 911108, "name": "Gordon"}


def test_subclasses_that_a_type_declares() -> None:
    subclasses = {"a.Square": {"side": LONG}, "a.Circle": {"area": LONG}}
    declared = Types.POJO("a.Shape", {"name": STRING, "id": LONG}, subclasses)
    assert isinstance(declared, PojoSerializer)
    assert [*declared.registered] == ["a.Square", "a.Circle"]
    square = declared.registered["a.Square"]
    assert isinstance(square, PojoSerializer)
    assert [(f.name, f.declaring_class) for f in square.fields] == [("id", "a.Shape"), ("name", "a.Shape"), ("side", "a.Square")]
    assert declared.serialize(PojoValue("a.Circle", {"id": 1, "name": None, "area": 2}))[:2] == b"\x08\x01"
    assert declared.snapshot().restore_serializer() == declared


@pytest.mark.parametrize(
    ("subclasses", "message"),
    [
        ({"a.Square": {"name": STRING}}, "a.Square is described with the field 'name', but it inherits this field from a.Shape"),
        ({"a.Shape": {"side": STRING}}, "a.Shape is described as a subclass of itself"),
    ],
)
def test_subclasses_with_fields_of_the_class_are_refused(subclasses: dict[str, dict[str, TypeSerializer]], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Types.POJO("a.Shape", {"name": STRING, "id": LONG}, subclasses=subclasses)


def test_a_described_class_with_a_field_of_its_parent_is_refused() -> None:
    snapshot = Types.POJO("a.Named", {"name": STRING}).snapshot()
    with registrations():
        register_pojo_class("a.Tall", {"id": LONG, "name": LONG}, parent="a.Named")
        with pytest.raises(OptionError, match=r"but it inherits this field from a\.Named"):
            snapshot.restore_serializer()


DESCRIBED = PojoSerializer("a.Shape", [PojoField("name", STRING, "a.Shape")])


def written(serializer: TypeSerializer, *rows: dict[str, object], **types: pa.DataType) -> list[bytes]:
    return list(encode_column(serializer, pa.array(rows, pa.struct({"name": pa.string(), **types}))))


CLASS, SIZE, SIZE_SQUARE = {"_class": pa.string()}, {"size": pa.float64()}, {"size_Square": pa.int64()}


def test_structs_lack_the_class_and_fields_of_subclasses() -> None:
    expected = [SHAPE.serialize(shape("s"))]
    assert written(SHAPE, {"name": "s"}) == written(SHAPE, {"name": "s"}, **CLASS) == expected
    assert written(SHAPE, {"name": "s", "_class": "a.Shape"}, **CLASS, **SIZE) == expected
    rows = [{"name": "c", "_class": "a.Circle", "size": 1.5}, {"name": "s", "_class": None, "size": None}]
    assert written(SHAPE, *rows, **CLASS, **SIZE) == [SHAPE.serialize(circle("c", 1.5)), SHAPE.serialize(shape("s"))]


@pytest.mark.parametrize("wrap", [Types.LIST, lambda t: Types.MAP(STRING, t), lambda t: Types.ROW_NAMED(["in"], [t])])
def test_structs_inside_others_lack_them(wrap: Callable[[TypeSerializer], TypeSerializer]) -> None:
    outer = wrap(SHAPE)
    kind, value = pa.struct({"name": pa.string()}), {"name": "s"}
    types = {"LIST": pa.list_(kind), "MAP<": pa.map_(pa.string(), kind), "ROW<": pa.struct({"in": kind})}
    name = next(n for n in types if str(outer).startswith(n))
    given = {"LIST": [value], "MAP<": [("k", value)], "ROW<": {"in": value}}[name]
    whole = {"LIST": [shape("s")], "MAP<": {"k": shape("s")}, "ROW<": {"in": shape("s")}}[name]
    assert list(encode_column(outer, pa.array([given], types[name]))) == [outer.serialize(outer.from_column(whole))]


@pytest.mark.parametrize(
    ("row", "types", "message"),
    [
        ({"_class": "a.Circle"}, CLASS, "'a.Circle': expected a.Shape; a.Circle needs the field size too; a.Outer"),
        ({"_class": "a.New"}, CLASS | SIZE, "'a.New': expected a.Shape or a.Circle; a.Outer$Square needs the field size_Square"),
        ({"size": 1.5}, SIZE, "the field size is one of a.Circle: name the class in _class (null stands for a.Shape), or leave"),
        ({"size": 1.5, "_class": "a.Shape"}, CLASS | SIZE, "the field size is one of a.Circle"),
        (
            {"size": 1.5, "size_Square": 2, "_class": "a.Circle"},
            CLASS | SIZE | SIZE_SQUARE,
            "the field size_Square is one of a.Outer$Square",
        ),
    ],
)
def test_values_that_their_class_has_no_field_for_are_refused(
    row: dict[str, object], types: dict[str, pa.DataType], message: str
) -> None:
    """In columns and in Python, where the rows before are as they should be."""
    with pytest.raises(InvalidRowError, match=re.escape(message)) as refused:
        written(SHAPE, {"name": "ok"}, {"name": "bad", **row}, **types)
    assert refused.value.row == 1
    with pytest.raises(InvalidRowError, match=re.escape(message)):
        SHAPE.from_column({"name": "bad", **dict.fromkeys(types), **row})


def test_structs_whose_fields_no_class_has_are_refused_by_type() -> None:
    wide = Types.POJO("a.A", {"x": INT}, subclasses={"a.B": {"y": INT, "z": INT}})
    message = r"has the field z; a\.B has y as well: add the rest, or drop z"
    with pytest.raises(InvalidRowError, match=rf"column value {message}"):
        encode_column(wide, pa.array([], pa.struct({"x": pa.int32(), "z": pa.int32()})))
    with pytest.raises(InvalidRowError, match=message):
        wide.from_column({"x": 1, "z": None})
    with pytest.raises(InvalidRowError, match=r"is a struct of \(x, v\).*each has to be there.*; \(_class, y, z\) are optional"):
        encode_column(wide, pa.array([], pa.struct({"x": pa.int32(), "v": pa.int32()})))
    with pytest.raises(InvalidRowError, match=r"a value is a struct of \(x, v\); the type has the fields \(x\)"):
        wide.from_column({"x": 1, "v": None})
    with pytest.raises(InvalidRowError, match=r"is a struct of \(y, z\); the type has the fields \(x\)"):
        encode_column(wide, pa.array([], pa.struct({"y": pa.int32(), "z": pa.int32()})))


def test_a_described_subclass_is_one_of_serializers_made_before_and_of_those_restored() -> None:
    before = Types.POJO("a.Named", {"name": STRING})
    with registrations():
        register_pojo_class("a.Tall", {"size": LONG}, parent="a.Named")
        restored = before.snapshot().restore_serializer()
        for serializer in (before, restored, Types.POJO("a.Named", {"name": STRING})):
            assert serializer.arrow_type(PLAIN) == pa.struct(CLASS | {"name": pa.string(), "size": pa.int64()})
            row = {"name": "t", "_class": "a.Tall", "size": 5}
            (data,) = written(serializer, row, **CLASS, size=pa.int64())
            assert data == b"\x04\x00\x06a.Tall\x02\x00\x02t\x00\x00\x00\x00\x00\x00\x00\x00\x05"
            assert decode_with_kernel(serializer, [data]) == [row]
            assert check_payloads(serializer, [data]) == [PojoValue("a.Tall", {"name": "t", "size": 5})]
    assert before.arrow_type(PLAIN) == pa.struct({"name": pa.string()})
    assert restored.arrow_type(PLAIN) == pa.struct(CLASS | {"name": pa.string(), "size": pa.int64()})  # its snapshot has it


def test_a_registered_subclass_that_its_snapshot_lacks_can_be_described() -> None:
    pojo = PojoSerializer("a.Shape", DESCRIBED.fields, {"a.Gone": None})
    with registrations():
        register_pojo_class("a.Gone", {"x": INT}, parent="a.Shape")
        assert check_payloads(pojo, [bytes.fromhex("08 00 02 01 01")]) == [PojoValue("a.Gone", {"name": None, "x": None})]


def test_classes_that_are_subclasses_of_one_another_are_refused() -> None:
    with registrations():
        register_pojo_class("a.B", {}, parent="a.A")
        register_pojo_class("a.C", {}, parent="a.B")
        with pytest.raises(OptionError, match=r"a\.C was described as a subclass of a\.A"):
            register_pojo_class("a.A", {}, parent="a.C")
