"""Names of classes of flink-scala-api, and hash codes over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.java import hashing
from state_processor.serializers.runtime.scala import product_hash, scala_hash
from state_processor.serializers.snapshot_versions import FLINKX

SERIALIZERS: Final = FLINKX
MAPPERS: Final = "org.apache.flinkx.api.mapper."


def simple_name(class_name: str) -> str:
    """Return the name of a class without packages, outer classes, and the ``$`` behind the name of an object."""
    return class_name.rstrip("$").replace("$", ".").rpartition(".")[2]


def prefixed_hash(name: str, fields: Sequence[TypeSerializer], value: Sequence[Any]) -> int:
    """Return ``hashCode`` of a product as Scala 2.13 and Scala 3 compute it: over the name of the class, too.

    Parameters
    ----------
    name
        The simple name of its class (``productPrefix``).
    fields
        The serializers of its fields.
    value
        The fields.
    """
    prefix = hashing.of_string(name)
    if not fields:
        return prefix
    return product_hash([prefix, *(scala_hash(f, v) for f, v in zip(fields, value, strict=True))], len(fields))
