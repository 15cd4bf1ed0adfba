"""Serializers around others that add no bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.templates import DelegatingSerializer
from state_processor.serializers.registry import provide_snapshots


class WrappingSerializer(DelegatingSerializer):
    """A serializer around another one that adds no bytes; its snapshot identifies the wrapper.

    Parameters
    ----------
    inner
        The serializer that does the work.
    wrap
        Makes the snapshot from the snapshot of ``inner``.
    """

    child_names = ("",)
    content: TypeSerializer
    is_declared: ClassVar[bool] = False
    """Whether the wrapper is a part of the type that the job declares."""

    def __init__(self, inner: TypeSerializer, wrap: Callable[[TypeSerializerSnapshot], TypeSerializerSnapshot]) -> None:
        super().__init__(inner)
        self._wrap = wrap

    def __str__(self) -> str:
        return str(self.content)

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.content,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        (content,) = children
        return type(self)(content, self._wrap)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._wrap(self.content.snapshot())

    def hash_code(self, value: Any) -> int:
        return self.content.hash_code(value)


class SingleThreadAccessCheckingSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of a wrapper of Flink's tests. The wrapper detects a serializer that threads share."""

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return WrappingSerializer(nested[0], lambda inner: SingleThreadAccessCheckingSnapshot(self.class_name, [inner]))


_CHECKING: Final = "org.apache.flink.api.common.typeutils.SingleThreadAccessCheckingTypeSerializer"


provide_snapshots((f"{_CHECKING}$SingleThreadAccessCheckingTypeSerializerSnapshot",), SingleThreadAccessCheckingSnapshot)
