"""POJOs with registered subclasses that Flink never wrote: a job that registers them restores all, and goes on with the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import state_processor as sp
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.keyed_splits import keyed_handles
from state_processor.backends.read.stored_operator import find_operator
from state_processor.backends.state.state_headers import VALUE
from state_processor.backends.write.assembly import commit_savepoint, metadata_version
from state_processor.backends.write.staging import Staging
from state_processor.serializers import register_pojo_class
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.registry import Registrations, register
from tests import hidden_subclasses as hidden
from tests.backends.operator_files import SubtaskHandles, new_operator
from tests.interop import flink
from tests.interop.rewriting import write_keyed

pytestmark = pytest.mark.interop

T = sp.Types
SHAPE, CIRCLE, SQUARE = "fixtures.Shape", "fixtures.Circle", "fixtures.Square"
SHAPES = T.POJO(
    SHAPE,
    {"name": T.STRING(), "order": T.INT()},
    subclasses={SQUARE: {"side": T.LONG(), "label": T.STRING()}, CIRCLE: {"radius": T.DOUBLE()}},
)
REGISTERED = {
    "1.20.5": {"pipeline.registered-pojo-types": f"{SQUARE};{CIRCLE}"},
    "2.3.0": {"pipeline.serialization-config": f"[{SQUARE}: {{type: pojo}}, {CIRCLE}: {{type: pojo}}]"},
}
ROWS: list[dict[str, Any]] = [
    {"_class": SQUARE, "name": "s", "order": 1, "side": -5, "label": None},
    {"_class": CIRCLE, "name": None, "order": 2, "radius": 0.5},
    {"_class": SHAPE, "name": "plain", "order": 3},
    {"_class": None, "name": "plain", "order": 4},
]


def _savepoint(target: Path, version: str) -> dict[str, Any]:
    state = sp.ValueState(SHAPES).describe("shapes", T.LONG())
    column = pa.array(ROWS, SHAPES.arrow_type(DecodeOptions()))
    batch = pa.RecordBatch.from_pydict({"key": pa.array(range(len(ROWS)), pa.int64()), "value": column})
    staging = Staging(str(target), "shapes")
    staging.prepare()
    handles = write_keyed(staging, operator_id("shapes"), [(state, [batch])], 1, 128)
    subtasks = {subtask: SubtaskHandles(keyed=handle) for subtask, handle in handles.items()}
    commit_savepoint(staging, [new_operator("shapes", 1, 128, subtasks)], version=metadata_version(version))
    fields = ({name: value for name, value in row.items() if name != "_class"} for row in ROWS)
    printed = [{"@class": row["_class"] or SHAPE, **own} for row, own in zip(ROWS, fields, strict=True)]
    states = [_state([{"key": key, "value": value} for key, value in enumerate(printed)])]
    return {"uid": "shapes", "key_type": "LONG", "states": states}


def _state(entries: list[dict[str, Any]]) -> dict[str, Any]:
    common = {"name": "shapes", "kind": "VALUE", "value_type": f"POJO<{SHAPE}>", "namespace_type": "VOID_NAMESPACE"}
    return {**common, "ttl": False, "entries": entries}


@pytest.mark.parametrize("version", REGISTERED)
def test_registered_subclasses(version: str, tmp_path: Path) -> None:
    operator = _savepoint(tmp_path / "savepoint", version)
    settings = REGISTERED[version]
    requests = [
        flink.request([operator], tmp_path / "savepoint", backend=backend, settings=settings, savepoint_to=tmp_path / backend)
        for backend in ("hashmap", "rocksdb")
    ]
    for answer in flink.restore(version, requests):
        assert "error" not in answer, answer["error"][:4000]
        assert flink.entries(answer["operators"]) == flink.entries([operator])
        of_flink = _serializer(Path(answer["savepoint"]))
        assert (
            of_flink.to_bytes() == _serializer(tmp_path / "savepoint").to_bytes()
        )  # declaring classes, order of tags, fields of each
        assert _rows(Path(answer["savepoint"])) == _rows(tmp_path / "savepoint")


@pytest.mark.usefixtures("own_registrations")
def test_values_of_undescribed_subclasses_are_carried(spark: SparkSession, tmp_path: Path) -> None:
    """The names of plain shapes change; squares, which no snapshot describes, are the bytes that they were."""
    register(lambda _: Registrations())  # other tests describe them
    base = hidden.savepoint(tmp_path / "base")
    rows = sp.SavepointReader.read(spark, base).read_keyed_state("shapes", "shapes", undescribed="bytes")
    name = f.when(f.col("value._bytes").isNull(), f.lit("changed"))
    writer = sp.SavepointWriter.from_existing(spark, base)
    writer.update_keyed_state("shapes", "shapes", rows.withColumn("value", f.col("value").withField("name", name)))
    writer.remove_state("shapes", "timed").remove_state("shapes", "by-name").write(tmp_path / "savepoint")
    entries = []
    for key, row in enumerate(hidden.ROWS):
        fields = {name: value for name, value in row.items() if name != "_class"}
        new = {} if row["_class"] == SQUARE else {"name": "changed"}
        entries.append({"key": key, "value": {"@class": row["_class"], **fields, **new}})
    operator = {"uid": "shapes", "key_type": "LONG", "states": [_state(entries)]}
    requests = [flink.request([operator], tmp_path / "savepoint", backend=backend) for backend in ("hashmap", "rocksdb")]
    for answer in flink.restore("1.20.5", requests):
        assert "error" not in answer, answer["error"][:4000]
        assert flink.entries(answer["operators"]) == flink.entries([operator])


PLAIN = {"name": "plain", "order": 1}
NEW: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "own-fields": ("name: string, order: int", [PLAIN, {"name": None, "order": 2}]),
    "fields-of-one-subclass": (
        "_class: string, order: int, name: string, side: bigint, label: string",
        [{"_class": SQUARE, "name": "s", "order": 1, "side": 5, "label": "ü"}, {"_class": None, **PLAIN}],
    ),
    "all-fields": (
        "_class: string, name: string, order: int, side: bigint, label: string, radius: double",
        [
            {"_class": SQUARE, "name": "s", "order": 1, "side": 5, "label": None},
            {"_class": CIRCLE, "name": None, "order": 2, "radius": 0.5},
            {"_class": SHAPE, **PLAIN},
        ],
    ),
}
"""What structs of rows of new states have: types of the fields, and values."""
OF_SUBCLASSES = {SQUARE: {"side": T.LONG(), "label": T.STRING()}, CIRCLE: {"radius": T.DOUBLE()}}


@pytest.mark.usefixtures("own_registrations")
@pytest.mark.parametrize("version", REGISTERED)
def test_new_states(version: str, spark: SparkSession, tmp_path: Path) -> None:
    """A state of the parent class, whose subclasses are declared by the type or described by a call, from structs of all shapes.

    Subclasses that a call describes are written by name. A job that registers them, and one that does not, restore the values.
    """
    types = {"described": T.POJO(SHAPE, {"name": T.STRING(), "order": T.INT()}), "declared": SHAPES}
    for name, fields in OF_SUBCLASSES.items():
        register_pojo_class(name, fields, SHAPE)
    requests = []
    for state, type_ in types.items():
        for shape, (ddl, rows) in NEW.items():
            keyed = list(enumerate(rows))
            frame = spark.createDataFrame(keyed, f"key bigint, shapes struct<{ddl}>")
            path = tmp_path / f"{state}-{shape}"
            writer = sp.SavepointWriter.new(spark, flink_version=version.rpartition(".")[0])
            writer.with_keyed_state("shapes", frame, states={"shapes": type_}).write(path)
            operator = {"uid": "shapes", "key_type": "LONG", "states": [_state(_printed(keyed))]}
            for settings in ([REGISTERED[version]], [REGISTERED[version], {}])[state == "described"]:
                given = [flink.request([operator], path, backend=b, settings=settings) for b in ("hashmap", "rocksdb")]
                requests += [(operator, request) for request in given]
    for (operator, _), answer in zip(requests, flink.restore(version, [request for _, request in requests]), strict=True):
        assert "error" not in answer, answer["error"][:4000]
        assert flink.entries(answer["operators"]) == flink.entries([operator])


def _printed(keyed: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The entries as the job prints them."""
    return [
        {"key": key, "value": {"@class": row.get("_class") or SHAPE} | {n: v for n, v in row.items() if n != "_class"}}
        for key, row in keyed
    ]


def _serializer(path: Path) -> Any:
    snapshot = open_snapshot(path)
    handle = next(iter(keyed_handles(find_operator(snapshot, "shapes"), snapshot)))
    return handle.open(snapshot).header.states[0].serializers[VALUE]


def _rows(path: Path) -> list[dict[str, Any]]:
    rows = [row for batch in sp.arrow.read_state(path, "shapes", "shapes") for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: int(row["key"]))
