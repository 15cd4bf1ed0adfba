"""Benchmarks in separate processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def result_of(file: str, *arguments: object) -> Any:
    """Run a benchmark's file in a new process, and return the JSON of its last output line.

    Raises
    ------
    RuntimeError
        If it fails. The message ends with its output.
    """
    command = [sys.executable, file, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])
