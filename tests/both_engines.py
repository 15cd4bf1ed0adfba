"""Both engines in every write test: what a test writes with Spark is written without Spark, too, and has the same bytes.

:func:`pair_writers` makes each :class:`state_processor.SavepointWriter` repeat its calls with a writer without Spark. Rows are
handed over as tables of Arrow. A test fails if one of both writers refuses a call that the other accepts, if their messages
or results differ, or if the savepoints differ in more than the names of their files. Real Flink, which the test hands the
savepoint to, restores the bytes that both engines wrote.

Tests with a marker ``one_engine`` are about Spark itself; the marker has the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import pyarrow as pa

import state_processor as sp
from state_processor.errors import StateProcessorError
from state_processor.types import durations
from state_processor.write import keyed_state_job
from state_processor.write.arrow_writer import SavepointWriter as ArrowWriter
from state_processor.write.build import SavepointBuild
from tests.snapshot_content import content, unordered_content

if TYPE_CHECKING:
    from state_processor.writer import SavepointWriter

_TWIN: Final = "_twin_without_spark"
_MADE: Final = ("new", "from_existing")
_OF_SPARK: Final = "which Spark ignores"
"""Part of messages about rules that only Spark has."""
_TYPE_OF_ENGINE: Final = re.compile(" of (?:Arrow|Spark) type | of type |: use date_trunc|: floor |expected rows as ")
_ROW: Final = re.compile(r"key ('.*?'|[^ ,:]+)|value [^:]*|subtask \d+|key group \d+|row \d+|-?\b\d+\b")

enabled = True
"""False in tests of Spark itself."""


class EnginesDifferError(AssertionError):
    """Both engines do not do the same."""


class _Clock(datetime):
    """The time of both engines."""

    held: datetime | None = None

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return cls.held if cls.held is not None else datetime.now(tz)


def pair_writers() -> None:
    """Let writers with Spark, from now on, repeat their calls without Spark."""
    from state_processor.writer import SavepointWriter

    if SavepointWriter.__init__.__name__ == "paired":
        return
    for name in dir(SavepointWriter):
        if not name.startswith("_") and name not in _MADE and callable(getattr(SavepointWriter, name)):
            setattr(SavepointWriter, name, _repeated(name, getattr(SavepointWriter, name)))
    made = SavepointWriter.__init__

    def paired(self: SavepointWriter, spark: Any, build: SavepointBuild) -> None:
        made(self, spark, build)
        if enabled:
            args = (build.snapshot, build.max_parallelism, build._flink_version, build.access, build.scratch)
            vars(self)[_TWIN] = _Twin(ArrowWriter(SavepointBuild(*args)))

    SavepointWriter.__init__ = paired  # type: ignore[method-assign]
    durations.datetime = _Clock  # type: ignore[attr-defined]


def _repeated(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: SavepointWriter, *args: Any, **kwargs: Any) -> Any:
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
    """Writer without Spark that gets the calls of a writer with Spark."""

    def __init__(self, writer: ArrowWriter) -> None:
        self._writer = writer
        self._tables: dict[int, tuple[Any, pa.Table]] = {}
        self._refused: Exception | None = None
        self.is_busy = False

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Methods that call others are repeated once; both engines have the same time."""
        self.is_busy = True
        now = time_ns()
        _Clock.held = datetime.fromtimestamp(now / 1e9, durations.UTC)
        try:
            with mock.patch.object(keyed_state_job, "time_ns", return_value=now):
                yield
        finally:
            self.is_busy, _Clock.held = False, None

    def refuse(self, name: str, args: Any, kwargs: Any, problem: Exception) -> None:
        """The writer without Spark has to refuse the call in the same way. It may have refused values of rows before."""
        if _OF_SPARK in str(problem):
            return
        refused, self._refused = self._refused, None
        try:
            if refused is None:
                getattr(self._writer, name)(*self._without_spark(args), **self._without_spark(kwargs))
        except Exception as other:
            refused = other
        if refused is None:
            raise EnginesDifferError(f"{name} with Spark: {problem!r}; without Spark it is not refused")
        if type(refused) is not type(problem) or _told(refused) != _told(problem):
            raise EnginesDifferError(f"{name} with Spark: {problem!r}; without: {refused!r}") from refused

    def repeat(self, name: str, args: Any, kwargs: Any, found: Any, writer: SavepointWriter) -> None:
        """The writer without Spark has to return the same, or refuse values of rows, which Spark looks at when it writes."""
        if self._refused is not None:
            if name == "write":
                raise EnginesDifferError(f"it is refused without Spark: {self._refused!r}") from self._refused
            return
        if name == "write":
            self._write(args, kwargs, found, writer)
            return
        try:
            other = getattr(self._writer, name)(*self._without_spark(args), **self._without_spark(kwargs))
        except StateProcessorError as problem:
            self._refused = problem
            return
        if other is not self._writer and other != found:
            raise EnginesDifferError(f"{name} with Spark: {found!r}; without: {other!r}")

    def _write(self, args: Any, kwargs: Any, found: sp.WriteSummary, writer: SavepointWriter) -> None:
        path = args[0] if args else kwargs["path"]
        directory = tempfile.mkdtemp(prefix="without-spark-")
        try:
            target = Path(directory, "savepoint")
            try:
                other = self._writer.write(target, *args[1:], **{k: v for k, v in kwargs.items() if k != "path"})
            except Exception as problem:
                raise EnginesDifferError(f"write is refused without Spark: {problem!r}") from problem
            one, two = writer._access(os.fspath(path)).open(path), self._writer._build.access.open(target)
            if content(one) != content(two):
                ordered = not _is_shuffled(writer)
                if ordered or unordered_content(one) != unordered_content(two):
                    raise EnginesDifferError(f"{path}: {_difference(content(one), content(two))}")
            if _told(found) != _told(other):
                raise EnginesDifferError(f"summaries of {path}: {_difference(_told(found), _told(other))}")
        finally:
            shutil.rmtree(directory)

    def _without_spark(self, given: Any) -> Any:
        if hasattr(given, "toArrow"):
            if id(given) not in self._tables:
                self._tables[id(given)] = given, given.toArrow()
            return self._tables[id(given)][1]
        if isinstance(given, dict):
            return {name: self._without_spark(value) for name, value in given.items()}
        return tuple(map(self._without_spark, given)) if isinstance(given, tuple) else given


def _read_once(given: Any) -> Any:
    """Return arguments that both writers can read: streams are read here."""
    if isinstance(given, dict):
        return {name: _read_once(value) for name, value in given.items()}
    if isinstance(given, tuple):
        return tuple(map(_read_once, given))
    return given.read_all() if isinstance(given, pa.RecordBatchReader) else given


def _is_shuffled(writer: SavepointWriter) -> bool:
    """Return whether Spark shuffles rows, so that their order, and the order of entries in a key group, is undefined."""
    rows = [given.rows for draft in writer._build.drafts for given in draft.changes.state_rows]
    return any("Exchange" in one.frame._jdf.queryExecution().executedPlan().toString() for one in rows)  # type: ignore[union-attr]


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


def _difference(one: Any, two: Any, where: str = "") -> str:
    """Return the first place where two values differ."""
    if type(one) is type(two) and isinstance(one, dict | list | tuple):
        keys = list(one) if isinstance(one, dict) else range(max(len(one), len(two)))
        for key in keys:
            try:
                pair = one[key], two[key]
            except (IndexError, KeyError):
                return f"{where}[{key!r}] is not in both"
            if pair[0] != pair[1]:
                return _difference(*pair, f"{where}[{key!r}]")
    return f"{where}: with Spark {one!r}; without: {two!r}"
