"""Values of classes that write themselves (Flink: ``ValueSerializer``, ``CopyableValueSerializer``, ``WritableSerializer``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.core.self_written import known_class
from state_processor.serializers.core.templates import DelegatingSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.doors import registering
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.flink_packages import RUNTIME
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import provide_snapshots


class _UserCode(NamedTuple):
    """Name of a serializer of values that write themselves, and the method that writes them."""

    name: str
    method: str


_USER_CODE: Final = {
    f"{RUNTIME}ValueSerializer$ValueSerializerSnapshot": _UserCode("VALUE", "Value.write"),
    f"{RUNTIME}CopyableValueSerializer$CopyableValueSerializerSnapshot": _UserCode("COPYABLE_VALUE", "Value.write"),
    f"{RUNTIME}WritableSerializer$WritableSerializerSnapshot": _UserCode("WRITABLE", "Writable.write"),
}


class UserCodeSerializer(TypeSerializer):
    """Serializer of a class that writes itself (Flink: ``ValueSerializer``, ``CopyableValueSerializer``, ``WritableSerializer``).

    Only the class defines the layout of its bytes. The layout is not known, so that a value can be neither decoded nor skipped.

    Parameters
    ----------
    type_class
        The user's Java class.
    snapshot_class
        The snapshot class of one of the three serializers.
    """

    min_size = 0

    def __init__(self, type_class: str, snapshot_class: str) -> None:
        self.type_class = type_class
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"{_USER_CODE[self._snapshot_class].name}<{self.type_class}>"

    @property
    def self_delimiting(self) -> bool:
        return False

    @property
    def reason(self) -> str:
        return (
            f"the layout of {self.type_class} is defined by its method {_USER_CODE[self._snapshot_class].method}; "
            f"call {registering(f'register_value_class({self.type_class!r}, …)')} with what it writes"
        )

    def _refuse(self) -> NoReturn:
        raise UnsupportedFormatError(f"{self}: {self.reason}")

    def read(self, source: DataInput) -> Any:
        self._refuse()

    def write(self, value: Any, target: DataOutput) -> None:
        self._refuse()

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def snapshot(self) -> TypeSerializerSnapshot:
        return GenericTypeSerializerSnapshot(self._snapshot_class, self.type_class)


class SelfWrittenSerializer(DelegatingSerializer):
    """Serializer of a class that writes itself in a known layout (:mod:`~state_processor.serializers.core.self_written`).

    Parameters
    ----------
    type_class, snapshot_class
        As for :class:`UserCodeSerializer`.
    content
        The serializer of the bytes.
    """

    def __init__(self, type_class: str, content: Codec, snapshot_class: str) -> None:
        super().__init__(content)
        self.type_class = type_class
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"{_USER_CODE[self._snapshot_class].name}<{self.type_class}>"

    @property
    def children(self) -> Sequence[Codec]:
        return ()

    def with_children(self, children: Sequence[Codec]) -> TypeSerializer:
        return self

    def snapshot(self) -> TypeSerializerSnapshot:
        return GenericTypeSerializerSnapshot(self._snapshot_class, self.type_class)


class GenericTypeSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of a serializer that is configured with one class (Flink: ``GenericTypeSerializerSnapshot``)."""

    current_version = 2

    def __init__(self, class_name: str, type_class: str, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.type_class = type_class

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> GenericTypeSerializerSnapshot:
        return cls(class_name, source.read_utf(), version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.type_class)

    def restore_serializer(self) -> TypeSerializer:
        content = known_class(self.type_class)
        if content is not None:
            return SelfWrittenSerializer(self.type_class, content, self.class_name)
        return UserCodeSerializer(self.type_class, self.class_name)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, GenericTypeSerializerSnapshot)
        if self.type_class == new.type_class:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(f"values of {self.type_class} were written, {new.type_class} is required")


provide_snapshots(_USER_CODE, GenericTypeSerializerSnapshot)
