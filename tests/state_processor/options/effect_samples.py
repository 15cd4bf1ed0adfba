"""A savepoint with states of all kinds and values that each option changes, and a reader for each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot_metadata import OperatorState, read_metadata, write_metadata
from state_processor.backends.read.read_options import Kind
from state_processor.backends.state.descriptions import OperatorDescription
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.staging import Staging
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.registry import Registrations, register, registrations
from tests import hidden_subclasses as hidden
from tests.archives import unpacked
from tests.backends.operator_files import OperatorColumnsWriter, SubtaskHandles, new_operator
from tests.interop.rewriting import register as registered
from tests.interop.rewriting import write_keyed
from tests.state_processor.read.test_raw_state import subtask as raw_subtask
from tests.state_processor.samples import ORDERS_PATH

T = sp.Types
PYTHON: Final = str(unpacked() / "2.3.0" / "pyflink-hashmap-canonical" / "savepoint")
"""A savepoint of PyFlink."""
KEYS: Final = pa.array([1, 2], pa.int64())
_MOMENT: Final = pa.timestamp("us", "UTC")
WINDOWS: Final = pa.array([{"start": 0, "end": 1000}] * 2, pa.struct([("start", _MOMENT), ("end", _MOMENT)]))

CONTENTS: Final[dict[str, tuple[TypeSerializer, list[Any]]]] = {
    "instants": (T.INSTANT(), ["2024-01-01T00:00:00.000000001Z", "2024-01-01T00:00:00.000000002Z"]),
    "rows": (T.ROW_NAMED(["a", "b"], [T.LONG(), T.LONG()]), [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
    "texts": (T.STRING(), ["x" * 300_000, "y" * 300_000]),
    "queried": (T.ROW_DATA("a BIGINT"), [{"a": 1}, {"a": 2}]),
    "shapes": (hidden.SHAPES, hidden.ROWS[:2]),
    "days": (T.SQL_DATE(), ["2024-02-29", "2024-03-01"]),
    "longs": (T.LONG(), [1, 2]),
    "kryo": (T.KRYO("java.util.ArrayList"), ['["a"]', '["b"]']),
}
"""Types and values of states; names are those of the states."""
LISTS: Final = {"list": "OPERATOR_LIST", "union": "UNION_LIST"}
NEVER_KEYS: Final = ("shapes", "kryo")
"""Contents that Flink has no keys of."""


def column(content: str) -> pa.Array:
    serializer, values = CONTENTS[content]
    return pa.array(values, serializer.arrow_type(DecodeOptions()) if isinstance(values[0], dict) else None)


def savepoint(spark: SparkSession, target: Path) -> Path:
    """Write it; the states of a content are in the operator ``keyed``, in ``of-CONTENT`` alone, and in the other kinds."""
    with registrations():
        register(lambda _: Registrations())  # tests describe the classes
        writer = sp.SavepointWriter.new(spark)
        for content, (serializer, _) in CONTENTS.items():
            values = {content: column(content)}
            for uid, namespace in (("keyed", None), (f"of-{content}", None), ("windows", T.TIME_WINDOW())):
                if content == "shapes":  # the tasks of a write have the descriptions of the snapshot
                    continue
                _add_keyed(writer, uid, values, {content: sp.ValueState(serializer, namespace=namespace)})
            if content not in NEVER_KEYS:
                timers = pa.table({"key": column(content), "timestamp": pa.array([1, 2], pa.int64())})
                writer.with_timers(f"timers-{content}", timers, key_type=serializer)
            elements = pa.table({"value": column(content)})
            if content != "shapes":
                writer.with_list_state("operator", f"list-{content}", elements, serializer)
                writer.with_union_state("operator", f"union-{content}", elements, serializer)
            rows = elements.append_column("key", KEYS)
            writer.with_broadcast_state("operator", f"broadcast-{content}", rows, T.LONG(), serializer)
        for uid, namespace in (("keyed", None), ("windows", T.TIME_WINDOW())):
            _add_keyed(writer, uid, {"lists": pa.array([[1, 2], [3]])}, {"lists": sp.ListState(T.LONG(), namespace=namespace)})
        for uid, namespace in (("keyed", None), ("of-sessions", None), ("windows", T.TIME_WINDOW())):
            states = {"sessions": sp.ValueState(T.STRING(), ttl=True, namespace=namespace)}
            _add_keyed(writer, uid, {"sessions": pa.array(["a", "b"])}, states)
        writer.write(target)
    return target


def _add_keyed(writer: sp.SavepointWriter, uid: str, values: dict[str, pa.Array], states: dict[str, Any]) -> None:
    rows = {"key": KEYS, **values} | ({"window": WINDOWS} if uid == "windows" else {})
    writer.with_keyed_state(uid, pa.table(rows), key_type=T.LONG(), states=states)


def empty(spark: SparkSession, target: Path) -> Path:
    """Write a savepoint with other states of the operators."""
    writer = sp.SavepointWriter.new(spark)
    for uid in ("keyed", *(f"of-{content}" for content in CONTENTS)):
        writer.with_keyed_state(uid, pa.table({"key": KEYS, "other": KEYS}), states={"other": sp.ValueState(T.LONG())})
    writer.write(target)
    return target


def undescribed(target: Path) -> Path:
    """Write windows and operator state with values of a subclass that the snapshot does not describe."""
    staging = Staging(str(target), "shapes")
    staging.prepare()
    windows = sp.ValueState(hidden.SHAPES, namespace=T.TIME_WINDOW()).describe("shapes", T.LONG())
    batch = pa.RecordBatch.from_pydict({"key": KEYS, "window": WINDOWS, "value": column("shapes")})
    keyed = write_keyed(staging, operator_id("windows"), [(windows, [batch])], 1, 128)
    states = [OperatorDescription(f"{kind}-shapes", stored, hidden.SHAPES) for kind, stored in LISTS.items()]
    writer = OperatorColumnsWriter(staging.open("operator-0"), states, [registered(state) for state in states])
    for state in states:
        writer.add_list(state.name, column("shapes"))
    operators = [
        new_operator("windows", 1, 128, {n: SubtaskHandles(keyed=handle) for n, handle in keyed.items()}),
        new_operator("operator", 1, 128, {0: SubtaskHandles(operator=writer.close())}),
    ]
    commit_savepoint(staging, operators)
    return target


def raw(target: Path) -> Path:
    """Write a snapshot with raw state."""
    target.mkdir()
    operator = OperatorState(operator_id("raw"), parallelism=1, max_parallelism=128, subtasks=(raw_subtask(0),), uid="raw")
    metadata = read_metadata((Path(ORDERS_PATH) / "_metadata").read_bytes())
    (target / "_metadata").write_bytes(write_metadata(replace(metadata, operators=(operator,))))
    return target


def rows_of(batches: Any) -> list[Any]:
    return [row for batch in batches for row in batch.to_pylist()]


def _lookup(path: Path, uid: str, state: str, **options: Any) -> list[Any]:
    return [t.to_pylist() for t in sp.arrow.lookup(path, uid, 2, state, **options).tables().values()]


READS: Final[dict[Kind, Callable[..., Any]]] = {
    Kind.KEYED: lambda path, _, content, **o: rows_of(sp.arrow.read_state(path, "keyed", content, **o)),
    Kind.WINDOW: lambda path, _, content, **o: rows_of(sp.arrow.read_state(path, "windows", content, **o)),
    Kind.WHOLE: lambda path, _, content, **o: rows_of(sp.arrow.read_state(path, f"of-{content}", **o)),
    Kind.LOOKUP: lambda path, _, content, **o: _lookup(path, "keyed", content, **o),
    Kind.TIMERS: lambda path, _, content, **o: rows_of(sp.arrow.read_timers(path, f"timers-{content}", **o)),
    Kind.LIST: lambda path, _, content, **o: rows_of(sp.arrow.read_state(path, "operator", f"list-{content}", **o)),
    Kind.UNION: lambda path, _, content, **o: rows_of(sp.arrow.read_state(path, "operator", f"union-{content}", **o)),
    Kind.BROADCAST: lambda path, _, content, **o: rows_of(sp.arrow.read_state(path, "operator", f"broadcast-{content}", **o)),
    Kind.DIFF: lambda path, old, content, **o: rows_of(sp.arrow.diff(old, path, "keyed", content, **o)),
    Kind.COUNTS: lambda path, old, content, **o: sp.arrow.diff_summary(old, path, f"of-{content}", **o).to_pylist(),
}
"""A read of each kind, of the values of a content; ``old`` is a savepoint without them."""
