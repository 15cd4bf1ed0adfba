"""Makes Numba's tables of types and functions, which takes longer than to compile a small function."""

from numba.core.registry import cpu_target

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
