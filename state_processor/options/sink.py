"""Options of writing with a data source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from state_processor.backends.read.option import option
from state_processor.backends.state.python_states import PythonType
from state_processor.options.access import SNAPSHOT_OPTIONS, SnapshotAccess
from state_processor.options.option import UID, UID_HASH, check_given, options_of, values_of
from state_processor.options.source import SAVEPOINT_FORMAT, named_operator
from state_processor.options.text import parse_options, required_path
from state_processor.support.doors import Door, entered, spelled
from state_processor.support.errors import OptionError
from state_processor.support.redaction import redacted_repr
from state_processor.types.identifier import OperatorIdentifier

NewKind = Literal["VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING"]

_READ_ONLY_TABLES: Final = (
    ". Tables of this format are read-only: Spark hands over no path for INSERT and CREATE TABLE … AS SELECT. Write "
    'rows with df.write.format("flink-savepoint").mode("append").save(path)'
)
_OF_BASE: Final = ("replace", "path_mapping", "allow_paths", "plan", "uids")
"""Options about the source savepoint."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked options of a write.

    An option that is not given is ``None``. ``access`` is for the source savepoint.
    """

    path: str
    operator: OperatorIdentifier
    access: SnapshotAccess = field(default_factory=SnapshotAccess)
    base: str | None = option(
        "path", "The source savepoint. A state that it has is updated for the keys of the rows; a null removes a key."
    )
    state: str | None = option(
        "text",
        "Name of the state, whose values are in the column `value` or the column of that name. Without it every column but the "
        "key is a state.",
    )
    replace: bool = option("boolean", "Replaces a state of the source savepoint as a whole.", False)
    key: str = option("text", "The column of the key.", "key")
    key_type: str | None = option("text", "Flink's type of the key, such as `LONG`; inferred from the column by default.")
    value_type: str | None = option(
        "text",
        "Flink's type of the values, such as `MAP<STRING,LONG>`, or `POJO<com.acme.Account>` with the fields of the column.",
    )
    python_type: PythonType | None = option(
        "python_type",
        "The type that a PyFlink job declares for the state, such as `LONG`, `ListState<LONG>` or `MapState<STRING,LONG>`.",
    )
    kind: str | None = option(NewKind, "The kind of a new state; `VALUE` by default.")
    ttl: bool | None = option("boolean", "True for a new state with time-to-live; false by default.")
    parallelism: int | None = option("count", "Parallelism of the operator.", least=1)
    max_parallelism: int | None = option(
        "count", "Number of key groups: by default that of the source savepoint, or 128.", least=1
    )
    flink_version: str | None = option("text", "The oldest Flink version to restore the savepoint.")

    __repr__ = redacted_repr

    @classmethod
    def parse(cls, options: Mapping[str, str], allowed: Iterable[str] = ()) -> SinkOptions:
        """Check the options that Spark hands over; they may name the ``allowed`` modules."""
        with entered(Door.DATA_SOURCE):
            values = parse_options(f"writing {SAVEPOINT_FORMAT}", WRITING_OPTIONS, options, allowed)
            path, operator = required_path(options, "save", _READ_ONLY_TABLES), named_operator(values)
            if "base" not in values:
                check_given(values, _OF_BASE, f"with {spelled('base')}: add that")
        if operator is None:
            raise OptionError("no operator: name it by the option uid, or by uidHash if its uid is unknown")
        access = SnapshotAccess(**values_of(SNAPSHOT_OPTIONS, values))
        return cls(path, operator, access, **values_of(_OF_SINK, values))


_OF_SINK: Final = options_of(SinkOptions)
WRITING_OPTIONS: Final = (UID, UID_HASH, *_OF_SINK, *(o for o in SNAPSHOT_OPTIONS if not o.code_only))
"""Options of writing with the format ``flink-savepoint``."""
