from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.nullable import EitherValue
from state_processor.serializers.runtime.scala import (
    SCALA,
    TABLE_SCALA,
    TUPLE2_SNAPSHOT,
    CaseClassSerializer,
    EnumerationSerializer,
    NothingSerializer,
    OptionSerializer,
    ScalaEitherSerializer,
    Some,
    TraversableSerializer,
    TrySerializer,
    TryValue,
    UnitSerializer,
    scala_hash,
)
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, UndecodableValueError
from tests.serializers.harness import PLAIN, check_codec, check_payloads, check_snapshot, compiles, decode_with_kernel

BOOLEAN, INT, LONG, FLOAT, DOUBLE = map(NumberSerializer, ("BOOLEAN", "INT", "LONG", "FLOAT", "DOUBLE"))
STRING = StringSerializer()
EVENT = CaseClassSerializer("a.Event", [LONG, STRING])
COLOUR = EnumerationSerializer("a.Colour$", [("Red", 0), ("Blue", 1)])
SPARSE = EnumerationSerializer("a.Sparse$", [("Low", -5), ("High", 1000)])
LIST = TraversableSerializer(STRING, "implicitly[CanBuildFrom[List[String], String, List[String]]]")

longs, texts = st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=5)


@pytest.mark.parametrize(
    ("serializer", "value", "data"),
    [
        (EVENT, (5, "ab"), "0000000000000005 03 61 62"),
        (OptionSerializer(STRING), None, "00"),
        (OptionSerializer(STRING), Some(None), "01 00"),
        (OptionSerializer(STRING), Some("a"), "01 02 61"),
        (OptionSerializer(OptionSerializer(INT)), Some(None), "01 00"),
        (ScalaEitherSerializer(INT, STRING), EitherValue(True, 7), "01 00000007"),
        (ScalaEitherSerializer(INT, STRING), EitherValue(False, "a"), "00 02 61"),
        (TrySerializer(INT, STRING), TryValue(True, 7), "01 00000007"),
        (TrySerializer(INT, STRING), TryValue(False, "a"), "00 02 61"),
        (LIST, ["a", None], "00000002 01 02 61 00"),
        (COLOUR, "Blue", "00000001"),
        (SPARSE, "Low", "fffffffb"),
        (UnitSerializer(), None, "00"),
        (OptionSerializer(NothingSerializer()), None, "00"),
    ],
    ids=str,
)
def test_bytes(serializer: TypeSerializer, value: object, data: str) -> None:
    assert check_payloads(serializer, [bytes.fromhex(data)]) == [value]
    check_snapshot(serializer.snapshot())


@given(st.data())
@pytest.mark.parametrize(
    ("serializer", "values"),
    [
        (EVENT, st.tuples(longs, texts)),
        (OptionSerializer(STRING), st.none() | st.builds(Some, texts)),
        (OptionSerializer(EVENT), st.none() | st.builds(Some, st.tuples(longs, texts))),
        (
            ScalaEitherSerializer(LONG, STRING),
            st.builds(EitherValue, st.just(True), longs) | st.builds(EitherValue, st.just(False), texts),
        ),
        (TrySerializer(LONG, STRING), st.builds(TryValue, st.just(True), longs) | st.builds(TryValue, st.just(False), texts)),
        (LIST, st.lists(texts, max_size=4)),
        (COLOUR, st.sampled_from(["Red", "Blue"])),
        (SPARSE, st.sampled_from(["Low", "High"])),
        (UnitSerializer(), st.none()),
    ],
    ids=str,
)
def test_round_trip(serializer: TypeSerializer, values: st.SearchStrategy, data: st.DataObject) -> None:  # type: ignore[type-arg]
    check_codec(serializer, data.draw(st.lists(values, max_size=5)))


def test_columns() -> None:
    assert EVENT.arrow_type(PLAIN) == pa.struct([("_1", pa.int64()), ("_2", pa.string())])
    assert OptionSerializer(EVENT).arrow_type(PLAIN) == EVENT.arrow_type(PLAIN)
    assert decode_with_kernel(COLOUR, [bytes(4), bytes.fromhex("00000001")]) == ["Red", "Blue"]
    assert decode_with_kernel(TrySerializer(INT, STRING), [bytes.fromhex("01 00000007")]) == [{"success": 7, "failure": None}]


def test_lengths() -> None:
    assert CaseClassSerializer("a.A", [LONG, INT]).length == 12
    assert EVENT.length == -1
    assert COLOUR.length == 4
    assert UnitSerializer().length == 1


def test_ids_with_gaps_are_left_to_python() -> None:
    assert compiles(COLOUR)
    assert not compiles(SPARSE)


def test_names_of_an_enumeration_are_checked() -> None:
    with pytest.raises(CorruptSnapshotError, match="lacks a value with id 7"):
        COLOUR.deserialize(bytes.fromhex("00000007"))
    with pytest.raises(StateProcessorError):
        decode_with_kernel(COLOUR, [bytes.fromhex("00000007")])
    with pytest.raises(ValueError, match="it has: Red, Blue"):
        COLOUR.serialize("Green")


def test_nothing_has_no_values() -> None:
    nothing = OptionSerializer(NothingSerializer())
    for decode in (nothing.deserialize, lambda data: decode_with_kernel(nothing, [data])):
        for data in ("01", "01 00"):
            with pytest.raises(CorruptSnapshotError):
                decode(bytes.fromhex(data))
    with pytest.raises(UndecodableValueError, match="Nothing"):
        nothing.serialize(Some(1))


@pytest.mark.parametrize("serializer", [EVENT, OptionSerializer(INT), ScalaEitherSerializer(INT, INT), LIST, COLOUR], ids=str)
def test_both_packages(serializer: TypeSerializer) -> None:
    plain = serializer.snapshot()
    name = plain.class_name.replace(SCALA, TABLE_SCALA)
    data = len(name).to_bytes(2, "big") + name.encode() + plain.to_bytes()[2 + len(plain.class_name) :]
    check_snapshot(read_serializer_snapshot(data))


def test_pairs_keep_their_snapshot_class() -> None:
    pair = CaseClassSerializer("scala.Tuple2", [INT, STRING], TUPLE2_SNAPSHOT)
    check_snapshot(pair.snapshot())
    assert (
        str(read_serializer_snapshot(pair.snapshot().to_bytes()).restore_serializer()) == "CASE_CLASS<scala.Tuple2(INT,STRING)>"
    )


def float32(value: float) -> float:
    return float(struct.unpack(">f", struct.pack(">f", value))[0])


@pytest.mark.parametrize(
    ("serializer", "value", "expected"),
    [
        (LONG, 5, 5),
        (LONG, -1, -1),
        (LONG, 1 << 31, -(1 << 31)),
        (LONG, -12345678901, -539222986),
        (LONG, -(1 << 63), -(1 << 31)),
        (FLOAT, 0.0, 0),
        (FLOAT, float32(0.1), 1036831949),
        (FLOAT, 3e9, -1294967296),
        (FLOAT, float32(1e30), 1900671690),
        (FLOAT, float("nan"), 2143289344),
        (DOUBLE, -0.0, 0),
        (DOUBLE, -3.0, -3),
        (DOUBLE, 0.1, -1507852285),
        (DOUBLE, 0.5, 1056964608),
        (DOUBLE, 1e10, 1410065410),
        (DOUBLE, 9.3e18, -723564985),
        (DOUBLE, 2.0**63, -(1 << 31)),
        (DOUBLE, 1e300, -164130400),
        (DOUBLE, 3.4028235677973366e38, -1209008129),
        (DOUBLE, float("inf"), 2139095040),
        (DOUBLE, float("nan"), 2146959360),
        (BOOLEAN, True, 1231),
        (STRING, None, 0),
        (OptionSerializer(STRING), None, 2433880),
        (COLOUR, "Blue", 1),
        (UnitSerializer(), None, 0),
    ],
    ids=str,
)
def test_hashes_of_fields(serializer: TypeSerializer, value: object, expected: int) -> None:
    """Checked against the Scala library."""
    assert scala_hash(serializer, value) == expected


@pytest.mark.parametrize(
    ("serializer", "value", "expected"),
    [
        (EVENT, (5, "ab"), 1877571469),
        (EVENT, (1 << 40, None), 611766424),
        (OptionSerializer(STRING), Some("ab"), 246531783),
        (OptionSerializer(DOUBLE), Some(1.5), 2075389193),
        (ScalaEitherSerializer(INT, STRING), EitherValue(True, 7), 196037679),
        (CaseClassSerializer("a.Outer$None", []), (), 2433880),
    ],
    ids=str,
)
def test_hashes(serializer: TypeSerializer, value: object, expected: int) -> None:
    """Checked against the Scala library, by the rule of 2.12."""
    assert serializer.hash_code(value) == expected


@pytest.mark.parametrize(
    ("written", "wanted", "verdict"),
    [
        (EVENT, EVENT, Verdict.COMPATIBLE_AS_IS),
        (EVENT, CaseClassSerializer("a.Other", [LONG, STRING]), Verdict.INCOMPATIBLE),
        (EVENT, CaseClassSerializer("a.Event", [LONG]), Verdict.INCOMPATIBLE),
        (EVENT, CaseClassSerializer("a.Event", [INT, STRING]), Verdict.INCOMPATIBLE),
        (LIST, LIST, Verdict.COMPATIBLE_AS_IS),
        (LIST, TraversableSerializer(STRING, "set"), Verdict.INCOMPATIBLE),
        (OptionSerializer(INT), OptionSerializer(INT), Verdict.COMPATIBLE_AS_IS),
        (OptionSerializer(INT), OptionSerializer(LONG), Verdict.INCOMPATIBLE),
        (COLOUR, COLOUR, Verdict.COMPATIBLE_AS_IS),
        (COLOUR, EnumerationSerializer("a.Colour$", [("Red", 0), ("Blue", 1), ("Green", 2)]), Verdict.COMPATIBLE_AS_IS),
        (COLOUR, EnumerationSerializer("a.Colour$", [("Blue", 0), ("Red", 1)]), Verdict.INCOMPATIBLE),
        (COLOUR, EnumerationSerializer("a.Colour$", [("Red", 0)]), Verdict.INCOMPATIBLE),
        (COLOUR, EnumerationSerializer("a.Other$", [("Red", 0), ("Blue", 1)]), Verdict.INCOMPATIBLE),
    ],
)
def test_compatibility(written: TypeSerializer, wanted: TypeSerializer, verdict: Verdict) -> None:
    assert written.snapshot().resolve_schema_compatibility(wanted).verdict is verdict


def test_reasons() -> None:
    other = CaseClassSerializer("a.Other", [LONG, STRING])
    assert "case class a.Event was written, case class a.Other is required" in str(
        EVENT.snapshot().resolve_schema_compatibility(other)
    )
    fewer = EnumerationSerializer("a.Colour$", [("Red", 0)])
    assert "id 1 was 'Blue' and no longer exists" in str(COLOUR.snapshot().resolve_schema_compatibility(fewer))
