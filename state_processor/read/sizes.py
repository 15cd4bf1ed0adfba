"""Reports of sizes: states, key groups, subtasks or keys, largest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final, Literal, get_args

import pyarrow as pa

from state_processor.backends.analysis.entry_sizes import ENTRIES, PLACES, SIZE_IN_BYTES, KeyedSizes, largest
from state_processor.backends.files.ordered_threads import in_order, parts_for, threads_for
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.stored_operator import StoredOperator, find_operator, operator_label
from state_processor.display.progress import progress
from state_processor.options.user_serializers import TaskSerializers
from state_processor.support.doors import checked_choice, spelled
from state_processor.support.errors import NotFoundError, OptionError
from state_processor.support.mappings import without_none
from state_processor.types.identifier import OperatorIdentifier

SizesBy = Literal["state", "key_group", "subtask", "key"]

_OPERATOR: Final = ("operator_uid", "operator_uid_hash")
_BATCH: Final = 1024
"""Tables of parts that are summed at once."""
_GROUPED: Final = {"state": ("state_name", "state_kind"), "key_group": ("key_group",), "subtask": ("subtask",)}


@dataclass(frozen=True)
class SizePart:
    """A part of a report for one task."""

    sizes: KeyedSizes
    operator_uid: str | None
    operator_uid_hash: str
    split: Any
    by: SizesBy
    top: int

    @property
    def size(self) -> int:
        """Bytes to read."""
        return int(self.split.size)

    def measure(self) -> pa.Table | None:
        """Return the part's rows, with the operator; ``None`` without entries."""
        if self.by == "key":
            return self.sizes.largest_keys(self.split, self.top)
        table = pa.Table.from_batches([self.sizes.by_place(self.split)], PLACES)
        for position, name in enumerate(_OPERATOR):
            column = pa.repeat(pa.scalar(getattr(self, name), pa.string()), table.num_rows)
            table = table.add_column(position, name, column)
        return table


@dataclass(frozen=True)
class MeasurePart:
    """A task of Spark that measures a part."""

    serializers: TaskSerializers

    def __call__(self, part: SizePart) -> pa.Table | None:
        """Return the part's table."""
        self.serializers.enter()
        return part.measure()


@dataclass(frozen=True)
class SizeReport:
    """A report of sizes: its parts, and how to put them together.

    ``by`` and ``top``: what rows are about, and how many there are; ``None`` for all.
    """

    by: SizesBy
    top: int | None
    parts: Sequence[SizePart]

    @classmethod
    def of(
        cls, snapshot: Snapshot, operator: OperatorIdentifier | None, by: str, top: int | None, threads: int | None = 1
    ) -> SizeReport:
        """Return a report before its parts are measured; see :func:`state_processor.arrow.size_report`.

        ``threads`` is the maximum number of threads that measure parts in this process: tasks of Spark have larger parts.
        """
        kind: SizesBy = checked_choice("by", by, get_args(SizesBy))
        if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
            raise OptionError(f"top={top!r}: expected a number of rows, or None for all")
        if kind == "key" and operator is None:
            raise OptionError(f"{spelled('by', 'key')}: name the operator, since operators have keys of different types")
        operators = snapshot.metadata.operators
        if operator is not None:
            operators = (find_operator(snapshot, operator.uid, operator.uid_hash),)
        parts = []
        for stored in operators:
            sizes = KeyedSizes(StoredOperator(snapshot, stored))
            splits = parts_for(sizes.splits_of_keys if kind == "key" else sizes.splits, threads)
            parts += [SizePart(sizes, stored.uid, stored.operator_id, split, kind, top or 1 << 62) for split in splits]
        if operator is not None and not parts:
            raise NotFoundError(f"{operator_label(operators[0])} has no keyed state")
        return cls(kind, top, parts)

    def measured(self, threads: int | None) -> pa.Table:
        """Measure the parts, and return the report."""
        watched = partial(progress, doing="measuring")
        tables = in_order(lambda part: (part.measure(),), self.parts, threads_for(self.parts, threads), watched)
        return self.merged(without_none(tables))

    def merged(self, tables: Iterable[pa.Table]) -> pa.Table:
        """Return the report from the tables of its parts."""
        if self.by == "key":
            sizes = list(tables)
            return largest(pa.concat_tables(sizes, promote_options="permissive"), self.top) if sizes else _NO_KEYS.empty_table()
        names = [*_OPERATOR, *_GROUPED[self.by]]
        schema = pa.schema([*(pa.field(n, pa.string()) for n in _OPERATOR), *PLACES])
        summed, parts = _summed([schema.empty_table()], names), iter(tables)
        while batch := [*islice(parts, _BATCH)]:  # there may be a million parts
            summed = _summed([summed, *(table.select(summed.column_names) for table in batch)], names)
        in_order = summed.sort_by([(name, "ascending") for name in names])  # the order of groups differs each time
        return largest(in_order, self.top)


def _summed(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Return the entries and bytes of each group."""
    grouped = pa.concat_tables(tables).group_by(names).aggregate([(ENTRIES, "sum"), (SIZE_IN_BYTES, "sum")])
    return grouped.select([*names, f"{ENTRIES}_sum", f"{SIZE_IN_BYTES}_sum"]).rename_columns([*names, ENTRIES, SIZE_IN_BYTES])


# Not a table: pyarrow imports pandas to make one.
_NO_KEYS: Final = pa.schema([("key", pa.null()), (ENTRIES, pa.int64()), (SIZE_IN_BYTES, pa.int64())])
