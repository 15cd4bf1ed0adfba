"""From what a user asks for to the reader that gives it: shared by the Spark data source and the Arrow surface."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read.catalog import handles, operators, states
from state_processor.backends.read.operator_state import OperatorStateReader
from state_processor.backends.read.raw_state import RawStateReader
from state_processor.backends.read.state_access import StateReader, open_state
from state_processor.backends.read.state_listing import find_operator
from state_processor.options import SourceOptions
from state_processor.portable_registrations import import_serializers
from state_processor.read.projection import Projection
from state_processor.serializers.errors import OptionError

TABLES: Final = {"operators": operators, "states": states, "handles": handles}


def open_source(options: SourceOptions) -> Snapshot:
    """The snapshot, after the user's modules with serializers are imported."""
    import_serializers(options.serializers)
    return open_snapshot(options.path, options.path_mapping, scratch=options.scratch)


def find_reader(options: SourceOptions, snapshot: Snapshot | None = None) -> StateReader:
    """The reader of the state that the options name.

    Raises
    ------
    OptionError
        If no operator is named.
    NotFoundError
        If the operator or state is not there.
    """
    if options.operator is None:
        raise OptionError("no operator: name it by the option uid, or by uidHash where it has no uid")
    snapshot = snapshot or open_source(options)
    if options.operator.uid is not None:
        operator = find_operator(snapshot, uid=options.operator.uid)
    else:
        operator = find_operator(snapshot, uid_hash=options.operator.uid_hash)
    reader = open_state(snapshot, operator, options.state, options.kind, options.read)
    if options.read.keys is not None and not takes_keys(reader):
        named = options.state or options.kind
        raise OptionError(f"keys choose from keyed state; {named!r} is raw or operator state, which is read as a whole")
    return reader


def takes_keys(reader: StateReader) -> bool:
    """Whether a reader can look for keys: operator state has none that say where an entry lies."""
    return not isinstance(reader, (OperatorStateReader, RawStateReader))


def splits_of(reader: StateReader, options: SourceOptions) -> list[Any]:
    """The parts that tasks read, of the size that the user wants or the usual one."""
    return list(reader.splits() if options.split_bytes is None else reader.splits(options.split_bytes))


@dataclass(frozen=True, slots=True)
class ProjectedReader:
    """Reads the rows of a reader's parts in another schema. It can be pickled; then it reads, but plans no more."""

    reader: StateReader
    projection: Projection

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        for batch in self.reader.read(split):
            yield self.projection.apply(batch)
