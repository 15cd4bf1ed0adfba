"""Our verdicts on pairs of types equal the verdicts of real Flink, recorded by ``tests/interop/compatibility.py``."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from state_processor.serializers import read_serializer_snapshot
from state_processor.serializers.avro.records import AvroSerializer
from state_processor.serializers.base import SchemaCompatibility, TypeSerializerSnapshot, Verdict
from state_processor.serializers.runtime.wrapping import TtlAwareSerializerSnapshot
from tests.serializers.compatibility_table import GONE, TABLE, TTL, UNNOTICED, UNREADABLE, UNTYPED

GOLDEN = Path(__file__).parent.parent / "fixtures" / "compatibility"
VERSIONS = ("1.18.1", "1.20.5", "2.3.0")
ROWS = [(family, *row) for family, rows in TABLE.items() for row in rows]
_NAMES = {
    Verdict.COMPATIBLE_AS_IS: "as_is",
    Verdict.COMPATIBLE_WITH_RECONFIGURED_SERIALIZER: "reconfigured",
    Verdict.COMPATIBLE_AFTER_MIGRATION: "migration",
    Verdict.INCOMPATIBLE: "incompatible",
}
_AVRO = "AVRO "


@cache
def golden(version: str) -> dict[str, Any]:
    content = json.loads(gzip.decompress((GOLDEN / f"flink-{version}.json.gz").read_bytes()))
    verdicts = {(v["written"], v["wanted"]): v["verdict"] for v in content["verdicts"]}
    return {"verdicts": verdicts, "snapshots": content["snapshots"]}


def of_flink(verdict: str, version: str) -> str:
    """What a verdict of the table means for a version of Flink."""
    return {
        GONE: "incompatible",
        UNNOTICED: "incompatible" if version == "1.18.1" else "as_is",
        TTL: "migration" if version == "2.3.0" else "incompatible",
        UNTYPED: "incompatible" if version == "2.3.0" else "as_is",
    }.get(verdict, verdict)


def of_ours(verdict: str, version: str) -> str:
    """What it means for us, given the snapshots of that version."""
    ours = {GONE: "reconfigured", UNNOTICED: "incompatible", UNREADABLE: "incompatible", TTL: "migration"}
    return ours.get(verdict) or of_flink(verdict, version)


def snapshot(version: str, type_: str) -> TypeSerializerSnapshot:
    if type_.startswith(_AVRO):
        return AvroSerializer(type_.removeprefix(_AVRO)).snapshot()
    found = read_serializer_snapshot(bytes.fromhex(golden(version)["snapshots"][type_]))
    return TtlAwareSerializerSnapshot.of(found) if type_.startswith("STATE<") else found


def verdict(version: str, written: str, wanted: str) -> SchemaCompatibility:
    return snapshot(version, written).resolve_schema_compatibility(snapshot(version, wanted))


def _has_classes(version: str, written: str, wanted: str) -> bool:
    """Scala's serializers are in Flink 1 only, some others in Flink 2 only."""
    return not golden(version)["verdicts"][written, wanted].startswith("no class")


def _rows() -> list[Any]:
    return [
        pytest.param(version, *row[1:], id=f"{version} {row[1]} => {row[2]}")
        for version in VERSIONS
        for row in ROWS
        if _has_classes(version, row[1], row[2])
    ]


@pytest.mark.parametrize(("version", "written", "wanted", "expected"), _rows())
def test_verdicts(version: str, written: str, wanted: str, expected: str) -> None:
    assert golden(version)["verdicts"][written, wanted] == of_flink(expected, version)
    found = verdict(version, written, wanted)
    assert _NAMES[found.verdict] == of_ours(expected, version), found
    assert bool(found.reason) == found.is_incompatible


@pytest.mark.parametrize("version", VERSIONS)
def test_every_pair_is_asked(version: str) -> None:
    assert list(golden(version)["verdicts"]) == [(written, wanted) for _, written, wanted, _ in ROWS]


def test_enough_rows_of_every_family() -> None:
    asked = {family for family, written, wanted, _ in ROWS if any(_has_classes(v, written, wanted) for v in VERSIONS)}
    assert asked == set(TABLE)
    assert sum(_has_classes("2.3.0", written, wanted) for _, written, wanted, _ in ROWS) >= 290


@pytest.mark.parametrize(
    ("written", "wanted", "reason"),
    [
        ("LONG", "INT", "LongSerializer$LongSerializerSnapshot was written"),
        ("POJO<a.P{x:INT,y:STRING}>", "POJO<a.P{x:LONG,y:STRING}>", "field 'x' of a.P: INT was written, LONG is required"),
        (
            "POJO<a.P{q:POJO<a.Q{x:INT}>}>",
            "POJO<a.P{q:POJO<a.Q{x:LONG}>}>",
            "field 'x' of a.Q: INT was written, LONG is required",
        ),
        ("ENUM<a.E{A,B}>", "ENUM<a.E{A}>", "a.E no longer has B"),
        ("NULLABLE<LONG>", "NULLABLE_PADDED<LONG>", "nulls were padded to 0 bytes, 8 are required"),
        ("ROW_DATA<INT,STRING>", "ROW_DATA<BIGINT,STRING>", "field 0 was written as INT, BIGINT is required"),
        ("TUPLE<STRING,INT>", "TUPLE<STRING>", "2 nested serializers were written, 1 are required"),
    ],
)
def test_reasons_name_field_and_types(written: str, wanted: str, reason: str) -> None:
    assert reason in verdict("2.3.0", written, wanted).reason


def test_verdicts_in_notebooks() -> None:
    verdict = SchemaCompatibility.compatible_after_migration()
    assert verdict._repr_html_() == "<p>✓ <b>compatible after migration</b></p>"
    refused = SchemaCompatibility.incompatible("field 'a<b'")
    assert refused._repr_html_() == "<p>✗ <b>incompatible</b><br>field &#x27;a&lt;b&#x27;</p>"
