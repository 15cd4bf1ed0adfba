"""The Python of Spark's workers in tests.

Spark starts a process for each kind of worker of a session, which forks the workers. Here such a process is itself forked, from
one that has imported what all of them need: that is most of what short tasks take.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.waiting import end_of

_ROOT: Final = Path(__file__).resolve().parents[1]
_SCRIPT: Final = """#!/bin/sh
case "$2" in pyspark.daemon|pyspark.sql.streaming.python_streaming_source_runner|ipykernel_launcher)
shift; exec "{python}" -IS "{root}/tests/daemon_client.py" "{address}" "$@";; esac
exec "{python}" "$@"
"""
"""Only a part of Spark's Python workers come from what ``spark.python.daemon.module`` names."""
_AS_SPARK_SETS: Final = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
"""Variables that Python and NumPy read only when they start."""
LIBRARIES: Final = ("pandas", "numba", "pyspark.sql.worker.plan_data_source_read", "pyspark.worker")
"""What workers import of other packages; pyarrow imports pandas when it makes arrays."""
PACKAGE: Final = (*LIBRARIES, *(f"state_processor.{name}" for name in ("arrow", "reader", "spark.sink", "writer")))
_FIRST_KERNEL: Final = "state_processor.backends.formats.framing:index_canonical.compile"
"""Numba makes its tables when it loads the first kernel."""
_START: Final = """
import os, runpy, sys
sys.path[0] = os.getcwd()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_SILENT: Final = ("-W", "ignore::DeprecationWarning:__main__")
"""Newer Pythons warn of a fork where there are other threads, here one of pyarrow's, which waits."""


@contextmanager
def interpreter(
    python: str | Path = sys.executable, modules: Sequence[str] = (*PACKAGE, _FIRST_KERNEL), folder: Path = _ROOT
) -> Iterator[str]:
    """Give a program that Spark takes for Python: its daemons and streaming sources are forks of :mod:`tests.worker_daemon`.

    Parameters
    ----------
    python
        The interpreter.
    modules
        What workers find imported; functions are called.
    folder
        The directory where the modules are imported; Python finds modules there before installed modules.
    """
    with TemporaryDirectory() as temporary:
        address = f"{temporary}/socket"
        program = Path(temporary, "python")
        program.write_text(_SCRIPT.format(python=python, root=_ROOT, address=address))
        program.chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen()
            daemon = str(_ROOT / "tests" / "worker_daemon.py")
            forking = subprocess.Popen(
                [python, *_SILENT, "-c", _START, daemon, str(listener.fileno()), *modules],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                cwd=folder,
                env={n: v for n, v in os.environ.items() if not n.startswith("PYTHON")} | _AS_SPARK_SETS,
            )
        try:
            yield str(program)
        finally:
            assert forking.stdin is not None
            forking.stdin.close()  # this ends it
            end_of(forking)
