"""Kernels of a new installation: the cost of reading or writing the first row of a state, including compilation.

Each figure is the CPU time of a whole process without compiled code, including imports. It is compared with a process that loads
the compiled code.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable

import pyarrow as pa
from decode_bench import decode_seconds
from effort import is_quick
from figures import Figure
from specimens import SPECIMENS

import state_processor as sp
from state_processor.cli import main as command_line
from state_processor.serializers import DecodeOptions
from state_processor.serializers.kernel.encode.encoder import encode_column
from tests.interop.bench_savepoints import bench_savepoint

STATES = ("long_long", "string_pojo")
TARGET = 8
VALUES = 100


def _read(kind: str) -> None:
    next(sp.arrow.read_state(str(bench_savepoint(kind, "canonical")), "bench", "value"))


def _decode(name: str) -> None:
    serializer, value = SPECIMENS[name]()
    decode_seconds(serializer, [value(i) for i in range(VALUES)], rows=VALUES)


def _encode(name: str) -> None:
    serializer, value = SPECIMENS[name]()
    encode_column(serializer, pa.array([value(i) for i in range(VALUES)], serializer.arrow_type(DecodeOptions())))


_RUNS: dict[str, tuple[Callable[[str], object], str, float | None]] = {
    **{f"first row of {kind}": (_read, kind, TARGET) for kind in STATES},
    **{f"decode {name}": (_decode, name, TARGET) for name in SPECIMENS},
    **{f"encode {name}": (_encode, name, None) for name in SPECIMENS},
    "state-processor warm-up": (lambda command: command_line([command]), "warm-up", None),
}


def main() -> list[Figure]:
    """Print a row for each first value."""
    for kind in STATES:
        bench_savepoint(kind, "canonical")
    figures = []
    print(f"{'first of a new installation':34}{'CPU s':>8}{'compiled':>10}")
    for name, (_, _, target) in _RUNS.items():
        if target is None and is_quick():
            continue
        with tempfile.TemporaryDirectory() as folder:
            new, compiled = _cpu_seconds(name, folder), _cpu_seconds(name, folder)
        print(f"{name:34}{new:8.2f}{compiled:10.2f}", flush=True)
        figures.append(Figure(name, new, "CPU s", None if target else (compiled, "compiled before"), target))
    return figures


def _cpu_seconds(name: str, folder: str) -> float:
    environment = os.environ | {"STATE_PROCESSOR_CACHE": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
    before = _of_ended_processes()
    subprocess.run([sys.executable, __file__, name], check=True, env=environment, capture_output=True)
    return _of_ended_processes() - before


def _of_ended_processes() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    run, argument, _ = _RUNS[sys.argv[1]]
    run(argument)
