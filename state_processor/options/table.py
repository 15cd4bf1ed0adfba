"""The table of options, collected from their declarations.

A class declares an option as a field made by :func:`~state_processor.backends.read.option.option`: ``ReadOptions`` for reading
state, ``SnapshotAccess`` for opening a snapshot, ``SourceOptions`` and ``SinkOptions`` for the data sources. Signatures,
docstrings, data sources, the command line and ``docs/options.md`` follow the table.
"""

from __future__ import annotations

from typing import Final

from state_processor.backends.read.option import NAMED, Kind
from state_processor.options.access import SNAPSHOT_OPTIONS
from state_processor.options.changes import CHANGES_FORMAT, CHANGES_OPTIONS
from state_processor.options.option import Option
from state_processor.options.sink import WRITING_OPTIONS
from state_processor.options.source import (
    METADATA_FORMAT,
    METADATA_OPTIONS,
    READ_OPTIONS,
    READING_OPTIONS,
    SAVEPOINT_FORMAT,
    SOURCE_OPTIONS,
)

INFER_KRYO: Final = Option(
    "boolean",
    "Infers `types` from the values, which are read once more for it: of parts that are declared as `List`, `Set`, "
    "`Collection` or `Map` and hold objects of one class. Not an option of the data source.",
    False,
    on=NAMED | {Kind.WHOLE},
    code_only=True,
    argument="infer_kryo",
)
SCRATCH: Final = Option(
    "path",
    "Directory, on every machine that writes, for new files of RocksDB and ForSt, and for encoded entries of remote savepoints "
    "that are written without Spark. By default `STATE_PROCESSOR_SCRATCH`, or the directory for temporary files.",
    operand="DIR",
    on=frozenset({Kind.COPIES}),
    code_only=True,
    argument="scratch",
)
"""An option of writing native savepoints."""
PUSHDOWN: Final = SOURCE_OPTIONS["pushdown"]
STATE_KIND: Final = SOURCE_OPTIONS["kind"]

EFFECTIVE_OPTIONS: Final = (*READ_OPTIONS, INFER_KRYO, PUSHDOWN, *SNAPSHOT_OPTIONS)
"""Options that act on some kinds of reads and not on others."""

KEYWORD_OPTIONS: Final = {o.argument: o for o in (STATE_KIND, *READ_OPTIONS, INFER_KRYO, *SNAPSHOT_OPTIONS, SCRATCH)}
"""The options that methods and functions have as keyword arguments."""

READING: Final = f"reading {SAVEPOINT_FORMAT}"
READING_METADATA: Final = f"reading {METADATA_FORMAT}"
READING_CHANGES: Final = f"reading {CHANGES_FORMAT}"
WRITING: Final = f"writing {SAVEPOINT_FORMAT}"

TEXT_OPTIONS: Final = {
    READING: READING_OPTIONS,
    READING_METADATA: METADATA_OPTIONS,
    READING_CHANGES: CHANGES_OPTIONS,
    WRITING: WRITING_OPTIONS,
}
"""The options of each data source."""
