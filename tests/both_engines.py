"""Both engines in every write test: what a test writes with Spark is written without Spark, too, and has the same bytes.

:func:`pair_writers` makes each :class:`state_processor.SavepointWriter` repeat its calls with a writer without Spark. Rows are
handed over as tables of Arrow. A test fails if one of both writers refuses a call that the other accepts, if their messages
or results differ, or if the savepoints differ in more than the names of their files.

Tests with a marker ``one_engine`` are about Spark itself; the marker has the reason. Tests with real Flink write with one engine,
and with ``STATE_PROCESSOR_EVERY_CASE=1`` with both, whichever engine the test chooses.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from time import time_ns
from typing import Any, Final
from unittest import mock

import pyarrow as pa

import state_processor as sp
from state_processor.errors import StateProcessorError
from state_processor.types import durations
from state_processor.write import keyed_state_job
from state_processor.write.arrow_rows import ArrowRows
from state_processor.write.arrow_writer import SavepointWriter as ArrowWriter
from state_processor.write.build import SavepointBuild
from tests.snapshot_content import content, unordered_content

_TWIN: Final = "_twin_without_spark"
_MADE: Final = ("new", "from_existing")
_OF_SPARK: Final = re.compile("which Spark ignores|expected rows as a DataFrame of Spark")
"""Part of messages about rules that only Spark has: columns that it ignores, and no rows as dictionaries."""
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
    else:
        _pair(SavepointWriter, True, lambda build: _Twin(ArrowWriter(build), is_spark=False))


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


def _repeated(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        twin: _Twin | None = vars(self).get(_TWIN)
        if twin is None or twin.is_busy:
            return method(self, *args, **kwargs)
        with twin.busy():
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
        now = time_ns()
        try:
            with ExitStack() as patched:
                for module in (keyed_state_job, durations):
                    patched.enter_context(mock.patch.object(module, "time_ns", return_value=now))
                if self._is_spark:  # times of tables of Arrow do not get a time zone on their way to Spark
                    conf = self._writer._spark.conf
                    conf.set(_TIMES_OF_SPARK, "TIMESTAMP_NTZ")
                    patched.callback(conf.unset, _TIMES_OF_SPARK)
                yield
        finally:
            self.is_busy = False

    def refuse(self, name: str, args: Any, kwargs: Any, problem: Exception) -> None:
        """The other engine has to refuse the call in the same way. Without Spark, values of rows may be refused earlier."""
        if _OF_SPARK.search(str(problem)):
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
            shared = () if found.shares_files_of is None else (found.shares_files_of,)
            access = writer._access(os.fspath(path))
            access = replace(access, plan=None, allow_paths=(*access.allow_paths, *shared))  # the plan is of the source savepoint
            one, two = access.open(path), access.open(target)
            if content(one) != content(two):
                is_ordered = not _is_shuffled(self._writer if self._is_spark else writer)
                if is_ordered or unordered_content(one) != unordered_content(two):
                    raise self._differs(os.fspath(path), *_first_difference(content(one), content(two)))
            if _told(found) != _told(other):
                raise self._differs(f"summary of {path}", *_first_difference(_told(found), _told(other)))
        finally:
            shutil.rmtree(directory)

    def _differs(self, what: str, one: Any, other: Any) -> EnginesDifferError:
        shown = [given if isinstance(given, str) else repr(given) for given in ((other, one) if self._is_spark else (one, other))]
        return EnginesDifferError(f"{what}: with Spark: {shown[0]}; without: {shown[1]}")

    def _converted(self, given: Any) -> Any:
        """Return arguments for the other engine: without Spark, DataFrames become tables; with Spark, lists of rows do."""
        if hasattr(given, "toArrow") or (self._is_spark and given and isinstance(given, list) and isinstance(given[0], dict)):
            if id(given) not in self._tables:
                table = given.toArrow() if hasattr(given, "toArrow") else ArrowRows.of(given).to_arrow()
                self._tables[id(given)] = given, table
            return self._tables[id(given)][1]
        if isinstance(given, dict):
            return {name: self._converted(value) for name, value in given.items()}
        return tuple(map(self._converted, given)) if isinstance(given, tuple) else given


def _read_once(given: Any) -> Any:
    """Return arguments that both writers can read: streams are read here."""
    if isinstance(given, dict):
        return {name: _read_once(value) for name, value in given.items()}
    if isinstance(given, tuple):
        return tuple(map(_read_once, given))
    return given.read_all() if hasattr(given, "read_all") else given


def _is_shuffled(writer: Any) -> bool:
    """Return whether Spark shuffles rows, so that their order, and the order of entries in a key group, is undefined."""
    rows = [given.rows for draft in writer._build.drafts for given in draft.changes.state_rows]
    return any("Exchange" in one.frame._jdf.queryExecution().executedPlan().toString() for one in rows)


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
