"""The format ``flink-savepoint-changes``: changes between the checkpoints of a job as a stream.

Spark logs the end of each micro-batch before it plans the micro-batch, so that a restarted query plans the same one. An offset
names its checkpoint, the checkpoints in front of it in the micro-batch, and the checkpoint in front of these. If all of them are
still whole, the plan has the same rows. Otherwise it has all values of the newest whole checkpoint.

Spark asks for the initial offset again when it repeats the first micro-batch. The initial offset therefore is the option
``startingCheckpoint``, and the end of the first micro-batch names the checkpoint that the query began with.

Spark plans a micro-batch each time that a sink uses its rows. These plans are the same, also if a checkpoint is removed between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from logging import getLogger
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from state_processor.applications.changes.checkpoint_changes import (
    ChangedState,
    Checkpoint,
    CheckpointSeries,
    Step,
    StepReader,
    stream_schema,
)
from state_processor.applications.changes.row_shape import difference, row_shape
from state_processor.errors import MissingFileError, NotFoundError, OptionError
from state_processor.options import (
    CHANGES_FORMAT,
    EARLIEST,
    LATEST,
    READING_CHANGES,
    SNAPSHOT,
    ChangesOptions,
    TaskSerializers,
    documents,
)
from state_processor.spark import LIMITS_BATCHES, SnapshotDataSource, arrow_schema_of, asked_by_spark, grouped, spark_schema
from state_processor.states import Projection, schema_text
from state_processor.support import cached_property, without_keys, without_none

if LIMITS_BATCHES:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

_LOG: Final = getLogger("state_processor")
_CHECKPOINT: Final = "checkpoint"
_SINCE: Final = "since"
_FROM: Final = "from"
_BEGIN: Final = "begin"
_STARTING: Final = "starting"
_STATE: Final = "state"
_ROWS: Final = "rows"
_CHECKPOINTS_IN_A_BATCH: Final = 1

Offset = dict[str, Any]


@documents(READING_CHANGES)
class FlinkSavepointChangesDataSource(SnapshotDataSource):
    """Changes of a state between the checkpoints of a running job, as a stream.

    Each whole checkpoint of the directory is a micro-batch: ``_change`` (``insert``, ``update``, ``delete``),
    ``_checkpoint_id``, ``_checkpoint_time``, ``_full``, the columns that identify a value, and the value. A micro-batch whose
    earlier checkpoint is gone has all values of the newest whole checkpoint, and ``_full`` is true: it replaces everything
    before it. If the state is empty then, it has one row without ``_change`` and without a key.

    Examples
    --------
    >>> changes = spark.readStream.format("flink-savepoint-changes")  # doctest: +SKIP
    >>> changes.option("uid", "orders").option("state", "total").load(checkpoint_directory)  # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return CHANGES_FORMAT

    def _stream_options(self) -> tuple[ChangesOptions, TaskSerializers]:
        options = ChangesOptions.parse(self.options, self.allowed)
        return replace(options, access=self.access_to(options.access, options.path)), self.entered(options.access)

    @asked_by_spark()
    def schema(self) -> StructType:
        """Return the columns of the changes, as the newest whole checkpoint describes the state."""
        options, _ = self._stream_options()
        newest, snapshot = CheckpointSeries(options.path, options.access).open_newest()
        reader = StepReader.open(Step(None, newest), None, snapshot, _state(options))
        return spark_schema(stream_schema(reader.schema, with_before=options.before))

    @asked_by_spark()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Refuse a read that is not a stream."""
        raise OptionError(f"{CHANGES_FORMAT} is a stream: use spark.readStream, or sp.diff for two checkpoints")

    @asked_by_spark()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of the stream."""
        options, serializers = self._stream_options()
        if options.max_checkpoints_per_trigger is not None and not LIMITS_BATCHES:
            raise OptionError(
                "option maxCheckpointsPerTrigger: Spark limits micro-batches of Python data sources since 4.2; leave it out, and "
                "a micro-batch has all checkpoints that are there"
            )
        return (LimitedChangesReader if LIMITS_BATCHES else ChangesReader)(options, schema, serializers)


def _state(options: ChangesOptions) -> ChangedState:
    return ChangedState(options.operator, options.state, options.read, options.allow_missing)


class ChangesPartition(InputPartition):
    """The input of one task: parts of a step, and their reader; ``None`` for the mark of an empty state."""

    def __init__(self, reader: StepReader, splits: Sequence[Any] | None) -> None:
        super().__init__(None)
        self.reader = reader
        self.splits = None if splits is None else tuple(splits)


@dataclass(frozen=True)
class _Batch:
    """The checkpoints of a micro-batch, and the one before them; ``start`` is ``None`` in front of everything."""

    start: Checkpoint | None
    checkpoints: tuple[Checkpoint, ...]


class ChangesReader(DataSourceStreamReader):
    """Reads the stream in Spark 4.0 and 4.1: a micro-batch has all checkpoints that are there.

    These versions do not hand the start of a micro-batch over when they ask for its end.
    """

    _not_sent: ClassVar[tuple[str, ...]] = ("_series", "_position", "_last", "_planned", "_shape")

    def __init__(self, options: ChangesOptions, schema: StructType, serializers: TaskSerializers) -> None:
        self._options = options
        self._schema = schema
        self._serializers = serializers

    def __getstate__(self) -> dict[str, Any]:
        return without_keys(vars(self), self._not_sent)

    @cached_property
    def _series(self) -> CheckpointSeries:
        return CheckpointSeries(self._options.path, self._options.access)

    @asked_by_spark()
    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the place in front of the first micro-batch."""
        return self._offset({_CHECKPOINT: None, _STARTING: self._options.starting_checkpoint})

    def _begin(self, checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
        """Return the one of the whole checkpoints that a new query starts after; ``None`` in front of everything."""
        start = self._options.starting_checkpoint
        if start == SNAPSHOT:
            return None
        if not checkpoints:
            raise self._series.nothing_whole()
        return {LATEST: checkpoints[-1], EARLIEST: checkpoints[0]}.get(start) or self._series.of_id(int(start), checkpoints)

    @asked_by_spark()
    def latestOffset(self) -> Offset:  # type: ignore[override]  # noqa: N802
        """Return the newest checkpoint."""
        start: Offset | None = getattr(self, "_position", None)
        if start is not None:
            return self._next(start, None, None)
        checkpoints = self._series.whole()
        if not checkpoints:
            raise MissingFileError(f"{self._options.path} does not have a whole checkpoint any more")
        last: Offset | None = getattr(self, "_last", None)
        if last is None or _position(last) != checkpoints[-1]:
            offset: Offset = {_CHECKPOINT: checkpoints[-1].as_json(), _SINCE: [c.as_json() for c in checkpoints[:-1]]}
            with suppress(NotFoundError):  # a query that was started before does not need it
                begin = self._begin(checkpoints)
                offset[_BEGIN] = None if begin is None else begin.as_json()
            self._last = last = self._offset(offset)
        return last

    def _next(self, start: Offset, limit: int | None, target: Checkpoint | None) -> Offset:
        """Return the end of the micro-batch that starts at an offset, or the offset itself without new checkpoints.

        The first micro-batch has an end in any case: it records where the query began.
        """
        self._check(start)
        is_first = _STARTING in start
        position = self._begin(self._series.whole()) if is_first else _position(start)
        chosen: Sequence[Checkpoint] = ()
        after = self._series.after(position)
        if target is None or position is None or target in after or target.is_after(position):
            checkpoints = _until(target, after)
            chosen = checkpoints[-1:] if position is None else _ascending(checkpoints[:limit])
        if not chosen and is_first and position is not None:
            chosen = (position,)
        if not chosen:
            return start
        *since, last = (c.as_json() for c in chosen)
        return self._offset({_CHECKPOINT: last, _SINCE: since, _FROM: None if position is None else position.as_json()})

    def _offset(self, content: Offset) -> Offset:
        return content | {_STATE: self._stored_state, _ROWS: self._shape}

    @property
    def _stored_state(self) -> list[str]:
        return [self._options.operator.uid_hash, self._options.state]

    @cached_property
    def _shape(self) -> dict[str, str]:
        """What shapes the rows of the stream: options, registrations, version, and the columns."""
        options = self._options
        self._serializers.enter()
        shape = row_shape(options.read, options.access.with_content())
        return shape | {"before": str(options.before), "columns": schema_text(arrow_schema_of(self._schema))}

    def _check(self, offset: Offset) -> None:
        """Refuse the offset of another state, or of rows that were read in another way."""
        operator, state = offset.get(_STATE, self._stored_state)
        if [operator, state] != self._stored_state:
            raise OptionError(
                f"the query has read state {state!r} of operator {operator}, not {_state(self._options)}: choose another "
                "checkpointLocation"
            )
        changed = difference(offset.get(_ROWS, {}), self._shape)
        if changed:
            raise OptionError(
                f"the query has read other rows until now: {changed}. Rows of both would be mixed: start a new query with "
                f"another checkpointLocation and startingCheckpoint={SNAPSHOT}, or read as before"
            )

    @asked_by_spark()
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the parts of a micro-batch; the same ones if Spark asks again."""
        self._check(end)
        self._serializers.enter()
        self._position = end
        planned: tuple[Offset, Offset, list[InputPartition]] | None = getattr(self, "_planned", None)
        if planned is None or planned[:2] != (start, end):
            self._planned = planned = (start, end, self._plan(_batch(start, end)))
        return planned[2]

    def _plan(self, batch: _Batch) -> list[InputPartition]:
        partitions: list[InputPartition] = []
        for reader in self._steps(batch):
            Projection(reader.schema, arrow_schema_of(self._schema))  # a mismatch is found before a task starts
            if reader.step.before is None and reader.is_empty():
                partitions.append(ChangesPartition(reader, None))
            else:
                partitions += [ChangesPartition(reader, group) for group in grouped(reader.splits(), self._options.split_size)]
        return partitions

    def _steps(self, batch: _Batch) -> list[StepReader]:
        if not batch.checkpoints:
            return []
        access, state, end = self._options.access, _state(self._options), batch.checkpoints[-1]
        chain = [batch.start, *batch.checkpoints]
        opened = [None if c is None else c.open(access) for c in chain]
        gone = [c for c, snapshot in zip(chain, opened, strict=True) if c is not None and snapshot is None]
        if not gone and len(_ascending(batch.checkpoints)) == len(batch.checkpoints):
            places = zip(pairwise(chain), pairwise(opened), strict=True)
            steps = [StepReader.open_if_known(Step(a, b), old, new, state) for (a, b), (old, new) in places if b and new]
            return without_none(steps)
        if gone and self._options.fail_on_data_loss:
            raise MissingFileError(
                f"{gone[0]} was removed before its changes were read. Set failOnDataLoss to false to continue with all values of "
                "the newest whole checkpoint"
            )
        newest, snapshot = (end, opened[-1]) if opened[-1] is not None else self._series.open_newest()
        reason = f"{gone[0]} is gone" if gone else f"the numbers of checkpoints go back before {end}"
        _LOG.warning("%s: the micro-batch has all values of %s", reason, newest)
        return [StepReader.open(Step(None, newest), None, snapshot, state)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the changes in one partition."""
        if not isinstance(partition, ChangesPartition):
            return
        with asked_by_spark():
            self._serializers.enter()
            reader = partition.reader
            projection = Projection(reader.schema, arrow_schema_of(self._schema))
            if partition.splits is None:
                yield projection.apply(reader.mark_of_empty_state())
            for split in partition.splits or ():
                for batch in reader.read(split):
                    yield projection.apply(batch)


def _position(offset: Mapping[str, Any], name: str = _CHECKPOINT) -> Checkpoint | None:
    position = offset[name]
    return None if position is None else Checkpoint.of_json(position)


def _until(target: Checkpoint | None, checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints up to a target. If they are gone, return the first one after it."""
    if target is None:
        return checkpoints
    if target in checkpoints:
        return checkpoints[: checkpoints.index(target) + 1]
    return [c for c in checkpoints if not c.is_after(target)] or checkpoints[:1]


def _ascending(checkpoints: Sequence[Checkpoint]) -> Sequence[Checkpoint]:
    """Return the checkpoints in front of the first one with a lower number: a sink orders a micro-batch by numbers.

    Numbers go back where a job is restored from an earlier checkpoint.
    """
    back = (i for i, (earlier, later) in enumerate(pairwise(checkpoints), 1) if later.checkpoint_id <= earlier.checkpoint_id)
    return checkpoints[: next(back, len(checkpoints))]


def _batch(start: Offset, end: Offset) -> _Batch:
    """Return the checkpoints of a micro-batch.

    The end has the start if Spark handed it over. Otherwise Spark hands the start over now, except for the first micro-batch.
    """
    last = _position(end)
    if last is None or start == end:
        return _Batch(last, ())
    chain = [*map(Checkpoint.of_json, end.get(_SINCE, ())), last]
    if _FROM in end:
        first = _position(end, _FROM)
        return _Batch(first, () if first == last else tuple(chain))
    if _STARTING in start and _BEGIN not in end:
        raise NotFoundError(f"checkpoint {start[_STARTING]} of the option startingCheckpoint was not whole at the start")
    first = _position(end, _BEGIN) if _STARTING in start else _position(start)
    if first in chain:
        return _Batch(first, tuple(chain[chain.index(first) + 1 :]))
    return _Batch(first, (last,))


if LIMITS_BATCHES:

    class LimitedChangesReader(ChangesReader, SupportsTriggerAvailableNow):
        """Reads the stream since Spark 4.2, which limits micro-batches."""

        _not_sent = (*ChangesReader._not_sent, "_target")
        _target: Checkpoint | None = None

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            """Return the number of checkpoints in a micro-batch; for Spark, checkpoints are files."""
            return ReadMaxFiles(self._options.max_checkpoints_per_trigger or _CHECKPOINTS_IN_A_BATCH)

        @asked_by_spark()
        def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # type: ignore[override]  # noqa: N802
            """Return the end of the micro-batch that starts at an offset."""
            most = None if isinstance(limit, ReadAllAvailable) else getattr(limit, "max_files", _CHECKPOINTS_IN_A_BATCH)
            return self._next(start, most, self._target)

        @asked_by_spark()
        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            """Set the last checkpoint that the query reads: the newest one."""
            self._target = self._series.newest()
