"""What processes for queries import: it is imported once, in the process that they are forked from, and nowhere else."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Final

# Arrow's own allocator reserves a gigabyte ahead, which a limit of memory can't tell from memory in use
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

_MODULES: Final = (
    "state_processor.applications.serving.queries",
    "state_processor.serializers.kernel.decode.loop",
    "state_processor.serializers.kernel.interpreter",
)

if find_spec("duckdb") is not None:
    import_module("duckdb")
for _module in _MODULES:
    import_module(_module)
