"""All scalar types, by name. Modules that define their serializers describe them in ``SCALARS``."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core import arrays, basic, temporal
from state_processor.serializers.core.basic import ScalarType
from state_processor.support.mappings import index_by_name

SCALARS: Final[dict[str, ScalarType]] = index_by_name((*basic.SCALARS, *temporal.SCALARS, *arrays.SCALARS))


def scalar_type_of(serializer: TypeSerializer) -> ScalarType | None:
    """Return the scalar type of a serializer; ``None`` for subclasses and for types with parameters."""
    scalar = SCALARS.get(str(serializer))
    return scalar if scalar is not None and type(scalar.serializer) is type(serializer) else None
