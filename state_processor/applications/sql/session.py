"""Queries on the views of a snapshot with DuckDB."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import pyarrow as pa
import pyarrow.dataset

from state_processor import OperatorIdentifier
from state_processor.applications.sql.key_conditions import ArrowCondition
from state_processor.applications.sql.views import View, quoted, views_of
from state_processor.arrow import Rows
from state_processor.errors import NotFoundError, OptionError, StateProcessorError
from state_processor.options import SnapshotAccess, spelled
from state_processor.serializers import DecodeOptions
from state_processor.states import StateScan, columns_of, comments_of
from state_processor.support import pc, require, without_none

if TYPE_CHECKING:
    import duckdb

    from state_processor.snapshots import Snapshot

Names: TypeAlias = tuple[str, ...]

_FUNCTIONS_OF_ROWS: Final = frozenset({"generate_series", "range", "unnest"})
"""Functions that stand for tables and do not read a view."""
_COLUMNS_UNSAID: Final = frozenset({"STAR", "POSITIONAL_REFERENCE"})


@dataclass(frozen=True)
class QueryFields:
    """The tables of a query, and the columns and fields that it names."""

    # names of tables, and of named parts of the query, with their schemas: ``("orders", "total")``; names that no table has for
    # parts that may read any
    tables: frozenset[Names]
    # references to columns, with tables before and fields behind the name of the column, all in lower case
    accesses: frozenset[Names]
    is_whole: bool  # whether fields may be used that the accesses do not name

    @classmethod
    def of(cls, connection: Any, query: str) -> Self | None:
        """Parse a query; ``None`` if it is not a ``SELECT``, or DuckDB can't parse it."""
        [(text,)] = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [query]).fetchall()
        tree = json.loads(text)
        return None if tree["error"] else cls._of_nodes(list(_nodes(tree["statements"])))

    @classmethod
    def _of_nodes(cls, nodes: Sequence[Mapping[str, Any]]) -> Self:
        tables: set[tuple[str, ...]] = set()
        table_names: set[str] = set()
        accesses: set[tuple[str, ...]] = set()
        for node in nodes:
            if node.get("type") == "BASE_TABLE":
                path = [node["schema_name"], node["table_name"]] if node["schema_name"] else [node["table_name"]]
                tables.add(_folded(path))
                table_names |= {node["alias"].casefold(), node["table_name"].casefold()}
            if _reads_any_table(node):
                tables.add((f"{node['type']}()",))
            if node.get("class") == "COLUMN_REF":
                accesses.add(_folded(node["column_names"]))
        is_whole = any(map(_leaves_columns_unsaid, nodes)) or any(access[-1] in table_names for access in accesses)
        return cls(frozenset(tables), frozenset(accesses), is_whole)

    def narrowed(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a view, with structs that have only the fields that the query uses."""
        return schema if self.is_whole else pa.schema(list(map(self._narrowed, schema)))

    def _narrowed(self, field: pa.Field) -> pa.Field:
        name = field.name.casefold()
        used: list[Names] = []
        for access in self.accesses:
            used += [access[at + 1 :] for at, part in enumerate(access) if part == name]
        return field.with_type(_narrowed(field.type, used)) if used else field


def _narrowed(type_: pa.DataType, used: Sequence[Names]) -> pa.DataType:
    if not pa.types.is_struct(type_) or not all(used):
        return type_
    by_name: dict[str, list[Names]] = {}
    for path in used:
        by_name.setdefault(path[0], []).append(path[1:])
    names = [field.name.casefold() for field in type_]
    if len({*names}) < len(names) or not by_name.keys() <= {*names}:
        return type_
    used_fields = ((field, by_name.get(field.name.casefold())) for field in type_)
    return pa.struct([field.with_type(_narrowed(field.type, paths)) for field, paths in used_fields if paths])


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all nodes of a tree."""
    if isinstance(tree, Mapping):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _leaves_columns_unsaid(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    return (
        kind in _COLUMNS_UNSAID
        or (kind == "JOIN" and (node.get("ref_type") == "NATURAL" or bool(node.get("using_columns"))))
        or (kind == "BASE_TABLE" and bool(node.get("column_name_alias")))
        or _reads_any_table(node)
    )


def _reads_any_table(node: Mapping[str, Any]) -> bool:
    """Return whether a part of a query lists tables, or is a function that may read them."""
    kind = node.get("type")
    return (kind == "SHOW_REF" and not node.get("query")) or (
        kind == "TABLE_FUNCTION" and _function_name(node) not in _FUNCTIONS_OF_ROWS
    )


def _function_name(node: Mapping[str, Any]) -> str | None:
    function = node.get("function")
    return function.get("function_name") if isinstance(function, Mapping) else None


def _folded(names: Sequence[str]) -> Names:
    return tuple(map(str.casefold, names))


class StateDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A state as a data set.

    ``scan``: reads the state. ``schema``: the columns to offer. A struct may lack fields of the state. ``failed``: gets the
    errors of reading; DuckDB has only their text.
    """

    def __init__(self, scan: StateScan, schema: pa.Schema, failed: Callable[[StateProcessorError], None]) -> None:
        self._scan = scan
        self._offered = schema
        self._failed = failed

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._offered

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> StateScanner:
        """Return a scanner of some columns of the rows that fulfil a condition; other arguments are hints about batches."""
        names = list(columns) if columns else self._offered.names
        return StateScanner(columns_of(self._offered, names), self._batches(names, filter))

    def _batches(self, names: Sequence[str], condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            if condition is None:
                yield from self._scan.read(columns_of(self._offered, names))
                return
            filter_ = ArrowCondition(condition)
            decoded = columns_of(self._offered, [*names, *sorted(filter_.columns.difference(names))])
            for batch in self._scan.read(decoded, self._scan.narrowing_keys(filter_.keys)):
                yield batch.filter(condition).select(names)
        except StateProcessorError as error:
            self._failed(error)
            raise


class StateScanner:
    """A scanner. DuckDB takes its reader."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.projected_schema = schema
        self._batches = batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches)


_LOG: Final = logging.getLogger("state_processor")
_ROWS: Final = 100_000
"""Rows of a batch of a result."""
_LONGEST: Final = 300
_IDENTIFIERS: Final = re.compile(r'"((?:[^"]|"")+)"|([^\W\d]\w*|[0-9a-f]{32})')
_ISOLATED: Final = {
    "python_enable_replacements": "false",
    "enable_external_access": "false",
    "temp_directory": "",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}
"""Settings of DuckDB for queries of others."""


@dataclass(frozen=True)
class _Unread:
    """The reason why a view can't be read."""

    reason: StateProcessorError


@dataclass(frozen=True)
class QueryResult:
    """The result of a query: columns, and batches that are read while they are consumed; ``notes`` of the views."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    notes: tuple[str, ...] = ()


class SqlSession:
    """A connection of DuckDB to the views of a snapshot.

    Views are made when a query names them, with the fields of structs that the query uses. Read a result to its end before the
    next query.

    ``connection``: an empty database in memory. ``only_select``: whether other statements than ``SELECT`` are refused.
    """

    def __init__(self, views: Sequence[View], connection: duckdb.DuckDBPyConnection, *, only_select: bool = False) -> None:
        self.views = list(views)
        self._only_select = only_select
        self._connection = connection
        self._opened: dict[View, StateScan | pa.Table | _Unread] = {}
        self._view_schemas: dict[View, pa.Schema] = {}
        self._schemas: set[str] = set()
        self._is_changed = False
        self._failures: list[StateProcessorError] = []

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, Any]) -> Self:
        """Open a snapshot; for errors see :func:`state_processor.duckdb.connect`."""
        if "nanos" in options:
            DecodeOptions(nanos=options["nanos"])
        return cls.of_views(views_of(SnapshotAccess.among(options).open(path), options))

    @classmethod
    def of_views(cls, views: Sequence[View]) -> Self:
        """Return a session with views."""
        duckdb = require("duckdb", "duckdb", "queries of SQL")
        return cls(views, duckdb.connect(":memory:", config={"python_enable_replacements": "false"}))

    @classmethod
    def isolated(cls, snapshot: Snapshot, options: Mapping[str, Any], memory: int, threads: int) -> Self:
        """Return a session for queries of others: they read the views of an open snapshot, and no files of the machine.

        ``snapshot`` and ``options``: the snapshot, and keyword arguments of reading. ``memory`` and ``threads``: bytes and
        threads that DuckDB may use. It does not count all memory, and does not write to a disk.
        """
        duckdb = require("duckdb", "duckdb", "queries of SQL")
        connection = duckdb.connect(":memory:", config={**_ISOLATED, "memory_limit": f"{memory}B", "threads": str(threads)})
        connection.execute("SET enable_progress_bar = false")
        return cls(views_of(snapshot, options), connection, only_select=True)

    def connection_to_all(self) -> duckdb.DuckDBPyConnection:
        """Make all views that can be read, and return the connection. The log names the views that can't be read."""
        for view in self.views:
            opened = self._open(view)
            if isinstance(opened, _Unread):
                _LOG.warning("the view %s can't be read: %s", view.label, opened.reason)
            else:
                self._make(view, opened, opened.schema)
        return self._connection

    def execute(self, query: str) -> QueryResult:
        """Run a query.

        ``query``: one statement of SQL.

        Returns: columns, and batches that are read while they are consumed.
        """
        if not isinstance(query, str):
            raise OptionError(f"expected a query as text, found a {type(query).__name__}")
        with self._clear_errors():
            statements = self._connection.extract_statements(query)
            if len(statements) != 1:
                raise OptionError(f"expected one statement of SQL, found {len(statements)}; run one after the other")
            if self._only_select and statements[0].type.name != "SELECT":
                raise OptionError(f"expected a SELECT, found a statement of kind {statements[0].type.name}")
            self._name_operators(query)
            fields = self._parsed(query)
            self._make_views(fields)
            relation = self._connection.sql(query)
            self._is_changed |= fields is None  # it may have made views and macros, which later queries use
            if relation is None:  # a statement without a result
                return QueryResult(pa.schema([]), iter(()))
            reader = relation.to_arrow_reader(_ROWS)
        return QueryResult(reader.schema, self._batches(reader), tuple(self._notes(fields)))

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._clear_errors(), reader:
            yield from reader

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Raise errors of a read unchanged, and errors of DuckDB with the way out."""
        import duckdb

        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            if self._failures:
                raise self._failures.pop() from None
            if isinstance(problem, OSError):
                raise
            lines = [line for line in str(problem).partition("\nLINE ")[0].splitlines() if line.strip()]
            text = " ".join(lines)[:_LONGEST]
            if isinstance(problem, (duckdb.CatalogException, duckdb.BinderException)):
                raise NotFoundError(f"{text}; SHOW ALL TABLES lists the views and their columns") from None
            raise OptionError(f"{text}; see the functions and the syntax of DuckDB {duckdb.__version__}") from None
        finally:
            self._failures.clear()

    def columns(self, view: View) -> pa.Schema:
        """Return the columns of a view."""
        opened = self._open(view)
        if isinstance(opened, _Unread):
            raise opened.reason
        return opened.schema

    def _parsed(self, query: str) -> QueryFields | None:
        from state_processor.applications.sql.session import QueryFields

        return QueryFields.of(self._connection, query)

    def _name_operators(self, query: str) -> None:
        """Add views under the uids, or hashes, in a query if views have the other name: Flink 1.x records only the hashes."""
        of_operators: dict[str, list[View]] = {}
        for view in self.views:
            if view.operator is not None:
                of_operators.setdefault(view.operator.uid_hash, []).append(view)
        names = {(view.schema or view.name).casefold() for view in self.views}
        for quoted_name, plain in _IDENTIFIERS.findall(query):
            name = quoted_name.replace('""', '"') or plain
            if name.casefold() in names or not name:
                continue
            names.add(name.casefold())
            for view in of_operators.get(OperatorIdentifier.of(name).uid_hash, ()):
                self.views.append(replace(view, name=name) if view.schema is None else replace(view, schema=name))

    def _notes(self, fields: QueryFields | None) -> dict[str, None]:
        """Return the comments on columns of the views that a query names. Results of DuckDB don't have comments."""
        notes: dict[str, None] = {}
        for name, view in self._by_name().items():
            if fields is not None and name in fields.tables and view in self._view_schemas:
                notes |= dict.fromkeys(comments_of(self._view_schemas[view]).values())
        return notes

    def _by_name(self) -> dict[tuple[str, ...], View]:
        return {tuple(map(str.casefold, without_none((view.schema, view.name)))): view for view in self.views}

    def _make_views(self, fields: QueryFields | None) -> None:
        """Make the views that a query names; all of them, with all fields, if the query may name them in other ways."""
        by_name = self._by_name()
        if fields is None or self._is_changed or not fields.tables <= by_name.keys():
            for view in self.views:
                opened = self._open(view)
                if not isinstance(opened, _Unread):
                    self._make(view, opened, opened.schema)
            return
        for name in fields.tables:
            opened = self._open(by_name[name])
            if isinstance(opened, _Unread):
                raise opened.reason
            self._make(by_name[name], opened, fields.narrowed(opened.schema))

    def _open(self, view: View) -> StateScan | pa.Table | _Unread:
        if view not in self._opened:
            try:
                self._opened[view] = view.open()
            except StateProcessorError as reason:
                self._opened[view] = _Unread(reason)
        return self._opened[view]

    def _make(self, view: View, opened: StateScan | pa.Table, schema: pa.Schema) -> None:
        from state_processor.applications.sql.session import StateDataset

        if view in self._view_schemas and self._view_schemas[view].equals(schema):
            return
        source = opened if isinstance(opened, pa.Table) else StateDataset(opened, schema, self._failures.append)
        name = quoted(view.schema or "main")
        if view.schema is not None and name not in self._schemas:
            self._connection.execute(f"CREATE SCHEMA {name}")
            self._schemas.add(name)
        self._connection.execute(f"SET schema = '{name.replace(chr(39), chr(39) * 2)}'")
        self._connection.from_arrow(source).create_view(view.name, replace=True)
        notes = " ".join(comments_of(schema).values())
        if notes:
            self._connection.execute(f"COMMENT ON VIEW {quoted(view.name)} IS '{notes.replace(chr(39), chr(39) * 2)}'")
        self._connection.execute("SET schema = 'main'")
        self._view_schemas[view] = schema


# Conditions on the rows of a state

_STATE_ROWS: Final = "state_rows"


def matching_rows(scan: StateScan, condition: str) -> Rows:
    """Return the rows of a state that fulfil a condition, in the columns of the state.

    A condition on the column ``key`` looks the keys up, as a query does.

    ``condition``: an expression of DuckDB whose value is true or false. It can use the columns of ``scan``.
    """
    session = SqlSession.of_views([View(None, _STATE_ROWS, lambda: scan)])
    selection = f"SELECT * FROM {_STATE_ROWS} WHERE ({condition}\n)"
    columns = ", ".join(scan.schema.names)
    refused = f"{spelled('where', condition)} is not a condition on the columns {columns}"
    try:
        (value,) = session.execute(f"SELECT ({condition}\n) FROM {_STATE_ROWS} LIMIT 0").schema.types
    except (NotFoundError, OptionError) as problem:
        raise OptionError(f"{refused}: {problem.args[0].partition('; ')[0]}") from None
    if value != pa.bool_():
        raise OptionError(f"{refused}: its values are of type {value}; compare them, such as value > 100")
    return Rows(scan.schema, lambda: _typed(session.execute(selection).batches, scan.schema))


def _typed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Return batches, at least one. DuckDB changes names that differ in case alone, and names of time zones."""
    yield pa.RecordBatch.from_pylist([], schema)
    for batch in batches:
        yield from pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema).to_batches()
