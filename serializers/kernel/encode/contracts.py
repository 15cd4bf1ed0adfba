"""Interfaces that the encoder needs of serializers and of types; the rooms above the kernel implement them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.decode_options import DecodeOptions


class ValueWriter(Protocol):
    """A serializer, as far as its values are written in Python and not by the kernel."""

    @property
    def writes_null(self) -> bool:
        """True if null has bytes."""

    def from_column(self, value: Any) -> Any:
        """Return a column's value as :meth:`serialize` takes it."""

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of one value."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the Arrow type of a column of such values."""


class ColumnLimit(Protocol):
    """A check of the values of a column before the kernel sees them."""

    @property
    def rule(self) -> str:
        """The rule, for messages."""

    def broken(self, array: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the values that break the rule."""
