"""Compilation of kernels.

Numba counts references to every array that goes into a function, with atomic operations that cost more than what most of
these functions do: dropping the counts makes decoding strings four times as fast. A kernel only borrows its arguments, so it
needs no counts; only a function that makes arrays does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from state_processor.serializers.kernel.cache import KernelCache, NoKernelCache, cache_folder, content_stamp

_compile: Any = njit  # whose stubs lack the option that turns reference counts off


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that makes no arrays. It must not return one either: views of its arguments are not kept alive."""
    return _cached(_compile(nogil=True, _nrt=False)(function), function)


def allocating_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that makes arrays."""
    return _cached(_compile(nogil=True, _nrt=True)(function), function)


def _cached(dispatcher: Any, function: Callable[..., Any]) -> Any:
    dispatcher.kernel_stamp = content_stamp(function)
    dispatcher._cache = NoKernelCache() if cache_folder() is None else KernelCache(function)
    return dispatcher
