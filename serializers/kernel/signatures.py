"""Types of the arguments of kernels: names of Numba's types, which itself is imported when a kernel is compiled.

Numba takes half a second to import. Processes that only plan a read import the modules of kernels and call none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Number:
    """A type of numbers, by the name that Numba and numpy have for it."""

    name: str

    def numba_type(self) -> Any:
        """Return Numba's type."""
        from numba.core import types

        return getattr(types, self.name)


@dataclass(frozen=True, slots=True)
class Array:
    """A type of contiguous arrays; arrays that are only read may be writable."""

    number: Number
    dimensions: int
    only_read: bool
    in_part: bool = False
    """True if a kernel reads few of the numbers, such as the lengths of entries."""

    def numba_type(self) -> Any:
        """Return Numba's type."""
        from numba.core import types

        return types.Array(self.number.numba_type(), self.dimensions, "C", readonly=self.only_read)


ArgumentType = Number | Array

boolean: Final = Number("boolean")
int32: Final = Number("int32")
int64: Final = Number("int64")
uint8: Final = Number("uint8")
uint32: Final = Number("uint32")
uint64: Final = Number("uint64")


def read(number: Number, dimensions: int = 1) -> Array:
    """Return the type of an array that a kernel only reads."""
    return Array(number, dimensions, only_read=True)


def partly_read(number: Number) -> Array:
    """Return the type of an array of which a kernel reads few numbers."""
    return Array(number, 1, only_read=True, in_part=True)


def written(number: Number, dimensions: int = 1) -> Array:
    """Return the type of an array that a kernel writes."""
    return Array(number, dimensions, only_read=False)


def updated(number: Number) -> Array:
    """Return the type of an array of which a kernel reads some numbers, and writes others."""
    return Array(number, 1, only_read=False, in_part=True)
