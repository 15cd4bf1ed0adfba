"""The Python of Spark's workers in tests.

Spark starts a process for each kind of worker of a session, which forks the workers. Here such a process is itself forked, from
one that has imported what all of them need: that is most of what short tasks take.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.waiting import end_of

_ROOT: Final = Path(__file__).resolve().parents[1]
_SCRIPT: Final = """#!/bin/sh
case "$2" in pyspark.daemon|pyspark.sql.streaming.python_streaming_source_runner)
shift; exec "{python}" -IS "{root}/tests/daemon_client.py" "{address}" "$@";; esac
exec "{python}" "$@"
"""
"""Only a part of Spark's Python workers come from what ``spark.python.daemon.module`` names."""
_AS_SPARK_SETS: Final = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
"""Variables that Python and NumPy read only when they start."""
_SILENT: Final = ("-W", "ignore::DeprecationWarning:__main__")
"""Newer Pythons warn of a fork where there are other threads, here one of pyarrow's, which waits."""


@contextmanager
def interpreter() -> Iterator[str]:
    """Give a program that Spark takes for Python: its daemons and streaming sources are forks of :mod:`tests.worker_daemon`."""
    with TemporaryDirectory() as folder:
        address = f"{folder}/socket"
        program = Path(folder, "python")
        program.write_text(_SCRIPT.format(python=sys.executable, root=_ROOT, address=address))
        program.chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen()
            forking = subprocess.Popen(
                [sys.executable, *_SILENT, "-m", "tests.worker_daemon", str(listener.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                cwd=_ROOT,
                env=os.environ | _AS_SPARK_SETS,
            )
        try:
            yield str(program)
        finally:
            assert forking.stdin is not None
            forking.stdin.close()  # this ends it
            end_of(forking)
