"""A Delta table, written by the package ``deltalake``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from state_processor.applications.lake.targets import Changes, ConflictError, Position, is_plain
from state_processor.errors import StateProcessorError, WriteError
from state_processor.support import require

_IS_DELETE: Final = "_is_delete"
_KEEPS_ROWS: Final = ("OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK", "SET TBLPROPERTIES", "ADD FEATURE")
"""Operations of others after which the table has the same rows."""


class DeltaTarget:
    """A Delta table.

    ``place``: its directory, or its URL. ``options``: storage options of ``deltalake``.
    """

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        self._delta = require("deltalake", "delta", "Delta tables")
        self._place = place
        self._options = dict(options)
        self._table: Any = None

    def position(self) -> Position | None:
        """Return the position of the last commit of this library, see :class:`~.targets.LakeTable`."""
        with self._errors():
            if not self._is_table():
                return None
            self._table = self._delta.DeltaTable(self._place, storage_options=self._options)
            commits: list[dict[str, Any]] = self._table.history()
        for commit in commits:
            position = Position.of_properties(commit)
            if position is not None:
                return position
            if commit.get("operation") not in _KEEPS_ROWS:
                raise WriteError(
                    f"{self._place}: another program wrote version {commit.get('version')} ({commit.get('operation')}). Choose a "
                    "new directory for the table: sync is the only writer of its rows"
                )
        raise WriteError(f"{self._place}: its log does not name a checkpoint any more. Choose a new directory for the table")

    def _is_table(self) -> bool:
        return bool(self._delta.DeltaTable.is_deltatable(self._place, storage_options=self._options))

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return pa.schema(self._table.schema().to_arrow())

    def replace(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], position: Position) -> None:
        """Make the table, or overwrite it, also its columns."""
        failures: list[StateProcessorError] = []

        def noted() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except StateProcessorError as error:
                failures.append(error)
                raise

        rows = pa.RecordBatchReader.from_batches(schema, noted())
        try:
            if self._table is None:
                self._write(rows, position, mode="error")
            else:
                self._write(rows, position, mode="overwrite", schema_mode="overwrite")
        except WriteError:
            for failure in failures:  # Delta has only the text of an error in the rows
                raise failure from None
            if self._table is None and self._is_table():
                raise ConflictError(f"{self._place}: another process has made the table meanwhile") from None
            raise

    def apply(self, changes: Changes, position: Position) -> None:
        """Merge changes into the table."""
        first, *_ = map(changes.rows.column, changes.keys)
        if first.null_count or any(not is_plain(changes.rows.schema.field(n).type) for n in changes.keys):
            self._rewrite(changes, position)
            return
        before = self._table.version()
        if changes.rows.num_rows:
            self._merge(changes, position)
        if self._table.version() == before:  # Delta does not commit a merge without rows
            self._write(changes.rows.slice(0, 0), position, mode="append")

    def _merge(self, changes: Changes, position: Position) -> None:
        source = changes.rows.append_column(_IS_DELETE, changes.is_delete)
        same = " AND ".join(f"t.`{n}` IS NOT DISTINCT FROM s.`{n}`" for n in changes.keys[1:])
        first = f"t.`{changes.keys[0]}` = s.`{changes.keys[0]}`"
        values = {n: f"s.`{n}`" for n in changes.rows.column_names}
        with self._errors():
            (
                self._table.merge(
                    source,
                    f"{first} AND {same}" if same else first,
                    source_alias="s",
                    target_alias="t",
                    commit_properties=self._commit(position),
                )
                .when_matched_delete(predicate=f"s.{_IS_DELETE}")
                .when_matched_update(values)
                .when_not_matched_insert(values, predicate=f"NOT s.{_IS_DELETE}")
                .execute()
            )

    def _rewrite(self, changes: Changes, position: Position) -> None:
        """Write all rows again: keys with parts can't be compared in a merge."""
        rows = changes.applied_to(self._table.to_pyarrow_table().to_batches())
        self._write(pa.Table.from_batches(rows, changes.rows.schema), position, mode="overwrite")

    def _write(self, rows: Any, position: Position, **how: Any) -> None:
        place = self._place if self._table is None else self._table
        options = {} if self._table is not None else {"storage_options": self._options}
        with self._errors():
            self._delta.write_deltalake(place, rows, commit_properties=self._commit(position), **options, **how)

    def _commit(self, position: Position) -> Any:
        return self._delta.CommitProperties(custom_metadata=position.properties(), max_commit_retries=0)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        exceptions = require("deltalake.exceptions", "delta", "Delta tables")
        try:
            yield
        except exceptions.DeltaError as error:
            kind = ConflictError if isinstance(error, exceptions.CommitFailedError) else WriteError
            raise kind(f"{self._place}: {error}") from error
