"""Both engines in every write test: what a test writes with Spark is written without Spark, too, and has the same bytes.

:func:`pair_writers` makes each :class:`state_processor.SavepointWriter` repeat its calls with a writer without Spark. Rows are
handed over as tables of Arrow. A test fails if one of both writers refuses a call that the other accepts, if their messages
or results differ, or if the savepoints differ in more than the names of their files.

With ``STATE_PROCESSOR_EVERY_CASE=1``, writers without Spark and commands repeat their writes with Spark as well. Tests with real
Flink write with one engine otherwise. Tests with a marker ``one_engine`` are about one engine; the marker has the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from time import time_ns
from typing import Any, Final
from unittest import mock

import pyarrow as pa

import state_processor as sp
from state_processor.applications import connector_state
from state_processor.commands import rewriting
from state_processor.commands.command import flag_values
from state_processor.errors import StateProcessorError
from state_processor.options.access import SnapshotAccess
from state_processor.options.data_sources import SAVEPOINT_FORMAT, SinkOptions
from state_processor.read.rows import with_metadata_of
from state_processor.support.doors import Door, entered
from state_processor.types import durations
from state_processor.write.build import SavepointBuild
from state_processor.write.rows.arrow_rows import ArrowRows
from state_processor.write.savepoint_writer import SavepointWriter as ArrowWriter
from state_processor.write.tasks import operator_job
from state_processor.write.tasks.local_engine import LocalEngine
from tests.snapshot_content import content, unordered_content

_TWIN: Final = "_twin_without_spark"
_MADE: Final = ("new", "from_existing")
_OF_ONE: Final = re.compile(
    "which Spark ignores|expected rows as a DataFrame of Spark|list of rows is empty|can't become a value of Arrow"
)
"""Part of messages about rules of one engine: columns that Spark ignores, and rows as dictionaries."""
_TYPE_OF_ENGINE: Final = re.compile(" of (?:Arrow|Spark) type | of type |: use date_trunc|: floor |expected rows as ")
_ROW: Final = re.compile(r"key ('.*?'|[^ ,:]+)|value [^:]*|subtask \d+|key group \d+|row \d+|-?\b\d+\b")

_TIMES_OF_SPARK: Final = "spark.sql.timestampType"

repeated: set[bool] = {True}
"""Which writers repeat their calls in this test: writers with Spark (True), writers without (False)."""


class EnginesDifferError(AssertionError):
    """Both engines do not do the same."""


def pair_writers(spark: Callable[[], Any] | None = None) -> None:
    """Let writers, from now on, repeat their calls with the other engine.

    Parameters
    ----------
    spark
        The session for the calls of writers without Spark; by default, writers with Spark repeat theirs without.
    """
    from state_processor.writer import SavepointWriter

    if spark is not None:
        _pair(ArrowWriter, False, lambda build: _Twin(SavepointWriter(spark(), build), is_spark=True))
        _pair_commands(spark)
        _pair_data_source()
    else:
        _pair(SavepointWriter, True, lambda build: _Twin(ArrowWriter(build), is_spark=False))


def pair_all_writes() -> None:
    """Let all writes of this process, which is not one of pytest, be repeated."""
    from pyspark.sql import SparkSession

    repeated.add(False)
    pair_writers()
    pair_writers(lambda: SparkSession.builder.getOrCreate())


def _pair(kind: Any, with_spark: bool, twin: Callable[[SavepointBuild], _Twin]) -> None:
    made = kind.__init__
    if made.__name__ == "paired":
        return
    for name in dir(kind):
        if not name.startswith("_") and name not in _MADE and callable(getattr(kind, name)):
            setattr(kind, name, _repeated(name, getattr(kind, name)))

    def paired(self: Any, *args: Any) -> None:
        made(self, *args)
        if with_spark in repeated and not _Twin.is_made:
            build = self._build
            with mock.patch.object(_Twin, "is_made", True):
                same = (build.snapshot, build.max_parallelism, build._flink_version, build.access, build.scratch)
                vars(self)[_TWIN] = twin(SavepointBuild(*same))

    kind.__init__ = paired


def _pair_commands(spark: Callable[[], Any]) -> None:
    """Let commands repeat their writes with Spark. What a command is refused for may be its target, which then stays the same."""
    from state_processor.spark.engine import SparkEngine
    from state_processor.writer import SavepointWriter

    command = rewriting.written
    if command.__name__ == "paired":
        return

    def run(options: Namespace) -> Any:
        try:
            return command(options)
        except StateProcessorError as problem:
            return problem

    def paired(options: Namespace) -> Any:
        if False not in repeated:
            return command(options)
        session, directory = spark(), tempfile.mkdtemp(prefix="other-engine-")
        writer = partial(SavepointWriter, session)
        try:
            with mock.patch.object(_Twin, "is_made", True), _same_time(session):
                found = run(options)
                is_refused = isinstance(found, Exception)
                target = options.target if is_refused else os.path.join(directory, "savepoint")
                with (
                    mock.patch.multiple(rewriting, SavepointWriter=writer, LocalEngine=lambda *_: SparkEngine(session)),
                    mock.patch.object(connector_state, "SavepointWriter", writer),
                ):
                    other = run(Namespace(**{**vars(options), "target": target}))
            if is_refused or isinstance(other, Exception):
                difference = None if _told(found) == _told(other) else (found, other)
            else:
                difference = _difference(found, other, SnapshotAccess.of(**flag_values(options)))
            if difference is not None:
                raise EnginesDifferError(f"{options.change.__name__}: with Spark: {difference[1]}; without: {difference[0]}")
        finally:
            shutil.rmtree(directory)
        if is_refused:
            raise found
        return found

    rewriting.written = paired


def _pair_data_source() -> None:
    """Let the data source of Spark repeat its writes without Spark."""
    from pyspark.sql.readwriter import DataFrameWriter

    save = DataFrameWriter.save
    if save.__name__ == "paired":
        return

    def paired(self: Any, path: str | None = None, *args: Any, **kwargs: Any) -> None:
        refused = None
        try:
            save(self, path, *args, **kwargs)
        except Exception as problem:
            refused = problem
        if False in repeated and path is not None and self._jwrite.source() == SAVEPOINT_FORMAT:
            _repeat_data_source(self, path, refused)
        if refused is not None:
            raise refused

    DataFrameWriter.save = paired  # type: ignore[method-assign]


def _repeat_data_source(sink: Any, path: str, refused: Exception | None) -> None:
    """Write the rows of a ``DataFrameWriter`` with the same options without Spark, and compare."""
    from state_processor.spark.data_source_registration import _SESSIONS
    from state_processor.spark.sessions import with_settings_of_spark
    from state_processor.spark.sink import savepoint_build

    spark, frame = sink._spark, sink._df
    given = dict(spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(sink._jwrite.extraOptions().originalMap()))
    directory = tempfile.mkdtemp(prefix="other-engine-")
    target = os.path.join(directory, "savepoint") if refused is None else path
    known, access = _SESSIONS.get(spark), SnapshotAccess()
    other: Exception | None = None
    try:
        with entered(Door.DATA_SOURCE):
            try:
                options = SinkOptions.parse({**given, "path": target}, known.allowed if known else ())
                access = with_settings_of_spark(spark, options.access, options.base or path)
                build = savepoint_build(replace(options, access=access), ArrowRows.of(frame.toArrow()))
                build.write_to(target, LocalEngine(), overwrite=sink._jwrite.curmode().name() == "Overwrite")
            except Exception as problem:
                other = problem
        if refused is not None or other is not None:
            if refused is None or other is None or _told(other) not in _told(refused):
                raise EnginesDifferError(f"data source: with Spark: {refused!r}; without: {other!r}") from other
        elif difference := _content_difference(path, target, access, [frame]):
            raise EnginesDifferError(f"data source: with Spark: {difference[0]}; without: {difference[1]}")
    finally:
        shutil.rmtree(directory)


@contextmanager
def _same_time(spark: Any = None) -> Iterator[None]:
    """Give both engines the same time. Times of tables of Arrow do not get a time zone on their way to a session of Spark."""
    now = time_ns()
    with ExitStack() as patched:
        for module in (operator_job, durations):
            patched.enter_context(mock.patch.object(module, "time_ns", return_value=now))
        if spark is not None:
            spark.conf.set(_TIMES_OF_SPARK, "TIMESTAMP_NTZ")
            patched.callback(spark.conf.unset, _TIMES_OF_SPARK)
        yield


def _repeated(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        twin: _Twin | None = vars(self).get(_TWIN)
        if twin is None or twin.is_busy:
            return method(self, *args, **kwargs)
        with twin.busy():
            twin.follow(self._build)
            args, kwargs = _read_once(args), _read_once(kwargs)
            try:
                found = method(self, *args, **kwargs)
            except (StateProcessorError, TypeError) as problem:
                twin.refuse(name, args, kwargs, problem)
                raise
            except BaseException:
                del vars(self)[_TWIN]
                raise
            twin.repeat(name, args, kwargs, found, self)
            return found

    return call


class _Twin:
    """Writer of one engine that gets the calls of a writer of the other."""

    is_made = False

    def __init__(self, writer: Any, *, is_spark: bool) -> None:
        self._writer = writer
        self._is_spark = is_spark
        self._tables: dict[int, tuple[Any, pa.Table]] = {}
        self._refused: Exception | None = None
        self.is_busy = False

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Methods that call others are repeated once; both engines have the same time."""
        self.is_busy = True
        try:
            with _same_time(self._writer._engine.spark if self._is_spark else None):
                yield
        finally:
            self.is_busy = False

    def follow(self, build: SavepointBuild) -> None:
        """Take what erasures set in a build without a method of its writer."""
        drafts = {draft.identifier.uid_hash: draft for draft in self._writer._build.drafts}
        for draft in build.drafts:
            if draft.identifier.uid_hash in drafts:
                changes = drafts[draft.identifier.uid_hash].changes
                changes.erases, changes.rewrites = draft.changes.erases, draft.changes.rewrites

    def refuse(self, name: str, args: Any, kwargs: Any, problem: Exception) -> None:
        """The other engine has to refuse the call in the same way. Without Spark, values of rows may be refused earlier."""
        if _OF_ONE.search(str(problem)):
            return
        refused, self._refused = self._refused, None
        try:
            if refused is None:
                self._call(name, args, kwargs)
        except Exception as other:
            refused = other
        if refused is None and self._is_spark and name != "write":
            return
        if refused is None or type(refused) is not type(problem) or _told(refused) != _told(problem):
            raise self._differs(name, problem, refused or "it is not refused") from refused

    def repeat(self, name: str, args: Any, kwargs: Any, found: Any, writer: Any) -> None:
        """The other engine has to return the same, or refuse values of rows, which Spark looks at when it writes."""
        if self._refused is not None:
            if name == "write":
                raise self._differs(name, found, self._refused) from self._refused
            return
        if name == "write":
            self._write(args, kwargs, found, writer)
            return
        try:
            other = self._call(name, args, kwargs)
        except StateProcessorError as problem:
            self._refused = problem
            return
        if other is not self._writer and other != found:
            raise self._differs(name, found, other)

    def _call(self, name: str, args: Any, kwargs: Any) -> Any:
        return getattr(self._writer, name)(*self._converted(args), **self._converted(kwargs))

    def _write(self, args: Any, kwargs: Any, found: sp.WriteSummary, writer: Any) -> None:
        path = args[0] if args else kwargs["path"]
        directory = tempfile.mkdtemp(prefix="other-engine-")
        try:
            target = Path(directory, "savepoint")
            try:
                other = self._writer.write(target, *args[1:], **{k: v for k, v in kwargs.items() if k != "path"})
            except Exception as problem:
                raise self._differs("write", found, problem) from problem
            with_spark = self._writer if self._is_spark else writer
            frames = [given.rows.frame for draft in with_spark._build.drafts for given in draft.changes.state_rows]
            difference = _difference(found, other, writer._engine.access_to(path, writer._build.access), frames)
            if difference is not None:
                raise self._differs(os.fspath(path), *difference)
        finally:
            shutil.rmtree(directory)

    def _differs(self, what: str, one: Any, other: Any) -> EnginesDifferError:
        shown = [given if isinstance(given, str) else repr(given) for given in ((other, one) if self._is_spark else (one, other))]
        return EnginesDifferError(f"{what}: with Spark: {shown[0]}; without: {shown[1]}")

    def _converted(self, given: Any) -> Any:
        """Return arguments for the other engine: without Spark, DataFrames become tables; with Spark, lists of rows do."""
        if hasattr(given, "toArrow") or (self._is_spark and _is_only_without_spark(given)):
            if id(given) not in self._tables:
                table = _collected(given) if hasattr(given, "toArrow") else ArrowRows.of(given).to_arrow()
                self._tables[id(given)] = given, table
            return self._tables[id(given)][1]
        if isinstance(given, dict):
            return {name: self._converted(value) for name, value in given.items()}
        return tuple(map(self._converted, given)) if isinstance(given, tuple) else given


def _collected(frame: Any) -> pa.Table:
    """Return the rows of a DataFrame as a table, with the types that its columns were read with."""
    from state_processor.spark.schemas import typed_schema_of

    table = frame.toArrow()
    return pa.Table.from_arrays(table.columns, schema=with_metadata_of(table.schema, typed_schema_of(frame.schema)))


def _difference(
    found: sp.WriteSummary, other: sp.WriteSummary, access: SnapshotAccess, frames: Sequence[Any] = ()
) -> tuple[str, str] | None:
    """Return the first difference of two savepoints and their summaries.

    ``access`` is to the first one. ``frames``: the DataFrames of their rows.
    """
    shared = () if found.shares_files_of is None else (os.path.dirname(found.shares_files_of),)
    access = replace(access, allow_paths=(*access.allow_paths, *shared))
    of_content = _content_difference(found.path, other.path, access, frames)
    if of_content is None and _told(found) != _told(other):
        return _first_difference(_told(found), _told(other))
    return of_content


def _content_difference(path: str, other: str, access: SnapshotAccess, frames: Sequence[Any]) -> tuple[str, str] | None:
    access = replace(access, plan=None)  # it is of the source savepoint
    one, two = access.open(path), access.open(other)
    if content(one) == content(two):  # asking whether Spark shuffles rows plans the frame again
        return None
    if any(map(_is_shuffled, frames)) and unordered_content(one) == unordered_content(two):
        return None
    return _first_difference(content(one), content(two))


def _is_only_without_spark(rows: Any) -> bool:
    """Return whether only a writer without Spark takes such rows: dictionaries, and one batch."""
    if isinstance(rows, list):
        return bool(rows) and isinstance(rows[0], dict)
    return hasattr(rows, "__arrow_c_array__") and not hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, pa.RecordBatch)


def _read_once(given: Any) -> Any:
    """Return arguments that both writers can read: streams are read here."""
    if isinstance(given, dict):
        return {name: _read_once(value) for name, value in given.items()}
    if isinstance(given, tuple):
        return tuple(map(_read_once, given))
    if hasattr(given, "read_all"):
        return given.read_all()
    is_of_duckdb = type(given).__module__.partition(".")[0] in ("duckdb", "_duckdb")
    return pa.RecordBatchReader.from_stream(given).read_all() if is_of_duckdb else given


def _is_shuffled(frame: Any) -> bool:
    """Return whether Spark shuffles rows, so that their order, and the order of entries in a key group, is undefined."""
    return "Exchange" in frame._jdf.queryExecution().executedPlan().toString()


def _told(summary_or_error: sp.WriteSummary | Exception) -> Any:
    """Return what has to be the same.

    Messages may differ in what is behind the type of a column, which each engine has its own names for, and in the row: the
    engines divide rows into different batches.
    """
    if isinstance(summary_or_error, Exception):
        return _ROW.sub("", _TYPE_OF_ENGINE.split(str(summary_or_error))[0])
    s = summary_or_error
    operators = [(o.uid_hash, o.entries, o.carried, o.states, o.rewritten, o.changes, o.renamed_from) for o in s.operators]
    return s.checkpoint_id, operators, s.migration, s.shares_files_of, s.removed_operators, s.is_copy


def _first_difference(one: Any, two: Any, where: str = "") -> tuple[str, str]:
    """Return the first place where two values differ, and the values."""
    if type(one) is type(two) and isinstance(one, dict | list | tuple):
        for key in list(one) if isinstance(one, dict) else range(max(len(one), len(two))):
            try:
                pair = one[key], two[key]
            except (IndexError, KeyError):
                break
            if pair[0] != pair[1]:
                return _first_difference(*pair, f"{where}[{key!r}]")
    return f"{where} = {one!r}", f"{where} = {two!r}"
