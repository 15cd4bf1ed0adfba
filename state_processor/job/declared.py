"""Serializer snapshots from the text of types."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from state_processor.serializers.base import TypeSerializerSnapshot, write_versioned_snapshot
from state_processor.serializers.errors import OptionError
from state_processor.serializers.io import DataOutput
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.types.type_parser import parse_type

VOID_NAMESPACE: Final = str(VoidNamespaceSerializer())
"""The text of the namespace of states without windows."""


def declared_snapshot(text: str, *, ttl: bool = False) -> TypeSerializerSnapshot:
    """Return the serializer snapshot of a type that a text declares.

    Raises
    ------
    OptionError
        If the text does not describe a type completely.
    """
    serializer = VoidNamespaceSerializer() if text == VOID_NAMESPACE else parse_type(text)
    return (TtlSerializer.of(serializer) if ttl else serializer).snapshot()


def follows_from_text(encoded: str, text: str | None, *, ttl: bool) -> bool:
    """Return whether the text of a type is enough to make an encoded serializer snapshot."""
    try:
        return text is not None and encoded_snapshot(declared_snapshot(text, ttl=ttl)) == encoded
    except OptionError:
        return False


def encoded_snapshot(snapshot: TypeSerializerSnapshot) -> str:
    """Return a serializer snapshot with class name and version, in Base64."""
    target = DataOutput()
    write_versioned_snapshot(snapshot, target)
    return b64encode(target.to_bytes()).decode()
