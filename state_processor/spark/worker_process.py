"""Python workers of Spark, which collect garbage after every task.

A collection visits the objects of all imported modules, more than a hundred thousand: that takes longer than a small task.
"""

from __future__ import annotations

import gc
import sys

_known_modules = 0


def freeze_imported_objects() -> None:
    """Leave out of later garbage collections the objects that modules have made, if more were imported since the last call.

    Call it where a task begins: Spark has just collected the garbage of the task before, so that none is kept.
    """
    global _known_modules
    if len(sys.modules) > _known_modules:
        _known_modules = len(sys.modules)
        gc.freeze()
