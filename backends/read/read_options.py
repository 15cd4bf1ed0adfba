"""Options of reading state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from state_processor.backends.state.column_types import ColumnTypes, TypeByPath, Undescribed
from state_processor.backends.state.part_names import DeclaredNames
from state_processor.backends.state.python_states import PythonType, Unpickled
from state_processor.serializers.decode_options import BATCH_MEMORY, DecodeOptions, Nanos
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

Expired = Literal["hide", "only", "include"]
"""The values to read, if a time-to-live is given."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Shape and content of what is read.

    Parameters
    ----------
    flatten
        Lists and maps as one row per element (``list_index``, ``list_value``; ``map_key``, ``map_value``), or as arrays
        and maps in one row per key.
    metadata
        Adds ``_key_group``, ``_subtask`` and ``_last_access``.
    columns
        Only these columns and fields in them, as ``value.id``; all by default.
    keys
        Only these keys, as Python values or as a table; only their key groups are read.
    nanos, row_kind
        See :class:`~state_processor.serializers.decode_options.DecodeOptions`.
    ttl_ms, as_of_ms
        Leave out values whose last access is ``ttl_ms`` milliseconds or more before ``as_of_ms`` (epoch milliseconds), as
        Flink's ``NeverReturnExpired`` does.
    expired
        ``hide`` leaves out what is expired, ``only`` what is not, ``include`` nothing.
    types
        Types that columns are read in by Flink's rules for state that evolves, and Java types of parts that Kryo wrote.
    fields
        Names that the user gives to the fields of rows, by the state.
    names
        Names for the fields of rows by state, from a plan or from ``fields``; :func:`open_state` finds them.
    undescribed
        ``error``, or ``bytes`` for values of a POJO's subclasses that the snapshot does not describe.
    python_type, python_types
        Types that a PyFlink job declares for the state that is read, and for states by name.
    unpickle
        Whether pickles in states of PyFlink are loaded: as JSON text, or as values of a type.
    tell_nanos
        See :class:`~state_processor.serializers.decode_options.DecodeOptions`; only for a schema, not for reading.
    batch_memory
        Bytes that one batch may take while it is decoded.
    time_zone
        The zone of the job's JVM, for values of ``java.sql``; :func:`open_state` takes it from the snapshot.
    """

    flatten: bool = True
    metadata: bool = False
    columns: tuple[str, ...] | None = None
    keys: tuple[Any, ...] | pa.Table | None = None
    nanos: Nanos = "error"
    row_kind: bool = False
    ttl_ms: int | None = None
    as_of_ms: int | None = None
    expired: Expired = "hide"
    types: tuple[TypeByPath, ...] = ()
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()
    names: tuple[tuple[str, DeclaredNames], ...] = ()
    undescribed: Undescribed = "error"
    python_type: PythonType | None = None
    python_types: tuple[tuple[str, PythonType], ...] = ()
    unpickle: Unpickled = False
    batch_memory: int = BATCH_MEMORY
    time_zone: str = "UTC"
    tell_nanos: bool = False

    def __post_init__(self) -> None:
        if self.ttl_ms is not None and self.ttl_ms <= 0:
            raise OptionError(f"{spelled('ttl')} of {self.ttl_ms} ms: expected a positive duration")
        if self.ttl_ms is not None and self.as_of_ms is None:
            raise OptionError(f"{spelled('ttl')} needs {spelled('as_of', 'now')}, or another time at which values expire")
        if self.expired == "only" and self.ttl_ms is None:
            raise OptionError(f"{spelled('expired', 'only')} needs {spelled('ttl')} and {spelled('as_of')}")
        if self.unpickle is not False and self.python_type is None and not self.python_types:
            raise OptionError(
                f"unpickle: name the states with pickles by {spelled('python_type', 'PICKLED_BYTE_ARRAY')}, or by "
                f"{spelled('python_types')}"
            )

    def without_python_types(self) -> ReadOptions:
        """Return the options for states that Java declares, such as timers."""
        return replace(self, python_type=None, python_types=(), unpickle=False)

    @property
    def column_types(self) -> ColumnTypes:
        """Types that columns are read in."""
        python = self.python_types if self.python_type is None else (("", self.python_type), *self.python_types)
        return ColumnTypes(self.types, self.undescribed, python, self.unpickle, self.names, self.time_zone)

    @property
    def decode(self) -> DecodeOptions:
        """Representation of values; times of last access are decoded only if something needs them."""
        ttl = self.metadata or self.ttl_ms is not None
        return DecodeOptions(self.nanos, self.row_kind, ttl, tell_nanos=self.tell_nanos, batch_memory=self.batch_memory)

    @property
    def oldest_micros(self) -> int | None:
        """Last access up to which (inclusive) a value is expired, in epoch microseconds."""
        if self.ttl_ms is None or self.as_of_ms is None or self.expired == "include":
            return None
        return (self.as_of_ms - self.ttl_ms) * 1000
