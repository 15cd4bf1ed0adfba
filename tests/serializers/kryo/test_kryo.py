"""Values that Kryo wrote: bytes of real Flink 1.20 and 2.3, decoded to their last byte."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from state_processor.serializers import DataInput, DecodeOptions, read_serializer_snapshot, register_kryo_class
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.unread import OpaqueSerializer, reason_end_unknown
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.classes import BARE_FIRST_USER_ID, KryoObject
from state_processor.serializers.kryo.columns import to_json
from state_processor.serializers.kryo.serializer import (
    KryoSerializer,
    KryoSerializerSnapshot,
    KryoValue,
)
from state_processor.serializers.registry import Registrations, current_registrations, register
from state_processor.support.errors import (
    CorruptSnapshotError,
    OptionError,
    StateProcessorError,
    UndecodableValueError,
    UnsupportedFormatError,
)
from tests.serializers.harness import PLAIN, decode_with_kernel, specimens
from tests.serializers.kryo_specimens import (
    EVERYTHING,
    MONEY,
    PACKAGE,
    TEXT,
    TIP,
    VERSIONS,
    described_classes,
    kryo_parameters,
    with_first_id,
)


@pytest.fixture(autouse=True)
def _classes() -> Iterator[None]:
    with described_classes():
        yield


def _shown(value: Any) -> Any:
    """An expected value, its short forms of objects written out."""
    if isinstance(value, tuple):
        name, *fields = value
        return {"@class": PACKAGE + name, **dict(zip(MONEY if name == "Money" else TIP, fields, strict=True))}
    if isinstance(value, list):
        return [_shown(v) for v in value]
    return {k: _shown(v) for k, v in value.items()} if isinstance(value, dict) else value


LONG_TEXTS = {
    f"string {i}": text
    for i, text in enumerate(
        ["", "a", "ab", "ä", "aä", "\0", "\x7f\x80", "€uro", "😀", "\ud800"]
        + ["x" * n for n in (31, 32, 33, 62, 63, 64, 65)]
        + ["ä" * 63, "ä" * 64, "x" * 4200, "x" * 4200 + "ä"]
    )
}
SUBCLASS_INSIDE = {"tip", "registered tip", "everything"}
"""Cases where a subclass stands in a column of its superclass."""
MONIES = [("Money", 1, "A"), ("Money", 2, "A"), ("Tip", 3, "B", None)]
EXPECTED: dict[str, Any] = {
    **{name: text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") for name, text in LONG_TEXTS.items()},
    **{f"BigInteger {n}": n for n in ("0", "1", "10", "-1", "255", "123456789012345678901234567890")},
    **{f"BigDecimal {n}": n for n in ("0", "0.00", "1", "10", "-12.50", "1E+5", "123456789012345678901234567890.123")},
    "Boolean true": True,
    "Byte -3": -3,
    "Character ä": "ä",
    "Short -2": -2,
    **{f"Integer {n}": n for n in (0, -1, 63, 64, -(2**31), 2**31 - 1)},
    **{f"Long {n}": n for n in (0, -1, -(2**63), 2**63 - 1)},
    "Float 1.5": 1.5,
    "Float NaN": "NaN",
    "Double -2.5": -2.5,
    "Double -Infinity": "-Infinity",
    "null": None,
    "level": "LOW",
    "level with a body": "HIGH",
    "level in a list": ["LOW", "HIGH"],
    "date": "2020-09-13T12:26:40.123Z",
    "date before 1970": "1969-12-31T23:59:59.999Z",
    "sql date": "2020-09-13",
    "sql time": "01:00:00",
    "sql timestamp": "2020-09-13T12:26:40.123456789Z",
    "sql timestamp before 1970": "1969-12-31T23:59:58.000000005Z",
    "uuid": "01234567-89ab-cdef-fedc-ba9876543210",
    "uri": "http://example.org/a?b",
    "pattern": "a+",
    "locale": "de_DE",
    "address": "localhost:80",
    "currency": "EUR",
    "string builder": "built",
    "string buffer": "buffered",
    "class": TEXT,
    "time zone": "Europe/Zurich",
    "calendar": "2020-09-13T12:26:40.123Z",
    "bits": [0, 63, 129, 130],
    "no bits": [],
    "instant": "2020-09-13T12:26:40.123456789Z",
    "instant before 1970": "1969-12-31T23:59:55.000000007Z",
    "local date": "2024-02-29",
    "local date before year 1": "-0005-01-02",
    "local time, hours": "13:00",
    "local time, minutes": "13:05",
    "local time, seconds": "13:05:07",
    "local time, nanos": "13:05:07.000000009",
    "local date time": "2024-02-29T13:05:07.000009",
    "duration": "PT-4.999999993S",
    "duration of hours": "PT25H1M1.5S",
    "period": "P1Y-2M3D",
    "year": "2024",
    "year and month": "2024-02",
    "month and day": "--02-29",
    "offset time": "13:05+02:00",
    "offset date time": "2024-02-29T13:05-03:30",
    "zoned date time": {"1.20.5": "2024-07-01T13:05+02:00[Europe/Zurich]", "2.3.0": "2024-07-01T13:05[Europe/Zurich]"},
    "zone": "Europe/Zurich",
    "zone offset": "+01:00:01",
    "ArrayList": ["a", "bc"],
    "ArrayList, empty": [],
    "ArrayList of ArrayList class": [1],
    "ArrayList, mixed": [1, "b", None, 2.5],
    "ArrayList, nulls": [None, None],
    "ArrayList, some null": ["a", None, "c"],
    "ArrayList, longs": [1, -1, 2**63 - 1],
    "ArrayList, many": [7] * 200,
    "ArrayList, same object twice": ["shared text", "shared text"],
    "ArrayList, same list twice": [["x"], ["x"]],
    "ArrayList, equal objects": ["1970-01-01T00:00:00.001Z"] * 2,
    "LinkedList": [1, 2],
    "Vector": [1, 2],
    "ArrayDeque": [1, 2],
    "HashSet": ["s"],
    "LinkedHashSet": [2, 1],
    "TreeSet": ["s", "t"],
    "TreeSet, comparator": ["b", "a"],
    "PriorityQueue": [1, 3, 2],
    "HashMap": {"k": 1},
    "HashMap, empty": {},
    "HashMap, nulls": [[None, None]],
    "HashMap, integers": [[1, "a"], [2, "b"]],
    "LinkedHashMap": {"b": 1, "a": "text", "c": None},
    "TreeMap": {"a": 2, "b": 1},
    "ConcurrentHashMap": {"k": 1},
    "EnumMap": {"LOW": "l"},
    "EnumMap of sides": {"LEFT": 1},
    "EnumSet": ["LOW"],
    "HashMap of lists": {"k": ["v", "w"]},
    "Arrays.asList": ["a", "b"],
    "Arrays.asList, mixed": [1, "b", None],
    "Arrays.asList, empty": [],
    "emptyList": [],
    "emptyMap": {},
    "emptySet": [],
    "singletonList": ["s"],
    "singletonMap": {"k": 1},
    "singleton": ["s"],
    "unmodifiableList": ["a"],
    "unmodifiableMap": {"k": 1},
    "unmodifiableSet": ["a"],
    "nCopies": ["n", "n"],
    "List.of": [],
    "List.of 1": ["a"],
    "List.of 3": ["a", "b", "c"],
    "Set.of 1": ["a"],
    "Map.of 1": {"a": 1},
    "Optional": "o",
    "Optional, empty": None,
    "OptionalInt": 4,
    "OptionalLong": -4,
    "OptionalDouble": None,
    "AtomicInteger": -5,
    "AtomicLong": 5,
    "AtomicBoolean": True,
    "byte[]": "01ff",
    "boolean[]": [True, False],
    "char[]": ["a", "ß"],
    "short[]": [1, -300],
    "int[]": [1, -1, 300],
    "long[]": [1, -1, 1 << 40],
    "float[]": [0.5],
    "double[]": [0.5],
    "String[]": ["a", None, "b"],
    "String[], same twice": ["shared text", "shared text"],
    "Object[]": [1, "b", None],
    "Integer[]": [1, None],
    "int[][]": [[1], [2, 3], None],
    "List[]": [["a"]],
    "Money[]": [("Money", 1, "EUR"), None],
    "money": ("Money", 5, "EUR"),
    "money without currency": ("Money", -5, None),
    "tip": ("Tip", 7, "CHF", 0.25),
    "monies": MONIES,
    "same money twice": [("Money", 9, "Z"), ("Money", 9, "Z")],
    "side": "RIGHT",
    "sides": ["RIGHT", "LEFT"],
    "side as object": "LEFT",
    "point": {"@class": f"{PACKAGE}Point", "x": -1, "y": 2, "name": "p"},
    "registered money": ("Money", -5, "EUR"),
    "registered level": "LOW",
    "registered tip": ("Tip", 7, "EUR", None),
    "registered bits": [0],
    "registered list": [("Money", 1, "A"), ("Tip", 2, "B", 1.0)],
    "everything": {"@class": f"{PACKAGE}Everything", **{name: value for name, (_, value) in EVERYTHING.items()}},
}


@pytest.mark.parametrize(("version", "case"), kryo_parameters())
def test_bytes_of_real_flink(version: str, case: dict[str, Any]) -> None:
    serializer = KryoSerializer(case["type"], [case["type"], *case.get("registered", [])], flink=VERSIONS[version])
    if "snapshot" in case:
        data = bytes.fromhex(case["snapshot"])
        snapshot = read_serializer_snapshot(data, flink_major=VERSIONS[version])
        assert snapshot.to_bytes() == data
        assert serializer.snapshot().to_bytes() == data
        serializer = snapshot.restore_serializer()
        assert str(serializer) == f"KRYO<{case['type']}>"
    if "bytes" not in case:
        assert version == "1.20.5"
        assert case["name"] == "point"  # Kryo 2 can't write records
        return
    data = bytes.fromhex(case["bytes"])
    if case["name"] == "ArrayList in itself":
        with pytest.raises(UndecodableValueError, match="contains itself"):
            serializer.deserialize(data)
        return
    value = serializer.deserialize(data)
    assert serializer.serialize(value) == data
    expected = EXPECTED[case["name"]]
    if case["name"] == "zoned date time":
        expected = expected[version]
    assert to_json(value.value if value else None) == _shown(expected)
    if case["name"] not in SUBCLASS_INSIDE:
        options = DecodeOptions(nanos="string")
        array = pa.array([serializer.to_column(value, options)], serializer.arrow_type(options))
        shown = array.to_pylist()[0]
        if serializer.arrow_type(options) == pa.string() and isinstance(shown, str) and not isinstance(_shown(expected), str):
            shown = json.loads(shown)
        assert (shown is None) == (expected is None)


@pytest.mark.parametrize(
    ("version", "case"), [c for c in kryo_parameters() if "bytes" in c.values[1] and "itself" not in c.values[1]["name"]]
)
def test_truncation_is_an_error(version: str, case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["bytes"])
    serializer = KryoSerializer(case["type"], [case["type"], *case.get("registered", [])], flink=VERSIONS[version])
    for end in {*range(min(len(data), 40)), len(data) - 1}:
        with pytest.raises(StateProcessorError):
            serializer.deserialize(data[:end])


def test_version_is_deduced_from_a_whole_value() -> None:
    old, new = bytes.fromhex("01006a6176612e7574696c2e41727261794c6973f4010203018261030162e3"), None
    new = bytes.fromhex("01006a6176612e7574696c2e41727261794c6973f401830300018261" + "0162e3")
    serializer = KryoSerializer("java.util.List")
    for data in (old, new):
        value = serializer.deserialize(data)
        assert value.value == ["a", "bc"]
        assert serializer.to_column(value, PLAIN) == '["a", "bc"]'


def test_ambiguous_version_is_an_error() -> None:
    data = bytes.fromhex("0a4000000000000000")
    with pytest.raises(UnsupportedFormatError, match="flink_major"):
        KryoSerializer("java.lang.Object").deserialize(data)
    assert KryoSerializer("java.lang.Object", flink=1).deserialize(bytes.fromhex("0a4000000000000000")).value == 2.0


def test_columns() -> None:
    def column(type_: str, data: str) -> tuple[pa.DataType, Any]:
        serializer = KryoSerializer(type_, flink=1)
        return serializer.arrow_type(PLAIN), serializer.to_column(serializer.deserialize(bytes.fromhex(data)), PLAIN)

    assert column("java.util.BitSet", "4c01010000000000000005") == (pa.list_(pa.int32()), [0, 2])
    assert column("java.util.Date", "5701fb80babbc82e") == (
        pa.timestamp("us", "UTC"),
        datetime(2020, 9, 13, 12, 26, 40, 123000, UTC),
    )
    assert column("java.math.BigDecimal", "570103fb1e04") == (pa.string(), "-12.50")
    assert column("java.util.UUID", "54010204") == (pa.string(), "00000000-0000-0001-0000-000000000002")
    assert column(f"{PACKAGE}Money", "57010a014555d2") == (
        pa.struct([("amount", pa.int64()), ("currency", pa.string())]),
        {"amount": 5, "currency": "EUR"},
    )
    assert column("java.lang.Object", "0202") == (pa.string(), "1")
    assert column("java.util.List", "00") == (pa.string(), None)


def test_column_of_declared_collections() -> None:
    register_kryo_class(
        "Box", {"names": ListSerializer(StringSerializer()), "counts": f"java.util.Map<{TEXT}, long[]>", "next": "Box"}
    )
    serializer = KryoSerializer("Box", flink=1)
    assert serializer.arrow_type(PLAIN) == pa.struct(
        [("names", pa.list_(pa.string())), ("counts", pa.map_(pa.string(), pa.list_(pa.int64()))), ("next", pa.string())]
    )
    data = bytes.fromhex("5701" + "0000" + "57010000" + "00")
    value = serializer.deserialize(data)
    assert serializer.to_column(value, PLAIN) == {
        "names": None,
        "counts": None,
        "next": '{"@class": "Box", "names": null, "counts": null, "next": null}',
    }


def test_subclass_in_a_column_of_its_superclass_is_not_cut() -> None:
    serializer = KryoSerializer(f"{PACKAGE}Money", [f"{PACKAGE}Money", f"{PACKAGE}Tip"], flink=1)
    value = serializer.deserialize(bytes.fromhex("58010e014555d200"))
    with pytest.raises(UndecodableValueError, match="register_kryo_class"):
        serializer.to_column(value, PLAIN)
    register_kryo_class(f"{PACKAGE}Money", None)
    assert json.loads(serializer.to_column(value, PLAIN))["@class"] == f"{PACKAGE}Tip"


def test_unknown_class_is_raw_bytes_only_where_they_have_an_end() -> None:
    serializer = KryoSerializer("com.acme.Unknown", flink=1)
    data = bytes.fromhex("57010a")
    assert not serializer.self_delimiting
    assert "register_kryo_class('com.acme.Unknown'" in reason_end_unknown(MapSerializer(StringSerializer(), serializer))
    assert not reason_end_unknown(KryoSerializer("java.util.List"))
    assert serializer.arrow_type(PLAIN) == pa.binary()
    with pytest.raises(UnsupportedFormatError, match=r"com\.acme\.Unknown"):
        serializer.deserialize(data)
    raw = serializer.as_remainder()
    assert isinstance(raw, OpaqueSerializer)
    assert decode_with_kernel(raw, [data, b""]) == [data, b""]
    known = KryoSerializer("java.util.List")
    assert known.as_remainder() is known
    assert raw.deserialize(data) == data
    assert raw.serialize(data) == data
    assert str(raw) == "KRYO<com.acme.Unknown>"
    assert raw.snapshot().to_bytes() == serializer.snapshot().to_bytes()


def test_descriptions_travel_with_the_serializer() -> None:
    pickled = pickle.dumps(KryoSerializer(f"{PACKAGE}Money", flink=1))
    register(lambda _: Registrations())
    register_kryo_class(f"{PACKAGE}Tip", {"own": "int"})
    serializer = pickle.loads(pickled)
    assert serializer.deserialize(bytes.fromhex("57010a014555d2")).value.fields == {"amount": 5, "currency": "EUR"}
    assert dict(current_registrations().kryo_classes[f"{PACKAGE}Tip"].fields) == {"own": JavaType("int")}


def test_class_numbers_of_scala_are_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="class number 11"):
        KryoSerializer("java.lang.Object", flink=1).deserialize(b"\x0d\x01")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("0101", "class name 1 is referred to"),
        ("0305", "object 3 is referred to"),
        ("0301ffffffff0f", "announced"),
        ("0301c3ff", "bytes announced|characters announced|left"),
        ("4b01ffffffff0f", "announced"),
    ],
)
def test_damage(data: str, problem: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=problem):
        KryoSerializer("java.lang.Object", flink=1).deserialize(bytes.fromhex(data))


def test_deep_nesting_is_refused() -> None:
    data = b"\x01\x00java.util.ArrayLis\xf4\x01\x01" + b"\x01\x00\x01\x01" * 5000
    with pytest.raises(UndecodableValueError, match="nest deeper"):
        KryoSerializer("java.util.List", flink=1).deserialize(data)


def test_values_of_unknown_classes_are_written_as_bytes_alone() -> None:
    serializer = KryoSerializer("com.acme.Unknown", flink=1)
    assert serializer.serialize(None) == b"\0"
    assert serializer.serialize(KryoValue(b"\x01", None)) == b"\x01"
    with pytest.raises(UnsupportedFormatError, match=r"can't be written .* register_kryo_class\('com.acme.Unknown'"):
        serializer.serialize({"a": 1})


def test_java_types() -> None:
    assert JavaType.parse("int[][]") == JavaType("[[I")
    assert JavaType.parse("int[][]").component == "[I"
    assert JavaType.parse("a.B[]") == JavaType("[La.B;")
    assert JavaType.parse("a.B[]").component == "a.B"
    assert JavaType.parse("Map<String, List<? extends Number>>") == JavaType(
        "Map", (JavaType("String"), JavaType("List", (JavaType("java.lang.Object"),)))
    )
    for wrong in ("", "a<", "a<b", "a>b", "a<b>c"):
        with pytest.raises(OptionError):
            JavaType.parse(wrong)
    with pytest.raises(OptionError, match="does not map to a Java type"):
        register_kryo_class("X", {"a": KryoSerializer("x").raw()})
    register_kryo_class("X", {"a": MapSerializer(NumberSerializer("LONG"), StringSerializer()), "b": NumberSerializer("LONG")})
    assert dict(current_registrations().kryo_classes["X"].fields) == {
        "a": JavaType("java.util.Map", (JavaType("java.lang.Long"), JavaType(TEXT))),
        "b": JavaType("long"),
    }


def test_compatibility() -> None:
    def verdict(old: KryoSerializerSnapshot, new: KryoSerializerSnapshot) -> str:
        return str(old.resolve_schema_compatibility(new))

    first = KryoSerializerSnapshot.of("A", ["B", "C"])
    assert verdict(first, KryoSerializerSnapshot.of("A", ["B", "C"])) == "compatible_as_is"
    assert verdict(first, KryoSerializerSnapshot.of("A", ["C", "B"])) == "compatible_with_reconfigured_serializer"
    assert verdict(first, KryoSerializerSnapshot.of("A")) == "compatible_with_reconfigured_serializer"
    assert "not as KRYO<B>" in verdict(first, KryoSerializerSnapshot.of("B"))
    assert first.resolve_schema_compatibility(ListSerializer(StringSerializer())).is_incompatible


ANIMALS = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoPojosForMigrationTests$"


@pytest.mark.corpus(instead="tests/serializers/test_specimens.py::test_specimen")
@pytest.mark.parametrize("specimen", specimens("flink-core", "kryo-*"), ids=str)
def test_official_specimens(specimen: Any) -> None:
    for name, fields in {
        "Animal": None,
        "Dog": {"name": TEXT},
        "Cat": {"name": TEXT, "age": "int"},
        "Parrot": {"accent": TEXT},
    }.items():
        register_kryo_class(ANIMALS + name, fields)
    snapshot = read_serializer_snapshot(specimen.snapshot)
    assert snapshot.to_bytes() == specimen.snapshot
    restored = snapshot.restore_serializer()
    assert isinstance(restored, KryoSerializer)
    serializer = with_first_id(restored, BARE_FIRST_USER_ID)
    if "custom" in specimen.name:
        with pytest.raises(UnsupportedFormatError, match="DogKryoSerializer"):
            serializer.deserialize(specimen.data)
        register_kryo_class(f"{ANIMALS}Dog", lambda reader: KryoObject(f"{ANIMALS}Dog", {"name": reader.string()}))
    value = serializer.read(DataInput(specimen.data))
    assert serializer.serialize(value) == specimen.data
    assert to_json(value.value) == {"@class": f"{ANIMALS}Dog", "name": "Hasso"}
