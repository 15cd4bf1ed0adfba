"""Descriptions of connectors: the formats of their state in a snapshot, and its columns.

A source (FLIP-27) is split in two. Its readers keep the splits they work on in a list state, each written by the connector's
split serializer. Its enumerator keeps waiting or assigned splits in the coordinator's state.

A sink (Sink V2, FLIP-191) is split in two as well. Its writers keep their state in a list, each element written by the serializer
of the writer's state. Its committers keep committables: results of a checkpoint that become visible when it is complete.

All of these are bytes with a version (Flink: ``SimpleVersionedSerializer``) and without the name of what wrote them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from logging import getLogger
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.encode.conversion_table import spark_name
from state_processor.support.errors import (
    ForeignCodeError,
    InvalidRowError,
    StateProcessorError,
    UnsupportedFormatError,
    is_foreign,
    message_of,
    qualified_name,
)

_LOG: Final = getLogger("state_processor")

NO_VALUE: Final = (TypeError, ValueError, AttributeError, OverflowError, struct.error)
"""Errors of writing a value that does not fit its column."""

ASSIGNED: Final = "ASSIGNED"
UNASSIGNED: Final = "UNASSIGNED"
PROCESSED: Final = "PROCESSED"
RAW: Final = "raw"
"""The name of the connector that leaves bytes undecoded."""

SPLIT_ID: Final = "split_id"
SUBTASK: Final = "subtask"
ASSIGNMENT: Final = "assignment"
VERSION: Final = "version"
RAW_BYTES: Final = "raw"
"""Columns of all tables of splits; tables of sinks have those without ``split_id`` and ``assignment``."""

WRITER: Final = "WRITER"
COMMITTABLE: Final = "COMMITTABLE"

ROLE: Final = "role"
CHECKPOINT: Final = "checkpoint_id"
STATUS: Final = "commit_status"
RETRIES: Final = "retries"

Values = dict[str, Any]
"""A row: the columns of a connector, and for a split its id under :data:`SPLIT_ID`."""

T = TypeVar("T")
C = TypeVar("C")


def cells(row: Values, names: Iterable[str]) -> Values:
    """Return some columns of a row; null for a column that the row lacks."""
    return {name: row.get(name) for name in names}


def refuse_others(row: Values, columns: Collection[str], number: int) -> None:
    """Refuse a row with columns that would be ignored."""
    if ignored := [name for name in row if name not in columns]:
        listed = " and ".join(map(repr, ignored))
        raise InvalidRowError(
            f"row {number}: column {listed} would be ignored; expected are {', '.join(columns)}: drop or rename it"
        )


def check_types(row: Values, fields: Iterable[pa.Field], number: int) -> None:
    """Refuse a row with a value of another type than its column has."""
    for field_ in fields:
        value = row.get(field_.name)
        try:
            pa.array([value], field_.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            text = repr(value)
            got = f"{text if len(text) <= 120 else text[:117] + '...'} of type {type(value).__name__}"
            expected = f"{spark_name(field_.type)}{_limits(field_.type) if isinstance(value, int) else ''}"
            raise InvalidRowError(f"row {number}: {field_.name!r} is {got}; expected {expected}") from None


def _limits(type_: pa.DataType) -> str:
    if not pa.types.is_signed_integer(type_):
        return ""
    limit = 1 << (type_.bit_width - 1)
    return f" from {-limit} to {limit - 1}"


@dataclass(frozen=True, slots=True)
class Versioned:
    """Bytes with the version of the serializer that wrote them (Flink: ``SimpleVersionedSerialization``)."""

    version: int
    data: bytes = field(repr=False)

    @classmethod
    def read(cls, source: DataInput) -> Versioned:
        """Return version, length, bytes."""
        version = source.read_int()
        return cls(version, source.read_bytes(source.read_count("bytes"), "versioned bytes"))

    def write(self, target: DataOutput) -> None:
        """Write what :meth:`read` reads."""
        target.write_int(self.version)
        target.write_int(len(self.data))
        target.write_bytes(self.data)

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`write` writes."""
        target = DataOutput()
        self.write(target)
        return target.to_bytes()


_FIRST_SERDE: Final = 0
_SERDE: Final = 1
COORDINATOR_STATE: Final = FormatVersions("the state of a source's coordinator", {_FIRST_SERDE: "1.11", _SERDE: "1.12"})


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """State of a source's coordinator: the enumerator's state and its framing.

    ``rest`` are bytes that Flink 1.11 wrote behind it. Later versions of Flink ignore them.
    """

    enumerator: Versioned
    serde: int = _SERDE
    rest: bytes = field(default=b"", repr=False)

    @classmethod
    def read(cls, data: bytes, context: str) -> CoordinatorState:
        """Decode the state of a coordinator.

        Raises
        ------
        UnsupportedFormatError
            Its version is not known. Other coordinators have state, too.
        CorruptSnapshotError
            Another kind of coordinator wrote the state.
        """
        source = DataInput(data, context)
        serde = source.read_int()
        COORDINATOR_STATE.check(serde, context, 0)
        enumerator = Versioned.read(source)
        if serde != _FIRST_SERDE and not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over behind the enumerator's state")
        return cls(enumerator, serde, source.read_bytes(source.remaining))

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`read` reads."""
        target = DataOutput()
        target.write_int(self.serde)
        self.enumerator.write(target)
        target.write_bytes(self.rest)
        return target.to_bytes()


@dataclass(frozen=True, slots=True)
class SourceState:
    """The bytes of a source's state: the splits of the readers, and the state of the coordinator."""

    label: str
    splits: tuple[tuple[int, Versioned], ...]
    coordinator: CoordinatorState | None


@dataclass(frozen=True, slots=True)
class Format(Generic[T]):
    """A format of a value: a function that reads it, and one that writes it."""

    read: Callable[[DataInput], T]
    write: Callable[[T, DataOutput], None]


@dataclass(frozen=True, slots=True)
class EnumeratedSplit:
    """A split as the enumerator remembers it.

    ``subtask`` is the reader it was handed to, where the enumerator keeps that; ``split`` are its bytes, where they are kept.
    """

    values: Values
    assignment: str
    subtask: int | None = None
    split: Versioned | None = None


@dataclass(frozen=True, slots=True)
class EnumeratorState:
    """State of an enumerator: splits, and details that concern all of them."""

    splits: tuple[EnumeratedSplit, ...]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Formats(Generic[T]):
    """The formats of one thing by version; several formats of one version are tried in order.

    ``what`` names the thing and the connector in messages. ``usual`` is the version to write where none is named: the newest
    that all of today's releases read, by default the newest of all.
    """

    what: str
    by_version: Mapping[int, Sequence[Format[T]]]
    usual: int | None = None

    @classmethod
    def of_codecs(
        cls, what: str, codecs: Mapping[int, C], format_of: Callable[[C], Format[T]], usual: int | None = None
    ) -> Formats[T]:
        """Return the formats that are made of a codec for each version."""
        return cls(what, {version: (format_of(codec),) for version, codec in codecs.items()}, usual)

    def read(self, written: Versioned, where: str) -> T:
        """Read the value. It has to fill the bytes.

        Raises
        ------
        UnsupportedFormatError
            The version is unknown.
        CorruptSnapshotError
            The bytes violate the format of the version.
        """
        *earlier, last = self._of(written.version, where)
        for format_ in earlier:
            try:
                return self._read_whole(format_, written, where)
            except StateProcessorError:  # an older format of the same version
                continue
        return self._read_whole(last, written, where)

    def write(self, value: T, version: int | None = None) -> Versioned:
        """Write the bytes, in the usual version unless one is named."""
        usual = max(self.by_version) if self.usual is None else self.usual
        chosen = usual if version is None else version
        target = DataOutput()
        write = self._of(chosen, "writing")[0].write
        with naming_foreign_code("writing", self, first=write):
            write(value, target)
        return Versioned(chosen, target.to_bytes())

    def _read_whole(self, format_: Format[T], written: Versioned, context: str) -> T:
        source = DataInput(written.data, f"{context}, version {written.version} of the {self.what}")
        with naming_foreign_code(context, self, first=format_.read):
            value = format_.read(source)
        if not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over")
        return value

    @property
    def foreign(self) -> Iterator[str]:
        """The functions that are not part of this package."""
        for format_ in chain.from_iterable(self.by_version.values()):
            yield from map(qualified_name, filter(is_foreign, (format_.read, format_.write)))

    def _of(self, version: int, context: str) -> Sequence[Format[T]]:
        if version not in self.by_version:
            versions = ", ".join(map(str, sorted(self.by_version)))
            raise UnsupportedFormatError(f"{context}: version {version} of the {self.what} is not known, only {versions}")
        return self.by_version[version]


@contextmanager
def naming_foreign_code(context: str, *formats: Formats[Any], first: Callable[..., Any] | None = None) -> Iterator[None]:
    """Name the function of a connector that is not part of this package for errors in the block; others pass.

    ``first`` is the function that the block calls, or ``None``.
    """
    try:
        yield
    except StateProcessorError:
        raise
    except Exception as error:
        for formats_of_state in formats:
            called_functions = [qualified_name(first)] if first is not None and is_foreign(first) else []
            for culprit in (*called_functions, *formats_of_state.foreign):
                raise ForeignCodeError(message_of(f"{context}, {formats_of_state.what}", culprit, error)) from error
        raise


def fits(connector: str, decode: Callable[[], object]) -> bool:
    """Return whether a connector, given by its name, can decode bytes; log an error of code that is not part of this package."""
    try:
        decode()
    except ForeignCodeError as error:
        _LOG.warning("connector %r is not tried: %s", connector, error)
        return False
    except StateProcessorError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Consumer:
    """A source from before FLIP-27: its Java class ``what`` and the name ``state`` of its list state.

    ``values`` returns the row of an element of the list, in the columns of the source that replaced it.
    """

    what: str
    state: str
    values: Callable[[Mapping[str, Any]], Values]


@dataclass(frozen=True, slots=True)
class Wrapping:
    """How a source shows the splits of other sources that its own splits wrap.

    ``read`` gets the bytes of the source's state and its rows, and returns rows with more columns, and these columns. ``write``
    gets numbered rows in these columns and the state to replace, if any, and returns numbered rows in the source's own columns.
    """

    read: Callable[[SourceState, Sequence[Values]], tuple[list[Values], Sequence[pa.Field]]]
    write: Callable[[Iterable[tuple[int, Values]], SourceState | None], Iterable[tuple[int, Values]]]


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector: its name for users, the columns of its splits, and how its splits and its enumerator's state are written.

    A split needs the columns ``required``, and a split of a reader also needs ``required_of_readers``. ``keeps_assigned``: the
    enumerator remembers the splits of readers. ``complete`` fills in derived columns. ``layouts`` are the codecs of its
    serializers, by Java class and version. ``about`` is the meaning of the columns, for users. ``consumer`` is the source
    from before FLIP-27 that this one replaced: ``NAME-consumer`` reads its state. ``wrapping`` shows splits of other sources.
    """

    name: str
    fields: tuple[pa.Field, ...]
    splits: Formats[Values]
    enumerator: Formats[EnumeratorState]
    required: tuple[str, ...] = ()
    required_of_readers: tuple[str, ...] = ()
    keeps_assigned: bool = False
    complete: Callable[[Values], Values] = dict
    layouts: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    about: str = ""
    consumer: Consumer | None = None
    wrapping: Wrapping | None = None


def _keep(values: Values, dropped: Collection[Values]) -> Values:
    return values


def _element_per_row(row: Values, number: int) -> Hashable:
    return number


_NO_WRITER_STATE: Final[Formats[list[Values]]] = Formats("writers without state", {})
_NO_COMMITTABLES: Final[Formats[Values]] = Formats("a sink without committables", {})


@dataclass(frozen=True, slots=True)
class SinkConnector:
    """A sink: its name for users, its columns, and the formats of its writers' state and of its committables.

    An element of the writers' list is one or more rows, by default one; ``element_of`` returns the same value for all rows of one
    element, given a row and its number. ``required`` are the columns that rows of writers can't be without.
    ``forget`` returns a row of a writer without its memory of dropped committables. ``layouts`` are the codecs of
    its serializers, by Java class and version. ``about`` is the meaning of the columns, for users.

    Some sinks have committers of their own. ``own_committer`` are the formats of the elements of their list. An element is one or
    more rows. With ``keeps_emptied``, an element is written without rows if all of its rows were left out. By default, it is
    dropped. ``own_states`` maps roles to the names of list states, if they are not Flink's names. Elements of these lists are
    stored without a version; their formats have version 0.
    """

    name: str
    fields: tuple[pa.Field, ...]
    writer: Formats[list[Values]] = _NO_WRITER_STATE
    committables: Formats[Values] = _NO_COMMITTABLES
    element_of: Callable[[Values, int], Hashable] = _element_per_row
    required: tuple[str, ...] = ()
    forget: Callable[[Values, Collection[Values]], Values] = _keep
    layouts: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    own_committer: Formats[list[Values]] | None = None
    keeps_emptied: bool = False
    own_states: Mapping[str, str] = field(default_factory=dict)
    about: str = ""
