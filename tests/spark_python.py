"""The Python of Spark's workers in tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_SCRIPT: Final = """#!/bin/sh
export PYTHONPATH="{1}${{PYTHONPATH:+:$PYTHONPATH}}"
if [ "$2" = pyspark.daemon ]; then shift 2; exec "{0}" -m tests.worker_daemon "$@"; fi
exec "{0}" "$@"
"""
"""Only a part of Spark's Python workers come from what ``spark.python.daemon.module`` names."""


def make_interpreter(folder: Path) -> Path:
    """Make a program that Spark takes for Python, with :mod:`tests.worker_daemon` in place of ``pyspark.daemon``."""
    path = folder / "python"
    path.write_text(_SCRIPT.format(sys.executable, _ROOT))
    path.chmod(0o755)
    return path
