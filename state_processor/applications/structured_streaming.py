"""State of Spark's Structured Streaming, as rows that a writer of savepoints takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import chain, count
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, Literal

from state_processor.errors import (
    CorruptSnapshotError,
    MissingFileError,
    NotASnapshotError,
    NotFoundError,
    OptionError,
    UnsupportedFormatError,
)
from state_processor.support import requirement

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LOG_VERSIONS: Final = ("v1", "v2")
_JOIN: Final = "symmetricHashJoin"
_LIMIT: Final = "globalLimit"
_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_INTERNAL: Final = "$"
"""How Spark's own variables begin, such as its timers."""
_LOST_FILE: Final = re.compile(r"FileNotFoundException: (?:File )?(\S+)")
_EXPIRES: Final = "expires_at"
_EXPIRY: Final = "ttlExpirationMs"
_DOMAINS: Final = {"EventTime": "event_time", "ProcessingTime": "processing_time"}
_UNREAD: Final = re.compile(r"[][{}*?%\\\s]")
"""What Spark expands or escapes in a path, so that its sources look for state elsewhere."""


class StreamingCheckpoint:
    """The checkpoint of a query of Structured Streaming, as of a batch that the query committed.

    Spark reads the state, by its sources ``state-metadata`` and ``statestore``. This class checks that the checkpoint has all of
    it, and returns rows of plain columns.

    Parameters
    ----------
    spark
        The session that reads the checkpoint. It needs Spark 4.0 or later.
    path
        The query's ``checkpointLocation``.
    batch
        The batch; by default the last one. Its rows are in the state, and no later row is.

    Raises
    ------
    NotASnapshotError
        The path is not a checkpoint of Structured Streaming, or the query did not commit a batch yet.
    NotFoundError
        The query did not commit the batch.
    OptionError
        The query began another batch after its last one, and did not commit it. Name ``batch`` to take the state before it. Or
        the path has a character with which Spark does not read state.
    UnsupportedFormatError
        The logs of the checkpoint have a version that is not known.
    """

    def __init__(self, spark: SparkSession, path: str | PathLike[str], batch: int | None = None) -> None:
        with requirement("spark", "sp.StreamingCheckpoint and other uses of Spark", "pyspark", "py4j"):
            import pyspark.sql  # noqa: F401
        self._spark = spark
        self._path = fspath(path).rstrip("/")
        if character := _UNREAD.search(self._path):
            raise OptionError(
                f"{self._path}: expected the path of one checkpoint. Spark does not read state from a path with "
                f"{character[0]!r}: rename the directory, or make a link to it"
            )
        committed, begun = (self._numbers(log) for log in ("commits", "offsets"))
        _ = spark.streams.active  # starts the coordinator of state stores, without which Spark 4.1 does not read them
        if not committed:
            raise NotASnapshotError(
                f"{self._path} does not have a committed batch: expected the checkpointLocation of a query that ran a batch"
            )
        if batch is None and begun and begun[-1] > committed[-1]:
            raise OptionError(
                f"{self._path}: batch {begun[-1]} began and was not committed: a sink may have its rows, and the state does not. "
                f"Let the query finish the batch and stop it, or pass batch={committed[-1]} to take the state before this batch"
            )
        self.batch = committed[-1] if batch is None else batch
        if self.batch not in committed or self.batch not in begun:
            raise NotFoundError(f"{self._path}: batch {self.batch} is not committed; the log has {_range(committed)}")

    @property
    def offsets(self) -> dict[str, Any]:
        """Where the sources go on after the batch: the offset of each, parsed as JSON, by its position or name in the query."""
        version, _, *lines = self._log("offsets")
        pairs = (line.split(":", 1) for line in lines) if version == "v2" else enumerate(lines)
        return {str(source): None if offset == "-" else json.loads(offset) for source, offset in pairs}

    @property
    def watermark(self) -> datetime | None:
        """The watermark after the batch; ``None`` for a query without one. Spark drops rows of an earlier time."""
        _, commit, *_ = self._log("commits")
        milliseconds = json.loads(commit).get("nextBatchWatermarkMs", 0)
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds) if milliseconds else None

    def operators(self) -> DataFrame:
        """Return the stores of all operators with state: ``operator``, ``name``, ``store``, ``variables``, ``partitions``.

        ``variables`` are the names in ``transformWithState``; null for other operators.
        """
        rows = []
        for store in self._stores():
            variables = _variables(store)
            names = None if variables is None else list(variables)
            rows.append((store.operatorId, store.operatorName, store.stateStoreName, names, store.numPartitions))
        schema = "operator bigint, name string, store string, variables array<string>, partitions int"
        return self._spark.createDataFrame(rows, schema)

    def read_state(
        self,
        state: str | None = None,
        *,
        operator: int | None = None,
        side: Literal["left", "right"] | None = None,
    ) -> DataFrame:
        """Return the state of an operator: a row for each key, or for each row of a join.

        Parameters
        ----------
        state
            The variable of ``transformWithState``. Other operators have one state without a name.
        operator
            The number of the operator; by default the only one with state.
        side
            The side of a join.

        Returns
        -------
        DataFrame
            The columns of the key, then the columns of the value. Of columns with the same name, in upper or lower case, the
            second is ``name_2``. A variable is one column with its name: a value, an array or a map. Values of one field are that
            field. Variables with time-to-live have the column ``expires_at``, the latest expiry of the elements of a list or map.

        Raises
        ------
        OptionError
            The option does not belong to the operator, or the operator needs it.
        NotFoundError
            The operator or the variable does not exist.
        MissingFileError
            Partitions of the state are missing.
        """
        stores = self._of(operator)
        name, number = stores[0].operatorName, stores[0].operatorId
        variables = _variables(stores[0])
        if (side is not None) != (name == _JOIN):
            expected = "side='left' or 'right' is needed" if side is None else "side= is for joins"
            raise OptionError(f"operator {number} is {name}: {expected}")
        if variables is None and state is not None:
            raise OptionError(f"operator {number} is {name}: its state does not have a name, so leave out state={state!r}")
        if variables is None:
            return _flat(self._rows(stores)) if side is None else self._rows(stores, joinSide=side).select("value.*")
        if state not in variables:
            raise NotFoundError(f"operator {number} does not have a variable {state!r}; it has {', '.join(map(repr, variables))}")
        return _variable(self._rows(stores, stateVarName=state, flattenCollectionTypes="false"), state, has_ttl=variables[state])

    def read_timers(self, *, operator: int | None = None) -> DataFrame:
        """Return the timers of ``transformWithState``: the columns of the key, ``timestamp`` and ``domain``.

        The timestamp is in epoch milliseconds, the domain is ``event_time`` or ``processing_time``. If the key has a column with
        one of these names, the second is ``timestamp_2`` or ``domain_2``.

        Raises
        ------
        OptionError
            The operator does not have timers.
        NotFoundError
            The operator does not exist.
        """
        stores = self._of(operator)
        if _variables(stores[0]) is None:
            raise OptionError(f"operator {stores[0].operatorId} is {stores[0].operatorName}: only transformWithState has timers")
        mode = _properties(stores[0]).get("timeMode")
        if mode not in _DOMAINS:
            raise OptionError(f"operator {stores[0].operatorId} does not have timers: its time mode is {mode}")
        rows = self._rows(stores, readRegisteredTimers="true")
        names = _different([*rows.schema["key"].dataType.names, "timestamp", "domain"])  # type: ignore[attr-defined]
        return rows.selectExpr("key.*", "expiration_timestamp_ms", f"'{_DOMAINS[mode]}'").toDF(*names)

    def _rows(self, stores: Sequence[Any], **options: str) -> DataFrame:
        number, name = stores[0].operatorId, stores[0].operatorName
        reader = self._spark.read.format("statestore").option("batchId", self.batch).option("operatorId", number)
        missing = self._missing_partitions(stores)
        if "0" not in missing:
            with self._naming(f"operator {number} {options or ''}"):
                rows = reader.options(**options).load(self._path)
                keys = rows.schema["key"].dataType.names  # type: ignore[attr-defined]
            if not missing or not keys or name == _LIMIT:  # without keys, an operator runs in one partition
                return rows
        raise MissingFileError(
            f"{self._path}/state/{number}/: expected {stores[0].numPartitions} partitions with version {self.batch + 1} for "
            f"batch {self.batch}; partitions {', '.join(missing)} don't have it. Copy the whole checkpoint, or take a newer batch"
        )

    def _of(self, operator: int | None) -> list[Any]:
        """Return the stores of an operator."""
        stores = self._stores()
        numbers = sorted({store.operatorId for store in stores})
        names = ", ".join(dict.fromkeys(f"{store.operatorId} ({store.operatorName})" for store in stores))
        if operator is None and len(numbers) > 1:
            raise OptionError(f"{self._path} has several operators with state: pass operator=, one of {names}")
        if operator is not None and operator not in numbers:
            raise NotFoundError(f"{self._path} does not have an operator {operator} with state; it has {names}")
        return [store for store in stores if operator in (None, store.operatorId)]

    def _stores(self) -> list[Any]:
        with self._naming("operators"):
            reader = self._spark.read.format("state-metadata").option("batchId", self.batch)
            rows = reader.load(self._path).collect()
        if not rows:
            raise NotASnapshotError(
                f"{self._path} does not describe an operator with state. Spark before 4.0 does not write it: run a batch with 4.0"
            )
        return sorted(rows, key=lambda row: (row.operatorId, row.stateStoreName))

    def _missing_partitions(self, stores: Sequence[Any]) -> list[str]:
        """Return partitions without files, as Spark reads those that have some; refuse files that Spark does not look for."""
        number, version, expected = stores[0].operatorId, self.batch + 1, stores[0].numPartitions
        below = f"{self._path}/state/{number}/"
        paths = self._paths(below, recursiveFileLookup="true", pathGlobFilter=f"{version}[._]*")
        if self._spark.conf.get(_FORMAT, "1") != "2" and any(f"/{version}_" in path for path in paths):
            raise OptionError(
                f"{below}: the state store has files with unique ids, and Spark reads them only in a session with this format: "
                f"spark.conf.set({_FORMAT!r}, '2')"
            )
        marker = f"/state/{number}/"
        partitions = {path.rpartition(marker)[2].partition("/")[0] for path in paths}
        return sorted(set(map(str, range(expected))) - partitions, key=int)

    def _numbers(self, log: str) -> list[int]:
        names = [path.rpartition("/")[2] for path in self._paths(f"{self._path}/{log}")]
        return sorted(int(name) for name in names if name.isdigit())

    def _paths(self, directory: str, **options: str) -> list[str]:
        """Return the paths of the files of a directory. Spark lists them without a job."""
        from pyspark.errors import AnalysisException

        try:
            return self._spark.read.format("binaryFile").options(**options).load(directory).inputFiles()
        except AnalysisException as problem:
            if problem.getCondition() == "PATH_NOT_FOUND":
                return []
            raise

    def _log(self, name: str) -> list[str]:
        """Return the lines of a log of the batch: its version, and one line or more."""
        path = f"{self._path}/{name}/{self.batch}"
        lines: list[str] = []
        for row in self._spark.read.text(path, wholetext=True).collect():
            lines += row.value.splitlines()
        if lines[:1] and lines[0] not in _LOG_VERSIONS:
            raise UnsupportedFormatError(
                f"{path} has version {lines[0]!r}: expected {' or '.join(_LOG_VERSIONS)}. Use a newer state-processor"
            )
        if len(lines) < 2:
            raise CorruptSnapshotError(f"{path} ends after its version: the file system did not write it completely")
        return lines

    @contextmanager
    def _naming(self, subject: str) -> Iterator[None]:
        """Add the checkpoint to errors of Spark."""
        try:
            yield
        except Exception as problem:  # Java's own errors among them
            if lost := _LOST_FILE.search(str(problem)):
                raise MissingFileError(
                    f"{self._path}: {subject.strip()}: Spark looks for {lost[1]}. A checkpoint of transformWithState names the "
                    "path where the query wrote it: copy it back there"
                ) from problem
            raise UnsupportedFormatError(f"{self._path}: {subject.strip()}: Spark can't read the state: {problem}") from problem


def _range(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}"


def _properties(store: Any) -> dict[str, Any]:
    properties: dict[str, Any] = json.loads(store.operatorProperties or "{}")
    return properties


def _variables(store: Any) -> dict[str, bool] | None:
    """Return the variables of ``transformWithState``, and whether their values expire."""
    properties = _properties(store)
    if "stateVariables" not in properties:
        return None
    variables = {variable["stateName"]: variable["ttlEnabled"] for variable in properties["stateVariables"]}
    return {name: variables[name] for name in sorted(variables) if not name.startswith(_INTERNAL)}


def _different(names: Iterable[str]) -> list[str]:
    """Return names with a number behind those that came before: Spark resolves names without regard to case."""
    names_by_lower_case: dict[str, str] = {}
    for name in names:
        numbered = (name if number == 1 else f"{name}_{number}" for number in count(1))
        free = next(candidate for candidate in numbered if candidate.lower() not in names_by_lower_case)
        names_by_lower_case[free.lower()] = free
    return list(names_by_lower_case.values())


def _flat(rows: DataFrame) -> DataFrame:
    """Return the fields of key and value as columns with different names.

    Fields are renamed by a cast, which goes by position: Spark resolves columns of the same name to one of them.
    """
    from pyspark.sql.functions import col
    from pyspark.sql.types import StructField, StructType

    sides: dict[str, StructType] = {side: rows.schema[side].dataType for side in ("key", "value")}  # type: ignore[misc]
    names = iter(_different(chain.from_iterable(side.names for side in sides.values())))
    renamed = []
    for side, stored in sides.items():
        fields = [StructField(next(names), field.dataType) for field in stored.fields]
        renamed.append(col(side).cast(StructType(fields)).alias(side))
    return rows.select(*renamed).select("key.*", "value.*")


def _variable(rows: DataFrame, name: str, *, has_ttl: bool) -> DataFrame:
    """Return a variable as one column with its name. Spark has each value in a structure, and with time-to-live its expiry."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType

    (column,) = (column for column in rows.columns if column not in ("key", "partition_id"))
    stored, kind = f.col(column), rows.schema[column].dataType
    match kind:
        case ArrayType():
            plain, expiries = f.transform(stored, _plain(kind.elementType, has_ttl)), f.transform(stored, _expiry)
        case MapType():
            entries = f.map_entries(stored)
            value, key = _plain(kind.valueType, has_ttl), _plain(kind.keyType)
            plain = f.map_from_entries(f.transform(entries, lambda entry: f.struct(key(entry["key"]), value(entry["value"]))))
            expiries = f.transform(f.map_values(stored), _expiry)
        case _:
            plain, expiries = _plain(kind, has_ttl)(stored), f.array(_expiry(stored))
    expires = [f.timestamp_millis(f.array_max(expiries))] if has_ttl else []
    names = _different([*rows.schema["key"].dataType.names, name, _EXPIRES])  # type: ignore[attr-defined]
    return rows.select("key.*", plain, *expires).toDF(*names[: len(names) - (not has_ttl)])


def _expiry(stored: Column) -> Column:
    return stored[_EXPIRY]


def _plain(kind: Any, has_ttl: bool = False) -> Callable[[Column], Column]:
    """Return how a value leaves the structures that Spark has it in."""
    path: list[str] = []
    if has_ttl:
        path, kind = ["value"], kind["value"].dataType
    if len(getattr(kind, "names", ())) == 1:
        path.append(kind.names[0])
    return lambda stored: reduce(lambda column, name: column[name], path, stored)
