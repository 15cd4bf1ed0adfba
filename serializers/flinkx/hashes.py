"""``hashCode`` of products as Scala 2.13 and Scala 3 compute it: over the name of the class, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.java import hashing
from state_processor.serializers.runtime.scala import product_hash, scala_hash


def prefixed_hash(name: str, fields: Sequence[TypeSerializer], value: Sequence[Any]) -> int:
    """Return the hash of a product.

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
