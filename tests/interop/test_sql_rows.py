"""State of Flink SQL's rows from nothing: snapshots of row types, keys and values that real Flink restores and finds.

Every column of every type is in a value. Keys have the form of SQL's operators, including nulls with following bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.staging import Staging
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.types.flink_types import Types
from tests.backends.operator_files import SubtaskHandles, new_operator
from tests.interop import flink
from tests.interop.rewriting import write_keyed

pytestmark = pytest.mark.interop

BACKENDS = {"1.18.1": ("hashmap",), "1.20.5": ("hashmap", "rocksdb"), "2.0.2": ("rocksdb",), "2.3.0": ("hashmap", "rocksdb")}
MAX_PARALLELISM, PARALLELISM = 128, 2
KEYS = 60
EPOCH = datetime(2024, 2, 29, 12, 30, 15, 123456)

KEY = "id BIGINT NOT NULL, name STRING, price DECIMAL(20, 2), at TIMESTAMP(6), small DECIMAL(9, 3), born DATE"
SCALARS = (
    "flag BOOLEAN, tiny TINYINT, small SMALLINT, num INT, big BIGINT, real FLOAT, dbl DOUBLE, chars CHAR(3), text STRING, "
    "bin BYTES, price DECIMAL(10, 2), amount DECIMAL(38, 9), born DATE, clock TIME(3), at TIMESTAMP(3), exact TIMESTAMP(6), "
    "zoned TIMESTAMP_LTZ(6), months INTERVAL YEAR TO MONTH, span INTERVAL DAY TO SECOND(3)"
)
NESTED = (
    "inner ROW<a INT, b ROW<c STRING, d DECIMAL(20, 1)>>, numbers ARRAY<INT>, texts ARRAY<STRING>, counts MAP<STRING, BIGINT>, "
    "rows ARRAY<ROW<x INT NOT NULL, y STRING>>, lists MAP<INT, ARRAY<STRING>>, bag MULTISET<STRING>"
)
MAPS = "maps ARRAY<MAP<STRING, INT>>"
"""Not for Flink 1.18, whose MapDataSerializer has another version number in Java."""


def printed_row(*fields: Any, kind: str = "+I") -> dict[str, Any]:
    return {"kind": kind, "fields": list(fields)}


def key(n: int) -> tuple[dict[str, Any], Any]:
    """A key as a column has it, and as Flink prints it."""
    name = [None, "", "seven b", f"a longer name {n}"][n % 4]
    price = None if n % 3 == 0 else Decimal(n * 10**15 + 25) / 100
    at = None if n % 5 == 0 else EPOCH + timedelta(seconds=n)
    small = None if n % 7 == 0 else Decimal(-n) / 8
    day = None if n % 11 == 0 else date(1969, 12, 1) + timedelta(days=n)
    given = {"id": n, "name": name, "price": price, "at": at, "small": small, "born": day}
    shown = (
        n,
        name,
        price and f"{price:.2f}",
        at and at.isoformat(),
        small and f"{small:.3f}",
        day and (day - date(1970, 1, 1)).days,
    )
    return given, printed_row(*shown)


def scalars(n: int) -> tuple[dict[str, Any], Any]:
    """A row of scalars, every fourth of them with nothing but nulls."""
    names = [field.split()[0] for field in SCALARS.split(", ") if field.split()[0].islower() and len(field.split()) > 1]
    if n % 4 == 3:
        return dict.fromkeys(names), printed_row(*[None] * len(names))
    text = "ü" * (n % 9)
    given = {
        "flag": n % 2 == 0, "tiny": -n, "small": 300 + n, "num": -(1 << 30) - n, "big": (1 << 60) + n, "real": 0.5 * n,
        "dbl": n / 7, "chars": "abc", "text": text, "bin": bytes(range(n % 20)), "price": Decimal(-n) / 4,
        "amount": Decimal(n * 10**20 + 1) / 10**9,
        "born": date(2024, 2, 29), "clock": "23:59:59.999", "at": EPOCH.replace(microsecond=123000), "exact": EPOCH,
        "zoned": EPOCH.replace(tzinfo=UTC), "months": 14, "span": 86_400_000 + n,
    }  # fmt: skip
    shown = (
        given["flag"], -n, 300 + n, -(1 << 30) - n, (1 << 60) + n, 0.5 * n, n / 7, "abc", text, given["bin"].hex(),
        f"{given['price']:.2f}", f"{given['amount']:.9f}", 19_782, 86_399_999, "2024-02-29T12:30:15.123",
        "2024-02-29T12:30:15.123456", "2024-02-29T12:30:15.123456", 14, 86_400_000 + n,
    )  # fmt: skip
    return given, printed_row(*shown)


def nested(n: int) -> tuple[dict[str, Any], Any]:
    inner = {"a": n, "b": {"c": f"text {n}", "d": Decimal(n) / 2}}
    rows = [{"x": i, "y": None if i % 2 else f"element {i}"} for i in range(n % 4)]
    given = {
        "inner": None if n % 5 == 4 else inner, "numbers": [n, None, -n], "texts": [None, "", "longer than seven"], "rows": rows,
        "counts": [("a", n), ("b", None)], "lists": [(1, ["x", None]), (2, [])], "bag": [("twice", 2)],
    }  # fmt: skip
    shown = (
        None if n % 5 == 4 else printed_row(n, printed_row(f"text {n}", f"{n / 2:.1f}")),
        *([n, None, -n], [None, "", "longer than seven"], [["a", n], ["b", None]]),
        *([printed_row(r["x"], r["y"]) for r in rows], [[1, ["x", None]], [2, []]], [["twice", 2]]),
    )
    return given, printed_row(*shown)


def maps(n: int) -> tuple[dict[str, Any], Any]:
    return {"maps": [[("k", n)], None, []]}, printed_row([[["k", n]], None, []])


def change(n: int) -> tuple[dict[str, Any], Any]:
    kind = ["+I", "-U", "+U", "-D"][n % 4]
    return {"row_kind": kind, "v": n}, printed_row(n, kind=kind)


@dataclass(frozen=True)
class Line:
    """A state: how Flink's side calls its types, our types, and the column of values with how they print."""

    kind: str
    label: str
    value: TypeSerializer
    contents: tuple[list[Any], list[Any]]
    map_key: tuple[str, TypeSerializer] | None = None
    ttl: bool = False

    @property
    def name(self) -> str:
        return f"{self.kind} {self.label}{' TTL' if self.ttl else ''}"


def pairs(make: Any) -> tuple[list[Any], list[Any]]:
    made = [make(n) for n in range(KEYS)]
    return [given for given, _ in made], [shown for _, shown in made]


def listed(make: Any) -> tuple[list[Any], list[Any]]:
    given, shown = pairs(make)
    return [given[: 1 + n % 3] for n in range(KEYS)], [shown[: 1 + n % 3] for n in range(KEYS)]


def by_row(make: Any) -> tuple[list[Any], list[Any]]:
    given, shown = pairs(make)
    sizes = [1 + n % 4 for n in range(KEYS)]
    maps_of = [[(given[i], i) for i in range(size)] for size in sizes]
    return maps_of, [[[shown[i], i] for i in range(size)] for size in sizes]


def joined(n: int) -> tuple[Any, Any]:
    """As an interval join keeps its rows: by time, a list of rows with a mark."""
    given, shown = scalars(n)
    return [(n, [{"f0": given, "f1": n % 2 == 0}])], [[n, [[shown, n % 2 == 0]]]]


R = Types.ROW_DATA
LINES = (
    Line("VALUE", f"ROW_DATA<{SCALARS}>", R(SCALARS), pairs(scalars)),
    Line("VALUE", f"ROW_DATA<{SCALARS}>", R(SCALARS), pairs(scalars), ttl=True),
    Line("VALUE", f"ROW_DATA<{NESTED}>", R(NESTED), pairs(nested)),
    Line("VALUE", f"ROW_DATA<{MAPS}>", R(MAPS), pairs(maps)),
    Line("LIST", "ROW_DATA<v INT>", R("v INT"), listed(change)),
    Line("MAP", "LONG", Types.LONG(), by_row(key), (f"ROW_DATA<{KEY}>", R(KEY))),
    Line(
        "MAP",
        f"LIST<TUPLE<ROW_DATA<{SCALARS}>,BOOLEAN>>",
        Types.LIST(Types.TUPLE([R(SCALARS), Types.BOOLEAN()])),
        pairs(joined),
        ("LONG", Types.LONG()),
    ),
    Line("EVENT_TIMER", "", Types.LONG(), ([1000 * n for n in range(KEYS)], [1000 * n for n in range(KEYS)])),
)


def write(target: Any, lines: Sequence[Line]) -> dict[str, Any]:
    """A savepoint with an operator with these states, and Flink's expected result."""
    key_type = R(KEY)
    options = DecodeOptions(row_kind=True)
    keys, printed_keys = pairs(key)
    columns = {"key": pa.array(keys, key_type.arrow_type(DecodeOptions()))}
    states, expected = [], []
    for line in lines:
        map_key = line.map_key[1] if line.map_key else None
        if line.kind == "EVENT_TIMER":
            namespace = VoidNamespaceSerializer()
            queue = TimerSerializer(key_type, namespace)
            state = StateDescription.of(f"_timer_state/event_{line.name}", line.kind, key_type, namespace, None, queue)
            batch = pa.RecordBatch.from_pydict({**columns, "timestamp": pa.array(line.contents[0], pa.int64())})
            found = [
                {"key": k, "namespace": "VoidNamespace", "timestamp": t}
                for k, t in zip(printed_keys, line.contents[1], strict=True)
            ]
        else:
            value = TtlSerializer.of(line.value) if line.ttl else line.value
            state = StateDescription.of(line.name, line.kind, key_type, VoidNamespaceSerializer(), map_key, value)
            type_ = line.value.arrow_type(options)
            type_ = pa.list_(type_) if line.kind == "LIST" else type_
            type_ = pa.map_(map_key.arrow_type(DecodeOptions()), type_) if map_key else type_
            batch = pa.RecordBatch.from_pydict({**columns, "value": pa.array(line.contents[0], type_)})
            found = [{"key": k, "value": v} for k, v in zip(printed_keys, line.contents[1], strict=True)]
        states.append((state, [batch]))
        expected.append(
            {
                "name": line.name,
                "kind": line.kind,
                "map_key_type": line.map_key and line.map_key[0],
                "value_type": line.label,
                "namespace_type": "VOID_NAMESPACE",
                "ttl": line.ttl,
                "entries": found,
            }
        )
    staging = Staging(str(target), "rows")
    staging.prepare()
    handles = write_keyed(staging, operator_id("rows"), states, 3, MAX_PARALLELISM, 1_900_000_000_000)
    subtasks = {subtask: SubtaskHandles(keyed=handle) for subtask, handle in handles.items()}
    commit_savepoint(staging, [new_operator("rows", 3, MAX_PARALLELISM, subtasks)])
    return {"uid": "rows", "key_type": f"ROW_DATA<{KEY}>", "states": expected}


@pytest.mark.parametrize("version", BACKENDS)
def test_flink_finds_every_row(version: str, tmp_path: Any) -> None:
    lines = LINES if version != "1.18.1" else [line for line in LINES if MAPS not in line.label]
    operator = write(tmp_path / "savepoint", lines)
    requests = [flink.request([operator], tmp_path / "savepoint", backend=b, parallelism=PARALLELISM) for b in BACKENDS[version]]
    for answer in flink.restore(version, requests, tables=True):
        assert "error" not in answer, answer["error"][:4000]
        found, expected = flink.entries(answer["operators"]), flink.entries([operator])
        assert {state: len(entries) for state, entries in found.items()} == {s: len(e) for s, e in expected.items()}
        assert found == expected
