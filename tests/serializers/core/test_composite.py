"""Tuples, rows, Either, nullable values, enums: bytes, hash codes and snapshots as Flink 2.3.0 gives them."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.serializers import (
    DataInput,
    DataOutput,
    DecodeOptions,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_serializer_snapshot,
)
from state_processor.serializers.base import Verdict, write_nested_snapshots
from state_processor.serializers.core.arrays import (
    BytesSerializer,
    GenericArraySerializer,
    PrimitiveArraySerializer,
    string_array,
)
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.serializers.core.nullable import LEGACY_EITHER_SNAPSHOT, EitherSerializer, EitherValue, NullableSerializer
from state_processor.serializers.core.rows import ROW_KINDS, RowSerializer, RowValue, Tuple0Serializer, TupleSerializer
from state_processor.serializers.core.self_written import UserCodeSerializer
from state_processor.serializers.core.temporal import LocalDateSerializer
from state_processor.serializers.core.time_values import LocalDate
from state_processor.serializers.registry import BASE, RUNTIME
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from tests.serializers.harness import (
    Specimen,
    check_codec,
    check_payloads,
    check_snapshot,
    check_specimen,
    decode_with_kernel,
    skip_with_kernel,
    specimens,
)

PLAIN, WITH_KIND = DecodeOptions(), DecodeOptions(row_kind=True)
BYTE, INT, LONG, STRING = NumberSerializer("BYTE"), NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()
PAIR = TupleSerializer([LONG, STRING])
ROW = RowSerializer([LONG, STRING, INT])
EITHER = EitherSerializer(STRING, LONG)
PADDED, UNPADDED = NullableSerializer(LONG, 8), NullableSerializer(LONG)
ENUM = EnumSerializer("com.acme.Tier", ["BRONZE", "SILVER", "GOLD"])
SEVEN = [BYTE] * 7
BYTES: list[tuple[TypeSerializer, str, Any, Any]] = [
    (Tuple0Serializer(), "2a", (), {}),
    (TupleSerializer([STRING]), "0278", ("x",), {"f0": "x"}),
    (PAIR, "000000000000000500", (5, None), {"f0": 5, "f1": None}),
    (TupleSerializer([LONG, INT]), "ffffffffffffffff00000007", (-1, 7), {"f0": -1, "f1": 7}),
    (ROW, "080000000000000005036162", RowValue("+I", (5, "ab", None)), {"f0": 5, "f1": "ab", "f2": None}),
    (
        RowSerializer(SEVEN),
        "17800102",
        RowValue("+I", (1, None, 2, *[None] * 4)),
        {f"f{i}": {0: 1, 2: 2}.get(i) for i in range(7)},
    ),
    (
        RowSerializer(SEVEN, supports_row_kind=False),
        "5c010203",
        RowValue("+I", (1, None, 2, None, None, None, 3)),
        {f"f{i}": {0: 1, 2: 2, 6: 3}.get(i) for i in range(7)},
    ),
    (RowSerializer([]), "00", RowValue("+I", ()), {}),
    (EITHER, "01036162", EitherValue(True, "ab"), {"left": "ab", "right": None}),
    (EITHER, "000000000000000007", EitherValue(False, 7), {"left": None, "right": 7}),
    (PADDED, "010000000000000000", None, None),
    (PADDED, "000000000000000005", 5, 5),
    (UNPADDED, "01", None, None),
    (ENUM, "00000002", "GOLD", "GOLD"),
]


@pytest.mark.parametrize(("serializer", "data", "value", "shown"), BYTES, ids=str)
def test_bytes(serializer: TypeSerializer, data: str, value: Any, shown: Any) -> None:
    payload = bytes.fromhex(data)
    assert check_payloads(serializer, [payload, payload]) == [value, value]
    assert decode_with_kernel(serializer, [payload, payload]) == [shown, shown]


@pytest.mark.parametrize(
    ("serializer", "name", "length"),
    [
        (Tuple0Serializer(), "TUPLE<>", 1),
        (PAIR, "TUPLE<LONG,STRING>", -1),
        (TupleSerializer([LONG, INT]), "TUPLE<LONG,INT>", 12),
        (ROW, "ROW<LONG,STRING,INT>", -1),
        (RowSerializer([LONG, INT], ["a", "b"]), "ROW<a:LONG,b:INT>", -1),
        (EITHER, "EITHER<STRING,LONG>", -1),
        (PADDED, "NULLABLE<LONG>", 9),
        (UNPADDED, "NULLABLE<LONG>", -1),
        (ENUM, "ENUM<com.acme.Tier>", 4),
    ],
)
def test_names_and_lengths(serializer: TypeSerializer, name: str, length: int) -> None:
    assert str(serializer) == name
    assert serializer.length == length


def test_arrow_types() -> None:
    assert PAIR.arrow_type(PLAIN) == pa.struct([("f0", pa.int64()), ("f1", pa.string())])
    assert RowSerializer([INT], ["a"]).arrow_type(WITH_KIND) == pa.struct([("row_kind", pa.string()), ("a", pa.int32())])
    assert EITHER.arrow_type(PLAIN) == pa.struct([("left", pa.string()), ("right", pa.int64())])
    assert PADDED.arrow_type(PLAIN) == pa.int64()
    assert ENUM.arrow_type(PLAIN) == pa.string()


@pytest.mark.parametrize(
    ("mask", "kind", "code"), [("08", "+I", 161603), ("88", "-U", 161634), ("48", "+U", 161665), ("c8", "-D", 161696)]
)
def test_kinds_of_rows(mask: str, kind: str, code: int) -> None:
    payload = bytes.fromhex(mask + "0000000000000005036162")
    for options in (PLAIN, WITH_KIND):
        assert check_payloads(ROW, [payload], options) == [RowValue(kind, (5, "ab", None))]
    assert decode_with_kernel(ROW, [payload], WITH_KIND) == [{"row_kind": kind, "f0": 5, "f1": "ab", "f2": None}]
    assert ROW.hash_code(RowValue(kind, (5, "ab", None))) == code


def test_rows_of_old_flink_have_the_kind_of_an_insert() -> None:
    serializer = RowSerializer([INT], supports_row_kind=False)
    assert decode_with_kernel(serializer, [bytes.fromhex("0000000007")], WITH_KIND) == [{"row_kind": "+I", "f0": 7}]


def test_names_of_row_fields_name_the_columns() -> None:
    serializer = RowSerializer([INT, STRING], ["a", "b"])
    payload = serializer.serialize(RowValue("+I", (7, "x")))
    assert check_payloads(serializer, [payload]) == [RowValue("+I", (7, "x"))]
    assert decode_with_kernel(serializer, [payload]) == [{"a": 7, "b": "x"}]


def row_of(*fields: TypeSerializer) -> RowSerializer:
    return RowSerializer(fields)


@pytest.mark.parametrize(
    ("serializer", "value", "code"),
    [
        (PAIR, (5, "ab"), 3260),
        (PAIR, (5, None), 155),
        (TupleSerializer([STRING, STRING]), (None, "ab"), 3105),
        (TupleSerializer([STRING]), ("x",), 120),
        (Tuple0Serializer(), (), 0),
        (EITHER, EitherValue(True, "ab"), 3105),
        (EITHER, EitherValue(False, 7), 7),
        (PADDED, None, 0),
        (PADDED, 5, 5),
        (RowSerializer(SEVEN), RowValue("+I", (1, None, 2, *[None] * 4)), 108633248),
        (RowSerializer([]), RowValue("+I", ()), 1),
        (row_of(INT, INT), RowValue("-D", (1, 2)), 2079),
        (row_of(BytesSerializer()), RowValue("+I", (b"\1\2\3",)), 30879),
        (row_of(row_of(INT), ListSerializer(INT)), RowValue("+I", (RowValue("+I", (1,)), [1, 2])), 5861),
        (row_of(MapSerializer(STRING, LONG)), RowValue("+I", ([("a", 1)],)), 192),
        (row_of(SetSerializer(INT)), RowValue("+I", ([1, 2],)), 65),
        (row_of(string_array()), RowValue("+I", (["a", None],)), 4960),
        (row_of(GenericArraySerializer(LONG, "java.lang.Long")), RowValue("+I", ([1, None, 3],)), 60608),
        (row_of(PrimitiveArraySerializer("DOUBLE")), RowValue("+I", ([1.5, -2.0],)), 2131231743),
        (row_of(PrimitiveArraySerializer("CHAR")), RowValue("+I", (["a", "b"],)), 4128),
        (row_of(PrimitiveArraySerializer("BOOLEAN")), RowValue("+I", ([True, False],)), 40421),
        (row_of(TupleSerializer([LONG, STRING])), RowValue("+I", ((1, "b"),)), 191),
        (row_of(EITHER), RowValue("+I", (EitherValue(True, "ab"),)), 3167),
        (row_of(NullableSerializer(STRING)), RowValue("+I", ("ab",)), 3167),
        (row_of(LocalDateSerializer()), RowValue("+I", (LocalDate(2024, 2, 29),)), 4145371),
        (row_of(MapSerializer(INT, ListSerializer(INT))), RowValue("+I", ([(1, [1, 2])],)), 2050),
    ],
    ids=str,
)
def test_hash_codes_of_flink_2_3_0(serializer: TypeSerializer, value: Any, code: int) -> None:
    assert serializer.hash_code(value) == code


def test_an_enum_is_no_key() -> None:
    with pytest.raises(UnsupportedFormatError, match="Flink refuses it as a key"):
        ENUM.hash_code("GOLD")


longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
pairs = st.tuples(longs, texts)
rows = st.builds(RowValue, st.sampled_from(ROW_KINDS), st.tuples(st.none() | longs, texts, st.none() | ints))
eithers = st.one_of(st.builds(EitherValue, st.just(True), texts), st.builds(EitherValue, st.just(False), longs))
DEEP = RowSerializer(
    [
        PAIR,
        ROW,
        EitherSerializer(PAIR, ListSerializer(ROW)),
        NullableSerializer(PAIR),
        MapSerializer(LONG, ROW),
        Tuple0Serializer(),
    ]
)
deep = st.builds(
    RowValue,
    st.sampled_from(ROW_KINDS),
    st.tuples(
        st.none() | pairs,
        st.none() | rows,
        st.none()
        | st.builds(EitherValue, st.just(True), pairs)
        | st.builds(EitherValue, st.just(False), st.lists(rows, max_size=3)),
        st.none() | pairs,
        st.none() | st.lists(st.tuples(longs, st.none() | rows), max_size=3, unique_by=itemgetter(0)),
        st.none() | st.just(()),
    ),
)
RANDOM: list[tuple[TypeSerializer, st.SearchStrategy[Any]]] = [
    (PAIR, pairs),
    (TupleSerializer([PAIR, TupleSerializer([INT])]), st.tuples(pairs, st.tuples(ints))),
    (ROW, rows),
    (RowSerializer(SEVEN), st.builds(RowValue, st.sampled_from(ROW_KINDS), st.tuples(*[st.none() | st.integers(-128, 127)] * 7))),
    (EITHER, eithers),
    (
        EitherSerializer(EITHER, ROW),
        st.builds(EitherValue, st.just(True), eithers) | st.builds(EitherValue, st.just(False), rows),
    ),
    (PADDED, st.none() | longs),
    (UNPADDED, st.none() | longs),
    (NullableSerializer(ROW), st.none() | rows),
    (ENUM, st.sampled_from(ENUM.names)),
    (ListSerializer(ENUM), st.lists(st.sampled_from(ENUM.names), max_size=5)),
    (DEEP, deep),
]


@pytest.mark.parametrize(("serializer", "values"), RANDOM, ids=str)
def test_random_values(serializer: TypeSerializer, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(values, max_size=10), st.sampled_from([PLAIN, WITH_KIND]))
    def check(sample: list[Any], options: DecodeOptions) -> None:
        check_codec(serializer, sample, options)

    check()


@settings(max_examples=20)
@given(deep)
def test_truncated_at_every_byte(value: RowValue) -> None:
    payload = DEEP.serialize(value)
    for size in range(len(payload)):
        with pytest.raises(CorruptSnapshotError):
            DEEP.deserialize(payload[:size])
        with pytest.raises(CorruptSnapshotError):
            decode_with_kernel(DEEP, [payload[:size]])
        with pytest.raises(CorruptSnapshotError):
            skip_with_kernel(DEEP, [payload[:size]])


@pytest.mark.parametrize(
    ("serializer", "data", "reason"),
    [
        (Tuple0Serializer(), "2b", "byte 42"),
        (EITHER, "0200", "boolean"),
        (ENUM, "00000003", "constant 3 of com.acme.Tier"),
        (ENUM, "ffffffff", "constant -1"),
    ],
)
def test_damaged_values(serializer: TypeSerializer, data: str, reason: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=reason):
        serializer.deserialize(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("serializer", "data", "reason"),
    [
        (Tuple0Serializer(), "2b", "the format fixes one"),
        (ENUM, "00000003", "snapshot does not have"),
        (ENUM, "ffffffff", "snapshot does not have"),
    ],
)
def test_damaged_values_in_the_kernel(serializer: TypeSerializer, data: str, reason: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=reason):
        decode_with_kernel(serializer, [bytes.fromhex(data)])


def test_errors_name_the_field() -> None:
    payload = RowSerializer([PAIR]).serialize(RowValue("+I", ((1, "abc"),)))
    with pytest.raises(CorruptSnapshotError, match=r"in f0\.f1"):
        decode_with_kernel(RowSerializer([PAIR]), [payload[:-1]])


def test_unknown_constants_and_kinds_are_not_written() -> None:
    with pytest.raises(ValueError, match="BRONZE, SILVER, GOLD"):
        ENUM.serialize("PLATINUM")
    with pytest.raises(ValueError, match="tuple"):
        ROW.serialize(RowValue("+X", (1, "a", 2)))
    with pytest.raises(ValueError, match="shorter"):
        PAIR.serialize((1,))


# What Flink 2.3.0 wrote, without the nested snapshots
FLINK = "00000003000de704"
NESTED = "001457fd00000001"


@pytest.mark.parametrize(
    ("serializer", "class_name", "outer"),
    [
        (PAIR, "TupleSerializerSnapshot", "00000002" + "0026" + b"org.apache.flink.api.java.tuple.Tuple2".hex()),
        (ROW, "RowSerializer$RowSerializerSnapshot", "0000000401"),
        (RowSerializer(SEVEN, supports_row_kind=False), "RowSerializer$RowSerializerSnapshot", "0000000400"),
        (EITHER, "JavaEitherSerializerSnapshot", "00000001"),
        (PADDED, "NullableSerializer$NullableSerializerSnapshot", "0000000200000008"),
    ],
    ids=str,
)
def test_snapshots_as_flink_2_3_0_writes_them(serializer: TypeSerializer, class_name: str, outer: str) -> None:
    name = (RUNTIME + class_name).encode()
    written = serializer.snapshot().to_bytes().hex()
    assert written.startswith(len(name).to_bytes(2, "big").hex() + name.hex() + FLINK + outer + NESTED)
    check_snapshot(serializer.snapshot())


def test_snapshots_of_enums_and_of_tuple0() -> None:
    enum_class = f"{BASE}EnumSerializer$EnumSerializerSnapshot".encode()
    assert EnumSerializer("Oracle$E", ["A", "B", "C"]).snapshot().to_bytes() == (
        len(enum_class).to_bytes(2, "big") + enum_class + bytes.fromhex("0000000300084f7261636c65244500000003000141000142000143")
    )
    assert Tuple0Serializer().snapshot().to_bytes() == (
        bytes.fromhex("0044")
        + b"org.apache.flink.api.java.typeutils.runtime.Tuple0SerializerSnapshot"
        + bytes.fromhex("00000003")
    )


def row_snapshot(outer_version: int, supports_row_kind: bool) -> TypeSerializerSnapshot:
    return RowSerializer([LONG], supports_row_kind=supports_row_kind, outer_version=outer_version).snapshot()


@pytest.mark.parametrize(("outer_version", "supports_row_kind"), [(2, False), (3, True), (4, True), (4, False)])
def test_versions_of_the_row_snapshot(outer_version: int, supports_row_kind: bool) -> None:
    snapshot = row_snapshot(outer_version, supports_row_kind)
    check_snapshot(snapshot)
    restored = read_serializer_snapshot(snapshot.to_bytes()).restore_serializer()
    assert isinstance(restored, RowSerializer)
    assert restored.supports_row_kind is supports_row_kind


def legacy_either(version: int) -> bytes:
    target = DataOutput()
    target.write_utf(LEGACY_EITHER_SNAPSHOT)
    target.write_int(version)
    write_nested_snapshots([STRING.snapshot(), LONG.snapshot()], target)
    return target.to_bytes()


def test_either_of_flink_1_7() -> None:
    snapshot = read_serializer_snapshot(legacy_either(2))
    check_snapshot(snapshot)
    assert str(snapshot.restore_serializer()) == "EITHER<STRING,LONG>"
    assert snapshot.resolve_schema_compatibility(EITHER).verdict is Verdict.COMPATIBLE_AS_IS
    assert snapshot.resolve_schema_compatibility(EitherSerializer(LONG, LONG)).is_incompatible
    with pytest.raises(UnsupportedFormatError, match=r"Flink before 1\.7"):
        read_serializer_snapshot(legacy_either(1))


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        (PAIR, TupleSerializer([LONG, STRING], "com.acme.Pair"), Verdict.COMPATIBLE_AS_IS, ""),
        (PAIR, TupleSerializer([LONG]), Verdict.INCOMPATIBLE, "2 nested serializers were written, 1 are required"),
        (PAIR, TupleSerializer([LONG, LONG]), Verdict.INCOMPATIBLE, "StringSerializerSnapshot was written"),
        (PAIR, ROW, Verdict.INCOMPATIBLE, "RowSerializer"),
        (ROW, RowSerializer([LONG, STRING, INT]), Verdict.COMPATIBLE_AS_IS, ""),
        (RowSerializer([LONG], outer_version=3), RowSerializer([LONG]), Verdict.COMPATIBLE_AS_IS, ""),
        (
            RowSerializer([LONG], supports_row_kind=False, outer_version=2),
            RowSerializer([LONG]),
            Verdict.COMPATIBLE_AFTER_MIGRATION,
            "",
        ),
        (RowSerializer([LONG], supports_row_kind=False), RowSerializer([INT]), Verdict.INCOMPATIBLE, "IntSerializer"),
        (RowSerializer([ENUM]), RowSerializer([LONG]), Verdict.INCOMPATIBLE, "EnumSerializer"),
        (EITHER, EitherSerializer(STRING, LONG), Verdict.COMPATIBLE_AS_IS, ""),
        (EITHER, EitherSerializer(LONG, STRING), Verdict.INCOMPATIBLE, "LongSerializer"),
        (PADDED, NullableSerializer(LONG, 8), Verdict.COMPATIBLE_AS_IS, ""),
        (PADDED, UNPADDED, Verdict.INCOMPATIBLE, "padded to 8 bytes, 0 are required"),
        (ENUM, EnumSerializer("com.acme.Tier", ENUM.names), Verdict.COMPATIBLE_AS_IS, ""),
        (ENUM, EnumSerializer("com.acme.Tier", [*ENUM.names, "IRON"]), Verdict.COMPATIBLE_WITH_RECONFIGURED_SERIALIZER, ""),
        (ENUM, EnumSerializer("com.acme.Tier", ENUM.names[::-1]), Verdict.COMPATIBLE_WITH_RECONFIGURED_SERIALIZER, ""),
        (ENUM, EnumSerializer("com.acme.Tier", ENUM.names[1:]), Verdict.INCOMPATIBLE, "no longer has BRONZE"),
        (ENUM, EnumSerializer("com.acme.Level", ENUM.names), Verdict.INCOMPATIBLE, "com.acme.Level"),
        (
            TupleSerializer([ENUM]),
            TupleSerializer([EnumSerializer("com.acme.Tier", [*ENUM.names, "IRON"])]),
            Verdict.COMPATIBLE_WITH_RECONFIGURED_SERIALIZER,
            "",
        ),
    ],
    ids=str,
)
def test_compatibility(old: TypeSerializer, new: TypeSerializer, verdict: Verdict, reason: str) -> None:
    result = old.snapshot().resolve_schema_compatibility(new)
    assert result.verdict is verdict
    assert reason in result.reason


VALUE_SNAPSHOT = f"{RUNTIME}ValueSerializer$ValueSerializerSnapshot"


def test_negative_padding_is_damage() -> None:
    data = PADDED.snapshot().to_bytes().replace(bytes.fromhex("0000000200000008"), bytes.fromhex("00000002ffffffff"))
    with pytest.raises(CorruptSnapshotError, match="-1 bytes"):
        read_serializer_snapshot(data)


@pytest.mark.parametrize("serializer", [PAIR, ROW, EITHER, PADDED, ENUM, UserCodeSerializer("a.B", VALUE_SNAPSHOT)], ids=str)
def test_truncated_snapshots(serializer: TypeSerializer) -> None:
    data = serializer.snapshot().to_bytes()
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            read_serializer_snapshot(data[:size])


def test_serializers_read_only_what_is_theirs() -> None:
    source = DataInput(PAIR.serialize((1, "a")) + PAIR.serialize((2, None)))
    assert [PAIR.read(source), PAIR.read(source), source.at_end()] == [(1, "a"), (2, None), True]


EXPECTED = {
    "tuple": ("hello Gordon", "ciao", 14),
    "row": RowValue("+I", (None, 42, "My string.", None)),
    "either": EitherValue(True, "ApacheFlink"),
    "nullable-padded": None,
    "nullable-not-padded": None,
    "enum": "EMMA",
}


@pytest.mark.parametrize(
    "specimen",
    [s for p in ("tuple-*", "row-*", "either-*", "nullable-*", "enum-*") for s in specimens("flink-core", p)],
    ids=str,
)
def test_specimens(specimen: Specimen) -> None:
    assert check_specimen(specimen) == EXPECTED[specimen.name[: specimen.name.index("-serializer")]]
