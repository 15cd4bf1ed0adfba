"""Numba's private parts, and the cache of what Numba compiles. Other modules use ``kernel.compiler`` alone."""
