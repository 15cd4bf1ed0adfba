"""Options of writing with a data source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from state_processor.backends.state.python_states import PythonType
from state_processor.options.access import SnapshotAccess
from state_processor.options.data_sources import WRITING
from state_processor.options.effects import check_given
from state_processor.options.source import named_operator
from state_processor.options.table import SNAPSHOT_OPTIONS, fields_of
from state_processor.options.text import parse_options, required_path
from state_processor.serializers.doors import Door, entered, spelled
from state_processor.serializers.errors import OptionError
from state_processor.serializers.redaction import redacted_repr
from state_processor.types.identifier import OperatorIdentifier

_OF_BASE: Final = ("replace", "path_mapping", "allow_paths", "plan", "uids")
"""Options about the source savepoint."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked options of a write.

    Fields are named as in the table of options; ``None`` stands for an option that is not given. ``access`` is for the source
    savepoint.
    """

    path: str
    operator: OperatorIdentifier
    base: str | None = None
    state: str | None = None
    replace: bool = False
    key: str = "key"
    key_type: str | None = None
    value_type: str | None = None
    python_type: PythonType | None = None
    kind: str | None = None
    ttl: bool | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    flink_version: str | None = None
    access: SnapshotAccess = field(default_factory=SnapshotAccess)

    __repr__ = redacted_repr

    @classmethod
    def parse(cls, options: Mapping[str, str], allowed: Iterable[str] = ()) -> SinkOptions:
        """Check the options that Spark hands over; they may name the ``allowed`` modules.

        Raises
        ------
        OptionError
            If one is misspelt or has a value of another kind, or the path or the operator is missing.
        """
        with entered(Door.DATA_SOURCE):
            values = parse_options(WRITING, options, allowed)
            path, operator = required_path(options, "save"), named_operator(values)
            if "base" not in values:
                check_given(values, _OF_BASE, f"with {spelled('base')}: add that")
        if operator is None:
            raise OptionError("no operator: name it by the option uid, or by uidHash if it has no uid")
        access = SnapshotAccess(**fields_of(SNAPSHOT_OPTIONS, values))
        named = {"uid", "uid_hash", *(o.argument for o in SNAPSHOT_OPTIONS)}
        return cls(path, operator, access=access, **{name: value for name, value in values.items() if name not in named})
