"""An Iceberg table, written by the package ``pyiceberg``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from state_processor.applications.lake.targets import Changes, ConflictError, Position, is_plain
from state_processor.errors import OptionError, WriteError
from state_processor.support import names_of, require

_EXTRA: Final = ("iceberg", "Iceberg tables")
_MOST_KEYS: Final = 2000
"""Keys that are deleted by a filter; each file is compared with all of them."""
_KEEPS_ROWS: Final = "replace"
_ONE_ATTEMPT: Final = {"commit.retry.num-retries": "0"}
"""A commit that another one precedes fails: it would add rows to a table that it has not read."""

_SAME: Final = {
    pa.int32(): (pa.int8(), pa.int16()),
    pa.large_string(): (pa.string(),),
    pa.large_binary(): (pa.binary(),),
}
"""Types that Iceberg stores as another type of Arrow."""


class IcebergTarget:
    """An Iceberg table of a catalog.

    ``place``: the name, with its namespace: ``lake.totals``. ``options``: properties of the catalog: ``uri`` and ``warehouse``.
    ``catalog`` is its name, ``default`` by default. The type is ``sql`` unless ``type`` names another one.
    """

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        namespace, dot, name = place.rpartition(".")
        if not (namespace and dot and name):
            raise OptionError(f"the Iceberg table {place!r}: expected a namespace and a name, such as lake.totals")
        catalogs = require("pyiceberg.catalog", *_EXTRA)
        properties = dict(options)
        catalog = properties.pop("catalog", "default")
        self._namespace, self._place = namespace, place
        with self._errors():
            self._catalog = catalogs.load_catalog(catalog, **({"type": "sql"} if "uri" in properties else {}) | properties)
        self._table: Any = None

    def position(self) -> Position | None:
        """Return the position of the last commit of this library, see :class:`~.targets.LakeTable`."""
        with self._errors():
            if not self._catalog.table_exists(self._place):
                return None
            self._table = self._catalog.load_table(self._place)
            snapshot = self._table.current_snapshot()
        while snapshot is not None:
            summary = snapshot.summary
            position = Position.of_properties(summary.additional_properties)
            if position is not None:
                return position
            if summary.operation.value != _KEEPS_ROWS:
                raise WriteError(
                    f"{self._place}: another program wrote snapshot {snapshot.snapshot_id} ({summary.operation.value}). Choose a "
                    "new table: sync is the only writer of its rows"
                )
            snapshot = self._table.metadata.snapshot_by_id(snapshot.parent_snapshot_id)
        return None

    def schema(self) -> pa.Schema:
        """Return the columns."""
        schema: pa.Schema = self._table.schema().as_arrow()
        return schema

    def replace(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], position: Position) -> None:
        """Make the table, or overwrite its rows."""
        rows = pa.Table.from_batches(batches, schema)
        with self._errors():
            if self._table is None:
                self._catalog.create_namespace_if_not_exists(self._namespace)
                self._table = self._catalog.create_table(self._place, schema=schema, properties=_ONE_ATTEMPT)
            with self._table.transaction() as transaction:
                self._with_columns(transaction, schema)
                transaction.overwrite(rows, snapshot_properties=position.properties())

    def _with_columns(self, transaction: Any, schema: pa.Schema) -> None:
        """Give the table the types of the columns. All of its rows are replaced; earlier snapshots keep their columns."""
        stored = self.schema()
        if sorted(stored.names) != sorted(schema.names):
            table_names, state_names = (", ".join(names) for names in (stored.names, schema.names))
            raise WriteError(f"{self._place} has the columns {table_names}, the state {state_names}: choose a new table")
        lost = [field.name for field in schema if not _has_all_fields(field.type, stored.field(field.name).type)]
        if lost:
            with transaction.update_schema(allow_incompatible_changes=True) as update:
                for name in lost:
                    update.delete_column(name)
        with transaction.update_schema() as update:
            update.union_by_name(schema)

    def apply(self, changes: Changes, position: Position) -> None:
        """Delete the rows with changed keys, and append the new ones, in one commit."""
        (name, *further), properties = changes.keys, position.properties()
        column = changes.rows.column(name)
        if further or column.null_count or not is_plain(column.type) or len(column) > _MOST_KEYS:
            self._rewrite(changes, position)
            return
        expressions = require("pyiceberg.expressions", *_EXTRA)
        keys = column.to_pylist()
        with self._errors(), self._table.transaction() as transaction:
            if keys:
                transaction.delete(expressions.In(name, keys))
            transaction.append(changes.upserts, snapshot_properties=properties)

    def _rewrite(self, changes: Changes, position: Position) -> None:
        """Write all rows again: many keys, or keys with parts, can't be compared by a filter."""
        with self._errors():
            rows = changes.applied_to(self._table.scan().to_arrow().to_batches())
            self._table.overwrite(pa.Table.from_batches(rows, changes.rows.schema), snapshot_properties=position.properties())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        exceptions = require("pyiceberg.exceptions", *_EXTRA)
        classes = (v for v in vars(exceptions).values() if isinstance(v, type) and issubclass(v, Exception))
        kinds: tuple[type[Exception], ...] = (*classes, ValueError, TypeError)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Delete operation did not match any records")
                yield
        except kinds as error:
            conflicts = (exceptions.CommitFailedException, exceptions.TableAlreadyExistsError)
            kind = ConflictError if isinstance(error, conflicts) else WriteError
            raise kind(f"{self._place}: {error}") from error


def _has_all_fields(new: pa.DataType, stored: pa.DataType) -> bool:
    """Return whether a type has all that a stored type has, so that Iceberg can extend the column."""
    if pa.types.is_struct(new) and pa.types.is_struct(stored):
        names = set(names_of(new))
        return all(f.name in names and _has_all_fields(new.field(f.name).type, f.type) for f in stored)
    if pa.types.is_map(new) and pa.types.is_map(stored):
        return _has_all_fields(new.key_type, stored.key_type) and _has_all_fields(new.item_type, stored.item_type)
    if _is_list(new) and _is_list(stored):
        return _has_all_fields(new.value_type, stored.value_type)
    return new == stored or new in _SAME.get(stored, ())


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))
