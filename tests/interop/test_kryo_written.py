"""Values in Kryo's encoding that never were Flink's: real Flink restores them, as Kryo 2 reads in 1.20 and Kryo 5 in 2.3.

For each version one savepoint holds a state for each type. One of the backends restores it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.state.descriptions import LIST, MAP, OPERATOR_LIST, StateDescription
from state_processor.backends.write.assembly import commit_savepoint, metadata_version
from state_processor.backends.write.staging import Staging
from state_processor.serializers import register_kryo_class
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.kryo.nested_kryo import for_flink
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.types.flink_types import Types
from tests.backends.operator_files import OperatorColumnsWriter, SubtaskHandles, new_operator
from tests.interop import flink
from tests.interop.rewriting import write_keyed
from tests.interop.selection import asking, in_turn
from tests.interop.type_specimens import Specimen, specimen

pytestmark = pytest.mark.interop

T = Types

VERSIONS = ("1.20.5", "2.3.0")
BACKENDS = {version: in_turn(("rocksdb", "hashmap"), number) for number, version in enumerate(VERSIONS)}
KEYED, LISTED = "kryo, keyed", "kryo, listed"
KEYS = 4
TEXT = "java.lang.String"
LIST_OF = "java.util.List"

register_kryo_class("fixtures.Maybe", {"attempts": T.INT(), "value": T.STRING()}, final=True)
register_kryo_class("fixtures.Tier", ["BRONZE", "SILVER", "GOLD"])
PARCEL = {
    "name": TEXT,
    "small": "byte",
    "sign": "char",
    "share": "java.lang.Double",
    "tags": f"{LIST_OF}<{TEXT}>",
    "counts": f"java.util.Map<{TEXT}, java.lang.Long>",
    "marks": "java.util.Set<java.lang.Integer>",
    "nested": f"{LIST_OF}<{LIST_OF}<java.lang.Integer>>",
    "byDay": f"java.util.Map<java.lang.Long, {LIST_OF}<fixtures.Maybe>>",
    "maybe": "fixtures.Maybe",
    "attempts": "fixtures.Maybe[]",
    "tier": "fixtures.Tier",
    "tiers": "fixtures.Tier[]",
    "anything": "java.lang.Object",
    "due": "java.util.Optional<java.time.LocalDate>",
    "codes": "long[]",
    "matrix": "int[][]",
    "at": "java.time.LocalDateTime",
    "id": "java.util.UUID",
    "price": "java.math.BigDecimal",
}
register_kryo_class("fixtures.Parcel", PARCEL)

MAYBE = ({"attempts": 3, "value": "ü"}, {"attempts": -1, "value": None})
UUID = "01234567-89ab-cdef-fedc-ba9876543210"
PARCELS: tuple[dict[str, Any], ...] = (
    {
        "name": "full",
        "small": -2,
        "sign": "ß",
        "share": 0.5,
        "tags": ["a", "", "ünïcödé", "x" * 70],
        "counts": [("one", 1), ("many", 1 << 60)],
        "marks": [5],
        "nested": [[1, -1], []],
        "byDay": [(7, [MAYBE[0], MAYBE[1]])],
        "maybe": MAYBE[0],
        "attempts": [MAYBE[1], None],
        "tier": "GOLD",
        "tiers": ["SILVER", None, "BRONZE"],
        "anything": '{"@class": "fixtures.Maybe", "attempts": 9, "value": "any"}',
        "due": "2024-02-29",
        "codes": [1, -1, -(1 << 63)],
        "matrix": [[1, 2], []],
        "at": "2024-02-29T13:00",
        "id": UUID,
        "price": "-12.50",
    },
    dict.fromkeys(PARCEL) | {"small": 0, "sign": "\0"},
)


def _maybe(value: dict[str, Any] | None) -> dict[str, Any] | None:
    return value and {"@class": "fixtures.Maybe", **value}


def _printed(parcel: dict[str, Any]) -> dict[str, Any]:
    full = parcel["name"] == "full"
    changes = {
        "counts": [["many", 1 << 60], ["one", 1]],
        "byDay": [[7, [_maybe(m) for m in MAYBE]]],
        "maybe": _maybe(parcel["maybe"]),
        "attempts": [_maybe(MAYBE[1]), None],
        "anything": _maybe({"attempts": 9, "value": "any"}),
        "due": "Optional[2024-02-29]",
    }
    return {"@class": "fixtures.Parcel", **parcel, **(changes if full else {"due": "Optional.empty"})}


def kryo(type_: str, *values: Any, **options: Any) -> Specimen:
    """Values of a class that Flink loads by name."""
    return specimen(f"KRYO<{type_.partition('<')[0]}>", T.KRYO(type_), *values, **options)


VISIT = T.POJO(
    "fixtures.Visit",
    {
        "guest": T.STRING(),
        "day": T.KRYO("java.time.LocalDate"),
        "id": T.KRYO("java.util.UUID"),
        "note": T.KRYO(f"java.util.Optional<{TEXT}>"),
    },
)
VISITS: tuple[dict[str, Any], ...] = (
    {"guest": "Bela", "day": "2024-02-29", "id": UUID, "note": "late"},
    {"guest": None, "day": None, "id": None, "note": None},
)

WISHES = T.POJO(
    "fixtures.Wishes",
    {"owner": T.STRING(), "items": T.LIST(T.STRING()), "counts": T.MAP(T.STRING(), T.LONG()), "marks": T.SET(T.INT())},
)
WISH: dict[str, Any] = {"owner": "Bela", "items": ["tea", None, ""], "counts": [("tea", 3)], "marks": [7]}

TIER = T.ENUM("fixtures.Tier", ["BRONZE", "SILVER", "GOLD"])
DIARY = T.POJO(
    "fixtures.Diary",
    {
        "day": T.LOCAL_DATE(),
        "time": T.LOCAL_TIME(),
        "at": T.LOCAL_DATE_TIME(),
        "instant": T.INSTANT(),
        "took": T.KRYO("java.time.Duration"),
        "date": T.DATE(),
        "sqlDate": T.SQL_DATE(),
        "sqlTime": T.SQL_TIME(),
        "sqlTimestamp": T.SQL_TIMESTAMP(),
        "price": T.BIG_DEC(),
        "count": T.BIG_INT(),
        "days": T.OBJECT_ARRAY(T.LOCAL_DATE()),
        "names": T.BASIC_ARRAY(T.STRING()),
        "boxes": T.BASIC_ARRAY(T.LONG()),
        "numbers": T.PRIMITIVE_ARRAY(T.INT()),
        "blob": T.BYTES(),
        "tier": TIER,
        "tiers": T.OBJECT_ARRAY(TIER),
        "visit": VISIT,
        "visits": T.OBJECT_ARRAY(VISIT),
        "pair": T.TUPLE([T.STRING(), T.LOCAL_DATE()]),
        "holidays": T.LIST(T.LOCAL_DATE()),
        "log": T.MAP(T.LOCAL_DATE(), T.INSTANT()),
    },
)
"""The types that the class declares: what Flink makes of them, it is for ``INFERRED`` to say."""
DAY: dict[str, Any] = {
    "day": "2024-02-29",
    "time": "13:05:07.000000009",
    "at": "2024-02-29T13:05",
    "instant": "2024-01-01T00:00:00.000000007Z",
    "took": "PT25H",
    "date": "2024-02-29T12:00:00.123Z",
    "sqlDate": "2024-02-29",
    "sqlTime": "23:59:59",
    "sqlTimestamp": "2024-01-01T12:00:00.123456789Z",
    "price": "-12.50",
    "count": str(1 << 90),
    "days": ["2024-02-29", None],
    "names": ["a", None],
    "boxes": [1, None],
    "numbers": [1, -1],
    "blob": b"\x00\xff",
    "tier": "GOLD",
    "tiers": ["SILVER", None],
    "visit": VISITS[0],
    "visits": [VISITS[0], None],
    "pair": {"f0": "leap", "f1": "2024-02-29"},
    "holidays": ["2024-12-25", None],
    "log": [("2024-02-29", "2024-02-29T00:00:00Z")],
}


def _printed_visit(visit: dict[str, Any]) -> dict[str, Any]:
    return {"@class": "fixtures.Visit", **visit, "note": visit["note"] and f"Optional[{visit['note']}]"}


PRINTED_DAY = DAY | {
    "@class": "fixtures.Diary",
    "sqlTimestamp": "2024-01-01 12:00:00.123456789",
    "blob": "00ff",
    "visit": _printed_visit(VISITS[0]),
    "visits": [_printed_visit(VISITS[0]), None],
    "pair": ["leap", "2024-02-29"],
    "log": [["2024-02-29", "2024-02-29T00:00:00Z"]],
}

SPECIMENS = (
    specimen(
        "POJO<fixtures.Diary>",
        DIARY,
        *(DAY, dict.fromkeys(DAY)),
        printed=[PRINTED_DAY, {"@class": "fixtures.Diary", **dict.fromkeys(DAY)}],
    ),
    specimen(
        "POJO<fixtures.Wishes>",
        WISHES,
        WISH,
        {"owner": None, "items": [], "counts": [], "marks": []},
        dict.fromkeys(WISH),
        printed=[
            {"@class": "fixtures.Wishes", **WISH, "counts": [["tea", 3]]},
            {"@class": "fixtures.Wishes", "owner": None, "items": [], "counts": [], "marks": []},
            {"@class": "fixtures.Wishes", **dict.fromkeys(WISH)},
        ],
    ),
    specimen(
        "POJO<fixtures.Visit>",
        VISIT,
        *VISITS,
        printed=[_printed_visit(v) for v in VISITS],
    ),
    kryo("fixtures.Maybe", *MAYBE, printed=[_maybe(m) for m in MAYBE]),
    kryo("fixtures.Parcel", *PARCELS, printed=[_printed(p) for p in PARCELS]),
    kryo("fixtures.Tier", "GOLD", "BRONZE"),
    kryo("java.util.ArrayList<java.lang.Long>", [], [1, None, -(1 << 63)], [2, 3]),
    kryo(f"java.util.LinkedList<{TEXT}>", ["a", "b"], ["x" * n for n in (1, 2, 31, 32, 33, 63, 64, 65)]),
    kryo(f"java.util.ArrayDeque<{TEXT}>", ["a", "b"]),
    kryo("java.util.Vector<java.lang.Short>", [1, -1]),
    kryo("java.util.HashSet<java.lang.Integer>", [], [7]),
    kryo("java.util.LinkedHashSet<java.lang.Character>", ["a", "b"]),
    kryo(f"java.util.TreeSet<{TEXT}>", [], ["a", "b"]),
    kryo("java.util.PriorityQueue<java.lang.Long>", [1, 3, 2]),
    kryo(f"java.util.HashMap<{TEXT}, java.lang.Long>", [], [("k", 1)], printed=([], [["k", 1]])),
    kryo(
        f"java.util.LinkedHashMap<{TEXT}, {LIST_OF}<{TEXT}>>", [("b", ["x"]), ("c", None)], printed=[[["b", ["x"]], ["c", None]]]
    ),
    kryo("java.util.TreeMap<java.lang.Integer, fixtures.Maybe>", [(1, MAYBE[0])], printed=[[[1, _maybe(MAYBE[0])]]]),
    kryo(f"java.util.concurrent.ConcurrentHashMap<{TEXT}, {TEXT}>", [("k", "v")], printed=[[["k", "v"]]]),
    kryo(
        "java.util.BitSet", [], [0, 2, 130], printed=[{"@class": "java.util.BitSet", "bits": bits} for bits in ([], [0, 2, 130])]
    ),
    kryo("java.util.UUID", UUID),
    kryo(f"java.util.Optional<{TEXT}>", "here", printed=["Optional[here]"]),
    kryo("java.util.OptionalInt", 4, printed=["OptionalInt[4]"]),
    kryo("java.util.OptionalLong", -4, printed=["OptionalLong[-4]"]),
    kryo("java.util.OptionalDouble", 0.5, printed=["OptionalDouble[0.5]"]),
    kryo("java.util.Locale", "de_DE", "en"),
    kryo("java.util.Currency", "EUR"),
    kryo("java.util.regex.Pattern", "a+"),
    kryo("java.net.URI", "http://example.org/a?b"),
    kryo("java.math.BigDecimal", "-12.50", "1E+5", "0"),
    kryo("java.math.BigInteger", "0", "-129", str(1 << 90)),
    kryo("java.util.Date", "2020-09-13T12:26:40.123Z", "1969-12-31T23:59:59.999Z"),
    kryo("java.sql.Date", "2024-02-29", "1969-12-31"),
    kryo("java.sql.Time", "23:59:59"),
    kryo(
        "java.sql.Timestamp",
        *("1969-12-31T23:59:59.500Z", "2024-01-01T12:00:00.123456789Z"),
        printed=("1969-12-31 23:59:59.5", "2024-01-01 12:00:00.123456789"),
    ),
    kryo("java.time.LocalDate", "0001-01-01", "2024-02-29"),
    kryo("java.time.LocalTime", "13:00", "13:05", "13:05:07", "13:05:07.000000009"),
    kryo("java.time.LocalDateTime", "2024-02-29T13:05:07.000000009", "1969-12-31T00:00"),
    kryo("java.time.Instant", "1969-12-31T23:59:55.000000007Z", "2024-01-01T00:00:00Z"),
    kryo("java.time.Duration", "PT0S", "PT25H1M1.5S", "PT-4.999999993S"),
    kryo("java.time.Period", "P1Y-2M3D"),
    kryo("java.time.Year", "2024"),
    kryo("java.time.YearMonth", "2024-02"),
    kryo("java.time.MonthDay", "--02-29"),
    kryo("java.time.ZoneOffset", "Z", "+01:00:01", "-03:30"),
    kryo("java.time.OffsetTime", "13:05+02:00"),
    kryo("java.time.OffsetDateTime", "2024-02-29T13:05-03:30"),
    kryo("java.time.ZonedDateTime", "2024-07-01T13:05+02:00[Europe/Zurich]", "2024-07-01T13:05Z"),
    kryo("java.util.concurrent.atomic.AtomicInteger", 5, printed=["5"]),
    kryo("java.util.concurrent.atomic.AtomicLong", -5, printed=["-5"]),
    kryo("java.util.concurrent.atomic.AtomicBoolean", True, printed=["true"]),
    kryo(
        "java.lang.Object",
        *(
            '"text"',
            '["a", {"@class": "java.lang.Long", "@value": 1}]',
            '{"@class": "fixtures.Maybe", "attempts": 1, "value": "v"}',
        ),
        printed=("text", ["a", 1], _maybe({"attempts": 1, "value": "v"})),
    ),
)
KRYO_5_ALONE = {f"KRYO<java.time.{name}>" for name in ("ZoneOffset", "OffsetTime", "OffsetDateTime", "ZonedDateTime")}
"""Classes with transient fields, which Flink 1.x does not find in its own state either."""

BY_TYPE = {str(s.serializer): s for s in SPECIMENS}


def _filled(specimen_: Specimen, count: int) -> tuple[list[Any], list[Any]]:
    """So many values, over and over, and how they print."""
    return list(islice(cycle(specimen_.values), count)), list(islice(cycle(specimen_.printed), count))


def _state(kind: str, specimen_: Specimen, **more: Any) -> dict[str, Any]:
    return {
        "name": f"{kind} {specimen_.serializer}",
        "kind": kind,
        "value_type": specimen_.label,
        "namespace_type": "VOID_NAMESPACE",
        "ttl": False,
        **more,
    }


def _keyed(staging: Staging, specimens: Sequence[Specimen]) -> tuple[OperatorState, dict[str, Any]]:
    """A value, a list and a map of each type for each key; maps have the type's values on both sides."""
    key, namespace = T.LONG(), VoidNamespaceSerializer()
    keys = pa.array(range(KEYS), pa.int64())
    states, expected = [], []
    for each in specimens:
        values, printed = _filled(each, KEYS)
        columns = {
            "VALUE": (pa.array(values, each.column), printed),
            LIST: (pa.array([[v, v] for v in values], pa.list_(each.column)), [[p, p] for p in printed]),
            MAP: (
                pa.array([[("k", v)] for v in values], pa.map_(pa.string(), each.column)),
                [[["k", p]] for p in printed],
            ),
        }
        for kind, (column, shown) in columns.items():
            map_key: TypeSerializer | None = T.STRING() if kind == MAP else None
            state = _state(kind, each, map_key_type=map_key and "STRING")
            batch = pa.RecordBatch.from_pydict({"key": keys, "value": column})
            states.append((StateDescription.of(state["name"], kind, key, namespace, map_key, each.serializer), [batch]))
            expected.append({**state, "entries": [{"key": k, "value": v} for k, v in enumerate(shown)]})
    handles = write_keyed(staging, operator_id(KEYED), states, 1, 128)
    subtasks = {subtask: SubtaskHandles(keyed=handle) for subtask, handle in handles.items()}
    return new_operator(KEYED, 1, 128, subtasks), {"uid": KEYED, "key_type": "LONG", "states": expected}


def _listed(staging: Staging, specimens: Sequence[Specimen]) -> tuple[OperatorState, dict[str, Any]]:
    """An operator's list of each type."""
    states = [_state(OPERATOR_LIST, each) for each in specimens]
    written = [StateDescription.of(s["name"], OPERATOR_LIST, value=e.serializer) for s, e in zip(states, specimens, strict=True)]
    writer = OperatorColumnsWriter(staging.open(staging.file_name(operator_id(LISTED), "operator", 0)), written)
    for state, each in zip(states, specimens, strict=True):
        writer.add_list(state["name"], pa.array(each.values, each.column))
        state["entries"] = list(each.printed)
    subtasks = {0: SubtaskHandles(operator=writer.close())}
    return new_operator(LISTED, 1, 128, subtasks), {"uid": LISTED, "key_type": None, "states": states}


def _savepoint(target: Path, version: str, specimens: Sequence[Specimen]) -> list[dict[str, Any]]:
    """A savepoint for one version of Flink, and the expected result."""
    staging = Staging(str(target), "kryo")
    staging.prepare()
    specimens = [replace(s, serializer=for_flink(T.INFERRED(s.serializer, version), int(version[0]))) for s in specimens]
    written = [_keyed(staging, specimens), _listed(staging, specimens)]
    commit_savepoint(staging, [operator for operator, _ in written], version=metadata_version(version))
    return [expected for _, expected in written]


Found = dict[tuple[str, str], dict[str, list[str]]]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The entries of each state, for each version and backend, and as written."""
    asked = [BY_TYPE[item.callspec.params["type_"]] for item in asking(request, "found")]
    every: Found = {}
    for version in VERSIONS:
        target = tmp_path_factory.mktemp("kryo") / "savepoint"
        operators = _savepoint(target, version, [s for s in asked if version in _versions(str(s.serializer))])
        every[version, "written"] = _by_name(operators)
        requests = [flink.request(operators, target, backend=backend) for backend in BACKENDS[version]]
        for backend, answer in zip(BACKENDS[version], flink.restore(version, requests), strict=True):
            assert "error" not in answer, f"{version}, {backend}: {answer['error'][:4000]}"
            every[version, backend] = _by_name(answer["operators"])
    return every


def _versions(type_: str) -> tuple[str, ...]:
    return tuple(version for version in VERSIONS if type_ not in KRYO_5_ALONE or version[0] != "1")


def _by_name(operators: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    return {name: entries for (_, name, _), entries in flink.entries(operators).items()}


@pytest.mark.parametrize("type_", BY_TYPE)
def test_flink_reads_what_kryo_never_wrote(type_: str, found: Found) -> None:
    for kind in ("VALUE", LIST, MAP, OPERATOR_LIST):
        name = f"{kind} {type_}"
        for version in _versions(type_):
            written = found[version, "written"][name]
            assert written
            restored = {backend: found[version, backend][name] for backend in BACKENDS[version]}
            assert restored == dict.fromkeys(BACKENDS[version], written), version
