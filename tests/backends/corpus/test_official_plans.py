"""Savepoints of Flink SQL from Flink's own tests, read with their compiled plans."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import state_processor as sp
from tests.corpus import CORPUS

PLANS = sorted((CORPUS / "official" / "sql").glob("*/*/plan/*.json"))
OF_SINKS = ("sink-results", "sink-retract-results")
"""States of sinks that only Flink's tests have; rows in them have the names of the sink."""


@pytest.mark.corpus(instead="tests/state_processor/read/test_plans.py::test_rows_have_the_names_of_the_query")
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_every_state_has_names(plan: Path) -> None:
    rows = sp.arrow.states(plan.parent.parent / "savepoint", plan=plan).to_pylist()
    for row in rows:
        label = f"{row['operator_uid'].partition('_')[2]}[{row['operator_uid'].partition('_')[0]}]"
        assert row["description"] or row["state_name"] in OF_SINKS, label
        if row["state_kind"] in ("OPERATOR_LIST", "UNION_LIST"):
            continue
        written = sp.arrow.read_state(plan.parent.parent / "savepoint", label, row["state_name"], plan=plan)
        for batch in written:
            assert unnamed(batch.schema) == []


def unnamed(schema: pa.Schema) -> list[str]:
    """The rows with unnamed fields: the names of all fields are numbers."""
    parts = [(field.name, field.type) for field in schema]
    found = []
    while parts:
        path, type_ = parts.pop()
        inside = [type_.field(i) for i in range(type_.num_fields)]
        if pa.types.is_struct(type_) and inside and [f.name for f in inside] == [f"f{i}" for i in range(len(inside))]:
            found.append(path)
        parts += [(f"{path}.{f.name}", f.type) for f in inside]
    return [path for path in found if not path.startswith("value.ltcnt(")]  # a tuple of Java, made by a function of the user
