"""Sources whose splits are layouts: rows, preserved content, and edits. Plug-ins add ``families`` to these tests."""

from __future__ import annotations

import json

import pytest

from state_processor.backends.connectors import kafka
from state_processor.backends.connectors.source_splits import recognized, written_source
from state_processor.support.errors import InvalidRowError
from tests.backends.connectors.split_families import Family, rows_of
from tests.plugins import modules_of_plugins

SPLIT = {"topic": "orders", "partition": 3, "startingOffset": 42, "stoppingOffset": None}
CLUSTER = {"clusterId": "east", "topics": ["orders"], "bootstrapServers": "b:9092"}
PARTITIONS = {
    "partitions": [{"topic": "orders", "partition": 3, "assignmentStatus": "ASSIGNED"}],
    "initialDiscoveryFinished": True,
}
DYNAMIC_KAFKA = Family(
    kafka.DYNAMIC_SPLITS,
    2,
    {"clusterId": "east", "retainedUntilMs": None, "splitVersion": 0, "split": SPLIT},
    kafka.DYNAMIC_ENUMERATOR,
    1,
    {
        "streams": [{"streamId": "s", "clusters": [CLUSTER]}],
        "stateVersion": 2,
        "clusters": [{"clusterId": "east", "state": PARTITIONS}],
    },
    edit_state=lambda state: state.update(clusters=[]),
    columns={"starting_offset": 8},
    fields={"split": SPLIT | {"startingOffset": 8}},
)
FAMILIES: dict[str, Family] = {"dynamic-kafka": DYNAMIC_KAFKA}
for module in modules_of_plugins("families"):
    FAMILIES |= module.FAMILIES
of_every_family = pytest.mark.parametrize(("name", "family"), FAMILIES.items(), ids=FAMILIES)


@of_every_family
def test_unchanged_rows_are_the_same_bytes(name: str, family: Family) -> None:
    base = family.source_state()
    connector = recognized(base)
    assert connector is not None
    assert connector.name == name
    written = written_source(rows_of(base), base)
    assert written.elements == [split.to_bytes() for _, split in base.splits]
    assert base.coordinator is not None
    assert written.coordinator == base.coordinator.to_bytes()


@of_every_family
def test_the_state_of_the_enumerator_is_a_row(name: str, family: Family) -> None:
    base = family.source_state()
    rows = rows_of(base)
    (row,) = [row for row in rows if row["split_id"] == "enumerator"]
    rest = json.loads(row["enumerator"])
    family.edit_state(rest)
    row["enumerator"] = json.dumps(rest)
    _, changed = family.decoded(written_source(rows, base))
    assert changed != family.state
    assert {**changed, **dict.fromkeys(rest)} == {**family.state, **dict.fromkeys(rest)}


@of_every_family
def test_columns_of_a_split_are_its_content(name: str, family: Family) -> None:
    base = family.source_state()
    rows = rows_of(base)
    next(row for row in rows if row["subtask"] == 0).update(family.columns)
    (content,), enumerator = family.decoded(written_source(rows, base))
    assert content == family.split | family.fields
    assert enumerator == family.state


@pytest.mark.parametrize("family", [family for family in FAMILIES.values() if not family.makes_splits], ids=lambda f: f.splits)
def test_new_splits_are_refused(family: Family) -> None:
    base = family.source_state()
    rows = rows_of(base)
    held = next(row for row in rows if row["subtask"] == 0)
    with pytest.raises(InvalidRowError, match=r"new splits of .* can't be written; keep the columns 'version' and 'raw'"):
        written_source([*rows, {**held, "split_id": "new", "version": None, "raw": None}], base)
