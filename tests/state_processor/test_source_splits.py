"""The splits of a source through both surfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType

import state_processor as sp
from tests import corpus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEQUENCES = [
    (case, operator["uid"], state)
    for case in corpus.all_cases("*/operator-state-*-canonical")
    for operator, state in corpus.states_of(case)
    if "sequence_from" in state
]
NEWEST = SEQUENCES[-1:]


@pytest.mark.parametrize(("case", "uid", "state"), NEWEST, ids=lambda v: v.id if isinstance(v, corpus.Case) else "")
def test_as_arrow(case: corpus.Case, uid: str, state: dict[str, Any]) -> None:
    table = sp.arrow.read_source_splits(case.snapshot, uid)
    assert table.column_names == ["subtask", "split_id", "from_number", "to_number", "assignment", "version", "raw"]
    assert max(table["to_number"].to_pylist()) == state["sequence_to"]
    with pytest.raises(sp.OptionError, match="connector='flume'"):
        sp.arrow.read_source_splits(case.snapshot, uid, "flume")
    with pytest.raises(sp.NotFoundError, match="no operator 'nobody'"):
        sp.arrow.read_source_splits(case.snapshot, "nobody")
    with pytest.raises(sp.NotFoundError, match="has no splits"):
        sp.arrow.read_source_splits(case.snapshot, "lists")


@pytest.mark.spark
@pytest.mark.parametrize(("case", "uid", "state"), NEWEST, ids=lambda v: v.id if isinstance(v, corpus.Case) else "")
def test_as_data_frame(spark: SparkSession, case: corpus.Case, uid: str, state: dict[str, Any]) -> None:
    frame = sp.SavepointReader.read(spark, case.snapshot).read_source_splits(uid)
    assert [(f.name, type(f.dataType)) for f in frame.schema] == [
        ("subtask", IntegerType),
        ("split_id", StringType),
        ("from_number", LongType),
        ("to_number", LongType),
        ("assignment", StringType),
        ("version", IntegerType),
        ("raw", BinaryType),
    ]
    rows = [row.asDict() for row in frame.collect()]
    expected = sp.arrow.read_source_splits(case.snapshot, uid).to_pylist()
    assert sorted(rows, key=repr) == sorted([row | {"raw": bytearray(row["raw"])} for row in expected], key=repr)
    assert max(row["to_number"] for row in rows) == state["sequence_to"]


@pytest.mark.spark
@pytest.mark.parametrize(("case", "uid", "state"), NEWEST, ids=lambda v: v.id if isinstance(v, corpus.Case) else "")
def test_undecoded(spark: SparkSession, case: corpus.Case, uid: str, state: dict[str, Any]) -> None:
    reader = sp.SavepointReader.read(spark, case.snapshot)
    raw = {bytes(row.raw) for row in reader.read_source_splits(uid, connector="raw").where("subtask is not null").collect()}
    assert raw == {row["raw"] for row in sp.arrow.read_source_splits(case.snapshot, uid).to_pylist()}
    assert state["kind"] == "OPERATOR_LIST"
