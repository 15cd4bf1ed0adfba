"""Reports of sizes, by Spark and without."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.backends.analysis.entry_sizes import PLACES
from state_processor.cli import main
from state_processor.errors import NotFoundError, OptionError
from state_processor.read.sizes import SizeReport
from tests.state_processor.samples import ORDERS, ORDERS_PATH, TYPES_PATH, WINDOWS_PATH

STATES = ("total", "profile", "history", "items", "session")
FORMS = sorted(p.parent for p in ORDERS.parent.glob("orders-*/**/_metadata"))


def entries_by_key(path: Path) -> Counter[str]:
    """Entries as files have them: a list is one, a map has one per map key."""
    counts: Counter[str] = Counter()
    for state in STATES:
        for batch in sp.arrow.read_state(path, "orders", state, flatten=state == "items"):
            counts.update(batch.column("key").to_pylist())
    for batch in sp.arrow.read_timers(path, "orders"):
        counts.update(batch.column("key").to_pylist())
    return counts


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.parts[-2])
def test_entries_and_bytes(path: Path) -> None:
    by_key = sp.arrow.size_report(path, "orders", "key", None).to_pylist()
    assert {row["key"]: row["entries"] for row in by_key} == entries_by_key(path)
    assert [row["size_in_bytes"] for row in by_key] == sorted((row["size_in_bytes"] for row in by_key), reverse=True)
    totals = set()
    for by in ("state", "key_group", "subtask"):
        rows = [r for r in sp.arrow.size_report(path, by=by, top=None).to_pylist() if r["operator_uid"] == "orders"]
        totals.add((sum(r["entries"] for r in rows), sum(r["size_in_bytes"] for r in rows)))
    assert totals == {(sum(r["entries"] for r in by_key), sum(r["size_in_bytes"] for r in by_key))}


def test_bytes_of_one_state() -> None:
    (row,) = [r for r in sp.arrow.size_report(ORDERS_PATH).to_pylist() if r["state_name"] == "total"]
    keys = [k for batch in sp.arrow.read_state(ORDERS_PATH, "orders", "total") for k in batch.column("key").to_pylist()]
    assert row["entries"] == len(keys)
    assert row["size_in_bytes"] == sum(len(sp.Types.STRING().serialize(k)) + 1 + 8 for k in keys)


def test_rows_of_equal_size_are_in_order() -> None:
    report = SizeReport("key_group", None, ())
    groups = list(range(32768))
    parts = [
        pa.table(
            {
                "operator_uid": pa.repeat("orders", 64),
                "operator_uid_hash": pa.repeat("", 64),
                **{name: pa.repeat("", 64) for name in ("state_name", "state_kind")},
                "key_group": pa.array(groups[at : at + 64], pa.int32()),
                "subtask": pa.repeat(pa.scalar(0, pa.int32()), 64),
                "entries": pa.repeat(1, 64),
                "size_in_bytes": pa.repeat(9, 64),
            }
        ).cast(pa.schema([pa.field(n, pa.string()) for n in ("operator_uid", "operator_uid_hash")] + list(PLACES)))
        for at in range(0, len(groups), 64)
    ]
    assert report.merged(parts).column("key_group").to_pylist() == groups


def test_equal_sizes_in_all_formats() -> None:
    reports = [sp.arrow.size_report(path, "orders", "key", 7).to_pylist() for path in FORMS]
    assert all(sorted(map(str, report)) == sorted(map(str, reports[0])) for report in reports)
    assert len(reports[0]) == 7


def test_keys_with_windows() -> None:
    report = sp.arrow.size_report(WINDOWS_PATH, "session-process", "key", None).to_pylist()
    states = sp.arrow.size_report(WINDOWS_PATH, "session-process").to_pylist()
    assert sum(r["entries"] for r in report) == sum(r["entries"] for r in states)
    assert len({r["key"] for r in report}) == len(report)


def test_by_spark(spark: SparkSession) -> None:
    reader = sp.SavepointReader.read(spark, ORDERS_PATH)
    asked: list[dict[str, Any]] = [{}, {"by": "key_group", "top": 3}, {"uid": "orders", "by": "key"}]
    for arguments in asked:
        expected = sp.arrow.size_report(ORDERS_PATH, **arguments)
        found = reader.size_report(**arguments)
        assert found.columns == expected.column_names
        assert sorted(r["size_in_bytes"] for r in found.collect()) == sorted(expected["size_in_bytes"].to_pylist())


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sizes", TYPES_PATH, "--uid", "types", "--by", "key", "--top", "2"]) == 0
    assert capsys.readouterr().out.startswith("key")
    assert main(["sizes", ORDERS_PATH]) == 0
    assert "profile" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"by": "keys"}, OptionError, "by='keys': expected one of state, key_group, subtask, key"),
        ({"by": "key"}, OptionError, "name the operator"),
        ({"top": 0}, OptionError, "top=0: expected a number"),
        ({"uid": "catalog"}, NotFoundError, "has no keyed state"),
    ],
)
def test_mistakes(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sp.arrow.size_report(ORDERS_PATH, **arguments)
