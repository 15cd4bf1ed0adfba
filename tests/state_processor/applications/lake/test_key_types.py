"""Tables with keys of all kinds equal the state after changes: each kind of table compares keys in its own way."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import Types
from tests.state_processor.applications.lake.test_sync import table
from tests.state_processor.written_checkpoints import JOB

KINDS = ("delta", "iceberg", "parquet")
ROW = "a DOUBLE, b DECIMAL(10, 2), c TIMESTAMP(3), d VARBINARY(10), e STRING, f DATE, g ROW<h INT, i BOOLEAN>"


def row(number: int) -> dict[str, Any]:
    """A key with fields of all kinds, some of them null."""
    return {
        "a": math.nan if number == 1 else -0.0 if number == 2 else number / 3,
        "b": Decimal(number).scaleb(-2) if number % 2 else None,
        "c": datetime.datetime(1969, 12, 31, 23, 59, 59, number * 1000),
        "d": bytes([0, number, 255]),
        "e": f'søren\'s "{number}" 🍵\x00',
        "f": datetime.date(1582, 10, 15) + datetime.timedelta(days=number) if number % 3 else None,
        "g": {"h": number, "i": None} if number % 2 else None,
    }


KEYS: dict[str, tuple[Any, list[Any]]] = {
    "double": (Types.DOUBLE(), [0.0, -0.0, math.nan, math.inf, 1.5]),
    "boolean": (Types.BOOLEAN(), [True, False]),
    "short": (Types.SHORT(), [-32768, 0, 7]),
    "text": (Types.STRING(), ["", "'", "søren", "🍵", "a\x00b"]),
    "date": (Types.LOCAL_DATE(), [datetime.date(1969, 12, 31), datetime.date(9999, 12, 31), datetime.date(2026, 1, 1)]),
    "time": (Types.INSTANT(), [datetime.datetime(2026, 1, 1, 0, 0, s, tzinfo=datetime.UTC) for s in range(3)]),
    "number": (Types.BIG_DEC(), ["1.10", "-1E+30", "1.1"]),
    "row": (Types.ROW_DATA(ROW), [row(number) for number in range(6)]),
}


def by_position(keys: pa.Array) -> pa.Array:
    """Keys as reads and changes have them: snapshots do not have the names of the fields of a row."""
    if not pa.types.is_struct(keys.type):
        return keys
    return pa.StructArray.from_arrays(keys.flatten(), [f"f{i}" for i in range(keys.type.num_fields)])


def content(rows: Any) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in rows.to_pylist())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KEYS)
def test_keys_and_map_keys(name: str, kind: str, tmp_path: Path) -> None:
    """The first key is updated, the second deleted, the last inserted; values are null at times."""
    key_type, keys = KEYS[name]
    job = tmp_path / "checkpoints" / JOB
    states: dict[str, Any] = {
        "seen": sp.ValueState(Types.NULLABLE(Types.LONG())),
        "by": sp.MapState(Types.STRING(), Types.NULLABLE(Types.INT())),
    }
    numbers = range(len(keys) - 1)
    rows = pa.table(
        {
            "key": pa.array(keys)[:-1],
            "seen": pa.array([i or None for i in numbers], pa.int64()),
            "by": pa.array([[("a", i)] for i in numbers], pa.map_(pa.string(), pa.int32())),
        }
    )
    writer = sp.arrow.SavepointWriter.new(max_parallelism=4, flink_version="2.0")
    writer.with_keyed_state("op", rows, key="key", key_type=key_type, states=states)
    writer.write(job / "chk-1", checkpoint_id=1)
    for state in states:
        (tmp_path / state).mkdir()
    tables = {state: table(kind, tmp_path / state) for state in states}
    for state, (to, arguments, read, _) in tables.items():
        assert sp.sync(job, "op", state, to, **arguments) is not None
        assert content(read()) == content(sp.arrow.read_state(job / "chk-1", "op", state).read_all())
    stored = by_position(pa.array(keys))
    updated, deleted, inserted = (stored.take(pa.array([i])) for i in (0, 1, len(keys) - 1))
    writer = sp.arrow.SavepointWriter.from_existing(job / "chk-1")
    values = pa.array([7, None], pa.int64())
    writer.update_keyed_state("op", "seen", pa.table({"key": pa.concat_arrays([updated, inserted]), "value": values}))
    writer.update_keyed_state("op", "by", pa.table({"key": updated, "map_key": ["b"], "map_value": pa.array([None], pa.int32())}))
    if len(keys) > 2:
        writer.delete_keys("op", pa.table({"key": deleted}))
    writer.write(job / "chk-2", checkpoint_id=2)
    for state, (to, arguments, read, _) in tables.items():
        commit = sp.sync(job, "op", state, to, **arguments)
        assert commit is not None
        assert not commit.is_full
        assert content(read()) == content(sp.arrow.read_state(job / "chk-2", "op", state).read_all())
