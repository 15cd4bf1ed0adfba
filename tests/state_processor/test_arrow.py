from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.backends.state.key_groups import key_group
from state_processor.read.projection import Projection
from state_processor.serializers.java.hashing import of_string
from tests.state_processor.samples import (
    ORDERS,
    ORDERS_PATH,
    TYPES,
    TYPES_PATH,
    WINDOWS,
    WINDOWS_PATH,
    expected_state,
    expected_values,
)


def rows(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    batches = list(sp.arrow.read_state(*arguments, **options))
    assert len({str(b.schema) for b in batches}) == 1
    return [row for batch in batches for row in batch.to_pylist()]


def test_value_state() -> None:
    read = rows(ORDERS_PATH, "orders", "total")
    assert {r["key"]: r["value"] for r in read} == expected_values(ORDERS, "orders", "total")
    assert len(read) == 50


def test_list_state_flattened_and_not() -> None:
    expected = expected_values(ORDERS, "orders", "history")
    nested = {r["key"]: r["value"] for r in rows(ORDERS_PATH, "orders", "history", flatten=False)}
    flat: dict[str, list[str]] = {}
    for row in rows(ORDERS_PATH, "orders", "history"):
        assert row["list_index"] == len(flat.setdefault(row["key"], []))
        flat[row["key"]].append(row["list_value"])
    assert nested == flat == expected


def test_map_state_flattened_and_not() -> None:
    expected = {k: dict(v) for k, v in expected_values(ORDERS, "orders", "items").items()}
    nested = {r["key"]: dict(r["value"]) for r in rows(ORDERS_PATH, "orders", "items", flatten=False)}
    flat: dict[str, dict[str, int]] = {}
    for row in rows(ORDERS_PATH, "orders", "items"):
        flat.setdefault(row["key"], {})[row["map_key"]] = row["map_value"]
    assert nested == flat == expected


def test_whole_operator() -> None:
    read = {r["key"]: r for r in rows(ORDERS_PATH, "orders")}
    total, session = expected_values(ORDERS, "orders", "total"), expected_values(ORDERS, "orders", "session")
    assert read.keys() == total.keys()
    assert {k: r["total"] for k, r in read.items()} == total
    assert {k: r["session"] for k, r in read.items()} == {k: session.get(k) for k in total}


def test_window_state() -> None:
    read = rows(WINDOWS_PATH, "tumbling-reduce", "window-contents")
    found = {(r["key"], r["window"]["start"].timestamp() * 1000): r["value"]["amount"] for r in read}
    entries = expected_state(WINDOWS, "tumbling-reduce", "window-contents")["entries"]
    assert found == {(e["key"], e["namespace"]["start"]): e["value"]["amount"] for e in entries}


def test_operator_states() -> None:
    offsets = [[r["value"]["f0"], r["value"]["f1"]] for r in rows(ORDERS_PATH, "catalog", "offsets")]
    assert sorted(offsets) == expected_state(ORDERS, "catalog", "offsets")["entries"]
    pending = [r["value"] for r in rows(ORDERS_PATH, "catalog", "pending")]
    assert sorted(pending) == expected_state(ORDERS, "catalog", "pending")["entries"]
    discounts = {r["key"]: r["value"] for r in rows(ORDERS_PATH, "catalog", "discounts")}
    assert discounts == expected_values(ORDERS, "catalog", "discounts")


def test_timers() -> None:
    read = [row for batch in sp.arrow.read_timers(TYPES_PATH, "kinds") for row in batch.to_pylist()]
    by_domain = {d: [r for r in read if r["domain"] == d] for d in ("event_time", "processing_time")}
    assert {len(by_domain["event_time"]), len(by_domain["processing_time"])} == {19, 24}
    assert {r["service"] for r in read} == {"user-timers"}
    first = min(by_domain["processing_time"], key=lambda r: r["timestamp"])
    assert (first["timestamp"], first["fires_at"].isoformat()) == (4_102_444_800_000, "2100-01-01T00:00:00+00:00")


def test_metadata_columns() -> None:
    for row in rows(ORDERS_PATH, "orders", "session", metadata=True):
        assert row["_key_group"] == int(key_group(of_string(row["key"]), 128))
        assert row["_subtask"] == (row["_key_group"] >= 64)
        assert isinstance(row["_last_access"], datetime)
    assert {r["_last_access"] for r in rows(ORDERS_PATH, "orders", "total", metadata=True)} == {None}


def test_expired_values_are_left_out() -> None:
    accessed = [r["_last_access"] for r in rows(ORDERS_PATH, "orders", "session", metadata=True)]
    latest = max(accessed)
    hour = {"ttl": "PT1H"}
    assert len(rows(ORDERS_PATH, "orders", "session", as_of=latest, **hour)) == len(accessed)
    assert rows(ORDERS_PATH, "orders", "session", as_of="2999-01-01T00:00:00Z", **hour) == []


def test_keys() -> None:
    read = rows(ORDERS_PATH, "orders", "total", keys=["josé", "amelia", "nobody"])
    total = expected_values(ORDERS, "orders", "total")
    assert {r["key"]: r["value"] for r in read} == {k: total[k] for k in ("josé", "amelia")}


def test_nothing_found_still_has_a_schema() -> None:
    (batch,) = sp.arrow.read_state(ORDERS_PATH, "orders", "total", keys=[])
    assert (batch.num_rows, batch.schema.names) == (0, ["key", "value"])
    (batch,) = sp.arrow.read_state(ORDERS_PATH, "orders", "total", keys=["nobody"])
    assert (batch.num_rows, batch.schema) == (0, pa.schema([pa.field("key", pa.string(), nullable=False), ("value", pa.int64())]))


def test_nanoseconds() -> None:
    with pytest.raises(sp.UndecodableValueError, match="nanos"):
        rows(TYPES_PATH, "types", "instant")
    text = {r["key"]: r["value"] for r in rows(TYPES_PATH, "types", "instant", nanos="string")}
    assert text == expected_values(TYPES, "types", "instant")


def test_row_kinds() -> None:
    kinds = {r["key"]: r["value"]["row_kind"] for r in rows(TYPES_PATH, "types", "row", row_kind=True)}
    assert kinds == {k: v["kind"] for k, v in expected_values(TYPES, "types", "row").items()}


def test_schema_of_arrow() -> None:
    wanted = pa.schema([("value", pa.decimal128(12, 2)), ("key", pa.string())])
    read = rows(ORDERS_PATH, "orders", "total", schema=wanted, keys=["amelia"])
    assert read == [{"value": Decimal("3950.00"), "key": "amelia"}]


def test_schema_of_types() -> None:
    (batch,) = sp.arrow.read_state(TYPES_PATH, "types", "int", schema={"key": pa.int64(), "value": pa.float64()})
    assert batch.schema == pa.schema([pa.field("key", pa.int64(), nullable=False), ("value", pa.float64())])
    assert dict(zip(*(c.to_pylist() for c in batch.columns), strict=True)) == expected_values(TYPES, "types", "int")


@pytest.mark.parametrize("schema", ["value bigint", {"value": "bigint"}])
def test_schemas_that_are_none(schema: Any) -> None:
    with pytest.raises(sp.OptionError, match=r"schema.*expected"):
        sp.arrow.read_state(ORDERS_PATH, "orders", "total", schema=schema)


def test_fields_that_a_schema_leaves_out_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[pa.Schema] = []
    apply = Projection.apply
    monkeypatch.setattr(Projection, "apply", lambda self, batch: decoded.append(batch.schema) or apply(self, batch))
    wanted = pa.schema([("PROFILE", pa.struct([("tier", pa.string())])), ("key", pa.string())])
    read = rows(ORDERS_PATH, "orders", schema=wanted)
    assert decoded[0].names == ["profile", "key"]
    assert decoded[0].field("profile").type == pa.struct([("tier", pa.string())])
    whole = {r["key"]: r["profile"] for r in rows(ORDERS_PATH, "orders")}
    assert {r["key"]: r["PROFILE"] for r in read} == {k: p and {"tier": p["tier"]} for k, p in whole.items()}


@pytest.mark.parametrize("name", ["_metadata", ""])
def test_paths(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ORDERS)
    assert sp.arrow.operators(Path("savepoint", name)).num_rows == 5
    assert len(rows(f"file://{ORDERS_PATH}/{name}", "orders", "total")) == 50


@pytest.mark.parametrize(
    ("path", "uid", "state", "keys", "told"),
    [
        (ORDERS_PATH, "orders", "total", [1], "state 'total' has keys of type STRING, found 1 of type int"),
        (ORDERS_PATH, "orders", "total", [None], "state 'total' has keys of type STRING, found None of type NoneType"),
        (ORDERS_PATH, "orders", None, [b"amelia"], "keys of type STRING, found b'amelia' of type bytes"),
        (TYPES_PATH, "types", "long", ["0"], "state 'long' has keys of type INT, found '0' of type str"),
        (TYPES_PATH, "types", "long", [True], "state 'long' has keys of type INT, found True of type bool"),
        (TYPES_PATH, "types", "long", [1.0], "state 'long' has keys of type INT, found 1.0 of type float"),
        (TYPES_PATH, "types", "long", [1 << 40], "state 'long' has keys of type INT, found 1099511627776 of type int"),
    ],
)
def test_keys_of_another_type(path: str, uid: str, state: str | None, keys: list[Any], told: str) -> None:
    with pytest.raises(sp.OptionError, match=told):
        sp.arrow.read_state(path, uid, state, keys=keys)


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "operator": (lambda: sp.arrow.read_state(ORDERS_PATH, "order"), sp.NotFoundError, "Did you mean 'orders'"),
    "hash": (
        lambda: sp.arrow.read_state(ORDERS_PATH, sp.OperatorIdentifier.for_uid_hash("0" * 32)),
        sp.NotFoundError,
        "no operator '00000000000000000000000000000000'",
    ),
    "state": (lambda: sp.arrow.read_state(ORDERS_PATH, "orders", "totl"), sp.NotFoundError, "Did you mean 'total'"),
    "kind": (
        lambda: sp.arrow.read_state(ORDERS_PATH, "orders", "total", kind="BROADCAST"),
        sp.NotFoundError,
        "is VALUE; read it with kind='KEYED'",
    ),
    "no keyed state": (
        lambda: sp.arrow.read_state(ORDERS_PATH, "catalog"),
        sp.NotFoundError,
        "does not have keyed state outside windows",
    ),
    "keys of operator state": (
        lambda: sp.arrow.read_state(ORDERS_PATH, "catalog", "discounts", keys=["tray"]),
        sp.OptionError,
        "keys does not apply to .* broadcast state",
    ),
    "a key": (lambda: sp.arrow.read_state(ORDERS_PATH, "orders", keys="amelia"), sp.OptionError, "expected a list of keys"),
    "a key of timers": (lambda: sp.arrow.read_timers(ORDERS_PATH, "orders", keys="amelia"), sp.OptionError, "a list of keys"),
    "nanos": (lambda: sp.arrow.read_state(ORDERS_PATH, "orders", nanos="round"), sp.OptionError, "nanos='round'"),
    "no snapshot": (lambda: sp.arrow.operators(ORDERS), sp.NotASnapshotError, "Snapshots below it: .*savepoint"),
    "nothing": (lambda: sp.arrow.operators(ORDERS / "nothing"), sp.NotASnapshotError, "does not exist"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case: str) -> None:
    call, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        call()


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ORDERS_PATH, tmp_path / "savepoint"))


@pytest.mark.parametrize("kept", [0, 3, 11, 100, -1])
def test_truncated_metadata(damaged: Path, kept: int) -> None:
    whole = (damaged / "_metadata").read_bytes()
    (damaged / "_metadata").write_bytes(whole[:kept])
    with pytest.raises(sp.CorruptSnapshotError, match="_metadata"):
        sp.arrow.operators(damaged)


def test_a_file_is_missing(damaged: Path) -> None:
    files = [Path(p) for p in sp.arrow.handles(damaged).column("path").to_pylist()]
    (damaged / files[0]).unlink()
    with pytest.raises(sp.MissingFileError, match=f"{files[0].name} does not exist"):
        rows(damaged, "orders", "total")


def test_a_file_is_cut_short(damaged: Path) -> None:
    (name,) = {
        r["path"] for r in sp.arrow.handles(damaged).to_pylist() if r["operator_uid"] == "orders" and r["key_group_start"] == 0
    }
    whole = (damaged / name).read_bytes()
    (damaged / name).write_bytes(whole[:-20])
    with pytest.raises(sp.StateProcessorError, match=f"{name}"):
        rows(damaged, "orders", "total")


def test_neither_spark_nor_the_kernels_are_imported_before_they_are_needed() -> None:
    script = (
        "import sys, state_processor as sp\n"
        "early = {'pyspark', 'numba', 'pyarrow', 'pandas'} & sys.modules.keys()\n"
        f"sp.arrow.states({ORDERS_PATH!r})\n"
        f"list(sp.arrow.read_state({ORDERS_PATH!r}, 'orders', 'total'))\n"
        "sp.Types.LONG()\n"
        "print(sorted(early), 'pyspark' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"


@pytest.mark.spark
def test_everything_that_is_promised_is_there() -> None:
    for name in sp.__all__:
        assert getattr(sp, name) is not None
    assert set(sp.__all__) <= set(dir(sp))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sp.nothing  # noqa: B018
