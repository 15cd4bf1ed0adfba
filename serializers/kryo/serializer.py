"""The serializer of last resort: values that Kryo wrote (Flink: ``KryoSerializer``).

The snapshot names the class of the type and the registered classes, never their fields and never the version of Kryo, so that
much of what a reader needs comes from elsewhere: :func:`~state_processor.serializers.kryo.written_by_flink` says which Kryo it
was, :func:`~state_processor.serializers.kryo.register_kryo_class` what a class holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.opaque import OpaqueSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import InvalidRowError, OptionError, StateProcessorError, UnsupportedFormatError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kryo.building import FROM_COLUMNS
from state_processor.serializers.kryo.classes import (
    FIRST_USER_ID,
    class_ids,
    set_user_class,
    unknown_class,
    user_class,
    user_classes,
)
from state_processor.serializers.kryo.columns import column_type, column_value, shape
from state_processor.serializers.kryo.jdk import is_known
from state_processor.serializers.kryo.json_form import to_json
from state_processor.serializers.kryo.reader import KryoReader, plain
from state_processor.serializers.kryo.snapshot import KryoSerializerSnapshot, flink_major
from state_processor.serializers.kryo.types import JavaType
from state_processor.serializers.kryo.values import Node
from state_processor.serializers.kryo.wire import KRYO_2, KRYO_5
from state_processor.serializers.kryo.writer import KryoWriter

if TYPE_CHECKING:
    pass

_NULL: Final = b"\0"
_FIRST_FLINK_WITH_KRYO_5: Final = 2


class Encoding(NamedTuple):
    """What bytes of Kryo depend on beside the value: the version, and the registered classes with their first number."""

    version: int
    registered: tuple[str, ...]
    first_id: int


@dataclass(frozen=True, slots=True)
class KryoValue:
    """A value and its bytes.

    Parameters
    ----------
    raw
        The bytes.
    node
        The value as a tree of Java objects; ``None`` is null.
    encoding
        How the bytes are encoded. A serializer with another encoding writes the tree anew; where it isn't known, the bytes.
    """

    raw: bytes
    node: Node | None = field(compare=False, default=None)
    encoding: Encoding | None = field(compare=False, default=None)

    @property
    def value(self) -> Any:
        """The value in Python's terms: numbers, text, dates, lists, ``KryoMap``, ``KryoObject``."""
        return plain(self.node)


class KryoSerializer(TypeSerializer):
    """Values of one class or its subclasses, as Kryo writes them.

    A column's type follows from the class where that is known, see
    :func:`~state_processor.serializers.kryo.columns.column_type`; values of a class that isn't are raw bytes where something
    else gives their length (:attr:`can_find_end`, :meth:`raw`). What a column shows can be written again, as bytes of the Kryo
    of ``flink``.

    Parameters
    ----------
    type_class
        The Java class, ``java.lang.Object`` for any. Type arguments, as in ``java.util.List<java.lang.Long>``, give values a
        column of that type; to Flink it is the class alone.
    registered
        The names of the registered classes in their order, the type's own among them.
    flink
        The major version of the Flink that wrote the values, or that is to read new ones; ``None`` to find out value by value,
        and to write for the Flink of :func:`~state_processor.serializers.kryo.written_by_flink`.
    first_id
        The number of the first registration.
    """

    def __init__(
        self,
        type_class: str,
        registered: Iterable[str] = (),
        *,
        flink: int | None = None,
        first_id: int = FIRST_USER_ID,
        snapshot: KryoSerializerSnapshot | None = None,
    ) -> None:
        self.declared = JavaType.parse(type_class)
        self.type_class = self.declared.name
        self.registered = tuple(registered) or (self.type_class,)
        self.flink = flink
        self.first_id = first_id
        self._snapshot = snapshot
        self._custom = snapshot.custom_serializers() if snapshot is not None else {}
        self._ids = class_ids(self.registered, first_id)
        self._numbers = {name: number for number, name in self._ids.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Descriptions of classes travel along: another process, such as a Spark task, has not registered them."""
        return vars(self) | {"_described": user_classes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for described in state.pop("_described"):
            if user_class(described.name) is None:
                set_user_class(described)
        vars(self).update(state)

    def __str__(self) -> str:
        return f"KRYO<{self.declared}>"

    @property
    def can_find_end(self) -> bool:
        """Whether the class is one whose values can be read, so that what follows them can be found.

        A value may still hold an object of an unknown class; reading it raises ``UnsupportedFormatError``.
        """
        return is_known(self.type_class)

    @property
    def reason(self) -> str:
        """Why values can't be decoded; empty if they can."""
        return "" if self.can_find_end else str(unknown_class(self.type_class, str(self)))

    def raw(self) -> OpaqueSerializer:
        """A stand-in that gives the bytes of a value that fills its part of an entry."""
        return OpaqueSerializer(str(self), self.snapshot(), self.reason or "read as raw bytes")

    def for_flink(self, major: int) -> KryoSerializer:
        """The same serializer of another major version of Flink: it writes the values that this one has read in its own way."""
        return self._with(flink=major)

    def _with(self, *, flink: int | None = None, first_id: int | None = None) -> KryoSerializer:
        return KryoSerializer(
            str(self.declared),
            self.registered,
            flink=self.flink if flink is None else flink,
            first_id=self.first_id if first_id is None else first_id,
            snapshot=self._snapshot,
        )

    # Reading

    def read(self, source: DataInput) -> KryoValue | None:
        start = source.position
        version, node = self._decode(source)
        raw = bytes(source.data[start : source.position])
        return None if raw == _NULL else KryoValue(raw, node, self._encoding(version))

    def _decode(self, source: DataInput) -> tuple[int, Node | None]:
        if self.flink is not None:
            version = _version_of(self.flink)
            return version, self._decode_as(version, source)
        start = source.position
        found: list[tuple[bool, int, int, Node | None]] = []
        problems: list[StateProcessorError] = []
        for version in (KRYO_5, KRYO_2):
            source.position = start
            try:
                node = self._decode_as(version, source)
            except StateProcessorError as problem:
                problems.append(problem)
            else:
                found.append((source.at_end(), source.position, version, node))
        if not found:
            raise problems[0]
        if any(whole for whole, *_ in found):
            found = [f for f in found if f[0]]
        _, end, version, node = found[0]
        if len(found) == 2 and (end != found[1][1] or to_json(plain(node)) != to_json(plain(found[1][3]))):
            raise UnsupportedFormatError(
                f"{source.source}, offset {start}: a value of {self} can be read as Flink 1.x writes it and as Flink 2.x does, "
                "with different results; say which wrote it with written_by_flink()"
            )
        source.position = end
        return version, node

    def _decode_as(self, version: int, source: DataInput) -> Node | None:
        return KryoReader(source, version, self._ids, self._custom).node()

    # Writing

    def write(self, value: Any, target: DataOutput) -> None:
        """Write a value that was read, what :meth:`accept` made of one, a value as a column shows it, or the bytes of one.

        Raises
        ------
        ValueError, TypeError, ArithmeticError
            If the value is none of the class.
        UnsupportedFormatError
            If nothing is known of the class of an object, or of how its job writes it.
        OptionError
            If it isn't known which Flink the value is written for.
        """
        accepted = self.accept(value)
        if accepted is None:
            target.write_bytes(_NULL)
        elif isinstance(accepted, bytes):
            target.write_bytes(accepted)
        else:
            target.write_bytes(self._bytes_of(accepted))

    def accept(self, value: Any) -> KryoValue | bytes | None:
        """A column's value, encoded; see :meth:`write`, which takes the same values and raises the same errors.

        Bytes are taken for a value's own encoding, save where the class is ``byte[]``. A null in a column of ``Optional``
        stands for an empty one.
        """
        if isinstance(value, KryoValue) or (isinstance(value, bytes) and shape(self.declared)[0] != "bytes"):
            return value
        if value is None and not self.type_class.startswith("java.util.Optional"):
            return None
        if not self.can_find_end:
            raise self._not_writable()
        try:
            return self._encode(FROM_COLUMNS.declared(self.declared, value))
        except RecursionError:
            raise InvalidRowError(f"a value of {self} nests too deeply") from None

    def _bytes_of(self, value: KryoValue) -> bytes:
        wanted = value.encoding and self._encoding(self._writes or value.encoding.version)
        return value.raw if value.encoding == wanted else self._encode(value.node).raw

    def _encode(self, node: Node | None) -> KryoValue:
        version = self._writes
        if version is None:
            raise OptionError(
                f"{self}: Flink 1.x and 2.x write such values differently; say which is to read them with written_by_flink()"
            )
        target = DataOutput()
        KryoWriter(target, version, self._numbers, self._custom).node(node)
        return KryoValue(target.to_bytes(), node, self._encoding(version))

    @property
    def _writes(self) -> int | None:
        """The version of Kryo to write, where that is known."""
        flink = self.flink if self.flink is not None else flink_major()
        return None if flink is None else _version_of(flink)

    def _encoding(self, version: int) -> Encoding:
        return Encoding(version, self.registered, self.first_id)

    def _not_writable(self) -> UnsupportedFormatError:
        return UnsupportedFormatError(
            f"{self}: new values can't be written in Kryo's encoding as long as the class is not described: "
            f"register_kryo_class({self.type_class!r}, …)"
        )

    # Columns

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return column_type(self.declared, options) if self.can_find_end else pa.binary()

    def present(self, value: KryoValue | None, options: DecodeOptions) -> Any:
        return None if value is None else column_value(self.declared, value.value, options)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot or KryoSerializerSnapshot.of(self.type_class, self.registered)


def _version_of(flink: int) -> int:
    return KRYO_5 if flink >= _FIRST_FLINK_WITH_KRYO_5 else KRYO_2


def with_first_id(serializer: KryoSerializer, first_id: int) -> KryoSerializer:
    """The same serializer where registrations are numbered from elsewhere on."""
    return serializer._with(first_id=first_id)


def convert(data: bytes, serializer: KryoSerializer, to_flink: int) -> bytes:
    """A value's bytes as the Kryo of another major version of Flink writes them.

    Objects that stand in several places of the value stay one object. What one version does not write (the flags of a
    ``Pattern``, script and extensions of a ``Locale``, the offset of a ``ZonedDateTime``) is what Java makes of its absence.

    Parameters
    ----------
    data
        One value, in the encoding of ``serializer``; where that knows no major version, it is found out.
    serializer
        What reads it; it has the registered classes.
    to_flink
        The major version of the Flink that is to read the result.

    Raises
    ------
    UnsupportedFormatError
        If the value holds an object of a class that is not known.
    CorruptSnapshotError
        If the bytes are none of a value.
    """
    return serializer.for_flink(to_flink).serialize(serializer.deserialize(data))
