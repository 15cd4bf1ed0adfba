"""Rows of every library with nulls, NaN and the like, for every kind of state: Flink restores them equal, or they are refused.

A cell is a library, a kind of state and an edge. Rows that a writer accepts alone are written once more, all into one savepoint,
which each version of Flink restores in one JVM.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import state_processor as sp
from tests.interop import flink
from tests.interop.selection import EVERY_CASE, asking, in_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.interop,
    pytest.mark.one_engine("the writer with Spark gets rows of Spark, the writer without Spark all others"),
]

T = sp.Types
VERSIONS: Final = ("1.20.5", "2.3.0")
BACKENDS: Final = {version: in_turn(("hashmap", "rocksdb"), number) for number, version in enumerate(VERSIONS)}
STATES: Final = ("value", "list", "map", "broadcast", "window", "timer")
BERLIN: Final = ZoneInfo("Europe/Berlin")
HOUR: Final = timedelta(hours=1)
NOON: Final = datetime(2030, 1, 1, 12)
NOON_MS: Final = 1_893_499_200_000
NAN: Final = math.nan

TEXT, DOUBLE, INSTANT = ("STRING", pa.string()), ("DOUBLE", pa.float64()), ("INSTANT", pa.timestamp("us", "UTC"))
LOCAL: Final = pa.timestamp("us")


@dataclass(frozen=True)
class Edge:
    """What is special about the rows of a cell: two values, their type, and their keys."""

    values: tuple[Any, Any] = ("x", "y")
    kind: tuple[str, pa.DataType] = TEXT
    column: pa.DataType | None = None
    keys: tuple[Any, Any] = ("a", "b")


EDGES: Final = {
    "null": Edge(("x", None)),
    "a null key": Edge(keys=("a", None)),
    "NaN": Edge((1.5, NAN), DOUBLE),
    "a missing column": Edge(),
    "a key twice": Edge(keys=("a", "a")),
    "rows twice": Edge(),
    "no rows": Edge(),
    "empty values": Edge(("", "y"), keys=("", "b")),
    "a local time": Edge((NOON, NOON + HOUR), INSTANT, LOCAL),
    "another zone": Edge(
        tuple((NOON + n * HOUR).replace(tzinfo=UTC).astimezone(BERLIN) for n in (0, 1)), INSTANT, pa.timestamp("us", str(BERLIN))
    ),
}

Entries = list[dict[str, Any]]


def _instants(edge: Edge) -> tuple[pa.DataType, list[datetime]]:
    """The times of windows and timers: local or in another zone, where this is the edge."""
    if edge.kind is INSTANT:
        assert edge.column is not None
        return edge.column, list(edge.values)
    return INSTANT[1], [(NOON + n * HOUR).replace(tzinfo=UTC) for n in (0, 1)]


def rows_of(state: str, name: str) -> pa.Table:
    """The rows of a cell."""
    edge = EDGES[name]
    column = edge.column or edge.kind[1]
    keys, values = pa.array(edge.keys, TEXT[1]), list(edge.values)
    table = pa.table({"key": keys, "value": pa.array(values, column)})
    if state == "list":
        lists = [values[:1], [values[0], values[1], values[0]]]
        table = table.set_column(1, "value", pa.array([[], lists[1]] if name == "empty values" else lists, pa.list_(column)))
    elif state == "map":
        table = table.rename_columns(["key", "map_value"])
        table = table.append_column("map_key", pa.array(["", "q"] if name == "empty values" else ["p", "p"]))
    elif state == "window":
        type_, times = _instants(edge)
        # the same window where the same key is there twice
        starts = [times[0]] * 2 if name == "a key twice" else times
        windows = [{"start": start, "end": start + HOUR} for start in starts]
        window = pa.array(windows, pa.struct([("start", type_), ("end", type_)]))
        table = pa.table({"key": keys, "window": window, "value": pa.array(["x", "y"] if edge.kind is INSTANT else values)})
    elif state == "timer":
        table = pa.table({"key": keys, "timestamp": pa.array([NOON_MS, NOON_MS])})
        if edge.kind is INSTANT:
            type_, times = _instants(edge)
            table = pa.table({"key": keys, "fires_at": pa.array(times, type_)})
        elif edge.kind is DOUBLE:
            table = table.set_column(1, "timestamp", pa.array([1.0, NAN]))
        elif name == "null":
            table = table.set_column(1, "timestamp", pa.array([NOON_MS, None]))
    return table.slice(0, 0) if name == "no rows" else table


def _printed(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


ALWAYS_REFUSED: Final = {"a null key", "a missing column", "a local time"}
REFUSED: Final = {("null", "list"), ("null", "timer"), ("NaN", "timer"), *(("a key twice", state) for state in STATES)}
"""Rows that are no state of Flink; a null value is one where no entry is made, or the type has null."""


def expected_of(state: str, name: str) -> Entries | None:
    """The entries that Flink has to find; ``None`` if the rows have to be refused."""
    edge = EDGES[name]
    refused = ALWAYS_REFUSED - ({"a local time"} if state in ("window", "timer") and edge.kind is not INSTANT else set())
    if name in refused or (name, state) in REFUSED:
        return None
    if name == "no rows":
        return []
    values = [_printed(v) for v in edge.values]
    entries: Entries
    if state == "list":
        lists = [values[:1], [values[0], values[1], values[0]]]
        entries = [{"key": k, "value": v} for k, v in zip(edge.keys, lists, strict=True)]
        return entries[1:] if name == "empty values" else entries
    if state == "map":
        names = ("", "q") if name == "empty values" else ("p", "p")
        return [{"key": k, "value": [[n, v]]} for k, n, v in zip(edge.keys, names, values, strict=True)]
    if state == "timer":
        fires = [NOON_MS, NOON_MS + (3_600_000 if edge.kind is INSTANT else 0)]
        entries = [{"key": k, "namespace": "VoidNamespace", "timestamp": t} for k, t in zip(edge.keys, fires, strict=True)]
        return entries
    if state == "window":
        values = ["x", "y"] if edge.kind is INSTANT else values
        starts = [NOON_MS, NOON_MS + 3_600_000]
        spaces = [{"start": start, "end": start + 3_600_000} for start in starts]
        entries = [{"key": k, "namespace": s, "value": v} for k, s, v in zip(edge.keys, spaces, values, strict=True)]
    else:
        entries = [{"key": k, "value": v} for k, v in zip(edge.keys, values, strict=True)]
    return entries if state == "broadcast" else [entry for entry in entries if entry["value"] is not None]


# Rows of libraries

Given = Callable[[], Any]
"""Returns rows to give; each time the same object if the rows are given twice."""

_CONNECTIONS: Final[list[Any]] = []


def _dictionaries(table: pa.Table, name: str) -> Any:
    rows = table.to_pylist()
    if name == "a missing column":
        del rows[-1][table.column_names[-1]]
    return rows


def _without_last(table: pa.Table, name: str) -> pa.Table:
    return table.drop_columns(table.column_names[-1:]) if name == "a missing column" else table


def _reader(table: pa.Table, name: str) -> Any:
    return _without_last(table, name).to_reader()


def _frame_of_pandas(table: pa.Table, name: str) -> Any:
    table = _without_last(table, name)
    return pd.DataFrame({column: table.column(column).to_pylist() for column in table.column_names})


def _frame_of_polars(table: pa.Table, name: str) -> Any:
    return pl.from_arrow(_without_last(table, name))


def _query(table: pa.Table, name: str) -> Any:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("given", _without_last(table, name))
    _CONNECTIONS.append(connection)
    query = connection.sql("FROM given")
    return query.to_arrow_reader() if name == "rows twice" else query


LIBRARIES: Final[dict[str, Callable[[pa.Table, str], Any]]] = {
    "dictionaries": _dictionaries,
    "pyarrow": _reader,
    "pandas": _frame_of_pandas,
    "Polars": _frame_of_polars,
    "DuckDB": _query,
}
SPARK: Final = "Spark"


def _frame_of_spark(spark: SparkSession, table: pa.Table, name: str) -> Any:
    from state_processor.spark.schemas import spark_schema

    table = _without_last(table, name)
    return spark.createDataFrame(table.to_pylist(), spark_schema(table.schema))


# Writing


def _type(edge: Edge) -> Any:
    return {"STRING": T.STRING, "DOUBLE": T.DOUBLE, "INSTANT": T.INSTANT}[edge.kind[0]]()


def _uids(cell: str) -> tuple[str, ...]:
    """The operators of a cell."""
    return (cell, f"{cell} again") if cell.endswith("rows twice") else (cell,)


def add(writer: Any, cell: str, given: Any) -> None:
    """Give the rows of a cell to a writer."""
    _, state, name = cell.split(", ")
    type_ = _type(EDGES[name])
    for uid in _uids(cell):
        if state == "value":
            writer.with_keyed_state(uid, given, key_type=T.STRING(), states={"value": type_})
        elif state == "list":
            writer.with_keyed_state(uid, given, key_type=T.STRING(), states={"value": sp.ListState(type_)})
        elif state == "map":
            writer.update_keyed_state(uid, "value", given)
        elif state == "broadcast":
            writer.with_broadcast_state(uid, "value", given, T.STRING(), type_)
        elif state == "window":
            value = sp.ValueState(T.STRING() if EDGES[name].kind is INSTANT else type_, namespace=T.TIME_WINDOW())
            writer.with_keyed_state(uid, given, key_type=T.STRING(), states={"value": value})
        else:
            writer.with_timers(uid, given, key_type=T.STRING())


def described(cell: str) -> list[dict[str, Any]]:
    """The operators of a cell, as Flink has to restore them."""
    _, state, name = cell.split(", ")
    edge, entries = EDGES[name], expected_of(state, name)
    assert entries is not None
    kinds = {"window": "VALUE", "timer": "EVENT_TIMER"}
    of_text = state == "window" and edge.kind is INSTANT
    found: dict[str, Any] = {
        "kind": kinds.get(state, state.upper()),
        "value_type": "STRING" if of_text else edge.kind[0],
        "ttl": False,
    }
    found |= {"name": "user-timers" if state == "timer" else "value", "key_type": "STRING"}
    if state == "map":
        found["map_key_type"] = "STRING"
        entries = [*entries, {"key": "base", "value": [["z", None if edge.kind is TEXT else _printed(_BASE[edge.kind[0]])]]}]
    elif state == "broadcast":
        found = {n: v for n, v in found.items() if n not in ("key_type", "ttl")} | {"map_key_type": "STRING"}
    elif state == "window":
        found["namespace_type"] = "TIME_WINDOW"
    elif state == "timer":
        found |= {"namespace_type": "VOID_NAMESPACE", "value_type": None}
    key_type = None if state == "broadcast" else "STRING"
    return [{"uid": uid, "key_type": key_type, "states": [found | {"entries": entries}]} for uid in _uids(cell)]


_BASE: Final = {"STRING": None, "DOUBLE": 0.5, "INSTANT": NOON.replace(tzinfo=UTC)}


def _base(path: Path, cells: list[str]) -> Path:
    """A savepoint with the map states that rows of cells change, and an operator more."""
    writer = sp.arrow.SavepointWriter.new().with_list_state("base", "names", pa.table({"value": ["x"]}))
    for cell in cells:
        _, state, name = cell.split(", ")
        if state == "map":
            kind, column = EDGES[name].kind
            entries = pa.array([[("z", _BASE[kind])]], pa.map_(TEXT[1], column))
            for uid in _uids(cell):
                states = {"value": sp.MapState(T.STRING(), _type(EDGES[name]))}
                writer.with_keyed_state(uid, pa.table({"key": ["base"], "value": entries}), key_type=T.STRING(), states=states)
    writer.write(path)
    return path


CELLS: Final = [f"{library}, {state}, {name}" for library in (*LIBRARIES, SPARK) for state in STATES for name in EDGES]


def _sampled() -> Iterator[str]:
    """All cells; without ``STATE_PROCESSOR_EVERY_CASE`` a sample, with few of Spark, which takes a second to write a cell."""
    for number, cell in enumerate(CELLS):
        if EVERY_CASE or number % (17 if cell.startswith(SPARK) else 7) == 0:
            yield cell


@dataclass(frozen=True)
class Outcome:
    """Why rows were refused by cell, and by version and backend what Flink restored of the others."""

    refused: dict[str, str]
    restored: dict[tuple[str, str], dict[tuple[str, str, str], list[str]]]


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    cells = [item.callspec.params["cell"] for item in asking(request, "outcome") if hasattr(item, "callspec")]
    directory = tmp_path_factory.mktemp("rows")
    refused: dict[str, str] = {}
    restored: dict[tuple[str, str], dict[tuple[str, str, str], list[str]]] = {key: {} for key in _restores()}
    for engine in ("local", "spark"):
        chosen = [cell for cell in cells if cell.startswith(SPARK) == (engine == "spark")]
        if not chosen:
            continue
        spark = request.getfixturevalue("spark") if engine == "spark" else None

        def writer(of: Path, spark: Any = spark) -> Any:
            return sp.arrow.SavepointWriter.from_existing(of) if spark is None else sp.SavepointWriter.from_existing(spark, of)

        def given(cell: str, spark: Any = spark) -> Any:
            library, state, name = cell.split(", ")
            table = rows_of(state, name)
            return LIBRARIES[library](table, name) if spark is None else _frame_of_spark(spark, table, name)

        accepted = []
        for number, cell in enumerate(chosen):
            alone = _base(directory / f"{engine}-{number}-base", [cell])
            try:
                draft = writer(alone)
                add(draft, cell, given(cell))
                draft.write(directory / f"{engine}-{number}")
            except sp.StateProcessorError as problem:
                refused[cell] = str(problem)
            else:
                accepted.append(cell)
        restorable = [cell for cell in accepted if _expected(cell) is not None]
        together = writer(_base(directory / f"{engine}-base", restorable)).remove_operator("base")
        for cell in restorable:
            add(together, cell, given(cell))
        together.write(directory / engine)
        operators = [operator for cell in restorable for operator in described(cell)]
        for version in VERSIONS:
            requests = [flink.request(operators, directory / engine, backend=b) for b in BACKENDS[version]]
            for backend, answer in zip(BACKENDS[version], flink.restore(version, requests), strict=True):
                assert "error" not in answer, f"{version}, {backend}: {answer['error'][:4000]}"
                restored[version, backend] |= flink.entries(answer["operators"])
    return Outcome(refused, restored)


def _restores() -> Iterator[tuple[str, str]]:
    return ((version, backend) for version in VERSIONS for backend in BACKENDS[version])


def _expected(cell: str) -> Entries | None:
    _, state, name = cell.split(", ")
    return expected_of(state, name)


@pytest.mark.parametrize("cell", list(_sampled()))
def test_rows_restore_equal_or_are_refused(cell: str, outcome: Outcome) -> None:
    if cell in outcome.refused:
        assert re.search(PLACES[cell.split(", ")[2]], outcome.refused[cell])
        return
    assert _expected(cell) is not None, "the rows were accepted"
    expected = flink.entries(described(cell))
    for where, found in outcome.restored.items():
        assert {state: found.get(state) for state in expected} == expected, where


PLACES: Final = {
    "null": r"column \S+ of row \d|column 'timestamp' is of Arrow type double",  # pandas: floating point with a null
    "a null key": r"column key of row \d is null",
    "NaN": r"column 'timestamp' is of",
    "a missing column": r"there is no column '\w+'|row 1 does not have the column '\w+'",
    "a key twice": r"key 'a'.* occurs more than once",
    "rows twice": r"are a stream that was given before",
    "no rows": r"the types of its columns are unknown|column 'key' is of",
    "a local time": r"column '\S+' is of",
}
"""Parts of the refusal of an edge: the column and, if one row does not fit, the row or its key."""


REFUSED_ALTHOUGH_RESTORABLE: Final = {
    "no rows": {"dictionaries", "pandas"},  # without a row, the types of their columns are unknown, or floating point
    "rows twice": {"pyarrow", "DuckDB"},  # readers
}


def test_other_rows_are_accepted(outcome: Outcome) -> None:
    """Only rows that no state has are refused, and rows whose second use would be empty."""
    cells = [cell for cell in outcome.refused if _expected(cell) is not None]
    assert [c for c in cells if c.split(", ")[0] not in REFUSED_ALTHOUGH_RESTORABLE.get(c.split(", ")[2], set())] == []


def test_the_matrix_is_whole() -> None:
    """Each library, kind of state and edge; few cells can be refused alone."""
    assert len(CELLS) == 6 * 6 * 10
    assert sum(_expected(cell) is None for cell in CELLS) == 6 * (6 * 3 + 3 + 6)
