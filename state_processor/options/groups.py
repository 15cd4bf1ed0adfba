"""Groups of options: the keyword arguments of methods and functions, by the kinds of reads that they make.

``./dev generate`` writes this module from the declarations of options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from os import PathLike
    from typing import TypeAlias

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from state_processor.backends.read.read_options import Expired
    from state_processor.backends.state.column_types import Undescribed
    from state_processor.serializers.base import TypeSerializer
    from state_processor.serializers.decode_options import Nanos
    from state_processor.types.declared_types import DeclaredTypes, PythonTypeArgument

    Keys: TypeAlias = Sequence[Any] | pa.Table | DataFrame


class CountOptions(TypedDict, total=False):
    """Options of counting differences."""

    nanos: Nanos
    undescribed: Undescribed
    batch_memory: int | str


class DiffOptions(CountOptions, total=False):
    """Options of comparing states."""

    row_kind: bool
    python_types: Mapping[str, PythonTypeArgument] | None


class LookupOptions(DiffOptions, total=False):
    """Options of looking up a key."""

    metadata: bool
    ttl: str | timedelta | None
    as_of: str | int | datetime | None
    expired: Expired
    python_type: PythonTypeArgument | None
    unpickle: bool | TypeSerializer
    fields: Mapping[str, Sequence[str]] | None


class TimerOptions(TypedDict, total=False):
    """Options of reading timers."""

    metadata: bool
    columns: Sequence[str] | None
    keys: Keys | None
    nanos: Nanos
    row_kind: bool
    fields: Mapping[str, Sequence[str]] | None
    batch_memory: int | str


class OperatorStateOptions(DiffOptions, total=False):
    """Options of reading list, union and broadcast state."""

    metadata: bool
    columns: Sequence[str] | None
    types: DeclaredTypes | None
    python_type: PythonTypeArgument | None
    unpickle: bool | TypeSerializer
    fields: Mapping[str, Sequence[str]] | None


class KeyedStateOptions(LookupOptions, total=False):
    """Options of reading keyed and window state."""

    flatten: bool
    columns: Sequence[str] | None
    keys: Keys | None
    types: DeclaredTypes | None
    infer_kryo: bool


class DirectoryOptions(TypedDict, total=False):
    """Options of looking for snapshots and their files."""

    path_mapping: Mapping[str, str] | None
    allow_paths: Iterable[str | PathLike[str]] | None
    storage_options: Mapping[str, Any] | None


class OpeningOptions(DirectoryOptions, total=False):
    """Options of opening a snapshot without reading values: metadata, bytes, state of connectors."""

    serializers: Sequence[str] | None
    plan: str | PathLike[str] | Mapping[str, Any] | None
    uids: str | PathLike[str] | Sequence[str] | None


class EntryOptions(OpeningOptions, total=False):
    """Options of opening a snapshot and reading bytes of entries, or counting entries."""

    threads: int | None


class SnapshotOptions(EntryOptions, total=False):
    """Options of opening a snapshot."""

    time_zone: str | None


class AccessOptions(TypedDict, total=False):
    """Options of opening a snapshot whose files are where they were."""

    allow_paths: Iterable[str | PathLike[str]] | None
    serializers: Sequence[str] | None
    plan: str | PathLike[str] | Mapping[str, Any] | None
    uids: str | PathLike[str] | Sequence[str] | None
    storage_options: Mapping[str, Any] | None
    time_zone: str | None
    threads: int | None


class WriteOptions(TypedDict, total=False):
    """Options of writing a savepoint."""

    scratch: str | PathLike[str] | None


class NewSavepointOptions(WriteOptions, total=False):
    """Options of writing a savepoint without a source savepoint."""

    serializers: Sequence[str] | None
    storage_options: Mapping[str, Any] | None
    time_zone: str | None
    threads: int | None


class ChangedSavepointOptions(SnapshotOptions, WriteOptions, total=False):
    """Options of opening a source savepoint and writing a savepoint."""


class CountSnapshotOptions(CountOptions, EntryOptions, total=False):
    """Options of opening two snapshots and counting their differences."""


class TimerSnapshotOptions(TimerOptions, SnapshotOptions, total=False):
    """Options of opening a snapshot and reading its timers."""


class LookupSnapshotOptions(LookupOptions, SnapshotOptions, total=False):
    """Options of opening a snapshot and looking up a key."""


class DiffSnapshotOptions(DiffOptions, SnapshotOptions, total=False):
    """Options of opening two snapshots and comparing them."""


class StateSnapshotOptions(KeyedStateOptions, SnapshotOptions, total=False):
    """Options of opening a snapshot and reading any state in it."""
