"""How kernels are compiled.

Numba counts references to every array that goes into a function, with atomic operations that cost more than what most of
these functions do: dropping the counts makes decoding strings four times as fast. A kernel only borrows its arguments, so it
needs no counts; only a function that makes arrays of its own does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

_compile: Any = njit  # whose stubs lack the option that turns reference counts off


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that makes no arrays. It must not return one either: views of its arguments are not kept alive."""
    return _compile(cache=True, nogil=True, _nrt=False)(function)


def allocating_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that makes arrays."""
    return _compile(cache=True, nogil=True, _nrt=True)(function)
