"""Options of the stream of changes between the checkpoints of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from state_processor.backends.read.option import Kind, option
from state_processor.backends.read.read_options import ReadOptions
from state_processor.options.access import SNAPSHOT_OPTIONS, SnapshotAccess
from state_processor.options.option import UID, UID_HASH, options_of, values_of
from state_processor.options.source import READ_OPTIONS, SOURCE_OPTIONS, named_operator
from state_processor.options.text import parse_options, required_path
from state_processor.support.doors import Door, entered
from state_processor.support.errors import OptionError
from state_processor.support.redaction import redacted_repr
from state_processor.types.identifier import OperatorIdentifier

CHANGES_FORMAT: Final = "flink-savepoint-changes"

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
SNAPSHOT: Final = "snapshot"


@dataclass(frozen=True, slots=True)
class ChangesOptions:
    """Checked options of a stream of changes.

    ``read`` and ``access``: how values are represented, and how snapshots are opened.
    """

    path: str  # the checkpoint directory
    operator: OperatorIdentifier
    state: str
    read: ReadOptions = field(default_factory=ReadOptions)
    access: SnapshotAccess = field(default_factory=SnapshotAccess)
    split_size: int | None = None  # bytes that one task reads; ``None`` for the default
    starting_checkpoint: str = option(
        "text",
        "Where a new query begins: `latest` and `earliest` give the changes after the newest or oldest whole checkpoint, the id "
        "of a checkpoint the changes after this checkpoint. `snapshot` first gives all values of the newest checkpoint.",
        LATEST,
    )
    max_checkpoints_per_trigger: int | None = option(
        "count", "The most checkpoints in a micro-batch; 1 by default. Needs Spark 4.2.", least=1
    )
    before: bool = option("boolean", "Adds the column `before` with the value in the earlier checkpoint.", False)
    fail_on_data_loss: bool = option(
        "boolean",
        "Fails if a checkpoint was removed before its changes were read. By default, the micro-batch then has all values of the "
        "newest whole checkpoint, and `_full` is true.",
        False,
    )
    allow_missing: bool = option(
        "boolean",
        "Deletes all rows if a later checkpoint does not have the operator any more, or has the state under another name. By "
        "default, this is an error with the likely new name.",
        False,
    )

    __repr__ = redacted_repr

    @classmethod
    def parse(cls, options: Mapping[str, str], allowed: Iterable[str] = ()) -> ChangesOptions:
        """Check the options that Spark hands over; they may name the ``allowed`` modules."""
        with entered(Door.DATA_SOURCE):
            values = parse_options(f"reading {CHANGES_FORMAT}", CHANGES_OPTIONS, options, allowed)
            path, operator = required_path(options, "load"), named_operator(values)
        if operator is None or "state" not in values:
            raise OptionError(f"reading {CHANGES_FORMAT}: name the operator by the option uid or uidHash, and the state by state")
        start = values.get("starting_checkpoint", LATEST)
        if start not in (LATEST, EARLIEST, SNAPSHOT) and not (start.isascii() and start.isdigit()):
            raise OptionError(
                f"option startingCheckpoint={start}: expected {LATEST}, {EARLIEST}, {SNAPSHOT} or the id of a checkpoint"
            )
        return cls(
            path,
            operator,
            values["state"],
            ReadOptions.of(**values_of(READ_OPTIONS, values)),
            SnapshotAccess(**values_of(SNAPSHOT_OPTIONS, values)),
            values.get("split_size"),
            **values_of(_OF_STREAM, values),
        )


_OF_STREAM: Final = options_of(ChangesOptions)
_OF_VALUES: Final = tuple(o for o in READ_OPTIONS if Kind.DIFF in o.on and not o.code_only)
STREAM_OPTIONS: Final = (UID, UID_HASH, SOURCE_OPTIONS["state"], *_OF_STREAM, SOURCE_OPTIONS["split_size"])
"""Options of the format ``flink-savepoint-changes`` that other formats do not have."""
CHANGES_OPTIONS: Final = (
    *STREAM_OPTIONS,
    *_OF_VALUES,
    *(o for o in SNAPSHOT_OPTIONS if Kind.DIFF in o.applies_to and not o.code_only),
)
"""Options of the format ``flink-savepoint-changes``."""
