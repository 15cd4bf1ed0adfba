"""Layouts of connectors: content to bytes and back, bytes that the connectors wrote, and bytes that are damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state_processor import connectors
from state_processor.backends.connectors.codecs import read_all, to_bytes
from state_processor.backends.connectors.java_values import ROW, time_content, time_data
from state_processor.backends.connectors.registry import OWN, layouts
from state_processor.serializers.io import DataInput
from state_processor.support.errors import (
    CorruptSnapshotError,
    NotFoundError,
    UnsupportedFormatError,
)
from tests.backends.connectors.layout_tests import LayoutTests, names_of
from tests.corpus import CORPUS

SPECIMENS = [*sorted((CORPUS / "connectors").glob("*.jsonl"))]
LAYOUTS = layouts().by_class
TUPLES = "org.apache.flink.api.java.typeutils.runtime.TupleSerializer"
"""A serializer of lists of several connectors."""


class TestLayouts(LayoutTests):
    names = names_of(OWN)


def _plain(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _plain(value) for name, value in content.items() if name != "note"}
    return [*map(_plain, content)] if isinstance(content, list) else content


@pytest.mark.corpus(instead="tests/backends/connectors/layout_tests.py::LayoutTests::test_content_is_read_back")
@pytest.mark.skipif(not SPECIMENS, reason="the corpus is not there")
def test_bytes_of_connectors() -> None:
    lines = {path.name: [json.loads(line) for line in path.read_text().splitlines()] for path in SPECIMENS}
    assert sum(map(len, lines.values())) >= 144
    for file, of_file in lines.items():  # a plug-in that is a package of its own has all lines of its files
        names = {line["serializer"] for line in of_file}
        assert names <= LAYOUTS.keys() or names.isdisjoint(LAYOUTS.keys() - {TUPLES}), file
        for line in of_file if names <= LAYOUTS.keys() else ():
            _check_specimen(line)


def _check_specimen(line: Any) -> None:
    name, version, data = line["serializer"], line["version"], bytes.fromhex(line["hex"])
    content = connectors.decode(name, version, data)
    assert content == _plain(line["content"])
    assert connectors.encode(name, version, line["content"]) == data
    assert connectors.encode(name, version, content) == data
    with pytest.raises((CorruptSnapshotError, UnsupportedFormatError), match=rf"{name} version {version}.*offset"):
        connectors.decode(name, version, data + b"\0")
    with pytest.raises(UnsupportedFormatError, match=rf"version 99 of {name}"):
        connectors.decode(name, 99, data)


JAVA_17: list[tuple[str, Any]] = [  # written by ObjectOutputStream of a JDK 17
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000047372000e6a6176612e6c61"
        "6e672e427974659c4e6084ee50f51c02000142000576616c7565787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b02"
        "00007870ff7372000f6a6176612e6c616e672e53686f7274684d37133460da5202000153000576616c75657871007e0003012c73720011"
        "6a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c75657871007e0003000000077372000e6a6176612e"
        "6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c75657871007e00030000000000000008",
        [
            {"class": "java.lang.Byte", "value": -1},
            {"class": "java.lang.Short", "value": 300},
            {"class": "java.lang.Integer", "value": 7},
            {"class": "java.lang.Long", "value": 8},
        ],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000047372000f6a6176612e6c61"
        "6e672e466c6f6174daedc9a2db3cf0ec02000146000576616c7565787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b"
        "02000078703fc00000737200106a6176612e6c616e672e446f75626c6580b3c24a296bfb0402000144000576616c75657871007e0003c0"
        "02000000000000737200116a6176612e6c616e672e426f6f6c65616ecd207280d59cfaee0200015a000576616c756578700174000b61c0"
        "80c3a9eda0bdedb880",
        [
            {"class": "java.lang.Float", "value": 1.5},
            {"class": "java.lang.Double", "value": -2.25},
            {"class": "java.lang.Boolean", "value": True},
            {"class": "java.lang.String", "value": "a\x00é😀"},
        ],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000004737200146a6176612e6d61"
        "74682e426967496e74656765728cfc9f1fa93bfb1d030006490008626974436f756e744900096269744c656e6774684900136669727374"
        "4e6f6e7a65726f427974654e756d49000c6c6f776573745365744269744900067369676e756d5b00096d61676e69747564657400025b42"
        "787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870fffffffffffffffffffffffefffffffe000000017572"
        "00025b42acf317f8060854e0020000787000000009010000000000000000787371007e0002fffffffffffffffffffffffefffffffe0000"
        "00007571007e000600000000787371007e0002fffffffffffffffffffffffefffffffeffffffff7571007e000600000001ff7870",
        [
            {"class": "java.math.BigInteger", "value": 18446744073709551616},
            {"class": "java.math.BigInteger", "value": 0},
            {"class": "java.math.BigInteger", "value": -255},
            None,
        ],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000004737200146a6176612e6d61"
        "74682e426967446563696d616c54c71557f981284f0300024900057363616c654c0006696e7456616c7400164c6a6176612f6d6174682f"
        "426967496e74656765723b787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b020000787000000004737200146a6176"
        "612e6d6174682e426967496e74656765728cfc9f1fa93bfb1d030006490008626974436f756e744900096269744c656e67746849001366"
        "697273744e6f6e7a65726f427974654e756d49000c6c6f776573745365744269744900067369676e756d5b00096d61676e697475646574"
        "00025b427871007e0004fffffffffffffffffffffffefffffffe00000001757200025b42acf317f8060854e002000078700000000301e2"
        "0878787371007e0002ffffffe27371007e0006fffffffffffffffffffffffefffffffe000000017571007e000900000001017878737100"
        "7e0002000000027371007e0006fffffffffffffffffffffffefffffffe000000007571007e00090000000078787571007e000900000002"
        "01ff",
        [
            {"class": "java.math.BigDecimal", "value": "12.3400"},
            {"class": "java.math.BigDecimal", "value": "1E+30"},
            {"class": "java.math.BigDecimal", "value": "0.00"},
            {"class": "[B", "value": "01ff"},
        ],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000037372000e6a6176612e7574"
        "696c2e44617465686a81014b597419030000787077080000000000000005787372000d6a6176612e73716c2e4461746514fa46683f3566"
        "970200007871007e00027708ffffffffffffffff787372000d6a6176612e73716c2e54696d6574894a0dd932c4710200007871007e0002"
        "7708000000000000000778",
        [
            {"class": "java.util.Date", "value": 5},
            {"class": "java.sql.Date", "value": -1},
            {"class": "java.sql.Time", "value": 7},
        ],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000001737200126a6176612e7371"
        "6c2e54696d657374616d702618d5c80153bf650200014900056e616e6f737872000e6a6176612e7574696c2e44617465686a81014b5974"
        "19030000787077080000018bcfe5680078075bcd15",
        [{"class": "java.sql.Timestamp", "value": {"epochMillis": 1700000000000, "nanos": 123456789}}],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000000",
        [],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000027400016171007e0002",
        [{"class": "java.lang.String", "value": "a"}, {"class": "java.lang.String", "value": "a"}],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000002740000737200136a6176"
        "612e6c616e672e436861726163746572348b47d96b1a267802000143000576616c756578700063",
        [{"class": "java.lang.String", "value": ""}, {"class": "java.lang.Character", "value": "c"}],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000003737200116a6176612e6c"
        "616e672e426f6f6c65616ecd207280d59cfaee0200015a000576616c75657870017371007e00020071007e0003",
        [
            {"class": "java.lang.Boolean", "value": True},
            {"class": "java.lang.Boolean", "value": False},
            {"class": "java.lang.Boolean", "value": True},
        ],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000027372000e6a6176612e75"
        "74696c2e55554944bc9903f7986d852f0200024a000c6c65617374536967426974734a000b6d6f737453696742697473787000000000"
        "0000000000000000000000007371007e00028000000000000000ffffffffffffffff",
        [
            {"class": "java.util.UUID", "value": "00000000-0000-0000-0000-000000000000"},
            {"class": "java.util.UUID", "value": "ffffffff-ffff-ffff-8000-000000000000"},
        ],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000004737200146a6176612e6d"
        "6174682e426967446563696d616c54c71557f981284f0300024900057363616c654c0006696e7456616c7400164c6a6176612f6d6174"
        "682f426967496e74656765723b787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b02000078700000000773720014"
        "6a6176612e6d6174682e426967496e74656765728cfc9f1fa93bfb1d030006490008626974436f756e744900096269744c656e677468"
        "49001366697273744e6f6e7a65726f427974654e756d49000c6c6f776573745365744269744900067369676e756d5b00096d61676e69"
        "747564657400025b427871007e0004fffffffffffffffffffffffefffffffe00000001757200025b42acf317f8060854e00200007870"
        "000000010178787371007e00020000000a7371007e0006fffffffffffffffffffffffefffffffe000000007571007e00090000000078"
        "787371007e00020000000371007e000c787371007e0002fffffe7071007e000878",
        [
            {"class": "java.math.BigDecimal", "value": "1E-7"},
            {"class": "java.math.BigDecimal", "value": "0E-10"},
            {"class": "java.math.BigDecimal", "value": "0.000"},
            {"class": "java.math.BigDecimal", "value": "1E+400"},
        ],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000017372000d6a6176612e74"
        "696d652e536572955d84ba1b2248b20c00007870770703000007e8021d78",
        [{"class": "java.time.LocalDate", "value": "2024-02-29"}],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000017372000d6a6176612e74"
        "696d652e536572955d84ba1b2248b20c00007870770e05000007e8021d0102030000000478",
        [{"class": "java.time.LocalDateTime", "value": "2024-02-29T01:02:03.000000004"}],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000017372000d6a6176612e74"
        "696d652e536572955d84ba1b2248b20c0000787077030401fd78",
        [{"class": "java.time.LocalTime", "value": "01:02"}],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000017372000d6a6176612e74"
        "696d652e536572955d84ba1b2248b20c00007870770d0200000000000000050000000778",
        [{"class": "java.time.Instant", "value": "1970-01-01T00:00:05.000000007Z"}],
    ),
    (
        "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000007737200116a6176612e6c"
        "616e672e496e746567657212e2a0a4f781873802000149000576616c7565787200106a6176612e6c616e672e4e756d62657286ac951d"
        "0b94e08b02000078700000007f7371007e00020000008071007e00047371007e0002000000807371007e0002ffffff807371007e0002"
        "ffffff7f71007e0007",
        [
            {"class": "java.lang.Integer", "value": 127},
            {"class": "java.lang.Integer", "value": 128},
            {"class": "java.lang.Integer", "value": 127},
            {"class": "java.lang.Integer", "value": 128},
            {"class": "java.lang.Integer", "value": -128},
            {"class": "java.lang.Integer", "value": -129},
            {"class": "java.lang.Integer", "value": -128},
        ],
    ),
]


@pytest.mark.parametrize(("written", "content"), [*JAVA_17, ("aced000570", None)])
def test_rows_of_java(written: str, content: Any) -> None:
    data = bytes.fromhex(written)
    assert read_all(ROW, DataInput(data)) == content
    assert to_bytes(ROW, content) == data


def test_names_of_serializers() -> None:
    assert connectors.serializers()["org.apache.flink.connector.kafka.source.split.KafkaPartitionSplitSerializer"] == (0,)
    with pytest.raises(NotFoundError, match="Did you mean"):
        connectors.decode("com.acme.KafkaPartitionSplitSerializer", 1, b"")


TIMES_OF_JAVA: list[tuple[str, str]] = [
    ("04ff", "00:00"),
    ("04fa", "05:00"),
    ("05fffffffb0102fa", "-0005-01-02T05:00"),
    ("0405f9", "05:06"),
    ("040506f8", "05:06:07"),
    ("0405060700000008", "05:06:07.000000008"),
    ("0405060707270e00", "05:06:07.120"),
    ("05000007e80c1f05060707270e00", "2024-12-31T05:06:07.120"),
    ("04173b3b3b9ac9ff", "23:59:59.999999999"),
    ("04050000000003e8", "05:00:00.000001"),
    ("040500f8", "05:00:07"),
    ("033b9ac9ff0c1f", "+999999999-12-31"),
    ("03c46536010101", "-999999999-01-01"),
    ("03000027100101", "+10000-01-01"),
    ("03ffffd8f00101", "-10000-01-01"),
    ("03000000000101", "0000-01-01"),
    ("02000000000000000000000000", "1970-01-01T00:00:00Z"),
    ("02ffffffffffffffff00000005", "1969-12-31T23:59:59.000000005Z"),
    ("02000000006553f1000754d4c0", "2023-11-14T22:13:20.123Z"),
    ("02000000006553f1000001d4c0", "2023-11-14T22:13:20.000120Z"),
    ("0200701cd2fa9578ff3b9ac9ff", "+1000000000-12-31T23:59:59.999999999Z"),
    ("01fffffffffffffffb00000007", "PT-4.999999993S"),
    ("01000000000000000000000000", "PT0S"),
    ("01000000000003f48000000000", "PT72H"),
    ("06000007e807010dfa0807000d4575726f70652f5a7572696368", "2024-07-01T13:05+02:00[Europe/Zurich]"),
    ("06000007e807010d050000000001f408f4", "2024-07-01T13:05:00.000000001-03:00"),
    ("07000c417369612f4b6f6c6b617461", "Asia/Kolkata"),
    ("0816", "+05:30"),
    ("087f00000e11", "+01:00:01"),
    ("087ffffff1ef", "-01:00:01"),
    ("090102fc00", "01:02:03Z"),
    ("0a000007e80101ff04", "2024-01-01T00:00+01:00"),
    ("0a000007e8010100000007270e00b8", "2024-01-01T00:00:00.120-18:00"),
    ("0b000007e8", "2024"),
    ("0bfffffffb", "-5"),
    ("0c0000000c03", "0012-03"),
    ("0d021d", "--02-29"),
    ("0e00000001fffffffe0000001e", "P1Y-2M30D"),
    ("0e000000000000000000000000", "P0D"),
]


@pytest.mark.parametrize(("data", "text"), TIMES_OF_JAVA)
def test_times_of_java(data: str, text: str) -> None:
    name, written = time_content(bytes.fromhex(data)) or ("", "")
    assert written == text
    assert time_data(name, text).hex() == data


def test_a_float_is_the_shortest_number() -> None:
    row = [{"class": "java.lang.Float", "value": value} for value in (0.1, 3.4028235e38, 1e-45, -0.0)]
    assert json.dumps(read_all(ROW, DataInput(to_bytes(ROW, row)))) == json.dumps(row)
