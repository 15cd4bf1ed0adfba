"""Bytes from Flink's Kryo for values of many classes (``kryo-*.json``), and the descriptions of user classes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from state_processor.serializers import register_kryo_class, registrations
from state_processor.serializers.kryo.classes import class_ids
from state_processor.serializers.kryo.serializer import KryoSerializer
from tests.serializers.harness import REPOSITORY

PACKAGE = "io.stateprocessor.interop.SerializerSpecimens$"
TEXT = "java.lang.String"
LIST = "java.util.List"
VERSIONS = {"1.20.5": 1, "2.3.0": 2}
EVERYTHING = {
    "aBoolean": ("boolean", True),
    "aByte": ("byte", -2),
    "aChar": ("char", "ß"),
    "aShort": ("short", -300),
    "anInt": ("int", -70000),
    "aLong": ("long", 1 << 40),
    "aFloat": ("float", 0.5),
    "aDouble": ("double", -2.25),
    "boxedBoolean": ("java.lang.Boolean", False),
    "boxedByte": ("java.lang.Byte", 3),
    "boxedChar": ("java.lang.Character", "x"),
    "boxedShort": ("java.lang.Short", 300),
    "boxedInt": ("java.lang.Integer", 70000),
    "boxedLong": ("java.lang.Long", None),
    "boxedFloat": ("java.lang.Float", 1.5),
    "boxedDouble": ("java.lang.Double", 2.5),
    "text": (TEXT, "text"),
    "noText": (TEXT, None),
    "level": (f"{PACKAGE}Level", "HIGH"),
    "noLevel": (f"{PACKAGE}Level", None),
    "side": (f"{PACKAGE}Side", "RIGHT"),
    "noSide": (f"{PACKAGE}Side", None),
    "sides": (f"{LIST}<{PACKAGE}Side>", ["LEFT", None]),
    "listWithNull": (f"{LIST}<{TEXT}>", ["one", None]),
    "nestedList": (f"{LIST}<{LIST}<java.lang.Integer>>", [[1, 2]]),
    "moneyMap": (f"java.util.Map<{TEXT}, {PACKAGE}Money>", {"m": ("Money", 8, "EUR")}),
    "arrayMap": ("java.util.Map<java.lang.Long, int[]>", [[9, [1]]]),
    "optional": (f"java.util.Optional<{TEXT}>", "maybe"),
    "singleton": (f"{LIST}<{TEXT}>", ["single"]),
    "immutable": (f"{LIST}<{TEXT}>", ["x", "y"]),
    "asList": (f"{LIST}<{TEXT}>", ["p", "q"]),
    "sorted": (f"java.util.Set<{TEXT}>", ["t"]),
    "spot": (f"{PACKAGE}Spot", {"@class": f"{PACKAGE}Spot", "x": 1, "y": None}),
    "spots": (f"{LIST}<{PACKAGE}Spot>", [{"@class": f"{PACKAGE}Spot", "x": 2, "y": 3}]),
    "matrix": ("int[][]", [[1], []]),
    "dateTime": ("java.time.LocalDateTime", "2024-02-29T13:05"),
    "decimal": ("java.math.BigDecimal", "12.50"),
    "integer": ("java.math.BigInteger", "-129"),
    "date": ("java.util.Date", "2020-09-13T12:26:40.123Z"),
    "uuid": ("java.util.UUID", "00000000-0000-0001-0000-000000000002"),
    "ints": ("int[]", [1, -1, 300]),
    "texts": (f"{TEXT}[]", ["a", None]),
    "objects": ("java.lang.Object[]", [1, "b", None]),
    "monies": (f"{PACKAGE}Money[]", [("Money", 1, "EUR"), None]),
    "list": (f"{LIST}<{TEXT}>", ["one", "two"]),
    "arrayList": ("java.util.ArrayList<java.lang.Long>", [1, 2]),
    "moneyList": (f"{LIST}<{PACKAGE}Money>", [("Money", 2, "CHF")]),
    "wildList": (f"{LIST}<?>", ["w"]),
    "rawList": (LIST, [7]),
    "map": (f"java.util.Map<{TEXT}, java.lang.Long>", {"k": 1}),
    "nestedMap": (f"java.util.Map<{TEXT}, {LIST}<{TEXT}>>", {"k": ["v"]}),
    "set": ("java.util.Set<java.lang.Integer>", [5]),
    "object": ("java.lang.Object", ("Money", 3, "USD")),
    "noObject": ("java.lang.Object", None),
    "money": (f"{PACKAGE}Money", ("Money", 4, "EUR")),
    "tip": (f"{PACKAGE}Money", ("Tip", 5, "EUR", 0.5)),
    "bits": ("java.util.BitSet", [0, 2]),
    "instant": ("java.time.Instant", "2020-09-13T12:26:40.000000005Z"),
}
MONEY = {"amount": "long", "currency": TEXT}
TIP = {**MONEY, "share": "java.lang.Double"}


@contextmanager
def described_classes() -> Iterator[None]:
    """Within the block, the classes of the specimens are described, and the classes of their descriptions."""
    with registrations():
        register_kryo_class(f"{PACKAGE}Level", ["LOW", "HIGH"], final=False)
        register_kryo_class(f"{PACKAGE}Side", ["LEFT", "RIGHT"])
        register_kryo_class(f"{PACKAGE}Spot", {"x": "int", "y": "java.lang.Integer"}, final=True)
        register_kryo_class(f"{PACKAGE}Point", {"x": "int", "y": "java.lang.Integer", "name": TEXT}, final=True)
        register_kryo_class(f"{PACKAGE}Money", MONEY)
        register_kryo_class(f"{PACKAGE}Tip", TIP)
        register_kryo_class(f"{PACKAGE}Everything", {name: type_ for name, (type_, _) in EVERYTHING.items()})
        yield


def kryo_cases(version: str) -> dict[str, dict[str, Any]]:
    """What the specimens of a version are, by name."""
    path = REPOSITORY / "tests" / "fixtures" / "serializers" / f"kryo-{version}.json"
    return {case["name"]: case for case in json.loads(path.read_text("utf-8"))}


def kryo_parameters() -> list[Any]:
    """Version and specimen, for tests of each."""
    return [
        pytest.param(version, case, id=f"{version}-{name[:40]}")
        for version in VERSIONS
        for name, case in kryo_cases(version).items()
    ]


def with_first_id(serializer: KryoSerializer, first_id: int) -> KryoSerializer:
    """Return the same serializer with another number of the first registration."""
    ids = class_ids(serializer.registered, first_id)
    return serializer._copy_with(first_id=first_id, _ids=ids, _numbers={name: number for number, name in ids.items()})
