"""The process that forks each ``pyspark.daemon`` of sessions of the tests, and each process of a streaming source.

It has imported what their workers would import.

It ends when its input does. Workers of sessions of other programs (the demo, installed packages) import everything themselves.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys

import pandas  # noqa: F401  pyarrow imports it when it makes arrays
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker  # noqa: F401

import state_processor.arrow
import state_processor.reader
import state_processor.spark.sink
import state_processor.writer  # noqa: F401
from state_processor.backends.formats.framing import index_canonical


def become_daemon(client: socket.socket) -> None:
    """Run a module of pyspark with the files, environment, directory and arguments of a client, which waits for the end of it."""
    _, files, _, _ = socket.recv_fds(client, 1, 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    with client.makefile("rb") as stream:
        request = json.load(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    paths = [request["directory"], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:] = list(dict.fromkeys([*filter(None, paths), *sys.path]))
    module, *sys.argv[1:] = request["arguments"]
    client.sendall(str(os.getpid()).encode())
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Fork a daemon for each client."""
    index_canonical.compile()  # Numba makes its tables when it loads the first kernel
    gc.collect()
    gc.freeze()  # pages of these objects stay shared with the workers
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                become_daemon(client)
            client.close()


if __name__ == "__main__":
    main()
