"""Values in the encodings of Kryo 2 and 5: read values are written unchanged, and columns convert back."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.serializers import DataInput, DataOutput, DecodeOptions, read_serializer_snapshot, register_kryo_class
from state_processor.serializers.core.unread import OptionalEntry
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.kryo import java_time
from state_processor.serializers.kryo.classes import BARE_FIRST_USER_ID, KryoObject, Node, class_ids
from state_processor.serializers.kryo.columns import to_json
from state_processor.serializers.kryo.nested_kryo import for_flink
from state_processor.serializers.kryo.objects import KryoReader, KryoWriter
from state_processor.serializers.kryo.serializer import (
    Encoding,
    KryoSerializer,
    KryoSerializerSnapshot,
    KryoValue,
    convert,
)
from state_processor.serializers.kryo.wire import KryoInput, KryoOutput
from state_processor.support.errors import (
    InvalidRowError,
    OptionError,
    StateProcessorError,
    UndecodableValueError,
    UnsupportedFormatError,
)
from tests.serializers.harness import PLAIN, specimens
from tests.serializers.kryo_specimens import (
    MONEY,
    PACKAGE,
    TEXT,
    VERSIONS,
    described_classes,
    kryo_cases,
    kryo_parameters,
    with_first_id,
)

LOSSLESS = DecodeOptions(nanos="string")
FLINKS = (1, 2)
OTHER = {"1.20.5": "2.3.0", "2.3.0": "1.20.5"}
UNKNOWN_ENCODING = Encoding(0, (), 0)
BOOKS = "com.acme.Book"

LOST_BY_CONVERSION = {
    ("1.20.5", "pattern"): "Kryo 2 does not write the flags",
    ("2.3.0", "Arrays.asList"): "Kryo 5 does not write the class of the elements",
    ("2.3.0", "Arrays.asList, mixed"): "the same",
    ("2.3.0", "everything"): "the same",
}
"""Specimens that are not, after conversion, what the other Kryo wrote of the same value."""

LOST_BY_COLUMNS = {
    "sql date": "the time of day",
    "pattern": "the flags",
    "string 9": "a lone surrogate",
    "everything": "the classes of numbers",
}
"""Specimens that a column shows without something that is in the bytes."""

INTERFACES = ("java.lang.Object", "java.util.List", "java.util.Set", "java.util.Map")
UNTYPED = (*INTERFACES, "java.util.ArrayList", "java.util.PriorityQueue")
"""Types of specimens whose columns are JSON."""


@pytest.fixture(autouse=True)
def _classes() -> Iterator[None]:
    with described_classes():
        yield


def serializer_of(version: str, case: dict[str, Any]) -> KryoSerializer:
    return KryoSerializer(case["type"], [case["type"], *case.get("registered", [])], flink=VERSIONS[version])


def written() -> list[Any]:
    """Specimens that have bytes; a list in itself is refused."""
    return [c for c in kryo_parameters() if "bytes" in c.values[1] and "itself" not in c.values[1]["name"]]


# What was read


@pytest.mark.parametrize(("version", "case"), written())
def test_objects_are_written_as_kryo_wrote_them(version: str, case: dict[str, Any]) -> None:
    serializer, data = serializer_of(version, case), bytes.fromhex(case["bytes"])
    value = serializer.deserialize(data)
    if value is None:
        assert case["name"] == "null"
        return
    assert serializer.serialize(replace(value, raw=b"", encoding=UNKNOWN_ENCODING)) == data


@pytest.mark.parametrize(("version", "case"), written())
def test_one_kryo_becomes_the_other(version: str, case: dict[str, Any]) -> None:
    other = kryo_cases(OTHER[version])[case["name"]]
    serializer = serializer_of(version, case)
    converted = convert(bytes.fromhex(case["bytes"]), serializer, VERSIONS[OTHER[version]])
    if "bytes" not in other:
        assert case["name"] == "point"
        assert convert(converted, serializer.for_flink(1), 2).hex() == case["bytes"]
    elif (version, case["name"]) in LOST_BY_CONVERSION:
        assert converted.hex() != other["bytes"]
        again, wanted = (serializer_of(OTHER[version], other).deserialize(d) for d in (converted, bytes.fromhex(other["bytes"])))
        assert to_json(again.value) == to_json(wanted.value)
    else:
        assert converted.hex() == other["bytes"]


ANIMALS = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoPojosForMigrationTests$"


@pytest.mark.corpus(instead="tests/serializers/test_specimens.py::test_specimen")
@pytest.mark.parametrize("specimen", specimens("flink-core", "kryo-*"), ids=str)
def test_official_specimens_are_written_as_they_were(specimen: Any) -> None:
    def read(reader: KryoReader) -> KryoObject:
        return KryoObject(f"{ANIMALS}Dog", {"name": reader.string()})

    def write(writer: KryoWriter, value: KryoObject) -> None:
        writer.string(value.fields["name"])

    if "custom" in specimen.name:
        register_kryo_class(f"{ANIMALS}Dog", read, write=write)
    else:
        register_kryo_class(f"{ANIMALS}Dog", {"name": TEXT})
    restored = read_serializer_snapshot(specimen.snapshot).restore_serializer()
    assert isinstance(restored, KryoSerializer)
    serializer = with_first_id(restored, BARE_FIRST_USER_ID).for_flink(1)
    value = serializer.deserialize(specimen.data)
    assert serializer.serialize(replace(value, raw=b"", encoding=UNKNOWN_ENCODING)) == specimen.data


def test_an_object_in_two_places_stays_one() -> None:
    data = bytes.fromhex(kryo_cases("1.20.5")["ArrayList, same list twice"]["bytes"])
    value = KryoSerializer("java.util.List", flink=1).deserialize(data)
    assert value.node.content[0] is value.node.content[1]
    converted = KryoSerializer("java.util.List", flink=2).deserialize(convert(data, KryoSerializer("java.util.List"), 2))
    assert converted.node.content[0] is converted.node.content[1]


def test_objects_made_on_the_way_are_not_taken_for_one_another() -> None:
    serializer = KryoSerializer("java.util.List<java.time.ZonedDateTime>", flink=1)
    texts = [f"2024-07-01T13:{minute:02}:01+02:00[Europe/Zurich]" for minute in range(60)]
    value = serializer.deserialize(serializer.serialize(texts))
    assert serializer.to_column(value, PLAIN) == texts
    assert len({id(part) for node in value.node.content for part in node.content.fields.values()}) == 3 * len(texts)


def test_a_value_is_encoded_for_the_serializer_that_writes_it() -> None:
    old, new = KryoSerializer(f"{PACKAGE}Money", flink=1), KryoSerializer(f"{PACKAGE}Money", [TEXT, f"{PACKAGE}Money"], flink=2)
    bare = with_first_id(old, BARE_FIRST_USER_ID)
    value = old.deserialize(bytes.fromhex("57010a014555d2"))
    assert bare.serialize(value).hex() == "0c010a014555d2"
    assert old.serialize(bare.deserialize(bare.serialize(value))).hex() == "57010a014555d2"
    assert new.serialize(value).hex() == "57010a014555d2"
    assert old.serialize(KryoValue(b"\x01")) == b"\x01"


# What columns show


@pytest.mark.parametrize(("version", "case"), written())
def test_what_a_column_shows_is_written(version: str, case: dict[str, Any]) -> None:
    serializer, data = serializer_of(version, case), bytes.fromhex(case["bytes"])
    try:
        shown = serializer.to_column(serializer.deserialize(data), LOSSLESS)
    except UndecodableValueError:
        assert case["name"] in ("tip", "registered tip", "everything")  # a subclass in a column of its superclass
        return
    if _has_untyped_numbers(serializer, shown):
        with pytest.raises(ValueError, match="may be an Integer or a Long"):
            serializer.serialize(shown)
        return
    again = serializer.serialize(shown)
    if case["type"] not in INTERFACES and case["name"] not in LOST_BY_COLUMNS:
        assert again == data
    value = serializer.deserialize(again)
    if case["name"] not in ("Float NaN",):
        assert serializer.to_column(value, LOSSLESS) == shown


def _has_untyped_numbers(serializer: KryoSerializer, shown: Any) -> bool:
    """Whether a column of JSON holds whole numbers where nothing tells their class."""
    return serializer.type_class in UNTYPED and shown is not None and any(map(_is_whole, _untyped(json.loads(shown))))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _untyped(value: Any) -> Iterator[Any]:
    if (isinstance(value, dict) and "@class" not in value) or isinstance(value, list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _untyped(part)
    else:
        yield value


def test_classes_of_untyped_values_can_be_named() -> None:
    serializer = KryoSerializer("java.util.List", flink=2)
    texts = [
        {"@class": "java.lang.Long", "@value": 1},
        {"@class": "java.time.LocalDate", "@value": "2024-02-29"},
        {"@class": f"{PACKAGE}Money", "amount": 5, "currency": None},
        {"@class": f"{PACKAGE}Side", "@value": "LEFT"},
        {"@class": "java.util.TreeMap", "@value": {"k": True}},
        {"@class": "java.util.Collections$SingletonList", "@value": [0.5]},
        {"@class": "[I", "@value": [1]},
        {"k": ["v", None]},
    ]
    value = serializer.deserialize(serializer.serialize(json.dumps(texts)))
    assert [node.class_name for node in value.node.content] == [*(t["@class"] for t in texts[:-1]), "java.util.HashMap"]
    assert [to_json(v) for v in value.value] == [
        *(1, "2024-02-29", {"@class": f"{PACKAGE}Money", "amount": 5, "currency": None}, "LEFT", {"k": True}, [0.5], [1]),
        {"k": ["v", None]},
    ]


def test_interfaces_get_classes() -> None:
    def class_of(type_: str, value: Any) -> str:
        return KryoSerializer(type_, flink=1).from_column(value).node.class_name

    assert class_of(f"java.util.List<{TEXT}>", ["a"]) == "java.util.ArrayList"
    assert class_of(f"java.util.SortedSet<{TEXT}>", ["a"]) == "java.util.TreeSet"
    assert class_of(f"java.util.Map<{TEXT},{TEXT}>", {"a": "b"}) == "java.util.HashMap"
    assert class_of("java.time.ZoneId", "Europe/Zurich") == "java.time.ZoneRegion"
    assert class_of("java.time.ZoneId", "+02:00") == "java.time.ZoneOffset"
    assert class_of(f"java.util.EnumSet<{PACKAGE}Side>", '["LEFT"]') == "java.util.RegularEnumSet"
    register_kryo_class("Large", [f"C{n}" for n in range(65)])
    assert class_of("java.util.EnumSet<Large>", '["C64"]') == "java.util.JumboEnumSet"


def test_values_of_python() -> None:
    def shown(type_: str, value: Any) -> Any:
        serializer = KryoSerializer(type_, flink=2)
        return serializer.to_column(serializer.deserialize(serializer.serialize(value)), PLAIN)

    moment = datetime(2024, 2, 29, 12, 30, 15, 123000, UTC)
    assert shown("java.util.Date", moment) == moment
    assert shown("java.time.Instant", moment) == moment
    assert shown("java.time.OffsetDateTime", moment) == "2024-02-29T12:30:15.123Z"
    assert shown("java.time.LocalDate", date(2024, 2, 29)) == date(2024, 2, 29)
    assert shown("java.time.Duration", timedelta(days=-1, microseconds=1)) == "PT-23H-59M-59.999999S"
    assert shown("java.util.UUID", UUID(int=5)) == str(UUID(int=5))
    assert shown("java.math.BigDecimal", Decimal("1.50")) == "1.50"
    assert shown("[B", b"\x01\xff") == b"\x01\xff"
    big = 10**5000
    assert shown("java.math.BigInteger", big) == shown("java.math.BigInteger", shown("java.math.BigInteger", big))


def test_plain_values_that_were_read_are_written() -> None:
    serializer = KryoSerializer(f"java.util.List<{PACKAGE}Money>", flink=2)
    data = serializer.serialize([{"amount": 1, "currency": "EUR"}, None])
    assert serializer.serialize(serializer.deserialize(data).value) == data
    assert list(encode_column(serializer, pa.array([[{"amount": 1, "currency": "EUR"}, None]]))) == [data]


def test_plain_text_in_an_object_is_no_json() -> None:
    register_kryo_class("Note", {"content": "java.lang.Object"})
    serializer = KryoSerializer("Note", flink=1)
    data = serializer.serialize({"content": '"text"'})
    assert serializer.deserialize(data).value.fields == {"content": "text"}
    assert serializer.serialize(serializer.deserialize(data).value) == data


def test_type_arguments_are_no_part_of_what_flink_sees() -> None:
    typed, bare = KryoSerializer(f"java.util.List<{TEXT}>", flink=1), KryoSerializer("java.util.List", flink=1)
    assert typed.serialize(["a", "b"]) == bare.serialize('["a", "b"]')
    assert typed.arrow_type(PLAIN) == pa.list_(pa.string())
    assert typed.snapshot().to_bytes() == bare.snapshot().to_bytes()
    assert str(typed) == f"KRYO<java.util.List<{TEXT}>>"
    assert str(pickle.loads(pickle.dumps(typed))) == str(typed.for_flink(2)) == str(typed)


def test_the_flink_that_reads_decides() -> None:
    serializer = KryoSerializer("java.util.UUID")
    text = "01234567-89ab-cdef-fedc-ba9876543210"
    for version, flink in VERSIONS.items():
        assert for_flink(serializer, flink).serialize(text).hex() == kryo_cases(version)["uuid"]["bytes"]
    with pytest.raises(OptionError, match="for_flink"):
        serializer.serialize(text)


@pytest.mark.parametrize("flink", FLINKS)
@pytest.mark.parametrize(
    ("type_", "value", "problem"),
    [
        ("java.lang.Integer", 1 << 31, "more than 32 bits"),
        ("java.lang.Byte", -129, "more than 8 bits"),
        ("java.lang.Integer", 1.5, "float"),
        ("java.lang.Boolean", 2, "expected true or false"),
        ("java.lang.Character", "ab", "not one UTF-16 unit"),
        ("java.lang.Character", "😀", "not one UTF-16 unit"),
        ("java.lang.Float", 1e300, "too large"),
        ("java.lang.String", 5, "expected text, found 5"),
        ("java.math.BigInteger", "1.5", "expected a whole number, found 1.5"),
        ("java.math.BigDecimal", "NaN", "expected a decimal number"),
        ("java.util.Date", "2024-01-01T00:00:00.000001Z", "more digits"),
        ("java.time.LocalDate", "2023-02-29", "expected a day of the calendar"),
        ("java.time.Duration", "1 hour", "expected text like PT1.5S, found '1 hour'"),
        ("java.time.MonthDay", "--02-30", "expected a day of the year"),
        ("java.time.ZoneOffset", "+19:00", "expected an offset from -18:00"),
        ("java.util.UUID", "0123", "badly formed"),
        ("java.util.BitSet", [-1], "expected bits of a BitSet, from 0"),
        ("java.net.InetSocketAddress", "host:70000", "expected host and port"),
        (f"{PACKAGE}Side", "MIDDLE", "found 'MIDDLE'; it has: LEFT, RIGHT"),
        (f"{PACKAGE}Money", {"amount": 1}, "too many or missing: currency"),
        (f"{PACKAGE}Money", {"amount": None, "currency": ""}, "expected a long, found null"),
        (f"{PACKAGE}Money", 5, "expected the fields of .*, found 5"),
        (f"java.util.List<{TEXT}>", "text", "expected a list, found 'text'"),
        (f"java.util.EnumSet<{TEXT}>", '["LEFT"]', "expected an EnumSet of a known enum"),
        ("java.util.List", "[1]", r"may be an Integer or a Long: .* Types.KRYO"),
        ("java.util.List", "[", "Expecting value"),
        ("Base", "{}", "is abstract: name the class"),
        ("java.text.SimpleDateFormat", '"yyyy"', "can't be written"),
    ],
)
def test_values_that_are_none(flink: int, type_: str, value: Any, problem: str) -> None:
    register_kryo_class("Base", None)
    with pytest.raises((ValueError, TypeError, ArithmeticError), match=problem):
        KryoSerializer(type_, flink=flink).serialize(value)


@pytest.mark.parametrize("flink", FLINKS)
def test_classes_that_are_not_known(flink: int) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"register_kryo_class\('com.acme.X'"):
        KryoSerializer("java.lang.Object", flink=flink).serialize('{"@class": "com.acme.X", "a": 1}')
    register_kryo_class("Holder", {"final": "java.lang.Long"})
    node = Node("Holder", {"final": Node("java.lang.Integer", 1)})
    with pytest.raises(ValueError, match=r"final class java\.lang\.Long, found one of class java\.lang\.Integer"):
        KryoSerializer("Holder", flink=flink).serialize(KryoValue(b"", node, UNKNOWN_ENCODING))
    with pytest.raises(UnsupportedFormatError, match=r"java\.net\.URL"):
        KryoSerializer("java.net.URL", flink=1).serialize("http://example.org")


def test_deep_nesting_is_refused() -> None:
    serializer = KryoSerializer("java.lang.Object", flink=1)
    with pytest.raises(UndecodableValueError, match="nest deeper"):
        serializer.serialize("[" * 105 + "]" * 105)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidRowError, match="fewer levels of nesting"):
        serializer.serialize(endless)


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_an_error_of_ours(seed: int) -> None:
    """Changed bytes are refused with a message, or are another value that is shown and written like other values."""
    random = Random(seed)
    for parameter in written():
        version, case = parameter.values
        serializer, data = serializer_of(version, case), bytearray.fromhex(case["bytes"])
        for _ in range(3):
            data[random.randrange(len(data))] = random.randrange(256)
        with suppress(StateProcessorError):
            value = serializer.deserialize(data)
            if value is not None:
                assert serializer.serialize(value) == data
                json.dumps(to_json(value.value))
                serializer.to_column(value, LOSSLESS)
                with suppress(ValueError):
                    serializer.for_flink(3 - VERSIONS[version]).serialize(value)


# Kryo serializers of the job


@pytest.mark.parametrize("flink", FLINKS)
def test_functions_write_what_functions_read(flink: int) -> None:
    def read(reader: KryoReader) -> dict[str, Any]:
        return {"id": reader.varint(), "tags": reader.class_and_object()}

    def write(writer: KryoWriter, value: dict[str, Any]) -> None:
        writer.varint(value["id"])
        writer.node(Node("java.util.ArrayList", [Node(TEXT, tag) for tag in value["tags"]]))

    register_kryo_class(BOOKS, read)
    serializer = KryoSerializer(BOOKS, flink=flink)
    with pytest.raises(UnsupportedFormatError, match="can only read: pass write= to register_kryo_class"):
        serializer.serialize('{"id": 1, "tags": []}')
    register_kryo_class(BOOKS, read, write=write)
    value = serializer.deserialize(serializer.serialize('{"id": 300, "tags": ["a", "b"]}'))
    assert value.value == {"id": 300, "tags": ["a", "b"]}
    assert serializer.for_flink(3 - flink).serialize(value) != value.raw


def test_java_serialization_is_taken_along() -> None:
    locale = bytes.fromhex(kryo_cases("1.20.5")["locale"]["bytes"])[2:]
    plain = KryoSerializerSnapshot.of("com.acme.Tongue")
    java = "org.apache.flink.api.java.typeutils.runtime.kryo.JavaSerializer"
    value = DataOutput()
    value.write_utf("com.acme.Tongue")
    value.write_int(1)
    value.write_utf(java)
    entry = plain.registrations[0]
    registrations = (OptionalEntry(entry.name, entry.key, value.to_bytes()), *plain.registrations[1:])
    snapshot = KryoSerializerSnapshot(plain.class_name, 2, plain.type_class, registrations, flink=1)
    serializer = snapshot.restore_serializer()
    assert isinstance(serializer, KryoSerializer)
    data = b"\x57\x01" + locale
    assert serializer.deserialize(data).value.fields["country"] == "DE"
    assert convert(data, serializer, 2) == data
    register_kryo_class("com.acme.Tongue", {"x": "int"})
    with pytest.raises(UnsupportedFormatError, match="Java serialization"):
        serializer.serialize({"x": 1})


# Numbers and text


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.booleans(), st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_numbers_and_text(number: int, flag: bool, text: str) -> None:
    small = number >> 32
    for version in (2, 5):
        target = DataOutput()
        output = KryoOutput(target, version)
        output.long(number)
        output.positive_long(number)
        output.int_(small)
        output.positive_int(small)
        output.flagged_varint(flag, small & 0x7FFFFFFF)
        output.string(text)
        output.string(None)
        output.class_name(text)
        output.counted(text)
        found = KryoInput(DataInput(target.to_bytes()), version)
        assert (found.long(), found.positive_long(), found.int_(), found.positive_int()) == (number, number, small, small)
        assert found.flagged_varint() == (flag, small & 0x7FFFFFFF)
        assert [found.string() for _ in range(4)] == [text, None, text, text]
        assert found.source.at_end()


# Any value of any type

Typed = tuple[str, Any]
"""A Java type, and the strategy of its values as columns show them."""

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["x" * n for n in (31, 32, 33, 63, 64, 65)]
)
_WIDTHS = {"Byte": 7, "Short": 15, "Integer": 31, "Long": 63}
_BOXED: list[Typed] = [
    ("java.lang.Boolean", st.booleans()),
    *(
        (f"java.lang.{n}", st.integers(-(1 << b), (1 << b) - 1))
        for n, b in (("Byte", 7), ("Short", 15), ("Integer", 31), ("Long", 63))
    ),
    ("java.lang.Character", st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF)),
    ("java.lang.Float", st.floats(width=32, allow_nan=False)),
    ("java.lang.Double", st.floats(allow_nan=False)),
]
_PRIMITIVES = [(n.rpartition(".")[2].lower().replace("integer", "int").replace("character", "char"), s) for n, s in _BOXED]
_OBJECTS: list[Typed] = [
    *_BOXED,
    (TEXT, _TEXTS),
    ("java.lang.StringBuilder", _TEXTS),
    ("java.math.BigInteger", st.integers(-(1 << 100), 1 << 100).map(str)),
    ("java.math.BigDecimal", st.decimals(allow_nan=False, allow_infinity=False).map(str)),
    ("java.util.UUID", st.uuids().map(str)),
    ("java.time.LocalDate", st.dates().map(str)),
    ("java.time.LocalTime", st.times().map(lambda v: str(java_time.to_local_time(v)))),
    ("java.time.Period", st.tuples(*[st.integers(-99, 99)] * 3).map(lambda v: str(java_time.Period(*v)))),
    ("java.time.ZoneOffset", st.integers(-64800, 64800).map(lambda v: str(java_time.Offset(v)))),
    ("java.util.BitSet", st.sets(st.integers(0, 200)).map(sorted)),
    (f"{PACKAGE}Side", st.sampled_from(["LEFT", "RIGHT"])),
    (f"{PACKAGE}Level", st.sampled_from(["LOW", "HIGH"])),
    (f"{PACKAGE}Money", st.fixed_dictionaries({n: st.integers(0, 9) if n == "amount" else st.none() | _TEXTS for n in MONEY})),
    (f"{PACKAGE}Spot", st.fixed_dictionaries({"x": st.integers(-9, 9), "y": st.none() | st.integers(-9, 9)})),
    ("java.lang.Object", st.none() | _TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False))),
]


_COLLECTIONS = st.sampled_from(["List", "LinkedList", "HashSet"])


def _containers(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    """Collections, arrays, maps and Optionals of some types."""

    def elements(typed: Typed) -> st.SearchStrategy[Any]:
        return st.lists(st.none() | typed[1], max_size=4)

    def entries(key: Typed, value: Typed) -> st.SearchStrategy[Any]:
        return st.lists(st.tuples(key[1], st.none() | value[1]), max_size=4)

    primitives = st.sampled_from([typed for typed in _PRIMITIVES if typed[0] != "byte"])
    return st.one_of(
        st.builds(lambda name, t: (f"java.util.{name}<{t[0]}>", elements(t)), _COLLECTIONS, inner),
        st.builds(lambda t: (f"{t[0]}[]", elements(t)), inner.filter(lambda typed: "<" not in typed[0])),
        st.builds(lambda t: (f"{t[0]}[]", st.lists(t[1], max_size=4)), primitives),
        st.builds(lambda t: (f"java.util.Optional<{t[0]}>", t[1]), inner),
        st.builds(lambda k, v: (f"java.util.Map<{k[0]},{v[0]}>", entries(k, v)), st.sampled_from(_OBJECTS[:12]), inner),
    )


_TYPED = st.recursive(st.sampled_from(_OBJECTS), _containers, max_leaves=3)


@settings(max_examples=200)
@given(st.data())
def test_any_value_in_fields_of_any_types(data: st.DataObject) -> None:
    types = data.draw(st.lists(_TYPED | st.sampled_from(_PRIMITIVES), min_size=1, max_size=5))
    fields = {f"f{n}": type_ for n, (type_, _) in enumerate(types)}
    register_kryo_class("Any", fields, final=data.draw(st.booleans()))
    row = {
        f"f{n}": data.draw(values if type_[0].islower() and "." not in type_ else st.none() | values)
        for n, (type_, values) in enumerate(types)
    }
    rows = [row, None, row]
    encoded = []
    for flink in FLINKS:
        serializer = KryoSerializer("java.util.List<Any>", flink=flink)
        encoded.append(serializer.serialize(rows))
        value = serializer.deserialize(encoded[-1])
        shown = pa.array([serializer.to_column(value, LOSSLESS)], serializer.arrow_type(LOSSLESS)).to_pylist()[0]
        assert repr(shown) == repr(pa.array([rows], serializer.arrow_type(LOSSLESS)).to_pylist()[0])
        assert serializer.serialize(replace(value, encoding=UNKNOWN_ENCODING)) == encoded[-1]
    for flink in FLINKS:
        serializer = KryoSerializer("java.util.List<Any>", flink=flink)
        assert convert(encoded[flink - 1], serializer, 3 - flink) == encoded[2 - flink]


def test_not_a_number_is_written() -> None:
    for flink in FLINKS:
        serializer = KryoSerializer("java.lang.Double", flink=flink)
        assert math.isnan(serializer.deserialize(serializer.serialize(math.nan)).value)


def test_registered_classes_have_numbers() -> None:
    numbers = {name: number for number, name in class_ids(["int", "com.acme.X", "java.util.UUID"]).items()}
    assert numbers["java.lang.Void"] == 9
    assert numbers["com.acme.X"] == 85
    assert numbers["java.util.UUID"] == 82
